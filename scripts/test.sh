#!/usr/bin/env bash
# test.sh [--all] [arguments of cargo]: runs every suite on SQLite, and on PostgreSQL those tests whose result depends on the database. With
# --all the other tests run on PostgreSQL too, repeated tests run more rounds, and the suites beside Rust's own run in their long form, which
# docs/tests.md has. This is meant for nightly runs.
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
[ -n "$whole" ] || exit 0
# What several suites need is installed before they run beside each other.
need_issuer
need_chromium

# one_by_one <suite>...: also when one fails. What a suite says is shown when it has ended, because others run beside it.
one_by_one() {
    local suite log=$said/$1
    for suite in "$@"; do
        "scripts/$suite.sh" ${all:+--all} >"$log" 2>&1 || echo "$suite" >>"$said/failed"
        cat "$log" >&2
    done
}

# Those of the first line compute, and the others mostly wait for somebody else's program. Each line is a group of processes, which ends with us.
said=$(mktemp -d) lines=()
trap 'kill -- "${lines[@]/#/-}" 2>/dev/null || true; rm -rf "$said"' EXIT
set -m
for line in "web clients" mcp-door "installed agents mcp oauth approvals webhooks templates jsonpath"; do
    # shellcheck disable=SC2086 # the suites of a line are words
    one_by_one $line </dev/null &
    lines+=($!)
done
wait
[ ! -e "$said/failed" ] || fail "failed, as is said above: $(paste -sd ' ' "$said/failed")"
say "all suites passed after $SECONDS s"
