//! Tests identities on a server: contexts, tokens, people and spaces.

use crate::automations::applied_as;
use crate::countersign::{Server, User};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn a_login_is_remembered_in_a_file_for_its_owner_alone_until_logout() {
    let server = Server::start();
    let owner = server.owner();
    let token = server.owner_token.clone().unwrap();
    let nobody = owner.without_token();
    nobody.run(&["whoami"]).exits(4);

    nobody.run_with_stdin(&["login", "--token-stdin", "--context", "wrong"], "nonsense\n").exits(4);
    assert_eq!(nobody.run(&["context", "list", "-o", "name"]).ok().stdout, "");

    nobody.run_with_stdin(&["login", "--token-stdin", "--context", "work"], &format!("{token}\n")).ok();
    let file = owner.folder().join("config/contexts.toml");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(nobody.run(&["whoami", "--json=role"]).ok().json(), json!({ "role": "owner" }));
    let listed = nobody.run(&["context", "list"]).ok();
    assert_eq!(listed.stdout, format!("work\t{}/\tcurrent\n", server.url));
    assert!(!listed.stdout.contains(&token) && !listed.stderr.contains(&token));

    nobody.run_with_stdin(&["login", "--stdin", "--context", "other"], &token).ok();
    nobody.run(&["context", "use", "work"]).ok();
    nobody.run(&["context", "use", "nope"]).exits(3);
    nobody.run(&["logout"]).ok();
    nobody.run(&["logout", "other"]).ok();
    nobody.run(&["whoami"]).exits(4);
    nobody.run(&["logout"]).exits(3);
}

#[test]
fn a_login_without_a_terminal_never_waits_for_a_token() {
    let server = Server::start();
    let refused = server.owner().run(&["login"]).exits(2);
    assert!(refused.stderr.contains("hint: countersign login --token-stdin"), "{}", refused.stderr);
}

#[test]
fn a_token_says_what_its_clients_get_over_mcp_and_the_list_shows_it() {
    let server = Server::start();
    let owner = server.owner();
    let flags = ["--mcp-tools", "meta", "--hold-seconds", "120"];
    owner.run(&[&["token", "create", "ci", "--scope", "read"][..], &flags].concat()).ok();
    owner.run(&[&["session", "create"][..], &flags].concat()).ok();
    let listed = owner.run(&["token", "list", "--json"]).ok().json();
    let said = json!({ "tools": "meta", "hold_seconds": 120 });
    assert_eq!(listed["items"].as_array().unwrap().iter().filter(|token| token["mcp"] == said).count(), 2, "{listed:#}");
    owner.run(&["token", "create", "x", "--mcp-tools", "all"]).exits(2);
    owner.run(&["token", "create", "x", "--hold-seconds", "601"]).exits(2);
}

#[test]
fn a_colleague_gets_a_token_answers_and_is_disabled() {
    let server = Server::start();
    let owner = server.owner();
    let made = owner.run(&["user", "create", "robin", "--role", "admin", "--json"]).ok().json();
    assert_eq!(made["user"]["role"], "admin");
    let id = made["id"].as_str().unwrap();
    let robin = owner.invited(&made["invitation"]);
    assert_eq!(robin.run(&["whoami", "--json=name"]).ok().json(), json!({ "name": "robin" }));
    // It works once. Whoever comes too late asks an admin, who has the command to pass on.
    let used = made["invitation"]["invitation"].as_str().unwrap();
    let late = owner.without_token().run_with_stdin(&["login", "--token-stdin"], used).exits(4).stderr;
    assert!(late.contains("countersign user invite NAME") && !late.contains("owner.token"), "{late}");
    for again in [&["user", "invite", "robin"][..], &["user", "create", "mia"]] {
        let ran = owner.run(again).ok();
        assert!(ran.stderr.contains(&format!("countersign login --url {}\n", server.url)), "{ran:?}");
        // Whoever has no terminal gets a link.
        assert!(ran.stdout.contains(&format!("link\t{}/login/invitation/cs_invitation_", server.url)), "{ran:?}");
    }

    // If self-approval is refused, another person must answer.
    owner.run(&["space", "set", "main", "--self-approval", "refused"]).ok();
    let pending = owner.run(&["action", "invoke", "files.write_text", "path=a", "text=b", "--no-wait"]).exits(6).stdout;
    assert_eq!(owner.run(&["approve", pending.trim(), "--json"]).exits(5).error()["code"], "self_approval");
    robin.run(&["approve", pending.trim()]).ok();

    owner.run(&["user", "disable", id, "--yes"]).ok();
    robin.run(&["whoami"]).exits(4);
    owner.run(&["space", "set", "nowhere", "--self-approval", "allowed"]).exits(3);
}

