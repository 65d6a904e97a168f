//! Journeys over real HTTP, on SQLite and on PostgreSQL: the list of tests is the list of promises.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails at once")]

mod harness;

mod answers;
mod bad_input;
mod bands;
mod execution;
mod faults;
mod idempotency;
mod identity;
mod journey;
mod openapi;
mod recovery;
mod tenancy;
