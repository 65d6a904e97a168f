//! Tests questions at a terminal: nothing happens before a yes, and any other answer changes nothing.

use crate::answers::{asked, colleague};
use crate::countersign::{Server, User};
use crate::exit_codes::r4;
use std::os::unix::fs::PermissionsExt as _;

/// All stored rows, except how far the log is signed, because the server keeps signing by itself.
fn stored(user: &User) -> Vec<String> {
    let file = user.folder().join("now.backup");
    user.run(&["backup", "now.backup", "--data", "data"]).ok();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    let is_signing = |line: &str| ["checkpoints", "logs"].iter().any(|table| line.contains(&format!(r#""table":"{table}""#)));
    let rows: Vec<_> = text.lines().filter(|line| line.contains(r#""table":""#) && !is_signing(line)).map(str::to_owned).collect();
    assert!(rows.len() > 5, "{text}");
    rows
}

/// A no, an empty line, the end of the input, and an answer that is not quite a yes.
const NOES: [&str; 4] = ["n\n", "\n", "", "yess\n"];

#[track_caller]
fn check(who: &User, arguments: &[&str], question: &str, code: i32) {
    let before = stored(who);
    for no in NOES {
        let seen = who.on_screen(80, arguments, no).exits(1).stdout;
        assert!(seen.contains(question) && seen.contains("not done: you did not say yes"), "{seen}");
        let after = stored(who);
        let new: Vec<_> = after.iter().filter(|row| !before.contains(row)).collect();
        assert!(after == before, "{arguments:?} with {no:?} changed something: {new:#?}");
    }
    who.on_screen(80, arguments, "y\n").exits(code);
    assert!(stored(who) != before, "{arguments:?} with a yes changed nothing");
}

#[test]
fn a_question_is_asked_before_rules_change() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["action", "invoke", "files.list"]).ok();
    std::fs::write(owner.folder().join("modes.json"), r#"{"modes":[{"action":"files.list","mode":"deny"}]}"#).unwrap();
    let policies = "abac = '''@id(\"a\") forbid (principal, action == Countersign::Action::\"files.delete\", resource);'''";
    std::fs::write(owner.folder().join("policies.toml"), policies).unwrap();
    let session = owner.run(&["session", "create", "--json"]).ok().json();
    let agent = owner.with_token(session["token"].as_str().unwrap());
    agent.run(&["grant", "request", "files.write_text"]).exits(6);
    let grant = owner.run(&["grant", "list", "--state", "requested", "-o", "name"]).ok().stdout;
    let canary = owner.run(&["canary", "create", "invoice 7731 of Quillfeather", "-o", "name"]).ok().stdout;
    owner.run_with_stdin(&["secret", "set", "token", "--stdin"], "x").ok();
    check(&owner, &["grant", "approve", grant.trim()], "Give this grant? [y/N] ", 0);
    check(&owner, &["secret", "delete", "token"], "Delete secret `token`? Its value cannot be restored. [y/N] ", 0);
    check(&owner, &["grant", "give", "files.*", "--org"], "every action of `files.*`, also later ones? [y/N] ", 0);
    check(
        &owner,
        &["mode", "import", "modes.json"],
        "Replace every mode, also those of automations, with the 1 in `modes.json`? [y/N] ",
        0,
    );
    check(&owner, &["policy", "set", "policies.toml"], "Replace every policy of the org with those in `policies.toml`? [y/N] ", 0);
    check(&owner, &["action", "review", "files.list"], "Mark `files.list` as reviewed? [y/N] ", 0);
    check(&owner, &["canary", "remove", canary.trim()], "Remove canary token `cny_", 0);
    check(&owner, &["kill-switch", "on", "org", "--reason", "r"], "Stop every call of `org` at once? [y/N] ", 0);
    check(&owner, &["key", "rotate"], "Replace the keys that sign receipts and checkpoints? [y/N] ", 0);
}

#[test]
fn a_question_is_asked_before_somebody_loses_or_gains_something() {
    let server = Server::start();
    let owner = server.owner();
    colleague(&owner, "robin");
    let id = owner.run(&["user", "create", "mia", "-o", "name"]).ok().stdout;
    let token = owner.run(&["token", "create", "phone", "--json"]).ok().json();
    let session = owner.run(&["session", "create", "-o", "name"]).ok().stdout;
    check(&owner, &["user", "role", "mia", "admin"], "Make `mia` an admin? [y/N] ", 0);
    check(&owner, &["token", "revoke", token["id"].as_str().unwrap()], "Revoke token `tok_", 0);
    check(&owner, &["session", "end", session.trim()], "End session `ses_", 0);
    check(&owner, &["user", "disable", id.trim()], "Disable user `usr_", 0);
}

#[test]
fn a_question_is_asked_before_what_was_quarantined_goes() {
    let server = Server::start_with(&[("COUNTERSIGN_HTTP_ALLOWED_HOSTS", "https://example.com")]);
    let owner = server.owner();
    let robin = colleague(&owner, "robin");
    let secret = "body=my key is AKIAQYLPMN5HHHFPZAM2";
    for _ in 0..2 {
        owner.run(&["action", "invoke", "http.request", "method=POST", "url=https://example.com/x", secret, "--no-wait"]).exits(5);
    }
    let held = owner.run(&["quarantine", "list", "--state", "held", "-o", "name"]).ok().stdout;
    let (one, other) = held.trim().split_once('\n').unwrap();
    check(&robin, &["quarantine", "release", one, "--reason", "r"], "Run `http.request` all the same, as a new call? [y/N] ", 6);
    let question = "Discard the params of `http.request`? This cannot be undone. [y/N] ";
    check(&robin, &["quarantine", "discard", other, "--reason", "r"], question, 0);
}

#[test]
fn a_yes_beyond_one_call_says_what_it_writes_and_asks() {
    let server = Server::start();
    let owner = server.owner();
    let (one, other) = (asked(&owner, "a"), asked(&owner, "b"));
    let granted = ["approve", &one, "--grant", "--calls", "2"];
    check(&owner, &granted, "Approve it, and give this grant? [y/N] ", 0);
    owner.run(&["grant", "revoke", owner.run(&["grant", "list", "-o", "name"]).ok().stdout.trim()]).ok();
    let always = ["approve", &other, "--always"];
    let shown = owner.at_terminal(&always, &[("Approve it, and every call like it? [y/N] ", "n\n")]).exits(1);
    shown.shows("! beyond this call: mode of files.write_text becomes allow for the org");
    check(&owner, &always, "Approve it, and every call like it? [y/N] ", 0);
    assert_eq!(owner.run(&["mode", "list", "--json"]).ok().json()["items"][0]["mode"], "allow");
}

#[test]
fn an_r4_action_is_approved_by_its_name_alone() {
    let (fake, user) = r4();
    let question = "`files.wipe` is approved by name: type it to approve it: ";
    for wrong in ["y\n", "\n", "files.wip\n", "\u{4}"] {
        user.at_terminal(&["approve", "inv_1"], &[(question, wrong)]).exits(8).shows("approved by name, one call at a time");
    }
    user.at_terminal(&["approve", "inv_1"], &[(question, "files.wipe\n")]).exits(0);
    assert_eq!(fake.asked().pop().unwrap().2["confirm"], "files.wipe");
}

/// A user whose editor is this script. The script gets the flag `--wait` as `$1` and the file to edit as `$2`.
pub(crate) fn with_editor(user: &User, script: &str) -> User {
    let editor = user.folder().join("editor");
    std::fs::write(&editor, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o700)).unwrap();
    user.with_variable("EDITOR", &format!("{} --wait", editor.display()))
}

#[test]
fn params_are_edited_shown_and_run_as_they_were_left() {
    let server = Server::start();
    let owner = server.owner();
    let id = asked(&owner, "a");
    // The flag of `$EDITOR` is the first argument, the file the second.
    let edits = with_editor(&owner, "test \"$1\" = --wait || exit 9; sed -i 's/\"x\"/\"y\"/' \"$2\"");
    let question = "Approve `files.write_text` with these params? [y/N] ";
    let before = stored(&owner);
    for no in ["n\n", "\n", "\u{4}", "yess\n"] {
        let seen = edits.at_terminal(&["approve", &id, "--edit"], &[(question, no)]).exits(1);
        seen.shows("what changes:\n  /text: \"x\" → \"y\"\n").shows("not done: you did not say yes");
    }
    assert!(stored(&owner) == before && !server.workspace().join("a").exists());
    edits.at_terminal(&["approve", &id, "--edit"], &[(question, "yes\n")]).exits(0);
    assert_eq!(std::fs::read_to_string(server.workspace().join("a")).unwrap(), "y");
    assert!(owner.run(&["explain", &id]).ok().stdout.contains("edit\t/text: \"x\" → \"y\""));
    assert!(std::fs::read_dir(std::env::temp_dir()).unwrap().flatten().all(|left| {
        let is_ours = left.file_name().to_string_lossy().starts_with("countersign-params-");
        !is_ours || !std::fs::read_to_string(left.path()).is_ok_and(|text| text.contains(&id))
    }));
}

#[test]
fn an_editor_that_leaves_nothing_usable_approves_nothing() {
    let server = Server::start();
    let owner = server.owner();
    let id = asked(&owner, "a");
    let before = stored(&owner);
    for (script, code, told) in [
        (": > \"$2\"", 1, "not approved: the params came back empty from the editor"),
        ("echo '{' > \"$2\"", 8, "not approved: what was edited is not JSON we accept"),
        ("echo '[]' > \"$2\"", 8, "not approved: the params must be a JSON object"),
        ("exit 3", 1, "ended with exit status: 3"),
    ] {
        with_editor(&owner, script).at_terminal(&["approve", &id, "--edit"], &[]).exits(code).shows(told);
    }
    let none = owner.with_variable("VISUAL", "/nowhere/editor");
    none.at_terminal(&["approve", &id, "--edit"], &[]).exits(1).shows("the editor `/nowhere/editor` cannot be started");
    assert!(stored(&owner) == before);
    // Params that the server refuses are not approved.
    let wrong = with_editor(&owner, "echo '{\"path\":7}' > \"$2\"");
    wrong.at_terminal(&["approve", &id, "--edit"], &[("with these params? [y/N] ", "y\n")]).exits(8);
    // Params that are left unchanged can be approved too.
    with_editor(&owner, "true")
        .at_terminal(&["approve", &id, "--edit"], &[("with these params? [y/N] ", "y\n")])
        .exits(0)
        .shows("the params stay as they were requested");
    assert_eq!(std::fs::read_to_string(server.workspace().join("a")).unwrap(), "x");
}

#[test]
fn nobody_is_asked_who_agreed_before_or_forbade_it() {
    let server = Server::start();
    let owner = server.owner();
    let id = asked(&owner, "a");
    owner.at_terminal(&["approve", &id, "--always", "--no-input"], &[]).exits(2).shows("nobody can be asked here");
    assert_eq!(owner.run(&["show", &id, "--json=status"]).ok().json()["status"], "pending");
    let seen = owner.at_terminal(&["approve", &id, "--always", "--yes"], &[]).exits(0);
    assert!(!seen.screen.contains("[y/N]"), "{}", seen.screen);
}

#[test]
fn a_token_is_typed_unseen() {
    let server = Server::start();
    let owner = server.owner();
    let token = std::fs::read_to_string(server.data().join("owner.token")).unwrap();
    let seen = owner.without_token().at_terminal(&["login"], &[("Token or invitation for ", &format!("{}\n", token.trim()))]).exits(0);
    assert!(seen.screen.contains("✓ logged in") && !seen.screen.contains(token.trim()), "{}", seen.screen);
    owner.without_token().at_terminal(&["login"], &[("Token or invitation for ", "\n")]).exits(2).shows("the token is empty");
}
