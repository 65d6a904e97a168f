//! A person's answer to what waits. Approving is always this once; what was shown is bound to the answer.
//! Several ids are answered one by one: one that fails leaves the others as they are.

use super::{invocation, outcome};
use crate::client::{Answer, Client};
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Table, Terminal};
use crate::style::{Tone, clean};
use api::invocation::{ApproveMode, ApproveRequest, DenyRequest, DenyResponse, InvocationView, InvokeResponse};
use clap::Args;
use serde_json::{Value, json};

pub(crate) const APPROVE_EXAMPLES: &str = "\
Examples:
  countersign approve inv_…
  countersign approve inv_… --confirm files.wipe            an R4 action takes its name";

pub(crate) const DENY_EXAMPLES: &str = "\
Examples:
  countersign deny inv_… --reason 'wrong folder'            the reason reaches whoever asked";

#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// Ids of pending invocations
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Why; recorded with the answer
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The action's id, which approving an R4 action takes
    #[arg(long, value_name = "ACTION")]
    confirm: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Deny {
    /// Ids of pending invocations
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Why; reaches whoever asked
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

const COLUMNS: &[Column] = &[Column::Whole("ID"), Column::Whole("STATUS"), Column::Whole("ACTION"), Column::Whole("RECEIPT")];

impl Approve {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let mut answers = Answers::default();
        for id in &self.ids {
            answers.add(id, self.approve(id, client, terminal).await);
        }
        answers.tell(terminal)
    }

    async fn approve(&self, id: &str, client: &Client, terminal: &mut Terminal) -> Result<(InvocationView, Value), Failure> {
        let (shown, _) = invocation::get(id, client).await?;
        if shown.tier == "R4" && shown.status == "pending" {
            self.confirmed(&shown, terminal).await?;
        }
        let binding = shown.binding.map(|binding| binding.digest);
        let request = ApproveRequest { mode: ApproveMode::Once, binding, reason: self.reason.clone(), ..ApproveRequest::default() };
        let Answer { read, raw } = client.post::<InvokeResponse>(&["invocations", id, "approve"], &request).await?;
        Ok((read.invocation, raw))
    }

    /// An R4 action takes neither a single key nor company: it is approved alone, by its name.
    async fn confirmed(&self, shown: &InvocationView, terminal: &mut Terminal) -> Result<(), Failure> {
        let action = &shown.action;
        if self.ids.len() > 1 {
            let message = format!("`{}` was not approved: `{action}` is R4, which is approved alone", shown.id);
            return Err(Failure::usage(message).hint(format!("countersign approve {} --confirm {action}", shown.id)));
        }
        let typed = match &self.confirm {
            Some(given) => given.clone(),
            None if terminal.can_ask() => terminal.ask(&format!("`{}` is R4: type its name to approve it: ", clean::line(action))).await?,
            None => String::new(),
        };
        if typed == *action {
            return Ok(());
        }
        let message = format!("`{}` was not approved: `{action}` is R4, and its name was not confirmed", shown.id);
        Err(Failure::usage(message).hint(format!("countersign approve {} --confirm {action}", shown.id)))
    }
}

impl Deny {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let mut answers = Answers::default();
        for id in &self.ids {
            let request = DenyRequest { reason: self.reason.clone() };
            let denied = client.post::<DenyResponse>(&["invocations", id, "deny"], &request).await;
            answers.add(id, denied.map(|answer| (answer.read.invocation, answer.raw)));
        }
        answers.tell(terminal)
    }
}

/// What became of each.
#[derive(Default)]
struct Answers {
    answered: Vec<InvocationView>,
    items: Vec<Value>,
    failures: Vec<Failure>,
}

impl Answers {
    fn add(&mut self, id: &str, answer: Result<(InvocationView, Value), Failure>) {
        match answer {
            Ok((invocation, raw)) => {
                self.answered.push(invocation);
                self.items.push(raw);
            }
            Err(failure) => {
                let mut item = failure.to_json();
                item["id"] = json!(id);
                self.items.push(item);
                self.failures.push(failure);
            }
        }
    }

    /// One alone is told as itself, several as a list. The exit code is that of the first that failed.
    fn tell(mut self, terminal: &mut Terminal) -> Result<Exit, Failure> {
        if self.items.len() == 1 {
            if let Some(failure) = self.failures.pop() {
                return Err(failure);
            }
            if terminal.is_document() {
                terminal.document(&self.items[0])?;
                return Ok(Exit::Ok);
            }
        }
        let mut table = Table::new(COLUMNS, "nothing was answered");
        for invocation in &self.answered {
            let receipt = Cell::maybe(invocation.receipt.as_ref().map(|receipt| &receipt.id));
            table.row([Cell::text(&invocation.id), Cell::status(&invocation.status), Cell::text(&invocation.action), receipt]);
        }
        terminal.list(&json!({ "items": self.items, "next": null }), &table)?;
        if !terminal.is_document() {
            self.failures.iter().for_each(|failure| terminal.failure(failure));
        }
        if let (Some(first), true) = (self.answered.first(), self.failures.is_empty()) {
            terminal.next(format!("countersign explain {}", first.id));
        }
        let waiting = self.answered.iter().any(|invocation| !outcome::is_settled(invocation));
        if waiting {
            terminal.note(Tone::Muted.paint("what still runs is followed with countersign show"));
        }
        Ok(self.failures.first().map_or(Exit::Ok, |failure| failure.exit))
    }
}
