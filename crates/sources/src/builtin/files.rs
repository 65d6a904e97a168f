//! `files`: text files in one workspace folder. It never reads, lists, writes or deletes anything outside that folder.
//!
//! Content that a write or a delete replaces is first kept under its digest, so that the call can be reverted. Read `workspace/path.rs`
//! (which spellings of a path are accepted), then `workspace/root.rs` (how paths are opened), then the actions.

mod definition;
mod delete;
mod list;
mod read;
mod write;

use crate::builtin::{Builtin, Open, read_params, source_id, unknown_action};
use crate::workspace::commitment::blocking;
use crate::workspace::evidence::{self, Evidence, Found};
use crate::workspace::path::WorkspacePath;
use crate::workspace::scope::check_spelling;
use crate::workspace::staged;
use crate::workspace::workers::Workers;
use crate::workspace::{Folders, Place, Places};
use countersign_core::effect::Check;
use countersign_core::fault::Faults;
use countersign_core::source::{Asked, CallContext, Error, Output, Reconciled, Source};
use countersign_core::{Action, ActionId, Future, OrgId, Random, SourceId};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

pub use crate::workspace::root::Spelling;

pub(super) const BUILTIN: Builtin =
    Builtin { actions: definition::actions, open: Open::OnPlaces(|_, places| Ok(Arc::new(Files::on(places)?))) };

/// The source `files`.
pub struct Files {
    id: SourceId,
    actions: Vec<Arc<Action>>,
    places: Arc<Places>,
    reading: Workers,
    writing: Workers,
}

/// Most reads take microseconds, from the page cache.
const READING_THREADS: usize = 2;
/// Writes wait for the disk; more of them at once would slow each other down.
const WRITING_THREADS: usize = 8;

impl Files {
    /// Opens the folders, creates them (0700) if they are missing, and removes files that a crash left half-written.
    pub fn open(folders: Folders, random: Arc<dyn Random>) -> Result<Self, crate::Error> {
        Self::on(Arc::new(Places::open(folders, random, &Faults::default())?))
    }

    /// The same on workspaces that are already open, for sources that share them.
    pub fn on(places: Arc<Places>) -> Result<Self, crate::Error> {
        let workers = |name, threads| Workers::start("files", name, threads);
        Ok(Self {
            id: source_id("files")?,
            actions: definition::actions()?,
            places,
            reading: workers("files-reading", READING_THREADS)?,
            writing: workers("files-writing", WRITING_THREADS)?,
        })
    }

    /// Whether the shared workspace distinguishes `A.txt` from `a.txt`, as probed when it was opened.
    pub fn spelling(&self) -> Spelling {
        self.places.shared.workspace.spelling()
    }

    async fn perform(&self, context: &CallContext, action: &ActionId, params: &Value) -> Result<Output, Error> {
        let place = self.places.of(context)?;
        match action.as_str() {
            "files.read_text" => {
                let params = read_params(action, params)?;
                // Forbidden files must be looked up on the disk, which may take time.
                if context.scope.forbidden_files.is_empty() && read::is_at_hand(&place, &params) {
                    return read::read_text(&place, &params, &context.scope);
                }
                let scope = context.scope.clone();
                blocking(&self.reading, context, move |_| read::read_text(&place, &params, &scope)).await
            }
            "files.list" => {
                let (params, scope) = (read_params(action, params)?, context.scope.clone());
                blocking(&self.reading, context, move |_| list::list(&place, &params, &scope)).await
            }
            "files.write_text" => {
                let params = read_params(action, params)?;
                let (temporary, prepared, scope) = (staged::temporary_name(context), context.prepared.clone(), context.scope.clone());
                blocking(&self.writing, context, move |commitment| {
                    let evidence = match &prepared {
                        Some(prepared) => Evidence::read(prepared)?,
                        None => write::prepare(&place, &params, &scope, &temporary)?,
                    };
                    write::write_text(&place, &params, &evidence, &temporary, commitment)
                })
                .await
            }
            "files.delete" => {
                let params = read_params(action, params)?;
                let (temporary, prepared, scope) = (staged::temporary_name(context), context.prepared.clone(), context.scope.clone());
                blocking(&self.writing, context, move |commitment| {
                    let evidence = match &prepared {
                        Some(prepared) => Evidence::read(prepared)?,
                        None => delete::prepare(&place, &params, &scope, &temporary)?,
                    };
                    delete::delete(&place, &params, &evidence, commitment)
                })
                .await
            }
            _ => Err(unknown_action(action)),
        }
    }