#[test]
fn tokens_are_shown_once_listed_without_their_text_and_revoked() {
    let server = Server::start();
    let owner = server.owner();
    let own = owner.run(&["token", "create", "phone", "--json"]).ok().json();
    let text = own["token"].as_str().unwrap();
    let listed = owner.run(&["token", "list", "--json"]).ok();
    assert!(listed.stdout.contains("phone") && !listed.stdout.contains(text));
    let phone = owner.with_token(text);
    phone.run(&["whoami"]).ok();
    owner.run(&["token", "revoke", own["id"].as_str().unwrap(), "--yes"]).ok();
    phone.run(&["whoami"]).exits(4);

    let service = owner.run(&["token", "create", "ci", "--scope", "create_session", "--scope", "invoke", "--json"]).ok().json();
    let listed = owner.on_screen(160, &["token", "list"], "").stdout;
    let line = listed.lines().find(|line| line.contains(service["id"].as_str().unwrap())).unwrap();
    assert!(line.contains("made by owner"), "{listed}");
    let ci = owner.with_token(service["token"].as_str().unwrap());
    let refused = ci.run(&["action", "invoke", "files.list"]).exits(2);
    assert!(refused.stderr.contains("has no session of its own"), "{}", refused.stderr);
    let session = ci.run(&["session", "create", "-o", "name"]).ok().stdout;
    ci.with_binary().with_variable("COUNTERSIGN_SESSION", session.trim()).run(&["action", "invoke", "files.list"]).ok();
}

#[test]
fn tokens_that_lost_their_person_are_told_and_such_a_person_is_made_nothing_more() {
    let server = Server::start();
    let owner = server.owner();
    let made = owner.run(&["user", "create", "robin", "--role", "admin", "--json"]).ok().json();
    let robin = made["id"].as_str().unwrap().to_owned();
    let laptop = owner.invited(&made["invitation"]).run(&["token", "create", "laptop", "-o", "name"]).ok().stdout.trim().to_owned();
    let state = |id: &str| {
        let listed = owner.run(&["token", "list"]).ok().stdout;
        let line = listed.lines().find(|line| line.starts_with(id)).unwrap().to_owned();
        (line.contains(&robin), line.rsplit('\t').next().unwrap().to_owned())
    };
    assert_eq!(state(&laptop), (true, "does not expire".to_owned()));
    owner.run(&["user", "disable", "robin", "--yes"]).ok();
    assert_eq!(state(&laptop), (true, "person_disabled".to_owned()));
    for refused in [&["user", "role", robin.as_str(), "owner", "--yes"][..], &["user", "limit", robin.as_str(), "green"]] {
        let refused = owner.run(refused).exits(3);
        assert!(refused.stderr.contains("is disabled, for good"), "{}", refused.stderr);
    }
    let refused = owner.run(&["session", "create", "--source", "nope"]).exits(8);
    assert!(refused.stderr.contains("`countersign source list`"), "{refused:?}");
    let session = owner.run(&["session", "create", "--json"]).ok().json();
    let agents = owner.run(&["token", "list", "--json"]).ok().json();
    let agents = agents["items"].as_array().unwrap().iter().find(|token| token["session_id"] == session["id"]).unwrap().clone();
    owner.run(&["session", "end", session["id"].as_str().unwrap(), "--yes"]).ok();
    assert_eq!(state(agents["id"].as_str().unwrap()).1, "session_ended");
}

