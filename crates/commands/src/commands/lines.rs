//! Shows what a running call prints, on stderr while the user waits for it.

use crate::client::{Event, Reply};
use crate::shared::*;
use api::invocation::{InvokeResponse, MissedEvent, ProgressEvent};
use clap::Args;
use serde::Deserialize as _;
use serde::Serialize;

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Lines {
    /// Show what the call prints while it runs, on stderr; a terminal shows it anyway
    #[arg(short, long)]
    verbose: bool,
    /// Show nothing of what the call prints
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
}

impl Lines {
    pub(super) fn are_shown(self, terminal: &Terminal) -> bool {
        self.verbose || (!self.quiet && terminal.is_watched())
    }

    /// Whether lines are shown by a command whose purpose is to follow a call. With a document as output they are shown only if `--verbose`
    /// asks for them.
    pub(super) fn are_followed(self, terminal: &Terminal) -> bool {
        self.verbose || (!self.quiet && !terminal.is_document())
    }
}

/// Sends a call and shows what it prints until its answer arrives. It is sent under `--dry-run` too.
pub(super) async fn post(
    path: &[&str],
    body: &impl Serialize,
    client: &Client,
    terminal: &mut Terminal,
) -> Result<Answer<InvokeResponse>, Failure> {
    let mut events = match client.post_told(path, body).await? {
        Reply::Answered(answer) => return Ok(answer),
        Reply::Told(events) => events,
    };
    let cut_off = || {
        Failure::new(Exit::Unreachable, "the answer was cut off; it may have done what was asked, look before retrying")
            .hint("countersign invocation list")
    };
    loop {
        let event = events.next().await.map_err(|_| cut_off())?.ok_or_else(cut_off)?;
        match event.name.as_str() {
            "invocation" => return event.into_answer(),
            "problem" => return Err(event.into_problem()),
            _ => show(&event, terminal),
        };
    }
}

/// Shows one event of a running call and returns the number of the line, if it has one. Events that this version does not know are skipped.
pub(super) fn show(event: &Event, terminal: &mut Terminal) -> Option<u64> {
    let (text, seq) = match event.name.as_str() {
        "progress" => ProgressEvent::deserialize(&event.data).ok().map(|line| (clean::line(&line.text), Some(line.seq)))?,
        "missed" => MissedEvent::deserialize(&event.data)
            .ok()
            .map(|missed| (format!("… {} missed", counted(missed.count, "line was", "lines were")), None))?,
        _ => return None,
    };
    if terminal.is_watched() {
        // Erases the countdown; it is drawn again below the new line.
        terminal.redraw("");
    }
    terminal.note(Tone::Muted.paint(text));
    seq
}
