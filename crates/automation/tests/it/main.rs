//! Templates, rendered by real workers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails at once")]

mod workers;
mod benign;
mod bombs;
