//! Tests an org's own policies: checked with the place of each mistake, tried on recorded calls, set and read back.

use crate::countersign::Server;
use serde_json::json;

const NO_WRITES: &str = "@id(\"no-writes\")\nforbid (principal, action == Countersign::Action::\"files.write_text\", resource);\n";

#[test]
fn what_is_wrong_with_a_policy_is_shown_where_it_stands() {
    let server = Server::start();
    let owner = server.owner();
    let write = |name: &str, text: &str| std::fs::write(owner.folder().join(name), text).unwrap();
    write("bad.toml", "abac = '''\nforbid (\n  principal,\n  actoin,\n  resource\n);\n'''\n");
    let refused = owner.run(&["policy", "check", "bad.toml"]).exits(8);
    let lines: Vec<_> = refused.stderr.lines().collect();
    // The place is the one in the file, not the one in the gate's text.
    assert!(lines[0].starts_with("bad.toml:4:3: abac: "), "{}", refused.stderr);
    assert_eq!(&lines[1..3], ["  4 │   actoin,", "    │   ^"]);
    assert_eq!(lines[3], "error: 1 problem in the policies; nothing was saved");
    assert!(!refused.stderr.contains("cause:"), "{}", refused.stderr);
    let problem = owner.run(&["policy", "set", "bad.toml", "--yes", "--json"]).exits(8).error();
    assert_eq!((&problem["code"], &problem["errors"][0]["line"]), (&json!("invalid_policy"), &json!(3)));
    assert_eq!(owner.run(&["policy", "show", "--json=version"]).ok().json()["version"], 0);

    write("bad.json", &json!({ "abac": "forbid (\n  principal,\n  actoin,\n  resource\n);" }).to_string());
    let refused = owner.run(&["policy", "check", "bad.json"]).exits(8);
    assert!(refused.stderr.starts_with("abac:3:3: "), "{}", refused.stderr);

    write("unknown.toml", "abak = ''");
    owner.run(&["policy", "check", "unknown.toml"]).exits(8);
    // The error contains several lines of the file.
    std::fs::write(owner.folder().join("broken.toml"), "abac = '''\nforbid\n").unwrap();
    let broken = owner.run(&["policy", "check", "broken.toml"]).exits(8).stderr;
    assert!(!broken.contains("\\n") && broken.contains("\n         2 | forbid\n"), "{broken}");
    owner.run(&["policy", "check", "nowhere.toml"]).exits(3);
    assert!(owner.run(&["policy", "schema"]).ok().stdout.contains("\"files.write_text\""));
}

#[test]
fn policies_are_tried_on_the_past_before_they_are_set() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["action", "invoke", "files.list"]).ok();
    let asked = owner.run(&["action", "invoke", "files.write_text", "path=a", "text=b", "--no-wait"]).exits(6).stdout.trim().to_owned();
    let folder = owner.folder().join("policies");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("abac.cedar"), NO_WRITES).unwrap();

    let tried = owner.run(&["policy", "what-if", "policies", "--last", "1d"]).ok();
    assert!(tried.stderr.starts_with("! 1 would be decided differently: 2 recorded calls decided again\n"), "{}", tried.stderr);
    let row: Vec<_> = tried.stdout.trim().split('\t').take(3).collect();
    assert_eq!(row, [asked.as_str(), "asks → denied", "files.write_text"]);
    owner.run(&["policy", "what-if", "policies", "--fail-on-change"]).exits(1);
    let other = json!({ "abac": NO_WRITES.replace("files.write_text", "files.delete") });
    std::fs::write(owner.folder().join("other.json"), other.to_string()).unwrap();
    let none = owner.run(&["policy", "what-if", "other.json", "--fail-on-change"]).ok();
    assert!(none.stderr.starts_with("✓ nothing would change: 2 recorded calls"), "{}", none.stderr);
    std::fs::write(owner.folder().join("modes.toml"), "[[modes]]\naction = \"files.list\"\nmode = \"deny\"\n").unwrap();
    let document = owner.run(&["policy", "what-if", "modes.toml", "--json"]).ok().json();
    assert_eq!((&document["changes"][0]["action"], &document["changes"][0]["after"]), (&json!("files.list"), &json!("denied")));
    owner.run(&["policy", "set", "modes.toml", "--yes"]).exits(2);

    owner.run(&["policy", "check", "policies"]).ok();
    owner.run(&["policy", "set", "policies"]).exits(2);
    assert!(owner.run(&["policy", "set", "policies", "--dry-run"]).ok().stdout.starts_with("PUT /api/v1/policies {"));
    assert_eq!(owner.run(&["policy", "versions"]).ok().stdout, "");
    owner.run(&["policy", "set", "policies", "--yes"]).ok();
    assert_eq!(owner.run(&["policy", "show", "--gate", "abac"]).ok().stdout, NO_WRITES);
    assert!(owner.run(&["policy", "show"]).ok().stdout.contains("\nABAC\n@id(\"no-writes\")\n"));
    assert_eq!(owner.run(&["policy", "versions"]).ok().stdout.split('\t').nth(1), Some("abac"));
    // Policies that are already in force change nothing, also for calls that were recorded before they were set.
    let same = owner.run(&["policy", "what-if", "policies", "--fail-on-change"]).ok();
    assert!(same.stderr.starts_with("✓ nothing would change: 2 recorded calls decided again\n"), "{}", same.stderr);

    let denied = owner.run(&["action", "invoke", "files.write_text", "path=a", "text=b"]).exits(5);
    assert!(denied.stderr.contains("no-writes"), "{}", denied.stderr);
    owner.run(&["receipt", "verify"]).ok();
}
