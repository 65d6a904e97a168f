//! Why an invocation was decided as it was: rule, cascade, gates, digests, attempts, and where its record stands.

use super::invocation;
use super::show::cascade;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Record, Terminal};
use crate::style::Tone;
use api::Page;
use api::invocation::{GateView, InvocationView};
use api::receipt::EntryView;
use clap::Args;
use serde_json::{Value, json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign explain inv_…";

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The id of an invocation
    invocation: String,
}

impl Explain {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let (invocation, raw) = invocation::get(&self.invocation, client).await?;
        let entries = client.get::<Page<EntryView>>(&["invocations", &self.invocation, "entries"], &[]).await?;
        let record = record(&invocation, &entries.read.items, terminal);
        terminal.record(&json!({ "invocation": raw, "entries": entries.raw["items"] }), &record)?;
        if let Some(receipt) = &invocation.receipt {
            terminal.next(format!("countersign receipt prove {}", receipt.id));
        }
        Ok(Exit::Ok)
    }
}

fn record(invocation: &InvocationView, entries: &[EntryView], terminal: &Terminal) -> Record {
    let mut record = Record::new(&invocation.id)
        .with("invocation", Cell::text(&invocation.id).toned(Tone::Strong))
        .with("action", Cell::text(format!("{} ({} {})", invocation.action, invocation.tier, invocation.class)))
        .with("status", Cell::status_of(&invocation.status, invocation.dry_run))
        .with("mode", Cell::mode(&invocation.decision.mode))
        .with("cascade", Cell::text(cascade(&invocation.decision)));
    for gate in &invocation.gates {
        record = record.with("gate", gate_cell(gate));
    }
    if let Some(by) = &invocation.denied_by {
        record = record.with("denied by", Cell::text(by).toned(Tone::Danger));
    }
    if let Some(error) = &invocation.error {
        record = record.with("error", Cell::text(format!("{}: {}", error.code, error.message)).toned(Tone::Danger));
    }
    if let Some(answer) = &invocation.answer {
        let reason = answer.reason.as_ref().map(|reason| format!(": “{reason}”")).unwrap_or_default();
        record = record.with("answered by", Cell::text(format!("{}{reason}", answer.by))).with("answered", terminal.past(&answer.at));
    }
    record = record
        .with("attempts", Cell::text(invocation.attempts.to_string()))
        .with("took", Cell::maybe(invocation.duration_ms.map(|millis| format!("{millis} ms"))))
        .with("params as sent", Cell::text(&invocation.digests.raw))
        .with("params as used", Cell::text(&invocation.digests.params))
        .with("definition", Cell::text(&invocation.digests.structural))
        .with("whole definition", Cell::text(&invocation.digests.textual))
        .with("binding", Cell::maybe(invocation.binding.as_ref().map(|binding| &binding.digest)))
        .with("idempotency key", Cell::maybe(invocation.idempotency_key.as_ref()));
    for entry in entries {
        let label = if entry.kind == "receipt" { "receipt" } else { "intent" };
        record = record.with(label, Cell::text(format!("{} at #{} signed by key {}", entry.id, entry.seq, key_id(entry))));
    }
    record.with("trace", Cell::text(&invocation.trace_id))
}

fn gate_cell(gate: &GateView) -> Cell {
    let rules = if gate.determining.is_empty() { String::new() } else { format!(" by {}", gate.determining.join(", ")) };
    let text =
        |symbol: &str, word: &str| Cell::shown(format!("{symbol} {word} {}{rules}", gate.gate), format!("{} {word}{rules}", gate.gate));
    match gate.verdict.as_ref() {
        "ok" => text("✓", "ok").toned(Tone::Ok),
        "deny" => text("⊘", "deny").toned(Tone::Danger),
        "not_applicable" => text("–", "not applicable").toned(Tone::Muted),
        other => text("?", other),
    }
}

/// The key that signed an entry, as its envelope names it.
pub(super) fn key_id(entry: &EntryView) -> &str {
    entry.envelope.pointer("/signatures/0/keyid").and_then(Value::as_str).unwrap_or("unknown")
}
