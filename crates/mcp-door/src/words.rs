//! What an agent reads: a result, or why there is none, and what would help. Every end of a call has words of its own. The facts for
//! programs are in `_meta`, because clients check structured content against a tool's schema even where the call failed.

use super::media;
use countersign_core::invocation::{Deadline, DeniedBy, Intention};
use countersign_core::{Invocation, Status};
use operations::App;
use pipeline::{Error, Outcome};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject};
use serde_json::{Value, json};

const INVOCATION: &str = "countersign/invocation";
const STATUS: &str = "countersign/status";
const CODE: &str = "countersign/code";
const REDACTED: &str = "countersign/redacted";
const APPROVAL_URL: &str = "countersign/approval_url";

/// How a call ended, with the bytes that it made. A pending one has no result: see `reference`.
pub(super) async fn result(app: &App, mut outcome: Outcome) -> CallToolResult {
    media::restore(app, &mut outcome).await;
    ended(outcome)
}

fn ended(outcome: Outcome) -> CallToolResult {
    let (invocation, result) = match outcome {
        Outcome::Ended { invocation, result } => (invocation, result),
        Outcome::Replayed(invocation) | Outcome::Pending(invocation) | Outcome::InDoubt(invocation) => {
            let result = invocation.result.clone();
            (invocation, result)
        }
    };
    if invocation.status == Status::Succeeded && invocation.intention == Intention::DryRun {
        // A kill switch had it rehearsed. What would change does not fit the schema of the tool's result, which clients check.
        let mut rehearsed = failed_with(&result.unwrap_or(Value::Null).to_string());
        rehearsed.meta = Some(facts(&invocation));
        return rehearsed;
    }
    if invocation.status == Status::Succeeded {
        let mut succeeded = success(result.unwrap_or(Value::Null));
        succeeded.content.extend(redaction(&invocation).map(ContentBlock::text));
        let meta = succeeded.meta.get_or_insert_with(|| MetaObject(JsonObject::new()));
        meta.0.extend(facts(&invocation).0);
        return succeeded;
    }
    let mut failed = failed_with(&ended_badly(&invocation));
    // What another server said about its failure is of use to the agent.
    if let Some(reported) = result.filter(|_| invocation.status == Status::Failed).and_then(|result| passed_on(&result)) {
        failed.content.extend(reported.content);
    }
    failed.meta = Some(facts(&invocation));
    failed
}

/// A result as its source gave it: that of another MCP server as it is, any other as structured content and as text.
fn success(value: Value) -> CallToolResult {
    if let Some(result) = passed_on(&value) {
        return result;
    }
    match value {
        Value::Object(_) => CallToolResult::structured(value),
        Value::String(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            CallToolResult::success(vec![ContentBlock::text(value.to_string())])
        }
    }
}

/// The result of a tool of another server.
fn passed_on(value: &Value) -> Option<CallToolResult> {
    let members = value.as_object()?;
    let is_result = members.keys().all(|key| ["content", "structuredContent", "_meta"].contains(&key.as_str()));
    let blocks = members.get("content").filter(|_| is_result)?.as_array()?;
    if !blocks.iter().all(|block| block["type"].is_string()) {
        return None;
    }
    let content = blocks.iter().map(|block| serde_json::from_value(block.clone())).collect::<Result<Vec<_>, _>>().ok()?;
    let mut result = CallToolResult::success(content);
    result.structured_content = members.get("structuredContent").cloned();
    result.meta = members.get("_meta").and_then(Value::as_object).cloned().map(MetaObject);
    Some(result)
}

/// The answer of a tool of our own.
pub(super) fn told(value: &Value) -> CallToolResult {
    CallToolResult::structured(value.clone())
}

/// Why there is no call: it was not accepted, and nothing was done.
pub(super) fn failed(error: &Error) -> CallToolResult {
    let mut text = said(error);
    if let Some(help) = help_with(error) {
        text.push_str(&format!(". {help}"));
    }
    failed_with(&text)
}

pub(super) fn refused(error: &operations::Error) -> CallToolResult {
    if let operations::Error::Pipeline(error) = error { failed(error) } else { failed_with(&error.to_string()) }
}

