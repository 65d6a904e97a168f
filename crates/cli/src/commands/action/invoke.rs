//! Asking for an action: sends it, waits for the person where one is needed, and writes the result to stdout.

use super::meant;
use super::{params, session};
use crate::client::{Answer, Client};
use crate::commands::outcome;
use crate::exit::{Exit, Failure};
use crate::output::Terminal;
use crate::style::Tone;
use api::invocation::{InvocationView, InvokeRequest, InvokeResponse, ScopeView, VerificationView};
use clap::Args;
use jiff::SignedDuration;
use serde_json::Value;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign action invoke files.read_text path=notes/today.md
  countersign action invoke files.write_text path=a.txt text=hello --reason 'a first try'
  countersign action invoke files.write_text path=a.js text='let a = 1;' --verify-with 'node --check a.js'
  countersign action invoke http.request --params @call.json --idempotency-key order-812 --wait 10m
  countersign action invoke files.list recursive:=true --json";

/// How long one question is held open by the server.
const POLL_SECONDS: u64 = 30;
/// A wait that comes back at once is not repeated at once.
const PAUSE: Duration = Duration::from_millis(250);
/// Questions in a row that may fail before we stop asking: a server that restarts is back by then.
const FAILURES_MAX: u32 = 8;

#[derive(Debug, Args)]
pub(crate) struct Invoke {
    /// The action, such as files.write_text
    id: String,
    /// Params: key=value is a string, key:=json is typed
    #[arg(value_name = "KEY=VALUE")]
    words: Vec<String>,
    /// Params as a JSON object; @file reads a file, - reads stdin
    #[arg(long, value_name = "JSON")]
    params: Option<String>,
    /// The session it is asked in; else the agent's own, else your session `cli`
    #[arg(long, value_name = "ID", env = "COUNTERSIGN_SESSION", hide_env_values = true)]
    session: Option<String>,
    /// The same key with the same params has one effect; `auto` derives it
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Why, in your words; shown to whoever approves
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Act on this file or folder at most; may be given again
    #[arg(long, value_name = "PATH")]
    within: Vec<String>,
    /// Whatever else is said, not on this file or folder; may be given again
    #[arg(long, value_name = "PATH")]
    except: Vec<String>,
    /// Run this command after the effect; what it fails is made again once, or taken back. May be given again
    #[arg(long, value_name = "COMMAND")]
    verify_with: Vec<String>,
    /// How long to wait for a person, such as 10m; until it is decided when absent
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "forever", value_parser = Patience::parse, conflicts_with = "no_wait")]
    wait: Option<Patience>,
    /// Do not wait: print the invocation's id and exit with 6
    #[arg(long)]
    no_wait: bool,
}

/// How long somebody waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    None,
    UntilDecided,
    AtMost(Duration),
}

impl Patience {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "forever" {
            return Ok(Self::UntilDecided);
        }
        let unclear = || "expected a time such as 30s, 10m or 2h".to_owned();
        let time = text.parse::<SignedDuration>().map_err(|_| unclear())?;
        Duration::try_from(time).map(Self::AtMost).map_err(|_| unclear())
    }
}

impl Invoke {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let patience = if self.no_wait { Patience::None } else { self.wait.unwrap_or(Patience::UntilDecided) };
        let params = params::read(self.params.as_deref(), &self.words).await?;
        let session = session::choose(self.session.as_deref(), client).await?;
        let request = InvokeRequest {
            action: self.id,
            params,
            idempotency_key: self.idempotency_key,
            approval_ref: None,
            dry_run: client.rehearses(),
            reason: self.reason,
            context: None,
            provenance: std::collections::BTreeMap::new(),
            scope: scope(self.within, self.except),
            verification: Some(self.verify_with).filter(|commands| !commands.is_empty()).map(|commands| VerificationView { commands }),
        };
        let path = ["sessions", &session, "actions", "invoke"];
        // Rehearsed by the server, which knows what would change.
        let first = match client.post_always::<InvokeResponse>(&path, &request).await {
            Ok(first) => first,
            Err(failure) => return Err(meant::with_guess(failure, &request.action, client).await),
        };
        if outcome::is_settled(&first.read.invocation) {
            return ended(&first, terminal);
        }
        let last = wait(first, &Wait { client, session: &session, patience }, terminal).await?;
        if outcome::is_settled(&last.read.invocation) { ended(&last, terminal) } else { still_waiting(&last, terminal) }
    }
}

/// Nothing said is no bound of ours.
fn scope(within: Vec<String>, except: Vec<String>) -> Option<ScopeView> {
    let scope = ScopeView { allowed_files: Vec::new(), allowed_dirs: within, forbidden_files: except };
    (scope != ScopeView::default()).then_some(scope)
}

/// Waits until it is settled or patience runs out. An interrupt says what still waits.
async fn wait(first: Answer<InvokeResponse>, wait: &Wait<'_>, terminal: &mut Terminal) -> Result<Answer<InvokeResponse>, Failure> {
    let interrupted = Failure::new(Exit::Interrupted, format!("interrupted; `{}` still waits for a person", first.read.invocation.id))
        .hint(format!("countersign show {}", first.read.invocation.id));
    let interrupts = signal(SignalKind::interrupt());
    let mut interrupts = interrupts.map_err(|error| Failure::failed(format!("interrupts cannot be heard: {error}")))?;
    tokio::select! {
        last = wait.run(first, terminal) => last,
        _ = interrupts.recv() => Err(interrupted),
    }
}

