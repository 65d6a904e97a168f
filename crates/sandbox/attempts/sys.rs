//! Raw system calls for the attempts, as a hostile program would make them.

#![expect(unsafe_code, reason = "an attempt calls the kernel as an attacker would, past every library")]

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

/// Becomes an ordinary user, permanently.
pub(crate) fn become_id(id: u32) -> Result<(), String> {
    // SAFETY: plain numbers and an empty list; called before any thread is started.
    let code = unsafe { libc::setgroups(0, std::ptr::null()).min(libc::setresgid(id, id, id)).min(libc::setresuid(id, id, id)) };
    if code == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().to_string()) }
}

pub(crate) fn last() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(-1)
}

/// One argument of a raw call.
pub(crate) trait Arg {
    fn raw(&self) -> libc::c_long;
}

impl Arg for i64 {
    fn raw(&self) -> libc::c_long {
        *self
    }
}

impl Arg for CString {
    fn raw(&self) -> libc::c_long {
        self.as_ptr() as libc::c_long
    }
}

impl<T> Arg for [T; 1] {
    fn raw(&self) -> libc::c_long {
        self.as_ptr() as libc::c_long
    }
}

/// Calls the kernel with up to six arguments; the rest are 0.
pub(crate) fn call(number: libc::c_long, args: &[&dyn Arg]) -> Result<i64, i32> {
    let at = |index: usize| args.get(index).map_or(0, |arg| arg.raw());
    // SAFETY: pointers come from live values of the caller. What the kernel does with wrong arguments is what is being tried, in a process
    // that exists only for that.
    let code = unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) };
    if code < 0 { Err(last()) } else { Ok(code) }
}

pub(crate) enum Child {
    Answered(i32),
    Signalled(i32),
}

/// Runs `work` in a forked child and waits for its answer, which must fit an exit code.
pub(crate) fn in_child(work: impl FnOnce() -> i32) -> Result<Child, String> {
    // SAFETY: this program has one thread when it tries things, so the copy is consistent; the child ends without unwinding into us.
    unsafe {
        match libc::fork() {
            0 => {
                let answer = work();
                libc::_exit(answer.clamp(0, 255));
            }
            pid if pid > 0 => wait_for(pid),
            _ => Err(last().to_string()),
        }
    }
}

/// Waits for a child, and says how it ended.
pub(crate) fn wait_for(pid: i32) -> Result<Child, String> {
    let mut status = 0;
    // SAFETY: the pointer is to a live value of the right type.
    while unsafe { libc::waitpid(pid, &mut status, 0) } < 0 {
        if last() != libc::EINTR {
            return Err("no wait".into());
        }
    }
    if libc::WIFSIGNALED(status) { Ok(Child::Signalled(libc::WTERMSIG(status))) } else { Ok(Child::Answered(libc::WEXITSTATUS(status))) }
}

/// Forks, and leaves the child running `work`. Returns its pid, or the errno.
pub(crate) fn leave_child(work: impl FnOnce()) -> Result<i32, i32> {
    // SAFETY: as in `in_child`; the child never returns.
    unsafe {
        match libc::fork() {
            0 => {
                work();
                libc::_exit(0);
            }
            pid if pid > 0 => Ok(pid),
            _ => Err(last()),
        }
    }
}

/// Sleeps for ever.
pub(crate) fn sleep_for_ever() -> ! {
    loop {
        // SAFETY: waits for a signal, and touches no memory.
        unsafe { libc::pause() };
    }
}

pub(crate) fn ignore(signal: i32) {
    // SAFETY: sets a disposition of this process alone.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Allocates and touches memory in pieces until the kernel refuses. Returns the number of bytes, and the errno.
pub(crate) fn fill(flags: i32, most: usize) -> (usize, i32) {
    const PIECE: usize = 4 << 20;
    let mut taken = 0;
    while taken < most {
        // SAFETY: a fresh mapping of its own, written only within its length.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), PIECE, libc::PROT_READ | libc::PROT_WRITE, flags | libc::MAP_ANONYMOUS, -1, 0);
            if at == libc::MAP_FAILED {
                return (taken, last());
            }
            std::ptr::write_bytes(at.cast::<u8>(), 1, PIECE);
        }
        taken += PIECE;
    }
    (taken, 0)
}

/// The same as `fill`, by moving the end of the heap.
pub(crate) fn fill_heap(most: usize) -> (usize, i32) {
    const PIECE: usize = 4 << 20;
    // SAFETY: the new piece lies between the old end and the new one, which the kernel has granted; nothing here allocates meanwhile.
    unsafe {
        let begin = libc::syscall(libc::SYS_brk, 0_usize) as usize;
        let mut taken = 0;
        while taken < most {
            let end = begin + taken + PIECE;
            if libc::syscall(libc::SYS_brk, end) as usize != end {
                return (taken, libc::ENOMEM);
            }
            std::ptr::write_bytes((begin + taken) as *mut u8, 1, PIECE);
            taken += PIECE;
        }
        (taken, 0)
    }
}

