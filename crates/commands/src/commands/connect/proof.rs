//! Proves that an entry works: the conversation that a client begins with, through exactly the command or the address of the entry.

use super::program::Entry;
use crate::client::Rehearsal;
use crate::commands::mcp::bridge::{Bridge, Out};
use crate::context::Server;
use crate::output::Line;
use crate::shared::*;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::sync::mpsc;

/// The revision that the conversation asks for. It is what most clients speak; the server answers with its own choice.
const REVISION: &str = "2025-11-25";
/// How long one answer may take. The first call of a server may have to start its sources.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much of what a program complains is told.
const COMPLAINT_BYTES_MAX: u64 = 4_096;

/// What a client sees.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) server: String,
    pub(super) revision: String,
    pub(super) tools: usize,
    /// Whether there are more tools than on the first page.
    pub(super) has_more: bool,
    /// How many actions there are behind its tools, where they find and call actions.
    pub(super) actions: Option<u64>,
}

/// The tool that finds actions, and how many tools of its kind there are.
const SEARCH: &str = "search_actions";
const META_TOOLS: u64 = 3;

impl Seen {
    pub(super) fn to_json(&self) -> Value {
        json!({ "server": self.server, "protocol": self.revision, "tools": self.tools, "has_more": self.has_more, "actions": self.actions })
    }

    pub(super) fn words(&self) -> String {
        let more = if self.has_more { " and more" } else { "" };
        let with = match self.actions {
            Some(actions) => format!("{META_TOOLS} meta tools for {}", counted(actions, "action", "actions")),
            None => format!("{}{more}", counted(self.tools as u64, "tool", "tools")),
        };
        format!("{} answers in MCP {} with {with}", self.server, self.revision)
    }
}

/// Messages to and from what is tried.
struct Talk {
    to: mpsc::Sender<Line>,
    from: mpsc::Receiver<Out>,
    /// What was written that is no message.
    notes: Vec<String>,
}

/// `server` is that of the entry, with its token.
pub(super) async fn prove(entry: &Entry, server: Server) -> Result<Seen, Failure> {
    let (to, lines) = mpsc::channel(4);
    let (out, from) = mpsc::channel(64);
    let talk = Talk { to, from, notes: Vec::new() };
    match entry {
        Entry::Http { hold, .. } => {
            let client = Client::new(server, Rehearsal::Off)?;
            let wishes = hold.iter().map(|seconds| ("hold", seconds.to_string())).collect();
            tokio::spawn(Bridge::new(client, wishes, out).listen(lines));
            talk.greet().await
        }
        Entry::Stdio { command, args, env } => {
            let child = start(command, args, env)?;
            let ended = tokio::task::spawn_blocking(move || carry(child, lines, out));
            let seen = talk.greet().await;
            // The program ends by itself when its stdin does; if not, it is killed.
            let complaint = ended.await.unwrap_or_default();
            seen.map_err(|failure| if complaint.is_empty() { failure } else { failure.cause(complaint) })
        }
    }
}

impl Talk {
    /// `initialize` and `tools/list`, as every client does first.
    async fn greet(mut self) -> Result<Seen, Failure> {
        let about = json!({ "name": "countersign-connect", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": REVISION, "capabilities": {}, "clientInfo": about });
        let opened = self.ask(1, "initialize", params).await?;
        self.say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        let listed = self.ask(2, "tools/list", json!({})).await?;
        let has_search = listed["tools"].as_array().into_iter().flatten().any(|tool| tool["name"] == SEARCH);
        let actions = if has_search { Some(self.actions().await?) } else { None };
        let text = |value: &Value| value.as_str().map_or_else(|| "?".to_owned(), clean::line);
        let info = &opened["serverInfo"];
        Ok(Seen {
            server: format!("{} {}", text(&info["name"]), text(&info["version"])),
            revision: text(&opened["protocolVersion"]),
            tools: listed["tools"].as_array().map_or(0, Vec::len),
            has_more: listed["nextCursor"].is_string(),
            actions,
        })
    }

    /// How many actions the tools of the server find.
    async fn actions(&mut self) -> Result<u64, Failure> {
        let found = self.ask(3, "tools/call", json!({ "name": SEARCH, "arguments": {} })).await?;
        let found = &found["structuredContent"];
        Ok(found["actions"].as_array().map_or(0, Vec::len) as u64 + found["more"].as_u64().unwrap_or(0))
    }

    async fn ask(&mut self, id: u32, method: &str, params: Value) -> Result<Value, Failure> {
        self.say(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let line = match tokio::time::timeout_at(deadline, self.from.recv()).await {
                Ok(Some(Out::Line(line))) => line,
                Ok(Some(Out::Note(note))) => {
                    self.notes.push(note);
                    continue;
                }
                Ok(None) => return Err(self.unanswered(method, "it ended")),
                Err(_elapsed) => return Err(self.unanswered(method, &format!("nothing came for {} s", PATIENCE.as_secs()))),
            };
            let read: Value = serde_json::from_str(&line).map_err(|_| self.unanswered(method, "what it wrote is no MCP"))?;
            if read["id"] != json!(id) {
                continue;
            }
            return match read.get("error") {
                None => Ok(read["result"].clone()),
                Some(error) => Err(self.unanswered(method, error["message"].as_str().unwrap_or("it gave an error"))),
            };
        }
    }

    async fn say(&self, message: Value) -> Result<(), Failure> {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        self.to.send(Line::Text(message.to_string())).await.map_err(|_| self.unanswered(&method, "it ended"))
    }

    fn unanswered(&self, method: &str, why: &str) -> Failure {
        let notes: Vec<_> = std::iter::once(why).chain(self.notes.iter().map(String::as_str)).collect();
        Failure::failed(format!("`{method}` was not answered")).cause(clean::line(&notes.join("; ")))
    }
}

#[expect(clippy::disallowed_methods, reason = "it is our own binary, with the words that the client will start it with")]
fn start(command: &str, args: &[String], env: &[(String, String)]) -> Result<Child, Failure> {
    let mut program = Command::new(command);
    program.args(args).envs(env.iter().map(|(name, value)| (name, value)));
    let started = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    started.map_err(|error| Failure::failed(format!("`{command}` cannot be started: {error}")))
}

/// Carries lines to and from the program until nobody writes to it any more. Returns what it complained about.
fn carry(mut child: Child, mut lines: mpsc::Receiver<Line>, out: mpsc::Sender<Out>) -> String {
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
        return String::new();
    };
    let (told, complaint) = std::sync::mpsc::channel();
    // When the program ends, so does the channel, and whoever waits for an answer knows.
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if out.blocking_send(Out::Line(line)).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        let mut text = String::new();
        let _unread = stderr.take(COMPLAINT_BYTES_MAX).read_to_string(&mut text);
        let _gone = told.send(text);
    });
    while let Some(Line::Text(line)) = lines.blocking_recv() {
        if writeln!(stdin, "{line}").and_then(|()| stdin.flush()).is_err() {
            break;
        }
    }
    drop(stdin);
    // Its stderr is closed when it has ended.
    let complaint = complaint.recv_timeout(PATIENCE).unwrap_or_default();
    let _ended = child.kill().and_then(|()| child.wait());
    clean::line(complaint.trim())
}
