//! `countersign key`: the keys that sign an org's audit log, and the master key, under which they are kept.

use super::serve::ServerFlags;
use crate::shared::*;
use crate::style::hang;
use api::Page;
use api::receipt::{KeyView, RotateKeysRequest};
use clap::Subcommand;
use serde_json::json;
use std::path::{Path, PathBuf};

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
    /// Replace the master key, which seals keys and secrets; no server may run meanwhile
    #[command(before_help = "\
All of it is sealed anew, or nothing. Both files stay where they are: put the new one where the server looks for its master key. Tokens \
work as before. Whoever copied the database and the old key can still read what they have: rotate the secrets and the keys too.

Examples:
  countersign key rotate-master new.key                      makes new.key if it is missing
  countersign key rotate-master new.key --data /var/lib/countersign")]
    RotateMaster {
        /// The file with the new master key, 64 hex characters; it is made if it is missing
        file: PathBuf,
        #[command(flatten)]
        server: ServerFlags,
    },
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
        if let Self::RotateMaster { file, server } = &self {
            return rotate_master(file, server.clone(), setting).await;
        }
        let (client, terminal) = (&setting.client()?, setting.terminal);
        match self {
            Self::RotateMaster { .. } => {}
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

/// Opens the store directly: no server may run meanwhile, because it would have the old key.
async fn rotate_master(file: &Path, flags: ServerFlags, setting: Setting<'_>) -> Result<Exit, Failure> {
    setting.no_dry_run("key rotate-master")?;
    let config = flags.load(None, None, &setting)?;
    let terminal = setting.terminal;
    if !config.data_dir().exists() {
        return Err(Failure::new(Exit::NotFound, format!("there is no data folder `{}`", config.data_dir().display()))
            .hint("choose one with --data"));
    }
    let unchanged = |error: server::Error| {
        let exit = if matches!(error, server::Error::InUse { .. }) { Exit::Conflict } else { Exit::Failed };
        Failure::new(exit, format!("the master key was not replaced: {error}"))
            .hint("stop every server on this data first; countersign doctor")
    };
    let _held = server::hold_data(&config).map_err(unchanged)?;
    let resealed = server::replace_master_key(&config, file).await.map_err(unchanged)?;
    if terminal.is_document() {
        terminal.document(&json!({ "file": file.display().to_string(), "resealed": resealed }))?;
        return Ok(Exit::Ok);
    }
    let values = match resealed {
        0 => "everything is sealed under".to_owned(),
        resealed => format!("{} sealed anew under", counted(resealed, "value is", "values are")),
    };
    terminal.note(format!("{} the master key: {values} {}", Tone::Ok.paint("✓ replaced"), file.display()));
    let place = config.master_key_file.clone().unwrap_or_else(|| config.data_dir().join("master.key"));
    terminal.note(format!(
        "put it in the place of `{}` before the next start, for every server on this data; keep it apart from backups, as the old one, which \
         older backups still need",
        place.display()
    ));
    Ok(Exit::Ok)
}
