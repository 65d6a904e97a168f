//! The mode of a call.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// What happens to a call: it runs, it needs an approval, or it is denied. The stricter of two wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Allow,
    RequireApproval,
    Deny,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::Allow, Self::RequireApproval, Self::Deny];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::RequireApproval => "require_approval",
            Self::Deny => "deny",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
