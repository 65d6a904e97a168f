//! The actions of a caller's session: which are tools, which are resources or prompts, and how each stands for the caller.

use super::caller::Caller;
use super::words;
use countersign_core::ports::Rules;
use countersign_core::{Action, Mode, Space};
use operations::App;
use rmcp::ErrorData;
use std::sync::Arc;

pub(super) const RESOURCES: &str = "resources.list";
pub(super) const TEMPLATES: &str = "resources.templates.list";
pub(super) const READ: &str = "resources.read";
pub(super) const PROMPTS: &str = "prompts.list";
pub(super) const PROMPT: &str = "prompts.get";

/// The actions that a caller may call as tools, in a stable order.
pub(super) async fn tools(app: &App, caller: &Caller) -> Vec<Arc<Action>> {
    let mut actions = app.pipeline().catalogue().all_actions(&caller.session).await;
    let wanted = caller.wishes.source.as_deref();
    actions.retain(|action| wanted.is_none_or(|source| action.id.source() == source) && !is_passed_on(action));
    actions.sort_by(|one, other| one.id.cmp(&other.id));
    actions.dedup_by(|one, other| one.id == other.id);
    actions
}

/// Whether an action is told as a resource or a prompt, and not as a tool.
pub(super) fn is_passed_on(action: &Action) -> bool {
    action.upstream_sha256.is_none() && [RESOURCES, TEMPLATES, READ, PROMPTS, PROMPT].contains(&action.id.name())
}

/// The space of the caller's session.
pub(super) async fn space_of(app: &App, caller: &Caller) -> Result<Space, ErrorData> {
    let space = app.store().find_space(&caller.session.org, &caller.session.space).await.map_err(unavailable)?;
    space.ok_or_else(|| ErrorData::internal_error("the session is in no space", None))
}

/// How the action stands for the caller now.
pub(super) async fn mode_of(app: &App, caller: &Caller, space: &Space, action: &Arc<Action>) -> Result<Mode, ErrorData> {
    let standing = app.pipeline().standing(&caller.session.org, Some((&caller.session, space)), action).await;
    Ok(standing.map_err(|error| words::protocol_error(&error))?.decision.mode)
}

fn unavailable(error: store::Error) -> ErrorData {
    words::protocol_error(&pipeline::Error::Store(error))
}
