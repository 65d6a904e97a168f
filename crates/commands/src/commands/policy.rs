//! `countersign policy`: the org's own policies, in Cedar. They are shown, checked, set, and tried on recorded calls.

mod file;
mod place;
mod problems;

use crate::shared::*;
use crate::style;
use api::gates::{PoliciesFile, PoliciesSetResponse, PoliciesView, PolicySchemaResponse, WhatIfRequest, WhatIfResponse, WouldName};
use clap::{Args, Subcommand, ValueEnum};
use file::RulesFile;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Show the policies in force
    #[command(before_help = "Examples:\n  countersign policy show --gate abac > abac.cedar")]
    Show {
        /// Only those of this gate, as they were written
        #[arg(long, value_enum)]
        gate: Option<Gate>,
    },
    /// Replace all policies with those of a file
    #[command(before_help = file::EXAMPLES)]
    Set {
        /// TOML, JSON or YAML, or a folder with rbac.cedar, abac.cedar, consent.cedar, space.cedar
        file: PathBuf,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Check policies without saving them
    #[command(before_help = "Examples:\n  countersign policy check policies.toml\n  countersign policy check policies/")]
    Check {
        /// TOML, JSON or YAML, or a folder with rbac.cedar, abac.cedar, consent.cedar, space.cedar
        file: PathBuf,
    },
    /// Print what policies can refer to, as a Cedar schema
    #[command(before_help = "Examples:\n  countersign policy schema > countersign.cedarschema")]
    Schema,
    /// List every version of the policies, newest first
    #[command(before_help = "Examples:\n  countersign policy versions")]
    Versions(Paging),
    /// Decide recorded calls again with other policies or modes, and list where the outcome changes
    #[command(before_help = "Examples:
  countersign policy what-if policies.toml --last 30d
  countersign policy what-if policies/ --fail-on-change      for a pipeline
  countersign policy what-if modes.toml                      with [[modes]]: action, mode, locked, automation")]
    WhatIf(Try),
}

#[derive(Debug, Args)]
pub(crate) struct Try {
    /// Policies as for `policy set`, modes as [[modes]], or both
    file: PathBuf,
    /// How far back, such as 24h or 30d; 7d when absent
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    last: Option<Span>,
    /// Exit with 1 if any outcome changes
    #[arg(long)]
    fail_on_change: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Gate {
    Rbac,
    Abac,
    Consent,
    Space,
}

const CHANGE_COLUMNS: &[Column] =
    &[Column::Whole("INVOCATION"), Column::Whole("BEFORE → AFTER"), Column::Whole("ACTION"), Column::Cut("WHY"), Column::Extra("ASKED")];

impl Resource for PoliciesView {
    const NOUN: &'static str = "version";
    const LIST: &'static str = "policy versions";
    const PATH: &'static [&'static str] = &["policies", "versions"];
    const EMPTY: &'static str = "no policies were ever set";
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("version", Column::Number, |one, _| text(one.version.to_string())),
        Field::column("gates", Column::Cut, |one, _| {
            let gates: Vec<_> = GATES.into_iter().filter(|name| !text_of(&one.policies, name).trim().is_empty()).collect();
            text(if gates.is_empty() { "none".to_owned() } else { gates.join(", ") })
        }),
        Field::both("set by", Column::Extra, |one, view| view.who(one.set_by.as_ref()?)),
        Field::both("set", Column::Whole, |one, view| view.past(one.set_at?)),
    ];

    fn id(&self) -> &str {
        ""
    }
}

impl Policy {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Show { gate } => show(gate, client, terminal).await?,
            Self::Set { file, agreed } => {
                let policies = RulesFile::read(&file)?.policies_alone(&file)?;
                let question = format!("Replace every policy of the org with those in `{}`?", file.display());
                // Invalid policies are refused before the user is asked for confirmation.
                let checked = client.question::<PoliciesSetResponse>(&["policies", "check"], &policies).await;
                checked.map_err(|failure| problems::tell(failure, &policies, &file, terminal))?;
                terminal.consent(&question, agreed.consent(client)).await?;
                let answer = client.put::<PoliciesSetResponse>(&["policies"], &policies).await;
                tell(&answer.map_err(|failure| problems::tell(failure, &policies, &file, terminal))?, "✓ set", "version", terminal)?;
                terminal.next("countersign policy show");
            }
            Self::Check { file } => {
                let policies = RulesFile::read(&file)?.policies_alone(&file)?;
                let answer = client.question::<PoliciesSetResponse>(&["policies", "check"], &policies).await;
                tell(&answer.map_err(|failure| problems::tell(failure, &policies, &file, terminal))?, "✓ valid", "in force", terminal)?;
                terminal.next(format!("countersign policy what-if {}", file.display()));
            }
            Self::Schema => {
                let answer = client.get::<PolicySchemaResponse>(&["policies", "schema"], &[]).await?;
                if terminal.is_document() {
                    terminal.document(&answer.raw)?;
                } else {
                    terminal.line(clean::block(answer.read.schema.trim_end()))?;
                }
            }
            Self::Versions(paging) => drop(resource::list::<PoliciesView>(Asked::of(&paging), client, terminal).await?),
            Self::WhatIf(asked) => return asked.run(client, terminal).await,
        }
        Ok(Exit::Ok)
    }
}