/// Fills shared memory in pieces, and lets go of each piece but for one page, which keeps the rest. Returns the number of bytes, and the
/// errno.
pub(crate) fn fill_and_drop(most: usize) -> (usize, i32) {
    const PIECE: usize = 4 << 20;
    const PAGE: usize = 4 << 10;
    let mut taken = 0;
    while taken < most {
        // SAFETY: a fresh mapping of its own, written only within its length, and not touched after it is unmapped.
        unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            let at = libc::mmap(std::ptr::null_mut(), PIECE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if at == libc::MAP_FAILED {
                return (taken, last());
            }
            std::ptr::write_bytes(at.cast::<u8>(), 1, PIECE);
            libc::madvise(at, PIECE, libc::MADV_DONTNEED);
            libc::munmap(at.cast::<u8>().add(PAGE).cast(), PIECE - PAGE);
        }
        taken += PIECE;
    }
    (taken, 0)
}

/// Makes this many page tables: reads one byte in the reach of each, where nothing was ever written.
pub(crate) fn fill_page_tables(tables: usize) {
    const REACH: usize = 2 << 20;
    // SAFETY: a fresh mapping of its own, read only within its length.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let at = libc::mmap(std::ptr::null_mut(), tables * REACH, libc::PROT_READ, flags, -1, 0);
        if at != libc::MAP_FAILED {
            for table in 0..tables {
                std::ptr::read_volatile(at.cast::<u8>().add(table * REACH));
            }
        }
    }
}

/// Maps memory that is never touched.
pub(crate) fn reserve(bytes: usize, protection: i32) -> Result<(), i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping that is never touched.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if at == libc::MAP_FAILED { Err(last()) } else { Ok(()) }
}

/// Asks the kernel to kill this process when its parent dies.
pub(crate) fn die_with_parent() {
    // SAFETY: plain numbers, no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Sends a descriptor over a socket.
pub(crate) fn send_rights(socket: i64, descriptor: i32) -> Result<(), i32> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    // SAFETY: both numbers are open in this process for as long as the call lasts.
    let (socket, descriptor) = unsafe { (BorrowedFd::borrow_raw(socket as i32), [BorrowedFd::borrow_raw(descriptor)]) };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptor));
    let sent = sendmsg(socket, &[std::io::IoSlice::new(b"x")], &mut ancillary, SendFlags::empty());
    sent.map(drop).map_err(rustix::io::Errno::raw_os_error)
}

/// Receives a descriptor from a socket, if one is waiting there.
pub(crate) fn receive_rights(socket: i64) -> Result<(), i32> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    // SAFETY: the number is open in this process for as long as the call lasts.
    let socket = unsafe { BorrowedFd::borrow_raw(socket as i32) };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0_u8; 16];
    let received = recvmsg(socket, &mut [std::io::IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::DONTWAIT);
    received.map_err(rustix::io::Errno::raw_os_error)?;
    let came =
        ancillary.drain().any(|message| if let RecvAncillaryMessage::ScmRights(mut all) = message { all.next().is_some() } else { false });
    if came { Ok(()) } else { Err(libc::ENOENT) }
}

/// Opens an io_uring, where the kernel has it, as a descriptor that survives an exec, as a careless server might leak it.
pub(crate) fn leak_ring() {
    let parameters = [[0_u64; 15]];
    if let Ok(ring) = call(libc::SYS_io_uring_setup, &[&1_i64, &parameters]) {
        let _ = call(libc::SYS_dup3, &[&ring, &RING, &0_i64]);
    }
}

/// The descriptor number of the leaked ring.
pub(crate) const RING: i64 = 50;

/// Maps the memory that a ring shares with the kernel.
pub(crate) fn map_ring() -> Result<(), i32> {
    // SAFETY: a fresh mapping that is never touched.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, RING as i32, 0) };
    if at == libc::MAP_FAILED { Err(last()) } else { Ok(()) }
}

/// Maps a file as executable memory.
pub(crate) fn map_exec(fd: i32) -> Result<(), i32> {
    // SAFETY: a fresh mapping that is never touched.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE, fd, 0) };
    if at == libc::MAP_FAILED { Err(last()) } else { Ok(()) }
}

/// Calls `getpid` through the 32-bit system call interface of a 64-bit process.
#[cfg(target_arch = "x86_64")]
pub(crate) fn int80() -> i64 {
    let answer: i64;
    // SAFETY: call 20 of the 32-bit table takes no arguments and returns a number; the clobbered registers are named.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") 20_i64 => answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    answer
}

/// The limit on core files, soft and hard.
pub(crate) fn core_limit() -> (u64, u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live value of the right type.
    unsafe { libc::getrlimit(libc::RLIMIT_CORE, &mut limit) };
    (limit.rlim_cur, limit.rlim_max)
}

pub(crate) fn abort() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}