#[test]
fn a_server_shows_its_owners_token_to_nobody_who_is_no_person() {
    // If stdout is not a terminal, the server prints the path of the token's file instead of the token. `Server` panics otherwise.
    let server = Server::start_binary();
    assert!(!server.logged().contains(server.owner_token.as_deref().unwrap()));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(server.data().join("owner.token")).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(server.data().join("owner.token")).unwrap().trim(), server.owner_token.as_deref().unwrap());
}

#[test]
fn a_misspelt_action_is_guessed() {
    let server = Server::start();
    let owner = server.owner();
    for arguments in [
        &["action", "invoke", "files.write_txt", "path=a", "text=b"][..],
        &["action", "show", "files.write_txt"],
        &["mode", "set", "files.write_txt", "allow"],
    ] {
        let refused = owner.run(arguments).exits(3);
        assert!(refused.stderr.contains("hint: did you mean `files.write_text`?"), "{}", refused.stderr);
    }
    assert!(!owner.run(&["action", "show", "calendar.book"]).exits(3).stderr.contains("did you mean"));
    let batch = r#"[{"action": "files.list"}, {"action": "files.lst"}]"#;
    let refused = owner.run_with_stdin(&["batch", "run", "-"], batch).exits(5);
    assert!(refused.stderr.contains("`files.lst`: did you mean `files.list`?"), "{}", refused.stderr);
}

#[test]
fn a_space_gets_members_and_is_opened_again() {
    let server = Server::start();
    let owner = server.owner();
    let robin = owner.run(&["user", "create", "robin", "--json"]).ok().json();
    let (id, robin) = (robin["id"].clone(), owner.invited(&robin["invitation"]));
    let mia = owner.invited(&owner.run(&["user", "create", "mia", "--json"]).ok().json()["invitation"]);
    owner.run(&["space", "create", "payroll"]).ok();
    assert!(owner.run(&["space", "member", "list", "payroll", "--json"]).ok().json()["open"].as_bool().unwrap());
    mia.run(&["space", "show", "payroll"]).ok();
    assert_eq!(owner.run(&["space", "member", "add", "payroll", "robin", "--json=members"]).ok().json(), json!({ "members": [id] }));
    assert_eq!(owner.run(&["space", "member", "list", "payroll", "--json"]).ok().json()["items"], json!([id]));
    robin.run(&["session", "create", "--space", "payroll"]).ok();
    mia.run(&["space", "show", "payroll"]).exits(3);
    mia.run(&["space", "member", "add", "main", "mia"]).exits(5);
    assert_eq!(owner.run(&["session", "create", "--space", "payroll", "--json"]).exits(5).error()["code"], "not_a_member");
    owner.run(&["space", "member", "remove", "payroll", "mia"]).exits(3);
    owner.run(&["space", "member", "remove", "payroll", "robin"]).ok();
    robin.run(&["space", "show", "payroll"]).exits(3);
    owner.run(&["space", "member", "clear", "payroll", "--yes"]).ok();
    mia.run(&["space", "show", "payroll"]).ok();
}

#[test]
fn a_token_is_made_for_a_device() {
    let server = Server::start();
    let owner = server.owner();
    let make = ["token", "create", "ci", "--scope", "read", "--device", "runner-1"];
    owner.run(&make).exits(2);
    owner.run(&[&make[..], &["--device-class", "managed"]].concat()).ok();
    let tokens = owner.run(&["token", "list", "--json"]).ok().json();
    let devices: Vec<_> = tokens["items"].as_array().unwrap().iter().filter(|token| !token["device"].is_null()).collect();
    assert_eq!(devices.len(), 1, "{tokens:#}");
    assert_eq!(devices[0]["device"], json!({ "name": "runner-1", "class": "managed" }));
    owner.run(&["user", "create", "robin"]).ok();
    let bound = ["user", "invite", "robin", "--device", "laptop", "--device-class", "managed", "--json"];
    let robin = owner.invited(&owner.run(&bound).ok().json());
    assert_eq!(robin.run(&["whoami", "--json=device"]).ok().json()["device"]["name"], "laptop");
}

