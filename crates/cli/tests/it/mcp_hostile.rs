//! MCP servers that turn bad after they were added, through the whole product: whatever one does, its error names it, the others go on, and
//! nothing waits longer than it may. `sources/mcp/hostile_tests.rs` has many more kinds; `make bench` measures the memory that they take.

use crate::mcp::{Program, Rig, id_of};
use crate::mcp_upstream::{Asked, Reply, Then, Upstream, tool};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a listing may take, and how long until it must have been given up.
const LIST_TIMEOUT_MS: u64 = 2_000;
const LISTED_WITHIN: Duration = Duration::from_secs(60);

type Lie = fn(&Asked) -> Reply;

fn large(asked: &Asked) -> Reply {
    let beginning = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":\"", asked.body["id"]);
    let mut body = beginning.into_bytes();
    body.resize(50 * 1024 * 1024, b'x');
    Reply::open("application/json", body)
}

fn endless(_: &Asked) -> Reply {
    Reply::stream(Then::Again(b"data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n".repeat(100)))
}

fn silent(_: &Asked) -> Reply {
    Reply::stream(Then::Silence)
}

fn crowded(asked: &Asked) -> Reply {
    let tools: Vec<_> = (0..10_000).map(|number| tool(&format!("tool_{number}"), &Value::Null)).collect();
    Reply::result(asked, &json!({ "tools": tools }))
}

fn nonsense(_: &Asked) -> Reply {
    Reply::open("text/html", "<html>we have moved</html>")
}

const LISTINGS: [(&str, Lie); 5] =
    [("50 MB", large), ("a stream without an end", endless), ("silence", silent), ("10,000 tools", crowded), ("a page", nonsense)];

/// The good source answers as ever, at once, and the listing has all of it beside the bad one.
async fn others_go_on(rig: &Rig, what: &str) {
    let began = Instant::now();
    let good = rig.available("good").await;
    assert!(began.elapsed() < LISTED_WITHIN, "{what}: the listing took {:?}", began.elapsed());
    assert_eq!((good["actions"].as_array().unwrap().len(), &good["error"]), (2, &Value::Null), "{what}: {good:#}");
    // In a session that has read no files: a program that sees the workspace has.
    let session = rig.ok(Method::POST, "sessions", json!({})).await["id"].as_str().unwrap().to_owned();
    let call = json!({ "action": "good.look", "params": {} });
    let (status, answer) = rig.send(Method::POST, &format!("sessions/{session}/actions/invoke"), call).await;
    assert_eq!(status, 200, "{what}: {answer:#}");
}

/// Lists a source again. It must fail in time, with words that name the source, and keep what was known.
async fn is_marked(rig: &Rig, source: &str, what: &str) {
    let began = Instant::now();
    rig.send(Method::POST, &format!("sources/{source}/refresh"), Value::Null).await;
    assert!(began.elapsed() < LISTED_WITHIN, "{what}: it took {:?}", began.elapsed());
    let shown = rig.get(&format!("sources/{source}")).await;
    let harvest = &shown["harvest"];
    assert_eq!(harvest["is_stale"], true, "{what}: {shown:#}");
    assert!(harvest["error"].as_str().is_some_and(|error| error.contains(&format!("`{source}`"))), "{what}: {shown:#}");
    assert_eq!(harvest["actions"].as_array().unwrap().len(), 2, "{what}: what it listed last is kept: {shown:#}");
    let marked = rig.available(source).await;
    assert!(marked["error"].as_str().is_some_and(|error| error.contains(&format!("`{source}`"))), "{what}: {marked:#}");
}

fn add<'a>(name: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&["source", "add", name, "--trust-hints"][..], rest].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lies_over_http_harms_no_other() {
    let (good, bad) = (Upstream::start(), Upstream::start());
    let rig = Rig::start(&[good.origin(), bad.origin()], &[]).await;
    rig.owner.run(&add("good", &["--mcp", &good.url])).ok();
    rig.owner.run(&add("bad", &["--mcp", &bad.url])).ok();
    for source in ["good", "bad"] {
        let change = json!({ "list_timeout_ms": LIST_TIMEOUT_MS, "call_timeout_ms": LIST_TIMEOUT_MS });
        rig.ok(Method::PATCH, &format!("sources/{source}"), change).await;
        // Two sources have one name for a tool, so somebody has to look at both.
        rig.review(source).await;
        for action in ["look", "set"] {
            rig.ok(Method::POST, &format!("reviews/{source}.{action}"), json!({})).await;
            rig.set_mode(&format!("{source}.{action}"), "allow").await;
        }
    }
    for (what, lie) in LISTINGS {
        bad.answers(move |asked| (asked.method() == "tools/list").then(|| lie(asked)));
        is_marked(&rig, "bad", what).await;
        let inbox = rig.owner.on_screen(120, &["inbox"], "").ok().stdout;
        assert!(inbox.contains("✗ 1 target fails: bad"), "{what}: {inbox}");
        others_go_on(&rig, what).await;
        bad.answers(|_| None);
        rig.owner.run(&["source", "refresh", "bad"]).ok();
        assert_eq!(rig.get("breakers").await["items"], json!([]), "{what}: it is well again");
        assert_eq!(rig.get("sources/bad").await["harvest"]["error"], Value::Null, "{what}: it is well again");
    }
    for (what, lie) in LISTINGS {
        bad.answers(move |asked| (asked.method() == "tools/call").then(|| lie(asked)));
        let before = bad.calls("set");
        let (_, answer) = rig.invoke("bad.set", json!({ "text": what })).await;
        let ended = rig.ended(&id_of(&answer)).await;
        assert_eq!(ended["status"], "in_doubt", "{what}: {ended:#}");
        assert!(ended["error"]["message"].as_str().unwrap().contains("`bad`"), "{what}: {ended:#}");
        assert_eq!(bad.calls("set"), before + 1, "{what}: a write is sent once");
        others_go_on(&rig, what).await;
    }
    // Whoever fails so often is not called for a while, and a person can see that.
    let breakers = rig.get("breakers").await;
    assert!(breakers["items"].as_array().unwrap().iter().any(|one| one["key"].as_str().unwrap().starts_with("bad.set")), "{breakers:#}");
    rig.verify();
}

