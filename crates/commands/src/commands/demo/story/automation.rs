//! The chapters of the automation: one of the gallery is saved, and run. Its steps go on by themselves until one of them has to ask.

use super::{End, Story};
use crate::commands::demo::stage::{PAUSE, Verdict};
use crate::commands::{outcome, runs};
use crate::shared::*;
use api::Page;
use api::automation::{AutomationView, FiredResponse, PlanView, PlannedStepView, SavedAutomationResponse};
use api::run::{RunView, StepView};
use countersign_core::Mode;
use countersign_core::run::{RunStatus, StepStatus};
use serde_json::{Value, json};

/// A starter of the gallery, and its definition with what its fields begin with.
const STARTER: &str = "morning-note";
const DEFINITION: &str = include_str!("morning-note.json");

impl Story<'_> {
    /// What an automation will do is known before it has done anything.
    pub(super) async fn automation(&mut self) -> Result<(End, AutomationView), Failure> {
        self.says("Somebody should tell the team each working morning what came in. The gallery has an automation for it.");
        let saved = if self.is_script { self.saves().await? } else { self.waits_for_automation().await? };
        let plan = self.stage.owner.get::<PlanView>(&["automations", &saved.id, "plan"], &[]).await?.read;
        let asks = plan.steps.iter().filter(|step| step.mode == Mode::RequireApproval).count();
        let runs = plan.steps.iter().filter(|step| step.mode == Mode::Allow).count();
        let times = plan.schedules.first().map(|one| format!(", and fires {} ({})", one.schedule, one.timezone)).unwrap_or_default();
        let steps: Vec<_> = plan.steps.iter().map(foreseen).collect();
        let words = format!("`{}` is saved{times}: {}", saved.name, steps.join(", "));
        Ok((End::new(asks == 1 && runs + 1 == plan.steps.len() && runs > 0, words), saved))
    }

    /// The step that tells people waits for one of them, inside the run.
    pub(super) async fn run(&mut self, automation: &AutomationView) -> Result<End, Failure> {
        let run = if self.is_script { self.starts(automation).await? } else { self.waits_for_run(automation).await? };
        let ended = self.follows(&run).await?;
        let (Some(last), true) = (ended.steps.last(), is_whole(&ended)) else {
            let why = ended.error.as_ref().map(|error| format!(": {}", error.message)).unwrap_or_default();
            return Ok(End::new(false, format!("it went otherwise: the run is {}{why}", ended.status)));
        };
        let call = outcome::get(last.invocation_id.as_deref().unwrap_or_default(), &self.stage.owner).await?.0;
        let said = call.params["body"].as_str().unwrap_or_default();
        let receipts: Vec<_> = ended.steps.iter().filter_map(receipt_of).collect();
        let words = format!(
            "its steps went on by themselves until `{}`, which waited for a person inside the run and said “{said}”; receipts {}",
            last.step_id,
            receipts.join(", ")
        );
        Ok(End::new(call.answer.is_some(), words))
    }

    async fn saves(&self) -> Result<AutomationView, Failure> {
        let definition: Value = serde_json::from_str(DEFINITION).map_err(|error| Failure::failed(error.to_string()))?;
        let answer = self.stage.owner.post::<SavedAutomationResponse>(&["automations"], &json!({ "definition": definition })).await?;
        answer.read.automation.ok_or_else(|| Failure::failed("the automation was not saved: it is a draft"))
    }

    /// Waits until the person has saved an automation, whichever they like.
    async fn waits_for_automation(&mut self) -> Result<AutomationView, Failure> {
        let stage = self.stage;
        let file = stage.file("morning-note.json");
        std::fs::write(&file, DEFINITION).map_err(|error| Failure::file(&file, &error))?;
        let page = stage.page(&format!("automations/gallery?starter={STARTER}"));
        self.advises(&format!("press “Go on”, then “Review & save…” on {page}"));
        self.terminal.next(format!("countersign automation apply -f {}", file.display()));
        loop {
            let saved = stage.owner.get::<Page<AutomationView>>(&["automations"], &[]).await?.read.items;
            if let Some(newest) = saved.into_iter().next() {
                return Ok(newest);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn starts(&self, automation: &AutomationView) -> Result<String, Failure> {
        let fired = self.stage.owner.post::<FiredResponse>(&["automations", &automation.id, "run"], &json!({})).await?.read;
        let nothing = || Failure::failed(format!("nothing was started: {} ({})", fired.outcome, fired.reason));
        fired.run_id.clone().ok_or_else(nothing)
    }

    /// Waits until the person, or its schedule, has started a run.
    async fn waits_for_run(&mut self, automation: &AutomationView) -> Result<String, Failure> {
        let stage = self.stage;
        self.advises(&format!("press “Run now…” on {}", stage.page(&format!("automations/{}", automation.id))));
        self.terminal.next(format!("countersign automation run {}", automation.id));
        loop {
            let runs = stage.owner.get::<Page<RunView>>(&["runs"], &[("automation", automation.id.clone())]).await?.read.items;
            if let Some(newest) = runs.into_iter().next() {
                return Ok(newest.id);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Tells each step as it ends, and asks the person where the run does.
    async fn follows(&mut self, run: &str) -> Result<RunView, Failure> {
        let (mut told, mut asked) = (0, None);
        loop {
            let now = self.stage.owner.get::<RunView>(&["runs", run], &[]).await?.read;
            for step in now.steps.iter().skip(told) {
                self.says(&runs::step_line(step));
            }
            told = told.max(now.steps.len());
            if now.status.is_final() {
                return Ok(now);
            }
            let call = runs::asked_of_a_person(&now).cloned();
            if let Some(call) = call.as_ref().filter(|_| call != asked) {
                self.asked_inside(run, call).await?;
            }
            asked = call;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn asked_inside(&mut self, run: &str, call: &str) -> Result<(), Failure> {
        if self.is_script {
            let call = outcome::get(call, &self.stage.owner).await?.0;
            return self.stage.decide(&call, Verdict::Approve).await;
        }
        self.advises(&format!("approve it inside its run, on {}", self.stage.page(&format!("runs/{run}"))));
        self.terminal.next(Verdict::Approve.command(&clean::line(call)));
        Ok(())
    }
}

/// Whether every step succeeded and has its receipt.
fn is_whole(run: &RunView) -> bool {
    run.status == RunStatus::Succeeded && run.steps.iter().all(|step| step.status == StepStatus::Succeeded && step.receipt.is_some())
}

fn receipt_of(step: &StepView) -> Option<String> {
    step.receipt.as_ref().map(|receipt| format!("#{}", receipt.seq))
}

fn foreseen(step: &PlannedStepView) -> String {
    let does = match step.mode {
        Mode::Allow => "runs by itself",
        Mode::RequireApproval => "asks first",
        Mode::Deny => "is denied",
    };
    format!("`{}` {does}", step.step_id)
}
