//! What tests of MCP servers share: a server of ours that may start and reach theirs, and one caller of it.

use crate::countersign::{Server, User};
use crate::crash::{Client, new_command};
use reqwest::Method;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A command that the operator allows as an MCP server.
pub(crate) struct Program {
    pub(crate) command: Vec<String>,
    /// A folder that it sees, or else the workspace.
    readable: Option<PathBuf>,
    env: Vec<&'static str>,
    keeps: bool,
}

impl Program {
    /// A server of the official ones, by the name of its package.
    pub(crate) fn installed(package: &str, more: &[&str]) -> Self {
        let readable = testkit::mcp_servers().join("node_modules");
        let script = readable.join("@modelcontextprotocol").join(package).join("dist/index.js");
        assert!(script.is_file(), "`{}` is missing: run `make test`", script.display());
        Self::node(script.to_str().unwrap(), more, Some(readable))
    }

    /// A script that the test puts into the workspace.
    pub(crate) fn in_workspace(name: &str) -> Self {
        Self::node(&format!("/workspace/{name}"), &[], None)
    }

    fn node(script: &str, more: &[&str], readable: Option<PathBuf>) -> Self {
        let command = ["node", script].iter().chain(more).map(|word| (*word).to_owned()).collect();
        Self { command, readable, env: Vec::new(), keeps: false }
    }

    /// Lets a source declare these variables.
    pub(crate) fn with_env(mut self, names: &[&'static str]) -> Self {
        self.env = names.to_vec();
        self
    }

    /// Gives each of its sources a folder that is kept.
    pub(crate) fn with_folder(mut self) -> Self {
        self.keeps = true;
        self
    }

    /// The end of the command line that adds it.
    pub(crate) fn words(&self) -> Vec<&str> {
        ["--mcp-stdio", "--"].into_iter().chain(self.command.iter().map(String::as_str)).collect()
    }
}

/// The config file and the variables of a server that may start these programs and reach these addresses.
pub(crate) fn settings(folder: &Path, hosts: &[&str], programs: &[&Program]) -> Vec<(&'static str, String)> {
    let mut text = String::from("allow_plugin_code_execution = true\n");
    for Program { command, readable, env, keeps } in programs {
        // A JSON list of texts is one of TOML, too.
        let (command, env, folders) = (json!(command), json!(env), json!(readable.as_slice()));
        let sees = format!("readable = {folders}\nworkspace = {}", readable.is_none());
        text.push_str(&format!("\n[[mcp_commands]]\ncommand = {command}\n{sees}\nenv = {env}\nmemory_mb = 1024\n"));
        if *keeps {
            text.push_str("folder_mb = 8\n");
        }
    }
    let file = folder.join("mcp.toml");
    std::fs::write(&file, text).unwrap();
    vec![
        ("COUNTERSIGN_CONFIG", file.display().to_string()),
        ("COUNTERSIGN_SOURCE_ALLOWED_HOSTS", hosts.join(",")),
        ("COUNTERSIGN_SOURCE_ALLOWED_NETWORKS", "127.0.0.1/32".to_owned()),
        ("COUNTERSIGN_INVOCATIONS_PER_MINUTE", "100000".to_owned()),
    ]
}

/// A server of ours with one session, in which its owner calls and answers.
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) owner: User,
    client: Client,
    session: String,
    _settings: TempDir,
}

impl Rig {
    pub(crate) async fn start(hosts: &[&str], programs: &[&Program]) -> Self {
        Self::start_with(hosts, programs, &[]).await
    }

