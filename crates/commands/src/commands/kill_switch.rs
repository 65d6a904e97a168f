//! `countersign kill-switch`: stops every call in a scope at once. Pending calls are kept, and their deadlines are stopped.

use super::action::meant;
use crate::shared::*;
use api::identity::{SessionView, SpaceView};
use api::rules::{SwitchChangedResponse, SwitchOffRequest, SwitchOnRequest, SwitchView};
use api::{Code, Page};
use clap::Subcommand;
use countersign_core::switch::Stop;

#[derive(Debug, Subcommand)]
pub(crate) enum KillSwitch {
    /// Stop every call in a scope, at once
    #[command(before_help = "Examples:
  countersign kill-switch on org --reason 'keys leaked'
  countersign kill-switch on source:http --reason 'their API misbehaves' --except-dry-runs
  countersign kill-switch on org --reason 'pause, and plan on' --as-dry-run
  countersign kill-switch on space:production --reason freeze --yes")]
    On {
        /// org, space:NAME, session:TITLE, source:NAME or action:ID; the id of a space or a session does as well
        scope: String,
        /// Why; recorded, and told to those whose calls are stopped
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Still allow dry runs
        #[arg(long)]
        except_dry_runs: bool,
        /// Answer calls with their dry run; what has none is stopped
        #[arg(long, conflicts_with = "except_dry_runs")]
        as_dry_run: bool,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Turn a kill switch off
    #[command(before_help = "Examples:\n  countersign kill-switch off org")]
    Off {
        /// org, space:NAME, session:TITLE, source:NAME or action:ID; the id of a space or a session does as well
        #[arg(value_name = "SCOPE")]
        stopped: String,
        /// Why; recorded
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        unasked: Unasked,
    },
    /// List kill switches that are on
    #[command(before_help = "Examples:\n  countersign kill-switch list")]
    List,
}

impl Resource for SwitchView {
    const NOUN: &'static str = "kill switch";
    const LIST: &'static str = "kill-switch list";
    const PATH: &'static [&'static str] = &["kill-switches"];
    const EMPTY: &'static str = "no kill switch is on";
    const OFFERED: (&'static str, &'static [&'static str]) = ("scope", &["reason"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("scope", Column::Whole, |one, _| Some(Cell::text(&one.scope).toned(Tone::Danger))),
        Field::both("stops", Column::Whole, |one, _| {
            text(match one.stop {
                Stop::Everything => "everything",
                Stop::ExceptDryRuns => "all but dry runs",
                Stop::AsDryRun => "effects, answers with dry runs",
            })
        }),
        Field::both("reason", Column::Cut, |one, _| text(&one.reason)),
        Field::both("set by", Column::Extra, |one, view| view.who(&one.set_by)),
        Field::both("set", Column::Whole, |one, view| view.past(one.set_at)),
    ];

    fn id(&self) -> &str {
        &self.scope
    }

    fn next_of(items: &[Self]) -> Option<String> {
        Some(format!("countersign kill-switch off {}", items.first()?.scope))
    }
}

impl KillSwitch {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::On { scope, reason, except_dry_runs, as_dry_run, agreed } => {
                let named = scope;
                let scope = scope_of(&named, client).await?;
                terminal.consent(&format!("Stop every call of `{}` at once?", clean::line(&named)), agreed.consent(client)).await?;
                let stop = match (except_dry_runs, as_dry_run) {
                    (_, true) => Stop::AsDryRun,
                    (true, false) => Stop::ExceptDryRuns,
                    (false, false) => Stop::Everything,
                };
                let request = SwitchOnRequest { scope, stop, reason };
                let answer = match client.post::<SwitchChangedResponse>(&["kill-switches", "on"], &request).await {
                    Ok(answer) => answer,
                    Err(failure) => return Err(guessed(failure, &named, client).await),
                };
                changed(&answer, terminal)?;
                terminal.next(format!("countersign kill-switch off {}", clean::line(&named)));
            }
            Self::Off { stopped: scope, reason, unasked: _ } => {
                let request = SwitchOffRequest { scope: scope_of(&scope, client).await?, reason };
                let answer = client.post::<SwitchChangedResponse>(&["kill-switches", "off"], &request).await?;
                changed(&answer, terminal)?;
            }
            Self::List => drop(resource::list::<SwitchView>(Asked::default(), client, terminal).await?),
        }
        Ok(Exit::Ok)
    }
}

/// The switches that are on; empty if the caller may not read them.
pub(super) async fn on(client: &Client) -> Vec<SwitchView> {
    client.get::<Page<SwitchView>>(&["kill-switches"], &[]).await.map(|answer| answer.read.items).unwrap_or_default()
}

/// `org (“keys leaked”)`: a switch in a few words, for a line of another command.
pub(super) fn line(switch: &SwitchView) -> String {
    let except = match switch.stop {
        Stop::Everything => "",
        Stop::ExceptDryRuns => ", except dry runs",
        Stop::AsDryRun => ", as dry runs",
    };
    clean::line(&format!("{}{except} (“{}”)", switch.scope, switch.reason))
}

/// Replaces the name of a space or session by its id. Other scopes are sent as they were typed.
async fn scope_of(text: &str, client: &Client) -> Result<String, Failure> {
    match text.split_once(':') {
        Some(("space", space)) => Ok(format!("space:{}", id_of::<SpaceView>(space, client).await?)),
        Some(("session", session)) => Ok(format!("session:{}", id_of::<SessionView>(session, client).await?)),
        Some(("source" | "action", _)) => Ok(text.to_owned()),
        None if text == "org" => Ok(text.to_owned()),
        Some(_) | None => Err(Failure::usage(format!("`{}` is not the scope of a kill switch", clean::line(text)))
            .hint("use org, space:NAME, session:TITLE, source:NAME or action:ID")),
    }
}

async fn guessed(failure: Failure, named: &str, client: &Client) -> Failure {
    match named.strip_prefix("action:") {
        Some(action) if failure.is(Code::NotFound) => meant::guess(failure, action, client).await,
        _ => failure,
    }
}

/// Says that a switch was turned on or off, and what that means for pending calls.
pub(super) fn changed(answer: &Answer<SwitchChangedResponse>, terminal: &mut Terminal) -> Result<(), Failure> {
    let SwitchChangedResponse { scope, on, clocks } = &answer.read;
    let state = if *on { Cell::shown("■ on", "on").toned(Tone::Danger) } else { Cell::shown("✓ off", "off").toned(Tone::Ok) };
    let calls = counted(*clocks, "pending call", "pending calls");
    let waiting = match (*on, *clocks) {
        (true, 0) => "no calls are pending there".to_owned(),
        (true, _) => format!("the deadline of {calls} is stopped"),
        (false, 0) => "no deadline was stopped".to_owned(),
        (false, _) => format!("the deadline of {calls} runs again"),
    };
    let record = Record::new(scope)
        .with("kill switch", Cell::text(scope))
        .with("state", state)
        .with("waiting", Cell::shown(waiting, clocks.to_string()));
    terminal.record(&answer.raw, &record)
}
