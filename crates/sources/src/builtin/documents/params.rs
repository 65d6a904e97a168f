//! The params of the `documents` actions, and the rules that a schema cannot say.

use super::folder::is_text;
use crate::limits::{
    DOCUMENT_BYTES_MAX, DOCUMENT_HITS_DEFAULT, DOCUMENT_HITS_MAX, DOCUMENT_QUERY_CHARS_MAX, DOCUMENT_QUERY_WORDS_MAX,
    DOCUMENT_TAG_CHARS_MAX, DOCUMENT_TAGS_MAX, DOCUMENT_TITLE_CHARS_MAX,
};
use crate::words::{refused, shown};
use countersign_core::ports::documents::DocumentQuery;
use countersign_core::source::Error;
use countersign_core::{DocumentId, Timestamp};
use serde::Deserialize;
use std::collections::BTreeSet;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    query: Option<String>,
    tags: Option<Vec<String>>,
    since: Option<String>,
    limit: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    document_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Add {
    pub(super) title: String,
    pub(super) text: String,
    pub(super) tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportFolder {
    pub(super) path: Option<String>,
    pub(super) tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tag {
    document_id: String,
    pub(super) add: Option<Vec<String>>,
    pub(super) remove: Option<Vec<String>>,
}

impl Named {
    pub(super) fn id(&self) -> Result<DocumentId, Error> {
        id_of(&self.document_id)
    }
}

impl Tag {
    pub(super) fn id(&self) -> Result<DocumentId, Error> {
        id_of(&self.document_id)
    }
}

impl Search {
    pub(super) fn query(self) -> Result<DocumentQuery, Error> {
        let text = self.query.unwrap_or_default();
        if text.chars().nth(DOCUMENT_QUERY_CHARS_MAX).is_some() {
            return Err(invalid(format!("`query` is longer than {DOCUMENT_QUERY_CHARS_MAX} characters")));
        }
        let words: Vec<_> = text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        if words.len() > DOCUMENT_QUERY_WORDS_MAX {
            return Err(invalid(format!("`query` has more than {DOCUMENT_QUERY_WORDS_MAX} words")));
        }
        if words.is_empty() && !text.trim().is_empty() {
            return Err(invalid("`query` has no word".to_owned()));
        }
        let since = match self.since.as_deref().filter(|since| !since.is_empty()) {
            Some(since) => Some(Timestamp::parse(since).ok_or_else(|| invalid("`since` is not an RFC 3339 time".to_owned()))?),
            None => None,
        };
        let limit = self.limit.unwrap_or(DOCUMENT_HITS_DEFAULT).clamp(1, DOCUMENT_HITS_MAX);
        Ok(DocumentQuery { words, tags: tags_of(self.tags)?.into_iter().collect(), since, limit })
    }
}

impl Add {
    pub(super) fn check(&self) -> Result<(), Error> {
        let is_line = !self.title.trim().is_empty() && !self.title.chars().any(char::is_control);
        if !is_line || self.title.chars().nth(DOCUMENT_TITLE_CHARS_MAX).is_some() {
            return Err(invalid(format!("`title` must be one line of 1 to {DOCUMENT_TITLE_CHARS_MAX} characters")));
        }
        if !is_text(&self.text) {
            return Err(invalid(format!("`text` must have 1 to {DOCUMENT_BYTES_MAX} bytes, and none that is zero")));
        }
        Ok(())
    }
}

/// The tags, sorted and each once. They are lower case, so that nobody searches for another spelling, and have no sign that means something
/// where they are looked for.
pub(super) fn tags_of(tags: Option<Vec<String>>) -> Result<BTreeSet<String>, Error> {
    let tags: BTreeSet<_> = tags.unwrap_or_default().into_iter().collect();
    if !tags.iter().all(|tag| is_tag(tag)) {
        return Err(invalid(format!("a tag has 1 to {DOCUMENT_TAG_CHARS_MAX} lower-case letters, digits and signs of `-_.:/`")));
    }
    check_count(&tags)?;
    Ok(tags)
}

pub(super) fn check_count(tags: &BTreeSet<String>) -> Result<(), Error> {
    if tags.len() > DOCUMENT_TAGS_MAX {
        return Err(invalid(format!("a document has {DOCUMENT_TAGS_MAX} tags at most")));
    }
    Ok(())
}

fn is_tag(tag: &str) -> bool {
    let is_allowed = |sign: char| (sign.is_alphanumeric() && !sign.is_uppercase()) || matches!(sign, '-' | '_' | '.' | ':' | '/');
    !tag.is_empty() && tag.chars().nth(DOCUMENT_TAG_CHARS_MAX).is_none() && tag.chars().all(is_allowed)
}

fn id_of(text: &str) -> Result<DocumentId, Error> {
    DocumentId::parse(text).map_err(|_| unknown(text))
}

pub(super) fn unknown(text: &str) -> Error {
    refused("document_not_found", format!("this space has no document `{}`", shown(text)))
}

fn invalid(message: String) -> Error {
    refused("invalid_params", message)
}
