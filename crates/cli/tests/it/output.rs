//! Tests the output for pipes: tab-separated or one JSON document, complete, and without anything that a terminal would obey.

use crate::countersign::{Server, User};
use serde_json::{Value, json};

const LISTS: &[&[&str]] = &[
    &["inbox"],
    &["invocation", "list"],
    &["action", "list"],
    &["receipt", "list"],
    &["key", "list"],
    &["mode", "list"],
    &["grant", "list"],
    &["kill-switch", "list"],
    &["policy", "versions"],
    &["consent", "list"],
    &["quarantine", "list"],
    &["action", "reviews"],
    &["action", "prices"],
    &["space", "crossings"],
    &["session", "list"],
    &["space", "list"],
    &["user", "list"],
    &["token", "list"],
    &["notification", "list"],
    &["document", "list"],
    &["context", "list"],
    &["doctor"],
];

#[test]
fn every_list_is_items_and_next() {
    let server = Server::start();
    let owner = server.owner();
    fill(&owner);
    for list in LISTS {
        let document = owner.run(&[*list, &["--json"]].concat()).ok().json();
        assert!(document["items"].is_array(), "{list:?}: {document}");
        assert_eq!(document["next"], Value::Null, "{list:?}");
        assert_eq!(document.as_object().unwrap().len(), 2, "{list:?}");
    }
}

#[test]
fn yaml_is_the_same_document() {
    let server = Server::start();
    let owner = server.owner();
    fill(&owner);
    let yaml = owner.run(&["whoami", "-o", "yaml"]).ok().stdout;
    assert!(yaml.lines().any(|line| line == "role: owner"), "{yaml}");
    let refused = owner.run(&["show", "inv_nothing", "-o", "yaml"]).exits(3);
    assert!(refused.stderr.starts_with("error:\n"), "{}", refused.stderr);
}

#[test]
fn every_command_has_a_manual_page() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["man", "."]).ok();
    let page = std::fs::read_to_string(owner.folder().join("countersign-action-invoke.1")).unwrap();
    assert!(page.contains("idempotency") && page.contains("Examples:") && page.contains("countersign action invoke"), "{page}");
    owner.run(&["man", "nowhere"]).exits(3);
}

#[test]
fn a_list_in_a_pipe_is_tab_separated_and_without_colour() {
    let server = Server::start();
    let owner = server.owner();
    fill(&owner);
    let rows = owner.run(&["invocation", "list"]).ok().stdout;
    for row in rows.lines() {
        assert_eq!(row.split('\t').count(), 6, "{row}");
        assert!(!row.contains('…') && !row.contains('\u{1b}'), "{row}");
    }
    let names = owner.run(&["invocation", "list", "-o", "name"]).ok();
    let first: Vec<_> = rows.lines().filter_map(|row| row.split('\t').next()).collect();
    assert_eq!(names.stdout.lines().collect::<Vec<_>>(), first);
    assert_eq!(names.stderr, "");
}

#[test]
fn a_list_ends_with_the_next_command_and_the_next_page() {
    let server = Server::start();
    let owner = server.owner();
    fill(&owner);
    let page = owner.run(&["invocation", "list", "--action", "files.list", "--limit", "1"]).ok();
    let next = page.stderr.trim().strip_prefix("next: countersign ").unwrap().to_owned();
    let arguments: Vec<_> = next.split(' ').chain(["-o", "name"]).collect();
    let second = owner.run(&arguments).ok();
    let all = owner.run(&["invocation", "list", "--action", "files.list", "-o", "name"]).ok().stdout;
    assert_eq!(all.lines().count(), 2);
    assert_eq!(Some(second.stdout.trim()), all.lines().nth(1));
}

#[test]
fn json_keeps_the_fields_that_were_asked_for_and_names_those_there_are() {
    let server = Server::start();
    let owner = server.owner();
    let whoami = owner.run(&["whoami", "--json=role,name"]).ok().json();
    assert_eq!(whoami, json!({ "role": "owner", "name": "owner" }));
    let unknown = owner.run(&["whoami", "--json=nope"]).exits(2);
    assert!(unknown.error()["cause"].as_str().unwrap().contains("principal"), "{unknown:#?}");
}

