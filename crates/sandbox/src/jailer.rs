//! Starts jails, one ahead of time where it can: a spare has been spawned, has entered its cgroup, and waits for its orders.
//!
//! Entering a cgroup can take the kernel longer than everything else together, and nobody waits for it when it was done before. One
//! thread starts all of them and stays as long as the sandbox: a jail dies with the thread that spawned it, and runs begin on threads
//! that come and go.

use crate::cgroup::{Cgroups, Leaf};
use crate::error::Error;
use crate::orders::{JAIL_NAME, fd};
use crate::sys;
use parking_lot::Mutex;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_send_signal};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// A jail that waits for its orders.
pub(crate) struct Spare {
    pub(crate) pid: Pid,
    pub(crate) handle: OwnedFd,
    pub(crate) control: OwnedFd,
    pub(crate) leaf: Option<Leaf>,
}

impl Spare {
    /// Ends one that nobody needs.
    pub(crate) fn dismiss(self) {
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        let _ = sys::reap(self.pid);
    }
}

enum Request {
    /// Somebody waits for this one.
    One(mpsc::Sender<Result<Spare, Error>>),
    /// Nobody does yet.
    Refill,
}

pub(crate) struct Jailer {
    requests: Option<mpsc::Sender<Request>>,
    spares: Arc<Mutex<Vec<Spare>>>,
    thread: Option<JoinHandle<()>>,
}

impl Jailer {
    pub(crate) fn new(helper: CString, cgroups: Arc<Cgroups>, spares_max: usize) -> Result<Self, Error> {
        let (requests, heard) = mpsc::channel();
        let spares = Arc::new(Mutex::new(vec![]));
        let kept = spares.clone();
        let work = move || {
            for request in heard {
                match request {
                    // Whoever asked may be gone; then it is a spare like any other.
                    Request::One(reply) => {
                        if let Err(mpsc::SendError(Ok(spare))) = reply.send(start(&helper, &cgroups)) {
                            kept.lock().push(spare);
                        }
                    }
                    Request::Refill => {
                        if kept.lock().len() < spares_max
                            && let Ok(spare) = start(&helper, &cgroups)
                        {
                            kept.lock().push(spare);
                        }
                    }
                }
            }
        };
        let thread =
            std::thread::Builder::new().name("jailer".into()).spawn(work).map_err(|error| Error::host("start the jailer", error))?;
        Ok(Self { requests: Some(requests), spares, thread: Some(thread) })
    }

    /// A spare if there is one, else a new one; and another for whoever comes next.
    pub(crate) fn take(&self) -> Result<Spare, Error> {
        let spare = self.spares.lock().pop();
        let spare = match spare {
            Some(spare) => Ok(spare),
            None => {
                let (reply, answer) = mpsc::channel();
                self.ask(Request::One(reply));
                answer.recv().unwrap_or_else(|_| Err(Error::host("start the jail", "the jailer is gone")))
            }
        };
        self.ask(Request::Refill);
        spare
    }

    /// The same, but never one that has been waiting: for when a spare turned out to be dead.
    pub(crate) fn take_new(&self) -> Result<Spare, Error> {
        let (reply, answer) = mpsc::channel();
        self.ask(Request::One(reply));
        answer.recv().unwrap_or_else(|_| Err(Error::host("start the jail", "the jailer is gone")))
    }

    fn ask(&self, request: Request) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(request);
        }
    }
}

impl Drop for Jailer {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for spare in self.spares.lock().drain(..) {
            spare.dismiss();
        }
    }
}

fn start(helper: &CString, cgroups: &Arc<Cgroups>) -> Result<Spare, Error> {
    let leaf = cgroups.leaf()?;
    let (ours, control) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|error| Error::host("make the control socket", error))?;
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").map_err(|error| Error::host("open `/dev/null`", error))?;
    // Out of the way first: a descriptor that already has another's number would be overwritten before it is placed.
    let away = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, AWAY).map_err(|error| Error::host("place a descriptor", error));
    let (null, control) = (away(&null.into())?, away(&control)?);
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|error| Error::host("name the jail", error));
    let mut argv = vec![text(JAIL_NAME.as_bytes())?, text(std::process::id().to_string().as_bytes())?];
    for procs in leaf.iter().flat_map(Leaf::procs) {
        argv.push(text(procs.as_os_str().as_bytes())?);
    }
    let argv: Vec<_> = argv.iter().map(CString::as_c_str).collect();
    let fds = [(null.as_fd(), 0), (null.as_fd(), 1), (null.as_fd(), 2), (control.as_fd(), fd::CONTROL)];
    let pid = sys::spawn(helper, &argv, &fds).map_err(|error| Error::host("start the jail", error))?;
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => Ok(Spare { pid, handle, control: ours, leaf }),
        Err(error) => {
            // It is our child and not yet reaped, so the number is still its own.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            let _ = sys::reap(pid);
            Err(Error::host("watch the jail", error))
        }
    }
}

/// Above every number that is given away.
const AWAY: i32 = 64;
