//! `countersign org`: orgs, managed by operators; and how long your own keeps what it has.

use crate::shared::*;
use api::identity::{NewOrgRequest, NewOrgResponse, OrgView};
use clap::{Args, Subcommand};
use countersign_core::OrgId;
use countersign_core::retention::Retention;
use std::str::FromStr;

#[derive(Debug, Subcommand)]
pub(crate) enum Org {
    /// Create an org and invite its owner
    #[command(before_help = "Examples:
  countersign org create acme
  countersign login --context acme                          its owner redeems the invitation")]
    Create {
        /// What it is called
        name: String,
    },
    /// List orgs
    #[command(before_help = "Examples:\n  countersign org list")]
    List,
    /// Disable an org for good: its tokens stop working, and its data stays
    #[command(before_help = "Examples:\n  countersign org disable acme --yes")]
    Disable {
        /// Its name or its id
        org: String,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Show or set how long your org keeps calls, events and snapshots
    #[command(before_help = RETENTION_EXAMPLES)]
    Retention(SetRetention),
}

const RETENTION_EXAMPLES: &str = "\
Examples:
  countersign org retention                                 what is set
  countersign org retention --receipts-days 180 --events-days 30
  countersign org retention --snapshots-days 30 --snapshot-bytes-max 10000000000
  countersign org retention --events-days default           keep events for 7 days again

The audit log is never cut: every receipt stays, and can be verified.";

#[derive(Debug, Args)]
pub(crate) struct SetRetention {
    /// Days for which ended calls are kept, and the index by which their receipts are found
    #[arg(long, value_name = "DAYS", value_parser = number_or_default::<u32>)]
    receipts_days: Option<NumberOrDefault<u32>>,
    /// Days for which events are kept
    #[arg(long, value_name = "DAYS", value_parser = number_or_default::<u32>)]
    events_days: Option<NumberOrDefault<u32>>,
    /// Days for which snapshots are kept, which reverts need
    #[arg(long, value_name = "DAYS", value_parser = number_or_default::<u32>)]
    snapshots_days: Option<NumberOrDefault<u32>>,
    /// Bytes that snapshots may have; of more, the oldest go
    #[arg(long, value_name = "BYTES", value_parser = number_or_default::<u64>)]
    snapshot_bytes_max: Option<NumberOrDefault<u64>>,
}

/// A number, or `default`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NumberOrDefault<T> {
    Number(T),
    Default,
}

fn number_or_default<T: FromStr>(text: &str) -> Result<NumberOrDefault<T>, String> {
    if text == "default" {
        return Ok(NumberOrDefault::Default);
    }
    text.parse().map(NumberOrDefault::Number).map_err(|_| "expected a number, or `default`".to_owned())
}

impl SetRetention {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let mut answer = client.get::<Retention>(&["retention"], &[]).await?;
        let before = answer.read;
        let wanted = Retention {
            receipts_days: changed(before.receipts_days, self.receipts_days),
            events_days: changed(before.events_days, self.events_days),
            snapshots_days: changed(before.snapshots_days, self.snapshots_days),
            snapshot_bytes_max: changed(before.snapshot_bytes_max, self.snapshot_bytes_max),
        };
        if wanted != before {
            answer = client.put::<Retention>(&["retention"], &wanted).await?;
        }
        let kept = &answer.read;
        let days = |days: Option<u32>| days.map_or_else(|| "for ever".to_owned(), |days| counted(days, "day", "days"));
        let record = Record::new("retention")
            .with("calls", Cell::text(days(kept.receipts_days)))
            .with("events", Cell::text(days(Some(kept.event_days()))))
            .with("snapshots", Cell::text(format!("{} days", kept.snapshot_days())))
            .with_some("snapshots take", kept.snapshot_bytes_max.map(|bytes| Cell::text(format!("{bytes} bytes at most"))))
            .with("audit log", Cell::text("for ever"));
        terminal.record(&answer.raw, &record)?;
        Ok(Exit::Ok)
    }
}

fn changed<T>(before: Option<T>, to: Option<NumberOrDefault<T>>) -> Option<T> {
    match to {
        None => before,
        Some(NumberOrDefault::Default) => None,
        Some(NumberOrDefault::Number(number)) => Some(number),
    }
}

impl Resource for OrgView {
    const NOUN: &'static str = "org";
    const LIST: &'static str = "org list";
    const PATH: &'static [&'static str] = &["orgs"];
    const EMPTY: &'static str = "no orgs";
    const OFFERED: (&'static str, &'static [&'static str]) = ("name", &["id"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("name", Column::Cut, |one, _| text(&one.name)),
        Field::both("created", Column::Extra, |one, view| view.past(one.created_at)),
        Field::both("state", Column::Whole, |one, _| {
            Some(match (&one.disabled_at, one.first) {
                (Some(_), _) => Cell::shown("– disabled", "disabled").toned(Tone::Muted),
                (None, true) => Cell::shown("● first: its owners are the operators", "first").toned(Tone::Primary),
                (None, false) => Cell::shown("● active", "active").toned(Tone::Primary),
            })
        }),
    ];

    fn id(&self) -> &str {
        &self.id
    }
}

impl Named for OrgView {
    fn is_id(text: &str) -> bool {
        OrgId::parse(text).is_ok()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn works(&self) -> bool {
        self.disabled_at.is_none()
    }
}

impl Org {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Create { name } => {
                let answer = client.post::<NewOrgResponse>(&["orgs"], &NewOrgRequest { name }).await;
                let answer = answer.map_err(resource::taken::<OrgView>)?;
                let record = Record::new(&answer.read.id)
                    .with("id", Cell::text(&answer.read.id))
                    .with("name", Cell::text(&answer.read.org.name))
                    .with("owner", Cell::text(&answer.read.owner_id))
                    .with("invitation", Cell::text(&answer.read.invitation.invitation).toned(Tone::Strong))
                    .with("link", super::user::link_of(&answer.read.invitation.invitation, client));
                terminal.secret("invitation", &answer.raw, &record)?;
                terminal.note(super::user::redeemed_with(client));
            }
            Self::Retention(retention) => return retention.run(client, terminal).await,
            Self::List => drop(resource::list::<OrgView>(Asked::default(), client, terminal).await?),
            Self::Disable { org, agreed } => {
                let id = id_of::<OrgView>(&org, client).await?;
                let question = format!("Disable org `{}` for good? None of its tokens will work.", clean::line(&org));
                terminal.consent(&question, agreed.consent(client)).await?;
                let answer = client.post_empty::<OrgView>(&["orgs", &id, "disable"]).await?;
                resource::tell(&answer, client, terminal).await?;
            }
        }
        Ok(Exit::Ok)
    }
}
