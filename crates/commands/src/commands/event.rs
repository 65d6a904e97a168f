//! `countersign event`: what happened in the org, published, followed, given out again, and carried elsewhere.

mod dlq;
mod group;
mod moved;
mod tail;

use super::action::params;
use crate::shared::*;
use api::Page;
use api::event::{PublishRequest, PublishedEvents, ReplayGroupRequest, ReplayGroupResponse};
use api::event_types::EventTypeView;
use api::stream::StreamEvent;
use clap::{Args, Subcommand};
use countersign_core::nearest::nearest;
use countersign_core::{EventId, random_bytes};
use std::collections::BTreeMap;

#[derive(Debug, Subcommand)]
pub(crate) enum Event {
    /// Publish an event of your own
    #[command(before_help = "Examples:
  countersign event publish drive.file_added --subject report.pdf --data '{\"size\": 3}'
  countersign event publish order.paid --data @order.json --space main                      starts what listens for it in that space
  countersign event publish order.paid --data @order.json --id order-812 --source /shop     sent again, it is not published again")]
    Publish(Publish),
    /// Follow events as they happen
    #[command(before_help = tail::EXAMPLES)]
    Tail(tail::Tail),
    /// Show one event
    #[command(before_help = "Examples:\n  countersign event show 42\n  countersign event show evt_…\n  countersign event show order-812")]
    Show {
        /// Its position, its id, or the id that whoever sent it gave it
        event: String,
    },
    /// Print data that an event of one of our types could have
    #[command(before_help = "Examples:
  countersign event sample                                      which types there are
  countersign event sample automation.run.failed
  countersign event sample document.added > document.json       to try a filter or a template on")]
    Sample {
        /// Its type, such as invocation.succeeded; all of them are listed when absent
        #[arg(value_name = "TYPE")]
        name: Option<String>,
    },
    /// Give a consumer group events once more
    #[command(before_help = "Examples:
  countersign event replay billing --from 42                 from an event on
  countersign event replay billing --since 24h               from a time on
  countersign event replay billing --dlq                     its dead letters
  countersign event replay automations --from 42 --new-ids   start runs once more")]
    Replay(Replay),
    /// Write events to a file as JSON lines, the oldest first
    #[command(before_help = "Examples:
  countersign event export events.jsonl
  countersign event export - --type drive | gzip > drive.jsonl.gz")]
    Export(moved::Export),
    /// Publish the events of a file; those that are known already are not published again
    #[command(before_help = "Examples:\n  countersign event import events.jsonl\n  zcat drive.jsonl.gz | countersign event import -")]
    Import(moved::Import),
    /// Manage dead letters: events, notices and calls that were given up
    #[command(subcommand)]
    Dlq(dlq::Dlq),
    /// Manage consumer groups
    #[command(subcommand)]
    Group(group::GroupCommand),
}

#[derive(Debug, Args)]
pub(crate) struct Publish {
    /// Its type, such as drive.file_added
    #[arg(value_name = "TYPE")]
    name: String,
    /// Its data as JSON; @file reads a file, - reads stdin
    #[arg(long, value_name = "JSON")]
    data: Option<String>,
    /// What it is about
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// With its source it names the event; a new one when absent
    #[arg(long = "id", value_name = "ID")]
    event_id: Option<String>,
    /// Who says so, as a URI or a part of one
    #[arg(long = "source", value_name = "URI", default_value = "/cli")]
    origin: String,
    /// When it happened, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// The space that it belongs to, whose automations it starts; without one it starts none
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The name of the group
    group: String,
    #[command(flatten)]
    what: Again,
    /// Give the group `automations` the events as new ones, which start runs once more
    #[arg(long, conflicts_with = "dlq")]
    new_ids: bool,
}

/// What it gets once more.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Again {
    /// Everything from the event at this position on
    #[arg(long = "from", value_name = "POSITION")]
    position: Option<i64>,
    /// Everything from this time on: a time, or how long ago it was, such as 24h
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Its dead letters
    #[arg(long)]
    dlq: bool,
}

