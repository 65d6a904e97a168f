//! Artifacts on the wire: what calls and runs made beside their results.

use countersign_core::Timestamp;
use countersign_core::artifact::{Artifact, ArtifactKind, ArtifactRetention, Visibility};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is known of an artifact. Its bytes are behind a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactView {
    pub id: String,
    pub space_id: String,
    /// The session in which it was made.
    pub session_id: String,
    /// The person it was made for.
    pub owner_id: Option<String>,
    /// The run whose step made it.
    pub run_id: Option<String>,
    /// The call that made it.
    pub invocation_id: Option<String>,
    /// A file name.
    pub name: String,
    pub kind: ArtifactKind,
    pub media_type: String,
    pub size_bytes: u64,
    /// SHA-256 of the bytes. It stays when they are withheld.
    pub sha256: String,
    pub retention: ArtifactRetention,
    pub visibility: Visibility,
    pub created_at: Timestamp,
    /// Null: it is kept.
    pub expires_at: Option<Timestamp>,
    /// From then on nobody gets the bytes.
    pub quarantined_at: Option<Timestamp>,
    pub quarantined_by: Option<String>,
}

impl From<Artifact> for ArtifactView {
    fn from(artifact: Artifact) -> Self {
        Self {
            id: artifact.id.to_string(),
            space_id: artifact.space.to_string(),
            session_id: artifact.session.to_string(),
            owner_id: artifact.owner.map(|owner| owner.to_string()),
            run_id: artifact.run.map(|run| run.to_string()),
            invocation_id: artifact.invocation.map(|invocation| invocation.to_string()),
            name: artifact.name,
            kind: artifact.kind,
            media_type: artifact.media_type,
            size_bytes: artifact.size,
            sha256: artifact.sha256.to_string(),
            retention: artifact.retention,
            visibility: artifact.visibility,
            created_at: artifact.created_at,
            expires_at: artifact.expires_at,
            quarantined_at: artifact.quarantined_at,
            quarantined_by: artifact.quarantined_by.map(|by| by.to_string()),
        }
    }
}

/// Asks for a link to the bytes of an artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactLinkRequest {
    /// Such as `10m`; 15 minutes when absent, 24 hours at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactLinkResponse {
    /// A path on this server. It opens for whoever is signed in and may read the artifact, and for nobody else.
    pub path: String,
    pub expires_at: Timestamp,
}
