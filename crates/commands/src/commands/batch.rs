//! `countersign batch`: several actions in one request, either all or nothing or each on its own.

mod file;

use super::action::{meant, session};
use super::changes;
use super::wait::{Patience, Polled, Waiting};
use crate::shared::*;
use crate::style::status_word;
use api::batch::{BatchView, PartView};
use api::invocation::InvocationView;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use countersign_core::Status;
use countersign_core::batch::BatchStatus;
use countersign_core::part_of::BatchMode;
use serde::Deserialize;
use std::collections::BTreeSet;

#[derive(Debug, Subcommand)]
pub(crate) enum Batch {
    /// Run several actions in order: all or nothing, or each on its own
    #[command(before_help = "Examples:
  countersign batch run changes.json
  countersign batch run changes.json --mode best-effort --no-wait
  echo '[{\"action\":\"files.write_text\",\"params\":{\"path\":\"a.txt\",\"text\":\"1\"}},
         {\"action\":\"files.write_text\",\"params\":{\"path\":\"b.txt\",\"text\":\"2\"}}]' | countersign batch run -")]
    Run(Run),
    /// List batches, newest first
    #[command(before_help = "Examples:\n  countersign batch list")]
    List(Paging),
    /// Show one batch, and the outcome of each part
    #[command(before_help = "Examples:\n  countersign batch show bat_…")]
    Show {
        /// Its id
        batch: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A JSON list of actions with their params, or a whole request; - reads stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: String,
    /// What happens to the other parts when one fails; all-or-nothing unless the file says otherwise
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// The session it runs in; else the agent's own, else your session `cli`
    #[arg(long, value_name = "SESSION", env = "COUNTERSIGN_SESSION", hide_env_values = true)]
    session: Option<String>,
    /// The same key with the same parts has one effect
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Why, in your words; shown to whoever approves
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    waiting: Waiting,
}

/// As a flag and in a file: both spellings are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// Nothing starts before every part is approved; when one fails, the others are reverted
    #[default]
    #[value(alias = "all_or_nothing")]
    #[serde(alias = "all-or-nothing")]
    AllOrNothing,
    /// Each part succeeds or fails on its own
    #[value(alias = "best_effort")]
    #[serde(alias = "best-effort")]
    BestEffort,
}

impl From<Mode> for BatchMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::AllOrNothing => Self::AllOrNothing,
            Mode::BestEffort => Self::BestEffort,
        }
    }
}

const PART_COLUMNS: &[Column] = &[
    Column::Whole("PART"),
    Column::Whole("ACTION"),
    Column::Whole("STATUS"),
    Column::Whole("EFFECT"),
    Column::Cut("INVOCATION"),
    Column::Extra("RECEIPT"),
];

impl Resource for BatchView {
    const NOUN: &'static str = "batch";
    const LIST: &'static str = "batch list";
    const PATH: &'static [&'static str] = &["batches"];
    const EMPTY: &'static str = "no batches";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["mode", "status"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("status", Column::Whole, |one, _| Some(status_cell(one.status.as_str()).rehearsed(one.dry_run))),
        Field::both("mode", Column::Whole, |one, _| Some(mode_cell(one.mode.as_str()))),
        Field::both("parts", Column::Whole, |one, _| text(one.parts.len().to_string())),
        Field::both("asked", Column::Whole, |one, view| view.past(one.created_at)),
    ];

    fn id(&self) -> &str {
        &self.id
    }
}

impl Polled for BatchView {
    fn is_settled(&self) -> bool {
        is_final(self)
    }
}

impl Batch {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Run(run) => return run.run(client, terminal).await,
            Self::List(paging) => drop(resource::list::<BatchView>(Asked::of(&paging), client, terminal).await?),
            Self::Show { batch } => tell(&client.get::<BatchView>(&["batches", &batch], &[]).await?, terminal)?,
        }
        Ok(Exit::Ok)
    }
}

impl Run {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let mut request = file::read(&self.file, terminal).await?;
        if let Some(mode) = self.mode {
            request.mode = mode.into();
        }
        request.idempotency_key = self.idempotency_key.or(request.idempotency_key);
        request.reason = self.reason.or(request.reason);
        request.dry_run |= client.rehearses();
        let session = session::choose(self.session.as_deref(), client).await?;
        let first = client.post_always::<BatchView>(&["sessions", &session, "actions", "batch"], &request).await?;
        let patience = self.waiting.patience();
        if patience != Patience::None && !terminal.is_document() {
            first.read.parts.iter().filter(|part| part.status == Some(Status::Pending)).for_each(|part| terminal.note(pending(part)));
        }
        let path = ["batches", first.read.id.as_str()].map(str::to_owned);
        let last = patience.poll(first, &path.each_ref().map(String::as_str), client).await?;
        if is_final(&last.read) || terminal.is_document() {
            tell(&last, terminal)?;
            misspelt(&last.read, client, terminal).await;
        } else {
            // The id goes to stdout as data: a caller who does not wait needs it to ask for the batch later.
            terminal.line(clean::line(&last.read.id))?;
            summary(&last.read, terminal);
        }
        Ok(exit_of(&last.read))
    }
}

