//! A program that stays: the same jail, kept for longer than one call. Its owner writes to its stdin and reads its stdout; a thread
//! of its own watches the rest (`pump.rs`), and ends everything in the jail when the owner is gone.

use crate::error::Error;
use crate::outcome::{Ended, Facts};
use crate::pump::{self, Watch};
use crate::run::{Begun, Cancel, Life, OnLog, Sandbox, ended, never_ready};
use crate::spec::{Limits, Spec};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};

/// How long a jail may take until its program runs.
const START_MAX: Duration = Duration::from_secs(30);

/// The bounds of a program that stays. Of `Spec`, its stdin and the bounds on time and output do not apply.
#[derive(Clone, Copy, Debug)]
pub struct Stay {
    /// Of one processor, all its processes together, where a cgroup can bound it; then they wait.
    pub cpu_percent: u32,
    /// The longest line on stdout; then it is ended as `Flooded`.
    pub line_bytes_max: usize,
    /// How much of stderr is kept: the last lines, the older ones are dropped and counted.
    pub stderr_bytes_max: usize,
    /// How long it may take to end after SIGTERM; then everything is killed.
    pub grace: Duration,
}

/// A program at work.
#[derive(Debug)]
pub struct Resident {
    /// A write waits for as long as the program does not read.
    pub stdin: pipe::Sender,
    pub stdout: Stdout,
    pub child: Child,
    pub facts: Facts,
}

/// What is known of a program that stays. Dropping this ends it, with everything it started.
#[derive(Debug)]
pub struct Child {
    end: Cancel,
    ended: watch::Receiver<Option<Result<Ended, Error>>>,
    stderr: Arc<Mutex<StderrTail>>,
}

impl Child {
    /// Asks it to end: SIGTERM to the program, and once its grace is over the end of everything in the jail.
    pub fn end(&self) {
        self.end.cancel();
    }

    /// Waits until every process of it is dead.
    pub async fn ended(&self) -> Result<Ended, Error> {
        let mut ended = self.ended.clone();
        let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
        ended.unwrap_or_else(|| Err(Error::Host { what: "watch the program", why: "its watcher failed".to_owned(), started: true }))
    }

    /// The last of what it wrote to stderr: valid UTF-8 with nothing in it that could steer a terminal.
    pub fn stderr(&self) -> StderrTail {
        self.stderr.lock().clone()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StderrTail {
    pub lines: VecDeque<String>,
    /// Lines that came before these and are no longer kept.
    pub dropped: u64,
    bytes: usize,
}

impl StderrTail {
    fn push(&mut self, line: &str, bytes_max: usize) {
        self.bytes += line.len();
        self.lines.push_back(line.to_owned());
        while self.bytes > bytes_max
            && let Some(oldest) = self.lines.pop_front()
        {
            self.bytes -= oldest.len();
            self.dropped = self.dropped.saturating_add(1);
        }
    }
}

/// What the program prints, as it is read: nothing is read ahead, so one that prints faster than that has to wait.
#[derive(Debug)]
pub struct Stdout {
    pipe: pipe::Receiver,
    line_bytes: usize,
    line_bytes_max: usize,
    flooded: Arc<AtomicBool>,
    end: Cancel,
}

impl AsyncRead for Stdout {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.pipe).poll_read(context, buffer))?;
        for piece in buffer.filled()[before..].split_inclusive(|byte| *byte == b'\n') {
            let length = self.line_bytes + piece.len();
            if length > self.line_bytes_max {
                buffer.set_filled(before);
                self.flooded.store(true, Ordering::Relaxed);
                self.end.cancel();
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "the program printed a line that is too long")));
            }
            self.line_bytes = if piece.ends_with(b"\n") { 0 } else { length };
        }
        Poll::Ready(Ok(()))
    }
}

/// Our ends of the program's stdin and stdout, and under what isolation it runs.
type Started = (OwnedFd, OwnedFd, Facts);

impl Sandbox {
    /// Starts a program that stays. It runs when this returns; dropping the future before that ends it. `place` is dropped when
    /// every process of it is dead.
    pub async fn start(&self, spec: Spec, stay: Stay, place: impl Send + 'static) -> Result<Resident, Error> {
        let (end, flooded, stderr) = (Cancel::new()?, Arc::new(AtomicBool::new(false)), Arc::default());
        let (say_ended, ended) = watch::channel(None);
        let (say_started, started) = oneshot::channel();
        let child = Child { end: end.clone(), ended, stderr: Arc::clone(&stderr) };
        let watcher = Watcher { sandbox: self.clone(), end: end.clone(), flooded: Arc::clone(&flooded), stay };
        let on_log: OnLog = Box::new(move |line| stderr.lock().push(line, stay.stderr_bytes_max));
        let work = move || {
            let ended = watcher.watch(spec, on_log, say_started);
            drop(place);
            say_ended.send_replace(Some(ended))
        };
        let thread = std::thread::Builder::new().name("resident".to_owned()).spawn(work);
        thread.map_err(|error| Error::host("start the watcher", error))?;
        let Ok((stdin, stdout, facts)) = started.await else {
            return Err(child.ended().await.map_or_else(|error| error, never_ready));
        };
        let broken = |error: io::Error| Error::Host { what: "talk to the program", why: error.to_string(), started: true };
        let stdin = pipe::Sender::from_owned_fd(stdin).map_err(broken)?;
        let pipe = pipe::Receiver::from_owned_fd(stdout).map_err(broken)?;
        Ok(Resident { stdin, stdout: Stdout { pipe, line_bytes: 0, line_bytes_max: stay.line_bytes_max, flooded, end }, child, facts })
    }
}

/// The thread beside a program that stays.
struct Watcher {
    /// A jail dies with the sandbox that started it.
    sandbox: Sandbox,
    end: Cancel,
    flooded: Arc<AtomicBool>,
    stay: Stay,
}

impl Watcher {
    /// Begins the program and stays until everything in its jail is dead.
    fn watch(&self, mut spec: Spec, on_log: OnLog, say_started: oneshot::Sender<Started>) -> Result<Ended, Error> {
        let life = Life::Resident { cpu_percent: self.stay.cpu_percent };
        let Begun { mut running, leaf, lease: _lease, out_of_memory, facts } = self.sandbox.begin(&mut spec, life)?;
        let (stdin, stdout) = (running.stdin.take(), running.stdout.take());
        let on_begun = Box::new(move |proc| {
            if let (Some(stdin), Some(stdout)) = (stdin, stdout) {
                // Whoever asked may be gone; then it has been called off as well.
                let _ = say_started.send((stdin, stdout, Facts { proc, ..facts }));
            }
        });
        let watch = Watch {
            // What it prints is not kept, so it is never too much.
            limits: Limits { flood_bytes: u64::MAX, ..spec.limits },
            deadline: running.started + START_MAX,
            look_at_memory: leaf.is_none(),
            stdin: vec![],
            cancel: Some(self.end.as_fd()),
            out_of_memory,
            on_log: Some(on_log),
            resident: Some(pump::Resident { grace: self.stay.grace, on_begun: Some(on_begun) }),
        };
        let mut finished = pump::run(running, watch)?;
        let ended = ended(&mut finished, leaf.as_ref().is_some_and(|leaf| leaf.ran_out_of_memory()))?;
        Ok(if self.flooded.load(Ordering::Relaxed) { Ended::Flooded } else { ended })
    }
}
