//! The definitions of actions: which one a person reviewed, and what happens when a source offers another.

use super::Error;
use super::invocations::{Finish, Finished};
use crate::decision::Drift;
use crate::{ActionId, Digest, Future, OrgId, PrincipalId, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Reviewed and archived definitions of actions.
pub trait Definitions: Send + Sync {
    fn find_pin<'a>(&'a self, org: &'a OrgId, action: &'a ActionId) -> Future<'a, Result<Option<Pin>, Error>>;
    /// Pins this definition as reviewed by a person.
    fn review<'a>(&'a self, org: &'a OrgId, action: &'a ActionId, pin: Pin, by: &'a PrincipalId) -> Future<'a, Result<(), Error>>;
    /// The same, unless the action already has a pinned definition.
    fn pin_first<'a>(&'a self, org: &'a OrgId, action: &'a ActionId, pin: Pin, by: &'a PrincipalId) -> Future<'a, Result<(), Error>>;
    /// Records that an action is no longer what was reviewed, which blocks its pending calls and revokes its grants; then ends these
    /// pending calls. Returns how each of them ended, in their order. Pass at most `limits::DRIFT_ENDS_PER_WRITE` of them, and the rest in
    /// further calls: a drift that is already known is not recorded twice.
    fn drift<'a>(&'a self, org: &'a OrgId, drift: NewDrift, ends: Vec<Arc<Finish>>) -> Future<'a, Result<Vec<Finished>, Error>>;
    /// Stores a definition under its digest. Storing it again changes nothing.
    fn archive_definition<'a>(&'a self, org: &'a OrgId, definition: ArchivedDefinition) -> Future<'a, Result<(), Error>>;
}

/// A definition that is kept for later verification of receipts.
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
    /// Whether a change of the texts alone counts as drift.
    pub wording: Wording,
    /// The digests of the last other definition that was seen, if any.
    pub seen: Option<(Digest, Digest)>,
    /// When it was reviewed or, if later, when `seen` was recorded, by the store's clock. Absent in a pin that is to be written.
    pub changed_at: Option<Timestamp>,
}

/// How the texts of the definition were reviewed, which decides whether a change of them is drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wording {
    #[default]
    Reviewed,
    /// A reviewer permitted changes of the texts.
    Ignored,
    /// The action was allowed as it was, and nobody has read it. A difference is drift, and findings in the definition still need an
    /// approval.
    Unread,
}

crate::words!(Wording { Reviewed = "reviewed", Ignored = "ignored", Unread = "unread" });

/// A definition that is not the reviewed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDrift {
    pub action: ActionId,
    pub drift: Drift,
    pub structural: Digest,
    pub textual: Digest,
}
