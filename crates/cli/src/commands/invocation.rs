//! Invocations: what was asked for, and what became of it.

mod foresight;

use super::lines::Lines;
use super::wait::{Patience, Wait, Waiting, settled};
use super::{more, named, outcome, people::People, show::Show};
use crate::args::{Agreed, Paging, action_id};
use crate::client::{Answer, Client};
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Table, Terminal};
use crate::style::clean;
use api::Page;
use api::invocation::{InvocationView, InvokeResponse, RevertRequest, SettleDoubtRequest, SettlementName};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use countersign_core::Status;
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(crate) enum Invocation {
    /// Invocations, newest first
    #[command(before_help = "Examples:
  countersign invocation list --status pending
  countersign invocation list --action files.write_text --json=id,status,created_at")]
    List(List),
    /// One invocation, as `countersign show`
    #[command(before_help = super::show::EXAMPLES)]
    Show(Show),
    /// Wait for an invocation, and show what it prints meanwhile
    #[command(before_help = "Examples:
  countersign invocation watch inv_…
  countersign invocation watch inv_… --wait 10m --quiet")]
    Watch {
        id: String,
        /// How long to wait, such as 10m; until it has ended when absent
        #[arg(long, value_name = "TIME", value_parser = Patience::parse)]
        wait: Option<Patience>,
        #[command(flatten)]
        lines: Lines,
    },
    /// Take back what an invocation did, as a call of its own
    #[command(before_help = "\
It is decided as any other call: where that takes a person, it waits for one.

Examples:
  countersign invocation list --revertible                   what can be taken back
  countersign invocation revert inv_… --dry-run              what would be undone
  countersign invocation revert inv_… --reason 'wrong folder'
  countersign invocation revert inv_… --yes --wait 10m")]
    Revert(Revert),
    /// Say how an effect in doubt ended, or make the call again
    #[command(before_help = "Examples:
  countersign invocation list --status in_doubt
  countersign invocation settle inv_… --as succeeded --reason 'the order is there'
  countersign invocation settle inv_… --as retry --reason 'twice does no harm'")]
    Settle {
        id: String,
        /// What became of it
        #[arg(long = "as", value_enum, value_name = "HOW")]
        settlement: How,
        /// How you know; kept with it
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Revert {
    /// The invocation whose effect is to be taken back, such as `countersign invocation list --revertible` shows
    id: String,
    /// Why; shown to whoever approves it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    lines: Lines,
    #[command(flatten)]
    agreed: Agreed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum How {
    /// It happened
    Succeeded,
    /// It did not happen
    Failed,
    /// Nobody knows, and twice does no harm
    Retry,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only those in this status, such as pending, succeeded or in_doubt
    #[arg(long, value_parser = PossibleValuesParser::new(Status::ALL.map(Status::as_str)), hide_possible_values = true)]
    status: Option<String>,
    /// Only those of this action, by its whole id
    #[arg(long, value_name = "ID", value_parser = action_id)]
    action: Option<String>,
    /// Only those of this session
    #[arg(long, value_name = "TITLE|ID")]
    session: Option<String>,
    /// Only those whose effect stands and could be taken back
    #[arg(long)]
    revertible: bool,
    #[command(flatten)]
    paging: Paging,
}

const COLUMNS: &[Column] = &[
    Column::Whole("ID"),
    Column::Whole("STATUS"),
    Column::Below("ACTION"),
    Column::Extra("TIER"),
    Column::Extra("WHO"),
    Column::Whole("ASKED"),
];

impl Invocation {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List(list) => list.run(client, terminal).await,
            Self::Show(show) => show.run(client, terminal).await,
            Self::Watch { id, wait, lines } => watch(&id, wait.unwrap_or(Patience::UntilDecided), lines, client, terminal).await,
            Self::Revert(revert) => revert.run(client, terminal).await,
            Self::Settle { id, settlement, reason, agreed } => settle(&id, settlement, reason, agreed, client, terminal).await,
        }
    }
}

/// What invoking it would have shown, for whoever comes later.
async fn watch(id: &str, patience: Patience, lines: Lines, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let path = ["invocations", id];
    let first = client.get::<InvokeResponse>(&path, &[]).await?;
    let shows_lines = lines.are_followed(terminal);
    settled(first, &Wait { client, path: &path, patience, shows_lines }, terminal).await
}

impl Revert {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        if client.rehearses() {
            return foresight::run(&self.id, client, terminal).await;
        }
        let (shown, _) = get(&self.id, client).await?;
        let question = format!("take back what `{}` did?", clean::line(&shown.action));
        terminal.consent(&question, self.agreed.consent(client)).await?;
        let request = RevertRequest { reason: self.reason };
        let first = client.post::<InvokeResponse>(&["invocations", &self.id, "revert"], &request).await?;
        let id = first.read.invocation.id.clone();
        let (patience, shows_lines) = (self.waiting.patience(), self.lines.are_shown(terminal));
        settled(first, &Wait { client, path: &["invocations", &id], patience, shows_lines }, terminal).await
    }
}

