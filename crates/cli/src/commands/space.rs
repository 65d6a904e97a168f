//! Spaces: scopes inside an org, each with its rule for who may answer.

use super::more;
use crate::args::Paging;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Record, Table, Terminal};
use api::Page;
use api::identity::{ChangeSpaceRequest, NewSpaceRequest, SelfApprovalRule, SpaceView};
use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Space {
    /// Spaces there are
    List(Paging),
    /// Make a space
    #[command(before_help = "Examples:\n  countersign space create production")]
    Create { name: String },
    /// Change a space
    #[command(before_help = "Examples:\n  countersign space set main --self-approval refused     somebody else must answer")]
    Set {
        /// Its name or its id
        space: String,
        /// Whether whoever asked, or owns the agent that asked, may also answer
        #[arg(long, value_enum, value_name = "RULE")]
        self_approval: SelfApproval,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SelfApproval {
    Allowed,
    Refused,
}

const COLUMNS: &[Column] =
    &[Column::Whole("ID"), Column::Cut("NAME"), Column::Whole("BAND"), Column::Whole("SELF-APPROVAL"), Column::Whole("CREATED")];

impl Space {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List(paging) => {
                let answer = client.get::<Page<SpaceView>>(&["spaces"], &paging.query()).await?;
                let mut table = Table::new(COLUMNS, "no spaces");
                for space in &answer.read.items {
                    let cells = [
                        Cell::text(&space.id),
                        Cell::text(&space.name),
                        Cell::text(&space.band),
                        Cell::text(rule(space)),
                        terminal.past(&space.created_at),
                    ];
                    table.row(cells);
                }
                terminal.list(&answer.raw, &table)?;
                more(terminal, &paging, answer.read.next.as_deref(), "countersign space list");
            }
            Self::Create { name } => {
                let answer = client.post::<SpaceView>(&["spaces"], &NewSpaceRequest { name }).await?;
                terminal.record(&answer.raw, &record(&answer.read))?;
            }
            Self::Set { space, self_approval } => {
                let id = if countersign_core::SpaceId::parse(&space).is_ok() { space } else { find(&space, client).await? };
                let self_approval = match self_approval {
                    SelfApproval::Allowed => SelfApprovalRule::Allowed,
                    SelfApproval::Refused => SelfApprovalRule::Refused,
                };
                let answer = client.patch::<SpaceView>(&["spaces", &id], &ChangeSpaceRequest { self_approval }).await?;
                terminal.record(&answer.raw, &record(&answer.read))?;
            }
        }
        Ok(Exit::Ok)
    }
}

/// The id of the space with this name.
async fn find(name: &str, client: &Client) -> Result<String, Failure> {
    let mut after = None;
    loop {
        let query: Vec<_> = [("limit", "100".to_owned())].into_iter().chain(after.map(|after| ("after", after))).collect();
        let page = client.get::<Page<SpaceView>>(&["spaces"], &query).await?.read;
        if let Some(space) = page.items.into_iter().find(|space| space.name == name) {
            return Ok(space.id);
        }
        after = page.next;
        if after.is_none() {
            return Err(Failure::new(Exit::NotFound, format!("there is no space `{name}`")).hint("countersign space list"));
        }
    }
}

fn record(space: &SpaceView) -> Record {
    Record::new(&space.id)
        .with("id", Cell::text(&space.id))
        .with("name", Cell::text(&space.name))
        .with("band", Cell::text(&space.band))
        .with("self-approval", Cell::text(rule(space)))
}

const fn rule(space: &SpaceView) -> &'static str {
    match space.self_approval {
        SelfApprovalRule::Allowed => "allowed",
        SelfApprovalRule::Refused => "refused",
    }
}
