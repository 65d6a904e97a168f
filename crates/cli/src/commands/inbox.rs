//! What needs a person: calls in doubt, then pending calls, the nearest deadline first.

use super::kill_switch;
use super::show::asked_for;
use crate::shared::*;
use api::invocation::InvocationView;
use clap::Args;
use countersign_core::Status;
use serde_json::{Value, json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign inbox
  countersign inbox --all                                   also what you snoozed
  countersign inbox --json=id,action,expires_at";

#[derive(Debug, Args)]
pub(crate) struct Inbox {
    /// Also what you snoozed
    #[arg(long)]
    all: bool,
}

const COLUMNS: &[Column] = &[
    Column::Whole("ID"),
    Column::Below("ACTION"),
    Column::Whole("TIER"),
    Column::Cut("WHAT"),
    Column::Extra("WHO"),
    Column::Whole("EXPIRES"),
];
/// May or may not have happened: somebody has to look.
const IN_DOUBT: &str = "in_doubt";
/// Under a minute is soon.
const SOON_MS: u64 = 60_000;

impl Inbox {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        // Every page of it: whoever empties an inbox must see all of it.
        let awake = ("awake", if self.all { "false" } else { "true" });
        let mut waiting = client.pages::<InvocationView>(&["invocations"], &[("status", "pending"), awake]).all().await?;
        // What has no deadline, because its clock stands still, comes last.
        let order = |one: &InvocationView| (one.expires_at.is_none(), one.expires_at, one.id.clone());
        waiting.sort_by_cached_key(|(invocation, _)| order(invocation));
        let doubted = client.pages::<InvocationView>(&["invocations"], &[("status", IN_DOUBT)]).all().await?;
        let settle =
            doubted.first().map(|(first, _)| format!("countersign invocation settle {} --as succeeded|failed|retry --reason …", first.id));
        waiting.splice(0..0, doubted);
        let people = People::load(client, terminal).await;
        let mut table = Table::new(COLUMNS, "no pending calls");
        for (invocation, _) in &waiting {
            table.row([
                Cell::text(&invocation.id),
                Cell::text(&invocation.action),
                Cell::tier(invocation.tier),
                Cell::text(params(&invocation.params)),
                people.cell(&invocation.principal),
                deadline(invocation, terminal),
            ]);
        }
        let items: Vec<_> = waiting.iter().map(|(_, raw)| raw).collect();
        terminal.list(&json!({ "items": items, "next": null }), &table)?;
        if let Some((first, _)) = waiting.first() {
            terminal.next(format!("countersign show {}", first.id));
        }
        if let Some(settle) = settle {
            terminal.next(settle);
        }
        // An inbox that is empty because of a snooze is not empty.
        if waiting.is_empty()
            && !self.all
            && !terminal.is_document()
            && client.pages::<InvocationView>(&["invocations"], &[("status", "pending")]).next().await?.is_some_and(|page| !page.is_empty())
        {
            terminal.next("countersign inbox --all");
        }
        stopped(client, terminal).await;
        Ok(Exit::Ok)
    }
}

/// Why nothing that is approved would run.
async fn stopped(client: &Client, terminal: &mut Terminal) {
    if terminal.is_document() {
        return;
    }
    for switch in kill_switch::on(client).await {
        terminal.note(Tone::Danger.paint(format!("■ kill switch on: {}", kill_switch::line(&switch))));
    }
}

fn deadline(invocation: &InvocationView, terminal: &Terminal) -> Cell {
    if invocation.status == Status::InDoubt {
        return Cell::shown("? in doubt", IN_DOUBT).toned(Tone::Danger);
    }
    let Some(at) = invocation.expires_at else {
        return if invocation.clock_stopped { Cell::shown("■ stopped", "stopped").toned(Tone::Danger) } else { Cell::missing() };
    };
    let left = at.millis_since(terminal.now());
    terminal.future(at).toned(if left < SOON_MS { Tone::Danger } else { Tone::Warn })
}

/// `path: notes.md, text: hello`: enough to recognise it; `show` has all of it.
fn params(params: &Value) -> String {
    let (asked, _) = asked_for(params);
    let Some(members) = asked.as_object() else { return params.to_string() };
    let member = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}: {text}"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => format!("{name}: {value}"),
    };
    members.iter().map(member).collect::<Vec<_>>().join(", ")
}
