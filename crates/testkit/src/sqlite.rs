//! A migrated SQLite database for each test, copied from one that is made once per build of the tests.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Puts a migrated database at `path`. Nobody writes to the one it is copied from while `migrate`'s answer keeps that open.
pub async fn migrated_file<Open>(path: &Path, migrate: impl AsyncFnOnce(PathBuf) -> Open) {
    // Beside the program of the tests: a cleaned build takes it along.
    let folder = std::env::current_exe().expect("a test knows its own program");
    let prepared = folder.with_file_name(format!("migrated-{}", crate::build::fingerprint()));
    if !prepared.exists() {
        let unfinished = prepared.with_extension(std::process::id().to_string());
        fs::create_dir(&unfinished).expect("the folder of the tests can be written");
        let made = unfinished.join("made");
        let open = migrate(made.clone()).await;
        copy(&made, &unfinished.join("db"));
        drop(open);
        // Of several who made one at once, one is kept, and they are all alike.
        if fs::rename(&unfinished, &prepared).is_err() {
            fs::remove_dir_all(&unfinished).expect("it was made here");
        }
    }
    copy(&prepared.join("db"), path);
}

/// The database, and what of it is still in the log beside it.
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
