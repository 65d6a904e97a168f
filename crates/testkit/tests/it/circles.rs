//! Files that import each other in a loop. Files are read as plain text: an import is a path that begins with `crate::` or `super::`. A file
//! may name what is in its own folder, and code after `mod tests {` and files of tests may name anything.

use crate::workspace::{File, product_files};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn files_import_each_other_one_way() {
    let circles = circles(&product_files());
    assert!(circles.is_empty(), "files import each other in a circle: {circles:#?}");
}

/// The files of each circle.
fn circles(files: &[File]) -> BTreeSet<BTreeSet<String>> {
    let is_product =
        |file: &&File| file.path.ends_with(".rs") && !["tests.rs", "/lib.rs", "/main.rs"].iter().any(|end| file.path.ends_with(end));
    let modules: BTreeMap<_, _> = files.iter().filter(is_product).map(|file| (file.path.trim_end_matches(".rs"), &file.text)).collect();
    let arrows: BTreeMap<_, _> = modules.iter().map(|(module, text)| (*module, imported(module, text, &modules))).collect();
    let reached: BTreeMap<_, _> = modules.keys().map(|module| (*module, reach(&arrows, module))).collect();
    let circle = |module: &&str| -> BTreeSet<String> {
        reached[*module].iter().filter(|other| reached[**other].contains(*module)).map(|other| format!("{other}.rs")).collect()
    };
    modules.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

/// The files that a file imports, without those in its own folder.
fn imported<'a>(module: &str, text: &str, modules: &BTreeMap<&'a str, &String>) -> BTreeSet<&'a str> {
    let product = text.split("\nmod tests {").next().unwrap_or_default();
    let lines: Vec<_> = product.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut paths = BTreeSet::new();
    let code = lines.join("\n");
    for begin in ["crate::", "super::"] {
        for (at, _) in code.match_indices(begin).filter(|(at, _)| !code[..*at].ends_with(|before: char| is_word(before) || before == ':')) {
            read_path(&code[at..], &mut vec![], &mut paths);
        }
    }
    let (krate, _) = module.split_at(module.find("/src/").unwrap_or_default() + "/src".len());
    let found = paths.iter().filter_map(|path| {
        let ups = path.iter().take_while(|name| **name == "super").count();
        let from = if ups == 0 { krate } else { module.rsplitn(ups + 1, '/').last().unwrap_or_default() };
        let names: Vec<_> = std::iter::once(from).chain(path[ups.max(1)..].iter().copied()).collect();
        let known = (1..=names.len()).rev().find_map(|count| modules.get_key_value(names[..count].join("/").as_str()));
        known.map(|(known, _)| *known)
    });
    found.filter(|found| *found != module && !found.starts_with(&format!("{module}/"))).collect()
}

/// Reads a path, or the paths in braces, and returns what follows.
fn read_path<'t>(text: &'t str, before: &mut Vec<&'t str>, paths: &mut BTreeSet<Vec<&'t str>>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = read_path(rest, before, paths);
            let end = rest.find([',', '}']).unwrap_or(rest.len());
            match rest[end..].strip_prefix(',') {
                Some(next) => rest = next,
                None => return rest.get(end + 1..).unwrap_or_default(),
            }
        }
    }
    let name = text.split(|character| !is_word(character)).next().unwrap_or_default();
    before.push(name);
    let mut rest = &text[name.len()..];
    match rest.strip_prefix("::") {
        Some(below) => rest = read_path(below, before, paths),
        None => drop(paths.insert(before.clone())),
    }
    before.pop();
    rest
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn reach<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let (mut open, mut seen): (Vec<_>, _) = (arrows[from].iter().copied().collect(), BTreeSet::new());
    while let Some(module) = open.pop() {
        if seen.insert(module) {
            open.extend(&arrows[module]);
        }
    }
    seen
}

#[test]
fn a_circle_is_named_with_its_files() {
    let file = |path: &str, text: &str| File { path: format!("crates/x/src/{path}.rs"), text: text.into() };
    let of = |files: &[(&str, &str)]| {
        let circles = circles(&files.iter().map(|(path, text)| file(path, text)).collect::<Vec<_>>());
        circles
            .into_iter()
            .map(|circle| circle.into_iter().map(|path| path["crates/x/src/".len()..].to_owned()).collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of(&[("a", "use crate::b::B;"), ("b", "use crate::{\n    Error,\n    c::{self as d, C},\n};"), ("c", "crate::a::go()")]),
        ["a.rs b.rs c.rs"]
    );
    assert_eq!(of(&[("f/a", "use super::b::{B, D};"), ("f/b", "use super::super::f::a;"), ("f", "use self::a::A;")]), ["f/a.rs f/b.rs"]);
    assert_eq!(
        of(&[("a", "use crate::b::B;"), ("b", "// crate::a\n\nmod tests {\n    use crate::a;\n}"), ("b_tests", "use crate::a;")]),
        [""; 0]
    );
    assert_eq!(of(&[("f", "use crate::f::a::A;"), ("f/a", "use super::F;"), ("lib", "use crate::f;")]), [""; 0]);
}
