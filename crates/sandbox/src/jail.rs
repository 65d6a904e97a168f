//! The jail: the process that locks itself up, step by step, and then becomes the program.
//!
//! Three processes stand behind one run. The first is what the server spawned: it gives up its identity and its namespaces. The
//! second is process 1 of the new pid namespace: it mounts what there is to see, watches, reaps, and takes everything with it when
//! it dies. The third locks itself up for good and executes the program. Read `become_jail`, then the files in their order.

mod identity;
mod mounts;
mod view;
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

/// Becomes the jail and never returns, when this process was started as one.
///
/// The first statement of `main`: nothing may have opened a descriptor or started a thread before.
pub fn main_if_asked() {
    let mut args = std::env::args_os();
    if args.next().is_some_and(|name| name == JAIL_NAME) {
        if args.next().is_some_and(|word| word == attempt::WORD) { attempt::run() } else { become_jail() }
    }
}

/// Cuts out of the host what a program may see, for a server that is root. Nothing of the server's own view changes.
pub(crate) fn open_trees(binds: &[Bound]) -> Result<Vec<OwnedFd>, Error> {
    let trees = mounts::open_trees(binds).map_err(|failure| Error::Unavailable { step: failure.step, why: failure.why })?;
    Ok(trees.into_iter().map(mounts::Tree::into_fd).collect())
}

/// The step that failed, and what there is to say about it.
struct Failure {
    step: Step,
    why: String,
}

impl Failure {
    fn new(step: Step, what: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self { step, why: format!("{what}: {error}") }
    }
}

/// Turns an error into a failure of this step.
fn at<E: fmt::Display>(step: Step, what: impl fmt::Display) -> impl FnOnce(E) -> Failure {
    move |error| Failure::new(step, what, error)
}

/// Every profile's namespaces, and what `high_isolation` adds.
pub(crate) const NAMESPACES: i32 = attempt::NAMESPACES;
pub(crate) const MORE_NAMESPACES: i32 = attempt::MORE_NAMESPACES;

/// What ends the jail with a sentence said, and without one.
const EXIT_FAILED: i32 = 70;

fn become_jail() -> ! {
    let _ = sys::close_range(fd::REST, u32::MAX);
    let control = match sys::move_fd(sys::inherited(fd::CONTROL), fd::CONTROL_KEPT) {
        Ok(control) => control,
        // Nobody placed it: this is not a child of the server.
        Err(_) => std::process::exit(EXIT_FAILED),
    };
    match first_process(&control) {
        Ok(code) => std::process::exit(code),
        Err(failure) => fail(&control, &failure),
    }
}

/// Says why, and ends.
fn fail(control: &OwnedFd, failure: &Failure) -> ! {
    let _ = word::say_failed(control.as_fd(), failure.step, &failure.why);
    std::process::exit(EXIT_FAILED);
}

fn first_process(control: &OwnedFd) -> Result<i32, Failure> {
    let errand = Errand::read(std::env::args_os().skip(1))
        .ok_or_else(|| Failure::new(Step::Orders, "reading the arguments", "they are not those of a jail"))?;

    // 1. Nobody outlives the server.
    identity::die_with_parent(Some(errand.server))?;
    let _ = rustix::process::setsid();
    identity::undumpable()?;
    // When the host runs out of memory, a jail goes first.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");

    // 2. Whatever follows is counted.
    for procs in &errand.cgroup_procs {
        std::fs::write(procs, "0").map_err(at(Step::Cgroup, format_args!("entering `{}`", procs.display())))?;
    }

    // 3. and 4. Another identity, other namespaces.
    if let Some(id) = errand.become_id {
        identity::become_id(id)?;
        identity::die_with_parent(Some(errand.server))?;
    }
    identity::leave_namespaces(errand.namespaces)?;

    // 5. Process 1 of the new pid namespace, which waits for its orders: up to here nothing depends on them.
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

/// The program's pipes and its egress are its own: a copy of ours would keep them open after it closed them.
fn close_programs() {
    let _ = sys::close_range(0, fd::EGRESS as u32);
}

/// Stays until process 1 is dead, and with it everything in its namespace.
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
