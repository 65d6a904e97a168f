//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

/// How often the sweep expires pending invocations. The deadline itself is checked when a call is answered, not by the sweep.
pub const SWEEP_SECONDS: u64 = 5;
/// A checkpoint is signed at most this long after the audit log has grown.
pub const CHECKPOINT_SECONDS: u64 = 1;
/// How long a snapshot is kept though there are too many bytes of them: what is being done now may need it.
pub const SNAPSHOT_SECONDS_MIN: u64 = 24 * 60 * 60;
/// A PostgreSQL database that is away when a server starts is waited for, with a try every second; then the server ends.
pub const DATABASE_WAIT_SECONDS: u64 = 300;
/// How long a start waits for recovery before the doors open; then recovery goes on in the background.
pub const RECOVERY_GRACE_SECONDS: u64 = 5;
/// Render workers at once; a template beyond waits for one.
pub const RENDER_WORKERS_MAX: usize = 4;
