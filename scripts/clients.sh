#!/usr/bin/env bash
# clients.sh: the API's description as others use it. Two tools check it. Our own packages, clients/typescript and clients/python, are made from it
# and installed as a user installs them, and run their journeys. Then two tools generate clients, and the program of each in clients/generated runs
# against a server. Everything else is installed and written below target/.
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
    generated_typescript
    generated_python
    guide TypeScript ts program.ts
    guide Python python program.py
    verified
    say "the clients passed after $SECONDS s"
}

generated_typescript() {
    cp clients/generated/program.ts clients/generated/tsconfig.json clients/typescript/api.d.ts "$clients/generated/"
    quietly "$tsc" -p "$clients/generated"
    quietly node "$clients/generated/program.js"
}

generated_python() {
    quietly env PATH="$tools/bin:$PATH" openapi-python-client generate --path "$run/openapi.json" --output-path "$run/countersign_client" --meta none
    quietly env PYTHONPATH="$run" "$tools/bin/python" clients/generated/program.py
}

# The commands of a section of the guide, word by word, in an empty folder with nothing but the section's program in it.
guide() {
    local folder=$run/guide-$2
    mkdir "$folder"
    block "$1" "$2" >"$folder/$3"
    block "$1" sh >"$folder/commands.sh"
    [ -s "$folder/$3" ] && [ -s "$folder/commands.sh" ] || fail "docs/guides/generated-clients.md has no program or no commands for $1"
    quietly env -C "$folder" PATH="$(cd "$(dirname "$binary")" && pwd):$PATH" bash -e commands.sh
}

# What stands in blocks of one language in one section of the guide.
block() {
    awk -v section="## $1" -v fence="\`\`\`$2" '
        /^## / { is_in = $0 == section }
        $0 == "```" { is_block = 0 }
        is_in && is_block
        $0 == fence { is_block = 1 }
    ' docs/guides/generated-clients.md
}

# Programs in a new folder and a new environment find nothing but what was installed there.
typescript() {
    tsc=$PWD/clients/typescript/node_modules/.bin/tsc
    mkdir "$run/typescript"
    cp clients/typescript/journey.ts clients/typescript/checks.ts "$run/typescript/"
    echo '{"type": "module"}' >"$run/typescript/package.json"
    quietly npm install --prefix "$run/typescript" --no-audit --no-fund "$PWD/clients/typescript"
    quietly "$tsc" --strict --exactOptionalPropertyTypes --noUncheckedIndexedAccess --module nodenext --target es2022 \
        --types node --typeRoots "$clients/generated/node_modules/@types" "$run/typescript/journey.ts" "$run/typescript/checks.ts"
    quietly node "$run/typescript/journey.js"
    quietly node "$run/typescript/checks.js"
}

python() {
    mkdir "$run/python"
    cp clients/python/journey.py clients/python/checks.py "$run/python/"
    quietly python3 -m venv "$run/python/venv"
    quietly "$run/python/venv/bin/pip" install --disable-pip-version-check ./clients/python
    quietly "$tools/bin/mypy" --strict --cache-dir "$run/mypy" --python-executable "$run/python/venv/bin/python" \
        "$run/python/journey.py" "$run/python/checks.py"
    quietly "$run/python/venv/bin/python" "$run/python/journey.py"
    quietly "$run/python/venv/bin/python" "$run/python/checks.py"
}

# The log of the journeys verifies, with the server and without one.
verified() {
    quietly "$binary" receipt verify
    quietly "$binary" receipt export "$run/log.jsonl"
    quietly "$binary" receipt verify "$run/log.jsonl" --key "$run/data/receipt.pub"
}

main
