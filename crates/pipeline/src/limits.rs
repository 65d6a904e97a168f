//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

/// Invocations one session may have pending; the next is refused with `too_many_pending` until one is answered.
pub const PENDING_PER_SESSION_MAX: u32 = 10;
/// The longest a grant may live; a longer one is refused with `invalid_request`.
pub const GRANT_SECONDS_MAX: u64 = 90 * 24 * 60 * 60;
/// The longest window in which a grant bounds a sum; a longer one is refused with `invalid_request`.
pub const GRANT_SUM_SECONDS_MAX: u64 = GRANT_SECONDS_MAX;
/// Bytes of the pointer to the param that a grant adds up; a longer one is refused with `invalid_request`.
pub const GRANT_SUM_POINTER_BYTES_MAX: usize = 256;
/// Grants that an explanation names because they nearly replaced the approval; of more, it has the nearest.
pub const NEAR_GRANTS_MAX: usize = 5;
/// How often a call is decided again because a rule changed meanwhile; then it is refused with `rules_changing`, and retrying is safe.
pub const DECISIONS_MAX: u32 = 20;
/// Calls in one batch; more are refused with `invalid_batch`.
pub const BATCH_PARTS_MAX: usize = 50;
/// The longest lifetime of a link that answers one invocation; it also ends with the invocation.
pub const LINK_SECONDS_MAX: u64 = 24 * 60 * 60;
/// How long the content of a quarantined call is kept for review; then it is deleted, and only the receipt is left.
pub const QUARANTINE_SECONDS: u64 = 7 * 24 * 60 * 60;
/// Params whose provenance a caller may declare; more are refused with `invalid_request`.
pub const PROVENANCE_MAX: usize = 100;
/// Characters of a check command; a longer one is refused with `command_not_allowed`.
pub const COMMAND_CHARS_MAX: usize = 1_000;
/// Characters of each text in a caller's `context`; a longer one is refused with `invalid_request`.
pub const CLAIMED_CHARS_MAX: usize = 200;
/// Bytes of a caller's own rollback plan, as JSON; a larger one is refused with `invalid_request`.
pub const ROLLBACK_PLAN_BYTES_MAX: usize = 4 * 1024;
/// Bytes of the fields of an older envelope that nobody here knows, as JSON; more are refused with `invalid_request`.
pub const UNKNOWN_FIELDS_BYTES_MAX: usize = 4 * 1024;
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
/// Pending calls of which a server remembers whether they are void, once their params had to be opened to find it out; beyond this, all are
/// forgotten, and opened once more.
pub const VOIDS_REMEMBERED_MAX: usize = 10_000;
/// How long the last listing of a remote source is used for calls while the source lists nothing; then they get `source_unavailable`.
pub const LISTING_STALE_MAX_SECONDS: u64 = 24 * 60 * 60;
/// How long a call waits for a listing that it does not strictly need; then it uses the known one.
pub const LISTING_WAIT_MS: u64 = 1_000;
/// Targets whose calls one server counts at a time; calls of further ones are only counted as failures in a row.
pub const BREAKER_TARGETS_MAX: usize = 10_000;
/// How long the one call that is let through has to decide; then another call is let through.
pub const BREAKER_PROBE_SECONDS: u64 = 60;
/// The first retry waits a random time up to this; each further retry up to twice as long as the one before.
pub const RETRY_BASE_MS: u64 = 200;
/// Characters of an idempotency key; a longer one is refused with `invalid_request`.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 256;
/// Characters of a caller's `reason`; more is refused with `invalid_request`.
pub const REASON_CHARS_MAX: usize = 2_000;
/// How long after an effect could not be checked it is checked again.
pub const UNVERIFIED_SECONDS: u64 = 60;
/// How long it is remembered that an effect was reverted: practically for ever.
pub const REVERTED_SECONDS: u64 = 100 * 365 * 24 * 60 * 60;
/// How long a call under a taken idempotency key waits for the first call; then it gets `idempotency_in_flight`.
pub const IDEMPOTENCY_WAIT_SECONDS: u64 = 35;
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
/// Characters of a check's name and of its detail that are kept; the rest is cut.
pub const CHECK_NAME_CHARS_MAX: usize = 200;
pub const CHECK_DETAIL_CHARS_MAX: usize = 500;
/// Calls left behind by a crash that are reconciled at the same time.
pub const RECOVERED_AT_ONCE: usize = 8;
/// Artifacts of one call; those beyond are not kept, and the result says so.
pub const ARTIFACTS_PER_CALL_MAX: usize = 16;
/// Artifacts of an org that one sweep tries to remove, and how many it reads at once; the rest goes with the next.
pub const ARTIFACTS_SWEPT_MAX: u32 = 100_000;
pub const ARTIFACTS_SWEPT_AT_ONCE: u32 = 500;
