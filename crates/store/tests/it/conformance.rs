//! What every engine must do alike: each promise is written once and run on both.

mod batches;
mod events;
mod identity;
mod lifecycle;
mod log;
mod reservations;
mod rules;
mod servers;
