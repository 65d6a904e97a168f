//! Grants: people who may approve give them; agents request them.

use super::{Error, automations, must, sessions, sight, sources, spaces, words};
use crate::App;
use crate::limits::{GRANT_CONDITION_BYTES_MAX, GRANT_REQUESTS_PER_SESSION_MAX, NEAR_GRANTS_LOOKED_AT_MAX};
use countersign_core::grant::{Covers, Grant, GrantScope, GrantStateName, GrantTerms, GrantedDefinition, SumMax};
use countersign_core::limits::PAGE_ROWS_MAX;
use countersign_core::ports::Sessions;
use countersign_core::principal::Permission;
use countersign_core::{ActionId, GrantId, Principal, PrincipalId, SessionId};
use pipeline::{Eyes, ParamError, UnusableSchema};
use serde_json::Value;
use store::{GrantChanged, GrantFilter, NewGrant, Page, PageRequest};

/// A grant as requested.
pub struct Asked {
    pub covers: String,
    pub scope: AskedScope,
    pub space: Option<String>,
    pub condition: Option<Value>,
    pub calls_max: Option<u32>,
    pub sum_max: Option<SumMax>,
    pub reason: Option<String>,
    pub lifetime_seconds: u64,
}

/// Whose calls the grant covers.
pub enum AskedScope {
    Org,
    /// If no session is named, the agent's own session.
    Session(Option<String>),
    Automation(Option<String>),
}

/// Grants and requests for them, newest first. An agent sees the grants it can use and its own requests.
pub async fn list(app: &App, by: &Principal, mut filter: GrantFilter, request: &PageRequest) -> Result<Page<Grant>, Error> {
    match &by.session {
        Some(own) => {
            must(by, Permission::ReadSession)?;
            filter.session = Some(own.clone());
        }
        None => must(by, Permission::Read)?,
    }
    filter.hidden = sight::hidden(app, by).await?;
    filter.hidden_sources = sources::hidden(app, by).await?;
    filter.by = Some(by.id.clone());
    let page = app.store().list_grants(&by.org, &filter, request).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for grant in page.items {
        items.push(told(app, by, grant).await?);
    }
    Ok(Page { items, next: page.next })
}

/// The newest grants that cover an action, as far as they exist for this principal; none if it may not list grants.
pub async fn covering(app: &App, by: &Principal, action: &str) -> Result<Vec<Grant>, Error> {
    let needed = if by.session.is_some() { Permission::ReadSession } else { Permission::Read };
    let Some(action) = ActionId::parse(action).ok().filter(|_| by.may(needed)) else { return Ok(Vec::new()) };
    let filter = GrantFilter { covers: Some(action), ..GrantFilter::default() };
    let request = PageRequest { limit: NEAR_GRANTS_LOOKED_AT_MAX, after: None };
    Ok(list(app, by, filter, &request).await?.items)
}

/// The grant as this principal is told it: without the call by whose approval it was given, if that does not exist for them.
async fn told(app: &App, by: &Principal, grant: Grant) -> Result<Grant, Error> {
    let Some(invocation) = &grant.invocation else { return Ok(grant) };
    let hidden = sight::hidden(app, by).await?;
    let is_hidden = app.store().is_about(&by.org, &hidden, invocation.as_str()).await?;
    Ok(if is_hidden { Grant { invocation: None, ..grant } } else { grant })
}

/// What a grant is about: the session that it covers, the space, and the agent that asked for it.
fn about(grant: &Grant) -> String {
    let space = grant.terms.space.as_ref().map(ToString::to_string).unwrap_or_default();
    let asked_by = grant.requested_by.as_ref().map(ToString::to_string).unwrap_or_default();
    format!("{} {space} {asked_by}", grant.terms.scope)
}

