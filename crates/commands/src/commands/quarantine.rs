//! `countersign quarantine`: calls that were too dangerous to run and answers that were too dangerous to return. An approver releases or
//! discards them. Their content is shown only to callers who may see it, and only if they ask for it.

use super::outcome;
use crate::shared::*;
use api::finding::CaughtView;
use api::gates::{QuarantinePayloadResponse, QuarantineView, ReleasedOutputResponse, SettleRequest};
use api::invocation::InvokeResponse;
use clap::Subcommand;
use countersign_core::quarantine::{Holds, QuarantineState};
use serde::Deserialize as _;
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(crate) enum Quarantine {
    /// List quarantined calls and withheld answers, newest first
    #[command(before_help = "Examples:\n  countersign quarantine list --state held")]
    List {
        /// Only those in this state
        #[arg(long, value_parser = one_of(QuarantineState::ALL, QuarantineState::as_str))]
        state: Option<QuarantineState>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show what was found in one of them
    #[command(before_help = "Examples:\n  countersign quarantine show inv_…\n  countersign quarantine show inv_… --payload")]
    Show {
        /// The id of the invocation
        #[arg(value_name = "INVOCATION")]
        quarantined: String,
        /// Show its content instead; that you looked is recorded as an event
        #[arg(long)]
        payload: bool,
    },
    /// Release it: the call runs as a new one, or the withheld answer is returned
    #[command(before_help = "Examples:\n  countersign quarantine release inv_… --reason 'a test of ours'")]
    Release {
        /// The id of the invocation
        #[arg(value_name = "INVOCATION")]
        quarantined: String,
        /// Why; recorded
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Discard its content
    #[command(before_help = "Examples:\n  countersign quarantine discard inv_… --reason phishing")]
    Discard {
        /// The id of the invocation
        #[arg(value_name = "INVOCATION")]
        quarantined: String,
        /// Why; recorded
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

impl Resource for QuarantineView {
    const NOUN: &'static str = "quarantined call";
    const LIST: &'static str = "quarantine list";
    const PATH: &'static [&'static str] = &["quarantines"];
    const EMPTY: &'static str = "nothing is quarantined";
    const OFFERED: (&'static str, &'static [&'static str]) = ("invocation_id", &["action", "state"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::column("id", Column::Whole, |one, _| text(&one.invocation_id)),
        Field::line("invocation", |one, _| Some(Cell::text(&one.invocation_id).toned(Tone::Strong))),
        Field::both("state", Column::Whole, |one, _| Some(state(one.state))),
        Field::both("action", Column::Whole, |one, _| text(&one.action)),
        Field::column("caught by", Column::Cut, |one, _| {
            text(one.caught.iter().map(|caught| caught.rule.as_str()).collect::<Vec<_>>().join(", "))
        }),
        Field::column("caught", Column::Whole, |one, view| view.past(one.created_at)),
        Field::column("holds", Column::Extra, |one, _| text(one.holds.as_str())),
        Field::line("holds", |one, _| {
            text(match one.holds {
                Holds::Params => "the params of a call that was not made",
                Holds::Output => "the answer of a call that was made",
            })
        }),
        Field::line("digest", |one, _| maybe(one.digest.as_ref())),
        Field::both("who", Column::Extra, |one, view| view.who(&one.principal)),
        Field::line("session", |one, _| text(&one.session_id)),
        Field::line("when", |one, view| view.past(one.created_at)),
        Field::line("kept for", |one, view| if one.state == QuarantineState::Held { view.future(one.expires_at) } else { None }),
        Field::line("settled by", |one, view| view.who(one.settled_by.as_ref()?)),
        Field::line("settled", |one, view| view.past(one.settled_at?)),
        Field::line("reason", |one, _| maybe(one.reason.as_ref())),
        Field::line("released as", |one, _| maybe(one.released_as.as_ref())),
    ];

    fn id(&self) -> &str {
        &self.invocation_id
    }

    fn more(&self, record: Record) -> Record {
        self.caught.iter().fold(record, |record, caught| record.with("caught", Cell::text(finding(caught)).toned(Tone::Danger)))
    }

    fn next(&self) -> Option<String> {
        let id = &self.invocation_id;
        let release = format!("countersign quarantine release {id} --reason …, or countersign quarantine discard {id} --reason …");
        (self.state == QuarantineState::Held).then_some(release)
    }

    fn next_of(items: &[Self]) -> Option<String> {
        let held = items.iter().find(|one| one.state == QuarantineState::Held)?;
        Some(format!("countersign quarantine show {}", held.invocation_id))
    }
}

impl Quarantine {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List { state, paging } => {
                let asked = Asked::of(&paging).only("state", state.map(|state| state.to_string()));
                resource::list::<QuarantineView>(asked, client, terminal).await?;
            }
            Self::Show { quarantined: id, payload: true } => {
                // The record is asked for first: it says what the id is where nothing is held.
                client.get::<QuarantineView>(&["quarantines", &id], &[]).await?;
                let answer = client.get::<QuarantinePayloadResponse>(&["quarantines", &id, "payload"], &[]).await?;
                output(&answer.read.invocation_id, &answer.read.payload, &answer.raw, terminal)?;
            }
            Self::Show { quarantined, payload: false } => {
                resource::show::<QuarantineView>(&quarantined, client, terminal).await?;
            }
            Self::Release { quarantined, reason, agreed } => return release(&quarantined, reason, agreed, client, terminal).await,
            Self::Discard { quarantined: id, reason, agreed } => {
                let held = client.get::<QuarantineView>(&["quarantines", &id], &[]).await?.read;
                let question = format!("Discard the {} of `{}`? This cannot be undone.", held.holds.as_str(), clean::line(&held.action));
                terminal.consent(&question, agreed.consent(client)).await?;
                let request = SettleRequest { reason, digest: held.digest };
                let answer = client.post::<QuarantineView>(&["quarantines", &id, "discard"], &request).await?;
                resource::tell(&answer, client, terminal).await?;
            }
        }
        Ok(Exit::Ok)
    }
}

async fn release(id: &str, reason: String, agreed: Agreed, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let held = client.get::<QuarantineView>(&["quarantines", id], &[]).await?.read;
    let action = clean::line(&held.action);
    for caught in &held.caught {
        terminal.remark(format!("{} {}", Tone::Danger.paint("▣ caught:"), clean::line(&finding(caught))));
    }
    let question = match held.holds.as_str() {
        "output" => format!("Return the answer of `{action}` all the same?"),
        _ => format!("Run `{action}` all the same, as a new call?"),
    };
    terminal.consent(&question, agreed.consent(client)).await?;
    let raw = client.post::<Value>(&["quarantines", id, "release"], &SettleRequest { reason, digest: held.digest }).await?.raw;
    if let Ok(released) = ReleasedOutputResponse::deserialize(&raw) {
        output(&released.invocation_id, &released.output, &raw, terminal)?;
        return Ok(Exit::Ok);
    }
    let unreadable = |error: serde_json::Error| {
        Failure::failed("it was released, and the server's answer cannot be read")
            .cause(error.to_string())
            .hint("countersign quarantine list")
    };
    let read = InvokeResponse::deserialize(&raw).map_err(unreadable)?;
    outcome::tell(&Answer { read, raw }, client, terminal)
}

/// Writes the quarantined content unchanged.
fn output(id: &str, value: &Value, raw: &Value, terminal: &mut Terminal) -> Result<(), Failure> {
    if terminal.is_document() { terminal.document(raw) } else { terminal.result(id, value) }
}

fn finding(caught: &CaughtView) -> String {
    let place = if caught.pointer.is_empty() { String::new() } else { format!(" at {}", caught.pointer) };
    format!("{}{place}: {}", caught.rule, caught.message)
}

fn state(state: QuarantineState) -> Cell {
    let (symbol, tone) = match state {
        QuarantineState::Held => ("▣", Tone::Warn),
        QuarantineState::Released => ("✓", Tone::Primary),
        QuarantineState::Discarded | QuarantineState::Expired => ("–", Tone::Muted),
    };
    Cell::shown(format!("{symbol} {}", state.as_str()), state.as_str()).toned(tone)
}
