//! Tries each thing a jail needs and prints the result for the probes: one line each, `name=ok` or `name=<why not>`.

use super::{Failure, identity, mounts};
use crate::probes::UID_FIRST;
use crate::sys::{self, Fork};
use rustix::process::WaitOptions;
use std::io::Write;

/// The argument that makes a jail only try things and report.
pub(super) const WORD: &str = "try";

pub(super) const NAMESPACES: i32 =
    libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
pub(super) const MORE_NAMESPACES: i32 = libc::CLONE_NEWCGROUP | libc::CLONE_NEWTIME;

pub(super) fn run() -> ! {
    let _ = identity::die_with_parent(None);
    if rustix::process::geteuid().is_root() {
        // If this fails because the uid is not mapped, the `uid` probe reports it.
        let _ = identity::become_id(UID_FIRST);
    }
    say("namespaces", identity::leave_namespaces(NAMESPACES).map_err(|failure| failure.why));
    say("more_namespaces", sys::unshare(MORE_NAMESPACES).map_err(|error| error.to_string()));
    // The rest must run inside the new pid namespace: a `/proc` belongs to the namespace of the process that mounts it.
    match sys::fork() {
        Ok(Fork::Child) => {
            say("tmpfs", mounts::try_tmpfs().map_err(|failure: Failure| failure.why));
            say("overlay", mounts::try_overlay());
            say("proc", mounts::try_proc());
        }
        Ok(Fork::Parent(child)) => {
            let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
        }
        Err(error) => say("tmpfs", Err(error.to_string())),
    }
    std::process::exit(0);
}

fn say(name: &str, tried: Result<(), String>) {
    let value = tried.err().unwrap_or_else(|| "ok".to_owned());
    let _ = writeln!(std::io::stdout(), "{name}={value}");
}
