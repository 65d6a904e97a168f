//! Questions about what a call would do. They leave no trace: this module performs, records and counts nothing.

pub(crate) mod explain;
pub(crate) mod foresee;
pub(crate) mod revert;
mod void;
pub(crate) mod what_if;
