//! The lines that a running call prints, for clients that follow the call. They are kept in memory, within limits, for as long as the call
//! is being walked or followed. They are neither stored nor signed.

use crate::limits::{PROGRESS_BYTES_MAX, PROGRESS_LINE_BYTES_MAX, PROGRESS_LINES_MAX};
use countersign_core::effect::Progress;
use countersign_core::{Invocation, InvocationId, OrgId, Session, SessionId, SpaceId};
use parking_lot::Mutex;
use policy::redact::MARK;
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// Shown instead of a line that is a single word longer than the limit.
const TOO_LONG: &str = "[too long to show]";

/// The boards of this process. A board lives as long as somebody holds it.
#[derive(Clone, Default)]
pub(crate) struct ProgressLog {
    boards: Arc<Mutex<HashMap<InvocationId, Weak<Board>>>>,
}

/// The progress lines of one invocation.
pub(crate) struct Board {
    all: ProgressLog,
    pub(crate) invocation: InvocationId,
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Notify,
}

#[derive(Default)]
pub(crate) struct State {
    lines: VecDeque<String>,
    bytes: usize,
    /// How many lines were ever printed; the last line has this number.
    told: u64,
    pub(crate) place: Option<Place>,
    /// The version of the rules that the call was decided under. Cleared once the intent was written, which compares the version.
    pub(crate) decided_under: Option<i64>,
    /// Whether the last line was inside a private key: its lines do not look like secrets one by one.
    in_key: bool,
    pub(crate) walks: usize,
}

/// Where the call runs. This decides what is redacted from its lines.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) org: OrgId,
    pub(crate) space: SpaceId,
    pub(crate) session: SessionId,
}

impl From<&Session> for Place {
    fn from(session: &Session) -> Self {
        Self { org: session.org.clone(), space: session.space.clone(), session: session.id.clone() }
    }
}

impl From<&Invocation> for Place {
    fn from(invocation: &Invocation) -> Self {
        Self { org: invocation.org.clone(), space: invocation.space.clone(), session: invocation.session.clone() }
    }
}

/// Held by a walk that may print lines; dropped when the walk has ended.
pub(crate) struct Telling {
    board: Arc<Board>,
}

impl ProgressLog {
    pub(crate) fn open(&self, invocation: &InvocationId) -> Arc<Board> {
        let mut boards = self.boards.lock();
        if let Some(open) = boards.get(invocation).and_then(Weak::upgrade) {
            return open;
        }
        let new = Arc::new(Board { all: self.clone(), invocation: invocation.clone(), state: Mutex::default(), changed: Notify::new() });
        boards.insert(invocation.clone(), Arc::downgrade(&new));
        new
    }

    /// Call this when a walk begins, and hold the value until everything about the walk is recorded.
    pub(crate) fn telling(&self, invocation: &InvocationId, place: Place) -> Telling {
        let board = self.open(invocation);
        let mut state = board.state.lock();
        state.place = Some(place);
        state.walks += 1;
        drop(state);
        Telling { board }
    }

    /// The call was decided under these rules and starts. The lines of an earlier try are dropped and no longer shown.
    pub(crate) fn decided(&self, invocation: &InvocationId, rules_version: i64) {
        self.change(invocation, |state| {
            state.lines.clear();
            (state.bytes, state.in_key, state.decided_under) = (0, false, Some(rules_version));
        });
    }

    /// The intent of the call is written, so the rules it was decided under were still in force.
    pub(crate) fn intended(&self, invocation: &InvocationId) {
        self.change(invocation, |state| state.decided_under = None);
    }

    /// The handle through which a source reports progress. It does not keep the board alive.
    pub(crate) fn teller(&self, invocation: &InvocationId) -> Option<Progress> {
        let board = self.boards.lock().get(invocation)?.clone();
        Some(Progress::new(move |text| {
            if let Some(board) = board.upgrade() {
                board.tell(text);
            }
        }))
    }

    fn change(&self, invocation: &InvocationId, change: impl FnOnce(&mut State)) {
        let board = self.boards.lock().get(invocation).and_then(Weak::upgrade);
        if let Some(board) = board {
            change(&mut board.state.lock());
            board.changed.notify_waiters();
        }
    }
}

/// The next thing for a reader who has seen some lines.
pub(crate) enum Kept {
    Line {
        seq: u64,
        text: String,
    },
    /// `count` lines were dropped before they were read; the last of them has the number `upto`.
    Missed {
        count: u64,
        upto: u64,
    },
}

impl Board {
    /// Never blocks: a slow reader misses lines.
    fn tell(&self, text: &str) {
        let mut state = self.state.lock();
        text.lines().for_each(|line| state.keep(line));
        drop(state);
        self.changed.notify_waiters();
    }

    pub(crate) fn after(&self, seen: u64) -> Option<Kept> {
        let state = self.state.lock();
        let gone = state.told - state.lines.len() as u64;
        if seen < gone {
            return Some(Kept::Missed { count: gone - seen, upto: gone });
        }
        let line = state.lines.get(usize::try_from(seen - gone).ok()?)?;
        Some(Kept::Line { seq: seen + 1, text: line.clone() })
    }
}

impl State {
    fn keep(&mut self, line: &str) {
        let line = cut(self.without_key(line)).into_owned();
        self.bytes += line.len();
        self.lines.push_back(line);
        self.told += 1;
        while self.lines.len() > PROGRESS_LINES_MAX || self.bytes > PROGRESS_BYTES_MAX {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }

    fn without_key<'l>(&mut self, line: &'l str) -> &'l str {
        let begins = line.contains("-----BEGIN") && line.contains("PRIVATE KEY");
        let is_in_key = self.in_key || begins;
        self.in_key = is_in_key && !line.contains("-----END");
        if is_in_key { MARK } else { line }
    }
}

