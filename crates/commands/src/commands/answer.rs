//! `countersign approve` and `countersign deny`. An approval is bound to the call as it was shown. If it does more than let this one call
//! run, the command says so before it asks. Several ids are answered independently: a failure of one does not affect the others.

mod beyond;
mod edit;

use super::action::params;
use super::show::asked_for;
use super::{batch, outcome};
use crate::shared::*;
use api::Code;
use api::batch::BatchView;
use api::identity::SpaceView;
use api::invocation::{
    ApproveManyRequest, ApproveManyResponse, ApproveRequest, ApproveResponse, DenyRequest, DenyResponse, ForesightView, InvocationView,
    OneOfMany, ShownOne,
};
use beyond::Beyond;
use clap::Args;
use countersign_core::{Status, Tier};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) const APPROVE_EXAMPLES: &str = "\
Examples:
  countersign approve inv_…
  countersign approve inv_… inv_…                           several, each once; asks first
  countersign approve inv_… --grant --calls 5 --expires 2h  and more calls like it
  countersign approve inv_… --always                        and the mode becomes allow
  countersign approve inv_… --edit                          with other params
  countersign approve inv_… --confirm files.wipe            an R4 action needs its name";

pub(crate) const DENY_EXAMPLES: &str = "\
Examples:
  countersign deny inv_… --reason 'wrong folder'            the reason is told to the requester
  countersign deny inv_… inv_…                              several; nothing is asked first";

/// The number of ids that one request may answer.
const BULK_MAX: usize = countersign_core::limits::BULK_ANSWERS_MAX;

#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// Ids of pending invocations
    #[arg(value_name = "INVOCATION", required = true)]
    pending: Vec<String>,
    #[command(flatten)]
    beyond: Beyond,
    /// Other params instead of the requested ones, whole; @file reads a file, - reads stdin
    #[arg(long, value_name = "JSON", conflicts_with = "edit")]
    params: Option<String>,
    /// Change the params in $VISUAL or $EDITOR first
    #[arg(long)]
    edit: bool,
    /// Why; recorded with the answer
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The action's id, which approving an R4 action needs
    #[arg(long, value_name = "ACTION")]
    confirm: Option<String>,
    #[command(flatten)]
    agreed: Agreed,
}

#[derive(Debug, Args)]
pub(crate) struct Deny {
    /// Ids of pending invocations
    #[arg(value_name = "INVOCATION", required = true)]
    pending: Vec<String>,
    /// Why; told to the requester
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    _unasked: Unasked,
}

const COLUMNS: &[Column] = &[Column::Whole("ID"), Column::Whole("STATUS"), Column::Whole("ACTION"), Column::Extra("RECEIPT")];

