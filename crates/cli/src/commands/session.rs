//! Sessions: one agent's working context, with the token it acts under.

use super::people::People;
use super::{more, named};
use crate::args::{Agreed, Paging};
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Record, Table, Terminal};
use crate::style::{Tone, clean};
use api::Page;
use api::identity::{NewSessionRequest, NewSessionResponse, SessionView};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Session {
    /// Make a session and its agent's token
    #[command(before_help = "Examples:
  countersign session create --title 'nightly triage' --unattended
  export COUNTERSIGN_TOKEN=$(countersign session create --json | jq -r .token)")]
    Create {
        /// Nobody sits at the other end: answers may take 24 hours instead of 5 minutes
        #[arg(long)]
        unattended: bool,
        /// What it is for, and the name it can be called by; cli@ and this machine's name when absent
        #[arg(long, value_name = "TEXT")]
        title: Option<String>,
        /// The name or the id of its space
        #[arg(long, value_name = "SPACE")]
        space: Option<String>,
        /// The automation it works for, whose modes and grants its calls then have
        #[arg(long, value_name = "ID")]
        automation: Option<String>,
    },
    /// Sessions, newest first
    List(Paging),
    /// One session
    #[command(before_help = "Examples:\n  countersign session show ses_…\n  countersign session show 'nightly triage'")]
    Show {
        /// Its title or its id
        #[arg(value_name = "SESSION")]
        id: String,
    },
    /// End a session: its token stops working at once
    #[command(before_help = "Examples:\n  countersign session end ses_… --yes")]
    End {
        /// Its title or its id
        #[arg(value_name = "SESSION")]
        id: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

const COLUMNS: &[Column] = &[
    Column::Whole("ID"),
    Column::Cut("TITLE"),
    Column::Extra("ATTENDANCE"),
    Column::Extra("CREATED BY"),
    Column::Extra("CREATED"),
    Column::Whole("STATE"),
];

impl Session {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Create { unattended, title, space, automation } => {
                let title = title.or_else(default_title);
                let request = NewSessionRequest { space, title, unattended, automation_id: automation };
                let answer = client.post::<NewSessionResponse>(&["sessions"], &request).await?;
                let created = &answer.read;
                let record = Record::new(&created.id)
                    .with("id", Cell::text(&created.id))
                    .with("token", Cell::text(&created.token).toned(Tone::Strong))
                    .with("title", Cell::text(&created.session.title))
                    .with("space", Cell::text(&created.session.space_id))
                    .with("attendance", Cell::text(&created.session.attendance))
                    .with_some("automation", created.session.automation_id.as_ref().map(Cell::text));
                terminal.record(&answer.raw, &record)?;
                terminal.remark(Tone::Warn.paint("! the token is shown now and never again"));
                terminal.next("COUNTERSIGN_TOKEN=… countersign action list");
            }
            Self::List(paging) => {
                let answer = client.get::<Page<SessionView>>(&["sessions"], &paging.query()).await?;
                let people = People::load(client, terminal).await;
                let mut table = Table::new(COLUMNS, "no sessions yet: countersign session create");
                for session in &answer.read.items {
                    table.row([
                        Cell::text(&session.id),
                        Cell::text(&session.title),
                        Cell::text(&session.attendance),
                        people.cell(&session.created_by),
                        terminal.past(&session.created_at),
                        state(session),
                    ]);
                }
                terminal.list(&answer.raw, &table)?;
                more(terminal, &paging, answer.read.next.as_deref(), "countersign session list");
            }
            Self::Show { id } => {
                let id = named::session(&id, client).await?;
                let answer = client.get::<SessionView>(&["sessions", &id], &[]).await?;
                let people = People::load(client, terminal).await;
                let record = record(&answer.read, &people, terminal);
                terminal.record(&answer.raw, &record)?;
                terminal.next(format!("countersign invocation list --session {id}"));
            }
            Self::End { id: session, agreed } => {
                let id = named::session(&session, client).await?;
                terminal.consent(&format!("end `{}`?", clean::line(&session)), agreed.consent(client)).await?;
                let answer = client.post_empty::<SessionView>(&["sessions", &id, "end"]).await?;
                if terminal.is_document() {
                    terminal.document(&answer.raw)?;
                }
                terminal.note(format!("{} `{id}`", Tone::Ok.paint("✓ ended")));
            }
        }
        Ok(Exit::Ok)
    }
}

/// Where it was made: better than no name, where nobody says what it is for.
fn default_title() -> Option<String> {
    let system = rustix::system::uname();
    let host = system.nodename().to_str().ok().filter(|host| !host.is_empty())?;
    Some(format!("cli@{host}"))
}

fn record(session: &SessionView, people: &People, terminal: &Terminal) -> Record {
    Record::new(&session.id)
        .with("id", Cell::text(&session.id))
        .with("state", state(session))
        .with("title", Cell::text(&session.title))
        .with("attendance", Cell::text(&session.attendance))
        .with("space", Cell::text(&session.space_id))
        .with_some("automation", session.automation_id.as_ref().map(Cell::text))
        .with("created by", people.whole(&session.created_by))
        .with("works for", session.owner_id.as_ref().map_or_else(Cell::missing, |owner| people.whole(owner)))
        .with("created", terminal.past(&session.created_at))
        .with("ended", session.ended_at.as_ref().map_or_else(Cell::missing, |at| terminal.past(at)))
}

fn state(session: &SessionView) -> Cell {
    match session.ended_at {
        Some(_) => Cell::shown("– ended", "ended").toned(Tone::Muted),
        None => Cell::shown("● open", "open").toned(Tone::Primary),
    }
}
