//! A door reads its input, calls one function and shows what it returns. Who may do what, and what may be done, is behind it, in
//! `operations` and in the pipeline, so that no door can forget it. Plain text, like `parts`.

use crate::workspace::{File, product_files};

/// Where the doors are.
const DOORS: &[&str] = &["crates/http-door/src", "crates/mcp-door/src", "crates/server/src/mcp.rs"];

/// What rules about people are written with.
const RULES: &[&str] = &["Permission::", "Role::", ".may(", "PrincipalId::"];

/// What a door may ask of the store: it looks, and changes nothing.
const READS: &[&str] =
    &["find_", "list_", "count_", "prove_", "check", "export", "log_size", "engine_name", "now", "may_be_shared", "server_id"];

/// Who calls is asked of the store in one place.
const AUTHENTICATES: (&str, &str) = ("crates/http-door/src/caller.rs", "authenticate");

#[test]
fn doors_hold_no_rule_and_write_nothing() {
    let files = product_files();
    let doors: Vec<_> = files.iter().filter(|file| DOORS.iter().any(|door| file.path.starts_with(door))).collect();
    assert!(doors.len() > 30, "the doors are not where they are looked for");
    let broken: Vec<_> = doors.into_iter().flat_map(broken).collect();
    assert!(broken.is_empty(), "a door holds a rule, which belongs behind it:\n{}\n", broken.join("\n"));
}

fn broken(file: &File) -> Vec<String> {
    let mut broken = Vec::new();
    let product = file.text.split("\nmod tests {").next().unwrap_or_default();
    for (at, line) in product.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
        broken.extend(RULES.iter().filter(|rule| line.contains(**rule)).map(|rule| format!("{}:{}: `{rule}`", file.path, at + 1)));
    }
    for (at, found) in product.match_indices(".store()") {
        let asked = product[at + found.len()..].trim_start_matches(|character: char| character.is_whitespace() || character == '.');
        let asked = asked.split(|character: char| !character.is_alphanumeric() && character != '_').next().unwrap_or_default();
        if !READS.iter().any(|read| asked.starts_with(read)) && (file.path.as_str(), asked) != AUTHENTICATES {
            let line = product[..at].matches('\n').count() + 1;
            broken.push(format!("{}:{line}: `.store().{asked}`", file.path));
        }
    }
    broken
}

#[test]
fn a_rule_in_a_door_is_named_with_its_line() {
    let broken = |text: &str| self::broken(&File { path: "x.rs".into(), text: text.into() });
    assert_eq!(broken("fn a() {\n    caller.principal.may(Permission::Read)\n}"), ["x.rs:2: `Permission::`", "x.rs:2: `.may(`"]);
    assert_eq!(broken("let x = 1;\napp.store()\n    .change_mode(x)"), ["x.rs:2: `.store().change_mode`"]);
    assert_eq!(broken("hand(app.store())"), ["x.rs:1: `.store().`"]);
    assert_eq!(broken("// Permission::Read\napp.store().list_modes(x)\nmod tests {\n Role::Owner }"), [""; 0]);
}
