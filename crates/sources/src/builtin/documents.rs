//! `documents`: texts that a space keeps, to be found by their words. A call sees the documents of its own space and no others.
//!
//! Every change is a list of documents, each before and after it (`DocumentChange`). The list is made before the effect and is its evidence: the
//! store makes it whole or not at all, and reverting is the same list in the other direction.

mod definition;
mod folder;
mod params;

use crate::builtin::{Builtin, Open, read_params, source_id, unknown_action};
use crate::limits::{DOCUMENT_CHANGES_MAX, DOCUMENT_IMPORT_BYTES_MAX};
use crate::words::{failed, refused};
use crate::workspace::Places;
use crate::workspace::commitment::blocking;
use crate::workspace::evidence::READ_BACK;
use crate::workspace::path::WorkspacePath;
use crate::workspace::scope::check_spelling;
use crate::workspace::workers::Workers;
use countersign_core::effect::Check;
use countersign_core::ports;
use countersign_core::ports::documents::{ChangedDocuments, Document, DocumentChange, DocumentChanges, DocumentHit, DocumentState};
use countersign_core::source::{Asked, CallContext, Error, Output, Reconciled, Source};
use countersign_core::{Action, ActionId, Clock, Digest, DocumentId, Future, OrgId, Random, SourceId, random_bytes};
use folder::digest_of;
use params::{Add, ImportFolder, Named, Search, Tag, check_count, tags_of, unknown};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Imports read files; two at a time leave the disk to the others.
const READING_THREADS: usize = 2;

pub(super) const BUILTIN: Builtin = Builtin {
    actions: definition::actions,
    open: Open::OnPlaces(|parts, places| {
        let (kept, clock, random) = (Arc::clone(&parts.documents), Arc::clone(&parts.clock), Arc::clone(&parts.random));
        Ok(Arc::new(Documents::on(places, kept, clock, random)?))
    }),
};

/// The source `documents`.
pub struct Documents {
    id: SourceId,
    actions: Vec<Arc<Action>>,
    places: Arc<Places>,
    kept: Arc<dyn ports::Documents>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    reading: Workers,
}

/// What a call changes, and what an import saw besides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Evidence {
    changes: Vec<DocumentChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seen: Option<Counts>,
}

/// Files that an import did not make a change of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    unchanged: usize,
    skipped: usize,
    left: usize,
}

/// Whether changes are made, or taken back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forth,
    Back,
}

