//! Tests packages through the real binary: what they can and cannot do, and what is left of one that misbehaves.

use crate::countersign::{Ran, Server, User};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

const CODE: (&str, &str) = ("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true");

/// Writes a package of one action to the user's folder.
pub(crate) fn write_package(folder: &Path, name: &str, action: &str, tier: &str, scripts: &[(&str, &str)], more: &Value) {
    let at = folder.join(name).join("actions").join(action);
    std::fs::create_dir_all(&at).unwrap();
    let mut manifest = json!({
        "name": action, "riskTier": tier, "inputSchema": {}, "outputSchema": {},
        "permissions": { "commands": [], "filesystem": "workspace" },
        "verification": { "required": scripts.iter().any(|(name, _)| name.starts_with("verify")), "commands": [] },
        "rollback": { "required": true }, "timeoutMs": 20_000
    });
    for (key, value) in more.as_object().unwrap() {
        manifest[key] = value.clone();
    }
    std::fs::write(at.join("action.json"), manifest.to_string()).unwrap();
    for (script, text) in scripts {
        std::fs::write(at.join(script), text).unwrap();
    }
}

/// The file in a workspace that identifies it.
pub(crate) const WORKSPACE_ID: &str = ".countersign-workspace";

pub(crate) fn tree(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut ahead = vec![folder.to_owned()];
    while let Some(at) = ahead.pop() {
        for entry in std::fs::read_dir(&at).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                ahead.push(path);
                found.insert(name, "(folder)".to_owned());
            } else {
                found.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    found.remove(WORKSPACE_ID);
    found
}

const FINE: &str = r#"console.log(JSON.stringify({ ok: true, checks: [] }));"#;

/// Replaces one file, makes another in a new folder, deletes a third.
const THREE: &str = r#"
const fs = require("fs");
fs.writeFileSync("/stage/a.txt", fs.readFileSync("/workspace/a.txt", "utf8") + "more\n");
fs.mkdirSync("/stage/deep/er", { recursive: true });
fs.writeFileSync("/stage/deep/er/b.txt", "new\n");
console.log(JSON.stringify({ output: { done: true }, deletes: ["c.txt"] }));
"#;

fn invoke(user: &User, action: &str, params: &[&str]) -> Ran {
    let mut arguments = vec!["action", "invoke", action, "--json"];
    arguments.extend(params);
    user.run(&arguments)
}

fn three(server: &Server) {
    std::fs::write(server.workspace().join("a.txt"), "one\n").unwrap();
    std::fs::write(server.workspace().join("c.txt"), "gone\n").unwrap();
}

fn before() -> BTreeMap<String, String> {
    [("a.txt", "one\n"), ("c.txt", "gone\n")].map(|(path, text)| (path.to_owned(), text.to_owned())).into()
}

fn after() -> BTreeMap<String, String> {
    let after = [("a.txt", "one\nmore\n"), ("deep", "(folder)"), ("deep/er", "(folder)"), ("deep/er/b.txt", "new\n")];
    after.map(|(path, text)| (path.to_owned(), text.to_owned())).into()
}

#[test]
fn where_no_code_runs_the_list_of_packages_says_so() {
    let server = Server::start_binary();
    let owner = server.owner();
    write_package(owner.folder(), "kit", "three", "R2", &[("execute.js", THREE), ("verify.js", FINE), ("rollback.js", FINE)], &json!({}));
    owner.run(&["package", "install", "kit"]).ok();
    let listed = owner.run(&["package", "list"]).ok();
    assert!(listed.stdout.starts_with("kit\tkit.three\t"), "{listed:?}");
    assert!(listed.stderr.contains("none of them can run") && listed.stderr.contains("`allow_plugin_code_execution = true`"), "{listed:?}");
    assert!(!listed.stderr.contains("run at the same time"), "{listed:?}");
}

#[test]
fn what_a_package_staged_is_what_happens_and_it_is_taken_back_whole() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    three(&server);
    write_package(owner.folder(), "kit", "three", "R2", &[("execute.js", THREE), ("verify.js", FINE), ("rollback.js", FINE)], &json!({}));
    owner.run(&["package", "install", "kit"]).ok();
    let listed = owner.run(&["package", "list", "--json"]).ok().json();
    assert_eq!(listed["items"][0]["actions"][0]["id"], "kit.three");
    // A dry run changes nothing, and shows what would change.
    let rehearsed = owner.run(&["action", "invoke", "kit.three", "--dry-run", "--json"]).ok().json();
    assert_eq!(tree(&server.workspace()), before());
    let changes = rehearsed["result"]["changes"].as_array().unwrap();
    assert_eq!(
        changes.iter().map(|change| change["change"].as_str().unwrap()).collect::<Vec<_>>(),
        ["would_change", "would_create", "would_delete"]
    );
    assert!(changes[0]["diff"].as_str().unwrap().contains("+more"), "{rehearsed:#}");
    // Without this mode a write needs approval.
    owner.run(&["mode", "set", "kit.three", "allow"]).ok();
    let done = invoke(&owner, "kit.three", &[]).ok().json();
    assert_eq!((&done["invocation"]["status"], &done["result"]), (&json!("succeeded"), &json!({ "done": true })), "{done:#}");
    assert_eq!(tree(&server.workspace()), after());
    let id = done["invocation"]["id"].as_str().unwrap();
    let shown = owner.run(&["show", id]).ok().stdout;
    assert!(shown.contains("read_back ✓") && shown.contains("verify ✓"), "{shown}");
    owner.run(&["invocation", "revert", id, "--yes"]).ok();
    assert_eq!(tree(&server.workspace()), before());
    owner.run(&["receipt", "verify"]).ok();
    owner.run(&["package", "remove", "kit", "--yes"]).ok();
    assert_eq!(invoke(&owner, "kit.three", &[]).error()["code"], "unknown_action");
}

