//! Receipts: the signed records of what was done, refused or let expire, and how anybody checks them.

mod export;
mod prove;
mod show;
mod verify;

use super::explain::key_id;
use super::{Setting, batch, invocation, more, named};
use crate::args::{Paging, action_id};
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Table, Terminal};
use crate::style::{Tone, clean};
use api::Page;
use api::batch::BatchView;
use api::receipt::{CheckpointResponse, EntryView, KeyView};
use clap::{Args, Subcommand};
use countersign_core::{BatchId, InvocationId, ReceiptId};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Receipt {
    /// Receipts, newest first
    #[command(before_help = LIST_EXAMPLES)]
    List(List),
    /// One receipt
    #[command(
        before_help = "Examples:\n  countersign receipt show rcp_…\n  countersign receipt show inv_…\n  countersign receipt show bat_…"
    )]
    Show {
        /// The id of a receipt, or of its invocation or batch
        id: String,
    },
    /// Check every record: offline with a file, or those of the server
    #[command(before_help = verify::EXAMPLES)]
    Verify(verify::Verify),
    /// Write all records to a file that verifies offline
    #[command(before_help = export::EXAMPLES)]
    Export(export::Export),
    /// Show that one receipt stands in the log, step by step
    #[command(before_help = "Examples:\n  countersign receipt prove rcp_…")]
    Prove {
        /// The id of a receipt, or of its invocation or batch
        id: String,
    },
    /// The newest signed statement of how long the log is; kept elsewhere, it shows a rewritten past
    #[command(before_help = "Examples:\n  countersign receipt checkpoint --out last-week.txt")]
    Checkpoint {
        /// Write it to a file
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// The public key that verifiers pin
    #[command(before_help = "Examples:\n  countersign receipt key --out receipt.pem")]
    Key {
        /// Write it to a file
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

const LIST_EXAMPLES: &str = "\
Examples:
  countersign receipt list                                    of calls and of batches
  countersign receipt list --action files.write_text          of one action
  countersign receipt list --session ses_…                    of one agent
  countersign receipt list --user ada                         of a person, and of all that act for them
  countersign receipt list --json=id,status,action,at         some fields of each";

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only of calls of this action, by its whole id
    #[arg(long, value_name = "ACTION", value_parser = action_id)]
    action: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "TITLE|ID")]
    session: Option<String>,
    /// Only of what this person did, and what was done for them
    #[arg(long, value_name = "NAME|ID")]
    user: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

const COLUMNS: &[Column] = &[
    Column::Whole("ID"),
    Column::Number("ENTRY"),
    Column::Whole("STATUS"),
    Column::Below("ACTION"),
    Column::Extra("WHO"),
    Column::Whole("WHEN"),
];

impl Receipt {
    /// Its name, if it writes a file here.
    pub(crate) const fn writes_a_file(&self) -> Option<&'static str> {
        match self {
            Self::Export(_) => Some("receipt export"),
            Self::Checkpoint { out: Some(_) } => Some("receipt checkpoint --out"),
            Self::Key { out: Some(_) } => Some("receipt key --out"),
            Self::Checkpoint { out: None }
            | Self::Key { out: None }
            | Self::List(_)
            | Self::Show { .. }
            | Self::Verify(_)
            | Self::Prove { .. } => None,
        }
    }

    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        match self {
            Self::Verify(verify) => verify.run(setting).await,
            Self::List(list) => list.run(&setting.client()?, setting.terminal).await,
            Self::Show { id } => show::run(&id, &setting.client()?, setting.terminal).await,
            Self::Export(export) => export.run(&setting.client()?, setting.terminal).await,
            Self::Prove { id } => prove::run(&id, &setting.client()?, setting.terminal).await,
            Self::Checkpoint { out } => checkpoint(out, &setting.client()?, setting.terminal).await,
            Self::Key { out } => key(out, &setting.client()?, setting.terminal).await,
        }
    }
}

impl List {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let said = [("--action", &self.action), ("--session", &self.session), ("--user", &self.user)];
        let said = said.iter().filter_map(|(flag, value)| value.as_ref().map(|value| format!(" {flag} {value}")));
        let again = format!("countersign receipt list{}", said.collect::<String>());
        let user = match &self.user {
            Some(user) => Some(named::user(user, client).await?),
            None => None,
        };
        let session = named::maybe_session(self.session.as_deref(), client).await?;
        let empty = match (&self.action, &session, &user) {
            (None, None, None) => "no receipts yet",
            (Some(_), _, _) => "no receipt fits: countersign action list shows what actions there are",
            (None, _, _) => "no receipt fits",
        };
        let only = [("action", self.action), ("session", session), ("user", user)];
        let only = only.into_iter().filter_map(|(name, value)| value.map(|value| (name, value)));
        let query: Vec<_> = self.paging.query().into_iter().chain(only).collect();
        let answer = client.get::<Page<EntryView>>(&["receipts"], &query).await?;
        let mut table = Table::new(COLUMNS, empty);
        for entry in &answer.read.items {
            table.row([
                Cell::text(&entry.id),
                Cell::text(entry.seq.to_string()),
                status_cell(entry),
                what(entry),
                Cell::principal(body(entry, "principal")),
                terminal.past(at(entry)),
            ]);
        }
        terminal.list(&selectable(answer.raw, terminal), &table)?;
        match &answer.read.next {
            Some(next) => more(terminal, &self.paging, Some(next), &again),
            None if table.is_empty() => {}
            None => terminal.next("countersign receipt verify"),
        }
        Ok(Exit::Ok)
    }
}

