//! What the rest asks of the store: one port for each group of questions, with the types it asks and answers with.
//! Every write is one transaction: it happens whole, durably, or not at all.

pub mod batches;
pub mod breakers;
pub mod claims;
pub mod definitions;
pub mod events;
pub mod invocations;
pub mod principals;
pub mod quarantines;
pub mod rules;
pub mod sessions;

pub use batches::Batches;
pub use breakers::Breakers;
pub use claims::Claims;
pub use definitions::Definitions;
pub use events::EventFeed;
pub use invocations::Invocations;
pub use principals::Principals;
pub use quarantines::Quarantines;
pub use rules::Rules;
pub use sessions::Sessions;

/// The store could not do its work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Away, full or read-only. Nothing was written; retrying is safe.
    #[error("the store is not available: {message}; nothing was written, retrying is safe")]
    Unavailable { message: String },
    /// The connection was lost while committing: it may or may not have been written.
    #[error("the store went away during a commit: {message}; it may have been written, read before retrying")]
    CommitUnknown { message: String },
    /// What was read does not make sense, or a rule of the schema refused a write that should be legal.
    #[error("the store holds something unexpected: {message}")]
    Corrupt { message: String },
}

impl Error {
    /// Whether trying the same call again may succeed and cannot do harm.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. } => true,
            Self::CommitUnknown { .. } | Self::Corrupt { .. } => false,
        }
    }
}