#[test]
fn a_package_in_python_does_the_same() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    let script = "import json, sys\nasked = json.load(sys.stdin)\nopen('/stage/py.txt', 'w').write(asked['input']['text'])\nprint(json.dumps({'output': {'ok': True}}))\n";
    let verify = "import json\nprint(json.dumps({'ok': open('/workspace/py.txt').read() == 'hello', 'checks': []}))\n";
    write_package(owner.folder(), "kit", "say", "R2", &[("execute.py", script), ("verify.py", verify)], &json!({}));
    owner.run(&["package", "install", "kit"]).ok();
    owner.run(&["mode", "set", "kit.say", "allow"]).ok();
    invoke(&owner, "kit.say", &["text=hello"]).ok();
    assert_eq!(std::fs::read_to_string(server.workspace().join("py.txt")).unwrap(), "hello");
}

#[test]
fn what_fails_its_verification_is_repaired_once_or_else_taken_back() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    three(&server);
    // The script does it right only after it was told which check failed.
    let learning = r#"
const fs = require("fs");
const { failedChecks } = JSON.parse(fs.readFileSync(0, "utf8"));
fs.writeFileSync("/stage/a.txt", failedChecks.length ? "right" : "wrong");
console.log(JSON.stringify({ output: { told: failedChecks.length } }));
"#;
    let strict = r#"
const ok = require("fs").readFileSync("/workspace/a.txt", "utf8") === "right";
console.log(JSON.stringify({ ok, checks: [{ name: "content", ok }] }));
"#;
    let never = r#"console.log(JSON.stringify({ ok: false, checks: [{ name: "mood", ok: false, detail: "not today" }] }));"#;
    write_package(owner.folder(), "kit", "learn", "R2", &[("execute.js", learning), ("verify.js", strict)], &json!({}));
    write_package(owner.folder(), "kit", "never", "R2", &[("execute.js", THREE), ("verify.js", never)], &json!({}));
    owner.run(&["package", "install", "kit"]).ok();
    owner.run(&["mode", "set", "kit.learn", "allow"]).ok();
    owner.run(&["mode", "set", "kit.never", "allow"]).ok();
    invoke(&owner, "kit.never", &[]);
    let listed = owner.run(&["invocation", "list", "--json"]).ok().json();
    assert_eq!(listed["items"][0]["status"], "reverted", "{listed:#}");
    assert_eq!(tree(&server.workspace()), before());
    let learnt = invoke(&owner, "kit.learn", &[]).ok().json();
    assert_eq!(learnt["invocation"]["status"], "succeeded", "{learnt:#}");
    assert_eq!(std::fs::read_to_string(server.workspace().join("a.txt")).unwrap(), "right");
    owner.run(&["receipt", "verify"]).ok();
}

