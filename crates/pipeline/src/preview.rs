//! What would happen, asked without a trace: nothing here is performed, recorded or counted.

pub(crate) mod explain;
pub(crate) mod foresee;
pub(crate) mod revert;
pub(crate) mod what_if;
