//! `countersign show`: one call with everything that is needed to approve or deny it, such as its params, who requested it and why, and why
//! it needs approval.

mod card;

pub(super) use card::{answered, asked_for, cascade, edited, resumed};

use super::outcome;
use crate::shared::*;
use api::Page;
use api::action::ActionView;
use api::invocation::{ForesightView, InvocationView};
use card::{Before, Card};
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
        let before = before(&invocation, client).await;
        let foresight = foresight(&invocation, action.as_ref(), client, terminal).await;
        // If the action was redefined after the request, an approval of this call would not cover the new definition, so it is not shown.
        let action = action.filter(|_| !foresight.as_ref().is_some_and(card::ahead::is_redefined));
        let names = Names::load(client, terminal).await.and_spaces(client, terminal).await;
        let names = names.and_grant(invocation.grant_id.as_deref(), client, terminal).await;
        let card = Card { invocation: &invocation, action: action.as_ref(), before, foresight: foresight.as_ref(), names: &names };
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

/// How earlier calls of the same action in the same session ended. Ids sort by creation time and the list is newest first, so `after` this
/// call's id come the earlier calls.
async fn before(invocation: &InvocationView, client: &Client) -> Option<Before> {
    let query = [
        ("action", invocation.action.clone()),
        ("session", invocation.session_id.clone()),
        ("after", invocation.id.clone()),
        ("limit", "100".to_owned()),
    ];
    let page = client.get::<Page<InvocationView>>(&["invocations"], &query).await.ok()?.read;
    // Dry runs are not counted, and reverts are compared only with reverts.
    let alike = |other: &&InvocationView| !other.dry_run && other.reverses.is_some() == invocation.reverses.is_some();
    let ended: Vec<_> = page.items.iter().filter(alike).map(outcome::status).filter(|status| status.is_final()).collect();
    Some(Before { ended: ended.len(), succeeded: ended.iter().filter(|status| **status == Status::Succeeded).count() })
}
