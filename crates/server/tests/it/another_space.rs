//! A call that names another space than its session's is denied, with a receipt that says so: whoever looks for a breach finds it.

use crate::harness::{Kind, TestServer, on_both_engines};
use serde_json::{Value, json};

on_both_engines!(a_call_that_names_another_space_is_a_denial_with_a_receipt);

const EXECUTE: &str = "/api/v1/actions/execute";

/// The last call that was made, as people see it.
async fn last(server: &TestServer) -> Value {
    server.owner.get("/api/v1/invocations?limit=1").await.ok()["items"][0].clone()
}

async fn a_call_that_names_another_space_is_a_denial_with_a_receipt(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.read", "allow").await;
    server.owner.post("/api/v1/spaces", json!({ "name": "lab" })).await.ok();
    let agent = server.agent().await;
    let body = |space: Option<&str>, params: Value| json!({ "tool_id": "fake.read", "params": params, "space_id": space });
    for (body, named) in [
        (body(Some("lab"), json!({})), "lab"),
        (body(Some("nowhere"), json!({})), "nowhere"),
        (body(Some("spc_00000000000000000000000000"), json!({})), "spc_00000000000000000000000000"),
        // The envelope is right, and the params are not; and the other way round.
        (body(Some("main"), json!({ "space_id": "lab" })), "lab"),
        (body(Some("lab"), json!({ "space_id": "main" })), "lab"),
        (body(None, json!({ "space_id": "lab" })), "lab"),
    ] {
        server.clock.advance_ms(1);
        let denied = agent.client.post(EXECUTE, body.clone()).await.ok();
        assert_eq!(denied["status"], "error", "{body}: {denied:#}");
        let call = last(&server).await;
        assert_eq!((&call["status"], &call["claimed"]["space"]), (&json!("denied"), &json!(named)), "{body}: {call:#}");
        let receipt = server.receipt_of(call["id"].as_str().unwrap()).await;
        assert_eq!((&receipt["status"], &receipt["error"]), (&json!("denied"), &json!("denied_by_gate")), "{receipt:#}");
        let gates = call["gates"].as_array().unwrap();
        let space = gates.iter().find(|gate| gate["gate"] == "space").unwrap();
        assert_eq!((&space["verdict"], &space["determining"]), (&json!("deny"), &json!(["builtin.same_space"])), "{body}");
    }
    assert_eq!(server.source.calls().len(), 0);
    // Its own space, by name, by id, or not named at all.
    let main = server.main_space().await;
    for own in [Some("main"), Some(main.as_str()), None] {
        server.clock.advance_ms(1);
        let done = agent.client.post(EXECUTE, body(own, json!({}))).await.ok();
        assert_eq!(done["status"], "ok", "{own:?}: {done:#}");
        assert_eq!(last(&server).await["claimed"]["space"], Value::Null, "{own:?}");
    }
    server.verify().await;
}
