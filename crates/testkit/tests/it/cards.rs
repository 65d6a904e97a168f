//! The page of a call and `countersign show` say the same facts: whoever decides in a browser knows what whoever decides in a terminal does.
//! Plain text, like `parts`.

use crate::workspace::{File, files_below};
use std::collections::BTreeSet;

const TERMINAL: &str = "crates/commands/src/commands/show/card";
const PAGE: &str = "crates/http-door/src/card";

/// What only the page has a label for.
const ONLY_ON_THE_PAGE: &[(&str, &str)] = &[
    ("Space", "a terminal belongs to somebody who knows where they work; a link may be opened anywhere"),
    ("Asked by", "in the terminal the line stands below the decision, without a label"),
    ("Edited", "in the terminal the line stands below `Edited by`, without a label"),
];

#[test]
fn a_page_and_a_terminal_say_the_same_facts() {
    let files = |folder: &str, part: &str| files_below(folder).into_iter().filter(|file| is_of(file, part)).collect::<Vec<_>>();
    let (terminal, page) = (files("crates/commands/src", TERMINAL), files("crates/http-door/src", PAGE));
    let (told, shown) = (labels(&terminal), labels(&page));
    assert!(
        told.contains("Requested by") && told.contains("Receipt") && told.len() > 25,
        "the card is not where it is looked for: {told:?}"
    );
    // On the page some labels are headings.
    let missing: Vec<_> = told.iter().filter(|label| !page.iter().any(|file| file.text.contains(label.as_str()))).collect();
    assert!(missing.is_empty(), "the page of a call does not have these facts of `countersign show`: {missing:?}");
    let is_known = |label: &&String| told.contains(*label) || ONLY_ON_THE_PAGE.iter().any(|(only, _)| only == label);
    let more: Vec<_> = shown.iter().filter(|label| !is_known(label)).collect();
    assert!(more.is_empty(), "`countersign show` does not have these facts of the page of a call: {more:?}");
}

fn is_of(file: &File, part: &str) -> bool {
    file.path.starts_with(part) && !file.path.ends_with("tests.rs")
}

/// The texts that are written as labels are: `("Requested by", …`, or the word of a match.
fn labels(files: &[File]) -> BTreeSet<String> {
    let product = |file: &File| file.text.split("\nmod tests {").next().unwrap_or_default().to_owned();
    let found = files.iter().flat_map(|file| {
        let text = product(file);
        let quoted = text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| line.split('"').skip(1).step_by(2));
        quoted.filter(|word| is_label(word)).map(str::to_owned).collect::<Vec<_>>()
    });
    found.collect()
}

/// A capital letter, and then small letters and spaces.
fn is_label(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(|first| first.is_ascii_uppercase())
        && word.len() > 3
        && letters.all(|letter| letter.is_ascii_lowercase() || letter == ' ')
}

#[test]
fn a_label_is_told_by_its_form() {
    let text = "// (\"Not this\", x)\nfacts.push((\"Requested by\", format!(\"{} by\", x)));\n(_, true) => \"Restored\",\nmod tests {\n\"Nor this\"";
    let found = labels(&[File { path: "x.rs".into(), text: text.into() }]);
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["Requested by", "Restored"]);
}
