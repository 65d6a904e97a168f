//! Artifacts beside calls: what runs keep, what people read, and what is kept no longer.

use crate::error::Error;
use crate::pipeline::Pipeline;
use crate::walk::Made;
use countersign_core::artifact::Artifact;
use countersign_core::{InvocationId, OrgId, SessionId, SpaceId};

impl Pipeline {
    /// Whether there is a place for the bytes of artifacts.
    pub fn keeps_artifacts(&self) -> bool {
        self.walk.keeps_artifacts()
    }

    /// Keeps bytes that were made in a session.
    pub async fn keep_artifact(
        &self,
        whose: (&OrgId, &SpaceId, &SessionId),
        invocation: Option<&InvocationId>,
        made: Made,
    ) -> Result<Artifact, Error> {
        Ok(self.walk.keep_artifact(whose, invocation, made).await?)
    }

    /// The bytes of an artifact; `None` if they are gone, or are no longer what they were when they were kept. Who may have them is for the
    /// caller to say.
    pub async fn read_artifact(&self, artifact: &Artifact) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.walk.read_artifact(artifact).await?)
    }

    /// Removes the artifacts of an org whose time is over, with their bytes. Returns how many.
    pub async fn sweep_artifacts(&self, org: &OrgId) -> Result<u64, Error> {
        Ok(self.walk.sweep_artifacts(org).await?)
    }
}
