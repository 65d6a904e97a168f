//! Attempts on other processes, and on exceeding the permitted number of processes and rights.

use crate::answer::{Attempt, errno, name, try_one};
use crate::files::text;
use crate::sys::{self, call};
use crate::{Place, say};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

pub(crate) const ALL: &[(&str, Attempt)] = &[
    ("proc_inspect_server", inspect_server),
    ("proc_signals", signals),
    ("proc_signals_to_all", signals_to_all),
    ("proc_signals_stopped", signals_stopped),
    ("proc_double_fork_survivor", double_fork),
    ("proc_fork_bomb", fork_bomb),
    ("proc_thread_bomb", thread_bomb),
    ("proc_vfork_bomb", vfork_bomb),
    ("proc_bomb_held", bomb_held),
    ("proc_neighbour", neighbour),
    ("proc_exec_from_stage", exec_from_stage),
    ("proc_memfd_exec", memfd_exec),
    ("proc_setuid_binary", setuid_binary),
    ("proc_nested_userns", nested_userns),
    ("proc_setns", setns),
    ("proc_foreign_abi", foreign_abi),
    ("leak_env_argv", leak_env_argv),
    ("leak_fds", leak_fds),
    ("leak_mountinfo", leak_mountinfo),
    ("core_dump_to_pipe", core_dump),
];

fn inspect_server(place: &Place) {
    let server = i64::from(place.server);
    let buffer = [[0_u8; 8]];
    let vector = [[buffer.as_ptr() as usize, 8]];
    for (label, pid) in [("server", server), ("init", 1)] {
        // `PTRACE_SEIZE` does not stop the process it hits.
        try_one(&format!("ptrace_{label}"), || call(libc::SYS_ptrace, &[&i64::from(libc::PTRACE_SEIZE), &pid]).map(drop));
        try_one(&format!("vm_{label}"), || call(libc::SYS_process_vm_readv, &[&pid, &vector, &1_i64, &vector, &1_i64]).map(drop));
        // Nothing is written: with a length of 0 the kernel only checks whether the caller may write.
        try_one(&format!("vm_write_{label}"), || call(libc::SYS_process_vm_writev, &[&pid, &vector, &0_i64, &vector, &0_i64]).map(drop));
    }
    try_one("pidfd_getfd", || {
        let own = call(libc::SYS_pidfd_open, &[&i64::from(std::process::id())])?;
        call(libc::SYS_pidfd_getfd, &[&own, &1_i64, &0_i64]).map(drop)
    });
}

fn signals(place: &Place) {
    let (server, kill) = (i64::from(place.server), i64::from(libc::SIGKILL));
    try_one("server", || call(libc::SYS_kill, &[&server, &0_i64]).map(drop));
    try_one("server_kill", || call(libc::SYS_kill, &[&server, &kill]).map(drop));
    try_one("server_thread", || call(libc::SYS_tgkill, &[&server, &server, &kill]).map(drop));
    try_one("init_stop", || call(libc::SYS_kill, &[&1_i64, &i64::from(libc::SIGSTOP)]).map(drop));
    try_one("init_kill", || call(libc::SYS_kill, &[&1_i64, &kill]).map(drop));
    try_one("pidfd_server", || call(libc::SYS_pidfd_open, &[&server, &0_i64]).map(drop));
    try_one("pidfd_init", || {
        let init = call(libc::SYS_pidfd_open, &[&1_i64, &0_i64])?;
        call(libc::SYS_pidfd_send_signal, &[&init, &kill, &0_i64, &0_i64]).map(drop)
    });
    // An open folder of `/proc` also works as a handle of its process.
    try_one("pidfd_proc", || {
        let folder = errno(fs::File::open(format!("/proc/{}", place.server)))?;
        call(libc::SYS_pidfd_send_signal, &[&i64::from(folder.as_raw_fd()), &kill, &0_i64, &0_i64]).map(drop)
    });
    signals_to_everyone();
    say("alive=ok");
}

/// Signals every process that this one may signal: only those in the same jail.
fn signals_to_everyone() {
    // The bystander was forked before SIGTERM is ignored, so the signal kills it. Children forked later ignore it.
    let bystander = sys::leave_child(|| sys::sleep_for_ever());
    sys::ignore(libc::SIGTERM);
    try_one("everyone", || call(libc::SYS_kill, &[&-1_i64, &i64::from(libc::SIGTERM)]).map(drop));
    let ended = bystander.map_err(name).and_then(|pid| match sys::wait_for(pid)? {
        sys::Child::Signalled(signal) => Ok(signal.to_string()),
        sys::Child::Answered(_) => Ok("none".to_owned()),
    });
    say(&format!("bystander={}", ended.unwrap_or_else(|error| error)));
}