impl Try {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let RulesFile { policies, modes } = RulesFile::read(&self.file)?;
        let request = WhatIfRequest { policies, modes, last: self.last.as_ref().map(Span::text), action: None };
        let answer = client.question::<WhatIfResponse>(&["policies", "what-if"], &request).await;
        let policies = request.policies.clone().unwrap_or_default();
        let answer = answer.map_err(|failure| problems::tell(failure, &policies, &self.file, terminal))?;
        let tried = &answer.read;
        if terminal.is_document() {
            terminal.document(&answer.raw)?;
        } else {
            terminal.note(summary(tried));
            reasons(tried).into_iter().for_each(|line| terminal.note(line));
            let mut table = Table::new(CHANGE_COLUMNS, "");
            for change in &tried.changes {
                let tone = if change.after == WouldName::Denied { Tone::Danger } else { Tone::Warn };
                table.row([
                    Cell::text(&change.invocation_id),
                    Cell::text(format!("{} → {}", word(change.before), word(change.after))).toned(tone),
                    Cell::text(&change.action),
                    Cell::text(&change.because),
                    terminal.past(change.created_at),
                ]);
            }
            if !table.is_empty() {
                terminal.list(&answer.raw, &table)?;
            }
        }
        Ok(if self.fail_on_change && !tried.changes.is_empty() { Exit::Failed } else { Exit::Ok })
    }
}

fn summary(tried: &WhatIfResponse) -> String {
    let calls = |count: u64| style::counted(count, "recorded call", "recorded calls");
    let changes = match tried.changes.len() {
        0 => Tone::Ok.paint("✓ nothing would change"),
        count => Tone::Warn.paint(format!("! {count} would be decided differently")),
    };
    let left_out = [
        (tried.skipped, "dry runs, or what they were about is gone"),
        (tried.stopped, "a kill switch had ended them"),
        (tried.quarantined, "quarantined for their content"),
    ];
    let left_out = left_out.into_iter().filter(|(count, _)| *count > 0);
    let left_out: String = left_out.map(|(count, why)| format!("; {count} left out: {why}")).collect();
    let truncated = if tried.truncated { "; there are more than are looked at in one go" } else { "" };
    format!("{changes}: {} decided again{left_out}{truncated}", calls(tried.replayed))
}

/// Many calls change for few reasons, so each reason is shown once, in full, with the number of its calls.
fn reasons(tried: &WhatIfResponse) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for change in &tried.changes {
        *counts.entry(format!("{} → {}: {}", word(change.before), word(change.after), change.because)).or_default() += 1;
    }
    counts.into_iter().map(|(reason, count)| format!("  {count} × {}", clean::line(&reason))).collect()
}

async fn show(gate: Option<Gate>, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let answer = client.get::<PoliciesView>(&["policies"], &[]).await?;
    let found = &answer.read;
    if let Some(gate) = gate {
        let name = gate.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let text = text_of(&found.policies, &name);
        if terminal.is_document() {
            return terminal.document(&json!({ "version": found.version, "gate": name, "policy": text }));
        }
        if text.trim().is_empty() {
            terminal.note(format!("no policies for {name}"));
            return Ok(());
        }
        return terminal.line(clean::block(text.trim_end()));
    }
    let names = Names::load(client, terminal).await;
    let record = Record::new(found.version.to_string())
        .with("version", Cell::text(found.version.to_string()))
        .with_some("set by", found.set_by.as_ref().map(|by| names.whole(by)))
        .with_some("set", found.set_at.map(|at| terminal.past(at)));
    terminal.record(&answer.raw, &record)?;
    if !terminal.is_for_words() {
        return Ok(());
    }
    for name in GATES {
        let text = text_of(&found.policies, name);
        if !text.trim().is_empty() {
            terminal.line("")?;
            terminal.line(Tone::Muted.paint(name.to_uppercase()))?;
            terminal.line(clean::block(text.trim_end()))?;
        }
    }
    if GATES.iter().all(|name| text_of(&found.policies, name).trim().is_empty()) {
        terminal.note("no policies: modes, bands and the built-in gates decide");
        terminal.next("countersign policy schema");
    }
    Ok(())
}

fn tell(answer: &Answer<PoliciesSetResponse>, word: &str, label: &'static str, terminal: &mut Terminal) -> Result<(), Failure> {
    let PoliciesSetResponse { version, policies, voided } = &answer.read;
    let record = Record::new(version.to_string())
        .with("policies", Cell::text(policies.to_string()))
        .with("verdict", Cell::shown(word, word.trim_start_matches("✓ ")).toned(Tone::Ok))
        .with(label, Cell::shown(format!("version {version}"), version.to_string()))
        .with_some("ended", ended(*voided));
    terminal.record(&answer.raw, &record)
}

/// The number of pending calls that a change of the rules ended; `None` if there are none.
pub(super) fn ended(calls: Option<u64>) -> Option<Cell> {
    let calls = calls.filter(|calls| *calls > 0)?;
    let shown = style::counted(calls, "pending call", "pending calls");
    Some(Cell::shown(shown, calls.to_string()).toned(Tone::Warn))
}

const GATES: [&str; 4] = ["rbac", "abac", "consent", "space"];

fn text_of<'a>(policies: &'a PoliciesFile, gate: &str) -> &'a str {
    match gate {
        "rbac" => &policies.rbac,
        "abac" => &policies.abac,
        "consent" => &policies.consent,
        "space" => &policies.space,
        _ => "",
    }
}
