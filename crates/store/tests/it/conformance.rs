//! Behaviour that both engines must share: each test is written once and run on both.

pub(crate) mod artifacts;
pub(crate) mod automations;
mod batches;
mod bus;
mod channels;
mod connections;
pub(crate) mod documents;
mod events;
mod grants;
mod hard_cases;
mod identity;
mod lifecycle;
mod lines;
mod log;
mod master_key;
mod receipts;
mod reservations;
mod retention;
mod rules;
mod secrets;
mod servers;
mod slack;
mod sources;
