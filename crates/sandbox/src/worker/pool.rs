//! The server's side: a few workers that stay, and the watch over the one that computes.

use super::{NAME, READY};
use crate::error::Error;
use crate::sys;
use parking_lot::Mutex;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_send_signal};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

/// How long a worker may take until it is ready.
const START_MAX: Duration = Duration::from_secs(10);
/// The shortest time between two looks at a worker's clock.
const LOOK_MIN: Duration = Duration::from_millis(1);
/// Higher than every descriptor number that is assigned.
const AWAY: i32 = 64;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Workers at once; a request beyond waits for one.
    pub workers: usize,
    /// Processor time of one request. It is read from the worker's own clock, so a busy host fails no honest request.
    pub cpu: Duration,
    /// Time of one request; for a worker that hangs without computing.
    pub wall: Duration,
    pub address_space_bytes: u64,
    /// Requests after which a worker is replaced.
    pub requests_per_worker: u32,
    /// The longest answer, its end included.
    pub answer_bytes_max: usize,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// It took longer than it may; its worker was killed.
    #[error("the request took longer than it may, and its worker was killed after {} ms of processor time", cpu.as_millis())]
    Slow { cpu: Duration },
    /// The worker died of it: it needed more memory, or the code failed.
    #[error("the worker died of the request")]
    Died,
    /// No worker could be had. Nothing was computed.
    #[error(transparent)]
    Unavailable(Error),
}

/// A pool of workers. They are started when they are needed.
#[derive(Debug)]
pub struct Workers {
    helper: CString,
    limits: Limits,
    turns: Semaphore,
    idle: Mutex<Vec<Worker>>,
}

impl Workers {
    /// `helper` is a program whose `main` begins with `serve_if_asked`: usually the server itself, `/proc/self/exe`.
    pub fn new(helper: &Path, limits: Limits) -> Result<Self, Error> {
        let helper = CString::new(helper.as_os_str().as_bytes()).map_err(|error| Error::host("name the worker", error))?;
        Ok(Self { helper, limits, turns: Semaphore::new(limits.workers.max(1)), idle: Mutex::default() })
    }

    /// Gives a worker one line, and returns the line that it answers. Neither has its end. Dropping the future kills the worker.
    pub async fn ask(&self, request: &[u8]) -> Result<Vec<u8>, Lost> {
        let _turn = self.turns.acquire().await.map_err(|error| Lost::Unavailable(Error::host("wait for a worker", error)))?;
        let idle = self.idle.lock().pop();
        if let Some(worker) = idle {
            match self.give(worker, request).await {
                // It died while it had nothing to do, so the request is not to blame.
                Err(Given::NotTaken) => {}
                Err(Given::Lost(lost)) => return Err(lost),
                Ok(answer) => return Ok(answer),
            }
        }
        let worker = self.start().await.map_err(Lost::Unavailable)?;
        self.give(worker, request).await.map_err(|given| match given {
            Given::NotTaken => Lost::Died,
            Given::Lost(lost) => lost,
        })
    }

    /// The worker comes back to the pool only with a whole answer.
    async fn give(&self, mut worker: Worker, request: &[u8]) -> Result<Vec<u8>, Given> {
        let pid = worker.process.pid;
        let answer = tokio::select! {
            answer = worker.exchange(request, self.limits.answer_bytes_max) => answer,
            cpu = spent(pid, self.limits) => Err(Given::Lost(Lost::Slow { cpu })),
        };
        worker.requests += 1;
        if answer.is_ok() && worker.requests < self.limits.requests_per_worker {
            self.idle.lock().push(worker);
        } else {
            // Freeing its memory takes the kernel a while.
            tokio::task::spawn_blocking(move || drop(worker));
        }
        answer
    }

