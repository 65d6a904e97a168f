//! Crossings: actions that may reach from one space into another. None is, unless it is listed.

use super::id_of;
use crate::client::Client;
use crate::commands::action::meant;
use crate::commands::people::People;
use crate::exit::Failure;
use crate::output::{Cell, Column, Table, Terminal};
use crate::style::{Tone, clean};
use api::Page;
use api::gates::{CrossingRequest, CrossingView};
use api::identity::SpaceView;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Args)]
pub(crate) struct Crossing {
    /// Such as files.write_text
    action: String,
    /// The space it reaches out of, by its name or its id
    #[arg(long, value_name = "SPACE")]
    from: String,
    /// The space it reaches into, by its name or its id
    #[arg(long, value_name = "SPACE")]
    to: String,
}

const COLUMNS: &[Column] =
    &[Column::Whole("ACTION"), Column::Whole("FROM"), Column::Whole("TO"), Column::Extra("LISTED BY"), Column::Whole("LISTED")];

impl Crossing {
    pub(super) async fn allow(self, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
        let request = self.request(client).await?;
        if let Err(failure) = client.post::<Value>(&["crossings"], &request).await {
            return Err(meant::with_guess(failure, &request.action, client).await);
        }
        self.tell("✓ may cross", &request, terminal)
    }

    pub(super) async fn forbid(self, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
        let request = self.request(client).await?;
        client.delete_with::<Value>(&["crossings"], &request).await?;
        self.tell("✓ may no longer cross", &request, terminal)
    }

    async fn request(&self, client: &Client) -> Result<CrossingRequest, Failure> {
        let (from_space_id, to_space_id) = (id_of(&self.from, client).await?, id_of(&self.to, client).await?);
        Ok(CrossingRequest { action: self.action.clone(), from_space_id, to_space_id })
    }

    /// The server answers with nothing; what was asked for is what holds.
    fn tell(&self, word: &str, request: &CrossingRequest, terminal: &mut Terminal) -> Result<(), Failure> {
        if terminal.is_document() {
            return terminal.document(&json!(request));
        }
        let way = clean::line(&format!("{} from `{}` to `{}`", self.action, self.from, self.to));
        terminal.note(format!("{} {way}", Tone::Ok.paint(format!("{word}:"))));
        terminal.next("countersign space crossings");
        Ok(())
    }
}

pub(super) async fn list(client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let answer = client.get::<Page<CrossingView>>(&["crossings"], &[]).await?;
    let people = People::load(client, terminal).await;
    let names = names(client).await;
    let mut table = Table::new(COLUMNS, "no crossings: every action stays in its space");
    for crossing in &answer.read.items {
        table.row([
            Cell::text(&crossing.action),
            Cell::shown(named(&crossing.from_space_id, &names), &crossing.from_space_id),
            Cell::shown(named(&crossing.to_space_id, &names), &crossing.to_space_id),
            people.cell(&crossing.listed_by),
            terminal.past(&crossing.listed_at),
        ]);
    }
    terminal.list(&answer.raw, &table)
}

/// Those that touch one space, a line each. Not knowing is no reason to fail.
pub(super) async fn lines_of(space: &str, client: &Client) -> Vec<String> {
    let Ok(answer) = client.get::<Page<CrossingView>>(&["crossings"], &[]).await else { return Vec::new() };
    let touching: Vec<_> =
        answer.read.items.into_iter().filter(|crossing| crossing.from_space_id == space || crossing.to_space_id == space).collect();
    if touching.is_empty() {
        return Vec::new();
    }
    let names = names(client).await;
    let line = |crossing: CrossingView| {
        if crossing.from_space_id == space {
            format!("{} may reach into {}", crossing.action, named(&crossing.to_space_id, &names))
        } else {
            format!("{} may reach in from {}", crossing.action, named(&crossing.from_space_id, &names))
        }
    };
    touching.into_iter().map(line).collect()
}

async fn names(client: &Client) -> BTreeMap<String, String> {
    let all = client.pages::<SpaceView>(&["spaces"], &[]).all().await.unwrap_or_default();
    all.into_iter().map(|(space, _)| (space.id, space.name)).collect()
}

fn named<'a>(id: &'a str, names: &'a BTreeMap<String, String>) -> &'a str {
    names.get(id).map_or(id, String::as_str)
}
