//! The event bus over HTTP: published in every form of CloudEvents, consumed in groups, and what was given up is asked for once more.

use crate::harness::{Client, Kind, TestServer, on_both_engines, on_sqlite};
use countersign_core::limits::EVENT_LEASE_SECONDS;
use countersign_core::source::Error;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

on_both_engines!(
    a_consumer_claims_answers_and_is_woken_by_the_next_event,
    what_a_group_gave_up_is_listed_asked_for_once_more_and_dropped,
    a_call_whose_attempts_are_used_up_is_made_again_as_a_new_call_of_who_asks,
);
on_sqlite!(
    an_event_is_published_once_in_every_form_and_read_back,
    what_is_no_event_is_refused_with_all_that_is_wrong,
    who_may_not_invoke_publishes_nothing_and_an_agent_neither,
    an_event_of_a_closed_space_is_for_those_it_exists_for,
    every_type_is_described,
    a_group_is_moved_by_who_manages_policy,
    a_filter_is_tried_on_the_latest_events,
    how_far_a_group_is_behind_is_a_metric,
);

fn event(id: &str) -> Value {
    json!({ "specversion": "1.0", "id": id, "source": "/drive", "type": "drive.file_added", "subject": id, "data": { "size": 3 } })
}

async fn make_group(by: &Client, name: &str, body: Value) -> Value {
    by.send(Method::PUT, &format!("/api/v1/event-groups/{name}"), Some(body)).await.ok()
}

/// Claims events, and gives their subjects and claims.
async fn claim(by: &Client, group: &str) -> Vec<(String, String)> {
    let claimed = by.post(&format!("/api/v1/event-groups/{group}/claim"), json!({ "limit": 100 })).await.ok();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    claimed["events"].as_array().unwrap().iter().map(|one| (text(&one["event"]["subject"]), text(&one["claim"]))).collect()
}

async fn an_event_is_published_once_in_every_form_and_read_back(kind: Kind) {
    let server = TestServer::start(kind).await;
    let owner = &server.owner;
    let published = owner.post("/api/v1/events", event("a")).await.ok();
    assert_eq!((&published["events"][0]["id"], &published["events"][0]["known"]), (&json!("a"), &json!(false)));
    let cursor = published["events"][0]["cursor"].as_str().unwrap().to_owned();
    for (kind, body) in
        [("application/cloudevents+json", event("a").to_string()), ("application/cloudevents-batch+json", json!([event("a")]).to_string())]
    {
        let again = owner.raw("/api/v1/events", kind, body).await.ok();
        let expected = json!({ "source": "/drive", "id": "a", "cursor": cursor, "known": true });
        assert_eq!(again["events"], json!([expected]), "{kind}");
    }
    let binary = owner.http.post(format!("{}/api/v1/events", owner.url)).bearer_auth(&owner.token);
    let binary = binary.header("ce-specversion", "1.0").header("ce-id", "b").header("ce-source", "/drive");
    let binary = binary.header("ce-type", "drive.file_added").header("ce-time", "2026-01-31T12:00:00Z").header("ce-partitionkey", "7");
    let answer: Value = binary.json(&json!({ "size": 4 })).send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["events"][0]["known"], false, "{answer}");
    let shown = owner.get("/api/v1/events/b").await.ok();
    assert_eq!((&shown["id"], &shown["source"], &shown["data"]), (&json!("b"), &json!("/drive"), &json!({ "size": 4 })));
    assert_eq!((&shown["time"], &shown["partitionkey"]), (&json!("2026-01-31T12:00:00.000000Z"), &json!("7")));
    assert_eq!(owner.get(&format!("/api/v1/events/{cursor}")).await.ok()["id"], "a");
    owner.get("/api/v1/events/absent").await.problem(404, "not_found");
    let oldest = owner.get("/api/v1/events?order=oldest&type=drive").await.ok();
    assert_eq!((&oldest["items"][0]["id"], &oldest["items"][1]["id"], &oldest["next"]), (&json!("a"), &json!("b"), &Value::Null));
    let first = owner.get("/api/v1/events?order=oldest&limit=2").await.ok();
    let next = owner.get(&format!("/api/v1/events?order=oldest&limit=2&after={}", first["next"].as_str().unwrap())).await.ok();
    let positions: Vec<_> =
        [&first, &next].into_iter().flat_map(|page| page["items"].as_array().unwrap()).map(|one| &one["cursor"]).collect();
    assert_eq!(positions, ["1", "2", "3", "4"]);
    server.verify().await;
}

