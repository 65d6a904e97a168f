//! `countersign org`: orgs, managed by operators.

use crate::shared::*;
use api::identity::{NewOrgRequest, NewOrgResponse, OrgView};
use clap::Subcommand;
use countersign_core::OrgId;

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
                    .with("invitation", Cell::text(&answer.read.invitation.invitation).toned(Tone::Strong));
                terminal.secret("invitation", &answer.raw, &record)?;
                terminal.note(super::user::redeemed_with(client));
            }
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
