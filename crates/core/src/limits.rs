//! The limits that several crates share, each with its unit in the name and a comment that says what happens when it is reached. One that a
//! single crate uses is in its own `limits.rs`, so that another number builds only what depends on it anew.

/// How long a person at the screen has to answer; then the invocation is `expired`, with a receipt.
pub const APPROVAL_INTERACTIVE_SECONDS: u64 = 5 * 60;
/// How long a person has to answer a call of an unattended session; then it is `expired`.
pub const APPROVAL_UNATTENDED_SECONDS: u64 = 24 * 60 * 60;
/// How long a grant lasts by default; then it is `expired`.
pub const GRANT_SECONDS_DEFAULT: u64 = 24 * 60 * 60;
/// How often a person would have been asked about an action before the report of a space that observes suggests a rule for it.
pub const OBSERVED_OFTEN: u64 = 3;
/// Invocations answered with one request; more are refused with `invalid_request`.
pub const BULK_ANSWERS_MAX: usize = 100;
/// Wrong tokens that one address may try in a minute to log in; then it has to wait, and gets `rate_limited`. Each server counts for itself.
pub const LOGIN_TRIES_PER_MINUTE_MAX: u32 = 10;
/// Characters of a canary token; a longer one is refused with `invalid_request`.
pub const CANARY_CHARS_MAX: usize = 200;
/// Characters of a secret's name; a longer one is refused with `invalid_request`.
pub const SECRET_NAME_CHARS_MAX: usize = 64;
/// Bytes of a secret's value; a longer one is refused with `invalid_request`.
pub const SECRET_VALUE_BYTES_MAX: usize = 64 * 1024;
/// How long one server alone may fetch a new token for a connection. It is longer than the answer may take, so that another server takes
/// over only from one that is gone.
pub const OAUTH_REFRESH_SECONDS: u64 = 30;
/// Check commands of one call; more are refused with `command_not_allowed`.
pub const COMMANDS_PER_CALL_MAX: usize = 16;
/// Bytes of stored (redacted) params; larger ones are pruned structurally and marked `_truncated`.
pub const PARAMS_STORED_BYTES_MAX: usize = 64 * 1024;
/// How long one request to a source may take, unless the definition sets less; then the call is `failed` or `in_doubt`.
pub const CALL_TIMEOUT_MS: u64 = 30_000;
/// A source gives up so long before the time of its call is over, or a tenth of that time if that is less, so that its caller gets the
/// source's own error.
pub const SOURCE_EARLY_MS: u64 = 250;
/// How long a call of a builtin action of safety class LOW may take; then it is `failed` or `in_doubt`.
pub const LOW_TIMEOUT_MS: u64 = 4_000;
/// How long a source may take to list its actions, unless an admin says otherwise; then the source is listed with an error.
pub const LIST_TIMEOUT_MS: u64 = 15_000;
/// The most that an admin can let it take.
pub const LIST_TIMEOUT_MS_MAX: u64 = 120_000;
/// How long the listing of a remote source is used; then the source is asked again.
pub const LISTING_SECONDS: u64 = 5 * 60;
/// How long the last listing of a remote source is used after the source could not be asked; then it is asked again.
pub const LISTING_RETRY_SECONDS: u64 = 10;
/// How often a listing that has not changed is kept anew, so that a restart knows how old it is.
pub const LISTING_KEPT_SECONDS: u64 = 60 * 60;
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
/// Requests to one source at a time; further ones wait, and get `source_busy` when their time is over.
pub const SOURCE_CALLS_MAX: usize = 128;
/// No retry waits longer than this; if the source asks for a longer wait, the call is not retried.
pub const RETRY_CAP_MS: u64 = 5_000;
/// Bytes of a request body; a larger one is refused with `body_too_large` before it is read.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// A request with a larger body is handled by the threads for heavy work, and a value that is larger is looked at there.
pub const LIGHT_BYTES_MAX: usize = 16 * 1024;
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
/// Bytes of a file that is replaced or deleted: it is kept as a snapshot first, and a larger one is refused with `file_too_large`.
pub const FILE_SNAPSHOT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of a path inside the workspace; a longer one is refused with `path_not_allowed`.
pub const FILE_PATH_BYTES_MAX: usize = 1_024;
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
/// How long a background task retries to record an outcome that could not be stored, once a second; then the next start finds the call
/// `in_doubt`.
pub const RECORD_RETRY_SECONDS: u64 = 600;
/// Files that each process of an MCP program may have open, unless an operator says otherwise; the next open fails.
pub const MCP_PROGRAM_OPEN_FILES_DEFAULT: u64 = 1_024;
/// How long the installation of a package that an MCP program comes from may take.
pub const INSTALL_SECONDS_MAX: u64 = 300;
/// The longest time that a URL may ask for; more is refused with `invalid_query`.
pub const MCP_HOLD_SECONDS_MAX: u64 = 600;
/// Parts of the workspace that one run may be shown, if the scope of its call permits only a part of it; more are refused with
/// `scope_too_fine`.
pub const VIEW_PARTS_MAX: usize = 4_096;
/// Memory of a package that asks for no amount; beyond, it is killed.
pub const PACKAGE_MEMORY_MB_DEFAULT: u64 = 512;
/// Bytes of a response body that is passed to a program; a larger one is not passed.
pub const EGRESS_RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// Ports of the hosts that an MCP program may reach; a command with more is refused when the configuration is read.
pub const RELAY_PORTS_MAX: usize = 32;
/// Days for which a token with an expiry may be valid; more is refused with `invalid_request`.
pub const TOKEN_LIFETIME_DAYS_MAX: u64 = 3_650;
/// Pending calls that end in one transaction when their action's definition changes; the rest end in further transactions.
pub const DRIFT_ENDS_PER_WRITE: usize = 100;
/// The longest a reader of events waits for a notice; then it reads again without one.
pub const EVENT_WAIT_SECONDS: u64 = 5;
/// Events of one request; more are refused with `invalid_request`.
pub const EVENTS_PER_REQUEST_MAX: usize = 100;
/// Consumer groups of an org; the next is refused with `invalid_request`.
pub const GROUPS_MAX: i64 = 100;
/// Characters of the name of a consumer group.
pub const GROUP_NAME_CHARS_MAX: usize = 64;
/// How long a consumer has an event for itself; then others may claim it.
pub const EVENT_LEASE_SECONDS: u64 = 30;
/// How long a server that handles the events of an org has them for itself, unless it is gone before: another one then takes over at once.
pub const GROUP_HELD_SECONDS: u64 = 10;
/// How often an event is delivered to a group that says nothing of it, and the most that a group may say; then it is a dead letter.
pub const EVENT_DELIVERIES_DEFAULT: u32 = 5;
pub const EVENT_DELIVERIES_MAX: u32 = 50;
/// How long a worker has a run for itself; it renews its leases every `RUN_BEAT_SECONDS`. A run whose worker is silent for longer is freed.
pub const RUN_LEASE_SECONDS: u64 = 7;
pub const RUN_BEAT_SECONDS: u64 = 2;
/// Automations that led to a run one after the other; the next firing is refused with `chain_too_deep`.
pub const CHAIN_DEPTH_MAX: usize = 10;
/// Bytes of one artifact; of a larger one the result says that it was not kept.
pub const ARTIFACT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Characters of an artifact's name and of its media type; one with a longer name is not kept, and the result says so.
pub const ARTIFACT_NAME_CHARS_MAX: usize = 200;
pub const ARTIFACT_MEDIA_TYPE_CHARS_MAX: usize = 127;
/// How long an artifact is kept that is `transient`, and one of which nothing is said.
pub const ARTIFACT_TRANSIENT_SECONDS: u64 = 24 * 60 * 60;
pub const ARTIFACT_DEFAULT_SECONDS: u64 = 30 * 24 * 60 * 60;
/// Bytes of an automation's definition, and how deep it may be nested; a larger one is refused with `definition_too_large`.
pub const DEFINITION_BYTES_MAX: usize = 256 * 1024;
pub const DEFINITION_DEPTH_MAX: usize = 32;
/// Characters of the field of a result whose units a price counts; a longer one is refused with `invalid_request`.
pub const PRICE_FIELD_CHARS_MAX: usize = 200;
/// Bytes of JSON of the events that a trigger collects. With the event that reaches them the batch is full; the next one begins another. They
/// leave room in `INPUTS_BYTES_MAX` for that event, and for a mapping that takes a part of it twice.
pub const TRIGGER_BATCH_BYTES_MAX: i64 = 2 * 1024 * 1024;
/// Characters of a name that are compared to find the nearest known ones, and names that it is compared with; what is beyond takes no part.
pub const HINT_CHARS_MAX: usize = 64;
pub const HINT_CANDIDATES_MAX: usize = 200;
/// A tick that is older than this was missed, and the schedule's `catch_up` decides about it. It is also how far a clock may be off: a
/// high-water further ahead is corrected.
pub const TICK_MISSED_SECONDS: u64 = 60;
/// Templates that one worker renders before another takes its place.
pub const RENDERS_PER_WORKER: u32 = 1_000;