fn pending(part: &PartView) -> String {
    let id = clean::line(part.invocation_id.as_deref().unwrap_or_default());
    format!("{} · {} needs approval · countersign approve {id}", Tone::Warn.paint("◷ pending"), clean::line(&part.action))
}

fn is_final(batch: &BatchView) -> bool {
    batch.status.is_final()
}

fn tell(answer: &Answer<BatchView>, terminal: &mut Terminal) -> Result<(), Failure> {
    let batch = &answer.read;
    if terminal.is_document() {
        return terminal.document(&answer.raw);
    }
    let mut table = Table::new(PART_COLUMNS, "no parts");
    for (index, part) in batch.parts.iter().enumerate() {
        table.row([
            Cell::text((index + 1).to_string()),
            Cell::text(&part.action),
            status_cell(part.status.map_or("not_started", Status::as_str)).rehearsed(batch.dry_run),
            Cell::text(effect_words(&word(part.effect), part.revert.is_some())),
            Cell::maybe(part.invocation_id.as_ref()),
            receipt_cell(part),
        ]);
    }
    terminal.list(&answer.raw, &table)?;
    if batch.dry_run && terminal.is_for_words() {
        foreseen(batch, terminal)?;
    }
    for (index, part) in batch.parts.iter().enumerate() {
        if let Some(failed) = why_failed(index, part) {
            terminal.note(failed);
        }
        if let Some(error) = part.revert.as_ref().filter(|revert| !revert.ok).and_then(|revert| revert.error.as_ref()) {
            terminal.note(Tone::Danger.paint(format!(
                "part {} could not be reverted: {}: {}",
                index + 1,
                clean::line(&error.code),
                clean::line(&error.message)
            )));
        }
    }
    summary(batch, terminal);
    Ok(())
}

/// For actions that do not exist, suggests the most similar ones.
async fn misspelt(batch: &BatchView, client: &Client, terminal: &mut Terminal) {
    let is_unknown = |part: &&PartView| part.error.as_ref().is_some_and(|error| error.code == "unknown_action");
    let unknown: BTreeSet<_> = batch.parts.iter().filter(is_unknown).map(|part| part.action.as_str()).collect();
    if unknown.is_empty() || terminal.is_document() {
        return;
    }
    let known = meant::known(client).await;
    for action in unknown {
        if let Some(meant) = meant::nearest(action, &known) {
            terminal.note(format!("`{}`: did you mean `{}`?", clean::line(action), clean::line(meant)));
        }
    }
}

/// `part 2: file_not_found: …`; nothing for a part that was cancelled because another part failed.
fn why_failed(index: usize, part: &PartView) -> Option<String> {
    let error = part.error.as_ref().filter(|error| error.code != "batch_called_off")?;
    Some(format!("part {}: {}: {}", index + 1, clean::line(&error.code), clean::line(&error.message)))
}

/// The batch of a part that has just been answered; `None` if it has none or the caller may not read it.
pub(super) async fn of(part: &InvocationView, client: &Client) -> Option<BatchView> {
    let id = &part.batch.as_ref()?.id;
    client.get::<BatchView>(&["batches", id], &[]).await.ok().map(|answer| answer.read)
}

/// Adds what happened to the whole batch to the failure of an answer to one part.
pub(super) fn explain(failure: Failure, part: &InvocationView, batch: &BatchView) -> Failure {
    let (status, id) = (batch.status, clean::line(&batch.id));
    let failed: String =
        batch.parts.iter().enumerate().filter_map(|(index, part)| why_failed(index, part)).map(|why| format!("; {why}")).collect();
    let mut failure = failure.cause(format!("{id} is {status}: {}{failed}", meaning(batch))).hint(format!("countersign batch show {id}"));
    // It was called off for another: how that ended is how this ended.
    if part.status == Status::Cancelled {
        failure.exit = exit_of(batch);
    }
    failure
}

