//! Reads the workspace this test was built from.

use std::path::{Path, PathBuf};

/// A file with its path from the root of the repository, written with `/`.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file under `crates/*/src`, sorted by path.
pub(crate) fn product_files() -> Vec<File> {
    let mut files = vec![];
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let entry = entry.unwrap();
        let package = format!("crates/{}/src", entry.file_name().to_str().unwrap());
        collect(&entry.path().join("src"), &package, &mut files);
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}

/// Every file below one folder of the repository.
pub(crate) fn files_below(path: &str) -> Vec<File> {
    let mut files = vec![];
    collect(&root().join(path), path, &mut files);
    files
}

fn collect(folder: &Path, path: &str, files: &mut Vec<File>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{path}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &path, files);
        } else {
            let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
            files.push(File { path, text });
        }
    }
}

#[test]
fn the_files_of_every_crate_are_read() {
    let files = product_files();
    for known in ["crates/core/src/lib.rs", "crates/testkit/src/source.rs", "crates/cli/src/main.rs"] {
        assert!(files.iter().any(|file| file.path == known && !file.text.is_empty()), "`{known}` was not read");
    }
}
