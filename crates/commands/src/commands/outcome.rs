//! How an invocation ended: its exit code, its failure and the lines about it, shared by the commands that show calls.

use crate::shared::*;
use crate::style;
use api::invocation::{InvocationView, InvokeResponse, TightenedBy};
use api::{Code, Problem};
use countersign_core::Status;
use countersign_core::decision::Verdict;
use countersign_core::invocation::DeniedBy;
use serde_json::Value;
use std::collections::BTreeMap;

/// Reads one invocation, both parsed and as the server sent it.
pub(super) async fn get(id: &str, client: &Client) -> Result<(InvocationView, Value), Failure> {
    if let Some(other) = of_another_kind(id) {
        return Err(other);
    }
    let Answer { read, mut raw } = client.get::<InvokeResponse>(&["invocations", id], &[]).await?;
    Ok((read.invocation, raw["invocation"].take()))
}

/// If the id belongs to another kind of thing, a failure that names the command for it.
pub(super) fn of_another_kind(id: &str) -> Option<Failure> {
    let (prefix, _) = id.split_once('_')?;
    let (what, command) = match prefix {
        "bat" => ("a batch", "batch show"),
        "rcp" => ("a receipt", "receipt show"),
        "grt" => ("a grant", "grant show"),
        "ses" => ("a session", "session show"),
        "aut" => ("an automation", "automation show"),
        "run" => ("a run", "run show"),
        _ => return None,
    };
    let id = clean::line(id);
    Some(Failure::usage(format!("`{id}` is the id of {what}, and an invocation is needed")).hint(format!("countersign {command} {id}")))
}

/// Writes the id to stdout and a line for people to stderr. The exit code says how the call ended.
pub(super) fn tell(answer: &Answer<InvokeResponse>, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let invocation = &answer.read.invocation;
    if terminal.is_document() {
        terminal.document(&answer.raw)?;
    } else {
        terminal.line(clean::line(&invocation.id))?;
        tell_redacted(invocation, terminal);
        terminal.note(if is_settled(invocation) { line(invocation) } else { waiting(invocation, client) });
    }
    Ok(if is_settled(invocation) { Exit::of_call(invocation) } else { Exit::Pending })
}

/// Where it is in its life.
pub(super) const fn status(invocation: &InvocationView) -> Status {
    invocation.status
}

/// The status as a cell, marked if the call was a dry run or was reverted.
pub(super) fn status_cell(invocation: &InvocationView) -> Cell {
    with_standing(Cell::status(invocation.status).rehearsed(invocation.dry_run), invocation)
}

/// Marks a call that was reverted: its status `succeeded` alone would mislead.
pub(super) fn with_standing(cell: Cell, invocation: &InvocationView) -> Cell {
    if invocation.reverted_by.is_some() { cell.marked(", reverted") } else { cell }
}

/// Whether the call has ended or is in doubt, so that waiting longer brings nothing new.
pub(super) fn is_settled(invocation: &InvocationView) -> bool {
    invocation.status.is_final() || invocation.status == Status::InDoubt
}

