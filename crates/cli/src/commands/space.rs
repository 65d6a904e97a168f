//! Spaces: scopes inside an org, each with the risk it tolerates and its rule for who may answer.

use super::more;
use crate::args::Paging;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Record, Table, Terminal};
use api::Page;
use api::identity::{BandName, ChangeSpaceRequest, NewSpaceRequest, SelfApprovalRule, SpaceView};
use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Space {
    /// Spaces there are
    List(Paging),
    /// Make a space
    #[command(before_help = "Examples:\n  countersign space create production")]
    Create { name: String },
    /// One space
    #[command(before_help = "Examples:\n  countersign space show main")]
    Show {
        /// Its name or its id
        space: String,
    },
    /// Say how much risk a space tolerates
    #[command(before_help = "\
green  whatever the modes say
amber  what writes waits for a person
red    only R0 runs without a person, R4 never
black  R0 with a person, nothing else

Examples:
  countersign space band production amber")]
    Band {
        /// Its name or its id
        space: String,
        #[arg(value_enum)]
        band: Band,
    },
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
pub(crate) enum Band {
    Green,
    Amber,
    Red,
    Black,
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
            Self::Show { space } => {
                let id = id_of(&space, client).await?;
                let answer = client.get::<SpaceView>(&["spaces", &id], &[]).await?;
                terminal.record(&answer.raw, &record(&answer.read))?;
            }
            Self::Band { space, band } => {
                let band = Some(match band {
                    Band::Green => BandName::Green,
                    Band::Amber => BandName::Amber,
                    Band::Red => BandName::Red,
                    Band::Black => BandName::Black,
                });
                change(&space, &ChangeSpaceRequest { band, ..ChangeSpaceRequest::default() }, client, terminal).await?;
            }
            Self::Set { space, self_approval } => {
                let self_approval = Some(match self_approval {
                    SelfApproval::Allowed => SelfApprovalRule::Allowed,
                    SelfApproval::Refused => SelfApprovalRule::Refused,
                });
                change(&space, &ChangeSpaceRequest { self_approval, ..ChangeSpaceRequest::default() }, client, terminal).await?;
            }
        }
        Ok(Exit::Ok)
    }
}

async fn change(space: &str, request: &ChangeSpaceRequest, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let id = id_of(space, client).await?;
    let answer = client.patch::<SpaceView>(&["spaces", &id], request).await?;
    terminal.record(&answer.raw, &record(&answer.read))
}

async fn id_of(space: &str, client: &Client) -> Result<String, Failure> {
    if countersign_core::SpaceId::parse(space).is_ok() { Ok(space.to_owned()) } else { find(space, client).await }
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