async fn settle(id: &str, how: How, reason: String, agreed: Agreed, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let (shown, _) = get(id, client).await?;
    let action = clean::line(&shown.action);
    let (settlement, question) = match how {
        How::Succeeded => (SettlementName::Succeeded, format!("record that `{action}` happened?")),
        How::Failed => (SettlementName::Failed, format!("record that `{action}` did not happen?")),
        How::Retry => (SettlementName::Retry, format!("make the call of `{action}` again, though it may have happened?")),
    };
    terminal.consent(&question, agreed.consent(client)).await?;
    let request = SettleDoubtRequest { settlement, reason };
    let answer = client.post::<InvokeResponse>(&["invocations", id, "settle"], &request).await?;
    // That it failed is what was said, not what went wrong.
    if how == How::Failed {
        told(&answer, terminal)?;
        return Ok(Exit::Ok);
    }
    tell(answer, terminal)
}

fn tell(answer: Answer<InvokeResponse>, terminal: &mut Terminal) -> Result<Exit, Failure> {
    told(&answer, terminal)?;
    let invocation = &answer.read.invocation;
    Ok(if outcome::is_settled(invocation) { Exit::of_status(outcome::status(invocation)) } else { Exit::Pending })
}

fn told(answer: &Answer<InvokeResponse>, terminal: &mut Terminal) -> Result<(), Failure> {
    let invocation = &answer.read.invocation;
    if terminal.is_document() {
        return terminal.document(&answer.raw);
    }
    terminal.line(clean::line(&invocation.id))?;
    terminal.note(if outcome::is_settled(invocation) { outcome::line(invocation) } else { outcome::waiting(invocation) });
    Ok(())
}

impl List {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let names_an_action = self.action.is_some();
        let session = named::maybe_session(self.session.as_deref(), client).await?;
        let filters = [("status", self.status), ("action", self.action), ("session", session)];
        let filters: Vec<_> = filters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let empty = match (names_an_action, filters.is_empty() && !self.revertible) {
            (true, _) => "no invocation fits: countersign action list shows what actions there are",
            (false, true) => "no invocations: countersign action list shows what can be done",
            (false, false) => "no invocation fits",
        };
        let mut flags: String = filters.iter().map(|(name, value)| format!(" --{name} {value}")).collect();
        flags.push_str(if self.revertible { " --revertible" } else { "" });
        let revertible = self.revertible.then(|| ("revertible", "true".to_owned()));
        let query: Vec<_> = self.paging.query().into_iter().chain(filters).chain(revertible).collect();
        let answer = client.get::<Page<InvocationView>>(&["invocations"], &query).await?;
        let people = People::load(client, terminal).await;
        let mut table = Table::new(COLUMNS, empty);
        for invocation in &answer.read.items {
            table.row([
                Cell::text(&invocation.id),
                outcome::status_cell(invocation),
                Cell::text(&invocation.action),
                Cell::tier(&invocation.tier),
                people.cell(&invocation.principal),
                terminal.past(&invocation.created_at),
            ]);
        }
        terminal.list(&answer.raw, &table)?;
        match (&answer.read.next, answer.read.items.first()) {
            (Some(next), _) => more(terminal, &self.paging, Some(next), &format!("countersign invocation list{flags}")),
            (None, Some(newest)) if self.revertible => terminal.next(format!("countersign invocation revert {} --dry-run", newest.id)),
            (None, Some(newest)) => terminal.next(format!("countersign explain {}", newest.id)),
            (None, None) => {}
        }
        Ok(Exit::Ok)
    }
}

/// One invocation, and its own part of the answer.
pub(super) async fn get(id: &str, client: &Client) -> Result<(InvocationView, Value), Failure> {
    if let Some(other) = of_another_kind(id) {
        return Err(other);
    }
    let Answer { read, mut raw } = client.get::<InvokeResponse>(&["invocations", id], &[]).await?;
    Ok((read.invocation, raw["invocation"].take()))
}

/// Ids say what they are of: who gives another kind of one is told where it belongs.
pub(super) fn of_another_kind(id: &str) -> Option<Failure> {
    let (prefix, _) = id.split_once('_')?;
    let (what, command) = match prefix {
        "bat" => ("a batch", "batch show"),
        "rcp" => ("a receipt", "receipt show"),
        "grt" => ("a grant", "grant show"),
        "ses" => ("a session", "session show"),
        _ => return None,
    };
    let id = clean::line(id);
    Some(Failure::usage(format!("`{id}` is the id of {what}, and an invocation is asked for")).hint(format!("countersign {command} {id}")))
}
