//! The races of the escape corpus: `fs_symlink_swap_during_commit` and `fs_directory_swap_race`. A thread swaps a name in the workspace
//! with a link that leads outside, as fast as the machine can, while changes are planned, committed and reverted.

use super::escapes::held;
use super::*;
use rustix::fs::{CWD, RenameFlags};
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The least number of swaps, and the most rounds until both a success and a refusal were seen.
const SWAPS_MIN: usize = 100_000;
const ROUNDS_MAX: usize = 100_000;

/// Swaps two names until it is dropped.
struct Swapper {
    over: Arc<AtomicBool>,
    swaps: Arc<AtomicUsize>,
    /// Held while both names are put back to their initial state.
    still: Arc<Mutex<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapper {
    fn start(one: PathBuf, other: PathBuf) -> Self {
        let (over, swaps, still) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(())));
        let thread = std::thread::spawn({
            let (over, swaps, still) = (Arc::clone(&over), Arc::clone(&swaps), Arc::clone(&still));
            move || {
                while !over.load(Ordering::SeqCst) {
                    let _still = still.lock();
                    // This fails if a change has just removed one of the two, which is part of the race.
                    if rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_ok() {
                        swaps.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
        });
        Self { over, swaps, still, thread: Some(thread) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// The two names that are swapped, and how to make their initial state.
struct Race {
    one: PathBuf,
    other: PathBuf,
    begin: fn(workspace: &Path, outside: &Path),
}

/// A file of the workspace, and a link to a file outside.
fn begin_with_files(workspace: &Path, outside: &Path) {
    for name in ["in/a", "in/link", "in/new"] {
        let _absent = std::fs::remove_file(workspace.join(name));
    }
    std::fs::create_dir_all(workspace.join("in")).unwrap();
    std::fs::write(workspace.join("in/a"), "old").unwrap();
    symlink(outside.join("a"), workspace.join("in/link")).unwrap();
}

/// A folder of the workspace, and a link to a folder outside.
fn begin_with_folders(workspace: &Path, outside: &Path) {
    for name in ["in", "link"] {
        let at = workspace.join(name);
        let _ = if at.is_symlink() { std::fs::remove_file(&at) } else { std::fs::remove_dir_all(&at) };
    }
    std::fs::create_dir(workspace.join("in")).unwrap();
    std::fs::write(workspace.join("in/a"), "old").unwrap();
    symlink(outside, workspace.join("link")).unwrap();
}

/// What happened during the race.
#[derive(Debug, Default)]
struct Seen {
    committed: usize,
    reverted: usize,
    /// Refusals after a change was planned: the swap happened while the change was made or reverted.
    refused_late: usize,
    codes: BTreeSet<&'static str>,
}

async fn check(race: Race) {
    let bench = bench("R2");
    let (workspace, outside) = (bench.folder.path().join("workspace"), bench.folder.path().join("outside"));
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("a"), "old").unwrap();
    let untouched = held(&outside);
    (race.begin)(&workspace, &outside);
    let swapper = Swapper::start(workspace.join(&race.one), workspace.join(&race.other));
    let mut seen = Seen::default();
    for round in 0.. {
        let is_enough = swapper.swaps.load(Ordering::SeqCst) >= SWAPS_MIN;
        if is_enough && seen.committed > 0 && seen.reverted > 0 && seen.refused_late > 0 {
            break;
        }
        assert!(round < ROUNDS_MAX, "no race took place: {seen:?}");
        {
            let _still = swapper.still.lock();
            (race.begin)(&workspace, &outside);
        }
        one_round(&bench, &mut seen).await;
        assert_eq!(held(&outside), untouched, "something outside was touched in round {round}: {seen:?}");
    }
    drop(swapper);
    let codes = ["path_outside_workspace", "file_not_found", "content_changed", "source_broke"];
    assert!(seen.codes.iter().all(|code| codes.contains(code)), "{seen:?}");
}

/// Changes one file and makes a new one beside it, then reverts both, whatever happened.
async fn one_round(bench: &Bench, seen: &mut Seen) {
    bench.will_leave(&[("in/a", "new"), ("in/new", "new")], json!({ "output": {} }));
    let (mut context, source) = (bench.context().await, bench.source());
    match source.prepare(&context, &act(), &json!({})).await {
        Ok(journal) => context.prepared = journal,
        Err(error) => {
            seen.codes.insert(error.code());
            return;
        }
    }
    let evidence = context.prepared.clone().unwrap();
    let called = source.call(&context, &act(), &json!({})).await;
    let reverted = source.revert(&context, &act(), &evidence).await;
    seen.committed += usize::from(called.is_ok());
    seen.reverted += usize::from(reverted.is_ok());
    for error in [called.err(), reverted.err()].into_iter().flatten() {
        seen.refused_late += 1;
        seen.codes.insert(error.code());
    }
}

/// The same race against code that opens files by path: it proves that the race can be lost.
fn check_control(race: Race) {
    let scratch = tempfile::tempdir().unwrap();
    let (workspace, outside) = (scratch.path().join("workspace"), scratch.path().join("outside"));
    std::fs::create_dir(&workspace).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("a"), "old").unwrap();
    (race.begin)(&workspace, &outside);
    let _swapper = Swapper::start(workspace.join(&race.one), workspace.join(&race.other));
    let is_lost = (0..ROUNDS_MAX).any(|_| {
        let _written = std::fs::write(workspace.join("in/a"), "new");
        std::fs::read_to_string(outside.join("a")).unwrap() == "new"
    });
    assert!(is_lost, "writing by path never went outside, so the race proves nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fs_symlink_swap_during_commit_writes_nothing_outside() {
    let race = || Race { one: "in/a".into(), other: "in/link".into(), begin: begin_with_files };
    check_control(race());
    check(race()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fs_directory_swap_race_writes_nothing_outside() {
    let race = || Race { one: "in".into(), other: "link".into(), begin: begin_with_folders };
    check_control(race());
    check(race()).await;
}
