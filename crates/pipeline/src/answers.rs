//! What people say to calls: yes, no, with other params; their decision on what is quarantined or in doubt.

pub(crate) mod approve;
pub(crate) mod doubt;
mod edit;
pub(crate) mod link;
pub(crate) mod quarantine;
