//! A person's leave for one purpose. It is looked up, never sent along, and ends the moment it is withdrawn.

use crate::{ActionId, ConsentId, SpaceId, Timestamp, UserId};

/// What a consent is for, such as `action:files.write_text`: a kind and a name.
pub fn is_purpose(text: &str) -> bool {
    let fits = |part: &str| {
        (1..=128).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'*'))
    };
    text.split_once(':').is_some_and(|(kind, name)| fits(kind) && fits(name))
}

/// The purpose of calling one action.
pub fn purpose_of(action: &ActionId) -> String {
    format!("action:{action}")
}

/// A consent, live or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    pub id: ConsentId,
    /// Whose leave it is.
    pub user: UserId,
    /// Only in this space.
    pub space: Option<SpaceId>,
    pub purpose: String,
    /// What the person was shown or said, in words.
    pub evidence: Option<String>,
    pub given_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub withdrawn_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_is_a_kind_and_a_name() {
        for good in ["action:files.write_text", "redaction:message.to", "group:mail"] {
            assert!(is_purpose(good), "{good}");
        }
        for bad in ["", "action", "action:", ":x", "action:a b", "a:b\0", "action:x:y"] {
            assert!(!is_purpose(bad), "{bad}");
        }
    }
}
