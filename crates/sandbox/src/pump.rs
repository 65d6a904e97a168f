//! Watches a run: carries its streams, enforces its limits, and returns only when every process in the jail is dead.

use crate::error::{Error, Step};
use crate::memory;
use crate::outcome::{Captured, Ended};
use crate::spec::Limits;
use crate::streams::{Feed, LOG, OnLog, Printed};
use crate::sys::{self, Usage};
use crate::word::{self, Heard, Word};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, pidfd_send_signal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How often memory is checked where no cgroup limits it.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// After the kill, the processes have this long to disappear; then the process that we spawned is killed too.
const DYING: Duration = Duration::from_secs(5);
/// After the kill, we give up on processes that are still alive at this time, with `Error::Immortal`.
const DYING_MAX: Duration = Duration::from_secs(20);
/// The pause after each read of a resident's log, which reads at most 64 KiB. A resident that floods its log has to wait, and costs the
/// server little.
const LOG_RESTS: Duration = Duration::from_millis(10);

/// A jail that was just started, and our ends of its pipes and its control socket.
pub(crate) struct Running {
    pub(crate) pid: Pid,
    pub(crate) handle: OwnedFd,
    pub(crate) control: OwnedFd,
    /// `None` for stdin and stdout where the owner of a resident holds them.
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: OwnedFd,
    pub(crate) started: Instant,
}

impl Running {
    /// Kills the jail because of `error`, and returns the error.
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
    pub(crate) resident: Option<Resident>,
}

/// The differences for a resident: the deadline applies only to its start, and when it is to end it gets SIGTERM first.
pub(crate) struct Resident {
    /// The time the resident has to end after SIGTERM; then every process is killed.
    pub(crate) grace: Duration,
    /// Called once, when the program runs.
    pub(crate) on_begun: Option<OnBegun>,
}

/// Its arguments say whether the program has a `/proc`, and hand over the sockets of its network.
pub(crate) type OnBegun = Box<dyn FnOnce(bool, Option<Vec<OwnedFd>>) + Send>;

/// What is known about a run when every process of it is dead.
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
    let streams = running.stdin.iter().chain(&running.stdout).chain([&running.stderr]);
    let ready = streams.into_iter().try_for_each(|fd| rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK));
    if let Err(error) = ready {
        let error = Error::Host { what: "watch the program", why: error.to_string(), started: true };
        return Err(running.abandon(error));
    }
    let limits = watch.limits;
    let printed = match watch.resident {
        None => Printed::kept([running.stdout, Some(running.stderr)], &limits, watch.on_log),
        Some(_) => Printed::handed_out(Some(running.stderr), &limits, watch.on_log),
    };
    let pump = Pump {
        first: Some(running.handle),
        init: None,
        scratch: None,
        control: Some(running.control),
        stdin: running.stdin.map(|stdin| Feed::new(stdin, watch.stdin)),
        printed,
        log_at: None,
        resident: watch.resident,
        network: None,
        cancel: watch.cancel,
        out_of_memory: watch.out_of_memory,
        stopped_at: None,
        look_at: watch.look_at_memory.then_some(running.started),
        pid: running.pid,
        deadline: Some(watch.deadline),
        late: Ended::TimedOut,
        limits,
        finished: Finished::default(),
    };
    pump.run()
}

/// The events the pump waits for.
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
    /// The process we spawned; `None` once it is reaped.
    first: Option<OwnedFd>,
    /// Process 1 of the jail; `None` until the jail has sent its handle, and again when it is dead.
    init: Option<OwnedFd>,
    /// Kept only where memory is checked by us; dropped at the end of the run.
    scratch: Option<OwnedFd>,
    control: Option<OwnedFd>,
    stdin: Option<Feed>,
    printed: Printed,
    /// When the log may be read again.
    log_at: Option<Instant>,
    resident: Option<Resident>,
    network: Option<Vec<OwnedFd>>,
    cancel: Option<BorrowedFd<'a>>,
    out_of_memory: Option<OwnedFd>,
    stopped_at: Option<Instant>,
    look_at: Option<Instant>,
    pid: Pid,
    deadline: Option<Instant>,
    /// The reason that is recorded when the deadline passes.
    late: Ended,
    limits: Limits,
    finished: Finished,
}

