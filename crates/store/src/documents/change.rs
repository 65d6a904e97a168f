//! Adds, changes and removes documents, and publishes what became of each in the same write. A change says what it finds and what it leaves, so
//! taking it back is the change in the other direction.

use super::words;
use crate::db::{Columns, Tx, count, only, to_json, vals};
use crate::events::publish_in;
use crate::limits::DOCUMENTS_MAX;
use crate::runs::announce::cause_in;
use crate::{Error, Store};
use countersign_core::ports::bus::NewEvent;
use countersign_core::ports::documents::{ChangedDocuments, DocumentChange, DocumentChanges, DocumentState};
use countersign_core::ports::events::Cause;
use countersign_core::{Digest, DocumentId, Timestamp};
use serde_json::json;

/// A document as it is in the table.
struct Present {
    state: DocumentState,
    body: String,
    path: Option<String>,
    removed_at: Option<Timestamp>,
}

impl Present {
    fn held(&self) -> Option<&DocumentState> {
        self.removed_at.is_none().then_some(&self.state)
    }
}

/// One change that was checked.
struct Step<'a> {
    id: &'a DocumentId,
    /// Of a new document.
    path: Option<&'a str>,
    /// Also a row of a document that was removed.
    present: Option<Present>,
    /// What it will be, with its text; `None`: it is removed.
    next: Option<(&'a DocumentState, String)>,
}

enum Checked<'a> {
    Step(Step<'a>),
    /// It is as it should be.
    Already,
    Refused(ChangedDocuments),
}

pub(super) async fn change_in(store: &Store, tx: &mut Tx, all: DocumentChanges) -> Result<ChangedDocuments, Error> {
    // Once a call has ended, or another server has claimed it, somebody may have been told that it changed nothing.
    let over = "SELECT 1 FROM invocations WHERE org_id = $1 AND id = $2 AND (status NOT IN ('running', $3) OR run_by <> $4)";
    let also = if all.takes_back { "in_doubt" } else { "running" };
    if !tx.query(over, &vals![all.org.as_str(), all.invocation.as_str(), also, tx.lease().id().as_str()]).await?.is_empty() {
        return Err(Error::Fenced);
    }
    // All of them are checked before the first is made: what is refused has changed nothing.
    let mut steps = Vec::new();
    for change in &all.changes {
        match check(tx, &all, change).await? {
            Checked::Step(step) => steps.push(step),
            Checked::Already => {}
            Checked::Refused(refused) => return Ok(refused),
        }
    }
    if !has_room(tx, &all, &steps).await? {
        return Ok(ChangedDocuments::TooMany);
    }
    let cause = cause_in(tx, &all.org, &all.session).await?;
    for step in steps {
        make(store, tx, &all, step, &cause).await?;
    }
    Ok(ChangedDocuments::Done)
}

async fn check<'a>(tx: &mut Tx, all: &'a DocumentChanges, change: &'a DocumentChange) -> Result<Checked<'a>, Error> {
    let present = find_in(tx, all, &change.id).await?;
    let held = present.as_ref().and_then(Present::held);
    if held == change.after.as_ref() {
        return Ok(Checked::Already);
    }
    if held != change.before.as_ref() {
        return Ok(Checked::Refused(ChangedDocuments::Conflict(change.id.clone())));
    }
    let path = present.as_ref().map_or(change.path.as_deref(), |present| present.path.as_deref());
    if held.is_none()
        && let Some(path) = path
        && is_taken(tx, all, path).await?
    {
        return Ok(Checked::Refused(ChangedDocuments::Conflict(change.id.clone())));
    }
    let next = match &change.after {
        None => None,
        Some(state) => match text_of(tx, all, &change.id, present.as_ref(), state.sha256).await? {
            Some(text) => Some((state, text)),
            None => return Ok(Checked::Refused(ChangedDocuments::TextGone(change.id.clone()))),
        },
    };
    Ok(Checked::Step(Step { id: &change.id, path: change.path.as_deref(), present, next }))
}

async fn find_in(tx: &mut Tx, all: &DocumentChanges, document: &DocumentId) -> Result<Option<Present>, Error> {
    let sql = "SELECT title, tags, sha256, body, path, removed_at FROM documents WHERE org_id = $1 AND space_id = $2 AND id = $3";
    only(tx.query(sql, &vals![all.org.as_str(), all.space.as_str(), document.as_str()]).await?, |row| {
        let mut columns = Columns::of(row);
        let state = DocumentState { title: columns.text()?, tags: columns.json()?, sha256: columns.parsed(Digest::parse)? };
        Ok(Present { state, body: columns.text()?, path: columns.text_or_null()?, removed_at: columns.time_or_null()? })
    })
}

/// Whether another document of the space comes from this file.
async fn is_taken(tx: &mut Tx, all: &DocumentChanges, path: &str) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM documents WHERE org_id = $1 AND space_id = $2 AND path = $3 AND removed_at IS NULL";
    Ok(!tx.query(sql, &vals![all.org.as_str(), all.space.as_str(), path]).await?.is_empty())
}

