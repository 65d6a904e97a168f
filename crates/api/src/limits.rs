//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

/// Bytes of a text in a request, and of the name of a member; a longer one is refused with `invalid_request` before anything looks at it. Params,
/// inputs, definitions and the like are values, bounded as a whole; the few texts that may be longer have a bound of their own.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;