impl Pump<'_> {
    fn run(mut self) -> Result<Finished, Error> {
        // Every process is dead when both the process we spawned and process 1 are dead, since process 1 takes its whole namespace with it.
        // Before process 1 has announced itself, the sign is that nobody holds the control socket any more.
        while self.first.is_some() || self.init.is_some() || self.control.is_some() {
            let now = Instant::now();
            self.keep_bounds(now)?;
            for event in self.wait(now)? {
                self.handle(event)?;
            }
        }
        // No process writes any more, so the pipes hold all the output that is left.
        for which in [0, 1] {
            while self.read(which)? {}
        }
        let Pump { mut finished, printed, .. } = self;
        (finished.result, finished.log) = printed.end();
        Ok(finished)
    }

    fn keep_bounds(&mut self, now: Instant) -> Result<(), Error> {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.stop(self.late);
        }
        if self.look_at.is_some_and(|at| now >= at) {
            self.look_at = Some(now + LOOK_EVERY);
            if self.first.is_some() && self.held_bytes() > self.limits.memory_bytes {
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

    /// The memory that the processes, the sockets, the stage and the scratch hold together.
    fn held_bytes(&self) -> u64 {
        let pid = self.pid.as_raw_nonzero().get().unsigned_abs();
        let stage = self.finished.stage.as_ref().map(|(stage, _)| stage);
        // Until the stage is there, the jail may still be in the network namespace of the host.
        let sockets = stage.map_or(0, |_| memory::bytes_of_sockets(pid));
        let files: u64 = stage.into_iter().chain(&self.scratch).map(|root| memory::bytes_of_files(root.as_fd())).sum();
        memory::bytes_below(pid).saturating_add(files).saturating_add(sockets)
    }

    /// Kills every process, once. If there are several reasons, the first counts.
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
            add(Event::Stdin, feed.as_fd(), PollFlags::OUT);
        }
        let rests = self.log_at.is_some_and(|at| now < at);
        for (which, fd) in self.printed.open().filter(|(which, _)| *which != LOG || !rests) {
            add(Event::Output(which), fd, PollFlags::IN);
        }
        if let Some(cancel) = self.cancel {
            add(Event::Cancel, cancel, PollFlags::IN);
        }
        if let Some(events) = &self.out_of_memory {
            add(Event::OutOfMemory, events.as_fd(), PollFlags::IN);
        }
        let timeout = self.next_look(now).map(|until| {
            let left = until.saturating_duration_since(now) + Duration::from_millis(1);
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(self.give_up("watch the program", error)),
        }
        Ok(events.into_iter().zip(fds).filter(|(_, fd)| !fd.revents().is_empty()).map(|(event, _)| event).collect())
    }

    /// When to wake up even if no event arrives.
    fn next_look(&self, now: Instant) -> Option<Instant> {
        let dying = self.stopped_at.map(|at| at + DYING);
        let moments = [self.look_at, dying.or(self.deadline), self.stopped_at.map(|at| at + DYING_MAX), self.log_at.filter(|at| *at > now)];
        // Once the run is stopped, its deadline no longer counts. If every moment has passed already, wake up a little later instead of at
        // once.
        let next = moments.into_iter().flatten().filter(|at| *at > now).min();
        next.or_else(|| moments.iter().any(Option::is_some).then(|| now + LOOK_EVERY))
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
                if which == LOG && self.resident.is_some() {
                    self.log_at = Some(Instant::now() + LOG_RESTS);
                }
            }
            Event::Cancel => {
                self.cancel = None;
                self.call_off();
            }
            Event::OutOfMemory => {
                self.out_of_memory = None;
                self.stop(Ended::OutOfMemory);
            }
        }
        Ok(())
    }

    /// Asks a resident to end and gives it time for that; any other run is killed at once.
    fn call_off(&mut self) {
        match (&self.resident, &self.control) {
            (Some(resident), Some(control)) if word::ask_to_end(control.as_fd()).is_ok() => {
                self.deadline = Some(Instant::now() + resident.grace);
                self.late = Ended::Cancelled;
            }
            (Some(_) | None, _) => self.stop(Ended::Cancelled),
        }
    }

    fn begun(&mut self) {
        let on_begun = self.resident.as_mut().and_then(|resident| resident.on_begun.take());
        if let (Some(on_begun), None) = (on_begun, &self.finished.failed) {
            if self.late == Ended::TimedOut {
                self.deadline = None;
            }
            on_begun(self.finished.stage.as_ref().is_some_and(|(_, proc)| *proc), self.network.take());
        }
    }

    fn hear(&mut self) -> Result<(), Error> {
        let Some(control) = &self.control else { return Ok(()) };
        match word::hear(control.as_fd()).map_err(|error| self.give_up("hear the jail", error))? {
            Heard::Nothing => {}
            Heard::Closed => self.control = None,
            Heard::Word(Word::Ready { stage, scratch, init, proc }) => {
                self.finished.stage = Some((stage, proc));
                self.scratch = self.look_at.map(|_| scratch);
                self.init = Some(init);
                // The run was stopped before this word brought the handle of process 1, so process 1 has not been killed yet.
                if self.stopped_at.is_some() {
                    self.kill();
                }
            }
            Heard::Word(Word::Network(sockets)) => self.network = Some(sockets),
            Heard::Word(Word::Failed { step, why }) => self.finished.failed = Some((step, why)),
            Heard::Word(Word::Begun) => self.begun(),
            Heard::Word(Word::Exited(code)) => self.finished.said = Some(Ended::Exited(code)),
            Heard::Word(Word::Signalled(signal)) => self.finished.said = Some(Ended::Signalled(signal)),
        }
        Ok(())
    }

    fn feed(&mut self) {
        if self.stdin.as_mut().is_some_and(Feed::is_done) {
            self.stdin = None;
        }
    }

    /// Reads what is available. Returns `false` when there is nothing to read, now or for good.
    fn read(&mut self, which: usize) -> Result<bool, Error> {
        let more = self.printed.read(which).map_err(|error| self.give_up("read what the program prints", error))?;
        if self.printed.dropped() > self.limits.flood_bytes {
            self.stop(Ended::Flooded);
        }
        Ok(more)
    }

    /// The pump cannot go on, so every process of the run is killed.
    fn give_up(&self, what: &'static str, error: impl std::fmt::Display) -> Error {
        self.kill();
        self.kill_first();
        if self.first.is_some() {
            let _ = sys::reap(self.pid);
        }
        Error::Host { what, why: error.to_string(), started: true }
    }
}
