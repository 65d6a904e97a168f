//! Documents: calls add, find, change and remove them, each change can be reverted, and a space sees its own alone. And `builtin`, with which a
//! step of an automation shapes what was found.

use crate::harness::{Agent, Kind, TestServer, on_both_engines, on_sqlite};
use countersign_core::ports::EventFeed;
use serde_json::{Value, json};

on_both_engines!(a_document_is_added_found_removed_and_brought_back);

on_sqlite!(
    a_space_knows_only_its_own_documents,
    a_document_waits_for_a_person_like_any_other_effect,
    a_folder_of_the_workspace_becomes_documents,
    a_transformation_says_what_is_wrong_with_it,
    what_a_run_adds_names_its_automation,
);

const CHANGES: [&str; 4] = ["documents.add", "documents.import_folder", "documents.tag", "documents.remove"];

/// A server on which documents are changed without asking.
async fn started(kind: Kind) -> TestServer {
    let server = TestServer::start_with_documents(kind).await;
    for action in CHANGES {
        server.owner.set_mode(action, "allow").await;
    }
    server
}

async fn done(agent: &Agent, action: &str, params: Value) -> Value {
    agent.invoke(action, params).await.ok()
}

async fn added(agent: &Agent, title: &str, text: &str, tags: Value) -> (String, String) {
    let added = done(agent, "documents.add", json!({ "title": title, "text": text, "tags": tags })).await;
    let text_of = |value: &Value| value.as_str().unwrap().to_owned();
    (text_of(&added["result"]["document_id"]), text_of(&added["invocation"]["id"]))
}

async fn titles(agent: &Agent, params: Value) -> Vec<Value> {
    let found = done(agent, "documents.search", params).await;
    found["result"]["hits"].as_array().unwrap().iter().map(|hit| hit["title"].clone()).collect()
}

/// The events of documents, in order: name and document.
async fn told(server: &TestServer) -> Vec<(String, String)> {
    let events = server.store.list_events_after(&server.org, 0, 1_000).await.unwrap();
    events.into_iter().filter(|event| event.name.starts_with("document.")).map(|event| (event.name, event.key)).collect()
}

async fn a_document_is_added_found_removed_and_brought_back(kind: Kind) {
    let server = started(kind).await;
    let agent = server.agent().await;
    let (id, call) = added(&agent, "Plan of the falcon", "It lands on Monday.", json!(["plan"])).await;
    let (other, _) = added(&agent, "Other", "Something else about Monday", json!([])).await;
    assert_eq!(titles(&agent, json!({ "query": "falcon" })).await, ["Plan of the falcon"]);
    assert_eq!(titles(&agent, json!({ "query": "monday", "tags": ["plan"] })).await, ["Plan of the falcon"]);
    assert_eq!(titles(&agent, json!({ "limit": 1 })).await.len(), 1);
    let fetched = done(&agent, "documents.fetch", json!({ "document_id": id })).await;
    assert_eq!((&fetched["result"]["text"], &fetched["result"]["tags"]), (&json!("It lands on Monday."), &json!(["plan"])));
    let checks = server.shown(&call).await["checks"].clone();
    assert!(checks.to_string().contains("read_back"), "{checks}");

    done(&agent, "documents.tag", json!({ "document_id": id, "add": ["done"], "remove": ["plan"] })).await;
    assert_eq!(titles(&agent, json!({ "tags": ["done"] })).await, ["Plan of the falcon"]);
    let removed = done(&agent, "documents.remove", json!({ "document_id": id })).await;
    assert!(titles(&agent, json!({ "query": "falcon" })).await.is_empty());
    agent.invoke("documents.fetch", json!({ "document_id": id })).await.problem(404, "document_not_found");

    // What was removed comes back as it was. What was changed since is left alone.
    let revert = async |invocation: &str| server.owner.post(&format!("/api/v1/invocations/{invocation}/revert"), json!({})).await;
    revert(removed["invocation"]["id"].as_str().unwrap()).await.ok();
    assert_eq!(titles(&agent, json!({ "query": "falcon", "tags": ["done"] })).await, ["Plan of the falcon"]);
    revert(&call).await.problem(409, "content_changed");
    let (third, call) = added(&agent, "Third", "A text", json!([])).await;
    revert(&call).await.ok();
    assert!(titles(&agent, json!({ "query": "third" })).await.is_empty());

    let event = |name: &str, id: &str| (name.to_owned(), id.to_owned());
    let expected = [
        event("document.added", &id),
        event("document.added", &other),
        event("document.changed", &id),
        event("document.removed", &id),
        event("document.added", &id),
        event("document.added", &third),
        event("document.removed", &third),
    ];
    assert_eq!(told(&server).await, expected);
    let listed = server.owner.get("/api/v1/documents").await.ok();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed:#}");
    assert!(listed["items"].as_array().unwrap().iter().all(|one| one.get("text").is_none()));
    assert_eq!(server.owner.get(&format!("/api/v1/documents/{id}")).await.ok()["text"], "It lands on Monday.");
    assert_eq!(server.owner.get("/api/v1/documents?tag=done").await.ok()["items"][0]["id"], json!(id));
    agent.client.get("/api/v1/documents").await.problem(403, "forbidden");
    server.verify().await;
}