impl Documents {
    /// On the workspaces of an org, from which folders are imported.
    pub fn on(
        places: Arc<Places>,
        kept: Arc<dyn ports::Documents>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self, crate::Error> {
        let reading = Workers::start("documents", "docs-reading", READING_THREADS)?;
        Ok(Self { id: source_id("documents")?, actions: definition::actions()?, places, kept, clock, random, reading })
    }

    async fn perform(&self, context: &CallContext, action: &ActionId, params: &Value) -> Result<Output, Error> {
        match action.as_str() {
            "documents.search" => {
                let query = read_params::<Search>(action, params)?.query()?;
                let hits = self.kept.search_documents(&context.org, &context.space, &query).await.map_err(meaning)?;
                Ok(answered(json!({ "hits": hits.into_iter().map(shown_hit).collect::<Vec<_>>() })))
            }
            "documents.fetch" => {
                let id = read_params::<Named>(action, params)?.id()?;
                let found = self.kept.read_document(&context.org, &context.space, &id).await.map_err(meaning)?;
                let (document, text) = found.ok_or_else(|| unknown(id.as_str()))?;
                Ok(answered(shown_document(document, text)))
            }
            "documents.add" | "documents.import_folder" | "documents.tag" | "documents.remove" => {
                let evidence = match &context.prepared {
                    Some(prepared) => read_evidence(prepared)?,
                    None => self.plan(context, action, params).await?,
                };
                let texts = self.texts(context, action, params, &evidence).await?;
                self.change(context, evidence.changes.clone(), texts, Way::Forth).await?;
                done(action, params, &evidence)
            }
            _ => Err(unknown_action(action)),
        }
    }

    /// What the call would change. It changes nothing.
    async fn plan(&self, context: &CallContext, action: &ActionId, params: &Value) -> Result<Evidence, Error> {
        let change = match action.as_str() {
            "documents.add" => {
                let add: Add = read_params(action, params)?;
                add.check()?;
                let tags = tags_of(add.tags)?.into_iter().collect();
                let state = DocumentState { title: add.title, tags, sha256: digest_of(&add.text) };
                DocumentChange { id: self.draw(), path: None, before: None, after: Some(state) }
            }
            "documents.tag" => {
                let tag: Tag = read_params(action, params)?;
                let (id, added, removed) = (tag.id()?, tags_of(tag.add)?, tags_of(tag.remove)?);
                let found = self.found(context, &id).await?;
                let mut tags: BTreeSet<_> = found.state.tags.iter().cloned().collect();
                tags.retain(|tag| !removed.contains(tag));
                tags.extend(added);
                check_count(&tags)?;
                let after = DocumentState { tags: tags.into_iter().collect(), ..found.state.clone() };
                DocumentChange { id, path: found.path, before: Some(found.state), after: Some(after) }
            }
            "documents.remove" => {
                let id = read_params::<Named>(action, params)?.id()?;
                let found = self.found(context, &id).await?;
                DocumentChange { id, path: found.path, before: Some(found.state), after: None }
            }
            "documents.import_folder" => return self.plan_import(context, read_params(action, params)?).await,
            _ => return Err(unknown_action(action)),
        };
        Ok(Evidence { changes: vec![change], seen: None })
    }

    async fn plan_import(&self, context: &CallContext, import: ImportFolder) -> Result<Evidence, Error> {
        let given = tags_of(import.tags)?;
        let (place, scope) = (self.places.of(context)?, context.scope.clone());
        let found = blocking(&self.reading, context, move |_| folder::look(&place, import.path.as_deref(), &scope)).await?;
        let imported = self.kept.list_imported(&context.org, &context.space, &found.folder).await.map_err(meaning)?;
        let imported: BTreeMap<_, _> = imported.into_iter().filter_map(|document| Some((document.path.clone()?, document))).collect();
        let (mut changes, mut bytes) = (Vec::new(), 0);
        let mut seen = Counts { skipped: found.skipped, ..Counts::default() };
        for file in found.files {
            let before = imported.get(&file.path);
            let mut tags = given.clone();
            tags.extend(before.iter().flat_map(|document| document.state.tags.iter().cloned()));
            check_count(&tags)?;
            let title = before.map_or(file.name, |document| document.state.title.clone());
            let after = DocumentState { title, tags: tags.into_iter().collect(), sha256: file.sha256 };
            if before.is_some_and(|document| document.state == after) {
                seen.unchanged += 1;
            } else if changes.len() == DOCUMENT_CHANGES_MAX || bytes + file.bytes > DOCUMENT_IMPORT_BYTES_MAX {
                seen.left += 1;
            } else {
                bytes += file.bytes;
                let id = before.map_or_else(|| self.draw(), |document| document.id.clone());
                let before = before.map(|document| document.state.clone());
                changes.push(DocumentChange { id, path: Some(file.path), before, after: Some(after) });
            }
        }
        Ok(Evidence { changes, seen: Some(seen) })
    }

    /// The texts that the store does not have yet.
    async fn texts(
        &self,
        context: &CallContext,
        action: &ActionId,
        params: &Value,
        evidence: &Evidence,
    ) -> Result<BTreeMap<Digest, String>, Error> {
        match action.as_str() {
            "documents.add" => {
                let add: Add = read_params(action, params)?;
                add.check()?;
                let digest = digest_of(&add.text);
                let is_its = |change: &DocumentChange| change.after.as_ref().is_some_and(|after| after.sha256 == digest);
                if !evidence.changes.iter().all(is_its) {
                    return Err(refused("evidence_of_another_call", "what was prepared is not for this document"));
                }
                Ok(BTreeMap::from([(digest, add.text)]))
            }
            "documents.import_folder" => {
                let is_new = |change: &&DocumentChange| {
                    let digest = |state: &Option<DocumentState>| state.as_ref().map(|state| state.sha256);
                    digest(&change.before) != digest(&change.after)
                };
                let file = |change: &DocumentChange| Some((change.path.clone()?, change.after.as_ref()?.sha256));
                let files: Vec<_> = evidence.changes.iter().filter(is_new).filter_map(file).collect();
                let (place, scope) = (self.places.of(context)?, context.scope.clone());
                blocking(&self.reading, context, move |_| folder::read(&place, &files, &scope)).await
            }
            _ => Ok(BTreeMap::new()),
        }
    }

    async fn change(
        &self,
        context: &CallContext,
        changes: Vec<DocumentChange>,
        texts: BTreeMap<Digest, String>,
        way: Way,
    ) -> Result<(), Error> {
        let changes = DocumentChanges {
            org: context.org.clone(),
            space: context.space.clone(),
            invocation: context.invocation.clone(),
            takes_back: way == Way::Back,
            session: context.session.clone(),
            changes,
            texts,
        };
        match self.kept.change_documents(changes).await.map_err(meaning)? {
            ChangedDocuments::Done => Ok(()),
            ChangedDocuments::Conflict(document) => Err(changed_meanwhile(&document)),
            ChangedDocuments::TextGone(document) => {
                Err(failed("snapshot_lost", format!("the earlier text of document `{document}` is kept no longer; nothing was changed")))
            }
            ChangedDocuments::TooMany => {
                Err(refused("too_many_documents", "the space has as many documents as it may have; nothing was changed"))
            }
        }
    }

    async fn found(&self, context: &CallContext, id: &DocumentId) -> Result<Document, Error> {
        let found = self.kept.find_document(&context.org, &context.space, id).await.map_err(meaning)?;
        found.ok_or_else(|| unknown(id.as_str()))
    }

    /// The state that each document of the evidence has now.
    async fn present(&self, context: &CallContext, evidence: &Evidence) -> Result<Vec<Option<DocumentState>>, Error> {
        let mut present = Vec::with_capacity(evidence.changes.len());
        for change in &evidence.changes {
            let found = self.kept.find_document(&context.org, &context.space, &change.id).await.map_err(meaning)?;
            present.push(found.map(|document| document.state));
        }
        Ok(present)
    }

    async fn look_back(&self, context: &CallContext, output: &Output) -> Result<Vec<Check>, Error> {
        let Some(evidence) = output.evidence.as_ref().or(context.prepared.as_ref()) else {
            return Ok(Vec::new());
        };
        let evidence = read_evidence(evidence)?;
        let present = self.present(context, &evidence).await?;
        let wrong = evidence.changes.iter().zip(&present).find(|(change, present)| change.after != **present);
        Ok(vec![match wrong {
            None => Check::passed(READ_BACK),
            Some((change, _)) => Check::failed(READ_BACK, format!("document `{}` is not as the call leaves it", change.id)),
        }])
    }

    async fn put_back(&self, context: &CallContext, evidence: &Value) -> Result<Output, Error> {
        let changes: Vec<_> = read_evidence(evidence)?.changes.into_iter().map(DocumentChange::reversed).collect();
        let restored = changes.len();
        self.change(context, changes, BTreeMap::new(), Way::Back).await?;
        Ok(answered(json!({ "restored": restored })))
    }

    async fn could_put_back(&self, context: &CallContext, evidence: &Value) -> Result<(), Error> {
        let evidence = read_evidence(evidence)?;
        let present = self.present(context, &evidence).await?;
        let mut both = evidence.changes.iter().zip(&present);
        match both.find(|(change, present)| change.after != **present && change.before != **present) {
            None => Ok(()),
            Some((change, _)) => Err(changed_meanwhile(&change.id)),
        }
    }

    /// Looks at the documents: a call changes all of them in one write.
    async fn find_out(&self, context: &CallContext, action: &ActionId, params: &Value) -> Result<Reconciled, Error> {
        let Some(prepared) = &context.prepared else {
            return Ok(Reconciled::Unknown);
        };
        let evidence = read_evidence(prepared)?;
        // Changes nothing, and waits for a change of this call that is under way.
        self.change(context, Vec::new(), BTreeMap::new(), Way::Back).await?;
        let present = self.present(context, &evidence).await?;
        let are = |side: fn(&DocumentChange) -> &Option<DocumentState>| evidence.changes.iter().map(side).eq(present.iter());
        if are(|change| &change.after) {
            return Ok(Reconciled::Happened(done(action, params, &evidence)?));
        }
        Ok(if are(|change| &change.before) { Reconciled::DidNot } else { Reconciled::Unknown })
    }

    async fn foresee(&self, context: &CallContext, action: &ActionId, params: &Value) -> Result<Output, Error> {
        match action.as_str() {
            "documents.search" | "documents.fetch" => Err(Error::PreviewUnsupported { action: action.clone() }),
            _ => Ok(answered(foreseen(&self.plan(context, action, params).await?))),
        }
    }

    fn draw(&self) -> DocumentId {
        DocumentId::new(self.clock.now(), random_bytes(&*self.random))
    }
}

fn answered(value: Value) -> Output {
    Output { value, quality_thousandths: 1_000, evidence: None }
}

/// The output of a change that was made.
fn done(action: &ActionId, params: &Value, evidence: &Evidence) -> Result<Output, Error> {
    let first = evidence.changes.first();
    let id = first.map(|change| &change.id);
    let after = first.and_then(|change| change.after.as_ref());
    let value = match action.as_str() {
        "documents.add" => {
            let add: Add = read_params(action, params)?;
            json!({ "document_id": id, "sha256": after.map(|after| after.sha256), "bytes": add.text.len() })
        }
        "documents.tag" => json!({ "document_id": id, "tags": after.map(|after| &after.tags) }),
        "documents.remove" => json!({ "document_id": id, "removed": true }),
        "documents.import_folder" => {
            let made = |change: &DocumentChange| json!({ "document_id": change.id, "path": change.path, "change": word_of(change) });
            let documents: Vec<_> = evidence.changes.iter().map(made).collect();
            with_counts(evidence, json!({ "documents": documents }))
        }
        _ => return Err(unknown_action(action)),
    };
    let evidence = serde_json::to_value(evidence).map_err(|_| unreadable())?;
    Ok(Output { value, quality_thousandths: 1_000, evidence: Some(evidence) })
}

/// What a preview shows of changes that were not made.
fn foreseen(evidence: &Evidence) -> Value {
    let shown = |change: &DocumentChange| {
        let state = change.after.as_ref().or(change.before.as_ref());
        let mut shown = json!({
            "change": format!("would_be_{}", word_of(change)),
            "title": state.map(|state| &state.title),
            "tags": state.map(|state| &state.tags),
            "sha256": state.map(|state| state.sha256),
        });
        if let Some(before) = &change.before {
            // A document that does not exist yet gets its id when the call is made.
            shown["document_id"] = json!(change.id);
            shown["previous_tags"] = json!(before.tags);
        }
        if let Some(path) = &change.path {
            shown["path"] = json!(path);
        }
        shown
    };
    let documents: Vec<_> = evidence.changes.iter().map(shown).collect();
    with_counts(evidence, json!({ "documents": documents }))
}

fn with_counts(evidence: &Evidence, mut value: Value) -> Value {
    if let Some(Counts { unchanged, skipped, left }) = evidence.seen {
        let count = |word: &str| evidence.changes.iter().filter(|change| word_of(change) == word).count();
        let counts =
            [("added", count("added")), ("changed", count("changed")), ("unchanged", unchanged), ("skipped", skipped), ("left", left)];
        counts.into_iter().for_each(|(name, count)| value[name] = json!(count));
    }
    value
}

fn word_of(change: &DocumentChange) -> &'static str {
    match (&change.before, &change.after) {
        (None, Some(_)) => "added",
        (Some(before), Some(after)) if before == after => "unchanged",
        (Some(_), Some(_)) => "changed",
        (_, None) => "removed",
    }
}

