#!/usr/bin/env bash
# bench.sh [arguments of the benchmark]: builds the release binary and measures it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

need_cargo
need_web
need_bubblewrap
# The benchmark compares a call over MCP with the proxies of others.
need_mcp
need_mcp_door
export BENCH_FASTMCP=$TEST_MCP_SERVERS/python/bin/python BENCH_MCP_PROXY=$door/python/bin/python
say "building for release (the first time takes about half an hour)"
cargo build --locked --release -p countersign-cli -p countersign-bench
# Writes the build's dirty pages to disk now, so that they are not written during the measurement.
sync
say "built in $SECONDS s, measuring"
export ON_DISK=1
exec scripts/with-servers.sh "${CARGO_TARGET_DIR:-target}/release/countersign-bench" "$@"
