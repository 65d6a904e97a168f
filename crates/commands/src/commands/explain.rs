//! `countersign explain`: why an invocation was decided as it was and which receipts it has, or what would happen to a call now, without
//! making it.

mod foresight;
mod gates;

pub(super) use foresight::would;

use super::outcome;
use super::outcome::redacted;
use crate::shared::*;
use api::Page;
use api::invocation::{AnswerView, ApproveMode, DecisionView, EditView, InvocationView};
use api::receipt::EntryView;
use clap::Args;
use countersign_core::Status;
use serde_json::{Value, json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign explain inv_…                                        what happened, and why
  countersign explain files.write_text --as cli                    what would happen now
  countersign explain files.write_text --as ses_… path=a text=b    to this very call
  countersign explain files.write_text --as ses_… --params @call.json";

/// The prefix of invocation ids. No action id has it.
const INVOCATION: &str = "inv_";

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The id of an invocation, or an action such as files.write_text
    #[arg(value_name = "INVOCATION|ACTION")]
    explained: String,
    /// For an action: its params, key=value is a string, key:=json is typed; without any, as if they were valid
    #[arg(value_name = "KEY=VALUE")]
    words: Vec<String>,
    /// For an action: as the agent of this session, by its title or its id; your own when you are one
    #[arg(long = "as", value_name = "SESSION", env = "COUNTERSIGN_SESSION", hide_env_values = true)]
    session: Option<String>,
    /// For an action: its params as a JSON object; @file reads a file, - reads stdin
    #[arg(long, value_name = "JSON")]
    params: Option<String>,
}

impl Explain {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        if let Some(other) = outcome::of_another_kind(&self.explained) {
            return Err(other);
        }
        if !self.explained.starts_with(INVOCATION) {
            let asked = foresight::Asked { action: self.explained, session: self.session, params: self.params, words: self.words };
            return foresight::run(asked, client, terminal).await;
        }
        if self.params.is_some() || !self.words.is_empty() {
            return Err(Failure::usage("params are for an action: an invocation has its own")
                .hint(format!("countersign explain {}", clean::line(&self.explained))));
        }
        let (invocation, raw) = outcome::get(&self.explained, client).await?;
        let entries = client.get::<Page<EntryView>>(&["invocations", &self.explained, "entries"], &[]).await?;
        let names = Names::load(client, terminal).await.and_spaces(client, terminal).await;
        let names = names.and_grant(invocation.grant_id.as_deref(), client, terminal).await;
        let record = record(&invocation, &entries.read.items, &names, terminal);
        terminal.record(&json!({ "invocation": raw, "entries": entries.raw["items"] }), &record)?;
        gates::tell(&invocation.gates, terminal)?;
        if let Some(receipt) = &invocation.receipt {
            terminal.next(format!("countersign receipt prove {}", receipt.id));
        }
        Ok(Exit::Ok)
    }
}

