//! `countersign space`: scopes inside an org. Each has a band, who must answer in it, and what may leave it.

mod crossing;
mod member;

use super::action::params;
use crate::shared::*;
use api::identity::{ChangeSpaceRequest, NewSpaceRequest, RedactionRule, SpaceView};
use clap::{Args, Subcommand, ValueEnum};
use countersign_core::session::{Band, Keeps, Kind, SelfApproval};
use countersign_core::{SpaceId, Tier};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Subcommand)]
pub(crate) enum Space {
    /// List spaces
    #[command(before_help = "Examples:\n  countersign space list")]
    List(Paging),
    /// Create a space
    #[command(before_help = "Examples:\n  countersign space create production")]
    Create {
        /// What it is called
        name: String,
    },
    /// Show one space
    #[command(before_help = "Examples:\n  countersign space show main")]
    Show {
        /// Its name or its id
        space: String,
    },
    /// Set the band of a space: how strict it is
    #[command(before_help = "\
green  modes decide
amber  writes need approval
red    all but R0 needs approval, R4 is denied
black  R0 needs approval, the rest is denied

Examples:
  countersign space band production amber")]
    Band {
        /// Its name or its id
        space: String,
        /// The band
        #[arg(value_parser = one_of(Band::ALL, Band::as_str))]
        band: Band,
    },
    /// Change a space
    #[command(before_help = "Examples:\n  countersign space set main --self-approval refused     somebody else must approve")]
    Set {
        /// Its name or its id
        space: String,
        /// Whether the requester, or the owner of the agent, may approve
        #[arg(long, value_parser = one_of(SelfApproval::ALL, SelfApproval::as_str), value_name = "RULE")]
        self_approval: SelfApproval,
    },
    /// Set how many different people must approve, by tier
    #[command(before_help = "Examples:
  countersign space quorum production R3=2 R4=2             other tiers stay as they are
  countersign space quorum production R3=1                  one person is enough for R3 again
  countersign space quorum production --none                one person is enough for everything")]
    Quorum(Quorum),
    /// Set what is redacted from params before a source sees them
    #[command(before_help = "\
By default a green space redacts nothing, and any other e-mails, telephone numbers and faces.

Examples:
  countersign space redact support email phone --region US --region GB
  countersign space redact support --none                   redact nothing
  countersign space redact support --by-band                what the band says, again")]
    Redact(Redact),
    /// Set what stays of calls that have ended: their texts, or digests only
    #[command(before_help = "Examples:
  countersign space keep clinic digests                     texts are gone an hour after the end
  countersign space keep clinic texts                       from now on")]
    Keep {
        /// Its name or its id
        space: String,
        /// What stays
        #[arg(value_parser = one_of(Keeps::ALL, Keeps::as_str))]
        keeps: Keeps,
    },
    /// Set whether calls of class HIGH need a consent or an approval, or run without
    #[command(before_help = "\
Of class HIGH is what reaches the network, another space, a camera or a microphone, and all of R4. A read of a host that an operator \
listed needs no consent.

Examples:
  countersign space consent lab waived
  countersign space consent lab asked                       as in a new space
  countersign consent give http.request                     your own consent, instead")]
    Consent {
        /// Its name or its id
        space: String,
        /// Whether it is asked for
        #[arg(value_enum)]
        consent: Consent,
    },
    /// Set what automations of a space are given for inputs whose default is `$space_default`
    #[command(before_help = "Examples:
  countersign space defaults main team=ops limit:=20        other names stay as they are
  countersign space defaults main --remove team
  countersign space defaults main --none                    none is left")]
    Defaults(Defaults),
    /// Manage who may act in a space and see it
    #[command(
        subcommand,
        before_help = "\
A space without members is open to everybody in the org. The first member closes it: nobody else calls there, or sees \
what is in it. Admins and owners see every space, and call and approve only where they are members.

Examples:
  countersign space member add payroll robin
  countersign space member list payroll"
    )]
    Member(member::Member),
    /// List the actions that may act across spaces
    #[command(before_help = "Examples:\n  countersign space crossings")]
    Crossings,
    /// Allow an action from one space to act in another
    #[command(before_help = "Examples:\n  countersign space allow-crossing files.write_text --from lab --to production")]
    AllowCrossing(crossing::Crossing),
    /// Remove an allowed crossing
    #[command(before_help = "Examples:\n  countersign space forbid-crossing files.write_text --from lab --to production")]
    ForbidCrossing(crossing::Crossing),
}

