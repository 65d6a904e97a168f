#!/usr/bin/env bash
# clients.sh: the API's description as others use it. Two tools check it, two generate clients from it, and the program of each client in
# clients/ runs against a server. Everything is installed and written below target/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

# Nothing but the server is talked to.
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true

main() {
    need_clients
    binary=${CARGO_TARGET_DIR:-target}/debug/countersign
    [ -x "$binary" ] || fail "$binary is missing: run \`make test\`, which builds it"
    trap stop EXIT
    run=$(mktemp -d "$clients/run.XXXXXX")
    "$binary" openapi >"$run/openapi.json"
    quietly "$tools/bin/openapi-spec-validator" "$run/openapi.json"
    quietly npm_tool redocly lint "$run/openapi.json"
    start_server
    typescript
    python
    say "the clients passed after $SECONDS s"
}

typescript() {
    cp clients/typescript/program.ts clients/typescript/tsconfig.json "$clients/typescript/"
    quietly npm_tool openapi-typescript "$run/openapi.json" -o "$clients/typescript/api.d.ts"
    cmp -s "$clients/typescript/api.d.ts" web/src/api/schema.d.ts ||
        fail "the API changed, and the types of the web UI did not: cp $clients/typescript/api.d.ts web/src/api/schema.d.ts"
    quietly npm_tool tsc -p "$clients/typescript"
    quietly node "$clients/typescript/program.js"
}

python() {
    quietly env PATH="$tools/bin:$PATH" openapi-python-client generate --path "$run/openapi.json" --output-path "$run/countersign_client" --meta none
    quietly env PYTHONPATH="$run" "$tools/bin/python" clients/python/program.py
}

npm_tool() {
    local tool=$1
    shift
    "$clients/typescript/node_modules/.bin/$tool" "$@"
}

# What a tool says is worth reading only when it fails.
quietly() {
    "$@" >"$run/log" 2>&1 || fail "\`$*\` failed:"$'\n'"$(head -c 1500 "$run/log")"
}

stop() {
    [ -z "${server-}" ] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
    rm -rf "${run-}"
}

main
