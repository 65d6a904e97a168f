//! Tests that every command which some text mentions exists. The texts are hints, help, the server's answers and the documentation.

use super::{Cli, command};
use clap::{Command, FromArgMatches as _};
use std::path::{Path, PathBuf};

/// A text that may mention commands, and where it was found.
struct Mention {
    place: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|own| own == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn documents() -> Vec<PathBuf> {
    let mut found = files(&root().join("docs"), "md");
    found.extend(["README.md", "ARCHITECTURE.md"].map(|name| root().join(name)));
    // The guides of the builtin sources.
    for of in ["crates/sources/src", "crates/runs/src"] {
        found.extend(files(&root().join(of), "md"));
    }
    found
}

/// The lines of a source file without its tests, which may mention commands that do not exist.
fn lines(path: &Path) -> Vec<Mention> {
    let source = std::fs::read_to_string(path).unwrap();
    let product = source.split("#[cfg(test)]\nmod tests").next().unwrap();
    product
        .lines()
        .enumerate()
        .map(|(at, line)| Mention { place: format!("{}:{}", path.display(), at + 1), text: line.replace("\\n", "\n") })
        .collect()
}

/// The code in a Markdown file: fenced or indented blocks, and the texts between backticks.
fn code(path: &Path) -> Vec<Mention> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut is_block = false;
    let mut told = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mut add = |text: &str| told.push(Mention { place: format!("{}:{}", path.display(), at + 1), text: text.to_owned() });
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if is_block || line.starts_with("    ") {
            add(line);
        } else {
            line.split('`').skip(1).step_by(2).for_each(add);
        }
    }
    told
}

/// The words after each `countersign ` in the text, up to the end of the command or sentence.
fn commands(text: &str) -> Vec<&str> {
    let name = "countersign ";
    let mut found = Vec::new();
    for (at, _) in text.match_indices(name) {
        let before = &text[..at];
        let is_word = before.chars().next_back().is_none_or(|letter| letter.is_whitespace() || "`(=$:".contains(letter));
        // In `another countersign is serving the data folder` the word is a noun, in `from countersign import` a package of Python.
        if !is_word || before.ends_with(" a ") || before.ends_with("another ") || before == "from " {
            continue;
        }
        let after = &text[at + name.len()..];
        let end = after.find(['\n', '`', ';', '<', '>', '#', '&', ')', '(', '"']).unwrap_or(after.len());
        let after = &after[..end];
        let end = [" | ", ", ", "  ", ": "].iter().filter_map(|mark| after.find(mark)).min().unwrap_or(after.len());
        found.push(&after[..end]);
    }
    found
}

/// The first word that is neither a command nor a flag, if there is one. The check stops at a placeholder.
fn unknown(tree: &Command, words: &str) -> Option<String> {
    let mut at = tree;
    for word in words.split_whitespace() {
        // A placeholder or a quoted value can be anything, so it is not checked.
        let word = word.split('{').next().unwrap_or_default().trim_end_matches(['.', ',', ':', '?', '\'']);
        if word.starts_with('\'') {
            return None;
        }
        if let Some(flag) = word.strip_prefix("--") {
            let flag = flag.split(['=', '|']).next().unwrap_or_default();
            let takes = |command: &Command| command.get_arguments().any(|argument| argument.get_long() == Some(flag));
            let is_there = flag.is_empty() || matches!(flag, "help" | "version") || takes(at) || takes(tree);
            if !is_there {
                return Some(format!("--{flag}"));
            }
        } else if at.has_subcommands() && word.starts_with(|letter: char| letter.is_ascii_lowercase()) {
            let mut below = None;
            for name in word.split(['|', '\\']).filter(|name| !name.is_empty()) {
                below = at.find_subcommand(name);
                if below.is_none() {
                    return Some(name.to_owned());
                }
            }
            at = below?;
        } else if at.has_subcommands() && !word.starts_with('-') {
            return None;
        }
    }
    None
}

