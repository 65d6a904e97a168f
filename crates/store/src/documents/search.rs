//! Finds documents by their words: the one function whose statement differs between the engines. Words are divided by signs on both, case does
//! not matter, and a word in the title counts more than one in the text.

use super::{document_columns, document_of, tagged};
use crate::Error;
use crate::db::{Columns, Row, Val, vals};
use crate::limits::DOCUMENT_SNIPPET_CHARS;
use countersign_core::ports::documents::{DocumentHit, DocumentQuery};
use countersign_core::{OrgId, SpaceId};

/// The words that a snippet has at most.
const SNIPPET_WORDS: u32 = 24;

pub(super) fn statement(is_postgres: bool, org: &OrgId, space: &SpaceId, query: &DocumentQuery) -> (String, Vec<Val>) {
    let since = query.since.map_or(0, |since| since.as_micros());
    let looked_for = match (query.words.is_empty(), is_postgres) {
        (true, _) => None,
        // A cluster's locale may know the small letters of ASCII only.
        (false, true) => Some(query.words.join(" ").to_lowercase()),
        (false, false) => Some(in_fts5(space, &query.words)),
    };
    let mut params: Vec<Val> = looked_for.map(Val::from).into_iter().collect();
    params.extend(vals![org.as_str(), space.as_str(), since]);
    let tags = tagged(query.tags.iter(), &mut params);
    params.push(Val::from(i64::from(query.limit)));
    let limit = params.len();
    let columns = document_columns!();
    let sql = match (query.words.is_empty(), is_postgres) {
        (true, _) => format!(
            "SELECT {columns}, substr(body, 1, {DOCUMENT_SNIPPET_CHARS}) FROM documents
             WHERE org_id = $1 AND space_id = $2 AND removed_at IS NULL AND changed_at >= $3{tags}
             ORDER BY changed_at DESC, id DESC LIMIT ${limit}"
        ),
        (false, true) => format!(
            "SELECT {columns}, ts_headline('simple', body, query, 'StartSel=\"\", StopSel=\"\", MaxWords={SNIPPET_WORDS}, MinWords=8')
             FROM documents, plainto_tsquery('simple', $1) AS query
             WHERE words @@ query AND org_id = $2 AND space_id = $3 AND removed_at IS NULL AND changed_at >= $4{tags}
             ORDER BY ts_rank(words, query) DESC, changed_at DESC, id DESC LIMIT ${limit}"
        ),
        (false, false) => format!(
            "SELECT {columns}, snippet(document_words, 2, '', '', '…', {SNIPPET_WORDS})
             FROM document_words JOIN documents ON documents.word_row = document_words.rowid
             WHERE document_words MATCH $1 AND documents.org_id = $2 AND documents.space_id = $3 AND removed_at IS NULL
             AND changed_at >= $4{tags}
             ORDER BY bm25(document_words, 0.0, 4.0, 1.0), changed_at DESC, documents.id DESC LIMIT ${limit}"
        ),
    };
    (sql, params)
}

/// In the language of FTS5: the space narrows what the index looks at, and each word is quoted, so that none is an operator.
fn in_fts5(space: &SpaceId, words: &[String]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("\"{}\"", word.replace('"', "\"\""))).collect();
    format!("space_id : \"{space}\" AND {{title body}} : ({})", quoted.join(" AND "))
}

pub(super) fn read_hit(row: Row) -> Result<DocumentHit, Error> {
    let mut columns = Columns::of(row);
    let document = document_of(&mut columns)?;
    let snippet = columns.text()?.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(DocumentHit { document, snippet })
}
