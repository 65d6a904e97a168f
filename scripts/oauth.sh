#!/usr/bin/env bash
# oauth.sh: a login for a connection at a real authorization server, oidc-provider: registration, PKCE, `iss`, `resource`, renewal, and a login
# that its owner ends; and people who sign in there to this server. Afterwards no token is found in anything that the server keeps. Everything is
# installed and written below target/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

main() {
    need_issuer
    command -v curl >/dev/null || install_packages "curl" curl
    binary=${CARGO_TARGET_DIR:-target}/debug/countersign
    [ -x "$binary" ] || fail "$binary is missing: run \`make test\`, which builds it"
    trap stop EXIT
    run=$(mktemp -d "$ISSUER/run.XXXXXX")
    start_program provider "$ISSUER_NODE" "$ISSUER/provider.mjs" "$(free_port)"
    issuer=$address
    printf 'canary-client-secret-7731\n' >"$run/client.secret"
    COUNTERSIGN_OIDC_ISSUER=$issuer COUNTERSIGN_OIDC_NAME="Example SSO" COUNTERSIGN_OIDC_CLIENT_ID=countersign \
        COUNTERSIGN_OIDC_CLIENT_SECRET_FILE=$run/client.secret COUNTERSIGN_OIDC_SCOPES=openid,profile,groups \
        COUNTERSIGN_OIDC_ROLES=approvers=approver,ops=admin COUNTERSIGN_OIDC_ALLOWED_NETWORKS=127.0.0.1/32 \
        COUNTERSIGN_LOG_LEVEL=trace COUNTERSIGN_SOURCE_ALLOWED_HOSTS=$issuer COUNTERSIGN_SOURCE_ALLOWED_NETWORKS=127.0.0.1/32 start_server
    sign_in
    log_in
    is_let_in
    # The token ends one second after it was given, as far as this server is concerned. On a busy machine it may have ended before.
    local before
    before=$(curl -sS "$issuer/renewals")
    sleep 2
    is_let_in
    [ "$(curl -sS "$issuer/renewals")" -gt "$before" ] || fail "the token was not renewed: $(curl -sS "$issuer/renewals")"
    curl -sS -X POST "$issuer/end" >/dev/null
    sleep 2
    ! "$binary" connection test linear >"$run/log" 2>&1 || fail "a login that was ended is still taken"
    grep -q "needs a login" "$run/log" || fail "it does not say what has to be done: $(cat "$run/log")"
    log_in_again
    is_let_in
    "$binary" source add linear --mcp "$issuer/mcp" --connection linear --trust-hints >"$run/log" 2>&1 || fail "the source: $(cat "$run/log")"
    "$binary" action invoke linear.look >"$run/result" 2>"$run/log" || fail "a call with the login: $(cat "$run/log")"
    no_token_is_found
    "$binary" source remove linear --yes 2>/dev/null
    "$binary" connection remove linear --yes 2>/dev/null
    "$binary" receipt verify >/dev/null 2>&1 || fail "the audit log does not verify"
    say "the login at oidc-provider passed after $SECONDS s"
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# The command waits while a browser, which keeps its cookies, goes where it says.
log_in() {
    "$binary" connection add linear "$issuer/mcp" --oauth >"$run/added" 2>"$run/told" &
    local waits=$!
    until grep -q '^http' "$run/told"; do
        kill -0 "$waits" 2>/dev/null || fail "no login was started: $(cat "$run/told")"
        sleep 0.05
    done
    browse "$(grep '^http' "$run/told")"
    wait "$waits" || fail "the command did not see the login: $(cat "$run/told")"
}

log_in_again() {
    browse "$("$binary" connection login linear --no-wait 2>/dev/null)"
}

browse() {
    curl -sSL --max-redirs 20 -c "$run/cookies" -b "$run/cookies" "$1" >"$run/page" || fail "the browser was left behind: $(cat "$run/provider.log")"
    grep -q "is ready" "$run/page" || fail "the login did not end well: $(head -c 1500 "$run/page") $(tail -n 5 "$run/provider.log")"
}

is_let_in() {
    "$binary" connection test linear >"$run/log" 2>&1 || fail "the connection does not work: $(cat "$run/log") $(tail -n 5 "$run/provider.log")"
}

# People sign in at the issuer: nobody without a group that has a role, and each in the role of their group now, up to what an admin gave them.
sign_in() {
    local browser=$run/signed-in
    curl -sS "$COUNTERSIGN_URL/login" >"$run/page"
    grep -q "Sign in with Example SSO" "$run/page" || fail "the page does not offer to sign in: $(cat "$run/page")"
    come_back
    grep -q "none of your groups at Example SSO gives you a role here" "$run/page" || fail "nobody was refused: $(head -c 1500 "$run/page")"
    in_group approvers
    is_signed_in_as member
    "$binary" user role robin admin --yes >"$run/log" 2>&1 || fail "the role: $(cat "$run/log")"
    is_signed_in_as approver
    in_group ops
    is_signed_in_as admin
    "$binary" user list >"$run/log" 2>&1
    grep -q robin "$run/log" || fail "the person is not listed: $(cat "$run/log")"
    curl -sS -b "$browser" "$COUNTERSIGN_URL/login/oidc/callback?code=x&state=x" >"$run/page"
    grep -q "this login is not open" "$run/page" || fail "a made-up state was taken: $(cat "$run/page")"
}

in_group() {
    curl -sS -X POST "$issuer/groups?g=$1" >/dev/null
}

# A browser, which keeps its cookies, goes to the issuer and comes back.
come_back() {
    curl -sSL --max-redirs 20 -c "$browser" -b "$browser" "$COUNTERSIGN_URL/login/oidc?next=/receipts" >"$run/page" ||
        fail "the browser was left behind: $(tail -n 5 "$run/provider.log")"
}

is_signed_in_as() {
    come_back
    grep -q "You are signed in" "$run/page" || fail "the sign-in did not end well: $(head -c 1500 "$run/page") $(tail -n 5 "$run/server.log")"
    local word
    word=$(curl -sS -b "$browser" "$COUNTERSIGN_URL/login/word" | sed 's/.*"word":"\([^"]*\)".*/\1/')
    curl -sS -b "$browser" -H "x-countersign-csrf: $word" "$COUNTERSIGN_URL/api/v1/whoami" >"$run/log"
    grep -q "\"role\":\"$1\"" "$run/log" || fail "whoever signed in is not $1: $(cat "$run/log")"
}

# Every token that was given out is searched for in everything that the server keeps and said.
no_token_is_found() {
    "$binary" backup "$run/all.backup" --data "$run/data" 2>/dev/null
    "$binary" receipt export "$run/log.jsonl" 2>/dev/null
    curl -sS "$issuer/issued" >"$run/issued"
    [ "$(grep -c . "$run/issued")" -ge 4 ] || fail "the search has nothing to look for: $(cat "$run/issued")"
    local found
    found=$(grep -rlaF --exclude=issued -f "$run/issued" "$run" || true)
    [ -z "$found" ] || fail "a token is in the clear in: $found"
}

main
