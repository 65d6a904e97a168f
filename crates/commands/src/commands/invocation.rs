//! `countersign invocation`: lists, shows, follows, settles and reverts calls that were made.

mod foresight;

use super::lines::Lines;
use super::outcome;
use super::show::Show;
use super::wait::{Patience, Wait, Waiting, settled};
use crate::shared::*;
use api::identity::SessionView;
use api::invocation::{InvocationView, InvokeResponse, RevertRequest, SettleDoubtRequest, SettlementName};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use countersign_core::Status;

#[derive(Debug, Subcommand)]
pub(crate) enum Invocation {
    /// List invocations, newest first
    #[command(before_help = "Examples:
  countersign invocation list --status pending
  countersign invocation list --action files.write_text --json=id,status,created_at")]
    List(List),
    /// Show one invocation, as `countersign show` does
    #[command(before_help = super::show::EXAMPLES)]
    Show(Show),
    /// Wait for an invocation, and show what it prints meanwhile
    #[command(before_help = "Examples:
  countersign invocation watch inv_…
  countersign invocation watch inv_… --wait 10m --quiet")]
    Watch {
        /// Its id
        invocation: String,
        /// How long to wait, such as 10m; until it has ended when absent
        #[arg(long, value_name = "TIME", value_parser = Patience::parse)]
        wait: Option<Patience>,
        #[command(flatten)]
        lines: Lines,
    },
    /// Revert what an invocation did, as a call of its own
    #[command(before_help = "\
It is decided like any other call: where that needs approval, it waits for one.

Examples:
  countersign invocation list --revertible                   what can be reverted
  countersign invocation revert inv_… --dry-run              what would be reverted
  countersign invocation revert inv_… --reason 'wrong folder'
  countersign invocation revert inv_… --yes --wait 10m")]
    Revert(Revert),
    /// Record how a call in doubt ended, or make it again
    #[command(before_help = "Examples:
  countersign invocation list --status in_doubt
  countersign invocation settle inv_… --as succeeded --reason 'the order is there'
  countersign invocation settle inv_… --as retry --reason 'a second notice does no harm'")]
    Settle {
        /// Its id
        #[arg(value_name = "INVOCATION")]
        doubted: String,
        /// What became of it
        #[arg(long = "as", value_enum, value_name = "HOW")]
        settlement: How,
        /// How you know; kept with it
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Revert {
    /// The invocation to revert, such as `countersign invocation list --revertible` shows
    #[arg(value_name = "INVOCATION")]
    revertible: String,
    /// Why; shown to whoever approves it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    lines: Lines,
    #[command(flatten)]
    agreed: Agreed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum How {
    /// It happened
    Succeeded,
    /// It did not happen
    Failed,
    /// Make the call again: a second effect would do no harm
    Retry,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only those in this status, such as pending, succeeded or in_doubt
    #[arg(long, value_parser = PossibleValuesParser::new(Status::ALL.map(Status::as_str)), hide_possible_values = true)]
    status: Option<String>,
    /// Only those of this action, by its whole id
    #[arg(long, value_name = "ACTION", value_parser = action_id)]
    action: Option<String>,
    /// Only those of this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only those that their callers gave this name, such as `action_id` of an action request
    #[arg(long, value_name = "NAME")]
    action_id: Option<String>,
    /// Only those whose effect is still there and can be reverted
    #[arg(long = "revertible")]
    only_revertible: bool,
    #[command(flatten)]
    paging: Paging,
}

impl Resource for InvocationView {
    const NOUN: &'static str = "invocation";
    const LIST: &'static str = "invocation list";
    const PATH: &'static [&'static str] = &["invocations"];
    const EMPTY: &'static str = "no invocations: countersign action list shows what can be done";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["action", "status"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("status", Column::Whole, |one, _| Some(outcome::status_cell(one))),
        Field::both("action", Column::Below, |one, _| text(&one.action)),
        Field::both("tier", Column::Extra, |one, _| Some(Cell::tier(one.tier))),
        Field::both("who", Column::Extra, |one, view| view.requester(&one.principal, one.session_title.as_deref())),
        Field::both("asked", Column::Whole, |one, view| view.past(one.created_at)),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn next_of(items: &[Self]) -> Option<String> {
        Some(format!("countersign explain {}", items.first()?.id))
    }
}

impl Invocation {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List(list) => {
                let session = maybe_id_of::<SessionView>(list.session.as_deref(), client).await?;
                let asked = Asked::of(&list.paging).only("status", list.status).only("action", list.action).only("session", session);
                let asked = asked.only("action_id", list.action_id);
                let asked = asked.only("revertible", list.only_revertible.then(|| "true".to_owned()));
                let revert = |items: &[InvocationView]| Some(format!("countersign invocation revert {} --dry-run", items.first()?.id));
                resource::list_then(asked, if list.only_revertible { revert } else { InvocationView::next_of }, client, terminal).await?;
                Ok(Exit::Ok)
            }
            Self::Show(show) => show.run(client, terminal).await,
            Self::Watch { invocation, wait, lines } => {
                watch(&invocation, wait.unwrap_or(Patience::UntilDecided), lines, client, terminal).await
            }
            Self::Revert(revert) => revert.run(client, terminal).await,
            Self::Settle { doubted, settlement, reason, agreed } => settle(&doubted, settlement, reason, agreed, client, terminal).await,
        }
    }
}

/// Follows a call that is already running, and shows what invoking it would have shown.
async fn watch(id: &str, patience: Patience, lines: Lines, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let path = ["invocations", id];
    let first = client.get::<InvokeResponse>(&path, &[]).await?;
    let shows_lines = lines.are_followed(terminal);
    settled(first, &Wait { client, path: &path, patience, shows_lines }, terminal).await
}

impl Revert {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        if client.rehearses() {
            return foresight::run(&self.revertible, client, terminal).await;
        }
        let (shown, _) = outcome::get(&self.revertible, client).await?;
        let question = format!("Revert what `{}` did?", clean::line(&shown.action));
        terminal.consent(&question, self.agreed.consent(client)).await?;
        let request = RevertRequest { reason: self.reason };
        let first = client.post::<InvokeResponse>(&["invocations", &self.revertible, "revert"], &request).await?;
        let id = first.read.invocation.id.clone();
        let (patience, shows_lines) = (self.waiting.patience(), self.lines.are_shown(terminal));
        settled(first, &Wait { client, path: &["invocations", &id], patience, shows_lines }, terminal).await
    }
}

async fn settle(id: &str, how: How, reason: String, agreed: Agreed, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let (shown, _) = outcome::get(id, client).await?;
    let action = clean::line(&shown.action);
    let (settlement, question) = match how {
        How::Succeeded => (SettlementName::Succeeded, format!("Record that `{action}` happened?")),
        How::Failed => (SettlementName::Failed, format!("Record that `{action}` did not happen?")),
        How::Retry => (SettlementName::Retry, format!("Make the call of `{action}` again, although it may have happened?")),
    };
    terminal.consent(&question, agreed.consent(client)).await?;
    let request = SettleDoubtRequest { settlement, reason };
    let answer = client.post::<InvokeResponse>(&["invocations", id, "settle"], &request).await?;
    let exit = outcome::tell(&answer, client, terminal)?;
    // The user settled the call as failed. Recording that succeeded, so the exit code is 0.
    Ok(if how == How::Failed { Exit::Ok } else { exit })
}
