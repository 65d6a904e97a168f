//! Every limit of the product, each with its unit in the name and a comment that says what happens when it is reached.

/// Invocations one session may have pending; the next is refused with `too_many_pending` until one is answered.
pub const PENDING_PER_SESSION_MAX: u32 = 10;
/// How long a person at the screen has to answer; then the invocation is `expired`, with a receipt.
pub const APPROVAL_INTERACTIVE_SECONDS: u64 = 5 * 60;
/// How long a person has to answer a call of an unattended session; then it is `expired`.
pub const APPROVAL_UNATTENDED_SECONDS: u64 = 24 * 60 * 60;
/// How long a grant lasts by default; then it is `expired`.
pub const GRANT_SECONDS_DEFAULT: u64 = 24 * 60 * 60;
/// The longest a grant may live; a longer one is refused with `invalid_request`.
pub const GRANT_SECONDS_MAX: u64 = 90 * 24 * 60 * 60;
/// How long an agent's request for a grant waits for a person; then it is `expired`.
pub const GRANT_REQUEST_SECONDS: u64 = 24 * 60 * 60;
/// Bytes of a grant's condition; a larger one is refused with `invalid_request`.
pub const GRANT_CONDITION_BYTES_MAX: usize = 16 * 1024;
/// The longest window in which a grant bounds a sum; a longer one is refused with `invalid_request`.
pub const GRANT_SUM_SECONDS_MAX: u64 = GRANT_SECONDS_MAX;
/// Bytes of the pointer to the param that a grant adds up; a longer one is refused with `invalid_request`.
pub const GRANT_SUM_POINTER_BYTES_MAX: usize = 256;
/// Grants that an explanation names because they nearly replaced the approval; of more, it has the nearest.
pub const NEAR_GRANTS_MAX: usize = 5;
/// Grants for an action that an explanation looks at, the newest first; older ones are not named.
pub const NEAR_GRANTS_LOOKED_AT_MAX: u32 = 50;
/// How often a person would have been asked about an action before the report of a space that observes suggests a rule for it.
pub const OBSERVED_OFTEN: u64 = 3;
/// How far back the report of a space that observes looks by default.
pub const OBSERVED_SECONDS_DEFAULT: u64 = 24 * 60 * 60;
/// Rows of the report of a space that observes; of more, it has those that ask most, and says that it is cut.
pub const OBSERVED_ROWS_MAX: usize = 1_000;
/// Open requests for grants of one session; the next is refused with `too_many_pending`.
pub const GRANT_REQUESTS_PER_SESSION_MAX: usize = 10;
/// How often a call is decided again because a rule changed meanwhile; then it is refused with `rules_changing`, and retrying is safe.
pub const DECISIONS_MAX: u32 = 20;
/// Calls in one batch; more are refused with `invalid_batch`.
pub const BATCH_PARTS_MAX: usize = 50;
/// Invocations answered with one request; more are refused with `invalid_request`.
pub const BULK_ANSWERS_MAX: usize = 100;
/// The longest lifetime of a link that answers one invocation; it also ends with the invocation.
pub const LINK_SECONDS_MAX: u64 = 24 * 60 * 60;
/// How long a browser stays logged in unless it is used in the second half of this time; then its person has to log in again.
pub const LOGGED_IN_SECONDS: u64 = 60 * 60;
/// How long a browser stays logged in, however it is used; then its person has to log in again.
pub const LOGGED_IN_SECONDS_MAX: u64 = 12 * 60 * 60;
/// How long the address that `serve` shows logs its reader in, once; then they log in with a token.
pub const ONE_TIME_LOGIN_SECONDS: u64 = 15 * 60;
/// Browsers in which one token is logged in; with one more, the browser that came first is logged out.
pub const LOGINS_PER_TOKEN_MAX: i64 = 20;
/// Sign-ins at an issuer that were begun and not ended, in one org; with one more, the one that was begun first ends.
pub const SIGN_INS_OPEN_MAX: i64 = 1_000;
/// Sign-ins that one address may begin in a minute; then it has to wait, and gets `rate_limited`. In the `LOGIN_SECONDS` that they stay open these are
/// fewer than `SIGN_INS_OPEN_MAX`, so one address ends nobody else's. Each server counts for itself.
pub const SIGN_INS_PER_MINUTE_MAX: u32 = 60;
/// Wrong tokens that one address may try in a minute to log in; then it has to wait, and gets `rate_limited`. Each server counts for itself.
pub const LOGIN_TRIES_PER_MINUTE_MAX: u32 = 10;
/// Addresses whose wrong logins are remembered; beyond this, all of them are forgotten.
pub const LOGIN_TRIES_ADDRESSES_MAX: usize = 10_000;
/// How long an invitation can be redeemed.
pub const INVITATION_SECONDS: u64 = 7 * 24 * 60 * 60;
/// The longest lifetime of a consent; one without an expiry lasts until it is withdrawn.
pub const CONSENT_SECONDS_MAX: u64 = 10 * 365 * 24 * 60 * 60;
/// Canary tokens of one org; the next is refused with `invalid_request`.
pub const CANARIES_MAX: usize = 100;
/// Characters of a canary token; a longer one is refused with `invalid_request`.
pub const CANARY_CHARS_MAX: usize = 200;
/// Characters of a secret's name; a longer one is refused with `invalid_request`.
pub const SECRET_NAME_CHARS_MAX: usize = 64;
/// Bytes of a secret's value; a longer one is refused with `invalid_request`.
pub const SECRET_VALUE_BYTES_MAX: usize = 64 * 1024;
/// How exactly it is known when a secret was last used. Within this time a further use writes nothing.
pub const SECRET_USED_SECONDS: u64 = 60;
/// Bytes of the address that a connection is for, of a header's name, and of a user's name; longer ones are refused with `invalid_request`.
pub const CONNECTION_TEXT_BYTES_MAX: usize = 2_048;
/// Channels that an org may have; the next is refused with `invalid_request`.
pub const CHANNELS_MAX: usize = 50;
/// Bytes of each text in the settings of a channel; longer ones are refused with `invalid_request`.
pub const CHANNEL_TEXT_BYTES_MAX: usize = 2_048;
/// People whom one channel can name; more are refused with `invalid_request`.
pub const CHANNEL_RECIPIENTS_MAX: usize = 50;
/// How long a channel can wait before it is told of a call; more is refused with `invalid_request`.
pub const CHANNEL_AFTER_SECONDS_MAX: u32 = 24 * 60 * 60;
/// How often a server looks for notices to deliver, if nothing wakes it before.
pub const COURIER_SECONDS: u64 = 1;
/// Events that one write turns into deliveries.
pub const OUTBOX_EVENTS: u32 = 256;
/// Deliveries of one channel that one server has under way at a time. The others wait in the store.
pub const DELIVERIES_AT_ONCE: u32 = 8;
/// How long one attempt of a delivery may take; then it counts as failed.
pub const DELIVERY_ATTEMPT_SECONDS: u64 = 10;
/// How long whoever is told may take to answer one request; it is less than the whole attempt may take.
pub const OUTBOUND_ANSWER_MS: u64 = 8_000;
/// Bytes read of such an answer; the rest is left.
pub const OUTBOUND_ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long a server has a delivery for itself. After that another one may try: the first must be gone.
pub const DELIVERY_CLAIM_SECONDS: u64 = 60;
/// For this long after its first attempt a delivery is repeated; then it is a dead letter.
pub const DELIVERY_GIVE_UP_SECONDS: u64 = 60 * 60;
/// The bound of the wait after the first failed attempt. It doubles with every attempt.
pub const DELIVERY_RETRY_MS: u64 = 5_000;
/// The longest wait between two attempts.
pub const DELIVERY_RETRY_MS_MAX: u64 = 5 * 60 * 1_000;
/// Characters kept of what went wrong with a delivery.
pub const DELIVERY_PROBLEM_CHARS_MAX: usize = 500;
/// How long an ended delivery is kept, a dead letter too.
pub const DELIVERY_KEPT_SECONDS: u64 = 30 * 24 * 60 * 60;
/// Spaces that a connection can be limited to; more are refused with `invalid_request`.
pub const CONNECTION_SPACES_MAX: usize = 100;
/// How long a person has to log in for a connection, or to sign in at an issuer; then it is `expired`, and must be started again.
pub const LOGIN_SECONDS: u64 = 10 * 60;
/// Bytes of an answer of an authorization server; a longer one fails the login.
pub const OAUTH_ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long an authorization server may take to answer; then the login, or the call that needed a new token, fails.
pub const OAUTH_ANSWER_MS: u64 = 10_000;
/// How long one server alone may fetch a new token for a connection. It is longer than the answer may take, so that another server takes
/// over only from one that is gone.
pub const OAUTH_REFRESH_SECONDS: u64 = 30;
/// How long what an issuer says of itself is believed before it is asked again, at the next sign-in.
pub const ISSUER_KNOWN_SECONDS: u64 = 5 * 60;
/// How long an issuer that could not be used is not asked again.
pub const ISSUER_AWAY_SECONDS: u64 = 5;
/// How long before its end a token is no longer used, so that it does not end on its way.
pub const OAUTH_LEEWAY_SECONDS: u64 = 30;
/// How long the content of a quarantined call is kept for review; then it is deleted, and only the receipt is left.
pub const QUARANTINE_SECONDS: u64 = 7 * 24 * 60 * 60;
/// Params whose provenance a caller may declare; more are refused with `invalid_request`.
pub const PROVENANCE_MAX: usize = 100;
/// Check commands of one call; more are refused with `command_not_allowed`.
pub const COMMANDS_PER_CALL_MAX: usize = 16;
/// Characters of a check command; a longer one is refused with `command_not_allowed`.
pub const COMMAND_CHARS_MAX: usize = 1_000;
/// Characters of each text in a caller's `context`; a longer one is refused with `invalid_request`.
pub const CLAIMED_CHARS_MAX: usize = 200;
/// Bytes of a caller's own rollback plan, as JSON; a larger one is refused with `invalid_request`.
pub const ROLLBACK_PLAN_BYTES_MAX: usize = 4 * 1024;
/// Bytes of the fields of an older envelope that nobody here knows, as JSON; more are refused with `invalid_request`.
pub const UNKNOWN_FIELDS_BYTES_MAX: usize = 4 * 1024;
/// Invocations a session may start in a minute; the next is refused with `rate_limited` and the time to wait.
pub const INVOCATIONS_PER_MINUTE_MAX: u32 = 60;
/// Bytes of a stored result; a larger one is pruned structurally and marked `_truncated`.
pub const RESULT_STORED_BYTES_MAX: usize = 10 * 1024;
/// Progress lines of a running call that are kept for later followers; then the oldest is dropped, and followers are told that they missed
/// it.
pub const PROGRESS_LINES_MAX: usize = 256;
/// Bytes of these lines together; then the oldest are dropped in the same way.
pub const PROGRESS_BYTES_MAX: usize = 64 * 1024;
/// Bytes of one such line; a longer one is cut between two words.
pub const PROGRESS_LINE_BYTES_MAX: usize = 2 * 1024;
/// How long a follower gets no news before it gets a sign that the connection is alive.
pub const PROGRESS_SILENCE_SECONDS: u64 = 15;
/// How long one request follows an invocation; then the client has to ask again, and its token is checked again.
pub const PROGRESS_FOLLOW_SECONDS_MAX: u64 = 5 * 60;
/// Bytes of stored (redacted) params; larger ones are pruned structurally and marked `_truncated`.
pub const PARAMS_STORED_BYTES_MAX: usize = 64 * 1024;
/// Pending calls of which a server remembers whether they are void, once their params had to be opened to find it out; beyond this, all are
/// forgotten, and opened once more.
pub const VOIDS_REMEMBERED_MAX: usize = 10_000;
/// Sources that a session can name; more are refused with `invalid_request`.
pub const SESSION_SOURCES_MAX: usize = 64;
/// How long one request to a source may take, unless the definition sets less; then the call is `failed` or `in_doubt`.
pub const CALL_TIMEOUT_MS: u64 = 30_000;
/// A source gives up so long before the time of its call is over, or a tenth of that time if that is less, so that its caller gets the
/// source's own error.
pub const SOURCE_EARLY_MS: u64 = 250;
/// How long a call of a builtin action of safety class LOW may take; then it is `failed` or `in_doubt`.
pub const LOW_TIMEOUT_MS: u64 = 4_000;
/// The same for safety class MEDIUM. It is shorter: what cannot be fully undone is not left under way for long.
pub const MEDIUM_TIMEOUT_MS: u64 = 3_000;
/// Permissions that the manifest of a package's action may require, and effects that it may declare; more are refused.
pub const PACKAGE_REQUIRES_MAX: usize = 32;
/// Characters of such a permission, and of the version in a manifest; longer ones are refused.
pub const PACKAGE_WORD_CHARS_MAX: usize = 64;
/// How long a source may take to list its actions, unless an admin says otherwise; then the source is listed with an error.
pub const LIST_TIMEOUT_MS: u64 = 15_000;
/// The most that an admin can let it take.
pub const LIST_TIMEOUT_MS_MAX: u64 = 120_000;
/// How long the listing of a remote source is used; then the source is asked again.
pub const LISTING_SECONDS: u64 = 5 * 60;
/// How long the last listing of a remote source is used after the source could not be asked; then it is asked again.
pub const LISTING_RETRY_SECONDS: u64 = 10;
/// How long the last listing of a remote source is used for calls while the source lists nothing; then they get `source_unavailable`.
pub const LISTING_STALE_MAX_SECONDS: u64 = 24 * 60 * 60;
/// How often a listing that has not changed is kept anew, so that a restart knows how old it is.
pub const LISTING_KEPT_SECONDS: u64 = 60 * 60;
/// How long a call waits for a listing that it does not strictly need; then it uses the known one.
pub const LISTING_WAIT_MS: u64 = 1_000;
/// Attempts of one invocation, including the first; `FailureCause::permits_another` says what is tried again.
pub const ATTEMPTS_MAX: u32 = 3;
/// Failures of a target in a row; then its circuit breaker opens, and no call is let through for a while.
pub const BREAKER_FAILURES_MAX: u32 = 5;
/// Calls of a target that one server has made lately; from so many on, the breaker also opens if at least half of them failed.
pub const BREAKER_CALLS_MIN: u32 = 10;
/// What counts as lately: calls of the last minute, to within one of its parts.
pub const BREAKER_WINDOW_SECONDS: u64 = 60;
/// The parts of that minute, in each of which calls are counted together.
pub const BREAKER_WINDOW_PARTS: usize = 6;
/// Targets whose calls one server counts at a time; calls of further ones are only counted as failures in a row.
pub const BREAKER_TARGETS_MAX: usize = 10_000;
/// How long a circuit breaker stays open the first time; each further time it stays open twice as long.
pub const BREAKER_OPEN_SECONDS: u64 = 30;
/// The longest a circuit breaker stays open.
pub const BREAKER_OPEN_SECONDS_MAX: u64 = 600;
/// How long the one call that is let through has to decide; then another call is let through.
pub const BREAKER_PROBE_SECONDS: u64 = 60;
/// How long failures that did not open the breaker are remembered after the last of them.
pub const BREAKER_FORGOTTEN_SECONDS: u64 = 60 * 60;
/// Failing targets of one org; beyond this, a failure under a caller's new label is not counted under that label.
pub const BREAKERS_WITH_LABELS_MAX: usize = 100;
/// Requests to one source at a time; further ones wait, and get `source_busy` when their time is over.
pub const SOURCE_CALLS_MAX: usize = 128;
/// The first retry waits a random time up to this; each further retry up to twice as long as the one before.
pub const RETRY_BASE_MS: u64 = 200;
/// No retry waits longer than this; if the source asks for a longer wait, the call is not retried.
pub const RETRY_CAP_MS: u64 = 5_000;
/// How long an idempotency key answers with the earlier receipt.
pub const IDEMPOTENCY_SECONDS: u64 = 24 * 60 * 60;
/// Characters of an idempotency key; a longer one is refused with `invalid_request`.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 256;
/// Bytes of a request body; a larger one is refused with `body_too_large` before it is read.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a text in a request, and of the name of a member; a longer one is refused with `invalid_request` before anything looks at it. Params,
/// inputs, definitions and the like are values, bounded as a whole; the few texts that may be longer have a bound of their own.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;
/// A request with a larger body is handled by the threads for heavy work, and a value that is larger is looked at there.
pub const LIGHT_BYTES_MAX: usize = 16 * 1024;
/// Bytes of all request headers; the listener refuses more.
pub const HEADER_BYTES_MAX: usize = 32 * 1024;
/// How long a client may take to send its headers; then the connection is closed.
pub const HEADER_READ_SECONDS: u64 = 10;
/// How long what was sent may go without any sign that it arrived; then its connection is closed, because its peer is gone.
pub const PEER_SILENT_SECONDS: u32 = 30;
/// How long a connection may be silent before it is asked whether its peer is there, and how often it is asked then.
pub const PEER_PROBED_AFTER_SECONDS: u64 = 15;
pub const PEER_PROBED_EVERY_SECONDS: u64 = 5;
/// How long a client may take for the TLS handshake; then the connection is closed.
pub const TLS_HANDSHAKE_SECONDS: u64 = 10;
/// Bytes of a file with a certificate or a key; a larger one cannot be used.
pub const TLS_FILE_BYTES_MAX: usize = 1024 * 1024;
/// How often the files of the certificate are looked at; a new certificate is in use that much later at most.
pub const TLS_LOOK_SECONDS: u64 = 5;
/// How long before the end of the certificate the log warns of it.
pub const TLS_WARNING_SECONDS: u64 = 7 * 24 * 60 * 60;
/// Addresses of proxies that are read from one request, the nearest first; what stands before them is not looked at.
pub const FORWARDED_HOPS_MAX: usize = 20;
/// Bytes of one message over `countersign mcp`, in either direction; a longer one is answered with an error.
pub const MCP_LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Requests that one `countersign mcp` has open at once; the next is answered with an error.
pub const MCP_OPEN_REQUESTS_MAX: usize = 256;
/// How long a client may take to send its body; then it gets `request_timeout`.
pub const BODY_READ_SECONDS: u64 = 30;
/// Nesting of accepted JSON; deeper is refused with `malformed_json`.
pub const JSON_DEPTH_MAX: usize = 64;
/// The longest a read may keep the connection open to wait for a change (`?wait=`).
pub const WAIT_SECONDS_MAX: u64 = 60;
/// Rows of one page; a larger `limit` is refused with `invalid_query`.
pub const PAGE_ROWS_MAX: u32 = 100;
/// Rows of one page when no `limit` is given.
pub const PAGE_ROWS_DEFAULT: u32 = 50;
/// How often the sweep expires pending invocations. The deadline itself is checked when a call is answered, not by the sweep.
pub const SWEEP_SECONDS: u64 = 5;
/// A checkpoint is signed at most this long after the audit log has grown.
pub const CHECKPOINT_SECONDS: u64 = 1;
/// A checkpoint is signed after at most this many new entries.
pub const CHECKPOINT_ENTRIES: u64 = 256;
/// Characters of a caller's `reason`; more is refused with `invalid_request`.
pub const REASON_CHARS_MAX: usize = 2_000;
/// Bytes of a text file that `files.read_text` returns; a larger file is an error naming its size.
pub const FILE_READ_BYTES_MAX: u64 = 512 * 1024;
/// Bytes of text that `files.write_text` writes, so that `files.read_text` can read every such file; more is refused with `file_too_large`.
pub const FILE_WRITE_BYTES_MAX: usize = 512 * 1024;
/// Bytes of a file that is replaced or deleted: it is kept as a snapshot first, and a larger one is refused with `file_too_large`.
pub const FILE_SNAPSHOT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of a path inside the workspace; a longer one is refused with `path_not_allowed`.
pub const FILE_PATH_BYTES_MAX: usize = 1_024;
/// Bytes of one name in a path; a longer one is refused with `path_not_allowed`.
pub const FILE_NAME_BYTES_MAX: usize = 255;
/// Names in a path, folders included; a deeper one is refused with `path_not_allowed`.
pub const FILE_DEPTH_MAX: usize = 64;
/// Entries that `files.list` looks at; further ones are not even counted.
pub const FILE_LIST_VISITED_MAX: usize = 100_000;
/// Entries that are looked at when a workspace is opened, to remove files that a crash left; the rest is left for the next start.
pub const FILE_LEFTOVERS_VISITED_MAX: usize = 1_000_000;
/// Bytes of the diff in a preview; a longer one is cut at a line and marked.
pub const FILE_DIFF_BYTES_MAX: usize = 6 * 1024;
/// Bytes of the diff of one file of a package's code in a review; a longer one is cut at a line and marked.
pub const CODE_DIFF_BYTES_MAX: usize = 64 * 1024;
/// Entries that `files.list` returns; further ones are counted, not listed.
pub const FILE_LIST_ENTRIES_MAX: usize = 1_000;
/// Bytes of a response body that the `http` actions read; a larger body is cut and marked.
pub const HTTP_RESPONSE_BYTES_MAX: usize = 256 * 1024;
/// Redirects the `http` actions follow, each checked anew; the next is an error.
pub const HTTP_REDIRECTS_MAX: usize = 5;
/// How long the `http` actions wait for a name, a connection and its handshake; then the host is unreachable, and no request was sent.
pub const HTTP_CONNECT_MS: u64 = 5_000;
/// Connections to one host that wait for another read of an MCP server. A call with an effect never uses one again.
pub const HTTP_KEPT_CONNECTIONS_MAX: usize = 8;
/// How long such a connection waits. Many servers close theirs after 5 s.
pub const HTTP_KEPT_MS: u64 = 4_000;
/// Bytes of a URL; a longer one is refused with `url_not_allowed`.
pub const HTTP_URL_BYTES_MAX: usize = 4_096;
/// Bytes of a request body of `http.request`; a larger one is refused with `body_too_large`.
pub const HTTP_REQUEST_BYTES_MAX: usize = 256 * 1024;
/// Headers a caller may set; more are refused with `header_not_allowed`.
pub const HTTP_HEADERS_MAX: usize = 32;
/// Bytes of a header's value; a longer one in a request is refused with `header_not_allowed`, a longer one in a response is cut.
pub const HTTP_HEADER_VALUE_BYTES_MAX: usize = 4_096;
/// Bytes of a document's text, so that its words fit the index of either database; more is refused with `invalid_params`, and such a file is
/// not imported.
pub const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Characters of a document's title; a longer one is refused with `invalid_params`.
pub const DOCUMENT_TITLE_CHARS_MAX: usize = 300;
/// Tags of a document, and characters of one; more are refused with `invalid_params`.
pub const DOCUMENT_TAGS_MAX: usize = 32;
pub const DOCUMENT_TAG_CHARS_MAX: usize = 64;
/// Documents that a space may have; more are refused with `too_many_documents`.
pub const DOCUMENTS_MAX: u64 = 100_000;
/// Files that one import looks at; a folder with more is refused with `too_many_files`.
pub const DOCUMENT_FILES_MAX: usize = 500;
/// Documents that one import adds or changes, and bytes of their texts; the next import goes on with the rest.
pub const DOCUMENT_CHANGES_MAX: usize = 100;
pub const DOCUMENT_IMPORT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Hits that one search returns, and how many if it does not say.
pub const DOCUMENT_HITS_MAX: u32 = 100;
pub const DOCUMENT_HITS_DEFAULT: u32 = 20;
/// Characters of a search, and words of it; longer ones are refused with `invalid_params`.
pub const DOCUMENT_QUERY_CHARS_MAX: usize = 500;
pub const DOCUMENT_QUERY_WORDS_MAX: usize = 16;
/// Characters of a snippet that shows no word of a search: the beginning of the text.
pub const DOCUMENT_SNIPPET_CHARS: usize = 200;
/// Characters of a notification's title; a longer one is refused with `invalid_params`.
pub const NOTIFICATION_TITLE_CHARS_MAX: usize = 200;
/// Characters of a notification's body; a longer one is refused with `invalid_params`.
pub const NOTIFICATION_BODY_CHARS_MAX: usize = 4_000;
/// Addresses that one mail goes to; more are refused with `invalid_params`.
pub const EMAIL_RECIPIENTS_MAX: usize = 10;
/// Bytes of an e-mail address, as RFC 5321 bounds it; a longer one is refused with `invalid_params`.
pub const EMAIL_ADDRESS_BYTES_MAX: usize = 254;
/// Characters of the subject of a mail; a longer one is refused with `invalid_params`.
pub const EMAIL_SUBJECT_CHARS_MAX: usize = 200;
/// Characters of the text of a mail; a longer one is refused with `invalid_params`.
pub const EMAIL_TEXT_CHARS_MAX: usize = 20_000;
/// How long a mail server may take from the connection to the last answer of a channel's mail; then it is tried again later.
pub const MAIL_SEND_MS: u64 = 8_000;
/// How old, or how far ahead, a request of Slack may be; then it is refused with `slack_request_expired`. Slack itself asks for this.
pub const SLACK_WINDOW_SECONDS: u64 = 5 * 60;
/// Bytes of a request of Slack; a larger one is refused with `body_too_large`.
pub const SLACK_REQUEST_BYTES_MAX: usize = 256 * 1024;
/// How long a request of Slack waits for what became of an answer; then it is told later, in the message. Slack waits three seconds.
pub const SLACK_ANSWER_MS: u64 = 2_000;
/// Characters of the params of a call that a message in Slack shows. Of more it shows a part, and has no button that approves.
pub const SLACK_PARAMS_CHARS_MAX: usize = 2_800;
/// Characters of any other text in a message in Slack; more is cut.
pub const SLACK_TEXT_CHARS_MAX: usize = 600;
/// How long ago a moment in a query may be, if it is given as a time span; a longer one is refused with `invalid_query`.
pub const MOMENT_SECONDS_MAX: u64 = 3_650 * 24 * 60 * 60;
/// Calls that the stats of an action count; of more, the newest.
pub const STATS_CALLS_MAX: u32 = 10_000;
/// How long a stopping server waits for running invocations; the next start recovers the rest.
pub const SHUTDOWN_SECONDS: u64 = 35;
/// Days for which rollback evidence is kept. After that the effect cannot be reverted.
pub const SNAPSHOT_DAYS: u64 = 180;
pub const REVERSIBLE_SECONDS_MAX: u64 = SNAPSHOT_DAYS * 24 * 60 * 60;
/// Days for which events are kept, unless the org says otherwise. Both verifiers count on it where a log says nothing of its retention: another
/// number here needs an entry that tells it.
pub const EVENT_DAYS: u32 = 7;
/// The fewest and the most days that an org may keep calls, events or snapshots for; other numbers are refused with `invalid_request`. A
/// caller may come back for a call within a day, by its idempotency key.
pub const RETENTION_DAYS_MIN: u32 = 2;
pub const RETENTION_DAYS_MAX: u32 = 36_500;
/// The fewest bytes that an org may limit its snapshots to; fewer are refused with `invalid_request`. One snapshot must fit.
pub const SNAPSHOT_BYTES_MIN: u64 = FILE_SNAPSHOT_BYTES_MAX;
/// How long a snapshot is kept though there are too many bytes of them: what is being done now may need it.
pub const SNAPSHOT_SECONDS_MIN: u64 = 24 * 60 * 60;
/// Rows of each kind that one write forgets; the next write goes on.
pub const FORGET_ROWS: u32 = 500;
/// Writes with which one sweep forgets the rows of an org that it keeps no longer; the next sweep goes on.
pub const FORGET_WRITES: u32 = 100;
/// How long after its end the texts of a call are replaced by digests, where its space keeps no others: whoever waits for the result gets it.
pub const DIGEST_AFTER_SECONDS: u64 = 60 * 60;
/// Days for which the token of a new session is valid; after that a new session is needed.
pub const AGENT_TOKEN_DAYS: u64 = 30;
/// How long after an effect could not be checked it is checked again.
pub const UNVERIFIED_SECONDS: u64 = 60;
/// The longest an invocation can really be `running`, about six hours. If it is not known which server runs it, an invocation that has been
/// running for longer was left behind, and it is reconciled. The sum of everything that may happen in that time, each at its slowest:
pub const RUNNING_SECONDS_MAX: u64 = {
    // A source may let a request wait for its turn as long as it may then take to answer.
    let question_ms = 2 * CALL_TIMEOUT_MS;
    // Preparing, then performing.
    let one_try = 2;
    // `one_look`: reconciling if the outcome is unknown, and sending the same request again; then the action's own checks and the caller's
    // commands. Checks are retried as often as effects, and have half as much time again, in which they wait for a turn.
    let attempts = ATTEMPTS_MAX as u64;
    let looks = attempts * (1 + COMMANDS_PER_CALL_MAX as u64);
    let one_look = 2 + looks.div_ceil(2) * 3;
    let taking_back = attempts;
    // A rollback has half as much time again too, and is asked for a second time if the outcome of the first is unknown.
    let going_back = taking_back * 3;
    let questions = attempts * one_try + one_look + (going_back + one_try + one_look) + going_back;
    let waits_ms = (attempts + 2 * taking_back + 2 * looks) * RETRY_CAP_MS;
    // One intent for every attempt, one for the repair, one for each request sent again while reconciling, those of the rollbacks before
    // and after the repair; and the outcome.
    let entries = attempts + 1 + 2 + 2 * taking_back + 1;
    (questions * question_ms + waits_ms).div_ceil(1_000) + entries * RECORD_RETRY_SECONDS
};
/// How long a write statement may take; then the store counts as unavailable.
pub const STORE_WRITE_SECONDS: u64 = 30;
/// A PostgreSQL database that is away when a server starts is waited for, with a try every second; then the server ends.
pub const DATABASE_WAIT_SECONDS: u64 = 300;
/// A store that accepts no write for this long is not ready. Health checks should ask more often than this.
pub const READINESS_SECONDS: u64 = 3;
/// How often a server renews its lease, which tells the other servers on its database that it lives.
pub const LEASE_RENEW_SECONDS: u64 = 3;
/// A server that could not renew its lease for this long, after several tries, starts no effect until it can; callers get
/// `store_unavailable`.
pub const LEASE_FENCE_SECONDS: u64 = 20;
/// A server that has not renewed its lease for this long is gone, and other servers reconcile the calls it was running. By then everything
/// that it started before `LEASE_FENCE_SECONDS` has ended, one way or the other:
pub const LEASE_SECONDS: u64 = {
    // A source may let a request wait for its turn as long as it may then take to answer.
    let effect_seconds = 2 * CALL_TIMEOUT_MS / 1_000;
    // The intent may have been on its way to the disk when the server stopped starting effects.
    let commit_seconds = STORE_WRITE_SECONDS;
    // For clocks that run at different speeds.
    let margin_seconds = 10;
    LEASE_FENCE_SECONDS + commit_seconds + effect_seconds + margin_seconds
};
/// A server that has not renewed its lease for this long is silent: it is dead, or has lost touch and may still make the effects that it
/// started. A run that goes on elsewhere has its call asked about then already (`Pipeline::take_over`).
pub const LEASE_SILENT_SECONDS: u64 = RUN_LEASE_SECONDS;
/// How long a server that is gone stays in the list of servers.
pub const SERVER_REMEMBERED_SECONDS: u64 = 24 * 60 * 60;
/// How long it is remembered that an effect was reverted: practically for ever.
pub const REVERTED_SECONDS: u64 = 100 * 365 * 24 * 60 * 60;
/// How long a call under a taken idempotency key waits for the first call; then it gets `idempotency_in_flight`.
pub const IDEMPOTENCY_WAIT_SECONDS: u64 = 35;
/// How long a background task retries to record an outcome that could not be stored, once a second; then the next start finds the call
/// `in_doubt`.
pub const RECORD_RETRY_SECONDS: u64 = 600;
/// Bytes of an org's policies for one gate; a longer text is refused.
pub const POLICY_TEXT_BYTES_MAX: usize = 256 * 1024;
/// Bytes of one policy; a longer one is refused, because parsing a chain of conditions needs stack for every link.
pub const POLICY_BYTES_MAX: usize = 16 * 1024;
/// Nested brackets or `if`s in a policy; deeper ones are refused, because each level needs stack.
pub const POLICY_DEPTH_MAX: usize = 24;
/// Policies of an org over all gates; more are refused.
pub const POLICIES_MAX: usize = 2_000;
/// Characters of a policy's id, which is repeated in every receipt that the policy determines; a longer one is refused.
pub const POLICY_ID_CHARS_MAX: usize = 96;
/// Values that are redacted from the params of one call; with more, the params count as unreadable and the call is quarantined.
pub const REDACTION_REPLACED_MAX: usize = 10_000;
/// How often phone numbering plans are consulted for one call, some microseconds each; beyond, the params count as unreadable and the call
/// is quarantined.
pub const REDACTION_PHONE_TRIES_MAX: usize = 20_000;
/// Bytes of an image before it is decoded; a larger one counts as unreadable, and the call is quarantined.
pub const REDACTION_IMAGE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Pixels of an image; one with more counts as unreadable, and the call is quarantined.
pub const REDACTION_IMAGE_PIXELS_MAX: u64 = 4_000_000;
/// Pixels of all images of one call together, some seconds of work; the first image beyond counts as unreadable, and the call is
/// quarantined.
pub const REDACTION_IMAGES_PIXELS_MAX: u64 = 8_000_000;
/// Images in one call; the first beyond counts as unreadable, and the call is quarantined.
pub const REDACTION_IMAGES_MAX: u32 = 16;
/// Decoded bytes below which a base64 text without `data:` is not taken for an image.
pub const REDACTION_IMAGE_BYTES_MIN: usize = 1_024;
/// Bytes of all files of an installed package together; a larger one is refused with `package_invalid`.
pub const PACKAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Files of an installed package; one with more is refused with `package_invalid`.
pub const PACKAGE_FILES_MAX: usize = 256;
/// Bytes of package code copies that a server keeps to show a reviewer what changed; beyond, the oldest copies are deleted.
pub const PACKAGE_CODE_KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of a request that installs a package: its files in base64, and the rest of the request.
pub const PACKAGE_BODY_BYTES_MAX: usize = PACKAGE_BYTES_MAX / 3 * 4 + 256 * 1024;
/// Installed packages; the next is refused with `package_invalid`.
pub const PACKAGES_MAX: usize = 200;
/// Calls of one package whose code runs at once; further ones wait for a turn and report that they wait.
pub const PACKAGE_RUNS_AT_ONCE: usize = 2;
/// Calls of all packages whose code runs at once; further ones wait for a turn.
pub const PACKAGES_RUNS_AT_ONCE: usize = 4;
/// Scripts and commands that check or revert effects at once, in addition to those.
pub const AFTERWARDS_RUNS_AT_ONCE: usize = 4;
/// How many of these may belong to one source: a source with slow checks delays only its own.
pub const AFTERWARDS_RUNS_OF_ONE: usize = 2;
/// Resident programs in the jail at once; the next is refused.
pub const RESIDENTS_AT_ONCE: usize = 96;
/// How many of them one owner may have: every source of an org, and some that are only tried, or that take over from one that still has
/// calls. The next is refused.
pub const RESIDENTS_OF_ONE: usize = SOURCES_MAX_DEFAULT as usize + 4;
/// Bytes of the last lines of a resident's stderr that are kept; older lines are dropped and counted.
pub const RESIDENT_STDERR_BYTES_MAX: usize = 64 * 1024;
/// Tools of one MCP server; a listing with more is refused.
pub const MCP_TOOLS_MAX: usize = 1_000;
/// Pages of a listing; a server that has more after them is refused.
pub const MCP_PAGES_MAX: usize = 100;
/// Bytes of all pages of a listing together; a longer listing is refused.
pub const MCP_LISTING_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of one tool's definition; a larger tool is left out and reported.
pub const MCP_TOOL_BYTES_MAX: usize = 256 * 1024;
/// Tools that were left out of which a listing reports why; further ones are counted.
pub const MCP_SKIPPED_MAX: usize = 100;
/// Bytes of one message of an MCP server: an answer, an event of a stream, a line. A longer one is not read on, and its request fails.
pub const MCP_MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// JSON values in one message; one with more is not read, and its request fails.
pub const MCP_MESSAGE_VALUES_MAX: usize = 100_000;
/// Bytes of what a source writes in one notification; of a longer one the event says only that it came.
pub const SOURCE_EVENT_BYTES_MAX: usize = 16 * 1024;
/// Events in a minute that tell what one source told; what is more is dropped and counted.
pub const SOURCE_EVENTS_PER_MINUTE: u32 = 60;
/// Notifications of one source that wait to become events; the next is dropped and counted.
pub const SOURCE_EVENTS_WAITING_MAX: usize = 64;
/// Resources of one MCP server whose changes it is asked to tell: the first of its list.
pub const MCP_SUBSCRIPTIONS_MAX: usize = 100;
/// Bytes of a message that is no answer to a call or a listing, such as the server's own requests; a longer one is ignored.
pub const MCP_CONTROL_BYTES_MAX: usize = 256 * 1024;
/// Bytes of all messages of one MCP server that are held at once; the answer that exceeds it fails.
pub const MCP_HELD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes and events of one event stream; then it is closed, and the request that it answers fails.
pub const MCP_STREAM_BYTES_MAX: usize = 16 * 1024 * 1024;
pub const MCP_STREAM_EVENTS_MAX: usize = 10_000;
/// How long to wait at least before a stream that ended is opened again, and how often that is tried.
pub const MCP_RECONNECT_MS_MIN: u64 = 1_000;
pub const MCP_RECONNECTS_MAX: usize = 5;
/// Lines that an MCP program may print besides messages; then it is ended.
pub const MCP_STRAY_LINES_MAX: usize = 100;
/// Requests of an MCP server to us that are answered at once; further ones are ignored.
pub const MCP_ASKED_AT_ONCE: usize = 16;
/// Processes and threads of an MCP program; the next fork fails.
pub const MCP_PROGRAM_PROCESSES: u32 = 64;
/// Files that each process of an MCP program may have open, unless an operator says otherwise; the next open fails.
pub const MCP_PROGRAM_OPEN_FILES_DEFAULT: u64 = 1_024;
/// The most that an operator can let it have open.
pub const MCP_PROGRAM_OPEN_FILES_MAX: u64 = 65_536;
/// The largest folder of its own that an MCP program can be given, in MiB.
pub const MCP_PROGRAM_FOLDER_MB_MAX: u64 = 65_536;
/// Files and folders in that folder; a program that makes more is ended.
pub const MCP_PROGRAM_FOLDER_FILES_MAX: u64 = 100_000;
/// How often that folder is measured while its program runs.
pub const MCP_PROGRAM_FOLDER_LOOK_MS: u64 = 1_000;
/// How long an MCP program may take until it speaks MCP, unless an operator says otherwise; then it is ended.
pub const MCP_PROGRAM_START_SECONDS_DEFAULT: u64 = 60;
/// The most that an operator can let it take.
pub const MCP_PROGRAM_START_SECONDS_MAX: u64 = 600;
/// Programs that start at once, for each processor; the others wait for their turn.
pub const MCP_PROGRAM_STARTS_PER_CORE: usize = 2;
/// The last lines of its stderr that are told when an MCP program fails.
pub const MCP_PROGRAM_LINES_TOLD: usize = 20;
/// How long the installation of a package that an MCP program comes from may take.
pub const INSTALL_SECONDS_MAX: u64 = 300;
/// Lines of a package manager that are told when it fails.
pub const INSTALL_OUTPUT_LINES_MAX: usize = 12;
/// The share of one processor that an MCP program may take, in percent; beyond, it is slowed down.
pub const MCP_PROGRAM_CPU_PERCENT: u32 = 100;
/// How long an MCP program may take to end after it was asked to; then it is killed.
pub const MCP_PROGRAM_GRACE_MS: u64 = 2_000;
/// Characters of a tool's name at the MCP door; the end of a longer one is a digest. Clients that put `mcp__<server>__` before it drop what is
/// longer than 128.
pub const MCP_TOOL_NAME_CHARS_MAX: usize = 110;
/// Actions of a session up to which each is a tool at the MCP door; with more, three tools find and call them.
pub const MCP_TOOLS_SHOWN_MAX: usize = 128;
/// Tools in one page of a list at the MCP door; the next page has the rest.
pub const MCP_PAGE_ROWS: usize = 200;
/// Matches that `search_actions` returns; further ones are counted.
pub const MCP_FOUND_MAX: usize = 20;
/// Characters of a text that the server's own tools take, such as the words of a search; a longer one is refused.
pub const MCP_ARGUMENT_CHARS_MAX: usize = 500;
/// Characters of the instructions at the MCP door; guides beyond are left out.
pub const MCP_DOOR_INSTRUCTIONS_CHARS_MAX: usize = 8_000;
/// Pages of resources or prompts that are asked of one source for one list; the rest is left out.
pub const MCP_PASSED_PAGES_MAX: usize = 10;
/// How long a client of unknown name is taken to wait for an answer; a reference is given after four fifths of it.
pub const MCP_HOLD_SECONDS_DEFAULT: u64 = 50;
/// The longest time that a URL may ask for; more is refused with `invalid_query`.
pub const MCP_HOLD_SECONDS_MAX: u64 = 600;
/// Messages in one batch at the MCP door; a larger one is refused with the error -32600.
pub const MCP_BATCH_MESSAGES_MAX: usize = 50;
/// How long an answer of the MCP door may take before its head is sent.
pub const MCP_OPEN_AFTER_SECONDS: u64 = 5;
/// How long a stream of the MCP door may be silent; then a comment is sent.
pub const MCP_SILENCE_SECONDS: u64 = 15;
/// For so long after the right to a stream of the MCP door was looked at, it is not looked at again for what is said on the stream.
pub const MCP_RIGHT_SECONDS: u64 = 1;
/// How often a caller with a progress token is told what its call waits for.
pub const MCP_PROGRESS_SECONDS: u64 = 12;
/// Bytes of images, audio and other files that one answer of the MCP door has, before they are written as base64; what has no room is named.
pub const MCP_MEDIA_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long a call waits to see whether an earlier caller of the same call, who was still there, goes; then it is a call of its own. Only
/// callers are waited for who wait for a person, or have waited for `LINE_YOUNG_MS`: nobody gives up sooner.
pub const LINE_GOING_MS: u64 = 300;
pub const LINE_YOUNG_MS: u64 = 1_000;
/// How long a call waits for one whose caller has gone to begin, to be held or to end; then it is a call of its own.
pub const LINE_SETTLES_SECONDS: u64 = 10;
/// How often a call looks whether another server, on which the same call is open, has been heard of; until then it is not known whether that
/// caller is still there. A server is heard of every `LEASE_RENEW_SECONDS`, or is gone after `LEASE_SECONDS`.
pub const LINE_LOOK_MS: u64 = 250;
/// Rows of delivered calls that waited on a line are removed together, this often; it divides a second.
pub const LINES_CLEARED_MS: u64 = 250;
/// How long the result of a list at the MCP door may be used; then a client asks again.
pub const MCP_LIST_TTL_MS: u64 = 5_000;
/// How long a stateful MCP connection without traffic is kept; then the client has to initialize again.
pub const MCP_CONNECTION_IDLE_SECONDS: u64 = 60 * 60;
/// Stateful MCP connections of one caller, of one org, and of all. The oldest of the caller, or of the org, is closed for a further one; if there
/// is none, the further one is refused.
pub const MCP_CONNECTIONS_PER_CALLER_MAX: usize = 32;
pub const MCP_CONNECTIONS_PER_ORG_MAX: usize = 6_000;
pub const MCP_CONNECTIONS_MAX: usize = 10_000;
/// Listeners (`subscriptions/listen`) of one caller at the MCP door; the next is refused with `too_many_streams`.
pub const MCP_LISTENERS_PER_CALLER_MAX: usize = 32;
/// Sources that the admins of an org may add, unless an operator sets another number; the next is refused with `too_many_sources`.
pub const SOURCES_MAX_DEFAULT: u32 = 20;
/// The highest number that an operator may set.
pub const SOURCES_MAX: u32 = 1_000;
/// Hosts, networks or commands that operators may allow, of each; the next is refused with `invalid_request`.
pub const ALLOWED_MAX: usize = 1_000;
/// Characters of a source's title; a longer one is refused with `invalid_request`.
pub const SOURCE_TITLE_CHARS_MAX: usize = 200;
/// Variables of an MCP program, words of its command, and bytes of each; more are refused with `invalid_request`.
pub const SOURCE_VARIABLES_MAX: usize = 64;
pub const SOURCE_TEXT_BYTES_MAX: usize = 4_096;
/// How long connections to sources may take to close when the server stops.
pub const SOURCES_CLOSE_SECONDS: u64 = 5;
/// Characters of a server's instructions that become its guide; the rest is cut.
pub const MCP_INSTRUCTIONS_CHARS_MAX: usize = 8_000;
/// Files one call of a package may change; more are refused with `package_stage_refused`.
pub const PACKAGE_CHANGES_MAX: usize = 256;
/// Parts of the workspace that one run may be shown, if the scope of its call permits only a part of it; more are refused with
/// `scope_too_fine`.
pub const VIEW_PARTS_MAX: usize = 4_096;
/// Bytes a package may write in one call; the next write fails in the jail.
pub const PACKAGE_STAGE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Bytes of a package's result, on its stdout; a longer one is refused with `package_bad_output`.
pub const PACKAGE_RESULT_BYTES_MAX: usize = 1024 * 1024;
/// Memory a package may ask for; one that asks for more is refused with `package_invalid`.
pub const PACKAGE_MEMORY_MB_MAX: u64 = 2_048;
/// Memory of a package that asks for no amount; beyond, it is killed.
pub const PACKAGE_MEMORY_MB_DEFAULT: u64 = 512;
/// Characters of a package's last log line that an error repeats.
pub const PACKAGE_LOG_CHARS_MAX: usize = 200;
/// Hosts an action of a package may declare; one with more is refused with `package_invalid`.
pub const PACKAGE_HOSTS_MAX: usize = 32;
/// Requests that one run of a package's code may make; then its way to the network is closed.
pub const EGRESS_REQUESTS_MAX: usize = 100;
/// Bytes of a line that a program sends to request something from the network, including its body in base64; a longer line is refused, and
/// the way to the network is closed.
pub const EGRESS_LINE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Bytes of a response body that is passed to a program; a larger one is not passed.
pub const EGRESS_RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// Ports of the hosts that an MCP program may reach; a command with more is refused when the configuration is read.
pub const RELAY_PORTS_MAX: usize = 32;
/// Connections of one MCP program through the relay at the same time; a further one is ended at once.
pub const RELAY_CONNECTIONS_MAX: usize = 256;
/// The same for all programs of a server together.
pub const RELAY_CONNECTIONS_IN_ALL_MAX: usize = 2_048;
/// How long a connection through the relay may be silent in both directions; then it is ended.
pub const RELAY_IDLE_SECONDS: u64 = 15 * 60;
/// Names below a domain (`*.example.com`) that one MCP program may ask for; a further one is answered as if the resolver had failed.
pub const RELAY_NAMES_MAX: usize = 1_024;
/// Questions for names that one MCP program may ask in a second; further ones are not answered.
pub const RELAY_QUESTIONS_PER_SECOND: u32 = 200;
/// Lines that the log gets in a minute about what one MCP program may not reach; the rest is counted.
pub const RELAY_LINES_PER_MINUTE: u32 = 100;
/// Characters of a check's name and of its detail that are kept; the rest is cut.
pub const CHECK_NAME_CHARS_MAX: usize = 200;
pub const CHECK_DETAIL_CHARS_MAX: usize = 500;
/// Characters of a check's name in a verification script; a longer or malformed name is reported as a failed check.
pub const PACKAGE_CHECK_NAME_CHARS_MAX: usize = 64;
/// How long a start waits for recovery before the doors open; then recovery goes on in the background.
pub const RECOVERY_GRACE_SECONDS: u64 = 5;
/// Calls left behind by a crash that are reconciled at the same time.
pub const RECOVERED_AT_ONCE: usize = 8;
/// Checks a verification script may report; more are refused as a failed check.
pub const PACKAGE_CHECKS_MAX: usize = 64;
/// Characters of the class of a device; a longer one is refused with `invalid_request`.
pub const DEVICE_CLASS_CHARS_MAX: usize = 32;
/// Members of a space; the next is refused with `invalid_request`.
pub const SPACE_MEMBERS_MAX: usize = 1_000;
/// Defaults that a space sets for the inputs of its automations, and bytes of them as JSON; more are refused with `invalid_request`.
pub const SPACE_DEFAULTS_MAX: usize = 64;
pub const SPACE_DEFAULTS_BYTES_MAX: usize = 16 * 1024;
/// Days for which a token with an expiry may be valid; more is refused with `invalid_request`.
pub const TOKEN_LIFETIME_DAYS_MAX: u64 = 3_650;
/// Pending calls that end in one transaction when their action's definition changes; the rest end in further transactions.
pub const DRIFT_ENDS_PER_WRITE: usize = 100;
/// The longest a reader of events waits for a notice; then it reads again without one.
pub const EVENT_WAIT_SECONDS: u64 = 5;
/// Events among which a page of the list of events is looked for; where fewer of them fit than its limit, the page is shorter.
pub const EVENTS_LOOKED_AT: u32 = 2_048;
/// Bytes of the bodies of events after which a page ends, so that a page of large events is no larger than one of many small ones.
pub const EVENTS_PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of one event that is published, as JSON; a larger one is refused with `invalid_request`.
pub const EVENT_BYTES_MAX: usize = 256 * 1024;
/// Events of one request; more are refused with `invalid_request`.
pub const EVENTS_PER_REQUEST_MAX: usize = 100;
/// Characters of an event's id, type, subject and source, and of the name of an extension attribute; a longer text is refused with
/// `invalid_request`.
pub const EVENT_ID_CHARS_MAX: usize = 256;
pub const EVENT_TYPE_CHARS_MAX: usize = 128;
pub const EVENT_SUBJECT_CHARS_MAX: usize = 256;
pub const EVENT_SOURCE_CHARS_MAX: usize = 1_024;
pub const EVENT_ATTRIBUTE_CHARS_MAX: usize = 64;
/// Extension attributes of one event; more are refused with `invalid_request`.
pub const EVENT_ATTRIBUTES_MAX: usize = 32;
/// Consumer groups of an org; the next is refused with `invalid_request`.
pub const GROUPS_MAX: i64 = 100;
/// Characters of the name of a consumer group.
pub const GROUP_NAME_CHARS_MAX: usize = 64;
/// How long a consumer has an event for itself; then others may claim it.
pub const EVENT_LEASE_SECONDS: u64 = 30;
/// Events of a group that are claimed or given back, and not acknowledged. With so many of them the group gets no new ones.
pub const EVENTS_IN_FLIGHT_MAX: i64 = 1_000;
/// Events that one claim takes; more are refused with `invalid_request`.
pub const EVENTS_PER_CLAIM_MAX: u32 = 100;
/// How long a server that handles the events of an org has them for itself, unless it is gone before: another one then takes over at once.
pub const GROUP_HELD_SECONDS: u64 = 10;
/// How often an event is delivered to a group that says nothing of it, and the most that a group may say; then it is a dead letter.
pub const EVENT_DELIVERIES_DEFAULT: u32 = 5;
pub const EVENT_DELIVERIES_MAX: u32 = 50;
/// How long an event that is given back may wait; more is refused with `invalid_request`.
pub const EVENT_DELAY_SECONDS_MAX: u64 = 24 * 60 * 60;
/// Days for which events that a group has given up are kept.
pub const DEAD_LETTER_DAYS: u64 = 90;
/// Streams that are open at once, of all orgs and of one; the next is refused with `too_many_streams`.
pub const STREAMS_MAX: usize = 10_000;
pub const STREAMS_PER_ORG_MAX: usize = 6_000;
/// Events that are kept in memory for the streams of an org; a reader that is further behind is dropped, and goes on from its cursor.
pub const STREAM_EVENTS_KEPT: usize = 1_024;
/// How long opening a stream may take; then it is refused with `store_unavailable`.
pub const STREAM_OPEN_SECONDS: u64 = 10;
/// WebSockets that are open without a token, in all and from one address, and how long one may take to send it; the next is refused with
/// `too_many_streams`, and one that sends none is closed.
pub const STREAM_STRANGERS_MAX: usize = 1_024;
pub const STREAM_STRANGERS_PER_ADDRESS_MAX: usize = 64;
pub const STREAM_TOKEN_SECONDS: u64 = 10;
/// Bytes of a message that a client sends over a WebSocket; a longer one is refused with `body_too_large`, one of twice as many bytes closes
/// the connection.
pub const STREAM_MESSAGE_BYTES_MAX: usize = BODY_BYTES_MAX;
/// Messages of one WebSocket that are worked on at once; further ones are not read until one of them is answered.
pub const STREAM_MESSAGES_AT_ONCE: usize = 8;
/// How long a client may take to agree to the end of a WebSocket; then it is closed without that.
pub const STREAM_CLOSE_SECONDS: u64 = 5;
/// How long a client may read nothing while something is sent to it; then its connection is closed.
pub const WRITE_STALL_SECONDS: u64 = 60;
/// Connections that are served at once; the next waits to be accepted.
pub const CONNECTIONS_MAX: usize = 16_384;

