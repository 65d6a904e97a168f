//! Waits for an invocation or a batch until it has ended or the user's patience runs out. Meanwhile it shows what the call prints.

use super::changes;
use super::lines;
use super::outcome;
use crate::shared::*;
use api::invocation::{InvocationView, InvokeResponse};
use clap::Args;
use countersign_core::Status;
use jiff::SignedDuration;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

/// How long the server holds one request open.
const POLL_SECONDS: u64 = 30;
/// The shortest time between two requests, in case the server answers at once.
const PAUSE: Duration = Duration::from_millis(250);
/// Failed requests in a row before the wait gives up. A server that restarts is back by then.
const FAILURES_MAX: u32 = 8;

/// How long the user wants to wait for approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    None,
    UntilDecided,
    AtMost(Duration),
}

impl Patience {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == "forever" {
            return Ok(Self::UntilDecided);
        }
        let unclear = || "expected a time such as 30s, 10m or 2h".to_owned();
        let time = text.parse::<SignedDuration>().map_err(|_| unclear())?;
        Duration::try_from(time).map(Self::AtMost).map_err(|_| unclear())
    }

    /// When the patience runs out; `None` if it never does.
    fn until(self) -> Option<Instant> {
        match self {
            Self::None => Some(Instant::now()),
            Self::UntilDecided => None,
            Self::AtMost(time) => Instant::now().checked_add(time),
        }
    }

    /// Asks the server repeatedly, each time with a request that it holds open, until the thing has ended or the patience runs out.
    pub(super) async fn poll<T: Polled>(self, first: Answer<T>, path: &[&str], client: &Client) -> Result<Answer<T>, Failure> {
        let until = self.until();
        let mut last = first;
        while !last.read.is_settled() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            let asked = Instant::now();
            last = client.get(path, &held(left)).await?;
            if asked.elapsed() < PAUSE {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(last)
    }
}

/// Something that can be waited for, because it ends at some time.
pub(super) trait Polled: DeserializeOwned {
    fn is_settled(&self) -> bool;
}

/// The query parameter that says how long the server may hold the request open.
fn held(left: Option<Duration>) -> [(&'static str, String); 1] {
    let held = left.map_or(POLL_SECONDS * 1_000, |left| (left.as_millis() as u64).clamp(1, POLL_SECONDS * 1_000));
    [("wait", format!("{held}ms"))]
}

/// How long whoever asks for something waits for it.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Waiting {
    /// How long to wait for approval, such as 10m; until it is decided when absent
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "forever", value_parser = Patience::parse, conflicts_with = "no_wait")]
    wait: Option<Patience>,
    /// Do not wait: print the id and exit with 6
    #[arg(long)]
    no_wait: bool,
}

impl Waiting {
    pub(super) fn patience(self) -> Patience {
        if self.no_wait { Patience::None } else { self.wait.unwrap_or(Patience::UntilDecided) }
    }
}

/// Waits for the call if it is not settled, and writes its result, or that it is still waiting.
pub(super) async fn settled(first: Answer<InvokeResponse>, asked: &Wait<'_>, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let last = if outcome::is_settled(&first.read.invocation) { first } else { wait(first, asked, terminal).await? };
    if outcome::is_settled(&last.read.invocation) { ended(&last, terminal) } else { still_waiting(&last, asked.client, terminal) }
}

/// Waits until the call is settled or the patience runs out. On an interrupt, says that the call goes on.
async fn wait(first: Answer<InvokeResponse>, wait: &Wait<'_>, terminal: &mut Terminal) -> Result<Answer<InvokeResponse>, Failure> {
    let id = &first.read.invocation.id;
    let goes_on = matches!(outcome::status(&first.read.invocation), Status::Approved | Status::Running);
    let what = if goes_on { "still runs" } else { "still waits for approval" };
    let interrupted = Failure::new(Exit::Interrupted, format!("interrupted; `{id}` {what}")).hint(format!("countersign show {id}"));
    let interrupts = signal(SignalKind::interrupt());
    let mut interrupts = interrupts.map_err(|error| Failure::failed(format!("interrupts cannot be handled: {error}")))?;
    tokio::select! {
        last = wait.run(first, terminal) => last,
        _ = interrupts.recv() => Err(interrupted),
    }
}

/// Waiting for one invocation.
pub(super) struct Wait<'a> {
    pub(super) client: &'a Client,
    /// The path under which the server is asked about the call.
    pub(super) path: &'a [&'a str],
    pub(super) patience: Patience,
    /// Whether the lines that the call prints are shown.
    pub(super) shows_lines: bool,
}

