//! `countersign channel`: where people are told of calls that wait for them, and what became of what they were told.

use crate::shared::*;
use api::channel::{
    ChannelTestResponse, ChannelView, DeliveryView, DropDeliveriesRequest, DroppedDeliveriesResponse, NewChannelRequest,
    RetriedDeliveriesResponse, RetryDeliveriesRequest,
};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use countersign_core::channel::{ChannelSetting, DeliveryState, SettingShape};
use countersign_core::session::Attendance;
use countersign_core::{Band, Tier};
use notify::{KINDS, Kind};
use serde_json::{Map, Value, json};

#[derive(Debug, Subcommand)]
pub(crate) enum Channel {
    /// Add a channel: from now on it is told of calls that wait for a person
    #[command(before_help = "Examples:
  countersign channel add pager --webhook https://hooks.example.com/countersign --secret pager-key
  countersign channel add night --slack C024BE91L --token slack-bot --signing-secret slack-sign --user U123=robin --attendance unattended
  countersign channel add mail --email robin@example.com --after 10m                 through the org's mail connection
  countersign channel add refunds --webhook https://hooks.example.com/r --secret pager-key --space shop --tier R3 --tier R4")]
    Add(Box<Add>),
    /// List channels
    #[command(before_help = "Examples:\n  countersign channel list")]
    List(Paging),
    /// Show a channel
    #[command(before_help = "Examples:
  countersign channel show pager
  countersign channel show chn_…                             also after it was removed")]
    Show {
        /// Its name or id
        #[arg(value_name = "NAME")]
        channel: String,
    },
    /// Send a test message now, and say what became of it
    #[command(before_help = "Examples:\n  countersign channel test pager")]
    Test {
        /// Its name
        #[arg(value_name = "NAME")]
        channel: String,
    },
    /// Remove a channel: it is told nothing any more, also not what waits to be delivered
    #[command(before_help = "Examples:\n  countersign channel remove pager")]
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        channel: String,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// List what is or was on its way to channels, newest first
    #[command(before_help = "Examples:
  countersign channel deliveries pager
  countersign channel deliveries --state dead                dead letters: what was given up")]
    Deliveries {
        /// Only those of this channel
        #[arg(value_name = "NAME")]
        channel: Option<String>,
        /// Only those in this state
        #[arg(long, value_parser = one_of(DeliveryState::ALL, DeliveryState::as_str))]
        state: Option<DeliveryState>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Deliver dead letters once more: one, or all of a channel
    #[command(before_help = "Examples:
  countersign channel retry pager
  countersign channel retry pager dlv_…")]
    Retry {
        /// Its name
        #[arg(value_name = "NAME")]
        channel: String,
        /// Only this one
        delivery: Option<String>,
    },
    /// Drop dead letters: one, or all of a channel; they are delivered no more
    #[command(before_help = "Examples:
  countersign channel drop pager
  countersign channel drop pager dlv_…")]
    Drop {
        /// Its name
        #[arg(value_name = "NAME")]
        channel: String,
        /// Only this one
        delivery: Option<String>,
        #[command(flatten)]
        agreed: Agreed,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Its name, with which it is referred to
    name: String,
    #[command(flatten)]
    tells: Tells,
    /// Only calls of this space
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
    /// Only calls of this tier, R0 to R4; may be given several times
    #[arg(long, value_name = "TIER", value_parser = tier)]
    tier: Vec<Tier>,
    /// Only calls in spaces of this band; may be given several times
    #[arg(long, value_name = "BAND", value_parser = band)]
    band: Vec<Band>,
    /// Only calls of sessions that are interactive, or unattended
    #[arg(long, value_name = "WHICH", value_parser = attendance)]
    attendance: Option<Attendance>,
    /// Only if the call still waits after this time, such as 10m
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    after: Option<Span>,
}

/// How it tells, from the flags of each kind of channel.
#[derive(Debug)]
struct Tells {
    kind: &'static Kind,
    settings: Map<String, Value>,
}

impl Args for Tells {
    fn augment_args(command: Command) -> Command {
        let all = KINDS.iter().flat_map(|kind| kind.settings.iter().map(move |setting| argument(kind, setting)));
        // The first of each kind says which kind it is.
        let firsts = KINDS.iter().map(|kind| id(kind, kind.settings[0].name));
        command.args(all).group(ArgGroup::new("kind").required(true).args(firsts))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Tells {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_meant = |kind: &&Kind| matches.contains_id(&id(kind, kind.settings[0].name));
        let kind = KINDS.iter().find(is_meant).ok_or_else(|| clap::Error::new(clap::error::ErrorKind::MissingRequiredArgument))?;
        let given = |setting: &ChannelSetting| Some((setting.name.to_owned(), value(setting, matches.get_many(&id(kind, setting.name))?)));
        Ok(Self { kind, settings: kind.settings.iter().filter_map(given).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn id(kind: &Kind, setting: &str) -> String {
    format!("{}.{setting}", kind.name)
}

fn argument(kind: &Kind, setting: &ChannelSetting) -> Arg {
    let argument = Arg::new(id(kind, setting.name)).long(kind.flag(setting)).value_name(setting.value);
    let argument = argument.help_heading(format!("Tell by {}", kind.title)).requires_all(required(kind, setting));
    match setting.shape {
        SettingShape::Text | SettingShape::Secret => argument.help(setting.help),
        SettingShape::Recipients | SettingShape::People => {
            let argument = argument.help(format!("{}; may be given several times", setting.help)).action(ArgAction::Append);
            if setting.shape == SettingShape::People { argument.value_parser(is_pair) } else { argument }
        }
    }
}

/// The flags without which that of the setting says too little.
fn required(kind: &Kind, setting: &ChannelSetting) -> Vec<String> {
    let needed = kind.settings.iter().filter(|other| other.is_required || setting.needs == Some(other.name));
    needed.filter(|other| other.name != setting.name).map(|other| id(kind, other.name)).collect()
}

fn value(setting: &ChannelSetting, mut given: clap::parser::ValuesRef<'_, String>) -> Value {
    match setting.shape {
        SettingShape::Text | SettingShape::Secret => json!(given.next()),
        SettingShape::Recipients => given.cloned().collect(),
        SettingShape::People => {
            given.filter_map(|pair| pair.split_once('=')).map(|(theirs, ours)| (theirs.to_owned(), json!(ours))).collect()
        }
    }
}

fn is_pair(text: &str) -> Result<String, String> {
    let pair = text.contains('=').then(|| text.to_owned());
    pair.ok_or_else(|| "expected somebody of theirs and a name of ours, such as U123=robin".to_owned())
}

fn tier(text: &str) -> Result<Tier, String> {
    Tier::parse(&text.to_uppercase()).ok_or_else(|| format!("expected a tier: {}", Tier::ALL.map(Tier::as_str).join(", ")))
}

fn band(text: &str) -> Result<Band, String> {
    Band::parse(text).ok_or_else(|| format!("expected a band: {}", Band::ALL.map(Band::as_str).join(", ")))
}

fn attendance(text: &str) -> Result<Attendance, String> {
    Attendance::parse(text).ok_or_else(|| "expected interactive or unattended".to_owned())
}

impl Resource for ChannelView {
    const NOUN: &'static str = "channel";
    const LIST: &'static str = "channel list";
    const PATH: &'static [&'static str] = &["channels"];
    const EMPTY: &'static str = "no channels: countersign channel add NAME --webhook URL --secret SECRET";
    const OFFERED: (&'static str, &'static [&'static str]) = ("name", &["kind"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("name", Column::Whole, |one, _| text(&one.name)),
        Field::both("kind", Column::Whole, |one, _| text(&one.kind)),
        Field::both("tells", Column::Cut, |one, _| text(tells(one))),
        Field::both("only", Column::Cut, |one, _| text(only(one))),
        Field::both("after", Column::Whole, |one, _| match one.after_seconds {
            0 => text("at once"),
            seconds => text(format!("{seconds} s")),
        }),
        Field::both("dead letters", Column::Whole, |one, _| match one.dead {
            0 => Some(Cell::text("0").toned(Tone::Muted)),
            dead => Some(Cell::text(dead.to_string()).toned(Tone::Warn)),
        }),
        Field::line("secrets", |one, _| maybe(secrets(one))),
        Field::both("created by", Column::Extra, |one, view| view.who(&one.created_by)),
        Field::line("created", |one, view| view.past(one.created_at)),
        Field::line("removed", |one, view| one.removed_at.and_then(|at| view.past(at))),
        Field::line("id", |one, _| text(&one.id)),
    ];

    #[expect(clippy::misnamed_getters, reason = "commands take its name")]
    fn id(&self) -> &str {
        &self.name
    }

    fn more(&self, record: Record) -> Record {
        warned(record, &self.warnings)
    }

    fn next(&self) -> Option<String> {
        match (self.removed_at, self.dead) {
            (Some(_), _) => None,
            (None, 0) => Some(format!("countersign channel test {}", self.name)),
            (None, _) => Some(format!("countersign channel deliveries {} --state dead", self.name)),
        }
    }
}

/// The channels that have dead letters; none if the list cannot be read.
pub(super) async fn with_dead_letters(client: &Client) -> Vec<ChannelView> {
    let channels = client.pages::<ChannelView>(ChannelView::PATH, &[]).all().await.unwrap_or_default();
    channels.into_iter().map(|(channel, _)| channel).filter(|channel| channel.dead > 0).collect()
}

/// What would be noticed late, one line each.
fn warned(record: Record, warnings: &[String]) -> Record {
    warnings.iter().fold(record, |record, warning| record.with("warning", Cell::text(warning).toned(Tone::Warn)))
}

/// Whom or what a channel tells.
fn tells(one: &ChannelView) -> String {
    let first = notify::kind(&one.kind).and_then(|kind| one.settings.get(kind.settings[0].name));
    match first {
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        Some(other) => other.as_str().unwrap_or_default().to_owned(),
        None => String::new(),
    }
}

/// Which calls it is told of.
fn only(one: &ChannelView) -> String {
    let tiers = one.tiers.iter().map(|tier| tier.as_str());
    let bands = one.bands.iter().map(|band| band.as_str());
    let words: Vec<_> = tiers.chain(bands).chain(one.attendance.map(Attendance::as_str)).chain(one.space.as_deref()).collect();
    if words.is_empty() { "all calls".to_owned() } else { words.join(" ") }
}

/// The names of its secrets.
fn secrets(one: &ChannelView) -> Option<String> {
    let settings = notify::kind(&one.kind)?.settings.iter().filter(|setting| setting.shape == SettingShape::Secret);
    let named: Vec<_> = settings.filter_map(|setting| one.settings.get(setting.name)?.as_str()).collect();
    (!named.is_empty()).then(|| named.join(", "))
}

impl Resource for DeliveryView {
    const NOUN: &'static str = "delivery";
    const LIST: &'static str = "channel deliveries";
    const PATH: &'static [&'static str] = &["deliveries"];
    const EMPTY: &'static str = "nothing was ever on its way";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["state", "moment"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("channel", Column::Whole, |one, _| text(named(one))),
        Field::both("invocation", Column::Below, |one, _| text(&one.invocation_id)),
        Field::both("moment", Column::Whole, |one, _| text(one.moment.as_str())),
        Field::both("state", Column::Whole, |one, _| Some(state(one.state))),
        Field::both("attempts", Column::Whole, |one, _| text(one.attempts.to_string())),
        Field::both("problem", Column::Cut, |one, _| maybe(one.problem.as_ref())),
        Field::both("recipient", Column::Extra, |one, _| maybe(one.recipient.as_ref())),
        Field::both("next attempt", Column::Extra, |one, view| one.due_at.and_then(|at| view.future(at))),
        Field::both("made", Column::Whole, |one, view| view.past(one.created_at)),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn next_of(items: &[Self]) -> Option<String> {
        let dead = items.iter().find(|one| one.state == DeliveryState::Dead)?;
        Some(format!("countersign channel retry {} {}", named(dead), dead.id))
    }
}

/// The channel of a delivery by its name, or by its id if the server tells no name.
fn named(delivery: &DeliveryView) -> &str {
    delivery.channel_name.as_deref().unwrap_or(&delivery.channel)
}

fn state(state: DeliveryState) -> Cell {
    let tone = match state {
        DeliveryState::Waiting => Tone::Warn,
        DeliveryState::Sent => Tone::Ok,
        DeliveryState::Skipped => Tone::Muted,
        DeliveryState::Dead => Tone::Danger,
    };
    Cell::text(state.as_str()).toned(tone)
}

impl Channel {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Add(add) => {
                let answer = client.post::<ChannelView>(&["channels"], &add.request()).await?;
                resource::tell(&answer, client, terminal).await?;
            }
            Self::List(paging) => drop(resource::list::<ChannelView>(Asked::of(&paging), client, terminal).await?),
            Self::Show { channel } => drop(resource::show::<ChannelView>(&channel, client, terminal).await?),
            Self::Test { channel } => return test(&channel, client, terminal).await,
            Self::Remove { channel, agreed } => {
                let question = format!("Remove channel `{}`? It is told nothing any more.", clean::line(&channel));
                terminal.consent(&question, agreed.consent(client)).await?;
                client.delete::<Value>(&["channels", &channel]).await?;
                // The server's answer has no body.
                terminal.done("removed", &channel, &json!({ "name": channel, "removed": true }))?;
            }
            Self::Deliveries { channel, state, paging } => {
                let asked = Asked::of(&paging).word("channel", channel).only("state", state.map(|state| state.to_string()));
                resource::list::<DeliveryView>(asked, client, terminal).await?;
            }
            Self::Retry { channel, delivery } => {
                let request = RetryDeliveriesRequest { delivery };
                let answer = client.post::<RetriedDeliveriesResponse>(&["channels", &channel, "retry"], &request).await?;
                if terminal.is_document() {
                    terminal.document(&answer.raw)?;
                }
                terminal.note(format!("{} delivered once more", counted(answer.read.retried, "dead letter is", "dead letters are")));
            }
            Self::Drop { channel, delivery, agreed } => {
                let which = delivery.as_ref().map_or_else(|| "all dead letters".to_owned(), |one| format!("`{}`", clean::line(one)));
                let question = format!("Drop {which} of channel `{}`? Nobody is told of them any more.", clean::line(&channel));
                terminal.consent(&question, agreed.consent(client)).await?;
                let request = DropDeliveriesRequest { delivery };
                let answer = client.post::<DroppedDeliveriesResponse>(&["channels", &channel, "drop"], &request).await?;
                if terminal.is_document() {
                    terminal.document(&answer.raw)?;
                }
                terminal.note(format!("{} dropped", counted(answer.read.dropped, "dead letter is", "dead letters are")));
            }
        }
        Ok(Exit::Ok)
    }
}

impl Add {
    fn request(self) -> NewChannelRequest {
        let Self { name, tells: Tells { kind, settings }, space, tier: tiers, band: bands, attendance, after } = self;
        NewChannelRequest {
            name,
            kind: kind.name.to_owned(),
            settings: Value::Object(settings),
            space,
            tiers,
            bands,
            attendance,
            after: after.as_ref().map(Span::text),
        }
    }
}

async fn test(channel: &str, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let answer = client.post::<ChannelTestResponse>(&["channels", channel, "test"], &json!({})).await?;
    let ChannelTestResponse { delivered, problem, warnings } = &answer.read;
    let record = Record::new(channel)
        .with("delivered", Cell::text(if *delivered { "yes" } else { "no" }).toned(if *delivered { Tone::Ok } else { Tone::Danger }))
        .with_some("problem", problem.as_deref().map(Cell::text));
    terminal.record(&answer.raw, &warned(record, warnings))?;
    Ok(if *delivered { Exit::Ok } else { Exit::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(subcommand)]
        channel: Channel,
    }

    fn typed(arguments: &str) -> Option<NewChannelRequest> {
        let arguments = ["channel", "add", "night"].into_iter().chain(arguments.split_ascii_whitespace());
        let Channel::Add(add) = Typed::try_parse_from(arguments).ok()?.channel else { panic!("it was typed") };
        Some(add.request())
    }

    #[test]
    fn each_kind_takes_its_own_flags() {
        let webhook =
            typed("--webhook https://example.com --secret key --tier r3 --band amber --attendance unattended --after 10m").unwrap();
        assert_eq!((webhook.kind.as_str(), webhook.settings), ("webhook", json!({ "url": "https://example.com", "secret": "key" })));
        assert_eq!((webhook.tiers, webhook.bands, webhook.after), (vec![Tier::R3], vec![Band::Amber], Some("10m".to_owned())));
        let slack = typed("--slack C1 --token bot --signing-secret sign --user U1=robin").unwrap();
        assert_eq!(slack.settings, json!({ "channel": "C1", "token": "bot", "signing_secret": "sign", "users": { "U1": "robin" } }));
        let mail =
            typed("--email a@example.com --email b@example.com --from c@example.com --server smtp://mail --username u --password pw");
        let expected = json!({ "to": ["a@example.com", "b@example.com"], "from": "c@example.com", "server": "smtp://mail", "username": "u",
            "password": "pw" });
        assert_eq!(mail.unwrap().settings, expected);
        assert_eq!(typed("--email a@example.com").unwrap().settings, json!({ "to": ["a@example.com"] }));
        for wrong in [
            "",
            "--webhook https://example.com",
            "--webhook https://example.com --secret key --slack C1",
            "--slack C1 --token bot",
            "--email a@example.com --from b@example.com",
            "--email a@example.com --server smtp://mail",
            "--email a@example.com --username u",
            "--webhook https://example.com --secret key --user U1=robin",
            "--webhook https://example.com --secret key --tier R9",
            "--webhook https://example.com --secret key --after soon",
        ] {
            assert!(typed(wrong).is_none(), "{wrong}");
        }
    }
}
