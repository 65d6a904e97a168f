//! Tests that people and sessions can be given by name wherever an id is expected.

use crate::countersign::{Server, User};
use serde_json::{Value, json};

fn titled(owner: &User, title: &str) -> Value {
    owner.run(&["session", "create", "--title", title, "--json"]).ok().json()
}

#[test]
fn a_person_is_called_by_their_name() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["user", "create", "robin", "--role", "admin"]).ok();
    let robin = owner.invited(&owner.run(&["user", "invite", "robin", "--json"]).ok().json());
    assert_eq!(robin.run(&["whoami", "--json=name"]).ok().json()["name"], "robin");
    owner.run(&["user", "disable", "robin", "--yes"]).ok();
    robin.run(&["whoami"]).exits(4);
    let unknown = owner.run(&["user", "invite", "nobody"]).exits(3);
    assert!(unknown.stderr.contains("there is no user `nobody`") && unknown.stderr.contains("countersign user list"), "{unknown:?}");
    let taken = owner.run(&["user", "create", "owner"]).exits(7);
    assert!(taken.stderr.contains("hint: choose another name; countersign user list"), "{taken:?}");
}

#[test]
fn a_session_is_called_by_its_title() {
    let server = Server::start();
    let owner = server.owner();
    let id = titled(&owner, "triage")["id"].as_str().unwrap().to_owned();
    assert_eq!(owner.run(&["session", "show", "triage", "--json=id"]).ok().json()["id"], id.as_str());
    owner.run(&["explain", "files.list", "--as", "triage"]).ok();
    owner.run(&["action", "invoke", "files.list", "--session", "triage"]).ok();
    owner.run(&["action", "list", "--session", "triage"]).ok();
    for list in [["invocation", "list"], ["receipt", "list"]] {
        let listed = owner.run(&[&list[..], &["--session", "triage", "-o", "name"]].concat()).ok().stdout;
        assert_eq!(listed.lines().count(), 1, "{listed}");
    }
    owner.run(&["grant", "give", "files.write_text", "--session", "triage", "--calls", "1"]).ok();
    assert_eq!(owner.run(&["grant", "list", "--session", "triage", "-o", "name"]).ok().stdout.lines().count(), 1);
    owner.run(&["kill-switch", "on", "session:triage", "--reason", "r", "--yes"]).ok();
    assert!(owner.run(&["kill-switch", "list"]).ok().stdout.contains(&format!("session:{id}")));
    owner.run(&["kill-switch", "off", "session:triage", "--reason", "r"]).ok();

    let other = titled(&owner, "triage")["id"].as_str().unwrap().to_owned();
    let several = owner.run(&["explain", "files.list", "--as", "triage"]).exits(2);
    assert!(several.stderr.contains("2 sessions are named `triage`"), "{several:?}");
    assert!(several.stderr.contains(&id) && several.stderr.contains(&other), "{several:?}");
    // A session that has ended is not chosen if another with the same name is open.
    owner.run(&["session", "end", &id, "--yes"]).ok();
    assert_eq!(owner.run(&["session", "show", "triage", "--json=id"]).ok().json()["id"], other.as_str());
    let unknown = owner.run(&["session", "show", "nightly"]).exits(3);
    assert!(unknown.stderr.contains("there is no session `nightly`"), "{unknown:?}");
}

#[test]
fn names_stand_where_a_person_reads_and_ids_where_a_program_does() {
    let server = Server::start();
    let owner = server.owner();
    let session = titled(&owner, "release bot");
    let agent = owner.with_token(session["token"].as_str().unwrap());
    let grant = owner.run(&["grant", "give", "files.write_text", "--session", "release bot", "--calls", "1", "--json=id"]).ok().json();
    let (session, grant) = (session["id"].as_str().unwrap(), grant["id"].as_str().unwrap());
    let call = agent.run(&["action", "invoke", "files.write_text", "path=a.txt", "text=x", "--json"]).ok().json()["invocation"].clone();
    let (id, space) = (call["id"].as_str().unwrap(), call["space_id"].as_str().unwrap());
    let place = format!("main (spc_…{})", &space[space.len() - 6..]);

    let on_screen = |arguments: &[&str]| owner.on_screen(140, arguments, "").ok().stdout;
    let listed = on_screen(&["invocation", "list"]);
    assert!(listed.contains("release bot") && !listed.contains("agent:"), "{listed}");
    let (whose, acting) = (format!("{grant} for files.write_text"), format!("release bot (agent:{session})"));
    let (place, whose, acting) = (place.as_str(), whose.as_str(), acting.as_str());
    for (arguments, expected) in [
        (&["invocation", "show", id][..], &["release bot", "main (green)", grant][..]),
        (&["explain", id], &["release bot", place, whose]),
        (&["explain", "files.write_text", "--as", "release bot"], &[acting, place]),
        (&["session", "show", "release bot"], &[place]),
    ] {
        let shown = on_screen(arguments);
        assert!(expected.iter().all(|part| shown.contains(part)), "{arguments:?}: {expected:?}\n{shown}");
    }
    let piped = owner.run(&["explain", "files.write_text", "--as", session]).ok().stdout;
    assert!(piped.contains(&format!("as\tagent:{session}\nspace\t{space}\n")), "{piped}");
    assert!(owner.run(&["invocation", "list"]).ok().stdout.contains(&format!("\tagent:{session}\t")));
}

