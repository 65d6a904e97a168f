//! Journeys over real HTTP, on SQLite and on PostgreSQL: the list of tests is the list of promises.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails at once")]

mod harness;

mod aftermath;
mod another_space;
mod answers;
mod approvals;
mod bad_input;
mod bands;
mod batches;
mod breakers;
mod changing_rules;
mod channels;
mod compat;
mod compat_examples;
mod connections;
mod consents;
mod declared;
mod drift;
mod effects;
mod execution;
mod explain;
mod faults;
mod foresight;
mod givers;
mod grants;
mod idempotency;
mod identity;
mod insiders;
mod issuer;
mod journey;
mod kill_switch;
mod leases;
mod links;
mod many;
mod master_key;
mod mcp_door;
mod mcp_join;
mod openapi;
mod plans;
mod policies;
mod progress;
mod quarantine;
mod records;
mod recovery;
mod redaction;
mod secrets;
mod sources;
mod stream;
mod tenancy;
mod tls;
mod upstream;
mod verification;
mod visibility;
mod waiting;
