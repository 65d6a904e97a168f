#!/usr/bin/env bash
# fmt.sh: formats the code.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

need_cargo
need_web
say "formatting"
cargo fmt --all
(cd web && npm run --silent fmt >&2)
