//! Invocations: what was asked for, and what became of it.

use super::{more, people::People, show::Show};
use crate::args::Paging;
use crate::client::{Answer, Client};
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Table, Terminal};
use api::Page;
use api::invocation::{InvocationView, InvokeResponse};
use clap::{Args, Subcommand};
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
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only those in this status, such as pending, succeeded or in_doubt
    #[arg(long, value_parser = known_status)]
    status: Option<String>,
    /// Only those of this action
    #[arg(long, value_name = "ID")]
    action: Option<String>,
    /// Only those of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

const COLUMNS: &[Column] = &[
    Column::Whole("ID"),
    Column::Whole("STATUS"),
    Column::Whole("ACTION"),
    Column::Extra("TIER"),
    Column::Extra("WHO"),
    Column::Whole("ASKED"),
];

impl Invocation {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List(list) => list.run(client, terminal).await,
            Self::Show(show) => show.run(client, terminal).await,
        }
    }
}

impl List {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let filters = [("status", self.status), ("action", self.action), ("session", self.session)];
        let filters: Vec<_> = filters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let flags: String = filters.iter().map(|(name, value)| format!(" --{name} {value}")).collect();
        let query: Vec<_> = self.paging.query().into_iter().chain(filters).collect();
        let answer = client.get::<Page<InvocationView>>(&["invocations"], &query).await?;
        let people = People::load(client, terminal).await;
        let mut table = Table::new(COLUMNS, "no invocations: countersign action list shows what can be done");
        for invocation in &answer.read.items {
            table.row([
                Cell::text(&invocation.id),
                Cell::status_of(&invocation.status, invocation.dry_run),
                Cell::text(&invocation.action),
                Cell::tier(&invocation.tier),
                people.cell(&invocation.principal),
                terminal.past(&invocation.created_at),
            ]);
        }
        terminal.list(&answer.raw, &table)?;
        match (&answer.read.next, answer.read.items.first()) {
            (Some(next), _) => more(terminal, &self.paging, Some(next), &format!("countersign invocation list{flags}")),
            (None, Some(newest)) => terminal.next(format!("countersign explain {}", newest.id)),
            (None, None) => {}
        }
        Ok(Exit::Ok)
    }
}

/// One invocation, and its own part of the answer.
pub(super) async fn get(id: &str, client: &Client) -> Result<(InvocationView, Value), Failure> {
    let Answer { read, mut raw } = client.get::<InvokeResponse>(&["invocations", id], &[]).await?;
    Ok((read.invocation, raw["invocation"].take()))
}

fn known_status(text: &str) -> Result<String, String> {
    let known = || Status::ALL.map(Status::as_str).join(", ");
    Status::parse(text).map(|status| status.to_string()).ok_or_else(|| format!("the statuses are {}", known()))
}
