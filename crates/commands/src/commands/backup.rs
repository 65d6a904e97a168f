//! `countersign backup` and `countersign restore`: copy everything in the store to a file and back. Both open the store directly, so no
//! server needs to run.

use super::serve::ServerFlags;
use crate::shared::*;
use clap::Args;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _};
use std::path::{Path, PathBuf};

pub(crate) const BACKUP_EXAMPLES: &str = "\
Examples:
  countersign backup countersign-2026-11-15.jsonl
  countersign backup before-moving.jsonl --data /var/lib/countersign";

pub(crate) const RESTORE_EXAMPLES: &str = "\
The master.key of the backed-up data folder must be in the new one first: the file holds nothing that opens without it.

Examples:
  countersign restore countersign-2026-11-15.jsonl --data ./restored
  countersign restore before-moving.jsonl --database postgres://countersign@db/countersign";

/// Shown after a backup. Secrets in the file stay sealed under the master key, which is not in the file.
const KEY_NOTE: &str = "the master key and the owner's token are not in the file: keep master.key and owner.token of the data folder in \
    another place; copy workspace, snapshots, packages, spaces and orgs beside the backup";

/// Shown after a restore. The file holds only hashes of tokens, so a token cannot be recovered from it.
const RESTORED_NOTE: &str = "owner.token, workspace, snapshots, packages, spaces and orgs are not in a backup: copy them from the old data folder. Every \
    token works as before: without owner.token, log in with another one of yours (`countersign login`)";

/// The file of the SQLite database in the data folder.
const DATABASE: &str = "countersign.db";

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
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        setting.no_dry_run("backup")?;
        let config = self.server.load(&setting)?;
        let terminal = setting.terminal;
        if !config.data_dir().exists() {
            return Err(Failure::new(Exit::NotFound, format!("there is no data folder `{}`", config.data_dir().display()))
                .hint("choose one with --data"));
        }
        if self.file.exists() {
            return Err(Failure::usage(format!("`{}` exists already, and a backup is never overwritten", self.file.display()))
                .hint("choose another name for it"));
        }
        let store = host::open_store_unchanged(&config).await.map_err(|error| Failure::failed(error.to_string()))?;
        let part = super::part::Part::create(&self.file)?;
        let mut writer = BufWriter::new(part.file());
        let moved = store.backup(&mut writer).await.map_err(|error| Failure::failed(error.to_string()))?;
        drop(writer);
        part.keep()?;
        done(terminal, "backed up", moved.rows, &self.file)?;
        if !terminal.is_document() {
            terminal.note(KEY_NOTE);
        }
        Ok(Exit::Ok)
    }
}

impl Restore {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        setting.no_dry_run("restore")?;
        let file = open_backup(&self.file)?;
        let given = self.server.data.clone();
        let config = self.server.load(&setting)?;
        let terminal = setting.terminal;
        must_have_key(&config)?;
        // From here on no other process writes to this folder, so everything that is new in it was made by this restore and may be removed.
        let _held = host::hold_data(&config).map_err(|error| unusable(&error, &config))?;
        let untouched = Untouched::look(&config);
        let restored = match host::open_store(&config).await {
            Ok(store) => store.restore(file).await.map_err(|error| refused(&error, &self.file)),
            Err(error) => Err(unusable(&error, &config)),
        };
        let moved = restored.inspect_err(|_| untouched.leave())?;
        done(terminal, "restored", moved.rows, &self.file)?;
        if !terminal.is_document() {
            terminal.note(RESTORED_NOTE);
        }
        let data = given.map(|data| format!(" --data {}", data.display())).unwrap_or_default();
        terminal.next(format!("countersign serve{data}"));
        Ok(Exit::Ok)
    }
}

/// Opens a file whose first line says that it is a backup. Whether it is complete shows only when its end is read.
fn open_backup(path: &Path) -> Result<BufReader<File>, Failure> {
    let hint = "countersign backup FILE writes one";
    let unusable = |error: &io::Error| Failure::file(path, error).hint(hint);
    let is_not = |cause: &str| Failure::new(Exit::Invalid, format!("`{}` is not a backup", path.display())).cause(cause).hint(hint);
    let mut reader = BufReader::new(File::open(path).map_err(|error| unusable(&error))?);
    let mut first = Vec::new();
    reader.read_until(b'\n', &mut first).map_err(|error| unusable(&error))?;
    if first.is_empty() {
        return Err(is_not("it is empty"));
    }
    let opening = serde_json::from_slice::<Value>(&first).ok();
    if opening.is_none_or(|opening| opening.get("countersign_backup").is_none()) {
        return Err(is_not("its first line is not that of one"));
    }
    reader.rewind().map_err(|error| unusable(&error))?;
    Ok(reader)
}