fn failed_with(text: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// The error of a request that is not a call, or that names no tool there is.
pub(super) fn protocol_error(error: &Error) -> ErrorData {
    let is_ours = matches!(error, Error::Store(_) | Error::Internal { .. } | Error::Unrecorded { .. });
    if is_ours { ErrorData::internal_error(said(error), None) } else { ErrorData::invalid_params(said(error), None) }
}

/// The error in words. What is wrong inside the server is in its log.
fn said(error: &Error) -> String {
    if let Error::Internal { message } = error {
        tracing::error!(error = message, "internal error");
        return "something is wrong on the server's side; its log says more".to_owned();
    }
    if let Error::Store(error) = error {
        tracing::error!(%error, "the store is not available");
        return "the server's store is not available; nothing is known to have been done, retrying later is safe".to_owned();
    }
    if let Error::InvalidParams { errors, .. } | Error::InvalidRequest { errors } = error {
        let each: Vec<_> = errors.iter().map(|error| format!("`{}` {}", error.pointer, error.message)).collect();
        return format!("{error}: {}; nothing was done", each.join("; "));
    }
    if let Error::UnknownAction { suggestions, .. } = error
        && !suggestions.is_empty()
    {
        let names: Vec<_> = suggestions.iter().map(|name| format!("`{name}`")).collect();
        return format!("{error}; there is {}", names.join(", "));
    }
    error.to_string()
}

fn help_with(error: &Error) -> Option<String> {
    if let Error::RateLimited { retry_after_ms, .. } = error {
        return Some(format!("Wait {} seconds, then ask again.", retry_after_ms.div_ceil(1_000)));
    }
    let helps: [(bool, &str); 4] = [
        (matches!(error, Error::TooManyPending { .. }), "Ask a person to answer what is pending before you ask for more."),
        (matches!(error, Error::InvalidParams { .. }), "Correct the params and call again."),
        (matches!(error, Error::RulesKeepChanging), "Call again."),
        (matches!(error, Error::SessionEnded { .. }), "A person has to open a new session for you."),
    ];
    helps.into_iter().find(|(is_this, _)| *is_this).map(|(_, help)| help.to_owned())
}

/// Why a call did not succeed, and what would help.
fn ended_badly(invocation: &Invocation) -> String {
    let why = invocation.failure.as_ref().map_or_else(|| invocation.status.to_string(), |failure| failure.message.clone());
    let (action, id) = (&invocation.action, &invocation.id);
    match invocation.status {
        Status::Denied => match invocation.denied_by {
            Some(DeniedBy::Person) => {
                format!(
                    "Denied by a person: {why}. Nothing was done. Do not repeat the call; ask the person what they would accept. ({id})"
                )
            }
            Some(DeniedBy::Binding) => {
                format!("Not run: {why}. The approval no longer fits, and nothing was done. Call again to ask again. ({id})")
            }
            Some(DeniedBy::Drift) => {
                format!("Not run: {why}. Nothing was done. A person has to review `{action}` before it is called again. ({id})")
            }
            Some(DeniedBy::Policy) | None => format!("Denied by a rule: {why}. Nothing was done. {} ({id})", help_with_denial(invocation)),
        },
        Status::Quarantined => {
            format!("Quarantined: {why}. Nothing was done. A person decides whether it may run; do not try to get around this. ({id})")
        }
        Status::Expired => format!("Expired: {why}. Nothing was done. Calling again asks a person again. ({id})"),
        Status::Cancelled => format!("Cancelled: {why}. ({id})"),
        Status::InDoubt => format!(
            "In doubt: `{action}` may have happened, and nobody saw how it ended: {why}. Do not repeat it. The server finds out or a person \
             settles it; see `get_invocation` with id `{id}`."
        ),
        Status::Reverted => format!("Failed, and what it had done was rolled back: {why}. ({id})"),
        Status::Failed | Status::Succeeded | Status::Pending | Status::Approved | Status::Running => format!("Failed: {why}. ({id})"),
    }
}

fn help_with_denial(invocation: &Invocation) -> &'static str {
    match invocation.failure.as_ref().map(|failure| failure.code.as_str()) {
        Some("denied_by_mode") => "An admin can change the mode of this action; or use another action.",
        Some("stopped") => "An admin has to turn the kill switch off first.",
        Some("denied_by_gate") => "An admin can say which rule it was, and change it.",
        Some(_) | None => "Ask an admin, or use another action.",
    }
}

/// The call goes on without its caller, who can ask what became of it.
pub(super) fn reference(app: &App, pending: &Invocation) -> CallToolResult {
    let (action, id, url) = (&pending.action, &pending.id, approval_url(app, pending));
    let text = if pending.status == Status::Pending {
        format!(
            "Not done yet: `{action}` waits for a person's approval{}. Call `get_invocation` with id `{id}` to wait for it and get the result. \
             Do not repeat the call: that would ask a second time. A person opens {url}, logs in and answers there.",
            left(app, pending),
        )
    } else {
        let stands = stands(pending);
        format!("Not done yet: `{action}` {stands}. Call `get_invocation` with id `{id}` to get the result. Do not repeat the call.")
    };
    not_done(app, pending, text)
}