const HOSTILE: &str = r#"
const fs = require("fs");
const { input } = JSON.parse(fs.readFileSync(0, "utf8"));
const answer = (output) => console.log(JSON.stringify({ output }));
const ways = {
  fine: () => answer({ ok: true }),
  hangs: () => { for (;;) {} },
  sleeps: () => setInterval(() => {}, 1000),
  ignores_term: () => { process.on("SIGTERM", () => {}); process.kill(process.pid, "SIGTERM"); setInterval(() => {}, 1000); },
  is_killed: () => process.kill(process.pid, "SIGKILL"),
  eats_memory: () => { const held = []; for (;;) held.push(Buffer.alloc(16 << 20, 1)); },
  fills_the_stage: () => { const file = fs.openSync("/stage/big", "w"); const chunk = Buffer.alloc(1 << 20, 1); for (let n = 0; n < 10240; n++) fs.writeSync(file, chunk); answer({}); },
  floods: () => { const chunk = "x".repeat(1 << 20); for (let n = 0; n < 1024; n++) fs.writeSync(1, chunk); },
  closes_stdout: () => fs.closeSync(1),
  says_nonsense: () => console.log("{not json"),
  says_it_twice: () => console.log('{"output": {}, "output": {"ok": true}}'),
  says_too_deep: () => console.log("[".repeat(100000) + "]".repeat(100000)),
  breaks_its_schema: () => answer({ ok: "perhaps" }),
  throws: () => { throw new Error("on purpose"); },
  stages_a_link: () => { fs.symlinkSync("/etc/passwd", "/stage/a.txt"); answer({ ok: true }); },
  stages_an_odd_name: () => { fs.writeFileSync("/stage/a\u202etxt", "x"); answer({ ok: true }); },
  stages_our_names: () => { fs.writeFileSync("/stage/.countersign-x", "x"); answer({ ok: true }); },
  stages_git: () => { fs.mkdirSync("/stage/secret"); fs.writeFileSync("/stage/secret/x", "x"); answer({ ok: true }); },
  climbs_in_deletes: () => console.log(JSON.stringify({ output: { ok: true }, deletes: ["../countersign.db"] })),
  names_the_root_in_deletes: () => console.log(JSON.stringify({ output: { ok: true }, deletes: ["/etc/passwd"] })),
  writes_outside: () => { fs.writeFileSync("/workspace/a.txt", "x"); answer({ ok: true }); },
  reads_outside: () => { fs.readFileSync("/etc/shadow"); answer({ ok: true }); },
  reads_the_key: () => { fs.readFileSync("/workspace/../master.key"); answer({ ok: true }); },
  calls_out: () => { const socket = require("net").connect(80, "127.0.0.1"); socket.on("error", () => process.exit(1)); socket.on("connect", () => answer({ ok: true })); },
};
ways[input.how]();
"#;

