//! `countersign session bootstrap`: writes the guide of a session into the folder of its agent.

use crate::commands::actions::guide;
use crate::shared::*;
use clap::Args;
use serde_json::json;
use std::fs::Permissions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign session bootstrap .                                    as the agent
  countersign session bootstrap /srv/sandbox --session 'nightly triage'";

/// Where the guide is, below the folder of the agent.
const FOLDER: &str = ".countersign";
const FILE: &str = "actions-guide.md";
/// The agent may be another user than the one who writes the guide, and the guide holds no secret.
const READABLE: u32 = 0o644;

#[derive(Debug, Args)]
pub(crate) struct Bootstrap {
    /// The folder that the agent works in
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Its title or its id; the agent's own session when absent
    #[arg(long, value_name = "SESSION", env = "COUNTERSIGN_SESSION", hide_env_values = true)]
    session: Option<String>,
}

impl Bootstrap {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        if client.rehearses() {
            return Err(Failure::usage("`session bootstrap` has no dry run: it changes files on this machine"));
        }
        let text = guide::of(self.session.as_deref(), client, terminal).await?;
        let file = write(&self.folder, &text)?;
        if terminal.is_document() {
            terminal.document(&json!({ "file": file.display().to_string() }))?;
        } else {
            terminal.line(clean::line(&file.display().to_string()))?;
            terminal.note(Tone::Muted.paint("the agent also needs COUNTERSIGN_URL and COUNTERSIGN_TOKEN, the token of this session"));
        }
        Ok(Exit::Ok)
    }
}

/// Writes the guide below this folder, in one step, and returns where it is.
fn write(folder: &Path, text: &str) -> Result<PathBuf, Failure> {
    let inside = folder.join(FOLDER);
    // SECURITY: an agent may have put a link here. What it points to is not written to, and a link in the place of the file is replaced.
    match std::fs::symlink_metadata(&inside) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(Failure::failed(format!("`{}` is there, and is no folder", inside.display())).hint("move it away")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            std::fs::create_dir(&inside).map_err(|error| Failure::file(&inside, &error))?;
        }
        Err(error) => return Err(Failure::file(&inside, &error)),
    }
    let file = inside.join(FILE);
    put(&inside, &file, text).map_err(|error| Failure::file(&file, &error))?;
    Ok(file)
}

fn put(folder: &Path, file: &Path, text: &str) -> std::io::Result<()> {
    let mut part = tempfile::NamedTempFile::new_in(folder)?;
    part.write_all(text.as_bytes())?;
    std::fs::set_permissions(part.path(), Permissions::from_mode(READABLE))?;
    part.persist(file).map(|_| ()).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_is_replaced_and_never_written_through_a_link() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = write(folder.path(), "one").unwrap();
        assert_eq!(file, folder.path().join(".countersign/actions-guide.md"));
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
        let other = elsewhere.path().join("other");
        std::fs::write(&other, "other").unwrap();
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&other, &file).unwrap();
        write(folder.path(), "two").unwrap();
        assert_eq!((std::fs::read_to_string(&file).unwrap(), std::fs::read_to_string(&other).unwrap()), ("two".into(), "other".into()));

        std::fs::remove_dir_all(folder.path().join(FOLDER)).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join(FOLDER)).unwrap();
        assert_eq!(write(folder.path(), "three").unwrap_err().exit, Exit::Failed);
        assert!(!elsewhere.path().join(FILE).exists());
        assert_eq!(write(&folder.path().join("nowhere"), "four").unwrap_err().exit, Exit::NotFound);
    }
}
