//! Links that answer one call in one person's name (`pipeline/src/answers/link.rs`). Whoever opens a link first has it, in that browser
//! alone: a link that was passed on answers nothing in the name of the person it was for.

use super::Error;
use crate::App;
use countersign_core::InvocationId;
use pipeline::OpenedLink;
use store::LinkOpened;

/// A valid link, as this browser may use it.
pub enum Link {
    /// Nobody has opened it.
    Unopened(Box<OpenedLink>),
    /// It was opened in this browser, and can be answered.
    Here(Box<OpenedLink>),
    /// It was opened in another browser. Whoever logs in can answer the call as themselves.
    Elsewhere(InvocationId),
}

/// Checks a link.
pub async fn find(app: &App, text: &str, browser: &str) -> Result<Link, Error> {
    let link = Box::new(app.pipeline().open_link(text).await?);
    Ok(match app.store().find_opened_link(&link.invocation.org, text, browser).await? {
        LinkOpened::Nowhere => Link::Unopened(link),
        LinkOpened::Here => Link::Here(link),
        LinkOpened::Elsewhere => Link::Elsewhere(link.invocation.id),
    })
}

/// The link, if it can be answered in this browser.
pub async fn answerable(app: &App, text: &str, browser: &str) -> Result<OpenedLink, Error> {
    match find(app, text, browser).await? {
        Link::Here(link) => Ok(*link),
        Link::Unopened(_) => Err(Error::LinkUnopened),
        Link::Elsewhere(invocation) => Err(Error::OpenedElsewhere { invocation }),
    }
}

/// Opens a link in this browser. If another one has opened it, nothing is changed.
pub async fn open(app: &App, text: &str, browser: &str) -> Result<(), Error> {
    let link = app.pipeline().open_link(text).await?;
    app.store().bind_link(&link.invocation.org, text, browser, link.expires_at).await?;
    Ok(())
}
