//! Reverts or reconciles the effects of a package from the evidence that was kept before them. This needs none of the package's code,
//! because that version may have been replaced and the package removed.

use super::journal::{Desk, Journal, Standing};
use super::loaded::READ_BACK;
use super::ports::PackagePorts;
use crate::words::{failed, refused};
use crate::workspace::commitment::blocking;
use crate::workspace::path::WorkspacePath;
use crate::workspace::staged::temporary_name;
use countersign_core::effect::Check;
use countersign_core::source::{CallContext, Error, Output, Past, Reconciled, Source};
use countersign_core::{Action, ActionId, Digest, Future, OrgId, SourceId};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// Keeps a copy of the definition that an effect is about to be made under. A definition that was kept before is not written again. It is among
/// the snapshots of the shared workspace, whatever space the effect is for: a definition is the org's.
pub(super) fn keep(ports: &PackagePorts, definition: &Action, temporary: &str) -> Result<Digest, Error> {
    let text = serde_json::to_vec(definition).map_err(|error| failed("package_invalid", format!("its definition has no text: {error}")))?;
    ports.places.shared().snapshots.keep_once(&text, &definition_path()?, temporary)
}

/// The definition that was kept together with a journal.
fn definition_of(ports: &PackagePorts, evidence: &Value) -> Option<Action> {
    let digest = Journal::read(evidence).ok()?.definition_sha256?;
    let mut text = Vec::new();
    let copied = ports.places.shared().snapshots.copy(digest, &definition_path().ok()?, |chunk| {
        text.extend_from_slice(chunk);
        Ok(())
    });
    copied.ok()?;
    serde_json::from_slice(&text).ok()
}

/// The name that errors about a kept definition use.
fn definition_path() -> Result<WorkspacePath, Error> {
    WorkspacePath::parse("definition")
}

/// The definition that an effect was made under, with a source that can revert it; `None` if no definition was kept.
pub(super) fn find(ports: &Arc<PackagePorts>, action: &ActionId, evidence: &Value) -> Option<Past> {
    let definition = definition_of(ports, evidence)?;
    let id = SourceId::parse(action.source()).ok()?;
    Some(Past { source: Arc::new(Former { id, ports: Arc::clone(ports) }), action: Arc::new(definition) })
}

/// Restores every file from the snapshots.
pub(super) async fn revert_files(ports: &Arc<PackagePorts>, context: &CallContext, journal: Journal) -> Result<Output, Error> {
    let (place, temporary) = (journal.place(&ports.places, context)?, temporary_name(context));
    blocking(&ports.workers, context, move |commitment| journal.revert(&Desk { place: &place, temporary: &temporary, commitment })).await
}

/// Checks whether `revert_files` could succeed with the files as they are now.
pub(super) async fn check_revert_files(ports: &Arc<PackagePorts>, context: &CallContext, evidence: &Value) -> Result<(), Error> {
    let journal = Journal::read(evidence)?;
    let place = journal.place(&ports.places, context)?;
    blocking(&ports.workers, context, move |_| journal.check_revert(&place)).await
}

/// Reconciles a call by looking at the files. If they lie in another workspace, the outcome is unknown. Half-made changes are completed or,
/// failing that, reverted.
pub(super) async fn find_out(ports: &Arc<PackagePorts>, context: &CallContext) -> Result<Reconciled, Error> {
    let Some(prepared) = &context.prepared else {
        return Ok(Reconciled::Unknown);
    };
    let (journal, temporary) = (Journal::read(prepared)?, temporary_name(context));
    let place = journal.place(&ports.places, context)?;
    if journal.check_is_of(&place).is_err() {
        return Ok(Reconciled::Unknown);
    }
    blocking(&ports.workers, context, move |commitment| {
        let desk = Desk { place: &place, temporary: &temporary, commitment };
        Ok(match journal.standing(&place)? {
            Standing::Made => Reconciled::Happened(journal.output(&place)?),
            Standing::NotMade => {
                journal.revert(&desk)?;
                Reconciled::DidNot
            }
            Standing::Half if journal.commit(&desk).is_ok() => Reconciled::Happened(journal.output(&place)?),
            Standing::Half if journal.revert(&desk).is_ok() => Reconciled::DidNot,
            Standing::Half | Standing::Other => Reconciled::Unknown,
        })
    })
    .await
}

/// A package that is gone or was replaced. It has no actions and runs no code.
struct Former {
    id: SourceId,
    ports: Arc<PackagePorts>,
}

impl Former {
    /// Without the package, only the written files can be checked. Declared checks that cannot run do not pass.
    async fn look_back(&self, context: &CallContext, output: &Output) -> Result<Vec<Check>, Error> {
        let Some(evidence) = output.evidence.as_ref().or(context.prepared.as_ref()) else {
            return Ok(Vec::new());
        };
        let journal = Journal::read(evidence)?;
        let place = journal.place(&self.ports.places, context)?;
        let check = blocking(&self.ports.workers, context, move |_| journal.read_back(&place, READ_BACK)).await?;
        Ok(vec![check])
    }
}

fn gone<T>(action: &ActionId) -> Result<T, Error> {
    Err(refused(
        "unknown_action",
        format!("`{action}` was changed or removed; its earlier effects can still be reverted, but it cannot be called"),
    ))
}

impl Source for Former {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn title(&self) -> &str {
        self.id.as_str()
    }

    fn guide(&self) -> Option<Cow<'_, str>> {
        None
    }

    fn list<'a>(&'a self, _org: &'a OrgId) -> Future<'a, Result<Vec<Arc<Action>>, Error>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn prepare<'a>(
        &'a self,
        _context: &'a CallContext,
        action: &'a ActionId,
        _params: &'a Value,
    ) -> Future<'a, Result<Option<Value>, Error>> {
        Box::pin(std::future::ready(gone(action)))
    }

    fn call<'a>(&'a self, _context: &'a CallContext, action: &'a ActionId, _params: &'a Value) -> Future<'a, Result<Output, Error>> {
        Box::pin(std::future::ready(gone(action)))
    }

    fn preview<'a>(&'a self, _context: &'a CallContext, action: &'a ActionId, _params: &'a Value) -> Future<'a, Result<Output, Error>> {
        Box::pin(std::future::ready(gone(action)))
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
        Box::pin(async move { revert_files(&self.ports, context, Journal::read(evidence)?).await })
    }

    fn check_revert<'a>(&'a self, context: &'a CallContext, _action: &'a ActionId, evidence: &'a Value) -> Future<'a, Result<(), Error>> {
        Box::pin(check_revert_files(&self.ports, context, evidence))
    }

    fn reconcile<'a>(
        &'a self,
        context: &'a CallContext,
        _action: &'a ActionId,
        _params: &'a Value,
    ) -> Future<'a, Result<Reconciled, Error>> {
        Box::pin(find_out(&self.ports, context))
    }
}
