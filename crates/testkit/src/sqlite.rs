//! A migrated SQLite database for each test, copied from one that is made once per build of the tests.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Puts a migrated database at `path`. While the value that `migrate` returns keeps the original open, nobody writes to it.
pub async fn migrated_file<Open>(path: &Path, migrate: impl AsyncFnOnce(PathBuf) -> Open) {
    // It is kept beside the test program, so that cleaning the build removes it too.
    let folder = std::env::current_exe().expect("a test knows its own program");
    let prepared = folder.with_file_name(format!("migrated-{}", crate::build::fingerprint()));
    if !prepared.exists() {
        let unfinished = prepared.with_extension(std::process::id().to_string());
        fs::create_dir(&unfinished).expect("the folder of the tests can be written");
        let made = unfinished.join("made");
        let open = migrate(made.clone()).await;
        copy(&made, &unfinished.join("db"));
        drop(open);
        // If several processes made one at once, one of the equal copies is kept.
        if fs::rename(&unfinished, &prepared).is_err() {
            fs::remove_dir_all(&unfinished).expect("it was made here");
        }
    }
    copy(&prepared.join("db"), path);
}

/// Copies the database, and the part of it that is still in the write-ahead log.
fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).expect("the database can be copied");
    if log(from).exists() {
        fs::copy(log(from), log(to)).expect("its log can be copied");
    }
}

fn log(database: &Path) -> PathBuf {
    let mut log = OsString::from(database);
    log.push("-wal");
    log.into()
}
