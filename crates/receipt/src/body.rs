//! What the entries say. A body holds every field, absent values as `null`, and no float: receipts promise its canonical text for
//! years. A field that was added later is left out while it has no value, so that older entries can still be read.
//! Fields stand in canonical order, so that nothing has to be sorted when a body is written.

mod batch;
mod identity;
mod receipt;
mod rule;

pub use batch::{BatchBody, PartBody, PartRevertBody};
pub use identity::{Answer, AnswerBody, IdentityBody, IdentityChange};
pub use receipt::{
    ApprovalBody, Cost, DefinitionDigests, EditBody, EgressBody, IntentBody, Outputs, PolicyVerdict, ReceiptBody, Remedy, Reward, Sandbox,
    Timing, Verification,
};
pub use rule::{ModeBody, REMOVED, REVOKED, RuleBody, RuleChange, RuleFacts, RuleInForce, RuleMaker, SpaceBody, Terms, said};

use crate::{Error, key::PublicKey};
use countersign_core::json;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The content of one kind of entry.
pub trait Body: Serialize + DeserializeOwned {
    fn to_canonical(&self) -> Result<String, Error> {
        json::canonical_exact(self).map_err(|error| Error::NotStrict { what: "body", message: error.to_string() })
    }

    /// Reads a body, and checks that this version would write it in exactly the same way. So no part of it can go unread.
    fn read(body: &Value) -> Result<Self, Error> {
        let unknown = |message: String| Error::UnknownShape { what: "body", message };
        let typed = Self::deserialize(body).map_err(|error| unknown(error.to_string()))?;
        let again = serde_json::to_value(&typed).map_err(|error| unknown(error.to_string()))?;
        if &again != body {
            return Err(unknown("a field is missing, unknown, or written in another way".to_owned()));
        }
        Ok(typed)
    }
}

impl Body for KeyBody {}
impl Body for ModeBody {}
impl Body for SpaceBody {}
impl Body for RuleBody {}
impl Body for IdentityBody {}
impl Body for AnswerBody {}
impl Body for IntentBody {}
impl Body for ReceiptBody {}
impl Body for BatchBody {}

/// A public key as base64 of its 32 bytes. It is kept as text, because a verifier must also be able to read a bad one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyText(String);

impl KeyText {
    pub fn new(key: &PublicKey) -> Self {
        Self(key.to_base64())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn read(&self) -> Result<PublicKey, Error> {
        PublicKey::from_base64(&self.0)
    }
}

/// The keys of the audit log. At seq 0 the receipt key announced here signs the entry; later the key that is replaced signs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyBody {
    pub checkpoint_key: KeyText,
    pub receipt_key: KeyText,
    /// The id of the receipt key that signed up to this entry; absent at seq 0.
    pub replaces: Option<String>,
    /// Ids of keys that must never sign again.
    pub revoked: Vec<String>,
    /// The seq from which `receipt_key` signs: `0` at seq 0, later the seq after this entry.
    pub starts_at_seq: String,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Kind;
    use crate::story::{Story, at};
    use serde_json::json;

    #[test]
    fn every_body_reads_back_as_it_was_written() {
        for draft in Story::new().drafts {
            let text = json::canonical(&draft.body).unwrap();
            let again = match draft.kind {
                Kind::Key => KeyBody::read(&draft.body).and_then(|body| body.to_canonical()),
                Kind::Mode => ModeBody::read(&draft.body).and_then(|body| body.to_canonical()),
                Kind::Space => SpaceBody::read(&draft.body).and_then(|body| body.to_canonical()),
                Kind::Rule => RuleBody::read(&draft.body).and_then(|body| body.to_canonical()),
                Kind::Identity => IdentityBody::read(&draft.body).and_then(|body| body.to_canonical()),
                Kind::Answer => AnswerBody::read(&draft.body).and_then(|body| body.to_canonical()),
                Kind::Intent => IntentBody::read(&draft.body).and_then(|body| body.to_canonical()),
                Kind::Receipt => ReceiptBody::read(&draft.body).and_then(|body| body.to_canonical()),
                Kind::Batch => BatchBody::read(&draft.body).and_then(|body| body.to_canonical()),
            };
            assert_eq!(again, Ok(text));
        }
    }

    #[test]
    fn a_receipt_is_written_in_full_without_a_float() {
        let receipt = Story::new().receipt(at::READ);
        let value: Value = serde_json::from_str(&receipt.to_canonical().unwrap()).unwrap();
        let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = "action approval artifacts attempts cost decision definition denied_by dry_run error evidence idempotency_key \
                        invocation_id outputs owner params policy policy_slice principal raw receipt_id repair replayed reward rollback \
                        sandbox session space status supersedes tier timing trace_id verification";
        assert_eq!(keys, expected.split_whitespace().collect::<Vec<_>>());
        assert_eq!(value["policy"]["rbac"], json!({ "determining": ["builtin.invoke"], "verdict": "ok" }));
        let gates: Vec<_> = value["policy"].as_object().unwrap().keys().collect();
        assert_eq!(gates, ["abac", "consent", "rbac", "redaction", "safety", "space"]);
        fn has_float(value: &Value) -> bool {
            match value {
                Value::Number(number) => number.is_f64(),
                Value::Array(items) => items.iter().any(has_float),
                Value::Object(members) => members.values().any(has_float),
                Value::Null | Value::Bool(_) | Value::String(_) => false,
            }
        }
        assert!(!has_float(&value));
    }

    #[test]
    fn what_this_version_would_not_have_written_is_refused() {
        let good = Story::new().drafts.swap_remove(at::WRITE as usize).body;
        assert!(ReceiptBody::read(&good).is_ok());
        let spoil = |change: fn(&mut Value)| {
            let mut body = good.clone();
            change(&mut body);
            assert_ne!(body, good);
            let found = ReceiptBody::read(&body);
            assert!(matches!(found, Err(Error::UnknownShape { .. })), "{found:?}");
        };
        spoil(|body| body["extra"] = json!(1));
        spoil(|body| body["decision"]["extra"] = json!(1));
        spoil(|body| body["timing"]["extra"] = json!(1));
        spoil(|body| body["policy"]["rbac"]["extra"] = json!(1));
        spoil(|body| body["policy"]["luck"] = json!({ "verdict": "ok", "determining": [] }));
        spoil(|body| drop(body.as_object_mut().unwrap().shift_remove("error")));
        spoil(|body| body["cost"]["cpu_ms"] = json!(3.5));
        spoil(|body| body["cost"]["cpu_ms"] = json!(-3));
        spoil(|body| body["timing"]["ended_at"] = json!("2025-11-15T00:00:03Z"));
        spoil(|body| body["status"] = json!("done"));
    }

    #[test]
    fn an_integer_that_signing_would_change_is_refused() {
        let mut receipt = Story::new().receipt(at::READ);
        receipt.cost.cpu_ms = Some((1 << 53) - 1);
        assert!(receipt.to_canonical().is_ok());
        for cpu_ms in [1 << 53, (1 << 53) + 1, u64::MAX] {
            receipt.cost.cpu_ms = Some(cpu_ms);
            assert!(matches!(receipt.to_canonical(), Err(Error::NotStrict { .. })), "{cpu_ms}");
        }
    }
}