async fn a_space_knows_only_its_own_documents(kind: Kind) {
    let server = started(kind).await;
    let (ines, otto) = (server.owner.person("ines", "member").await, server.owner.person("otto", "member").await);
    let whoami = ines.get("/api/v1/whoami").await.ok();
    let user = whoami["principal"].as_str().unwrap().trim_start_matches("user:");
    let space = server.owner.post("/api/v1/spaces", json!({ "name": "payroll" })).await.ok()["id"].as_str().unwrap().to_owned();
    server.owner.post(&format!("/api/v1/spaces/{space}/members"), json!({ "user_id": user })).await.ok();
    let (inside, outside) = (ines.new_session(json!({ "space": "payroll" })).await, server.agent().await);
    let (id, _) = added(&inside, "Salaries", "What people earn", json!(["pay"])).await;
    assert_eq!(titles(&inside, json!({ "query": "earn" })).await, ["Salaries"]);
    for params in [json!({}), json!({ "query": "earn" }), json!({ "tags": ["pay"] })] {
        assert!(titles(&outside, params).await.is_empty());
    }
    for (action, params) in [
        ("documents.fetch", json!({ "document_id": id })),
        ("documents.tag", json!({ "document_id": id, "add": ["x"] })),
        ("documents.remove", json!({ "document_id": id })),
    ] {
        outside.invoke(action, params).await.problem(404, "document_not_found");
    }
    // Nor does whoever is no member see it elsewhere.
    assert_eq!(ines.get("/api/v1/documents?space=payroll").await.ok()["items"][0]["id"], json!(id));
    assert_eq!(ines.get(&format!("/api/v1/documents/{id}")).await.ok()["space_id"], json!(space));
    otto.get(&format!("/api/v1/documents/{id}")).await.problem(404, "not_found");
    otto.get("/api/v1/documents?space=payroll").await.problem(404, "not_found");
    for list in ["documents", "events"] {
        let items = otto.get(&format!("/api/v1/{list}")).await.ok().to_string();
        assert!(!items.contains(&id) && !items.contains("Salaries"), "{list}: {items}");
    }
}

