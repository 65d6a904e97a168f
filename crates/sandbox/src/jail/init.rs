//! Step 5: process 1. It mounts, starts the program, reaps whoever is left to it, and reports how the program ended.
//!
//! Inside its namespace nobody can signal it. When it ends, the kernel kills everyone else there.

use super::{EXIT_FAILED, Failure, at, fail, identity, lock, mounts};
use crate::error::Step;
use crate::orders::Packet;
use crate::sys::{self, Fork};
use crate::word;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, WaitOptions, WaitStatus};
use std::convert::Infallible;
use std::os::fd::{AsFd, OwnedFd};

pub(super) fn run(packet: Packet, control: &OwnedFd, program: OwnedFd, trees: Option<Vec<mounts::Tree>>) -> Result<Infallible, Failure> {
    // Our parent is outside our pid namespace and seen as 0, alive or not; the control socket tells whether the server is there.
    identity::die_with_parent(None)?;
    let trees = trees.map_or_else(|| mounts::open_trees(&packet.orders), Ok)?;
    let mounted = mounts::build(&packet, trees)?;
    sys::set_host_name(c"jail").map_err(at(Step::Mounts, "naming the host"))?;

    // The server holds the stage and our handle before anything of the program runs.
    let me =
        rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).map_err(at(Step::Init, "opening our own handle"))?;
    word::say_ready(control.as_fd(), mounted.stage.as_fd(), me.as_fd(), mounted.proc).map_err(at(Step::Init, "handing over the stage"))?;
    drop((me, mounted.stage));

    let signals = sys::child_signals().map_err(at(Step::Init, "listening for ends of processes"))?;
    match sys::fork().map_err(at(Step::Init, "forking"))? {
        Fork::Child => {
            drop(signals);
            match lock::become_program(packet, program, mounted.proc) {
                Ok(never) => match never {},
                Err(failure) => fail(control, &failure),
            }
        }
        Fork::Parent(child) => {
            drop((program, packet));
            super::close_programs();
            let _ = lock::forget_capabilities();
            watch(child, control, &signals)
        }
    }
}

/// Reaps until the program has ended or the server is gone. Ending here ends everyone.
fn watch(program: Pid, control: &OwnedFd, signals: &OwnedFd) -> ! {
    loop {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid == program {
                report(status, control);
            }
        }
        let mut fds = [PollFd::new(signals, PollFlags::IN), PollFd::new(control, PollFlags::RDHUP)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => std::process::exit(EXIT_FAILED),
        }
        if fds[1].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR) {
            std::process::exit(EXIT_FAILED);
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
