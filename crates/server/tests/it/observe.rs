//! A space that only observes: its calls run and are recorded as they would be decided, and its report says what would have been asked.

use crate::harness::{Agent, Kind, TestServer, on_both_engines, on_sqlite};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

on_sqlite!(
    what_needs_approval_runs_and_is_recorded_as_it_would_be,
    denials_switches_and_what_destroys_hold_all_the_same,
    a_grant_is_used_first_and_what_it_covers_is_not_asked,
    what_one_person_could_not_approve_is_spared_by_nothing,
    who_may_not_set_rules_does_not_let_a_space_observe,
    explaining_says_that_the_space_only_observes,
);
on_both_engines!(what_a_day_suggests_would_have_asked_exactly_what_the_report_says);

/// One call of a recorded day.
struct Recorded {
    at_seconds: u64,
    agent: String,
    action: String,
    params: Value,
}

/// The day in `traffic/day.jsonl`.
fn day() -> Vec<Recorded> {
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let (hours, minutes) = line["at"].as_str().unwrap().split_once(':').unwrap();
        let at_seconds = hours.parse::<u64>().unwrap() * 3_600 + minutes.parse::<u64>().unwrap() * 60;
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        Recorded { at_seconds, agent: text("agent"), action: text("action"), params: line["params"].clone() }
    };
    include_str!("../traffic/day.jsonl").lines().map(read).collect()
}

/// How often a person is asked, by action and agent.
type Questions = BTreeMap<(String, String), u64>;

/// Makes the calls of the day again, each at its time. Returns how often a person was asked.
async fn replay(server: &TestServer, day: &[Recorded]) -> Questions {
    let mut agents: BTreeMap<&str, Agent> = BTreeMap::new();
    for name in day.iter().map(|call| call.agent.as_str()).collect::<BTreeSet<_>>() {
        agents.insert(name, server.owner.new_session(json!({ "title": name })).await);
    }
    let (mut asked, mut now) = (BTreeMap::new(), 0);
    for call in day {
        server.clock.advance_seconds(call.at_seconds - now);
        now = call.at_seconds;
        let answer = agents[call.agent.as_str()].invoke(&call.action, call.params.clone()).await;
        assert!([200, 202].contains(&answer.status), "{answer:?}");
        if answer.status == 202 {
            *asked.entry((call.action.clone(), call.agent.clone())).or_default() += 1;
        }
    }
    asked
}

/// What a report says will still be asked, with its suggestions.
fn still_asked(said: &Value) -> Questions {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let modes = said["modes"].as_array().unwrap().iter().map(|one| (text(&one["action"]), "mode"));
    let grants = said["grants"].as_array().unwrap().iter().map(|one| (text(&one["grant"]["covers"]), "grant"));
    let spared: BTreeSet<_> = modes.chain(grants).collect();
    let rows = said["rows"].as_array().unwrap().iter();
    let asked = rows.filter(|row| !spared.contains(&(text(&row["action"]), row["observed"].as_str().unwrap())));
    asked.map(|row| ((text(&row["action"]), text(&row["session_title"])), row["calls"].as_u64().unwrap())).collect()
}

async fn report(server: &TestServer) -> Value {
    server.owner.get(&format!("/api/v1/spaces/{}/observed", server.main_space().await)).await.ok()
}

/// A server whose main space observes, where reads and what destroys need approval by their modes.
async fn observing(kind: Kind) -> TestServer {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.read", "require_approval").await;
    server.owner.set_mode("fake.destroy", "require_approval").await;
    server.change_space(json!({ "observes": true })).await;
    server
}

async fn what_a_day_suggests_would_have_asked_exactly_what_the_report_says(kind: Kind) {
    let (server, day) = (observing(kind).await, day());
    let held = replay(&server, &day).await;
    let question = |action: &str, agent: &str| (action.to_owned(), agent.to_owned());
    assert_eq!(held, BTreeMap::from([(question("fake.destroy", "cleaner"), 2)]), "nothing else is held");
    let said = report(&server).await;
    assert_eq!((&said["asked"], &said["still_asked"], &said["cut"]), (&json!(19), &json!(4), &json!(false)), "{said:#}");
    let rows: Vec<_> = said["rows"].as_array().unwrap().iter().collect();
    let told: Vec<_> = rows.iter().map(|row| (&row["action"], &row["session_title"], &row["observed"], &row["calls"])).collect();
    assert_eq!(told.len(), 5, "{said:#}");
    for row in [
        ("fake.send", "billing", "grant", 6),
        ("fake.write", "notes", "mode", 6),
        ("fake.write", "billing", "mode", 3),
        ("fake.read", "notes", "grant", 2),
        ("fake.destroy", "cleaner", "held", 2),
    ] {
        assert!(told.contains(&(&json!(row.0), &json!(row.1), &json!(row.2), &json!(row.3))), "{row:?} in {said:#}");
    }
    server.verify().await;

    // The suggestions are applied, the space asks again, and the same day comes once more.
    for mode in said["modes"].as_array().unwrap() {
        server.owner.set_mode(mode["action"].as_str().unwrap(), mode["mode"].as_str().unwrap()).await;
    }
    for suggested in said["grants"].as_array().unwrap() {
        server.owner.grant(suggested["grant"].clone()).await;
    }
    server.change_space(json!({ "observes": false })).await;
    let asked = replay(&server, &day).await;
    assert_eq!((asked.values().sum::<u64>(), &asked), (said["still_asked"].as_u64().unwrap(), &still_asked(&said)));
    assert_eq!(asked, BTreeMap::from([(question("fake.read", "notes"), 2), (question("fake.destroy", "cleaner"), 2)]));
    server.verify().await;
}

