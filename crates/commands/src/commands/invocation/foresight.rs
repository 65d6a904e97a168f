//! Shows what reverting a call would do: whether it can be reverted, whether that needs approval, and what would change. Nothing is
//! reverted.

use crate::commands::{changes, explain};
use crate::shared::*;
use api::gates::WouldName;
use api::invocation::RevertForesightView;

pub(super) async fn run(id: &str, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let answer = client.get::<RevertForesightView>(&["invocations", id, "revert"], &[]).await?;
    let told = &answer.read;
    if terminal.is_for_words() {
        terminal.line(first_line(told))?;
    }
    let record = Record::new(&told.invocation_id)
        .with("reverts", Cell::text(&told.invocation_id).toned(Tone::Strong))
        .with("action", Cell::text(&told.action))
        .with_some("would change", unforeseen(told).map(Cell::text));
    terminal.record(&answer.raw, &record)?;
    if terminal.is_for_words() {
        let lines = told.changes.as_ref().and_then(changes::foreseen).unwrap_or_default();
        lines.into_iter().try_for_each(|line| terminal.line(line))?;
    }
    let exit = exit_of(told);
    if exit == Exit::Ok {
        terminal.remark(Tone::Muted.paint("changes that somebody made since are never overwritten"));
    }
    terminal.remark(Tone::Muted.paint("dry run: nothing was changed"));
    Ok(exit)
}

fn first_line(told: &RevertForesightView) -> String {
    match told.blocked.as_ref().filter(|_| !is_refused(told)) {
        Some(blocked) => Tone::Danger.paint(format!("✗ would fail: {} ({})", clean::line(&blocked.message), clean::line(&blocked.code))),
        None => {
            let (would, tone) = explain::would(told.would, told.approvals_needed);
            tone.paint(format!("{would}: {}", clean::line(&told.because)))
        }
    }
}

/// If there is no diff to draw: the changes as JSON, or why they are not known.
fn unforeseen(told: &RevertForesightView) -> Option<String> {
    match (&told.changes, &told.unknown) {
        (Some(changes), _) => changes::foreseen(changes).is_none().then(|| clean::json(&changes.to_string())),
        (None, Some(why)) => Some(format!("not known: {why}")),
        (None, None) => None,
    }
}

/// The exit code that the revert itself would end with.
fn exit_of(told: &RevertForesightView) -> Exit {
    match &told.blocked {
        _ if is_refused(told) => Exit::Denied,
        Some(_) => Exit::Failed,
        None => Exit::Ok,
    }
}

/// Whether the revert would be refused before it starts.
fn is_refused(told: &RevertForesightView) -> bool {
    matches!(told.would, WouldName::Denied | WouldName::Quarantined)
}
