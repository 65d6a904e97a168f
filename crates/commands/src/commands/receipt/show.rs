//! `countersign receipt show`: one receipt as it was signed, and beside it the present state of its call or batch.

use super::{at, body, is_of_batch, key_id, parts, receipt_id, status_cell};
use crate::commands::{batch, explain, outcome};
use crate::shared::*;
use api::batch::{BatchView, PartView};
use api::invocation::InvocationView;
use api::receipt::EntryView;
use countersign_core::{Mode, Tier};
use serde_json::Value;

pub(super) async fn run(id: &str, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let id = receipt_id(id, client).await?;
    let answer = client.get::<EntryView>(&["receipts", &id], &[]).await?;
    let entry = &answer.read;
    // The call or batch is optional here: the receipt is complete without it.
    let (batch, invocation) = match &entry.invocation_id {
        _ if !terminal.is_for_words() => (None, None),
        _ if is_of_batch(entry) => (client.get::<BatchView>(&["batches", body(entry, "batch_id")], &[]).await.ok(), None),
        Some(invocation) => (None, outcome::get(invocation, client).await.ok()),
        None => (None, None),
    };
    let when = at(entry).map_or_else(Cell::missing, |at| terminal.past(at));
    let more = |record| {
        let record = match is_of_batch(entry) {
            true => of_batch(record, entry, batch.map(|answer| answer.read).as_ref()),
            false => of_call(record, entry, invocation.map(|(invocation, _)| invocation).as_ref()),
        };
        record
            .with("when", when)
            .with("previous", Cell::maybe(pointed(entry, "/entry/prev")))
            .with("log", Cell::maybe(pointed(entry, "/entry/log")))
            .with("signed by key", Cell::text(key_id(entry)))
    };
    resource::tell_with(&answer, more, client, terminal).await?;
    Ok(Exit::Ok)
}

fn of_call(record: Record, entry: &EntryView, invocation: Option<&InvocationView>) -> Record {
    let status = match invocation {
        Some(invocation) => outcome::with_standing(status_cell(entry), invocation),
        None => status_cell(entry),
    };
    let reverted_by = invocation.and_then(|invocation| invocation.reverted_by.as_ref());
    let record = record
        .with("status", status)
        .with("error", Cell::maybe(said(entry, "/body/error")))
        .with("invocation", Cell::maybe(entry.invocation_id.as_ref()))
        .with_some("reverses", said(entry, "/body/reverses").map(Cell::text))
        .with_some("reverted by", reverted_by.map(|by| Cell::text(by).toned(Tone::Warn)))
        .with_some("batch", said(entry, "/body/batch").map(Cell::text))
        .with("action", Cell::text(body(entry, "action")))
        .with_some("connection", said(entry, "/body/connection_id").map(Cell::text))
        .with("tier", Tier::parse(body(entry, "tier")).map_or_else(Cell::missing, Cell::tier))
        .with("who", Cell::text(body(entry, "principal")))
        .with("mode", Mode::parse(&pointed(entry, "/body/decision/mode").unwrap_or_default()).map_or_else(Cell::missing, Cell::mode))
        .with("approved by", Cell::maybe(said(entry, "/body/approval/approvers")))
        .with("attempts", Cell::maybe(pointed(entry, "/body/attempts")))
        .with("params", Cell::text(body(entry, "params")))
        .with("outputs", Cell::maybe(pointed(entry, "/body/outputs/digest")))
        .with_some("network", network(entry.payload.pointer("/body/sandbox/egress")).map(Cell::text));
    match invocation {
        Some(invocation) => explain::with_durations(record, invocation),
        // The signed duration includes the time spent waiting for approval.
        None => {
            let total = entry.payload.pointer("/body/timing/total_ms").and_then(Value::as_u64);
            record.with_some("took, with waiting", total.map(Cell::lasting))
        }
    }
}

fn of_batch(record: Record, entry: &EntryView, batch: Option<&BatchView>) -> Record {
    let record = record
        .with("status", status_cell(entry))
        .with("batch", Cell::text(body(entry, "batch_id")))
        .with("mode", batch::mode_cell(body(entry, "mode")))
        .with("who", Cell::text(body(entry, "principal")))
        .with("session", Cell::text(body(entry, "session")));
    let shown = |at: usize| batch.and_then(|batch| batch.parts.get(at));
    parts(entry).iter().enumerate().fold(record, |record, (at, part)| record.with("part", part_cell(at, part, shown(at))))
}

/// `1 files.write_text: ✓ succeeded, stands, rcp_… (#12)`. The signed body names receipts by id; their numbers are not signed and come from
/// the server.
fn part_cell(at: usize, part: &Value, shown: Option<&PartView>) -> Cell {
    let text = |name: &str| part[name].as_str();
    let undoing =
        receipt(part["revert"]["receipt_id"].as_str(), shown.and_then(|part| part.revert.as_ref()).and_then(|revert| revert.receipt_seq));
    let facts = [
        text("error").map(str::to_owned),
        Some(batch::effect_words(text("effect").unwrap_or_default(), !part["revert"].is_null())),
        receipt(text("receipt_id"), shown.and_then(|part| part.receipt_seq)),
        undoing.map(|receipt| format!("reverted by {receipt}")),
    ];
    let facts: String = facts.into_iter().flatten().map(|fact| format!(", {fact}")).collect();
    let told = |status: &str| format!("{} {}: {status}{facts}", at + 1, text("action").unwrap_or_default());
    let status = text("status").unwrap_or("not_started");
    let (word, _) = batch::look(status);
    Cell::shown(told(&word), told(status))
}

/// `rcp_… (#12)`
fn receipt(id: Option<&str>, seq: Option<u64>) -> Option<String> {
    let number = seq.map(|seq| format!(" (#{seq})")).unwrap_or_default();
    id.map(|id| format!("{id}{number}"))
}

fn pointed(entry: &EntryView, pointer: &str) -> Option<String> {
    entry.payload.pointer(pointer).map(written)
}

/// Like `pointed`, but `None` if the value is empty.
fn said(entry: &EntryView, pointer: &str) -> Option<String> {
    pointed(entry, pointer).filter(|text| !text.is_empty())
}

/// A value as text: strings without quotes, lists joined with commas, and an empty string for null.
fn written(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(written).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// The hosts that a package's code sent requests to, with the number made and refused; `None` if the receipt lists none.
fn network(egress: Option<&Value>) -> Option<String> {
    let hosts = egress?.as_array()?.iter().map(|asked| {
        let count = |name: &str| asked[name].as_u64().unwrap_or_default();
        format!("{}: {} made, {} refused", asked["host"].as_str().unwrap_or_default(), count("made"), count("refused"))
    });
    Some(hosts.collect::<Vec<_>>().join("; "))
}
