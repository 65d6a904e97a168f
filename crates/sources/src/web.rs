//! Requests to the hosts that an operator has allowed, and to no others. Shared by the `http` actions, by the egress of packages, and
//! by the relay of MCP programs, which carries bytes instead of requests (`dial`).
//!
//! The checks, in order: the spelling of the URL (`target`), the allowed hosts (`host_rule`, `allowed`), and the address behind the name
//! (`address`, which `resolver` consults for every connection). Then comes the exchange itself, which checks every redirect anew.

mod address;
mod allowed;
mod dial;
mod exchange;
pub(crate) mod headers;
mod host_rule;
mod resolver;
mod target;

pub(crate) use allowed::{Allowed, HostList};
pub(crate) use dial::NotConnected;
pub(crate) use exchange::{Body, Deadline, Ended, Exchange, Sent, Step, asks_to_come_back};
pub use host_rule::{HostRule, Scheme};
pub(crate) use resolver::{Lookup, ask_the_system};
pub(crate) use target::Target;
