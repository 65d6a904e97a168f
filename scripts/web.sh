#!/usr/bin/env bash
# web.sh: the tests of the web UI, and what its build must keep: its size, and nothing that its content security policy refuses.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

need_web
say "testing the web UI"
(cd web && npm run --silent test >&2 && npm run --silent build >&2) || fail "the web UI failed: the lines above say where"
say "the web UI passed after $SECONDS s"
