//! The rows of artifacts. A row comes before its bytes and goes after them, so whatever is interrupted, no bytes are left that nobody knows of.

use super::Error;
use crate::artifact::{Artifact, ArtifactRetention, Visibility};
use crate::{ArtifactId, Digest, Future, InvocationId, OrgId, SessionId, SpaceId};

/// The rows of artifacts.
pub trait Artifacts: Send + Sync {
    /// Adds the row of an artifact whose bytes are about to be kept. Whose session it is, and of which run, the store knows.
    fn add_artifact(&self, new: NewArtifact) -> Future<'_, Result<Artifact, Error>>;
    fn find_artifact<'a>(&'a self, org: &'a OrgId, artifact: &'a ArtifactId) -> Future<'a, Result<Option<Artifact>, Error>>;
    /// Artifacts whose bytes are to be removed now, the oldest first, at most `limit` and only those `after` this one: their time is over, or the
    /// org keeps calls of their age no longer. Those of a run that has not ended are not among them.
    fn list_expired_artifacts<'a>(
        &'a self,
        org: &'a OrgId,
        after: Option<&'a ArtifactId>,
        limit: u32,
    ) -> Future<'a, Result<Vec<Artifact>, Error>>;
    /// Forgets an artifact whose bytes are gone. Of one in quarantine the row stays, with its digest.
    fn forget_artifact<'a>(&'a self, org: &'a OrgId, artifact: &'a ArtifactId) -> Future<'a, Result<(), Error>>;
}

/// An artifact to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewArtifact {
    pub id: ArtifactId,
    pub org: OrgId,
    pub space: SpaceId,
    pub session: SessionId,
    pub invocation: Option<InvocationId>,
    pub name: String,
    pub media_type: String,
    pub size: u64,
    pub sha256: Digest,
    pub retention: ArtifactRetention,
    pub visibility: Visibility,
}
