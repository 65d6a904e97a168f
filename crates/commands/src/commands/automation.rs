//! `countersign automation`: definitions that run by themselves. They are checked, saved, run, paused and carried elsewhere.

mod apply;
mod draft;
mod draft_view;
mod dry_run;
mod edit;
mod file;
mod mistakes;

use super::action::params;
use super::automation_name::automation_named;
use super::runs::{self, Inputs};
use crate::client::Method;
use crate::shared::*;
use api::Page;
use api::automation::{
    AutomationVersionView, AutomationView, DefinitionDiffView, DefinitionRequest, DraftView, FiredResponse, ValidDefinitionResponse,
};
use api::run::RunAutomationRequest;
use clap::{Args, Subcommand, ValueHint};
use countersign_core::automation::AutomationStatus;
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(crate) enum Automation {
    /// List automations, newest first
    #[command(before_help = "Examples:
  countersign automation list
  countersign automation list --status archived")]
    List {
        /// Only those with this status; all but the archived ones when absent
        #[arg(long, value_parser = one_of(AutomationStatus::ALL, AutomationStatus::as_str))]
        status: Option<AutomationStatus>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show an automation
    #[command(before_help = "Examples:\n  countersign automation show 'Daily digest'")]
    Show {
        /// Its name or id
        automation: String,
    },
    /// Check a definition, and tell all its mistakes at once
    #[command(before_help = "Examples:\n  countersign automation validate -f digest.json")]
    Validate(Definition),
    /// Show what would happen to each step, with which params, and when it would fire; nothing is performed
    #[command(before_help = dry_run::EXAMPLES)]
    DryRun(dry_run::DryRun),
    /// Save the definition of a file; of anybody but a person it becomes a draft
    #[command(before_help = apply::EXAMPLES)]
    Apply(apply::Apply),
    /// Change the definition of an automation in $VISUAL or $EDITOR, and save it
    #[command(before_help = "Examples:\n  countersign automation edit 'Daily digest'")]
    Edit {
        /// Its name or id
        automation: String,
    },
    /// Show how the definition of a file differs from the saved one
    #[command(before_help = "Examples:
  countersign automation diff -f digest.json                                        with the one of its name
  countersign automation diff -f digest.json --space lab                            with the one of its name in that space
  countersign automation diff -f digest.json --automation aut_…")]
    Diff(Diff),
    /// Run an automation now
    #[command(before_help = "Examples:
  countersign automation run 'Daily digest'
  countersign automation run 'Daily digest' since=2026-01-31T12:00:00Z tags:='[\"news\"]' --follow")]
    Run(Run),
    /// Pause an automation: nothing fires it until it is resumed, but whoever runs it by name still does
    #[command(before_help = "Examples:\n  countersign automation pause 'Daily digest'")]
    Pause {
        /// Its name or id
        automation: String,
    },
    /// Resume an automation; its schedules start from now
    #[command(before_help = "Examples:\n  countersign automation resume 'Daily digest'")]
    Resume {
        /// Its name or id
        automation: String,
    },
    /// Archive an automation for good; its history stays
    #[command(before_help = "Examples:\n  countersign automation archive 'Daily digest'")]
    Archive {
        /// Its name or id
        automation: String,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// List every version of an automation, newest first
    #[command(before_help = "Examples:\n  countersign automation history 'Daily digest'")]
    History {
        /// Its name or id
        automation: String,
        #[command(flatten)]
        paging: Paging,
    },
    /// Print the definition of an automation, with every default written in
    #[command(before_help = "Examples:
  countersign automation export 'Daily digest' > digest.json
  countersign automation export 'Daily digest' --version-number 3 -o yaml")]
    Export {
        /// Its name or id
        automation: String,
        /// Which version; the current one when absent
        #[arg(long, value_name = "N")]
        version_number: Option<u32>,
    },
    /// Take a definition from elsewhere: it becomes a draft, and shows what to check
    #[command(before_help = "Examples:\n  countersign automation import -f from-a-friend.json")]
    Import(Definition),
    /// Manage drafts: definitions that wait for a person to save them
    #[command(subcommand)]
    Draft(draft::Draft),
}

#[derive(Debug, Args)]
pub(crate) struct Definition {
    /// The file with the definition, JSON or YAML; - reads JSON from stdin
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: String,
    /// The space that it would act in; main when absent
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
}

impl Definition {
    async fn request(self, terminal: &Terminal) -> Result<DefinitionRequest, Failure> {
        Ok(DefinitionRequest { definition: file::read(&self.file, terminal).await?, space: self.space })
    }
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The file with the definition, JSON or YAML; - reads JSON from stdin
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: String,
    /// The space of the one of the same name; any space when absent
    #[arg(long, value_name = "SPACE", conflicts_with = "automation")]
    space: Option<String>,
    /// The automation; the one of the same name when absent
    #[arg(long, value_name = "AUTOMATION")]
    automation: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Its name or id
    automation: String,
    /// Its inputs: key=value for a text, key:=json for anything else
    #[arg(value_name = "INPUT")]
    words: Vec<String>,
    #[command(flatten)]
    inputs: Inputs,
    /// The same key with the same inputs starts one run
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Follow the run until it has ended
    #[arg(long)]
    follow: bool,
}

impl Resource for AutomationView {
    const NOUN: &'static str = "automation";
    const LIST: &'static str = "automation list";
    const PATH: &'static [&'static str] = &["automations"];
    const EMPTY: &'static str = "no automations: countersign automation apply -f FILE";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["name", "status"]);
    const SHOWS_SPACES: bool = true;
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("name", Column::Cut, |one, _| text(&one.name)),
        Field::both("status", Column::Whole, |one, _| Some(status(one.status))),
        Field::both("version", Column::Number, |one, _| text(one.version.to_string())),
        Field::both("next firing", Column::Whole, |one, view| view.future(one.next_due_at?)),
        Field::both("last run", Column::Whole, |one, _| Some(runs::status(one.last_run.as_ref()?.status))),
        Field::both("space", Column::Extra, |one, view| view.space(&one.space_id)),
        Field::both("created by", Column::Extra, |one, view| view.who(&one.created_by)),
        Field::line("last run id", |one, _| maybe(one.last_run.as_ref().map(|run| &run.id))),
        Field::line("created", |one, view| view.past(one.created_at)),
        Field::line("changed", |one, view| view.past(one.changed_at)),
        Field::line("digest", |one, _| text(&one.digest)),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn more(&self, record: Record) -> Record {
        self.triggers.iter().fold(record, |record, trigger| record.with("trigger", Cell::text(super::trigger::in_words(trigger))))
    }

    fn next(&self) -> Option<String> {
        match self.status {
            AutomationStatus::Active => Some(format!("countersign automation run {}", self.id)),
            AutomationStatus::Paused => Some(format!("countersign automation resume {}", self.id)),
            AutomationStatus::Archived => None,
        }
    }
}

fn status(status: AutomationStatus) -> Cell {
    let (symbol, tone) = match status {
        AutomationStatus::Active => ("●", Tone::Ok),
        AutomationStatus::Paused => ("‖", Tone::Warn),
        AutomationStatus::Archived => ("–", Tone::Muted),
    };
    Cell::shown(format!("{symbol} {status}"), status.as_str()).toned(tone)
}

impl Resource for AutomationVersionView {
    const NOUN: &'static str = "version";
    const LIST: &'static str = "automation history";
    const PATH: &'static [&'static str] = &["automations"];
    const EMPTY: &'static str = "no versions";
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("version", Column::Number, |one, _| text(one.version.to_string())),
        Field::both("saved by", Column::Whole, |one, view| view.who(&one.saved_by)),
        Field::both("saved", Column::Whole, |one, view| view.past(one.saved_at)),
        Field::both("digest", Column::Extra, |one, _| text(&one.digest)),
    ];

    fn id(&self) -> &str {
        &self.digest
    }
}

