//! Quarantine: what was too dangerous to run or to hand out, and what an admin makes of it. Its content is shown to who asks for it
//! and may settle it, never otherwise.

use super::people::People;
use super::{more, outcome};
use crate::args::{Agreed, Paging};
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Record, Table, Terminal};
use crate::style::{Tone, clean};
use api::Page;
use api::gates::{QuarantinePayloadResponse, QuarantineView, ReleasedOutputResponse, SettleRequest};
use api::invocation::InvokeResponse;
use clap::{Subcommand, ValueEnum};
use serde::Deserialize as _;
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(crate) enum Quarantine {
    /// Quarantined calls and withheld answers, newest first
    #[command(before_help = "Examples:\n  countersign quarantine list --state held")]
    List {
        /// Only those in this state
        #[arg(long, value_enum)]
        state: Option<State>,
        #[command(flatten)]
        paging: Paging,
    },
    /// What was found in one of them
    #[command(before_help = "Examples:\n  countersign quarantine show inv_…\n  countersign quarantine show inv_… --payload")]
    Show {
        id: String,
        /// What it holds instead, to the letter; that you looked is recorded as an event
        #[arg(long)]
        payload: bool,
    },
    /// Let a call go as a new one, or hand out a withheld answer
    #[command(before_help = "Examples:\n  countersign quarantine release inv_… --reason 'a test of ours'")]
    Release {
        id: String,
        /// Why; recorded
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Throw away what it holds
    #[command(before_help = "Examples:\n  countersign quarantine discard inv_… --reason phishing")]
    Discard {
        id: String,
        /// Why; recorded
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum State {
    Held,
    Released,
    Discarded,
    Expired,
}

const COLUMNS: &[Column] = &[
    Column::Whole("ID"),
    Column::Whole("STATE"),
    Column::Whole("ACTION"),
    Column::Cut("CAUGHT BY"),
    Column::Whole("CAUGHT"),
    Column::Extra("HOLDS"),
    Column::Extra("WHO"),
];

impl Quarantine {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List { state, paging } => list(state, &paging, client, terminal).await?,
            Self::Show { id, payload: true } => {
                let answer = client.get::<QuarantinePayloadResponse>(&["quarantines", &id, "payload"], &[]).await?;
                if terminal.is_document() {
                    terminal.document(&answer.raw)?;
                } else {
                    terminal.result(&answer.read.invocation_id, &answer.read.payload)?;
                }
            }
            Self::Show { id, payload: false } => {
                let answer = client.get::<QuarantineView>(&["quarantines", &id], &[]).await?;
                tell(&answer.read, &answer.raw, client, terminal).await?;
                if answer.read.state == "held" {
                    terminal
                        .next(format!("countersign quarantine release {id} --reason …, or countersign quarantine discard {id} --reason …"));
                }
            }
            Self::Release { id, reason, agreed } => return release(&id, reason, agreed, client, terminal).await,
            Self::Discard { id, reason, agreed } => {
                let held = client.get::<QuarantineView>(&["quarantines", &id], &[]).await?.read;
                let question =
                    format!("throw away the {} of `{}`, which cannot be undone?", clean::line(&held.holds), clean::line(&held.action));
                terminal.consent(&question, agreed.consent(client)).await?;
                let answer =
                    client.post::<QuarantineView>(&["quarantines", &id, "discard"], &SettleRequest { reason, digest: held.digest }).await?;
                tell(&answer.read, &answer.raw, client, terminal).await?;
            }
        }
        Ok(Exit::Ok)
    }
}

async fn release(id: &str, reason: String, agreed: Agreed, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let held = client.get::<QuarantineView>(&["quarantines", id], &[]).await?.read;
    let action = clean::line(&held.action);
    caught(&held).into_iter().for_each(|line| terminal.remark(line));
    let question = match held.holds.as_str() {
        "output" => format!("hand out the answer of `{action}` all the same?"),
        _ => format!("let `{action}` go all the same, as a new call?"),
    };
    terminal.consent(&question, agreed.consent(client)).await?;
    let raw = client.post::<Value>(&["quarantines", id, "release"], &SettleRequest { reason, digest: held.digest }).await?.raw;
    if let Ok(released) = ReleasedOutputResponse::deserialize(&raw) {
        if terminal.is_document() {
            terminal.document(&raw)?
        } else {
            terminal.result(&released.invocation_id, &released.output)?
        }
        return Ok(Exit::Ok);
    }
    let unreadable = |error: serde_json::Error| {
        Failure::failed("it was released, and the server's answer cannot be read")
            .cause(error.to_string())
            .hint("countersign quarantine list")
    };
    let invocation = InvokeResponse::deserialize(&raw).map_err(unreadable)?.invocation;
    if terminal.is_document() {
        terminal.document(&raw)?;
    } else {
        terminal.line(clean::line(&invocation.id))?;
        let line = if outcome::is_settled(&invocation) { outcome::line(&invocation) } else { outcome::waiting(&invocation) };
        terminal.note(line);
    }
    Ok(if outcome::is_settled(&invocation) { Exit::of_status(outcome::status(&invocation)) } else { Exit::Pending })
}

async fn list(state: Option<State>, paging: &Paging, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let state = state.and_then(|state| state.to_possible_value()).map(|value| value.get_name().to_owned());
    let flags = state.as_ref().map(|state| format!(" --state {state}")).unwrap_or_default();
    let query: Vec<_> = paging.query().into_iter().chain(state.map(|state| ("state", state))).collect();
    let answer = client.get::<Page<QuarantineView>>(&["quarantines"], &query).await?;
    let people = People::load(client, terminal).await;
    let mut table = Table::new(COLUMNS, "nothing is quarantined");
    for one in &answer.read.items {
        let rules: Vec<_> = one.caught.iter().map(|caught| caught.rule.as_str()).collect();
        table.row([
            Cell::text(&one.invocation_id),
            state_cell(one),
            Cell::text(&one.action),
            Cell::text(rules.join(", ")),
            terminal.past(&one.created_at),
            Cell::text(&one.holds),
            people.cell(&one.principal),
        ]);
    }
    terminal.list(&answer.raw, &table)?;
    match (&answer.read.next, answer.read.items.iter().find(|one| one.state == "held")) {
        (Some(next), _) => more(terminal, paging, Some(next), &format!("countersign quarantine list{flags}")),
        (None, Some(held)) => terminal.next(format!("countersign quarantine show {}", held.invocation_id)),
        (None, None) => {}
    }
    Ok(())
}

async fn tell(one: &QuarantineView, raw: &Value, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let people = People::load(client, terminal).await;
    let mut record = Record::new(&one.invocation_id)
        .with("invocation", Cell::text(&one.invocation_id).toned(Tone::Strong))
        .with("state", state_cell(one))
        .with("action", Cell::text(&one.action))
        .with(
            "holds",
            Cell::text(match one.holds.as_str() {
                "params" => "the params of a call that was not made",
                "output" => "the answer of a call that was made",
                other => other,
            }),
        );
    for caught in &one.caught {
        record = record.with("caught", Cell::text(finding(caught)).toned(Tone::Danger));
    }
    let record = record
        .with_some("digest", one.digest.as_ref().map(Cell::text))
        .with("who", people.whole(&one.principal))
        .with("session", Cell::text(&one.session_id))
        .with("when", terminal.past(&one.created_at))
        .with_some("kept for", (one.state == "held").then(|| terminal.future(&one.expires_at)))
        .with_some("settled by", one.settled_by.as_ref().map(|by| people.whole(by)))
        .with_some("settled", one.settled_at.as_ref().map(|at| terminal.past(at)))
        .with_some("reason", one.reason.as_ref().map(Cell::text))
        .with_some("released as", one.released_as.as_ref().map(Cell::text));
    terminal.record(raw, &record)
}

fn caught(one: &QuarantineView) -> Vec<String> {
    one.caught.iter().map(|caught| format!("{} {}", Tone::Danger.paint("▣ caught:"), clean::line(&finding(caught)))).collect()
}

fn finding(caught: &api::gates::CaughtView) -> String {
    let place = if caught.pointer.is_empty() { String::new() } else { format!(" at {}", caught.pointer) };
    format!("{}{place}: {}", caught.rule, caught.message)
}

fn state_cell(one: &QuarantineView) -> Cell {
    let (symbol, tone) = match one.state.as_str() {
        "held" => ("▣ ", Tone::Warn),
        "released" => ("✓ ", Tone::Primary),
        "discarded" | "expired" => ("– ", Tone::Muted),
        _ => ("", Tone::Plain),
    };
    Cell::shown(format!("{symbol}{}", one.state), &one.state).toned(tone)
}