/// Shows what each part would change, under the part's number.
fn foreseen(batch: &BatchView, terminal: &mut Terminal) -> Result<(), Failure> {
    for (index, part) in batch.parts.iter().enumerate() {
        let Some(lines) = part.result.as_ref().and_then(changes::foreseen) else { continue };
        terminal.line("")?;
        terminal.line(Tone::Muted.paint(format!("PART {}  {}", index + 1, clean::line(&part.action))))?;
        lines.into_iter().try_for_each(|line| terminal.line(line))?;
    }
    Ok(())
}

/// Writes one line about the state of the batch to stderr.
pub(super) fn summary(batch: &BatchView, terminal: &mut Terminal) {
    let (word, tone) = match (look(batch.status.as_str()), batch.dry_run) {
        ((_, tone @ Tone::Ok), true) => ("✓ dry run: nothing was done ·".to_owned(), tone),
        (shown, _) => shown,
    };
    let receipt = batch.receipt.as_ref().map(|receipt| format!(" · {} (#{})", clean::line(&receipt.id), receipt.seq)).unwrap_or_default();
    terminal.note(format!("{} {} · {}{receipt}", tone.paint(word), clean::line(&batch.id), meaning(batch)));
    if batch.dry_run && tone != Tone::Ok {
        terminal.note(Tone::Muted.paint("dry run: nothing was done"));
    }
}

/// The status of a batch or of one of its parts, as a cell.
pub(super) fn status_cell(status: &str) -> Cell {
    let (word, tone) = look(status);
    Cell::shown(word, status).toned(tone)
}

/// The look of an invocation's status, with the two statuses that only batches have.
pub(super) fn look(status: &str) -> (String, Tone) {
    match status {
        "partial" => ("! partial".to_owned(), Tone::Warn),
        "not_started" => ("not started".to_owned(), Tone::Muted),
        shared => Status::parse(shared).map_or_else(|| (clean::line(shared), Tone::Plain), status_word),
    }
}

/// The receipt of a part: its number in the log for people, its id for pipes.
fn receipt_cell(part: &PartView) -> Cell {
    let id = part.receipt_id.as_deref().unwrap_or_default();
    part.receipt_seq.map_or_else(Cell::missing, |seq| Cell::shown(format!("#{seq}"), id))
}

/// The batch mode, which says what happens to the other parts when one fails.
pub(super) fn mode_cell(mode: &str) -> Cell {
    Cell::shown(mode.replace('_', " "), mode)
}

/// The effect of a part in words. `revert_tried` says that the part was reverted or that reverting it was tried.
pub(super) fn effect_words(effect: &str, revert_tried: bool) -> String {
    match effect {
        "none" => "nothing changed".to_owned(),
        "stands" if revert_tried => "could not be reverted".to_owned(),
        other => other.replace('_', " "),
    }
}

fn meaning(batch: &BatchView) -> &'static str {
    match (batch.status, batch.mode) {
        (BatchStatus::Pending, _) => "it needs approval first",
        (BatchStatus::Running, _) => "it is running",
        (BatchStatus::Partial | BatchStatus::Failed, _) if batch.dry_run => "not every part could say what it would change",
        (BatchStatus::Succeeded, _) if batch.dry_run && has_untried(batch) => {
            "every part that writes could say what it would change; reads were not tried, and may fail"
        }
        (BatchStatus::Succeeded, _) if batch.dry_run => "every part could say what it would change",
        (BatchStatus::Succeeded, _) => "every part succeeded",
        (BatchStatus::Partial, _) => "some parts succeeded, and were kept",
        (BatchStatus::Reverted, _) => "a part failed, and the others were reverted",
        (BatchStatus::Failed, BatchMode::AllOrNothing) => "a part failed, and not everything could be reverted",
        (BatchStatus::Failed, _) => "no part succeeded",
        (BatchStatus::Denied, _) => "a part was denied, and nothing ran",
    }
}

/// Whether a part was not tried, because a dry run of a batch skips parts that only read.
fn has_untried(batch: &BatchView) -> bool {
    batch.parts.iter().any(|part| part.result.as_ref().is_some_and(|result| result.get("untried").is_some()))
}

fn exit_of(batch: &BatchView) -> Exit {
    match batch.status {
        BatchStatus::Succeeded => Exit::Ok,
        BatchStatus::Pending | BatchStatus::Running => Exit::Pending,
        BatchStatus::Denied => Exit::Denied,
        BatchStatus::Partial | BatchStatus::Reverted | BatchStatus::Failed => Exit::Failed,
    }
}
