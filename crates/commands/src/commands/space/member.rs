//! Members of a space. A space without members is open to everybody in the org; the first member closes it.

use crate::shared::*;
use api::identity::{NewMemberRequest, SpaceView, UserView};
use clap::Subcommand;
use serde_json::json;

#[derive(Debug, Subcommand)]
pub(crate) enum Member {
    /// List who may act in a space
    #[command(before_help = "Examples:\n  countersign space member list payroll")]
    List {
        /// Its name or its id
        space: String,
    },
    /// Make a user a member; the first one closes the space to everybody else
    #[command(before_help = "Examples:\n  countersign space member add payroll robin")]
    Add {
        /// The name or the id of the space
        space: String,
        /// Their name or their id
        user: String,
    },
    /// Remove a member; what they have pending in the space does not run
    #[command(before_help = "Examples:\n  countersign space member remove payroll robin")]
    Remove {
        /// The name or the id of the space
        space: String,
        /// Their name or their id
        user: String,
    },
    /// Remove all members: everybody in the org may act in the space again
    #[command(before_help = "Examples:\n  countersign space member clear payroll --yes")]
    Clear {
        /// Its name or its id
        space: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

const COLUMNS: &[Column] = &[Column::Whole("ID"), Column::Whole("NAME")];

impl Member {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let answer = match self {
            Self::List { space } => return list(&space, client, terminal).await,
            Self::Add { space, user } => {
                let (space, user_id) = (id_of::<SpaceView>(&space, client).await?, id_of::<UserView>(&user, client).await?);
                client.post::<SpaceView>(&["spaces", &space, "members"], &NewMemberRequest { user_id }).await?
            }
            Self::Remove { space, user } => {
                let (space, user) = (id_of::<SpaceView>(&space, client).await?, id_of::<UserView>(&user, client).await?);
                client.delete::<SpaceView>(&["spaces", &space, "members", &user]).await?
            }
            Self::Clear { space, agreed } => {
                let id = id_of::<SpaceView>(&space, client).await?;
                let question = format!("Open space `{}` to everybody in the org?", clean::line(&space));
                terminal.consent(&question, agreed.consent(client)).await?;
                client.delete::<SpaceView>(&["spaces", &id, "members"]).await?
            }
        };
        resource::tell(&answer, client, terminal).await?;
        Ok(Exit::Ok)
    }
}

async fn list(space: &str, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let id = id_of::<SpaceView>(space, client).await?;
    let members = client.get::<SpaceView>(&["spaces", &id], &[]).await?.read.members;
    let names = Names::load(client, terminal).await;
    let empty = if members.is_some() { "no members: nobody acts in it" } else { "no members: everybody in the org may act in it" };
    let mut table = Table::new(COLUMNS, empty);
    for member in members.iter().flatten() {
        table.row([Cell::text(member), names.whole(member)]);
    }
    let is_open = members.is_none();
    terminal.list(&json!({ "items": members.unwrap_or_default(), "next": null, "open": is_open }), &table)?;
    Ok(Exit::Ok)
}

/// What a space says of its members.
pub(super) fn told(members: Option<&[String]>) -> String {
    match members {
        Some(members) => counted(u32::try_from(members.len()).unwrap_or(u32::MAX), "member", "members"),
        None => "everybody in the org".to_owned(),
    }
}