/// The failure for a call that ended without success; `None` if it succeeded or has not ended.
pub(super) fn failure(invocation: &InvocationView) -> Option<Failure> {
    let code = match invocation.status {
        Status::Succeeded | Status::Pending | Status::Approved | Status::Running => return None,
        Status::Failed | Status::Reverted => Code::SourceFailed,
        Status::Denied => match invocation.denied_by {
            Some(DeniedBy::Person) => Code::DeniedByPerson,
            Some(DeniedBy::Binding) => Code::ApprovalVoid,
            Some(DeniedBy::Drift) => Code::DefinitionMismatch,
            Some(DeniedBy::Policy) | None => Code::DeniedByPolicy,
        },
        Status::Quarantined => Code::Quarantined,
        Status::Expired => Code::Expired,
        Status::Cancelled => Code::AlreadyEnded,
        Status::InDoubt => Code::InDoubt,
    };
    let error = invocation.error.as_ref().filter(|_| code != Code::InDoubt);
    let code = error.and_then(|error| Code::about_the_call(&error.code)).unwrap_or(code);
    let id = &invocation.id;
    let detail = match (&invocation.error, &invocation.answer) {
        (Some(error), _) => format!("`{}` {}: {}", invocation.action, invocation.how_it_failed(), error.message),
        (None, _) if code == Code::InDoubt => format!("`{id}` may or may not have happened; do not retry, look first"),
        (None, Some(answer)) => format!("`{}` was answered by {}{}", invocation.action, answer.by, because(answer.reason.as_deref())),
        (None, None) => format!("`{}` ended as {}", invocation.action, invocation.status),
    };
    let hint = if code == Code::Quarantined { format!("countersign quarantine show {id}") } else { format!("countersign explain {id}") };
    let mut problem = Problem::new(code, detail).hint(hint).about(id);
    problem.error = invocation.error.as_ref().map(|error| error.code.clone());
    problem.invocation = Some(Box::new(invocation.clone()));
    let raw = serde_json::to_value(&problem).unwrap_or_default();
    let mut failure = Failure::of_problem(&problem, raw);
    failure.exit = Exit::of_call(invocation);
    Some(failure)
}

/// Says on stderr that the source got other params than were sent: the caller would otherwise believe that it got those.
pub(super) fn tell_redacted(invocation: &InvocationView, terminal: &mut Terminal) {
    if let Some(taken) = redacted(&invocation.redacted) {
        terminal.note(Tone::Warn.paint(format!("▒ redacted from the params, by the rule of the space: {taken}")));
    }
}

/// `2 email, 1 phone`; `None` if nothing was redacted.
pub(super) fn redacted(counts: &BTreeMap<String, u32>) -> Option<String> {
    let parts: Vec<_> = counts.iter().map(|(kind, count)| format!("{count} {}", clean::line(kind))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// One line about the call, for stderr.
pub(super) fn line(invocation: &InvocationView) -> String {
    let (word, tone) = match (style::status_word(invocation.status), invocation.status, invocation.dry_run) {
        ((_, tone), Status::Succeeded, true) => ("✓ dry run: nothing was done ·".to_owned(), tone),
        (shown, _, _) => shown,
    };
    let receipt = invocation.receipt.as_ref().map(|receipt| format!(", receipt {} (#{})", receipt.id, receipt.seq)).unwrap_or_default();
    let rest = format!("{} {}{receipt}", invocation.action, invocation.id);
    format!("{} {}", tone.paint(word), clean::line(&rest))
}

/// The line that says what the call waits for. If it is pending, a person is told how to approve it, and an agent how to wait for it.
pub(super) fn waiting(invocation: &InvocationView, client: &Client) -> String {
    let id = clean::line(&invocation.id);
    if matches!(invocation.status, Status::Approved | Status::Running) {
        return format!("{} {id}", Tone::Primary.paint("● running:"));
    }
    let why = asked_because(invocation).map(|why| format!(", because {}", clean::line(&why))).unwrap_or_default();
    let next = if client.is_agents() { "invocation watch" } else { "approve" };
    format!("{} {id} (countersign {next} {id}){why}", Tone::Warn.paint("◷ waiting for approval:"))
}

/// What made the mode stricter, with the rule if it was a gate; `None` if the mode itself asks.
fn asked_because(invocation: &InvocationView) -> Option<String> {
    let reason = invocation.decision.tightened.last()?;
    let is_gate = invocation.decision.tightened_by.last() == Some(&TightenedBy::Gate);
    let gate = invocation.gates.iter().find(|gate| is_gate && gate.verdict == Verdict::NeedsApproval);
    let rules = gate.map(|gate| gate.determining.join(", ")).filter(|rules| !rules.is_empty());
    Some(rules.map_or_else(|| reason.clone(), |rules| format!("{reason}, by {rules}")))
}

/// How long the call can still be approved; empty if it has no deadline.
pub(super) fn deadline(invocation: &InvocationView, terminal: &Terminal) -> String {
    invocation.expires_at.map(|at| format!("expires in {}", terminal.future(at).as_shown())).unwrap_or_default()
}

fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}
