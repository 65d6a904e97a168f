//! Receipts, proofs and keys on the wire.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A signed entry of the org's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EntryView {
    /// Gap-free position in the log.
    pub seq: u64,
    /// `receipt` of a call, `batch` of several together, `intent`, `mode`, `space`, `rule` or `key`.
    pub kind: String,
    pub id: String,
    pub invocation_id: Option<String>,
    /// The position, chain and body exactly as signed, for reading. Verify the envelope, not this.
    #[schema(value_type = Object)]
    pub payload: Value,
    /// DSSE.
    #[schema(value_type = Object)]
    pub envelope: Value,
}

/// Shows that a receipt stands in the log a checkpoint describes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProofView {
    pub entry: EntryView,
    /// RFC 6962 leaf hash of the payload, hex.
    pub leaf: String,
    pub index: u64,
    /// Audit path, hex, from the leaf up.
    pub hashes: Vec<String>,
    /// A signed note: origin, size, root.
    pub checkpoint: String,
}

/// A public key of the org's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyView {
    pub key_id: String,
    /// `receipt` or `checkpoint`.
    pub purpose: String,
    /// Base64 of the 32 bytes of an Ed25519 public key.
    pub public: String,
    /// The same as SPKI PEM.
    pub pem: String,
    pub starts_at_seq: u64,
    pub created_at: String,
    pub retired_at: Option<String>,
    /// When it was said to be in other hands.
    pub revoked_at: Option<String>,
}

/// Replaces the keys that sign receipts and checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKeysRequest {
    /// The old keys may be in other hands: the log says so, and nothing they sign counts from then on.
    #[serde(default)]
    pub revoke: bool,
}

/// The newest signed statement of how long the log is and what it hashes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointResponse {
    pub checkpoint: Option<String>,
}