/// One grant, for principals who may read everything and for the one who requested it.
pub async fn find(app: &App, by: &Principal, grant: &str) -> Result<Grant, Error> {
    let unknown = || Error::not_found("grant", grant);
    let id = GrantId::parse(grant).map_err(|_| unknown())?;
    let found = app.store().find_grant(&by.org, &id).await?;
    let found = sight::seen_of(app, by, found.into_iter().collect::<Vec<_>>(), about).await?.pop();
    let hidden = sources::hidden(app, by).await?;
    let may_read = |found: &Grant| {
        let is_hidden = hidden.contains(found.terms.covers.source()) && !found.is_by(&by.id);
        !is_hidden && (by.may(Permission::Read) || found.requested_by.as_ref() == Some(&by.id))
    };
    told(app, by, found.filter(may_read).ok_or_else(unknown)?).await
}

/// Gives a grant; if an agent asks, requests one. A request allows nothing until a person approves it.
pub async fn create(app: &App, by: &Principal, asked: Asked) -> Result<Grant, Error> {
    match &by.id {
        PrincipalId::User(_) => pipeline::must_approve(by)?,
        PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => must(by, Permission::Invoke)?,
    }
    let grant = checked(app, by, asked).await?;
    if by.may(Permission::Approve) {
        return Ok(app.store().give_grant(&by.org, grant, &by.id).await?);
    }
    may_ask(app, by, &grant.terms).await?;
    Ok(app.store().request_grant(&by.org, grant, &by.id).await?)
}

/// Approves an agent's request.
pub async fn approve(app: &App, by: &Principal, grant: &str) -> Result<Grant, Error> {
    let id = answerable(app, by, grant).await?;
    told(app, by, changed(grant, app.store().approve_grant(&by.org, &id, &by.id).await?)?).await
}

/// Refuses an agent's request.
pub async fn refuse(app: &App, by: &Principal, grant: &str) -> Result<Grant, Error> {
    let id = answerable(app, by, grant).await?;
    told(app, by, changed(grant, app.store().refuse_grant(&by.org, &id, &by.id).await?)?).await
}

/// Ends a grant at once: the next call needs an approval again.
pub async fn revoke(app: &App, by: &Principal, grant: &str) -> Result<Grant, Error> {
    let id = answerable(app, by, grant).await?;
    told(app, by, changed(grant, app.store().revoke_grant(&by.org, &id, &by.id).await?)?).await
}

/// The id of a grant. Only people who may approve can change grants, and only those that exist for them.
async fn answerable(app: &App, by: &Principal, grant: &str) -> Result<GrantId, Error> {
    pipeline::must_approve(by)?;
    Ok(find(app, by, grant).await?.id)
}

fn changed(grant: &str, changed: Option<GrantChanged>) -> Result<Grant, Error> {
    match changed {
        Some(GrantChanged::Done(grant)) => Ok(*grant),
        Some(GrantChanged::Not(state)) => Err(Error::GrantEnded { grant: grant.to_owned(), state }),
        None => Err(Error::not_found("grant", grant)),
    }
}

/// An agent may request grants for its own session and for the org, and only so many at a time.
async fn may_ask(app: &App, by: &Principal, terms: &GrantTerms) -> Result<(), Error> {
    let is_for_it = by.session.as_ref().is_some_and(|own| match &terms.scope {
        GrantScope::Session(session) => session == own,
        GrantScope::Org => true,
        GrantScope::Automation(_) => false,
    });
    if !is_for_it {
        return Err(Error::OtherSession);
    }
    let filter = GrantFilter { state: Some(GrantStateName::Requested), session: by.session.clone(), ..GrantFilter::default() };
    let open = app.store().list_grants(&by.org, &filter, &PageRequest { limit: PAGE_ROWS_MAX, after: None }).await?;
    let open = open.items.iter().filter(|grant| grant.requested_by.as_ref() == Some(&by.id)).count();
    if open >= GRANT_REQUESTS_PER_SESSION_MAX { Err(Error::TooManyRequests { open }) } else { Ok(()) }
}