impl Approve {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let mut answers = Answers::default();
        match self.pending.as_slice() {
            [id] => answers.add(id, self.approve(id, client, terminal).await),
            several => self.approve_several(several, &mut answers, client, terminal).await?,
        }
        answers.tell(client, terminal).await
    }

    async fn approve(&self, id: &str, client: &Client, terminal: &mut Terminal) -> Result<(InvocationView, Value), Failure> {
        let (shown, _) = outcome::get(id, client).await?;
        let params = self.other_params(&shown, client, terminal).await?;
        self.beyond.agreed(&shown, self.agreed.consent(client), client, terminal).await?;
        let (mode, grant) = self.beyond.request();
        let binding = shown.binding.as_ref().map(|binding| binding.digest.clone());
        let mut request = ApproveRequest { mode, grant, params, binding, confirm: self.confirm.clone(), reason: self.reason.clone() };
        let path = ["invocations", id, "approve"];
        let mut answer = client.post::<ApproveResponse>(&path, &request).await;
        if let Err(failure) = &answer
            && failure.is(Code::NeedsConfirmation)
            && self.confirm.is_none()
            && terminal.can_ask()
        {
            let question = format!("`{}` is approved by name: type it to approve it: ", clean::line(&shown.action));
            request.confirm = Some(terminal.ask(&question).await?);
            answer = client.post(&path, &request).await;
        }
        let Answer { read, raw } = answer?;
        made(&read).into_iter().for_each(|line| terminal.remark(line));
        Ok((read.invocation, raw))
    }

    /// Shows a summary and approves the calls in one request, each bound to its present state.
    async fn approve_several(
        &self,
        ids: &[String],
        answers: &mut Answers,
        client: &Client,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        if self.beyond.is_more_than_once() || self.edit || self.params.is_some() {
            return Err(Failure::usage("several calls are approved once each, as they were requested")
                .hint("approve one id to give --always, --grant, --params or --edit"));
        }
        let (mut refused, mut shown) = (Vec::new(), Vec::new());
        for id in ids {
            let looked_at = outcome::get(id, client).await;
            refused.push(looked_at.map(|(one, _)| shown.push(one)).err());
        }
        let pending = shown.iter().filter(|one| outcome::status(one) == Status::Pending);
        // The server refuses these; the others are counted without them.
        let (left_out, pending): (Vec<_>, Vec<_>) = pending.partition(|one| one.tier == Tier::R4);
        for one in left_out {
            let (id, action) = (clean::line(&one.id), clean::line(&one.action));
            terminal.remark(Tone::Warn.paint(format!("! left out: {id}, {action} is R4")));
        }
        if !pending.is_empty() {
            summary(&pending).into_iter().for_each(|line| terminal.remark(line));
            let question = format!("Approve {}?", counted(pending.len() as u64, "call", "calls"));
            terminal.consent(&question, self.agreed.consent(client)).await?;
        }
        let answerable: Vec<_> = shown.into_iter().map(as_shown).collect();
        let mut results = Vec::new();
        for invocations in answerable.chunks(BULK_MAX) {
            let request = ApproveManyRequest { invocations: invocations.to_vec(), reason: self.reason.clone() };
            results.extend(client.post::<ApproveManyResponse>(&["invocations", "approve"], &request).await?.read.results);
        }
        let mut results = results.into_iter();
        for (id, refused) in ids.iter().zip(refused) {
            let unsaid = || Err(Failure::failed(format!("the server said nothing about `{id}`")).hint(format!("countersign show {id}")));
            let answer = refused.map_or_else(|| results.next().map_or_else(unsaid, became), Err);
            answers.add(id, answer);
        }
        Ok(())
    }

    async fn other_params(&self, shown: &InvocationView, client: &Client, terminal: &mut Terminal) -> Result<Option<Value>, Failure> {
        if !self.edit && self.params.is_none() {
            return Ok(None);
        }
        let asked = whole_params(shown, client).await?;
        let params = match &self.params {
            Some(given) => params::read(Some(given), &[], terminal).await?,
            None => edit::by_hand(&asked, terminal).await?,
        };
        let changes = edit::changes(&asked, &params);
        terminal.remark(Tone::Muted.paint(if changes.is_empty() { "the params stay as they were requested" } else { "what changes:" }));
        for change in &changes {
            terminal.remark(format!("  {change}"));
        }
        if self.edit {
            terminal.consent(&format!("Approve `{}` with these params?", clean::line(&shown.action)), self.agreed.consent(client)).await?;
        }
        Ok(if changes.is_empty() { None } else { Some(params) })
    }
}

/// The params as they were requested. If they were too large to be stored whole, the server is asked for them.
async fn whole_params(shown: &InvocationView, client: &Client) -> Result<Value, Failure> {
    if asked_for(&shown.params).1.is_none() {
        return Ok(shown.params.clone());
    }
    let ahead = client.get::<ForesightView>(&["invocations", &shown.id, "foresight"], &[]).await?.read;
    ahead.params.ok_or_else(|| {
        Failure::new(Exit::Conflict, format!("`{}` could not run now, so what it asks for cannot be changed", shown.id))
            .hint(format!("countersign show {}", shown.id))
    })
}

/// What the approval made beyond letting this one call run.
fn made(answer: &ApproveResponse) -> Vec<String> {
    let done = |text: String| format!("{} {text}", Tone::Ok.paint("✓"));
    let grant = answer.grant.as_ref().map(|grant| done(format!("made grant {} for {}", clean::line(&grant.id), clean::line(&grant.scope))));
    let mode = answer.mode.as_ref().map(|row| {
        let (action, scope) = (clean::line(&row.action), clean::line(&row.scope));
        done(format!("set the mode of {action} to {} for {scope}, version {}", row.mode, row.version))
    });
    grant.into_iter().chain(mode).collect()
}

/// Binds the approval to the call as it was shown: if the call has changed since, the server refuses the approval.
fn as_shown(shown: InvocationView) -> OneOfMany {
    match shown.binding {
        Some(binding) => OneOfMany::Shown(ShownOne { id: shown.id, binding: binding.digest }),
        None => OneOfMany::Id(shown.id),
    }
}

/// A summary of several approvals: the number of calls of each tier, and a line for every R3 call.
fn summary(pending: &[&InvocationView]) -> Vec<String> {
    let mut tiers: BTreeMap<Tier, u64> = BTreeMap::new();
    for one in pending {
        *tiers.entry(one.tier).or_default() += 1;
    }
    let tiers: Vec<_> = tiers.into_iter().map(|(tier, count)| format!("{count} × {tier}")).collect();
    let mut lines = vec![format!("{}: {}", counted(pending.len() as u64, "call", "calls"), tiers.join(", "))];
    for one in pending.iter().filter(|one| one.tier == Tier::R3) {
        lines.push(format!("  {}", Tone::Warn.paint(format!("R3  {}  {}", clean::line(&one.id), clean::line(&one.action)))));
        lines.push(format!("      requested by {}", clean::line(one.session_title.as_deref().unwrap_or(&one.principal))));
        lines.extend(one.reason.as_ref().map(|reason| format!("      reason given “{}”", clean::line(reason))));
    }
    lines
}

