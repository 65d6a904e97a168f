#!/usr/bin/env bash
# templates.sh [--all | templates [seed]]: generated templates render as in the sandbox of Python's Jinja2, and what Jinja2 refuses is refused: 1000
# of them with --all, or else 300. Everything is installed and written below target/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

main() {
    need_jinja
    worker=${CARGO_TARGET_DIR:-target}/debug/examples/render_worker
    [ -x "$worker" ] || fail "$worker is missing: run \`make test\`, which builds it"
    case ${1-} in
    '') set -- 300 ;;
    --all) shift ;;
    esac
    local result
    result=$("$python" clients/templates/compare.py "$worker" "$@") || fail "templates render otherwise than in Jinja2: $result"
    say "$result"
}

need_jinja() {
    need_interpreters
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages "Python's venv" python3-venv
    templates=$(mkdir -p "${CARGO_TARGET_DIR:-target}/clients/templates" && cd "${CARGO_TARGET_DIR:-target}/clients/templates" && pwd)
    python=$templates/python/bin/python
    local wanted
    wanted=$(cksum <clients/templates/requirements.txt)
    [ "$(cat "$templates/installed" 2>/dev/null)" != "$wanted" ] || return 0
    say "installing Jinja2"
    rm -rf "$templates/python"
    python3 -m venv "$templates/python" &&
        "$templates/python/bin/pip" install --quiet --disable-pip-version-check -r clients/templates/requirements.txt >&2 ||
        fail "pip could not install what clients/templates asks for"
    printf '%s' "$wanted" >"$templates/installed"
}

main "$@"
