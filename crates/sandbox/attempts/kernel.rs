//! Attempts on the kernel itself: its less used system calls, its settings, its devices.

use crate::answer::{Attempt, errno, name, try_one};
use crate::files::text;
use crate::sys::{self, call};
use crate::{Place, say};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsRawFd;

pub(crate) const ALL: &[(&str, Attempt)] = &[
    ("proc_seccomp_listener", seccomp_listener),
    ("proc_kernel_surfaces", kernel_surfaces),
    ("ipc_sysv_mq", sysv_mq),
    ("tty_injection", tty_injection),
    ("dev_nodes", dev_nodes),
    ("kernel_writes", kernel_writes),
    ("kernel_watches", watches),
    ("clock", clock),
    ("mounts", mounts),
];

fn seccomp_listener(_: &Place) {
    let allow = [[0x06_u64 | (0x7fff_0000 << 32)]];
    let program = [[1_u64, allow.as_ptr() as u64]];
    let new_listener = 8_i64;
    try_one("listener", || call(libc::SYS_seccomp, &[&1_i64, &new_listener, &program]).map(drop));
    try_one("prctl", || call(libc::SYS_prctl, &[&i64::from(libc::PR_SET_SECCOMP), &2_i64, &program]).map(drop));
}

fn kernel_surfaces(place: &Place) {
    try_one("aio", || {
        let context = [0_u64];
        call(libc::SYS_io_setup, &[&1_i64, &context]).map(drop)
    });
    try_one("vmsplice", || {
        let (ends, bytes) = ([[0_i32; 2]], [0_u8; 8]);
        call(libc::SYS_pipe2, &[&ends, &0_i64])?;
        let vector = [[bytes.as_ptr() as usize, bytes.len()]];
        call(libc::SYS_vmsplice, &[&i64::from(ends[0][1]), &vector, &1_i64, &0_i64]).map(drop)
    });
    try_one("lease", || {
        let path = format!("{}/leased", place.stage);
        errno(fs::write(&path, ""))?;
        let file = errno(fs::File::open(&path))?;
        call(libc::SYS_fcntl, &[&i64::from(file.as_raw_fd()), &i64::from(libc::F_SETLEASE), &i64::from(libc::F_RDLCK)]).map(drop)
    });
    try_one("keyctl", || call(libc::SYS_keyctl, &[&0_i64, &-3_i64, &1_i64]).map(drop));
    try_one("add_key", || call(libc::SYS_add_key, &[&text("user"), &text("a"), &text("b"), &1_i64, &-2_i64]).map(drop));
    try_one("bpf", || {
        let map = [[1_u32, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]];
        call(libc::SYS_bpf, &[&0_i64, &map, &64_i64]).map(drop)
    });
    try_one("perf", || {
        let mut event = [[0_u32; 32]];
        event[0][0] = 1;
        event[0][1] = 128;
        call(libc::SYS_perf_event_open, &[&event, &0_i64, &-1_i64, &-1_i64, &0_i64]).map(drop)
    });
    try_one("userfaultfd", || call(libc::SYS_userfaultfd, &[&0_i64]).map(drop));
    try_one("io_uring", || {
        let parameters = [[0_u64; 15]];
        call(libc::SYS_io_uring_setup, &[&1_i64, &parameters]).map(drop)
    });
    // A ring that the server left open must not be here, and even with one, no call could make it work.
    try_one("ring_open", || call(libc::SYS_fcntl, &[&sys::RING, &i64::from(libc::F_GETFD)]).map(drop));
    try_one("ring_map", sys::map_ring);
    try_one("ring_enter", || call(libc::SYS_io_uring_enter, &[&sys::RING, &0_i64, &0_i64, &0_i64, &0_i64, &0_i64]).map(drop));
    try_one("ring_register", || call(libc::SYS_io_uring_register, &[&sys::RING, &3_i64, &0_i64, &0_i64]).map(drop));
}

/// A key that no other program has: PostgreSQL takes the inode of its folder, which can be any small number.
const IPC_KEY: i64 = 2_000_000_007;

fn sysv_mq(_: &Place) {
    try_one("shmget", || call(libc::SYS_shmget, &[&IPC_KEY, &4096_i64, &0o1600_i64]).map(drop));
    try_one("msgget", || call(libc::SYS_msgget, &[&IPC_KEY, &0o1600_i64]).map(drop));
    try_one("semget", || call(libc::SYS_semget, &[&IPC_KEY, &1_i64, &0o1600_i64]).map(drop));
    try_one("mq_open", || call(libc::SYS_mq_open, &[&text("a"), &0o102_i64, &0o600_i64, &0_i64]).map(drop));
}

fn tty_injection(_: &Place) {
    try_one("tiocsti", || call(libc::SYS_ioctl, &[&0_i64, &(libc::TIOCSTI as i64), &text("a")]).map(drop));
    try_one("tioclinux", || call(libc::SYS_ioctl, &[&0_i64, &(libc::TIOCLINUX as i64), &text("a")]).map(drop));
    try_one("tty", || errno(fs::File::open("/dev/tty")).map(drop));
}