/// The result for one of several calls. A call that ran without success is a failure here, as it is when approved alone.
fn became(one: api::invocation::ApprovedOne) -> Result<(InvocationView, Value), Failure> {
    let raw = serde_json::to_value(&one).unwrap_or_default();
    match (one.invocation, one.problem) {
        (Some(invocation), _) => outcome::failure(&invocation).map_or_else(|| Ok((*invocation, raw)), Err),
        (None, Some(problem)) => {
            let raw = serde_json::to_value(&problem).unwrap_or_default();
            Err(Failure::of_problem(&problem, raw))
        }
        (None, None) => Err(Failure::failed(format!("the server said nothing about `{}`", one.id))),
    }
}

impl Deny {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let mut answers = Answers::default();
        for id in &self.pending {
            let request = DenyRequest { reason: self.reason.clone() };
            let denied = client.post::<DenyResponse>(&["invocations", id, "deny"], &request).await;
            answers.add(id, denied.map(|answer| (answer.read.invocation, answer.raw)));
        }
        answers.tell(client, terminal).await
    }
}

/// The results of all answers.
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

    /// Writes the results: a single call as a record, several as a list. The exit code is that of the first failure; without one, it says
    /// whether a call is still pending.
    async fn tell(mut self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        for failure in &mut self.failures {
            *failure = explained(failure.clone(), client).await;
        }
        let waits = self.answered.iter().any(|invocation| outcome::status(invocation) == Status::Pending);
        let exit = self.failures.first().map_or(if waits { Exit::Pending } else { Exit::Ok }, |failure| failure.exit);
        if self.items.len() == 1 {
            if let Some(failure) = self.failures.pop() {
                return Err(failure);
            }
            if terminal.is_document() {
                terminal.document(&self.items[0])?;
                return Ok(exit);
            }
        }
        let mut table = Table::new(COLUMNS, "nothing was answered");
        for invocation in &self.answered {
            let receipt = Cell::maybe(invocation.receipt.as_ref().map(|receipt| &receipt.id));
            table.row([Cell::text(&invocation.id), Cell::status(invocation.status), Cell::text(&invocation.action), receipt]);
        }
        terminal.list(&json!({ "items": self.items, "next": null }), &table)?;
        if terminal.is_document() {
            return Ok(exit);
        }
        self.failures.iter().for_each(|failure| terminal.failure(failure));
        for invocation in self.answered.iter().filter(|invocation| outcome::status(invocation) == Status::Pending) {
            let needed = needed(invocation, client).await;
            terminal.note(more_people(invocation, needed));
        }
        let batches = self.batches(client).await;
        batches.iter().for_each(|batch| batch::summary(batch, terminal));
        if let (Some(first), true) = (self.answered.first(), self.failures.is_empty()) {
            let whole = batches.first().map(|batch| format!("countersign batch show {}", batch.id));
            terminal.next(whole.unwrap_or_else(|| format!("countersign explain {}", first.id)));
        }
        // Parts of a batch are left out: they wait for the other parts, and the batch has its own line.
        let goes_on = |one: &InvocationView| matches!(outcome::status(one), Status::Approved | Status::Running) && one.batch.is_none();
        if self.answered.iter().any(goes_on) {
            terminal.note(Tone::Muted.paint("countersign show follows what still runs"));
        }
        Ok(exit)
    }

    /// The batches that the answered calls are parts of, each once.
    async fn batches(&self, client: &Client) -> Vec<BatchView> {
        let mut batches: Vec<BatchView> = Vec::new();
        for part in &self.answered {
            let is_known = |batch: &BatchView| part.batch.as_ref().is_some_and(|of| of.id == batch.id);
            if !batches.iter().any(is_known) {
                batches.extend(batch::of(part, client).await);
            }
        }
        batches
    }
}

/// If the failed call is a part of a batch, adds what happened to the batch.
async fn explained(failure: Failure, client: &Client) -> Failure {
    let Some(part) = failure.problem().and_then(|problem| problem.invocation) else { return failure };
    match batch::of(&part, client).await {
        Some(batch) => batch::explain(failure, &part, &batch),
        None => failure,
    }
}

/// The quorum for this call; `None` if the space sets none or the caller may not read the space.
async fn needed(invocation: &InvocationView, client: &Client) -> Option<u32> {
    let space = client.get::<SpaceView>(&["spaces", &invocation.space_id], &[]).await.ok()?.read;
    space.quorum.get(&invocation.tier).copied()
}

fn more_people(invocation: &InvocationView, needed: Option<u32>) -> String {
    let said = invocation.approvals.len();
    let of = needed.map(|needed| format!(" of {needed}")).unwrap_or_default();
    let people = if said == 1 && of.is_empty() { "person" } else { "people" };
    let text = format!("◷ approved by {said}{of} {people}: {} still needs others", clean::line(&invocation.id));
    Tone::Warn.paint(text)
}
