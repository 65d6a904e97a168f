#!/usr/bin/env bash
# client-types.sh [--check]: writes what is generated of the packages in clients/typescript and clients/python: the types, from the golden copy
# of the API's description, and the JavaScript of the TypeScript. With --check nothing is written, and a file that would change is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

main() {
    need_clients
    run=$(mktemp -d "$clients/run.XXXXXX")
    trap 'rm -rf "$run"' EXIT
    mkdir -p "$run/typescript" "$run/python/countersign"
    local description=crates/server/tests/golden/openapi.json
    cp clients/typescript/index.ts clients/typescript/tsconfig.json clients/typescript/package.json "$run/typescript/"
    quietly npm_tool openapi-typescript "$description" -o "$run/typescript/api.d.ts"
    quietly npm_tool tsc -p "$run/typescript"
    quietly "$tools/bin/datamodel-codegen" --input "$description" --input-file-type openapi --output "$run/python/countersign/api.py" \
        --output-model-type typing.TypedDict --no-use-closed-typed-dict --enum-field-as-literal all --use-schema-description \
        --target-python-version 3.11 --formatters builtin --disable-timestamp
    local file
    for file in typescript/api.d.ts typescript/index.js typescript/index.d.ts python/countersign/api.py; do
        if [ "${1-}" = --check ]; then
            cmp -s "$run/$file" "clients/$file" || fail "clients/$file is not what is generated now: run \`scripts/client-types.sh\`"
        else
            cp "$run/$file" "clients/$file"
        fi
    done
}

main "$@"
