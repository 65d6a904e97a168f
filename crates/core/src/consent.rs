//! A person's consent to one purpose. It is read from the store, never sent with a call, and ends as soon as it is withdrawn.

use crate::{ActionId, ConsentId, SpaceId, Timestamp, UserId};

/// Whether the text is a purpose, a kind and a name, such as `action:files.write_text`.
pub fn is_purpose(text: &str) -> bool {
    let fits = |part: &str| {
        (1..=128).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'*'))
    };
    text.split_once(':').is_some_and(|(kind, name)| fits(kind) && fits(name))
}

/// The kinds of purposes whose name is an action.
pub const KINDS_OF_ACTIONS: [&str; 2] = ["action:", "redaction:"];

/// The action that a purpose is about, if it is about one.
pub fn action_of(purpose: &str) -> Option<&str> {
    KINDS_OF_ACTIONS.iter().find_map(|kind| purpose.strip_prefix(*kind))
}

/// The purpose of calling this action.
pub fn purpose_of(action: &ActionId) -> String {
    format!("action:{action}")
}

/// A purpose in our words: older contracts say `tool:files.write_text`.
pub fn in_our_words(purpose: &str) -> String {
    purpose.strip_prefix("tool:").map_or_else(|| purpose.to_owned(), |action| format!("action:{action}"))
}

/// The same purpose in the older words, if they have one for it.
pub fn in_older_words(purpose: &str) -> Option<String> {
    purpose.strip_prefix("action:").map(|action| format!("tool:{action}"))
}

/// The purposes of which one is enough to call this action: its own, and that of every action of its source.
pub fn purposes_of(action: &ActionId) -> [String; 2] {
    [purpose_of(action), format!("action:{}.*", action.source())]
}

/// A consent, current or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    pub id: ConsentId,
    /// The person who consents.
    pub user: UserId,
    /// If set, the consent holds in this space only.
    pub space: Option<SpaceId>,
    pub purpose: String,
    /// What the person was shown or said, as text.
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
        assert_eq!(action_of("redaction:message.to"), Some("message.to"));
        assert_eq!(action_of("group:mail"), None);
        for (theirs, ours) in
            [("tool:files.write_text", "action:files.write_text"), ("tool:files.*", "action:files.*"), ("group:mail", "group:mail")]
        {
            assert_eq!(in_our_words(theirs), ours);
            assert_eq!(in_older_words(ours), (theirs != ours).then(|| theirs.to_owned()));
        }
        for bad in ["", "action", "action:", ":x", "action:a b", "a:b\0", "action:x:y"] {
            assert!(!is_purpose(bad), "{bad}");
        }
    }
}
