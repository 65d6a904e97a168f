//! Tests several orgs on one server, as an operator and the orgs' people see them.

use crate::countersign::Server;
use serde_json::json;

#[test]
fn an_operator_makes_and_disables_an_org_that_shares_nothing_with_the_first() {
    let server = Server::start();
    let owner = server.owner();
    let made = owner.run(&["org", "create", "acme", "--json"]).ok().json();
    let other = owner.invited(&made["invitation"]);
    assert_eq!(other.run(&["whoami", "--json=org_id,role"]).ok().json(), json!({ "org_id": made["id"], "role": "owner" }));
    let refused = owner.run(&["org", "create", "acme"]).exits(7);
    assert!(refused.stderr.contains("there is an org named `acme` already"), "{}", refused.stderr);
    owner.run(&["org", "create", " acme"]).exits(8);
    other.run(&["org", "list"]).exits(5);

    // Each org has its own files and packages, even under the same names.
    for (user, text) in [(&owner, "ours"), (&other, "theirs")] {
        let text = format!("text={text}");
        let id = user.run(&["action", "invoke", "files.write_text", "path=notes.txt", &text, "--no-wait"]).exits(6).stdout;
        user.run(&["approve", id.trim()]).ok();
    }
    for (user, text) in [(&owner, "ours"), (&other, "theirs")] {
        let read = user.run(&["action", "invoke", "files.read_text", "path=notes.txt", "--json"]).ok().json();
        assert_eq!(read["result"]["text"], text, "{read:#}");
        assert_eq!(user.run(&["invocation", "list", "--json"]).ok().json()["items"].as_array().unwrap().len(), 2);
    }
    other.run(&["package", "new", "kit"]).ok();
    other.run(&["package", "install", "kit"]).ok();
    assert_eq!(other.run(&["package", "list", "-o", "name"]).ok().stdout, "kit\n");
    assert_eq!(owner.run(&["package", "list", "-o", "name"]).ok().stdout, "");

    owner.run(&["org", "disable", "acme"]).exits(2);
    owner.run(&["org", "disable", "acme", "--yes"]).ok();
    let refused = other.run(&["whoami", "--json"]).exits(5);
    assert_eq!(refused.error()["code"], "org_disabled");
    let listed = owner.run(&["org", "list"]).ok().stdout;
    let states: Vec<_> = listed.lines().map(|line| line.split('\t').skip(1).collect::<Vec<_>>()).collect();
    assert_eq!(states.iter().map(|row| (row[0], *row.last().unwrap())).collect::<Vec<_>>(), [("default", "first"), ("acme", "disabled")]);
    owner.run(&["org", "disable", "default", "--yes"]).exits(5);
}