#[test]
fn whatever_a_package_does_the_server_stays_healthy_and_nothing_is_changed() {
    let server = Server::start_with(&[CODE, ("COUNTERSIGN_INVOCATIONS_PER_MINUTE", "1000")]);
    let owner = server.owner();
    three(&server);
    // Only what never ends is given little time: the rest ends as it says, however busy the machine is.
    for (action, timeout_ms) in [("hostile", 30_000), ("endless", 5_000)] {
        let schema = json!({ "outputSchema": { "type": "object", "properties": { "ok": { "type": "boolean" } } },
            "timeoutMs": timeout_ms, "memoryMb": 256 });
        write_package(owner.folder(), "kit", action, "R2", &[("execute.js", HOSTILE), ("verify.js", FINE)], &schema);
    }
    owner.run(&["package", "install", "kit"]).ok();
    for action in ["kit.hostile", "kit.endless"] {
        owner.run(&["mode", "set", action, "allow"]).ok();
    }
    for (how, code) in [
        ("hangs", "package_timed_out"),
        ("sleeps", "package_timed_out"),
        ("ignores_term", "package_timed_out"),
        ("is_killed", "package_killed"),
        ("eats_memory", "package_out_of_memory"),
        ("fills_the_stage", "package_failed"),
        ("floods", "package_flooded"),
        ("closes_stdout", "package_bad_output"),
        ("says_nonsense", "package_bad_output"),
        ("says_it_twice", "package_bad_output"),
        ("says_too_deep", "package_bad_output"),
        ("breaks_its_schema", "result_schema_mismatch"),
        ("throws", "package_failed"),
        ("stages_a_link", "package_stage_refused"),
        ("stages_an_odd_name", "package_stage_refused"),
        ("stages_our_names", "path_not_allowed"),
        ("climbs_in_deletes", "path_outside_workspace"),
        ("names_the_root_in_deletes", "path_outside_workspace"),
        ("writes_outside", "package_failed"),
        ("reads_outside", "package_failed"),
        ("reads_the_key", "package_failed"),
        ("calls_out", "package_failed"),
    ] {
        let action = if code == "package_timed_out" { "kit.endless" } else { "kit.hostile" };
        let refused = invoke(&owner, action, &[&format!("how={how}")]);
        assert_ne!(refused.code, 0, "{how}: {refused:?}");
        let listed = owner.run(&["invocation", "list", "--json"]).ok().json();
        let last = &listed["items"][0];
        // Only a result that breaks its schema is noticed after the effect. The script staged nothing, and the call is reverted.
        let status = if how == "breaks_its_schema" { "reverted" } else { "failed" };
        // On a machine that is too busy to end the program in the second that is left for it, the whole source times out.
        let is_late = code == "package_timed_out" && last["error"]["code"] == "source_timed_out";
        assert!(last["status"] == status && (last["error"]["code"] == code || is_late), "{how}: {last:#}");
        assert_eq!(tree(&server.workspace()), before(), "{how}");
        // The circuit breaker opens after several failures in a row. It is closed again, so that each case runs.
        owner.run(&["breaker", "close", action, "--yes"]);
    }
    let scoped = owner.run(&["action", "invoke", "kit.hostile", "how=stages_git", "--except", "secret", "--json"]);
    assert!(scoped.code != 0 && scoped.stderr.contains("outside the scope"), "{scoped:?}");
    invoke(&owner, "kit.hostile", &["how=fine"]).ok();
    owner.run(&["receipt", "verify"]).ok();
    owner.run(&["doctor"]);
}

