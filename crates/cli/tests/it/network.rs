//! Tests packages that use the network: which hosts they reach, with which methods, at which time, and what the receipt says about it.

use crate::countersign::{Ran, Server, User};
use crate::outside::Outside;
use crate::packages::write_package;
use serde_json::{Value, json};
use std::path::Path;

pub(crate) const CODE: (&str, &str) = ("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true");
const HOSTS: &str = "COUNTERSIGN_PACKAGE_ALLOWED_HOSTS";
const NETWORKS: (&str, &str) = ("COUNTERSIGN_PACKAGE_ALLOWED_NETWORKS", "127.0.0.1/32");

/// The beginning of every script here: writes a request as a line to the egress descriptor, and reads the answer as a line.
const WAY: &str = r#"
const fs = require("fs");
const way = Number(process.env.COUNTERSIGN_EGRESS_FD);
function ask(line) {
  fs.writeFileSync(way, line + "\n");
  const chunk = Buffer.alloc(65536);
  let answer = Buffer.alloc(0);
  while (!answer.includes(10)) {
    const read = fs.readSync(way, chunk);
    if (read === 0) throw new Error("closed");
    answer = Buffer.concat([answer, chunk.subarray(0, read)]);
  }
  return JSON.parse(answer);
}
const { input } = JSON.parse(fs.readFileSync(0, "utf8"));
"#;

/// Sends every request of the file `lines.json`, one after the other.
pub(crate) const ASK: &str = r#"
const lines = JSON.parse(fs.readFileSync("/package/lines.json", "utf8"));
console.log(JSON.stringify({ output: { answers: lines.map(ask) } }));
"#;

/// Writes the package `kit` with an action whose code has the function `ask` and these requests in `lines.json`.
pub(crate) fn write_asking(folder: &Path, action: &str, tier: &str, script: &str, lines: &[&String], more: &Value) {
    let mut manifest = json!({ "permissions": { "commands": [], "filesystem": "none" } });
    for (key, value) in more.as_object().unwrap() {
        manifest[key] = value.clone();
    }
    let (script, lines) = (format!("{WAY}{script}"), json!(lines).to_string());
    let mut scripts = vec![("execute.js", script.as_str()), ("lines.json", lines.as_str())];
    // An R3 action cannot be installed without a verification.
    if tier >= "R3" {
        scripts.push(("verify.js", r#"console.log(JSON.stringify({ ok: true, checks: [] }));"#));
    }
    write_package(folder, "kit", action, tier, &scripts, &manifest);
}

/// The network use that the newest receipt records.
pub(crate) fn egress_of(owner: &User) -> Vec<Value> {
    newest_body(owner)["sandbox"]["egress"].as_array().cloned().unwrap_or_default()
}

/// The body of the newest receipt.
fn newest_body(owner: &User) -> Value {
    let listed = owner.run(&["invocation", "list", "--json"]).ok().json();
    let id = listed["items"][0]["receipt"]["id"].as_str().unwrap_or_else(|| panic!("{listed:#}")).to_owned();
    owner.run(&["receipt", "show", &id, "--json"]).ok().json()["payload"]["body"].clone()
}

fn newest(owner: &User) -> Value {
    owner.run(&["invocation", "list", "--json"]).ok().json()["items"][0].clone()
}

fn post(url: &str) -> String {
    json!({ "method": "POST", "url": url, "body": "aGVsbG8=" }).to_string()
}

/// A server whose packages may send requests to this one host.
fn server_asking(outside: &Outside, more: &[(&str, &str)]) -> Server {
    let host = outside.url("");
    let mut variables = vec![CODE, (HOSTS, host.as_str()), NETWORKS, ("COUNTERSIGN_INVOCATIONS_PER_MINUTE", "1000")];
    variables.extend(more);
    Server::start_with(&variables)
}

/// Makes a call that needs approval, and approves it.
fn approved(owner: &User, arguments: &[&str]) -> Ran {
    let waiting = owner.start_waiting(&[&["action", "invoke"], arguments].concat());
    let answered = owner.run(&["approve", &waiting.id, "--yes", "--json"]);
    waiting.end();
    answered
}

#[test]
fn a_host_the_operator_has_not_allowed_is_refused_before_anything_runs() {
    let outside = Outside::start("127.0.0.1", |_| Vec::new());
    let line = json!({ "method": "GET", "url": outside.url("/") }).to_string();
    for allowed in ["", "http://127.0.0.1:1", "https://127.0.0.1", "*.example.com"] {
        let server = Server::start_with(&[CODE, (HOSTS, allowed), NETWORKS]);
        let owner = server.owner();
        write_asking(owner.folder(), "ask", "R1", ASK, &[&line], &json!({ "hosts": [outside.url("")] }));
        owner.run(&["package", "install", "kit"]).ok();
        owner.run(&["action", "invoke", "kit.ask"]);
        let ended = newest(&owner);
        assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("denied"), &json!("package_network_not_allowed")), "{ended:#}");
        let message = ended["error"]["message"].as_str().unwrap();
        assert!(message.contains(&outside.url("")) && message.contains("`package_allowed_hosts`"), "{message}");
        assert!(egress_of(&owner).is_empty());
    }
    assert!(outside.seen().is_empty());
}

