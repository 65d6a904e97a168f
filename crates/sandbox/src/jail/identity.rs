//! Steps 1, 3 and 4: dying with the parent, changing identity, and leaving the host's namespaces.

use super::{Failure, at};
use crate::error::Step;
use crate::sys;
use rustix::process::{DumpableBehavior, Signal};
use rustix::thread::{Gid, Uid};

/// The uid and gid of the program inside its user namespace. Never 0: a process that is root in any namespace reaches more of the kernel.
const ID_INSIDE: u32 = 65534;

/// How many inotify queues and watches a run may have, in its own user namespace. Without these limits, one run could take all that the
/// host's user may have.
const WATCHES: [(&str, &str); 2] = [("max_inotify_instances", "8"), ("max_inotify_watches", "1024")];

/// Asks the kernel to kill this process when its parent dies, and makes sure that the parent is not dead already.
///
/// The kernel clears this setting when the uid changes and at a fork, so it must be set again after both.
pub(super) fn die_with_parent(parent: Option<i32>) -> Result<(), Failure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(at(Step::ParentDeath, "asking to die with the server"))?;
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    match parent {
        Some(expected) if now != Some(expected) => Err(Failure::new(Step::ParentDeath, "looking for the server", "it is gone")),
        Some(_) | None => Ok(()),
    }
}

/// When the host runs out of memory, the kernel kills jails first: before the server, and before everybody else.
pub(super) fn die_before_others() -> Result<(), Failure> {
    const FILE: &str = "/proc/self/oom_score_adj";
    const FIRST: &str = "1000";
    std::fs::write(FILE, FIRST).map_err(at(Step::ParentDeath, "asking to be killed first"))?;
    let now = std::fs::read_to_string(FILE).map_err(at(Step::ParentDeath, "asking to be killed first"))?;
    if now.trim() == FIRST {
        Ok(())
    } else {
        Err(Failure::new(Step::ParentDeath, "asking to be killed first", "the kernel did not take it"))
    }
}

/// Until the program is executed, no other process can read our memory or take our descriptors.
pub(super) fn undumpable() -> Result<(), Failure> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(at(Step::ParentDeath, "hiding the jail's memory"))
}

pub(super) fn become_id(id: u32) -> Result<(), Failure> {
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    rustix::thread::set_thread_groups(&[]).map_err(at(Step::Identity, "leaving all groups"))?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(at(Step::Identity, format_args!("becoming gid `{id}`")))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(at(Step::Identity, format_args!("becoming uid `{id}`")))
}

pub(super) fn leave_namespaces(flags: i32) -> Result<(), Failure> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    sys::unshare(flags).map_err(at(Step::Namespaces, "leaving the host's namespaces"))?;
    // The map files in `/proc/self` belong to this process only while it is dumpable.
    let visible = |behavior| rustix::process::set_dumpable_behavior(behavior).map_err(at(Step::Namespaces, "owning the maps"));
    visible(DumpableBehavior::Dumpable)?;
    write_map("setgroups", "deny")?;
    write_map("uid_map", &format!("{ID_INSIDE} {uid} 1\n"))?;
    write_map("gid_map", &format!("{ID_INSIDE} {gid} 1\n"))?;
    for (name, most) in WATCHES {
        // Where the kernel's settings are read-only, the limits of the host's user apply.
        let _ = std::fs::write(format!("/proc/sys/user/{name}"), most);
    }
    visible(DumpableBehavior::NotDumpable)
}

fn write_map(name: &str, text: &str) -> Result<(), Failure> {
    std::fs::write(format!("/proc/self/{name}"), text).map_err(at(Step::Namespaces, format_args!("writing `{name}`")))
}
