//! `countersign canary`: canary tokens, texts that no honest call contains. A call that would send one is quarantined.

use crate::shared::*;
use api::gates::{CanaryView, NewCanaryRequest};
use clap::Subcommand;
use countersign_core::limits::CANARY_CHARS_MAX;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(crate) enum Canary {
    /// Create a canary token: from now on a call that would send it away is quarantined
    #[command(before_help = "Examples:
  countersign canary create 'invoice 7731 of Quillfeather Ltd'
  openssl rand -hex 16 | countersign canary create -         not shown in the list of processes")]
    Create {
        /// A text that occurs nowhere else; - reads stdin
        text: String,
    },
    /// List canary tokens, for those who may change policy
    #[command(before_help = "Examples:\n  countersign canary list")]
    List,
    /// Remove a canary token: calls that would send it away are no longer quarantined
    #[command(before_help = "Examples:\n  countersign canary remove cny_…")]
    Remove {
        /// Its id
        canary: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

/// A character has at most four bytes in UTF-8.
const BYTES_MAX: u64 = CANARY_CHARS_MAX as u64 * 4;

impl Resource for CanaryView {
    const NOUN: &'static str = "canary token";
    const LIST: &'static str = "canary list";
    const PATH: &'static [&'static str] = &["canaries"];
    const EMPTY: &'static str = "no canary tokens: countersign canary create -";
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("text", Column::Cut, |one, _| text(&one.text)),
        Field::both("added by", Column::Extra, |one, view| view.who(&one.added_by)),
        Field::both("added", Column::Whole, |one, view| view.past(one.added_at)),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn next(&self) -> Option<String> {
        Some(format!("countersign canary remove {}", self.id))
    }
}

impl Canary {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Create { text } => {
                // The line break at the end of a file is not part of the token.
                let text =
                    if text == "-" { terminal.read_stdin(BYTES_MAX + 2).await?.trim_end_matches(['\r', '\n']).to_owned() } else { text };
                let answer = client.post::<CanaryView>(&["canaries"], &NewCanaryRequest { text }).await?;
                resource::tell(&answer, client, terminal).await?;
            }
            Self::List => drop(resource::list::<CanaryView>(Asked::default(), client, terminal).await?),
            Self::Remove { canary, agreed } => {
                terminal.consent(&format!("Remove canary token `{}`?", clean::line(&canary)), agreed.consent(client)).await?;
                client.delete::<Value>(&["canaries", &canary]).await?;
                // The server's answer has no body.
                terminal.done("removed", &canary, &json!({ "id": canary, "removed": true }))?;
            }
        }
        Ok(Exit::Ok)
    }
}