#[test]
fn a_space_is_shown_and_gets_a_band() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["space", "create", "production"]).ok();
    assert_eq!(owner.run(&["space", "show", "production", "--json=band"]).ok().json(), json!({ "band": "green" }));
    assert_eq!(owner.run(&["space", "band", "production", "red", "--json=band"]).ok().json(), json!({ "band": "red" }));
    let listed = owner.run(&["space", "list"]).ok().stdout;
    assert!(listed.contains("\tproduction\tred\t") && listed.contains("\tallowed\teverybody\t"), "{listed}");
    owner.run(&["space", "member", "add", "production", "owner"]).ok();
    let listed = owner.run(&["space", "list"]).ok().stdout;
    let row = listed.lines().find(|row| row.contains("production")).unwrap();
    assert_eq!(row.split('\t').nth(4), Some("1"), "{listed}");
    for columns in [60, 120] {
        let drawn = owner.on_screen(columns, &["space", "list"], "").ok().stdout;
        assert!(drawn.to_lowercase().contains("members") && drawn.contains("everybody"), "{columns}: {drawn}");
    }
    owner.run(&["space", "band", "nowhere", "red"]).exits(3);
    owner.run(&["mode", "set", "files.delete", "deny", "--locked"]).ok();
    assert!(owner.run(&["mode", "list"]).ok().stdout.starts_with("files.delete\tdeny\tlocked\torg\t"));
}

