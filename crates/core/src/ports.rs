//! The ports to the store: one trait for each group of requests, with its types.
//! Every write is one transaction: it happens completely and durably, or not at all.

pub mod artifacts;
pub mod automations;
pub mod batches;
pub mod blobs;
pub mod breakers;
pub mod bus;
pub mod claims;
pub mod connections;
pub mod definitions;
pub mod documents;
pub mod events;
pub mod invocations;
pub mod lines;
pub mod principals;
pub mod quarantines;
pub mod rules;
pub mod runs;
pub mod secrets;
pub mod sessions;
pub mod sources;

pub use artifacts::Artifacts;
pub use automations::Automations;
pub use batches::Batches;
pub use blobs::Blobs;
pub use breakers::Breakers;
pub use bus::EventBus;
pub use claims::Claims;
pub use connections::{Connections, KeptConnections};
pub use definitions::Definitions;
pub use documents::Documents;
pub use events::EventFeed;
pub use invocations::Invocations;
pub use lines::Lines;
pub use principals::Principals;
pub use quarantines::Quarantines;
pub use rules::Rules;
pub use runs::Runs;
pub use secrets::Secrets;
pub use sessions::Sessions;
pub use sources::AddedSources;

/// The store could not do its work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The store is unreachable, full or read-only. Nothing was written; retrying is safe.
    #[error("the store is not available: {message}; nothing was written, retrying is safe")]
    Unavailable { message: String },
    /// Other servers may soon consider this server gone, so it begins nothing. Only this write was refused; retrying is safe.
    #[error(
        "this server could not tell the others for a while that it lives, and begins nothing until it can; nothing was written, retrying is safe"
    )]
    Fenced,
    /// The connection was lost during the commit: the write may or may not have happened.
    #[error("the store went away during a commit: {message}; it may have been written, read before retrying")]
    CommitUnknown { message: String },
    /// The stored data makes no sense, or the schema refused a write that should be legal.
    #[error("the store holds something unexpected: {message}")]
    Corrupt { message: String },
}

impl Error {
    /// Whether the same call may succeed later and can do no harm.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Fenced => true,
            Self::CommitUnknown { .. } | Self::Corrupt { .. } => false,
        }
    }
}
