#!/usr/bin/env bash
# installed.sh [--all | NAME...]: MCP servers as people install them, unmodified, each added with one command and asked one harmless thing through
# the whole of it (clients/installed/servers.sh). Without --all or names, four of the twenty. Those that need an account get a made-up key, and reach
# a stand-in of the vendor under the vendor's own name: everything runs in a network namespace of its own, from which nothing leads out. Packages
# are fetched before. Everything is installed and written below target/.
# shellcheck disable=SC2317 # some functions are called by their name
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh
. clients/installed/servers.sh

# The address of all vendors in the network namespace: a public one, so no rule has to make an exception for it.
VENDORS_ADDRESS=93.184.215.14
VENDORS=(context7.com api.notion.com api.github.com slack.com api.firecrawl.dev api.tavily.com sentry.io kubernetes.example.com example.com)

main() {
    local names=("${short[@]}")
    case ${1-} in
    --inside)
        inside "${@:2}"
        return
        ;;
    --all) names=("${servers[@]}") ;;
    ?*) names=("$@") ;;
    esac
    COUNTERSIGN=$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd)/countersign
    [ -x "$COUNTERSIGN" ] || fail "$COUNTERSIGN is missing: run \`make test\`, which builds it"
    need_installed "${names[@]}"
    export COUNTERSIGN INSTALLED
    # Whoever is not root becomes root of a namespace of its own, to make the network, and itself again for all that follows.
    if [ "$(id -u)" = 0 ]; then
        unshare --mount --net "$0" --inside "${names[@]}"
    else
        AS_USER="$(id -u):$(id -g)" unshare --map-root-user --mount --net "$0" --inside "${names[@]}"
    fi
}

# Where nothing leads out.
inside() {
    case ${1-} in
    --try)
        try_all "${@:2}"
        return
        ;;
    esac
    local name with_servers=()
    trap stop EXIT
    run=$(mktemp -d "$INSTALLED/run.XXXXXX")
    ip link set lo up
    ip address add "$VENDORS_ADDRESS/32" dev lo
    echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start
    echo "127.0.0.1 localhost" >"$run/hosts"
    for name in "${VENDORS[@]}" mongodb.example.com postgres.example.com; do
        echo "$VENDORS_ADDRESS $name" >>"$run/hosts"
    done
    mount --bind "$run/hosts" /etc/hosts
    for name in "$@"; do
        [ "$name" != postgres ] || with_servers=(env -u MAIL_PYTHON -u BUCKET_PYTHON scripts/with-servers.sh)
    done
    local again=()
    [ -z "${AS_USER-}" ] || again=(unshare --user "--map-user=${AS_USER%:*}" "--map-group=${AS_USER#*:}")
    "${again[@]+"${again[@]}"}" "${with_servers[@]+"${with_servers[@]}"}" "$0" --inside --try "$@"
}

try_all() {
    local failed=() passed=0
    trap stop EXIT
    run=$(mktemp -d "$INSTALLED/run.XXXXXX")
    prepare
    for name in "$@"; do
        if try "try-$name"; then
            passed=$((passed + 1))
        else
            failed+=("$name")
        fi
    done
    # What they keep is there after a restart.
    stop_server
    start_server
    for name in "$@"; do
        ! declare -F "try-$name-again" >/dev/null || [[ " ${failed[*]-} " = *" $name "* ]] || try "try-$name-again" || {
            failed+=("$name")
            passed=$((passed - 1))
        }
    done
    quietly "$COUNTERSIGN" receipt verify
    say "$passed passed, ${#failed[@]} failed after $SECONDS s${failed[*]+: ${failed[*]}}"
    # Neither more nor fewer than those of which it is known.
    local expected=()
    for name in "$@"; do
        [[ " ${failing[*]} " != *" $name "* ]] || expected+=("$name")
    done
    [ "${failed[*]-}" = "${expected[*]-}" ] || fail "those that fail should be: ${expected[*]:-none}"
}

