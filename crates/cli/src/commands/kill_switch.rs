//! Kill switches: stop what they cover, at once. What waits for a person is kept, and its clock stands still.

use super::action::meant;
use super::people::People;
use super::{named, space};
use crate::args::{Agreed, Unasked};
use crate::client::{Answer, Client};
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Record, Table, Terminal};
use crate::style::{Tone, clean, counted};
use api::rules::{StopName, SwitchChangedResponse, SwitchOffRequest, SwitchOnRequest, SwitchView};
use api::{Code, Page};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum KillSwitch {
    /// Stop everything that a scope covers, at once
    #[command(before_help = "Examples:
  countersign kill-switch on org --reason 'keys leaked'
  countersign kill-switch on source:http --reason 'their API misbehaves' --except-dry-runs
  countersign kill-switch on space:production --reason freeze --yes")]
    On {
        /// org, space:NAME, session:TITLE, source:NAME or action:ID; the id of a space or a session does as well
        scope: String,
        /// Why; recorded, and told to whoever is stopped
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// What a call would change may still be asked
        #[arg(long)]
        except_dry_runs: bool,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Let it run again
    #[command(before_help = "Examples:\n  countersign kill-switch off org --reason 'keys rotated'")]
    Off {
        /// org, space:NAME, session:TITLE, source:NAME or action:ID; the id of a space or a session does as well
        scope: String,
        /// Why; recorded
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        unasked: Unasked,
    },
    /// Switches that are on
    List,
}

const COLUMNS: &[Column] =
    &[Column::Whole("SCOPE"), Column::Whole("STOPS"), Column::Cut("REASON"), Column::Extra("SET BY"), Column::Whole("SET")];

impl KillSwitch {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::On { scope, reason, except_dry_runs, agreed } => {
                let named = scope;
                let scope = scope_of(&named, client).await?;
                terminal.consent(&format!("stop everything of `{}` at once?", clean::line(&named)), agreed.consent(client)).await?;
                let stop = if except_dry_runs { StopName::ExceptDryRuns } else { StopName::Everything };
                let request = SwitchOnRequest { scope, stop, reason };
                let answer = match client.post::<SwitchChangedResponse>(&["kill-switches", "on"], &request).await {
                    Ok(answer) => answer,
                    Err(failure) => return Err(guessed(failure, &named, client).await),
                };
                changed(&answer, terminal)?;
                terminal.next(format!("countersign kill-switch off {} --reason …", clean::line(&named)));
            }
            Self::Off { scope, reason, unasked: _ } => {
                let request = SwitchOffRequest { scope: scope_of(&scope, client).await?, reason };
                let answer = client.post::<SwitchChangedResponse>(&["kill-switches", "off"], &request).await?;
                changed(&answer, terminal)?;
            }
            Self::List => {
                let answer = client.get::<Page<SwitchView>>(&["kill-switches"], &[]).await?;
                let people = People::load(client, terminal).await;
                let mut table = Table::new(COLUMNS, "no kill switch is on");
                for switch in &answer.read.items {
                    table.row([
                        Cell::text(&switch.scope).toned(Tone::Danger),
                        Cell::text(stops(switch)),
                        Cell::text(&switch.reason),
                        people.cell(&switch.set_by),
                        terminal.past(&switch.set_at),
                    ]);
                }
                terminal.list(&answer.raw, &table)?;
                if let Some(first) = answer.read.items.first() {
                    terminal.next(format!("countersign kill-switch off {} --reason …", first.scope));
                }
            }
        }
        Ok(Exit::Ok)
    }
}

/// Switches that are on; none for who may not read them.
pub(super) async fn on(client: &Client) -> Vec<SwitchView> {
    client.get::<Page<SwitchView>>(&["kill-switches"], &[]).await.map(|answer| answer.read.items).unwrap_or_default()
}

/// `org: keys leaked`, for one line somewhere else.
pub(super) fn line(switch: &SwitchView) -> String {
    let except = match switch.stop {
        StopName::Everything => "",
        StopName::ExceptDryRuns => ", except dry runs",
    };
    clean::line(&format!("{}{except} (“{}”)", switch.scope, switch.reason))
}

/// A space and a session may be named; everything else is as the server reads it.
async fn scope_of(text: &str, client: &Client) -> Result<String, Failure> {
    match text.split_once(':') {
        Some(("space", space)) => Ok(format!("space:{}", space::id_of(space, client).await?)),
        Some(("session", session)) => Ok(format!("session:{}", named::session(session, client).await?)),
        Some(("source" | "action", _)) => Ok(text.to_owned()),
        None if text == "org" => Ok(text.to_owned()),
        Some(_) | None => Err(Failure::usage(format!("`{}` is not what a kill switch covers", clean::line(text)))
            .hint("use org, space:NAME, session:TITLE, source:NAME or action:ID")),
    }
}

async fn guessed(failure: Failure, named: &str, client: &Client) -> Failure {
    match named.strip_prefix("action:") {
        Some(action) if failure.is(Code::NotFound) => meant::guess(failure, action, client).await,
        _ => failure,
    }
}

fn changed(answer: &Answer<SwitchChangedResponse>, terminal: &mut Terminal) -> Result<(), Failure> {
    let SwitchChangedResponse { scope, on, clocks } = &answer.read;
    let state = if *on { Cell::shown("■ on", "on").toned(Tone::Danger) } else { Cell::shown("✓ off", "off").toned(Tone::Ok) };
    let calls = counted(*clocks, "pending call", "pending calls");
    let (wait, go) = if *clocks == 1 { ("waits with its", "goes on with its") } else { ("wait with their", "go on with their") };
    let waiting = match (*on, *clocks) {
        (true, 0) => "nothing waits for a person there".to_owned(),
        (true, _) => format!("{calls} {wait} clock stopped"),
        (false, 0) => "no clock stood still".to_owned(),
        (false, _) => format!("{calls} {go} clock running"),
    };
    let record = Record::new(scope)
        .with("kill switch", Cell::text(scope))
        .with("state", state)
        .with("waiting", Cell::shown(waiting, clocks.to_string()));
    terminal.record(&answer.raw, &record)
}

const fn stops(switch: &SwitchView) -> &'static str {
    match switch.stop {
        StopName::Everything => "everything",
        StopName::ExceptDryRuns => "all but dry runs",
    }
}
