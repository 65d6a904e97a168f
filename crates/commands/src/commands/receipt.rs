//! `countersign receipt`: the signed records of what was done, denied or expired, and how to verify them.

mod export;
mod key_origin;
mod prove;
mod show;
mod verify;

pub(super) use export::to_file as export_to;
pub(super) use verify::offline as verify_offline;

use super::explain::key_id;
use super::{batch, outcome};
use crate::shared::*;
use api::Page;
use api::batch::BatchView;
use api::identity::{SessionView, SpaceView, UserView};
use api::receipt::{CheckpointResponse, EntryView, KeyPurpose, KeyView};
use clap::{Args, Subcommand};
use countersign_core::{BatchId, InvocationId, ReceiptId, Timestamp};
use receipt::entry::Kind;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum Receipt {
    /// List receipts, newest first
    #[command(before_help = LIST_EXAMPLES)]
    List(Box<List>),
    /// Show one receipt
    #[command(
        before_help = "Examples:\n  countersign receipt show rcp_…\n  countersign receipt show inv_…\n  countersign receipt show bat_…"
    )]
    Show {
        /// The id of a receipt, or of its invocation or batch
        receipt: String,
    },
    /// Verify every record, or one by its proof: offline with a file, or those of the server
    #[command(before_help = verify::EXAMPLES)]
    Verify(verify::Verify),
    /// Export all records to a file that can be verified offline
    #[command(before_help = export::EXAMPLES)]
    Export(export::Export),
    /// Prove that one receipt is in the audit log, step by step
    #[command(before_help = "Examples:
  countersign receipt prove rcp_…
  countersign receipt prove rcp_… --json > kept.proof.json        for `receipt verify`")]
    Prove {
        /// The id of a receipt, or of its invocation or batch
        receipt: String,
    },
    /// Print the newest checkpoint, a signed statement of the audit log; kept elsewhere, it reveals a rewritten log
    #[command(before_help = "Examples:\n  countersign receipt checkpoint --out last-week.txt")]
    Checkpoint {
        /// Write it to a file
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Print the public key that verifiers pin
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
  countersign receipt list --status denied --since 7d         of what was denied in the last week
  countersign receipt list --subject agent://planner          of what was claimed to be for somebody
  countersign receipt list --json=id,status,action,at         some fields of each";

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only of calls of this action, by its whole id
    #[arg(long, value_name = "ACTION", value_parser = action_id)]
    action: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only of what this person did, and what was done for them
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Only of what ended in this status
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only of calls and batches in this space
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
    /// Only of what ended then or later: a time, or how long ago, such as 24h
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only of what ended before then: a time, or how long ago
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only of calls and batches with this idempotency key
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Only of calls with this trace id
    #[arg(long, value_name = "ID")]
    trace_id: Option<String>,
    /// Only of calls whose callers claimed to act for this subject
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// Only of calls that their callers gave this name, such as `action_id` of an action request
    #[arg(long, value_name = "NAME")]
    action_id: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

impl Resource for EntryView {
    const NOUN: &'static str = "receipt";
    const LIST: &'static str = "receipt list";
    const PATH: &'static [&'static str] = &["receipts"];
    const EMPTY: &'static str = "no receipts yet";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["kind"]);
    const SHORT_NAMES: &'static [(&'static str, &'static str)] = &[
        ("status", "/payload/body/status"),
        ("action", "/payload/body/action"),
        ("principal", "/payload/body/principal"),
        ("session", "/payload/body/session"),
        ("dry_run", "/payload/body/dry_run"),
        ("at", "/payload/entry/at"),
    ];
    const FIELDS: &'static [Field<Self>] = &[
        Field::column("id", Column::Whole, |one, _| text(&one.id)),
        Field::line("id", |one, _| Some(Cell::text(&one.id).toned(Tone::Strong))),
        Field::column("entry", Column::Number, |one, _| text(one.seq.to_string())),
        Field::line("entry", |one, _| Some(Cell::shown(format!("#{}", one.seq), one.seq.to_string()))),
        Field::column("status", Column::Whole, |one, _| Some(status_cell(one))),
        Field::column("action", Column::Below, |one, _| {
            text(if is_of_batch(one) { format!("batch of {}", parts(one).len()) } else { body(one, "action").to_owned() })
        }),
        Field::column("who", Column::Extra, |one, view| view.who(body(one, "principal"))),
        Field::column("when", Column::Whole, |one, view| view.past(at(one)?)),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn next(&self) -> Option<String> {
        Some(format!("countersign receipt prove {}", self.id))
    }

    fn next_of(items: &[Self]) -> Option<String> {
        items.first().map(|_| "countersign receipt verify".to_owned())
    }
}

