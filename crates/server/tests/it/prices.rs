//! What calls cost: an admin prices an action, and calls, runs and receipts say dollars.

use crate::automations::{ended, id_of, run, saved};
use crate::harness::{Kind, TestServer, on_both_engines, on_sqlite};
use reqwest::Method;
use serde_json::{Value, json};

on_both_engines!(a_price_is_versioned_in_the_log, a_priced_call_says_what_it_cost);

on_sqlite!(a_run_pays_for_the_units_of_a_result, an_action_without_a_price_counts_nothing, a_bad_price_is_refused);

async fn price(server: &TestServer, action: &str, terms: Value) -> Value {
    server.owner.send(Method::PUT, &format!("/api/v1/prices/{action}"), Some(terms)).await.ok()
}

fn plan(steps: &[&str]) -> Value {
    let step = |(n, action): (usize, &&str)| json!({ "step_id": format!("step_{n}"), "action": action, "config": {} });
    let steps: Vec<_> = steps.iter().enumerate().map(step).collect();
    json!({ "schema_version": "1.0", "name": "Paid", "plan": steps })
}

async fn a_price_is_versioned_in_the_log(kind: Kind) {
    let server = TestServer::start(kind).await;
    let per_unit = json!({ "usd": "0.000003", "per": "result.usage.units", "at_most": "4000" });
    let first = price(&server, "fake.read", per_unit.clone()).await;
    let second = price(&server, "fake.read", json!({ "usd": "0.0020" })).await;
    assert!(second["version"].as_i64() > first["version"].as_i64(), "{first} {second}");
    let listed = server.owner.get("/api/v1/prices").await.ok();
    assert_eq!(listed["items"][0]["price"], json!({ "usd": "0.002" }), "{listed}");
    assert_eq!(listed["items"][0]["version"], second["version"]);
    assert_eq!(server.owner.get("/api/v1/actions/fake.read").await.ok()["price"], json!({ "usd": "0.002" }));
    let removed = server.owner.send(Method::DELETE, "/api/v1/prices/fake.read", None).await.ok();
    assert_eq!(removed["price"], Value::Null);
    server.owner.send(Method::DELETE, "/api/v1/prices/fake.read", None).await.problem(404, "not_found");
    assert_eq!(server.owner.get("/api/v1/prices").await.ok()["items"], json!([]));
    assert_eq!(server.owner.get("/api/v1/actions/fake.read").await.ok()["price"], Value::Null);
    let rules: Vec<_> = server.rules().await.into_iter().map(|rule| rule["rule"].as_str().unwrap().to_owned()).collect();
    let prices: Vec<_> = rules.into_iter().filter(|rule| rule.starts_with("price")).collect();
    assert_eq!(prices, ["price_set", "price_set", "price_removed"]);
    server.verify().await;
}

async fn a_priced_call_says_what_it_cost(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let free = agent.invoke("fake.read", json!({})).await.ok();
    assert!(free.get("cost_usd").is_none(), "{free}");
    let version = price(&server, "fake.read", json!({ "usd": "0.002" })).await["version"].clone();
    let paid = agent.invoke("fake.read", json!({})).await.ok();
    assert_eq!(paid["cost_usd"], "0.002", "{paid:#}");
    let receipt = server.receipt_of(paid["id"].as_str().unwrap()).await;
    assert_eq!((&receipt["cost"]["usd"], &receipt["cost"]["price"]), (&json!("0.002"), &version), "{receipt:#}");
    // The price of a unit counts for what the result says.
    price(&server, "fake.read", json!({ "usd": "0.000003", "per": "result.usage.units", "at_most": "4000" })).await;
    server.source.will_answer(json!({ "usage": { "units": 1234 } }));
    assert_eq!(agent.invoke("fake.read", json!({})).await.ok()["cost_usd"], "0.003702");
    server.source.will_answer(json!({ "usage": {} }));
    assert_eq!(agent.invoke("fake.read", json!({})).await.ok()["cost_usd"], "0.012", "nobody knows how many there were");
    server.verify().await;
}

async fn a_run_pays_for_the_units_of_a_result(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    price(&server, "fake.read", json!({ "usd": "0.10", "per": "result.units", "at_most": "6" })).await;
    // Each may cost 60 cents, so two of them are too dear before anything is known of them.
    let doomed = id_of(&saved(&server.owner, plan(&["fake.read", "fake.read"])).await);
    let refused = server.owner.post(&format!("/api/v1/automations/{doomed}/run"), json!({})).await.ok();
    assert_eq!(refused["reason"], "budget_estimate", "{refused}");
    let mut definition = plan(&["fake.read", "fake.read", "fake.read"]);
    definition["name"] = json!("Perhaps");
    for step in 1..3 {
        definition["plan"][step]["when"] = json!("{{ run.attempt == 1 }}");
    }
    let id = id_of(&saved(&server.owner, definition).await);
    server.source.will_answer(json!({ "units": 1 }));
    server.source.will_answer(json!({ "units": 5 }));
    let shown = ended(&server.owner, &run(&server.owner, &id, json!({})).await).await;
    // 10 cents and 50 cents were paid, and the third may cost 60 more.
    assert_eq!((&shown["error"]["code"], &shown["cost_usd"]), (&json!("budget_exceeded"), &json!("0.6")), "{shown:#}");
    assert_eq!((server.source.calls().len(), &shown["unpriced"]), (2, &json!([])));
    server.verify().await;
}

async fn an_action_without_a_price_counts_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let id = id_of(&saved(&server.owner, plan(&["fake.read"])).await);
    let shown = ended(&server.owner, &run(&server.owner, &id, json!({})).await).await;
    assert_eq!((&shown["cost_usd"], &shown["unpriced"]), (&json!("0"), &json!(["fake.read"])), "{shown:#}");
}

async fn a_bad_price_is_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    for (terms, said) in [
        (json!({ "usd": "-1" }), "`usd` is an amount"),
        (json!({ "usd": "0.0000001" }), "`usd` is an amount"),
        (json!({ "usd": "1", "per": "result.units" }), "`per` needs `at_most`"),
        (json!({ "usd": "1", "at_most": "5" }), "`at_most` needs `per`"),
        (json!({ "usd": "1", "per": "units", "at_most": "5" }), "`per` is a field of the result"),
        (json!({ "usd": "1", "per": "result.units", "at_most": "many" }), "`at_most` is an amount"),
    ] {
        let refused = server.owner.send(Method::PUT, "/api/v1/prices/fake.read", Some(terms.clone())).await;
        refused.problem(400, "invalid_request");
        assert!(refused.body["detail"].as_str().unwrap().contains(said), "{terms}: {refused:?}");
    }
    server.owner.send(Method::PUT, "/api/v1/prices/fake.nothing", Some(json!({ "usd": "1" }))).await.problem(404, "unknown_action");
    assert_eq!(server.owner.get("/api/v1/prices").await.ok()["items"], json!([]));
}
