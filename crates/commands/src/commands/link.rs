//! `countersign link`: makes a link that approves or denies one invocation in the user's own name, for example for a message to their
//! phone. Until it expires, the link is a secret.

use super::outcome;
use crate::shared::*;
use api::invocation::{LinkResponse, NewLinkRequest};
use clap::Args;
use serde_json::json;

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign link inv_…
  countersign link inv_… --expires 5m";

#[derive(Debug, Args)]
pub(crate) struct Link {
    /// The id of a pending invocation
    #[arg(value_name = "INVOCATION")]
    pending: String,
    /// How long it lasts, such as 5m; 15m when absent
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    expires: Option<Span>,
}

impl Link {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let request = NewLinkRequest { expires_in: self.expires.as_ref().map(Span::text) };
        let mut answer = client.post::<LinkResponse>(&["invocations", &self.pending, "link"], &request).await?;
        // The server's own URL may contain a path, so the link's path is appended to it.
        let url = format!("{}{}", client.url().as_str().trim_end_matches('/'), answer.read.path);
        if terminal.is_document() {
            answer.raw["url"] = json!(url);
            terminal.document(&answer.raw)?;
            return Ok(Exit::Ok);
        }
        terminal.line(clean::line(&url))?;
        // If the call expires before the link, the link ends with the call.
        let call = outcome::get(&self.pending, client).await.ok().and_then(|(call, _)| call.expires_at);
        let until = call.map_or(answer.read.expires_at, |call| call.min(answer.read.expires_at));
        let left = terminal.future(until);
        terminal.note(Tone::Warn.paint(format!("! whoever opens it first can approve or deny as you, once, within {}", left.as_shown())));
        Ok(Exit::Ok)
    }
}
