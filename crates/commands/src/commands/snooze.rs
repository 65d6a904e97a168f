//! `countersign snooze`: hides a pending call from the user's own inbox for a while. This does not answer the call, and its deadline stays.

use super::outcome;
use crate::shared::*;
use api::invocation::{SnoozeRequest, SnoozeResponse};
use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign snooze inv_… --for 30m
  countersign snooze inv_… --for 0s                         show it again";

#[derive(Debug, Args)]
pub(crate) struct Snooze {
    /// The id of a pending invocation
    #[arg(value_name = "INVOCATION")]
    pending: String,
    /// How long, such as 30m or 2h
    #[arg(long = "for", value_name = "TIME", value_parser = Span::parse)]
    time: Span,
}

impl Snooze {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let request = SnoozeRequest { time: self.time.text() };
        let answer = client.post::<SnoozeResponse>(&["invocations", &self.pending, "snooze"], &request).await?;
        let SnoozeResponse { id, until } = &answer.read;
        let until = *until;
        let record = Record::new(id).with("invocation", Cell::text(id)).with("hidden for", terminal.future(until));
        terminal.record(&answer.raw, &record)?;
        // If the call expires before the snooze ends, it will never come back to the inbox.
        if let Ok((invocation, _)) = outcome::get(id, client).await
            && let Some(expires) = invocation.expires_at.filter(|expires| *expires < until)
        {
            let left = terminal.future(expires);
            terminal.note(Tone::Warn.paint(format!("! it expires before that, in {}", left.as_shown())));
        }
        terminal.next("countersign inbox --all");
        Ok(Exit::Ok)
    }
}
