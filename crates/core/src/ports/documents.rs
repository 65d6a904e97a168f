//! The documents of spaces: texts that calls add, look for and read. A space sees its own and no other.

use super::Error;
use crate::{Digest, DocumentId, Future, InvocationId, OrgId, SessionId, SpaceId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A document, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub id: DocumentId,
    pub space: SpaceId,
    /// The file of the workspace that it was imported from.
    pub path: Option<String>,
    pub state: DocumentState,
    /// Bytes of the text.
    pub bytes: u64,
    pub created_at: Timestamp,
    pub changed_at: Timestamp,
}

/// What can change about a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentState {
    pub title: String,
    /// Sorted, each once.
    pub tags: Vec<String>,
    /// SHA-256 of the text.
    pub sha256: Digest,
}

/// One document before and after a change; `None` where it is not there. It holds no text, so it can be stored as evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentChange {
    pub id: DocumentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub before: Option<DocumentState>,
    pub after: Option<DocumentState>,
}

impl DocumentChange {
    /// The change that takes this one back.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { before: self.after, after: self.before, ..self }
    }
}

/// Changes of the documents of one space. They are made together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentChanges {
    pub org: OrgId,
    pub space: SpaceId,
    /// The call that makes them. Nothing is changed if it has ended, or if another server has claimed it.
    pub invocation: InvocationId,
    /// Whether the call takes back what was changed before. Then it may be in doubt itself.
    pub takes_back: bool,
    /// The session of the call, which tells the run it belongs to.
    pub session: SessionId,
    pub changes: Vec<DocumentChange>,
    /// Texts that the store does not have yet, by their digests.
    pub texts: BTreeMap<Digest, String>,
}

/// What became of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangedDocuments {
    /// Every document is as it should be after them.
    Done,
    /// This document is as it is neither before nor after them. Nothing was changed.
    Conflict(DocumentId),
    /// The text that this document should have is kept no longer. Nothing was changed.
    TextGone(DocumentId),
    /// The space has as many documents as it may have. Nothing was changed.
    TooMany,
}

/// What a search looks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentQuery {
    /// Each of these words is in the title or in the text; without words, the last changed documents come first.
    pub words: Vec<String>,
    /// Each of these tags is on the document.
    pub tags: Vec<String>,
    /// Changed at this time or later.
    pub since: Option<Timestamp>,
    pub limit: u32,
}

/// One document that a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentHit {
    pub document: Document,
    /// A part of the text around the words.
    pub snippet: String,
}

/// The documents of spaces. What was removed is found by no method, but stays until no revert can need it.
pub trait Documents: Send + Sync {
    fn find_document<'a>(
        &'a self,
        org: &'a OrgId,
        space: &'a SpaceId,
        document: &'a DocumentId,
    ) -> Future<'a, Result<Option<Document>, Error>>;
    /// The same with its text.
    fn read_document<'a>(
        &'a self,
        org: &'a OrgId,
        space: &'a SpaceId,
        document: &'a DocumentId,
    ) -> Future<'a, Result<Option<(Document, String)>, Error>>;
    /// The documents that were imported from a file in this folder of the workspace or below it; empty: from any file.
    fn list_imported<'a>(&'a self, org: &'a OrgId, space: &'a SpaceId, folder: &'a str) -> Future<'a, Result<Vec<Document>, Error>>;
    /// The best first.
    fn search_documents<'a>(
        &'a self,
        org: &'a OrgId,
        space: &'a SpaceId,
        query: &'a DocumentQuery,
    ) -> Future<'a, Result<Vec<DocumentHit>, Error>>;
    /// Makes changes. What is already as it should be is left as it is, so a second time changes nothing. When it returns, every change that
    /// was under way before has ended.
    fn change_documents(&self, changes: DocumentChanges) -> Future<'_, Result<ChangedDocuments, Error>>;
}
