//! The promises of this crate to its callers: the list of tests is the list of promises.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails at once")]

mod cron_rule;
mod schedules;
mod workers;
mod benign;
mod bombs;
