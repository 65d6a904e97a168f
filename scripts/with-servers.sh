#!/usr/bin/env bash
# with-servers.sh <command>...: runs a command beside a temporary PostgreSQL and Redis, and stops them however the command ends. The command
# finds them in TEST_POSTGRES_URL and TEST_REDIS_URL. After need_mail there is a mail server too, in TEST_SMTP_PORTS and TEST_SMTP_SPOOL; after
# need_bucket a server that speaks S3, in TEST_S3_ENDPOINT. Each run has its own servers, ports and folder.
# shellcheck disable=SC2317 # some functions are called by a trap or by their name
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

main() {
    need_postgres
    need_redis
    trap stop EXIT
    trap 'interrupt 130' INT
    trap 'interrupt 143' TERM HUP
    make_folder
    start_postgres
    start_redis
    [ -z "${MAIL_PYTHON-}" ] || start_mail
    [ -z "${BUCKET_PYTHON-}" ] || start_bucket
    say "PostgreSQL on port $POSTGRES_PORT and Redis on port $REDIS_PORT are ready"

    export TEST_POSTGRES_URL="postgres://postgres@127.0.0.1:$POSTGRES_PORT/postgres"
    export TMPDIR="$folder/tmp"
    export TEST_REDIS_URL="redis://127.0.0.1:$REDIS_PORT/"
    # The command runs in the background, because bash handles a signal only after a foreground command has ended.
    (trap - INT TERM HUP EXIT && exec "$@") <&0 &
    command_pid=$!
    local status=0
    wait "$command_pid" || status=$?
    command_pid=
    say "$([ "$status" = 0 ] && echo passed || echo failed) after $SECONDS s"
    exit "$status"
}

