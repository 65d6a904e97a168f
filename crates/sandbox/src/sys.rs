//! The system calls that no crate offers safely. All `unsafe` code of this crate is in this file.

#![expect(unsafe_code, reason = "spawning, forking and a few system calls have no safe form; each says why it holds")]

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

/// The resources a process used, including those of its reaped descendants.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) max_rss_bytes: u64,
}

/// Which side of a fork we are on.
pub(crate) enum Fork {
    Parent(rustix::process::Pid),
    Child,
}

/// Starts `program` with an empty environment, no blocked or ignored signals, and `fds` at the given numbers.
///
/// `posix_spawn` shares the parent's memory until the exec, so its cost does not grow with the parent.
pub(crate) fn spawn(program: &CStr, argv: &[&CStr], fds: &[(BorrowedFd<'_>, RawFd)]) -> io::Result<rustix::process::Pid> {
    let mut argv: Vec<*mut libc::c_char> = argv.iter().map(|arg| arg.as_ptr().cast_mut()).collect();
    argv.push(ptr::null_mut());
    let environment: [*mut libc::c_char; 1] = [ptr::null_mut()];
    let mut actions = MaybeUninit::<libc::posix_spawn_file_actions_t>::uninit();
    let mut attributes = MaybeUninit::<libc::posix_spawnattr_t>::uninit();
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    let mut pid: libc::pid_t = 0;
    // SAFETY: both objects are initialised before use and destroyed once; all pointers outlive the call; argv and the environment
    // end in null.
    unsafe {
        check(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
        check(libc::posix_spawnattr_init(attributes.as_mut_ptr()))?;
        let mut code = 0;
        for (fd, number) in fds {
            code = code.max(libc::posix_spawn_file_actions_adddup2(actions.as_mut_ptr(), fd.as_raw_fd(), *number));
        }
        libc::sigemptyset(signals.as_mut_ptr());
        code = code.max(libc::posix_spawnattr_setsigmask(attributes.as_mut_ptr(), signals.as_ptr()));
        libc::sigfillset(signals.as_mut_ptr());
        code = code.max(libc::posix_spawnattr_setsigdefault(attributes.as_mut_ptr(), signals.as_ptr()));
        let flags = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
        code = code.max(libc::posix_spawnattr_setflags(attributes.as_mut_ptr(), flags as libc::c_short));
        if code == 0 {
            code =
                libc::posix_spawn(&mut pid, program.as_ptr(), actions.as_ptr(), attributes.as_ptr(), argv.as_ptr(), environment.as_ptr());
        }
        libc::posix_spawn_file_actions_destroy(actions.as_mut_ptr());
        libc::posix_spawnattr_destroy(attributes.as_mut_ptr());
        check(code)?;
    }
    rustix::process::Pid::from_raw(pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}

/// `posix_spawn` and the related functions return the error instead of setting `errno`.
fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

/// Reaps `pid`, which must be our child and must have ended or be about to end.
pub(crate) fn reap(pid: rustix::process::Pid) -> io::Result<Usage> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        let mut status = 0;
        // SAFETY: both pointers are to live, writable values of the right type; zeroed is a valid `rusage`.
        let reaped = unsafe { libc::wait4(pid.as_raw_nonzero().get(), &mut status, 0, usage.as_mut_ptr()) };
        if reaped >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: it was zeroed, and then filled by a call that succeeded.
    let usage = unsafe { usage.assume_init() };
    let time = |at: libc::timeval| Duration::new(at.tv_sec.unsigned_abs(), (at.tv_usec.unsigned_abs() as u32).saturating_mul(1000));
    let max_rss_bytes = usage.ru_maxrss.unsigned_abs().saturating_mul(1024);
    Ok(Usage { cpu: time(usage.ru_utime) + time(usage.ru_stime), max_rss_bytes })
}

/// The processor time that our child `pid`, which is not reaped yet, has used so far.
pub(crate) fn cpu_of(pid: rustix::process::Pid) -> io::Result<Duration> {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both pointers are to live, writable values of the right type.
    unsafe {
        check(libc::clock_getcpuclockid(pid.as_raw_nonzero().get(), &mut clock))?;
        if libc::clock_gettime(clock, &mut time) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32))
}

/// Forks. Only for the jail, which has one thread: a fork of a process with several threads could hang in the allocator.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: the caller is the jail, single-threaded from its first instruction, so the copy is consistent.
    match unsafe { libc::fork() } {
        0 => Ok(Fork::Child),
        pid if pid > 0 => rustix::process::Pid::from_raw(pid).map(Fork::Parent).ok_or_else(io::Error::last_os_error),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The size of the stack for the child of `lend_memory`. Its deepest call is the one that writes a Landlock rule.
const LENT_STACK_BYTES: usize = 256 * 1024;

/// Starts a child that runs `work` in this process's memory, on a stack of its own. This process is suspended until the child executes a
/// program, or exits with the code that `work` returns. No memory is copied, so the exec has no copy to discard.
///
/// Only for the jail, which has one thread. The child has its own descriptors and signals. Memory that the child allocates is never freed
/// in this process.
pub(crate) fn lend_memory<F: FnMut() -> i32>(mut work: F) -> io::Result<rustix::process::Pid> {
    extern "C" fn child<F: FnMut() -> i32>(work: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the pointer is to the closure below, which the suspended parent keeps alive.
        let work = unsafe { &mut *work.cast::<F>() };
        work()
    }
    let mut stack = vec![0_u128; LENT_STACK_BYTES / size_of::<u128>()];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is ours and aligned, and it outlives the child's use of it, because this process is suspended until the child no
    // longer shares its memory. The child never returns into our frames: after `work` the process ends.
    let pid = unsafe { libc::clone(child::<F>, stack.as_mut_ptr_range().end.cast(), flags, (&raw mut work).cast()) };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    rustix::process::Pid::from_raw(pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}

/// Replaces this process with the program behind `fd`. Returns only on failure.
pub(crate) fn exec(fd: BorrowedFd<'_>, args: &[CString], environment: &[CString]) -> io::Error {
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain(std::iter::once(ptr::null())).collect()
    };
    let (args, environment) = (pointers(args), pointers(environment));
    // SAFETY: both arrays end in null and outlive the call; the path is a valid empty string, as AT_EMPTY_PATH wants.
    unsafe {
        libc::syscall(libc::SYS_execveat, fd.as_raw_fd(), c"".as_ptr(), args.as_ptr(), environment.as_ptr(), libc::AT_EMPTY_PATH);
    }
    io::Error::last_os_error()
}

/// Leaves the namespaces in `flags` for new ones. Only for the jail, which has one thread.
pub(crate) fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: no memory is involved, and CLONE_FILES is never asked for.
    if unsafe { libc::unshare(flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes every descriptor from `first` to `last`, both included. No `OwnedFd` may hold one of them any more.
pub(crate) fn close_range(first: libc::c_uint, last: libc::c_uint) -> io::Result<()> {
    // SAFETY: the jail calls this only for numbers it does not own, or does not use again before the exec.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets a socket receive only what a filter lets through.
pub(crate) fn attach_filter(socket: BorrowedFd<'_>, filter: &[seccompiler::sock_filter]) -> io::Result<()> {
    let steps: Vec<libc::sock_filter> =
        filter.iter().map(|step| libc::sock_filter { code: step.code, jt: step.jt, jf: step.jf, k: step.k }).collect();
    let program = libc::sock_fprog { len: steps.len() as libc::c_ushort, filter: steps.as_ptr().cast_mut() };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the kernel copies the filter during the call, and writes to nothing.
    let code =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const program).cast(), length) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes ownership of a descriptor that the jail was started with.
pub(crate) fn inherited(number: RawFd) -> OwnedFd {
    // SAFETY: `spawn` placed the descriptor there for the jail, which takes each number once.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Moves `fd` to `number` and marks it to be closed at the exec.
pub(crate) fn move_fd(fd: OwnedFd, number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved. The jail chose the number, and no `OwnedFd` holds it yet.
    if unsafe { libc::dup3(fd.as_raw_fd(), number, libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    drop(fd);
    Ok(inherited(number))
}

/// Gives the program a copy of `fd` at descriptor `number`, open across the exec.
pub(crate) fn lend_fd(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    // SAFETY: no memory is involved, and the jail does not use `number` itself any more.
    if unsafe { libc::dup2(fd.as_raw_fd(), number) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets mount attributes on a detached or attached tree.
pub(crate) fn mount_set(tree: BorrowedFd<'_>, attributes: u64, recursive: bool) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        userns_fd: u64,
    }
    let wanted = Attributes { set: attributes, clear: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the structure is the kernel's `mount_attr` in its first version, and its size is passed along.
    let code = unsafe {
        libc::syscall(libc::SYS_mount_setattr, tree.as_raw_fd(), c"".as_ptr(), flags, &raw const wanted, size_of::<Attributes>())
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Removes one capability from the bounding set. Returns `false` when the kernel has no capability of this number.
pub(crate) fn drop_from_bounding_set(number: u32) -> io::Result<bool> {
    // SAFETY: plain numbers, no memory.
    if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        error => Err(error),
    }
}

/// Blocks SIGCHLD and returns a descriptor that is readable whenever a child has ended.
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised by the first call; the descriptor is new and owned by nobody else.
    unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        libc::sigaddset(signals.as_mut_ptr(), libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, signals.as_ptr(), ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::signalfd(-1, signals.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Unblocks every signal and gives SIGPIPE its default action, which kills the process. A program expects this state at its start.
pub(crate) fn default_signals() {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised before it is read; both calls only touch this process's signal state.
    unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, signals.as_ptr(), ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Sets the host name in our own UTS namespace.
pub(crate) fn set_host_name(name: &CStr) -> io::Result<()> {
    // SAFETY: pointer and length describe the same live text.
    if unsafe { libc::sethostname(name.as_ptr(), name.count_bytes()) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The Landlock ABI, and a bit set of the known Landlock errata that this kernel has fixed. `None` where there is no Landlock.
pub(crate) fn landlock() -> Option<(i32, u32)> {
    const VERSION: u32 = 1;
    const ERRATA: u32 = 2;
    let ask = |flag: u32| {
        // SAFETY: with one of these flags the kernel takes no structure and answers with a number.
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<u8>(), 0_usize, flag) }
    };
    let version = i32::try_from(ask(VERSION)).ok().filter(|version| *version > 0)?;
    Some((version, u32::try_from(ask(ERRATA)).unwrap_or(0)))
}

/// Whether the kernel supports this seccomp action.
pub(crate) fn seccomp_knows(action: u32) -> bool {
    // SAFETY: the pointer is to a live number of the size the kernel reads.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) == 0 }
}

/// Whether the kernel has a system call. Calls it with arguments that cannot succeed.
pub(crate) fn exists(number: libc::c_long) -> bool {
    // SAFETY: a descriptor of -1, null pointers and zero lengths are refused before anything is touched.
    let code = unsafe { libc::syscall(number, -1, 0, 0, 0, 0, 0) };
    code >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}
