//! What makes two calls the same call, asked for again.

use super::{canonical, sha256};
use countersign_core::effect::Scope;
use countersign_core::{ActionId, Digest, PrincipalId, SessionId, Tier};
use serde::Serialize;

/// The facts of a call that do not change when its caller asks for it again: who asks for what, and by which definition. The rules are no part of them: an
/// approval may change a mode itself, and what has begun must be found again whatever the rules are by then.
#[derive(Clone, Debug, Serialize)]
pub struct Identity<'a> {
    pub session: &'a SessionId,
    pub principal: &'a PrincipalId,
    pub action: &'a ActionId,
    pub tier: Tier,
    /// HMAC of the canonical params as sent.
    pub raw: Digest,
    pub scope: &'a Scope,
    pub commands: &'a [String],
    pub structural: Digest,
    pub textual: Digest,
}

/// The digest under which a call that was left is found again.
pub fn identity(identity: &Identity<'_>) -> Digest {
    sha256(&canonical(identity))
}
