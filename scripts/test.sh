#!/usr/bin/env bash
# test.sh [--all] [arguments of cargo]: every suite, on SQLite, and on PostgreSQL what depends on it.
# With --all the rest runs on PostgreSQL too, and what is repeated is repeated more often. That is for the night.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

need_cargo
need_web
need_interpreters
lint_while_building

scope=(--workspace) all='' arguments=()
for argument in "$@"; do
    case $argument in
    --all)
        all=yes
        continue
        ;;
    # cargo would let --workspace win over a package that was asked for.
    -p | -p?* | --package | --package=*) scope=() ;;
    esac
    arguments+=("$argument")
done
[ -z "$all" ] || export TEST_ALL=1
whole=$([ ${#arguments[@]} = 0 ] && echo yes || true)

if cargo nextest --version >/dev/null 2>&1; then
    # Most tests wait for a server, a disk or a deadline: more of them than there are cores keep the cores busy.
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
[ -z "$whole" ] || scripts/clients.sh
