//! Canary secrets: after calls with every kind of connection, and of a program that was given one, they are found nowhere but where they
//! belong. `scripts/oauth.sh` looks for the tokens of a real authorization server in the same way.

use crate::connections::{CANARY, Elsewhere, open};
use crate::countersign::{below, files};
use crate::mcp::{Program, Rig, id_of};
use crate::mcp_upstream::{Reply, Then, Upstream, tool};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

/// The beginning of every canary, as text, as hex, and as base64 wherever it may stand in a longer text.
fn spellings() -> Vec<String> {
    let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let encoded = [(0, 0), (1, 2), (2, 3)].map(|(before, depend_on_it)| {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(CANARY.as_bytes());
        let text = STANDARD.encode(bytes);
        text[depend_on_it..text.len() - 4].to_owned()
    });
    [CANARY.to_owned(), hex].into_iter().chain(encoded).collect()
}

fn is_in(bytes: &[u8]) -> bool {
    spellings().iter().any(|spelling| bytes.windows(spelling.len()).any(|window| window == spelling.as_bytes()))
}

/// Everything that was answered.
struct Told(Vec<String>);

impl Told {
    async fn send(&mut self, rig: &Rig, method: Method, path: &str, body: Value) -> (u16, Value) {
        let (status, answer) = rig.send(method, path, body).await;
        self.0.push(answer.to_string());
        (status, answer)
    }

    /// Calls an action. Where two sources have one name for a tool, somebody has to look first.
    async fn call(&mut self, rig: &Rig, action: &str) -> Value {
        self.call_with(rig, action, json!({})).await
    }

    async fn call_with(&mut self, rig: &Rig, action: &str, params: Value) -> Value {
        let body = json!({ "action": action, "params": params });
        let (status, answer) = self.send(rig, Method::POST, &rig.in_session("actions/invoke"), body).await;
        let id = id_of(&answer);
        if status == 202 {
            self.send(rig, Method::POST, &format!("invocations/{id}/approve"), json!({ "mode": "once" })).await;
        }
        let ended = rig.ended(&id).await;
        self.0.push(ended.to_string());
        ended
    }
}

/// Uses every kind of connection, well and badly, and returns everything that was answered.
async fn scenario(rig: &Rig, upstream: &Upstream, elsewhere: &Elsewhere, asks: &Program) -> Vec<String> {
    let (mut told, owner) = (Told(Vec::new()), &rig.owner);
    for name in ["header", "program"] {
        owner.run_with_stdin(&["secret", "set", name, "--stdin"], &format!("{CANARY}{name}")).ok();
    }
    let url = upstream.url.as_str();
    owner.run_with_stdin(&["connection", "add", "bearer", url, "--bearer", "--stdin"], &format!("{CANARY}bearer")).ok();
    owner.run(&["connection", "add", "header", url, "--header", "X-Api-Key", "--secret", "header"]).ok();
    owner.run_with_stdin(&["connection", "add", "basic", url, "--basic", "robin", "--stdin"], &format!("{CANARY}basic")).ok();
    let login = owner.run(&["connection", "add", "oauth", &elsewhere.resource(), "--oauth", "--no-wait"]).ok();
    assert!(open(login.stdout.trim()).contains("is ready"));
    for kind in ["bearer", "header", "basic", "oauth"] {
        let url = if kind == "oauth" { elsewhere.resource() } else { upstream.url.clone() };
        owner.run(&["source", "add", kind, "--mcp", &url, "--connection", kind, "--trust-hints"]).ok();
        let ended = told.call(rig, &format!("{kind}.look")).await;
        let (_, connection) = told.send(rig, Method::GET, &format!("connections/{kind}"), Value::Null).await;
        assert_eq!((&ended["status"], &ended["connection_id"]), (&json!("succeeded"), &connection["id"]), "{kind}: {ended:#}");
    }
    let variables = json!([{ "name": "API_TOKEN", "secret": "program" }, { "name": "LOG_LEVEL", "value": "debug" }]);
    let program = json!({ "name": "asks", "command": asks.command, "env": variables, "trust_hints": true });
    let (status, added) = told.send(rig, Method::POST, "sources", program).await;
    assert_eq!(status, 201, "{added:#}");
    assert_eq!(told.call(rig, "asks.get-tiny-image").await["status"], "succeeded");
    // It prints its whole environment.
    let printed = told.call(rig, "asks.get-env").await;
    assert_eq!((&printed["status"], printed["result"].to_string().contains("LOG_LEVEL")), (&json!("succeeded"), true), "{printed:#}");

    // A server that repeats what it was sent, in every place of a refusal.
    upstream.answers(|asked| {
        let sent = asked.head.replace(['\r', '\n', '"'], " ");
        let head =
            format!("HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer error=\"invalid_token\", error_description=\"{sent}\"\r\n");
        let bytes = format!("{head}connection: close\r\ncontent-length: {}\r\n\r\n{sent}", sent.len()).into_bytes();
        (asked.method() == "tools/call").then_some(Reply { bytes, then: Then::End })
    });
    for kind in ["bearer", "header", "basic"] {
        assert_eq!(told.call(rig, &format!("{kind}.look")).await["status"], "failed", "{kind}");
    }
    // A server that repeats it in what it answers, in an error, and in what it lists.
    upstream.answers(|asked| {
        let sent = asked.head.replace(['\r', '\n'], " ");
        match asked.method() {
            "tools/call" if asked.body["params"]["arguments"]["text"] == "error" => {
                let error = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "error": { "code": -32000, "message": sent } });
                Some(Reply::open("application/json", error.to_string()))
            }
            "tools/call" => Some(Reply::result(asked, &json!({ "content": [{ "type": "text", "text": sent }] }))),
            "tools/list" => {
                let mut look = tool("look", &json!({ "readOnlyHint": true }));
                look["description"] = json!(format!("Looks, as it was asked with {sent}"));
                Some(Reply::result(asked, &json!({ "tools": [look] })))
            }
            _ => None,
        }
    });
    for kind in ["bearer", "header", "basic"] {
        let looked = told.call(rig, &format!("{kind}.look")).await;
        assert_eq!((&looked["status"], looked["result"].to_string().contains("POST /mcp")), (&json!("succeeded"), true), "{looked:#}");
        let failed = told.call_with(rig, &format!("{kind}.look"), json!({ "text": "error" })).await;
        assert_eq!(failed["status"], "failed", "{failed:#}");
        told.send(rig, Method::POST, &format!("sources/{kind}/refresh"), Value::Null).await;
        let (_, drift) = told.send(rig, Method::GET, &format!("sources/{kind}/drift"), Value::Null).await;
        assert!(drift.to_string().contains("asked"), "{drift:#}");
    }
    upstream.answers(|_| None);
    // Refusals of our own.
    let (status, _) = told.send(rig, Method::DELETE, "secrets/program", Value::Null).await;
    assert_eq!(status, 409, "a program uses it");
    for path in ["sources", "sources/asks", "connections", "secrets", "invocations?limit=100", "receipts?limit=100", "receipts/integrity"] {
        told.send(rig, Method::GET, path, Value::Null).await;
    }
    owner.run(&["receipt", "export", "log.jsonl"]).ok();
    rig.verify();
    told.0
}