    async fn keep(&self, context: &CallContext, action: &ActionId, params: &Value) -> Result<Option<Value>, Error> {
        let (place, temporary, scope) = (self.places.of(context)?, staged::temporary_name(context), context.scope.clone());
        let kept = match action.as_str() {
            "files.write_text" => {
                let params = read_params(action, params)?;
                if scope.forbidden_files.is_empty() && write::is_free_at_hand(&place, &params) {
                    write::prepare(&place, &params, &scope, &temporary)
                } else {
                    blocking(&self.writing, context, move |_| write::prepare(&place, &params, &scope, &temporary)).await
                }
            }
            "files.delete" => {
                let params = read_params(action, params)?;
                blocking(&self.writing, context, move |_| delete::prepare(&place, &params, &scope, &temporary)).await
            }
            _ => return Ok(None),
        };
        kept.map(|evidence| Some(evidence.to_value()))
    }

    /// The evidence of a change, and the workspace in which it was collected.
    fn kept_by(&self, context: &CallContext, evidence: &Value) -> Result<(Arc<Place>, Evidence), Error> {
        let evidence = Evidence::read(evidence)?;
        Ok((self.places.with(context, evidence.workspace.as_ref())?, evidence))
    }

    async fn look_back(&self, context: &CallContext, output: &Output) -> Result<Vec<Check>, Error> {
        let Some(evidence) = output.evidence.as_ref().or(context.prepared.as_ref()) else {
            return Ok(Vec::new());
        };
        let (place, evidence) = self.kept_by(context, evidence)?;
        if evidence.is_at_hand(&place) {
            return evidence::verify(&place, &evidence);
        }
        blocking(&self.reading, context, move |_| evidence::verify(&place, &evidence)).await
    }

    async fn put_back(&self, context: &CallContext, evidence: &Value) -> Result<Output, Error> {
        let ((place, evidence), temporary) = (self.kept_by(context, evidence)?, staged::temporary_name(context));
        blocking(&self.writing, context, move |commitment| evidence::revert(&place, &evidence, &temporary, commitment)).await
    }

    async fn could_put_back(&self, context: &CallContext, evidence: &Value) -> Result<(), Error> {
        let (place, evidence) = self.kept_by(context, evidence)?;
        blocking(&self.reading, context, move |_| evidence::check_revert(&place, &evidence)).await
    }

    /// Looks at the disk: a change is a single rename or the removal of a single name, so the file shows whether it happened. Another
    /// workspace's disk says nothing. Folders that were made for a change that did not happen are removed.
    async fn find_out(&self, context: &CallContext, action: &ActionId, params: &Value) -> Result<Reconciled, Error> {
        let Some(prepared) = &context.prepared else {
            return Ok(Reconciled::Unknown);
        };
        let (place, evidence) = self.kept_by(context, prepared)?;
        if !place.is(evidence.workspace.as_ref()) {
            return Ok(Reconciled::Unknown);
        }
        let looked_at = evidence.clone();
        let found = blocking(&self.writing, context, move |_| {
            let found = evidence::look(&place, &looked_at)?;
            if found == Found::Previous {
                evidence::remove_made(&place, &looked_at);
            }
            Ok(found)
        });
        let found = found.await?;
        Ok(match (found, action.as_str()) {
            (Found::New, "files.write_text") => Reconciled::Happened(write::written(&read_params(action, params)?, &evidence)),
            (Found::New, "files.delete") => Reconciled::Happened(delete::deleted(&evidence)),
            (Found::Previous, _) => Reconciled::DidNot,
            (Found::New | Found::Other, _) => Reconciled::Unknown,
        })
    }

    async fn foresee(&self, context: &CallContext, action: &ActionId, params: &Value) -> Result<Output, Error> {
        let (place, scope) = (self.places.of(context)?, context.scope.clone());
        match action.as_str() {
            "files.read_text" | "files.list" => Err(Error::PreviewUnsupported { action: action.clone() }),
            "files.write_text" => {
                let params = read_params(action, params)?;
                blocking(&self.reading, context, move |_| write::preview(&place, &params, &scope)).await
            }
            "files.delete" => {
                let params = read_params(action, params)?;
                blocking(&self.reading, context, move |_| delete::preview(&place, &params, &scope)).await
            }
            _ => Err(unknown_action(action)),
        }
    }
}

impl Source for Files {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn is_builtin(&self) -> bool {
        true
    }

    fn title(&self) -> &str {
        "Files"
    }

    fn guide(&self) -> Option<Cow<'_, str>> {
        Some(include_str!("files/guide.md").into())
    }

    fn list<'a>(&'a self, _org: &'a OrgId) -> Future<'a, Result<Vec<Arc<Action>>, Error>> {
        Box::pin(std::future::ready(Ok(self.actions.clone())))
    }

    fn check<'a>(&'a self, asked: Asked<'a>) -> Future<'a, Result<(), Error>> {
        let path = asked.params.and_then(|params| params.get("path")?.as_str());
        // The workspace itself can be listed, but has no path of its own.
        let path = path.filter(|path| !(asked.action.as_str() == "files.list" && *path == "."));
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
        Box::pin(self.keep(context, action, params))
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
#[path = "files_tests.rs"]
mod tests;
