#!/usr/bin/env bash
# run.sh [arguments of countersign serve]: builds the web UI and the binary, and starts the server.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

need_cargo
build_web

say "building countersign (the first time takes minutes)"
cargo build --locked -p countersign-cli --bin countersign
say "built in $SECONDS s, starting \`countersign serve${*:+ $*}\`"
exec cargo run -q --locked -p countersign-cli --bin countersign -- serve "$@"
