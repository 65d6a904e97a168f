//! The program's stdin, stdout and stderr: carried without blocking, and kept within limits.

use crate::outcome::Captured;
use crate::spec::Limits;
use crate::text::{self, Lines};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How much of stderr is passed to `on_log` as it arrives, as a multiple of what is kept.
const STREAMED_FACTOR: usize = 16;

/// Called with each line of stderr as it arrives.
pub type OnLog = Box<dyn FnMut(&str) + Send>;

/// The index of stderr, the log; stdout has index 0.
pub(crate) const LOG: usize = 1;

/// The bytes that are still to be written to stdin.
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

    /// Writes as much as fits. Returns `true` when everything is written, or when the program no longer reads.
    pub(crate) fn is_done(&mut self) -> bool {
        match rustix::io::write(&self.fd, &self.bytes[self.sent..]) {
            Ok(sent) => self.sent += sent,
            Err(Errno::AGAIN | Errno::INTR) => return false,
            // The program has closed its stdin, which it may do.
            Err(_) => return true,
        }
        self.sent == self.bytes.len()
    }
}

/// stdout and stderr, with the part of each that is kept.
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
    /// For a program that runs to its end: its output is kept.
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

    /// For a resident: each line of its log is passed to `on_log`, and nothing is kept.
    pub(crate) fn handed_out(log: Option<OwnedFd>, limits: &Limits, on_log: Option<OnLog>) -> Self {
        Self { max: [0, 0], streamed_max: usize::MAX, ..Self::kept([None, log], limits, on_log) }
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        self.fds.iter().enumerate().filter_map(|(which, fd)| Some((which, fd.as_ref()?.as_fd())))
    }

    /// The number of bytes that were printed but not kept, on both streams together.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Reads what is available. Returns `false` when there is nothing to read, now or for good.
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

    /// The result and the log, once the program prints no more.
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
