//! The effect alone: what the two actions do to the disk, done directly and just as safely. It costs the same without the product.

use crate::child::{Call, READ_FILE, content};
use crate::cpu::{self, Watched};
use crate::load::{Caller, Time, drive};
use crate::stats::Window;
use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};

/// A caller with a thread of its own, like the server's blocking threads.
struct EffectCaller {
    asks: mpsc::Sender<oneshot::Sender<Result<()>>>,
}

impl Caller for EffectCaller {
    async fn call(&mut self) -> Result<()> {
        let (done, answer) = oneshot::channel();
        self.asks.send(done).await.ok().context("the effect's thread ended")?;
        answer.await?
    }
}

/// Measures the effect in a folder of its own.
pub(crate) async fn measure(folder: &Path, call: Call, callers: usize, time: Time) -> Result<Window> {
    let count = Arc::new(AtomicU64::new(prepare(folder)?));
    let mut watched = Watched::default();
    let mut open = Vec::with_capacity(callers);
    for _ in 0..callers {
        let (asks, mut asked) = mpsc::channel::<oneshot::Sender<Result<()>>>(1);
        let (told, thread) = oneshot::channel();
        let (folder, count) = (folder.to_owned(), Arc::clone(&count));
        std::thread::Builder::new().spawn(move || {
            let _gone = told.send(cpu::this_thread());
            while let Some(done) = asked.blocking_recv() {
                let _gone = done.send(perform(&folder, call, count.fetch_add(1, Ordering::Relaxed)));
            }
        })?;
        watched.threads.push(thread.await??);
        open.push(EffectCaller { asks });
    }
    drive(open, time, &watched).await
}

/// Prepares the folder and returns how many files were written there before.
/// File numbers continue across measurements, because the server does not start in an empty folder either.
pub(crate) fn prepare(folder: &Path) -> Result<u64> {
    let out = folder.join("out");
    std::fs::create_dir_all(&out)?;
    std::fs::write(folder.join(READ_FILE), content())?;
    Ok(std::fs::read_dir(&out)?.count() as u64)
}

pub(crate) fn perform(folder: &Path, call: Call, number: u64) -> Result<()> {
    match call {
        Call::Read => {
            let content = std::fs::read(folder.join(READ_FILE))?;
            anyhow::ensure!(!content.is_empty(), "the file is empty");
            Ok(())
        }
        Call::Write => write(&folder.join("out"), number),
    }
}

/// Writes a temporary file beside the target, syncs it, renames it, and syncs the folder.
fn write(folder: &Path, number: u64) -> Result<()> {
    let temporary: PathBuf = folder.join(format!(".part-{number:012}"));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    file.write_all(content().as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, folder.join(format!("{number:012}.txt")))?;
    Ok(File::open(folder)?.sync_all()?)
}
