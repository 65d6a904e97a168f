#!/usr/bin/env bash
# web.sh [--all]: the tests of the web UI; what its build must keep: its size, and nothing that its content security policy refuses; and its journeys in
# Chromium, with the server that `make test` has built and a real issuer to sign in at. With --all, the long form of those.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

[ "${1-}" != --all ] || export TEST_ALL=1
need_web
need_chromium
need_issuer
build_web
COUNTERSIGN=$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd)/countersign
[ -x "$COUNTERSIGN" ] || fail "$COUNTERSIGN is missing: run \`make test\`, which builds it"
export COUNTERSIGN
[ -f web/dist/index.html ] || fail "the web UI could not be built: run \`npm run build\` in web/ to see why"
say "testing the web UI"
(cd web && npm run --silent test >&2 && npm run --silent check >&2 && npm run --silent e2e >&2) || fail "the web UI failed: the lines above say where"
say "the web UI passed after $SECONDS s"