fn record(invocation: &InvocationView, entries: &[EntryView], names: &Names, terminal: &Terminal) -> Record {
    let mut record = Record::new(&invocation.id)
        .with("invocation", Cell::text(&invocation.id).toned(Tone::Strong))
        .with("action", Cell::text(format!("{} ({} {})", invocation.action, invocation.tier, invocation.class)))
        .with_some("connection", invocation.connection_id.as_ref().map(Cell::text))
        .with("requested by", names.requester(&invocation.principal, invocation.session_title.as_deref()))
        .with("space", names.space(&invocation.space_id))
        .with("status", outcome::status_cell(invocation))
        .with_some("reverses", invocation.reverses.as_ref().map(Cell::text))
        .with_some("reverted by", invocation.reverted_by.as_ref().map(|by| Cell::text(by).toned(Tone::Warn)))
        .with("mode", Cell::mode(invocation.decision.mode))
        .with("cascade", Cell::text(cascade(&invocation.decision)))
        .with_some("denied by", invocation.denied_by.map(|by| Cell::text(word(by)).toned(Tone::Danger)));
    if let Some(error) = &invocation.error {
        record = record.with("error", Cell::text(format!("{}: {}", error.code, error.message)).toned(Tone::Danger));
    }
    if invocation.clock_stopped {
        record = record.with("clock", Cell::text("stopped by a kill switch").toned(Tone::Danger));
    }
    let told = |answer: &AnswerView| {
        Cell::shown(answered(answer, names, terminal.past(answer.at).as_shown()), answered(answer, names, &answer.at.to_string()))
    };
    let is_pending = outcome::status(invocation) == Status::Pending;
    if is_pending || invocation.approvals.len() > 1 {
        for yes in &invocation.approvals {
            record = record.with("approved by", told(yes));
        }
    }
    let again = |at| Cell::shown(resumed(terminal.past(at).as_shown()), resumed(&at.to_string()));
    record = record.with_some("answered by", invocation.answer.as_ref().map(told)).with_some("resumed", invocation.resumed_at.map(again));
    if let Some(edit) = &invocation.edit {
        let by = |when: &str| format!("{} {when}", names.name(&edit.by));
        record = record.with("edited by", Cell::shown(by(terminal.past(edit.at).as_shown()), by(&edit.at.to_string())));
        for change in edited(edit, &invocation.params) {
            record = record.with("edit", Cell::text(change));
        }
    }
    record = record
        .with_some("grant", invocation.grant_id.as_ref().map(|grant| names.grant(grant)))
        .with_some("connection", invocation.connection_id.as_ref().map(Cell::text))
        .with_some("redacted", redacted(&invocation.redacted).map(Cell::text))
        .with_some("released from", invocation.released_from.as_ref().map(Cell::text))
        .with("attempts", Cell::text(invocation.attempts.to_string()));
    record = with_durations(record, invocation)
        .with("params", Cell::text(&invocation.digests.params))
        .with_some("params as sent", changed(invocation).map(|how| Cell::text(format!("{} ({how})", invocation.digests.raw))))
        .with("definition", Cell::text(&invocation.digests.structural))
        .with("with wording", Cell::text(&invocation.digests.textual))
        .with_some("binding", invocation.binding.as_ref().map(|binding| Cell::text(&binding.digest)))
        .with_some("idempotency key", invocation.idempotency_key.as_ref().map(Cell::text));
    for entry in entries {
        let label = entry.kind.as_str();
        record = record.with(label, Cell::text(format!("{} at #{} signed by key {}", entry.id, entry.seq, key_id(entry))));
    }
    record.with("trace", Cell::text(&invocation.trace_id))
}

/// The decision as one line: the mode that the cascade found, the reasons that tightened it, and the final mode.
fn cascade(decision: &DecisionView) -> String {
    let found = decision.source.in_words();
    let version = decision.modes_version.map(|version| format!(" (version {version})")).unwrap_or_default();
    let mut steps = vec![format!("{found}{version}: {}", decision.base)];
    steps.extend(decision.tightened.iter().map(|reason| clean::line(reason)));
    if decision.mode != decision.base {
        steps.push(decision.mode.to_string());
    }
    steps.join(" → ")
}

/// `robin 3 min ago: “fine”`, and what the approval does beyond this call. `when` is the time of the answer, relative or absolute.
fn answered(answer: &AnswerView, names: &Names, when: &str) -> String {
    let reason = answer.reason.as_ref().map(|reason| format!(": “{}”", clean::line(reason))).unwrap_or_default();
    let beyond = match answer.mode {
        ApproveMode::Always => ", and allowed from now on",
        ApproveMode::Grant => ", with a grant",
        ApproveMode::Once => "",
    };
    format!("{} {when}{beyond}{reason}", names.name(&answer.by))
}

/// `3 min ago: …`. `when` is the time, relative or absolute.
fn resumed(when: &str) -> String {
    format!("{when}: it was approved and had not started when the server stopped")
}

/// `/text: "a" → "b"`: the requested value, and the value that was approved instead.
fn edited(edit: &EditView, params: &Value) -> Vec<String> {
    let told = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), |value| clean::json(&value.to_string()));
    let line = |at: &String| format!("{}: {} → {}", clean::line(at), told(edit.proposed_params.pointer(at)), told(params.pointer(at)));
    edit.changed.iter().map(line).collect()
}

/// Why the params that the source gets are others than those that were sent. The two digests tell nothing about that: they differ also for the
/// same params.
fn changed(invocation: &InvocationView) -> Option<String> {
    let edited = invocation.edit.is_some().then_some("an approver edited them");
    let redacted = (!invocation.redacted.is_empty()).then_some("values were redacted");
    let how: Vec<_> = edited.into_iter().chain(redacted).collect();
    (!how.is_empty()).then(|| how.join(", "))
}

/// Adds how long the call ran and how long it waited for approval. The first does not include the second.
pub(super) fn with_durations(record: Record, invocation: &InvocationView) -> Record {
    record
        .with_some("took", invocation.duration_ms.map(Cell::lasting))
        .with_some("waited for approval", invocation.waited_ms.map(Cell::lasting))
}

/// The id of the key that signed an entry, as its envelope names it.
pub(super) fn key_id(entry: &EntryView) -> &str {
    entry.envelope.pointer("/signatures/0/keyid").and_then(Value::as_str).unwrap_or("unknown")
}