impl Receipt {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        match self {
            Self::Verify(verify) => verify.run(setting).await,
            Self::List(list) => {
                let (client, terminal) = (&setting.client()?, setting.terminal);
                let user = maybe_id_of::<UserView>(list.user.as_deref(), client).await?;
                let session = maybe_id_of::<SessionView>(list.session.as_deref(), client).await?;
                let space = maybe_id_of::<SpaceView>(list.space.as_deref(), client).await?;
                let asked = Asked::of(&list.paging).only("action", list.action).only("session", session).only("user", user);
                let asked = asked.only("status", list.status).only("space", space).only("since", list.since).only("until", list.until);
                let asked =
                    asked.only("idempotency_key", list.idempotency_key).only("trace_id", list.trace_id).only("subject", list.subject);
                let asked = asked.only("action_id", list.action_id);
                resource::list::<EntryView>(asked, client, terminal).await?;
                Ok(Exit::Ok)
            }
            Self::Show { receipt } => show::run(&receipt, &setting.client()?, setting.terminal).await,
            Self::Export(export) => export.run(setting).await,
            Self::Prove { receipt } => prove::run(&receipt, &setting.client()?, setting.terminal).await,
            Self::Checkpoint { out } => checkpoint(out.as_deref(), setting).await,
            Self::Key { out } => key(out.as_deref(), setting).await,
        }
    }
}

async fn key(out: Option<&Path>, setting: Setting<'_>) -> Result<Exit, Failure> {
    if out.is_some() {
        setting.no_dry_run("receipt key --out")?;
    }
    let (client, terminal) = (&setting.client()?, setting.terminal);
    let keys = client.get::<Page<KeyView>>(&["keys"], &[]).await?.read.items;
    let first = first_receipt_key(&keys)?;
    match out {
        Some(path) => {
            std::fs::write(path, &first.pem).map_err(|error| Failure::file(path, &error))?;
            terminal.done("wrote key", path.display().to_string(), &json!({ "key_id": first.key_id, "file": path }))?;
        }
        None if terminal.is_document() => terminal.document(&json!(first))?,
        None => terminal.line(first.pem.trim_end())?,
    }
    Ok(Exit::Ok)
}

async fn checkpoint(out: Option<&Path>, setting: Setting<'_>) -> Result<Exit, Failure> {
    if out.is_some() {
        setting.no_dry_run("receipt checkpoint --out")?;
    }
    let (client, terminal) = (&setting.client()?, setting.terminal);
    let answer = client.get::<CheckpointResponse>(&["checkpoint"], &[]).await?;
    let note = answer.read.checkpoint.ok_or_else(|| Failure::new(Exit::NotFound, "there is no checkpoint yet"))?;
    match out {
        Some(path) => {
            std::fs::write(path, &note).map_err(|error| Failure::file(path, &error))?;
            terminal.done("wrote checkpoint", path.display().to_string(), &answer.raw)?;
            terminal.next(format!("countersign receipt verify --checkpoint {}", path.display()));
        }
        None if terminal.is_document() => terminal.document(&answer.raw)?,
        None => terminal.bytes(clean::block(&note).as_bytes())?,
    }
    Ok(Exit::Ok)
}

/// The receipt key of entry 0. It signs the entry that announces its successor, and so on, so all later keys can be trusted through it.
fn first_receipt_key(keys: &[KeyView]) -> Result<&KeyView, Failure> {
    let receipt_keys = keys.iter().filter(|key| key.purpose == KeyPurpose::Receipt);
    receipt_keys.min_by_key(|key| key.starts_at_seq).ok_or_else(|| Failure::new(Exit::NotFound, "the server has no receipt key"))
}

/// The id of a receipt. The id of its invocation or its batch is accepted too.
async fn receipt_id(id: &str, client: &Client) -> Result<String, Failure> {
    if ReceiptId::parse(id).is_ok() {
        return Ok(id.to_owned());
    }
    let (receipt, status, shown_by) = if InvocationId::parse(id).is_ok() {
        let (invocation, _) = outcome::get(id, client).await?;
        (invocation.receipt, invocation.status.as_str(), "show")
    } else if BatchId::parse(id).is_ok() {
        let batch = client.get::<BatchView>(&["batches", id], &[]).await?.read;
        (batch.receipt, batch.status.as_str(), "batch show")
    } else {
        let message = format!("`{id}` is not the id of a receipt, an invocation or a batch");
        return Err(Failure::new(Exit::NotFound, message).hint("countersign receipt list"));
    };
    receipt.map(|receipt| receipt.id).ok_or_else(|| {
        Failure::new(Exit::Pending, format!("`{id}` has no receipt yet: it is {status}")).hint(format!("countersign {shown_by} {id}"))
    })
}

fn is_of_batch(entry: &EntryView) -> bool {
    entry.kind == Kind::Batch
}

/// How the call or batch ended, as it was signed.
fn status_cell(entry: &EntryView) -> Cell {
    let status = body(entry, "status");
    let cell = batch::status_cell(status);
    cell.rehearsed(is_dry_run(entry))
}

/// The parts of a batch, as they were signed.
fn parts(entry: &EntryView) -> &[Value] {
    entry.payload.pointer("/body/parts").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn body<'a>(entry: &'a EntryView, field: &str) -> &'a str {
    entry.payload.get("body").and_then(|body| body.get(field)).and_then(Value::as_str).unwrap_or_default()
}

fn is_dry_run(entry: &EntryView) -> bool {
    entry.payload.pointer("/body/dry_run").and_then(Value::as_bool).unwrap_or_default()
}

fn at(entry: &EntryView) -> Option<Timestamp> {
    entry.payload.pointer("/entry/at").and_then(Value::as_str).and_then(Timestamp::parse)
}
