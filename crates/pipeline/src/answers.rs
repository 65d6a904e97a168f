//! How people answer calls: approve, deny, edit the params, and decide about calls that are quarantined or in doubt.

pub(crate) mod approve;
pub(crate) mod doubt;
mod edit;
pub(crate) mod link;
pub(crate) mod quarantine;
pub(crate) mod void;
