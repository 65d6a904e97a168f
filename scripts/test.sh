#!/usr/bin/env bash
# test.sh [arguments of cargo]: every suite, on SQLite and PostgreSQL.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

need_cargo
need_web
need_interpreters

scope=(--workspace)
for argument in "$@"; do
    # cargo would let --workspace win over a package that was asked for.
    case $argument in -p | -p?* | --package | --package=*) scope=() ;; esac
done

if cargo nextest --version >/dev/null 2>&1; then
    # Most tests wait for a server, a disk or a deadline: more of them than there are cores keep the cores busy.
    runner=(cargo nextest run --locked --test-threads "$((2 * $(getconf _NPROCESSORS_ONLN)))")
else
    runner=(cargo test --locked)
fi

say "testing with \`${runner[*]}\`"
exec scripts/with-servers.sh "${runner[@]}" ${scope[@]+"${scope[@]}"} "$@"