#[test]
fn code_without_hosts_has_no_way_out() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    // The interpreter opens descriptors of its own, so the script counts sockets instead of looking at one descriptor.
    let script = r#"
let sockets = 0;
for (let fd = 0; fd < 64; fd++) { try { sockets += fs.fstatSync(fd).isSocket() ? 1 : 0; } catch (error) { } }
console.log(JSON.stringify({ output: { named: process.env.COUNTERSIGN_EGRESS_FD ?? null, sockets } }));
"#;
    write_asking(owner.folder(), "ask", "R1", script, &[], &json!({}));
    owner.run(&["package", "install", "kit"]).ok();
    let done = owner.run(&["action", "invoke", "kit.ask", "--json"]).ok().json();
    assert_eq!(done["result"], json!({ "named": null, "sockets": 0 }));
    let shown = owner.run(&["action", "show", "kit.ask"]).ok().stdout;
    assert!(!shown.contains("reaches"), "{shown}");
}

#[test]
fn whom_an_action_reaches_is_on_the_card_in_the_definition_and_in_the_receipt() {
    let outside = Outside::start("127.0.0.1", |_| Vec::new());
    let server = server_asking(&outside, &[]);
    let owner = server.owner();
    write_asking(owner.folder(), "act", "R3", ASK, &[&post(&outside.url("/secret-path"))], &json!({ "hosts": [outside.url("")] }));
    owner.run(&["package", "install", "kit"]).ok();
    assert!(owner.run(&["action", "show", "kit.act"]).ok().stdout.contains(&outside.url("")));
    assert_eq!(owner.run(&["action", "invoke", "kit.act", "--dry-run", "--json"]).error()["code"], "dry_run_unsupported");
    let waiting = owner.start_waiting(&["action", "invoke", "kit.act"]);
    let card = owner.run(&["show", &waiting.id]).ok().stdout;
    assert!(card.contains("Network") && card.contains(&outside.url("")), "{card}");
    assert!(outside.seen().is_empty(), "it asked before a person did");
    owner.run(&["approve", &waiting.id, "--yes"]).ok();
    assert_eq!(waiting.end().code, 0);
    let seen = outside.seen();
    assert!(seen.len() == 1 && seen[0].starts_with("POST /secret-path ") && seen[0].ends_with("hello"), "{seen:?}");
    assert_eq!(egress_of(&owner), [json!({ "host": outside.url(""), "made": 1, "refused": 0 })]);
    let receipt = newest(&owner)["receipt"]["id"].as_str().unwrap().to_owned();
    let shown = owner.run(&["receipt", "show", &receipt]).ok().stdout;
    assert!(shown.contains(&format!("{}: 1 made, 0 refused", outside.url(""))), "{shown}");
    assert!(!owner.run(&["receipt", "show", &receipt, "--json"]).ok().stdout.contains("secret-path"));
    assert!(!server.logged().contains("secret-path"));
    owner.run(&["receipt", "verify"]).ok();
    // A change of the hosts is a change of the definition, which needs a review.
    let manifest = server.data().join("packages/kit/actions/act/action.json");
    let text = std::fs::read_to_string(&manifest).unwrap().replace("http://127.0.0.1", "http://127.0.0.2");
    std::fs::write(&manifest, text).unwrap();
    let drifted = owner.run(&["action", "show", "kit.act"]).ok().stdout;
    assert!(drifted.contains("structural") && drifted.contains("http://127.0.0.2"), "{drifted}");
}

