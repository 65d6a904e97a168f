//! Quarantine: the call has ended, and its dangerous content is kept, sealed, until an approver releases or discards it.

use crate::{ActionId, Digest, InvocationId, PrincipalId, SessionId, SpaceId, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why something was quarantined; never the content itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caught {
    pub rule: String,
    /// RFC 6901, into the params.
    pub pointer: String,
    pub message: String,
}

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Holds {
    /// The params of a call that was not performed.
    Params,
    /// The source's answer to a call that was performed: the effect has happened, and only the answer is withheld.
    Output,
}

crate::words!(Holds { Params = "params", Output = "output" });

/// Where a quarantine is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuarantineState {
    Held,
    Released,
    Discarded,
    /// It was not settled in time, and its content is gone.
    Expired,
}

crate::words!(QuarantineState { Held = "held", Released = "released", Discarded = "discarded", Expired = "expired" });

/// A quarantined call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// The invocation that was quarantined.
    pub invocation: InvocationId,
    pub space: SpaceId,
    pub session: SessionId,
    pub action: ActionId,
    pub principal: PrincipalId,
    pub owner: Option<UserId>,
    pub holds: Holds,
    /// HMAC of the content, under the key of the space, so that a person can say which content they looked at.
    pub digest: Digest,
    pub caught: Vec<Caught>,
    pub state: QuarantineState,
    pub settled_by: Option<PrincipalId>,
    pub settled_at: Option<Timestamp>,
    pub reason: Option<String>,
    /// The new invocation that a release started.
    pub released_as: Option<InvocationId>,
    pub expires_at: Timestamp,
    pub created_at: Timestamp,
}