# What the servers see and reach, and the server of ours.
prepare() {
    ca=$run/authority stage=$run/stage venv=$INSTALLED/sqlite modules=$INSTALLED/desktop-commander binary=$COUNTERSIGN
    mkdir "$ca" "$stage"
    # The jail takes on another user.
    chmod 755 "$run" "$ca" "$stage"
    make_authority
    # What a server that speaks TLS is told beside: the authority of the stand-ins. With real vendors it is not needed.
    trusting=(--readable "$ca" --env "NODE_EXTRA_CA_CERTS=$ca/authority.pem")
    echo 'hello from the stage' >"$stage/hello.txt"
    sed "s|AUTHORITY|$ca/authority.pem|" clients/installed/kube.yaml >"$stage/kube.yaml"
    quietly git -c init.defaultBranch=main init "$stage/repository"
    quietly git -C "$stage/repository" -c user.name=Ada -c user.email=ada@example.com commit --allow-empty -m 'the first commit'
    # The server of repositories starts this program, which looks at no repository of another user until it is told to.
    with_git=(--readable "$(command -v git)" --readable "$(git --exec-path)"
        --env "GIT_PYTHON_GIT_EXECUTABLE=$(command -v git)" --env GIT_CONFIG_COUNT=1 --env GIT_CONFIG_KEY_0=safe.directory --env "GIT_CONFIG_VALUE_0=*")
    start_program vendors python3 clients/installed/vendors.py "$run/vendors.pem" "$run/vendors.key" "${TEST_POSTGRES_URL-}"
    # The packages are in the caches: asked for elsewhere, they would not be found.
    export npm_config_cache=$INSTALLED/npm npm_config_offline=true PIP_NO_INDEX=1 PIP_FIND_LINKS=$INSTALLED/wheels
    start_server
}

# An authority and a certificate for all vendors, for this run.
make_authority() {
    local names
    names=$(printf ',DNS:%s' "${VENDORS[@]}")
    quietly openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=stand-ins' -keyout "$run/authority.key" -out "$ca/authority.pem"
    quietly openssl req -newkey rsa:2048 -nodes -subj '/CN=vendors' -keyout "$run/vendors.key" -out "$run/vendors.csr"
    quietly openssl x509 -req -in "$run/vendors.csr" -CA "$ca/authority.pem" -CAkey "$run/authority.key" -CAcreateserial -days 2 \
        -extfile <(echo "subjectAltName=${names#,}") -out "$run/vendors.pem"
}

# try <function>: one line says how it went, and if it failed, why.
try() {
    local begin=$SECONDS
    : >"$run/answer"
    if ("$1") >"$run/try" 2>&1; then
        say "${1#try-}: passed after $((SECONDS - begin)) s: $(head -c 100 "$run/answer" | tr '\n' ' ')"
    else
        say "${1#try-}: FAILED after $((SECONDS - begin)) s"
        tail -n 25 "$run/try" >&2
        return 1
    fi
}

# The one command, and the list of what was added. What fails ends the try: it runs in a shell of its own.
add() {
    echo "countersign source add $name --yes $*"
    "$COUNTERSIGN" source add "$name" --yes "$@" || exit 1
    "$COUNTERSIGN" action list --source "$name" || exit 1
}

# call <tool> [KEY=VALUE]...: in a session of its own. That a tool does no harm the owner says first, as its server may not have.
call() {
    local session
    session=$("$COUNTERSIGN" session create --title "$name" --source "$name" --json=id) || exit 1
    "$COUNTERSIGN" source edit "$name" --tier "$1=R1" || exit 1
    "$COUNTERSIGN" action invoke "$name.$1" "${@:2}" --session "$(sed 's/.*"\(ses_[^"]*\)".*/\1/' <<<"$session")" --json >"$run/answer" || exit 1
}

answers() {
    cat "$run/answer"
    grep -qF -- "$1" "$run/answer" || {
        echo "the answer has no \`$1\`"
        exit 1
    }
}

main "$@"
