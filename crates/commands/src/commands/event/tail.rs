//! `countersign event tail`: events as they happen, one line each.

use crate::shared::*;
use api::stream::StreamEvent;
use clap::Args;
use serde::Deserialize as _;

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign event tail
  countersign event tail --type invocation                   of calls
  countersign event tail --subject inv_…                     of one call
  countersign event tail --after 0                           from the oldest event that is kept
  countersign event tail --json --limit 1                    the next one, as JSON";

#[derive(Debug, Args)]
pub(crate) struct Tail {
    /// Only of this type, or with this first word
    #[arg(long = "type", value_name = "TYPE")]
    name: Option<String>,
    /// Only about this, as a whole: the id of a call, a grant
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// Begin after this position; from now on when absent
    #[arg(long, value_name = "POSITION")]
    after: Option<String>,
    /// End after so many events
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

impl Tail {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let query: Vec<_> = self.after.iter().map(|after| ("after", after.clone())).collect();
        let mut events = client.events(&["stream"], &query).await?;
        let (mut told, mut reached) = (0, self.after.clone());
        while self.limit.is_none_or(|limit| told < limit) {
            let Some(event) = events.next().await? else {
                let on = reached.map_or_else(String::new, |reached| format!(" --after {reached}"));
                return Err(Failure::new(Exit::Unreachable, "the stream ended").hint(format!("countersign event tail{on}")));
            };
            // What the stream says of itself has no `specversion`, so it is no event. An event is one, whatever it is called.
            let Ok(read) = StreamEvent::deserialize(&event.data) else {
                if event.name == "problem" {
                    return Err(event.into_problem());
                }
                continue;
            };
            reached = Some(read.cursor.clone());
            // The same event under its older name is left out.
            if read.cursor.contains('.') || !self.fits(&read) {
                continue;
            }
            told += 1;
            if terminal.is_document() {
                terminal.line(&event.data)?;
            } else {
                let (subject, name) = (clean::line(&read.subject), clean::line(&read.name));
                terminal.line(format!("{:>6}  {}  {name}  {subject}", read.cursor, read.time))?;
            }
            terminal.flush()?;
        }
        Ok(Exit::Ok)
    }

    fn fits(&self, event: &StreamEvent) -> bool {
        let is_named =
            |wanted: &String| event.name.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.name.as_ref().is_none_or(is_named) && self.subject.as_ref().is_none_or(|subject| event.subject == *subject)
    }
}
