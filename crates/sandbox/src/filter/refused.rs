//! The calls that every profile refuses: with EPERM, or with ENOSYS where programs have a fallback.

use super::{Failed, Rules, Sockets, when};
use crate::outcome::CgroupBackend;
use SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::SeccompCmpOp;

/// Calls that get EPERM.
pub(super) fn calls(sockets: Sockets) -> impl Iterator<Item = i64> {
    let sockets = match sockets {
        Sockets::None => SOCKETS,
        Sockets::Inet => &[],
    };
    #[cfg(target_arch = "x86_64")]
    let lists = [MOUNTS, OTHERS, KERNEL, HOARDS, sockets, SHARED, METADATA, LEGACY];
    #[cfg(not(target_arch = "x86_64"))]
    let lists = [MOUNTS, OTHERS, KERNEL, HOARDS, sockets, SHARED, METADATA];
    lists.into_iter().flatten().copied()
}

/// Calls that get ENOSYS, so that the C library and the interpreters fall back to calls whose arguments a filter can see.
pub(super) fn absent() -> impl Iterator<Item = i64> {
    [libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_openat2].into_iter()
}

/// Calls that would change the view of the file system, or enter another namespace.
const MOUNTS: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    SYS_STATMOUNT,
    SYS_LISTMOUNT,
    SYS_OPEN_TREE_ATTR,
];

/// Calls that reach another process's memory or descriptors, or affect how it runs.
const OTHERS: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
];

/// Parts of the kernel that no package needs, and in which most escapes begin.
const KERNEL: &[i64] = &[
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_seccomp,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_settimeofday,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
];

/// Calls that take what the host has only once, or hold memory that no process is charged for: native AIO has one limit for the whole
/// host, and a pipe into which a single byte of a huge page was moved keeps the whole page.
const HOARDS: &[i64] =
    &[libc::SYS_io_setup, libc::SYS_io_destroy, libc::SYS_io_submit, libc::SYS_io_cancel, libc::SYS_io_getevents, libc::SYS_vmsplice];

/// All calls that name a peer. `socketpair` stays allowed: a connected pair of streams is no network, and some runtimes give children their
/// pipes that way.
const SOCKETS: &[i64] = &[libc::SYS_socket, libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4];

/// Shared memory and queues that outlive a process and belong to no file.
const SHARED: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmdt,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Changes of ownership and extended attributes: Landlock does not cover them, and no program needs them. Landlock does not cover
/// permissions and timestamps either; on files that are not the program's own, read-only mounts protect those (`jail::mounts`).
const METADATA: &[i64] = &[
    libc::SYS_fchownat,
    libc::SYS_fchown,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
];

/// Calls newer than the numbers in the `libc` crate.
const SYS_STATMOUNT: i64 = 457;
const SYS_LISTMOUNT: i64 = 458;
const SYS_SETXATTRAT: i64 = 463;
const SYS_REMOVEXATTRAT: i64 = 466;
const SYS_OPEN_TREE_ATTR: i64 = 467;
const SYS_FILE_SETATTR: i64 = 469;

#[cfg(target_arch = "x86_64")]
const LEGACY: &[i64] = &[
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_modify_ldt,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
];

