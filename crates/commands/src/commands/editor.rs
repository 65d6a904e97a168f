//! Opens a JSON document in the user's own editor.

use crate::shared::*;
use std::io::Write as _;
use std::path::Path;

/// What is edited, and what does not happen if nothing usable is left of it.
pub(super) struct About<'a> {
    /// Such as `params`.
    pub(super) what: &'a str,
    /// Such as `not approved`.
    pub(super) otherwise: &'a str,
    /// What to do where there is no terminal.
    pub(super) elsewhere: &'a str,
}

/// Opens a text in the user's editor and returns what the user saved.
pub(super) async fn edited(text: &str, about: &About<'_>, terminal: &Terminal) -> Result<String, Failure> {
    let About { what, otherwise, elsewhere } = *about;
    if !terminal.can_ask() {
        return Err(Failure::usage(format!("there is no terminal to edit the {what} in")).hint(elsewhere));
    }
    let failed = |error: std::io::Error| Failure::failed(format!("the {what} cannot be edited: {error}"));
    let mut file = temporary(what).map_err(failed)?;
    writeln!(file, "{}", clean::json(text)).and_then(|()| file.flush()).map_err(failed)?;
    let path = file.path().to_owned();
    let ended = tokio::task::spawn_blocking(move || open(&path)).await;
    let ended = ended.map_err(|error| Failure::failed(error.to_string()))?;
    ended.map_err(|why| Failure::failed(format!("{otherwise}: {why}")).hint("set VISUAL or EDITOR"))?;
    let edited = std::fs::read_to_string(file.path()).map_err(failed)?;
    if edited.trim().is_empty() {
        return Err(Failure::failed(format!("{otherwise}: the {what} came back empty from the editor")));
    }
    Ok(edited)
}

/// Keeps what was written in a file, so that it is not lost, and says where.
pub(super) fn kept(text: &str, what: &str) -> Option<String> {
    let mut file = temporary(what).ok()?;
    file.write_all(text.as_bytes()).ok()?;
    let (_, path) = file.keep().ok()?;
    Some(path.display().to_string())
}

fn temporary(what: &str) -> std::io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().prefix(&format!("countersign-{what}-")).suffix(".json").tempfile()
}

#[expect(clippy::disallowed_methods, reason = "the editor is the person's own, and nothing of a caller's is on its command line")]
fn open(path: &Path) -> Result<(), String> {
    let named = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.trim().is_empty());
    let editor = named.unwrap_or_else(|| "vi".to_owned());
    // VISUAL and EDITOR may contain flags, such as `code --wait`.
    let mut words = editor.split_whitespace();
    let mut command = std::process::Command::new(words.next().unwrap_or("vi"));
    match command.args(words).arg(path).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the editor `{editor}` ended with {status}")),
        Err(error) => Err(format!("the editor `{editor}` cannot be started: {error}")),
    }
}
