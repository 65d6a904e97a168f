#!/usr/bin/env bash
# clients.sh [--all]: the API's description as others use it. Two tools check it. Our own packages, clients/typescript and clients/python, are made
# from it and installed as a user installs them, and run their journeys. Then two tools generate clients, with the commands of the guide, and its
# programs run against a server. What was made of the very same files before is not made again, and the tools of the guide are those that are
# installed here. With --all, everything is made and the guide's tools are installed as it says, word by word. Everything else is installed and
# written below target/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

# Nothing but the server is talked to.
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true

main() {
    need_clients
    all=${1-}
    binary=${CARGO_TARGET_DIR:-target}/debug/countersign
    [ -x "$binary" ] || fail "$binary is missing: run \`make test\`, which builds it"
    trap stop EXIT
    run=$(mktemp -d "$clients/run.XXXXXX")
    "$binary" openapi >"$run/openapi.json"
    is_made checked || checked
    tsc=clients/typescript/node_modules/.bin/tsc
    is_made typescript clients/typescript/{index,journey,checks}.ts clients/typescript/*.json && [ -x "$tsc" ] || typescript
    is_made python clients/python/*.* clients/python/countersign/__init__.py || python
    start_server
    quietly node "$clients/made-typescript/journey.js"
    quietly node "$clients/made-typescript/checks.js"
    quietly "$clients/made-python/venv/bin/python" "$clients/made-python/journey.py"
    quietly "$clients/made-python/venv/bin/python" "$clients/made-python/checks.py"
    guide TypeScript ts program.ts
    guide Python python program.py
    verified
    say "the clients passed after $SECONDS s"
}

# is_made <name> <file>...: whether this was made of these files and the description, as they are now. If not, its folder $made is empty, and
# whoever makes it ends with `is_made_now`.
is_made() {
    made=$clients/made-$1
    made_of=$(cat "$run/openapi.json" scripts/clients.sh "$clients/installed" "${@:2}" | cksum)
    [ -n "$all" ] || [ "$(cat "$made/of" 2>/dev/null)" != "$made_of" ] || return 0
    rm -rf "$made" && mkdir "$made" && return 1
}

is_made_now() {
    echo "$made_of" >"$made/of"
}

checked() {
    quietly "$tools/bin/openapi-spec-validator" "$run/openapi.json"
    quietly npm_tool redocly lint "$run/openapi.json"
    is_made_now
}

# guide <section> <language> <program>: the commands of a section of the guide, word by word, in an empty folder with nothing but the section's
# program in it. Without --all those that install are left out. If the client is made already, only the last one is left, which runs the program.
guide() {
    local path
    path=$(cd "$(dirname "$binary")" && pwd):$PATH
    [ -n "$all" ] || path=$tools/bin:$path
    if is_made "guide-$2" docs/guides/generated-clients.md; then
        tail -n 1 "$made/commands.sh" >"$run/commands.sh"
    else
        block "$1" "$2" >"$made/$3"
        block "$1" sh >"$made/commands.sh"
        [ -s "$made/$3" ] && [ -s "$made/commands.sh" ] || fail "docs/guides/generated-clients.md has no program or no commands for $1"
        cp "$made/commands.sh" "$run/"
        [ -n "$all" ] || installed_here
    fi
    quietly env -C "$made" PATH="$path" bash -e "$run/commands.sh"
    is_made_now
}

installed_here() {
    sed -i '/install/d; /venv/d' "$run/commands.sh"
    mkdir -p "$made/node_modules/.bin"
    ln -s "$clients"/generated/node_modules/{openapi-fetch,@types} "$made/node_modules/"
    ln -s "$PWD"/clients/typescript/node_modules/.bin/{openapi-typescript,tsc} "$made/node_modules/.bin/"
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
    cp clients/typescript/journey.ts clients/typescript/checks.ts "$made/"
    echo '{"type": "module"}' >"$made/package.json"
    quietly npm install --prefix "$made" --no-audit --no-fund --install-links "$PWD/clients/typescript"
    quietly "$tsc" --strict --exactOptionalPropertyTypes --noUncheckedIndexedAccess --module nodenext --target es2022 \
        --types node --typeRoots "$clients/generated/node_modules/@types" "$made/journey.ts" "$made/checks.ts"
    is_made_now
}

python() {
    quietly python3 -m venv "$made/venv"
    quietly "$made/venv/bin/pip" install --disable-pip-version-check ./clients/python
    cp clients/python/journey.py clients/python/checks.py "$made/"
    quietly "$tools/bin/mypy" --strict --cache-dir "$run/mypy" --python-executable "$made/venv/bin/python" "$made/journey.py" "$made/checks.py"
    is_made_now
}

# The log of the journeys verifies, with the server and without one.
verified() {
    quietly "$binary" receipt verify
    quietly "$binary" receipt export "$run/log.jsonl"
    quietly "$binary" receipt verify "$run/log.jsonl" --key "$run/data/receipt.pub"
}

main "$@"