async fn what_is_no_event_is_refused_with_all_that_is_wrong(kind: Kind) {
    let server = TestServer::start(kind).await;
    let newest = server.owner.get("/api/v1/events?limit=1").await.ok()["items"][0]["cursor"].clone();
    let ours = json!({ "specversion": "1.0", "id": "1", "source": "/x", "type": "invocation.succeeded" });
    let refused = server.owner.post("/api/v1/events", ours).await;
    refused.problem(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/type", "{refused:?}");
    let both = json!([event("a"), { "specversion": "0.3", "id": "", "source": "/x", "type": "x.y", "depth": 3 }]);
    let refused = server.owner.post("/api/v1/events", both).await;
    let pointers: Vec<_> = refused.body["errors"].as_array().unwrap().iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    assert_eq!(pointers, ["/1/specversion", "/1/id", "/1/depth"], "{refused:?}");
    for (body, status, code) in [
        ("[]".to_owned(), 400, "invalid_request"),
        (json!(vec![event("a"); 101]).to_string(), 400, "invalid_request"),
        (r#"{"id":"1","id":"2"}"#.to_owned(), 400, "malformed_json"),
        ("{".to_owned(), 400, "malformed_json"),
        (format!("[{}]", " ".repeat(1024 * 1024)), 413, "body_too_large"),
    ] {
        server.owner.raw("/api/v1/events", "application/cloudevents-batch+json", body).await.problem(status, code);
    }
    server.owner.raw("/api/v1/events", "text/plain", "x").await.problem(415, "unsupported_media_type");
    assert_eq!(server.owner.get("/api/v1/events?limit=1").await.ok()["items"][0]["cursor"], newest, "nothing was published");
}

async fn who_may_not_invoke_publishes_nothing_and_an_agent_neither(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.person("viewer", "viewer").await.post("/api/v1/events", event("a")).await.problem(403, "forbidden");
    server.agent().await.client.post("/api/v1/events", event("a")).await.problem(403, "forbidden");
    server.owner.person("member", "member").await.post("/api/v1/events", event("a")).await.ok();
    for (scope, status) in [("read", 403), ("invoke", 200)] {
        let token = server.owner.post("/api/v1/tokens", json!({ "name": scope, "scopes": [scope] })).await.ok();
        let service = server.owner.with_token(token["token"].as_str().unwrap());
        assert_eq!(service.post("/api/v1/events", event("b")).await.status, status, "{scope}");
    }
}

async fn a_consumer_claims_answers_and_is_woken_by_the_next_event(kind: Kind) {
    let server = TestServer::start(kind).await;
    let consumer = server.owner.person("robin", "member").await;
    consumer.post("/api/v1/event-groups/billing/claim", json!({})).await.problem(404, "not_found");
    let made = make_group(&consumer, "billing", json!({})).await;
    assert_eq!((&made["in_flight"], &made["behind"], &made["deliveries_max"]), (&json!(0), &json!(0), &json!(5)));
    let waiting = {
        let consumer = consumer.clone();
        tokio::spawn(async move { consumer.post("/api/v1/event-groups/billing/claim?wait=60s", json!({ "limit": 1 })).await.ok() })
    };
    tokio::task::yield_now().await;
    server.owner.post("/api/v1/events", json!([event("a"), event("b")])).await.ok();
    let claimed = tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap().unwrap();
    let (first, token) = (&claimed["events"][0], &claimed["events"][0]["claim"]);
    assert_eq!((&first["event"]["id"], &first["delivery"]), (&json!("a"), &json!(1)), "{claimed}");
    let done = consumer.post("/api/v1/event-groups/billing/ack", json!({ "claims": [token] })).await.ok();
    assert_eq!(done, json!({ "done": 1, "stale": [] }));
    let (b, claim_of_b) = claim(&consumer, "billing").await.remove(0);
    let given_back = json!({ "claims": [claim_of_b], "delay": "10s", "problem": "later" });
    assert_eq!(consumer.post("/api/v1/event-groups/billing/nack", given_back).await.ok()["done"], 1);
    assert_eq!(claim(&consumer, "billing").await, [], "it comes after its delay");
    server.clock.advance_seconds(10);
    let again = claim(&consumer, "billing").await;
    assert_eq!(again[0].0, b);
    server.clock.advance_seconds(EVENT_LEASE_SECONDS);
    assert_eq!(claim(&consumer, "billing").await.len(), 1, "who does not answer loses it");
    let late = consumer.post("/api/v1/event-groups/billing/ack", json!({ "claims": [again[0].1] })).await.ok();
    assert_eq!(late, json!({ "done": 0, "stale": [again[0].1] }));
    for (path, body, status, code) in [
        ("billing/ack", json!({ "claims": ["x"] }), 400, "invalid_request"),
        ("billing/ack", json!({ "claims": [] }), 400, "invalid_request"),
        ("billing/claim", json!({ "limit": 0 }), 400, "invalid_request"),
        ("billing/claim", json!({ "limit": 101 }), 400, "invalid_request"),
        ("billing/nack", json!({ "claims": ["1.1"], "delay": "2d" }), 400, "invalid_request"),
        ("automations/claim", json!({}), 400, "invalid_request"),
        ("Bad/claim", json!({}), 404, "not_found"),
    ] {
        consumer.post(&format!("/api/v1/event-groups/{path}"), body).await.problem(status, code);
    }
    let wrong = consumer.send(Method::PUT, "/api/v1/event-groups/audit", Some(json!({ "deliveries_max": 51 }))).await;
    wrong.problem(400, "invalid_request");
    server.verify().await;
}

async fn what_a_group_gave_up_is_listed_asked_for_once_more_and_dropped(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (owner, member) = (&server.owner, server.owner.person("robin", "member").await);
    make_group(owner, "billing", json!({ "deliveries_max": 1 })).await;
    owner.post("/api/v1/events", event("a")).await.ok();
    let give_up = async || {
        let claims: Vec<_> =
            claim(owner, "billing").await.into_iter().filter(|(subject, _)| subject == "a").map(|(_, claim)| claim).collect();
        let body = json!({ "claims": claims, "problem": "the ledger was closed" });
        owner.post("/api/v1/event-groups/billing/nack", body).await.ok();
    };
    give_up().await;
    let listed = member.get("/api/v1/dead-letters?kind=event").await.ok();
    let letter = &listed["items"][0];
    assert_eq!((&letter["place"], &letter["what"], &letter["attempts"]), (&json!("billing"), &json!("drive.file_added"), &json!(1)));
    assert_eq!((&letter["problem"], &letter["event"]["id"]), (&json!("the ledger was closed"), &json!("a")));
    let id = letter["id"].as_str().unwrap();
    member.post(&format!("/api/v1/dead-letters/{id}/retry"), json!({})).await.problem(403, "forbidden");
    member.post(&format!("/api/v1/dead-letters/{id}/drop"), json!({})).await.problem(403, "forbidden");
    assert_eq!(owner.post(&format!("/api/v1/dead-letters/{id}/retry"), json!({})).await.ok(), json!({ "kind": "event" }));
    owner.get(&format!("/api/v1/dead-letters/{id}")).await.problem(404, "not_found");
    give_up().await;
    let replayed = owner.post("/api/v1/event-groups/billing/replay", json!({ "dead_letters": true })).await.ok();
    assert_eq!(replayed, json!({ "replayed": 1 }));
    give_up().await;
    let id = owner.get("/api/v1/dead-letters").await.ok()["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(owner.post(&format!("/api/v1/dead-letters/{id}/drop"), json!({})).await.status, 204);
    assert_eq!(owner.get("/api/v1/dead-letters").await.ok()["items"], json!([]));
    server.verify().await;
}

async fn a_call_whose_attempts_are_used_up_is_made_again_as_a_new_call_of_who_asks(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (owner, agent) = (&server.owner, server.agent().await);
    owner.set_mode("fake.write", "allow").await;
    let fail = async |params: Value| {
        for _ in 0..3 {
            server.source.will_fail(Error::Busy { source_id: "fake".into(), message: "later".into(), retry_after_ms: Some(1) });
        }
        agent.invoke("fake.write", params).await.id()
    };
    let failed = fail(json!({ "text": "a" })).await;
    let letter = owner.get(&format!("/api/v1/dead-letters/{failed}")).await.ok();
    assert_eq!((&letter["kind"], &letter["place"], &letter["attempts"]), (&json!("invocation"), &json!("fake.write"), &json!(3)));
    assert!(letter["problem"].as_str().unwrap().starts_with("source_busy"), "{letter}");

    // Whoever asks makes the call, in a session of theirs: it is decided anew.
    let stranger = owner.person("eve", "viewer").await;
    let session = owner.new_session(json!({})).await.session;
    let retry = format!("/api/v1/dead-letters/{failed}/retry");
    assert_eq!(stranger.post(&retry, json!({ "session": session })).await.status, 403);
    // A call that is denied answers nothing.
    let robin = owner.person("robin", "member").await;
    let own = robin.new_session(json!({})).await.session;
    owner.set_mode("fake.write", "deny").await;
    assert_eq!(robin.post(&retry, json!({ "session": own })).await.ok()["status"], "denied");
    owner.get(&format!("/api/v1/dead-letters/{failed}")).await.ok();
    owner.set_mode("fake.write", "allow").await;
    let made = owner.post(&retry, json!({ "session": session })).await.ok();
    assert_eq!((&made["kind"], &made["status"]), (&json!("invocation"), &json!("succeeded")), "{made}");
    let call = server.shown(made["invocation_id"].as_str().unwrap()).await;
    assert_eq!((&call["session_id"], &call["action"], call["id"] == failed), (&json!(session), &json!("fake.write"), false));
    assert_eq!(server.source.calls().last().unwrap().params, json!({ "text": "a" }));
    owner.post(&retry, json!({ "session": session })).await.problem(404, "not_found");

    // A secret was not kept: the params have to be sent again.
    let failed = fail(json!({ "password": "hunter2-and-more" })).await;
    let retry = format!("/api/v1/dead-letters/{failed}/retry");
    owner.post(&retry, json!({ "session": session })).await.problem(400, "invalid_request");
    let made = owner.post(&retry, json!({ "session": session, "params": { "password": "hunter2-and-more" } })).await.ok();
    assert_eq!(made["status"], "succeeded", "{made}");

    let failed = fail(json!({ "text": "b" })).await;
    assert_eq!(owner.post(&format!("/api/v1/dead-letters/{failed}/drop"), json!({})).await.status, 204);
    assert_eq!(owner.get("/api/v1/dead-letters").await.ok()["items"], json!([]));
    server.verify().await;
}

async fn an_event_of_a_closed_space_is_for_those_it_exists_for(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (robin, eve) = (server.owner.person("robin", "member").await, server.owner.person("eve", "member").await);
    let space = server.owner.post("/api/v1/spaces", json!({ "name": "payroll" })).await.ok()["id"].as_str().unwrap().to_owned();
    let user = robin.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    server.owner.post(&format!("/api/v1/spaces/{space}/members"), json!({ "user_id": user })).await.ok();
    let mut paid = event("paid");
    paid["spaceid"] = json!("payroll");
    eve.post("/api/v1/events", paid.clone()).await.problem(404, "not_found");
    robin.post("/api/v1/events", paid).await.ok();
    assert_eq!(robin.get("/api/v1/events/paid").await.ok()["spaceid"], json!(space));
    eve.get("/api/v1/events/paid").await.problem(404, "not_found");
    assert_eq!(eve.get("/api/v1/events?type=drive").await.ok()["items"], json!([]));
    // A consumer gets everything, so it must be somebody for whom nothing is hidden.
    let made = eve.send(Method::PUT, "/api/v1/event-groups/billing", Some(json!({ "start": "earliest" }))).await;
    made.problem(403, "forbidden");
    make_group(&server.owner, "billing", json!({ "start": "earliest" })).await;
    eve.post("/api/v1/event-groups/billing/claim", json!({})).await.problem(403, "forbidden");
}

async fn every_type_is_described(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    agent.invoke("fake.read", json!({})).await.ok();
    let types = agent.client.get("/api/v1/event-types").await.ok();
    let described = |name: &Value| types["items"].as_array().unwrap().iter().find(|one| one["type"] == *name).cloned();
    let happened = server.owner.get("/api/v1/events?limit=100").await.ok();
    for event in happened["items"].as_array().unwrap() {
        let one = described(&event["type"]).unwrap_or_else(|| panic!("{event} is of no type that is described"));
        for name in one["schema"]["required"].as_array().unwrap() {
            assert!(event["data"].get(name.as_str().unwrap()).is_some(), "{event} lacks {name}");
        }
    }
}

async fn a_group_is_moved_by_who_manages_policy(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (owner, member) = (&server.owner, server.owner.person("robin", "member").await);
    make_group(&member, "billing", json!({})).await;
    let published = owner.post("/api/v1/events", json!([event("a"), event("b")])).await.ok();
    let position: i64 = published["events"][1]["cursor"].as_str().unwrap().parse().unwrap();
    assert_eq!(claim(&member, "billing").await.len(), 2);
    member.post("/api/v1/event-groups/billing/replay", json!({ "from": 1 })).await.problem(403, "forbidden");
    member.post("/api/v1/event-groups/billing/reset", json!({ "to": "now" })).await.problem(403, "forbidden");
    assert_eq!(owner.post("/api/v1/event-groups/billing/replay", json!({ "from": position })).await.ok(), json!({ "replayed": 1 }));
    assert_eq!(claim(&member, "billing").await[0].0, "b");
    owner.post("/api/v1/event-groups/billing/replay", json!({ "since": "1h" })).await.ok();
    assert!(claim(&member, "billing").await.iter().any(|(subject, _)| subject == "a"), "from a time on");
    for wrong in [json!({}), json!({ "from": 1, "since": "1h" }), json!({ "from": 0 })] {
        owner.post("/api/v1/event-groups/billing/replay", wrong).await.problem(400, "invalid_request");
    }
    let reset = owner.post("/api/v1/event-groups/billing/reset", json!({ "to": "now" })).await.ok();
    assert_eq!((&reset["in_flight"], &reset["behind"]), (&json!(0), &json!(0)));
    owner.post("/api/v1/event-groups/billing/reset", json!({ "to": "then" })).await.problem(400, "invalid_request");
    assert_eq!(owner.get("/api/v1/event-groups").await.ok()["items"][0]["name"], "billing");
    assert_eq!(owner.send(Method::DELETE, "/api/v1/event-groups/billing", None).await.status, 204);
    owner.get("/api/v1/event-groups/billing").await.problem(404, "not_found");
}

async fn a_filter_is_tried_on_the_latest_events(kind: Kind) {
    let server = TestServer::start(kind).await;
    let owner = &server.owner;
    let sized = |id: &str, size: u64, space: Option<&str>| {
        let mut event = event(id);
        event["data"]["size"] = json!(size);
        if let Some(space) = space {
            event["spaceid"] = json!(space);
        }
        event
    };
    owner.post("/api/v1/spaces", json!({ "name": "side" })).await.ok();
    let events = json!([sized("a", 3, Some("main")), sized("b", 9, Some("main")), sized("c", 9, Some("side")), sized("d", 9, None)]);
    owner.post("/api/v1/events", events).await.ok();
    let test = async |body: Value| owner.post("/api/v1/filters/test", body).await;
    let filters = json!({ "data.size": { "gt": 5 }, "subject": { "not_equals": "c" } });
    let tried = test(json!({ "event_type": "drive.file_added", "filters": filters })).await.ok();
    let told: Vec<_> = tried["events"].as_array().unwrap().iter().map(|one| (&one["subject"], &one["matches"], &one["unmet"])).collect();
    let (yes, no, none) = (json!(true), json!(false), json!([]));
    // What was published without a space fires nothing.
    let expected = [(&json!("c"), &no, &json!(["subject"])), (&json!("b"), &yes, &none), (&json!("a"), &no, &json!(["data.size"]))];
    assert_eq!((told.as_slice(), &tried["matching"]), (expected.as_slice(), &json!(1)), "{tried:#}");
    assert_eq!((&tried["events"][0]["id"], &tried["events"][0]["type"]), (&json!("c"), &json!("drive.file_added")));
    let subjects = |tried: &Value| -> Vec<String> {
        tried["events"].as_array().unwrap().iter().map(|one| one["subject"].as_str().unwrap().to_owned()).collect()
    };
    // A trigger hears of its type and of its space.
    assert_eq!(subjects(&test(json!({ "event_type": "drive.*", "space": "main" })).await.ok()), ["b", "a"]);
    assert_eq!(subjects(&test(json!({ "event_type": "drive" })).await.ok()), [""; 0]);
    assert_eq!(subjects(&test(json!({ "event_type": "drive.file_added", "limit": 2 })).await.ok()), ["c"]);
    let wrong = test(json!({ "event_type": "drive.*", "filters": { "data.size": { "above": 5 } } })).await;
    wrong.problem(422, "definition_invalid");
    for wrong in [json!({ "event_type": "" }), json!({ "event_type": "x", "limit": 101 }), json!({ "event_type": "x", "filter": {} })] {
        test(wrong).await.problem(400, "invalid_request");
    }
    test(json!({ "event_type": "x", "space": "absent" })).await.problem(404, "not_found");
    // Of what is hidden from somebody they learn nothing.
    let robin = owner.person("robin", "viewer").await;
    let space = owner.get("/api/v1/spaces/side").await.ok()["id"].as_str().unwrap().to_owned();
    let user = owner.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    owner.post(&format!("/api/v1/spaces/{space}/members"), json!({ "user_id": user })).await.ok();
    let seen = robin.post("/api/v1/filters/test", json!({ "event_type": "drive.file_added" })).await.ok();
    assert_eq!(subjects(&seen), ["b", "a"]);
}

async fn how_far_a_group_is_behind_is_a_metric(kind: Kind) {
    let server = TestServer::start(kind).await;
    let owner = &server.owner;
    let mut lags = server::Lags::default();
    // Events, and minutes since the oldest of them.
    let mut measured = async || {
        server::measure(&server.store, &mut lags).await.unwrap();
        let text = owner.get("/metrics").await.body.as_str().unwrap().to_owned();
        let of = |name: &str| {
            let begin = format!("countersign_event_group_{name}{{group=\"lagging\"}} ");
            text.lines().find_map(|line| line.strip_prefix(begin.as_str())).unwrap().parse::<f64>().unwrap()
        };
        (of("behind") as u64, (of("behind_seconds") / 60.0).round() as u64)
    };
    let made = make_group(owner, "lagging", json!({})).await;
    assert_eq!((&made["waiting_since"], measured().await), (&Value::Null, (0, 0)));
    owner.post("/api/v1/events", json!([event("a"), event("b")])).await.ok();
    server.clock.advance_seconds(120);
    assert_eq!(measured().await, (2, 2));
    let claimed = claim(owner, "lagging").await;
    assert_eq!(measured().await, (2, 2), "what is claimed is not done");
    let ack = async |claim: &str| owner.post("/api/v1/event-groups/lagging/ack", json!({ "claims": [claim] })).await.ok();
    ack(&claimed[0].1).await;
    assert_eq!(measured().await, (1, 2));
    ack(&claimed[1].1).await;
    assert_eq!(measured().await, (0, 0));
    owner.post("/api/v1/events", json!([event("c")])).await.ok();
    assert_eq!(owner.send(Method::DELETE, "/api/v1/event-groups/lagging", None).await.status, 204);
    assert_eq!(measured().await, (0, 0), "a group that is gone is not behind");
}
