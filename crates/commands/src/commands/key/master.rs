//! `countersign key rotate-master`: a server replaces the master key while it works, or this command does so on a folder without a server.

use super::super::serve::ServerFlags;
use crate::shared::*;
use api::receipt::MasterKeyView;
use clap::Args;
use serde_json::json;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
The new key is in master.key.next, beside the master key of every server; a server that works alone makes it. Calls go on: what either key \
seals is read at any moment. At the end the new key is in master.key, and the old one in master.key.old. Tokens work as before. Whoever \
copied the database and the old key can still read what they have: rotate the secrets and the keys too.

Examples:
  countersign key rotate-master
  countersign key rotate-master --offline --data /var/lib/countersign";

const PATH: [&str; 2] = ["keys", "master"];
const PAUSE: Duration = Duration::from_millis(500);

/// What is left to do once everything is sealed under the new key.
const OLD_KEY: &str = "keep a copy of the new master.key apart from the backups; backups made before need the old one, which is beside it as \
    master.key.old: move it to where you keep their keys, or destroy it";

#[derive(Debug, Args)]
pub(crate) struct RotateMaster {
    /// Work on the data folder itself, while no server runs on it
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    _unasked: Unasked,
}

impl RotateMaster {
    pub(super) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        if self.offline {
            return offline(self.server, setting).await;
        }
        let ServerFlags { data, database, config } = &self.server;
        if data.is_some() || database.is_some() || config.is_some() {
            return Err(Failure::usage("`--data`, `--database` and `--config` say where to work without a server").hint("add --offline"));
        }
        while_serving(&setting.client()?, setting.terminal).await
    }
}

/// Asks the server to begin, and shows how far it is.
async fn while_serving(client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let mut last = client.post_empty::<MasterKeyView>(&PATH).await?;
    while last.read.is_replacing {
        progress(last.read.values_left, terminal);
        tokio::time::sleep(PAUSE).await;
        last = client.get::<MasterKeyView>(&PATH, &[]).await?;
    }
    if terminal.is_watched() {
        terminal.redraw("");
    }
    if terminal.is_document() {
        terminal.document(&last.raw)?;
        return Ok(Exit::Ok);
    }
    tell("everything is sealed under the new one", terminal);
    Ok(Exit::Ok)
}

fn progress(values_left: u64, terminal: &mut Terminal) {
    if terminal.is_watched() {
        let line = format!("{} left to seal anew; calls go on", counted(values_left, "value is", "values are"));
        terminal.redraw(&Tone::Muted.paint(line));
    }
}

/// Opens the store directly. If a server works on the folder, that one has to do it.
async fn offline(flags: ServerFlags, setting: Setting<'_>) -> Result<Exit, Failure> {
    setting.no_dry_run("key rotate-master --offline")?;
    let config = flags.load(&setting)?;
    let terminal = setting.terminal;
    if !config.data_dir().exists() {
        return Err(Failure::new(Exit::NotFound, format!("there is no data folder `{}`", config.data_dir().display()))
            .hint("choose one with --data"));
    }
    let held = host::hold_data(&config).map_err(|error| {
        let exit = if matches!(error, host::Error::InUse { .. }) { Exit::Conflict } else { Exit::Failed };
        Failure::new(exit, format!("the master key was not replaced: {error}"))
            .hint("while a server works there, it replaces the key: countersign key rotate-master")
    })?;
    let mut resealed = 0;
    let replaced = host::replace_master_key(&config, &held, |values| resealed += values).await;
    replaced.map_err(|error| {
        Failure::failed(format!("the master key was not replaced: {error}"))
            .cause("whatever was done of it stands, and everything can be read with both keys")
            .hint("correct that, then run it again")
    })?;
    if terminal.is_document() {
        terminal.document(&json!({ "resealed": resealed }))?;
        return Ok(Exit::Ok);
    }
    let values = match resealed {
        0 => "everything is sealed under the new one".to_owned(),
        resealed => format!("{} sealed anew", counted(resealed, "value is", "values are")),
    };
    tell(&values, terminal);
    Ok(Exit::Ok)
}

fn tell(values: &str, terminal: &mut Terminal) {
    terminal.note(format!("{} the master key: {values}", Tone::Ok.paint("✓ replaced")));
    terminal.note(OLD_KEY);
}
