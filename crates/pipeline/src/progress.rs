//! Following a running call: its lines as they are printed, each redacted when it is sent, and then its end.

use crate::error::Error;
use crate::pipeline::Pipeline;
use crate::walk::progress_log::{Board, Kept, Place};
use countersign_core::{Invocation, InvocationId, OrgId, Status};
use serde_json::Value;
use std::sync::Arc;

/// Replaces a line that must not be shown.
const WITHHELD: &str = "[withheld]";

/// Progress of a running call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgressEvent {
    /// Numbered from 1.
    Line { seq: u64, text: String },
    /// So many lines were dropped before they could be read.
    Missed { count: u64 },
}

/// The next thing for a follower of an invocation.
#[derive(Clone, Debug)]
pub enum Next {
    Progress(ProgressEvent),
    /// There was no news for a while; the call is still running.
    Silence,
    Ended(Box<Invocation>),
    /// The server is stopping, and no follower is kept waiting.
    Closing,
}

/// Follows one invocation. Dropping it leaves nothing behind.
pub struct Follower {
    pipeline: Pipeline,
    board: Arc<Board>,
    seen: u64,
}

impl Pipeline {
    /// Follows an invocation from the line after `after`. The door must have checked that the caller may read it.
    pub fn follow(&self, invocation: &Invocation, after: u64) -> Follower {
        let board = self.walk.inner.progress.open(&invocation.id);
        board.state.lock().place = Some(Place::from(invocation));
        Follower::new(self, board, after)
    }

    /// Follows an invocation that has not begun yet.
    pub(crate) fn follow_from_first(&self, invocation: &InvocationId) -> Follower {
        Follower::new(self, self.walk.inner.progress.open(invocation), 0)
    }

    /// A line, redacted as an answer would be: without what the space redacts and without secrets, or withheld.
    async fn handed_on(&self, place: &Place, invocation: &InvocationId, line: String) -> String {
        let line = Value::String(line);
        let findings = policy::scan_output(&line);
        if !findings.is_empty() {
            self.walk.label_untrusted(&place.org, &place.session, invocation).await;
        }
        let mut caught = crate::walk::gate::caught(&findings);
        let (line, unreadable) = self.walk.take_out_of_answer(&place.org, &place.space, &line).await;
        caught.extend(unreadable);
        match policy::redact(&line).value.as_str() {
            Some(text) if caught.is_empty() => harmless(text),
            Some(_) | None => WITHHELD.to_owned(),
        }
    }
}

impl Follower {
    fn new(pipeline: &Pipeline, board: Arc<Board>, seen: u64) -> Self {
        metrics::gauge!("countersign_progress_followers").increment(1.0);
        Self { pipeline: pipeline.clone(), board, seen }
    }

    /// Follows this invocation from now on, if that is another one.
    pub(crate) fn turn_to(&mut self, invocation: &Invocation) {
        if self.board.invocation != invocation.id {
            *self = self.pipeline.follow(invocation, 0);
        }
    }

    /// The next line, if there is one already. If this future is dropped early, the same line comes next time.
    pub async fn kept(&mut self) -> Option<ProgressEvent> {
        let (place, decided_under) = {
            let state = self.board.state.lock();
            (state.place.clone()?, state.decided_under)
        };
        if let Some(version) = decided_under
            && self.pipeline.ledger().rules_version(&place.org).await.ok() != Some(version)
        {
            // The rules have changed, so the call will be decided again. Until then none of its lines is shown.
            return None;
        }
        match self.board.after(self.seen)? {
            Kept::Missed { count, upto } => {
                self.seen = upto;
                Some(ProgressEvent::Missed { count })
            }
            Kept::Line { seq, text } => {
                let text = self.pipeline.handed_on(&place, &self.board.invocation, text).await;
                self.seen = seq;
                Some(ProgressEvent::Line { seq, text })
            }
        }
    }

    /// Waits for the next line.
    pub async fn event(&mut self) -> ProgressEvent {
        let board = Arc::clone(&self.board);
        loop {
            let mut changed = std::pin::pin!(board.changed.notified());
            changed.as_mut().enable();
            if let Some(told) = self.kept().await {
                return told;
            }
            changed.await;
        }
    }

    /// The next thing of an invocation that has a row: its lines, then its end, on whichever server it runs.
    pub async fn next(&mut self) -> Result<Next, Error> {
        let (pipeline, board) = (self.pipeline.clone(), Arc::clone(&self.board));
        let org = self.org()?;
        let (waiter, mut relayed) = (pipeline.walk.waiter(board.invocation.as_str()), None);
        loop {
            // Listening begins before the read, so a change between the two still wakes us.
            let mut told = std::pin::pin!(board.changed.notified());
            told.as_mut().enable();
            let mut moved = std::pin::pin!(waiter.changed());
            moved.as_mut().enable();
            if let Some(told) = self.kept().await {
                return Ok(Next::Progress(told));
            }
            // While this process walks the call, the walk announces its end.
            let is_walked = board.state.lock().walks > 0;
            if !is_walked && let Some(over) = self.over().await? {
                // A last line may have been printed since it was checked.
                return Ok(self.kept().await.map_or_else(|| Next::Ended(Box::new(over)), Next::Progress));
            }
            relayed = relayed.or_else(|| pipeline.walk.relayed(&org));
            tokio::select! {
                () = told => {}
                () = moved => {}
                () = tokio::time::sleep(pipeline.silence()) => return Ok(Next::Silence),
                () = pipeline.walk.inner.closing.cancelled() => return Ok(Next::Closing),
            }
        }
    }

    fn org(&self) -> Result<OrgId, Error> {
        self.board.state.lock().place.as_ref().map(|place| place.org.clone()).ok_or_else(|| self.unknown())
    }

    fn unknown(&self) -> Error {
        Error::UnknownInvocation { invocation: self.board.invocation.to_string() }
    }

    /// The invocation, if it has ended or is in doubt.
    async fn over(&self) -> Result<Option<Invocation>, Error> {
        let row = self.pipeline.ledger().find_invocation(&self.org()?, &self.board.invocation).await?.ok_or_else(|| self.unknown())?;
        Ok(Some(row).filter(|row| row.status.is_final() || row.status == Status::InDoubt))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        metrics::gauge!("countersign_progress_followers").decrement(1.0);
    }
}

/// Escapes characters that control a terminal, or that hide or reorder the text beside them.
fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character != '\t' && is_steering(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

fn is_steering(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn a_line_steers_no_terminal() {
        for (told, shown) in [
            ("50 %\tdone", "50 %\tdone"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("50 %\r100 %", "50 %\\u{d}100 %"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}txt.exe", "\\u{202e}txt.exe"),
            ("grün", "grün"),
        ] {
            assert_eq!(harmless(told), shown);
        }
    }
}
