//! `countersign key`: the keys that sign an org's audit log, and the master key, under which they are kept.

mod master;

use self::master::RotateMaster;
use crate::shared::*;
use crate::style::hang;
use api::Page;
use api::receipt::{KeyView, RotateKeysRequest};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// List public keys, in the order they came into use
    #[command(before_help = "Examples:\n  countersign key list")]
    List,
    /// Replace both keys; the old one signs the entry that names the new ones
    #[command(before_help = "\
What was signed before stays valid, and a pinned key (receipt.pub) stays the one to verify with.

Examples:
  countersign key rotate --yes
  countersign key rotate --revoke                            the key may be known to others")]
    Rotate {
        /// Record that the present keys may be known to others: nothing they sign counts from then on
        #[arg(long)]
        revoke: bool,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Replace the master key, which seals keys and secrets, while calls go on
    #[command(before_help = master::EXAMPLES)]
    RotateMaster(RotateMaster),
}

impl Resource for KeyView {
    const NOUN: &'static str = "key";
    const LIST: &'static str = "key list";
    const PATH: &'static [&'static str] = &["keys"];
    const EMPTY: &'static str = "no keys";
    const OFFERED: (&'static str, &'static [&'static str]) = ("key_id", &["purpose"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.key_id)),
        Field::both("purpose", Column::Whole, |one, _| text(word(one.purpose))),
        Field::both("from entry", Column::Number, |one, _| text(one.starts_at_seq.to_string())),
        Field::both("created", Column::Whole, |one, view| view.past(one.created_at)),
        Field::both("state", Column::Whole, |one, _| {
            Some(match (&one.revoked_at, &one.retired_at) {
                (Some(_), _) => Cell::shown("✗ revoked", "revoked").toned(Tone::Danger),
                (None, Some(_)) => Cell::shown("– retired", "retired").toned(Tone::Muted),
                (None, None) => Cell::shown("✓ signing", "signing").toned(Tone::Ok),
            })
        }),
        Field::both("public", Column::Cut, |one, _| text(&one.public)),
    ];

    fn id(&self) -> &str {
        &self.key_id
    }
}

impl Key {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        if let Self::RotateMaster(rotate) = self {
            return rotate.run(setting).await;
        }
        let (client, terminal) = (&setting.client()?, setting.terminal);
        match self {
            Self::RotateMaster(_) => {}
            Self::List => drop(resource::list::<KeyView>(Asked::default(), client, terminal).await?),
            Self::Rotate { revoke, agreed } => {
                for consequence in consequences(revoke) {
                    terminal.remark(Tone::Muted.paint(hang(consequence, 0, terminal.note_columns())));
                }
                let question = if revoke {
                    "Replace the keys that sign receipts and checkpoints, and revoke the old ones?"
                } else {
                    "Replace the keys that sign receipts and checkpoints?"
                };
                terminal.consent(question, agreed.consent(client)).await?;
                let answer = client.post::<Page<KeyView>>(&["keys", "rotate"], &RotateKeysRequest { revoke }).await?;
                resource::write(&answer.read.items, &answer.raw, KeyView::EMPTY.to_owned(), client, terminal).await?;
                terminal.next("countersign receipt checkpoint --out FILE, and keep it elsewhere");
            }
        }
        Ok(Exit::Ok)
    }
}

/// Explains what a rotation means for earlier signatures, for pinned keys and for the old keys.
const fn consequences(revoke: bool) -> [&'static str; 2] {
    let kept = "What was signed before stays valid, and a pinned key (receipt.pub) stays the one to verify with: the old receipt key signs \
        the entry that names the new ones.";
    let old = if revoke {
        "The present receipt key and checkpoint key are revoked: nothing they sign after that entry counts any more, and this cannot be \
            undone."
    } else {
        "The present receipt key and checkpoint key are retired: they sign nothing after that entry. If one may be known to others, use \
            --revoke."
    };
    [kept, old]
}
