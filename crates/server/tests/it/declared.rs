//! What a definition declares about an action is shown to whoever may call it, and can only make a call stricter.

use crate::harness::{Kind, TestServer, on_both_engines};
use countersign_core::action::Effect;
use serde_json::{Value, json};

on_both_engines!(an_action_shows_what_it_requires_its_key_and_its_safety_class, what_an_action_declares_only_tightens);

async fn an_action_shows_what_it_requires_its_key_and_its_safety_class(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.source.redefine("send", |action| {
        action.version = "2.1.0".into();
        action.requires = vec!["billing.refund".into(), "workspace:shared:write".into()];
        action.effects = vec![Effect::UserVisible];
    });
    server.source.redefine("read", |action| action.effects = vec![Effect::Camera, Effect::Microphone]);
    let agent = server.agent().await;
    let available = agent.client.get(&format!("/api/v1/sessions/{}/actions/available", agent.session)).await.ok();
    for (name, class, requires, key, effects) in [
        ("read", "HIGH", None, json!([]), json!(["camera", "microphone"])),
        ("write", "LOW", None, json!(["text"]), Value::Null),
        ("send", "MEDIUM", Some(json!(["billing.refund", "workspace:shared:write"])), json!(["text"]), json!(["user_visible"])),
        ("destroy", "HIGH", None, json!(["text"]), Value::Null),
    ] {
        let id = format!("fake.{name}");
        let listed = available["sources"][0]["actions"].as_array().unwrap().iter().find(|action| action["id"] == id).unwrap().clone();
        for seen in [server.owner.get(&format!("/api/v1/actions/{id}")).await.ok(), listed] {
            assert_eq!((&seen["safety_class"], &seen["idempotency_key_fields"]), (&json!(class), &key), "{seen:#}");
            assert!(seen["requires"].is_array(), "{seen:#}");
            if let Some(requires) = &requires {
                assert_eq!((&seen["requires"], &seen["version"]), (requires, &json!("2.1.0")), "{seen:#}");
            }
            if !effects.is_null() {
                assert_eq!(seen["effects"], effects, "{seen:#}");
            }
        }
    }
}

async fn what_an_action_declares_only_tightens(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.send", "allow").await;
    server.owner.set_mode("fake.write", "allow").await;
    server.source.redefine("write", |action| action.requires = vec!["billing.refund".into()]);
    server.source.redefine("read", |action| action.effects = vec![Effect::Microphone]);
    server.source.redefine("send", |action| action.effects = vec![Effect::NetworkCall]);
    for action in ["fake.read", "fake.write", "fake.send"] {
        server.owner.review(action).await;
        server.owner.consent(action).await;
    }
    let agent = server.agent().await;
    // Nobody holds a permission that only a package knows, until a policy gives it.
    agent.invoke("fake.write", json!({})).await.problem(403, "denied_by_policy");
    assert_eq!(server.source.effects(), 0);
    // A recording is private data: with untrusted content and a way out, a person decides.
    agent.invoke("fake.send", json!({})).await.ok();
    agent.invoke("fake.read", json!({})).await.ok();
    let held = agent.invoke("fake.send", json!({})).await;
    assert_eq!(held.status, 202, "{held:?}");
    server.verify().await;
}
