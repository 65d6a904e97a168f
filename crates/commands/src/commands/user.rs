//! `countersign user`: the people of an org and their roles.

use super::token::Bound;
use crate::shared::*;
use api::identity::{ChangeUserRequest, InvitationResponse, InviteRequest, NewUserRequest, NewUserResponse, UserView};
use clap::Subcommand;
use countersign_core::principal::Role;
use countersign_core::{Band, UserId};

/// What the admin tells the person: the command that asks for the invitation.
pub(super) fn redeemed_with(client: &Client) -> String {
    let url = client.url().as_str().trim_end_matches('/');
    format!("it works once, within seven days; they open the link in a browser, or redeem it with: countersign login --url {url}")
}

/// Where the person accepts the invitation without a terminal.
pub(super) fn link_of(invitation: &str, client: &Client) -> Cell {
    Cell::text(format!("{}/login/invitation/{invitation}", client.url().as_str().trim_end_matches('/')))
}

#[derive(Debug, Subcommand)]
pub(crate) enum User {
    /// List users
    #[command(before_help = "Examples:\n  countersign user list")]
    List(Paging),
    /// Create a user and invite them
    #[command(before_help = "Examples:\n  countersign user create robin --role approver         prints an invitation for robin")]
    Create {
        /// What they are called
        name: String,
        /// What they may do: a viewer reads, a member also invokes, an approver also approves, an admin manages
        #[arg(long, value_parser = one_of(Role::ALL, Role::as_str), default_value = "member")]
        role: Role,
    },
    /// Invite a user again; they log in with the invitation
    #[command(before_help = "Examples:\n  countersign user invite robin                            prints an invitation for robin
  countersign user invite robin --device r-laptop --device-class managed")]
    Invite {
        /// Their name or their id
        user: String,
        #[command(flatten)]
        bound: Bound,
    },
    /// Change the role of a user; it holds for their tokens at once
    #[command(before_help = "Examples:\n  countersign user role robin approver                    they can approve from now on")]
    Role {
        /// Their name or their id
        user: String,
        /// What they may do: a viewer reads, a member also invokes, an approver also approves, an admin manages
        #[arg(value_parser = one_of(Role::ALL, Role::as_str))]
        role: Role,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Limit a user, and whoever acts for them, to spaces up to a band
    #[command(before_help = "Examples:\n  countersign user limit robin amber                      no red or black spaces")]
    Limit {
        /// Their name or their id
        user: String,
        /// The strictest band they may act in
        #[arg(value_parser = one_of(Band::ALL, Band::as_str))]
        band: Band,
    },
    /// Disable a user for good: their tokens, and those of their agents and services, stop working
    #[command(before_help = "Examples:\n  countersign user disable robin --yes")]
    Disable {
        /// Their name or their id
        user: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

impl Resource for UserView {
    const NOUN: &'static str = "user";
    const LIST: &'static str = "user list";
    const PATH: &'static [&'static str] = &["users"];
    const EMPTY: &'static str = "no users";
    const OFFERED: (&'static str, &'static [&'static str]) = ("name", &["role"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("name", Column::Cut, |one, _| text(&one.name)),
        Field::both("role", Column::Whole, |one, _| text(one.role.as_str())),
        Field::both("max band", Column::Whole, |one, _| text(one.max_band.as_str())),
        Field::both("created", Column::Extra, |one, view| view.past(one.created_at)),
        Field::both("state", Column::Whole, |one, _| {
            Some(match one.disabled_at {
                Some(_) => Cell::shown("– disabled", "disabled").toned(Tone::Muted),
                None => Cell::shown("● active", "active").toned(Tone::Primary),
            })
        }),
    ];

    fn id(&self) -> &str {
        &self.id
    }
}

impl Named for UserView {
    fn is_id(text: &str) -> bool {
        UserId::parse(text).is_ok()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn works(&self) -> bool {
        self.disabled_at.is_none()
    }
}

impl User {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let answer = match self {
            Self::List(paging) => {
                resource::list::<UserView>(Asked::of(&paging), client, terminal).await?;
                return Ok(Exit::Ok);
            }
            Self::Create { name, role } => {
                let request = NewUserRequest { name, role };
                let answer = client.post::<NewUserResponse>(&["users"], &request).await.map_err(resource::taken::<UserView>)?;
                let NewUserResponse { id, user, invitation } = &answer.read;
                let record = Record::new(id)
                    .with("id", Cell::text(id))
                    .with("name", Cell::text(&user.name))
                    .with("role", Cell::text(user.role.as_str()))
                    .with("invitation", Cell::text(&invitation.invitation).toned(Tone::Strong))
                    .with("link", link_of(&invitation.invitation, client));
                terminal.secret("invitation", &answer.raw, &record)?;
                terminal.note(redeemed_with(client));
                return Ok(Exit::Ok);
            }
            Self::Invite { user, bound } => {
                let id = id_of::<UserView>(&user, client).await?;
                let request = InviteRequest { device: bound.device() };
                let answer = client.post::<InvitationResponse>(&["users", &id, "invite"], &request).await?;
                let record = Record::new(&answer.read.id)
                    .with("id", Cell::text(&answer.read.id))
                    .with("invitation", Cell::text(&answer.read.invitation).toned(Tone::Strong))
                    .with("link", link_of(&answer.read.invitation, client));
                terminal.secret("invitation", &answer.raw, &record)?;
                terminal.note(redeemed_with(client));
                return Ok(Exit::Ok);
            }
            Self::Role { user, role, agreed } => {
                let id = id_of::<UserView>(&user, client).await?;
                let question = format!("Make `{}` {}?", clean::line(&user), role.with_article());
                terminal.consent(&question, agreed.consent(client)).await?;
                client.patch(&["users", &id], &ChangeUserRequest { role: Some(role), max_band: None }).await?
            }
            Self::Limit { user, band } => {
                let id = id_of::<UserView>(&user, client).await?;
                client.patch(&["users", &id], &ChangeUserRequest { role: None, max_band: Some(band) }).await?
            }
            Self::Disable { user, agreed } => {
                let id = id_of::<UserView>(&user, client).await?;
                terminal.consent(&format!("Disable user `{}` for good?", clean::line(&user)), agreed.consent(client)).await?;
                client.post_empty(&["users", &id, "disable"]).await?
            }
        };
        resource::tell::<UserView>(&answer, client, terminal).await?;
        Ok(Exit::Ok)
    }
}
