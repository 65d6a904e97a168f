//! What a running call prints, line by line, for whoever reads along.

pub(crate) mod log;
pub(crate) mod follow;
