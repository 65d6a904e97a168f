//! The store's promises, tested on SQLite and on PostgreSQL. The list of tests is the list of promises.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails at once")]

mod harness;

mod conformance;

mod backups;
mod concurrency;
mod isolation;
mod limiters;
mod migrations;
mod outages;
