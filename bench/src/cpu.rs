//! The CPU time of other processes, read from `/proc` thread by thread in nanoseconds, and their memory.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// The processes and threads whose CPU time is counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    /// Processes, each with all its threads.
    pub(crate) processes: Vec<u32>,
    /// A process whose children are counted too: PostgreSQL has one per connection.
    pub(crate) parent: Option<u32>,
    /// Single threads of this process.
    pub(crate) threads: Vec<u32>,
}

/// The time each watched thread has run so far, in nanoseconds.
pub(crate) struct Reading(BTreeMap<u32, u64>);

impl Watched {
    pub(crate) fn process(id: u32) -> Self {
        Self { processes: vec![id], ..Self::default() }
    }

    pub(crate) fn thread(id: u32) -> Self {
        Self { threads: vec![id], ..Self::default() }
    }

    /// Also counts the children of `parent`, if it is given.
    #[must_use]
    pub(crate) fn and_children_of(mut self, parent: Option<u32>) -> Self {
        self.parent = parent;
        self
    }

    pub(crate) fn read(&self) -> Result<Reading> {
        let mut times = BTreeMap::new();
        let mut processes = self.processes.clone();
        if let Some(parent) = self.parent {
            processes.push(parent);
            processes.extend(children_of(parent)?);
        }
        for process in processes {
            // The figures of a process that has ended are gone.
            let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { continue };
            for thread in threads.flatten() {
                read_thread(&thread.path(), &mut times);
            }
        }
        for thread in &self.threads {
            read_thread(Path::new(&format!("/proc/self/task/{thread}")), &mut times);
        }
        anyhow::ensure!(!times.is_empty(), "the kernel tells no thread's time in /proc/<pid>/task/<tid>/schedstat");
        Ok(Reading(times))
    }
}

impl Reading {
    /// Microseconds of CPU time between the two readings. A thread that ended in between is not counted: only idle threads end.
    pub(crate) fn micros_since(&self, earlier: &Self) -> f64 {
        let ran = |(thread, now): (&u32, &u64)| now.saturating_sub(earlier.0.get(thread).copied().unwrap_or(0));
        self.0.iter().map(ran).sum::<u64>() as f64 / 1e3
    }
}

/// The id of the calling thread, for `Watched::threads`.
pub(crate) fn this_thread() -> Result<u32> {
    let link = std::fs::read_link("/proc/thread-self").context("the kernel does not name this thread")?;
    let name = link.file_name().and_then(|name| name.to_str()).context("the thread has no number")?;
    Ok(name.parse()?)
}

/// Resident memory of a process, in megabytes.
pub(crate) fn resident_mb(process: u32) -> Result<f64> {
    memory_mb(process, "VmRSS:")
}

/// The most resident memory that a process has had, in megabytes, since `forget_peak`.
pub(crate) fn peak_mb(process: u32) -> Result<f64> {
    memory_mb(process, "VmHWM:")
}

/// Begins the peak of a process anew with what it has now.
pub(crate) fn forget_peak(process: u32) -> Result<()> {
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").context("the kernel does not forget the peak of a process")
}

fn memory_mb(process: u32, field: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).context("the kernel tells no resident memory")?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes / 1024.0)
}

fn read_thread(folder: &Path, times: &mut BTreeMap<u32, u64>) {
    let number = folder.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
    let text = std::fs::read_to_string(folder.join("schedstat")).unwrap_or_default();
    if let (Some(number), Some(ran)) = (number, text.split(' ').next().and_then(|ran| ran.parse().ok())) {
        times.insert(number, ran);
    }
}

fn children_of(parent: u32) -> Result<Vec<u32>> {
    let mut children = Vec::new();
    for process in std::fs::read_dir("/proc")?.flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(text) = std::fs::read_to_string(process.path().join("stat")) else { continue };
        if parent_in(&text) == Some(parent) {
            children.push(id);
        }
    }
    Ok(children)
}

/// Reads the second field after the program's name. The name stands in parentheses and may hold any character.
fn parent_in(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_whatever_the_program_is_called() {
        assert_eq!(parent_in("12 (postgres) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in("12 (a) b (c)) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in("nothing"), None);
    }

    #[test]
    fn only_time_after_the_first_reading_counts_and_new_threads_count_whole() {
        let reading = |times: &[(u32, u64)]| Reading(times.iter().copied().collect());
        let earlier = reading(&[(1, 5_000), (2, 9_000)]);
        assert_eq!(reading(&[(1, 7_000), (3, 4_000)]).micros_since(&earlier), 6.0);
    }
}
