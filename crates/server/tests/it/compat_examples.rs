//! The examples of the older action contract, word for word, with the real `files` if they name it.

use crate::harness::{Agent, Kind, TestServer, on_sqlite};
use serde_json::{Value, json};

on_sqlite!(the_requests_of_the_contract_are_performed_as_they_stand, an_action_of_the_contract_is_told_its_space);

const EXECUTE: &str = "/api/v1/actions/execute";

const ENVELOPE: &str = r#"{
  "action_id": "uuid",
  "subject_id": "agent://planner@deviceA",
  "space_id": "shared:household",
  "tool_id": "files.write_text",
  "params": {"path":"workspace/notes/w36.txt","text":"hello","space_id":"shared:household"},
  "qos": {"timeout_ms": 3000, "max_retries": 2, "circuit_breaker_key": "files.write_text"},
  "policy_ctx": {"actor":"alice","device":"phone1","time":"2025-09-06T12:00:00Z"},
  "idempotency_key": "files.write_text|workspace/notes/w36.txt|<sha256>",
  "dry_run": false,
  "trace_id": "trace-123"
}"#;

const QUICKSTART: &str = r#"{
  "action_id": "a-1",
  "subject_id": "agent://planner@deviceA",
  "space_id": "shared:household",
  "tool_id": "files.write_text",
  "params": {"path":"workspace/notes/w36.txt","text":"hello","space_id":"shared:household"},
  "qos": {"timeout_ms": 3000},
  "policy_ctx": {"actor":"alice","device":"phone1","time":"2025-09-06T12:00:00Z"},
  "idempotency_key": "files.write_text|workspace/notes/w36.txt|<sha256>",
  "dry_run": false,
  "trace_id": "trace-123"
}"#;

const PARAMS_SCHEMA: &str = r#"{"type":"object","required":["path","text","space_id"],
    "properties":{"path":{"type":"string"},"text":{"type":"string"},"space_id":{"type":"string"}}}"#;

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

async fn in_the_household(server: &TestServer) -> (String, Agent) {
    let space = server.owner.post("/api/v1/spaces", json!({ "name": "shared:household" })).await.ok();
    (space["id"].as_str().unwrap().to_owned(), server.owner.new_session(json!({ "space": "shared:household" })).await)
}

async fn the_requests_of_the_contract_are_performed_as_they_stand(kind: Kind) {
    for example in [read(ENVELOPE), read(QUICKSTART)] {
        let server = TestServer::start_with_files(kind).await;
        let (_, agent) = in_the_household(&server).await;
        server.owner.set_mode("files.write_text", "allow").await;
        let receipt = agent.client.post(EXECUTE, example.clone()).await.ok();
        assert_eq!((&receipt["status"], &receipt["error"]), (&json!("ok"), &Value::Null), "{receipt:#}");
        for field in ["action_id", "subject_id", "space_id", "tool_id", "idempotency_key", "trace_id"] {
            assert_eq!(receipt[field], example[field], "{field}");
        }
        assert_eq!(receipt["policy"]["space"], "ok");
        assert_eq!(receipt["outputs"]["bytes_written"], 5);
        let written = server.home.workspace().join("workspace/notes/w36.txt");
        assert_eq!(std::fs::read_to_string(&written).unwrap(), "hello");
        // The same request again gives the same answer: the space it repeats in its params does not make it another call.
        let again = agent.client.post(EXECUTE, example).await.ok();
        assert_eq!((&again["receipt_id"], &again["replayed"]), (&receipt["receipt_id"], &json!(true)));
        server.verify().await;
    }
}

async fn an_action_of_the_contract_is_told_its_space(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.source.redefine("write", |action| action.params_schema = read(PARAMS_SCHEMA));
    server.owner.set_mode("fake.write", "allow").await;
    let (space, agent) = in_the_household(&server).await;
    let mut request = read(ENVELOPE);
    request["tool_id"] = json!("fake.write");
    let receipt = agent.client.post(EXECUTE, request.clone()).await.ok();
    assert_eq!((&receipt["status"], &receipt["space_id"]), (&json!("ok"), &json!("shared:household")), "{receipt:#}");
    assert_eq!(server.source.calls()[0].params["space_id"], json!(space));
    // If an action has a param `space_id`, the gates decide about another space, by id or by name.
    let main = server.main_space().await;
    for other in [json!("main"), json!(main), json!("nowhere")] {
        request["params"]["space_id"] = other.clone();
        request["idempotency_key"] = Value::Null;
        let denied = agent.client.post(EXECUTE, request.clone()).await.ok();
        assert_eq!(denied["status"], "error", "{other}");
        // The agent is not told which gate it was; people are.
        let listed = server.owner.get("/api/v1/invocations?limit=1").await.ok();
        let gates = listed["items"][0]["gates"].as_array().unwrap().clone();
        assert!(gates.iter().any(|gate| gate["gate"] == "space" && gate["verdict"] == "deny"), "{other}: {listed:#}");
    }
    let crossing = json!({ "action": "fake.write", "from_space_id": space, "to_space_id": main });
    assert_eq!(server.owner.post("/api/v1/crossings", crossing).await.status, 204);
    request["params"]["space_id"] = json!("main");
    assert_eq!(agent.client.post(EXECUTE, request).await.ok()["status"], "ok");
    assert_eq!((server.source.effects(), &server.source.calls()[1].params["space_id"]), (2, &json!(main)));
    server.verify().await;
}