#[test]
fn what_changes_something_goes_where_it_was_sent_and_nowhere_else() {
    let other = Outside::start("127.0.0.1", |_| Vec::new());
    let elsewhere = other.url("/");
    let outside = Outside::start("127.0.0.1", move |_| vec![elsewhere.clone()]);
    let hosts = [outside.url(""), other.url("")];
    let server = Server::start_with(&[CODE, (HOSTS, &hosts.join(",")), NETWORKS]);
    let owner = server.owner();
    let to = |method: &str, path: &str| json!({ "method": method, "url": outside.url(path) }).to_string();
    let lines = [to("POST", "/moved/0"), to("PUT", "/a"), to("PATCH", "/a"), to("DELETE", "/a"), to("GET", "/moved/0")];
    write_asking(owner.folder(), "act", "R3", ASK, &lines.each_ref(), &json!({ "hosts": hosts }));
    owner.run(&["package", "install", "kit"]).ok();
    let done = approved(&owner, &["kit.act"]).ok().json();
    let statuses: Vec<_> = done["result"]["answers"].as_array().unwrap().iter().map(|answer| answer["status"].clone()).collect();
    assert_eq!(statuses, [302, 200, 200, 200, 200]);
    // Only the GET follows the redirect, and it is counted under the host that it reached.
    assert_eq!(other.seen().len(), 1);
    assert!(other.seen()[0].starts_with("GET / "), "{:?}", other.seen());
    let mut expected = [json!({ "host": hosts[0], "made": 5, "refused": 0 }), json!({ "host": hosts[1], "made": 1, "refused": 0 })];
    expected.sort_by_key(|asked| asked["host"].as_str().unwrap().to_owned());
    assert_eq!(egress_of(&owner), expected);
}

#[test]
fn tests_of_a_package_ask_whom_their_author_allows() {
    let outside = Outside::start("127.0.0.1", |_| Vec::new());
    let server = Server::start_binary();
    let owner = server.owner();
    let line = json!({ "method": "GET", "url": outside.url("/") }).to_string();
    write_asking(owner.folder(), "ask", "R1", ASK, &[&line], &json!({ "hosts": [outside.url("")] }));
    let case = json!({ "action": "ask", "input": {}, "expect": { "status": "succeeded" } });
    std::fs::create_dir_all(owner.folder().join("kit/tests")).unwrap();
    std::fs::write(owner.folder().join("kit/tests/asks.json"), case.to_string()).unwrap();
    let refused = owner.run(&["package", "test", "kit"]);
    assert!(refused.code != 0 && refused.stdout.contains("package_allowed_hosts"), "{refused:?}");
    assert!(outside.seen().is_empty());
    let allowing = owner.with_variable(HOSTS, &outside.url("")).with_variable(NETWORKS.0, NETWORKS.1);
    allowing.run(&["package", "test", "kit"]).ok();
    assert_eq!(outside.seen().len(), 1);
}

