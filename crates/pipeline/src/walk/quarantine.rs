//! How the content of a quarantined call is kept for review: sealed under the key of its space, and stored nowhere else.

use crate::error::Error;
use countersign_core::keyring::SpaceKey;
use countersign_core::ledger::SealedPayload;
use countersign_core::{InvocationId, json};
use serde_json::Value;

/// Stands in the row of a quarantined call in place of its params, which exist only sealed.
pub(crate) fn marker() -> Value {
    serde_json::json!({ "_quarantined": true })
}

pub(crate) fn sealed(key: &dyn SpaceKey, id: &InvocationId, value: &Value) -> Result<SealedPayload, Error> {
    // A source may answer with numbers that have no canonical form; its compact JSON text is still unambiguous.
    let text = json::canonical(value).unwrap_or_else(|_| value.to_string());
    Ok(SealedPayload { bytes: key.seal(&context_of(id), text.as_bytes()), digest: key.digest("quarantine", text.as_bytes()) })
}

pub(crate) fn context_of(id: &InvocationId) -> String {
    format!("quarantine:{id}")
}
