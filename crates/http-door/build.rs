//! Puts the web UI into the library: a table of the files in `web/dist`, as `web/` was built last. It runs no other program, so that a build
//! needs no Node.js; without those files the table is empty, and `src/web.rs` says what to do.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Where Vite writes, from the folder of this crate. A file in it is committed, so it is always there: cargo would run this script anew
/// for each build if it were not.
const BUILT: &str = "../../web/dist";
/// What is in it and is not of the web UI.
const NOT_SERVED: [&str; 2] = [".vite", "README"];

fn main() -> io::Result<()> {
    let variable = |name: &str| env::var(name).map(PathBuf::from).map_err(io::Error::other);
    let built = variable("CARGO_MANIFEST_DIR")?.join(BUILT);
    println!("cargo::rerun-if-changed={BUILT}");
    let mut rows = Vec::new();
    if built.join("index.html").is_file() {
        list(&built, "", &mut rows)?;
    }
    rows.sort();
    fs::write(variable("OUT_DIR")?.join("web.rs"), format!("&[\n{}\n]\n", rows.join("\n")))
}

/// A row for each file: its path below the folder, and its bytes.
fn list(folder: &Path, below: &str, rows: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|name| io::Error::other(format!("{} is not UTF-8", name.display())))?;
        if NOT_SERVED.contains(&name.as_str()) {
            continue;
        }
        let path = format!("{below}{name}");
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &format!("{path}/"), rows)?;
        } else {
            let bytes = entry.path().canonicalize()?;
            rows.push(format!("({path:?}, include_bytes!({bytes:?})),"));
        }
    }
    Ok(())
}
