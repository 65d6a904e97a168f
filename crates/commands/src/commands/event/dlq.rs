//! `countersign event dlq`: what was given up, asked for once more or dropped.

use crate::commands::action::{params, session};
use crate::shared::*;
use api::event::{DeadLetterView, RetriedLetterResponse, RetryLetterRequest};
use clap::Subcommand;
use countersign_core::ports::bus::LetterKind;
use countersign_core::{InvocationId, Status};
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(crate) enum Dlq {
    /// List what was given up, the newest first
    #[command(before_help = "Examples:
  countersign event dlq list
  countersign event dlq list --kind invocation               calls whose attempts are used up")]
    List {
        /// Only of this kind
        #[arg(long, value_parser = one_of(LetterKind::ALL, LetterKind::as_str))]
        kind: Option<LetterKind>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show one dead letter
    #[command(before_help = "Examples:\n  countersign event dlq show dlt_…\n  countersign event dlq show inv_…")]
    Show {
        /// Its id
        letter: String,
    },
    /// Ask for a dead letter once more: an event or a notice is delivered again, a call is made anew as yours
    #[command(before_help = "Examples:
  countersign event dlq retry dlt_…
  countersign event dlq retry inv_… --params @call.json      where its params were not kept whole")]
    Retry {
        /// Its id
        letter: String,
        /// The session a call is made in; else your session `cli`
        #[arg(long, value_name = "SESSION")]
        session: Option<String>,
        /// The params of a call as a JSON object; @file reads a file, - reads stdin
        #[arg(long, value_name = "JSON")]
        params: Option<String>,
    },
    /// Drop a dead letter: nobody is asked for it again
    #[command(before_help = "Examples:\n  countersign event dlq drop dlt_…")]
    Drop {
        /// Its id
        letter: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

impl Resource for DeadLetterView {
    const NOUN: &'static str = "dead letter";
    const LIST: &'static str = "event dlq list";
    const PATH: &'static [&'static str] = &["dead-letters"];
    const EMPTY: &'static str = "nothing was given up";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["kind", "what"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("kind", Column::Whole, |one, _| text(one.kind.as_str())),
        Field::both("place", Column::Cut, |one, _| text(&one.place)),
        Field::both("what", Column::Whole, |one, _| text(&one.what)),
        Field::both("attempts", Column::Whole, |one, _| text(one.attempts.to_string())),
        Field::both("problem", Column::Cut, |one, _| maybe(one.problem.as_ref())),
        Field::both("given up", Column::Whole, |one, view| view.past(one.died_at)),
        Field::line("invocation", |one, _| maybe(one.invocation_id.as_ref())),
        Field::line("event", |one, _| maybe(one.event.as_ref().map(|event| event.cursor.clone()))),
        Field::line("data", |one, _| maybe(one.event.as_ref().map(|event| event.data.to_string()))),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn next(&self) -> Option<String> {
        Some(format!("countersign event dlq retry {}", self.id))
    }

    fn next_of(items: &[Self]) -> Option<String> {
        items.first().and_then(Self::next)
    }
}

impl Dlq {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List { kind, paging } => {
                let asked = Asked::of(&paging).only("kind", kind.map(|kind| kind.to_string()));
                resource::list::<DeadLetterView>(asked, client, terminal).await?;
            }
            Self::Show { letter } => drop(resource::show::<DeadLetterView>(&letter, client, terminal).await?),
            Self::Retry { letter, session, params } => return retry(&letter, session, params, client, terminal).await,
            Self::Drop { letter, agreed } => {
                let question = format!("Drop dead letter `{}`? Nobody is asked for it again.", clean::line(&letter));
                terminal.consent(&question, agreed.consent(client)).await?;
                client.post_empty::<Value>(&["dead-letters", &letter, "drop"]).await?;
                terminal.done("dropped", &letter, &json!({ "id": letter, "dropped": true }))?;
            }
        }
        Ok(Exit::Ok)
    }
}

async fn retry(
    letter: &str,
    named: Option<String>,
    given: Option<String>,
    client: &Client,
    terminal: &mut Terminal,
) -> Result<Exit, Failure> {
    let is_call = InvocationId::parse(letter).is_ok();
    let params = match &given {
        Some(given) => Some(params::read(Some(given.as_str()), &[], terminal).await?),
        None => None,
    };
    // Under `--dry-run` the request is shown, and no session is looked for.
    let session = if is_call && !client.rehearses() { Some(session::choose(named.as_deref(), client).await?) } else { named };
    let request = RetryLetterRequest { session, params };
    let answer = client.post::<RetriedLetterResponse>(&["dead-letters", letter, "retry"], &request).await?;
    terminal.done("asked for once more:", letter, &answer.raw)?;
    let has_failed = answer.read.status == Some(Status::Failed);
    if has_failed {
        terminal.remark(Tone::Danger.paint("✗ the new call failed too"));
    }
    if let Some(made) = &answer.read.invocation_id {
        terminal.next(format!("countersign show {made}"));
    }
    Ok(if has_failed { Exit::Failed } else { Exit::Ok })
}
