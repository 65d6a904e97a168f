//! Everything that is stored, to a file and back. Both work on the store itself, so no server needs to run.

use super::serve::ServerFlags;
use crate::exit::{Exit, Failure};
use crate::output::Terminal;
use clap::Args;
use serde_json::json;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;

pub(crate) const BACKUP_EXAMPLES: &str = "\
Examples:
  countersign backup countersign-2026-11-15.jsonl
  countersign backup before-moving.jsonl --data /var/lib/countersign";

pub(crate) const RESTORE_EXAMPLES: &str = "\
The master.key of the backed-up data folder must be in the new one first: the file holds nothing that opens without it.

Examples:
  countersign restore countersign-2026-11-15.jsonl --data ./restored
  countersign restore before-moving.jsonl --database postgres://countersign@db/countersign";

/// Secrets in a backup stay sealed under the master key, which is not in it.
const KEY_NOTE: &str = "the master key is not in the file: keep master.key of the data folder in another place; copy workspace, snapshots \
    and packages beside the backup";

#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The file to write; it must not exist yet
    file: PathBuf,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The file to read
    file: PathBuf,
    #[command(flatten)]
    server: ServerFlags,
}

impl Backup {
    pub(crate) async fn run(self, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let config = self.server.load(None, None)?;
        if !config.data_dir().exists() {
            return Err(Failure::new(Exit::NotFound, format!("there is no data folder `{}`", config.data_dir().display()))
                .hint("choose one with --data"));
        }
        if self.file.exists() {
            return Err(Failure::usage(format!("`{}` exists already, and a backup is never overwritten", self.file.display())));
        }
        let store = server::open_store_unchanged(&config).await.map_err(|error| Failure::failed(error.to_string()))?;
        let part = super::part::Part::create(&self.file)?;
        let mut writer = BufWriter::new(part.file());
        let moved = store.backup(&mut writer).await.map_err(|error| Failure::failed(error.to_string()))?;
        drop(writer);
        part.keep()?;
        terminal.note(KEY_NOTE);
        done(terminal, "backed up", moved.rows, &self.file)
    }
}

impl Restore {
    pub(crate) async fn run(self, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let file = File::open(&self.file).map_err(|error| Failure::file(&self.file, &error))?;
        let config = self.server.load(None, None)?;
        let store = server::open_store(&config).await.map_err(|error| Failure::failed(error.to_string()))?;
        let moved = store.restore(BufReader::new(file)).await.map_err(|error| refused(&error))?;
        done(terminal, "restored", moved.rows, &self.file)
    }
}

fn refused(error: &store::RestoreError) -> Failure {
    let failure = |exit| Failure::new(exit, format!("nothing was restored: {error}"));
    match error {
        store::RestoreError::NotEmpty => failure(Exit::Conflict).hint("choose an empty folder with --data"),
        store::RestoreError::Malformed { .. } | store::RestoreError::Damaged { .. } => failure(Exit::Invalid),
        store::RestoreError::OtherVersion { .. } | store::RestoreError::Store(_) => failure(Exit::Failed),
    }
}

fn done(terminal: &mut Terminal, verb: &str, rows: u64, file: &std::path::Path) -> Result<Exit, Failure> {
    if terminal.is_document() {
        terminal.document(&json!({ "rows": rows, "file": file.display().to_string() }))?;
    } else {
        terminal.note(format!("{} {rows} rows, {}", crate::style::Tone::Ok.paint(format!("✓ {verb}")), file.display()));
    }
    Ok(Exit::Ok)
}
