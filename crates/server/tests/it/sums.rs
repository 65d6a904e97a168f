//! Grants that bound a sum: their calls never add up to more in a window, however many callers and servers there are.

use crate::harness::{Agent, Kind, TestServer, on_both_engines, on_postgres, on_sqlite};
use countersign_core::limits;
use countersign_core::source::Error;
use serde_json::{Value, json};

on_sqlite!(
    a_call_that_names_no_amount_asks_a_person,
    the_window_slides_with_the_clock,
    a_call_that_a_person_approves_takes_nothing_of_the_sum,
    each_part_of_a_batch_takes_its_own_amount,
    an_approval_may_come_with_a_bounded_sum,
    an_agent_may_ask_for_a_bounded_sum,
    a_sum_that_makes_no_sense_is_refused,
);
on_both_engines!(
    calls_never_add_up_to_more_than_the_sum,
    what_a_crash_or_a_doubt_leaves_counts_as_spent,
    what_never_left_is_given_back_to_the_sum,
);
on_postgres!(two_servers_never_pass_the_sum);

/// A grant for every call of an action.
fn bounded(action: &str, of: &str, max: &str, per: &str) -> Value {
    json!({ "covers": action, "scope": "org", "sum_max": { "of": of, "max": max, "per": per } })
}

async fn spent(server: &TestServer, grant: &str) -> String {
    let shown = server.owner.get(&format!("/api/v1/grants/{grant}")).await.ok();
    shown["sum_max"]["spent"].as_str().unwrap().to_owned()
}

/// Whether a call runs without an approval.
async fn runs(agent: &Agent, params: Value) -> bool {
    let answer = agent.invoke("fake.write", params).await;
    match answer.status {
        200 => true,
        202 => false,
        _ => panic!("{answer:?}"),
    }
}

async fn calls_never_add_up_to_more_than_the_sum(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agents = futures_util::future::join_all((0..8).map(|_| server.agent())).await;
    let grant = server.owner.grant(bounded("fake.write", "/count", "500", "24h")).await;
    let calls = (0..64).map(|at| agents[at % 8].invoke("fake.write", json!({ "count": 40 })));
    let answers = futures_util::future::join_all(calls).await;
    let ran = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((ran, server.source.effects(), spent(&server, &grant).await.as_str()), (12, 12, "480"));
    assert!(answers.iter().all(|answer| [200, 202].contains(&answer.status)), "{answers:?}");
    // What is left is left for a smaller call.
    assert!(runs(&agents[0], json!({ "count": 20 })).await);
    assert_eq!(spent(&server, &grant).await, "500");
    assert!(!runs(&agents[1], json!({ "count": 1 })).await);
    assert!(runs(&agents[1], json!({ "count": 0 })).await, "nothing is always left");
    server.verify().await;
}

async fn two_servers_never_pass_the_sum(kind: Kind) {
    let server = TestServer::start(kind).await;
    let other = server.restart().await;
    let agents = futures_util::future::join_all((0..8).map(|_| server.agent())).await;
    let grant = server.owner.grant(bounded("fake.write", "/count", "500", "24h")).await;
    let amount = |at: usize| [10, 35, 90, 120][at % 4];
    let calls = (0..64).map(|at| {
        let mut agent = agents[at % 8].clone();
        if at % 2 == 0 {
            agent.client.url.clone_from(&other.url);
        }
        async move { agent.invoke("fake.write", json!({ "count": amount(at) })).await }
    });
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|answer| [200, 202].contains(&answer.status)), "{answers:?}");
    let ran = answers.iter().enumerate().filter(|(_, answer)| answer.status == 200);
    let sum = ran.map(|(at, _)| amount(at)).sum::<u64>();
    let happened = server.source.calls().iter().map(|call| call.params["count"].as_u64().unwrap()).sum::<u64>();
    // Not all calls of 35 fit, so one of them was refused, and less than that is left.
    assert!((466..=500).contains(&sum), "{sum}");
    assert_eq!((happened, spent(&server, &grant).await), (sum, sum.to_string()));
    server.verify().await;
}