#[test]
fn an_agent_names_its_own_session_by_its_id_and_is_told_what_it_is() {
    let server = Server::start();
    let owner = server.owner();
    let session = titled(&owner, "triage");
    let agent = owner.with_token(session["token"].as_str().unwrap());
    agent.run(&["action", "invoke", "files.list", "--session", session["id"].as_str().unwrap()]).ok();
    agent.run(&["action", "invoke", "files.list", "--session", "triage"]).exits(3);
    for refused in [agent.run(&["user", "list"]).exits(5), agent.run(&["mode", "set", "files.list", "deny"]).exits(5)] {
        assert!(refused.stderr.contains("hint: this is an agent's token"), "{refused:?}");
    }
}

#[test]
fn a_session_without_a_title_is_named_after_where_it_was_made() {
    let server = Server::start();
    let made = server.owner().run(&["session", "create", "--json"]).ok().json();
    let title = made["session"]["title"].as_str().unwrap();
    assert!(title.starts_with("cli@") && title.len() > 4, "{title}");
}

#[test]
fn a_call_is_explained_as_it_is_invoked() {
    let server = Server::start();
    let owner = server.owner();
    titled(&owner, "triage");
    let explain = |arguments: &[&str]| owner.run(&[&["explain"], arguments].concat());
    let words = explain(&["files.write_text", "--as", "triage", "path=a.txt", "text=b"]).ok();
    assert_eq!(words.stdout, explain(&["files.write_text", "--as", "triage", "--params", r#"{"path":"a.txt","text":"b"}"#]).ok().stdout);
    assert!(explain(&["files.write_text", "--as", "triage", "path=a.txt"]).ok().stdout.contains("params\t"));
    let next = explain(&["files.write_text", "--as", "triage"]).ok().stderr;
    assert!(next.contains(" path=… text=…"), "{next}");
    // An unknown action is reported before any other mistake.
    for arguments in [&["files.write_txt"][..], &["files.write_txt", "--as", "nobody", "path=x"], &["files.write_txt", "--params", "{"]] {
        let refused = explain(arguments).exits(3);
        assert!(refused.stderr.contains("did you mean `files.write_text`?"), "{refused:?}");
    }
    let id = owner.run(&["action", "invoke", "files.list"]).ok();
    let id = id.stderr.split_whitespace().find(|word| word.starts_with("inv_")).unwrap().trim_end_matches([',', ':']).to_owned();
    explain(&[&id, "path=x"]).exits(2);
}

#[test]
fn fields_of_receipts_are_chosen_as_those_of_anything_else() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["action", "invoke", "files.list"]).ok();
    let chosen = owner.run(&["receipt", "list", "--json=status,action"]).ok().json();
    assert_eq!(chosen["items"], json!([{ "status": "succeeded", "action": "files.list" }]));
    let id = owner.run(&["receipt", "list", "-o", "name"]).ok().stdout;
    assert_eq!(owner.run(&["receipt", "show", id.trim(), "--json=status"]).ok().json(), json!({ "status": "succeeded" }));
    // Without a selection of fields, the document is as the server sent it.
    assert_eq!(owner.run(&["receipt", "list", "--json"]).ok().json()["items"][0].get("status"), None);
    let unknown = owner.run(&["receipt", "list", "--json=id,nope"]).exits(2).error();
    assert_eq!(unknown["detail"], "there is no field `nope`");
    let cause = unknown["cause"].as_str().unwrap();
    assert!(["id", "status", "action", "at", "payload"].iter().all(|field| cause.contains(field)), "{cause}");
}

#[test]
fn a_link_says_the_time_that_is_really_left() {
    let server = Server::start();
    let owner = server.owner();
    let id = owner.run(&["action", "invoke", "files.write_text", "path=a", "text=b", "--no-wait"]).exits(6).stdout;
    let told = owner.run(&["link", id.trim()]).ok().stderr;
    assert!(told.contains("within 5:0") || told.contains("within 4:5"), "{told}");
}

#[test]
fn an_admin_is_told_that_only_an_owner_makes_owners() {
    let server = Server::start();
    let owner = server.owner();
    let robin = crate::answers::colleague(&owner, "robin");
    owner.run(&["user", "create", "mia"]).ok();
    for arguments in [&["user", "role", "mia", "owner", "--yes"][..], &["user", "create", "eve", "--role", "owner"]] {
        let refused = robin.run(arguments).exits(5);
        assert!(refused.stderr.contains("an admin cannot make anybody an owner"), "{refused:?}");
        assert!(refused.stderr.contains("hint: ask an owner"), "{refused:?}");
    }
    let refused = robin.run(&["user", "limit", "owner", "amber"]).exits(5);
    assert!(refused.stderr.contains("an admin cannot act on an owner"), "{refused:?}");
}