/// Cuts a long line between two words: half a secret would no longer be recognised as a secret.
fn cut(line: &str) -> Cow<'_, str> {
    if line.len() <= PROGRESS_LINE_BYTES_MAX {
        return Cow::Borrowed(line);
    }
    let fits = |(at, character): (usize, char)| (at < PROGRESS_LINE_BYTES_MAX && character.is_whitespace()).then_some(at);
    let last = line.char_indices().rev().find_map(fits).filter(|at| *at > 0);
    last.map_or(Cow::Borrowed(TOO_LONG), |at| Cow::Owned(format!("{}…", &line[..at])))
}

impl Drop for Board {
    fn drop(&mut self) {
        let mut boards = self.all.boards.lock();
        // A new board may have been opened since the last holder of this one dropped it.
        if boards.get(&self.invocation).is_some_and(|board| board.strong_count() == 0) {
            boards.remove(&self.invocation);
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.board.state.lock().walks -= 1;
        self.board.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::Timestamp;

    fn invocation() -> InvocationId {
        InvocationId::new(Timestamp::from_micros(7), [7; 10])
    }

    fn place() -> Place {
        let at = Timestamp::from_micros(7);
        Place { org: OrgId::new(at, [1; 10]), space: SpaceId::new(at, [2; 10]), session: SessionId::new(at, [3; 10]) }
    }

    /// Everything that a reader who has seen `seen` lines gets.
    fn read(board: &Board, mut seen: u64) -> Vec<String> {
        let mut read = Vec::new();
        while let Some(kept) = board.after(seen) {
            match kept {
                Kept::Line { seq, text } => {
                    seen = seq;
                    read.push(format!("{seq} {text}"));
                }
                Kept::Missed { count, upto } => {
                    seen = upto;
                    read.push(format!("missed {count}"));
                }
            }
        }
        read
    }

    #[test]
    fn who_reads_too_slowly_is_told_how_much_was_missed() {
        let boards = ProgressLog::default();
        let telling = boards.telling(&invocation(), place());
        let teller = boards.teller(&invocation()).unwrap();
        teller.tell("first\nsecond");
        assert_eq!(read(&telling.board, 0), ["1 first", "2 second"]);
        (0..PROGRESS_LINES_MAX).for_each(|number| teller.tell(&format!("line {number}")));
        // A reader who has seen the first line missed only the second.
        let late = read(&telling.board, 1);
        assert_eq!((late.len(), late[0].as_str(), late[1].as_str()), (PROGRESS_LINES_MAX + 1, "missed 1", "3 line 0"));
        assert_eq!(read(&telling.board, 0)[0], "missed 2");
        assert_eq!(read(&telling.board, u64::MAX), [] as [&str; 0]);
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes_too() {
        let boards = ProgressLog::default();
        let telling = boards.telling(&invocation(), place());
        let line = "x".repeat(PROGRESS_LINE_BYTES_MAX);
        (0..100).for_each(|_| telling.board.tell(&line));
        let state = telling.board.state.lock();
        assert_eq!((state.bytes, state.lines.len()), (PROGRESS_BYTES_MAX, PROGRESS_BYTES_MAX / PROGRESS_LINE_BYTES_MAX));
    }

    #[test]
    fn a_long_line_is_cut_between_two_words() {
        let words = "word ".repeat(1_000);
        let shown = cut(&words);
        assert!(shown.len() <= PROGRESS_LINE_BYTES_MAX + '…'.len_utf8() && shown.ends_with("word…"), "{shown}");
        assert_eq!(cut(&"ä".repeat(PROGRESS_LINE_BYTES_MAX)), TOO_LONG);
        assert_eq!(cut(&format!(" {}", "x".repeat(PROGRESS_LINE_BYTES_MAX))), TOO_LONG);
    }

    #[test]
    fn no_line_of_a_private_key_is_kept() {
        let boards = ProgressLog::default();
        let telling = boards.telling(&invocation(), place());
        telling.board.tell("before\n-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA");
        telling.board.tell("q83vEjRWeJCrze8S\n-----END RSA PRIVATE KEY-----\nafter");
        let expected = [
            "1 before".to_owned(),
            format!("2 {MARK}"),
            format!("3 {MARK}"),
            format!("4 {MARK}"),
            format!("5 {MARK}"),
            "6 after".to_owned(),
        ];
        assert_eq!(read(&telling.board, 0), expected);
    }

    #[test]
    fn a_try_that_is_decided_again_leaves_nothing_to_read() {
        let boards = ProgressLog::default();
        let telling = boards.telling(&invocation(), place());
        boards.decided(&invocation(), 1);
        telling.board.tell("of the first try");
        boards.decided(&invocation(), 2);
        telling.board.tell("of the second");
        assert_eq!(read(&telling.board, 0), ["missed 1", "2 of the second"]);
    }

    #[test]
    fn a_board_is_gone_with_its_last_holder_whoever_that_is() {
        let boards = ProgressLog::default();
        let telling = boards.telling(&invocation(), place());
        let follower = boards.open(&invocation());
        let teller = boards.teller(&invocation()).unwrap();
        drop(telling);
        assert_eq!((boards.boards.lock().len(), follower.state.lock().walks), (1, 0));
        drop(follower);
        assert_eq!(boards.boards.lock().len(), 0);
        // Lines from a program that outlives its walk are dropped.
        teller.tell("too late");
        assert!(boards.teller(&invocation()).is_none() && boards.boards.lock().is_empty());
    }
}
