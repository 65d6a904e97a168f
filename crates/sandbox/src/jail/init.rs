//! Step 5: process 1 of the jail. It mounts the file systems, starts the program, reaps orphaned processes, and reports how the program
//! ended.
//!
//! No process inside its namespace can signal it. When it ends, the kernel kills every other process there.

use super::{EXIT_FAILED, Failure, at, identity, lock, mounts, network};
use crate::error::Step;
use crate::orders::{Packet, fd};
use crate::sys;
use crate::word;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};
use std::convert::Infallible;
use std::os::fd::{AsFd, OwnedFd};

pub(super) fn run(control: &OwnedFd) -> Result<Infallible, Failure> {
    // Our parent is outside our pid namespace, so its pid reads as 0, alive or not. The control socket tells whether the server is still
    // there.
    identity::die_with_parent(None)?;
    // Work that needs no orders is done before they arrive, so that no run waits for it.
    let ground = mounts::Ground::new()?;
    sys::set_host_name(c"jail").map_err(at(Step::Mounts, "naming the host"))?;
    // Moved to a high number, because this process later closes the low ones, which are the program's.
    let signals = sys::child_signals().map_err(at(Step::Init, "listening for ends of processes"))?;
    let signals = rustix::io::fcntl_dupfd_cloexec(signals, AWAY).map_err(at(Step::Init, "listening for ends of processes"))?;
    let Some(fds) = word::take_orders(control.as_fd()).map_err(at(Step::Orders, "waiting for orders"))? else {
        std::process::exit(0);
    };
    let Given { packet, program, trees } = take_places(fds)?;
    // 6. Mount what the program can see.
    let trees = if packet.orders.trees_given { mounts::given(&packet.orders, trees) } else { mounts::open_trees(&packet.orders.binds) }?;
    let mounted = mounts::build(&packet, trees, ground)?;

    if let Some(ports) = &packet.orders.network {
        let sockets = network::open(ports)?;
        let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        word::say_network(control.as_fd(), &sockets).map_err(at(Step::Init, "handing over the network"))?;
    }

    // The server gets the stage, the scratch and a handle of this process before the program runs.
    let me =
        rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).map_err(at(Step::Init, "opening our own handle"))?;
    let given = [mounted.stage.as_fd(), mounted.scratch.as_fd(), me.as_fd()];
    word::say_ready(control.as_fd(), given, mounted.proc).map_err(at(Step::Init, "handing over the stage"))?;
    drop((me, mounted.stage, mounted.scratch));

    // The child uses our memory until it executes the program. It has descriptors of its own, so it closes only those.
    let child = sys::lend_memory(|| match lock::become_program(&packet, &program, mounted.proc) {
        Ok(never) => match never {},
        Err(failure) => {
            let _ = word::say_failed(control.as_fd(), failure.step, &failure.why);
            EXIT_FAILED
        }
    });
    let child = child.map_err(at(Step::Init, "forking"))?;
    if packet.orders.is_resident {
        // By now the child has executed the program, or has reported why it could not.
        word::say_begun(control.as_fd()).map_err(at(Step::Init, "saying that the program runs"))?;
    }
    drop((program, packet));
    super::close_programs();
    let _ = lock::forget_capabilities();
    watch(child, control, &signals)
}

/// The orders, and the descriptors that came with them.
struct Given {
    packet: Packet,
    program: OwnedFd,
    trees: Vec<OwnedFd>,
}

/// Puts the program and its streams at the descriptor numbers where they are expected.
fn take_places(fds: Vec<OwnedFd>) -> Result<Given, Failure> {
    let mut fds = fds.into_iter();
    let mut next = || fds.next().ok_or_else(|| Failure::new(Step::Orders, "taking the orders", "a descriptor is missing"));
    let packet = Packet::open(next()?).map_err(at(Step::Orders, "reading the orders"))?;
    let program = sys::move_fd(next()?, fd::EXEC).map_err(at(Step::Orders, "keeping the program's descriptor"))?;
    let mut places = vec![0, 1, 2];
    places.extend(packet.orders.egress.then_some(fd::EGRESS));
    // First to high numbers: the descriptors may have arrived under each other's numbers.
    let mut away = vec![];
    for place in places {
        let held = rustix::io::fcntl_dupfd_cloexec(next()?, AWAY).map_err(at(Step::Orders, "placing a descriptor"))?;
        away.push((held, place));
    }
    let mut trees = vec![];
    for tree in fds {
        trees.push(rustix::io::fcntl_dupfd_cloexec(tree, AWAY).map_err(at(Step::Orders, "placing a descriptor"))?);
    }
    for (held, place) in away {
        sys::lend_fd(held.as_fd(), place).map_err(at(Step::Orders, "placing a descriptor"))?;
    }
    Ok(Given { packet, program, trees })
}

/// Higher than every descriptor number that is given to a program.
const AWAY: i32 = 64;

/// Reaps processes until the program has ended or the server is gone. When this process exits, the kernel kills the rest of the jail.
fn watch(program: Pid, control: &OwnedFd, signals: &OwnedFd) -> ! {
    loop {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid == program {
                report(status, control);
            }
        }
        let mut fds = [PollFd::new(signals, PollFlags::IN), PollFd::new(control, PollFlags::IN | PollFlags::RDHUP)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => std::process::exit(EXIT_FAILED),
        }
        let deaf = fds[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL);
        if deaf || fds[1].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR | PollFlags::NVAL) {
            std::process::exit(EXIT_FAILED);
        }
        if fds[1].revents().contains(PollFlags::IN) && word::is_asked_to_end(control.as_fd()) {
            let _ = rustix::process::kill_process(program, Signal::TERM);
        }
        let mut drained = [0_u8; 1024];
        while rustix::io::read(signals, &mut drained).is_ok() {}
    }
}

fn report(status: WaitStatus, control: &OwnedFd) -> ! {
    let _ = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => word::say_exited(control.as_fd(), code),
        (None, signal) => word::say_signalled(control.as_fd(), signal.unwrap_or(0)),
    };
    std::process::exit(0);
}