#[test]
fn colour_is_only_where_it_is_wanted() {
    let server = Server::start();
    let owner = server.owner().with_binary();
    let coloured = |user: &User, arguments: &[&str]| user.run(arguments).ok().stderr.contains('\u{1b}');
    let forced = owner.with_variable("CLICOLOR_FORCE", "1");
    assert!(!coloured(&owner, &["action", "invoke", "files.list"]));
    assert!(coloured(&forced, &["action", "invoke", "files.list"]));
    assert!(coloured(&owner, &["action", "invoke", "files.list", "--color", "always"]));
    assert!(!coloured(&forced, &["action", "invoke", "files.list", "--color", "never"]));
    assert!(!coloured(&owner.with_variable("NO_COLOR", "1"), &["action", "invoke", "files.list"]));
}

#[test]
fn other_peoples_text_never_reaches_the_terminal_as_it_is() {
    let server = Server::start();
    let owner = server.owner();
    let evil = "\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\u{200b}";
    let call = ["action", "invoke", "files.write_text", "path=a", &format!("text={evil}"), "--reason", evil, "--no-wait"];
    let id = owner.run(&call).exits(6).stdout.trim().to_owned();
    owner.run(&["session", "create", "--title", evil]).ok();
    let shown: &[&[&str]] =
        &[&["show", &id], &["show", &id, "--json"], &["inbox"], &["inbox", "-o", "table"], &["explain", &id], &["session", "list"]];
    for arguments in shown {
        let ran = owner.run(arguments).ok();
        let raw = |text: &str| text.chars().any(|character| "\u{7}\u{9b}\u{202e}\u{200b}".contains(character)) || text.contains("\u{1b}]");
        assert!(!raw(&ran.stdout) && !raw(&ran.stderr), "{arguments:?}: {ran:#?}");
    }
    let card = owner.run(&["show", &id]).ok().stdout;
    assert!(card.contains("\\u{1b}]0;owned\\u{7}\\u{9b}2J\\u{202e}\\u{200b}"), "{card}");
}

#[test]
fn doctor_finds_a_healthy_server_healthy_and_names_what_mends_a_missing_one() {
    let server = Server::start();
    let owner = server.owner();
    let well = owner.run(&["doctor", "--data", "data", "--json"]).ok().json();
    assert!(well["items"].as_array().unwrap().iter().all(|item| item["verdict"] == "ok"), "{well:#}");

    // As text, each group is one line; with `--verbose` every finding is shown.
    let short = owner.run(&["doctor", "--data", "data"]).ok();
    assert!(short.stdout.lines().count() <= 6 && short.stdout.contains("✓ ok      sandbox"), "{}", short.stdout);
    let whole = owner.run(&["doctor", "--data", "data", "--verbose"]).ok().stdout;
    assert!(whole.contains("the server runs no package code"), "what the server does, not what this shell would: {whole}");
    assert_eq!(whole.lines().count(), well["items"].as_array().unwrap().len(), "{whole}");

    // A finding about the machine contains the value that was found.
    let told = |subject: &str| -> Vec<String> {
        let items = well["items"].as_array().unwrap().iter().filter(|item| item["subject"] == subject);
        items.map(|item| item["found"].as_str().unwrap().to_owned()).collect()
    };
    // The server's address is the one at which it answers, not the one in a file.
    assert_eq!(
        (told("settings"), told("server")),
        (vec!["the settings are valid".to_owned()], vec![format!("it answers at {}/", server.url)])
    );
    assert!(told("servers").len() == 1 && told("servers")[0].starts_with("`srv_"), "{well:#}");
    assert_eq!(told("workspace"), ["file names are case-sensitive"]);
    let node = told("interpreter").into_iter().find(|found| found.starts_with("node: ")).unwrap();
    let words: Vec<_> = node.split([' ', ';']).collect();
    assert!(std::fs::metadata(words[1]).unwrap().is_file(), "{node}");
    assert!(words[4].len() == 64 && words[4].bytes().all(|byte| byte.is_ascii_hexdigit()), "{node}");
    assert!(told("interpreter").iter().any(|found| found.starts_with("python3: ")), "{well:#}");

    // The settings are reported, and a setting that allows weaker isolation is worth a look.
    let set = |well: &Value, word: &str| {
        let items = well["items"].as_array().unwrap();
        items.iter().find(|item| item["found"].as_str().unwrap().contains(word)).map(|item| item["verdict"].clone())
    };
    assert_eq!(set(&well, "`allow_degraded` is false"), Some("ok".into()));
    std::fs::write(server.data().join("countersign.toml"), "allow_degraded = true\n").unwrap();
    let weaker = owner.run(&["doctor", "--data", "data", "--json"]).ok().json();
    assert_eq!(set(&weaker, "`allow_degraded` is true"), Some("look".into()));

    let lost = User::new(owner.folder(), &crate::fake::nobody(), None);
    let ran = lost.run(&["doctor"]).exits(1);
    assert!(ran.stdout.contains("✗ broken  server"), "{}", ran.stdout);
    assert!(ran.stdout.contains("countersign serve"), "{}", ran.stdout);
    assert!(ran.stdout.contains("one with the settings found here would listen on 127.0.0.1:7117"), "{}", ran.stdout);

    std::fs::write(owner.folder().join("bad.toml"), "nonsense = 1\n").unwrap();
    let refused = owner.run(&["serve", "--config", "bad.toml"]).exits(2).stderr;
    assert!(refused.contains("countersign doctor --config bad.toml"), "{refused}");

    let wrong = owner.with_token("wrong").run(&["doctor"]).exits(1);
    assert!(wrong.stdout.contains("✗ broken  token"), "{}", wrong.stdout);
}

