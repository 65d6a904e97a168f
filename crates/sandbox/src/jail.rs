//! The jail: a process that restricts itself, step by step, and then becomes the program.
//!
//! Each run has three processes. The server spawns the first, which changes its identity and leaves the host's namespaces. The second is
//! process 1 of the new pid namespace: it mounts the file systems, watches and reaps; when it dies, the kernel kills everything in the
//! namespace. The third gives up its remaining rights and executes the program. Read `become_jail` first, then the modules in the order of
//! the `mod` lines.

mod identity;
mod mounts;
mod view;
mod target;
mod network;
mod init;
mod lock;
mod attempt;

use crate::error::{Error, Step};
use crate::orders::{Bound, Errand, JAIL_NAME, fd};
use crate::sys::{self, Fork};
use crate::word;
use rustix::process::{Pid, Signal, WaitOptions};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};

/// If this process was started as a jail, becomes it and never returns.
///
/// Must be the first statement of `main`: no thread may have been started and no descriptor opened before it.
pub fn main_if_asked() {
    let mut args = std::env::args_os();
    if args.next().is_some_and(|name| name == JAIL_NAME) {
        if args.next().is_some_and(|word| word == attempt::WORD) { attempt::run() } else { become_jail() }
    }
}

/// Detaches from the host the trees a program may see, when the server is root. The server's own mounts stay as they are.
pub(crate) fn open_trees(binds: &[Bound]) -> Result<Vec<OwnedFd>, Error> {
    let trees = mounts::open_trees(binds).map_err(|failure| Error::Unavailable { step: failure.step, why: failure.why })?;
    Ok(trees.into_iter().map(mounts::Tree::into_fd).collect())
}

/// The step that failed, and why.
struct Failure {
    step: Step,
    why: String,
}

impl Failure {
    fn new(step: Step, what: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self { step, why: format!("{what}: {error}") }
    }
}

/// Makes a closure that turns an error into a failure of this step.
fn at<E: fmt::Display>(step: Step, what: impl fmt::Display) -> impl FnOnce(E) -> Failure {
    move |error| Failure::new(step, what, error)
}

/// The namespaces of every profile, and those that `high_isolation` adds.
pub(crate) const NAMESPACES: i32 = attempt::NAMESPACES;
pub(crate) const MORE_NAMESPACES: i32 = attempt::MORE_NAMESPACES;

/// The exit code of a jail that failed, whether or not it could report the reason.
const EXIT_FAILED: i32 = 70;

fn become_jail() -> ! {
    let _ = sys::close_range(fd::REST, u32::MAX);
    let control = match sys::move_fd(sys::inherited(fd::CONTROL), fd::CONTROL_KEPT) {
        Ok(control) => control,
        // There is no control socket, so the server did not start this process.
        Err(_) => std::process::exit(EXIT_FAILED),
    };
    match first_process(&control) {
        Ok(code) => std::process::exit(code),
        Err(failure) => fail(&control, &failure),
    }
}

/// Reports the failure to the server, and exits.
fn fail(control: &OwnedFd, failure: &Failure) -> ! {
    let _ = word::say_failed(control.as_fd(), failure.step, &failure.why);
    std::process::exit(EXIT_FAILED);
}

fn first_process(control: &OwnedFd) -> Result<i32, Failure> {
    let errand = Errand::read(std::env::args_os().skip(1))
        .ok_or_else(|| Failure::new(Step::Orders, "reading the arguments", "they are not those of a jail"))?;

    // 1. The jail dies with the server.
    identity::die_with_parent(Some(errand.server))?;
    let _ = rustix::process::setsid();
    // The file belongs to this process only until it gives up being readable.
    identity::die_before_others()?;
    identity::undumpable()?;

    // 2. From here on, the cgroup counts everything.
    for procs in &errand.cgroup_procs {
        std::fs::write(procs, "0").map_err(at(Step::Cgroup, format_args!("entering `{}`", procs.display())))?;
    }

    // 3. and 4. Take on another identity and other namespaces.
    if let Some(id) = errand.become_id {
        identity::become_id(id)?;
        identity::die_with_parent(Some(errand.server))?;
    }
    identity::leave_namespaces(errand.namespaces)?;

    // 5. Process 1 of the new pid namespace waits for the orders: nothing up to here depends on them.
    match sys::fork().map_err(at(Step::Init, "forking"))? {
        Fork::Child => match init::run(control) {
            Ok(never) => match never {},
            Err(failure) => fail(control, &failure),
        },
        Fork::Parent(init) => {
            let _ = lock::forget_capabilities();
            Ok(wait_for(init))
        }
    }
}

/// Closes our copies of the program's pipes and its egress: they would keep them open after the program closed its own.
fn close_programs() {
    let _ = sys::close_range(0, fd::EGRESS as u32);
}

/// Waits until process 1 is dead, and with it everything in its namespace.
fn wait_for(init: Pid) -> i32 {
    loop {
        match rustix::process::waitpid(Some(init), WaitOptions::empty()) {
            Ok(Some(_)) => return 0,
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => {
                let _ = rustix::process::kill_process(init, Signal::KILL);
                return EXIT_FAILED;
            }
        }
    }
}
