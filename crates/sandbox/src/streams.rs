//! What a program is told on stdin, and what it prints: carried without ever waiting, and kept within bounds.

use crate::outcome::Captured;
use crate::run::OnLog;
use crate::spec::Limits;
use crate::text::{self, Lines};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How much of stderr is handed out as it arrives, as a multiple of what is kept.
const STREAMED_FACTOR: usize = 16;

/// Which of the two is the log.
pub(crate) const LOG: usize = 1;

/// What is still to be written to stdin.
pub(crate) struct Feed {
    fd: OwnedFd,
    bytes: Vec<u8>,
    sent: usize,
}

impl Feed {
    pub(crate) fn new(fd: OwnedFd, bytes: Vec<u8>) -> Self {
        Self { fd, bytes, sent: 0 }
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Writes what fits; `true` when there is nothing left to write, or nobody to read it.
    pub(crate) fn is_done(&mut self) -> bool {
        match rustix::io::write(&self.fd, &self.bytes[self.sent..]) {
            Ok(sent) => self.sent += sent,
            Err(Errno::AGAIN | Errno::INTR) => return false,
            // It does not want to read: that is its own affair.
            Err(_) => return true,
        }
        self.sent == self.bytes.len()
    }
}

/// stdout and stderr, each with what is kept of it.
pub(crate) struct Printed {
    fds: [Option<OwnedFd>; 2],
    max: [usize; 2],
    kept: [Vec<u8>; 2],
    truncated: [bool; 2],
    dropped: u64,
    lines: Lines,
    streamed: usize,
    streamed_max: usize,
    on_log: Option<OnLog>,
}

impl Printed {
    /// Of a program that runs to its end: what it prints is kept.
    pub(crate) fn kept(fds: [Option<OwnedFd>; 2], limits: &Limits, on_log: Option<OnLog>) -> Self {
        Self {
            fds,
            max: [limits.result_bytes, limits.log_bytes],
            kept: [vec![], vec![]],
            truncated: [false, false],
            dropped: 0,
            lines: Lines::default(),
            streamed: 0,
            streamed_max: limits.log_bytes.saturating_mul(STREAMED_FACTOR),
            on_log,
        }
    }

    /// Of a resident: each line of its log is handed out, and nothing is kept.
    pub(crate) fn handed_out(log: Option<OwnedFd>, limits: &Limits, on_log: Option<OnLog>) -> Self {
        Self { max: [0, 0], streamed_max: usize::MAX, ..Self::kept([None, log], limits, on_log) }
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        self.fds.iter().enumerate().filter_map(|(which, fd)| Some((which, fd.as_ref()?.as_fd())))
    }

    /// What was printed and not kept, on both together.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes what there is. `false` when there is nothing now, or never again.
    pub(crate) fn read(&mut self, which: usize) -> Result<bool, Errno> {
        let Some(fd) = &self.fds[which] else { return Ok(false) };
        let mut buffer = [0; 64 << 10];
        let read = match rustix::io::read(fd, &mut buffer) {
            Ok(0) => {
                self.fds[which] = None;
                return Ok(false);
            }
            Ok(read) => read,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(error) => return Err(error),
        };
        let bytes = &buffer[..read];
        let room = self.max[which].saturating_sub(self.kept[which].len()).min(read);
        self.kept[which].extend_from_slice(&bytes[..room]);
        self.truncated[which] |= room < read;
        self.dropped = self.dropped.saturating_add((read - room) as u64);
        if which == LOG && self.streamed < self.streamed_max {
            self.streamed = self.streamed.saturating_add(read);
            if let Some(on_log) = &mut self.on_log {
                self.lines.push(bytes, on_log);
            }
        }
        Ok(true)
    }

    /// The result and the log, when nobody prints any more.
    pub(crate) fn end(mut self) -> (Captured<Vec<u8>>, Captured<String>) {
        if let Some(on_log) = &mut self.on_log {
            self.lines.end(on_log);
        }
        let [result, log] = self.kept;
        let [result_truncated, log_truncated] = self.truncated;
        let log = Captured { kept: text::neutralise(&log), truncated: log_truncated };
        (Captured { kept: result, truncated: result_truncated }, log)
    }
}
