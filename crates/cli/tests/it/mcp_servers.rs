//! Real MCP servers of others, each added by one command: two as programs in the jail, and one of the revision 2026-07-28 over HTTP. Every
//! tool of each is called in every way that a call can be decided.

use crate::mcp::{Kit, Program, Rig, id_of};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A tool, its params, and what a call of it comes to. Params get a number that no two calls share.
struct Tool {
    name: &'static str,
    params: fn(usize) -> Value,
    status: &'static str,
    /// Words in the result.
    says: &'static str,
}

const fn tool(name: &'static str, params: fn(usize) -> Value, says: &'static str) -> Tool {
    Tool { name, params, status: "succeeded", says }
}

const EVERYTHING: &[Tool] = &[
    tool("echo", |n| json!({ "message": format!("hello {n}") }), "Echo: hello"),
    tool("get-annotated-message", |_| json!({ "messageType": "success" }), "completed successfully"),
    tool("get-env", |_| json!({}), "{"),
    tool("get-resource-links", |_| json!({ "count": 2 }), "2 resource links"),
    tool("get-resource-reference", |_| json!({ "resourceType": "Text", "resourceId": 1 }), "Resource 1"),
    tool("get-structured-content", |_| json!({ "location": "Chicago" }), "temperature"),
    tool("get-sum", |n| json!({ "a": n, "b": 2 }), "The sum of"),
    tool("get-tiny-image", |_| json!({}), "Here's the image"),
    tool("gzip-file-as-resource", |_| json!({ "name": "a.gz", "data": "data:text/plain,hello", "outputType": "resource" }), "gzip"),
    tool("toggle-simulated-logging", |_| json!({}), "logging"),
    tool("toggle-subscriber-updates", |_| json!({}), "updates"),
    tool("trigger-long-running-operation", |_| json!({ "duration": 0.2, "steps": 2 }), "completed"),
];

const FILESYSTEM: &[Tool] = &[
    tool("read_file", |_| json!({ "path": "/stage/base.txt" }), "a line"),
    tool("read_text_file", |_| json!({ "path": "/stage/base.txt", "head": 1 }), "a line"),
    tool("read_media_file", |_| json!({ "path": "/stage/dot.png" }), "image/png"),
    tool("read_multiple_files", |_| json!({ "paths": ["/stage/base.txt", "/stage/dot.png"] }), "a line"),
    tool("write_file", |n| json!({ "path": format!("/stage/written-{n}.txt"), "content": "x" }), "written"),
    tool("edit_file", |_| json!({ "path": "/stage/base.txt", "edits": [{ "oldText": "a line", "newText": "a line" }] }), ""),
    tool("create_directory", |n| json!({ "path": format!("/stage/folder-{n}") }), "folder-"),
    tool("list_directory", |_| json!({ "path": "/stage" }), "base.txt"),
    tool("list_directory_with_sizes", |_| json!({ "path": "/stage" }), "base.txt"),
    tool("directory_tree", |_| json!({ "path": "/stage" }), "base.txt"),
    tool("move_file", |n| json!({ "source": format!("/stage/move-{n}.txt"), "destination": format!("/stage/moved-{n}.txt") }), "moved"),
    tool("search_files", |_| json!({ "path": "/stage", "pattern": "*.txt" }), "base.txt"),
    tool("get_file_info", |_| json!({ "path": "/stage/base.txt" }), "size"),
    tool("list_allowed_directories", |_| json!({}), "/stage"),
];

const KIT: &[Tool] = &[
    tool("look", |_| json!({ "at": "nowhere" }), "found"),
    tool("note", |n| json!({ "text": format!("note {n}") }), "count"),
    tool("forget", |n| json!({ "text": format!("note {n}") }), "forgotten"),
    Tool { name: "fail", params: |_| json!({}), status: "failed", says: "it did not work" },
];

/// Runs every tool of a source in every way.
struct Walk<'a> {
    rig: &'a Rig,
    source: &'static str,
    tools: &'static [Tool],
}

