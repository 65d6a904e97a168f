//! What operators allow the sources of every org.

use super::body::Strict;
use super::caller::Caller;
use super::problem::Refusal;
use ::sources::mcp::{AllowedProgram, Plan};
use api::Page;
use api::allowed::{AllowedCommand, AllowedView, CommandPlanRequest, CommandPlanView, NewAllowedRequest};
use axum::Json;
use axum::extract::{Path, State};
use operations::App;
use operations::allowed::{self, Entry};

/// What sources of every org may use: the list of `hosts`, `networks` or `commands`. For operators: the owners of the first org.
#[utoipa::path(operation_id = "allowed_list", get, path = "/api/v1/allowed/{list}", tag = "allowed", params(("list" = String, Path, description = "`hosts`, `networks` or `commands`.")),
    responses((status = 200, body = Page<AllowedView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Path(list): Path<String>) -> Result<Json<Page<AllowedView>>, Refusal> {
    let entries = allowed::list(&app, &caller.principal, &list).await?;
    Ok(Json(Page { items: entries.into_iter().map(view).collect(), next: None }))
}

/// Allows a host, a network or a command, on every server of the database at once. For operators.
///
/// What the server's file of settings says stays besides, and is changed there alone.
#[utoipa::path(operation_id = "allowed_add", post, path = "/api/v1/allowed/{list}", tag = "allowed", params(("list" = String, Path, description = "`hosts`, `networks` or `commands`.")), request_body = NewAllowedRequest,
    responses((status = 200, body = AllowedView)))]
pub(super) async fn add(
    State(app): State<App>,
    caller: Caller,
    Path(list): Path<String>,
    Strict(body): Strict<NewAllowedRequest>,
) -> Result<Json<AllowedView>, Refusal> {
    Ok(Json(view(allowed::add(&app, &caller.principal, &list, body).await?)))
}

/// Allows something no longer. A program that ran by it ends with its last call, and is not started again. For operators.
#[utoipa::path(operation_id = "allowed_remove", delete, path = "/api/v1/allowed/{list}/{entry}", tag = "allowed", params(("list" = String, Path, description = "`hosts`, `networks` or `commands`."), ("entry" = String, Path, description = "The host or the network, or the id of the command.")),
    responses((status = 200, body = AllowedView)))]
pub(super) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Path((list, entry)): Path<(String, String)>,
) -> Result<Json<AllowedView>, Refusal> {
    Ok(Json(view(allowed::remove(&app, &caller.principal, &list, &entry).await?)))
}

/// Finds out what a command would run, such as `npx -y PACKAGE`. Packages that it names are installed; nothing is allowed yet. For operators.
#[utoipa::path(operation_id = "allowed_plan", post, path = "/api/v1/allowed/commands/plan", tag = "allowed", request_body = CommandPlanRequest,
    responses((status = 200, body = CommandPlanView)))]
pub(super) async fn plan(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<CommandPlanRequest>,
) -> Result<Json<CommandPlanView>, Refusal> {
    let Plan { command, readable, digest, notes } = allowed::plan(&app, &caller.principal, &body.command).await?;
    let readable = readable.iter().map(|path| path.display().to_string()).collect();
    Ok(Json(CommandPlanView { command, readable, digest, notes }))
}

fn view(Entry { list, entry, program, used_by, row }: Entry) -> AllowedView {
    AllowedView {
        list: list.to_string(),
        entry,
        fixed: row.is_none(),
        command: program.as_ref().and_then(command),
        used_by,
        version: row.as_ref().map(|row| row.version),
        set_by: row.as_ref().map(|row| row.set_by.to_string()),
        set_at: row.map(|row| row.set_at),
    }
}

/// A program is written as an operator would write it.
fn command(program: &AllowedProgram) -> Option<AllowedCommand> {
    serde_json::to_value(program).and_then(serde_json::from_value).ok()
}