#[test]
fn what_runs_before_the_intent_only_asks() {
    let outside = Outside::start("127.0.0.1", |_| Vec::new());
    let server = server_asking(&outside, &[]);
    let owner = server.owner();
    let (fine, hosts) = (outside.url("/fine"), json!([outside.url("")]));
    // The script fetches and saves a file. Requests that could change something elsewhere are refused, in this script and in the one that
    // verifies it.
    let fetch = r#"
const lines = JSON.parse(fs.readFileSync("/package/lines.json", "utf8"));
const [got, refused] = lines.map(ask);
fs.writeFileSync("/stage/got.txt", Buffer.from(got.body, "base64"));
console.log(JSON.stringify({ output: { refused: refused.refused } }));
"#;
    let verify = format!(
        "{WAY}const ok = !!ask({}).refused && ask({}).status === 200;\nconsole.log(JSON.stringify({{ ok, checks: [] }}));",
        json!(post(&fine)),
        json!(json!({ "method": "HEAD", "url": fine }).to_string())
    );
    let lines = json!([json!({ "method": "GET", "url": fine }).to_string(), post(&fine)]).to_string();
    let scripts = [("execute.js", format!("{WAY}{fetch}")), ("verify.js", verify), ("lines.json", lines)];
    let scripts: Vec<_> = scripts.iter().map(|(name, text)| (*name, text.as_str())).collect();
    write_package(owner.folder(), "kit", "save", "R2", &scripts, &json!({ "hosts": hosts }));
    write_package(owner.folder(), "kit", "careful", "R3", &scripts, &json!({ "hosts": hosts }));
    for (action, tier) in [("read", "R1"), ("look", "R2")] {
        write_asking(owner.folder(), action, tier, ASK, &[&post(&fine)], &json!({ "hosts": hosts }));
    }
    owner.run(&["package", "install", "kit"]).ok();
    for done in [owner.run(&["action", "invoke", "kit.read", "--json"]), approved(&owner, &["kit.look"])] {
        let done = done.ok().json();
        assert!(done["result"]["answers"][0]["refused"].as_str().unwrap().contains("only GET and HEAD"), "{done:#}");
    }
    let saved = approved(&owner, &["kit.save"]).ok().json();
    assert!(saved["result"]["refused"].as_str().unwrap().contains("only GET and HEAD"), "{saved:#}");
    assert_eq!(std::fs::read_to_string(server.workspace().join("got.txt")).unwrap(), "fine");
    // The two scripts together made a GET and a HEAD request, and two requests were refused.
    assert_eq!(egress_of(&owner), [json!({ "host": outside.url(""), "made": 2, "refused": 2 })]);
    // The call changed only files, so it can be reverted.
    let reverting = owner.run(&["invocation", "revert", saved["invocation"]["id"].as_str().unwrap(), "--yes", "--no-wait"]);
    owner.run(&["approve", reverting.stdout.trim(), "--yes"]).ok();
    assert!(!server.workspace().join("got.txt").exists());
    approved(&owner, &["kit.careful"]);
    assert_eq!(newest(&owner)["status"], "succeeded");
    assert!(outside.seen().iter().all(|request| !request.starts_with("POST")), "{:?}", outside.seen());
    owner.run(&["receipt", "verify"]).ok();
}

/// Sends its requests if it is told to, and then ends in the given way.
const ENDS: &str = r#"
const lines = JSON.parse(fs.readFileSync("/package/lines.json", "utf8"));
const answers = input.sends ? lines.map(ask) : [];
const ways = {
  well: () => console.log(JSON.stringify({ output: { answers } })),
  dies: () => process.exit(3),
  is_killed: () => process.kill(process.pid, "SIGKILL"),
  hangs: () => setInterval(() => {}, 1000),
  says_nonsense: () => console.log("{not json"),
  says_something_else: () => console.log(JSON.stringify({ outputs: {} })),
  writes: () => { fs.writeFileSync("/stage/a.txt", "x"); console.log(JSON.stringify({ output: {} })); },
};
ways[input.how]();
"#;

