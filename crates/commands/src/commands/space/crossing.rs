//! Crossings: actions that may act from one space in another. An action that is not listed may not.

use crate::shared::*;
use api::Page;
use api::gates::{CrossingRequest, CrossingView};
use api::identity::SpaceView;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Args)]
pub(crate) struct Crossing {
    /// The action, such as files.write_text
    action: String,
    /// The space it is called in, by its name or its id
    #[arg(long, value_name = "SPACE")]
    from: String,
    /// The space it acts in, by its name or its id
    #[arg(long, value_name = "SPACE")]
    to: String,
}

const COLUMNS: &[Column] =
    &[Column::Whole("ACTION"), Column::Whole("FROM"), Column::Whole("TO"), Column::Extra("LISTED BY"), Column::Whole("LISTED")];

impl Crossing {
    pub(super) async fn allow(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let request = self.request(client).await?;
        client.post::<Value>(&["crossings"], &request).await?;
        self.tell("allowed", &request, terminal)
    }

    pub(super) async fn forbid(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let request = self.request(client).await?;
        client.delete_with::<Value>(&["crossings"], &request).await?;
        self.tell("no longer allowed", &request, terminal)
    }

    async fn request(&self, client: &Client) -> Result<CrossingRequest, Failure> {
        let (from_space_id, to_space_id) = (id_of::<SpaceView>(&self.from, client).await?, id_of::<SpaceView>(&self.to, client).await?);
        Ok(CrossingRequest { action: self.action.clone(), from_space_id, to_space_id })
    }

    /// Reports the crossing from the request, because the server's answer has no body.
    fn tell(&self, word: &str, request: &CrossingRequest, terminal: &mut Terminal) -> Result<Exit, Failure> {
        if terminal.is_document() {
            terminal.document(&json!(request))?;
            return Ok(Exit::Ok);
        }
        terminal.done(word, format!("{}` from `{}` to `{}", self.action, self.from, self.to), &Value::Null)?;
        terminal.next("countersign space crossings");
        Ok(Exit::Ok)
    }
}

pub(super) async fn list(client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let answer = client.get::<Page<CrossingView>>(&["crossings"], &[]).await?;
    let (known, names) = (Names::load(client, terminal).await, names(client).await);
    let mut table = Table::new(COLUMNS, "no crossings: every action stays in its space");
    for crossing in &answer.read.items {
        table.row([
            Cell::text(&crossing.action),
            Cell::shown(named(&crossing.from_space_id, &names), &crossing.from_space_id),
            Cell::shown(named(&crossing.to_space_id, &names), &crossing.to_space_id),
            known.cell(&crossing.listed_by),
            terminal.past(crossing.listed_at),
        ]);
    }
    terminal.list(&answer.raw, &table)?;
    Ok(Exit::Ok)
}

/// The crossings of one space, one line each; empty if the caller may not read them.
pub(super) async fn lines_of(space: &str, client: &Client) -> Vec<String> {
    let Ok(answer) = client.get::<Page<CrossingView>>(&["crossings"], &[]).await else { return Vec::new() };
    let is_of = |crossing: &CrossingView| crossing.from_space_id == space || crossing.to_space_id == space;
    let touching: Vec<_> = answer.read.items.into_iter().filter(is_of).collect();
    let names = if touching.is_empty() { BTreeMap::new() } else { names(client).await };
    let line = |crossing: CrossingView| {
        if crossing.from_space_id == space {
            format!("{} may act in {}", crossing.action, named(&crossing.to_space_id, &names))
        } else {
            format!("{} may act here from {}", crossing.action, named(&crossing.from_space_id, &names))
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
