//! The nine faults of a child process, each caused by a real package through the real API: what the caller is told, what the receipt says,
//! and what is left. Every script stages a change first, so that there is something to discard.

use crate::countersign::{Server, User};
use crate::package_users::{may_make_namespaces, ordinary_user};
use crate::packages::{tree, write_package};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const SETTINGS: &[(&str, &str)] = &[("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true"), ("COUNTERSIGN_INVOCATIONS_PER_MINUTE", "1000")];

struct Fault {
    name: &'static str,
    /// The file of the script, and the code that runs after it has staged its change.
    file: &'static str,
    does: &'static str,
    /// The status of the call, its error code, and a text in its message.
    status: &'static str,
    code: &'static str,
    says: &'static str,
}

#[rustfmt::skip]
const FAULTS: [Fault; 9] = [
    Fault {
        name: "is_killed", file: "execute.js", does: r#"process.kill(process.pid, "SIGKILL");"#,
        status: "failed", code: "package_killed", says: "was ended by signal 9",
    },
    Fault {
        name: "hangs", file: "execute.js", does: "for (;;) {}",
        status: "failed", code: "package_timed_out", says: "`execute.js` of `faults.hangs` did not end within",
    },
    Fault {
        name: "forks_10000_times", file: "execute.py", does: "for n in range(10000):\n    os.fork() or signal.pause()",
        status: "failed", code: "package_failed", says: "ended with code 1, saying `BlockingIOError: [Errno 11] Resource temporarily unavailable`",
    },
    Fault {
        name: "writes_10_gb", file: "execute.py",
        does: "with open('/stage/big', 'wb', 0) as big:\n    for n in range(10240):\n        big.write(bytes(1 << 20))",
        status: "failed", code: "package_failed", says: "ended with code 1, saying `OSError: [Errno 28] No space left on device`",
    },
    Fault {
        name: "prints_1_gb", file: "execute.js", does: r#"const chunk = "x".repeat(1 << 20); for (let n = 0; n < 1024; n++) fs.writeSync(1, chunk);"#,
        status: "failed", code: "package_flooded", says: "printed far more than is kept, and was ended",
    },
    Fault {
        name: "ignores_sigterm", file: "execute.py",
        does: "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.kill(os.getpid(), signal.SIGTERM)\nwhile True: signal.pause()",
        status: "failed", code: "package_timed_out", says: "`execute.py` of `faults.ignores_sigterm` did not end within",
    },
    Fault {
        name: "closes_stdout_early", file: "execute.js", does: "fs.closeSync(1);",
        status: "failed", code: "package_bad_output", says: "its result is not JSON we take",
    },
    Fault {
        name: "returns_invalid_json", file: "execute.js", does: r#"console.log("{not json");"#,
        status: "failed", code: "package_bad_output", says: "its result is not JSON we take",
    },
    Fault {
        name: "returns_what_fits_no_schema", file: "execute.js", does: r#"console.log(JSON.stringify({ output: { ok: "perhaps" } }));"#,
        status: "reverted", code: "result_schema_mismatch", says: "",
    },
];

const STAGES_IN_JAVASCRIPT: &str = r#"const fs = require("fs"); fs.writeFileSync("/stage/a.txt", "changed");"#;
const STAGES_IN_PYTHON: &str = "import os, signal\nwith open('/stage/a.txt', 'w') as a: a.write('changed')";
const FINE: &str = r#"console.log(JSON.stringify({ ok: true, checks: [] }));"#;

#[test]
fn each_of_the_nine_faults_ends_as_the_table_says_and_leaves_nothing() {
    check_all(&Server::start_with(SETTINGS), "default");
}

#[test]
fn each_of_the_nine_faults_ends_the_same_under_the_tightest_profile() {
    let server = Server::start_with(SETTINGS);
    if server.can_confine("high_isolation") {
        check_all(&server, "high_isolation");
    } else {
        check_refused(&server);
    }
}

#[test]
fn each_of_the_nine_faults_ends_the_same_where_the_server_is_an_ordinary_user() {
    let uid = ordinary_user();
    let server = Server::start_as(uid, SETTINGS);
    check_refused(&server);
    if may_make_namespaces(uid) {
        check_all(&server, "default");
    } else {
        // This host cannot confine code, so nothing runs. `package_users.rs` tests how the server answers then.
        assert!(!server.can_confine("default"));
    }
}

/// Installs all faulty actions with this profile.
fn install(owner: &User, profile: &str) {
    for fault in &FAULTS {
        // A busy machine may need seconds for what others do at once, so only what is to time out has little time.
        let timeout_ms = if fault.code == "package_timed_out" { 5_000 } else { 30_000 };
        let more = json!({
            "outputSchema": { "type": "object", "properties": { "ok": { "type": "boolean" } } }, "timeoutMs": timeout_ms, "memoryMb": 256,
            "profile": profile
        });
        let stages = if fault.file.ends_with(".py") { STAGES_IN_PYTHON } else { STAGES_IN_JAVASCRIPT };
        let script = format!("{stages}\n{}\n", fault.does);
        write_package(owner.folder(), "faults", fault.name, "R2", &[(fault.file, script.as_str()), ("verify.js", FINE)], &more);
    }
    owner.run(&["package", "install", "faults"]).ok();
}

