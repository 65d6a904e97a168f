//! Attempts on processes, the kernel and the network.

use super::Row;
use super::Without::{Is, Nothing, Other};

/// The lists of mounts of a process whose mounts cannot be reached.
const NO_MOUNTS: &str = "[Some(\"\"), Some(\"\"), Some(\"\")]";

pub(super) const ROWS: &[Row] = &[
    Row {
        attempt: "proc_inspect_server",
        answers: &[
            ("ptrace_server", "EPERM", "SIGSYS", Is("ok")),
            ("vm_server", "EPERM", "SIGSYS", Is("ok")),
            ("vm_write_server", "EPERM", "SIGSYS", Is("ok")),
            ("ptrace_init", "EPERM", "SIGSYS", Is("ok")),
            ("vm_init", "EPERM", "SIGSYS", Is("ok")),
            ("vm_write_init", "EPERM", "SIGSYS", Is("ok")),
            ("pidfd_getfd", "EPERM", "SIGSYS", Is("ok")),
        ],
    },
    Row {
        attempt: "proc_signals",
        answers: &[
            ("server", "ESRCH", "ESRCH", Is("ok")),
            ("server_kill", "ESRCH", "ESRCH", Is("ok")),
            ("server_thread", "ESRCH", "ESRCH", Is("ok")),
            ("init_stop", "EPERM", "EPERM", Is("ok")),
            ("init_kill", "EPERM", "EPERM", Is("ok")),
            ("pidfd_server", "ESRCH", "SIGSYS", Is("ok")),
            ("pidfd_init", "EPERM", "SIGSYS", Is("ok")),
            ("pidfd_proc", "ENOENT", "ENOENT", Is("ok")),
            // The signal reaches only processes in the same jail: the server survives it and reports.
            ("everyone", "ok", "ok", Is("ok")),
            ("bystander", "15", "15", Is("15")),
            ("alive", "ok", "ok", Is("ok")),
        ],
    },
    Row { attempt: "proc_double_fork_survivor", answers: &[("left", "ok", "ok", Is("ok"))] },
    Row {
        attempt: "proc_exec_from_stage",
        answers: &[
            ("exec", "EACCES", "SIGSYS", Is("ok")),
            ("fexecve", "EACCES", "SIGSYS", Is("ok")),
            ("map", "EPERM", "EPERM", Is("ok")),
            ("scratch_exec", "EACCES", "SIGSYS", Is("ok")),
            ("scratch_fexecve", "EACCES", "SIGSYS", Is("ok")),
            ("scratch_map", "EPERM", "EPERM", Is("ok")),
        ],
    },
    Row {
        attempt: "proc_memfd_exec",
        answers: &[("memfd_create", "EPERM", "SIGSYS", Is("ok")), ("memfd_secret", "EPERM", "SIGSYS", Other)],
    },
    Row {
        attempt: "proc_setuid_binary",
        answers: &[
            ("/usr/bin/su", "ENOENT", "ENOENT", Other),
            ("/usr/bin/mount", "ENOENT", "ENOENT", Other),
            ("/bin/su", "ENOENT", "ENOENT", Other),
            ("setuid", "EINVAL", "SIGSYS", Is("ok")),
        ],
    },
    Row {
        attempt: "proc_nested_userns",
        answers: &[
            ("unshare", "EPERM", "SIGSYS", Is("ok")),
            ("clone", "EPERM", "EPERM", Is("ok")),
            ("clone3", "ENOSYS", "ENOSYS", Is("ok")),
        ],
    },
    Row { attempt: "proc_setns", answers: &[("setns", "EPERM", "SIGSYS", Is("ok"))] },
    Row {
        attempt: "proc_foreign_abi",
        answers: &[
            ("int80", "SIGSYS", "SIGSYS", Other),
            ("x32", "SIGSYS", "SIGSYS", Other),
            ("personality", "EPERM", "EPERM", Is("ok")),
            ("modify_ldt", "EPERM", "SIGSYS", Other),
        ],
    },
    Row { attempt: "proc_seccomp_listener", answers: &[("listener", "EPERM", "EPERM", Is("ok")), ("prctl", "EPERM", "EPERM", Is("ok"))] },
    Row {
        attempt: "proc_kernel_surfaces",
        answers: &[
            ("aio", "EPERM", "SIGSYS", Other),
            ("vmsplice", "EPERM", "SIGSYS", Is("ok")),
            ("lease", "EPERM", "EPERM", Is("ok")),
            ("keyctl", "EPERM", "SIGSYS", Other),
            ("add_key", "EPERM", "SIGSYS", Other),
            ("bpf", "EPERM", "SIGSYS", Other),
            ("perf", "EPERM", "SIGSYS", Other),
            ("userfaultfd", "EPERM", "SIGSYS", Other),
            ("io_uring", "ENOSYS", "ENOSYS", Other),
            ("ring_open", "EBADF", "EBADF", Is("ok")),
            ("ring_map", "EBADF", "EBADF", Is("ok")),
            ("ring_enter", "ENOSYS", "SIGSYS", Is("ok")),
            ("ring_register", "ENOSYS", "SIGSYS", Other),
        ],
    },
    Row {
        attempt: "ipc_sysv_mq",
        answers: &[
            ("shmget", "EPERM", "SIGSYS", Is("ok")),
            ("msgget", "EPERM", "SIGSYS", Is("ok")),
            ("semget", "EPERM", "SIGSYS", Is("ok")),
            ("mq_open", "EPERM", "SIGSYS", Is("ok")),
        ],
    },
    Row {
        attempt: "tty_injection",
        answers: &[("tiocsti", "EPERM", "EPERM", Other), ("tioclinux", "EPERM", "EPERM", Other), ("tty", "ENOENT", "ENOENT", Other)],
    },
    Row {
        attempt: "dev_nodes",
        answers: &[
            ("/dev/zero", "ENOENT", "ENOENT", Is("ok")),
            ("/dev/shm", "ENOENT", "ENOENT", Is("ok")),
            ("/dev/pts", "ENOENT", "ENOENT", Is("ok")),
            // Not every machine has these four.
            ("/dev/kvm", "ENOENT", "ENOENT", Nothing),
            ("/dev/fuse", "ENOENT", "ENOENT", Nothing),
            ("/dev/mem", "ENOENT", "ENOENT", Nothing),
            ("/dev/net/tun", "ENOENT", "ENOENT", Nothing),
            ("/dev/random", "ENOENT", "ENOENT", Is("ok")),
            ("null", "ok", "ok", Is("ok")),
            ("urandom", "ok", "ok", Is("ok")),
        ],
    },
    Row {
        attempt: "kernel_writes",
        answers: &[
            ("/proc/sys/kernel/core_pattern", "ENOENT", "ENOENT", Is("ok")),
            ("/proc/sys/kernel/hostname", "ENOENT", "ENOENT", Is("ok")),
            ("/proc/sysrq-trigger", "ENOENT", "ENOENT", Nothing),
            ("/sys/kernel/uevent_helper", "ENOENT", "ENOENT", Nothing),
            ("/sys/fs/cgroup/release_agent", "ENOENT", "ENOENT", Nothing),
            ("/sys/fs/cgroup/memory/release_agent", "ENOENT", "ENOENT", Nothing),
            ("/sys/fs/cgroup/cgroup.procs", "ENOENT", "ENOENT", Nothing),
            ("cgroup_mount", "EPERM", "SIGSYS", Is("ok")),
            ("oom_score_adj", "EROFS", "EROFS", Is("ok")),
            ("killed_first", "1000", "1000", Other),
            ("uid_map", "EROFS", "EROFS", Is("ok")),
            ("hostname", "EPERM", "SIGSYS", Is("ok")),
        ],
    },
    Row {
        attempt: "leak_mountinfo",
        answers: &[
            ("own", NO_MOUNTS, NO_MOUNTS, Other),
            ("child", NO_MOUNTS, NO_MOUNTS, Other),
            ("init", "[None, None, None]", "[None, None, None]", Other),
        ],
    },
    Row { attempt: "clock", answers: &[("clock_settime", "EPERM", "SIGSYS", Is("EINVAL")), ("timer_slack", "EPERM", "EPERM", Is("ok"))] },
    Row {
        attempt: "mounts",
        answers: &[
            ("mount", "EPERM", "SIGSYS", Is("ok")),
            ("umount", "EPERM", "SIGSYS", Is("ok")),
            ("chroot", "EPERM", "SIGSYS", Is("ok")),
            ("fsopen", "EPERM", "SIGSYS", Is("ok")),
            ("open_tree", "EPERM", "SIGSYS", Is("ok")),
            ("open_tree_attr", "EPERM", "SIGSYS", Other),
            ("statmount", "EPERM", "SIGSYS", Other),
            ("listmount", "EPERM", "SIGSYS", Other),
        ],
    },
    Row {
        attempt: "net_inet",
        answers: &[
            ("tcp", "EPERM", "EPERM", Is("ok")),
            ("tcp6", "EPERM", "EPERM", Other),
            ("udp", "EPERM", "EPERM", Is("ok")),
            ("raw", "EPERM", "EPERM", Is("ok")),
            ("ping", "EPERM", "EPERM", Other),
            ("mptcp", "EPERM", "EPERM", Other),
            ("sctp", "EPERM", "EPERM", Other),
        ],
    },
    Row {
        attempt: "net_families",
        answers: &[
            ("packet", "EPERM", "EPERM", Is("ok")),
            ("netlink", "EPERM", "EPERM", Is("ok")),
            ("vsock", "EPERM", "EPERM", Other),
            ("alg", "EPERM", "EPERM", Other),
            ("bluetooth", "EPERM", "EPERM", Other),
            ("xdp", "EPERM", "EPERM", Other),
            ("tipc", "EPERM", "EPERM", Other),
        ],
    },
    Row {
        attempt: "net_unix",
        answers: &[
            ("stream", "EPERM", "EPERM", Is("ok")),
            ("datagram", "EPERM", "EPERM", Is("ok")),
            ("pathname", "EPERM", "EPERM", Is("ok")),
            ("pathname_datagram", "EPERM", "EPERM", Is("ok")),
            ("abstract", "EPERM", "EPERM", Is("ok")),
            ("/run/docker.sock", "EPERM", "EPERM", Other),
            ("/run/containerd/containerd.sock", "EPERM", "EPERM", Other),
            ("/run/dbus/system_bus_socket", "EPERM", "EPERM", Other),
            ("/run/systemd/private", "EPERM", "EPERM", Other),
            ("pair", "ok", "ok", Is("ok")),
            ("pair_connect", "EPERM", "EPERM", Other),
            ("pair_sends_out", "EPERM", "EPERM", Is("ok")),
            ("raw_pair_sends_out", "EPERM", "EPERM", Is("ok")),
            ("stream_pair_sends_out", "EISCONN", "EISCONN", Is("EISCONN")),
            ("program", "EBADF", "EBADF", Nothing),
            ("control", "EBADF", "EBADF", Nothing),
            ("rights_of_its_own", "ok", "ok", Is("ok")),
        ],
    },
    Row {
        attempt: "net_egress_fd",
        answers: &[("write", "ok", "ok", Nothing), ("connect", "EPERM", "EPERM", Nothing), ("rights", "EAGAIN", "EAGAIN", Nothing)],
    },
];
