//! What is refused in every profile: EPERM, or ENOSYS where a program knows how to do without.

use super::{Failed, Rules, when};
use SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::SeccompCmpOp;

/// Answered with EPERM.
pub(super) fn calls() -> impl Iterator<Item = i64> {
    #[cfg(target_arch = "x86_64")]
    let lists = [MOUNTS, OTHERS, KERNEL, SOCKETS, SHARED, METADATA, LEGACY];
    #[cfg(not(target_arch = "x86_64"))]
    let lists = [MOUNTS, OTHERS, KERNEL, SOCKETS, SHARED, METADATA];
    lists.into_iter().flatten().copied()
}

/// Answered with ENOSYS: the C library and the interpreters fall back to calls whose arguments a filter can see.
pub(super) fn absent() -> impl Iterator<Item = i64> {
    [libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_openat2].into_iter()
}

/// Another view of the file system, or another namespace.
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
];

/// Another process's memory, descriptors or life.
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

/// Parts of the kernel no package needs, and where most escapes begin.
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

/// Every way to name a peer. A pair of connected streams is no network, and children are given their pipes that way.
const SOCKETS: &[i64] = &[libc::SYS_socket, libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4];

/// Memory and queues that outlive a process and belong to no file.
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

/// What Landlock does not cover, and no program needs: who owns a path, and what is noted beside it. Who may use a path and when it was
/// touched it does not cover either; of what is not the program's own, both are kept by mounts that are read-only (`jail::mounts`).
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

/// Newer than the numbers the C library knows.
const SYS_SETXATTRAT: i64 = 463;
const SYS_REMOVEXATTRAT: i64 = 466;
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

/// Answered with EPERM where it is called like this.
pub(super) fn arguments() -> Result<Rules, Failed> {
    let mut all = Rules::new();
    let rules = &mut all;
    // Threads and children, never a namespace.
    for flag in NAMESPACES {
        when(rules, libc::SYS_clone, &[(0, MaskedEq(*flag), *flag)])?;
    }
    when(rules, libc::SYS_socketpair, &[(0, Ne, libc::AF_UNIX as u64)])?;
    // SECURITY: an end of a pair of datagrams sends to whomever it names, not only to its other end. A raw pair is one of datagrams.
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

const NAMESPACES: &[u64] = &[
    libc::CLONE_NEWUSER as u64,
    libc::CLONE_NEWNS as u64,
    libc::CLONE_NEWPID as u64,
    libc::CLONE_NEWNET as u64,
    libc::CLONE_NEWIPC as u64,
    libc::CLONE_NEWUTS as u64,
    libc::CLONE_NEWCGROUP as u64,
];

/// Which bits of a kind of socket are not flags.
const SOCKET_KINDS: u64 = 0xf;

/// The flags with which opening takes a mode.
const CREATING: &[u64] = &[libc::O_CREAT as u64, (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64];
