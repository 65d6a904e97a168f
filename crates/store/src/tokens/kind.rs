//! Whom a token stands for.

use countersign_core::{SessionId, UserId};

/// The principal that a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    User(UserId),
    /// Nobody yet: the person becomes able to act by redeeming it, once.
    Invitation(UserId),
    /// An agent, in this session only.
    Agent(SessionId),
    /// A service. The person who made its token answers for it.
    Service {
        made_by: Option<UserId>,
    },
}

impl TokenKind {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Invitation(_) => "invitation",
            Self::Agent(_) => "agent",
            Self::Service { .. } => "service",
        }
    }
}
