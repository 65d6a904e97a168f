//! Documents of spaces.

use countersign_core::Timestamp;
use countersign_core::ports::documents::Document;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A text that a space keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DocumentView {
    #[schema(example = "doc_01k4c2w9pbnm7sxa8jw5z3d6ht")]
    pub id: String,
    pub space_id: String,
    pub title: String,
    pub tags: Vec<String>,
    /// The file of the workspace that it was imported from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// SHA-256 of the text, in hexadecimal.
    pub sha256: String,
    /// Bytes of the text.
    pub bytes: u64,
    pub created_at: Timestamp,
    pub changed_at: Timestamp,
    /// The text, where one document is shown. Others wrote it: show as plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl DocumentView {
    pub fn new(document: Document, text: Option<String>) -> Self {
        let Document { id, space, path, state, bytes, created_at, changed_at } = document;
        Self {
            id: id.to_string(),
            space_id: space.to_string(),
            title: state.title,
            tags: state.tags,
            path,
            sha256: state.sha256.to_string(),
            bytes,
            created_at,
            changed_at,
            text,
        }
    }
}
