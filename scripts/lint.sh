#!/usr/bin/env bash
# lint.sh: every check that does not need to run the code.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

main() {
    need_cargo
    need_web
    # `make test` would build the server again if the web UI were built after it.
    build_web
    say "formatting"
    cargo fmt --all --check || fail "the code is not formatted: run \`make fmt\`"
    say "clippy"
    no_warnings
    say "dependencies"
    one_tls_provider
    one_registry
    say "the web UI"
    (cd web && npm run --silent lint >&2) || fail "the web UI is not clean: run \`make fmt\`, and mend what the lines above name"
    say "files"
    no_machine_paths
    short_architecture
    say "lint passed after $SECONDS s"
}

# Builds everything that `make test` runs, so that it is not built twice. cargo repeats the warnings of crates that were built before.
no_warnings() {
    lint_while_building
    local log
    log=$(mktemp)
    cargo test --no-run --locked --workspace --all-targets --color never 2>&1 | tee "$log" >&2 || fail "the code does not compile"
    ! grep -q '^warning: .* generated [0-9]* warning' "$log" || fail "the warnings above are errors"
    rm -f "$log"
}

# ring is our TLS provider. A second one would add minutes of C compilation, and which of the two is used would be random at run time.
one_tls_provider() {
    local tree
    tree=$(cargo tree --workspace --target all --edges normal,build,dev -i aws-lc-sys 2>/dev/null || true)
    [ -z "$tree" ] || fail "something depends on aws-lc-sys, and ring is our only TLS provider:"$'\n'"$tree"
}

one_registry() {
    local others
    others=$(grep '^source = ' Cargo.lock | grep -v '"registry+https://github.com/rust-lang/crates.io-index"' || true)
    [ -z "$others" ] || fail "Cargo.lock takes packages from elsewhere than crates.io:"$'\n'"$others"
}

no_machine_paths() {
    local found
    found=$(tracked_files | xargs -0 grep -nIE '(^|[^[:alnum:]_./-])/((root|work)/|home/[a-z])' -- /dev/null || true)
    [ -z "$found" ] || fail "a path of somebody's machine does not belong in the repository:"$'\n'"$found"
}

short_architecture() {
    [ -f ARCHITECTURE.md ] || return 0
    local lines
    lines=$(wc -l <ARCHITECTURE.md)
    [ "$lines" -le 250 ] || fail "ARCHITECTURE.md has $lines lines: over 250 nobody reads it to the end"
}

# Lists the files that are committed or would be committed next.
tracked_files() {
    if git rev-parse --git-dir >/dev/null 2>&1; then
        git ls-files -z --cached --others --exclude-standard --deduplicate
    else
        find . -type f -not -path './target/*' -not -path '*/node_modules/*' -print0
    fi
}

main