impl Walk<'_> {
    async fn all_ways(&self) {
        self.lists_what_is_called().await;
        self.in_mode_allow(0).await;
        self.approved(1).await;
        self.denied(2).await;
        self.granted(3).await;
        self.rehearsed(4).await;
        self.in_a_batch(5).await;
        self.rig.verify();
    }

    fn action(&self, tool: &Tool) -> String {
        format!("{}.{}", self.source, tool.name)
    }

    async fn tier(&self, tool: &Tool) -> String {
        let action = self.rig.action(self.source, &self.action(tool)).await;
        action["tier"].as_str().unwrap().to_owned()
    }

    /// What destroys never runs without a person.
    async fn always_asks(&self, tool: &Tool) -> bool {
        self.tier(tool).await == "R4"
    }

    async fn set_all(&self, mode: &str) {
        for tool in self.tools {
            self.rig.set_mode(&self.action(tool), mode).await;
        }
    }

    async fn lists_what_is_called(&self) {
        self.rig.review(self.source).await;
        let shown = self.rig.get(&format!("sources/{}", self.source)).await;
        let tools = shown["harvest"]["actions"].as_array().unwrap().iter().filter(|one| one["because"] != "protocol");
        let listed: BTreeSet<_> = tools.map(|one| one["id"].as_str().unwrap()).collect();
        let called: Vec<_> = self.tools.iter().map(|tool| self.action(tool)).collect();
        let called: BTreeSet<_> = called.iter().map(String::as_str).collect();
        assert_eq!(listed, called, "{shown:#}");
        for action in shown["harvest"]["actions"].as_array().unwrap() {
            assert_eq!(action["drift"], "none", "{action}");
        }
    }

    async fn check(&self, tool: &Tool, way: &str, id: &str) {
        let ended = self.rig.ended(id).await;
        let told = format!("{} {way}: {ended:#}", tool.name);
        assert_eq!(ended["status"], tool.status, "{told}");
        let result = ended["result"].to_string();
        assert!(result.contains(tool.says), "{told}");
        assert_eq!((&ended["source"], &ended["connection_id"]), (&json!(self.source), &Value::Null), "{told}");
    }

    async fn in_mode_allow(&self, n: usize) {
        self.set_all("allow").await;
        for tool in self.tools {
            let (status, answer) = self.rig.invoke(&self.action(tool), (tool.params)(n)).await;
            let id = id_of(&answer);
            assert_eq!(status == 202, self.always_asks(tool).await, "{}: {answer:#}", tool.name);
            if status == 202 {
                self.rig.approve(&id).await;
            }
            self.check(tool, "in mode allow", &id).await;
        }
    }

    async fn approved(&self, n: usize) {
        self.set_all("require_approval").await;
        for tool in self.tools {
            let id = self.rig.pending(&self.action(tool), (tool.params)(n)).await;
            self.rig.approve(&id).await;
            self.check(tool, "approved", &id).await;
        }
    }

    async fn denied(&self, n: usize) {
        self.set_all("deny").await;
        for tool in self.tools {
            let (status, answer) = self.rig.invoke(&self.action(tool), (tool.params)(n)).await;
            assert_eq!((status, &answer["code"]), (403, &json!("denied_by_policy")), "{}: {answer:#}", tool.name);
            assert_eq!(self.rig.ended(&id_of(&answer)).await["status"], "denied", "{}", tool.name);
        }
    }

    async fn granted(&self, n: usize) {
        self.set_all("require_approval").await;
        for tool in self.tools {
            let wanted = json!({ "covers": self.action(tool), "scope": "org", "calls_max": 1 });
            if self.always_asks(tool).await {
                let (status, refused) = self.rig.send(Method::POST, "grants", wanted).await;
                assert_eq!((status, &refused["code"]), (422, &json!("not_grantable")), "{}: {refused:#}", tool.name);
                continue;
            }
            self.rig.ok(Method::POST, "grants", wanted).await;
            let (status, answer) = self.rig.invoke(&self.action(tool), (tool.params)(n)).await;
            assert_ne!(status, 202, "{}: {answer:#}", tool.name);
            self.check(tool, "granted", &id_of(&answer)).await;
            // It was good for one call.
            let id = self.rig.pending(&self.action(tool), (tool.params)(n)).await;
            self.rig.ok(Method::POST, &format!("invocations/{id}/deny"), json!({ "reason": "enough" })).await;
        }
    }

    async fn rehearsed(&self, n: usize) {
        self.set_all("allow").await;
        for tool in self.tools {
            let body = json!({ "action": self.action(tool), "params": (tool.params)(n), "dry_run": true });
            let (status, answer) = self.rig.invoke_with(body).await;
            let reads = ["R0", "R1"].contains(&self.tier(tool).await.as_str());
            let code = if reads { Value::Null } else { json!("dry_run_unsupported") };
            assert_eq!((status == 200, &answer["code"]), (reads, &code), "{}: {answer:#}", tool.name);
        }
    }

    async fn in_a_batch(&self, n: usize) {
        self.set_all("allow").await;
        let parts: Vec<_> = self.tools.iter().map(|tool| json!({ "action": self.action(tool), "params": (tool.params)(n) })).collect();
        let body = json!({ "mode": "best_effort", "actions": parts });
        let batch = self.rig.ok(Method::POST, &self.rig.in_session("actions/batch"), body).await;
        let path = format!("batches/{}", batch["id"].as_str().unwrap());
        let ids: Vec<_> =
            batch["parts"].as_array().unwrap().iter().map(|part| part["invocation_id"].as_str().unwrap().to_owned()).collect();
        for (tool, id) in self.tools.iter().zip(&ids) {
            if self.always_asks(tool).await {
                self.rig.approve(id).await;
            }
        }
        let ended = self.rig.get(&format!("{path}?wait=30s")).await;
        assert!(ended["completed_at"].is_string(), "{ended:#}");
        for (tool, id) in self.tools.iter().zip(&ids) {
            self.check(tool, "in a batch", id).await;
        }
    }
}

