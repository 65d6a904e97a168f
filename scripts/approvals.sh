#!/usr/bin/env bash
# approvals.sh: an agent's loop waits for a person in every way in which people answer: at the command line, with a button in Slack, with the link of
# a mail, each yes and no, and not at all. Everything is installed and written below target/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

main() {
    need_mail
    binary=${CARGO_TARGET_DIR:-target}/debug/countersign
    [ -x "$binary" ] || fail "$binary is missing: run \`make test\`, which builds it"
    trap 'rm -rf "${run-}"' EXIT
    mkdir -p "${CARGO_TARGET_DIR:-target}/clients"
    run=$(mktemp -d "${CARGO_TARGET_DIR:-target}/clients/approvals.XXXXXX")
    "$MAIL_PYTHON" clients/approvals/journey.py "$binary" "$run" >"$run/said" 2>&1 ||
        fail "the loop of an agent:"$'\n'"$(tail -n 20 "$run/said")"$'\n'"$(tail -n 5 "$run/log" 2>/dev/null)"
    say "the approvals passed after $SECONDS s"
}

main