#[derive(Debug, Args)]
pub(crate) struct Quorum {
    /// Its name or its id
    space: String,
    /// A tier and how many people; tiers that are not named stay as they are
    #[arg(value_name = "TIER=PEOPLE", value_parser = people_of_tier, required_unless_present = "none", conflicts_with = "none")]
    tiers: Vec<(Tier, u32)>,
    /// One person is enough for everything
    #[arg(long)]
    none: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Defaults {
    /// Its name or its id
    space: String,
    /// The name of an input and a text, or `name:=json`; inputs that are not named stay as they are
    #[arg(value_name = "NAME=VALUE", required_unless_present_any = ["remove", "none"], conflicts_with = "none")]
    words: Vec<String>,
    /// Remove the default of this name
    #[arg(long, value_name = "NAME", conflicts_with = "none")]
    remove: Vec<String>,
    /// Remove all of them
    #[arg(long)]
    none: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Redact {
    /// Its name or its id
    space: String,
    /// What to redact
    #[arg(value_parser = one_of(Kind::ALL, Kind::as_str), value_name = "KIND", required_unless_present_any = ["none", "by_band"], conflicts_with_all = ["none", "by_band"])]
    kinds: Vec<Kind>,
    /// The country of national phone numbers, as two letters
    #[arg(long = "region", value_name = "REGION", conflicts_with = "none")]
    regions: Vec<String>,
    /// Redact nothing
    #[arg(long, conflicts_with = "by_band")]
    none: bool,
    /// Redact what the band says
    #[arg(long)]
    by_band: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Consent {
    Asked,
    Waived,
}

impl Resource for SpaceView {
    const NOUN: &'static str = "space";
    const LIST: &'static str = "space list";
    const PATH: &'static [&'static str] = &["spaces"];
    const EMPTY: &'static str = "no spaces";
    const OFFERED: (&'static str, &'static [&'static str]) = ("name", &["band"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("name", Column::Cut, |one, _| text(&one.name)),
        Field::both("band", Column::Whole, |one, _| text(one.band.as_str())),
        Field::both("self-approval", Column::Whole, |one, _| text(one.self_approval.as_str())),
        Field::line("quorum", |one, _| text(quorum(&one.quorum))),
        Field::line("redacts", |one, _| text(redaction(one))),
        Field::line("keeps", |one, _| text(one.keeps.as_str())),
        Field::line("consent", |one, _| {
            text(if one.asks_consent { "asked for calls of class HIGH that do more than read" } else { "waived for calls of class HIGH" })
        }),
        Field::line("members", |one, _| text(member::told(one.members.as_deref()))),
        Field::line("defaults", |one, _| (!one.defaults.is_empty()).then(|| Cell::text(defaults(&one.defaults)))),
        Field::line("observes", |one, _| one.observes.then(|| Cell::text("yes: it asks nobody, but about R4").toned(Tone::Warn))),
        Field::column("members", Column::Below, |one, _| {
            text(one.members.as_ref().map_or_else(|| "everybody".to_owned(), |members| members.len().to_string()))
        }),
        Field::both("created", Column::Extra, |one, view| view.past(one.created_at)),
        Field::column("observes", Column::Below, |one, _| one.observes.then(|| Cell::text("yes").toned(Tone::Warn))),
    ];

    fn id(&self) -> &str {
        &self.id
    }
}

impl Named for SpaceView {
    fn is_id(text: &str) -> bool {
        SpaceId::parse(text).is_ok()
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl Space {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let unchanged = ChangeSpaceRequest::default;
        let (space, change) = match self {
            Self::List(paging) => {
                resource::list::<SpaceView>(Asked::of(&paging), client, terminal).await?;
                return Ok(Exit::Ok);
            }
            Self::Create { name } => {
                let answer = client.post::<SpaceView>(&["spaces"], &NewSpaceRequest { name }).await;
                resource::tell(&answer.map_err(resource::taken::<SpaceView>)?, client, terminal).await?;
                return Ok(Exit::Ok);
            }
            Self::Show { space } => {
                let id = id_of::<SpaceView>(&space, client).await?;
                let answer = client.get::<SpaceView>(&["spaces", &id], &[]).await?;
                let lines = if terminal.is_for_words() { crossing::lines_of(&id, client).await } else { Vec::new() };
                let more = |record| lines.iter().fold(record, |record: Record, line| record.with("crossing", Cell::text(line)));
                resource::tell_with(&answer, more, client, terminal).await?;
                return Ok(Exit::Ok);
            }
            Self::Member(member) => return member.run(client, terminal).await,
            Self::Crossings => return crossing::list(client, terminal).await,
            Self::AllowCrossing(crossing) => return crossing.allow(client, terminal).await,
            Self::ForbidCrossing(crossing) => return crossing.forbid(client, terminal).await,
            Self::Band { space, band } => (space, ChangeSpaceRequest { band: Some(band), ..unchanged() }),
            Self::Set { space, self_approval } => (space, ChangeSpaceRequest { self_approval: Some(self_approval), ..unchanged() }),
            Self::Keep { space, keeps } => (space, ChangeSpaceRequest { keeps: Some(keeps), ..unchanged() }),
            Self::Consent { space, consent } => {
                let asks_consent = Some(matches!(consent, Consent::Asked));
                (space, ChangeSpaceRequest { asks_consent, ..unchanged() })
            }
            Self::Quorum(Quorum { space, tiers, none }) => {
                let id = id_of::<SpaceView>(&space, client).await?;
                let mut quorum = client.get::<SpaceView>(&["spaces", &id], &[]).await?.read.quorum;
                if none {
                    quorum.clear();
                }
                quorum.extend(tiers);
                // One person is what every tier takes that has no row.
                quorum.retain(|_, people| *people > 1);
                (id, ChangeSpaceRequest { quorum: Some(quorum), ..unchanged() })
            }
            Self::Defaults(Defaults { space, words, remove, none }) => {
                let given = params::read(None, &words, terminal).await?;
                let id = id_of::<SpaceView>(&space, client).await?;
                let mut defaults = client.get::<SpaceView>(&["spaces", &id], &[]).await?.read.defaults;
                defaults.retain(|name, _| !none && !remove.contains(name));
                defaults.extend(given.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
                (id, ChangeSpaceRequest { defaults: Some(defaults), ..unchanged() })
            }
            Self::Redact(Redact { space, kinds, regions, none: _, by_band }) => {
                let regions = regions.into_iter().map(|region| region.to_uppercase()).collect();
                let kinds = (!by_band).then_some(kinds);
                let redaction = Some(RedactionRule { kinds, regions });
                (space, ChangeSpaceRequest { redaction, ..unchanged() })
            }
        };
        let id = id_of::<SpaceView>(&space, client).await?;
        let answer = client.patch::<SpaceView>(&["spaces", &id], &change).await?;
        resource::tell(&answer, client, terminal).await?;
        Ok(Exit::Ok)
    }
}

fn quorum(by_tier: &BTreeMap<Tier, u32>) -> String {
    if by_tier.is_empty() {
        return "one person".to_owned();
    }
    by_tier.iter().map(|(tier, people)| format!("{tier}: {}", counted(*people, "person", "people"))).collect::<Vec<_>>().join(", ")
}

fn defaults(by_name: &BTreeMap<String, Value>) -> String {
    by_name.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", ")
}

fn redaction(space: &SpaceView) -> String {
    if space.redacts.is_empty() {
        return "nothing".to_owned();
    }
    let rule = &space.redaction;
    let regions = if rule.regions.is_empty() { String::new() } else { format!(" (numbers of {})", rule.regions.join(", ")) };
    let by_band = if rule.kinds.is_none() { ", by its band" } else { "" };
    let kinds: Vec<_> = space.redacts.iter().map(|kind| kind.as_str()).collect();
    format!("{}{regions}{by_band}", kinds.join(", "))
}

/// Reads `R3=2`.
fn people_of_tier(text: &str) -> Result<(Tier, u32), String> {
    let unclear = || "expected a tier and a number of people, such as R3=2".to_owned();
    let (tier, people) = text.split_once('=').ok_or_else(unclear)?;
    let tier = Tier::parse(&tier.to_uppercase()).ok_or_else(unclear)?;
    let people = people.parse().ok().filter(|people| *people > 0).ok_or_else(unclear)?;
    Ok((tier, people))
}
