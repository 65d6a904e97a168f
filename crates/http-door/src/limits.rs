//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

use countersign_core::limits::BODY_BYTES_MAX;
use sources::limits::PACKAGE_BYTES_MAX;

/// How far back the report of a space that observes looks by default.
pub const OBSERVED_SECONDS_DEFAULT: u64 = 24 * 60 * 60;
/// How long a channel can wait before it is told of a call; more is refused with `invalid_request`.
pub const CHANNEL_AFTER_SECONDS_MAX: u32 = 24 * 60 * 60;
/// How long one request follows an invocation; then the client has to ask again, and its token is checked again.
pub const PROGRESS_FOLLOW_SECONDS_MAX: u64 = 5 * 60;
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
/// Addresses of proxies that are read from one request, the nearest first; what stands before them is not looked at.
pub const FORWARDED_HOPS_MAX: usize = 20;
/// Bytes of a request of Slack; a larger one is refused with `body_too_large`.
pub const SLACK_REQUEST_BYTES_MAX: usize = 256 * 1024;
/// How long ago a moment in a query may be, if it is given as a time span; a longer one is refused with `invalid_query`.
pub const MOMENT_SECONDS_MAX: u64 = 3_650 * 24 * 60 * 60;
/// Bytes of a request that installs a package: its files in base64, and the rest of the request.
pub const PACKAGE_BODY_BYTES_MAX: usize = PACKAGE_BYTES_MAX / 3 * 4 + 256 * 1024;
/// How long an event that is given back may wait; more is refused with `invalid_request`.
pub const EVENT_DELAY_SECONDS_MAX: u64 = 24 * 60 * 60;
/// Bytes of a message that a client sends over a WebSocket; a longer one is refused with `body_too_large`, one of twice as many bytes closes
/// the connection.
pub const STREAM_MESSAGE_BYTES_MAX: usize = BODY_BYTES_MAX;
/// Messages of one WebSocket that are worked on at once; further ones are not read until one of them is answered.
pub const STREAM_MESSAGES_AT_ONCE: usize = 8;
/// How long a client may take to agree to the end of a WebSocket; then it is closed without that.
pub const STREAM_CLOSE_SECONDS: u64 = 5;
/// How long a client may read nothing while something is sent to it; then its connection is closed.
pub const WRITE_STALL_SECONDS: u64 = 60;
/// Bytes of a request that fires a webhook; a larger one is refused with `body_too_large` before it is read.
pub const HOOK_BODY_BYTES_MAX: usize = 1024 * 1024;
/// How long a link to an artifact opens it, at most and by default; more is refused with `invalid_request`.
pub const ARTIFACT_LINK_SECONDS_MAX: u64 = 24 * 60 * 60;
pub const ARTIFACT_LINK_SECONDS_DEFAULT: u64 = 15 * 60;
