//! Events as JSON lines, to carry them elsewhere: `event export` writes them, and `event import` publishes them with the ids they have.

use crate::commands::action::params;
use crate::commands::part::Part;
use crate::shared::*;
use api::event::PublishedEvents;
use api::event_types::is_ours;
use api::stream::StreamEvent;
use clap::Args;
use countersign_core::limits::{BODY_BYTES_MAX, EVENTS_PER_REQUEST_MAX};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Bytes of stdin that are imported at once.
const STDIN_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes of one request, with room for what is around the events.
const REQUEST_BYTES_MAX: usize = BODY_BYTES_MAX / 2;
/// Attributes that the server sets anew.
const SET_BY_SERVER: [&str; 5] = ["cursor", "receipt", "chain", "depth", "rootrunid"];

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The file to write; - for stdout
    file: PathBuf,
    /// Only of this type, or with this first word
    #[arg(long = "type", value_name = "TYPE")]
    name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The file to read; - for stdin
    file: PathBuf,
}

impl Export {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let query: Vec<_> = [("order", "oldest")].into_iter().chain(self.name.as_deref().map(|name| ("type", name))).collect();
        let mut pages = client.pages::<StreamEvent>(StreamEvent::PATH, &query);
        let is_stdout = self.file == Path::new("-");
        let part = if is_stdout { None } else { Some(Part::create(&self.file)?) };
        let mut events: u64 = 0;
        while let Some(page) = pages.next().await? {
            for (_, raw) in page {
                events += 1;
                match &part {
                    Some(part) => writeln!(part.file(), "{raw}").map_err(|error| Failure::file(&self.file, &error))?,
                    None => terminal.bytes(format!("{raw}\n").as_bytes())?,
                }
            }
        }
        if let Some(part) = part {
            part.keep()?;
            let file = self.file.display().to_string();
            terminal.done(
                &format!("exported {} to", counted(events, "event", "events")),
                &file,
                &json!({ "file": file, "events": events }),
            )?;
        }
        Ok(Exit::Ok)
    }
}

/// What became of the events of a file.
#[derive(Default)]
struct Imported {
    published: u64,
    known: u64,
    /// Of types that only the server publishes.
    skipped: u64,
}

impl Import {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let text = if self.file == Path::new("-") {
            terminal.read_stdin(STDIN_BYTES_MAX).await?
        } else {
            std::fs::read_to_string(&self.file).map_err(|error| Failure::file(&self.file, &error))?
        };
        let mut imported = Imported::default();
        let (mut events, mut bytes) = (Vec::new(), 0);
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let mut event = params::exact(line, &format!("line {} is", at + 1))?;
            if event["type"].as_str().is_some_and(is_ours) {
                imported.skipped += 1;
                continue;
            }
            if let Some(members) = event.as_object_mut() {
                members.retain(|name, _| !SET_BY_SERVER.contains(&name.as_str()));
            }
            if !events.is_empty() && (events.len() >= EVENTS_PER_REQUEST_MAX || bytes + line.len() > REQUEST_BYTES_MAX) {
                imported.send(&events, client).await?;
                (events, bytes) = (Vec::new(), 0);
            }
            bytes += line.len();
            events.push(event);
        }
        if !events.is_empty() {
            imported.send(&events, client).await?;
        }
        let Imported { published, known, skipped } = imported;
        if terminal.is_document() {
            terminal.document(&json!({ "published": published, "known": known, "skipped": skipped }))?;
        }
        let more = format!("{known} known already, {skipped} of types that only the server publishes");
        terminal.note(format!("{} published; {more}", counted(published, "event was", "events were")));
        Ok(Exit::Ok)
    }
}

impl Imported {
    async fn send(&mut self, events: &[Value], client: &Client) -> Result<(), Failure> {
        let answer = client.post::<PublishedEvents>(&["events"], &events).await?;
        let known = answer.read.events.iter().filter(|one| one.known).count() as u64;
        self.known += known;
        self.published += answer.read.events.len() as u64 - known;
        Ok(())
    }
}
