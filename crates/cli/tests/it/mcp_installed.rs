//! Tests MCP servers as people install them, in the real jail: scripts, environments, packages of npm and PyPI, and a folder that is kept.

use crate::countersign::Server;
use crate::mcp::until;
use reqwest::Method;
use serde_json::{Value, json};

/// A server with these `mcp_commands`, started on a folder that has its settings, so that it can be started again.
fn serve(commands: &[Value]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from("allow_plugin_code_execution = true\n");
    for command in commands {
        text.push_str("\n[[mcp_commands]]\n");
        for (key, value) in command.as_object().unwrap() {
            // A text or list of JSON is one of TOML, too.
            text.push_str(&format!("{key} = {value}\n"));
        }
    }
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/countersign.toml"), text).unwrap();
    Server::start_in(folder)
}

async fn send(server: &Server, method: Method, path: &str, body: Value) -> (u16, Value) {
    server::init_process();
    let token = std::fs::read_to_string(server.data().join("owner.token")).unwrap();
    let request = reqwest::Client::new().request(method, format!("{}/api/v1/{path}", server.url)).json(&body);
    let response = request.bearer_auth(token.trim()).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

async fn add(server: &Server, name: &str, command: &Value) -> Value {
    let body = json!({ "name": name, "command": command, "trust_hints": true, "default_tier": "R1" });
    let (status, added) = send(server, Method::POST, "sources", body).await;
    assert_eq!(status, 201, "{command}: {added:#}");
    added
}

/// What an action answers, whatever it is.
async fn call(server: &Server, action: &str, params: Value) -> Value {
    let (_, session) = send(server, Method::POST, "sessions", json!({})).await;
    let path = format!("sessions/{}/actions/invoke", session["id"].as_str().unwrap());
    send(server, Method::POST, &path, json!({ "action": action, "params": params })).await.1
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_and_environments_run_as_they_are_installed_and_need_no_readable_folders() {
    let installed = testkit::mcp_servers();
    let at = |path: &str| installed.join(path).to_str().unwrap().to_owned();
    let code = "from fastmcp import FastMCP\nkit = FastMCP('kit')\n@kit.tool(annotations={'readOnlyHint': True})\ndef where() -> str:\n    import sys\n    return sys.prefix\nkit.run()";
    let script = json!([at("node_modules/.bin/mcp-server-everything")]);
    let python = json!([at("python/bin/python"), "-c", code]);
    let server = serve(&[json!({ "command": script, "memory_mb": 1024 }), json!({ "command": python, "memory_mb": 1024 })]);
    add(&server, "script", &script).await;
    assert_eq!(text(&call(&server, "script.echo", json!({ "message": "it runs" })).await), "Echo: it runs");
    add(&server, "python", &python).await;
    assert_eq!(text(&call(&server, "python.where", json!({})).await), at("python"));
    let message = "there is no file `/opt/countersign-has-none`";
    let server = serve(&[json!({ "command": ["/opt/countersign-has-none"] })]);
    let body = json!({ "name": "none", "command": ["/opt/countersign-has-none"] });
    let (_, refused) = send(&server, Method::POST, "sources", body).await;
    assert_eq!(refused["error"], "program_missing", "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains(message), "{refused}");
}

/// Keeps lines in a file, fills its folder, fails in several ways.
const KEEPER: &str = r#"
import json, os, sys
print("begins in", os.getcwd(), "with", os.environ["HOME"], file=sys.stderr, flush=True)
tools = ["keep", "fill", "die"]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer, method = {"jsonrpc": "2.0", "id": message["id"]}, message["method"]
    if method == "initialize":
        info = {"name": "keeper", "version": "1"}
        answer["result"] = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
    elif method == "tools/call":
        name = message["params"]["name"]
        if name == "keep":
            with open("kept", "a") as file:
                file.write("x")
        elif name == "fill":
            for number in range(4):
                with open(f"large-{number}", "wb") as file:
                    file.write(b"x" * 900_000)
        else:
            for number in range(30):
                print("line", number, file=sys.stderr)
            print("Error: KEEPER_TOKEN is not set", file=sys.stderr, flush=True)
            os._exit(7)
        answer["result"] = {"content": [{"type": "text", "text": open("kept").read()}]}
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_kept_through_restarts_and_bounded_and_goes_with_its_source() {
    let command = json!(["python3", "-I", "-c", KEEPER]);
    let mut server = serve(&[json!({ "command": command, "folder_mb": 1 })]);
    add(&server, "keeper", &command).await;
    let (_, sources) = send(&server, Method::GET, "sources/keeper", Value::Null).await;
    let shown = &sources["program"];
    assert_eq!((&shown["ended"], &shown["stderr"]), (&Value::Null, &json!(["begins in /data with /data"])), "{sources:#}");
    assert_eq!(text(&call(&server, "keeper.keep", json!({})).await), "x");
    server.terminate();
    server.wait();
    let server = server.start_again();
    assert_eq!(text(&call(&server, "keeper.keep", json!({})).await), "xx");
    let owner = server.data().join("kept");
    let kept = || crate::countersign::files(&owner).into_iter().any(|file| file.ends_with("keeper/kept"));
    assert!(kept());
    // Whoever has more than it may is ended, and told so.
    call(&server, "keeper.fill", json!({})).await;
    let mut answer = Value::Null;
    for _ in 0..300 {
        answer = call(&server, "keeper.keep", json!({})).await;
        if answer["error"].is_object() || answer["detail"].is_string() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(answer.to_string().contains("its folder has more than the 1 MiB"), "{answer:#}");
    assert_eq!(send(&server, Method::DELETE, "sources/keeper", json!({})).await.0, 200);
    until("the folder is gone", || !kept()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_fails_is_told_with_its_exit_code_its_last_lines_and_what_to_do() {
    let command = json!(["python3", "-I", "-c", KEEPER]);
    let server = serve(&[json!({ "command": command })]);
    add(&server, "keeper", &command).await;
    let answer = call(&server, "keeper.die", json!({})).await.to_string();
    for words in [
        "ended with code 7",
        "Error: KEEPER_TOKEN is not set",
        "it wants the variable `KEEPER_TOKEN`",
        "line 11 | line 12",
        "nothing was changed",
    ] {
        assert!(answer.contains(words), "{words}: {answer}");
    }
    assert!(!answer.contains("line 10 "), "{answer}");
    let (_, source) = send(&server, Method::GET, "sources/keeper", Value::Null).await;
    assert_eq!(source["program"]["ended"], "ended with code 7", "{source:#}");
    assert_eq!(source["program"]["stderr"].as_array().unwrap().len(), 20, "{source:#}");
    let shown = server.owner().run(&["source", "show", "keeper"]).ok().stdout;
    assert!(shown.contains("ended with code 7") && shown.contains("KEEPER_TOKEN"), "{shown}");
    let (_, calls) = send(&server, Method::GET, "invocations?action=keeper.die", Value::Null).await;
    assert_eq!(calls["items"][0]["status"], "failed", "{calls:#}");
}

/// The variables by which the machine's own npm finds its registry.
fn of_npm() -> Vec<(String, String)> {
    let is_meant =
        |name: &str| matches!(name, "HOME" | "NODE_EXTRA_CA_CERTS" | "SSL_CERT_FILE") || name.to_lowercase().starts_with("npm_config_");
    std::env::vars().filter(|(name, _)| is_meant(name)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_of_npm_is_installed_once_outside_the_jail_and_runs_in_it() {
    // The package that `make test` has fetched already, so that it is at hand.
    let manifest = std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/mcp/package.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let name = "@modelcontextprotocol/server-everything";
    let version = manifest["dependencies"][name].as_str().unwrap();
    let command = json!(["npx", "-y", format!("{name}@{version}")]);
    let settings = tempfile::tempdir().unwrap();
    let file = settings.path().join("settings.toml");
    std::fs::write(&file, format!("allow_plugin_code_execution = true\n[[mcp_commands]]\ncommand = {command}\nmemory_mb = 1024\n"))
        .unwrap();
    let mut variables = of_npm();
    variables.push(("COUNTERSIGN_CONFIG".to_owned(), file.to_str().unwrap().to_owned()));
    let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let server = Server::start_with(&variables);
    let body = json!({ "name": "npm", "command": command, "trust_hints": true, "default_tier": "R1" });
    let mut added = (0, Value::Null);
    for _ in 0..5 {
        added = send(&server, Method::POST, "sources", body.clone()).await;
        // An installation goes on when nobody waits for it any more.
        if added.1["error"] != "source_busy" {
            break;
        }
    }
    assert_eq!(added.0, 201, "{:#}", added.1);
    assert_eq!(text(&call(&server, "npm.echo", json!({ "message": "it runs" })).await), "Echo: it runs");
    let installed = server.data().join("programs/npm").join(format!("{name}@{version}"));
    assert!(installed.join("package-lock.json").is_file());
    assert_eq!(std::fs::read_dir(server.data().join("programs")).unwrap().count(), 1, "nothing half is left");
    // The program does not learn where on the host it is.
    let variables = call(&server, "npm.get-env", json!({})).await;
    assert!(text(&variables).contains("/programs/npm/") && !text(&variables).contains(server.data().to_str().unwrap()), "{variables:#}");
}
