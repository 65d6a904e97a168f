//! The signed audit log of an org: what its entries say, how they are signed, and how an outsider verifies them offline.
//! Every function here depends on its arguments alone: callers pass in keys, times and bytes, and nothing is read or written.
//! Read the modules in the order below. The others exist for `verify`, the last one.

pub mod limits;
pub mod entry;

pub mod body;

pub mod key;

pub mod envelope;

pub mod tree;

pub mod checkpoint;

pub mod bundle;

pub mod verify;

mod error;

pub use error::Error;

#[cfg(test)]
mod story;
