//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

/// Addresses whose wrong logins are remembered; beyond this, all of them are forgotten.
pub const LOGIN_TRIES_ADDRESSES_MAX: usize = 10_000;
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
