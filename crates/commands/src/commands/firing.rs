//! `countersign firing`: what the triggers of an automation came to, also where nothing ran.

use super::automation_name::automation_named;
use crate::shared::*;
use api::Page;
use api::automation::FiringView;
use clap::{Args, Subcommand};
use countersign_core::automation::FiringOutcome;

#[derive(Debug, Subcommand)]
pub(crate) enum Firing {
    /// List the firings of an automation, newest first: what ran, what did not, and why
    #[command(before_help = "Examples:
  countersign firing list 'Daily digest'
  countersign firing list 'Daily digest' --no-run                    what did not run, and why
  countersign firing list 'Daily digest' --outcome skipped")]
    List(List),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// The name or id of the automation
    automation: String,
    /// Only those of this trigger
    #[arg(long, value_name = "TRIGGER")]
    trigger: Option<String>,
    /// Only those that came to this: started, skipped, dropped, deduplicated or refused
    #[arg(long, value_name = "OUTCOME", value_parser = outcome)]
    outcome: Option<FiringOutcome>,
    /// Only those that started no run
    #[arg(long)]
    no_run: bool,
    #[command(flatten)]
    paging: Paging,
}

fn outcome(text: &str) -> Result<FiringOutcome, String> {
    let known = || format!("expected {}", FiringOutcome::ALL.map(FiringOutcome::as_str).join(", "));
    FiringOutcome::parse(text).ok_or_else(known)
}

impl Resource for FiringView {
    const NOUN: &'static str = "firing";
    const LIST: &'static str = "firing list";
    const PATH: &'static [&'static str] = &["automations"];
    const EMPTY: &'static str = "it never fired";
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("outcome", Column::Whole, |one, _| Some(outcome_cell(one.outcome))),
        Field::both("reason", Column::Whole, |one, _| text(one.reason.as_str())),
        Field::both("count", Column::Number, |one, _| text(one.count.to_string())),
        Field::both("trigger", Column::Whole, |one, _| maybe(one.trigger_id.as_ref())),
        Field::both("run", Column::Below, |one, _| maybe(one.run_id.as_ref())),
        Field::both("detail", Column::Cut, |one, _| maybe(one.detail.as_ref())),
        Field::both("at", Column::Whole, |one, view| view.past(one.at)),
    ];

    fn id(&self) -> &str {
        &self.id
    }
}

fn outcome_cell(outcome: FiringOutcome) -> Cell {
    let tone = match outcome {
        FiringOutcome::Started => Tone::Ok,
        FiringOutcome::Skipped | FiringOutcome::Deduplicated => Tone::Muted,
        FiringOutcome::Dropped => Tone::Warn,
        FiringOutcome::Refused => Tone::Danger,
    };
    Cell::text(outcome.as_str()).toned(tone)
}

impl Firing {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let Self::List(List { automation, trigger, outcome, no_run, paging }) = self;
        let id = automation_named(&automation, client).await?;
        let outcome = outcome.map(|outcome| outcome.as_str().to_owned());
        let only = [("trigger", trigger), ("outcome", outcome), ("no_run", no_run.then(|| "true".to_owned()))];
        let only: Vec<_> = only.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let query: Vec<_> = paging.query().into_iter().chain(only.clone()).collect();
        let answer = client.get::<Page<FiringView>>(&["automations", &id, "firings"], &query).await?;
        resource::write(&answer.read.items, &answer.raw, FiringView::EMPTY.to_owned(), client, terminal).await?;
        if let Some(next) = &answer.read.next {
            let flag =
                |(name, value): &(&str, String)| if *name == "no_run" { " --no-run".to_owned() } else { format!(" --{name} {value}") };
            let typed: String = only.iter().map(flag).collect();
            terminal.next(format!("countersign firing list {id}{typed}{}", paging.next(next)));
        }
        Ok(Exit::Ok)
    }
}