impl Wait<'_> {
    /// Returns the last answer: settled, or still pending when the patience ran out.
    async fn run(&self, first: Answer<InvokeResponse>, terminal: &mut Terminal) -> Result<Answer<InvokeResponse>, Failure> {
        if self.patience == Patience::None {
            return Ok(first);
        }
        let until = self.patience.until();
        let mut last = first;
        let mut failures = 0;
        let mut seen = self.shows_lines.then_some(0);
        tell_waiting(&last.read.invocation, self.client, terminal);
        while !outcome::is_settled(&last.read.invocation) {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            let asked = Instant::now();
            match self.ask(&last.read.invocation, left, &mut seen, terminal).await {
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

    /// Follows the call's output from the line after `seen`, then asks for the state of the call. If following is not possible, it only
    /// asks.
    async fn ask(
        &self,
        invocation: &InvocationView,
        left: Option<Duration>,
        seen: &mut Option<u64>,
        terminal: &mut Terminal,
    ) -> Result<Answer<InvokeResponse>, Failure> {
        if let Some(last) = seen {
            match self.follow(invocation, left, last, terminal).await {
                Ok(()) => return self.client.get(self.path, &[]).await,
                // A caller who may read a call may not always follow it, so following is given up. A server that is unreachable is asked
                // again.
                Err(failure) if failure.exit != Exit::Unreachable => *seen = None,
                Err(_away) => {}
            }
        }
        self.watch(invocation, left, terminal).await
    }

    /// Shows lines until the call ends, the time is up, or the server ends the stream.
    async fn follow(
        &self,
        invocation: &InvocationView,
        left: Option<Duration>,
        seen: &mut u64,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        let mut events = self.client.events(&["invocations", &invocation.id, "progress"], &[("after", seen.to_string())]).await?;
        let time = tokio::time::sleep(left.unwrap_or(Duration::MAX));
        tokio::pin!(time);
        let mut second = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                event = events.next() => match event? {
                    Some(event) if event.name != "end" => *seen = lines::show(&event, terminal).unwrap_or(*seen),
                    Some(_) | None => break,
                },
                _ = second.tick() => count_down(invocation, terminal),
                () = &mut time => break,
            }
        }
        clear(terminal);
        Ok(())
    }

    /// Asks once with a request that the server holds open, and meanwhile keeps the countdown going.
    async fn watch(
        &self,
        invocation: &InvocationView,
        left: Option<Duration>,
        terminal: &mut Terminal,
    ) -> Result<Answer<InvokeResponse>, Failure> {
        let query = held(left);
        let asked = self.client.get::<InvokeResponse>(self.path, &query);
        tokio::pin!(asked);
        let mut second = tokio::time::interval(Duration::from_secs(1));
        let answer = loop {
            tokio::select! {
                answer = &mut asked => break answer,
                _ = second.tick() => count_down(invocation, terminal),
            }
        };
        clear(terminal);
        answer
    }
}

fn count_down(invocation: &InvocationView, terminal: &mut Terminal) {
    if terminal.is_watched() {
        let line = outcome::deadline(invocation, terminal);
        terminal.redraw(&Tone::Muted.paint(line));
    }
}

fn clear(terminal: &mut Terminal) {
    if terminal.is_watched() {
        terminal.redraw("");
    }
}

/// Adds a hint if the server became unreachable during the wait: the invocation still exists and can be shown later.
fn lost(failure: Failure, invocation: &InvocationView) -> Failure {
    if failure.exit == Exit::Unreachable { failure.hint(format!("countersign show {}", invocation.id)) } else { failure }
}

/// Writes the result to stdout, or returns why there is none.
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
    match changes::foreseen(result).filter(|_| invocation.dry_run && terminal.is_for_words()) {
        Some(lines) => lines.into_iter().try_for_each(|line| terminal.line(line))?,
        None => terminal.result(&invocation.id, result)?,
    }
    outcome::tell_redacted(invocation, terminal);
    if answer.read.replayed {
        terminal.note(Tone::Muted.paint("this is the answer of an earlier call with the same key; nothing was done again"));
    }
    terminal.note(outcome::line(invocation));
    Ok(Exit::Ok)
}

/// Writes the id to stdout as data: a caller who does not wait needs it to ask for the call later.
fn still_waiting(answer: &Answer<InvokeResponse>, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let invocation = &answer.read.invocation;
    if terminal.is_document() {
        terminal.document(&answer.raw)?;
        return Ok(Exit::Pending);
    }
    terminal.line(clean::line(&invocation.id))?;
    outcome::tell_redacted(invocation, terminal);
    tell_waiting(invocation, client, terminal);
    Ok(Exit::Pending)
}

/// Says what the call waits for. In a log the deadline is on the same line; on a terminal it has its own short line that can be redrawn.
fn tell_waiting(invocation: &InvocationView, client: &Client, terminal: &mut Terminal) {
    let (line, deadline) = (outcome::waiting(invocation, client), outcome::deadline(invocation, terminal));
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
