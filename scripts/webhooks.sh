#!/usr/bin/env bash
# webhooks.sh: the webhooks of channels, as a library of others verifies them (standardwebhooks): a test message, a call that waits and how it
# ended, a message that is repeated under its id, and forged ones that are refused. Everything is installed and written below target/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

main() {
    need_webhooks
    binary=${CARGO_TARGET_DIR:-target}/debug/countersign
    [ -x "$binary" ] || fail "$binary is missing: run \`make test\`, which builds it"
    trap stop EXIT
    run=$(mktemp -d "$webhooks/run.XXXXXX")
    secret=whsec_$("$python" -c 'import base64, os; print(base64.b64encode(os.urandom(32)).decode())')
    start_program receiver "$python" clients/webhooks/receiver.py "$secret" "$run/taken"
    receiver=$address
    COUNTERSIGN_SOURCE_ALLOWED_HOSTS=$receiver COUNTERSIGN_SOURCE_ALLOWED_NETWORKS=127.0.0.1/32 start_server
    printf '%s' "$secret" | "$binary" secret set pager-key --stdin >"$run/log" 2>&1 || fail "the secret: $(cat "$run/log")"
    "$binary" channel add pager --webhook "$receiver/hook" --secret pager-key >"$run/log" 2>&1 || fail "the channel: $(cat "$run/log")"
    "$binary" channel test pager >"$run/log" 2>&1 || fail "the test message was refused: $(cat "$run/log")"
    took pager channel.test
    local call
    call=$("$binary" action invoke files.write_text path=a text=b --no-wait -o name 2>/dev/null || true)
    # The first attempt was answered with 503.
    took "$call" invocation.held
    [ "$(grep -F "$call" "$run/taken" | grep -c invocation.held)" = 2 ] || fail "the message was not repeated: $(cat "$run/taken")"
    [ "$(grep -F "$call" "$run/taken" | cut -d '"' -f 4 | sort -u | wc -l)" = 1 ] || fail "it was repeated under another id: $(cat "$run/taken")"
    "$binary" approve "$call" >"$run/log" 2>&1 || fail "the approval: $(cat "$run/log")"
    took "$call" invocation.succeeded
    forged
    "$binary" receipt verify >/dev/null 2>&1 || fail "the audit log does not verify"
    ! grep -qF "${secret#whsec_}" "$run/server.log" || fail "the secret is in the server's log"
    say "the webhooks passed after $SECONDS s"
}

need_webhooks() {
    need_interpreters
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages "Python's venv" python3-venv
    command -v curl >/dev/null || install_packages "curl" curl
    webhooks=$(mkdir -p "${CARGO_TARGET_DIR:-target}/clients/webhooks" && cd "${CARGO_TARGET_DIR:-target}/clients/webhooks" && pwd)
    python=$webhooks/python/bin/python
    local wanted
    wanted=$(cksum <clients/webhooks/requirements.txt)
    [ "$(cat "$webhooks/installed" 2>/dev/null)" != "$wanted" ] || return 0
    say "installing standardwebhooks"
    rm -rf "$webhooks/python"
    python3 -m venv "$webhooks/python" &&
        "$webhooks/python/bin/pip" install --quiet --disable-pip-version-check -r clients/webhooks/requirements.txt >&2 ||
        fail "pip could not install what clients/webhooks asks for"
    printf '%s' "$wanted" >"$webhooks/installed"
}

# took <what> <type>: waits until such a message was verified and taken.
took() {
    local tries=0
    until grep -F "$1" "$run/taken" 2>/dev/null | grep -F '"taken": true' | grep -qF "\"type\": \"$2\""; do
        tries=$((tries + 1))
        [ "$tries" -lt 400 ] || fail "no message \`$2\` about \`$1\`: $(cat "$run/taken" 2>/dev/null) $("$binary" channel deliveries 2>&1)"
        sleep 0.05
    done
}

# The library refuses what we did not sign, so what it took above says something.
forged() {
    local signature status
    for signature in "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" "v2,AAAA"; do
        status=$(curl -sS -o /dev/null -w '%{http_code}' -H "webhook-id: forged" -H "webhook-timestamp: $(date +%s)" \
            -H "webhook-signature: $signature" -d '{"type":"invocation.held"}' "$receiver/hook")
        [ "$status" = 401 ] || fail "a forged message was answered with $status"
    done
}

main
