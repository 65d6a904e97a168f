//! What an automation's definition says: its shape, its schedules, its filters, its templates. Pure: the same definition and the same facts
//! give the same answer, and nothing here waits, stores or asks anybody. `runs` does what it says.

pub mod limits;
pub mod definition;
pub mod filter;
pub mod inputs;
pub mod matcher;
pub mod mistake;
pub mod schedule;
pub mod select;
pub mod template;
pub mod transform;

pub use mistake::Mistake;