/// Waiting for one invocation.
struct Wait<'a> {
    client: &'a Client,
    session: &'a str,
    patience: Patience,
}

impl Wait<'_> {
    /// The last answer: settled, or still pending when patience ran out.
    async fn run(&self, first: Answer<InvokeResponse>, terminal: &mut Terminal) -> Result<Answer<InvokeResponse>, Failure> {
        let until = match self.patience {
            Patience::None => return Ok(first),
            Patience::UntilDecided => None,
            Patience::AtMost(time) => Instant::now().checked_add(time),
        };
        let mut last = first;
        let mut failures = 0;
        tell_waiting(&last.read.invocation, terminal);
        while !outcome::is_settled(&last.read.invocation) {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            let asked = Instant::now();
            match self.watch(&last.read.invocation, left, terminal).await {
                Ok(answer) => {
                    failures = 0;
                    last = answer;
                }
                Err(failure) if failure.exit == Exit::Unreachable && failures < FAILURES_MAX => {
                    failures += 1;
                    tokio::time::sleep(PAUSE * 2_u32.pow(failures.min(4))).await;
                }
                Err(failure) => return Err(lost(failure, &last.read.invocation)),
            }
            if asked.elapsed() < PAUSE {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(last)
    }

    /// Asks once, held open by the server, and keeps the countdown going meanwhile.
    async fn watch(
        &self,
        invocation: &InvocationView,
        left: Option<Duration>,
        terminal: &mut Terminal,
    ) -> Result<Answer<InvokeResponse>, Failure> {
        let held = left.map_or(POLL_SECONDS * 1_000, |left| (left.as_millis() as u64).clamp(1, POLL_SECONDS * 1_000));
        let path = ["sessions", self.session, "actions", "invocations", &invocation.id];
        let query = [("wait", format!("{held}ms"))];
        let asked = self.client.get::<InvokeResponse>(&path, &query);
        tokio::pin!(asked);
        let mut second = tokio::time::interval(Duration::from_secs(1));
        let answer = loop {
            tokio::select! {
                answer = &mut asked => break answer,
                _ = second.tick() => if terminal.is_watched() {
                    let line = outcome::deadline(invocation, terminal);
                    terminal.redraw(&Tone::Muted.paint(line));
                },
            }
        };
        if terminal.is_watched() {
            terminal.redraw("");
        }
        answer
    }
}

/// A server that went away while we waited: the invocation is still there to be asked for.
fn lost(failure: Failure, invocation: &InvocationView) -> Failure {
    if failure.exit == Exit::Unreachable { failure.hint(format!("countersign show {}", invocation.id)) } else { failure }
}

fn ended(answer: &Answer<InvokeResponse>, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let invocation = &answer.read.invocation;
    if let Some(failure) = outcome::failure(invocation) {
        return Err(failure);
    }
    if terminal.is_document() {
        terminal.document(&answer.raw)?;
        return Ok(Exit::Ok);
    }
    let result = answer.read.result.as_ref().or(invocation.result.as_ref()).unwrap_or(&Value::Null);
    terminal.result(&invocation.id, result)?;
    if invocation.dry_run {
        terminal.note(Tone::Muted.paint("dry run: nothing was changed"));
    }
    if answer.read.replayed {
        terminal.note(Tone::Muted.paint("an earlier call under the same key answers; nothing was done again"));
    }
    terminal.note(outcome::line(invocation));
    Ok(Exit::Ok)
}

/// The id is the data: whoever does not wait will want to ask for it again.
fn still_waiting(answer: &Answer<InvokeResponse>, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let invocation = &answer.read.invocation;
    if terminal.is_document() {
        terminal.document(&answer.raw)?;
        return Ok(Exit::Pending);
    }
    terminal.line(crate::style::clean::line(&invocation.id))?;
    tell_waiting(invocation, terminal);
    Ok(Exit::Pending)
}

/// On one line for logs; on a terminal the deadline has a line of its own, short enough to be redrawn.
fn tell_waiting(invocation: &InvocationView, terminal: &mut Terminal) {
    let (line, deadline) = (outcome::waiting(invocation), outcome::deadline(invocation, terminal));
    match (terminal.is_document(), terminal.is_watched() || deadline.is_empty()) {
        (true, _) => {}
        (false, true) => terminal.note(line),
        (false, false) => terminal.note(format!("{line}, {deadline}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_a_time_or_until_it_is_decided() {
        for (text, expected) in [
            ("forever", Some(Patience::UntilDecided)),
            ("30s", Some(Patience::AtMost(Duration::from_secs(30)))),
            ("10m", Some(Patience::AtMost(Duration::from_secs(600)))),
            ("1h30m", Some(Patience::AtMost(Duration::from_secs(5_400)))),
            ("0s", Some(Patience::AtMost(Duration::ZERO))),
            ("-5s", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(Patience::parse(text).ok(), expected, "{text}");
        }
    }
}
