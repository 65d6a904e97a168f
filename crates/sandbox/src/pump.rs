//! Watches a run: carries its streams, keeps its bounds, and does not leave before everything in the jail is dead.

use crate::error::{Error, Step};
use crate::outcome::{Captured, Ended};
use crate::resident;
use crate::run::OnLog;
use crate::spec::Limits;
use crate::sys::{self, Usage};
use crate::text::{self, Lines};
use crate::word::{self, Heard, Word};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, pidfd_send_signal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How often memory is looked at where no cgroup bounds it.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the dead may take to go before their last handle is pulled too, and how long before we give up on them.
const DYING: Duration = Duration::from_secs(5);
const DYING_MAX: Duration = Duration::from_secs(20);
/// How much of stderr is handed out as it arrives, as a multiple of what is kept.
const STREAMED_FACTOR: usize = 16;

/// A jail that was just started, and our ends of what it holds.
pub(crate) struct Running {
    pub(crate) pid: Pid,
    pub(crate) handle: OwnedFd,
    pub(crate) control: OwnedFd,
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) started: Instant,
}

impl Running {
    /// Ends what was started, because of `error`.
    pub(crate) fn abandon(self, error: Error) -> Error {
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        let _ = sys::reap(self.pid);
        error
    }
}

pub(crate) struct Watch<'a> {
    pub(crate) limits: Limits,
    pub(crate) deadline: Instant,
    pub(crate) look_at_memory: bool,
    pub(crate) stdin: Vec<u8>,
    pub(crate) cancel: Option<BorrowedFd<'a>>,
    pub(crate) out_of_memory: Option<OwnedFd>,
    pub(crate) on_log: Option<OnLog>,
}

/// What there is to say about a run when everything in it is dead.
#[derive(Default)]
pub(crate) struct Finished {
    pub(crate) said: Option<Ended>,
    pub(crate) stopped: Option<Ended>,
    pub(crate) failed: Option<(Step, String)>,
    /// The stage's root, and whether there was a `/proc`.
    pub(crate) stage: Option<(OwnedFd, bool)>,
    pub(crate) usage: Usage,
    pub(crate) result: Captured<Vec<u8>>,
    pub(crate) log: Captured<String>,
}

pub(crate) fn run(running: Running, watch: Watch<'_>) -> Result<Finished, Error> {
    let streams = [&running.stdin, &running.stdout, &running.stderr];
    let ready = streams.into_iter().try_for_each(|fd| rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK));
    if let Err(error) = ready {
        let error = Error::Host { what: "watch the program", why: error.to_string(), started: true };
        return Err(running.abandon(error));
    }
    let limits = watch.limits;
    let pump = Pump {
        first: Some(running.handle),
        init: None,
        control: Some(running.control),
        stdin: Some(Feed { fd: running.stdin, bytes: watch.stdin, sent: 0 }),
        stdout: Some(Stream::new(running.stdout, limits.result_bytes)),
        stderr: Some(Stream::new(running.stderr, limits.log_bytes)),
        kept: [vec![], vec![]],
        truncated: [false, false],
        dropped: 0,
        lines: Lines::default(),
        streamed: 0,
        on_log: watch.on_log,
        cancel: watch.cancel,
        out_of_memory: watch.out_of_memory,
        stopped_at: None,
        look_at: watch.look_at_memory.then_some(running.started),
        pid: running.pid,
        deadline: watch.deadline,
        limits,
        finished: Finished::default(),
    };
    pump.run()
}

struct Feed {
    fd: OwnedFd,
    bytes: Vec<u8>,
    sent: usize,
}

struct Stream {
    fd: OwnedFd,
    max: usize,
}

impl Stream {
    fn new(fd: OwnedFd, max: usize) -> Self {
        Self { fd, max }
    }
}

/// What can happen next.
#[derive(Clone, Copy, PartialEq)]
enum Event {
    First,
    Init,
    Control,
    Stdin,
    Output(usize),
    Cancel,
    OutOfMemory,
}

