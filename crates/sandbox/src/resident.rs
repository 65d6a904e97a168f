//! A resident: a program that stays in its jail for longer than one call. Its owner writes to its stdin and reads its stdout. A thread per
//! resident watches the rest (`pump.rs`) and kills everything in the jail when the owner is gone.

use crate::error::Error;
use crate::outcome::{Ended, Facts};
use crate::pump::{self, Watch};
use crate::run::{Begun, Cancel, Sandbox, ended, never_ready};
use crate::spec::{Life, Limits, Spec};
use crate::streams::OnLog;
use countersign_core::network::Sockets;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
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

/// The limits of a resident. The stdin of `Spec` and its limits on time and output do not apply to a resident.
#[derive(Clone, Copy, Debug)]
pub struct Stay {
    /// The share of one processor for all its processes together; beyond it, they wait. Enforced only where a cgroup can do so.
    pub cpu_percent: u32,
    /// The longest line on stdout; a longer one ends the resident as `Flooded`.
    pub line_bytes_max: usize,
    /// How much of stderr is kept. The last lines are kept; older ones are dropped and counted.
    pub stderr_bytes_max: usize,
    /// The time it has to end after SIGTERM; then every process is killed.
    pub grace: Duration,
}

/// A running resident.
#[derive(Debug)]
pub struct Resident {
    /// A write waits while the program does not read.
    pub stdin: pipe::Sender,
    pub stdout: Stdout,
    pub child: Child,
    /// The sockets of the network that the program sees, if it sees one.
    pub network: Option<Sockets>,
    pub facts: Facts,
}

/// A handle to a resident. Dropping it ends the resident and everything it started.
#[derive(Debug)]
pub struct Child {
    end: Cancel,
    ended: watch::Receiver<Option<Result<Ended, Error>>>,
    stderr: Arc<Mutex<StderrTail>>,
}

impl Child {
    /// Asks the resident to end: the program gets SIGTERM, and after the grace period everything in the jail is killed.
    pub fn end(&self) {
        self.end.cancel();
    }

    /// Waits until every process of the resident is dead.
    pub fn ended(&self) -> impl Future<Output = Result<Ended, Error>> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
            ended.unwrap_or_else(|| Err(Error::Host { what: "watch the program", why: "its watcher failed".to_owned(), started: true }))
        }
    }

    /// The last lines of stderr: valid UTF-8, without characters that could control a terminal.
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
    /// The number of earlier lines that are no longer kept.
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

/// The resident's stdout. It is never read ahead, so a program that prints faster than the owner reads has to wait.
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

/// Our ends of the program's stdin and stdout, the sockets of its network, and the isolation it has.
type Started = (OwnedFd, OwnedFd, Option<Vec<OwnedFd>>, Facts);

/// The sockets in the order in which process 1 of the jail sent them.
fn sockets(fds: Vec<OwnedFd>) -> Option<Sockets> {
    let mut fds = fds.into_iter();
    Some(Sockets {
        questions: fds.next()?.into(),
        questions_by_tcp: fds.next()?.into(),
        refusals: [fds.next()?.into(), fds.next()?.into()],
        connections: fds.map(TcpListener::from).collect(),
    })
}

impl Sandbox {
    /// Starts a resident. Its program runs when this returns; dropping the future before that ends it. `place` is dropped when every
    /// process of the resident is dead.
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
        let Ok((stdin, stdout, network, facts)) = started.await else {
            return Err(child.ended().await.map_or_else(|error| error, never_ready));
        };
        let broken = |error: io::Error| Error::Host { what: "talk to the program", why: error.to_string(), started: true };
        let stdin = pipe::Sender::from_owned_fd(stdin).map_err(broken)?;
        let pipe = pipe::Receiver::from_owned_fd(stdout).map_err(broken)?;
        let network = network.and_then(sockets);
        Ok(Resident {
            stdin,
            network,
            stdout: Stdout { pipe, line_bytes: 0, line_bytes_max: stay.line_bytes_max, flooded, end },
            child,
            facts,
        })
    }
}

/// The work of the thread that watches a resident.
struct Watcher {
    /// Held because a jail dies with the sandbox that started it.
    sandbox: Sandbox,
    end: Cancel,
    flooded: Arc<AtomicBool>,
    stay: Stay,
}

impl Watcher {
    /// Starts the program and returns when everything in its jail is dead.
    fn watch(&self, mut spec: Spec, on_log: OnLog, say_started: oneshot::Sender<Started>) -> Result<Ended, Error> {
        let life = Life::Resident { cpu_percent: self.stay.cpu_percent };
        let Begun { mut running, leaf, lease: _lease, out_of_memory, facts } = self.sandbox.begin(&mut spec, life)?;
        let (stdin, stdout) = (running.stdin.take(), running.stdout.take());
        let on_begun = Box::new(move |proc, network| {
            if let (Some(stdin), Some(stdout)) = (stdin, stdout) {
                // The receiver may be gone because the caller dropped the future; the drop has ended the resident as well.
                let _ = say_started.send((stdin, stdout, network, Facts { proc, ..facts }));
            }
        });
        let watch = Watch {
            // The output of a resident is not kept, so it can never be too much.
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
