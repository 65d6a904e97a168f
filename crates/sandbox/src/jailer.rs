//! Starts jails, and keeps some ready ahead of time: a spare already has its cgroup, its uid and its namespaces, and waits for its orders.
//!
//! Entering a cgroup can take the kernel longer than everything else together; with a spare, no run waits for it. One thread starts all
//! jails and lives as long as the sandbox, because a jail dies with the thread that spawned it and runs begin on threads that come and go.

use crate::cgroup::{Cgroups, Cpu, Leaf};
use crate::error::Error;
use crate::orders::{Errand, JAIL_NAME, fd};
use crate::spec::Profile;
use crate::uids::{Lease, Uids};
use crate::{jail, sys};
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
    pub(crate) lease: Option<Lease>,
    profile: Profile,
}

impl Spare {
    /// Kills a spare that is not needed.
    pub(crate) fn dismiss(self) {
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        let _ = sys::reap(self.pid);
    }
}

enum Request {
    /// A caller waits for this jail.
    One(Profile, Cpu, mpsc::Sender<Result<Spare, Error>>),
    /// Starts a spare, for which nobody waits yet. First removes the cgroup of the run before, since nobody waits for that either.
    Refill(Profile, Option<Leaf>),
}

pub(crate) struct Jailer {
    requests: Option<mpsc::Sender<Request>>,
    spares: Arc<Mutex<Vec<Spare>>>,
    thread: Option<JoinHandle<()>>,
}

impl Jailer {
    pub(crate) fn new(kit: Kit, spares_max: usize) -> Result<Self, Error> {
        let (requests, heard) = mpsc::channel();
        let spares = Arc::new(Mutex::new(vec![]));
        let kept = spares.clone();
        let work = move || {
            for request in heard {
                match request {
                    // The caller may be gone; then its jail becomes a spare.
                    Request::One(profile, cpu, reply) => {
                        if let Err(mpsc::SendError(Ok(spare))) = reply.send(kit.start(profile, cpu)) {
                            kept.lock().push(spare);
                        }
                    }
                    Request::Refill(profile, over) => {
                        drop(over);
                        let waiting = kept.lock().iter().filter(|spare: &&Spare| spare.profile == profile).count();
                        if waiting < spares_max
                            && let Ok(spare) = kit.start(profile, Cpu::Unbounded)
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

    /// Takes a spare if there is one, else starts a new jail.
    pub(crate) fn take(&self, profile: Profile) -> Result<Spare, Error> {
        let spare = {
            let mut spares = self.spares.lock();
            spares.iter().position(|spare| spare.profile == profile).map(|at| spares.swap_remove(at))
        };
        spare.map_or_else(|| self.take_new(profile, Cpu::Unbounded), Ok)
    }

    /// Starts a spare for the next run and removes the cgroup of the last one. Called when a run is over: earlier, this work would only
    /// slow that run.
    pub(crate) fn refill(&self, profile: Profile, over: Option<Leaf>) {
        self.ask(Request::Refill(profile, over));
    }

    /// Starts a new jail: for a resident, or when there is no spare, or when the spare turned out to be dead.
    pub(crate) fn take_new(&self, profile: Profile, cpu: Cpu) -> Result<Spare, Error> {
        let (reply, answer) = mpsc::channel();
        self.ask(Request::One(profile, cpu, reply));
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

/// What is needed to start a jail.
pub(crate) struct Kit {
    pub(crate) helper: CString,
    pub(crate) cgroups: Arc<Cgroups>,
    /// Present only where the server is root and can assign uids.
    pub(crate) uids: Option<Arc<Uids>>,
}

impl Kit {
    fn start(&self, profile: Profile, cpu: Cpu) -> Result<Spare, Error> {
        let leaf = self.cgroups.leaf(cpu)?;
        let all_taken = || Error::host("give the run a uid", "every uid of the pool is in use");
        let lease = self.uids.as_ref().map(|uids| uids.take().ok_or_else(all_taken)).transpose()?;
        let (ours, control) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|error| Error::host("make the control socket", error))?;
        let null = std::fs::File::options().read(true).write(true).open("/dev/null");
        let null = null.map_err(|error| Error::host("open `/dev/null`", error))?;
        // First to high numbers: a descriptor that already has the number of another would be overwritten before it is placed.
        let away = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, AWAY).map_err(|error| Error::host("place a descriptor", error));
        let (null, control) = (away(&null.into())?, away(&control)?);
        let errand = Errand {
            server: std::process::id().cast_signed(),
            become_id: lease.as_ref().map(|lease| lease.uid),
            namespaces: jail::NAMESPACES | if profile == Profile::HighIsolation { jail::MORE_NAMESPACES } else { 0 },
            cgroup_procs: leaf.as_ref().map(Leaf::procs).unwrap_or_default(),
        };
        let args = std::iter::once(JAIL_NAME.into()).chain(errand.args());
        let argv: Vec<_> =
            args.map(|arg| CString::new(arg.as_bytes())).collect::<Result<_, _>>().map_err(|error| Error::host("name the jail", error))?;
        let argv: Vec<_> = argv.iter().map(CString::as_c_str).collect();
        let fds = [(null.as_fd(), 0), (null.as_fd(), 1), (null.as_fd(), 2), (control.as_fd(), fd::CONTROL)];
        let pid = sys::spawn(&self.helper, &argv, &fds).map_err(|error| Error::host("start the jail", error))?;
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Ok(Spare { pid, handle, control: ours, leaf, lease, profile }),
            Err(error) => {
                // The process is our child and not yet reaped, so the pid is still its own.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                let _ = sys::reap(pid);
                Err(Error::host("watch the jail", error))
            }
        }
    }
}

/// Higher than every descriptor number that is assigned.
const AWAY: i32 = 64;