/// Automations of an org that are not archived; the next is refused with `too_many_automations`.
pub const AUTOMATIONS_MAX: i64 = 100_000;
/// How long a draft waits for a person to save it; then it is gone.
pub const DRAFT_SECONDS: u64 = 24 * 60 * 60;
/// Drafts of one maker in one space; the next is refused with `too_many_drafts` until one is saved, dropped or gone.
pub const DRAFTS_MAX: i64 = 100;
/// How long a webhook's earlier token is taken after it was rotated, if that was asked for.
pub const HOOK_TOKEN_OVERLAP_SECONDS: u64 = 24 * 60 * 60;
/// Bytes of a request that fires a webhook; a larger one is refused with `body_too_large` before it is read.
pub const HOOK_BODY_BYTES_MAX: usize = 1024 * 1024;
/// How old, or how far ahead, a signed request that fires a webhook may be; then it is refused with `signature_invalid`.
pub const HOOK_WINDOW_SECONDS: u64 = 5 * 60;
/// Characters of the idempotency key of a request that fires or runs an automation, all of them visible ASCII.
pub const FIRE_KEY_CHARS_MAX: usize = 255;
/// How long the idempotency key of a request that fired an automation is remembered; then it may be used for something else.
pub const FIRE_KEY_SECONDS: u64 = 24 * 60 * 60;
/// Bytes as JSON of what a trigger was given that are kept with the run that it started; what is longer is not kept.
pub const TRIGGER_PAYLOAD_BYTES_MAX: usize = 256 * 1024;
/// How long it is kept, unless its run or the texts of its space go before.
pub const TRIGGER_PAYLOAD_SECONDS: u64 = 30 * 24 * 60 * 60;
/// How long a firing is kept.
pub const FIRING_KEPT_SECONDS: u64 = 90 * 24 * 60 * 60;
/// How long a worker has a run for itself; it renews its leases every `RUN_BEAT_SECONDS`. A run whose worker is silent for longer is freed.
pub const RUN_LEASE_SECONDS: u64 = 7;
pub const RUN_BEAT_SECONDS: u64 = 2;
/// A worker that could not renew a lease stops this long before it ends.
pub const RUN_LEASE_MARGIN_SECONDS: u64 = 2;
/// How long the call of a run has ended before the run counts as forgotten if it still waits for it; then it is woken, and that is counted.
pub const RUN_FORGOTTEN_SECONDS: u64 = 30;
/// How often the worker of a run goes at the same step; with this loss the run is quarantined, and not taken up again.
pub const RUN_RECOVERIES_MAX: u32 = 3;
/// Automations that led to a run one after the other; the next firing is refused with `chain_too_deep`.
pub const CHAIN_DEPTH_MAX: usize = 10;
/// Bytes of a step's output as JSON that its record keeps; a longer one becomes an artifact.
pub const STEP_OUTPUT_KEPT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a step's output as JSON; a longer one fails the step with `step_output_too_large`.
pub const STEP_OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of one artifact; of a larger one the result says that it was not kept.
pub const ARTIFACT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Artifacts of one call; those beyond are not kept, and the result says so.
pub const ARTIFACTS_PER_CALL_MAX: usize = 16;
/// Characters of an artifact's name and of its media type; one with a longer name is not kept, and the result says so.
pub const ARTIFACT_NAME_CHARS_MAX: usize = 200;
pub const ARTIFACT_MEDIA_TYPE_CHARS_MAX: usize = 127;
/// How long an artifact is kept that is `transient`, and one of which nothing is said.
pub const ARTIFACT_TRANSIENT_SECONDS: u64 = 24 * 60 * 60;
pub const ARTIFACT_DEFAULT_SECONDS: u64 = 30 * 24 * 60 * 60;
/// How long a link to an artifact opens it, at most and by default; more is refused with `invalid_request`.
pub const ARTIFACT_LINK_SECONDS_MAX: u64 = 24 * 60 * 60;
pub const ARTIFACT_LINK_SECONDS_DEFAULT: u64 = 15 * 60;
/// How long one request to where artifacts are kept may take, with its retries; then it has failed, and is safe to repeat.
pub const BLOB_REQUEST_SECONDS: u64 = 30;
/// Artifacts of an org that one sweep tries to remove, and how many it reads at once; the rest goes with the next.
pub const ARTIFACTS_SWEPT_MAX: u32 = 100_000;
pub const ARTIFACTS_SWEPT_AT_ONCE: u32 = 500;
/// Bytes of an automation's definition, and how deep it may be nested; a larger one is refused with `definition_too_large`.
pub const DEFINITION_BYTES_MAX: usize = 256 * 1024;
pub const DEFINITION_DEPTH_MAX: usize = 32;
/// Mistakes of one definition that are told; of more, the first ones are.
pub const DEFINITION_MISTAKES_MAX: usize = 200;
/// Characters of an automation's name and of its goal; longer ones are refused with `text_length`.
pub const AUTOMATION_NAME_CHARS_MAX: usize = 120;
pub const AUTOMATION_GOAL_CHARS_MAX: usize = 2_000;
/// Triggers of an automation; more are refused with `too_many_triggers`.
pub const TRIGGERS_MAX: usize = 10;
/// Steps of a plan, and of what runs after its failure; more are refused with `plan_length`.
pub const PLAN_STEPS_MAX: usize = 50;
pub const ON_FAILURE_STEPS_MAX: usize = 10;
/// How long all steps after a failure may take together; a step that asks for more is refused with `timeout_exceeds_run`.
pub const ON_FAILURE_SECONDS_MAX: u64 = 300;
/// Bytes of the schema of an automation's inputs, and how deep it may be nested; a larger one is refused with `input_schema_invalid`.
pub const INPUT_SCHEMA_BYTES_MAX: usize = 32 * 1024;
pub const INPUT_SCHEMA_DEPTH_MAX: usize = 16;
/// Subschemas that the schema of inputs has when its references are written out; more are refused with `input_schema_invalid`.
pub const INPUT_SCHEMA_PARTS_MAX: u64 = 5_000;
/// These subschemas times the values of the inputs; a check that could take more is refused with `inputs_invalid`.
pub const INPUT_CHECKS_MAX: u64 = 20_000_000;
/// Inputs that a trigger may map; more are refused with `mapping_too_large`.
pub const INPUT_MAPPINGS_MAX: usize = 64;
/// Bytes of JSON that a run is given as its inputs, however it starts, and that all paths of a trigger's mapping find together; more are refused
/// with `inputs_invalid`.
pub const INPUTS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of an automation's metadata, and tags in it; more are refused with `metadata_too_large`.
pub const METADATA_BYTES_MAX: usize = 4 * 1024;
pub const METADATA_TAGS_MAX: usize = 20;
/// Working time of a run, without the time that it waits for people; more is refused with `range`.
pub const RUN_SECONDS_MAX: u64 = 24 * 60 * 60;
pub const RUN_SECONDS_DEFAULT: u64 = 10 * 60;
/// Further attempts of a step after the first; more are refused with `range`.
pub const STEP_RETRIES_MAX: u32 = 10;
pub const STEP_RETRIES_DEFAULT: u32 = 2;
/// Runs of one automation that may wait behind the one that runs; more are refused with `range`.
pub const QUEUED_RUNS_MAX: u32 = 10_000;
pub const QUEUED_RUNS_DEFAULT: u32 = 100;
/// Dollars that one run may spend, in whole dollars; more are refused with `range`.
pub const BUDGET_DOLLARS_MAX: i64 = 1_000;
/// Characters of the field of a result whose units a price counts; a longer one is refused with `invalid_request`.
pub const PRICE_FIELD_CHARS_MAX: usize = 200;
/// Firings of one trigger that its rate may allow, and the time that they are counted in; more are refused with `range`.
pub const TRIGGER_RATE_MAX: u32 = 10_000;
pub const TRIGGER_RATE_DEFAULT: u32 = 600;
pub const TRIGGER_RATE_SECONDS_MAX: u32 = 3_600;
pub const TRIGGER_RATE_SECONDS_DEFAULT: u32 = 60;
/// A trigger that is at its rate for so long, without a pause of so long, is disabled until a person enables it again.
pub const TRIGGER_CROWDED_SECONDS: u64 = 3 * 60;
pub const TRIGGER_PAUSE_SECONDS: u64 = 60;
/// Runs that wait for a worker, of all orgs; while there are more, events are handled slowly. None is dropped.
pub const DUE_RUNS_MAX: u32 = 100_000;
/// How long a trigger may wait for events to stop, or collect them, and how many it may collect; more are refused with `range`.
pub const TRIGGER_WINDOW_SECONDS_MAX: u32 = 3_600;
pub const TRIGGER_BATCH_MAX: u32 = 1_000;
/// Bytes of JSON of the events that a trigger collects. With the event that reaches them the batch is full; the next one begins another. They
/// leave room in `INPUTS_BYTES_MAX` for that event, and for a mapping that takes a part of it twice.
pub const TRIGGER_BATCH_BYTES_MAX: i64 = 2 * 1024 * 1024;
/// Steps shorter than this run in the queue `fast`, and shorter than this in `medium`; longer ones in `long`.
pub const QUEUE_FAST_SECONDS: u64 = 10;
pub const QUEUE_MEDIUM_SECONDS: u64 = 5 * 60;
/// Bytes of an event filter as JSON; a longer one is refused with `filter_too_complex`.
pub const FILTER_BYTES_MAX: usize = 16 * 1024;
/// How deep `$and`, `$or` and `$not` nest in a filter, itself counted; a deeper one is refused with `filter_too_complex`.
pub const FILTER_DEPTH_MAX: usize = 8;
/// Operators in one filter; more are refused with `filter_too_complex`.
pub const FILTER_LEAVES_MAX: usize = 64;
/// Values that the `in` and `not_in` of one filter list together; more are refused with `filter_too_complex`.
pub const FILTER_VALUES_MAX: usize = 1_000;
/// Regexes in one filter; more are refused with `filter_too_complex`.
pub const FILTER_REGEXES_MAX: usize = 4;
/// Bytes of a filter's regex as text; a longer one is refused with `filter_invalid`.
pub const FILTER_REGEX_BYTES_MAX: usize = 512;
/// Bytes that a filter's regex compiles to; a larger one is refused with `filter_too_complex`.
pub const FILTER_REGEX_COMPILED_BYTES_MAX: usize = 256 * 1024;
/// Places of a filter's regex with its repetitions written out, which a search may all be at for each byte; more are refused with
/// `filter_too_complex`.
pub const FILTER_REGEX_PLACES_MAX: usize = 1_000;
/// States of a filter's regex whose whole automaton is too large for a table: each byte that it searches may cost so many looks. More are refused
/// with `filter_too_complex`.
pub const FILTER_REGEX_STATES_MAX: usize = 1_000;
/// The work that one test of a filter may be for one event, and all filters of an org together: looking at one byte is 1, or as much as its regex
/// has states if these do not fit into a table. A trigger whose filter asks for more is disabled, with `filter_too_costly`.
pub const FILTER_WORK_MAX: u64 = 4_000_000;
pub const EVENT_WORK_MAX: u64 = 32_000_000;
/// Bytes of a text that a filter's regex searches; a match that ends later is not found.
pub const FILTER_REGEX_SEARCHED_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the operand of `starts_with`, `ends_with` and `contains`; a longer one is refused with `filter_invalid`.
pub const FILTER_TEXT_BYTES_MAX: usize = 256;
/// What a filter costs at most: an operator is 1, `contains` 2, a regex 4, one without a literal 32. A dearer one is refused with `filter_too_complex`.
pub const FILTER_COST_MAX: u32 = 256;
/// Regexes without a literal among the filters of one event type and space: each of them is run for every such event. The next is refused with
/// `filter_too_complex`.
pub const FILTER_BARE_REGEXES_MAX: usize = 100;
/// Characters of a name that are compared to find the nearest known ones, and names that it is compared with; what is beyond takes no part.
pub const HINT_CHARS_MAX: usize = 64;
pub const HINT_CANDIDATES_MAX: usize = 200;
/// Characters of a cron expression; a longer one is refused with `cron_invalid`.
pub const CRON_CHARS_MAX: usize = 256;
/// A schedule that fires more often than this gets a warning.
pub const SCHEDULE_OFTEN_SECONDS: u32 = 15 * 60;
/// A tick that is older than this was missed, and the schedule's `catch_up` decides about it. It is also how far a clock may be off: a
/// high-water further ahead is corrected.
pub const TICK_MISSED_SECONDS: u64 = 60;
/// Missed ticks that `catch_up: all` makes up for, at most and by default, and how far back it looks; other values are refused with
/// `catch_up_invalid`.
pub const CATCH_UP_MAX: u64 = 1_000;
pub const CATCH_UP_MAX_DEFAULT: u64 = 100;
pub const CATCH_UP_WINDOW_SECONDS_MIN: u64 = 60;
pub const CATCH_UP_WINDOW_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;
pub const CATCH_UP_WINDOW_SECONDS_DEFAULT: u64 = 24 * 60 * 60;
/// Characters of a JSONPath, brackets that are open at once, and how often it can find the same value; more is refused with
/// `jsonpath_unsupported`.
pub const JSONPATH_CHARS_MAX: usize = 512;
pub const JSONPATH_NESTING_MAX: usize = 8;
pub const JSONPATH_SELECTORS_MAX: usize = 16;
/// Parts that one transformation selects under a name, and bytes of what it answers; more is refused with `transform_too_large`.
pub const TRANSFORM_SELECTED_MAX: usize = 64;
pub const TRANSFORM_BYTES_MAX: usize = 512 * 1024;
/// Bytes of a template; a longer one is refused with `template_too_large`, before it is parsed.
pub const TEMPLATE_BYTES_MAX: usize = 8 * 1024;
/// Words and signs inside one `{{ … }}` or `{% … %}`, and branches of one template; more are refused with `template_syntax`, because the parser
/// would use up the stack.
pub const TEMPLATE_TAG_TOKENS_MAX: usize = 1_000;
pub const TEMPLATE_BRANCHES_MAX: usize = 100;
/// Bytes of what a template renders, of any string it works on, and of a string it may read; more ends it with `template_output` or
/// `template_too_large`.
pub const TEMPLATE_OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of all texts in the params of one step, once its templates are rendered; more fail the step with `template_output`.
pub const STEP_PARAMS_BYTES_MAX: usize = 4 * TEMPLATE_OUTPUT_BYTES_MAX;
/// How long the templates of one dry run of a plan may take together; the steps that are left then say `template_time`.
pub const DRY_RUN_MS: u64 = 5_000;
/// Items of a list that a filter takes; more end the template with `template_output`.
pub const TEMPLATE_LIST_ITEMS_MAX: usize = 10_000;
/// Instructions that a template may take; then it ends with `template_time`.
pub const TEMPLATE_FUEL: u64 = 100_000;
/// How deep a template may nest its loops.
pub const TEMPLATE_DEPTH_MAX: usize = 64;
/// Filters in a row, and in all, of a template that is rendered in this process; one with more goes to a worker.
pub const TEMPLATE_TRIVIAL_FILTERS_IN_A_ROW_MAX: usize = 3;
pub const TEMPLATE_TRIVIAL_FILTERS_MAX: usize = 32;
/// Processor time that one template may take in its worker, and time on the clock, which only a worker that hangs reaches; then the worker is
/// killed and the template ends with `template_time`.
pub const RENDER_CPU_MS: u64 = 100;
pub const RENDER_WALL_MS: u64 = 2_000;
/// Address space of a render worker; one that needs more dies, and the template ends with `template_output`.
pub const RENDER_MEMORY_BYTES: u64 = 256 * 1024 * 1024;
/// Templates that one worker renders before another takes its place.
pub const RENDERS_PER_WORKER: u32 = 1_000;
/// Render workers at once; a template beyond waits for one.
pub const RENDER_WORKERS_MAX: usize = 4;
/// Bytes of a line to or from a render worker. A string of `TEMPLATE_OUTPUT_BYTES_MAX` is at most six times as long in JSON.
pub const RENDER_LINE_BYTES_MAX: usize = 64 * 1024 * 1024;
