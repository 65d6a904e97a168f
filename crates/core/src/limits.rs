//! Every bound of the product, each with its unit in the name and what happens when it is reached.

/// Invocations one session may have pending; the next is refused with `too_many_pending` until one is answered.
pub const PENDING_PER_SESSION_MAX: u32 = 10;
/// How long a person at the screen has to answer; then the invocation is `expired`, which is a receipt too.
pub const APPROVAL_INTERACTIVE_SECONDS: u64 = 5 * 60;
/// How long a person has to answer a call nobody is waiting for; then it is `expired`.
pub const APPROVAL_UNATTENDED_SECONDS: u64 = 24 * 60 * 60;
/// How long a grant lives when nobody says; then it allows nothing more.
pub const GRANT_SECONDS_DEFAULT: u64 = 24 * 60 * 60;
/// The longest a grant may live; a longer one is refused with `invalid_request`.
pub const GRANT_SECONDS_MAX: u64 = 90 * 24 * 60 * 60;
/// How long an agent's request for a grant waits for a person; then it is `expired`.
pub const GRANT_REQUEST_SECONDS: u64 = 24 * 60 * 60;
/// Bytes of a grant's condition; a larger one is refused with `invalid_request`.
pub const GRANT_CONDITION_BYTES_MAX: usize = 16 * 1024;
/// Open requests for grants of one session; the next is refused with `too_many_pending`.
pub const GRANT_REQUESTS_PER_SESSION_MAX: usize = 10;
/// Times a call is decided again because a rule changed meanwhile; then it is refused with `store_unavailable`, and retrying is safe.
pub const DECISIONS_MAX: u32 = 20;
/// Calls in one batch; more are refused with `invalid_batch`.
pub const BATCH_PARTS_MAX: usize = 50;
/// Invocations answered with one request; more are refused with `invalid_request`.
pub const BULK_ANSWERS_MAX: usize = 100;
/// The longest a link that answers one invocation may live; it also ends with the invocation.
pub const LINK_SECONDS_MAX: u64 = 24 * 60 * 60;
/// The longest a consent may be given for; one without a time lasts until it is withdrawn.
pub const CONSENT_SECONDS_MAX: u64 = 10 * 365 * 24 * 60 * 60;
/// Canaries of one org; the next is refused with `invalid_request`.
pub const CANARIES_MAX: usize = 100;
/// Characters of a canary; a longer one is refused with `invalid_request`.
pub const CANARY_CHARS_MAX: usize = 200;
/// How long what a quarantined call held is kept for review; then it is gone, and only the receipt is left.
pub const QUARANTINE_SECONDS: u64 = 7 * 24 * 60 * 60;
/// Params a caller may say the provenance of; more are refused with `invalid_request`.
pub const PROVENANCE_MAX: usize = 100;
/// Commands one call may be verified with; more are refused with `command_not_allowed`.
pub const COMMANDS_PER_CALL_MAX: usize = 16;
/// Characters of such a command; a longer one is refused with `command_not_allowed`.
pub const COMMAND_CHARS_MAX: usize = 1_000;
/// Characters of each word of a caller's `context`; more is refused with `invalid_request`.
pub const CLAIMED_CHARS_MAX: usize = 200;
/// Bytes of a caller's own plan to take a call back, as JSON; more is refused with `invalid_request`.
pub const ROLLBACK_PLAN_BYTES_MAX: usize = 4 * 1024;
/// Invocations a session may start in a minute; the next is refused with `rate_limited` and the time to wait.
pub const INVOCATIONS_PER_MINUTE_MAX: u32 = 60;
/// Bytes of a stored result; a larger one is pruned structurally and marked `_truncated`.
pub const RESULT_STORED_BYTES_MAX: usize = 10 * 1024;
/// Lines of a running call that are kept for who begins to follow it later; the oldest goes first, and followers are told it was missed.
pub const PROGRESS_LINES_MAX: usize = 256;
/// Bytes of them together; the same happens.
pub const PROGRESS_BYTES_MAX: usize = 64 * 1024;
/// Bytes of one such line; a longer one is cut between two words.
pub const PROGRESS_LINE_BYTES_MAX: usize = 2 * 1024;
/// How long a follower hears nothing before it is told that the line is still open.
pub const PROGRESS_SILENCE_SECONDS: u64 = 15;
/// How long one request follows an invocation; then it is asked again, by a token that is looked at again.
pub const PROGRESS_FOLLOW_SECONDS_MAX: u64 = 5 * 60;
/// Bytes of stored (redacted) params; larger ones are pruned structurally and marked `_truncated`.
pub const PARAMS_STORED_BYTES_MAX: usize = 64 * 1024;
/// How long one call of a source may take unless its definition says less; then it is `failed` or `in_doubt`.
pub const CALL_TIMEOUT_MS: u64 = 30_000;
/// How long a source may take to list its actions; then the source is shown with an error marker.
pub const LIST_TIMEOUT_MS: u64 = 15_000;
/// How long the listing of a remote source is used; then the source is asked again.
pub const LISTING_SECONDS: u64 = 5 * 60;
/// How long the last listing of a remote source is used after the source could not be asked; then it is asked again.
pub const LISTING_RETRY_SECONDS: u64 = 10;
/// How long a call waits for a listing that it can do without; then it goes on with what is known.
pub const LISTING_WAIT_MS: u64 = 1_000;
/// Attempts of one invocation, the first included; only transient errors are tried again.
pub const ATTEMPTS_MAX: u32 = 3;
/// Failures of a target in a row; then nobody is let through to it for a while.
pub const BREAKER_FAILURES_MAX: u32 = 5;
/// How long the first time; each further time twice as long.
pub const BREAKER_OPEN_SECONDS: u64 = 30;
/// And no longer than this.
pub const BREAKER_OPEN_SECONDS_MAX: u64 = 600;
/// How long the one call that is let through has to decide; then another is.
pub const BREAKER_PROBE_SECONDS: u64 = 60;
/// How long failures that opened nothing are remembered after the last of them.
pub const BREAKER_FORGOTTEN_SECONDS: u64 = 60 * 60;
/// Targets of one org that have failed; from then on a caller's label that is not among them is left out of the key.
pub const BREAKERS_WITH_LABELS_MAX: usize = 100;
/// Questions one source is asked at a time; more wait, and are told it is busy when their time is over.
pub const SOURCE_CALLS_MAX: usize = 128;
/// The first retry waits a random time up to this; every further one up to twice as long.
pub const RETRY_BASE_MS: u64 = 200;
/// No retry waits longer than this; a source that asks for more is not asked again in the same call.
pub const RETRY_CAP_MS: u64 = 5_000;
/// How long an idempotency key answers with its earlier receipt.
pub const IDEMPOTENCY_SECONDS: u64 = 24 * 60 * 60;
/// Characters of an idempotency key; a longer one is refused with `invalid_request`.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 256;
/// Bytes of a request body; a larger one is refused with `body_too_large` before it is read.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of all request headers; more is refused by the listener.
pub const HEADER_BYTES_MAX: usize = 32 * 1024;
/// How long a client may take to send its headers; then the connection is closed.
pub const HEADER_READ_SECONDS: u64 = 10;
/// How long a client may take to send its body; then it gets `request_timeout`.
pub const BODY_READ_SECONDS: u64 = 30;
/// Nesting of accepted JSON; deeper is refused with `malformed_json`.
pub const JSON_DEPTH_MAX: usize = 64;
/// Longest a read may hold the connection open for a change (`?wait=`).
pub const WAIT_SECONDS_MAX: u64 = 60;
/// Rows of one page; a larger `limit` is refused with `invalid_query`.
pub const PAGE_ROWS_MAX: u32 = 100;
/// Rows of one page when no `limit` is given.
pub const PAGE_ROWS_DEFAULT: u32 = 50;
/// How often stale pending invocations are swept; expiry itself is decided at answer time, not by the sweep.
pub const SWEEP_SECONDS: u64 = 5;
/// A checkpoint is signed at the latest after this time when the log has grown.
pub const CHECKPOINT_SECONDS: u64 = 1;
/// A checkpoint is signed at the latest after this many new entries.
pub const CHECKPOINT_ENTRIES: u64 = 256;
/// Characters of a caller's `reason`; more is refused with `invalid_request`.
pub const REASON_CHARS_MAX: usize = 2_000;
/// Bytes of a text file that `files.read_text` returns; a larger file is an error naming its size.
pub const FILE_READ_BYTES_MAX: u64 = 512 * 1024;
/// Bytes of text that `files.write_text` writes, so that whatever it wrote can be read; more is refused with `file_too_large`.
pub const FILE_WRITE_BYTES_MAX: usize = 512 * 1024;
/// Bytes of a file that is replaced or deleted: it is kept first, and a larger one is refused with `file_too_large`.
pub const FILE_SNAPSHOT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of a path inside the workspace; a longer one is refused with `path_not_allowed`.
pub const FILE_PATH_BYTES_MAX: usize = 1_024;
/// Bytes of one name in a path; a longer one is refused with `path_not_allowed`.
pub const FILE_NAME_BYTES_MAX: usize = 255;
/// Names in a path, folders included; a deeper one is refused with `path_not_allowed`.
pub const FILE_DEPTH_MAX: usize = 64;
/// Entries `files.list` looks at; beyond them it no longer counts.
pub const FILE_LIST_VISITED_MAX: usize = 100_000;
/// Entries looked at when a workspace is opened, to remove what a crash left; the rest is left for the next start.
pub const FILE_LEFTOVERS_VISITED_MAX: usize = 1_000_000;
/// Bytes of the diff in a preview; a longer one is cut at a line and marked.
pub const FILE_DIFF_BYTES_MAX: usize = 6 * 1024;
/// Bytes of the diff of one file of a package's code in a review; a longer one is cut at a line and marked.
pub const CODE_DIFF_BYTES_MAX: usize = 64 * 1024;
/// Entries `files.list` returns; the rest is counted, not listed.
pub const FILE_LIST_ENTRIES_MAX: usize = 1_000;
/// Bytes of a response body that the `http` actions read; a larger body is cut and marked.
pub const HTTP_RESPONSE_BYTES_MAX: usize = 256 * 1024;
/// Redirects the `http` actions follow, each checked anew; the next is an error.
pub const HTTP_REDIRECTS_MAX: usize = 5;
/// How long the `http` actions wait for a name, a connection and its handshake; then the host is unreachable and nothing was sent.
pub const HTTP_CONNECT_MS: u64 = 5_000;
/// Bytes of a URL; a longer one is refused with `url_not_allowed`.
pub const HTTP_URL_BYTES_MAX: usize = 4_096;
/// Bytes of a request body of `http.request`; a larger one is refused with `body_too_large`.
pub const HTTP_REQUEST_BYTES_MAX: usize = 256 * 1024;
/// Headers a caller may set; more are refused with `header_not_allowed`.
pub const HTTP_HEADERS_MAX: usize = 32;
/// Bytes of a header's value, sent or shown; a longer one is refused with `header_not_allowed`, or cut when it was received.
pub const HTTP_HEADER_VALUE_BYTES_MAX: usize = 4_096;
/// Characters of a notification's title; a longer one is refused with `invalid_params`.
pub const NOTIFICATION_TITLE_CHARS_MAX: usize = 200;
/// Characters of a notification's body; a longer one is refused with `invalid_params`.
pub const NOTIFICATION_BODY_CHARS_MAX: usize = 4_000;
/// How long a stopping server waits for running invocations before it leaves them to the next start.
pub const SHUTDOWN_SECONDS: u64 = 35;
/// Days for which what undoes an effect is kept. It cannot be taken back for longer.
pub const SNAPSHOT_DAYS: u64 = 180;
pub const REVERSIBLE_SECONDS_MAX: u64 = SNAPSHOT_DAYS * 24 * 60 * 60;
/// Days the token of a new session lives; after that a new session is needed.
pub const AGENT_TOKEN_DAYS: u64 = 30;
/// How long after nobody could look at an effect it is looked at again.
pub const UNVERIFIED_SECONDS: u64 = 60;
/// Longest an invocation can really be `running`, about six hours. Where nobody knows which server runs it, what has been for longer was
/// left behind, and is asked about. All of what may happen in that time, each as slow as it may be:
pub const RUNNING_SECONDS_MAX: u64 = {
    // A source may let a question wait for its turn as long as it may then take to answer.
    let question_ms = 2 * CALL_TIMEOUT_MS;
    // Made ready, then made.
    let one_try = 2;
    // What became of it, where nobody saw, and the same request once more; then the action's own checks, and the caller's commands.
    // Who looks is asked as often as who makes, and has half as much time again, in which to wait for a turn.
    let attempts = ATTEMPTS_MAX as u64;
    let looks = attempts * (1 + COMMANDS_PER_CALL_MAX as u64);
    let one_look = 2 + looks.div_ceil(2) * 3;
    let taking_back = attempts;
    // So has who takes back, who is asked a second time where nobody saw the first.
    let going_back = taking_back * 3;
    let questions = attempts * one_try + one_look + (going_back + one_try + one_look) + going_back;
    let waits_ms = (attempts + 2 * taking_back + 2 * looks) * RETRY_CAP_MS;
    // An intent for every try, for the repair, for asking once more about each, and for taking back before it and after it; and the
    // outcome.
    let entries = attempts + 1 + 2 + 2 * taking_back + 1;
    (questions * question_ms + waits_ms).div_ceil(1_000) + entries * RECORD_RETRY_SECONDS
};
/// How long a statement that writes may take before the store counts as away.
pub const STORE_WRITE_SECONDS: u64 = 30;
/// A store that takes no write for so long is not ready. Whoever watches servers asks more often than this.
pub const READINESS_SECONDS: u64 = 3;
/// How often a server tells the others on its database that it lives.
pub const LEASE_RENEW_SECONDS: u64 = 5;
/// A server that could not tell so for this long, several tries in a row, begins no effect until it can; callers get `store_unavailable`.
pub const LEASE_FENCE_SECONDS: u64 = 20;
/// A server that was not heard of for this long is gone, and others find out what became of what it was running. By then whatever it
/// began before it was fenced has ended, one way or the other:
pub const LEASE_SECONDS: u64 = {
    // A source may let a question wait for its turn as long as it may then take to answer.
    let effect_seconds = 2 * CALL_TIMEOUT_MS / 1_000;
    // The intent may have been on its way to the disk when the fence came down.
    let commit_seconds = STORE_WRITE_SECONDS;
    // Clocks that run differently.
    let margin_seconds = 10;
    LEASE_FENCE_SECONDS + commit_seconds + effect_seconds + margin_seconds
};
/// How long a server that is gone is still listed.
pub const SERVER_REMEMBERED_SECONDS: u64 = 24 * 60 * 60;
/// For how long an effect that was taken back is remembered to have been: as good as for ever.
pub const REVERTED_SECONDS: u64 = 100 * 365 * 24 * 60 * 60;
/// How long a call under a taken idempotency key waits for the first one before it gets `idempotency_in_flight`.
pub const IDEMPOTENCY_WAIT_SECONDS: u64 = 35;
/// Background tries to record an outcome that could not be stored, one a second; then the next start finds it `in_doubt`.
pub const RECORD_RETRY_SECONDS: u64 = 600;
/// Bytes of an org's policies for one gate; a longer text is refused with the place it begins at.
pub const POLICY_TEXT_BYTES_MAX: usize = 256 * 1024;
/// Bytes of one policy; a longer one is refused, because reading a chain of conditions takes stack for every link.
pub const POLICY_BYTES_MAX: usize = 16 * 1024;
/// Brackets, or `if`s, inside one another in a policy; more are refused, because each level takes stack.
pub const POLICY_DEPTH_MAX: usize = 24;
/// Policies of an org over all gates; more are refused.
pub const POLICIES_MAX: usize = 2_000;
/// Characters of a policy's id, which every receipt it determines repeats; a longer one is refused.
pub const POLICY_ID_CHARS_MAX: usize = 96;
/// Things that are taken out of the params of one call; with more the call is not readable, and is quarantined.
pub const REDACTION_REPLACED_MAX: usize = 10_000;
/// How often the numbering plans are asked in one call, some microseconds each; after that it is not readable, and is quarantined.
pub const REDACTION_PHONE_TRIES_MAX: usize = 20_000;
/// Bytes of a picture before it is decoded; a larger one is not readable, and the call is quarantined.
pub const REDACTION_IMAGE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Pixels of a picture; one with more is not readable, and the call is quarantined.
pub const REDACTION_IMAGE_PIXELS_MAX: u64 = 4_000_000;
/// Pixels of all pictures of one call together, some seconds of looking; the first beyond is not readable, and the call is quarantined.
pub const REDACTION_IMAGES_PIXELS_MAX: u64 = 8_000_000;
/// Pictures in one call; the first beyond is not readable, and the call is quarantined.
pub const REDACTION_IMAGES_MAX: u32 = 16;
/// Decoded bytes below which a text in base64 without `data:` is not taken for a picture.
pub const REDACTION_IMAGE_BYTES_MIN: usize = 1_024;
/// Bytes of all files of an installed package together; a larger one is refused with `package_invalid`.
pub const PACKAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Files of an installed package; one with more is refused with `package_invalid`.
pub const PACKAGE_FILES_MAX: usize = 256;
/// Bytes of copies of packages' code that a server keeps to show a reviewer what changed; beyond, the oldest copies are removed.
pub const PACKAGE_CODE_KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of a request that installs a package: its files in base64, and what surrounds them.
pub const PACKAGE_BODY_BYTES_MAX: usize = PACKAGE_BYTES_MAX / 3 * 4 + 256 * 1024;
/// Installed packages; the next is refused with `package_invalid`.
pub const PACKAGES_MAX: usize = 200;
/// Calls of one package whose code runs at once; the next wait for a turn, and say so.
pub const PACKAGE_RUNS_AT_ONCE: usize = 2;
/// Calls of all packages whose code runs at once.
pub const PACKAGES_RUNS_AT_ONCE: usize = 4;
/// Scripts and commands that look at an effect or take it back, at once, beside those.
pub const AFTERWARDS_RUNS_AT_ONCE: usize = 4;
/// Of these, for one source: whose checks are slow holds up its own, and nobody else's.
pub const AFTERWARDS_RUNS_OF_ONE: usize = 2;
/// Resident programs in the jail at once, and how many of them one owner may have; the next is refused.
pub const RESIDENTS_AT_ONCE: usize = 64;
pub const RESIDENTS_OF_ONE: usize = 16;
/// Bytes of the last lines of a resident's stderr that are kept; older lines are dropped and counted.
pub const RESIDENT_STDERR_BYTES_MAX: usize = 64 * 1024;
/// Files one call of a package may change; more are refused with `package_stage_refused`.
pub const PACKAGE_CHANGES_MAX: usize = 256;
/// Parts of the workspace one run may be shown, where the scope of its call shows less than all of it; more are refused with
/// `scope_too_fine`.
pub const VIEW_PARTS_MAX: usize = 4_096;
/// Bytes a package may write in one call; the next write fails in the jail.
pub const PACKAGE_STAGE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Bytes of a package's result, on its stdout; a longer one is refused with `package_bad_output`.
pub const PACKAGE_RESULT_BYTES_MAX: usize = 1024 * 1024;
/// Memory a package may ask for; one that asks for more is refused with `package_invalid`.
pub const PACKAGE_MEMORY_MB_MAX: u64 = 2_048;
/// Memory of a package that asks for nothing; beyond, it is killed.
pub const PACKAGE_MEMORY_MB_DEFAULT: u64 = 512;
/// Characters of the last line a package wrote to its log that an error repeats.
pub const PACKAGE_LOG_CHARS_MAX: usize = 200;
/// Hosts an action of a package may declare; one with more is refused with `package_invalid`.
pub const PACKAGE_HOSTS_MAX: usize = 32;
/// Requests one run of a package's code may make; then its way out is closed.
pub const EGRESS_REQUESTS_MAX: usize = 100;
/// Bytes of a line on a program's way out, its body in base64 included; a longer one is refused, and the way out is closed.
pub const EGRESS_LINE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Bytes of a body that is handed back to a program; a larger one is not.
pub const EGRESS_RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// The longest name of a check that is kept, and the longest sentence beside it; the rest is cut.
pub const CHECK_NAME_CHARS_MAX: usize = 200;
pub const CHECK_DETAIL_CHARS_MAX: usize = 500;
/// The longest name a verification script may give to a check; a longer or odder one is refused as a failed check.
pub const PACKAGE_CHECK_NAME_CHARS_MAX: usize = 64;
/// How long a start waits for what a crash left behind to be found out; then it goes on behind the open door.
pub const RECOVERY_GRACE_SECONDS: u64 = 5;
/// Calls that a crash left behind and that are found out about at a time.
pub const RECOVERED_AT_ONCE: usize = 8;
/// Checks a verification script may report; more are refused as a failed check.
pub const PACKAGE_CHECKS_MAX: usize = 64;
/// Days a token that expires may live; more is refused with `invalid_request`.
pub const TOKEN_LIFETIME_DAYS_MAX: u64 = 3_650;
/// Pending calls that end in one transaction when their action's definition changes; the rest end in further ones.
pub const DRIFT_ENDS_PER_WRITE: usize = 100;
/// The longest a reader of events waits for a notice; then it reads again without one.
pub const EVENT_WAIT_SECONDS: u64 = 5;
