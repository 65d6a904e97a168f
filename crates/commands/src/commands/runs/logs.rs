//! `countersign run logs`: what happened in a run, one line each, in the order in which it happened.

use super::{LOOK_EVERY, answered_with, asked_of_a_person};
use crate::commands::outcome;
use crate::shared::*;
use api::Page;
use api::invocation::{InvocationView, ProgressEvent};
use api::run::{RunView, StepView};
use clap::Args;
use countersign_core::run::{RunStatus, StepStatus};
use countersign_core::{Status, Timestamp};
use serde::{Deserialize as _, Serialize};

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign run logs run_…
  countersign run logs run_… --step deliver
  countersign run logs run_… -f                 until it has ended, and what its calls print";

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Its id
    run: String,
    /// Only of this step
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Go on until the run has ended, and tell what its calls print meanwhile
    #[arg(short, long)]
    follow: bool,
}

#[derive(Debug, PartialEq, Serialize)]
struct Line {
    at: Timestamp,
    /// Absent: it is about the whole run.
    step_id: Option<String>,
    text: String,
}

impl Logs {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let (mut told, mut asked_for, mut printed) = (0, None, (String::new(), 0));
        loop {
            let run = client.get::<RunView>(&["runs", &self.run], &[]).await?.read;
            let cancelled_by = match run.cancelled_by.as_ref().filter(|_| run.status == RunStatus::Cancelled) {
                Some(by) => Some(Names::load(client, terminal).await.name(by)),
                None => None,
            };
            let lines = lines(&run, cancelled_by.as_deref());
            lines.iter().skip(told).try_for_each(|line| self.tell(line, terminal))?;
            told = lines.len();
            let invocation = asked_of_a_person(&run).cloned();
            if let Some(invocation) = invocation.as_ref().filter(|_| invocation != asked_for) {
                let line = waits(&run, invocation, client, terminal).await;
                self.tell(&line, terminal)?;
            }
            asked_for = invocation;
            if !self.follow || run.status.is_final() {
                return Ok(Exit::Ok);
            }
            self.tell_printed(&run, &mut printed, client, terminal).await?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn tell(&self, line: &Line, terminal: &mut Terminal) -> Result<(), Failure> {
        if self.step.is_some() && self.step != line.step_id {
            return Ok(());
        }
        if terminal.is_document() {
            let document = serde_json::to_value(line).map_err(|error| Failure::failed(error.to_string()))?;
            terminal.line(document)?;
        } else {
            let step = clean::line(line.step_id.as_deref().unwrap_or("-"));
            terminal.line(format!("{}  {step}  {}", line.at, clean::line(&line.text)))?;
        }
        terminal.flush()
    }

    /// Tells what the call prints that is under way, until it ends. `printed` is the call whose lines were told last, and how many of them.
    async fn tell_printed(
        &self,
        run: &RunView,
        printed: &mut (String, u64),
        client: &Client,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        let query = [("session", run.session_id.clone()), ("status", Status::Running.as_str().to_owned()), ("limit", "1".to_owned())];
        let calls = client.get::<Page<InvocationView>>(&["invocations"], &query).await?.read.items;
        let Some(call) = calls.into_iter().next() else { return Ok(()) };
        if printed.0 != call.id {
            *printed = (call.id.clone(), 0);
        }
        let path = ["invocations", call.id.as_str(), "progress"];
        // Whoever may read a run may not always follow its calls.
        let Ok(mut events) = client.events(&path, &[("after", printed.1.to_string())]).await else { return Ok(()) };
        while let Some(event) = events.next().await?.filter(|event| event.name != "end") {
            if let Ok(ProgressEvent { seq, text }) = ProgressEvent::deserialize(&event.data) {
                printed.1 = seq;
                let step_id = call.reason.as_deref().and_then(step_of).map(str::to_owned);
                self.tell(&Line { at: terminal.now(), step_id, text }, terminal)?;
            }
        }
        Ok(())
    }
}

/// The step of a call, which its reason begins with: step `deliver` of the automation `Daily digest`.
pub(super) fn step_of(reason: &str) -> Option<&str> {
    Some(reason.strip_prefix("step `")?.split_once('`')?.0)
}

/// That the run waits for a person, and the command to answer with. It is told while that is so: the wait leaves no line once it is over.
async fn waits(run: &RunView, invocation: &str, client: &Client, terminal: &Terminal) -> Line {
    // Whoever may read a run may not always read its calls.
    let call = outcome::get(invocation, client).await.ok().map(|(call, _)| call);
    let at = call.as_ref().map_or_else(|| terminal.now(), |call| call.created_at);
    let step_id = call.as_ref().and_then(|call| call.reason.as_deref()).and_then(step_of).map(str::to_owned);
    Line { at, step_id, text: format!("waits for a person: {}", answered_with(run, invocation)) }
}

/// What happened so far. Later looks at the same run only add lines.
fn lines(run: &RunView, cancelled_by: Option<&str>) -> Vec<Line> {
    let of_run = |at: Timestamp, text: String| Line { at, step_id: None, text };
    let trigger = run.trigger_id.as_deref().unwrap_or("a person or a program");
    let again = run.rerun_of.as_ref().map(|earlier| format!(", a rerun of {earlier}")).unwrap_or_default();
    let mut lines = vec![of_run(run.created_at, format!("asked for by {trigger}{again}"))];
    lines.extend(run.started_at.map(|at| of_run(at, format!("started, version {}", run.version))));
    lines.extend(run.steps.iter().flat_map(of_step));
    let why = run.error.as_ref().map(|error| format!(": {}: {}", error.code, error.message)).unwrap_or_default();
    let by = cancelled_by.map(|by| format!(" by {by}")).unwrap_or_default();
    lines.extend(run.ended_at.map(|at| of_run(at, format!("{}{by}{why}", run.status))));
    lines
}

fn of_step(step: &StepView) -> Vec<Line> {
    let line = |at: Timestamp, text: String| Line { at, step_id: Some(step.step_id.clone()), text };
    if let Some(run) = &step.copied_from {
        return vec![line(step.ended_at, format!("taken over from {run}"))];
    }
    let end = match (step.status, &step.error, &step.receipt) {
        (StepStatus::Skipped, _, _) => return vec![line(step.ended_at, "skipped: its `when` did not hold".to_owned())],
        (StepStatus::TimedOut, Some(error), _) => format!("timed out: {}", error.message),
        (StepStatus::TimedOut, None, _) => "timed out".to_owned(),
        (StepStatus::Failed, Some(error), _) => format!("failed: {}: {}", error.code, error.message),
        (StepStatus::Failed, None, _) => "failed".to_owned(),
        (StepStatus::Succeeded, _, Some(receipt)) => format!("succeeded, receipt #{}", receipt.seq),
        (StepStatus::Succeeded, _, None) => "succeeded".to_owned(),
    };
    vec![line(step.started_at, format!("calls {}", step.action)), line(step.ended_at, end)]
}

#[cfg(test)]
mod tests {
    use super::step_of;

    #[test]
    fn the_reason_of_a_call_names_its_step() {
        assert_eq!(step_of("step `deliver` of the automation `Daily `digest`"), Some("deliver"));
        assert_eq!(step_of("because"), None);
    }
}
