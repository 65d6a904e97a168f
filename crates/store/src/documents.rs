//! The documents of spaces. `change` adds, changes and removes them, `search` finds them, `words` keeps SQLite's index of their words.

mod change;
mod search;
pub(crate) mod words;

use crate::db::{Columns, Row, Val, all, only, vals};
use crate::limits::FORGET_ROWS;
use crate::orgs::not_among;
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::ports::Documents;
use countersign_core::ports::documents::{ChangedDocuments, Document, DocumentChanges, DocumentHit, DocumentQuery, DocumentState};
use countersign_core::{Digest, DocumentId, Future, OrgId, SpaceId};
use std::collections::BTreeSet;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The columns that `read_document` reads.
macro_rules! document_columns {
    () => {
        "documents.id, documents.space_id, documents.path, documents.title, documents.tags, documents.sha256, documents.bytes,
         documents.created_at, documents.changed_at"
    };
}
pub(crate) use document_columns;

macro_rules! select_document {
    () => {
        concat!("SELECT ", document_columns!(), " FROM documents WHERE org_id = $1 AND removed_at IS NULL")
    };
}

/// Which documents to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentFilter {
    pub space: Option<SpaceId>,
    pub tag: Option<String>,
    pub hidden: BTreeSet<SpaceId>,
}

impl Documents for Store {
    fn find_document<'a>(
        &'a self,
        org: &'a OrgId,
        space: &'a SpaceId,
        document: &'a DocumentId,
    ) -> Future<'a, Result<Option<Document>, Error>> {
        Box::pin(async move {
            let sql = concat!(select_document!(), " AND space_id = $2 AND id = $3");
            only(self.db.read(sql, &vals![org.as_str(), space.as_str(), document.as_str()]).await?, read_document)
        })
    }

    fn read_document<'a>(
        &'a self,
        org: &'a OrgId,
        space: &'a SpaceId,
        document: &'a DocumentId,
    ) -> Future<'a, Result<Option<(Document, String)>, Error>> {
        Box::pin(async move {
            let sql = concat!(
                "SELECT ",
                document_columns!(),
                ", documents.body FROM documents WHERE org_id = $1 AND removed_at IS NULL AND space_id = $2 AND id = $3"
            );
            only(self.db.read(sql, &vals![org.as_str(), space.as_str(), document.as_str()]).await?, |row| {
                let mut columns = Columns::of(row);
                Ok((document_of(&mut columns)?, columns.text()?))
            })
        })
    }

    fn list_imported<'a>(&'a self, org: &'a OrgId, space: &'a SpaceId, folder: &'a str) -> Future<'a, Result<Vec<Document>, Error>> {
        Box::pin(async move {
            let below = if folder.is_empty() { "%".to_owned() } else { format!("{}/%", literally(folder)) };
            let sql = concat!(select_document!(), " AND space_id = $2 AND path LIKE $3 ESCAPE '!'");
            all(self.db.read(sql, &vals![org.as_str(), space.as_str(), below]).await?, read_document)
        })
    }

    fn search_documents<'a>(
        &'a self,
        org: &'a OrgId,
        space: &'a SpaceId,
        query: &'a DocumentQuery,
    ) -> Future<'a, Result<Vec<DocumentHit>, Error>> {
        Box::pin(async move {
            let (sql, params) = search::statement(self.db.is_postgres(), org, space, query);
            all(self.db.read(&sql, &params).await?, search::read_hit)
        })
    }

    fn change_documents(&self, changes: DocumentChanges) -> Future<'_, Result<ChangedDocuments, Error>> {
        let store = self.clone();
        Box::pin(self.db.write(changes.org.clone(), move |tx| Box::pin(async move { change::change_in(&store, tx, changes).await })))
    }
}

impl Store {
    /// Lists documents, newest first.
    pub async fn list_documents(&self, org: &OrgId, filter: &DocumentFilter, request: &PageRequest) -> Result<Page<Document>, Error> {
        let mut params = vals![org.as_str(), request.after.as_deref().unwrap_or("~")].to_vec();
        let mut which = not_among("space_id", &filter.hidden, &mut params);
        if let Some(space) = &filter.space {
            params.push(Val::from(space.as_str()));
            which.push_str(&format!(" AND space_id = ${}", params.len()));
        }
        which.push_str(&tagged(filter.tag.iter(), &mut params));
        params.push(Val::from(i64::from(request.limit) + 1));
        let sql = format!("{} AND id < $2{which} ORDER BY id DESC LIMIT ${}", select_document!(), params.len());
        page(self.db.read(&sql, &params).await?, request.limit, read_document, |document| document.id.to_string())
    }

    /// A document of whichever space of the org, with its text.
    pub async fn find_document_of_org(&self, org: &OrgId, document: &DocumentId) -> Result<Option<(Document, String)>, Error> {
        let sql = concat!(select_document!(), " AND id = $2");
        match only(self.db.read(sql, &vals![org.as_str(), document.as_str()]).await?, read_document)? {
            Some(found) => self.read_document(org, &found.space, document).await,
            None => Ok(None),
        }
    }

    /// Forgets what was removed or replaced so long ago that no revert can need it. Returns how many texts are gone.
    pub async fn forget_documents(&self, org: &OrgId) -> Result<u64, Error> {
        // One day more than promised, so that a revert at the last moment still finds its text.
        let kept_seconds = (self.find_retention(org).await?.snapshot_days() + 1) * DAY_SECONDS;
        let org = org.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let then = tx.now().minus_seconds(kept_seconds);
                    let params = vals![org.as_str(), then, i64::from(FORGET_ROWS)];
                    let old = "SELECT id FROM documents WHERE org_id = $1 AND removed_at < $2 ORDER BY removed_at, id LIMIT $3";
                    let old: Vec<DocumentId> = all(tx.query(old, &params).await?, |row| Columns::of(row).id())?;
                    for document in &old {
                        words::remove_in(tx, &org, document).await?;
                        let of_document = vals![org.as_str(), document.as_str()];
                        tx.exec("DELETE FROM document_texts WHERE org_id = $1 AND document_id = $2", &of_document).await?;
                        tx.exec("DELETE FROM documents WHERE org_id = $1 AND id = $2", &of_document).await?;
                    }
                    let sql = "DELETE FROM document_texts WHERE org_id = $1 AND replaced_at < $2";
                    Ok(old.len() as u64 + tx.exec(sql, &vals![org.as_str(), then]).await?)
                })
            })
            .await
    }
}

fn read_document(row: Row) -> Result<Document, Error> {
    document_of(&mut Columns::of(row))
}

fn document_of(columns: &mut Columns) -> Result<Document, Error> {
    let (id, space, path) = (columns.id()?, columns.id()?, columns.text_or_null()?);
    let state = DocumentState { title: columns.text()?, tags: columns.json()?, sha256: columns.parsed(Digest::parse)? };
    let bytes = columns.int()? as u64;
    Ok(Document { id, space, path, state, bytes, created_at: columns.time()?, changed_at: columns.time()? })
}

/// The condition that a document has each of these tags, which have no sign that JSON escapes.
fn tagged<'a>(tags: impl Iterator<Item = &'a String>, params: &mut Vec<Val>) -> String {
    let condition = |tag: &String| {
        params.push(Val::from(format!("%\"{}\"%", literally(tag))));
        format!(" AND tags LIKE ${} ESCAPE '!'", params.len())
    };
    tags.map(condition).collect()
}

/// A text for a `LIKE` that means itself.
fn literally(text: &str) -> String {
    text.replace('!', "!!").replace('%', "!%").replace('_', "!_")
}