    pub(crate) async fn start_with(hosts: &[&str], programs: &[&Program], more: &[(&str, &str)]) -> Self {
        server::init_process();
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path(), hosts, programs);
        let variables: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).chain(more.iter().copied()).collect();
        let server = Server::start_with(&variables);
        let owner = server.owner();
        let client = Client::new(std::fs::read_to_string(server.data().join("owner.token")).unwrap().trim().to_owned());
        let (_, session) = client.send(&server.url, Method::POST, "sessions", json!({})).await.unwrap();
        let session = session["id"].as_str().unwrap().to_owned();
        Self { server, owner, client, session, _settings: folder }
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        self.client.send(&self.server.url, method, path, body).await.unwrap()
    }

    /// The body of an answer that must be a success.
    pub(crate) async fn ok(&self, method: Method, path: &str, body: Value) -> Value {
        let (status, answer) = self.send(method, path, body).await;
        assert!((200..300).contains(&status), "{path} was answered {status}: {answer:#}");
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.ok(Method::GET, path, Value::Null).await
    }

    /// Reads everything of a source that nobody has read. Whoever adds it has seen the rest.
    pub(crate) async fn review(&self, source: &str) -> Value {
        let drift = self.get(&format!("sources/{source}/drift")).await;
        // What is gone has no definition to be read.
        let there = drift["items"].as_array().unwrap().iter().filter(|item| item["textual"].is_string());
        let actions: Vec<_> = there.map(|item| json!({ "action": item["action"], "textual": item["textual"] })).collect();
        if actions.is_empty() {
            return json!([]);
        }
        self.ok(Method::POST, &format!("sources/{source}/review"), json!({ "actions": actions })).await["reviewed"].clone()
    }

    pub(crate) async fn set_mode(&self, action: &str, mode: &str) {
        self.ok(Method::PUT, &format!("modes/{action}"), json!({ "mode": mode })).await;
        self.ok(Method::POST, "consents", json!({ "purpose": format!("action:{action}") })).await;
    }

    pub(crate) async fn grant(&self, action: &str) -> String {
        let grant = self.ok(Method::POST, "grants", json!({ "covers": action, "scope": "org" })).await;
        grant["id"].as_str().unwrap().to_owned()
    }

    /// The path of what belongs to the session.
    pub(crate) fn in_session(&self, path: &str) -> String {
        format!("sessions/{}/{path}", self.session)
    }

    pub(crate) async fn invoke(&self, action: &str, params: Value) -> (u16, Value) {
        self.invoke_with(json!({ "action": action, "params": params })).await
    }

    pub(crate) async fn invoke_with(&self, body: Value) -> (u16, Value) {
        self.send(Method::POST, &self.in_session("actions/invoke"), body).await
    }

    /// Makes a call that must become pending, and returns its id.
    pub(crate) async fn pending(&self, action: &str, params: Value) -> String {
        let (status, answer) = self.invoke(action, params).await;
        assert_eq!(status, 202, "{action}: {answer:#}");
        id_of(&answer)
    }

    /// Approves a call by the name of its action, as R4 needs it.
    pub(crate) async fn approve(&self, invocation: &str) -> (u16, Value) {
        let action = self.get(&format!("invocations/{invocation}")).await["invocation"]["action"].clone();
        self.send(Method::POST, &format!("invocations/{invocation}/approve"), json!({ "mode": "once", "confirm": action })).await
    }

    /// An invocation after it has ended.
    pub(crate) async fn ended(&self, invocation: &str) -> Value {
        self.get(&format!("invocations/{invocation}?wait=30s")).await["invocation"].clone()
    }

    /// One source in what the session can see.
    pub(crate) async fn available(&self, source: &str) -> Value {
        let listed = self.get(&self.in_session("actions/available")).await;
        let found = listed["sources"].as_array().unwrap().iter().find(|one| one["id"] == source).cloned();
        found.unwrap_or_else(|| panic!("`{source}` is not in {listed:#}"))
    }

    /// How one action of a source stands.
    pub(crate) async fn action(&self, source: &str, action: &str) -> Value {
        let shown = self.get(&format!("sources/{source}")).await;
        let found = shown["harvest"]["actions"].as_array().unwrap().iter().find(|one| one["id"] == action).cloned();
        found.unwrap_or_else(|| panic!("`{action}` is not in {shown:#}"))
    }

    pub(crate) fn verify(&self) {
        self.owner.run(&["receipt", "verify"]).ok();
    }
}

/// The id of the invocation that an answer is about.
pub(crate) fn id_of(answer: &Value) -> String {
    let id = answer["invocation"]["id"].as_str().or_else(|| answer["invocation_id"].as_str());
    id.unwrap_or_else(|| panic!("no invocation in {answer:#}")).to_owned()
}

/// The server of `clients/mcp/kit.py`, which speaks the revision 2026-07-28.
pub(crate) struct Kit {
    child: Child,
    pub(crate) url: String,
}

impl Kit {
    pub(crate) fn start() -> Self {
        let python = testkit::mcp_servers().join("python/bin/python");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/mcp/kit.py");
        let mut command = new_command(python.to_str().unwrap());
        let mut child = command.arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().to_owned();
        assert!(url.starts_with("http://"), "kit.py did not say where it is: {line}");
        Self { child, url }
    }

    pub(crate) fn origin(&self) -> &str {
        self.url.trim_end_matches("/mcp")
    }
}

impl Drop for Kit {
    fn drop(&mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Waits until something holds, and fails after half a minute.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not after 30 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
