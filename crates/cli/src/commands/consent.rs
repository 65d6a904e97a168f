//! Consents: a person's own leave for a purpose, given and taken back by themselves.

use super::people::People;
use super::{more, space};
use crate::args::{Paging, Span};
use crate::client::{Answer, Client};
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Record, Table, Terminal};
use crate::style::Tone;
use api::Page;
use api::gates::{ConsentView, NewConsentRequest};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Consent {
    /// Consents, newest first; your own unless you are an admin
    List(Paging),
    /// Give your own leave for a purpose
    #[command(before_help = "Examples:
  countersign consent give files.write_text --expires 30d
  countersign consent give purpose:newsletter --space lab --evidence 'asked on the phone'")]
    Give {
        /// An action, or a kind and a name such as purpose:newsletter
        purpose: String,
        /// Only in this space, by its name or its id
        #[arg(long, value_name = "SPACE")]
        space: Option<String>,
        /// How long it lasts, such as 30d; until it is withdrawn when absent
        #[arg(long, value_name = "TIME", value_parser = Span::parse)]
        expires: Option<Span>,
        /// What you were shown or said
        #[arg(long, value_name = "TEXT")]
        evidence: Option<String>,
    },
    /// Take your leave back, at once
    #[command(before_help = "Examples:\n  countersign consent withdraw con_…")]
    Withdraw { id: String },
}

const COLUMNS: &[Column] = &[
    Column::Whole("ID"),
    Column::Whole("PURPOSE"),
    Column::Whole("STATE"),
    Column::Whole("GIVEN"),
    Column::Extra("WHO"),
    Column::Extra("SPACE"),
    Column::Extra("EXPIRES"),
];

impl Consent {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List(paging) => {
                let answer = client.get::<Page<ConsentView>>(&["consents"], &paging.query()).await?;
                let people = People::load(client, terminal).await;
                let mut table = Table::new(COLUMNS, "no consents: countersign consent give files.write_text");
                for consent in &answer.read.items {
                    table.row([
                        Cell::text(&consent.id),
                        Cell::text(&consent.purpose),
                        state(consent),
                        terminal.past(&consent.given_at),
                        people.cell(&consent.user_id),
                        Cell::maybe(consent.space_id.as_ref()),
                        expires(consent, terminal),
                    ]);
                }
                terminal.list(&answer.raw, &table)?;
                more(terminal, &paging, answer.read.next.as_deref(), "countersign consent list");
            }
            Self::Give { purpose, space, expires, evidence } => {
                let space_id = match &space {
                    Some(space) => Some(space::id_of(space, client).await?),
                    None => None,
                };
                let request =
                    NewConsentRequest { purpose: named(purpose), space_id, expires_in: expires.as_ref().map(Span::text), evidence };
                let answer = client.post::<ConsentView>(&["consents"], &request).await?;
                tell(&answer, client, terminal).await?;
                terminal.next(format!("countersign consent withdraw {}", answer.read.id));
            }
            Self::Withdraw { id } => {
                let answer = client.delete::<ConsentView>(&["consents", &id]).await?;
                tell(&answer, client, terminal).await?;
            }
        }
        Ok(Exit::Ok)
    }
}

/// A bare action is a purpose, too.
fn named(purpose: String) -> String {
    if purpose.contains(':') { purpose } else { format!("action:{purpose}") }
}

async fn tell(answer: &Answer<ConsentView>, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let people = People::load(client, terminal).await;
    let consent = &answer.read;
    let record = Record::new(&consent.id)
        .with("id", Cell::text(&consent.id).toned(Tone::Strong))
        .with("purpose", Cell::text(&consent.purpose))
        .with("state", state(consent))
        .with("who", people.whole(&consent.user_id))
        .with_some("space", consent.space_id.as_ref().map(Cell::text))
        .with("expires", expires(consent, terminal))
        .with_some("withdrawn", consent.withdrawn_at.as_ref().map(|at| terminal.past(at)))
        .with_some("evidence", consent.evidence.as_ref().map(Cell::text));
    terminal.record(&answer.raw, &record)
}

fn expires(consent: &ConsentView, terminal: &Terminal) -> Cell {
    match (&consent.expires_at, consent.state.as_str()) {
        (Some(at), "live") => terminal.future(at),
        (Some(at), "expired") => terminal.past(at),
        (Some(at), _) => Cell::shown("–", at).toned(Tone::Muted),
        (None, "live") => Cell::shown("when withdrawn", ""),
        (None, _) => Cell::missing(),
    }
}

fn state(consent: &ConsentView) -> Cell {
    match consent.state.as_str() {
        "live" => Cell::shown("● live", "live").toned(Tone::Primary),
        "expired" => Cell::shown("◌ expired", "expired").toned(Tone::Muted),
        "withdrawn" => Cell::shown("– withdrawn", "withdrawn").toned(Tone::Muted),
        other => Cell::text(other),
    }
}
