//! The keys that sign an org's log.

use crate::args::Agreed;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Table, Terminal};
use crate::style::Tone;
use api::Page;
use api::receipt::KeyView;
use clap::Subcommand;
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Public keys, in the order they came into use
    List,
    /// Replace both keys; the old one signs the entry that names the new ones
    #[command(before_help = "Examples:\n  countersign key rotate --yes")]
    Rotate {
        #[command(flatten)]
        agreed: Agreed,
    },
}

const COLUMNS: &[Column] = &[
    Column::Whole("ID"),
    Column::Whole("PURPOSE"),
    Column::Number("FROM ENTRY"),
    Column::Whole("CREATED"),
    Column::Whole("STATE"),
    Column::Cut("PUBLIC"),
];

impl Key {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List => {
                let answer = client.get::<Page<KeyView>>(&["keys"], &[]).await?;
                list(&answer.read.items, &answer.raw, terminal)?;
            }
            Self::Rotate { agreed } => {
                terminal.consent("replace the keys that sign receipts and checkpoints?", agreed.consent(client)).await?;
                let answer = client.post_empty::<Page<KeyView>>(&["keys", "rotate"]).await?;
                list(&answer.read.items, &answer.raw, terminal)?;
            }
        }
        Ok(Exit::Ok)
    }
}

fn list(keys: &[KeyView], raw: &Value, terminal: &mut Terminal) -> Result<(), Failure> {
    let mut table = Table::new(COLUMNS, "no keys");
    for key in keys {
        let state = match key.retired_at {
            Some(_) => Cell::shown("– retired", "retired").toned(Tone::Muted),
            None => Cell::shown("✓ signing", "signing").toned(Tone::Ok),
        };
        let seq = Cell::text(key.starts_at_seq.to_string());
        table.row([Cell::text(&key.key_id), Cell::text(&key.purpose), seq, terminal.past(&key.created_at), state, Cell::text(&key.public)]);
    }
    terminal.list(raw, &table)
}
