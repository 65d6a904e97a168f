//! `countersign run`: executions of automations, step by step.

mod logs;
mod marks;

use super::action::params;
use super::automation_name::automation_named;
use super::editor::{self, About};
use super::outcome;
use crate::shared::*;
use api::automation::FiredResponse;
use api::run::{RerunRequest, RunView, StepView};
use clap::{Args, Subcommand};
use countersign_core::automation::FiringReason;
use countersign_core::run::{RunStatus, StepStatus, WaitingFor};
use serde_json::Value;
use std::time::Duration;

/// How often a run that is followed is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// List runs, newest first
    #[command(before_help = "Examples:
  countersign run list --failed
  countersign run list --automation 'Daily digest' --status waiting")]
    List {
        /// Only those of this automation, by its name or id
        #[arg(long, value_name = "AUTOMATION")]
        automation: Option<String>,
        /// Only those with this status
        #[arg(long, value_name = "STATUS", value_parser = parse_status)]
        status: Option<RunStatus>,
        /// Only those that failed; the same as --status failed
        #[arg(long, conflicts_with = "status")]
        failed: bool,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a run, with its steps
    #[command(before_help = "Examples:\n  countersign run show run_…")]
    Show {
        /// Its id
        run: String,
    },
    /// Follow a run until it has ended
    #[command(before_help = "Examples:\n  countersign run watch run_…")]
    Watch {
        /// Its id
        run: String,
    },
    /// Tell what happened in a run, line by line
    #[command(before_help = logs::EXAMPLES)]
    Logs(logs::Logs),
    /// End a run; a step in progress still ends as it ends
    #[command(before_help = "Examples:\n  countersign run cancel run_…")]
    Cancel {
        /// Its id
        run: String,
    },
    /// Run a run once more: all of it, or from one of its steps on
    #[command(visible_alias = "retry")]
    #[command(before_help = "Examples:
  countersign run rerun run_…                                all of it, with the version that is saved now
  countersign run rerun run_… --from deliver                 what came before `deliver` is taken from the run
  countersign run rerun run_… since=2026-01-31T12:00:00Z     with other inputs
  countersign run rerun run_… --with-payload                 with what its trigger was given
  countersign run retry run_… --edit-input                   with its inputs as you change them")]
    Rerun(Rerun),
}

#[derive(Debug, Args)]
pub(crate) struct Rerun {
    /// Its id
    run: String,
    /// Other inputs, which replace all of its own: key=value for a text, key:=json for anything else
    #[arg(value_name = "INPUT")]
    words: Vec<String>,
    #[command(flatten)]
    inputs: Inputs,
    /// Change its inputs in $VISUAL or $EDITOR first
    #[arg(long, conflicts_with_all = ["words", "input", "inputs"])]
    edit_input: bool,
    /// Make its inputs anew of what its trigger was given, by the mapping that is saved now
    #[arg(long, conflicts_with_all = ["words", "input", "inputs", "edit_input"])]
    with_payload: bool,
    /// The step to begin with
    #[arg(long = "from", value_name = "STEP")]
    step: Option<String>,
    /// Follow the new run until it has ended
    #[arg(long)]
    follow: bool,
}

/// The inputs of a run.
#[derive(Debug, Args)]
pub(crate) struct Inputs {
    /// One input: key=value for a text, key:=json for anything else; may be given several times
    #[arg(long, value_name = "INPUT")]
    input: Vec<String>,
    /// All inputs as a JSON object; @file reads a file, - reads stdin
    #[arg(long, alias = "params", value_name = "JSON")]
    inputs: Option<String>,
}

impl Inputs {
    /// Those that are given as words, and with `--input`.
    pub(super) fn typed(&self, words: &[String]) -> Vec<String> {
        [words, self.input.as_slice()].concat()
    }

    /// All of them, and those that are given as words; `None` if there are none.
    pub(super) async fn read(self, words: Vec<String>, terminal: &Terminal) -> Result<Option<Value>, Failure> {
        let words = [words, self.input].concat();
        if words.is_empty() && self.inputs.is_none() {
            return Ok(None);
        }
        let inputs = params::read(self.inputs.as_deref(), &words, terminal).await;
        inputs.map(Some).map_err(|failure| params::renamed(failure, "--inputs", "the inputs are"))
    }
}

