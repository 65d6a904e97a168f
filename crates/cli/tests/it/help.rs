//! Compares help with golden files, so that an accidental change becomes a visible diff. After an intended change, run `WRITE_GOLDEN=1
//! cargo test -p countersign-cli help`.

use crate::countersign::User;
use std::path::{Path, PathBuf};

#[test]
fn help_is_as_committed() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/help");
    let mut known: Vec<PathBuf> = Vec::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(command) = open.pop() {
        let arguments: Vec<_> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let help = nobody().run(&arguments).ok().stdout;
        open.extend(subcommands(&help).map(|name| [command.clone(), vec![name]].concat()));
        let file = golden.join(format!("{}.txt", [vec!["countersign".to_owned()], command.clone()].concat().join("-")));
        if std::env::var_os("WRITE_GOLDEN").is_some() {
            std::fs::write(&file, &help).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(help, expected, "{command:?}");
        known.push(file);
    }
    let mut committed: Vec<_> = std::fs::read_dir(&golden).unwrap().map(|entry| entry.unwrap().path()).collect();
    committed.sort();
    known.sort();
    assert_eq!(known, committed, "a file of a command that is gone");
    assert!(known.len() > 40, "{known:?}");
}

#[test]
fn help_by_word_is_help_by_flag() {
    for command in [vec![], vec!["inbox"], vec!["action", "invoke"]] {
        let by_word = nobody().run(&[vec!["help"], command.clone()].concat()).ok().stdout;
        let by_flag = nobody().run(&[command, vec!["--help"]].concat()).ok().stdout;
        assert_eq!(by_word.trim_end(), by_flag.trim_end());
    }
    nobody().run(&["help", "nonsense"]).exits(2);
}

#[test]
fn exit_codes_have_their_own_page() {
    let page = nobody().run(&["help", "exit-codes"]).ok().stdout;
    let codes: Vec<_> = page.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(codes, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "130"]);
}

fn nobody() -> User {
    User::new(&std::env::temp_dir(), &crate::fake::nobody(), None)
}

/// The commands that a help page lists: the first word of every line that is indented by two spaces below a heading other than that of
/// arguments and options.
fn subcommands(help: &str) -> impl Iterator<Item = String> {
    let after_usage = help.split_once("Usage: ").map_or("", |(_, rest)| rest);
    let mut inside = false;
    let names = after_usage.lines().filter_map(move |line| {
        if !line.starts_with(' ') {
            inside = line.ends_with(':') && !matches!(line, "Arguments:" | "Options:" | "Everywhere:");
            return None;
        }
        let name = line.strip_prefix("  ")?.split_whitespace().next()?;
        (inside && line.starts_with("  ") && !line.starts_with("   ") && !name.starts_with('-')).then(|| name.to_owned())
    });
    names.collect::<Vec<_>>().into_iter()
}
