//! The definitions of actions: which one a person reviewed, and what happens when another is seen.

use super::Error;
use super::invocations::{Finish, Finished};
use crate::decision::Drift;
use crate::{ActionId, Digest, Future, OrgId, PrincipalId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Reviewed and archived definitions of actions.
pub trait Definitions: Send + Sync {
    fn find_pin<'a>(&'a self, org: &'a OrgId, action: &'a ActionId) -> Future<'a, Result<Option<Pin>, Error>>;
    /// A person stands for this definition from here on.
    fn review<'a>(&'a self, org: &'a OrgId, action: &'a ActionId, pin: Pin, by: &'a PrincipalId) -> Future<'a, Result<(), Error>>;
    /// The same, unless there is a definition already that somebody stands for.
    fn pin_first<'a>(&'a self, org: &'a OrgId, action: &'a ActionId, pin: Pin, by: &'a PrincipalId) -> Future<'a, Result<(), Error>>;
    /// Notes that an action is no longer what was reviewed, which blocks its pending calls, and revokes its grants; then ends these
    /// pending calls. Returns how each of them ended, in their order. Give it at most `limits::DRIFT_ENDS_PER_WRITE` of them, and the
    /// rest in further calls: a drift that is known already is not noted twice.
    fn drift<'a>(&'a self, org: &'a OrgId, drift: NewDrift, ends: Vec<Arc<Finish>>) -> Future<'a, Result<Vec<Finished>, Error>>;
    /// Keeps a definition under its digest; a second time changes nothing.
    fn archive_definition<'a>(&'a self, org: &'a OrgId, definition: ArchivedDefinition) -> Future<'a, Result<(), Error>>;
}

/// A definition kept for whoever verifies receipts later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedDefinition {
    pub digest: Digest,
    /// Canonical JSON.
    pub body: String,
}

/// The definition of an action that a person reviewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    pub structural: Digest,
    pub textual: Digest,
    /// Whether a change of words alone matters.
    pub wording: Wording,
    /// The other definition that was seen last, where one was.
    pub seen: Option<(Digest, Digest)>,
}

/// Whether an action whose words have changed waits for a review.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wording {
    #[default]
    Reviewed,
    /// A person said that changes of words may pass.
    Ignored,
    /// Somebody let the action run as it was, and nobody has read it: what differs is drift, and what was found in it still asks.
    Unread,
}

/// A definition that is not the reviewed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDrift {
    pub action: ActionId,
    pub drift: Drift,
    pub structural: Digest,
    pub textual: Digest,
}