#[test]
fn every_command_that_is_told_exists() {
    let sources = std::fs::read_dir(root().join("crates")).unwrap().flatten().map(|entry| entry.path().join("src"));
    let sources = sources
        .filter(|folder| folder.is_dir())
        .flat_map(|folder| files(&folder, "rs"))
        .filter(|file| !file.to_string_lossy().ends_with("_tests.rs"));
    let told: Vec<_> = sources.flat_map(|file| lines(&file)).chain(documents().iter().flat_map(|file| code(file))).collect();
    let tree = command(None);
    let mut count = 0;
    let mut wrong = Vec::new();
    for Mention { place, text } in &told {
        for words in commands(text) {
            count += 1;
            wrong.extend(unknown(&tree, words).map(|word| format!("{place}: `countersign {}` has no `{word}`", words.trim())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 400, "only {count} were found");
}

/// Splits a line into words as a shell would, and stops where the command ends: at a redirection, a pipe or a remark.
fn split(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut quote, mut inside) = (None, false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), letter) => words.last_mut().unwrap().push(letter),
            (None, '<') if !inside && letters.peek() != Some(&' ') => {
                words.push("<".to_owned());
                inside = true;
            }
            (None, '#' | '|' | '>' | '<' | '&') if !inside => break,
            (None, ' ') => {
                inside = false;
                let mut is_apart = false;
                while letters.next_if_eq(&' ').is_some() {
                    is_apart = true;
                }
                // A text further to the right is a remark, unless it starts with `-`: then it is a flag that was aligned with others.
                if is_apart && letters.peek() != Some(&'-') {
                    break;
                }
            }
            (None, letter) => {
                if !inside {
                    words.push(String::new());
                    inside = true;
                }
                if letter == '\'' || letter == '"' { quote = Some(letter) } else { words.last_mut().unwrap().push(letter) }
            }
        }
    }
    words
}

fn examples(command: &Command) -> Vec<Mention> {
    let own = command.get_before_help().map(ToString::to_string).unwrap_or_default();
    let told = own.lines().map(|line| Mention { place: format!("help of {}", command.get_name()), text: line.to_owned() });
    told.chain(command.get_subcommands().flat_map(examples)).collect()
}

#[test]
fn every_example_parses() {
    let mut tree = command(None);
    let told: Vec<_> = examples(&tree).into_iter().chain(documents().iter().flat_map(|file| code(file))).collect();
    let mut count = 0;
    let mut wrong = Vec::new();
    for Mention { place, text } in &told {
        let line = text.trim();
        // Only lines of a code block are parsed. A line that only names a command, or leaves a choice between several, is skipped.
        if !line.starts_with("countersign ") || !text.starts_with(' ') && !text.contains("  ") || line.contains("\\|") {
            continue;
        }
        count += 1;
        let parsed = tree.try_get_matches_from_mut(split(line)).and_then(|matches| Cli::from_arg_matches(&matches));
        wrong.extend(parsed.err().map(|error| format!("{place}: {line}: {}", error.to_string().lines().next().unwrap_or_default())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 100, "only {count} were found");
}

#[test]
fn a_command_that_does_not_exist_is_noticed() {
    let tree = command(None);
    for (words, expected) in [
        ("kill --help", Some("kill")),
        ("kill-switch off org", None),
        ("kill-switch of", Some("of")),
        ("receipt list --nope", Some("--nope")),
        ("policy check|set FILE", None),
        ("policy check|put FILE", Some("put")),
        ("token", None),
    ] {
        assert_eq!(unknown(&tree, words).as_deref(), expected, "{words}");
    }
    assert_eq!(commands("see it with `countersign show inv_1`; or countersign deny inv_1, then go"), ["show inv_1", "deny inv_1"]);
    assert_eq!(split("countersign deny x --reason 'wrong folder'   the reason"), ["countersign", "deny", "x", "--reason", "wrong folder"]);
}
