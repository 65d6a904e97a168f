//! SQLite's index of words (FTS5). It reads the texts from the table of documents and has only their words itself, so every change of a
//! document first takes its old words out. On PostgreSQL a column follows by itself, and nothing is done here.

use crate::Error;
use crate::db::{Tx, vals};
use countersign_core::{DocumentId, OrgId};
use sha2::{Digest as _, Sha256};

/// By which number the index knows a document. The random part of the id makes it one of its own.
pub(super) fn row_of(document: &DocumentId) -> i64 {
    let digest = Sha256::digest(document.as_str());
    let first = digest.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    (first >> 1) as i64
}

/// Adds the words of a document that was written.
pub(super) async fn add_in(tx: &mut Tx, org: &OrgId, document: &DocumentId) -> Result<(), Error> {
    if tx.is_postgres() {
        return Ok(());
    }
    let sql = "INSERT INTO document_words (rowid, space_id, title, body)
               SELECT word_row, space_id, title, body FROM documents WHERE org_id = $1 AND id = $2";
    tx.exec(sql, &vals![org.as_str(), document.as_str()]).await.map(|_| ())
}

/// Takes the words of a document out, before the document is changed.
pub(super) async fn remove_in(tx: &mut Tx, org: &OrgId, document: &DocumentId) -> Result<(), Error> {
    if tx.is_postgres() {
        return Ok(());
    }
    let sql = "INSERT INTO document_words (document_words, rowid, space_id, title, body)
               SELECT 'delete', word_row, space_id, title, body FROM documents WHERE org_id = $1 AND id = $2";
    tx.exec(sql, &vals![org.as_str(), document.as_str()]).await.map(|_| ())
}

/// Makes the index anew, from all documents.
pub(crate) async fn rebuild_in(tx: &mut Tx) -> Result<(), Error> {
    if tx.is_postgres() {
        return Ok(());
    }
    let sql = "/* every org: the index is one for all, and each search names its space */ INSERT INTO document_words (document_words) VALUES ('rebuild')";
    tx.exec(sql, &[]).await.map(|_| ())
}
