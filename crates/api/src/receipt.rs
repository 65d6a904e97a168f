//! Receipts, proofs and keys on the wire.

use countersign_core::Timestamp;
use receipt::entry::Kind;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A signed entry of the org's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EntryView {
    /// Gap-free position in the log.
    pub seq: u64,
    pub kind: Kind,
    pub id: String,
    pub invocation_id: Option<String>,
    /// The position, chain and body exactly as signed, for reading. Verify the envelope, not this.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub payload: Value,
    /// DSSE.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub envelope: Value,
}

/// Proves that a receipt is in the log that a checkpoint describes.
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

/// What a key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyPurpose {
    Receipt,
    Checkpoint,
}

/// A public key of the org's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyView {
    pub key_id: String,
    pub purpose: KeyPurpose,
    /// Base64 of the 32 bytes of an Ed25519 public key.
    pub public: String,
    /// The same as SPKI PEM.
    pub pem: String,
    pub starts_at_seq: u64,
    pub created_at: Timestamp,
    pub retired_at: Option<Timestamp>,
    /// When it was revoked because others may hold it.
    pub revoked_at: Option<Timestamp>,
}

/// Replaces the keys that sign receipts and checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKeysRequest {
    /// Others may hold the old keys: the log records it, and nothing they sign is valid from then on.
    #[serde(default)]
    pub revoke: bool,
}

/// The master key, which seals the keys of every org, its secrets and the credentials of its connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MasterKeyView {
    /// Whether values are still sealed under the key before it.
    pub is_replacing: bool,
    /// How many values that are.
    pub values_left: u64,
    /// Who began the last replacement; absent if there was none, or if it was made on the data folder, without a server.
    pub replaced_by: Option<String>,
    pub began_at: Option<Timestamp>,
    /// From then on the key before it opens nothing.
    pub ended_at: Option<Timestamp>,
}

/// The newest signed statement of how long the log is and what it hashes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointResponse {
    pub checkpoint: Option<String>,
}

/// Whether the database agrees with its audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IntegrityView {
    pub ok: bool,
    /// Entries of the log.
    pub entries: u64,
    /// In which ways the database differs from the log, as sentences; at most a hundred.
    pub differences: Vec<String>,
}
