//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

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
