//! What can be wrong with data that claims to be part of an audit log. Retrying never helps, because the bytes stay the same.

/// The data is not a valid part of an audit log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not JSON with one meaning: it is broken, repeats a key, is nested too deep, or has an integer that signing would change.
    #[error("the {what} is not strict JSON: {message}")]
    NotStrict { what: &'static str, message: String },
    /// The same value could be written as another text, so the digest of this one means nothing.
    #[error("the {what} is not in its canonical form")]
    NotCanonical { what: &'static str },
    /// It has a field, a kind or a version that this reader does not know.
    #[error("the {what} has a shape this version does not know: {message}")]
    UnknownShape { what: &'static str, message: String },
    #[error("the payload type is `{found}`, expected `{expected}`")]
    PayloadType { found: String, expected: &'static str },
    #[error("the {what} is not base64 of the expected length")]
    NotBase64 { what: &'static str },
    #[error("the public key is not a point of the curve in its one encoding")]
    NotAKey,
    /// With such a key, one signature is valid for many messages.
    #[error("the public key `{key_id}` has a small order and proves nothing")]
    WeakKey { key_id: String },
    #[error("key `{key_id}` is not among the keys given")]
    UnknownKey { key_id: String },
    #[error("the signature does not fit key `{key_id}`")]
    WrongSignature { key_id: String },
    /// Other readers accept such a signature, or it could be rewritten without the key.
    #[error("the signature under key `{key_id}` is not in the one form strict Ed25519 accepts")]
    LaxSignature { key_id: String },
    #[error("the note is not a signed checkpoint: {message}")]
    NotANote { message: &'static str },
    #[error("the checkpoint is of `{found}`, expected `{expected}`")]
    OtherOrigin { found: String, expected: String },
    #[error("there is no position {index} in a log of {size} entries")]
    OutsideTree { index: u64, size: u64 },
    #[error("the hash at level {level}, position {position} was not handed in")]
    MissingNode { level: u32, position: u64 },
    #[error("the proof does not lead to the root")]
    WrongProof,
}
