//! Secrets on the wire. A value travels in one direction only: to the server.

use countersign_core::{Secret, Timestamp};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

/// A value to be kept: of a new secret, or in place of the one it has.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSecretRequest {
    /// 1 to 65536 bytes. It is never sent back.
    #[serde(serialize_with = "sent", deserialize_with = "taken")]
    #[schema(value_type = String, write_only)]
    pub value: Secret<String>,
    /// What it is for. If it is absent, a secret that exists keeps the one it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The version that the value replaces. Without it there must be no secret with this name yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
}

/// A secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretView {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    /// 1 for the first value, and 1 more for each that replaced it.
    pub version: i64,
    /// Who set the present value.
    pub set_by: String,
    pub set_at: Timestamp,
    /// When a call last used it, to the minute.
    pub last_used_at: Option<Timestamp>,
}

/// Something that uses a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretUseView {
    /// The kind of thing, such as `connection`.
    pub kind: String,
    pub id: String,
    pub name: String,
}

pub(crate) fn sent<S: Serializer>(value: &Secret<String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.expose())
}

/// SECURITY: whatever stands there may be the secret, so the error does not quote it, as those of serde do.
pub(crate) fn taken<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(Secret::new(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(D::Error::custom("`value` must be a text"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_sent_and_never_printed() {
        let request: SetSecretRequest = serde_json::from_value(json!({ "value": "hunter2" })).unwrap();
        assert_eq!(serde_json::to_value(&request).unwrap(), json!({ "value": "hunter2" }));
        assert!(!format!("{request:?}").contains("hunter2"), "{request:?}");
    }

    #[test]
    fn what_is_no_text_is_refused_and_not_quoted() {
        for value in [json!(7731), json!(true), json!([7731]), json!({ "a": 7731 }), json!(null)] {
            let error = serde_json::from_value::<SetSecretRequest>(json!({ "value": value })).unwrap_err().to_string();
            assert_eq!(error, "`value` must be a text");
        }
    }
}