#[test]
fn doctor_sees_who_else_can_read_the_master_key() {
    use std::os::unix::fs::PermissionsExt as _;
    let server = Server::start();
    let key = server.data().join("master.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = server.owner().run(&["doctor", "--data", "data"]).exits(1);
    assert!(ran.stdout.contains("✗ broken  master key"), "{}", ran.stdout);
    assert!(ran.stdout.contains("chmod 600 data/master.key"), "{}", ran.stdout);
}

#[test]
fn openapi_and_version_are_told_without_a_server() {
    let nobody = User::new(&std::env::temp_dir(), &crate::fake::nobody(), None);
    let document: Value = nobody.run(&["openapi"]).ok().json();
    assert!(document["paths"]["/api/v1/whoami"].is_object());
    assert_eq!(nobody.run(&["version"]).ok().stdout, format!("countersign {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(nobody.run(&["version", "--json"]).ok().json(), json!({ "version": env!("CARGO_PKG_VERSION") }));
}

/// Creates something for every list.
fn fill(owner: &User) {
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["mode", "set", "notify.send", "allow"]).ok();
    owner.run(&["action", "invoke", "notify.send", "title=hello", "body=world"]).ok();
    owner.run(&["mode", "set", "documents.add", "allow"]).ok();
    owner.run(&["action", "invoke", "documents.add", "title=hello", "text=world", r#"tags:=["a"]"#]).ok();
}

#[test]
fn a_document_is_listed_by_its_space_and_its_tag_and_shown_with_its_text() {
    let server = Server::start();
    let owner = server.owner();
    fill(&owner);
    let listed = |more: &[&str]| owner.run(&[&["document", "list", "--json"], more].concat()).ok().json()["items"].clone();
    let all = listed(&["--space", "main", "--tag", "a"]);
    assert_eq!((all.as_array().unwrap().len(), &all[0]["title"]), (1, &json!("hello")), "{all}");
    assert_eq!(listed(&["--tag", "b"]), json!([]));
    let id = all[0]["id"].as_str().unwrap();
    assert_eq!(owner.run(&["document", "show", id, "--json"]).ok().json()["text"], "world");
    owner.run(&["document", "show", "doc_nothing"]).exits(3);
}
