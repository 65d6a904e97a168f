//! Sessions: who may create, read and end one.

use super::tokens::wishes;
use super::{Error, automations, must, sight, sources, spaces};
use crate::App;
use crate::limits::{AGENT_TOKEN_DAYS, SESSION_SOURCES_MAX};
use api::identity::NewSessionRequest;
use countersign_core::ports::Sessions;
use countersign_core::principal::Permission;
use countersign_core::session::Attendance;
use countersign_core::{Principal, Secret, Session, SessionId, SourceId};
use pipeline::ParamError;
use std::collections::BTreeSet;
use store::{NewSession, NewToken};

const TITLE_CHARS_MAX: usize = 200;

/// Creates a session with its agent's token.
pub async fn create(app: &App, by: &Principal, asked: NewSessionRequest) -> Result<(Session, NewToken), Error> {
    must(by, Permission::CreateSession)?;
    let NewSessionRequest { space, title, unattended, automation_id, sources, mcp } = asked;
    let attendance = if unattended { Attendance::Unattended } else { Attendance::Interactive };
    let title = title.unwrap_or_else(|| "session".into());
    if title.chars().count() > TITLE_CHARS_MAX {
        return Err(Error::invalid(format!("`title` is longer than {TITLE_CHARS_MAX} characters")));
    }
    if title.contains('\0') {
        return Err(Error::invalid("`title` holds the character U+0000"));
    }
    let space = spaces::find(app, by, space.as_deref().unwrap_or("main")).await?;
    if !space.lets_in(by.owner.as_ref()) {
        return Err(pipeline::Error::NotAMember { space: space.id }.into());
    }
    let automation = match automation_id.as_deref() {
        Some(text) => {
            // An automation's modes may be looser than the org's.
            must(by, Permission::ManagePolicy)?;
            Some(automations::visible(app, by, text).await?.0.id)
        }
        None => None,
    };
    let sources = match &sources {
        Some(names) => Some(sources_of(app, by, names).await?),
        None => None,
    };
    let new = NewSession {
        space: space.id,
        created_by: by.id.clone(),
        owner: by.owner.clone(),
        title,
        attendance,
        automation,
        sources,
        device: by.device.clone(),
        token_lifetime_seconds: Some(AGENT_TOKEN_DAYS * 24 * 60 * 60),
        mcp: wishes(mcp)?,
    };
    Ok(app.store().create_session(&by.org, new).await?)
}

/// The named sources. A misspelt one is refused: the session would lack it, and its agent could not tell why.
async fn sources_of(app: &App, by: &Principal, names: &[String]) -> Result<BTreeSet<SourceId>, Error> {
    if names.len() > SESSION_SOURCES_MAX {
        return Err(Error::invalid(format!("`sources` has more than {SESSION_SOURCES_MAX} names")));
    }
    let hidden = sources::hidden(app, by).await?;
    let (mut chosen, mut errors) = (BTreeSet::new(), Vec::new());
    for (at, name) in names.iter().enumerate() {
        let is_there = !hidden.contains(name) && app.pipeline().catalogue().has_source(&by.org, name).await;
        match SourceId::parse(name).ok().filter(|_| is_there) {
            Some(source) => {
                chosen.insert(source);
            }
            None => errors.push(ParamError { pointer: format!("/sources/{at}"), message: "there is no such source".to_owned() }),
        }
    }
    if errors.is_empty() {
        return Ok(chosen);
    }
    Err(Error::Invalid { message: "no session was created: there are no such sources".to_owned(), errors })
}

/// The session of an agent. Anybody else has none of their own.
pub async fn own(app: &App, by: &Principal) -> Result<Option<Session>, Error> {
    match &by.session {
        Some(own) => {
            let own = app.store().find_session(&by.org, own).await?.ok_or(Error::UnknownSession)?;
            if sight::sees(app, by, &own.space).await? { Ok(Some(own)) } else { Err(Error::UnknownSession) }
        }
        None => Ok(None),
    }
}

/// The session in which a principal calls: an agent's own, or the one that anybody else names.
pub async fn for_calls(app: &App, by: &Principal, named: Option<&str>) -> Result<Session, Error> {
    match (named, own(app, by).await?) {
        (Some(named), _) => readable(app, by, named).await,
        (None, Some(own)) => Ok(own),
        (None, None) => Err(Error::invalid("only an agent's token names its session; name one with `session`")),
    }
}

/// Whether the bearer of a token that was accepted before may still call in this session. While the store is away, nothing is known to have
/// changed.
pub async fn is_open_to(app: &App, token: &Secret<String>, session: &Session) -> bool {
    let looked = async {
        let is_accepted = app.store().authenticate(token.expose()).await?.is_ok();
        let session = app.store().find_session(&session.org, &session.id).await?;
        Ok::<_, store::Error>(is_accepted && session.is_some_and(|session| session.ended_at.is_none()))
    };
    looked.await.unwrap_or(true)
}

/// Ends a session: a principal's own or, for a principal who manages people, anybody's. Its token stops working at once.
pub async fn end(app: &App, by: &Principal, session: &str) -> Result<Session, Error> {
    let session = readable(app, by, session).await?;
    if session.created_by != by.id {
        must(by, Permission::ManageIdentity)?;
    }
    let ended = app.store().end_session(&by.org, &session.id).await?;
    Ok(ended.unwrap_or(session))
}

/// The session, if its space exists for the principal and they may read it: their own, or any of the org for those who may read everything.
pub async fn readable(app: &App, by: &Principal, session: &str) -> Result<Session, Error> {
    let id = SessionId::parse(session).map_err(|_| Error::UnknownSession)?;
    if by.session.as_ref().is_some_and(|own| *own != id) {
        return Err(Error::NotYourSession);
    }
    let session = app.store().find_session(&by.org, &id).await?.ok_or(Error::UnknownSession)?;
    if !sight::sees(app, by, &session.space).await? {
        return Err(Error::UnknownSession);
    }
    let own = by.session.as_ref() == Some(&session.id) || session.created_by == by.id;
    if (own && by.may(Permission::ReadSession)) || by.may(Permission::Read) {
        return Ok(session);
    }
    Err(Error::NotYourSession)
}