async fn what_a_crash_or_a_doubt_leaves_counts_as_spent(kind: Kind) {
    let server = TestServer::start(kind).await;
    let mut agent = server.agent().await;
    let grant = server.owner.grant(bounded("fake.write", "/count", "500", "24h")).await;
    server.fault.arm("execute.intended");
    agent.invoke("fake.write", json!({ "count": 300 })).await.problem(500, "internal");
    assert_eq!(spent(&server, &grant).await, "300", "it was reserved before the effect");
    let restarted = server.restart().await;
    restarted.pipeline.recover().await.unwrap();
    agent.client.url.clone_from(&restarted.url);
    assert_eq!(spent(&restarted, &grant).await, "300");
    restarted.source.will_fail(Error::Broken { source_id: "fake".into(), message: "cut".into() });
    assert!(agent.invoke("fake.write", json!({ "count": 150 })).await.status >= 400);
    assert_eq!(spent(&restarted, &grant).await, "450");
    assert!(!runs(&agent, json!({ "count": 51 })).await);
    assert!(runs(&agent, json!({ "count": 50 })).await);
    restarted.verify().await;
}

async fn what_never_left_is_given_back_to_the_sum(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let grant = server.owner.grant(bounded("fake.write", "/count", "500", "24h")).await;
    for _ in 0..limits::ATTEMPTS_MAX {
        server.source.will_fail(Error::Unreachable { source_id: "fake".into(), message: "refused".into() });
    }
    agent.invoke("fake.write", json!({ "count": 400 })).await.problem(502, "source_failed");
    assert_eq!(spent(&server, &grant).await, "0");
    assert!(runs(&agent, json!({ "count": 500 })).await);
    assert!(!runs(&agent, json!({ "count": 1 })).await);
    server.verify().await;
}

async fn a_call_that_names_no_amount_asks_a_person(kind: Kind) {
    let server = TestServer::start(kind).await;
    let grant = server.owner.grant(bounded("fake.write", "/text", "500", "24h")).await;
    for (params, is_covered) in [
        (json!({ "text": "0.10" }), true),
        (json!({ "text": "0.2" }), true),
        (json!({ "text": "499.700001" }), false),
        (json!({ "text": "-5" }), false),
        (json!({ "text": "1e2" }), false),
        (json!({ "text": "NaN" }), false),
        (json!({ "text": "5 EUR" }), false),
        (json!({ "text": "0.0000001" }), false),
        (json!({ "text": "99999999999999999999" }), false),
        (json!({ "count": 5 }), false),
        (json!({}), false),
        (json!({ "text": "499.7" }), true),
    ] {
        let agent = server.agent().await;
        assert_eq!(runs(&agent, params.clone()).await, is_covered, "{params}");
    }
    assert_eq!(spent(&server, &grant).await, "500", "tenths add up exactly");
    // The signed intents say what each call took.
    let log = server.log().await;
    let taken: Vec<_> = log.iter().filter(|(kind, _)| kind == "intent").map(|(_, body)| body["spends"].clone()).collect();
    assert_eq!(taken, [json!("0.1"), json!("0.2"), json!("499.7")]);
    server.verify().await;
}

async fn the_window_slides_with_the_clock(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let grant = server.owner.grant(bounded("fake.write", "/count", "100", "1h")).await;
    assert!(runs(&agent, json!({ "count": 60 })).await);
    server.clock.advance_seconds(30 * 60);
    assert!(runs(&agent, json!({ "count": 40 })).await);
    server.clock.advance_seconds(30 * 60 - 1);
    assert!(!runs(&agent, json!({ "count": 1 })).await);
    server.clock.advance_seconds(1);
    assert_eq!(spent(&server, &grant).await, "40");
    assert!(!runs(&agent, json!({ "count": 61 })).await);
    assert!(runs(&agent, json!({ "count": 60 })).await);
    server.verify().await;
}

async fn a_call_that_a_person_approves_takes_nothing_of_the_sum(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let grant = server.owner.grant(bounded("fake.write", "/count", "100", "24h")).await;
    let id = agent.pending("fake.write", json!({ "count": 500 })).await;
    server.owner.approve_with(&id, json!({ "params": { "count": 80 } })).await.ok();
    assert_eq!((spent(&server, &grant).await.as_str(), server.source.effects()), ("0", 1));
    assert_eq!(server.source.calls()[0].params["count"], 80);
    assert!(runs(&agent, json!({ "count": 100 })).await);
    server.verify().await;
}

