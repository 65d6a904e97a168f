//! Ids. Each kind is a type of its own, so ids cannot be mixed up in code, and has a prefix that is recognised in a log.
//! An id is its prefix and 26 characters: 48 bits of milliseconds, then 80 random bits. So ids sort by creation time.

use crate::Timestamp;
use std::fmt;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ENCODED_CHARS: usize = 26;

/// The text is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid id: it must be `{prefix}` followed by {ENCODED_CHARS} characters of 0-9 and a-z without i, l, o, u")]
pub struct InvalidId {
    pub prefix: &'static str,
    pub text: String,
}

macro_rules! prefixed_id {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            /// Makes an id with the creation time `at`; `random` must be unpredictable for ids that strangers see.
            pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
                Self(encode($prefix, at, random).into())
            }

            /// Accepts exactly what `new` makes.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                if is_encoded($prefix, text) {
                    Ok(Self(text.into()))
                } else {
                    Err(InvalidId { prefix: $prefix, text: text.chars().take(64).collect() })
                }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::parse(text)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    )*};
}

prefixed_id! {
    /// A tenant. No data is ever read across orgs.
    OrgId = "org_";
    /// A scope inside an org, with its own band and keys.
    SpaceId = "spc_";
    /// A person.
    UserId = "usr_";
    /// One agent's working context.
    SessionId = "ses_";
    /// A credential; its text is shown once and never stored.
    TokenId = "tok_";
    /// One request to perform one action.
    InvocationId = "inv_";
    /// Several invocations, requested together.
    BatchId = "bat_";
    /// One person's answer to one pending invocation.
    ApprovalId = "apr_";
    /// The signed entry before an effect.
    IntentId = "int_";
    /// The signed entry that ends an invocation.
    ReceiptId = "rcp_";
    /// An immutable fact.
    EventId = "evt_";
    /// An org's append-only log of signed entries.
    LogId = "log_";
    /// A message shown to people inside the product.
    NotificationId = "ntf_";
    /// A standing permission, or the request for one.
    GrantId = "grt_";
    /// A person's consent to one purpose.
    ConsentId = "cns_";
    /// A canary token.
    CanaryId = "cny_";
    /// A secret of an org; its value is never shown.
    SecretId = "sec_";
    /// A connection: the credential of a source, and where it may be sent.
    ConnectionId = "con_";
    /// A channel: where an org is told of calls that wait.
    ChannelId = "chn_";
    /// One notice on its way to one recipient of a channel.
    DeliveryId = "dlv_";
    /// An event that a consumer group has given up.
    DeadLetterId = "dlt_";
    /// One server process, from its start to its end.
    ServerId = "srv_";
    /// A saved automation definition.
    AutomationId = "aut_";
    /// A definition that nobody has saved yet.
    DraftId = "drf_";
    /// One occurrence of a trigger.
    FiringId = "fir_";
    /// One execution of an automation's plan.
    RunId = "run_";
    /// A text that a space keeps for its calls to look for.
    DocumentId = "doc_";
    /// Bytes that a call or a run made.
    ArtifactId = "art_";
}

/// Who acts. Agents act inside their session; a service is known by its token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PrincipalId {
    User(UserId),
    Agent(SessionId),
    Service(TokenId),
    Automation(AutomationId),
}

impl PrincipalId {
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Agent(_) => "agent",
            Self::Service(_) => "service",
            Self::Automation(_) => "automation",
        }
    }

    /// Reads what `Display` prints.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once(':')?;
        match kind {
            "user" => UserId::parse(id).ok().map(Self::User),
            "agent" => SessionId::parse(id).ok().map(Self::Agent),
            "service" => TokenId::parse(id).ok().map(Self::Service),
            "automation" => AutomationId::parse(id).ok().map(Self::Automation),
            _ => None,
        }
    }
}

/// `user:usr_…`, `agent:ses_…`, `service:tok_…`, `automation:aut_…`.
impl fmt::Display for PrincipalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = match self {
            Self::User(id) => id.as_str(),
            Self::Agent(id) => id.as_str(),
            Self::Service(id) => id.as_str(),
            Self::Automation(id) => id.as_str(),
        };
        write!(f, "{}:{id}", self.kind())
    }
}

impl serde::Serialize for PrincipalId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for PrincipalId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not a principal")))
    }
}

fn encode(prefix: &str, at: Timestamp, random: [u8; 10]) -> String {
    let millis = u64::try_from(at.as_micros() / 1_000).unwrap_or(0) & 0xffff_ffff_ffff;
    let mut low = [0u8; 16];
    low[6..].copy_from_slice(&random);
    let bits = (u128::from(millis) << 80) | u128::from_be_bytes(low);
    let mut text = String::with_capacity(prefix.len() + ENCODED_CHARS);
    text.push_str(prefix);
    for position in (0..ENCODED_CHARS).rev() {
        let index = (bits >> (position * 5)) & 31;
        text.push(char::from(ALPHABET[index as usize]));
    }
    text
}

fn is_encoded(prefix: &str, text: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        rest.len() == ENCODED_CHARS
            && rest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'h' | b'j' | b'k' | b'm' | b'n' | b'p'..=b't' | b'v'..=b'z'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_alphabet_is_accepted() {
        for byte in 0..=u8::MAX {
            let text = format!("inv_{}", char::from(byte).to_string().repeat(ENCODED_CHARS));
            assert_eq!(InvocationId::parse(&text).is_ok(), ALPHABET.contains(&byte), "{text}");
        }
    }

    #[test]
    fn ids_parse_back_sort_by_birth_and_refuse_other_prefixes() {
        let early = InvocationId::new(Timestamp::from_micros(1_700_000_000_000_000), [255; 10]);
        let late = InvocationId::new(Timestamp::from_micros(1_700_000_000_001_000), [0; 10]);
        assert!(early < late);
        assert_eq!(InvocationId::parse(early.as_str()), Ok(early.clone()));
        assert!(ReceiptId::parse(early.as_str()).is_err());
        for bad in
            ["", "inv_", "inv_0123", "inv_0123456789abcdefghijklmnop", "INV_01234567890123456789012345", "inv_01234567890123456789012345\0"]
        {
            assert!(InvocationId::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
