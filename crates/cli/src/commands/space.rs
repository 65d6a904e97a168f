//! Spaces: scopes inside an org, each with the risk it tolerates, who must answer in it and what may leave it.

mod crossing;

use super::{more, named};
use crate::args::Paging;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Record, Table, Terminal};
use crate::style::counted;
use api::Page;
use api::identity::{BandName, ChangeSpaceRequest, NewSpaceRequest, RedactionRule, SelfApprovalRule, SpaceView};
use clap::{Args, Subcommand, ValueEnum};
use countersign_core::Tier;
use std::collections::BTreeMap;

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
    /// Say how many different people must say yes, by tier
    #[command(before_help = "Examples:
  countersign space quorum production R3=2 R4=2
  countersign space quorum production --none                one person is enough again")]
    Quorum(Quorum),
    /// Say what is taken out of params before a source sees them
    #[command(before_help = "Examples:
  countersign space redact support email phone --region US --region GB
  countersign space redact support --none                   take nothing out")]
    Redact(Redact),
    /// Actions that may reach from one space into another
    Crossings,
    /// Let an action reach from one space into another
    #[command(before_help = "Examples:\n  countersign space allow-crossing files.write_text --from lab --to production")]
    AllowCrossing(crossing::Crossing),
    /// Take that back
    #[command(before_help = "Examples:\n  countersign space forbid-crossing files.write_text --from lab --to production")]
    ForbidCrossing(crossing::Crossing),
}

#[derive(Debug, Args)]
pub(crate) struct Quorum {
    /// Its name or its id
    space: String,
    /// A tier and how many people; what is not named takes one
    #[arg(value_name = "TIER=PEOPLE", value_parser = people_of_tier, required_unless_present = "none", conflicts_with = "none")]
    tiers: Vec<(String, u32)>,
    /// One person is enough for everything
    #[arg(long)]
    none: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Redact {
    /// Its name or its id
    space: String,
    /// What to take out
    #[arg(value_enum, value_name = "KIND", required_unless_present = "none", conflicts_with = "none")]
    kinds: Vec<Kind>,
    /// Where national telephone numbers are from, as two letters
    #[arg(long = "region", value_name = "REGION", conflicts_with = "none")]
    regions: Vec<String>,
    /// Take nothing out
    #[arg(long)]
    none: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Kind {
    Email,
    Phone,
    Secret,
    Face,
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
    &[Column::Whole("ID"), Column::Cut("NAME"), Column::Whole("BAND"), Column::Whole("SELF-APPROVAL"), Column::Extra("CREATED")];

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
                let answer = client.post::<SpaceView>(&["spaces"], &NewSpaceRequest { name }).await;
                let answer = answer.map_err(|failure| named::taken(failure, "space"))?;
                terminal.record(&answer.raw, &record(&answer.read))?;
            }
            Self::Show { space } => {
                let id = id_of(&space, client).await?;
                let answer = client.get::<SpaceView>(&["spaces", &id], &[]).await?;
                let crossings = if terminal.is_for_words() { crossing::lines_of(&id, client).await } else { Vec::new() };
                let record = crossings.into_iter().fold(record(&answer.read), |record, line| record.with("crossing", Cell::text(line)));
                terminal.record(&answer.raw, &record)?;
            }
            Self::Band { space, band } => {
                let band = Some(band.name());
                change(&space, &ChangeSpaceRequest { band, ..ChangeSpaceRequest::default() }, client, terminal).await?;
            }
            Self::Set { space, self_approval } => {
                let self_approval = Some(match self_approval {
                    SelfApproval::Allowed => SelfApprovalRule::Allowed,
                    SelfApproval::Refused => SelfApprovalRule::Refused,
                });
                change(&space, &ChangeSpaceRequest { self_approval, ..ChangeSpaceRequest::default() }, client, terminal).await?;
            }
            Self::Quorum(Quorum { space, tiers, none: _ }) => {
                let quorum = Some(tiers.into_iter().collect());
                change(&space, &ChangeSpaceRequest { quorum, ..ChangeSpaceRequest::default() }, client, terminal).await?;
            }
            Self::Redact(Redact { space, kinds, regions, none: _ }) => {
                let name = |kind: Kind| kind.to_possible_value().map(|value| value.get_name().to_owned());
                let regions = regions.into_iter().map(|region| region.to_uppercase()).collect();
                let redaction = Some(RedactionRule { kinds: kinds.into_iter().filter_map(name).collect(), regions });
                change(&space, &ChangeSpaceRequest { redaction, ..ChangeSpaceRequest::default() }, client, terminal).await?;
            }
            Self::Crossings => crossing::list(client, terminal).await?,
            Self::AllowCrossing(crossing) => crossing.allow(client, terminal).await?,
            Self::ForbidCrossing(crossing) => crossing.forbid(client, terminal).await?,
        }
        Ok(Exit::Ok)
    }
}

async fn change(space: &str, request: &ChangeSpaceRequest, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let id = id_of(space, client).await?;
    let answer = client.patch::<SpaceView>(&["spaces", &id], request).await?;
    terminal.record(&answer.raw, &record(&answer.read))
}

/// The id of a space that is named or given by its id.
pub(super) async fn id_of(space: &str, client: &Client) -> Result<String, Failure> {
    if countersign_core::SpaceId::parse(space).is_ok() {
        return Ok(space.to_owned());
    }
    let found = client.pages::<SpaceView>(&["spaces"], &[]).find(|found| found.name == space).await?;
    let unknown = || Failure::new(Exit::NotFound, format!("there is no space `{space}`")).hint("countersign space list");
    found.map(|found| found.id).ok_or_else(unknown)
}

fn record(space: &SpaceView) -> Record {
    Record::new(&space.id)
        .with("id", Cell::text(&space.id))
        .with("name", Cell::text(&space.name))
        .with("band", Cell::text(&space.band))
        .with("self-approval", Cell::text(rule(space)))
        .with("quorum", Cell::text(quorum(&space.quorum)))
        .with("takes out", Cell::text(redaction(&space.redaction)))
}

fn quorum(by_tier: &BTreeMap<String, u32>) -> String {
    if by_tier.is_empty() {
        return "one person".to_owned();
    }
    by_tier.iter().map(|(tier, people)| format!("{tier}: {}", counted(*people, "person", "people"))).collect::<Vec<_>>().join(", ")
}

fn redaction(rule: &RedactionRule) -> String {
    if rule.kinds.is_empty() {
        return "nothing".to_owned();
    }
    let regions = if rule.regions.is_empty() { String::new() } else { format!(" (numbers of {})", rule.regions.join(", ")) };
    format!("{}{regions}", rule.kinds.join(", "))
}

/// Reads `R3=2`.
fn people_of_tier(text: &str) -> Result<(String, u32), String> {
    let unclear = || "expected a tier and a number of people, such as R3=2".to_owned();
    let (tier, people) = text.split_once('=').ok_or_else(unclear)?;
    let tier = Tier::parse(&tier.to_uppercase()).ok_or_else(unclear)?;
    let people = people.parse().ok().filter(|people| *people > 0).ok_or_else(unclear)?;
    Ok((tier.to_string(), people))
}

impl Band {
    pub(super) const fn name(self) -> BandName {
        match self {
            Self::Green => BandName::Green,
            Self::Amber => BandName::Amber,
            Self::Red => BandName::Red,
            Self::Black => BandName::Black,
        }
    }
}

const fn rule(space: &SpaceView) -> &'static str {
    match space.self_approval {
        SelfApprovalRule::Allowed => "allowed",
        SelfApprovalRule::Refused => "refused",
    }
}
