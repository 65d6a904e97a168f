//! Tokens of people and services. Their text is shown once, when they are made; agents get theirs with their session.

use super::people::People;
use super::{more, named};
use crate::args::{Agreed, Paging};
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Record, Table, Terminal};
use crate::style::Tone;
use api::Page;
use api::identity::{NewTokenRequest, NewTokenResponse, TokenView, WhoamiResponse};
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use countersign_core::limits::TOKEN_LIFETIME_DAYS_MAX;

#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token: for yourself, for a person, or for a service with scopes
    #[command(before_help = "Examples:
  countersign token create laptop                                  for yourself
  countersign token create phone --user robin
  countersign token create ci --scope create_session --scope invoke --expires-in-days 30")]
    Create {
        /// What it is for, so that it can be recognised in the list
        name: String,
        /// Whose token it is; yourself when neither this nor a scope is given
        #[arg(long, value_name = "NAME|ID", conflicts_with = "scopes")]
        user: Option<String>,
        /// What a service may do: invoke, read_session, read, create_session, manage_policy, manage_identity
        #[arg(long = "scope", value_name = "SCOPE", value_parser = PossibleValuesParser::new(SCOPES), hide_possible_values = true)]
        scopes: Vec<String>,
        /// Days until it stops working, 1 to 3650; it does not expire when absent
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=TOKEN_LIFETIME_DAYS_MAX))]
        expires_in_days: Option<u64>,
    },
    /// Tokens there are, never their texts
    List(Paging),
    /// Revoke a token at once
    #[command(before_help = "Examples:\n  countersign token revoke tok_…")]
    Revoke {
        id: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

/// All that there are but answering, which takes a person.
const SCOPES: [&str; 6] = ["invoke", "read_session", "read", "create_session", "manage_policy", "manage_identity"];

const COLUMNS: &[Column] = &[
    Column::Whole("ID"),
    Column::Whole("KIND"),
    Column::Cut("NAME"),
    Column::Below("FOR"),
    Column::Cut("SCOPES"),
    Column::Extra("CREATED"),
    Column::Whole("STATE"),
];

impl Token {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Create { name, user, scopes, expires_in_days } => {
                let user_id = match user {
                    None if scopes.is_empty() => Some(own_user(client).await?),
                    None => None,
                    Some(user) => Some(named::user(&user, client).await?),
                };
                create(NewTokenRequest { name, user_id, scopes, expires_in_days }, client, terminal).await?;
            }
            Self::List(paging) => {
                let answer = client.get::<Page<TokenView>>(&["tokens"], &paging.query()).await?;
                let people = People::load(client, terminal).await;
                let mut table = Table::new(COLUMNS, "no tokens");
                for token in &answer.read.items {
                    table.row(row(token, &people, terminal));
                }
                terminal.list(&answer.raw, &table)?;
                more(terminal, &paging, answer.read.next.as_deref(), "countersign token list");
            }
            Self::Revoke { id, agreed } => {
                terminal.consent(&format!("revoke `{id}`?"), agreed.consent(client)).await?;
                let answer = client.post_empty::<TokenView>(&["tokens", &id, "revoke"]).await?;
                if terminal.is_document() {
                    terminal.document(&answer.raw)?;
                }
                terminal.note(format!("{} `{id}` (`{}`)", Tone::Ok.paint("✓ revoked"), crate::style::clean::line(&answer.read.name)));
            }
        }
        Ok(Exit::Ok)
    }
}

async fn own_user(client: &Client) -> Result<String, Failure> {
    let whoami = client.get::<WhoamiResponse>(&["whoami"], &[]).await?.read;
    let own = whoami.principal.strip_prefix("user:").map(str::to_owned);
    own.ok_or_else(|| {
        Failure::usage(format!("`{}` is not a person", whoami.principal))
            .hint("say whose token it is with --user, or what a service may do with --scope")
    })
}

async fn create(request: NewTokenRequest, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let answer = client.post::<NewTokenResponse>(&["tokens"], &request).await?;
    let record = Record::new(&answer.read.id)
        .with("id", Cell::text(&answer.read.id))
        .with("token", Cell::text(&answer.read.token).toned(Tone::Strong));
    terminal.record(&answer.raw, &record)?;
    terminal.remark(Tone::Warn.paint("! the token is shown now and never again"));
    Ok(())
}

fn row(token: &TokenView, people: &People, terminal: &Terminal) -> [Cell; 7] {
    let state = match (&token.revoked_at, &token.expires_at) {
        (Some(_), _) => Cell::text("revoked").toned(Tone::Danger),
        (None, Some(at)) if is_past(at, terminal) => Cell::text("expired").toned(Tone::Muted),
        (None, _) if token.lost.is_some() => lost(token).toned(Tone::Muted),
        (None, Some(at)) => terminal.future(at),
        (None, None) => Cell::text("does not expire"),
    };
    [
        Cell::text(&token.id),
        Cell::text(&token.kind),
        Cell::text(&token.name),
        whose(token, people),
        Cell::text(token.scopes.join(",")),
        terminal.past(&token.created_at),
        state,
    ]
}

/// Its person or its session; a service is its own, and people see who made its token.
fn whose(token: &TokenView, people: &People) -> Cell {
    match (token.user_id.as_ref().or(token.session_id.as_ref()), &token.made_by_id) {
        (Some(own), _) => people.cell(own),
        (None, Some(maker)) => Cell::shown(format!("made by {}", people.name(maker)), ""),
        (None, None) => Cell::missing(),
    }
}

/// What it stood on is gone, in words.
fn lost(token: &TokenView) -> Cell {
    let why = token.lost.as_deref().unwrap_or_default();
    Cell::shown(why.replace('_', " "), why)
}

fn is_past(at: &str, terminal: &Terminal) -> bool {
    countersign_core::Timestamp::parse(at).is_some_and(|at| at <= terminal.now())
}

#[cfg(test)]
mod tests {
    use super::SCOPES;
    use countersign_core::principal::Permission;

    #[test]
    fn every_permission_but_answering_is_a_scope() {
        let known = Permission::ALL.into_iter().filter(|permission| *permission != Permission::Approve);
        assert_eq!(known.map(Permission::as_str).collect::<Vec<_>>(), SCOPES);
    }
}
