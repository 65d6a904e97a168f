//! How much memory a jail holds, looked at from outside: the fallback where no cgroup bounds it.

use std::fs;
use std::os::fd::BorrowedFd;

/// A tree of more processes than this is not counted to its end: it is over any bound already.
const PROCESSES_MAX: usize = 8192;

/// Bytes that the descendants of `pid` hold and no file backs. Shared memory counts once for each who holds it.
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
    // A process that ended meanwhile holds nothing.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kilobytes = status.lines().filter_map(|line| {
        let rest = line.strip_prefix("RssAnon:").or_else(|| line.strip_prefix("RssShmem:"))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    });
    kilobytes.sum::<u64>().saturating_mul(1024)
}

/// Bytes that the files of a stage or a scratch hold. It is memory, and no process holds it.
pub(crate) fn bytes_of_files(root: BorrowedFd<'_>) -> u64 {
    let Ok(found) = rustix::fs::fstatvfs(root) else { return 0 };
    found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize)
}

/// Whether the kernel tells who is whose child.
pub(crate) fn is_countable() -> bool {
    fs::read_to_string("/proc/thread-self/children").is_ok()
}
