#!/usr/bin/env bash
# fmt.sh: formats the code.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

need_cargo
say "formatting"
cargo fmt --all
