//! Requests to the hosts an operator has allowed, and to no others: shared by the `http` actions and by what packages ask for.
//! The order of defence: the URL's spelling (`target`), the hosts that are allowed (`host_rule`, `allowed`), the address behind the name
//! (`address`, asked by `resolver` for every connection), then the exchange itself, which checks every redirect anew.

mod address;
mod allowed;
mod exchange;
pub(crate) mod headers;
mod host_rule;
mod resolver;
mod target;

pub(crate) use allowed::{Allowed, HostList};
pub(crate) use exchange::{Body, Deadline, Ended, Exchange, Sent, Step};
pub use host_rule::{HostRule, Scheme};
pub(crate) use target::Target;