#[test]
fn a_script_that_fails_after_it_changed_something_leaves_doubt_and_one_that_did_not_leaves_none() {
    let outside = Outside::start("127.0.0.1", |_| Vec::new());
    let server = server_asking(&outside, &[]);
    let owner = server.owner();
    let more = json!({ "hosts": [outside.url("")], "timeoutMs": 12_000 });
    write_asking(owner.folder(), "act", "R3", ENDS, &[&post(&outside.url("/"))], &more);
    // Nobody listens at the second address, so nothing is sent there, however the script ends.
    let asks_only = json!({ "method": "GET", "url": outside.url("/") }).to_string();
    write_asking(owner.folder(), "look", "R3", ENDS, &[&asks_only, &post(&format!("{}/", crate::fake::nobody()))], &more);
    owner.run(&["package", "install", "kit"]).ok();
    let mut sent = 0;
    for (how, code, doubt) in [
        ("well", "", ""),
        ("dies", "package_failed", "source_broke"),
        ("is_killed", "package_killed", "source_broke"),
        ("hangs", "package_timed_out", "source_timed_out"),
        ("says_nonsense", "package_bad_output", "source_broke"),
        ("says_something_else", "package_bad_output", "source_broke"),
        ("writes", "package_may_not_write", "source_broke"),
    ] {
        for (action, sends) in [("kit.act", false), ("kit.look", true), ("kit.act", true)] {
            approved(&owner, &[action, &format!("how={how}"), &format!("sends:={sends}")]);
            let ended = newest(&owner);
            let changed = sends && action == "kit.act";
            sent += u32::from(changed);
            let (status, expected) = match (how, changed) {
                ("well", _) => ("succeeded", ""),
                (_, false) => ("failed", code),
                (_, true) => ("in_doubt", doubt),
            };
            assert_eq!(ended["status"], status, "{how} {action} {sends}: {ended:#}");
            assert_eq!(ended["error"]["code"].as_str().unwrap_or_default(), expected, "{how} {action} {sends}: {ended:#}");
            let message = ended["error"]["message"].as_str().unwrap_or_default();
            assert_eq!(message.contains("may have happened"), status == "in_doubt", "{how} {action} {sends}: {message}");
            assert!(status != "in_doubt" || !message.contains("nothing was changed"), "{message}");
            if status == "in_doubt" && how == "dies" {
                // The call is settled without running again. Its receipt still records the sandbox it ran in and the hosts it reached.
                let id = ended["id"].as_str().unwrap();
                owner.run(&["invocation", "settle", id, "--as", "succeeded", "--reason", "it is there", "--yes"]).ok();
                assert_eq!(egress_of(&owner), [json!({ "host": outside.url(""), "made": 1, "refused": 0 })]);
                assert!(newest_body(&owner)["sandbox"]["seccomp_sha256"].is_string());
            }
            // The circuit breaker opens after several failures in a row. It is closed again, so that each case runs.
            owner.run(&["breaker", "close", action, "--yes"]);
        }
    }
    assert_eq!(outside.seen().iter().filter(|request| request.starts_with("POST")).count() as u32, sent);
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn the_intent_is_written_before_anything_leaves() {
    for (point, made) in [("execute.intended", 0), ("execute.effected", 1)] {
        let outside = Outside::start("127.0.0.1", |_| Vec::new());
        let mut server = server_asking(&outside, &[("FAULT_POINT", point)]);
        let owner = server.owner();
        write_asking(owner.folder(), "act", "R3", ASK, &[&post(&outside.url("/"))], &json!({ "hosts": [outside.url("")] }));
        owner.run(&["package", "install", "kit"]).ok();
        let waiting = owner.start_waiting(&["action", "invoke", "kit.act"]);
        owner.run(&["approve", &waiting.id, "--yes"]);
        assert_eq!(server.wait(), None, "{point}: it was to stop dead");
        waiting.interrupt();
        waiting.end();
        assert_eq!(outside.seen().len(), made, "{point}: {:?}", outside.seen());
        let server = server.start_again();
        let ended = newest(&server.owner());
        assert_eq!(ended["status"], "in_doubt", "{point}: {ended:#}");
        assert_eq!(outside.seen().len(), made, "{point}: it was sent again");
    }
}

#[test]
fn a_run_that_is_ended_takes_its_request_and_its_descriptors_with_it() {
    let outside = Outside::start("127.0.0.1", |_| Vec::new());
    let server = server_asking(&outside, &[]);
    let owner = server.owner();
    let silent = json!({ "method": "GET", "url": outside.url("/silent") }).to_string();
    let fine = json!({ "method": "GET", "url": outside.url("/fine") }).to_string();
    let more = |timeout_ms: u64| json!({ "hosts": [outside.url("")], "timeoutMs": timeout_ms });
    write_asking(owner.folder(), "ask", "R1", ASK, &[&fine], &more(20_000));
    write_asking(owner.folder(), "hang", "R1", ASK, &[&silent], &more(2_000));
    owner.run(&["package", "install", "kit"]).ok();
    owner.run(&["action", "invoke", "kit.ask"]).ok();
    let before = server.open_descriptors();
    for _ in 0..2 {
        owner.run(&["action", "invoke", "kit.hang"]);
        // On a slow machine the call's own timeout can come before the jail reports that of the run.
        let code = newest(&owner)["error"]["code"].clone();
        assert!(code == "package_timed_out" || code == "source_timed_out", "{code}");
    }
    // The open request was aborted when the run ended: the server does not wait for a host that is silent.
    outside.wait_until_alone();
    for _ in 0..16 {
        owner.run(&["action", "invoke", "kit.ask"]).ok();
    }
    // A jail that is kept for the next run and a client that is closing hold a few descriptors. If each run leaked one, there would be
    // more.
    let after = server.open_descriptors();
    assert!(after < before + 16, "{before} were open, now {after}");
}

#[test]
fn the_examples_of_the_guide_run_as_they_stand() {
    let guide = include_str!("../../../../docs/guides/packages.md");
    let example = |language: &str| {
        let (_, rest) = guide.split_once(&format!("```{language}\n")).unwrap_or_else(|| panic!("the guide shows no {language}"));
        rest.split_once("```").unwrap().0.to_owned()
    };
    let outside = Outside::start("127.0.0.1", |_| Vec::new());
    let server = server_asking(&outside, &[]);
    let owner = server.owner();
    let more = json!({ "hosts": [outside.url("")], "permissions": { "commands": [], "filesystem": "none" } });
    write_package(owner.folder(), "kit", "javascript", "R1", &[("execute.js", &example("js"))], &more);
    write_package(owner.folder(), "kit", "python", "R1", &[("execute.py", &example("python"))], &more);
    owner.run(&["package", "install", "kit"]).ok();
    for action in ["kit.javascript", "kit.python"] {
        let url = format!("url={}", outside.url("/fine"));
        let done = owner.run(&["action", "invoke", action, &url, "--json"]).ok().json();
        assert_eq!(done["result"], json!({ "status": 200, "body": "fine" }), "{action}: {done:#}");
        // A refused request ends the script, and the reason is logged.
        owner.run(&["action", "invoke", action, "url=http://127.0.0.1:1/"]);
        let ended = newest(&owner);
        assert_eq!(ended["error"]["code"], "package_failed", "{action}: {ended:#}");
        assert!(server.logged().contains("host_not_allowed"), "{action}");
    }
}

#[test]
fn a_package_whose_hosts_do_not_read_is_not_installed() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    for (name, hosts, why) in [
        ("path", json!(["https://example.com/path"]), "`https://example.com/path` is not a host rule"),
        ("scheme", json!(["ftp://example.com"]), "the scheme must be `https` or `http`"),
        ("star", json!(["*"]), "`*` may only stand for the names before a domain"),
        ("twice", json!(["example.com", "example.com:443"]), "name `example.com` twice"),
    ] {
        write_package(owner.folder(), name, "ask", "R1", &[("execute.js", ASK)], &json!({ "hosts": hosts }));
        for command in ["check", "install"] {
            let refused = owner.run(&["package", command, name]);
            assert!(refused.code != 0 && refused.stderr.contains(why), "{name}: {refused:?}");
        }
    }
}
