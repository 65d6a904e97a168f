//! What may be written where. Words, not meaning: a rule that is hit by accident is answered by a better name.

use crate::rust_text::{RustText, product_text};
use crate::workspace::{File, product_files};

/// A place in a file, and the sentence it breaks.
type Broken = Vec<String>;

#[test]
fn every_truth_has_one_source() {
    let broken = broken(&product_files());
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

fn broken(files: &[File]) -> Broken {
    let product = files.iter().filter(|file| !file.path.starts_with("crates/testkit/") && !file.path.ends_with("_tests.rs"));
    product.flat_map(|file| if file.path.ends_with(".rs") { broken_in_rust(file) } else { broken_elsewhere(file) }).collect()
}

fn broken_elsewhere(file: &File) -> Broken {
    let sql = file.path.ends_with(".sql") && !is_store(file);
    sql.then(|| format!("{}: SQL is written in the store alone", file.path)).into_iter().collect()
}

fn broken_in_rust(file: &File) -> Broken {
    let text = product_text(&file.text);
    let mut broken = vec![];
    let mut report = |line: usize, sentence: &str| broken.push(format!("{}:{line}: {sentence}", file.path));
    if !is_store(file) {
        for (line, _) in text.literals.iter().filter(|(_, literal)| is_sql(literal)) {
            report(*line, "SQL is written in the store alone");
        }
    }
    if !is_execute(file) {
        for line in lines_with(
            &text,
            &[
                ".call(",
                ".preview(",
                "Source::call",
                "Source::preview",
                "source.check(",
                "source.prepare(",
                "source.verify(",
                "source.revert(",
                "source.reconcile(",
            ],
        ) {
            report(line, "only `pipeline/execute.rs` calls a source: everything else would be an effect without a receipt");
        }
    }
    for line in lines_with(&text, &["lazy_static", "thread_local!", "static mut "]) {
        report(line, "no global holds state: pass it as a value");
    }
    for (line, name) in stateful_statics(&text) {
        report(line, &format!("the static `{name}` holds state: pass it as a value"));
    }
    broken
}

fn is_store(file: &File) -> bool {
    file.path.starts_with("crates/store/")
}

fn is_execute(file: &File) -> bool {
    file.path == "crates/pipeline/src/execute.rs" || file.path.starts_with("crates/pipeline/src/execute/")
}

fn is_sql(literal: &str) -> bool {
    let words: Vec<_> = literal.split_whitespace().collect();
    let follows = |first: &str, second: &str| words.windows(2).any(|pair| pair == [first, second]);
    let update = words.iter().position(|word| *word == "UPDATE").is_some_and(|at| words[at..].contains(&"SET"));
    follows("INSERT", "INTO") || follows("DELETE", "FROM") || follows("CREATE", "TABLE") || words.contains(&"SELECT") || update
}

/// A line that ends in `.` or starts a chain cannot hide: the dot and the name stand together in formatted code.
fn lines_with(text: &RustText, words: &[&str]) -> Vec<usize> {
    let found = text.code.lines().enumerate().filter(|(_, line)| words.iter().any(|word| line.contains(word)));
    found.map(|(index, _)| index + 1).collect()
}

/// Statics whose type can change after the start. `LazyLock<Regex>` is a constant that is computed late, and fine.
fn stateful_statics(text: &RustText) -> Vec<(usize, String)> {
    const CHANGING: &[&str] = &["Mutex", "RwLock", "Atomic", "Cell", "OnceLock", "ArcSwap", "DashMap", "Sender", "Receiver"];
    let declarations = text.code.match_indices("static ").filter(|(at, _)| is_declaration(&text.code[..*at]));
    let stateful = declarations.filter_map(|(at, keyword)| {
        let (name, rest) = text.code[at + keyword.len()..].split_once(':')?;
        let kind = rest.split(['=', ';']).next()?;
        let line = text.code[..at].matches('\n').count() + 1;
        CHANGING.iter().any(|changing| kind.contains(changing)).then(|| (line, name.trim().to_owned()))
    });
    stateful.collect()
}

/// Not `&'static str`, and not the end of a longer word.
fn is_declaration(before: &str) -> bool {
    !before.ends_with(|last: char| last == '\'' || last == '_' || last.is_alphanumeric())
}

#[test]
fn sql_is_noticed_outside_the_store() {
    let sentence = "SQL is written in the store alone";
    for sql in [
        "SELECT id FROM orgs",
        "INSERT INTO orgs VALUES ($1)",
        "UPDATE orgs\\n SET name = $1",
        "DELETE FROM orgs",
        "CREATE TABLE orgs (id TEXT)",
        "WITH one AS (\\n SELECT 1)",
    ] {
        check("crates/server/src/http.rs", &format!("\nlet sql = \"{}\";", sql.replace("\\n", "\n")), &[&format!("2: {sentence}")]);
        check("crates/store/src/orgs.rs", &format!("let sql = \"{sql}\";"), &[]);
        check("crates/server/src/http_tests.rs", &format!("let sql = \"{sql}\";"), &[]);
        check("crates/server/src/http.rs", &format!("// {sql}\n"), &[]);
        check("crates/server/src/http.rs", &format!("#[cfg(test)]\nmod tests {{\n    const SQL: &str = \"{sql}\";\n}}\n"), &[]);
    }
    check("crates/server/src/http.rs", "let words = \"UPDATE the SELECTED rows, DELETE one FROM many\";", &[]);
    let file = File { path: "crates/server/src/extra.sql".into(), text: String::new() };
    assert_eq!(broken(&[file]), ["crates/server/src/extra.sql: SQL is written in the store alone"]);
}

#[test]
fn a_source_is_called_in_one_place() {
    let sentence = "only `pipeline/execute.rs` calls a source: everything else would be an effect without a receipt";
    for code in [
        "source.revert(&context, &action, &evidence)",
        "source.call(&context, &action, &params)",
        "source\n    .preview(&context)",
        "Source::call(source, &context)",
    ] {
        let line = code.lines().count();
        check("crates/server/src/mcp.rs", code, &[&format!("{line}: {sentence}")]);
        check("crates/pipeline/src/hold.rs", code, &[&format!("{line}: {sentence}")]);
        check("crates/pipeline/src/execute.rs", code, &[]);
        check("crates/pipeline/src/execute/retry.rs", code, &[]);
        check("crates/testkit/src/source.rs", code, &[]);
    }
    check("crates/sources/src/builtin.rs", "fn call(&self) {}\nlet text = \"source.call(x)\"; // source.call(x)", &[]);
}

#[test]
fn a_global_holds_no_state() {
    let global = "no global holds state: pass it as a value";
    for (code, expected) in [
        ("static mut COUNT: u32 = 0;", vec![format!("1: {global}")]),
        ("lazy_static::lazy_static! {}", vec![format!("1: {global}")]),
        ("thread_local! {}", vec![format!("1: {global}")]),
        ("\nstatic COUNT: AtomicU64 = AtomicU64::new(0);", vec!["2: the static `COUNT` holds state: pass it as a value".into()]),
        ("pub static ALL: Mutex<Vec<u8>> = Mutex::new(vec![]);", vec!["1: the static `ALL` holds state: pass it as a value".into()]),
        ("static ONE: OnceLock<Regex> = OnceLock::new();", vec!["1: the static `ONE` holds state: pass it as a value".into()]),
        ("static ALL: LazyLock<RwLock<u8>> = x;", vec!["1: the static `ALL` holds state: pass it as a value".into()]),
        ("static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(\"x\"));", vec![]),
        ("static NAMES: [&str; 2] = [\"a\", \"b\"];", vec![]),
        ("fn name() -> &'static str { let cell: Cell<u8> = x; }", vec![]),
    ] {
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        check("crates/server/src/lib.rs", code, &expected);
    }
}

fn check(path: &str, text: &str, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|rest| format!("{path}:{rest}")).collect();
    assert_eq!(broken(&[File { path: path.into(), text: text.into() }]), expected, "{text}");
}
