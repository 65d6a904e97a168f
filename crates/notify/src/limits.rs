//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

/// How often a server looks for notices to deliver, if nothing wakes it before.
pub const COURIER_SECONDS: u64 = 1;
/// Deliveries of one channel that one server has under way at a time. The others wait in the store.
pub const DELIVERIES_AT_ONCE: u32 = 8;
/// How long one attempt of a delivery may take; then it counts as failed.
pub const DELIVERY_ATTEMPT_SECONDS: u64 = 10;
/// For this long after its first attempt a delivery is repeated; then it is a dead letter.
pub const DELIVERY_GIVE_UP_SECONDS: u64 = 60 * 60;
/// The bound of the wait after the first failed attempt. It doubles with every attempt.
pub const DELIVERY_RETRY_MS: u64 = 5_000;
/// The longest wait between two attempts.
pub const DELIVERY_RETRY_MS_MAX: u64 = 5 * 60 * 1_000;
/// How old, or how far ahead, a request of Slack may be; then it is refused with `slack_request_expired`. Slack itself asks for this.
pub const SLACK_WINDOW_SECONDS: u64 = 5 * 60;
/// Characters of the params of a call that a message in Slack shows. Of more it shows a part, and has no button that approves.
pub const SLACK_PARAMS_CHARS_MAX: usize = 2_800;
/// Characters of any other text in a message in Slack; more is cut.
pub const SLACK_TEXT_CHARS_MAX: usize = 600;
/// Bytes of each text in the settings of a channel; longer ones are refused with `invalid_request`.
pub const CHANNEL_TEXT_BYTES_MAX: usize = 2_048;
/// People whom one channel can name; more are refused with `invalid_request`.
pub const CHANNEL_RECIPIENTS_MAX: usize = 50;
