//! `countersign event group`: who consumes events together.

use crate::shared::*;
use api::event::{GroupView, NewGroupRequest, ResetGroupRequest};
use clap::Subcommand;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// List consumer groups
    #[command(before_help = "Examples:\n  countersign event group list")]
    List,
    /// Create a consumer group; one that is there stays as it is
    #[command(before_help = "Examples:
  countersign event group create billing
  countersign event group create audit --start earliest --deliveries-max 10")]
    Create {
        /// Its name
        name: String,
        /// From which event on: now, earliest, or a position
        #[arg(long, value_name = "PLACE", default_value = "now")]
        start: String,
        /// How often one event is delivered before it becomes a dead letter, 1 to 50
        #[arg(long, value_name = "N")]
        deliveries_max: Option<u32>,
    },
    /// Let a group go on from another place; what it has not acknowledged counts as done
    #[command(before_help = "Examples:
  countersign event group reset billing --to now
  countersign event group reset billing --to 42")]
    Reset {
        /// The name of the group
        group: String,
        /// Where it goes on: now, earliest, or a position
        #[arg(long = "to", value_name = "PLACE")]
        place: String,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Remove a group, with all that it has not acknowledged
    #[command(before_help = "Examples:\n  countersign event group remove billing")]
    Remove {
        /// The name of the group
        group: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

impl Resource for GroupView {
    const NOUN: &'static str = "group";
    const LIST: &'static str = "event group list";
    const PATH: &'static [&'static str] = &["event-groups"];
    const EMPTY: &'static str = "no groups: countersign event group create NAME";
    const OFFERED: (&'static str, &'static [&'static str]) = ("name", &[]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("name", Column::Whole, |one, _| text(&one.name)),
        Field::both("cursor", Column::Whole, |one, _| text(one.cursor.to_string())),
        Field::both("in flight", Column::Whole, |one, _| text(one.in_flight.to_string())),
        Field::both("behind", Column::Whole, |one, _| text(one.behind.to_string())),
        Field::both("lost", Column::Whole, |one, _| match one.lost {
            0 => Some(Cell::text("0").toned(Tone::Muted)),
            lost => Some(Cell::text(lost.to_string()).toned(Tone::Danger)),
        }),
        Field::both("overtaken", Column::Extra, |one, view| one.overtaken_at.and_then(|at| view.past(at))),
        Field::line("deliveries", |one, _| text(format!("{} at most", one.deliveries_max))),
        Field::line("created by", |one, view| one.created_by.as_deref().and_then(|by| view.who(by))),
        Field::line("created", |one, view| view.past(one.created_at)),
    ];

    fn id(&self) -> &str {
        &self.name
    }
}

impl GroupCommand {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List => drop(resource::list::<GroupView>(Asked::default(), client, terminal).await?),
            Self::Create { name, start, deliveries_max } => {
                let request = NewGroupRequest { start: Some(start), deliveries_max };
                let answer = client.put::<GroupView>(&["event-groups", &name], &request).await?;
                resource::tell(&answer, client, terminal).await?;
            }
            Self::Reset { group, place, agreed } => {
                let question = format!("Let group `{}` go on from {}?", clean::line(&group), clean::line(&place));
                terminal.consent(&question, agreed.consent(client)).await?;
                let request = ResetGroupRequest { to: place };
                let answer = client.post::<GroupView>(&["event-groups", &group, "reset"], &request).await?;
                resource::tell(&answer, client, terminal).await?;
            }
            Self::Remove { group, agreed } => {
                let question = format!("Remove group `{}`? What it has not acknowledged is delivered to nobody.", clean::line(&group));
                terminal.consent(&question, agreed.consent(client)).await?;
                client.delete::<Value>(&["event-groups", &group]).await?;
                terminal.done("removed", &group, &json!({ "name": group, "removed": true }))?;
            }
        }
        Ok(Exit::Ok)
    }
}