# PostgreSQL refuses to run as root. If we are root, it runs as another user, who must be able to reach its folder.
make_folder() {
    local parent user
    as_owner=()
    if [ "$(id -u)" = 0 ]; then
        user=postgres
        id "$user" >/dev/null 2>&1 || user=nobody
        if command -v runuser >/dev/null; then
            as_owner=(runuser -u "$user" --)
        elif command -v setpriv >/dev/null; then
            as_owner=(setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups)
        else
            fail "PostgreSQL does not run as root, and neither runuser nor setpriv is here: run this as an ordinary user"
        fi
    fi
    for parent in $(memory_disk) "${CARGO_TARGET_DIR:-target}/test-servers" "${TMPDIR:-/tmp}" /tmp; do
        mkdir -p "$parent" 2>/dev/null || continue
        folder=$(cd "$parent" && mktemp -d "$PWD/countersign.XXXXXX") || continue
        chmod 755 "$folder"
        mkdir "$folder/postgres" "$folder/redis" "$folder/tmp"
        chmod 1777 "$folder/tmp"
        [ ${#as_owner[@]} = 0 ] || chown "$user" "$folder/postgres"
        owner test -w "$folder/postgres" && return
        rm -rf "$folder"
    done
    fail "no folder for the test servers: neither target, TMPDIR nor /tmp can be reached by the user PostgreSQL runs as"
}

# Uses memory if there is enough: the suites write, sync and delete so much that a busy disk would dominate their time. Killed processes
# lose no data there either. A run leaves some 700 databases of 10 MB. ON_DISK=1 is for measurements, because in memory every commit is free.
memory_disk() {
    [ -z "${ON_DISK-}" ] || return 0
    local free
    free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
    [ "${free:-0}" -lt 12582912 ] || echo /dev/shm
}

# Runs a command as that user, from `/`, because the user may not be allowed into the current folder.
owner() { (cd / && ${as_owner[@]+"${as_owner[@]}"} "$@"); }

# There is no unix socket, because its path has a length limit. fsync stays on, because durability is part of what is tested. The other
# settings save work: these databases are not replicated, none outlives the run, and many are created. For measurements PostgreSQL tidies up
# as a server does that has run for days: its plans follow the sizes of its tables, and dead rows go.
start_postgres() {
    owner "$POSTGRES_BIN/initdb" -D "$folder/postgres/data" -U postgres -A trust -E UTF8 --locale=C --no-sync \
        >"$folder/initdb.log" 2>&1 || fail "PostgreSQL could not be set up: $(tail -n 3 "$folder/initdb.log")"
    on_a_free_port try_postgres || fail "PostgreSQL did not start: $(tail -n 3 "$folder/postgres/log")"
    POSTGRES_PORT=$port
}

try_postgres() {
    local vacuum=autovacuum=off log=1GB
    [ -z "${ON_DISK-}" ] || vacuum=autovacuum_naptime=5s log=8GB
    owner "$POSTGRES_BIN/pg_ctl" start -w -t 60 -s -D "$folder/postgres/data" -l "$folder/postgres/log" -o "-p $port \
        -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=200 -c shared_buffers=64MB \
        -c wal_level=minimal -c max_wal_senders=0 -c full_page_writes=off -c $vacuum -c checkpoint_timeout=1h -c max_wal_size=$log" >/dev/null 2>&1
}

start_redis() {
    on_a_free_port try_redis || fail "Redis did not start: $(tail -n 3 "$folder/redis/log")"
    REDIS_PORT=$port
}

try_redis() {
    : >"$folder/redis/log"
    "$REDIS_SERVER" --bind 127.0.0.1 --port "$port" --dir "$folder/redis" --save '' --appendonly no >>"$folder/redis/log" 2>&1 &
    redis_pid=$!
    while kill -0 "$redis_pid" 2>/dev/null; do
        ! grep -q 'Ready to accept connections' "$folder/redis/log" || return 0
        sleep 0.05
    done
    redis_pid=
    return 1
}

# It takes mail in the clear on the first port, and on the second after STARTTLS and a login.
start_mail() {
    export TEST_SMTP_SPOOL=$folder/mail
    mkdir "$TEST_SMTP_SPOOL"
    local certificates=crates/testkit/certificates
    "$MAIL_PYTHON" clients/mail/server.py "$TEST_SMTP_SPOOL" $certificates/first.pem $certificates/first.key.pem \
        >"$folder/mail.ports" 2>"$folder/mail.log" &
    mail_pid=$!
    while [ ! -s "$folder/mail.ports" ]; do
        kill -0 "$mail_pid" 2>/dev/null || fail "the mail server did not start: $(tail -n 3 "$folder/mail.log")"
        sleep 0.05
    done
    TEST_SMTP_PORTS=$(cat "$folder/mail.ports")
    export TEST_SMTP_PORTS
}

start_bucket() {
    "$BUCKET_PYTHON" clients/artifacts/server.py countersign-test >"$folder/bucket.url" 2>"$folder/bucket.log" &
    bucket_pid=$!
    while [ ! -s "$folder/bucket.url" ]; do
        kill -0 "$bucket_pid" 2>/dev/null || fail "the server that speaks S3 did not start: $(tail -n 3 "$folder/bucket.log")"
        sleep 0.05
    done
    TEST_S3_ENDPOINT=$(cat "$folder/bucket.url")
    export TEST_S3_ENDPOINT
}

# Tries random ports below the range that the system assigns by itself. The server itself finds out whether a port is free: checking it
# first would be a race.
on_a_free_port() {
    local try
    for try in 1 2 3 4 5; do
        port=$((20000 + (RANDOM * 32768 + RANDOM + try) % 12000))
        "$@" && return
    done
    return 1
}

interrupt() {
    trap '' INT TERM HUP
    if [ -n "${command_pid-}" ]; then
        kill -TERM "$command_pid" 2>/dev/null || true
        wait "$command_pid" 2>/dev/null || true
    fi
    exit "$1"
}

stop() {
    trap '' INT TERM HUP
    if [ -n "${redis_pid-}" ]; then
        kill "$redis_pid" 2>/dev/null || true
        wait "$redis_pid" 2>/dev/null || true
    fi
    if [ -n "${mail_pid-}" ]; then
        kill "$mail_pid" 2>/dev/null || true
        wait "$mail_pid" 2>/dev/null || true
    fi
    if [ -n "${bucket_pid-}" ]; then
        kill "$bucket_pid" 2>/dev/null || true
        wait "$bucket_pid" 2>/dev/null || true
    fi
    [ -z "${folder-}" ] && return
    # The data is deleted, so the server does not need a clean shutdown.
    [ ! -f "$folder/postgres/data/postmaster.pid" ] ||
        owner "$POSTGRES_BIN/pg_ctl" stop -w -s -m immediate -D "$folder/postgres/data" >/dev/null 2>&1 || true
    rm -rf "$folder"
}

main "$@"