fn parse_status(text: &str) -> Result<RunStatus, String> {
    let known = || format!("expected {}", RunStatus::ALL.map(RunStatus::as_str).join(", "));
    RunStatus::parse(text).ok_or_else(known)
}

impl Resource for RunView {
    const NOUN: &'static str = "run";
    const LIST: &'static str = "run list";
    const PATH: &'static [&'static str] = &["runs"];
    const EMPTY: &'static str = "no runs: countersign automation run NAME";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["automation_name", "status"]);
    const SHOWS_SPACES: bool = true;
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("status", Column::Whole, |one, _| Some(waiting(one))),
        Field::both("automation", Column::Cut, |one, _| Some(Cell::shown(name(one), &one.automation_id))),
        Field::both("version", Column::Number, |one, _| text(one.version.to_string())),
        Field::both("trigger", Column::Whole, |one, _| Some(trigger(one))),
        Field::both("asked", Column::Whole, |one, view| view.past(one.created_at)),
        Field::both("worked", Column::Extra, |one, _| Some(Cell::lasting(one.worked_ms))),
        Field::line("cost", |one, _| one.cost_usd.as_ref().map(|cost| Cell::text(cost_words(cost, &one.unpriced)))),
        Field::line("waits for", |one, _| maybe(one.invocation_id.as_ref())),
        Field::line("error", |one, _| maybe(one.error.as_ref().map(|error| format!("{}: {}", error.code, error.message)))),
        Field::line("failed step", |one, _| maybe(one.error.as_ref().and_then(|error| error.step_id.as_ref()))),
        Field::line("inputs", |one, _| text(one.inputs.to_string())),
        Field::line("payload", |one, _| maybe(one.trigger_payload.as_ref().map(ToString::to_string))),
        Field::line("output", |one, _| maybe(one.output.as_ref().map(ToString::to_string))),
        Field::line("rerun of", |one, _| maybe(one.rerun_of.as_ref())),
        Field::line("asked by", |one, view| view.who(one.asked_by.as_ref()?)),
        Field::line("cancelled by", |one, view| view.who(one.cancelled_by.as_ref()?)),
        Field::line("space", |one, view| view.space(&one.space_id)),
        Field::line("session", |one, _| text(&one.session_id)),
        Field::line("ended", |one, view| view.past(one.ended_at?)),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn more(&self, record: Record) -> Record {
        self.steps.iter().fold(record, |record, step| record.with("step", Cell::text(step_line(step))))
    }

    fn next(&self) -> Option<String> {
        match (self.waiting_for, &self.invocation_id, self.status) {
            (Some(WaitingFor::Approval | WaitingFor::Person), Some(invocation), _) => Some(format!("countersign show {invocation}")),
            (_, _, RunStatus::Failed | RunStatus::TimedOut) => Some(format!("countersign run rerun {}", self.id)),
            (_, _, status) if !status.is_final() => Some(format!("countersign run watch {}", self.id)),
            _ => None,
        }
    }
}

/// What a run did cost, and what of it counts nothing.
fn cost_words(usd: &str, unpriced: &[String]) -> String {
    if unpriced.is_empty() {
        return format!("${}", clean::line(usd));
    }
    format!("${} (no price, so $0: {})", clean::line(usd), clean::line(&unpriced.join(", ")))
}

fn name(run: &RunView) -> &str {
    run.automation_name.as_deref().unwrap_or(&run.automation_id)
}

/// What started it. A rerun has the type of the run that it repeats, so that alone would hide that somebody asked for it once more.
fn trigger(run: &RunView) -> Cell {
    let trigger = Cell::text(run.trigger_id.as_deref().unwrap_or(run.trigger_type.as_str()));
    if run.rerun_of.is_some() { trigger.marked(" (rerun)") } else { trigger }
}

/// The status of a run, as its symbol and its word.
pub(super) fn status(status: RunStatus) -> Cell {
    let (symbol, tone) = match status {
        RunStatus::Pending | RunStatus::Waiting => ("◷", Tone::Warn),
        RunStatus::Running => ("●", Tone::Primary),
        RunStatus::Succeeded => ("✓", Tone::Ok),
        RunStatus::Failed | RunStatus::TimedOut => ("✗", Tone::Danger),
        RunStatus::Cancelled => ("–", Tone::Muted),
        RunStatus::Quarantined => ("▣", Tone::Warn),
    };
    Cell::shown(format!("{symbol} {status}"), status.as_str()).toned(tone)
}