/// Checked before anything is created: without the master key the restored data could not be opened.
fn must_have_key(config: &host::Config) -> Result<(), Failure> {
    let key = master_key(config);
    if key.exists() {
        return Ok(());
    }
    Err(Failure::failed(format!("nothing was restored: there is no master key `{}`", key.display()))
        .cause("what is in a backup is sealed under the master key of the data folder it was made of")
        .hint(format!("copy that master.key to `{}` first, readable by you alone", key.display())))
}

fn master_key(config: &host::Config) -> PathBuf {
    config.master_key_file.clone().unwrap_or_else(|| config.data_dir().join("master.key"))
}

/// What the folder held before, so that a failed restore can remove everything it made. The lock file stays: removing it could let two
/// processes in.
struct Untouched {
    database: PathBuf,
    had_database: bool,
}

impl Untouched {
    fn look(config: &host::Config) -> Self {
        let database = config.data_dir().join(DATABASE);
        Self { had_database: database.exists(), database }
    }

    /// Removes the database if the restore created it.
    fn leave(&self) {
        if !self.had_database {
            for ending in ["", "-wal", "-shm"] {
                let _none = std::fs::remove_file(format!("{}{ending}", self.database.display()));
            }
        }
    }
}

/// A problem with the master key gets another message than a problem with the folder.
fn unusable(error: &host::Error, config: &host::Config) -> Failure {
    match error {
        host::Error::DataDir { path, message } if *path == master_key(config) => {
            Failure::failed(format!("nothing was restored: the master key `{}` cannot be used: {message}", path.display()))
                .hint("copy the master.key of the backed-up data folder there, with `chmod 600`")
        }
        host::Error::InUse { .. } => Failure::new(Exit::Conflict, format!("nothing was restored: {error}"))
            .hint("stop the server there first, or choose another folder with --data"),
        host::Error::Listen { .. }
        | host::Error::DataDir { .. }
        | host::Error::MasterKey(_)
        | host::Error::Store(_)
        | host::Error::Database(_)
        | host::Error::Recover(_)
        | host::Error::Source(_)
        | host::Error::SignIn(_)
        | host::Error::Tls(_)
        | host::Error::Limiter(_) => Failure::failed(format!("nothing was restored: {error}")).hint("countersign doctor"),
    }
}

fn refused(error: &store::RestoreError, file: &Path) -> Failure {
    let failure = |exit, why: String| Failure::new(exit, format!("nothing was restored: {why}"));
    let file = file.display();
    let again = "use another copy of the backup, or take it again with `countersign backup FILE`";
    match error {
        store::RestoreError::NotEmpty => {
            failure(Exit::Conflict, "there is an org already, and a backup is read into an empty store only".to_owned())
                .hint("choose an empty folder with --data, and copy master.key there first")
        }
        // Each line is parsed on its own, so the parser always reports line 1. The message names the line of the file instead.
        store::RestoreError::Malformed { line, message } if message.starts_with("EOF while parsing") => {
            failure(Exit::Invalid, format!("`{file}` is cut off in the middle of line {line}")).hint(again)
        }
        store::RestoreError::Malformed { line, message } => {
            let message = message.replace(" at line 1 column ", " at column ");
            failure(Exit::Invalid, format!("line {line} of `{file}` does not read")).cause(message).hint(again)
        }
        store::RestoreError::Damaged { message } => {
            failure(Exit::Invalid, format!("`{file}` is cut off, or was changed")).cause(message).hint(again)
        }
        store::RestoreError::OtherVersion { .. } => failure(Exit::Failed, error.to_string())
            .hint("restore it with the binary that wrote it; a newer one brings the schema up to date when it serves"),
        store::RestoreError::Store(_) => failure(Exit::Failed, error.to_string())
            .hint("is the master.key that of the backed-up data folder? countersign doctor looks at the rest"),
    }
}

fn done(terminal: &mut Terminal, verb: &str, rows: u64, file: &Path) -> Result<(), Failure> {
    if terminal.is_document() {
        return terminal.document(&json!({ "rows": rows, "file": file.display().to_string() }));
    }
    terminal.note(format!("{} {}, {}", Tone::Ok.paint(format!("✓ {verb}")), counted(rows, "row", "rows"), file.display()));
    Ok(())
}
