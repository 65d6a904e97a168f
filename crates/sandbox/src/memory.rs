//! How much memory a jail uses, measured from outside: the fallback where no cgroup limits it.

use std::fs;
use std::os::fd::BorrowedFd;

/// Counting stops at this number of processes: so many are over any limit already.
const PROCESSES_MAX: usize = 8192;

/// The bytes of memory that `pid` and its descendants hold and that no file backs, their page tables included. Shared memory counts once for
/// each process that holds it.
pub(crate) fn bytes_below(pid: u32) -> u64 {
    let mut open = vec![pid];
    let mut seen = 0;
    let mut bytes: u64 = 0;
    while let Some(pid) = open.pop() {
        seen += 1;
        if seen > PROCESSES_MAX {
            return u64::MAX;
        }
        bytes = bytes.saturating_add(held_by(pid));
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            open.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    bytes
}

fn held_by(pid: u32) -> u64 {
    // For a process that has ended meanwhile, the file is missing and the sum is 0.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kilobytes = status.lines().filter_map(|line| {
        let rest = COUNTED.iter().find_map(|name| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    });
    kilobytes.sum::<u64>().saturating_mul(1024)
}

/// The lines of a process's `status` that count: its memory, also where it was moved to swap, and its page tables.
const COUNTED: [&str; 4] = ["RssAnon:", "RssShmem:", "VmSwap:", "VmPTE:"];

/// The most bytes that can be waiting in the sockets of the network namespace of `pid`. What is in them cannot be read, so each counts as
/// full. Twice the size of its buffer, because the kernel takes one more message as long as there is any room.
pub(crate) fn bytes_of_sockets(pid: u32) -> u64 {
    let found = fs::read_to_string(format!("/proc/{pid}/net/sockstat")).unwrap_or_default();
    let sockets = found.lines().find_map(|line| line.strip_prefix("sockets: used ")?.trim().parse::<u64>().ok()).unwrap_or(0);
    let buffer = fs::read_to_string("/proc/sys/net/core/wmem_default").ok().and_then(|bytes| bytes.trim().parse().ok());
    sockets.saturating_mul(buffer.unwrap_or(SOCKET_BUFFER_BYTES)).saturating_mul(2)
}

/// The kernel's own default for the buffer of a socket, where a container does not show the setting.
const SOCKET_BUFFER_BYTES: u64 = 212_992;

/// The bytes that the files of a stage or a scratch hold. They are in memory, but belong to no process.
pub(crate) fn bytes_of_files(root: BorrowedFd<'_>) -> u64 {
    let Ok(found) = rustix::fs::fstatvfs(root) else { return 0 };
    found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize)
}

/// Whether the kernel tells the children of a process, which `bytes_below` needs.
pub(crate) fn is_countable() -> bool {
    fs::read_to_string("/proc/thread-self/children").is_ok()
}
