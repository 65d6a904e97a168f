//! The keys that sign an org's log.

use crate::args::Agreed;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Table, Terminal};
use crate::style::{Tone, hang};
use api::Page;
use api::receipt::{KeyView, RotateKeysRequest};
use clap::Subcommand;
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Public keys, in the order they came into use
    List,
    /// Replace both keys; the old one signs the entry that names the new ones
    #[command(before_help = "\
What was signed before stays valid, and a pinned key (receipt.pub) stays the one to check with.

Examples:
  countersign key rotate --yes
  countersign key rotate --revoke                            a key may be in other hands")]
    Rotate {
        /// Say in the log that the keys which sign now may be in other hands: nothing they sign counts from then on
        #[arg(long)]
        revoke: bool,
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
            Self::Rotate { revoke, agreed } => {
                let question = if revoke {
                    "replace the keys that sign receipts and checkpoints, and revoke the old ones?"
                } else {
                    "replace the keys that sign receipts and checkpoints?"
                };
                for consequence in consequences(revoke) {
                    terminal.remark(Tone::Muted.paint(hang(consequence, 0, terminal.note_columns())));
                }
                terminal.consent(question, agreed.consent(client)).await?;
                let answer = client.post::<Page<KeyView>>(&["keys", "rotate"], &RotateKeysRequest { revoke }).await?;
                list(&answer.read.items, &answer.raw, terminal)?;
                terminal.next("countersign receipt checkpoint --out FILE, and keep it elsewhere");
            }
        }
        Ok(Exit::Ok)
    }
}

/// What a new pair of keys means for what was signed, for what was pinned and for the old pair.
const fn consequences(revoke: bool) -> [&'static str; 2] {
    let kept = "what was signed before stays valid, and a pinned key (receipt.pub) stays the one to check with: the old receipt key signs the \
        entry that names the new ones";
    if revoke {
        let ended = "the receipt key and the checkpoint key that sign now are revoked: nothing they sign after that entry counts any more, and \
            nothing brings them back";
        [kept, ended]
    } else {
        let retired = "the receipt key and the checkpoint key that sign now are retired: they sign nothing after that entry. Where one may be \
            in other hands, say so with --revoke";
        [kept, retired]
    }
}

fn list(keys: &[KeyView], raw: &Value, terminal: &mut Terminal) -> Result<(), Failure> {
    let mut table = Table::new(COLUMNS, "no keys");
    for key in keys {
        let state = match (&key.revoked_at, &key.retired_at) {
            (Some(_), _) => Cell::shown("✗ revoked", "revoked").toned(Tone::Danger),
            (None, Some(_)) => Cell::shown("– retired", "retired").toned(Tone::Muted),
            (None, None) => Cell::shown("✓ signing", "signing").toned(Tone::Ok),
        };
        let seq = Cell::text(key.starts_at_seq.to_string());
        table.row([Cell::text(&key.key_id), Cell::text(&key.purpose), seq, terminal.past(&key.created_at), state, Cell::text(&key.public)]);
    }
    terminal.list(raw, &table)
}
