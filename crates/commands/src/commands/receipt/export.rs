//! `countersign receipt export`: all records as JSON lines, streamed to a file that appears only when it is complete.

use crate::commands::part::Part;
use crate::shared::*;
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign receipt export receipts.jsonl
  countersign receipt export - | gzip > receipts.jsonl.gz";

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The file to write; - for stdout
    file: PathBuf,
}

impl Export {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        setting.no_dry_run("receipt export")?;
        let (client, terminal) = (&setting.client()?, setting.terminal);
        if self.file == Path::new("-") {
            let mut pieces = client.stream(&["receipts", "export"]).await?;
            while let Some(piece) = pieces.next().await? {
                terminal.bytes(piece.as_ref())?;
            }
            return Ok(Exit::Ok);
        }
        let is_there = self.file.exists();
        let part = Part::create(&self.file)?;
        let bytes = stream(client, part.file()).await.map_err(|failure| failure.of(&self.file))?;
        part.keep()?;
        if terminal.is_document() {
            terminal.document(&json!({ "file": self.file.display().to_string(), "bytes": bytes }))?;
        } else {
            terminal.note(format!("{} {} to {}", Tone::Ok.paint("✓ exported"), counted(bytes, "byte", "bytes"), self.file.display()));
            if is_there {
                terminal.note(Tone::Warn.paint("! the file was there before and was replaced"));
            }
            terminal.note(
                Tone::Muted.paint(
                    "the key to verify it with: countersign receipt key --out receipt.pem, or receipt.pub in the server's data folder",
                ),
            );
        }
        let file = self.file.display();
        terminal.next(format!("countersign receipt key --out receipt.pem && countersign receipt verify {file} --key receipt.pem"));
        Ok(Exit::Ok)
    }
}

/// Why a stream stopped early: reading from the server failed, or writing here did.
pub(super) enum Broken {
    Read(Failure),
    Write(std::io::Error),
}

impl Broken {
    pub(super) fn of(self, path: &Path) -> Failure {
        match self {
            Self::Read(failure) => failure,
            Self::Write(error) => Failure::file(path, &error),
        }
    }
}

/// Writes the whole export to a file.
pub(in crate::commands) async fn to_file(path: &Path, client: &Client) -> Result<(), Failure> {
    let file = std::fs::File::create(path).map_err(|error| Failure::file(path, &error))?;
    stream(client, file).await.map_err(|broken| broken.of(path))?;
    Ok(())
}

/// Copies the whole export and returns its size in bytes.
pub(super) async fn stream(client: &Client, mut to: impl Write) -> Result<u64, Broken> {
    let mut pieces = client.stream(&["receipts", "export"]).await.map_err(Broken::Read)?;
    let mut bytes = 0;
    while let Some(piece) = pieces.next().await.map_err(Broken::Read)? {
        let piece = piece.as_ref();
        to.write_all(piece).map_err(Broken::Write)?;
        bytes += piece.len() as u64;
    }
    to.flush().map_err(Broken::Write)?;
    Ok(bytes)
}