/// Calls that get EPERM when they have these arguments.
pub(super) fn arguments(counted_by: CgroupBackend, sockets: Sockets) -> Result<Rules, Failed> {
    let mut all = Rules::new();
    let rules = &mut all;
    match sockets {
        Sockets::None => {}
        // Every kind but a stream and a datagram.
        Sockets::Inet => {
            for kind in (0..=SOCKET_KINDS).filter(|kind| ![libc::SOCK_STREAM as u64, libc::SOCK_DGRAM as u64].contains(kind)) {
                when(rules, libc::SYS_socket, &[(0, Eq, libc::AF_INET as u64), (1, MaskedEq(SOCKET_KINDS), kind)])?;
            }
        }
    }
    match counted_by {
        CgroupBackend::V1 | CgroupBackend::V2 => {}
        CgroupBackend::None => uncounted(rules)?,
    }
    // Whoever else opens a file with a lease on it has to wait.
    when(rules, libc::SYS_fcntl, &[(1, Eq, libc::F_SETLEASE as u64)])?;
    // `clone` may make threads and child processes, but no namespace.
    for flag in NAMESPACES {
        when(rules, libc::SYS_clone, &[(0, MaskedEq(*flag), *flag)])?;
    }
    when(rules, libc::SYS_socketpair, &[(0, Ne, libc::AF_UNIX as u64)])?;
    // SECURITY: a datagram socket of a pair can send to any address it names, not only to its other end. A raw pair is a pair of datagram
    // sockets too.
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
        when(rules, libc::SYS_socketpair, &[(1, MaskedEq(SOCKET_KINDS), kind as u64)])?;
    }
    when(rules, libc::SYS_personality, &[(0, Ne, 0xffff_ffff)])?;
    when(rules, libc::SYS_prctl, &[(0, Eq, libc::PR_SET_TIMERSLACK as u64)])?;
    when(rules, libc::SYS_prctl, &[(0, Eq, libc::PR_SET_SECCOMP as u64)])?;
    when(rules, libc::SYS_prctl, &[(0, Eq, libc::PR_SET_MM as u64)])?;
    for request in [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSCTTY] {
        when(rules, libc::SYS_ioctl, &[(1, Eq, request)])?;
    }
    for bit in [libc::S_ISUID, libc::S_ISGID].map(u64::from) {
        when(rules, libc::SYS_fchmod, &[(1, MaskedEq(bit), bit)])?;
        when(rules, libc::SYS_fchmodat, &[(2, MaskedEq(bit), bit)])?;
        when(rules, libc::SYS_fchmodat2, &[(2, MaskedEq(bit), bit)])?;
        when(rules, libc::SYS_mkdirat, &[(2, MaskedEq(bit), bit)])?;
        when(rules, libc::SYS_mknodat, &[(2, MaskedEq(bit), bit)])?;
        for creating in CREATING {
            when(rules, libc::SYS_openat, &[(2, MaskedEq(*creating), *creating), (3, MaskedEq(bit), bit)])?;
            #[cfg(target_arch = "x86_64")]
            when(rules, libc::SYS_open, &[(1, MaskedEq(*creating), *creating), (2, MaskedEq(bit), bit)])?;
        }
        #[cfg(target_arch = "x86_64")]
        {
            when(rules, libc::SYS_chmod, &[(1, MaskedEq(bit), bit)])?;
            when(rules, libc::SYS_creat, &[(1, MaskedEq(bit), bit)])?;
            when(rules, libc::SYS_mkdir, &[(1, MaskedEq(bit), bit)])?;
            when(rules, libc::SYS_mknod, &[(1, MaskedEq(bit), bit)])?;
        }
    }
    let kinds = u64::from(libc::S_IFMT);
    for device in [libc::S_IFBLK, libc::S_IFCHR, libc::S_IFSOCK].map(u64::from) {
        when(rules, libc::SYS_mknodat, &[(2, MaskedEq(kinds), device)])?;
        #[cfg(target_arch = "x86_64")]
        when(rules, libc::SYS_mknod, &[(1, MaskedEq(kinds), device)])?;
    }
    Ok(all)
}

/// Sockets of any family but IPv4 get EAFNOSUPPORT, as on a host without that family: programs then do without.
///
/// SECURITY: a Unix socket could reach a service of the host through a folder that the program sees.
pub(super) fn other_families() -> Result<Rules, Failed> {
    let mut rules = Rules::new();
    when(&mut rules, libc::SYS_socket, &[(0, Ne, libc::AF_INET as u64)])?;
    Ok(rules)
}

/// Sockets of IPv4 that are neither TCP nor UDP get EPROTONOSUPPORT, as on a host without that protocol.
pub(super) fn other_protocols() -> Result<Rules, Failed> {
    let mut rules = Rules::new();
    let own = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP].map(|protocol| (2, Ne, protocol as u64));
    when(&mut rules, libc::SYS_socket, &own)?;
    Ok(rules)
}

/// Memory that only a cgroup can count. Shared memory without a file stays when no process maps it any more, as long as one page of it is
/// mapped somewhere; and what is in a socket is counted by the size of its buffer, which therefore must not grow.
fn uncounted(rules: &mut Rules) -> Result<(), Failed> {
    let shared = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;
    when(rules, libc::SYS_mmap, &[(3, MaskedEq(shared), shared)])?;
    when(rules, libc::SYS_setsockopt, &[(1, Eq, libc::SOL_SOCKET as u64), (2, Eq, libc::SO_SNDBUF as u64)])
}

const NAMESPACES: &[u64] = &[
    libc::CLONE_NEWUSER as u64,
    libc::CLONE_NEWNS as u64,
    libc::CLONE_NEWPID as u64,
    libc::CLONE_NEWNET as u64,
    libc::CLONE_NEWIPC as u64,
    libc::CLONE_NEWUTS as u64,
    libc::CLONE_NEWCGROUP as u64,
];

/// The bits of a socket type that are not flags.
const SOCKET_KINDS: u64 = 0xf;

/// The flags with which `open` takes a mode.
const CREATING: &[u64] = &[libc::O_CREAT as u64, (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64];