/// As above with SIGKILL, which cannot be ignored, sent by a child: the program itself dies of it.
fn signals_to_all(_: &Place) {
    say("begun=ok");
    let _ = sys::leave_child(|| {
        let _ = call(libc::SYS_kill, &[&-1_i64, &i64::from(libc::SIGKILL)]);
    });
    sys::sleep_for_ever();
}

/// Tries to stop process 1, which watches it, and then itself: after that, only the deadline can end the run.
fn signals_stopped(_: &Place) {
    say("begun=ok");
    let stop = i64::from(libc::SIGSTOP);
    let _ = call(libc::SYS_kill, &[&1_i64, &stop]);
    let _ = call(libc::SYS_kill, &[&0_i64, &stop]);
    sys::sleep_for_ever();
}

fn double_fork(_: &Place) {
    let made = sys::leave_child(|| {
        let _ = call(libc::SYS_setsid, &[]);
        let _ = sys::leave_child(|| sys::sleep_for_ever());
    });
    say(&format!("left={}", if made.is_ok() { "ok" } else { "failed" }));
}

fn fork_bomb(_: &Place) {
    let mut made = 0;
    let stopped = loop {
        match sys::leave_child(|| sys::sleep_for_ever()) {
            Ok(_) => made += 1,
            Err(error) => break name(error),
        }
        if made == 10_000 {
            break "never".into();
        }
    };
    say(&format!("made={made}\nstopped={stopped}"));
}

fn thread_bomb(_: &Place) {
    let mut made = 0;
    let stopped = loop {
        match std::thread::Builder::new().stack_size(16 << 10).spawn(|| sys::sleep_for_ever()) {
            Ok(_) => made += 1,
            Err(error) => break name(error.raw_os_error().unwrap_or(-1)),
        }
        if made == 10_000 {
            break "never".into();
        }
    };
    say(&format!("made={made}\nstopped={stopped}"));
}

/// Each process waits for its child, as with `vfork`. So they form a chain, and the last one reports.
fn vfork_bomb(_: &Place) {
    let mut made = 0;
    let flags = i64::from(libc::CLONE_VFORK | libc::SIGCHLD);
    let stopped = loop {
        match call(libc::SYS_clone, &[&flags, &0_i64, &0_i64, &0_i64, &0_i64]) {
            Ok(0) => made += 1,
            Ok(_) => return,
            Err(error) => break name(error),
        }
        if made == 10_000 {
            break "never".into();
        }
    };
    say(&format!("made={made}\nstopped={stopped}"));
}

/// Starts as many processes as it can, and prints a line when no more can be started.
fn bomb_held(_: &Place) {
    while sys::leave_child(|| sys::sleep_for_ever()).is_ok() {}
    let _ = std::io::Write::write_all(&mut std::io::stderr(), b"full\n");
    sys::sleep_for_ever();
}

/// Runs beside `bomb_held`: starts as many children as it may have.
fn neighbour(_: &Place) {
    let made = (0..32).take_while(|_| sys::leave_child(|| sys::sleep_for_ever()).is_ok()).count();
    say(&format!("made={made}"));
}

fn exec_from_stage(place: &Place) {
    exec_from(&place.stage, "");
    exec_from(&place.scratch, "scratch_");
}

fn exec_from(folder: &str, label: &str) {
    let path = format!("{folder}/program");
    let copied = errno(fs::copy("/usr/lib/os-release", &path));
    let _ = copied.and_then(|_| errno(fs::write(&path, b"\x7fELF")));
    try_one(&format!("{label}exec"), || {
        let file = errno(fs::OpenOptions::new().write(true).create(true).mode(0o700).open(format!("{path}.x")))?;
        drop(file);
        let null = [0_i64];
        match call(libc::SYS_execve, &[&text(&format!("{path}.x")), &null, &null]) {
            // For an empty executable file, the only error left is that its content is no program.
            Err(libc::ENOEXEC) => Ok(()),
            other => other.map(drop),
        }
    });
    try_one(&format!("{label}fexecve"), || {
        let file = errno(fs::File::open(format!("{path}.x")))?;
        let null = [0_i64];
        let empty = i64::from(libc::AT_EMPTY_PATH);
        match call(libc::SYS_execveat, &[&i64::from(file.as_raw_fd()), &text(""), &null, &null, &empty]) {
            Err(libc::ENOEXEC) => Ok(()),
            other => other.map(drop),
        }
    });
    try_one(&format!("{label}map"), || {
        let file = errno(fs::File::open(&path))?;
        sys::map_exec(file.as_raw_fd())
    });
}

