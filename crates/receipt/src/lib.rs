//! The signed log of an org: what its entries say, how they are sealed, and how a stranger checks them offline.
//! Everything here is a function of its arguments: keys, times and bytes are handed in, nothing is read or written.
//! Read the modules in the order below; `verify` at the end is the promise the others exist for.

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
