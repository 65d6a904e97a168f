//! `docs/errors` against `Code`: one page each, with the status, the title and an example body the server could have sent.

use api::{Code, Problem};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Pages that belong to no single code.
const OTHER_PAGES: [&str; 2] = ["README.md", "invocation-errors.md"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors")
}

fn read(name: &str) -> String {
    let path = folder().join(name);
    let text = fs::read_to_string(&path);
    assert!(text.is_ok(), "`docs/errors/{name}` cannot be read: {text:?}");
    text.unwrap()
}

fn page_of(code: Code) -> String {
    read(&format!("{}.md", code.as_str()))
}

#[test]
fn every_code_has_a_page_and_every_page_has_a_code() {
    let pages: BTreeSet<String> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let codes = Code::ALL.iter().map(|code| format!("{}.md", code.as_str()));
    let expected: BTreeSet<String> = codes.chain(OTHER_PAGES.map(str::to_owned)).collect();
    assert_eq!(pages, expected);
}

#[test]
fn a_code_travels_under_the_name_it_prints() {
    let mut names = BTreeSet::new();
    for &code in Code::ALL {
        assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        assert_eq!(serde_json::from_value::<Code>(code.as_str().into()).unwrap(), code);
        assert!(names.insert(code.as_str()), "`{}` stands twice", code.as_str());
    }
}

#[test]
fn a_page_begins_with_its_code_its_status_and_its_title() {
    for &code in Code::ALL {
        let begin = format!("# `{}`\n\nStatus **{}**: {}.\n\n", code.as_str(), code.status(), code.title());
        let page = page_of(code);
        assert!(page.starts_with(&begin), "`docs/errors/{}.md` does not begin with:\n{begin}", code.as_str());
        for part in ["\n**When.** ", "\n**Retrying.** ", "\n**Next.** "] {
            assert!(page.contains(part), "`docs/errors/{}.md` lacks {part:?}", code.as_str());
        }
    }
}

#[test]
fn the_index_lists_every_code_with_what_it_means_for_callers() {
    let index = read("README.md");
    let listed: String = index.split_inclusive('\n').filter(|line| line.starts_with("| [`")).collect();
    let row = |code: &Code| {
        let (name, retry) = (code.as_str(), code.retry().as_str());
        format!("| [`{name}`]({name}.md) | {} | {} | {retry} | {} |\n", code.status(), code.exit(), code.title())
    };
    let there: String = Code::ALL.iter().map(row).collect();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(folder().join("README.md"), index.replace(&listed, &there)).unwrap();
    } else {
        assert_eq!(listed, there, "`docs/errors/README.md`: UPDATE_EXPECT=1 writes the list");
    }
}

#[test]
fn the_example_on_a_page_is_a_body_of_that_code() {
    for &code in Code::ALL {
        let page = page_of(code);
        let example = page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
        let problem = serde_json::from_str::<Problem>(example);
        assert!(problem.is_ok(), "the example of `{}`: {problem:?}", code.as_str());
        let problem = problem.unwrap();
        let plain = Problem::new(code, problem.detail.clone());
        assert_eq!((&problem.kind, &problem.title, problem.status, problem.code), (&plain.kind, &plain.title, plain.status, plain.code));
        // Written again it must be the same: a field the wire does not have would be lost on the way.
        let written: serde_json::Value = serde_json::from_str(example).unwrap();
        assert_eq!(serde_json::to_value(&problem).unwrap(), written, "the example of `{}`", code.as_str());
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    for entry in fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        for link in read(&name).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let page = link.split('#').next().unwrap_or(link);
            assert!(folder().join(page).is_file(), "`docs/errors/{name}` links to `{link}`, which is not there");
        }
    }
}