/// The actions that the command printed, each with its tier and its mode.
fn prints_its_actions(printed: &str, source: &str, tools: &[Tool]) {
    for tool in tools {
        assert!(printed.contains(&format!("{source}.{}", tool.name)), "{}: {printed}", tool.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_in_the_jail_works_in_every_way() {
    let program = Program::installed("server-everything", &[]);
    let rig = Rig::start(&[], &[&program]).await;
    let arguments = ["source", "add", "everything", "--trust-hints", "--default-tier", "R2", "--accept-irreversible"];
    let added = rig.owner.run(&[&arguments[..], &program.words()[..]].concat()).ok();
    prints_its_actions(&added.stdout, "everything", EVERYTHING);
    let shown = rig.get("sources/everything").await;
    assert_eq!((&shown["kind"], &shown["harvest"]["protocol"]), (&json!("program"), &json!("2025-11-25")), "{shown:#}");
    let left_out: Vec<_> = shown["harvest"]["left_out"].as_array().unwrap().iter().map(|one| one["tool"].clone()).collect();
    assert_eq!(left_out, ["simulate-research-query"], "{shown:#}");
    Walk { rig: &rig, source: "everything", tools: EVERYTHING }.all_ways().await;
    // What is not a tool is read by calls too.
    let (_, resources) = rig.invoke("everything.resources.list", json!({})).await;
    let uri = resources["result"]["resources"][0]["uri"].as_str().unwrap_or_else(|| panic!("{resources:#}")).to_owned();
    let (_, read) = rig.invoke("everything.resources.read", json!({ "uri": uri })).await;
    assert!(read["result"]["contents"].is_array(), "{read:#}");
    let (_, prompts) = rig.invoke("everything.prompts.list", json!({})).await;
    assert!(prompts["result"]["prompts"].as_array().is_some_and(|prompts| !prompts.is_empty()), "{prompts:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_for_files_works_on_its_stage_in_every_way() {
    let program = Program::installed("server-filesystem", &["/stage"]);
    let rig = Rig::start(&[], &[&program]).await;
    let arguments = ["source", "add", "disk", "--trust-hints", "--default-tier", "R2", "--accept-irreversible"];
    let added = rig.owner.run(&[&arguments[..], &program.words()[..]].concat()).ok();
    prints_its_actions(&added.stdout, "disk", FILESYSTEM);
    // What says that it destroys is denied until an admin sets a mode.
    let file = |name: &str| json!({ "path": format!("/stage/{name}"), "content": "a line\n" });
    let (status, denied) = rig.invoke("disk.write_file", file("base.txt")).await;
    assert_eq!((status, &denied["code"]), (403, &json!("denied_by_policy")), "{denied:#}");
    rig.set_mode("disk.write_file", "require_approval").await;
    let moved: Vec<_> = (0..6).map(|n| format!("move-{n}.txt")).collect();
    for name in ["base.txt", "dot.png"].into_iter().chain(moved.iter().map(String::as_str)) {
        let id = rig.pending("disk.write_file", file(name)).await;
        rig.approve(&id).await;
        assert_eq!(rig.ended(&id).await["status"], "succeeded", "{name}");
    }
    Walk { rig: &rig, source: "disk", tools: FILESYSTEM }.all_ways().await;
    // It has only what it was given: the rest of the machine is not there.
    rig.set_mode("disk.read_text_file", "allow").await;
    let (_, outside) = rig.invoke("disk.read_text_file", json!({ "path": "/etc/passwd" })).await;
    assert_eq!(rig.ended(&id_of(&outside)).await["status"], "failed", "{outside:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_sessions_works_in_every_way() {
    let kit = Kit::start();
    let rig = Rig::start(&[kit.origin()], &[]).await;
    let added = rig.owner.run(&["source", "add", "kit", "--mcp", &kit.url, "--trust-hints"]).ok();
    prints_its_actions(&added.stdout, "kit", KIT);
    let shown = rig.get("sources/kit").await;
    assert_eq!((&shown["kind"], &shown["harvest"]["protocol"]), (&json!("http"), &json!("2026-07-28")), "{shown:#}");
    assert_eq!(shown["url"], kit.url, "{shown:#}");
    Walk { rig: &rig, source: "kit", tools: KIT }.all_ways().await;
    // A source that is removed keeps its receipts and can be read.
    rig.owner.run(&["source", "remove", "kit", "--yes"]).ok();
    assert!(rig.get("sources/kit").await["removed_at"].is_string());
    let (status, gone) = rig.invoke("kit.look", json!({})).await;
    assert_eq!((status, &gone["code"]), (404, &json!("unknown_action")), "{gone:#}");
    rig.verify();
}
