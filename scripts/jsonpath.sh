#!/usr/bin/env bash
# jsonpath.sh: what our JSONPath selects, beside another library for RFC 9535 (python-jsonpath), over paths and documents that are made
# up. Everything is installed below target/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

need_jsonpath() {
    need_interpreters
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages "Python's venv" python3-venv
    local folder wanted
    folder=$(mkdir -p "${CARGO_TARGET_DIR:-target}/clients/jsonpath" && cd "${CARGO_TARGET_DIR:-target}/clients/jsonpath" && pwd)
    python=$folder/python/bin/python
    wanted=$(cksum <clients/jsonpath/requirements.txt)
    [ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ] || return 0
    say "installing python-jsonpath"
    rm -rf "$folder/python"
    python3 -m venv "$folder/python" &&
        "$folder/python/bin/pip" install --quiet --disable-pip-version-check -r clients/jsonpath/requirements.txt >&2 ||
        fail "pip could not install what clients/jsonpath asks for"
    echo "$wanted" >"$folder/installed"
}

need_jsonpath
program=${CARGO_TARGET_DIR:-target}/debug/examples/jsonpath
[ -x "$program" ] || fail "$program is missing: run \`make test\`, which builds it"
"$python" clients/jsonpath/compare.py "$program" || fail "our JSONPath and another one differ: the lines above say where"
