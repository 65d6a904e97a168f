//! Puts the web UI into the library: a table of the files in `web/dist`, as `web/` was built last. It runs no other program, so that a build
//! needs no Node.js; without those files the table is empty, and `src/web.rs` says what to do. And a table of the pages in `docs/`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Where Vite writes, from the folder of this crate. A file in it is committed, so it is always there: cargo would run this script anew
/// for each build if it were not.
const BUILT: &str = "../../web/dist";
/// What is in it and is not of the web UI.
const NOT_SERVED: [&str; 2] = [".vite", "README"];
const DOCS: &str = "../../docs";
/// Pages about one error code are not in the table; these are not about one.
const ERRORS: [&str; 2] = ["errors/README", "errors/invocation-errors"];

fn main() -> io::Result<()> {
    let variable = |name: &str| env::var(name).map(PathBuf::from).map_err(io::Error::other);
    let (here, out) = (variable("CARGO_MANIFEST_DIR")?, variable("OUT_DIR")?);
    println!("cargo::rerun-if-changed={BUILT}\ncargo::rerun-if-changed={DOCS}");
    let (built, mut files) = (here.join(BUILT), Vec::new());
    if built.join("index.html").is_file() {
        list(&built, "", &mut files)?;
    }
    let served = files.iter().map(|(path, file)| format!("({path:?}, include_bytes!({file:?})),"));
    write(&out.join("web.rs"), served.collect())?;
    let mut pages = Vec::new();
    list(&here.join(DOCS), "", &mut pages)?;
    let pages = pages.iter().filter_map(|(path, file)| {
        let name = path.strip_suffix(".md").filter(|name| !name.starts_with("errors/") || ERRORS.contains(name))?;
        Some(format!("({name:?}, include_str!({file:?})),"))
    });
    write(&out.join("docs.rs"), pages.collect())
}

fn write(file: &Path, mut rows: Vec<String>) -> io::Result<()> {
    rows.sort();
    fs::write(file, format!("&[\n{}\n]\n", rows.join("\n")))
}

/// Every file: its path below the folder, and where it is.
fn list(folder: &Path, below: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|name| io::Error::other(format!("{} is not UTF-8", name.display())))?;
        if NOT_SERVED.contains(&name.as_str()) {
            continue;
        }
        let path = format!("{below}{name}");
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &format!("{path}/"), files)?;
        } else {
            files.push((path, entry.path().canonicalize()?));
        }
    }
    Ok(())
}
