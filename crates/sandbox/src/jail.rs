//! The jail: the process that locks itself up, step by step, and then becomes the program.
//!
//! Three processes stand behind one run. The first is what the server spawned: it gives up its identity and its namespaces. The
//! second is process 1 of the new pid namespace: it mounts what there is to see, watches, reaps, and takes everything with it when
//! it dies. The third locks itself up for good and executes the program. Read `become_jail`, then the files in their order.

mod identity;
mod mounts;
mod init;
mod lock;
mod attempt;

use crate::error::Step;
use crate::orders::{JAIL_NAME, Packet, fd};
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
    let mut args = std::env::args_os().skip(1);
    let server = args.next().and_then(|pid| pid.to_str()?.parse().ok());
    let server = server.ok_or_else(|| Failure::new(Step::Orders, "reading the arguments", "no server is named"))?;

    // 1. Nobody outlives the server.
    identity::die_with_parent(Some(server))?;
    let _ = rustix::process::setsid();
    identity::undumpable()?;
    // When the host runs out of memory, a jail goes first.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");

    // 2. Whatever follows is counted.
    for procs in args {
        let shown = std::path::Path::new(&procs).display().to_string();
        std::fs::write(&procs, "0").map_err(at(Step::Cgroup, format_args!("entering `{shown}`")))?;
    }

    let Some(fds) = word::take_orders(control.as_fd()).map_err(at(Step::Orders, "waiting for orders"))? else {
        return Ok(0);
    };
    let (packet, program) = take_places(fds)?;
    let orders = &packet.orders;

    // The paths of the host are looked up as the server, which may see more than the identity we are about to take.
    let trees = if orders.become_id.is_some() { Some(mounts::open_trees(orders)?) } else { None };

    // 3. and 4. Another identity, other namespaces.
    if let Some(id) = orders.become_id {
        identity::become_id(id)?;
        identity::die_with_parent(Some(server))?;
    }
    identity::leave_namespaces(orders.namespaces)?;

    // 5. Process 1 of the new pid namespace.
    match sys::fork().map_err(at(Step::Init, "forking"))? {
        Fork::Child => match init::run(packet, control, program, trees) {
            Ok(never) => match never {},
            Err(failure) => fail(control, &failure),
        },
        Fork::Parent(init) => {
            drop((trees, program, packet));
            close_programs();
            let _ = lock::forget_capabilities();
            Ok(wait_for(init))
        }
    }
}

/// Puts what came with the orders where the program will find it.
fn take_places(fds: Vec<OwnedFd>) -> Result<(Packet, OwnedFd), Failure> {
    let mut fds = fds.into_iter();
    let mut next = || fds.next().ok_or_else(|| Failure::new(Step::Orders, "taking the orders", "a descriptor is missing"));
    let packet = Packet::open(next()?).map_err(at(Step::Orders, "reading the orders"))?;
    let program = sys::move_fd(next()?, fd::EXEC).map_err(at(Step::Orders, "keeping the program's descriptor"))?;
    let mut places = vec![0, 1, 2];
    places.extend(packet.orders.egress.then_some(fd::EGRESS));
    // Out of the way first: they may have arrived under each other's numbers.
    let mut away = vec![];
    for place in places {
        let held = rustix::io::fcntl_dupfd_cloexec(next()?, AWAY).map_err(at(Step::Orders, "placing a descriptor"))?;
        away.push((held, place));
    }
    for (held, place) in away {
        sys::lend_fd(held.as_fd(), place).map_err(at(Step::Orders, "placing a descriptor"))?;
    }
    Ok((packet, program))
}

/// Above every number that is given to a program.
const AWAY: i32 = 64;

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
