//! Tests a program as a source: a small MCP server in Python that says what it sees, in the real jail.

use crate::countersign::Server;
use crate::mcp::until;
use reqwest::Method;
use serde_json::{Value, json};

/// It answers with the names of its variables, the length of its secret, and which paths it sees.
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
        sees = [path for path in ["/workspace/seen.txt", "/home", "/root", "/opt"] if os.path.exists(path)]
        seen = {"variables": sorted(os.environ), "secret": len(os.environ["TOKEN"]), "sees": sees}
        answer["result"] = {"content": [{"type": "text", "text": json.dumps(seen)}]}
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"#;

async fn send(server: &Server, method: Method, path: &str, body: Value) -> (u16, Value) {
    server::init_process();
    let request = reqwest::Client::new().request(method, format!("{}/api/v1/{path}", server.url)).json(&body);
    let response = request.bearer_auth(server.owner_token.as_deref().unwrap()).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

/// How many processes of these programs run.
fn running(server: &Server) -> usize {
    server.descendants().iter().filter(|line| line.contains("json.loads(line)")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_the_operator_allows_is_a_source_and_sees_only_what_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("settings.toml");
    let allowed = format!("[[mcp_commands]]\ncommand = ['python3', '-I', '-c', '''\n{PROGRAM}''']\nenv = ['TOKEN']\nworkspace = true\n");
    std::fs::write(&settings, allowed).unwrap();
    let config = settings.to_str().unwrap();
    let server = Server::start_with(&[("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true"), ("COUNTERSIGN_CONFIG", config)]);
    std::fs::write(server.workspace().join("seen.txt"), "x").unwrap();
    send(&server, Method::PUT, "secrets/key", json!({ "value": "canary-7731" })).await;

    let command = json!(["python3", "-I", "-c", PROGRAM]);
    for (command, env) in
        [(json!(["python3", "-I", "-c", "print(1)"]), json!([])), (command.clone(), json!([{ "name": "PATH", "value": "/opt" }]))]
    {
        let (status, refused) = send(&server, Method::POST, "sources", json!({ "name": "kit", "command": command, "env": env })).await;
        assert_eq!((status, &refused["code"]), (422, &json!("command_not_allowed")), "{refused}");
    }
    let env = json!([{ "name": "TOKEN", "secret": "key" }]);
    let added = json!({ "name": "kit", "command": command, "env": env, "trust_hints": true });
    let (status, added) = send(&server, Method::POST, "sources", added).await;
    assert_eq!((status, &added["kind"], &added["env"][0]["value"]), (201, &json!("program"), &Value::Null), "{added}");

    let (_, session) = send(&server, Method::POST, "sessions", json!({})).await;
    let path = format!("sessions/{}/actions/invoke", session["id"].as_str().unwrap());
    let (status, called) = send(&server, Method::POST, &path, json!({ "action": "kit.look", "params": {} })).await;
    assert_eq!(status, 200, "{called}");
    let seen: Value = serde_json::from_str(called["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    let variables: Vec<_> = seen["variables"].as_array().unwrap().iter().filter(|name| *name != "LC_CTYPE").collect();
    assert_eq!(variables, ["HOME", "LANG", "PATH", "TMPDIR", "TOKEN", "TZ"]);
    assert_eq!((&seen["secret"], &seen["sees"]), (&json!(11), &json!(["/workspace/seen.txt"])), "{seen}");
    // A secret that was replaced reaches the program with the next call, and the one before ends.
    let each = running(&server);
    assert!(each > 0);
    let rotated = send(&server, Method::PUT, "secrets/key", json!({ "value": "canary-longer-7732", "version": 1 })).await;
    assert_eq!(rotated.0, 200, "{rotated:?}");
    let (status, called) = send(&server, Method::POST, &path, json!({ "action": "kit.look", "params": {} })).await;
    let seen: Value = serde_json::from_str(called["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((status, &seen["secret"]), (200, &json!(18)), "{called}");
    until("the program before has ended", || running(&server) == each).await;
    // One that is edited takes over, one that is paused ends, and a resumed one is started by the next call.
    let (status, edited) = send(&server, Method::PATCH, "sources/kit", json!({ "call_timeout_ms": 20_000 })).await;
    assert_eq!(status, 200, "{edited}");
    until("the program before the edit has ended", || running(&server) == each).await;
    let switch = |on: &str| json!({ "scope": "source:kit", "reason": on });
    send(&server, Method::POST, "kill-switches/on", switch("on")).await;
    until("the program of a paused source has ended", || running(&server) == 0).await;
    send(&server, Method::POST, "kill-switches/off", switch("off")).await;
    let (status, called) = send(&server, Method::POST, &path, json!({ "action": "kit.look", "params": {} })).await;
    assert_eq!((status, running(&server)), (200, each), "{called}");
    // The secret is used now, and is not deleted.
    assert_eq!(send(&server, Method::DELETE, "secrets/key", json!({})).await.0, 409);
    assert_eq!(send(&server, Method::DELETE, "sources/kit", json!({})).await.0, 200);
    until("the program of a removed source has ended", || running(&server) == 0).await;
    assert_eq!(send(&server, Method::DELETE, "secrets/key", json!({})).await.0, 204);
}

/// A program that tells of a changed resource, a line for a log and an event of its own each time its tool is called.
const TELLER: &str = r#"
import json, sys
def tell(method, params):
    print(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}), flush=True)
subscribed = []
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer, method = {"jsonrpc": "2.0", "id": message["id"]}, message["method"]
    if method == "initialize":
        capabilities = {"tools": {}, "resources": {"subscribe": True}, "logging": {}}
        info = {"name": "drive", "version": "1"}
        answer["result"] = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "touch", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]}
    elif method == "resources/list":
        answer["result"] = {"resources": [{"uri": "drive://reports/q3", "name": "q3"}]}
    elif method == "resources/subscribe":
        subscribed.append(message["params"]["uri"])
        answer["result"] = {}
    elif method == "tools/call":
        for uri in subscribed:
            tell("notifications/resources/updated", {"uri": uri})
            tell("notifications/message", {"level": "warning", "logger": "disk", "data": "key ghp_0123456789abcdefghijklmnopqrstuvwxyz"})
            tell("notifications/drive/file_added", {"name": "report.pdf"})
        answer["result"] = {"content": [{"type": "text", "text": json.dumps(subscribed)}]}
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"#;

async fn come_about(what: &str, has_come: impl AsyncFn() -> bool) {
    for _ in 0..600 {
        if has_come().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{what} did not come about");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_mcp_server_tells_fires_an_automation() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("settings.toml");
    std::fs::write(&settings, format!("[[mcp_commands]]\ncommand = ['python3', '-I', '-c', '''\n{TELLER}''']\n")).unwrap();
    let config = settings.to_str().unwrap();
    let server = Server::start_with(&[("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true"), ("COUNTERSIGN_CONFIG", config)]);
    let added = json!({ "name": "drive", "command": ["python3", "-I", "-c", TELLER], "trust_hints": true });
    let (status, added) = send(&server, Method::POST, "sources", added).await;
    assert_eq!(status, 201, "{added}");
    let get = async |path: &str| send(&server, Method::GET, path, Value::Null).await.1;
    let mut automations = Vec::new();
    for (name, event_type, filters) in [
        ("Updated", "source.resource_updated", json!({ "data.uri": { "starts_with": "drive://reports/" } })),
        ("Added", "source.notified", json!({ "data.method": "notifications/drive/file_added", "data.params.name": "report.pdf" })),
        ("Logged", "source.logged", json!({ "data.level": { "in": ["warning", "error"] } })),
        ("Other", "source.notified", json!({ "data.method": "notifications/drive/file_removed" })),
    ] {
        let definition = json!({
            "schema_version": "1.0", "name": name,
            "triggers": [{ "trigger_id": "told", "type": "event", "config": { "event_type": event_type, "filters": filters } }],
            "plan": [{ "step_id": "look", "action": "files.list", "config": {} }],
        });
        let (status, saved) = send(&server, Method::POST, "automations", json!({ "definition": definition })).await;
        assert_eq!(
            (status, &saved["warnings"].as_array().unwrap().iter().any(|one| one["code"] == "event_type_unregistered")),
            (201, &false),
            "{saved}"
        );
        automations.push(saved["automation"]["id"].as_str().unwrap().to_owned());
    }
    let (_, session) = send(&server, Method::POST, "sessions", json!({})).await;
    let path = format!("sessions/{}/actions/invoke", session["id"].as_str().unwrap());
    // The subscription is made beside the first listing.
    come_about("the subscription", async || {
        let (status, called) = send(&server, Method::POST, &path, json!({ "action": "drive.touch", "params": {} })).await;
        assert_eq!(status, 200, "{called}");
        called.to_string().contains("drive://reports/q3")
    })
    .await;
    for automation in &automations[..3] {
        come_about("its run", async || {
            let runs = get(&format!("runs?automation={automation}&status=succeeded")).await;
            !runs["items"].as_array().unwrap().is_empty()
        })
        .await;
    }
    let runs = get(&format!("runs?automation={}", automations[3])).await;
    assert_eq!(runs["items"], json!([]), "nothing told of that");
    let told = get("events?type=source.logged").await["items"][0].clone();
    assert_eq!((&told["subject"], &told["data"]["source"], &told["data"]["logger"]), (&json!("drive"), &json!("drive"), &json!("disk")));
    assert!(!told.to_string().contains("ghp_"), "{told}");
}