async fn each_part_of_a_batch_takes_its_own_amount(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let grant = server.owner.grant(bounded("fake.write", "/count", "100", "24h")).await;
    let part = |count: u32| json!({ "action": "fake.write", "params": { "count": count } });
    let path = format!("/api/v1/sessions/{}/actions/batch", agent.session);
    agent.client.post(&path, json!({ "mode": "best_effort", "actions": [part(60), part(30)] })).await.ok();
    assert_eq!((spent(&server, &grant).await.as_str(), server.source.effects()), ("90", 2));
    assert!(!runs(&agent, json!({ "count": 11 })).await);
    server.verify().await;
}

async fn an_approval_may_come_with_a_bounded_sum(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({ "count": 900 })).await;
    let offer = json!({ "mode": "grant", "grant": { "sum_max": { "of": "/nope", "max": "100", "per": "1h" } } });
    let refused = server.owner.approve_with(&id, offer).await;
    refused.problem(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/grant/sum_max/of", "{refused:?}");
    let offer = json!({ "mode": "grant", "grant": { "sum_max": { "of": "/count", "max": "100", "per": "1h" } } });
    let approved = server.owner.approve_with(&id, offer).await.ok();
    assert_eq!(approved["grant"]["sum_max"], json!({ "of": "/count", "max": "100", "per_seconds": 3_600, "spent": "0" }));
    assert!(runs(&agent, json!({ "count": 100 })).await);
    assert!(!runs(&agent, json!({ "count": 1 })).await);
    server.verify().await;
}

async fn an_agent_may_ask_for_a_bounded_sum(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let wanted = json!({ "covers": "fake.write", "sum_max": { "of": "/count", "max": "12.50", "per": "7d" } });
    let asked = agent.client.post("/api/v1/grants", wanted).await;
    assert_eq!((asked.status, &asked.body["sum_max"]["max"]), (202, &json!("12.5")), "{asked:?}");
    let id = asked.body["id"].as_str().unwrap();
    server.owner.post(&format!("/api/v1/grants/{id}/approve"), json!({})).await.ok();
    assert!(runs(&agent, json!({ "count": 12 })).await);
    assert!(!runs(&agent, json!({ "count": 1 })).await);
    // Both lists say what is bound and what is used of it.
    for path in ["/api/v1/grants".to_owned(), format!("/api/v1/sessions/{}/actions/grants", agent.session)] {
        let listed = agent.client.get(&path).await.ok();
        let sum = json!({ "of": "/count", "max": "12.5", "per_seconds": 604_800, "spent": "12" });
        assert_eq!(listed["items"][0]["sum_max"], sum, "{path}");
    }
    let revoked = server.owner.revoke(id).await.ok();
    assert_eq!(revoked["state"], "revoked");
    // An agent that asks in the words of the older contract can bound a sum, too.
    let wanted = json!({ "integration": "fake", "action": "write", "sum_max": { "of": "/count", "max": "3", "per": "1h" } });
    let asked = agent.client.post(&format!("/api/v1/sessions/{}/actions/grants", agent.session), wanted).await;
    assert_eq!((asked.status, &asked.body["sum_max"]["max"]), (202, &json!("3")), "{asked:?}");
    server.verify().await;
}

async fn a_sum_that_makes_no_sense_is_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    for (of, max, per) in [
        ("count", "500", "24h"),
        ("", "500", "24h"),
        ("/a~3", "500", "24h"),
        ("/count", "0", "24h"),
        ("/count", "-5", "24h"),
        ("/count", "five", "24h"),
        ("/count", "1e3", "24h"),
        ("/count", "500", "0s"),
        ("/count", "500", "91d"),
        ("/count", "500", "soon"),
        ("/nope", "500", "24h"),
        ("/count/deep", "500", "24h"),
    ] {
        server.owner.post("/api/v1/grants", bounded("fake.write", of, max, per)).await.problem(400, "invalid_request");
    }
    let unknown = json!({ "covers": "fake.write", "scope": "org", "sum_max": { "of": "/count", "max": "5", "per": "1h", "more": 1 } });
    assert_eq!(server.owner.post("/api/v1/grants", unknown).await.status, 400);
    assert_eq!(server.owner.get("/api/v1/grants").await.ok()["items"], json!([]));
    // Of a whole source, some action may have it.
    server.owner.grant(bounded("fake.*", "/nope", "500", "24h")).await;
}
