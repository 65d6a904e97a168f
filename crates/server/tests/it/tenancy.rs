//! Nothing is ever read across orgs, and what belongs to another org looks like what does not exist.

use crate::harness::{Client, Kind, TestServer, on_both_engines};
use serde_json::json;

on_both_engines!(another_orgs_ids_look_like_ids_that_do_not_exist);

async fn second_org(server: &TestServer) -> Client {
    let token = server.store.draw_owner_token();
    server.store.create_org("other", "owner", token.clone()).await.unwrap();
    server.owner.with_token(token.expose())
}

async fn another_orgs_ids_look_like_ids_that_do_not_exist(kind: Kind) {
    let server = TestServer::start(kind).await;
    let other = second_org(&server).await;
    let agent = server.agent().await;
    let done = agent.invoke("fake.read", json!({})).await.id();
    let pending = agent.pending("fake.write", json!({})).await;
    let receipt = server.owner.get("/api/v1/receipts").await.ok()["items"][0]["id"].as_str().unwrap().to_owned();
    let session = &agent.session;
    for (path, absent) in [
        (format!("/api/v1/invocations/{done}"), "/api/v1/invocations/inv_00000000000000000000000000"),
        (format!("/api/v1/receipts/{receipt}"), "/api/v1/receipts/rcp_00000000000000000000000000"),
        (format!("/api/v1/receipts/{receipt}/proof"), "/api/v1/receipts/rcp_00000000000000000000000000/proof"),
        (format!("/api/v1/sessions/{session}"), "/api/v1/sessions/ses_00000000000000000000000000"),
        (format!("/api/v1/sessions/{session}/actions/available"), "/api/v1/sessions/ses_00000000000000000000000000/actions/available"),
    ] {
        let (foreign, missing) = (other.get(&path).await, other.get(absent).await);
        assert_eq!(foreign.status, 404, "{path}: {foreign:?}");
        let strip = |answer: &crate::harness::Answer| {
            let mut body = answer.body.clone();
            body["trace_id"] = json!(null);
            let text = body.to_string();
            [&done, &receipt, session]
                .iter()
                .fold(text, |text, id| text.replace(id.as_str(), "ID"))
                .replace("00000000000000000000000000", "")
        };
        let (foreign, missing) = (strip(&foreign), strip(&missing));
        assert_eq!(foreign.replace("ID", ""), missing.replace("inv_", "").replace("rcp_", "").replace("ses_", ""), "{path}");
    }
    other.approve(&pending).await.problem(404, "not_found");
    other.deny(&pending, "x").await.problem(404, "not_found");
    other
        .post(&format!("/api/v1/sessions/{session}/actions/invoke"), json!({ "action": "fake.read" }))
        .await
        .problem(404, "unknown_session");
    for list in ["invocations", "receipts", "sessions", "modes", "notifications"] {
        assert_eq!(other.get(&format!("/api/v1/{list}")).await.ok()["items"], json!([]), "{list}");
    }
    assert_eq!(other.get("/api/v1/users").await.ok()["items"].as_array().unwrap().len(), 1);
    assert_eq!(server.source.calls().len(), 1, "only the owner's own read");
    server.owner.approve(&pending).await.ok();
    server.verify().await;
}