fn memfd_exec(_: &Place) {
    try_one("memfd_create", || call(libc::SYS_memfd_create, &[&text("a"), &0_i64]).map(drop));
    try_one("memfd_secret", || call(libc::SYS_memfd_secret, &[&0_i64]).map(drop));
}

fn setuid_binary(_: &Place) {
    for path in ["/usr/bin/su", "/usr/bin/mount", "/bin/su"] {
        try_one(path, || errno(fs::metadata(path)).map(drop));
    }
    try_one("setuid", || call(libc::SYS_setuid, &[&0_i64]).map(drop));
    let uid = call(libc::SYS_getuid, &[]).unwrap_or(-1);
    say(&format!("uid={uid}"));
}

fn nested_userns(_: &Place) {
    let new_user = i64::from(libc::CLONE_NEWUSER);
    try_one("unshare", || call(libc::SYS_unshare, &[&new_user]).map(drop));
    try_one("clone", || match call(libc::SYS_clone, &[&(new_user | i64::from(libc::SIGCHLD))])? {
        0 => std::process::exit(0),
        _ => Ok(()),
    });
    let mut args = [[0_u64; 11]];
    args[0][0] = libc::CLONE_NEWUSER as u64;
    args[0][4] = libc::SIGCHLD as u64;
    try_one("clone3", || match call(libc::SYS_clone3, &[&args, &88_i64])? {
        0 => std::process::exit(0),
        _ => Ok(()),
    });
}

fn setns(_: &Place) {
    try_one("setns", || {
        let own = fs::File::open("/proc/self/ns/uts").ok();
        call(libc::SYS_setns, &[&own.map_or(0, |own| i64::from(std::os::fd::IntoRawFd::into_raw_fd(own))), &0_i64]).map(drop)
    });
}

fn foreign_abi(_: &Place) {
    #[cfg(target_arch = "x86_64")]
    try_one("int80", || if sys::int80() > 0 { Ok(()) } else { Err(libc::ENOSYS) });
    try_one("x32", || call(libc::SYS_getpid | 0x4000_0000, &[]).map(drop));
    try_one("personality", || call(libc::SYS_personality, &[&0x0004_0000_i64]).map(drop));
    #[cfg(target_arch = "x86_64")]
    try_one("modify_ldt", || {
        let space = [[0_u8; 16]];
        call(libc::SYS_modify_ldt, &[&0_i64, &space, &16_i64]).map(drop)
    });
}

fn leak_env_argv(_: &Place) {
    say(&format!("env={:?}", std::env::vars_os().collect::<Vec<_>>()));
    say(&format!("argv={:?}", std::env::args_os().collect::<Vec<_>>()));
    say(&format!("environ={:?}", fs::read("/proc/self/environ").map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).ok()));
}

fn leak_fds(_: &Place) {
    let open: Vec<String> =
        (0..2048_i64).filter(|fd| call(libc::SYS_fcntl, &[fd, &i64::from(libc::F_GETFD)]).is_ok()).map(|fd| fd.to_string()).collect();
    say(&format!("open={}", open.join(",")));
}

/// What `/proc` tells of the mounts, about this process, about a child and about process 1.
fn leak_mountinfo(_: &Place) {
    let list = |of: &str| ["mountinfo", "mounts", "mountstats"].map(|name| fs::read_to_string(format!("/proc/{of}/{name}")).ok());
    say(&format!("own={:?}", list("self")));
    say(&format!("init={:?}", list("1")));
    let _ = sys::in_child(|| {
        say(&format!("child={:?}", list("self")));
        0
    });
    say(&format!("shown={}", fs::metadata("/shown/victim").is_ok()));
}

fn core_dump(_: &Place) {
    say(&format!("limit={:?}", sys::core_limit()));
    sys::abort();
}