/// Checks a request and turns it into a grant.
async fn checked(app: &App, by: &Principal, asked: Asked) -> Result<NewGrant, Error> {
    let covers = Covers::parse(&asked.covers)
        .ok_or_else(|| Error::invalid("`covers` must be an action such as `files.write_text`, a source such as `files.*`, or `*`"))?;
    let scope = scope_of(app, by, asked.scope).await?;
    let space = match asked.space {
        Some(text) => Some(spaces::find(app, by, &text).await?.id),
        None => None,
    };
    if let Some(condition) = &asked.condition {
        if condition.to_string().len() > GRANT_CONDITION_BYTES_MAX {
            return Err(Error::invalid(format!("`condition` is larger than {GRANT_CONDITION_BYTES_MAX} bytes")));
        }
        let condition = condition.clone();
        // Compiling the patterns of a condition may take long, so no thread that serves does it.
        let checked = tokio::task::spawn_blocking(move || pipeline::check_condition(&condition)).await;
        checked.map_err(|_| Error::invalid("`condition` could not be checked"))?.map_err(unusable)?;
    }
    let reason = words("reason", asked.reason.as_deref())?;
    pipeline::check_bounds("", asked.calls_max, asked.sum_max.as_ref(), asked.lifetime_seconds)?;
    let definition = definition_of(app, by, &covers, asked.sum_max.as_ref()).await?;
    let (condition, calls_max, sum_max) = (asked.condition, asked.calls_max, asked.sum_max);
    let terms = GrantTerms { scope, space, covers, condition, calls_max, sum_max, definition };
    Ok(NewGrant { terms, lifetime_seconds: asked.lifetime_seconds, reason })
}

fn unusable(condition: UnusableSchema) -> Error {
    let message = format!("`condition` cannot be used: {condition}");
    match condition {
        UnusableSchema::TooCostly(_) => Error::ConditionTooCostly { message },
        UnusableSchema::Invalid { pointer, message: why } => {
            Error::Invalid { message, errors: vec![ParamError { pointer: format!("/condition{pointer}"), message: why }] }
        }
    }
}

async fn scope_of(app: &App, by: &Principal, asked: AskedScope) -> Result<GrantScope, Error> {
    match asked {
        AskedScope::Org => Ok(GrantScope::Org),
        AskedScope::Session(named) => {
            let own = by.session.as_ref().map(ToString::to_string);
            let text = named.or(own).ok_or_else(|| Error::invalid("`session_id` is missing"))?;
            let id = SessionId::parse(&text).map_err(|_| Error::UnknownSession)?;
            let session = app.store().find_session(&by.org, &id).await?.ok_or(Error::UnknownSession)?;
            if sight::sees(app, by, &session.space).await? { Ok(GrantScope::Session(session.id)) } else { Err(Error::UnknownSession) }
        }
        AskedScope::Automation(named) => {
            let text = named.ok_or_else(|| Error::invalid("`automation_id` is missing"))?;
            Ok(GrantScope::Automation(automations::visible(app, by, &text).await?.0.id))
        }
    }
}

/// A grant of one action is bound to the action's current definition, and its sum is made of a param that the action can have.
async fn definition_of(app: &App, by: &Principal, covers: &Covers, sum_max: Option<&SumMax>) -> Result<Option<GrantedDefinition>, Error> {
    let Some(action) = covers.action() else {
        return Ok(None);
    };
    // An agent learns nothing about sources that its session is not connected to.
    let own = sessions::own(app, by).await?;
    let eyes = Eyes::of(&by.org, own.as_ref());
    let is_hidden = sources::hidden(app, by).await?.contains(action.source());
    let now = match !is_hidden && app.pipeline().catalogue().has_source(eyes, action.source()).await {
        true => app.pipeline().definition_of(&by.org, &action).await?,
        false => None,
    };
    let Some(now) = now else {
        return Err(sources::unknown_action(app, by, eyes, action.as_str()).await);
    };
    if now.is_never_granted {
        return Err(Error::NeverGranted { action });
    }
    pipeline::check_sum_of("", sum_max, &now.action)?;
    Ok(Some(GrantedDefinition { structural: now.structural, textual: now.textual }))
}
