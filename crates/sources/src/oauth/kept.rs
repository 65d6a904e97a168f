//! What is kept of an OAuth connection, as one JSON text that is sealed as a whole: the client that a person gave, the client we are, and
//! the tokens. Each names its issuer, so that nothing of one authorization server is ever sent to another.

use crate::words::failed;
use countersign_core::ports::secrets::SecretValue;
use countersign_core::source::Error;
use countersign_core::{Secret, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Everything that is kept of a connection.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Credential {
    pub(crate) given: Option<Given>,
    pub(crate) client: Option<Client>,
    pub(crate) tokens: Option<Tokens>,
}

/// A client that was registered by hand, as a person gave it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    pub(crate) id: String,
    #[serde(with = "hidden::maybe")]
    pub(crate) secret: Option<Secret<String>>,
}

/// Who we are to one authorization server.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Client {
    pub(crate) issuer: String,
    pub(crate) id: String,
    #[serde(with = "hidden::maybe")]
    pub(crate) secret: Option<Secret<String>>,
    pub(crate) auth: ClientAuth,
    pub(crate) redirect_uri: String,
    pub(crate) how: Registered,
}

/// How a client shows who it is at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClientAuth {
    None,
    ClientSecretBasic,
    ClientSecretPost,
}

/// How the authorization server came to know the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Registered {
    ByHand,
    /// Its id is the address of a document that describes it.
    ByDocument,
    Dynamically,
}

/// The tokens of one login.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tokens {
    pub(crate) issuer: String,
    pub(crate) token_endpoint: String,
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) resource: String,
    #[serde(with = "hidden")]
    pub(crate) access: Secret<String>,
    #[serde(with = "hidden::maybe")]
    pub(crate) refresh: Option<Secret<String>>,
    /// In microseconds; absent if the authorization server did not say.
    pub(crate) expires_at: Option<i64>,
    pub(crate) scope: Option<String>,
}

impl Tokens {
    pub(crate) fn is_fresh(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| now < Timestamp::from_micros(at))
    }
}

impl Credential {
    pub(crate) fn read(value: &SecretValue) -> Result<Self, Error> {
        read(value)
    }

    pub(crate) fn write(&self) -> Result<SecretValue, Error> {
        write(self)
    }
}

/// SECURITY: an error of serde quotes what it read, so it is not passed on.
pub(super) fn read<T: DeserializeOwned>(value: &SecretValue) -> Result<T, Error> {
    serde_json::from_str(value.expose()).map_err(|_| failed("login_failed", "what is kept of the login cannot be read; log in again"))
}

pub(super) fn write(value: &impl Serialize) -> Result<SecretValue, Error> {
    let text = serde_json::to_string(value).ok().and_then(|text| SecretValue::new(Secret::new(text)));
    text.ok_or_else(|| failed("login_failed", "the authorization server's tokens are too long to be kept"))
}

/// Secrets inside the text that is sealed. They are written nowhere else.
pub(super) mod hidden {
    use countersign_core::Secret;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &Secret<String>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(value.expose())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret<String>, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }

    pub(crate) mod maybe {
        use countersign_core::Secret;
        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        pub(crate) fn serialize<S: Serializer>(value: &Option<Secret<String>>, serializer: S) -> Result<S::Ok, S::Error> {
            value.as_ref().map(|value| value.expose().as_str()).serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret<String>>, D::Error> {
            Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
        }
    }
}
