//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

/// Invocations a session may start in a minute; the next is refused with `rate_limited` and the time to wait.
pub const INVOCATIONS_PER_MINUTE_MAX: u32 = 60;
/// Bytes of a file with a certificate or a key; a larger one cannot be used.
pub const TLS_FILE_BYTES_MAX: usize = 1024 * 1024;
/// How often the files of the certificate are looked at; a new certificate is in use that much later at most.
pub const TLS_LOOK_SECONDS: u64 = 5;
/// How long before the end of the certificate the log warns of it.
pub const TLS_WARNING_SECONDS: u64 = 7 * 24 * 60 * 60;
/// Sources that the admins of an org may add, unless an operator sets another number; the next is refused with `too_many_sources`.
pub const SOURCES_MAX_DEFAULT: u32 = 20;
/// The highest number that an operator may set.
pub const SOURCES_MAX: u32 = 1_000;
/// Connections that are served at once; the next waits to be accepted.
pub const CONNECTIONS_MAX: usize = 16_384;