fn dev_nodes(_: &Place) {
    for path in ["/dev/zero", "/dev/shm", "/dev/kvm", "/dev/fuse", "/dev/mem", "/dev/pts", "/dev/net/tun", "/dev/random"] {
        try_one(path, || errno(fs::metadata(path)).map(drop));
    }
    try_one("null", || errno(fs::OpenOptions::new().read(true).write(true).open("/dev/null")).map(drop));
    try_one("urandom", || errno(fs::File::open("/dev/urandom")).map(drop));
}

fn kernel_writes(place: &Place) {
    // Opened for writing, but nothing is written: these settings belong to the whole machine.
    let open = |path: &str| errno(fs::OpenOptions::new().write(true).open(path)).map(drop);
    for path in ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"] {
        try_one(path, || open(path));
    }
    for path in ["/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/cgroup.procs"] {
        try_one(path, || open(path));
    }
    // A program that can mount cgroups could make the kernel start a program of its choice as root. This only tries the mount and writes
    // nothing.
    let (kind, stage) = (text("cgroup2"), text(&place.stage));
    try_one("cgroup_mount", || call(libc::SYS_mount, &[&kind, &stage, &kind, &0_i64, &0_i64]).map(drop));
    try_one("oom_score_adj", || open("/proc/self/oom_score_adj"));
    say(&format!("killed_first={}", fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default().trim()));
    try_one("uid_map", || open("/proc/self/uid_map"));
    try_one("hostname", || call(libc::SYS_sethostname, &[&text("taken"), &5_i64]).map(drop));
}

/// Takes as many queues and watches of inotify as it gets: what a host's user may have of them is shared by all that user runs.
fn watches(place: &Place) {
    let mut queues = vec![];
    let full = loop {
        match call(libc::SYS_inotify_init1, &[&0_i64]) {
            Ok(queue) => queues.push(queue),
            Err(error) => break error,
        }
    };
    say(&format!("queues={}\nno_more_queues={}", queues.len(), name(full)));
    let (mut ahead, mut watched) = (vec![std::path::PathBuf::from(&place.visible)], BTreeSet::new());
    while let (Some(folder), Some(queue)) = (ahead.pop(), queues.first()) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            ahead.extend(entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| entry.path()));
            match call(libc::SYS_inotify_add_watch, &[queue, &text(&entry.path().to_string_lossy()), &2_i64]) {
                Err(libc::ENOSPC) => return say(&format!("watches={}", watched.len())),
                Ok(watch) => drop(watched.insert(watch)),
                Err(_) => {}
            }
            if watched.len() > WATCHES_TRIED {
                return say("watches=too many");
            }
        }
    }
}

/// More watches than a run may have, and far fewer than a host has.
const WATCHES_TRIED: usize = 2000;

fn clock(_: &Place) {
    // The time is invalid: a process that may set the clock gets an error for that, and the clock stays as it is.
    let wrong = [[0_i64, -1]];
    try_one("clock_settime", || call(libc::SYS_clock_settime, &[&0_i64, &wrong]).map(drop));
    try_one("timer_slack", || call(libc::SYS_prctl, &[&i64::from(libc::PR_SET_TIMERSLACK), &1_i64]).map(drop));
}

fn mounts(place: &Place) {
    let (tmpfs, stage) = (text("tmpfs"), text(&place.stage));
    try_one("mount", || call(libc::SYS_mount, &[&tmpfs, &stage, &tmpfs, &0_i64, &0_i64]).map(drop));
    try_one("umount", || call(libc::SYS_umount2, &[&stage, &2_i64]).map(drop));
    try_one("chroot", || call(libc::SYS_chroot, &[&stage]).map(drop));
    try_one("fsopen", || call(libc::SYS_fsopen, &[&tmpfs, &0_i64]).map(drop));
    try_one("open_tree", || call(libc::SYS_open_tree, &[&i64::from(libc::AT_FDCWD), &stage, &1_i64]).map(drop));
    try_one("open_tree_attr", || call(OPEN_TREE_ATTR, &[&i64::from(libc::AT_FDCWD), &stage, &1_i64]).map(drop));
    // The request names the root of the namespace.
    let (root, found) = ([[24_u64, u64::MAX, 0]], [[0_u64; 64]]);
    try_one("statmount", || call(STATMOUNT, &[&root, &found, &512_i64, &0_i64]).map(drop));
    try_one("listmount", || call(LISTMOUNT, &[&root, &found, &64_i64, &0_i64]).map(drop));
}

/// Calls newer than the numbers in the `libc` crate.
const STATMOUNT: i64 = 457;
const LISTMOUNT: i64 = 458;
const OPEN_TREE_ATTR: i64 = 467;
