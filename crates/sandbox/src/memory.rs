//! How much memory a jail uses, measured from outside: the fallback where no cgroup limits it.

use std::fs;
use std::os::fd::BorrowedFd;

/// Counting stops at this number of processes: so many are over any limit already.
const PROCESSES_MAX: usize = 8192;

/// The bytes of memory that `pid` and its descendants hold and that no file backs. Shared memory counts once for each process that holds
/// it.
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
        let rest = line.strip_prefix("RssAnon:").or_else(|| line.strip_prefix("RssShmem:"))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    });
    kilobytes.sum::<u64>().saturating_mul(1024)
}

/// The bytes that the files of a stage or a scratch hold. They are in memory, but belong to no process.
pub(crate) fn bytes_of_files(root: BorrowedFd<'_>) -> u64 {
    let Ok(found) = rustix::fs::fstatvfs(root) else { return 0 };
    found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize)
}

/// Whether the kernel tells the children of a process, which `bytes_below` needs.
pub(crate) fn is_countable() -> bool {
    fs::read_to_string("/proc/thread-self/children").is_ok()
}
