//! What the orgs of a server have on it: the home of each, with its workspaces and packages; the jail that code runs in; and the sources that
//! admins added, within what the operator and they allow.

pub mod limits;
pub mod added_sources;
pub mod allowed;
pub mod jail;
pub mod packages;

mod homes;
mod source_events;

pub use added_sources::{AddedConfig, AddedRegistry};
pub use allowed::{AllowLists, Fixed};
pub use homes::{Ground, Homes};
pub use jail::{HostProbe, look_at_host};