/// With what it waits for.
fn waiting(run: &RunView) -> Cell {
    match run.waiting_for.filter(|_| run.status == RunStatus::Waiting) {
        Some(WaitingFor::Approval) => status(run.status).and(" for approval"),
        Some(WaitingFor::Retry) => status(run.status).and(" for the next attempt"),
        Some(WaitingFor::Reconcile) => status(run.status).and(" for an outcome"),
        Some(WaitingFor::Person) => status(run.status).and(" for a person"),
        None => status(run.status),
    }
}

/// The call that the run waits for a person with.
pub(super) fn asked_of_a_person(run: &RunView) -> Option<&String> {
    let waits = run.waiting_for.is_some_and(|waits| matches!(waits, WaitingFor::Approval | WaitingFor::Person));
    run.invocation_id.as_ref().filter(|_| waits && !run.status.is_final())
}

/// The command that answers a call which a run waits for a person with: one that is in doubt is looked at, and settled from there.
fn answered_with(run: &RunView, invocation: &str) -> String {
    let verb = if run.waiting_for == Some(WaitingFor::Approval) { "approve" } else { "show" };
    format!("countersign {verb} {}", clean::line(invocation))
}

/// `◷ deliver slack.send_message waits inv_…`: the step that waits, which is not among those that have ended. Programs have the call in the
/// document.
async fn waiting_step(run: &RunView, client: &Client, terminal: &Terminal) -> Option<String> {
    let id = run.invocation_id.as_deref().filter(|_| run.status == RunStatus::Waiting && !terminal.is_document())?;
    // Whoever may read a run may not always read its calls.
    let (call, _) = outcome::get(id, client).await.ok()?;
    let step = call.reason.as_deref().and_then(logs::step_of)?;
    Some(format!("◷ {step} {} waits {id}", call.action))
}

/// `✓ research files.read_text #3 inv_…`.
pub(super) fn step_line(step: &StepView) -> String {
    let symbol = match step.status {
        StepStatus::Succeeded => "✓",
        StepStatus::Failed | StepStatus::TimedOut => "✗",
        StepStatus::Skipped => "–",
    };
    let receipt = step.receipt.as_ref().map(|receipt| format!(" #{}", receipt.seq)).unwrap_or_default();
    let error = step.error.as_ref().map(|error| format!(": {}: {}", error.code, error.message)).unwrap_or_default();
    let call = step.invocation_id.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
    let copied = if step.copied_from.is_some() { " (taken over)" } else { "" };
    format!("{symbol} {} {}{receipt}{call}{copied}{error}", step.step_id, step.action)
}

impl RunCommand {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List { automation, status, failed, paging } => {
                let automation = match automation {
                    Some(named) => Some(automation_named(&named, client).await?),
                    None => None,
                };
                let status = status.or_else(|| failed.then_some(RunStatus::Failed)).map(|status| status.as_str().to_owned());
                let asked = Asked::of(&paging).only("automation", automation).only("status", status);
                resource::list::<RunView>(asked, client, terminal).await?;
            }
            Self::Show { run } => {
                let answer = client.get::<RunView>(&["runs", &run], &[]).await?;
                let waits = waiting_step(&answer.read, client, terminal).await;
                resource::tell_with(&answer, |record| record.with_some("step", maybe(waits)), client, terminal).await?;
            }
            Self::Watch { run } => return watch(&run, client, terminal).await,
            Self::Logs(logs) => return logs.run(client, terminal).await,
            Self::Cancel { run } => {
                let answer = client.post_empty::<RunView>(&["runs", &run, "cancel"]).await?;
                // The answer has the status from before: a worker ends the run.
                terminal.done("cancelling", &run, &answer.raw)?;
                terminal.next(format!("countersign run show {}", clean::line(&run)));
            }
            Self::Rerun(rerun) => return rerun.run(client, terminal).await,
        }
        Ok(Exit::Ok)
    }
}

impl Rerun {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let Self { run, words, inputs, edit_input, with_payload, step, follow } = self;
        let typed = inputs.typed(&words);
        let inputs = if edit_input { edited(&run, client, terminal).await? } else { inputs.read(words, terminal).await? };
        let request = RerunRequest { from_step: step, inputs, with_payload };
        let answer = client.post::<FiredResponse>(&["runs", &run, "rerun"], &request).await;
        let answer = answer.map_err(|failure| params::retyped(failure, &typed))?;
        started(&answer, None, follow, client, terminal).await
    }
}

