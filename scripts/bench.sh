#!/usr/bin/env bash
# bench.sh [arguments of the benchmark]: builds the release binary and measures it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

# The rule of schedules against a naive statement of it. The argument is the number of expressions.
cron_truth() {
    say "comparing the rule of schedules with a naive one"
    cargo run --quiet --locked --release -p countersign-automation --example cron_truth -- "$@"
}

# The matcher of events against the specification of filters. The argument is the number of cases.
filters_fuzz() {
    say "comparing the matcher of events with the specification of filters"
    cargo run --quiet --locked --release -p countersign-automation --example filters -- fuzz "$1"
}

need_cargo
case ${1-} in
--cron)
    cron_truth
    exit
    ;;
# Ten minutes, or as many seconds as the second argument says; a third one is the URL of a PostgreSQL database in place of SQLite.
--kills)
    need_interpreters
    cargo build --locked --release -p countersign-cli
    exec python3 bench/kills.py "${CARGO_TARGET_DIR:-target}/release/countersign" "${2:-600}" ${3:+"$3"}
    ;;
esac
need_web
need_bubblewrap
need_interpreters
# The benchmark compares a call over MCP with the proxies of others.
need_mcp
need_mcp_door
export BENCH_FASTMCP=$TEST_MCP_SERVERS/python/bin/python BENCH_MCP_PROXY=$door/python/bin/python
# Automations are compared with the engines of others.
case ${1-} in
'' | --quick | --automations) need_peers ;;
esac
say "building for release (the first time takes about half an hour)"
cargo build --locked --release -p countersign-cli -p countersign-bench
case ${1-} in
'')
    cron_truth
    filters_fuzz 1000000
    ;;
--quick)
    cron_truth 100
    filters_fuzz 100000
    ;;
--automations) filters_fuzz 1000000 ;;
esac
# Writes the build's dirty pages to disk now, so that they are not written during the measurement.
sync
say "built in $SECONDS s, measuring"
export ON_DISK=1
case ${1-} in
'' | --relay) python3 bench/npx.py "${CARGO_TARGET_DIR:-target}/release/countersign" ;;
esac
exec scripts/with-servers.sh "${CARGO_TARGET_DIR:-target}/release/countersign-bench" "$@"