fn shown_hit(hit: DocumentHit) -> Value {
    let DocumentHit { document, snippet } = hit;
    let DocumentState { title, tags, .. } = document.state;
    let shown = json!({ "document_id": document.id, "title": title, "snippet": snippet, "tags": tags, "changed_at": document.changed_at });
    with_path(shown, document.path)
}

fn shown_document(document: Document, text: String) -> Value {
    let DocumentState { title, tags, sha256 } = document.state;
    let shown = json!({
        "document_id": document.id,
        "title": title,
        "text": text,
        "tags": tags,
        "sha256": sha256,
        "bytes": document.bytes,
        "created_at": document.created_at,
        "changed_at": document.changed_at,
    });
    with_path(shown, document.path)
}

fn with_path(mut shown: Value, path: Option<String>) -> Value {
    if let Some(path) = path {
        shown["path"] = json!(path);
    }
    shown
}

fn read_evidence(evidence: &Value) -> Result<Evidence, Error> {
    Evidence::deserialize(evidence).map_err(|_| unreadable())
}

fn unreadable() -> Error {
    failed("evidence_unreadable", "what was kept to revert the change of documents cannot be read; nothing was changed")
}

fn changed_meanwhile(document: &DocumentId) -> Error {
    let message = format!("document `{document}` is not what the call expects: read it again, then decide; nothing was changed");
    refused("content_changed", message)
}