/// The inputs of a run, as the user changes them; `None` if they stay as the run was given them.
async fn edited(run: &str, client: &Client, terminal: &Terminal) -> Result<Option<Value>, Failure> {
    let before = client.get::<RunView>(&["runs", run], &[]).await?.read.inputs;
    let text = serde_json::to_string_pretty(&before).map_err(|error| Failure::failed(error.to_string()))?;
    let about = About { what: "inputs", otherwise: "not started", elsewhere: "give them with --inputs, such as --inputs @file" };
    let after = params::exact(&editor::edited(&text, &about, terminal).await?, "what was edited is")?;
    if after == before {
        return Ok(None);
    }
    // What is shown is redacted. A mark that is left would be taken for the input itself.
    let left = marks::left_in(&after);
    if left.is_empty() {
        return Ok(Some(after));
    }
    let message = format!("not started: what was edited still has {}, in place of what the run was given", left.join(", "));
    Err(Failure::usage(message).hint("give all inputs with --input; if you change nothing, the run's own are used"))
}

/// Tells what a request to run came to, and follows the run if that was asked for. The id goes to stdout as data. `automation` is its id, if
/// that is known.
pub(super) async fn started(
    answer: &Answer<FiredResponse>,
    automation: Option<&str>,
    follow: bool,
    client: &Client,
    terminal: &mut Terminal,
) -> Result<Exit, Failure> {
    let fired = &answer.read;
    let Some(run) = &fired.run_id else {
        let message = format!("nothing was started: {} ({})", fired.outcome, fired.reason);
        let failure = Failure::new(Exit::Conflict, message).cause(format!("it is firing `{}`", fired.firing_id));
        return Err(if fired.reason == FiringReason::AlreadyRunning { failure.hint(under_way(automation)) } else { failure });
    };
    if follow {
        return watch(run, client, terminal).await;
    }
    if terminal.is_document() {
        terminal.document(&answer.raw)?;
        return Ok(Exit::Ok);
    }
    terminal.line(clean::line(run))?;
    terminal.next(format!("countersign run watch {}", clean::line(run)));
    Ok(Exit::Ok)
}

/// What to do about a run that is under way already.
fn under_way(automation: Option<&str>) -> String {
    let only = automation.map(|id| format!(" --automation {}", clean::line(id))).unwrap_or_default();
    format!("see what is under way with `countersign run list{only}`; with `execution.concurrency` `queue` the next one waits for it")
}

/// Follows a run until it has ended, and tells each step as it ends.
async fn watch(run: &str, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let (mut told, mut asked_for) = (0, None);
    loop {
        let answer = client.get::<RunView>(&["runs", run], &[]).await?;
        let now = &answer.read;
        if !terminal.is_document() {
            now.steps.iter().skip(told).for_each(|step| terminal.note(clean::line(&step_line(step))));
            told = told.max(now.steps.len());
            let invocation = asked_of_a_person(now).cloned();
            if let Some(invocation) = invocation.as_ref().filter(|_| invocation != asked_for) {
                terminal.note(format!("{} · {}", Tone::Warn.paint("◷ waits for a person"), answered_with(now, invocation)));
            }
            asked_for = invocation;
        }
        if now.status.is_final() {
            resource::tell(&answer, client, terminal).await?;
            return Ok(exit_of(now.status));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

const fn exit_of(status: RunStatus) -> Exit {
    match status {
        RunStatus::Succeeded => Exit::Ok,
        RunStatus::Failed | RunStatus::TimedOut | RunStatus::Quarantined => Exit::Failed,
        RunStatus::Cancelled => Exit::Conflict,
        RunStatus::Pending | RunStatus::Running | RunStatus::Waiting => Exit::Pending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_the_command_as_it_ended() {
        assert_eq!(exit_of(RunStatus::Succeeded), Exit::Ok);
        for status in RunStatus::ALL.into_iter().filter(|status| *status != RunStatus::Succeeded) {
            assert_ne!(exit_of(status), Exit::Ok, "{status}");
            assert_eq!(exit_of(status) == Exit::Pending, !status.is_final(), "{status}");
        }
    }
}