#[test]
fn nobody_is_asked_about_code_that_may_not_run() {
    let mut server = Server::start_with(&[CODE]);
    let owner = server.owner();
    three(&server);
    write_package(owner.folder(), "kit", "three", "R2", &[("execute.js", THREE), ("verify.js", FINE), ("rollback.js", FINE)], &json!({}));
    owner.run(&["package", "install", "kit"]).ok();
    let held = owner.run(&["action", "invoke", "kit.three", "--no-wait"]).exits(6);
    let id = held.stdout.trim().to_owned();
    // The approver sees what the script staged, which package's code it is, and the checks that will run.
    let card = owner.run(&["show", &id]).ok().stdout;
    for told in [
        "Would change      code of the package `kit` was run to find this out, without effect\n  ~ would change  a.txt  +1\n    @@ -1 +1 @@\n     one\n    +more\n  + would create  deep/er/b.txt  +1",
        "− would remove  c.txt  −1",
        "of the package `kit`",
        "in the sandbox under profile `default`, with no network",
        "Verified by       read_back, verify",
    ] {
        assert!(card.contains(told), "{told}: {card}");
    }
    assert_eq!(tree(&server.workspace()), before());
    // The operator turns off package code while the call is pending. The card says so first, and an approval is refused instead of being
    // used up.
    server.terminate();
    server.wait();
    let server = server.start_again();
    let owner = server.owner();
    let card = owner.run(&["show", &id]).ok().stdout;
    assert!(card.lines().nth(3).unwrap().starts_with("! cannot run now: `kit.three` runs code of a package"), "{card}");
    let refused = owner.run(&["approve", &id, "--json"]).exits(7).error();
    assert_eq!((&refused["code"], &refused["error"]), (&json!("cannot_run"), &json!("package_code_disabled")));
    let refused = owner.run(&["action", "invoke", "kit.three"]).exits(5);
    assert!(refused.stderr.contains("`allow_plugin_code_execution = true`"), "{refused:?}");
    let inbox = owner.run(&["inbox", "--json"]).ok().json();
    assert_eq!(inbox["items"].as_array().unwrap().iter().map(|item| item["id"].clone()).collect::<Vec<_>>(), [json!(id)]);
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn a_package_at_r3_runs_for_nobody_but_a_person_and_the_receipt_says_in_what() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    three(&server);
    write_package(owner.folder(), "kit", "three", "R3", &[("execute.js", THREE), ("verify.js", FINE)], &json!({}));
    owner.run(&["package", "install", "kit"]).ok();
    // A user who sets the mode to `allow` is told that the action still needs approval.
    let allowed = owner.run(&["mode", "set", "kit.three", "allow"]).ok();
    assert!(allowed.stderr.contains("! still needs approval: a package's R3 or R4 action never runs without a person"), "{allowed:?}");
    assert!(!owner.run(&["mode", "set", "files.write_text", "allow"]).ok().stderr.contains("still needs approval"));
    let rehearsed = owner.run(&["action", "invoke", "kit.three", "--dry-run", "--json"]);
    assert_eq!(rehearsed.error()["code"], "dry_run_unsupported", "{rehearsed:?}");
    let rehearsed = owner.run(&["action", "invoke", "kit.three", "--dry-run"]);
    assert!(rehearsed.stderr.contains("`countersign explain kit.three --as ses_"), "{rehearsed:?}");
    let refused = owner.run(&["grant", "give", "kit.three", "--org", "--json"]);
    assert_eq!(refused.error()["code"], "not_grantable", "{refused:?}");
    owner.run(&["grant", "give", "kit.*", "--org", "--yes"]).ok();
    let waiting = owner.start_waiting(&["action", "invoke", "kit.three"]);
    let id = waiting.id.clone();
    let shown = owner.run(&["show", &id, "--json"]).ok().json();
    assert_eq!(shown["decision"]["tightened"], json!(["a package's R3 or R4 action never runs without a person"]), "{shown:#}");
    assert_eq!(tree(&server.workspace()), before());
    let beyond = owner.run(&["approve", &id, "--grant", "--yes", "--json"]);
    assert_eq!(beyond.error()["code"], "not_grantable", "{beyond:?}");
    owner.run(&["approve", &id, "--yes"]).ok();
    assert_eq!(waiting.end().code, 0);
    assert_eq!(tree(&server.workspace()), after());
    let shown = owner.run(&["show", &id, "--json"]).ok().json();
    let receipt = owner.run(&["receipt", "show", shown["receipt"]["id"].as_str().unwrap(), "--json"]).ok().stdout;
    for fact in ["landlock_abi", "seccomp_sha256", "namespaces", "cgroup_backend", "degraded", "cpu_ms"] {
        assert!(receipt.contains(&format!("\"{fact}\"")), "{fact} is missing: {receipt}");
    }
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn a_declared_command_verifies_only_if_the_operator_allows_it_word_by_word() {
    let script = r#"
const fs = require("fs");
const { input } = JSON.parse(fs.readFileSync(0, "utf8"));
fs.writeFileSync("/stage/out.js", input.text);
console.log(JSON.stringify({ output: {} }));
"#;
    let command = "node --check out.js";
    let more = json!({ "permissions": { "commands": [command], "filesystem": "workspace" }, "verification": { "required": true, "commands": [command] } });
    for (allowed, text, ends) in [
        ("node --check {file}", "let fine = 1;", "succeeded"),
        ("node --check {file}", "let not fine", "reverted"),
        // A rule without a placeholder names the file by its path in the workspace.
        ("node --check out.js", "let fine = 1;", "succeeded"),
        ("node --check out.js", "let not fine", "reverted"),
        // The call is denied before it has an effect.
        ("node --check other.js", "let fine = 1;", "denied"),
    ] {
        let server = Server::start_with(&[CODE, ("COUNTERSIGN_COMMAND_ALLOWLIST", allowed)]);
        let owner = server.owner();
        write_package(owner.folder(), "kit", "out", "R2", &[("execute.js", script)], &more);
        owner.run(&["package", "install", "kit"]).ok();
        owner.run(&["mode", "set", "kit.out", "allow"]).ok();
        invoke(&owner, "kit.out", &[&format!("text={text}")]);
        let listed = owner.run(&["invocation", "list", "--json"]).ok().json();
        assert_eq!(listed["items"][0]["status"], ends, "{allowed}: {listed:#}");
        assert_eq!(server.workspace().join("out.js").exists(), ends == "succeeded", "{allowed}");
        if ends == "denied" {
            let (code, repair) = (&listed["items"][0]["error"]["code"], &listed["items"][0]["repair"]);
            assert_eq!((code, repair), (&json!("package_command_not_allowed"), &Value::Null), "{listed:#}");
        }
        owner.run(&["receipt", "verify"]).ok();
    }
}

/// The manifest of the older contract, word for word, with the four files of its package.
#[test]
fn the_package_of_the_contract_runs_as_it_stands() {
    let server = Server::start_with(&[CODE, ("COUNTERSIGN_COMMAND_ALLOWLIST", "node --check {file}")]);
    let owner = server.owner();
    let at = owner.folder().join("kit/actions/example_action");
    std::fs::create_dir_all(&at).unwrap();
    let execute = r#"
const fs = require("fs");
const { input } = JSON.parse(fs.readFileSync(0, "utf8"));
fs.mkdirSync("/stage/src");
fs.writeFileSync("/stage/src/file.js", input.text);
console.log(JSON.stringify({ output: {} }));
"#;
    let manifest = include_str!("../../../server/tests/seed/action.json");
    for (file, text) in [("action.json", manifest), ("execute.js", execute), ("verify.js", FINE), ("rollback.js", FINE)] {
        std::fs::write(at.join(file), text).unwrap();
    }
    owner.run(&["package", "install", "kit"]).ok();
    owner.run(&["mode", "set", "kit.example_action", "allow"]).ok();
    let written = || std::fs::read_to_string(server.workspace().join("src/file.js")).ok();
    let done = invoke(&owner, "kit.example_action", &["text=let fine = 1;"]).ok().json();
    let checks: Vec<_> = done["invocation"]["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(checks, ["result_schema", "read_back", "verify", "node --check src/file.js"], "{done:#}");
    assert_eq!(written().as_deref(), Some("let fine = 1;"));
    // What its command does not accept is rolled back.
    invoke(&owner, "kit.example_action", &["text=let not fine"]);
    let listed = owner.run(&["invocation", "list", "--json"]).ok().json();
    assert_eq!(listed["items"][0]["status"], "reverted", "{listed:#}");
    assert_eq!(written().as_deref(), Some("let fine = 1;"));
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn code_has_room_to_put_things_aside_and_nothing_of_it_is_an_effect() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    three(&server);
    let aside = r#"
import json, os, shutil, stat, sys, tempfile
left = os.listdir(tempfile.gettempdir())
open(tempfile.mkstemp()[1], "w").write("x")
shutil.copy("/workspace/a.txt", tempfile.mkdtemp() + "/copy")
shutil.copy2("/workspace/a.txt", "/tmp/b.txt")
os.chmod("/tmp/b.txt", 0o640)
result = { "folder": tempfile.gettempdir(), "left": left, "mode": stat.S_IMODE(os.stat("/tmp/b.txt").st_mode) }
"#;
    let reads = format!("{aside}\nprint(json.dumps({{ 'output': result }}))\n");
    let moves = format!("{aside}\nshutil.move('/tmp/b.txt', '/stage/b.txt')\nprint(json.dumps({{ 'output': result }}))\n");
    write_package(owner.folder(), "kit", "read", "R1", &[("execute.py", &reads)], &json!({}));
    write_package(owner.folder(), "kit", "move", "R2", &[("execute.py", &moves), ("verify.js", FINE)], &json!({}));
    let tight = json!({ "profile": "high_isolation" });
    write_package(owner.folder(), "tight", "read", "R1", &[("execute.py", &reads)], &tight);
    owner.run(&["package", "install", "kit"]).ok();
    owner.run(&["package", "install", "tight"]).ok();
    owner.run(&["mode", "set", "kit.move", "allow"]).ok();
    let expected = json!({ "folder": "/tmp", "left": [], "mode": 0o640 });
    for _ in 0..2 {
        assert_eq!(invoke(&owner, "kit.read", &[]).ok().json()["result"], expected);
    }
    assert_eq!(tree(&server.workspace()), before());
    assert_eq!(invoke(&owner, "kit.move", &[]).ok().json()["result"], expected);
    let mut after = before();
    after.insert("b.txt".to_owned(), "one\n".to_owned());
    assert_eq!(tree(&server.workspace()), after);
    let ran = invoke(&owner, "tight.read", &[]);
    if server.can_confine("high_isolation") {
        assert_eq!(ran.ok().json()["result"], expected);
    } else {
        let listed = owner.run(&["invocation", "list", "--json"]).ok().json();
        assert_eq!(listed["items"][0]["error"]["code"], "sandbox_unavailable", "{listed:#}");
    }
}

#[test]
fn code_runs_only_where_an_operator_said_so() {
    let server = Server::start_binary();
    let owner = server.owner();
    write_package(owner.folder(), "kit", "three", "R2", &[("execute.js", THREE), ("verify.js", FINE)], &json!({}));
    owner.run(&["package", "install", "kit"]).ok();
    owner.run(&["mode", "set", "kit.three", "allow"]).ok();
    invoke(&owner, "kit.three", &[]);
    let listed = owner.run(&["invocation", "list", "--json"]).ok().json();
    assert_eq!(listed["items"][0]["error"]["code"], "package_code_disabled", "{listed:#}");
}

/// Of two actions with one name, the package's is the suspicious one: calls of the builtin action go on without a person.
#[test]
fn a_package_that_takes_the_name_of_a_builtin_action_leaves_that_action_alone() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    std::fs::write(server.workspace().join("a.txt"), "as it was").unwrap();
    write_package(owner.folder(), "kit", "read_text", "R2", &[("execute.js", THREE), ("verify.js", FINE)], &json!({}));
    let refused = owner.run(&["package", "install", "kit"]);
    assert!(refused.stderr.contains("kit.read_text"), "{refused:?}");
    owner.run(&["package", "install", "kit", "--accept-findings"]).ok();
    let read = owner.run(&["action", "invoke", "files.read_text", "path=a.txt", "--no-wait", "--json"]).ok().json();
    assert_eq!(read["result"]["text"], "as it was", "{read:#}");
}

#[test]
fn a_package_that_breaks_a_rule_is_not_installed_and_the_rule_is_named() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    let one: &[(&str, &str)] = &[("execute.js", THREE), ("verify.js", FINE)];
    write_package(owner.folder(), "files", "three", "R2", one, &json!({}));
    write_package(owner.folder(), "unverified", "three", "R2", &[("execute.js", THREE)], &json!({}));
    let schema = json!({ "outputSchema": { "type": "object", "required": ["id"] } });
    write_package(owner.folder(), "unread", "three", "R3", &[("execute.js", THREE)], &schema);
    write_package(owner.folder(), "worst", "three", "R4", &[("execute.js", THREE)], &schema);
    write_package(owner.folder(), "kept", "three", "R2", one, &json!({ "rollback": { "required": false } }));
    write_package(owner.folder(), "misspelt", "three", "R2", one, &json!({ "permisions": {} }));
    write_package(owner.folder(), "twice", "three", "R2", &[("execute.js", ""), ("execute.py", ""), ("verify.js", FINE)], &json!({}));
    write_package(owner.folder(), "schemaless", "three", "R2", one, &json!({ "inputSchema": { "type": "nothing" } }));
    std::fs::create_dir_all(owner.folder().join("empty")).unwrap();
    for (name, why) in [
        ("files", "the name of a source of ours"),
        ("unverified", "verification.required"),
        ("unread", "it is of tier R3, and that needs `verification.required`"),
        ("worst", "it is of tier R4, and that needs `verification.required`"),
        ("kept", "rollback.required"),
        ("misspelt", "permisions"),
        ("twice", "more than one `execute`"),
        ("schemaless", "does not compile"),
        ("empty", "neither an `actions/<name>/action.json` nor an `mcp.json`"),
    ] {
        let refused = owner.run(&["package", "install", name]);
        assert!(refused.code != 0 && refused.stderr.contains(why), "{name}: {refused:?}");
        let checked = owner.run(&["package", "check", name]);
        assert!(checked.code != 0 && checked.stderr.contains(why), "{name}: {checked:?}");
    }
    assert_eq!(owner.run(&["package", "list", "--json"]).ok().json()["items"], json!([]));
}

#[test]
fn an_edited_script_is_drift_and_waits_for_a_person() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    three(&server);
    write_package(owner.folder(), "kit", "three", "R2", &[("execute.js", THREE), ("verify.js", FINE)], &json!({}));
    owner.run(&["package", "install", "kit"]).ok();
    let set = || owner.run(&["mode", "set", "kit.three", "allow"]).ok().stderr;
    let told = set();
    assert!(!told.contains("not a review"), "{told}");
    let script = server.data().join("packages/kit/actions/three/execute.js");
    std::fs::write(&script, format!("{THREE}\n// edited\n")).unwrap();
    let told = set();
    assert!(told.contains("setting a mode is not a review") && told.contains("next: countersign action review kit.three"), "{told}");
    let waiting = owner.start_waiting(&["action", "invoke", "kit.three"]);
    let shown = owner.run(&["show", &waiting.id, "--json"]).ok().json();
    assert_eq!(shown["decision"]["tightened"], json!(["the definition changed since it was reviewed (structural)"]), "{shown:#}");
    assert_eq!(tree(&server.workspace()), before());
    owner.run(&["deny", &waiting.id]).ok();
    waiting.end();
    // A review that ignores changed wording does not cover changed code.
    owner.run(&["action", "review", "kit.three", "--ignore-wording", "--yes"]).ok();
    std::fs::write(&script, format!("{THREE}\n// edited again\n")).unwrap();
    let waiting = owner.start_waiting(&["action", "invoke", "kit.three"]);
    owner.run(&["deny", &waiting.id]).ok();
    waiting.end();
}