impl Resource for StreamEvent {
    const NOUN: &'static str = "event";
    const LIST: &'static str = "event tail";
    const PATH: &'static [&'static str] = &["events"];
    const EMPTY: &'static str = "nothing has happened";
    const OFFERED: (&'static str, &'static [&'static str]) = ("cursor", &["type", "subject"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("position", Column::Whole, |one, _| text(&one.cursor)),
        Field::both("type", Column::Whole, |one, _| text(&one.name)),
        Field::both("subject", Column::Cut, |one, _| text(&one.subject)),
        Field::both("time", Column::Whole, |one, view| view.past(one.time)),
        Field::line("source", |one, _| text(&one.source)),
        Field::line("id", |one, _| text(&one.id)),
        Field::line("space", |one, _| maybe(one.spaceid.as_ref())),
        Field::line("receipt", |one, _| maybe(one.receipt.as_ref())),
        Field::line("chain", |one, _| maybe(one.chain.as_ref())),
        Field::line("data", |one, _| text(one.data.to_string())),
    ];

    #[expect(clippy::misnamed_getters, reason = "commands take its position")]
    fn id(&self) -> &str {
        &self.cursor
    }
}

impl Event {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Publish(publish) => publish.run(client, terminal).await,
            Self::Tail(tail) => tail.run(client, terminal).await,
            Self::Show { event } => {
                resource::show::<StreamEvent>(&event, client, terminal).await?;
                Ok(Exit::Ok)
            }
            Self::Sample { name } => sample(name.as_deref(), client, terminal).await,
            Self::Replay(replay) => replay.run(client, terminal).await,
            Self::Export(export) => export.run(client, terminal).await,
            Self::Import(import) => import.run(client, terminal).await,
            Self::Dlq(dlq) => dlq.run(client, terminal).await,
            Self::Group(group) => group.run(client, terminal).await,
        }
    }
}

async fn sample(name: Option<&str>, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let answer = client.get::<Page<EventTypeView>>(&["event-types"], &[]).await?;
    let types = &answer.read.items;
    let Some(name) = name else {
        let mut table = Table::new([Column::Whole("TYPE"), Column::Cut("ABOUT")], "no types");
        types.iter().for_each(|one| table.row([Cell::text(&one.name), Cell::text(&one.about)]));
        terminal.list(&answer.raw, &table)?;
        return Ok(Exit::Ok);
    };
    let Some(found) = types.iter().find(|one| one.name == name) else {
        let near = nearest(name, types.iter().map(|one| one.name.as_str()));
        let unknown = Failure::new(Exit::NotFound, format!("the server publishes no events of the type `{}`", clean::line(name)));
        let list = "list them with `countersign event sample`";
        return Err(unknown.hint(if near.is_empty() { list.to_owned() } else { format!("did you mean {}?", near.join(" or ")) }));
    };
    terminal.document(&found.sample)?;
    Ok(Exit::Ok)
}

impl Publish {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let data = match self.data {
            Some(given) => Some(params::exact(&params::text(given, terminal).await?, "the data is")?),
            None => None,
        };
        let fresh = || EventId::new(terminal.now(), random_bytes(&host::OsRandom::default())).to_string();
        let request = PublishRequest {
            specversion: "1.0".to_owned(),
            id: self.event_id.unwrap_or_else(fresh),
            source: self.origin,
            name: self.name,
            subject: self.subject,
            time: self.time,
            datacontenttype: None,
            spaceid: self.space,
            data,
            more: BTreeMap::new(),
        };
        let answer = client.post::<PublishedEvents>(&["events"], &request).await?;
        let published = answer.read.events.first();
        let verb = if published.is_some_and(|one| one.known) { "known already" } else { "published" };
        terminal.done(verb, &request.name, &answer.raw)?;
        if request.spaceid.is_none() {
            terminal.remark(Tone::Warn.paint("! without --space it starts no automation"));
        }
        if let Some(one) = published {
            terminal.next(format!("countersign event show {}", one.cursor));
        }
        Ok(Exit::Ok)
    }
}

impl Replay {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let Again { position, since, dlq } = self.what;
        let request = ReplayGroupRequest { from: position, since, dead_letters: dlq, new_ids: self.new_ids };
        let answer = client.post::<ReplayGroupResponse>(&["event-groups", &self.group, "replay"], &request).await?;
        if terminal.is_document() {
            terminal.document(&answer.raw)?;
        }
        terminal.note(format!("{} delivered once more", counted(answer.read.replayed, "event is", "events are")));
        Ok(Exit::Ok)
    }
}