    async fn start(&self) -> Result<Worker, Error> {
        let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| Error::host("make a pipe", error));
        let ((theirs_in, ours_in), (ours_out, theirs_out)) = (pipe()?, pipe()?);
        let null = std::fs::File::options().write(true).open("/dev/null").map_err(|error| Error::host("open `/dev/null`", error))?;
        // First to high numbers: a descriptor that already has the number of another would be overwritten before it is placed.
        let away = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, AWAY).map_err(|error| Error::host("place a descriptor", error));
        let fds = [away(&theirs_in)?, away(&theirs_out)?, away(&null.into())?];
        let places: Vec<_> = fds.iter().map(AsFd::as_fd).zip(0..).collect();
        let life = self.limits.cpu.saturating_mul(self.limits.requests_per_worker.saturating_add(1)).as_secs().saturating_add(5);
        let args = [NAME.to_owned(), self.limits.address_space_bytes.to_string(), life.to_string()];
        let argv: Vec<_> =
            args.into_iter().map(CString::new).collect::<Result<_, _>>().map_err(|error| Error::host("name the worker", error))?;
        let argv: Vec<_> = argv.iter().map(CString::as_c_str).collect();
        let pid = sys::spawn(&self.helper, &argv, &places).map_err(|error| Error::host("start a worker", error))?;
        let process = Process::watched(pid)?;
        let broken = |error: io::Error| Error::host("talk to a worker", error);
        let stdin = pipe::Sender::from_owned_fd(ours_in).map_err(broken)?;
        let mut stdout = BufReader::new(pipe::Receiver::from_owned_fd(ours_out).map_err(broken)?);
        drop((theirs_in, theirs_out, fds));
        let mut word = [0; READY.len()];
        let ready = timeout(START_MAX, stdout.read_exact(&mut word)).await;
        match ready {
            Ok(Ok(_)) if word == READY.as_bytes() => Ok(Worker { process, stdin, stdout, requests: 0 }),
            Ok(Ok(_) | Err(_)) => Err(Error::host("confine a worker", "it ended before it was ready")),
            Err(_) => Err(Error::host("confine a worker", "it was not ready in time")),
        }
    }
}

enum Given {
    /// The worker was dead already.
    NotTaken,
    Lost(Lost),
}

/// Returns when the process has used up what one request may, with the processor time that it used.
async fn spent(pid: Pid, limits: Limits) -> Duration {
    let began = Instant::now();
    // A process that is gone has no clock; the end of its pipe tells more.
    let Ok(before) = sys::cpu_of(pid) else { return std::future::pending().await };
    loop {
        let Ok(now) = sys::cpu_of(pid) else { return std::future::pending().await };
        let cpu = now.saturating_sub(before);
        let cpu_left = limits.cpu.saturating_sub(cpu);
        let wall_left = limits.wall.saturating_sub(began.elapsed());
        if cpu_left.is_zero() || wall_left.is_zero() {
            return cpu;
        }
        // It has one thread, so it cannot use more processor time than passes.
        sleep(cpu_left.min(wall_left).max(LOOK_MIN)).await;
    }
}

#[derive(Debug)]
struct Worker {
    process: Process,
    stdin: pipe::Sender,
    stdout: BufReader<pipe::Receiver>,
    requests: u32,
}

impl Worker {
    async fn exchange(&mut self, request: &[u8], answer_bytes_max: usize) -> Result<Vec<u8>, Given> {
        let mut line = Vec::with_capacity(request.len() + 1);
        line.extend_from_slice(request);
        line.push(b'\n');
        if self.stdin.write_all(&line).await.is_err() {
            return Err(if self.requests > 0 { Given::NotTaken } else { Given::Lost(Lost::Died) });
        }
        let mut answer = vec![];
        let most = u64::try_from(answer_bytes_max).unwrap_or(u64::MAX);
        let read = (&mut self.stdout).take(most).read_until(b'\n', &mut answer).await;
        match (read, answer.pop()) {
            (Ok(_), Some(b'\n')) => Ok(answer),
            (Ok(_) | Err(_), _) => Err(Given::Lost(Lost::Died)),
        }
    }
}

/// A process of ours. Dropping it kills it and waits for its end.
#[derive(Debug)]
struct Process {
    pid: Pid,
    handle: OwnedFd,
}

impl Process {
    fn watched(pid: Pid) -> Result<Self, Error> {
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Ok(Self { pid, handle }),
            Err(error) => {
                // The process is our child and not yet reaped, so the pid is still its own.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                let _ = sys::reap(pid);
                Err(Error::host("watch a worker", error))
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        let _ = sys::reap(self.pid);
    }
}
