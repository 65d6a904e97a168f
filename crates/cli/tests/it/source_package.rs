//! Tests the MCP server of a package as a source: a small one in Python that says what it sees, in the real jail.

use crate::mcp::Rig;
use crate::packages::write_package;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;

const SERVER: &str = r#"
import json, os, sys

def can_write():
    try:
        open("/package/new", "w")
        return True
    except OSError:
        return False

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer, method = {"jsonrpc": "2.0", "id": message["id"]}, message["method"]
    if method == "initialize":
        info = {"name": "kit", "version": "1"}
        answer["result"] = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        schema = {"type": "object"}
        look = {"name": "look", "inputSchema": schema, "annotations": {"readOnlyHint": True}}
        answer["result"] = {"tools": [look, {"name": "keep", "inputSchema": schema}]}
    elif method == "tools/call":
        places = ["/package/server.py", "/package/lib/data.json", "/workspace/seen.txt", "/home", "/opt"]
        seen = {"version": 1, "words": sys.argv, "secret": len(os.environ["TOKEN"]), "can_write": can_write()}
        seen["sees"] = [path for path in places if os.path.exists(path)]
        answer["result"] = {"content": [{"type": "text", "text": json.dumps(seen)}]}
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"#;

fn write_server(folder: &Path, text: &str) {
    let at = folder.join("kit-server");
    std::fs::create_dir_all(at.join("lib")).unwrap();
    let manifest = json!({ "command": ["python3", "server.py", "--data", "lib/data.json"], "env": ["TOKEN"], "filesystem": "workspace" });
    for (path, text) in [("mcp.json", manifest.to_string().as_str()), ("server.py", text), ("lib/data.json", "{}")] {
        std::fs::write(at.join(path), text).unwrap();
    }
}

async fn seen(rig: &Rig, action: &str) -> Value {
    let (status, called) = rig.invoke(action, json!({})).await;
    assert_eq!(status, 200, "{called:#}");
    serde_json::from_str(called["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mcp_server_of_a_package_is_a_source_and_other_code_is_a_drift() {
    let rig = Rig::start(&[], &[]).await;
    let owner = &rig.owner;
    std::fs::write(rig.server.workspace().join("seen.txt"), "x").unwrap();
    rig.ok(Method::PUT, "secrets/key", json!({ "value": "canary-7731" })).await;
    write_server(owner.folder(), SERVER);
    let words = json!(["python3", "server.py", "--data", "lib/data.json"]);
    let checked = owner.run(&["package", "check", "kit-server", "--json"]).ok().json();
    assert_eq!((&checked["actions"], &checked["mcp_server"]), (&json!([]), &words), "{checked:#}");
    let installed = owner.run(&["package", "install", "kit-server"]).ok();
    assert!(installed.stderr.contains("next: countersign source add NAME --mcp-stdio --package kit-server"), "{installed:?}");
    let shown = owner.run(&["package", "show", "kit-server", "--json"]).ok().json();
    assert_eq!((&shown["mcp_server"]["command"], &shown["mcp_server"]["cannot_run"]), (&words, &Value::Null), "{shown:#}");
    assert!(owner.run(&["package", "show", "kit-server"]).ok().stdout.contains("python3 server.py --data lib/data.json"));
    assert!(owner.run(&["package", "list"]).ok().stdout.contains("MCP server: python3 server.py"));

    write_package(owner.folder(), "plain", "tidy", "R1", &[("execute.js", "console.log('{}')")], &json!({}));
    owner.run(&["package", "install", "plain"]).ok();
    let (token, url) = (json!([{ "name": "TOKEN", "secret": "key" }]), "https://mcp.example.com");
    for (status, code, request) in [
        (404, "not_found", json!({ "name": "kit", "package": "nothing" })),
        (400, "invalid_request", json!({ "name": "kit", "package": "plain" })),
        (400, "invalid_request", json!({ "name": "kit", "package": "kit-server", "env": [{ "name": "PATH", "value": "/opt" }] })),
        (400, "invalid_request", json!({ "name": "kit", "package": "kit-server", "url": url })),
        (400, "invalid_request", json!({ "name": "kit", "package": "kit-server", "command": ["node"] })),
        (400, "invalid_request", json!({ "name": "kit", "package": "kit-server", "connection": "key" })),
        (400, "invalid_request", json!({ "name": "kit-server", "package": "kit-server", "env": token })),
    ] {
        let (found, refused) = rig.send(Method::POST, "sources", request.clone()).await;
        assert_eq!((found, &refused["code"]), (status, &json!(code)), "{request}: {refused:#}");
    }

    let add = ["source", "add", "kit", "--mcp-stdio", "--package", "kit-server", "--secret-env", "TOKEN=key", "--trust-hints", "--json"];
    let added = owner.run(&add).ok().json();
    assert_eq!((&added["kind"], &added["package"]), (&json!("package"), &json!("kit-server")), "{added:#}");
    let first = seen(&rig, "kit.look").await;
    let expected = json!({
        "version": 1, "words": ["/package/server.py", "--data", "/package/lib/data.json"], "secret": 11, "can_write": false,
        "sees": ["/package/server.py", "/package/lib/data.json", "/workspace/seen.txt"],
    });
    assert_eq!(first, expected);
    // The mode decides about it, as about every MCP server; `keep` is R3.
    rig.pending("kit.keep", json!({})).await;
    rig.set_mode("kit.keep", "allow").await;
    seen(&rig, "kit.keep").await;
    let action = rig.get("actions/kit.look").await;
    assert_eq!((&action["profile"], &action["package_sha256"]), (&json!("resident"), &shown["sha256"]), "{action:#}");

    let (status, in_use) = rig.send(Method::DELETE, "packages/kit-server", json!({})).await;
    assert_eq!((status, &in_use["code"]), (409, &json!("package_in_use")), "{in_use:#}");
    assert!(in_use["detail"].as_str().unwrap().contains("source `kit`"), "{in_use:#}");

    // The tools are the same, and the code is not.
    write_server(owner.folder(), &SERVER.replace("\"version\": 1,", "\"version\": 2,"));
    let installed = owner.run(&["package", "install", "kit-server"]).ok();
    for told in ["`kit.look` changed", "\"version\": 2,", "next: countersign source review kit"] {
        assert!(installed.stderr.contains(told), "{told}: {installed:?}");
    }
    let held = rig.pending("kit.look", json!({})).await;
    assert_eq!(rig.action("kit", "kit.look").await["drift"], "structural");
    let drift = owner.on_screen(160, &["source", "drift", "kit"], "").ok().stdout;
    assert!(drift.contains("runs other code") && drift.contains("\"version\": 2,"), "{drift}");
    rig.approve(&held).await;
    assert_eq!(rig.ended(&held).await["status"], "succeeded");
    assert_eq!(rig.review("kit").await, json!(["kit.look", "kit.keep"]));
    assert_eq!(seen(&rig, "kit.look").await["version"], 2);
    // Files that somebody edits on the server are other code, too.
    let edited = rig.server.data().join("packages/kit-server/server.py");
    std::fs::write(&edited, SERVER.replace("\"version\": 1,", "\"version\": 3,")).unwrap();
    rig.pending("kit.look", json!({})).await;

    rig.ok(Method::DELETE, "sources/kit", json!({})).await;
    owner.run(&["package", "remove", "kit-server", "--yes"]).ok();
    rig.verify();
}