async fn what_needs_approval_runs_and_is_recorded_as_it_would_be(kind: Kind) {
    let server = observing(kind).await;
    let agent = server.agent().await;
    for (action, observed) in [("fake.write", "mode"), ("fake.send", "grant"), ("fake.read", "grant")] {
        let answer = agent.invoke(action, json!({})).await;
        let invocation = &answer.body["invocation"];
        assert_eq!((answer.status, &invocation["mode"]), (200, &json!("require_approval")), "{answer:?}");
        assert_eq!((&invocation["observed"], &invocation["approvals"]), (&json!(observed), &json!([])));
        let receipt = server.receipt_of(&answer.id()).await;
        assert_eq!((&receipt["observed"], &receipt["approval"]), (&json!(true), &json!(null)));
    }
    assert_eq!(server.source.effects(), 3);
    server.verify().await;
    // From the moment it asks again, it asks.
    server.change_space(json!({ "observes": false })).await;
    let id = agent.pending("fake.write", json!({})).await;
    assert_eq!(server.shown(&id).await["observed"], json!(null));
    server.owner.approve(&id).await.ok();
    server.verify().await;
}

async fn denials_switches_and_what_destroys_hold_all_the_same(kind: Kind) {
    let server = observing(kind).await;
    let agent = server.agent().await;
    server.owner.set_mode("fake.send", "deny").await;
    assert_eq!(agent.invoke("fake.send", json!({})).await.body["error"], "denied_by_mode");
    let destroy = agent.pending("fake.destroy", json!({})).await;
    assert_eq!(server.shown(&destroy).await["observed"], "held");
    server.owner.switch("on", "org").await.ok();
    assert_eq!(agent.invoke("fake.write", json!({})).await.body["error"], "stopped");
    server.owner.switch("off", "org").await.ok();
    server.owner.set_mode("fake.destroy", "deny").await;
    assert_eq!(agent.invoke("fake.destroy", json!({})).await.body["error"], "denied_by_mode");
    assert_eq!(server.source.effects(), 0);
    assert_eq!(report(&server).await["asked"], 1);
    server.verify().await;
}

async fn a_grant_is_used_first_and_what_it_covers_is_not_asked(kind: Kind) {
    let server = observing(kind).await;
    let agent = server.agent().await;
    let grant = server.owner.grant(json!({ "covers": "fake.write", "scope": "org", "calls_max": 1 })).await;
    let (first, second) = (agent.invoke("fake.write", json!({})).await.ok(), agent.invoke("fake.write", json!({})).await.ok());
    assert_eq!((&first["invocation"]["grant_id"], &first["invocation"]["observed"]), (&json!(grant), &json!(null)));
    assert_eq!((&second["invocation"]["grant_id"], &second["invocation"]["observed"]), (&json!(null), &json!("mode")));
    assert_eq!(report(&server).await["asked"], 1);
    server.verify().await;
}

async fn what_one_person_could_not_approve_is_spared_by_nothing(kind: Kind) {
    for rule in [json!({ "quorum": { "R2": 2 } }), json!({ "self_approval": "refused" })] {
        let server = observing(kind).await;
        server.change_space(rule).await;
        let agent = server.agent().await;
        for _ in 0..5 {
            agent.invoke("fake.write", json!({})).await.ok();
        }
        let said = report(&server).await;
        assert_eq!((&said["asked"], &said["still_asked"]), (&json!(5), &json!(5)));
        assert_eq!((&said["modes"], &said["grants"]), (&json!([]), &json!([])));
        server.verify().await;
    }
}

async fn who_may_not_set_rules_does_not_let_a_space_observe(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (approver, agent) = (server.owner.person("robin", "approver").await, server.agent().await);
    let path = format!("/api/v1/spaces/{}", server.main_space().await);
    for client in [&approver, &agent.client] {
        let answer = client.send(reqwest::Method::PATCH, &path, Some(json!({ "observes": true }))).await;
        assert_eq!(answer.status, 403, "{answer:?}");
    }
    assert_eq!(agent.client.get(&format!("{path}/observed")).await.status, 403);
    approver.get(&format!("{path}/observed")).await.ok();
    assert_eq!(server.owner.get(&format!("{path}/observed?since=soon")).await.status, 400);
    server.owner.get("/api/v1/spaces/spc_x/observed").await.problem(404, "not_found");
}

async fn explaining_says_that_the_space_only_observes(kind: Kind) {
    let server = observing(kind).await;
    let agent = server.agent().await;
    let question = json!({ "session_id": agent.session, "action": "fake.write", "params": {} });
    let told = server.owner.post("/api/v1/explain", question).await.ok();
    assert_eq!(told["would"], "runs", "{told:#}");
    assert!(told["because"].as_str().unwrap().starts_with("the space only observes"), "{told:#}");
}
