//! What waits for a person, the nearest deadline first.

use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Table, Terminal};
use crate::style::Tone;
use api::Page;
use api::identity::StatusResponse;
use api::invocation::InvocationView;
use serde_json::{Value, json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign inbox
  countersign inbox --json=id,action,expires_at";

const COLUMNS: &[Column] = &[
    Column::Whole("ID"),
    Column::Whole("ACTION"),
    Column::Whole("TIER"),
    Column::Cut("WHAT"),
    Column::Extra("WHO"),
    Column::Whole("EXPIRES"),
];
/// Under a minute is soon.
const SOON_MS: u64 = 60_000;

pub(crate) async fn run(client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let mut waiting = pending(client).await?;
    waiting.sort_by(|(one, _), (other, _)| (&one.expires_at, &one.id).cmp(&(&other.expires_at, &other.id)));
    let mut table = Table::new(COLUMNS, "nothing waits for you");
    for (invocation, _) in &waiting {
        table.row([
            Cell::text(&invocation.id),
            Cell::text(&invocation.action),
            Cell::tier(&invocation.tier),
            Cell::text(params(&invocation.params)),
            Cell::principal(&invocation.principal),
            deadline(invocation, terminal),
        ]);
    }
    let items: Vec<_> = waiting.iter().map(|(_, raw)| raw).collect();
    terminal.list(&json!({ "items": items, "next": null }), &table)?;
    if let Some((first, _)) = waiting.first() {
        terminal.next(format!("countersign show {}", first.id));
    }
    in_doubt(client, terminal).await;
    Ok(Exit::Ok)
}

/// Every page of it: whoever empties an inbox must see all of it.
async fn pending(client: &Client) -> Result<Vec<(InvocationView, Value)>, Failure> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let fixed = [("status", "pending".to_owned()), ("limit", "100".to_owned())];
        let query: Vec<_> = fixed.into_iter().chain(after.map(|after| ("after", after))).collect();
        let answer = client.get::<Page<InvocationView>>(&["invocations"], &query).await?;
        let raw = answer.raw.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        all.extend(answer.read.items.into_iter().zip(raw));
        after = answer.read.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// What nobody waits for but somebody must look at. Not knowing is no reason to fail.
async fn in_doubt(client: &Client, terminal: &mut Terminal) {
    if terminal.is_document() {
        return;
    }
    let count = client.get::<StatusResponse>(&["status"], &[]).await.map(|answer| answer.read.in_doubt).unwrap_or_default();
    if count > 0 {
        terminal.note(Tone::Danger.paint(format!("? in doubt: {count}, which may or may not have happened")));
        terminal.next("countersign invocation list --status in_doubt");
    }
}

fn deadline(invocation: &InvocationView, terminal: &Terminal) -> Cell {
    let Some(at) = &invocation.expires_at else { return Cell::missing() };
    let left = countersign_core::Timestamp::parse(at).map_or(u64::MAX, |at| at.millis_since(terminal.now()));
    terminal.future(at).toned(if left < SOON_MS { Tone::Danger } else { Tone::Warn })
}

/// `path: notes.md, text: hello`: enough to recognise it; `show` has all of it.
fn params(params: &Value) -> String {
    let Some(members) = params.as_object() else { return params.to_string() };
    let member = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}: {text}"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => format!("{name}: {value}"),
    };
    members.iter().map(member).collect::<Vec<_>>().join(", ")
}
