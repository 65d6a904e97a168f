//! `countersign automation dry-run`: what would happen to each step of a plan, and with which params. Nothing is performed.

use super::apply::{name_of, of_name};
use super::{file, mistakes};
use crate::commands::action::params;
use crate::commands::automation_name::automation_named;
use crate::commands::runs::Inputs;
use crate::shared::*;
use api::automation::{DryRunRequest, PlanView, PlannedStepView};
use clap::{Args, ValueHint};
use countersign_core::Timestamp;
use countersign_core::run::Phase;

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign automation dry-run -f digest.json
  countersign automation dry-run 'Daily digest'                                     the saved one, with what its last run came to
  countersign automation dry-run 'Daily digest' --input since=2026-01-31T12:00:00Z --run run_…";

#[derive(Debug, Args)]
pub(crate) struct DryRun {
    /// The name or id of a saved one
    #[arg(required_unless_present = "file")]
    automation: Option<String>,
    /// The file with a definition, JSON or YAML; - reads JSON from stdin
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "automation")]
    file: Option<String>,
    /// The space that it would act in; main when absent
    #[arg(long, value_name = "SPACE", requires = "file")]
    space: Option<String>,
    #[command(flatten)]
    inputs: Inputs,
    /// An earlier run, which stands for what is not known yet; the last one that succeeded when absent
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
}

const COLUMNS: &[Column] = &[
    Column::Whole("STEP"),
    Column::Whole("ACTION"),
    Column::Whole("TIER"),
    Column::Whole("MODE"),
    Column::Whole("RUNS"),
    Column::Cut("WHY"),
    Column::Under("PARAMS"),
];

impl DryRun {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let Self { automation, file, space, inputs, run } = self;
        let definition = match &file {
            Some(file) => Some(file::read(file, terminal).await?),
            None => None,
        };
        // A file is tried as what it would be if it were applied.
        let automation = match (&definition, automation) {
            (Some(definition), _) => of_name(&name_of(definition), space.as_deref(), client).await?,
            (None, automation) => Some(automation_named(automation.as_deref().unwrap_or_default(), client).await?),
        };
        let typed = inputs.typed(&[]);
        let inputs = inputs.read(Vec::new(), terminal).await?;
        let request = DryRunRequest { automation, space, definition, inputs, run };
        let answer = client.question::<PlanView>(&["automations", "dry-run"], &request).await;
        let answer = answer.map_err(|failure| params::retyped(mistakes::refused(failure, terminal), &typed))?;
        let mut table = Table::new(COLUMNS, "no steps");
        answer.read.steps.iter().for_each(|step| table.row(row(step)));
        terminal.list(&answer.raw, &table)?;
        if !terminal.is_document() {
            if let Some(run) = &answer.read.run_id {
                terminal.note(Tone::Muted.paint(format!("what is not known yet is taken from {}", clean::line(run))));
            }
            for schedule in &answer.read.schedules {
                let next: Vec<_> = schedule.next.iter().map(|at| local(*at, &schedule.timezone)).collect();
                let (trigger, words) = (clean::line(&schedule.trigger_id), clean::line(&schedule.schedule));
                terminal.note(format!("{trigger} fires {words} ({}): {}", clean::line(&schedule.timezone), next.join(", ")));
            }
            mistakes::tell(&answer.read.warnings, Tone::Warn, terminal);
            mistakes::tell(&answer.read.flags, Tone::Muted, terminal);
        }
        Ok(Exit::Ok)
    }
}

/// The time as a clock in the time zone shows it, or in UTC if the zone is not known here.
fn local(at: Timestamp, zone: &str) -> String {
    let there = jiff::Timestamp::from_microsecond(at.as_micros()).and_then(|at| at.in_tz(zone));
    there.map_or_else(|_| at.to_string(), |there| there.strftime("%a %Y-%m-%d %H:%M").to_string())
}

fn row(step: &PlannedStepView) -> [Cell; 7] {
    let runs = match step.when {
        Some(true) => Cell::text("yes"),
        Some(false) => Cell::text("no").toned(Tone::Muted),
        None => Cell::text("perhaps").toned(Tone::Warn),
    };
    let params = match (&step.error, &step.params) {
        (Some(error), _) => Cell::text(format!("{}: {}", error.code, error.message)).toned(Tone::Danger),
        (None, Some(params)) => Cell::text(params.to_string()),
        (None, None) if step.needs.is_empty() => Cell::missing(),
        (None, None) => Cell::text(format!("needs {}", step.needs.join(", "))).toned(Tone::Muted),
    };
    let why = Cell::text(step.tightened.join("; "));
    let name = Cell::text(&step.step_id);
    let name = if step.phase == Phase::OnFailure { name.and(" (on_failure)") } else { name };
    [name, Cell::text(&step.action), Cell::tier(step.tier), Cell::mode(step.mode), runs, why, params]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_firing_is_told_by_the_clock_of_its_time_zone() {
        let at = Timestamp::from_micros(1_763_164_800_000_000);
        assert_eq!(local(at, "Africa/Kigali"), "Sat 2025-11-15 02:00");
        assert_eq!(local(at, "Nowhere/At all"), at.to_string());
    }
}
