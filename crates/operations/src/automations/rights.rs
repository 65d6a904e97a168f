//! Who may do what with automations. Each right is per space, and follows from the permissions that there are: this file says how, and no other
//! does. An automation of a space that does not exist for somebody does not exist for them either.

use super::super::{Error, must, sight};
use super::facts::imagined;
use crate::App;
use countersign_core::grant::GrantScope;
use countersign_core::ports::{Rules, Sessions};
use countersign_core::principal::Permission;
use countersign_core::{Action, AutomationId, Principal, PrincipalId, Space, SpaceId, UserId};
use pipeline::Standing;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What somebody wants to do with the automations of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// `automation.read`
    Read,
    /// `automation.run`: run, rerun and cancel.
    Run,
    /// `automation.write`: propose definitions. Only a person puts one into force: see `must_save`.
    Write,
}

/// Checks the right in this space, which exists for the principal: that is for `visible` to say.
pub(crate) async fn must_have(app: &App, by: &Principal, right: Right, space: &Space) -> Result<(), Error> {
    match right {
        Right::Read => must(by, Permission::Read),
        Right::Run => {
            must(by, Permission::Invoke)?;
            must_be_asked_for(by)?;
            must_be_let_in(by, space)
        }
        Right::Write => {
            must(by, Permission::Invoke)?;
            must_be_own_space(app, by, space).await?;
            must_be_let_in(by, space)
        }
    }
}

/// Returns the person who puts a definition into force, takes it out, or changes a trigger. Nobody does that in their place.
pub(crate) async fn must_save<'a>(app: &App, by: &'a Principal, space: &Space) -> Result<&'a UserId, Error> {
    must_have(app, by, Right::Write, space).await?;
    person(by).ok_or(Error::SaveNeedsPerson)
}

/// SECURITY: the modes and grants of an automation were given for what it does now. Only somebody who could give them has it do something else
/// with them. `actions` are those that it would call.
pub(crate) async fn must_take_over(
    app: &App,
    by: &Principal,
    space: &Space,
    automation: &AutomationId,
    actions: &BTreeMap<String, (Arc<Action>, Standing)>,
) -> Result<(), Error> {
    if by.may(Permission::ManagePolicy) {
        return Ok(());
    }
    let session = imagined(app, by, space, Some(automation));
    let own = GrantScope::Automation(automation.clone());
    let mut freer = Vec::new();
    for (action, _) in actions.values() {
        let modes = app.store().find_modes(&space.org, Some(automation), &action.id).await?;
        let otherwise = modes.org.map_or(policy::inferred(action.tier), |org| org.mode);
        let is_looser = modes.automation.is_some_and(|own| own.mode < otherwise);
        let grants = app.store().find_grants(&session, &action.id).await?;
        if is_looser || grants.iter().any(|grant| grant.terms.scope == own) {
            freer.push(format!("`{}`", action.id));
        }
    }
    if freer.is_empty() { Ok(()) } else { Err(Error::PermittedBefore { automation: automation.clone(), actions: freer.join(", ") }) }
}

/// The person who asks; agents, services and automations only propose.
pub(crate) fn person(by: &Principal) -> Option<&UserId> {
    match &by.id {
        PrincipalId::User(user) => Some(user),
        PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => None,
    }
}

/// The space of something, if it exists for the principal; `unknown` says that the thing does not.
pub(crate) async fn visible(app: &App, by: &Principal, space: &SpaceId, unknown: impl FnOnce() -> Error + Send) -> Result<Space, Error> {
    if !sight::sees(app, by, space).await? {
        return Err(unknown());
    }
    app.store().find_space(&by.org, space).await?.ok_or_else(unknown)
}

/// SECURITY: a run acts for whoever saved the automation, with modes that may be looser. An agent could borrow that, so it runs none.
fn must_be_asked_for(by: &Principal) -> Result<(), Error> {
    match &by.id {
        PrincipalId::User(_) | PrincipalId::Service(_) => Ok(()),
        PrincipalId::Agent(_) | PrincipalId::Automation(_) => Err(Error::NotAPerson { does_what: "or a service runs automations" }),
    }
}

fn must_be_let_in(by: &Principal, space: &Space) -> Result<(), Error> {
    if space.lets_in(by.owner.as_ref()) { Ok(()) } else { Err(pipeline::Error::NotAMember { space: space.id.clone() }.into()) }
}

/// An agent proposes for the space of its session, and for no other.
async fn must_be_own_space(app: &App, by: &Principal, space: &Space) -> Result<(), Error> {
    let Some(session) = &by.session else { return Ok(()) };
    let own = app.store().find_session(&by.org, session).await?;
    if own.is_some_and(|own| own.space == space.id) { Ok(()) } else { Err(Error::NotYourSession) }
}
