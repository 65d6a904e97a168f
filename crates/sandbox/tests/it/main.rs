//! The promises of the jail, each tried from inside and checked from outside.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails at once")]

mod harness;
mod corpus;
mod effects;
mod faults;
mod server;
mod resident;
mod views;
mod refusals;
mod worker;
