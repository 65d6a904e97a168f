//! Canaries: texts laid out to be stolen. A call that would carry one away is quarantined.

use super::people::People;
use crate::args::Agreed;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Record, Table, Terminal, read_stdin};
use crate::style::{Tone, clean};
use api::Page;
use api::gates::{CanaryView, NewCanaryRequest};
use clap::Subcommand;
use countersign_core::limits::CANARY_CHARS_MAX;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(crate) enum Canary {
    /// Lay out a canary: from now on a call that would carry it away is quarantined
    #[command(before_help = "Examples:
  countersign canary create 'invoice 7731 of Quillfeather Ltd'
  openssl rand -hex 16 | countersign canary create -         unseen by who lists processes")]
    Create {
        /// A text that stands nowhere else; - reads stdin
        text: String,
    },
    /// Canaries there are, for who may change policy
    List,
    /// Take a canary away: what carries it is no longer stopped
    #[command(before_help = "Examples:\n  countersign canary remove cny_…")]
    Remove {
        id: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

const COLUMNS: &[Column] = &[Column::Whole("ID"), Column::Cut("TEXT"), Column::Extra("ADDED BY"), Column::Whole("ADDED")];

/// No character is longer.
const BYTES_MAX: u64 = CANARY_CHARS_MAX as u64 * 4;

impl Canary {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Create { text } => {
                // A file ends with a line break that nobody meant.
                let text = if text == "-" { read_stdin(BYTES_MAX + 2).await?.trim_end_matches(['\r', '\n']).to_owned() } else { text };
                let answer = client.post::<CanaryView>(&["canaries"], &NewCanaryRequest { text }).await?;
                let canary = &answer.read;
                let record =
                    Record::new(&canary.id).with("id", Cell::text(&canary.id).toned(Tone::Strong)).with("text", Cell::text(&canary.text));
                terminal.record(&answer.raw, &record)?;
                terminal.next(format!("countersign canary remove {}", canary.id));
            }
            Self::List => {
                let answer = client.get::<Page<CanaryView>>(&["canaries"], &[]).await?;
                let people = People::load(client, terminal).await;
                let mut table = Table::new(COLUMNS, "no canaries: countersign canary create -");
                for canary in &answer.read.items {
                    table.row([
                        Cell::text(&canary.id),
                        Cell::text(&canary.text),
                        people.cell(&canary.added_by),
                        terminal.past(&canary.added_at),
                    ]);
                }
                terminal.list(&answer.raw, &table)?;
            }
            Self::Remove { id, agreed } => {
                terminal.consent(&format!("remove `{}`?", clean::line(&id)), agreed.consent(client)).await?;
                client.delete::<Value>(&["canaries", &id]).await?;
                // The server answers with nothing.
                if terminal.is_document() {
                    terminal.document(&json!({ "id": id, "removed": true }))?;
                }
                terminal.note(format!("{} `{}`", Tone::Ok.paint("✓ removed"), clean::line(&id)));
            }
        }
        Ok(Exit::Ok)
    }
}
