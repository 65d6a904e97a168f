//! People.

use super::more;
use crate::args::Paging;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Consent, Record, Table, Terminal};
use crate::style::Tone;
use api::Page;
use api::identity::{NewUserRequest, RoleName, UserView};
use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum User {
    /// People there are
    List(Paging),
    /// Add a person
    #[command(before_help = "Examples:\n  countersign user create robin --role admin\n  countersign token create laptop --user usr_…")]
    Create {
        name: String,
        /// What they may do: only admins and owners answer
        #[arg(long, value_enum, default_value = "member")]
        role: Role,
    },
    /// Disable a person: none of their tokens works any more
    #[command(before_help = "Examples:\n  countersign user disable usr_… --yes")]
    Disable {
        id: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Role {
    Member,
    Admin,
    Owner,
}

const COLUMNS: &[Column] =
    &[Column::Whole("ID"), Column::Cut("NAME"), Column::Whole("ROLE"), Column::Whole("CREATED"), Column::Whole("STATE")];

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
                        terminal.past(&user.created_at),
                        state(user),
                    ]);
                }
                terminal.list(&answer.raw, &table)?;
                more(terminal, &paging, answer.read.next.as_deref(), "countersign user list");
            }
            Self::Create { name, role } => {
                let role = match role {
                    Role::Member => RoleName::Member,
                    Role::Admin => RoleName::Admin,
                    Role::Owner => RoleName::Owner,
                };
                let answer = client.post::<UserView>(&["users"], &NewUserRequest { name, role }).await?;
                terminal.record(&answer.raw, &record(&answer.read))?;
                terminal.next(format!("countersign token create laptop --user {}", answer.read.id));
            }
            Self::Disable { id, yes } => {
                terminal.consent(&format!("disable `{id}`?"), Consent::from_flag(yes || client.rehearses())).await?;
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