/// A server on its streams, with two tools. The file `mode` beside it says how bad it is, each time it is started.
const PROGRAM: &str = r#"
import fs from "node:fs";
import readline from "node:readline";
const mode = fs.readFileSync(new URL("mode", import.meta.url), "utf8");
if (mode === "dead") { console.error("no config"); process.exit(3); }
if (mode === "stubborn") process.on("SIGTERM", () => {});
if (mode === "loud") setInterval(() => process.stderr.write("x".repeat(65536) + "\n"), 1);
const schema = { type: "object" };
const tools = [
  { name: "look", description: "Looks.", inputSchema: schema, annotations: { readOnlyHint: true } },
  { name: "set", description: "Sets.", inputSchema: schema, annotations: { destructiveHint: false } },
];
const results = {
  initialize: (asked) => ({ protocolVersion: asked.params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "bad", version: "1" } }),
  "tools/list": () => ({ tools }),
  "tools/call": () => ({ content: [{ type: "text", text: "done" }] }),
};
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const asked = JSON.parse(line);
  if (asked.id === undefined) return;
  if (mode === "deaf" && asked.method === "tools/list") return;
  const result = results[asked.method];
  const answer = result ? { result: result(asked) } : { error: { code: -32601, message: "unknown" } };
  console.log(JSON.stringify({ jsonrpc: "2.0", id: asked.id, ...answer }));
});
setInterval(() => {}, 1000);
"#;

fn turn(folder: &Path, mode: &str) {
    std::fs::write(folder.join("mode"), mode).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_dies_is_deaf_loud_or_stubborn_harms_no_other() {
    let (good, bad) = (Upstream::start(), Program::in_workspace("bad.mjs"));
    let rig = Rig::start(&[good.origin()], &[&bad]).await;
    let folder = rig.server.workspace();
    std::fs::write(folder.join("bad.mjs"), PROGRAM).unwrap();
    turn(&folder, "well");
    rig.owner.run(&add("good", &["--mcp", &good.url])).ok();
    rig.owner.run(&add("bad", &bad.words())).ok();
    rig.review("bad").await;
    for action in ["good.look", "good.set", "bad.look", "bad.set"] {
        rig.ok(Method::POST, &format!("reviews/{action}"), json!({})).await;
    }
    rig.set_mode("bad.look", "allow").await;
    // Each change makes a new source, so the program is started anew.
    let mut seconds = 2;
    let mut restarted = async |mode: &str| {
        turn(&folder, mode);
        seconds += 1;
        rig.ok(Method::PATCH, "sources/bad", json!({ "list_timeout_ms": seconds * 1_000 })).await;
    };
    for mode in ["dead", "deaf"] {
        restarted(mode).await;
        is_marked(&rig, "bad", mode).await;
        others_go_on(&rig, mode).await;
    }
    for mode in ["loud", "stubborn", "well"] {
        restarted(mode).await;
        rig.owner.run(&["source", "refresh", "bad"]).ok();
        let (status, answer) = rig.invoke("bad.look", json!({})).await;
        assert_eq!(status, 200, "{mode}: {answer:#}");
        others_go_on(&rig, mode).await;
    }
    // The stubborn one was killed: only the last one is left.
    let alone = || rig.server.descendants().iter().filter(|line| line.contains("bad.mjs")).count() == 1;
    crate::mcp::until("the stubborn one is gone", alone).await;
    rig.owner.run(&["source", "remove", "bad", "--yes"]).ok();
    let gone = || !rig.server.descendants().iter().any(|line| line.contains("bad.mjs"));
    crate::mcp::until("a removed source has no program", gone).await;
    rig.verify();
}