async fn key(out: Option<PathBuf>, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let keys = client.get::<Page<KeyView>>(&["keys"], &[]).await?.read.items;
    let first = first_receipt_key(&keys)?;
    match out {
        Some(path) => {
            std::fs::write(&path, &first.pem).map_err(|error| Failure::file(&path, &error))?;
            if terminal.is_document() {
                terminal.document(&json!({ "key_id": first.key_id, "file": path.display().to_string() }))?;
            }
            terminal.note(format!("{} key {} to {}", Tone::Ok.paint("✓ wrote"), first.key_id, path.display()));
        }
        None if terminal.is_document() => terminal.document(&json!(first))?,
        None => terminal.line(first.pem.trim_end())?,
    }
    Ok(Exit::Ok)
}

async fn checkpoint(out: Option<PathBuf>, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let answer = client.get::<CheckpointResponse>(&["checkpoint"], &[]).await?;
    let note = answer.read.checkpoint.ok_or_else(|| Failure::new(Exit::NotFound, "there is no checkpoint yet"))?;
    match out {
        Some(path) => {
            std::fs::write(&path, &note).map_err(|error| Failure::file(&path, &error))?;
            if terminal.is_document() {
                terminal.document(&answer.raw)?;
            }
            terminal.note(format!("{} the checkpoint to {}", Tone::Ok.paint("✓ wrote"), path.display()));
            terminal.next(format!("countersign receipt verify --checkpoint {}", path.display()));
        }
        None if terminal.is_document() => terminal.document(&answer.raw)?,
        None => terminal.bytes(clean::block(&note).as_bytes())?,
    }
    Ok(Exit::Ok)
}

/// The key everything else follows from: that of entry 0.
fn first_receipt_key(keys: &[KeyView]) -> Result<&KeyView, Failure> {
    let receipt_keys = keys.iter().filter(|key| key.purpose == "receipt");
    receipt_keys.min_by_key(|key| key.starts_at_seq).ok_or_else(|| Failure::new(Exit::NotFound, "the server has no receipt key"))
}

/// A receipt's id, also when its invocation or its batch was named.
async fn receipt_id(id: &str, client: &Client) -> Result<String, Failure> {
    if ReceiptId::parse(id).is_ok() {
        return Ok(id.to_owned());
    }
    let (receipt, status, shown_by) = if InvocationId::parse(id).is_ok() {
        let (invocation, _) = invocation::get(id, client).await?;
        (invocation.receipt, invocation.status, "show")
    } else if BatchId::parse(id).is_ok() {
        let batch = client.get::<BatchView>(&["batches", id], &[]).await?.read;
        (batch.receipt, batch.status, "batch show")
    } else {
        let message = format!("`{id}` is not the id of a receipt, an invocation or a batch");
        return Err(Failure::new(Exit::NotFound, message).hint("countersign receipt list"));
    };
    receipt.map(|receipt| receipt.id).ok_or_else(|| {
        Failure::new(Exit::Pending, format!("`{id}` has no receipt yet: it is {status}")).hint(format!("countersign {shown_by} {id}"))
    })
}

fn is_of_batch(entry: &EntryView) -> bool {
    entry.kind == "batch"
}

/// What is asked for most of a receipt lies deep in what was signed: whoever chooses fields may name it as everywhere else.
/// Without a choice the document stays as the server wrote it.
fn selectable(mut raw: Value, terminal: &Terminal) -> Value {
    if !terminal.selects_fields() {
        return raw;
    }
    let short = [
        ("status", "/payload/body/status"),
        ("action", "/payload/body/action"),
        ("principal", "/payload/body/principal"),
        ("session", "/payload/body/session"),
        ("dry_run", "/payload/body/dry_run"),
        ("at", "/payload/entry/at"),
    ];
    let add = |receipt: &mut Value| {
        for (name, pointer) in short {
            let found = receipt.pointer(pointer).cloned().unwrap_or_default();
            if let Some(members) = receipt.as_object_mut() {
                members.entry(name).or_insert(found);
            }
        }
    };
    match raw.get_mut("items").and_then(Value::as_array_mut) {
        Some(items) => items.iter_mut().for_each(add),
        None => add(&mut raw),
    }
    raw
}

/// How it ended, as was signed.
fn status_cell(entry: &EntryView) -> Cell {
    let status = body(entry, "status");
    let cell = if is_of_batch(entry) { batch::status_cell(status) } else { Cell::status(status) };
    cell.rehearsed(is_dry_run(entry))
}

/// The action, or of how many parts the batch was.
fn what(entry: &EntryView) -> Cell {
    if is_of_batch(entry) { Cell::text(format!("batch of {}", parts(entry).len())) } else { Cell::text(body(entry, "action")) }
}

/// The parts of a batch, as was signed.
fn parts(entry: &EntryView) -> &[Value] {
    entry.payload.pointer("/body/parts").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn body<'a>(entry: &'a EntryView, field: &str) -> &'a str {
    entry.payload.get("body").and_then(|body| body.get(field)).and_then(Value::as_str).unwrap_or_default()
}

fn is_dry_run(entry: &EntryView) -> bool {
    entry.payload.pointer("/body/dry_run").and_then(Value::as_bool).unwrap_or_default()
}

fn at(entry: &EntryView) -> &str {
    entry.payload.pointer("/entry/at").and_then(Value::as_str).unwrap_or_default()
}