impl Automation {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List { status, paging } => {
                let asked = Asked::of(&paging).only("status", status.map(|status| status.to_string()));
                resource::list::<AutomationView>(asked, client, terminal).await?;
            }
            Self::Show { automation } => {
                let id = automation_named(&automation, client).await?;
                resource::show::<AutomationView>(&id, client, terminal).await?;
            }
            Self::Validate(definition) => return validate(definition, client, terminal).await,
            Self::DryRun(asked) => return asked.run(client, terminal).await,
            Self::Apply(apply) => return apply.run(client, terminal).await,
            Self::Edit { automation } => return edit::edit(&automation, client, terminal).await,
            Self::Diff(diff) => return diff.run(client, terminal).await,
            Self::Run(run) => return run.run(client, terminal).await,
            Self::Pause { automation } => change(&automation, "pause", client, terminal).await?,
            Self::Resume { automation } => change(&automation, "resume", client, terminal).await?,
            Self::Archive { automation, agreed } => {
                let question = format!("Archive automation `{}`? Nothing runs it any more.", clean::line(&automation));
                terminal.consent(&question, agreed.consent(client)).await?;
                change(&automation, "archive", client, terminal).await?;
            }
            Self::History { automation, paging } => history(&automation, &paging, client, terminal).await?,
            Self::Export { automation, version_number } => {
                let id = automation_named(&automation, client).await?;
                let query: Vec<_> = version_number.map(|number| ("version", number.to_string())).into_iter().collect();
                let answer = client.get::<Value>(&["automations", &id, "export"], &query).await?;
                terminal.document(&answer.raw)?;
            }
            Self::Import(definition) => {
                let request = definition.request(terminal).await?;
                let answer = client.post::<DraftView>(&["automations", "import"], &request).await;
                let answer = answer.map_err(|failure| mistakes::refused(failure, terminal))?;
                draft_view::tell(&answer, client, terminal).await?;
            }
            Self::Draft(draft) => return draft.run(client, terminal).await,
        }
        Ok(Exit::Ok)
    }
}