/// The caller of the call has left: the call goes on with whoever makes it again.
pub(super) fn left_behind(app: &App, pending: &Invocation) -> CallToolResult {
    let (action, stands) = (&pending.action, stands(pending));
    not_done(app, pending, format!("Not done yet: `{action}` {stands}, and whoever called it has left. {ASK_AGAIN}"))
}

/// What an agent does with a call that it, or whoever made the call, has left.
pub(super) const ASK_AGAIN: &str = "Make the same call again, with the same arguments, and it goes on: that is no second call.";

fn not_done(app: &App, pending: &Invocation, text: String) -> CallToolResult {
    let mut told = CallToolResult::success(vec![ContentBlock::text(text)]);
    told.content.extend(redaction(pending).map(ContentBlock::text));
    let mut meta = facts(pending);
    meta.0.insert(APPROVAL_URL.to_owned(), json!(approval_url(app, pending)));
    told.meta = Some(meta);
    told
}

/// How far a call is that has not ended.
const fn stands(pending: &Invocation) -> &'static str {
    match pending.status {
        Status::Pending => "waits for a person's approval",
        Status::Approved => "is approved and has not begun",
        Status::Running
        | Status::InDoubt
        | Status::Succeeded
        | Status::Failed
        | Status::Reverted
        | Status::Denied
        | Status::Quarantined
        | Status::Expired
        | Status::Cancelled => "is running",
    }
}

/// The line was cut off, because the server stops or the connection ended.
pub(super) fn cut_off() -> CallToolResult {
    failed_with("This connection was cut off. Nothing is lost: make the same call again, and it goes on where it is.")
}

/// What a call waits for, for whoever watches.
pub(super) fn progress(app: &App, pending: &Invocation) -> String {
    if pending.status != Status::Pending {
        return format!("`{}` is {}", pending.action, pending.status);
    }
    match pending.approvals.len() {
        0 => format!("waiting for a person to approve `{}`{}", pending.action, left(app, pending)),
        given => format!("approved by {given}, waiting for more people{}", left(app, pending)),
    }
}

/// How much time is left to answer.
fn left(app: &App, pending: &Invocation) -> String {
    match pending.deadline {
        Some(Deadline::At(at)) => match at.millis_since(app.parts.clock.now()).div_ceil(1_000) {
            seconds @ 0..=90 => format!(", {seconds} s left"),
            seconds => format!(", {} min left", seconds.div_ceil(60)),
        },
        Some(Deadline::Stopped { .. }) => ", paused by a kill switch".to_owned(),
        None => String::new(),
    }
}

/// Where a person answers. Whoever opens it has to log in: the address alone answers nothing.
pub(super) fn approval_url(app: &App, pending: &Invocation) -> String {
    format!("{}/inbox/{}", app.parts.address.address(), pending.id)
}

/// What the source does not get. Without it, an agent believes that the arguments arrive as it sent them.
fn redaction(invocation: &Invocation) -> Option<String> {
    let counts = &invocation.redacted.as_ref()?.counts;
    let taken: Vec<_> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    (!taken.is_empty()).then(|| format!("Redacted from the arguments, by the rule of this space: {}.", taken.join(", ")))
}

fn facts(invocation: &Invocation) -> MetaObject {
    let mut facts = JsonObject::new();
    facts.insert(INVOCATION.to_owned(), json!(invocation.id));
    facts.insert(STATUS.to_owned(), json!(invocation.status));
    if let Some(failure) = &invocation.failure {
        facts.insert(CODE.to_owned(), json!(failure.code));
    }
    if let Some(redacted) = invocation.redacted.as_ref().filter(|redacted| !redacted.counts.is_empty()) {
        facts.insert(REDACTED.to_owned(), json!(redacted.counts));
    }
    MetaObject(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_another_server_is_passed_on_and_any_other_is_told_twice() {
        let theirs = json!({ "content": [{ "type": "text", "text": "hi" }], "structuredContent": { "a": 1 } });
        let told = success(theirs);
        assert_eq!((told.content.len(), told.structured_content), (1, Some(json!({ "a": 1 }))));
        let ours = success(json!({ "content": "of a file" }));
        assert_eq!(ours.structured_content, Some(json!({ "content": "of a file" })));
        assert_eq!(success(json!([1])).structured_content, None);
    }
}
