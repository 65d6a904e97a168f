//! `countersign inbox`: what a person has to act on. Calls in doubt come first, then pending calls, those with the nearest deadline first, and
//! void ones last.

use super::show::asked_for;
use super::{breaker, grant, kill_switch};
use crate::shared::*;
use api::identity::SessionView;
use api::invocation::InvocationView;
use clap::Args;
use countersign_core::Status;
use serde_json::{Value, json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign inbox
  countersign inbox --all                                   also what you snoozed
  countersign inbox --session 'release bot' --tier R3
  countersign inbox --json=id,action,expires_at";

#[derive(Debug, Args)]
pub(crate) struct Inbox {
    /// Also what you snoozed
    #[arg(long)]
    all: bool,
    /// Only calls of this session, by its title or its id
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only calls of this action, such as files.write_text
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// Only calls of this tier, such as R3
    #[arg(long, value_name = "TIER")]
    tier: Option<String>,
}

const COLUMNS: &[Column] = &[
    Column::Whole("ID"),
    Column::Below("ACTION"),
    Column::Whole("TIER"),
    Column::Cut("WHAT"),
    Column::Below("REQUESTED BY"),
    Column::Cut("REASON GIVEN"),
    Column::Whole("EXPIRES"),
];
/// The status of a call that may or may not have happened. A person has to look at it.
const IN_DOUBT: &str = "in_doubt";
/// A deadline closer than this is shown in red.
const SOON_MS: u64 = 60_000;

impl Inbox {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        // All pages are read: a user who works through the inbox must see all of it.
        let chosen = self.chosen(client).await?;
        let chosen: Vec<_> = chosen.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let status = |status, more: &[(&'static str, &'static str)]| [&[("status", status)], more, &chosen].concat();
        let awake = ("awake", if self.all { "false" } else { "true" });
        let mut waiting = client.pages::<InvocationView>(&["invocations"], &status("pending", &[awake])).all().await?;
        // What has no deadline, because its clock stands still, comes after what has one. Void calls come last: an approval runs nothing.
        let order = |one: &InvocationView| (one.void.is_some(), one.expires_at.is_none(), one.expires_at, one.id.clone());
        waiting.sort_by_cached_key(|(invocation, _)| order(invocation));
        let doubted = client.pages::<InvocationView>(&["invocations"], &status(IN_DOUBT, &[])).all().await?;
        let settle =
            doubted.first().map(|(first, _)| format!("countersign invocation settle {} --as succeeded|failed|retry --reason …", first.id));
        waiting.splice(0..0, doubted);
        let names = Names::load(client, terminal).await;
        let mut table = Table::new(COLUMNS, if chosen.is_empty() { "no pending calls" } else { "no pending call matches" });
        for (invocation, _) in &waiting {
            table.row([
                Cell::text(&invocation.id),
                Cell::text(&invocation.action),
                Cell::tier(invocation.tier),
                Cell::text(params(&invocation.params)),
                names.requester(&invocation.principal, invocation.session_title.as_deref()),
                Cell::maybe(invocation.reason.as_ref()),
                deadline(invocation, terminal),
            ]);
        }
        let items: Vec<_> = waiting.iter().map(|(_, raw)| raw).collect();
        terminal.list(&json!({ "items": items, "next": null }), &table)?;
        if let Some((first, _)) = waiting.first() {
            terminal.next(format!("countersign show {}", first.id));
        }
        if let Some(settle) = settle {
            terminal.next(settle);
        }
        // If the inbox is empty only because calls are snoozed, the next command shows them.
        if waiting.is_empty()
            && !self.all
            && !terminal.is_document()
            && client.pages::<InvocationView>(&["invocations"], &status("pending", &[])).next().await?.is_some_and(|page| !page.is_empty())
        {
            terminal.next("countersign inbox --all");
        }
        void(waiting.iter().map(|(invocation, _)| invocation), terminal);
        requested(client, terminal).await;
        stopped(client, terminal).await;
        failing(client, terminal).await;
        Ok(Exit::Ok)
    }

    /// The filters of the command line, as query parameters of the server.
    async fn chosen(&self, client: &Client) -> Result<Vec<(&'static str, String)>, Failure> {
        let session = maybe_id_of::<SessionView>(self.session.as_deref(), client).await?;
        let filters = [("session", session), ("action", self.action.clone()), ("tier", self.tier.as_ref().map(|tier| tier.to_uppercase()))];
        Ok(filters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
    }
}

/// Says which calls are void, so that an approval would run nothing, and how to deny them.
fn void<'a>(waiting: impl Iterator<Item = &'a InvocationView>, terminal: &mut Terminal) {
    let void: Vec<_> = waiting.filter(|invocation| invocation.void.is_some()).collect();
    let Some(first) = void.first().filter(|_| !terminal.is_document()) else { return };
    let calls = counted(void.len() as u64, "call is", "calls are");
    let told = format!("⊘ {calls} void: the rules or the action changed since, so an approval would run nothing");
    terminal.note(Tone::Warn.paint(told));
    terminal.next(format!("countersign deny {} --reason …", first.id));
}

/// Says how many requests for grants wait, because nobody else answers them.
async fn requested(client: &Client, terminal: &mut Terminal) {
    if terminal.is_document() {
        return;
    }
    let waiting = grant::waiting(client).await;
    if waiting > 0 {
        let told = counted(waiting, "request for a grant waits", "requests for grants wait");
        terminal.note(Tone::Warn.paint(format!("◷ {told} for an answer")));
        terminal.next("countersign grant list --state requested");
    }
}

/// Shows the kill switches that are on, because they stop calls even after an approval.
async fn stopped(client: &Client, terminal: &mut Terminal) {
    if terminal.is_document() {
        return;
    }
    for switch in kill_switch::on(client).await {
        terminal.note(Tone::Danger.paint(format!("■ kill switch on: {}", kill_switch::line(&switch))));
    }
}

/// Names what fails again and again, because its calls fail even after an approval.
async fn failing(client: &Client, terminal: &mut Terminal) {
    if terminal.is_document() {
        return;
    }
    let failing = breaker::failing(client).await;
    let Some(first) = failing.first() else { return };
    let more = if failing.len() > 1 { ", …" } else { "" };
    terminal.note(Tone::Warn.paint(format!("✗ {}: {first}{more}", counted(failing.len() as u64, "target fails", "targets fail"))));
    terminal.next("countersign breaker list");
}

fn deadline(invocation: &InvocationView, terminal: &Terminal) -> Cell {
    if invocation.status == Status::InDoubt {
        return Cell::shown("? in doubt", IN_DOUBT).toned(Tone::Danger);
    }
    if invocation.void.is_some() {
        return Cell::shown("⊘ void", "void").toned(Tone::Danger);
    }
    let Some(at) = invocation.expires_at else {
        return if invocation.clock_stopped { Cell::shown("■ stopped", "stopped").toned(Tone::Danger) } else { Cell::missing() };
    };
    let left = at.millis_since(terminal.now());
    terminal.future(at).toned(if left < SOON_MS { Tone::Danger } else { Tone::Warn })
}

/// The params in short, enough to recognise the call: `path: notes.md, text: hello`. `show` has all of them.
fn params(params: &Value) -> String {
    let (asked, _) = asked_for(params);
    let Some(members) = asked.as_object() else { return params.to_string() };
    let member = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}: {text}"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => format!("{name}: {value}"),
    };
    members.iter().map(member).collect::<Vec<_>>().join(", ")
}