async fn change(named: &str, verb: &str, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let id = automation_named(named, client).await?;
    let answer = client.post_empty::<AutomationView>(&["automations", &id, verb]).await?;
    resource::tell(&answer, client, terminal).await
}

async fn history(named: &str, paging: &Paging, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let id = automation_named(named, client).await?;
    let answer = client.get::<Page<AutomationVersionView>>(&["automations", &id, "versions"], &paging.query()).await?;
    resource::write(&answer.read.items, &answer.raw, AutomationVersionView::EMPTY.to_owned(), client, terminal).await?;
    if let Some(next) = &answer.read.next {
        terminal.next(format!("countersign automation history {id}{}", paging.next(next)));
    }
    Ok(())
}

async fn validate(definition: Definition, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let request = definition.request(terminal).await?;
    let answer = client.question::<ValidDefinitionResponse>(&["automations", "validate"], &request).await;
    let answer = answer.map_err(|failure| mistakes::refused(failure, terminal))?;
    if terminal.is_document() {
        terminal.document(&answer.raw)?;
    } else {
        mistakes::tell(&answer.read.warnings, Tone::Warn, terminal);
        mistakes::tell(&answer.read.flags, Tone::Muted, terminal);
        terminal.note(format!("{} the definition has no mistakes", Tone::Ok.paint("✓")));
    }
    Ok(Exit::Ok)
}

impl Diff {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let Self { file, space, automation } = self;
        let definition = file::read(&file, terminal).await?;
        let name = apply::name_of(&definition);
        let id = match (automation, space) {
            (None, Some(space)) => {
                let found = apply::of_name(&name, Some(space.as_str()), client).await?;
                let unknown = || format!("there is no automation `{}` in the space `{}`", clean::line(&name), clean::line(&space));
                found.ok_or_else(|| Failure::new(Exit::NotFound, unknown()).hint("countersign automation list"))?
            }
            (named, _) => automation_named(&named.unwrap_or(name), client).await?,
        };
        let request = DefinitionRequest { space: None, definition };
        let answer = client.question::<DefinitionDiffView>(&["automations", &id, "diff"], &request).await;
        let answer = answer.map_err(|failure| mistakes::refused(failure, terminal))?;
        let short = |value: &Option<Value>| Cell::maybe(value.as_ref().map(ToString::to_string));
        let mut table = Table::new([Column::Whole("PLACE"), Column::Cut("BEFORE"), Column::Cut("AFTER")], "no difference");
        for change in &answer.read.changes {
            table.row([Cell::text(&change.pointer), short(&change.before), short(&change.after)]);
        }
        terminal.list(&answer.raw, &table)?;
        Ok(Exit::Ok)
    }
}

impl Run {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let typed = self.inputs.typed(&self.words);
        let inputs = self.inputs.read(self.words, terminal).await?;
        let id = automation_named(&self.automation, client).await?;
        let headers: Vec<_> = self.idempotency_key.map(|key| ("idempotency-key", key)).into_iter().collect();
        let request = inputs.map_or_else(RunAutomationRequest::default, |inputs| RunAutomationRequest { inputs });
        let answer = client.change_with::<FiredResponse>(Method::POST, &["automations", &id, "run"], &headers, Some(&request)).await;
        let answer = answer.map_err(|failure| params::retyped(mistakes::refused(failure, terminal), &typed))?;
        runs::started(&answer, Some(&id), self.follow, client, terminal).await
    }
}
