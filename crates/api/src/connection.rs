//! Connections on the wire. A credential travels in one direction only: to the server.

use crate::secret::{sent, taken};
use countersign_core::ports::connections::{ConnectionKind, ConnectionState};
use countersign_core::{Secret, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

/// A connection to be made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewConnectionRequest {
    /// Letters, digits, `_`, `-` and `.`, 1 to 64 of them.
    pub name: String,
    pub kind: ConnectionKind,
    /// The address it is for. The credential is sent to the origin of this address, and to no other. For `smtp` it is a mail server:
    /// `smtps://host`, `smtp://host` with STARTTLS, or `smtp://host?tls=none`, which takes no login.
    pub url: String,
    /// The name of the header, or of the user for `basic` and `smtp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The address that mail comes from, for `smtp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The token, the value of the header, or the password; for `oauth` the secret of the client that `client_id` names. It is never sent
    /// back.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "maybe_sent", deserialize_with = "maybe_taken")]
    #[schema(value_type = Option<String>, write_only)]
    pub value: Option<Secret<String>>,
    /// The name of a secret that has the value. The connection then follows it when it is rotated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Names or ids of the spaces whose calls may use it; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spaces: Option<Vec<String>>,
    /// The scopes that a login asks for; those that the other side names when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// A client that was registered at the authorization server by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
}

/// A connection, without its credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionView {
    pub id: String,
    pub name: String,
    pub kind: ConnectionKind,
    pub url: String,
    /// The name of the header, or of the user for `basic` and `smtp`.
    pub account: Option<String>,
    /// The address that mail comes from, for `smtp`.
    pub from: Option<String>,
    /// The secret that has the value, if the connection has none of its own.
    pub secret: Option<String>,
    /// Who issued its tokens, for `oauth`.
    pub issuer: Option<String>,
    pub scopes: Option<Vec<String>>,
    /// The ids of the spaces whose calls may use it; null: all.
    pub spaces: Option<Vec<String>>,
    /// 1 at first, and 1 more for each login.
    pub version: i64,
    pub state: ConnectionState,
    /// Why a person should look at it.
    pub why: Option<String>,
    /// Who can mend it, if somebody has to.
    pub mended_by: Option<String>,
    pub made_by: String,
    pub made_at: Timestamp,
    /// Who started the last login that succeeded.
    pub login_by: Option<String>,
    pub login_at: Option<Timestamp>,
    /// When a call last used it, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// It is kept, without its credential, for the receipts that name it.
    pub removed_at: Option<Timestamp>,
}

/// What the address of a connection answered to one request with its credential, and to the same one without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionTestResponse {
    /// The HTTP status. Nothing else of the answer is told. Of a mail server: 250 if it would take our mail, 535 if it refuses the login, 550
    /// if it refuses the sender.
    pub status: u16,
    /// The status of the same request without the credential; `null` if the credential was refused, or if that request got no answer.
    pub status_without: Option<u16>,
    /// Whether the credential was taken; `null` if the answer does not say: an error such as 404, or a success that everybody gets.
    pub is_let_in: Option<bool>,
}

/// A login that was started: a person opens the URL, logs in, and is sent back to this server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartedLoginResponse {
    pub url: String,
    pub expires_at: Timestamp,
}

/// How the last login of a connection stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginView {
    pub status: LoginStatus,
    /// Why it failed.
    pub problem: Option<String>,
    pub started_by: String,
    pub started_at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoginStatus {
    /// Nobody has come back yet.
    Open,
    Done,
    Failed,
    Expired,
}

fn maybe_sent<S: Serializer>(value: &Option<Secret<String>>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => sent(value, serializer),
        None => serializer.serialize_none(),
    }
}

fn maybe_taken<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret<String>>, D::Error> {
    taken(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_credential_is_sent_and_never_printed() {
        let written = json!({ "name": "github", "kind": "bearer", "url": "https://api.example.com", "value": "hunter2" });
        let request: NewConnectionRequest = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&request).unwrap(), written);
        assert!(!format!("{request:?}").contains("hunter2"), "{request:?}");
        let wrong = json!({ "name": "github", "kind": "bearer", "url": "https://api.example.com", "value": 7731 });
        assert_eq!(serde_json::from_value::<NewConnectionRequest>(wrong).unwrap_err().to_string(), "`value` must be a text");
    }
}
