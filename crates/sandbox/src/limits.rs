//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

/// Bytes of a line that a program sends to request something from the network, including its body in base64; a longer line is refused, and
/// the way to the network is closed.
pub const EGRESS_LINE_BYTES_MAX: usize = 2 * 1024 * 1024;
