//! Tasks: a call that waits or runs, under the id of its invocation. They are in the store, like every invocation, on whichever server
//! the client asks.

use super::caller::caller_of;
use super::words;
use countersign_core::invocation::Deadline;
use countersign_core::{Invocation, Status};
use operations::App;
use operations::invocations;
use pipeline::Outcome;
use rmcp::model::{CancelTaskParams, DetailedTask, GetTaskParams, GetTaskResult, JsonObject, Task, TaskPayload, TaskStatus};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

const POLL_INTERVAL_MS: u64 = 5_000;

/// A call as a task.
pub(super) fn task(app: &App, invocation: &Invocation) -> Task {
    let updated = invocation.ended_at.or(invocation.started_at).unwrap_or(invocation.created_at);
    let task = Task::new(invocation.id.as_str(), TaskStatus::Working, invocation.created_at.to_string(), updated.to_string());
    let task = task.with_status_message(message(app, invocation)).with_poll_interval_ms(POLL_INTERVAL_MS);
    match invocation.deadline {
        Some(Deadline::At(at)) if !invocation.status.is_final() => task.with_ttl_ms(at.millis_since(invocation.created_at)),
        Some(_) | None => task,
    }
}

fn message(app: &App, invocation: &Invocation) -> String {
    let progress = words::progress(app, invocation);
    if invocation.status == Status::Pending {
        return format!("{progress}; a person answers at {}", words::approval_url(app, invocation));
    }
    progress
}

pub(super) async fn get(app: &App, request: &GetTaskParams, context: &RequestContext<RoleServer>) -> Result<GetTaskResult, ErrorData> {
    let found = of_caller(app, &request.task_id, context).await?;
    let mut task = task(app, &found);
    let goes_on = matches!(found.status, Status::Pending | Status::Approved | Status::Running);
    if goes_on && app.pipeline().is_left_by_caller(&found).await.unwrap_or_default() {
        task = task.with_status_message(format!("{}; whoever called it has left. {}", message(app, &found), words::ASK_AGAIN));
    }
    let payload = match found.status {
        Status::Pending | Status::Approved | Status::Running => TaskPayload::Working,
        Status::Cancelled => TaskPayload::Cancelled,
        Status::Succeeded
        | Status::Failed
        | Status::Reverted
        | Status::Denied
        | Status::Quarantined
        | Status::Expired
        | Status::InDoubt => TaskPayload::Completed { result: result(app, found).await? },
    };
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

async fn result(app: &App, ended: Invocation) -> Result<JsonObject, ErrorData> {
    let told = serde_json::to_value(words::result(app, Outcome::of(Box::new(ended))).await);
    let told = told.ok().and_then(|told| told.as_object().cloned());
    told.ok_or_else(|| ErrorData::internal_error("a result has no JSON", None))
}

/// Cancels what still waits for a person. What has begun goes on to its end.
pub(super) async fn cancel(app: &App, request: &CancelTaskParams, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
    let found = of_caller(app, &request.task_id, context).await?;
    let caller = caller_of(&context.extensions)?;
    match app.pipeline().cancel_call(&caller.principal.org, &caller.principal.id, &found.id).await {
        Ok(_) => Ok(()),
        Err(error) => Err(words::protocol_error(&error)),
    }
}

/// The call, if the caller may read it.
pub(super) async fn of_caller(app: &App, id: &str, context: &RequestContext<RoleServer>) -> Result<Invocation, ErrorData> {
    let caller = caller_of(&context.extensions)?;
    let found = invocations::readable(app, &caller.principal, id).await;
    found.map_err(|_| ErrorData::invalid_params("there is no such task", None))
}
