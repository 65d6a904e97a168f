//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

/// Bytes of a grant's condition; a larger one is refused with `invalid_request`.
pub const GRANT_CONDITION_BYTES_MAX: usize = 16 * 1024;
/// Grants for an action that an explanation looks at, the newest first; older ones are not named.
pub const NEAR_GRANTS_LOOKED_AT_MAX: u32 = 50;
/// Rows of the report of a space that observes; of more, it has those that ask most, and says that it is cut.
pub const OBSERVED_ROWS_MAX: usize = 1_000;
/// Open requests for grants of one session; the next is refused with `too_many_pending`.
pub const GRANT_REQUESTS_PER_SESSION_MAX: usize = 10;
/// How long the address that `serve` shows logs its reader in, once; then they log in with a token.
pub const ONE_TIME_LOGIN_SECONDS: u64 = 15 * 60;
/// Sign-ins that one address may begin in a minute; then it has to wait, and gets `rate_limited`. In the `LOGIN_SECONDS` that they stay open these are
/// fewer than `SIGN_INS_OPEN_MAX`, so one address ends nobody else's. Each server counts for itself.
pub const SIGN_INS_PER_MINUTE_MAX: u32 = 60;
/// The longest lifetime of a consent; one without an expiry lasts until it is withdrawn.
pub const CONSENT_SECONDS_MAX: u64 = 10 * 365 * 24 * 60 * 60;
/// Canary tokens of one org; the next is refused with `invalid_request`.
pub const CANARIES_MAX: usize = 100;
/// Spaces that a connection can be limited to; more are refused with `invalid_request`.
pub const CONNECTION_SPACES_MAX: usize = 100;
/// Sources that a session can name; more are refused with `invalid_request`.
pub const SESSION_SOURCES_MAX: usize = 64;
/// How long a request of Slack waits for what became of an answer; then it is told later, in the message. Slack waits three seconds.
pub const SLACK_ANSWER_MS: u64 = 2_000;
/// How long a stopping server waits for running invocations; the next start recovers the rest.
pub const SHUTDOWN_SECONDS: u64 = 35;
/// Days for which the token of a new session is valid; after that a new session is needed.
pub const AGENT_TOKEN_DAYS: u64 = 30;
/// Characters of a source's title; a longer one is refused with `invalid_request`.
pub const SOURCE_TITLE_CHARS_MAX: usize = 200;
/// Characters of the class of a device; a longer one is refused with `invalid_request`.
pub const DEVICE_CLASS_CHARS_MAX: usize = 32;
/// Members of a space; the next is refused with `invalid_request`.
pub const SPACE_MEMBERS_MAX: usize = 1_000;
/// Defaults that a space sets for the inputs of its automations, and bytes of them as JSON; more are refused with `invalid_request`.
pub const SPACE_DEFAULTS_MAX: usize = 64;
pub const SPACE_DEFAULTS_BYTES_MAX: usize = 16 * 1024;
/// Events among which a page of the list of events is looked for; where fewer of them fit than its limit, the page is shorter.
pub const EVENTS_LOOKED_AT: u32 = 2_048;
/// Bytes of the bodies of events after which a page ends, so that a page of large events is no larger than one of many small ones.
pub const EVENTS_PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of one event that is published, as JSON; a larger one is refused with `invalid_request`.
pub const EVENT_BYTES_MAX: usize = 256 * 1024;
/// Characters of an event's id, type, subject and source, and of the name of an extension attribute; a longer text is refused with
/// `invalid_request`.
pub const EVENT_ID_CHARS_MAX: usize = 256;
pub const EVENT_TYPE_CHARS_MAX: usize = 128;
pub const EVENT_SUBJECT_CHARS_MAX: usize = 256;
pub const EVENT_SOURCE_CHARS_MAX: usize = 1_024;
pub const EVENT_ATTRIBUTE_CHARS_MAX: usize = 64;
/// Extension attributes of one event; more are refused with `invalid_request`.
pub const EVENT_ATTRIBUTES_MAX: usize = 32;
/// How old, or how far ahead, a signed request that fires a webhook may be; then it is refused with `signature_invalid`.
pub const HOOK_WINDOW_SECONDS: u64 = 5 * 60;
/// Characters of the idempotency key of a request that fires or runs an automation, all of them visible ASCII.
pub const FIRE_KEY_CHARS_MAX: usize = 255;