/// The text with this digest: one that comes with the changes, the present one, or one that was replaced.
async fn text_of(
    tx: &mut Tx,
    all: &DocumentChanges,
    document: &DocumentId,
    present: Option<&Present>,
    digest: Digest,
) -> Result<Option<String>, Error> {
    let present = present.filter(|present| present.state.sha256 == digest).map(|present| &present.body);
    if let Some(text) = all.texts.get(&digest).or(present) {
        return Ok(Some(text.clone()));
    }
    let sql = "SELECT body FROM document_texts WHERE org_id = $1 AND document_id = $2 AND sha256 = $3";
    only(tx.query(sql, &vals![all.org.as_str(), document.as_str(), digest.to_string()]).await?, |row| Columns::of(row).text())
}

async fn has_room(tx: &mut Tx, all: &DocumentChanges, steps: &[Step<'_>]) -> Result<bool, Error> {
    let added = steps.iter().filter(|step| step.next.is_some() && step.present.as_ref().and_then(Present::held).is_none()).count();
    if added == 0 {
        return Ok(true);
    }
    let sql = "SELECT count(*) FROM documents WHERE org_id = $1 AND space_id = $2 AND removed_at IS NULL";
    let there = count(tx.query(sql, &vals![all.org.as_str(), all.space.as_str()]).await?)?;
    Ok(there as u64 + added as u64 <= DOCUMENTS_MAX)
}

async fn make(store: &Store, tx: &mut Tx, all: &DocumentChanges, step: Step<'_>, cause: &Cause) -> Result<(), Error> {
    let was_held = step.present.as_ref().is_some_and(|present| present.held().is_some());
    let (name, state, bytes) = match (&step.next, &step.present) {
        (Some((state, text)), None) => {
            insert(tx, all, &step, state, text).await?;
            ("document.added", *state, text.len())
        }
        (Some((state, text)), Some(present)) => {
            update(tx, all, step.id, present, state, text).await?;
            (if was_held { "document.changed" } else { "document.added" }, *state, text.len())
        }
        (None, Some(present)) => {
            let sql = "UPDATE documents SET removed_at = $1 WHERE org_id = $2 AND id = $3";
            tx.exec(sql, &vals![tx.now(), all.org.as_str(), step.id.as_str()]).await?;
            ("document.removed", &present.state, present.body.len())
        }
        // A document that is not there and will not be is as it should be.
        (None, None) => return Ok(()),
    };
    let path = step.present.as_ref().map_or(step.path, |present| present.path.as_deref());
    let body = json!({
        "document_id": step.id,
        "space_id": all.space,
        "title": state.title,
        "tags": state.tags,
        "path": path,
        "sha256": state.sha256,
        "size": bytes,
    });
    let event = NewEvent {
        name: name.to_owned(),
        key: step.id.to_string(),
        body: body.to_string(),
        origin: None,
        space: Some(all.space.clone()),
        cause: cause.clone(),
    };
    publish_in(store, tx, &all.org, event).await.map(|_| ())
}

async fn insert(tx: &mut Tx, all: &DocumentChanges, step: &Step<'_>, state: &DocumentState, text: &str) -> Result<(), Error> {
    tx.exec(
        "INSERT INTO documents (org_id, id, space_id, path, title, body, tags, sha256, bytes, word_row, created_at, changed_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)",
        &vals![
            all.org.as_str(),
            step.id.as_str(),
            all.space.as_str(),
            step.path,
            state.title.as_str(),
            text,
            to_json(&state.tags)?,
            state.sha256.to_string(),
            text.len() as i64,
            words::row_of(step.id),
            tx.now()
        ],
    )
    .await?;
    words::add_in(tx, &all.org, step.id).await
}

/// Changes a document, or brings one back that was removed. A text that it replaces is kept.
async fn update(
    tx: &mut Tx,
    all: &DocumentChanges,
    document: &DocumentId,
    present: &Present,
    state: &DocumentState,
    text: &str,
) -> Result<(), Error> {
    if present.state.sha256 != state.sha256 {
        tx.exec(
            "INSERT INTO document_texts (org_id, document_id, sha256, body, replaced_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (org_id, document_id, sha256) DO UPDATE SET replaced_at = excluded.replaced_at",
            &vals![all.org.as_str(), document.as_str(), present.state.sha256.to_string(), present.body.as_str(), tx.now()],
        )
        .await?;
    }
    words::remove_in(tx, &all.org, document).await?;
    tx.exec(
        "UPDATE documents SET title = $1, body = $2, tags = $3, sha256 = $4, bytes = $5, changed_at = $6, removed_at = NULL
         WHERE org_id = $7 AND id = $8",
        &vals![
            state.title.as_str(),
            text,
            to_json(&state.tags)?,
            state.sha256.to_string(),
            text.len() as i64,
            tx.now(),
            all.org.as_str(),
            document.as_str()
        ],
    )
    .await?;
    words::add_in(tx, &all.org, document).await
}
