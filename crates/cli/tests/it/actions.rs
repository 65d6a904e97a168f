//! Tests what a sandboxed agent has: a loop of calls that people decide, what it can list and read, and the grants it requests.

use crate::countersign::{Server, User};
use crate::mcp_upstream::{Reply, Upstream};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RUN_WRITE: [&str; 6] = ["actions", "run", "--integration", "files", "--action", "write_text"];

/// A session with this title, and its agent.
fn agent(owner: &User, title: &str, more: &[&str]) -> (String, User) {
    let created = owner.run(&[&["session", "create", "--title", title, "--json"], more].concat()).ok().json();
    (created["id"].as_str().unwrap().to_owned(), owner.with_token(created["token"].as_str().unwrap()))
}

/// A shop that can refund orders.
fn shop() -> Upstream {
    let shop = Upstream::start();
    shop.answers(|asked| {
        let properties = json!({ "order": { "type": "string" }, "amount": { "type": "number" } });
        let schema = json!({ "type": "object", "properties": properties, "required": ["order", "amount"] });
        let refund = json!({ "name": "refund", "description": "Refunds an order.", "inputSchema": schema });
        (asked.method() == "tools/list").then(|| Reply::result(asked, &json!({ "tools": [refund] })))
    });
    shop
}

/// The id of the call that waits, once there is one.
async fn next_pending(owner: &User) -> String {
    let began = Instant::now();
    loop {
        let pending = owner.run(&["inbox", "-o", "name"]).ok().stdout;
        if let Some(id) = pending.lines().next() {
            return id.to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no call came");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Lets the deadline of a pending call pass. No person would wait for it in a test.
#[expect(clippy::disallowed_methods, reason = "the database of a server that runs is changed from outside")]
fn let_time_pass(database: &Path, invocation: &str) {
    let change = "import sqlite3, sys\nwith sqlite3.connect(sys.argv[1], timeout=30) as database:\n    \
                  database.execute('UPDATE invocations SET expires_at = 1 WHERE id = ?', [sys.argv[2]])";
    let ran = Command::new("python3").args(["-c", change]).arg(database).arg(invocation).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "an agent's script runs the binary")]
async fn a_loop_of_an_agent_waits_for_people_and_goes_on_by_what_they_say() {
    let shop = shop();
    let allowed = [("COUNTERSIGN_SOURCE_ALLOWED_HOSTS", shop.origin()), ("COUNTERSIGN_SOURCE_ALLOWED_NETWORKS", "127.0.0.1/32")];
    let server = Server::start_with(&allowed);
    let owner = server.owner();
    owner.run(&["source", "add", "shop", "--mcp", &shop.url]).ok();
    let created = owner.run(&["session", "create", "--title", "refunds", "--source", "shop", "--json"]).ok().json();

    // Besides a path, the agent has two variables and nothing else.
    let binary = Path::new(env!("CARGO_BIN_EXE_countersign")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent.sh");
    let agent = Command::new("sh")
        .arg(script)
        .args(["812", "813", "814"])
        .current_dir(folder.path())
        .env_clear()
        .envs([
            ("PATH", path.as_str()),
            ("COUNTERSIGN_URL", server.url.as_str()),
            ("COUNTERSIGN_TOKEN", created["token"].as_str().unwrap()),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();

    let first = next_pending(&owner).await;
    let card = owner.run(&["show", &first]).ok().stdout;
    assert!(card.contains("order 812 came broken") && card.contains("shop.refund"), "{card}");
    assert_eq!(shop.calls("refund"), 0, "nothing runs before it is approved");
    owner.run(&["approve", &first]).ok();
    let second = next_pending(&owner).await;
    owner.run(&["deny", &second, "--reason", "it was not broken"]).ok();
    let third = next_pending(&owner).await;
    let_time_pass(&server.data().join("countersign.db"), &third);

    let ended = agent.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(told, "812 refunded\n813 denied\n814 not answered in time\n");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let result: serde_json::Value = serde_json::from_str(&read("812.json")).unwrap();
    assert!(result.to_string().contains("done"), "{result}");
    assert!(read("812.log").contains(&first) && read("812.log").contains("waiting for approval"), "{}", read("812.log"));
    assert_eq!((read("813.json"), read("814.json")), (String::new(), String::new()), "stdout has results and nothing else");
    assert!(read("813.log").contains("it was not broken"), "{}", read("813.log"));
    assert_eq!(owner.run(&["show", &third, "--json=status"]).ok().json()["status"], "expired");
    assert_eq!(shop.calls("refund"), 1);
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn an_agent_lists_learns_and_runs_what_its_session_has() {
    let server = Server::start();
    let owner = server.owner();
    let (_, agent) = agent(&owner, "notes", &["--source", "files"]);
    let listed = agent.run(&["actions", "list", "-o", "name"]).ok().stdout;
    assert!(listed.contains("files.write_text\n") && listed.lines().all(|id| id.starts_with("files.")), "{listed}");
    for absent in ["http", "nope"] {
        let missing = agent.run(&["actions", "list", "--integration", absent, "-o", "name"]).exits(3);
        assert!(missing.stdout.is_empty() && missing.stderr.contains(&format!("there is no source `{absent}`")), "{missing:?}");
    }
    assert!(agent.run(&["actions", "guide", "--integration", "files"]).ok().stdout.contains("write_text"));
    assert_eq!(agent.run(&["actions", "guide", "--integration", "http"]).exits(3).stdout, "");

    std::fs::write(server.workspace().join("a.txt"), "hello").unwrap();
    let read = agent.run(&["actions", "run", "--integration", "files", "--action", "read_text", "path=a.txt"]).ok();
    assert_eq!(read.json()["text"], "hello");
    std::fs::write(agent.folder().join("call.json"), r#"{"path": "b.txt", "text": "it's \"quoted\""}"#).unwrap();
    let waits = agent.run(&[&RUN_WRITE[..], &["--params", "@call.json", "--no-wait"]].concat()).exits(6);
    let id = waits.stdout.trim();
    owner.run(&["approve", id]).ok();
    assert_eq!(agent.run(&["invocation", "watch", id]).ok().json()["created"], true);
    assert_eq!(std::fs::read_to_string(server.workspace().join("b.txt")).unwrap(), "it's \"quoted\"");
    let whole = ["actions", "run", "--integration", "files", "--action", "files.read_text", "path=b.txt"];
    assert_eq!(agent.run(&whole).ok().json()["text"], "it's \"quoted\"");

    for (words, code) in [
        (&["--integration", "files", "--action", "nothing"][..], 3),
        (&["--integration", "http", "--action", "request"], 3),
        (&["--integration", "files", "--action", "read_text"], 8),
        (&["--integration", "files", "--action", "read_text", "path=nowhere.txt"], 1),
        (&["--integration", "files", "--action", "read_text", "path"], 2),
        (&["--integration", "files"], 2),
        (&["--action", "read_text"], 2),
    ] {
        let ran = agent.run(&[&["actions", "run"], words].concat()).exits(code);
        assert_eq!(ran.stdout, "", "{words:?}");
    }
}

#[test]
fn an_agent_is_told_of_the_commands_that_it_has_and_not_of_those_for_people() {
    let server = Server::start();
    let owner = server.owner();
    let (_, agent) = agent(&owner, "notes", &[]);
    let read = ["actions", "run", "--integration", "files", "--action", "read_text"];
    let write = [&RUN_WRITE[..], &["path=a.txt", "text=x", "--no-wait"]].concat();
    let request = ["actions", "grant", "request", "--integration", "files", "--action", "write_text"];
    for (words, code, expected) in [
        (&["actions", "guide", "--integration", "nope"][..], 3, "countersign actions list"),
        (&["actions", "run", "--integration", "files", "--action", "lst"], 3, "--integration files --action list"),
        (&read, 8, "countersign actions list --integration files --json"),
        (&[&read[..], &["path=nowhere.txt"]].concat(), 1, "countersign actions run --integration files --action list"),
        (&[&read[..], &["--params", "notjson"]].concat(), 2, "--params @FILE"),
        (&write, 6, "countersign invocation watch inv_"),
        (&request, 6, "countersign actions grants list --state requested"),
    ] {
        let told = agent.run(words).exits(code).stderr;
        assert!(told.contains(expected), "{words:?}: {told}");
        for others in ["approve inv_", "grant approve", "countersign action ", "source list", "'{"] {
            assert!(!told.contains(others), "{words:?} names `{others}`: {told}");
        }
    }
    // A person who uses the same command can approve the call.
    let told = owner.run(&write).exits(6).stderr;
    assert!(told.contains("(countersign approve inv_"), "{told}");
}

#[test]
fn an_agent_requests_grants_and_people_find_them_in_their_inbox() {
    let server = Server::start();
    let owner = server.owner();
    let (session, agent) = agent(&owner, "notes", &[]);
    let request = |more: &[&str]| {
        let words = ["actions", "grant", "request", "--integration", "files", "--action", "write_text"];
        agent.run(&[&words[..], more].concat())
    };
    let list = |more: &[&str]| agent.run(&[&["actions", "grants", "list", "-o", "name"], more].concat()).ok().stdout;
    for (scope, covered) in [("session", format!("session:{session}")), ("org", "org".to_owned())] {
        let asked = request(&["--scope", scope, "--max-calls", "1", "--expires", "2h", "--reason", "one note", "--json"]).exits(6).json();
        assert_eq!((&asked["covers"], &asked["scope"], &asked["calls_max"]), (&json!("files.write_text"), &json!(covered), &json!(1)));
        assert_eq!((&asked["state"], &asked["reason"]), (&json!("requested"), &json!("one note")));
        let id = asked["id"].as_str().unwrap();
        let inbox = owner.run(&["inbox"]).ok().stderr;
        assert!(inbox.contains("1 request for a grant waits for an answer"), "{inbox}");
        assert!(inbox.contains("countersign grant list --state requested"), "{inbox}");
        assert_eq!((list(&[]), list(&["--state", "requested"])), (String::new(), format!("{id}\n")));
        owner.run(&["grant", "approve", id, "--yes"]).ok();
        assert_eq!(list(&[]), format!("{id}\n"));
        let path = format!("path={scope}.txt");
        agent.run(&[&RUN_WRITE[..], &[path.as_str(), "text=x"]].concat()).ok();
        owner.run(&["grant", "revoke", id]).ok();
        assert!(!owner.run(&["inbox"]).ok().stderr.contains("request"), "it is answered");
        agent.run(&[&RUN_WRITE[..], &[path.as_str(), "text=y", "--no-wait"]].concat()).exits(6);
    }
    let asked = request(&[]).exits(6);
    assert!(asked.stderr.contains("it allows nothing until a person approves it"), "{}", asked.stderr);
    let bounded = request(&["--sum-max", "12.50", "--of", "/text", "--per", "24h", "--json"]).exits(6).json();
    assert_eq!(bounded["sum_max"], json!({ "of": "/text", "max": "12.5", "per_seconds": 86_400, "spent": "0" }));
    request(&["--sum-max", "12.50"]).exits(2);
    for wrong in [&["--max-calls", "0"][..], &["--max-calls", "-1"], &["--scope", "automation"], &["--expires", "soon"]] {
        request(wrong).exits(2);
    }
    // A person has to say whose grants are meant.
    owner.run(&["actions", "grants", "list"]).exits(2);
    owner.run(&["actions", "grants", "list", "--session", "notes"]).ok();
    let given = ["actions", "grant", "request", "--integration", "files", "--action", "list", "--session", "notes", "--json=state"];
    assert_eq!(owner.run(&given).ok().json()["state"], "active");
}

#[test]
fn a_session_is_told_what_it_has_in_a_file() {
    let server = Server::start();
    let owner = server.owner();
    let (_, agent) = agent(&owner, "notes", &["--source", "files"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(".countersign/actions-guide.md");
    let standing = agent.standing_in(folder.path());
    assert_eq!(standing.run(&["session", "bootstrap", "."]).ok().stdout, "./.countersign/actions-guide.md\n");
    let guide = std::fs::read_to_string(&file).unwrap();
    for part in [
        "# Actions of the session notes (`ses_",
        "countersign actions list",
        "countersign actions guide --integration SOURCE",
        "countersign actions run --integration SOURCE --action NAME",
        "Never put JSON together by hand",
        "COUNTERSIGN_URL",
        "COUNTERSIGN_TOKEN",
        "| 5 | denied by policy or by a person",
        "| `--integration files --action list` | runs at once |",
        "| `--integration files --action write_text path=… text=…` | waits for a person |",
    ] {
        assert!(guide.contains(part), "`{part}` is missing:\n{guide}");
    }
    assert!(!guide.contains("--integration http") && !guide.contains("cs_agent_"), "{guide}");

    // What is there is replaced, and lists what there is then.
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let said = owner.run(&["session", "bootstrap", &folder.path().display().to_string(), "--session", "notes", "--json"]).ok().json();
    assert_eq!(said["file"], file.display().to_string());
    let guide = std::fs::read_to_string(&file).unwrap();
    assert!(guide.contains("| `--integration files --action write_text path=… text=…` | runs at once |"), "{guide}");
    assert_eq!(standing.run(&["actions", "guide"]).ok().stdout.lines().next(), guide.lines().next());

    owner.run(&["session", "bootstrap", "."]).exits(2);
    standing.run(&["session", "bootstrap", ".", "--dry-run"]).exits(2);
    standing.run(&["session", "bootstrap", "nowhere"]).exits(3);
}

#[test]
fn a_caller_is_told_what_was_redacted_from_its_call() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    owner.run(&["space", "redact", "main", "email"]).ok();
    let write = |text: &str| owner.run(&["action", "invoke", "files.write_text", "path=a.txt", text, "--no-wait"]);
    assert!(!write("text=nothing to see").ok().stderr.contains("redacted"));
    let told = "▒ redacted from the params, by the rule of the space: 2 email\n";
    let ran = write("text=to jane.doe@example.com and joe@example.com").ok();
    assert!(ran.stderr.contains(told) && !ran.stderr.contains("jane"), "{ran:?}");
    // Whoever has to wait learns it before anything is sent.
    owner.run(&["mode", "set", "files.write_text", "require_approval"]).ok();
    let waits = write("text=to jane.doe@example.com and joe@example.com").exits(6);
    assert!(waits.stderr.contains(told), "{waits:?}");
}