#[test]
fn modes_travel_as_one_file_and_a_bad_line_changes_nothing() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    owner.run(&["mode", "set", "http.request", "deny", "--locked"]).ok();
    owner.run(&["mode", "export", "modes.json"]).ok();
    let exported = owner.run(&["mode", "export", "-"]).ok();
    let file = std::fs::read_to_string(owner.folder().join("modes.json")).unwrap();
    assert_eq!(file, exported.stdout);
    let line = |action: &str, mode: &str| json!({ "action": action, "mode": mode });
    let locked = json!({ "action": "http.request", "mode": "deny", "locked": true });
    assert_eq!(exported.json(), json!({ "modes": [line("files.write_text", "allow"), locked] }));

    owner.run(&["mode", "set", "files.write_text", "deny"]).ok();
    owner.run(&["mode", "set", "files.delete", "allow"]).ok();
    owner.run(&["mode", "unset", "http.request"]).ok();
    owner.run(&["mode", "import", "modes.json"]).exits(2);
    assert_eq!(owner.run(&["mode", "import", "modes.json", "--yes", "--json"]).ok().json(), json!({ "changed": 3, "voided": 0 }));
    assert_eq!(owner.run(&["mode", "export", "-"]).ok().stdout, file);
    assert_eq!(owner.run(&["mode", "import", "modes.json", "--yes", "--json"]).ok().json(), json!({ "changed": 0, "voided": 0 }));

    for bad in [
        json!({ "modes": [line("files.list", "deny"), line("files.lst", "deny")] }),
        json!({ "modes": [line("files.list", "deny"), line("files.list", "allow")] }),
    ] {
        let refused = owner.run_with_stdin(&["mode", "import", "-", "--yes", "--json"], &bad.to_string()).exits(8);
        assert_eq!(refused.error()["errors"][0]["pointer"], "/modes/1/action");
    }
    owner.run_with_stdin(&["mode", "import", "-", "--yes"], "nonsense").exits(8);
    assert_eq!(owner.run(&["mode", "export", "-"]).ok().stdout, file);
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn modes_of_automations_travel_in_the_same_file() {
    let server = Server::start();
    let owner = server.owner();
    let (one, other) = (applied_as(&server, &owner, "one"), applied_as(&server, &owner, "other"));
    let (one, other) = (one.as_str(), other.as_str());
    owner.run(&["mode", "set", "files.write_text", "deny"]).ok();
    owner.run(&["mode", "set", "files.write_text", "allow", "--automation", one]).ok();
    owner.run(&["mode", "set", "files.delete", "deny", "--automation", other]).ok();
    let file = owner.run(&["mode", "export", "-"]).ok();
    let lines = json!([
        { "action": "files.delete", "automation": other, "mode": "deny" },
        { "action": "files.write_text", "automation": one, "mode": "allow" },
        { "action": "files.write_text", "mode": "deny" },
    ]);
    assert_eq!(file.json()["modes"], lines);

    // One mode is changed, one removed and one added. Importing the file undoes all three changes.
    owner.run(&["mode", "set", "files.write_text", "require_approval", "--automation", one]).ok();
    owner.run(&["mode", "unset", "files.delete", "--automation", other]).ok();
    owner.run(&["mode", "set", "files.delete", "allow", "--automation", one]).ok();
    let import = |text: &str| owner.run_with_stdin(&["mode", "import", "-", "--yes", "--json"], text);
    assert_eq!(import(&file.stdout).ok().json(), json!({ "changed": 3, "voided": 0 }));
    assert_eq!(owner.run(&["mode", "export", "-"]).ok().stdout, file.stdout);
    assert_eq!(import(&file.stdout).ok().json(), json!({ "changed": 0, "voided": 0 }));

    let twice = json!({ "modes": [lines[1].clone(), lines[1].clone()] });
    assert_eq!(import(&twice.to_string()).exits(8).error()["errors"][0]["pointer"], "/modes/1/action");
    let absent = json!("aut_01k9z6m4x0abcdefghjkmnpqrs");
    for (key, value) in [("automation", json!("somebody")), ("automation", absent), ("locked", json!(true))] {
        let mut line = lines[1].clone();
        line[key] = value;
        let refused = import(&json!({ "modes": [line] }).to_string()).exits(8);
        assert_eq!(refused.error()["errors"][0]["pointer"], format!("/modes/0/{key}"));
    }
    assert_eq!(owner.run(&["mode", "export", "-"]).ok().stdout, file.stdout);
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn every_change_of_a_mode_can_be_looked_at() {
    let server = Server::start();
    let owner = server.owner();
    assert!(owner.run(&["mode", "versions"]).ok().stderr.contains("no mode was ever set"));
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    owner.run(&["mode", "set", "files.delete", "deny", "--locked"]).ok();
    owner.run(&["mode", "unset", "files.write_text"]).ok();
    let rows = |arguments: &[&str]| -> Vec<Vec<String>> {
        let ran = owner.run(&[&["mode", "versions"], arguments].concat()).ok();
        ran.stdout.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    };
    let all = rows(&[]);
    let told: Vec<_> = all.iter().map(|row| row[..5].join(" ")).collect();
    assert_eq!(
        told,
        ["4 files.write_text unset open org", "3 files.delete deny locked org", "2 files.write_text allow open org"],
        "newest first; the first `allow` also pinned the definition"
    );
    assert!(all.iter().all(|row| row[5].starts_with("user:usr_")), "{all:?}");
    assert_eq!(rows(&["files.write_text"]), [all[0].clone(), all[2].clone()]);
    assert_eq!(rows(&["files.gone"]), [[""; 0]; 0]);
    let first = owner.run(&["mode", "versions", "--limit", "2", "--json"]).ok().json();
    let next = first["next"].as_str().unwrap();
    assert_eq!(rows(&["--limit", "2", "--after", next]), [all[2].clone()]);
    owner.run(&["mode", "versions", "not an action"]).exits(3);
}

#[test]
fn modes_are_set_listed_and_unset() {
    let server = Server::start();
    let owner = server.owner();
    let mode = |user: &User| user.run(&["action", "show", "files.write_text", "--json=mode,mode_source"]).ok().json();
    assert_eq!(mode(&owner), json!({ "mode": "require_approval", "mode_source": "inferred_default" }));
    owner.run(&["mode", "set", "files.write_text", "deny", "--yes"]).ok();
    assert_eq!(mode(&owner), json!({ "mode": "deny", "mode_source": "org_default" }));
    assert!(owner.run(&["mode", "list"]).ok().stdout.starts_with("files.write_text\tdeny\topen\torg\t"));
    owner.run(&["mode", "unset", "files.write_text", "--yes"]).ok();
    assert_eq!(mode(&owner), json!({ "mode": "require_approval", "mode_source": "inferred_default" }));
    owner.run(&["mode", "set", "files.write_text", "perhaps"]).exits(2);
    // Setting the mode to `allow` for the first time is also the first review of the definition. The command says so once.
    let allow = || owner.run(&["mode", "set", "files.write_text", "allow"]).ok().stderr;
    assert!(allow().contains("this covers the action as it is defined now"));
    assert!(!allow().contains("this covers the action"));
}
