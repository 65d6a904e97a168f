//! Documents of spaces, for people who look at them. They are added and changed by actions alone.

use super::{Error, sight, spaces};
use crate::App;
use countersign_core::ports::documents::Document;
use countersign_core::{DocumentId, Principal};
use store::{DocumentFilter, Page, PageRequest};

pub async fn list(
    app: &App,
    by: &Principal,
    space: Option<&str>,
    tag: Option<String>,
    request: &PageRequest,
) -> Result<Page<Document>, Error> {
    super::must_read(by)?;
    let space = match space {
        Some(named) => Some(spaces::id_of(app, by, named).await?),
        None => None,
    };
    // No tag has such a sign, and not every database can be asked for one.
    if tag.as_ref().is_some_and(|tag| tag.chars().any(char::is_control)) {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let filter = DocumentFilter { space, tag, hidden: sight::hidden(app, by).await? };
    Ok(app.store().list_documents(&by.org, &filter, request).await?)
}

/// A document with its text.
pub async fn find(app: &App, by: &Principal, text: &str) -> Result<(Document, String), Error> {
    super::must_read(by)?;
    let unknown = || Error::not_found("document", text);
    let id = DocumentId::parse(text).map_err(|_| unknown())?;
    let (document, body) = app.store().find_document_of_org(&by.org, &id).await?.ok_or_else(unknown)?;
    if sight::sees(app, by, &document.space).await? { Ok((document, body)) } else { Err(unknown()) }
}
