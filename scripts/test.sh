#!/usr/bin/env bash
# test.sh [--all] [arguments of cargo]: runs every suite on SQLite, and on PostgreSQL those tests whose result depends on the database. With
# --all the other tests run on PostgreSQL too, repeated tests run more rounds, MCP's conformance suite runs whole, and agents wait until a call
# expires. This is meant for nightly runs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

need_cargo
need_web
need_interpreters
need_mcp
need_mail
need_bucket
# Before the server: its build takes the web UI in.
build_web
lint_while_building

scope=(--workspace) all='' arguments=()
for argument in "$@"; do
    case $argument in
    --all)
        all=yes
        continue
        ;;
    # With both flags, cargo would run the whole workspace instead of the named package.
    -p | -p?* | --package | --package=*) scope=() ;;
    esac
    arguments+=("$argument")
done
[ -z "$all" ] || export TEST_ALL=1
whole=$([ ${#arguments[@]} = 0 ] && echo yes || true)

if cargo nextest --version >/dev/null 2>&1; then
    # Most tests wait for a server, a disk or a deadline, so more tests than cores are needed to keep the cores busy.
    runner=(cargo nextest run --locked --test-threads "$((2 * $(getconf _NPROCESSORS_ONLN)))" ${all:+--ignore-default-filter})
    set -- ${arguments[@]+"${arguments[@]}"}
else
    runner=(cargo test --locked)
    [ -n "$all" ] || arguments+=(-- --skip journeys::postgres)
    set -- ${arguments[@]+"${arguments[@]}"}
fi

say "testing with \`${runner[*]}\`"
scripts/with-servers.sh "${runner[@]}" ${scope[@]+"${scope[@]}"} "$@"
# Asked for a part, only that part is tested.
[ -z "$whole" ] || scripts/templates.sh
[ -z "$whole" ] || scripts/web.sh
[ -z "$whole" ] || scripts/clients.sh
[ -z "$whole" ] || scripts/jsonpath.sh
[ -z "$whole" ] || scripts/oauth.sh
[ -z "$whole" ] || scripts/webhooks.sh
[ -z "$whole" ] || scripts/approvals.sh
[ -z "$whole" ] || scripts/mcp.sh ${all:+--all}
[ -z "$whole" ] || scripts/mcp-door.sh ${all:+--all}
[ -z "$whole" ] || scripts/installed.sh ${all:+--all}
[ -z "$whole" ] || scripts/agents.sh ${all:+--all}
