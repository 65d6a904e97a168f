//! `countersign show`: one call with everything that is needed to approve or deny it, such as its params, who requested it and why, and why
//! it needs approval.

mod card;

pub(super) use card::asked_for;

use super::outcome;
use crate::shared::*;
use api::action::ActionView;
use api::invocation::{ForesightView, InvocationView};
use card::Card;
use clap::Args;
use countersign_core::Status;

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign show inv_…
  countersign show inv_… --json=status,params,result";

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The id of an invocation
    invocation: String,
}

impl Show {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let (invocation, raw) = outcome::get(&self.invocation, client).await?;
        if terminal.is_document() {
            terminal.document(&raw)?;
            return Ok(Exit::Ok);
        }
        // All of these are optional: the action may be gone, and the caller may not be allowed to read everything.
        let action = client.get::<ActionView>(&["actions", &invocation.action], &[]).await.ok().map(|answer| answer.read);
        let foresight = foresight(&invocation, action.as_ref(), client, terminal).await;
        // If the action was redefined after the request, an approval of this call would not cover the new definition, so it is not shown.
        let action = action.filter(|_| !foresight.as_ref().is_some_and(card::ahead::is_redefined));
        let card = Card { invocation: &invocation, action: action.as_ref(), foresight: foresight.as_ref() };
        for line in card.lines(terminal) {
            terminal.line(line)?;
        }
        let id = &invocation.id;
        terminal.next(match outcome::status(&invocation) {
            Status::Pending if invocation.clock_stopped => "countersign kill-switch list".to_owned(),
            Status::Pending => card.answer(),
            Status::Quarantined => format!("countersign quarantine show {id}"),
            Status::Approved
            | Status::Running
            | Status::Succeeded
            | Status::Failed
            | Status::Reverted
            | Status::Denied
            | Status::Expired
            | Status::Cancelled => format!("countersign explain {id}"),
            Status::InDoubt => format!("countersign invocation settle {id} --as succeeded|failed|retry --reason …"),
        });
        Ok(Exit::Ok)
    }
}

/// What the server can tell about a pending call before it runs; `None` if the caller may not see that. The server may have to run code to
/// find out, so a line on the terminal says what is going on meanwhile.
async fn foresight(
    invocation: &InvocationView,
    action: Option<&ActionView>,
    client: &Client,
    terminal: &mut Terminal,
) -> Option<ForesightView> {
    if outcome::status(invocation) != Status::Pending {
        return None;
    }
    if terminal.is_watched() {
        terminal.redraw(&Tone::Muted.paint(card::ahead::meanwhile(invocation, action)));
    }
    let answer = client.get::<ForesightView>(&["invocations", &invocation.id, "foresight"], &[]).await;
    if terminal.is_watched() {
        terminal.redraw("");
    }
    answer.ok().map(|answer| answer.read)
}
