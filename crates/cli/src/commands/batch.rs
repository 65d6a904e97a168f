//! Batches: several actions in one request, together or each for itself.

mod file;

use super::action::{meant, session};
use super::changes;
use super::more;
use super::wait::Patience;
use crate::args::Paging;
use crate::client::{Answer, Client};
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Table, Terminal};
use crate::style::{Tone, clean, status_word};
use api::batch::{BatchModeName, BatchView, PartView};
use api::invocation::InvocationView;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use countersign_core::batch::BatchStatus;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// How long one question is held open by the server.
const POLL_SECONDS: u64 = 30;
/// A wait that comes back at once is not repeated at once.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug, Subcommand)]
pub(crate) enum Batch {
    /// Do several actions in order: all of them or none, or each for itself
    #[command(before_help = "Examples:
  countersign batch run changes.json
  countersign batch run changes.json --mode best-effort --no-wait
  echo '[{\"action\":\"files.write_text\",\"params\":{\"path\":\"a.txt\",\"text\":\"1\"}},
         {\"action\":\"files.write_text\",\"params\":{\"path\":\"b.txt\",\"text\":\"2\"}}]' | countersign batch run -")]
    Run(Run),
    /// Batches, newest first
    #[command(before_help = "Examples:\n  countersign batch list")]
    List(Paging),
    /// One batch, and what became of each part
    #[command(before_help = "Examples:\n  countersign batch show bat_…")]
    Show { id: String },
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A list of actions with their params, or a whole request; - reads stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: String,
    /// What a part that fails means for the others; all-or-nothing unless the file says otherwise
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// The session it is asked in; else the agent's own, else your session `cli`
    #[arg(long, value_name = "TITLE|ID", env = "COUNTERSIGN_SESSION", hide_env_values = true)]
    session: Option<String>,
    /// The same key with the same parts has one effect
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Why, in your words; shown to whoever approves
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// How long to wait for a person, such as 10m; until it is decided when absent
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "forever", value_parser = Patience::parse, conflicts_with = "no_wait")]
    wait: Option<Patience>,
    /// Do not wait: print the batch's id and exit with 6
    #[arg(long)]
    no_wait: bool,
}

/// As a flag and in a file: both spellings are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// Nothing starts before every part may; when one fails, the others are taken back
    #[default]
    #[value(alias = "all_or_nothing")]
    #[serde(alias = "all-or-nothing")]
    AllOrNothing,
    /// Each part stands for itself
    #[value(alias = "best_effort")]
    #[serde(alias = "best-effort")]
    BestEffort,
}

impl From<Mode> for BatchModeName {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::AllOrNothing => Self::AllOrNothing,
            Mode::BestEffort => Self::BestEffort,
        }
    }
}

const COLUMNS: &[Column] =
    &[Column::Whole("ID"), Column::Whole("STATUS"), Column::Whole("MODE"), Column::Whole("PARTS"), Column::Whole("ASKED")];
const PART_COLUMNS: &[Column] = &[
    Column::Whole("PART"),
    Column::Whole("ACTION"),
    Column::Whole("STATUS"),
    Column::Whole("EFFECT"),
    Column::Cut("INVOCATION"),
    Column::Extra("RECEIPT"),
];

impl Batch {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Run(run) => run.run(client, terminal).await,
            Self::List(paging) => list(&paging, client, terminal).await,
            Self::Show { id } => {
                let answer = client.get::<BatchView>(&["batches", &id], &[]).await?;
                tell(&answer, terminal)?;
                Ok(Exit::Ok)
            }
        }
    }
}

impl Run {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let patience = if self.no_wait { Patience::None } else { self.wait.unwrap_or(Patience::UntilDecided) };
        let mut request = file::read(&self.file).await?;
        if let Some(mode) = self.mode {
            request.mode = mode.into();
        }
        request.idempotency_key = self.idempotency_key.or(request.idempotency_key);
        request.reason = self.reason.or(request.reason);
        request.dry_run |= client.rehearses();
        let session = session::choose(self.session.as_deref(), client).await?;
        let first = client.post_always::<BatchView>(&["sessions", &session, "actions", "batch"], &request).await?;
        let last = wait(first, patience, client, terminal).await?;
        if is_final(&last.read) || terminal.is_document() {
            tell(&last, terminal)?;
            misspelt(&last.read, client, terminal).await;
        } else {
            // The id is the data: whoever does not wait will want to ask for it again.
            terminal.line(clean::line(&last.read.id))?;
            summary(&last.read, terminal);
        }
        Ok(exit_of(&last.read))
    }
}

