//! A value that must not be seen: it comes from a prompt, from stdin or from a file, never from the command line.

use crate::shared::*;
use clap::Args;
use countersign_core::Secret as Hidden;
use countersign_core::limits::SECRET_VALUE_BYTES_MAX;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Where the value comes from; without a flag the user is asked.
#[derive(Debug, Args)]
pub(crate) struct Given {
    /// Read the value from stdin, without the line break at its end
    #[arg(long)]
    stdin: bool,
    /// Read the value from this file, without the line break at its end
    #[arg(long, value_name = "FILE", conflicts_with = "stdin")]
    file: Option<PathBuf>,
    /// Refused: a value on the command line is in the list of processes and in the shell's history
    #[arg(hide = true, value_name = "VALUE")]
    value: Option<String>,
}

/// The bytes of the longest value, and of the line break after it.
const BYTES_MAX: u64 = SECRET_VALUE_BYTES_MAX as u64 + 2;

/// Stands in a request that is shown and not sent.
const NOT_SHOWN: &str = "(not shown)";

impl Given {
    /// Whether the user said where to read it from.
    pub(super) const fn is_named(&self) -> bool {
        self.stdin || self.file.is_some() || self.value.is_some()
    }

    /// Reads the value from where the user said, or asks for it. Under `--dry-run` nothing is sent and the request is shown, so the value
    /// is not even read.
    pub(super) async fn read(&self, name: &str, client: &Client, terminal: &mut Terminal) -> Result<Hidden<String>, Failure> {
        if self.value.is_some() {
            return Err(Failure::usage("a value is never given on the command line")
                .cause("others can read it in the list of processes, and the shell keeps it in its history")
                .hint("leave it out to be asked for it, or use --stdin or --file; this value may be known to others now"));
        }
        if client.rehearses() {
            return Ok(Hidden::new(NOT_SHOWN.to_owned()));
        }
        let given = match &self.file {
            Some(file) => Hidden::new(content(file)?),
            None if self.stdin => Hidden::new(terminal.read_stdin(BYTES_MAX).await?),
            None if terminal.can_ask() => terminal.ask_secret(&format!("value of `{}`: ", clean::line(name))).await?,
            None => {
                return Err(Failure::usage("no value was given, and there is no terminal to ask for it")
                    .hint("give it with --stdin < FILE, or with --file FILE"));
            }
        };
        let value = given.expose().trim_end_matches(['\r', '\n']);
        if value.is_empty() {
            return Err(Failure::usage("the value is empty"));
        }
        Ok(Hidden::new(value.to_owned()))
    }
}

/// The content of a file. Its length is not asked for first: a pipe has none.
fn content(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text));
    if read.map_err(|error| Failure::file(path, &error))? as u64 > BYTES_MAX {
        return Err(Failure::new(
            Exit::Invalid,
            format!("`{}` is larger than a secret can be: {SECRET_VALUE_BYTES_MAX} bytes", path.display()),
        ));
    }
    Ok(text)
}