#[test]
fn the_example_passes_its_own_tests_and_a_broken_one_does_not() {
    let server = Server::start_binary();
    let owner = server.owner();
    owner.run(&["package", "new", "notes"]).ok();
    owner.run(&["package", "new", "notes"]).exits(2);
    owner.run(&["package", "check", "notes"]).ok();
    owner.run(&["package", "test", "notes"]).ok();
    // In Python, because every server reads the whole interpreter first, and that of Python is small.
    owner.run(&["package", "new", "broken", "--lang", "python"]).ok();
    let script = owner.folder().join("broken/actions/append_to_broken/execute.py");
    let broken = std::fs::read_to_string(&script).unwrap().replace("given[\"line\"]", "\"nothing\"");
    std::fs::write(&script, broken).unwrap();
    let failed = owner.run(&["package", "test", "broken"]);
    assert!(failed.code != 0 && failed.stdout.contains("tests/appends.json") && failed.stdout.contains("failed"), "{failed:?}");
    // The case expects that access outside is refused. A script that fails for another reason does not pass it.
    std::fs::write(&script, "raise Exception('something else')").unwrap();
    let failed = owner.run(&["package", "test", "broken", "--json"]).exits(1).json();
    let why = failed["items"].as_array().unwrap().iter().find(|case| case["case"] == "tests/stays_inside.json").unwrap()["why"].clone();
    let why = why.as_str().unwrap();
    for text in ["its error is `package_failed: ", "saying `Exception: something else`", "where `'/outside.txt'` was expected in it"] {
        assert!(why.contains(text), "{text}: {why}");
    }
}