/// The processes below the server that have a canary in their environment, by their command lines.
fn given(rig: &Rig) -> Vec<String> {
    let read = |process: u32, file: &str| std::fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
    let all = below(rig.server.id());
    assert!(!is_in(&read(rig.server.id(), "environ")));
    let line = |process: u32| String::from_utf8_lossy(&read(process, "cmdline")).replace('\0', " ");
    all.into_iter().filter(|process| is_in(&read(*process, "environ"))).map(line).collect()
}

async fn found_nowhere(database: Option<String>) {
    let (upstream, elsewhere) = (Upstream::start(), Elsewhere::start());
    let asks = Program::installed("server-everything", &[]).with_env(&["API_TOKEN", "LOG_LEVEL"]);
    let asks_not = Program::installed("server-filesystem", &["/stage"]);
    // The most that a server logs.
    let mut more = vec![("COUNTERSIGN_LOG_LEVEL", "trace")];
    more.extend(database.iter().map(|url| ("COUNTERSIGN_DATABASE", url.as_str())));
    let rig = Rig::start_with(&[upstream.origin(), &elsewhere.url], &[&asks, &asks_not], &more).await;
    rig.owner.run(&[&["source", "add", "asks-not", "--trust-hints"][..], &asks_not.words()[..]].concat()).ok();
    for (place, text) in scenario(&rig, &upstream, &elsewhere, &asks).await.iter().enumerate() {
        assert!(!is_in(text.as_bytes()), "answer {place}: {text}");
    }
    // They did go where they belong, which shows that the search would find them.
    let heads: Vec<_> = upstream.seen().into_iter().map(|asked| asked.head.to_ascii_lowercase()).collect();
    let basic = STANDARD.encode(format!("robin:{CANARY}basic")).to_ascii_lowercase();
    for sent in
        [format!("authorization: bearer {CANARY}bearer"), format!("x-api-key: {CANARY}header"), format!("authorization: basic {basic}")]
    {
        assert!(heads.iter().any(|head| head.contains(&sent)), "{sent}");
    }
    let (given, all) = (given(&rig), rig.server.descendants());
    assert!(!given.is_empty() && given.iter().all(|line| line.contains("server-everything")), "{given:?}");
    assert!(all.iter().any(|line| line.contains("server-filesystem")), "{all:?}");

    if let Some(url) = &database {
        let rows = testkit::postgres::rows(url).await;
        assert!(rows.contains("asks-not"), "the rows are those of this server");
        assert!(!is_in(rows.as_bytes()));
    } else {
        rig.owner.run(&["backup", "all.backup", "--data", "data"]).ok();
    }
    let (mut found, mut searched) = (Vec::new(), 0);
    for file in files(rig.owner.folder()) {
        searched += 1;
        if is_in(&std::fs::read(&file).unwrap()) {
            found.push(file);
        }
    }
    assert_eq!(found, Vec::<std::path::PathBuf>::new());
    assert!(searched > 5 && !rig.server.logged().is_empty(), "{searched}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canaries_of_every_kind_of_connection_are_found_nowhere() {
    found_nowhere(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canaries_of_every_kind_of_connection_are_found_nowhere_in_postgresql() {
    found_nowhere(Some(testkit::postgres::fresh_database().await)).await;
}
