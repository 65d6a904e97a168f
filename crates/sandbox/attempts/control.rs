//! The control: runs an attempt without the jail to show that it would do harm. It runs only inside namespaces that are made for it and
//! discarded after.

use crate::sys::call;
use crate::{Place, files::text, run, say, sys};
use std::fs;
use std::path::PathBuf;

/// The exit code when the runner is not contained, or cannot become so.
const EXIT_REFUSED: i32 = 99;

/// The line a contained runner prints, which one started by hand does not.
const CONTAINED: &str = "contained";

pub(crate) fn main(name: &str) -> i32 {
    let before = NAMESPACES.map(|namespace| of("self", namespace));
    if name == "without-containment" {
        // Shows what the runner does without containment: it refuses to start.
        return attempt("nothing", &before);
    }
    let flags = libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC | libc::CLONE_NEWPID | libc::CLONE_NEWNET;
    if let Err(error) = call(libc::SYS_unshare, &[&i64::from(flags)]) {
        return refuse(&format!("no throw-away namespaces: errno {error}"));
    }
    let private = call(libc::SYS_mount, &[&text("none"), &text("/"), &text(""), &((libc::MS_REC | libc::MS_PRIVATE) as i64)]);
    // A mount namespace has its own view of the host's files, not a copy of them, so every mount, `/sys` too, is made read-only.
    let read_only = [[libc::MS_RDONLY, 0, 0, 0]];
    let here = i64::from(libc::AT_FDCWD);
    let sealed = call(libc::SYS_mount_setattr, &[&here, &text("/"), &i64::from(libc::AT_RECURSIVE), &read_only, &32_i64]);
    let scratch = call(libc::SYS_mount, &[&text("tmpfs"), &text("/mnt"), &text("tmpfs"), &0_i64, &text("size=64m,nr_inodes=4096")]);
    if let Err(error) = private.and(sealed).and(scratch) {
        return refuse(&format!("the throw-away namespaces could not be closed: errno {error}"));
    }
    // The new pid namespace begins with the first child. When that child ends, the kernel kills everything in the namespace.
    match sys::in_child(|| attempt(name, &before)) {
        Ok(sys::Child::Answered(code)) => code,
        Ok(sys::Child::Signalled(signal)) => 100 + signal,
        Err(error) => refuse(&error),
    }
}

/// The namespaces in which an attempt could do the most harm.
const NAMESPACES: [&str; 2] = ["mnt", "uts"];

fn of(pid: &str, namespace: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/{namespace}")).ok()
}

fn attempt(name: &str, before: &[Option<PathBuf>; 2]) -> i32 {
    // SECURITY: the containment is checked again here, with the kernel, whatever the caller says. `/proc` is still the host's, so process 1
    // is the host's too. Where a host does not reveal the namespaces of its process 1, those in which this runner was started are compared
    // instead.
    for (namespace, before) in NAMESPACES.into_iter().zip(before) {
        let host = of("1", namespace);
        let shares = match (of("self", namespace), before) {
            (Some(own), Some(before)) => own == *before || host.is_some_and(|host| own == host),
            _ => true,
        };
        if shares {
            return refuse(&format!("it shares the `{namespace}` namespace of process 1, or cannot tell"));
        }
    }
    if let Err(error) = call(libc::SYS_mount, &[&text("proc"), &text("/proc"), &text("proc"), &0_i64]) {
        return refuse(&format!("no `/proc` of its own: errno {error}"));
    }
    let place = Place {
        stage: "/mnt/stage".into(),
        scratch: "/mnt/scratch".into(),
        victim: "/mnt/victim".into(),
        visible: "/mnt/visible".into(),
        server: 1,
    };
    let made = [&place.stage, &place.scratch, &place.visible].into_iter().try_for_each(fs::create_dir);
    let made = made.and_then(|()| fs::write(&place.victim, "untouched"));
    let made = made.and_then(|()| fs::write(format!("{}/os-release", place.visible), ""));
    sys::leak_ring();
    if made.is_err() || std::env::set_current_dir(&place.stage).is_err() {
        return refuse("no place to try it in");
    }
    say(CONTAINED);
    run(name, &place)
}

fn refuse(why: &str) -> i32 {
    say(&format!("refused={why}"));
    EXIT_REFUSED
}
