//! People.

use super::space::Band;
use super::{more, named};
use crate::args::{Agreed, Paging};
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Record, Table, Terminal};
use crate::style::{Tone, clean};
use api::Page;
use api::identity::{ChangeUserRequest, NewUserRequest, RoleName, UserView};
use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum User {
    /// People there are
    List(Paging),
    /// Add a person
    #[command(before_help = "Examples:\n  countersign user create robin --role admin\n  countersign token create laptop --user robin")]
    Create {
        name: String,
        /// What they may do: only admins and owners answer
        #[arg(long, value_enum, default_value = "member")]
        role: Role,
    },
    /// Change what a person may do; their tokens act under it at once
    #[command(before_help = "Examples:\n  countersign user role robin admin                       they answer from now on")]
    Role {
        /// Their name or their id
        user: String,
        /// Only admins and owners answer
        #[arg(value_enum)]
        role: Role,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Say how dangerous a space they, and whoever acts for them, may act in
    #[command(before_help = "Examples:\n  countersign user limit robin amber                      not in red or black spaces")]
    Limit {
        /// Their name or their id
        user: String,
        /// The most dangerous band
        #[arg(value_enum)]
        band: Band,
    },
    /// Disable a person for good: none of their tokens, their agents' or their services' works any more
    #[command(before_help = "Examples:\n  countersign user disable robin --yes")]
    Disable {
        /// Their name or their id
        #[arg(value_name = "USER")]
        id: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Role {
    Member,
    Admin,
    Owner,
}

impl Role {
    const fn name(self) -> RoleName {
        match self {
            Self::Member => RoleName::Member,
            Self::Admin => RoleName::Admin,
            Self::Owner => RoleName::Owner,
        }
    }

    const fn with_article(self) -> &'static str {
        match self {
            Self::Member => "a member",
            Self::Admin => "an admin",
            Self::Owner => "an owner",
        }
    }
}

const COLUMNS: &[Column] = &[
    Column::Whole("ID"),
    Column::Cut("NAME"),
    Column::Whole("ROLE"),
    Column::Whole("MAX BAND"),
    Column::Extra("CREATED"),
    Column::Whole("STATE"),
];

impl User {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List(paging) => {
                let answer = client.get::<Page<UserView>>(&["users"], &paging.query()).await?;
                let mut table = Table::new(COLUMNS, "no people");
                for user in &answer.read.items {
                    table.row([
                        Cell::text(&user.id),
                        Cell::text(&user.name),
                        Cell::text(role(user)),
                        Cell::text(&user.max_band),
                        terminal.past(&user.created_at),
                        state(user),
                    ]);
                }
                terminal.list(&answer.raw, &table)?;
                more(terminal, &paging, answer.read.next.as_deref(), "countersign user list");
            }
            Self::Create { name, role } => {
                let answer = client.post::<UserView>(&["users"], &NewUserRequest { name, role: role.name() }).await;
                let answer = answer.map_err(|failure| named::taken(failure, "user"))?;
                terminal.record(&answer.raw, &record(&answer.read))?;
                terminal.next(format!("countersign token create laptop --user {}", answer.read.id));
            }
            Self::Role { user, role, agreed } => {
                let id = named::user(&user, client).await?;
                let question = format!("make `{}` {}?", clean::line(&user), role.with_article());
                terminal.consent(&question, agreed.consent(client)).await?;
                let change = ChangeUserRequest { role: Some(role.name()), max_band: None };
                let answer = client.patch::<UserView>(&["users", &id], &change).await?;
                terminal.record(&answer.raw, &record(&answer.read))?;
            }
            Self::Limit { user, band } => {
                let id = named::user(&user, client).await?;
                let change = ChangeUserRequest { role: None, max_band: Some(band.name()) };
                let answer = client.patch::<UserView>(&["users", &id], &change).await?;
                terminal.record(&answer.raw, &record(&answer.read))?;
            }
            Self::Disable { id: user, agreed } => {
                let id = named::user(&user, client).await?;
                terminal.consent(&format!("disable `{}` for good?", clean::line(&user)), agreed.consent(client)).await?;
                let answer = client.post_empty::<UserView>(&["users", &id, "disable"]).await?;
                terminal.record(&answer.raw, &record(&answer.read))?;
            }
        }
        Ok(Exit::Ok)
    }
}

fn record(user: &UserView) -> Record {
    Record::new(&user.id)
        .with("id", Cell::text(&user.id))
        .with("name", Cell::text(&user.name))
        .with("role", Cell::text(role(user)))
        .with("max band", Cell::text(&user.max_band))
        .with("state", state(user))
}

fn state(user: &UserView) -> Cell {
    match user.disabled_at {
        Some(_) => Cell::shown("– disabled", "disabled").toned(Tone::Muted),
        None => Cell::shown("● active", "active").toned(Tone::Primary),
    }
}

const fn role(user: &UserView) -> &'static str {
    match user.role {
        RoleName::Member => "member",
        RoleName::Admin => "admin",
        RoleName::Owner => "owner",
    }
}
