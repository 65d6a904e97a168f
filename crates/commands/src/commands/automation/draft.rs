//! `countersign automation draft`: definitions that wait for a person to save them.

use super::apply::{Signing, saved};
use super::draft_view::tell;
use super::mistakes;
use crate::shared::*;
use api::automation::{DraftView, SaveDraftRequest, SavedAutomationResponse};
use clap::Subcommand;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(crate) enum Draft {
    /// List drafts; each is gone after 24 hours
    #[command(before_help = "Examples:\n  countersign automation draft list")]
    List(Paging),
    /// Show a draft, with what is worth checking about it
    #[command(before_help = "Examples:\n  countersign automation draft show drf_…")]
    Show {
        /// Its id
        draft: String,
    },
    /// Save a draft: from now on it runs by itself, on your behalf
    #[command(before_help = "Examples:
  countersign automation draft save drf_…
  countersign automation draft save drf_…                            asks for one flag after another
  countersign automation draft save drf_… --accept /plan/0/action    for a script
  countersign automation draft save drf_… --name 'Evening digest'    where another automation has its name")]
    Save {
        /// Its id
        draft: String,
        /// Save it under another name
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// The place of a flag that you have read and stand for; for several, give it several times
        #[arg(long, value_name = "PLACE")]
        accept: Vec<String>,
        #[command(flatten)]
        signing: Signing,
    },
    /// Drop a draft that nobody wants
    #[command(before_help = "Examples:\n  countersign automation draft drop drf_…")]
    Drop {
        /// Its id
        draft: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

impl Draft {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List(paging) => drop(resource::list::<DraftView>(Asked::of(&paging), client, terminal).await?),
            Self::Show { draft } => {
                let answer = client.get::<DraftView>(&["automation-drafts", &draft], &[]).await?;
                tell(&answer, client, terminal).await?;
            }
            Self::Save { draft, name, mut accept, signing } => {
                if name.is_some() {
                    // The flag there is about the name that it would have otherwise.
                    accept.push("/name".to_owned());
                }
                let accept = read_through(&draft, accept, client, terminal).await?;
                let request = SaveDraftRequest { name, accept, signing_secrets: signing.secrets() };
                let answer = client.post::<SavedAutomationResponse>(&["automation-drafts", &draft, "save"], &request).await;
                let answer = answer.map_err(|failure| mistakes::refused(failure, terminal))?;
                saved(&answer, client, terminal).await?;
            }
            Self::Drop { draft, agreed } => {
                let question = format!("Drop draft `{}`?", clean::line(&draft));
                terminal.consent(&question, agreed.consent(client)).await?;
                client.delete::<Value>(&["automation-drafts", &draft]).await?;
                // The server's answer has no body.
                terminal.done("dropped", &draft, &json!({ "id": draft, "dropped": true }))?;
            }
        }
        Ok(Exit::Ok)
    }
}

/// Shows each place whose flags were not accepted yet, and asks for it. Where nobody can be asked, the server says which are left.
async fn read_through(draft: &str, mut accepted: Vec<String>, client: &Client, terminal: &mut Terminal) -> Result<Vec<String>, Failure> {
    if !terminal.can_ask() || terminal.is_document() {
        return Ok(accepted);
    }
    let flags = client.get::<DraftView>(&["automation-drafts", draft], &[]).await?.read.flags;
    while let Some(next) = flags.iter().find(|flag| !accepted.contains(&flag.pointer)) {
        let here: Vec<_> = flags.iter().filter(|flag| flag.pointer == next.pointer).cloned().collect();
        mistakes::tell(&here, Tone::Warn, terminal);
        if !terminal.agrees("Is that as it should be?").await? {
            return Err(Failure::failed("not saved: you did not say yes"));
        }
        accepted.push(next.pointer.clone());
    }
    Ok(accepted)
}
