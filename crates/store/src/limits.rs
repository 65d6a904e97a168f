//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

/// How long an agent's request for a grant waits for a person; then it is `expired`.
pub const GRANT_REQUEST_SECONDS: u64 = 24 * 60 * 60;
/// How long a browser stays logged in unless it is used in the second half of this time; then its person has to log in again.
pub const LOGGED_IN_SECONDS: u64 = 60 * 60;
/// How long a browser stays logged in, however it is used; then its person has to log in again.
pub const LOGGED_IN_SECONDS_MAX: u64 = 12 * 60 * 60;
/// Browsers in which one token is logged in; with one more, the browser that came first is logged out.
pub const LOGINS_PER_TOKEN_MAX: i64 = 20;
/// Sign-ins at an issuer that were begun and not ended, in one org; with one more, the one that was begun first ends.
pub const SIGN_INS_OPEN_MAX: i64 = 1_000;
/// How long an invitation can be redeemed.
pub const INVITATION_SECONDS: u64 = 7 * 24 * 60 * 60;
/// How exactly it is known when a secret was last used. Within this time a further use writes nothing.
pub const SECRET_USED_SECONDS: u64 = 60;
/// Channels that an org may have; the next is refused with `invalid_request`.
pub const CHANNELS_MAX: usize = 50;
/// Events that one write turns into deliveries.
pub const OUTBOX_EVENTS: u32 = 256;
/// How long a server has a delivery for itself. After that another one may try: the first must be gone.
pub const DELIVERY_CLAIM_SECONDS: u64 = 60;
/// Characters kept of what went wrong with a delivery.
pub const DELIVERY_PROBLEM_CHARS_MAX: usize = 500;
/// How long an ended delivery is kept, a dead letter too.
pub const DELIVERY_KEPT_SECONDS: u64 = 30 * 24 * 60 * 60;
/// How long a person has to log in for a connection, or to sign in at an issuer; then it is `expired`, and must be started again.
pub const LOGIN_SECONDS: u64 = 10 * 60;
/// How long a circuit breaker stays open the first time; each further time it stays open twice as long.
pub const BREAKER_OPEN_SECONDS: u64 = 30;
/// The longest a circuit breaker stays open.
pub const BREAKER_OPEN_SECONDS_MAX: u64 = 600;
/// How long failures that did not open the breaker are remembered after the last of them.
pub const BREAKER_FORGOTTEN_SECONDS: u64 = 60 * 60;
/// Failing targets of one org; beyond this, a failure under a caller's new label is not counted under that label.
pub const BREAKERS_WITH_LABELS_MAX: usize = 100;
/// A checkpoint is signed after at most this many new entries.
pub const CHECKPOINT_ENTRIES: u64 = 256;
/// Documents that a space may have; more are refused with `too_many_documents`.
pub const DOCUMENTS_MAX: u64 = 100_000;
/// Characters of a snippet that shows no word of a search: the beginning of the text.
pub const DOCUMENT_SNIPPET_CHARS: usize = 200;
/// Calls that the stats of an action count; of more, the newest.
pub const STATS_CALLS_MAX: u32 = 10_000;
/// Rows of each kind that one write forgets; the next write goes on.
pub const FORGET_ROWS: u32 = 500;
/// Writes with which one sweep forgets the rows of an org that it keeps no longer; the next sweep goes on.
pub const FORGET_WRITES: u32 = 100;
/// How long after its end the texts of a call are replaced by digests, where its space keeps no others: whoever waits for the result gets it.
pub const DIGEST_AFTER_SECONDS: u64 = 60 * 60;
/// A store that accepts no write for this long is not ready. Health checks should ask more often than this.
pub const READINESS_SECONDS: u64 = 3;
/// How often a server renews its lease, which tells the other servers on its database that it lives.
pub const LEASE_RENEW_SECONDS: u64 = 3;
/// How long a server that is gone stays in the list of servers.
pub const SERVER_REMEMBERED_SECONDS: u64 = 24 * 60 * 60;
/// Hosts, networks or commands that operators may allow, of each; the next is refused with `invalid_request`.
pub const ALLOWED_MAX: usize = 1_000;
/// Events of a group that are claimed or given back, and not acknowledged. With so many of them the group gets no new ones.
pub const EVENTS_IN_FLIGHT_MAX: i64 = 1_000;
/// Days for which events that a group has given up are kept.
pub const DEAD_LETTER_DAYS: u64 = 90;
/// Automations of an org that are not archived; the next is refused with `too_many_automations`.
pub const AUTOMATIONS_MAX: i64 = 100_000;
/// How long a draft waits for a person to save it; then it is gone.
pub const DRAFT_SECONDS: u64 = 24 * 60 * 60;
/// Drafts of one maker in one space; the next is refused with `too_many_drafts` until one is saved, dropped or gone.
pub const DRAFTS_MAX: i64 = 100;
/// How long a webhook's earlier token is taken after it was rotated, if that was asked for.
pub const HOOK_TOKEN_OVERLAP_SECONDS: u64 = 24 * 60 * 60;
/// How long the idempotency key of a request that fired an automation is remembered; then it may be used for something else.
pub const FIRE_KEY_SECONDS: u64 = 24 * 60 * 60;
/// Bytes as JSON of what a trigger was given that are kept with the run that it started; what is longer is not kept.
pub const TRIGGER_PAYLOAD_BYTES_MAX: usize = 256 * 1024;
/// How long it is kept, unless its run or the texts of its space go before.
pub const TRIGGER_PAYLOAD_SECONDS: u64 = 30 * 24 * 60 * 60;
/// How long a firing is kept.
pub const FIRING_KEPT_SECONDS: u64 = 90 * 24 * 60 * 60;
/// How long the call of a run has ended before the run counts as forgotten if it still waits for it; then it is woken, and that is counted.
pub const RUN_FORGOTTEN_SECONDS: u64 = 30;
/// How often the worker of a run goes at the same step; with this loss the run is quarantined, and not taken up again.
pub const RUN_RECOVERIES_MAX: u32 = 3;
/// A trigger that is at its rate for so long, without a pause of so long, is disabled until a person enables it again.
pub const TRIGGER_CROWDED_SECONDS: u64 = 3 * 60;
pub const TRIGGER_PAUSE_SECONDS: u64 = 60;