async fn a_document_waits_for_a_person_like_any_other_effect(kind: Kind) {
    let server = TestServer::start_with_documents(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("documents.add", json!({ "title": "Plan", "text": "of the falcon" })).await;
    assert!(titles(&agent, json!({ "query": "falcon" })).await.is_empty());
    server.owner.approve(&id).await.ok();
    assert_eq!(titles(&agent, json!({ "query": "falcon" })).await, ["Plan"]);
    // A dry run says what would change, and changes nothing.
    server.owner.set_mode("documents.add", "allow").await;
    let rehearsed = json!({ "action": "documents.add", "params": { "title": "Next", "text": "of the heron" }, "dry_run": true });
    let foreseen = agent.invoke_with(rehearsed).await.ok();
    assert_eq!(foreseen["result"]["documents"][0]["change"], "would_be_added", "{foreseen:#}");
    assert_eq!(titles(&agent, json!({})).await, ["Plan"]);
    assert_eq!(told(&server).await.len(), 1);
    server.verify().await;
}

async fn a_folder_of_the_workspace_becomes_documents(kind: Kind) {
    let server = started(kind).await;
    let agent = server.agent().await;
    let notes = server.home.workspace().join("notes");
    std::fs::create_dir_all(&notes).unwrap();
    std::fs::write(notes.join("a.md"), "about the falcon").unwrap();
    std::fs::write(notes.join("b.bin"), [0xff, 0xfe]).unwrap();
    let first = done(&agent, "documents.import_folder", json!({ "path": "notes", "tags": ["note"] })).await;
    assert_eq!((&first["result"]["added"], &first["result"]["skipped"]), (&json!(1), &json!(1)), "{first:#}");
    std::fs::write(notes.join("a.md"), "about the heron").unwrap();
    let second = done(&agent, "documents.import_folder", json!({ "path": "notes" })).await;
    assert_eq!(second["result"]["changed"], 1, "{second:#}");
    assert_eq!(titles(&agent, json!({ "query": "heron", "tags": ["note"] })).await, ["a.md"]);
    assert!(titles(&agent, json!({ "query": "falcon" })).await.is_empty());
    let path = format!("/api/v1/invocations/{}/revert", second["invocation"]["id"].as_str().unwrap());
    server.owner.post(&path, json!({})).await.ok();
    assert_eq!(titles(&agent, json!({ "query": "falcon" })).await, ["a.md"], "the text before is back");
    server.verify().await;
}

async fn a_transformation_says_what_is_wrong_with_it(kind: Kind) {
    let server = TestServer::start_with_documents(kind).await;
    let agent = server.agent().await;
    let value = json!({ "hits": [{ "title": "a" }, { "title": "b" }] });
    let shaped = done(&agent, "builtin.transform_data", json!({ "value": value, "select": { "titles": "$.hits[*].title" } })).await;
    assert_eq!((&shaped["result"], &shaped["invocation"]["tier"]), (&json!({ "titles": ["a", "b"] }), &json!("R0")));
    for (params, code) in [
        (json!({ "value": value, "select": "hits" }), "transform_invalid"),
        (json!({ "value": value, "select": "$.none" }), "transform_empty"),
        (json!({ "value": value, "output_schema": { "required": ["count"] } }), "transform_mismatch"),
    ] {
        let refused = agent.invoke("builtin.transform_data", params).await;
        refused.problem(422, "action_failed");
        assert_eq!(refused.body["error"], code, "{refused:?}");
    }
    agent.invoke("builtin.transform_data", json!({ "select": "$" })).await.problem(422, "invalid_params");
}

async fn what_a_run_adds_names_its_automation(kind: Kind) {
    let server = started(kind).await;
    let _working = server.work();
    let step = json!({ "step_id": "add", "action": "documents.add", "config": { "title": "Found", "text": "by a run" } });
    let definition = json!({ "schema_version": "1.0", "name": "Collect", "plan": [step] });
    let saved = server.owner.post("/api/v1/automations", json!({ "definition": definition })).await;
    let automation = saved.body["automation"]["id"].as_str().unwrap().to_owned();
    let fired = server.owner.post(&format!("/api/v1/automations/{automation}/run"), json!({})).await.ok();
    let run = fired["run_id"].as_str().unwrap();
    assert_eq!(server.owner.get(&format!("/api/v1/runs/{run}?wait=30s")).await.ok()["status"], "succeeded");
    let events = server.store.list_events_after(&server.org, 0, 1_000).await.unwrap();
    let event = events.into_iter().find(|event| event.name == "document.added").unwrap();
    let chain: Vec<_> = event.cause.chain.iter().map(ToString::to_string).collect();
    assert_eq!((chain, event.cause.root_run_id.unwrap().to_string()), (vec![automation], run.to_owned()));
}
