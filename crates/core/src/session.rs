//! Where calls come from: a session inside a space inside an org.

use crate::{AutomationId, OrgId, PrincipalId, SessionId, SpaceId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

/// Whether a person sits at the other end; decides how long an approval may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attendance {
    Interactive,
    Unattended,
}

impl Attendance {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Unattended => "unattended",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Interactive, Self::Unattended].into_iter().find(|attendance| attendance.as_str() == text)
    }

    /// How long a pending invocation waits for a person.
    pub const fn approval_seconds(self) -> u64 {
        match self {
            Self::Interactive => crate::limits::APPROVAL_INTERACTIVE_SECONDS,
            Self::Unattended => crate::limits::APPROVAL_UNATTENDED_SECONDS,
        }
    }
}

/// One agent's working context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub org: OrgId,
    pub space: SpaceId,
    /// Whoever created it: a person, or a service with the permission.
    pub created_by: PrincipalId,
    /// The person it works for, where there is one.
    pub owner: Option<UserId>,
    pub title: String,
    pub attendance: Attendance,
    pub automation: Option<AutomationId>,
    pub created_at: Timestamp,
    /// After this nothing can be invoked in it.
    pub ended_at: Option<Timestamp>,
}

/// How much risk a space tolerates, ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Band {
    Green,
    Amber,
    Red,
    Black,
}

impl Band {
    pub const ALL: [Self; 4] = [Self::Green, Self::Amber, Self::Red, Self::Black];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Amber => "amber",
            Self::Red => "red",
            Self::Black => "black",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|band| band.as_str() == text)
    }
}

/// Whether whoever asked, or owns the agent that asked, may also answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SelfApproval {
    Allowed,
    Refused,
}

/// A scope inside an org.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    pub id: SpaceId,
    pub org: OrgId,
    /// Unique in its org; the first one is `main`.
    pub name: String,
    pub band: Band,
    pub self_approval: SelfApproval,
    pub created_at: Timestamp,
}
