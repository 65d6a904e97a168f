//! Modes: whether an action runs, waits for a person or is refused. What is not set is inferred from the action's tier.

use super::more;
use crate::args::Paging;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Record, Table, Terminal};
use api::Page;
use api::rules::{ModeChangeResponse, ModeName, ModeView, SetModeRequest};
use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Mode {
    /// Modes that were set; all others are inferred
    List(Paging),
    /// Set the mode of an action
    #[command(before_help = "Examples:
  countersign mode set files.write_text allow               run without asking
  countersign mode set http.request deny                    refuse, with a receipt")]
    Set {
        /// Such as files.write_text
        action: String,
        #[arg(value_enum)]
        mode: Choice,
        /// Automations can only tighten it
        #[arg(long)]
        locked: bool,
    },
    /// Remove the mode of an action: the inferred one holds again
    #[command(before_help = "Examples:\n  countersign mode unset files.write_text")]
    Unset {
        /// Such as files.write_text
        action: String,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Choice {
    Allow,
    RequireApproval,
    Deny,
}

const COLUMNS: &[Column] = &[
    Column::Whole("ACTION"),
    Column::Whole("MODE"),
    Column::Whole("LOCK"),
    Column::Whole("SCOPE"),
    Column::Number("VERSION"),
    Column::Extra("SET BY"),
    Column::Whole("SET"),
];

impl Mode {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List(paging) => {
                let answer = client.get::<Page<ModeView>>(&["modes"], &paging.query()).await?;
                let mut table = Table::new(COLUMNS, "no modes are set: each is inferred from its action's tier");
                for mode in &answer.read.items {
                    table.row([
                        Cell::text(&mode.action),
                        Cell::mode(word(mode.mode)),
                        Cell::text(if mode.locked { "locked" } else { "open" }),
                        Cell::text(&mode.scope),
                        Cell::text(mode.version.to_string()),
                        Cell::principal(&mode.set_by),
                        terminal.past(&mode.set_at),
                    ]);
                }
                terminal.list(&answer.raw, &table)?;
                more(terminal, &paging, answer.read.next.as_deref(), "countersign mode list");
            }
            Self::Set { action, mode, locked } => {
                let mode = match mode {
                    Choice::Allow => ModeName::Allow,
                    Choice::RequireApproval => ModeName::RequireApproval,
                    Choice::Deny => ModeName::Deny,
                };
                let answer = client.put::<ModeChangeResponse>(&["modes", &action], &SetModeRequest { mode, locked }).await?;
                changed(&answer.read, &answer.raw, terminal)?;
            }
            Self::Unset { action } => {
                let answer = client.delete::<ModeChangeResponse>(&["modes", &action]).await?;
                changed(&answer.read, &answer.raw, terminal)?;
            }
        }
        Ok(Exit::Ok)
    }
}

fn changed(change: &ModeChangeResponse, raw: &serde_json::Value, terminal: &mut Terminal) -> Result<(), Failure> {
    let mode = change.mode.map_or_else(|| Cell::shown("inferred again", "inferred"), |mode| Cell::mode(word(mode)));
    let record = Record::new(&change.action)
        .with("action", Cell::text(&change.action))
        .with("mode", mode)
        .with("version", Cell::text(change.version.to_string()));
    terminal.record(raw, &record)
}

const fn word(mode: ModeName) -> &'static str {
    match mode {
        ModeName::Allow => "allow",
        ModeName::RequireApproval => "require_approval",
        ModeName::Deny => "deny",
    }
}
