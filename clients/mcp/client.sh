#!/usr/bin/env bash
# client.sh <address>: the client that the conformance suite of MCP starts, with the address of a server of its own. What is about logins goes
# through a whole server of ours: a connection, its login, a source with this connection, and calls of all its tools. Everything else is asked
# by the probe, which drives the same source. PROBE and COUNTERSIGN are the two programs.
set -euo pipefail

main() {
    url=$1
    case ${MCP_CONFORMANCE_SCENARIO-} in
    auth/*) ;;
    *) exec "$PROBE" "$url" ;;
    esac
    run=$(mktemp -d)
    trap stop EXIT
    start_server
    add_connection
    # A login may turn out to be too narrow, or to be of another issuer. Then a person logs in once more.
    add_source || { log_in && add_source; }
    for action in $("$COUNTERSIGN" action list -o name | grep '^suite\.'); do
        "$COUNTERSIGN" mode set "$action" allow
        "$COUNTERSIGN" consent give "$action" >/dev/null
        invoke "$action" || { log_in && invoke "$action"; }
    done
}

# Every port of this machine at which somebody listens may be reached: the suite does not say which are its own.
start_server() {
    local hosts
    hosts=$(python3 -c '
ports = set()
for table in ("/proc/net/tcp", "/proc/net/tcp6"):
    for line in open(table).readlines()[1:]:
        words = line.split()
        if words[3] == "0A":
            ports.add(int(words[1].rsplit(":", 1)[1], 16))
print(",".join(f"http://localhost:{port}" for port in sorted(ports)))')
    mkdir "$run/data"
    COUNTERSIGN_SOURCE_ALLOWED_HOSTS=$hosts COUNTERSIGN_SOURCE_ALLOWED_NETWORKS=127.0.0.0/8,::1/128 \
        "$COUNTERSIGN" serve --data "$run/data" --listen 127.0.0.1:0 >"$run/log" 2>&1 &
    server=$!
    while [ ! -s "$run/data/server.url" ]; do
        kill -0 "$server" 2>/dev/null || { cat "$run/log" && exit 1; }
        sleep 0.05
    done
    COUNTERSIGN_URL=$(cat "$run/data/server.url")
    COUNTERSIGN_TOKEN=$(cat "$run/data/owner.token")
    export COUNTERSIGN_URL COUNTERSIGN_TOKEN
}

# A client that the suite has registered by hand is in MCP_CONFORMANCE_CONTEXT.
add_connection() {
    local id secret
    id=$(of_context client_id)
    secret=$(of_context client_secret)
    if [ -n "$id" ]; then
        printf '%s' "$secret" | "$COUNTERSIGN" connection add suite "$url" --oauth --client-id "$id" --stdin --no-wait >"$run/page"
    else
        "$COUNTERSIGN" connection add suite "$url" --oauth --no-wait >"$run/page"
    fi
    browse
}

add_source() {
    "$COUNTERSIGN" source add suite --mcp "$url" --connection suite --default-tier R1
}

log_in() {
    "$COUNTERSIGN" connection login suite --no-wait >"$run/page" && browse
}

# The suite lets everybody in, and sends the browser back at once.
browse() {
    curl -sS --fail-with-body -L --max-redirs 10 -o "$run/answer" "$(grep '^http' "$run/page")" || { cat "$run/answer" && return 1; }
}

invoke() {
    "$COUNTERSIGN" action invoke "$1" --params '{}' --no-wait
}

of_context() {
    python3 -c 'import json, os, sys; print(json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}").get(sys.argv[1], ""))' "$1"
}

stop() {
    [ -z "${server-}" ] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
    rm -rf "$run"
}

main "$@"