/// If the strictest profile is not available, the code does not run under a weaker one.
fn check_refused(server: &Server) {
    let owner = server.owner();
    install(&owner, "high_isolation");
    for fault in &FAULTS {
        let id = format!("faults.{}", fault.name);
        owner.run(&["mode", "set", &id, "allow"]).ok();
        assert_ne!(owner.run(&["action", "invoke", &id]).code, 0, "{id}");
        let ended = owner.run(&["invocation", "list", "--json"]).ok().json()["items"][0].clone();
        let told = json!([ended["action"], ended["status"], ended["error"]["code"]]);
        assert_eq!(told, json!([id, "failed", "sandbox_unavailable"]), "{ended:#}");
    }
    assert_eq!(tree(&server.workspace()), BTreeMap::new());
}

fn check_all(server: &Server, profile: &str) {
    let owner = server.owner();
    let before: BTreeMap<String, String> = [("a.txt".to_owned(), "as it was".to_owned())].into();
    std::fs::write(server.workspace().join("a.txt"), "as it was").unwrap();
    install(&owner, profile);
    for fault in &FAULTS {
        let name = fault.name;
        let id = format!("faults.{name}");
        owner.run(&["mode", "set", &id, "allow"]).ok();
        // Installed again with another profile, it is another definition.
        owner.run(&["action", "review", &id, "--yes"]).ok();
        let once = || {
            let ran = owner.run(&["action", "invoke", &id, "--json"]);
            assert_ne!(ran.code, 0, "{name}: {ran:?}");
            owner.run(&["invocation", "list", "--json"]).ok().json()["items"][0].clone()
        };
        let mut ended = once();
        // On a machine that is too busy to end the program within the second that is left for it, the whole source times out.
        for _ in 0..5 {
            if fault.code == "package_timed_out" && ended["error"]["code"] == "source_timed_out" {
                ended = once();
            }
        }
        assert_eq!((&ended["action"], &ended["status"]), (&json!(id), &json!(fault.status)), "{name}: {ended:#}");
        assert_eq!(ended["error"]["code"], fault.code, "{name}: {ended:#}");
        let message = ended["error"]["message"].as_str().unwrap();
        assert!(message.contains(fault.says), "{name}: {message}");
        check_receipt(&owner, fault, profile, &ended);
        // No process of the package is alive, no file of it is left, and the server still answers.
        let alive: Vec<_> = server.descendants().into_iter().filter(|line| line.contains("/package/")).collect();
        assert_eq!(alive, Vec::<String>::new(), "{name}");
        assert_eq!(tree(&server.workspace()), before, "{name}");
        let read = owner.run(&["action", "invoke", "files.read_text", "path=a.txt", "--json"]).ok().json();
        assert_eq!(read["result"]["text"], "as it was", "{name}: {read:#}");
    }
    owner.run(&["receipt", "verify"]).ok();
}

/// The receipt says the same, and names the isolation under which the code ran.
fn check_receipt(owner: &User, fault: &Fault, profile: &str, ended: &Value) {
    let receipt = owner.run(&["receipt", "show", ended["receipt"]["id"].as_str().unwrap(), "--json"]).ok().json();
    let (name, body) = (fault.name, &receipt["payload"]["body"]);
    let said = json!([body["status"], body["error"], body["sandbox"]["profile"], body["sandbox"]["degraded"], body["rollback"]["ok"]]);
    // Only a result that breaks its schema is noticed after the effect, which is then rolled back.
    let taken_back = if fault.status == "reverted" { json!(true) } else { Value::Null };
    assert_eq!(said, json!([fault.status, fault.code, profile, [], taken_back]), "{name}: {body:#}");
    assert!(body["sandbox"]["landlock_abi"].as_u64().unwrap() >= 6, "{name}: {body:#}");
    assert_eq!(body["sandbox"]["seccomp_sha256"].as_str().unwrap().len(), 64, "{name}: {body:#}");
    let more: &[&str] = if profile == "high_isolation" { &["cgroup", "time"] } else { &[] };
    assert_eq!(body["sandbox"]["namespaces"], json!([&["user", "mnt", "pid", "net", "ipc", "uts"], more].concat()), "{name}: {body:#}");
    assert!(body["cost"]["cpu_ms"].as_u64().unwrap() > 0, "{name}: {body:#}");
    assert!(body["outputs"].is_null() || fault.status == "reverted", "{name}: {body:#}");
}
