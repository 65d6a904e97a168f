//! Checks that no global holds state: code gets what it needs as a value. Files are read as plain text, with three limits: `static` and its
//! type must be on one line, as the formatter puts them; a type alias hides its type; and code after `mod tests {` is not checked.
//! `clippy.toml` ensures that only one file asks a source; a test here checks that it lists every way to ask one.

use crate::workspace::{File, product_files, root};
use std::collections::BTreeSet;

/// Types whose value can change. `LazyLock<Regex>` is allowed: it is a constant that is computed late.
const CHANGING: &[&str] = &["Mutex", "RwLock", "Atomic", "Cell", "OnceLock", "ArcSwap", "DashMap", "Sender", "Receiver", "static mut "];

#[test]
fn no_global_holds_state() {
    let broken: Vec<_> = product_files().iter().flat_map(broken_in).collect();
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

fn broken_in(file: &File) -> Vec<String> {
    if file.path.starts_with("crates/testkit/") || file.path.ends_with("_tests.rs") {
        return vec![];
    }
    let product = file.text.split("\nmod tests {").next().unwrap_or_default();
    let stateful = product.lines().enumerate().filter(|(_, line)| is_stateful(line.trim_start()));
    stateful.map(|(at, line)| format!("{}:{}: a global holds state, pass it as a value: {}", file.path, at + 1, line.trim())).collect()
}

fn is_stateful(line: &str) -> bool {
    let is_static = line.starts_with("static ") || line.starts_with("pub") && line.contains(" static ");
    is_static && CHANGING.iter().any(|changing| line.contains(changing))
        || !line.starts_with("//") && (line.contains("thread_local!") || line.contains("lazy_static!"))
}

#[test]
fn clippy_knows_every_way_to_ask_a_source() {
    let source = std::fs::read_to_string(root().join("crates/core/src/source.rs")).unwrap();
    let port = source.split_once("pub trait Source").unwrap().1.split_once("\n}").unwrap().0;
    // The asynchronous methods ask the source. The others are look-ups, and so is the list of actions.
    let asked: BTreeSet<_> =
        port.lines().filter_map(|line| line.strip_prefix("    fn ")?.split_once("<'a>")).map(|(name, _)| name).collect();
    let clippy = std::fs::read_to_string(root().join("clippy.toml")).unwrap();
    let held: BTreeSet<_> = clippy.split("source::Source::").skip(1).filter_map(|rest| rest.split('"').next()).chain(["list"]).collect();
    assert_eq!(held, asked);
}

#[test]
fn state_in_a_global_is_noticed() {
    for stateful in [
        "static mut COUNT: u32 = 0;",
        "lazy_static::lazy_static! {}",
        "thread_local! {}",
        "static COUNT: AtomicU64 = AtomicU64::new(0);",
        "pub(crate) static ALL: Mutex<Vec<u8>> = Mutex::new(vec![]);",
        "static ONE: OnceLock<Regex> = OnceLock::new();",
        "static ALL: LazyLock<RwLock<u8>> = x;",
    ] {
        let expected = format!("crates/server/src/lib.rs:2: a global holds state, pass it as a value: {stateful}");
        assert_eq!(check("crates/server/src/lib.rs", &format!("\n    {stateful}\n")), [expected]);
        assert!(check("crates/server/src/lib_tests.rs", stateful).is_empty());
        assert!(check("crates/server/src/lib.rs", &format!("\n#[cfg(test)]\nmod tests {{\n    {stateful}\n}}\n")).is_empty());
    }
    for fine in [
        "static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(\"x\"));",
        "static NAMES: [&str; 2] = [\"a\", \"b\"];",
        "fn name(cell: &Cell<u8>) -> &'static str {",
        "pub fn name(cell: Cell<&'static str>) {",
    ] {
        assert!(check("crates/server/src/lib.rs", fine).is_empty(), "{fine}");
    }
}

fn check(path: &str, text: &str) -> Vec<String> {
    broken_in(&File { path: path.into(), text: text.into() })
}