/// Converts an error of the store to an error of the source.
fn meaning(error: ports::Error) -> Error {
    let source_id = || "documents".to_owned();
    match error {
        ports::Error::Unavailable { message } => Error::Unreachable { source_id: source_id(), message },
        ports::Error::Fenced => Error::Unreachable { source_id: source_id(), message: error.to_string() },
        ports::Error::CommitUnknown { message } => Error::Broken { source_id: source_id(), message },
        // The store's own message goes to the log, not to the caller.
        ports::Error::Corrupt { .. } => failed("document_refused", "the store did not accept the document; nothing was changed"),
    }
}

impl Source for Documents {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn is_builtin(&self) -> bool {
        true
    }

    fn title(&self) -> &str {
        "Documents"
    }

    fn guide(&self) -> Option<Cow<'_, str>> {
        Some(include_str!("documents/guide.md").into())
    }

    fn list<'a>(&'a self, _org: &'a OrgId) -> Future<'a, Result<Vec<Arc<Action>>, Error>> {
        Box::pin(std::future::ready(Ok(self.actions.clone())))
    }

    fn check<'a>(&'a self, asked: Asked<'a>) -> Future<'a, Result<(), Error>> {
        let path = asked.params.and_then(|params| params.get("path")?.as_str()).filter(|path| *path != ".");
        let checked = match path.map(WorkspacePath::parse) {
            Some(parsed) => parsed.and_then(|path| check_spelling(asked.scope, &path)),
            None => Ok(()),
        };
        Box::pin(std::future::ready(checked))
    }

    fn call<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Output, Error>> {
        Box::pin(self.perform(context, action, params))
    }

    fn prepare<'a>(
        &'a self,
        context: &'a CallContext,
        action: &'a ActionId,
        params: &'a Value,
    ) -> Future<'a, Result<Option<Value>, Error>> {
        Box::pin(async move {
            if matches!(action.as_str(), "documents.search" | "documents.fetch") {
                return Ok(None);
            }
            let evidence = self.plan(context, action, params).await?;
            serde_json::to_value(evidence).map(Some).map_err(|_| unreadable())
        })
    }

    fn verify<'a>(
        &'a self,
        context: &'a CallContext,
        _action: &'a ActionId,
        _params: &'a Value,
        output: &'a Output,
    ) -> Future<'a, Result<Vec<Check>, Error>> {
        Box::pin(self.look_back(context, output))
    }

    fn revert<'a>(&'a self, context: &'a CallContext, _action: &'a ActionId, evidence: &'a Value) -> Future<'a, Result<Output, Error>> {
        Box::pin(self.put_back(context, evidence))
    }

    fn check_revert<'a>(&'a self, context: &'a CallContext, _action: &'a ActionId, evidence: &'a Value) -> Future<'a, Result<(), Error>> {
        Box::pin(self.could_put_back(context, evidence))
    }

    fn reconcile<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Reconciled, Error>> {
        Box::pin(self.find_out(context, action, params))
    }

    fn preview<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Output, Error>> {
        Box::pin(self.foresee(context, action, params))
    }
}

#[cfg(test)]
#[path = "documents_tests.rs"]
pub(super) mod tests;
