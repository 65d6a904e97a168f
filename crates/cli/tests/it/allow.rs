//! What an operator allows while the server runs, and a program that is added with one command: no file, no restart.

use crate::countersign::{Server, User};
use crate::mcp::until;
use serde_json::{Value, json};

/// A server that answers with what it sees, in the place of one that somebody installs.
const PROGRAM: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer, method = {"jsonrpc": "2.0", "id": message["id"]}, message["method"]
    if method == "initialize":
        info = {"name": "kit", "version": "1"}
        answer["result"] = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]}
    elif method == "tools/call":
        seen = {"level": os.environ.get("LEVEL"), "folder": os.path.exists(os.environ.get("SHOWN", "/nowhere"))}
        answer["result"] = {"content": [{"type": "text", "text": json.dumps(seen)}]}
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"#;

/// How many processes of these programs run.
fn running(server: &Server) -> usize {
    server.descendants().iter().filter(|line| line.contains("json.loads(line)")).count()
}

fn commands(owner: &User) -> Vec<Value> {
    owner.run(&["allow", "command", "list", "--json"]).ok().json()["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_added_with_one_command_and_its_leave_ends_it() {
    // Nothing is configured.
    let server = Server::start_binary();
    let owner = server.owner();
    // The jail has a /tmp and a /dev of its own.
    let shown = tempfile::tempdir_in("/var/tmp").unwrap();
    let folder = shown.path().to_str().unwrap();
    let variable = format!("SHOWN={folder}");
    let words = ["--readable", folder, "--env", "LEVEL=warn", "--env", &variable, "--memory", "256", "--trust-hints"];
    let add = |name: &'static str, more: &[&'static str]| {
        let line = ["source", "add", name].into_iter().chain(words).chain(more.iter().copied());
        line.chain(["--", "python3", "-I", "-c", PROGRAM]).map(str::to_owned).collect::<Vec<_>>()
    };
    let run = |line: &[String]| owner.run(&line.iter().map(String::as_str).collect::<Vec<_>>());
    // Where nobody can be asked, a yes is needed, and nothing is left behind.
    let refused = run(&add("kit", &[])).exits(2);
    assert!(refused.stderr.contains("nobody can be asked here") && refused.stderr.contains("add --yes"), "{refused:?}");
    // It was shown what would be allowed.
    for told in ["read-only", "LEVEL=warn", "reaches     no host", "256 MB at most", "python3"] {
        assert!(refused.stderr.contains(told), "{told}: {refused:?}");
    }
    assert_eq!((commands(&owner), running(&server)), (Vec::new(), 0));
    // Somebody who says no.
    let line = add("kit", &[]);
    let asked = owner.on_screen(120, &line.iter().map(String::as_str).collect::<Vec<_>>(), "n\n").exits(1).stdout;
    assert!(asked.contains("Allow this, and add it as source `kit`?") && asked.matches("[y/N]").count() == 1, "{asked}");
    assert_eq!((commands(&owner), running(&server)), (Vec::new(), 0));

    let added = run(&add("kit", &["--yes"])).ok();
    assert!(added.stderr.contains("✓ added `kit`") && added.stderr.contains("next: countersign action invoke kit."), "{added:?}");
    let called = owner.run(&["action", "invoke", "kit.look", "--json"]).ok();
    assert!(called.stdout.contains(r#"\"level\": \"warn\", \"folder\": true"#), "{called:?}");
    let known = commands(&owner);
    assert_eq!((known.len(), &known[0]["used_by"], &known[0]["fixed"]), (1, &json!(["kit"]), &json!(false)), "{known:?}");
    assert_eq!(known[0]["command"]["env"], json!(["LEVEL", "SHOWN"]));
    assert!(running(&server) > 0);
    // Another source may run the same command, but not change what the first is allowed.
    let wider = ["source", "add", "wider", "--yes", "--memory", "512", "--", "python3", "-I", "-c", PROGRAM];
    let refused = owner.run(&wider).exits(8);
    assert!(refused.stderr.contains("runs for source `kit` and is allowed otherwise"), "{refused:?}");

    // What is allowed no longer ends at once, and says so.
    let id = known[0]["entry"].as_str().unwrap();
    let removed = owner.run(&["allow", "command", "remove", id, "--yes"]).ok();
    assert!(removed.stderr.contains("! source `kit` runs by this command, and cannot be called any more"), "{removed:?}");
    until("the program has ended", || running(&server) == 0).await;
    let refused = owner.run(&["action", "invoke", "kit.look"]);
    assert!(refused.code != 0 && refused.stderr.contains("is not allowed, word by word"), "{refused:?}");
    assert_eq!(running(&server), 0);
    // It is added again under the same name.
    owner.run(&["source", "remove", "kit", "--yes"]).ok();
    run(&add("kit", &["--yes"])).ok();
    assert_eq!(commands(&owner).len(), 1);
    let log = owner.run(&["receipt", "verify"]).ok();
    assert!(log.stdout.contains("verified"), "{log:?}");
}

#[test]
fn a_program_that_does_not_start_is_neither_allowed_nor_added() {
    let server = Server::start_binary();
    let owner = server.owner();
    let refused = owner.run(&["source", "add", "kit", "--yes", "--", "python3", "-I", "-c", "raise SystemExit('no key')"]);
    assert!(refused.code != 0 && refused.stderr.contains("no key"), "{refused:?}");
    let missing = owner.run(&["source", "add", "kit", "--yes", "--", "/opt/nowhere/serve"]);
    assert!(missing.code != 0, "{missing:?}");
    assert_eq!(commands(&owner), Vec::<Value>::new());
    assert_eq!(owner.run(&["source", "list", "--json"]).ok().json()["items"], json!([]));
    // What is about a program is refused for an address, before anything is asked.
    let misplaced = owner.run(&["source", "add", "kit", "--mcp", "https://mcp.example.com", "--memory", "512"]).exits(2);
    assert!(misplaced.stderr.contains("what a program may use"), "{misplaced:?}");
}

#[test]
fn a_server_whose_settings_forbid_code_installs_and_runs_nothing() {
    let server = Server::start_with(&[("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "false")]);
    let owner = server.owner();
    let refused = owner.run(&["source", "add", "kit", "--yes", "--", "npx", "-y", "@modelcontextprotocol/server-memory"]);
    assert!(refused.code != 0 && refused.stderr.contains("`allow_plugin_code_execution = false`"), "{refused:?}");
    assert_eq!(commands(&owner), Vec::<Value>::new());
    assert!(!server.data().join("programs").exists());
}

#[test]
fn hosts_and_networks_are_allowed_and_listed_with_where_they_come_from() {
    let mut server = Server::start_with(&[("COUNTERSIGN_SOURCE_ALLOWED_HOSTS", "fixed.example.com")]);
    let owner = server.owner();
    owner.run(&["allow", "host", "add", "mcp.example.com", "http://127.0.0.1:3001"]).ok();
    owner.run(&["allow", "network", "add", "127.0.0.1/32"]).ok();
    let listed = owner.on_screen(120, &["allow", "host", "list"], "").ok().stdout;
    for (entry, from) in
        [("fixed.example.com", "the server's settings"), ("mcp.example.com", "an operator"), ("http://127.0.0.1:3001", "an operator")]
    {
        assert!(listed.lines().any(|line| line.contains(entry) && line.contains(from)), "{entry}: {listed}");
    }
    owner.run(&["allow", "host", "remove", "http://127.0.0.1:3001", "--yes"]).ok();
    owner.run(&["allow", "network", "remove", "127.0.0.1/32", "--yes"]).ok();
    let names = owner.run(&["allow", "host", "list", "-o", "name"]).ok().stdout;
    assert_eq!(names, "fixed.example.com\nmcp.example.com\n");
    let fixed = owner.run(&["allow", "host", "remove", "fixed.example.com", "--yes"]).exits(8);
    assert!(fixed.stderr.contains("is fixed by `source_allowed_hosts`"), "{fixed:?}");
    let bad = owner.run(&["allow", "network", "add", "127.0.0.1"]).exits(8);
    assert!(bad.stderr.contains("write `127.0.0.1/32`"), "{bad:?}");
    // A restart keeps what operators allowed; this one has other settings.
    server.terminate();
    server.wait();
    let server = server.start_again();
    let names = server.owner().run(&["allow", "host", "list", "-o", "name"]).ok().stdout;
    assert_eq!(names, "mcp.example.com\n");
    // Whoever is no operator is told who is.
    let refused = admin(&server).run(&["source", "add", "kit", "--yes", "--", "python3", "server.py"]);
    assert!(refused.code != 0 && refused.stderr.contains("only an operator") && refused.stderr.contains("--mcp-stdio"), "{refused:?}");
}

/// An admin of the first org.
fn admin(server: &Server) -> User {
    let owner = server.owner();
    let made = owner.run(&["user", "create", "ada", "--role", "admin", "--json"]).ok().json();
    owner.invited(&made["invitation"])
}