struct Pump<'a> {
    /// The process we spawned; gone once it is reaped.
    first: Option<OwnedFd>,
    /// Process 1 of the jail, once it has said so.
    init: Option<OwnedFd>,
    control: Option<OwnedFd>,
    stdin: Option<Feed>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    kept: [Vec<u8>; 2],
    truncated: [bool; 2],
    dropped: u64,
    lines: Lines,
    streamed: usize,
    on_log: Option<OnLog>,
    cancel: Option<BorrowedFd<'a>>,
    out_of_memory: Option<OwnedFd>,
    stopped_at: Option<Instant>,
    look_at: Option<Instant>,
    pid: Pid,
    deadline: Instant,
    limits: Limits,
    finished: Finished,
}

impl Pump<'_> {
    fn run(mut self) -> Result<Finished, Error> {
        // Everything is dead when the process we started is, and process 1 with its whole namespace; before there was one, when
        // nobody holds the control socket any more.
        while self.first.is_some() || self.init.is_some() || self.control.is_some() {
            let now = Instant::now();
            self.keep_bounds(now)?;
            for event in self.wait(now)? {
                self.handle(event)?;
            }
        }
        // Nobody writes any more: what is in the pipes is all there will be.
        for which in [0, 1] {
            while self.read(which)? {}
        }
        if let Some(on_log) = &mut self.on_log {
            self.lines.end(on_log);
        }
        let [result, log] = std::mem::take(&mut self.kept);
        self.finished.result = Captured { kept: result, truncated: self.truncated[0] };
        self.finished.log = Captured { kept: text::neutralise(&log), truncated: self.truncated[1] };
        Ok(self.finished)
    }

    fn keep_bounds(&mut self, now: Instant) -> Result<(), Error> {
        if now >= self.deadline {
            self.stop(Ended::TimedOut);
        }
        if self.look_at.is_some_and(|at| now >= at) {
            self.look_at = Some(now + LOOK_EVERY);
            if self.first.is_some() && resident::bytes_below(self.pid.as_raw_nonzero().get().unsigned_abs()) > self.limits.memory_bytes {
                self.stop(Ended::OutOfMemory);
            }
        }
        if let Some(at) = self.stopped_at {
            let dying = now.saturating_duration_since(at);
            if dying >= DYING_MAX {
                return Err(Error::Immortal { waited_ms: DYING_MAX.as_millis() as u64 });
            }
            if dying >= DYING {
                self.kill_first();
            }
        }
        Ok(())
    }

    /// Ends everything, once. The first reason is the one that counts.
    fn stop(&mut self, why: Ended) {
        if self.stopped_at.is_none() {
            self.stopped_at = Some(Instant::now());
            self.finished.stopped = Some(why);
            self.kill();
        }
    }

    fn kill(&self) {
        match &self.init {
            Some(init) => {
                let _ = pidfd_send_signal(init, Signal::KILL);
            }
            None => self.kill_first(),
        }
    }

    fn kill_first(&self) {
        if let Some(first) = &self.first {
            let _ = pidfd_send_signal(first, Signal::KILL);
        }
    }

    fn wait(&self, now: Instant) -> Result<Vec<Event>, Error> {
        let mut fds = vec![];
        let mut events = vec![];
        let mut add = |event, fd, flags| {
            events.push(event);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        };
        for (event, fd) in [(Event::First, &self.first), (Event::Init, &self.init), (Event::Control, &self.control)] {
            if let Some(fd) = fd {
                add(event, fd.as_fd(), PollFlags::IN);
            }
        }
        if let Some(feed) = &self.stdin {
            add(Event::Stdin, feed.fd.as_fd(), PollFlags::OUT);
        }
        for (which, stream) in [&self.stdout, &self.stderr].into_iter().enumerate() {
            if let Some(stream) = stream {
                add(Event::Output(which), stream.fd.as_fd(), PollFlags::IN);
            }
        }
        if let Some(cancel) = self.cancel {
            add(Event::Cancel, cancel, PollFlags::IN);
        }
        if let Some(events) = &self.out_of_memory {
            add(Event::OutOfMemory, events.as_fd(), PollFlags::IN);
        }
        let until = [self.look_at, self.stopped_at.map(|at| at + DYING).or(Some(self.deadline)), self.stopped_at.map(|at| at + DYING_MAX)];
        // Once stopped, the deadline has done its work; and a moment that has passed is looked at again only a little later.
        let until = until.into_iter().flatten().filter(|at| *at > now).min().unwrap_or(now + LOOK_EVERY);
        let left = until.saturating_duration_since(now) + Duration::from_millis(1);
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(self.give_up("watch the program", error)),
        }
        Ok(events.into_iter().zip(fds).filter(|(_, fd)| !fd.revents().is_empty()).map(|(event, _)| event).collect())
    }

    fn handle(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::First => {
                self.finished.usage = sys::reap(self.pid).map_err(|error| self.give_up("reap the jail", error))?;
                self.first = None;
            }
            Event::Init => self.init = None,
            Event::Control => self.hear()?,
            Event::Stdin => self.feed(),
            Event::Output(which) => {
                self.read(which)?;
            }
            Event::Cancel => {
                self.cancel = None;
                self.stop(Ended::Cancelled);
            }
            Event::OutOfMemory => {
                self.out_of_memory = None;
                self.stop(Ended::OutOfMemory);
            }
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<(), Error> {
        let Some(control) = &self.control else { return Ok(()) };
        match word::hear(control.as_fd()).map_err(|error| self.give_up("hear the jail", error))? {
            Heard::Nothing => {}
            Heard::Closed => self.control = None,
            Heard::Word(Word::Ready { stage, init, proc }) => {
                self.finished.stage = Some((stage, proc));
                self.init = Some(init);
                // It was too late already, and nobody could be told.
                if self.stopped_at.is_some() {
                    self.kill();
                }
            }
            Heard::Word(Word::Failed { step, why }) => self.finished.failed = Some((step, why)),
            Heard::Word(Word::Exited(code)) => self.finished.said = Some(Ended::Exited(code)),
            Heard::Word(Word::Signalled(signal)) => self.finished.said = Some(Ended::Signalled(signal)),
        }
        Ok(())
    }

    fn feed(&mut self) {
        let Some(feed) = &mut self.stdin else { return };
        match rustix::io::write(&feed.fd, &feed.bytes[feed.sent..]) {
            Ok(sent) => feed.sent += sent,
            Err(Errno::AGAIN | Errno::INTR) => return,
            // It does not want to read: that is its own affair.
            Err(_) => feed.sent = feed.bytes.len(),
        }
        if feed.sent == feed.bytes.len() {
            self.stdin = None;
        }
    }

    /// Takes what there is. `false` when there is nothing now, or never again.
    fn read(&mut self, which: usize) -> Result<bool, Error> {
        let stream = if which == 0 { &mut self.stdout } else { &mut self.stderr };
        let Some(open) = stream else { return Ok(false) };
        let mut buffer = [0; 64 << 10];
        let read = match rustix::io::read(&open.fd, &mut buffer) {
            Ok(0) => {
                *stream = None;
                return Ok(false);
            }
            Ok(read) => read,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(error) => return Err(self.give_up("read what the program prints", error)),
        };
        let bytes = &buffer[..read];
        let room = open.max.saturating_sub(self.kept[which].len()).min(read);
        self.kept[which].extend_from_slice(&bytes[..room]);
        self.truncated[which] |= room < read;
        self.dropped = self.dropped.saturating_add((read - room) as u64);
        if which == 1 && self.streamed < self.limits.log_bytes.saturating_mul(STREAMED_FACTOR) {
            self.streamed += read;
            if let Some(on_log) = &mut self.on_log {
                self.lines.push(bytes, on_log);
            }
        }
        if self.dropped > self.limits.flood_bytes {
            self.stop(Ended::Flooded);
        }
        Ok(true)
    }

    /// We cannot go on: nothing of the run may.
    fn give_up(&self, what: &'static str, error: impl std::fmt::Display) -> Error {
        self.kill();
        self.kill_first();
        if self.first.is_some() {
            let _ = sys::reap(self.pid);
        }
        Error::Host { what, why: error.to_string(), started: true }
    }
}