/// Until it has ended, or patience has.
async fn wait(
    first: Answer<BatchView>,
    patience: Patience,
    client: &Client,
    terminal: &mut Terminal,
) -> Result<Answer<BatchView>, Failure> {
    let until = match patience {
        Patience::None => return Ok(first),
        Patience::UntilDecided => None,
        Patience::AtMost(time) => Instant::now().checked_add(time),
    };
    let mut last = first;
    if !is_final(&last.read) && !terminal.is_document() {
        for part in last.read.parts.iter().filter(|part| part.status == "pending") {
            let id = clean::line(part.invocation_id.as_deref().unwrap_or_default());
            terminal.note(format!(
                "{} · {} waits for a person · countersign approve {id}",
                Tone::Warn.paint("◷ pending"),
                clean::line(&part.action)
            ));
        }
    }
    while !is_final(&last.read) {
        let left = until.map_or(Duration::from_secs(POLL_SECONDS), |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            break;
        }
        let asked = Instant::now();
        let held = (left.as_millis() as u64).clamp(1, POLL_SECONDS * 1_000);
        last = client.get::<BatchView>(&["batches", &last.read.id], &[("wait", format!("{held}ms"))]).await?;
        if asked.elapsed() < PAUSE {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(last)
}

fn is_final(batch: &BatchView) -> bool {
    BatchStatus::parse(&batch.status).is_some_and(BatchStatus::is_final)
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
            status_cell(&part.status).rehearsed(batch.dry_run),
            Cell::text(effect_words(&part.effect, part.undone.is_some())),
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
        if let Some(error) = part.undone.as_ref().filter(|undone| !undone.ok).and_then(|undone| undone.error.as_ref()) {
            terminal.note(Tone::Danger.paint(format!(
                "part {} still stands: {}: {}",
                index + 1,
                clean::line(&error.code),
                clean::line(&error.message)
            )));
        }
    }
    summary(batch, terminal);
    Ok(())
}

/// Of actions that do not exist, which may have been meant.
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

/// `part 2: file_not_found: …`; of one that was called off for another, nothing.
fn why_failed(index: usize, part: &PartView) -> Option<String> {
    let error = part.error.as_ref().filter(|error| error.code != "batch_called_off")?;
    Some(format!("part {}: {}: {}", index + 1, clean::line(&error.code), clean::line(&error.message)))
}

/// The batch of a part that has just been answered; absent where it has none, or may not be read.
pub(super) async fn of(part: &InvocationView, client: &Client) -> Option<BatchView> {
    let id = &part.batch.as_ref()?.id;
    client.get::<BatchView>(&["batches", id], &[]).await.ok().map(|answer| answer.read)
}

/// What became of the whole, for whoever's answer to a part came to nothing.
pub(super) fn explain(failure: Failure, part: &InvocationView, batch: &BatchView) -> Failure {
    let (status, id) = (clean::line(&batch.status), clean::line(&batch.id));
    let failed: String =
        batch.parts.iter().enumerate().filter_map(|(index, part)| why_failed(index, part)).map(|why| format!("; {why}")).collect();
    let mut failure = failure.cause(format!("{id} is {status}: {}{failed}", meaning(batch))).hint(format!("countersign batch show {id}"));
    // It was called off for another: how that ended is how this ended.
    if part.status == "cancelled" {
        failure.exit = exit_of(batch);
    }
    failure
}

/// What each part would change, under its number.
fn foreseen(batch: &BatchView, terminal: &mut Terminal) -> Result<(), Failure> {
    for (index, part) in batch.parts.iter().enumerate() {
        let Some(lines) = part.result.as_ref().and_then(changes::foreseen) else { continue };
        terminal.line("")?;
        terminal.line(Tone::Muted.paint(format!("PART {}  {}", index + 1, clean::line(&part.action))))?;
        lines.into_iter().try_for_each(|line| terminal.line(line))?;
    }
    Ok(())
}

/// What became of it as a whole, in one line.
pub(super) fn summary(batch: &BatchView, terminal: &mut Terminal) {
    let (word, tone) = look(&batch.status);
    let receipt = batch.receipt.as_ref().map(|receipt| format!(" · {} (#{})", clean::line(&receipt.id), receipt.seq)).unwrap_or_default();
    terminal.note(format!("{} {} · {}{receipt}", tone.paint(word), clean::line(&batch.id), meaning(batch)));
    if batch.dry_run {
        terminal.note(Tone::Muted.paint("dry run: nothing was changed"));
    }
}

/// The status of a batch or of one of its parts.
pub(super) fn status_cell(status: &str) -> Cell {
    let (word, tone) = look(status);
    Cell::shown(word, status).toned(tone)
}

/// That of an invocation, with the two words that only batches have.
pub(super) fn look(status: &str) -> (String, Tone) {
    match status {
        "partial" => ("! partial".to_owned(), Tone::Warn),
        "not_started" => ("not started".to_owned(), Tone::Muted),
        shared => status_word(shared),
    }
}

/// Its place in the log is short enough for a table; a pipe gets the id.
fn receipt_cell(part: &PartView) -> Cell {
    let id = part.receipt_id.as_deref().unwrap_or_default();
    part.receipt_seq.map_or_else(Cell::missing, |seq| Cell::shown(format!("#{seq}"), id))
}

/// What a part that fails means for the others.
pub(super) fn mode_cell(mode: &str) -> Cell {
    Cell::shown(mode.replace('_', " "), mode)
}

async fn list(paging: &Paging, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let answer = client.get::<api::Page<BatchView>>(&["batches"], &paging.query()).await?;
    let mut table = Table::new(COLUMNS, "no batches");
    for batch in &answer.read.items {
        table.row([
            Cell::text(&batch.id),
            status_cell(&batch.status).rehearsed(batch.dry_run),
            mode_cell(&batch.mode),
            Cell::text(batch.parts.len().to_string()),
            terminal.past(&batch.created_at),
        ]);
    }
    terminal.list(&answer.raw, &table)?;
    more(terminal, paging, answer.read.next.as_deref(), "countersign batch list");
    Ok(Exit::Ok)
}

/// What is left of a part; `was_undone`: it was taken back, or was to be.
pub(super) fn effect_words(effect: &str, was_undone: bool) -> String {
    match effect {
        "none" => "nothing changed".to_owned(),
        "stands" if was_undone => "could not be taken back".to_owned(),
        other => other.replace('_', " "),
    }
}

fn meaning(batch: &BatchView) -> &'static str {
    match (BatchStatus::parse(&batch.status), batch.mode.as_ref()) {
        (Some(BatchStatus::Pending), _) => "a person has to answer first",
        (Some(BatchStatus::Running), _) => "on its way",
        (Some(BatchStatus::Partial | BatchStatus::Failed), _) if batch.dry_run => "not every part could say what it would change",
        (Some(BatchStatus::Succeeded), _) if batch.dry_run => "every part could say what it would change",
        (Some(BatchStatus::Succeeded), _) => "every part succeeded",
        (Some(BatchStatus::Partial), _) => "some parts succeeded, and stand",
        (Some(BatchStatus::Reverted), _) => "a part failed, and nothing of it stands",
        (Some(BatchStatus::Failed), "all_or_nothing") => "a part failed, and not everything could be taken back",
        (Some(BatchStatus::Failed), _) => "no part succeeded",
        (Some(BatchStatus::Denied), _) => "a part was refused, and nothing ran",
        (None, _) => "",
    }
}

fn exit_of(batch: &BatchView) -> Exit {
    match BatchStatus::parse(&batch.status) {
        Some(BatchStatus::Succeeded) => Exit::Ok,
        Some(BatchStatus::Pending | BatchStatus::Running) => Exit::Pending,
        Some(BatchStatus::Denied) => Exit::Denied,
        Some(BatchStatus::Partial | BatchStatus::Reverted | BatchStatus::Failed) | None => Exit::Failed,
    }
}
