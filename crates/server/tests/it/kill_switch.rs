//! Kill switches: no call they cover runs, no pending call is lost, and only a person turns one off.

use crate::harness::{Agent, Kind, TestServer, on_both_engines, on_postgres, on_sqlite};
use countersign_core::invocation::{Answer, Beyond};
use countersign_core::ledger::{Approval, Approve, Approved, EventDraft};
use countersign_core::ports::Invocations;
use countersign_core::source::Output;
use countersign_core::{ApprovalId, EventId, InvocationId, PrincipalId, UserId, limits};
use serde_json::{Value, json};

on_sqlite!(
    a_switch_stops_what_it_covers_and_nothing_else,
    what_is_stopped_is_denied_with_a_receipt,
    the_queue_is_kept_and_can_only_be_denied,
    what_had_run_out_before_stays_run_out,
    a_switch_may_spare_dry_runs,
    an_approved_call_that_had_not_started_waits_and_then_runs,
    what_runs_already_is_recorded_as_it_ended,
    a_switch_beats_grants_and_replays_nothing,
    only_a_person_turns_a_switch_off,
    a_switch_that_makes_no_sense_is_refused,
);

on_both_engines!(
    the_clocks_stand_still_while_a_switch_is_on,
    clocks_go_on_when_the_last_switch_over_them_is_off,
    a_switch_turned_on_and_off_while_calls_pour_in_lets_none_through,
    a_switch_may_answer_calls_with_their_dry_run,
);
on_postgres!(a_switch_of_one_server_stops_the_other);

async fn is_stopped(agent: &Agent, action: &str) -> bool {
    let answer = agent.invoke(action, json!({})).await;
    match answer.body["error"].as_str() {
        Some("stopped") => true,
        _ if answer.status == 200 => false,
        _ => panic!("{answer:?}"),
    }
}

async fn everything_allowed(kind: Kind) -> TestServer {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    server.owner.set_mode("fake.send", "allow").await;
    server
}

async fn a_switch_stops_what_it_covers_and_nothing_else(kind: Kind) {
    let server = everything_allowed(kind).await;
    let lab = server.owner.post("/api/v1/spaces", json!({ "name": "lab" })).await.ok()["id"].as_str().unwrap().to_owned();
    let (here, beside, inside) = (server.agent().await, server.agent().await, server.owner.new_session(json!({ "space": "lab" })).await);
    // Whether each of these is stopped: a write here, a send here, a write in another session, and a write in the space `lab`.
    for (scope, expected) in [
        ("org".to_owned(), [true, true, true, true]),
        ("source:fake".to_owned(), [true, true, true, true]),
        ("action:fake.write".to_owned(), [true, false, true, true]),
        (format!("session:{}", here.session), [true, true, false, false]),
        (format!("space:{lab}"), [false, false, false, true]),
    ] {
        server.owner.switch("on", &scope).await.ok();
        let stopped = [
            is_stopped(&here, "fake.write").await,
            is_stopped(&here, "fake.send").await,
            is_stopped(&beside, "fake.write").await,
            is_stopped(&inside, "fake.write").await,
        ];
        assert_eq!(stopped, expected, "{scope}");
        assert_eq!(server.owner.get("/api/v1/kill-switches").await.ok()["items"][0]["scope"], json!(scope));
        server.owner.switch("off", &scope).await.ok();
        assert!(!is_stopped(&here, "fake.write").await, "{scope}");
    }
    let rules: Vec<_> = server.rules().await.into_iter().map(|rule| rule["rule"].as_str().unwrap().to_owned()).collect();
    let switched: Vec<_> = rules.into_iter().filter(|rule| rule.starts_with("switched")).collect();
    assert_eq!(switched, ["switched_on", "switched_off"].repeat(5));
    server.verify().await;
}

async fn what_is_stopped_is_denied_with_a_receipt(kind: Kind) {
    let server = everything_allowed(kind).await;
    let agent = server.agent().await;
    server.owner.switch("on", "org").await.ok();
    for action in ["fake.read", "fake.write", "fake.send"] {
        let answer = agent.invoke(action, json!({})).await;
        answer.problem(403, "denied_by_policy");
        assert_eq!(answer.body["error"], "stopped", "{answer:?}");
        assert!(answer.body["detail"].as_str().unwrap().contains("`org`"), "{answer:?}");
        let receipt = server.receipt_of(&answer.id()).await;
        assert_eq!((&receipt["status"], &receipt["error"]), (&json!("denied"), &json!("stopped")), "{receipt}");
    }
    agent.invoke_with(json!({ "action": "fake.write", "dry_run": true })).await.problem(403, "denied_by_policy");
    let listed = server.owner.get(&format!("/api/v1/sessions/{}/actions/available", agent.session)).await.ok();
    assert!(listed["sources"][0]["actions"].as_array().unwrap().iter().all(|action| action["mode"] == "deny"), "{listed}");
    assert_eq!((server.source.calls().len(), server.source.previews().len()), (0, 0));
    server.verify().await;
}

async fn the_queue_is_kept_and_can_only_be_denied(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let (kept, denied) = (agent.pending("fake.write", json!({})).await, agent.pending("fake.write", json!({})).await);
    let on = server.owner.switch("on", "org").await.ok();
    assert_eq!((&on["on"], &on["clocks"]), (&json!(true), &json!(2)));
    let shown = server.shown(&kept).await;
    assert_eq!((&shown["status"], &shown["clock_stopped"], &shown["expires_at"]), (&json!("pending"), &json!(true), &json!(null)));
    for body in [json!({}), json!({ "mode": "always" }), json!({ "mode": "grant" }), json!({ "params": { "text": "b" } })] {
        server.owner.approve_with(&kept, body).await.problem(409, "stopped");
    }
    let bulk = server.owner.post("/api/v1/invocations/approve", json!({ "invocations": [kept] })).await.ok();
    assert_eq!(bulk["results"][0]["problem"]["code"], "stopped");
    server.owner.deny(&denied, "no").await.ok();
    assert_eq!(server.receipt_of(&denied).await["denied_by"], "person");
    let off = server.owner.switch("off", "org").await.ok();
    assert_eq!((&off["on"], &off["clocks"]), (&json!(false), &json!(1)));
    let approved = server.owner.approve(&kept).await.ok();
    assert_eq!((&approved["invocation"]["status"], server.source.effects()), (&json!("succeeded"), 1));
    server.verify().await;
}

async fn the_clocks_stand_still_while_a_switch_is_on(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let (first, second) = (agent.pending("fake.write", json!({})).await, agent.pending("fake.write", json!({})).await);
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS - 60);
    server.owner.switch("on", &format!("session:{}", agent.session)).await.ok();
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS * 3);
    server.pipeline.sweep().await.unwrap();
    assert_eq!(server.shown(&first).await["status"], "pending", "the sweep leaves it alone");
    // Turning the switch on again does not change the time that was left.
    server.owner.switch("on", &format!("session:{}", agent.session)).await.ok();
    server.owner.switch("off", &format!("session:{}", agent.session)).await.ok();
    server.clock.advance_seconds(59);
    server.owner.approve(&first).await.ok();
    server.clock.advance_seconds(1);
    server.owner.approve(&second).await.problem(410, "expired");
    assert_eq!((server.source.effects(), server.receipt_of(&second).await["status"].clone()), (1, json!("expired")));
    server.verify().await;
}

async fn clocks_go_on_when_the_last_switch_over_them_is_off(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let (write, send) = (agent.pending("fake.write", json!({})).await, agent.pending("fake.send", json!({})).await);
    let scopes = ["source:fake", "action:fake.write", "org"];
    let clocks = async |way: &str, scope: &str| server.owner.switch(way, scope).await.ok()["clocks"].clone();
    assert_eq!(clocks("on", scopes[0]).await, 2);
    assert_eq!(clocks("on", scopes[1]).await, 0, "it stands still already");
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS * 2);
    assert_eq!(clocks("off", scopes[0]).await, 1, "the write is covered by another");
    assert_eq!(server.shown(&write).await["clock_stopped"], true);
    server.owner.approve(&write).await.problem(409, "stopped");
    server.owner.approve(&send).await.ok();
    assert_eq!(clocks("on", scopes[2]).await, 0);
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS * 2);
    assert_eq!(clocks("off", scopes[1]).await, 0);
    assert_eq!(clocks("off", scopes[2]).await, 1);
    server.owner.approve(&write).await.ok();
    assert_eq!(server.source.effects(), 2);
    server.verify().await;
}

async fn what_had_run_out_before_stays_run_out(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS);
    assert_eq!(server.owner.switch("on", "org").await.ok()["clocks"], 0);
    assert!([410, 409].contains(&server.owner.approve(&id).await.status));
    server.owner.switch("off", "org").await.ok();
    server.owner.approve(&id).await.problem(410, "expired");
    assert_eq!(server.source.effects(), 0);
    server.verify().await;
}

async fn a_switch_may_spare_dry_runs(kind: Kind) {
    let server = everything_allowed(kind).await;
    let agent = server.agent().await;
    let on = json!({ "scope": "org", "stop": "except_dry_runs", "reason": "look, do not touch" });
    server.owner.post("/api/v1/kill-switches/on", on).await.ok();
    assert!(is_stopped(&agent, "fake.write").await);
    let previewed = agent.invoke_with(json!({ "action": "fake.write", "params": { "text": "x" }, "dry_run": true })).await;
    assert_eq!(previewed.status, 200, "{previewed:?}");
    assert_eq!((server.source.previews().len(), server.source.calls().len()), (1, 0));
    // Turning it on again makes the existing switch stricter.
    server.owner.switch("on", "org").await.ok();
    agent.invoke_with(json!({ "action": "fake.write", "dry_run": true })).await.problem(403, "denied_by_policy");
    assert_eq!(server.owner.get("/api/v1/kill-switches").await.ok()["items"][0]["stop"], "everything");
    server.verify().await;
}

async fn a_switch_may_answer_calls_with_their_dry_run(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let held = agent.pending("fake.send", json!({})).await;
    let on = json!({ "scope": "org", "stop": "as_dry_run", "reason": "pause, and plan on" });
    server.owner.post("/api/v1/kill-switches/on", on).await.ok();
    assert_eq!(server.owner.get("/api/v1/kill-switches").await.ok()["items"][0]["stop"], "as_dry_run");
    // The key stays free: the call was not made.
    let asked = json!({ "action": "fake.write", "params": { "text": "x" }, "idempotency_key": "k" });
    let answer = agent.invoke_with(asked.clone()).await;
    assert_eq!((answer.status, &answer.body["invocation"]["dry_run"]), (200, &json!(true)), "{answer:?}");
    assert!(answer.body["result"]["instead"].as_str().unwrap().contains("a kill switch on `org` is on"), "{answer:?}");
    assert_eq!(server.receipt_of(&answer.id()).await["dry_run"], true);
    // A read is not made either, and what has no dry run is stopped.
    let read = agent.invoke("fake.read", json!({})).await;
    assert_eq!((read.status, &read.body["invocation"]["dry_run"]), (200, &json!(true)), "{read:?}");
    assert!(is_stopped(&agent, "fake.send").await);
    // Agents see that they may go on, and people why.
    let available = server.owner.get(&format!("/api/v1/sessions/{}/actions/available", agent.session)).await.ok();
    for (id, mode) in [("fake.read", "allow"), ("fake.write", "allow"), ("fake.send", "deny")] {
        let listed = available["sources"][0]["actions"].as_array().unwrap().iter().find(|action| action["id"] == id).unwrap();
        assert_eq!(listed["mode"], mode, "{listed}");
    }
    let question = json!({ "session_id": agent.session, "action": "fake.write", "params": { "text": "x" } });
    let explained = server.owner.post("/api/v1/explain", question).await.ok();
    assert!(explained["because"].as_str().unwrap().contains("this is the dry run"), "{explained}");
    // A pending call is kept as it is, and a part of a batch is stopped.
    server.owner.approve(&held).await.problem(409, "stopped");
    let batch = json!({ "mode": "all_or_nothing", "actions": [{ "action": "fake.write", "params": { "text": "x" } }] });
    let batch = agent.client.post(&format!("/api/v1/sessions/{}/actions/batch", agent.session), batch).await;
    assert!(batch.body["status"] == "denied" && batch.body.to_string().contains("stopped"), "{batch:?}");
    assert_eq!((server.source.calls().len(), server.source.previews().len()), (0, 1));
    // A stricter switch over the same call wins.
    server.owner.switch("on", "action:fake.write").await.ok();
    assert!(is_stopped(&agent, "fake.write").await);
    server.owner.switch("off", "action:fake.write").await.ok();
    server.owner.switch("off", "org").await.ok();
    let done = agent.invoke_with(asked).await.ok();
    assert_eq!((&done["invocation"]["dry_run"], &done["replayed"], server.source.effects()), (&json!(false), &json!(false), 1), "{done}");
    server.verify().await;
}

/// Records an approval as the API does, and then the process dies.
async fn approve_without_running(server: &TestServer, id: &str) {
    let id = InvocationId::parse(id).unwrap();
    let row = server.store.find_invocation(&server.org, &id).await.unwrap().unwrap();
    let now = Invocations::now(&server.store).await.unwrap();
    let by = server.owner.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    let by = PrincipalId::User(UserId::parse(&by).unwrap());
    let approval = Approval {
        id: ApprovalId::new(now, [91; 10]),
        answer: Answer { by, at: now, reason: None, beyond: Beyond::Once },
        approves: true,
        binding: row.binding.unwrap().digest,
        token: server.store.authenticate(&server.owner.token).await.unwrap().unwrap().token.unwrap(),
    };
    let event = EventDraft { id: EventId::new(now, [92; 10]), name: "invocation.approved", key: id.to_string(), body: "{}".into() };
    let event_counted = EventDraft { id: EventId::new(now, [93; 10]), ..event.clone() };
    let approve =
        Approve { org: server.org.clone(), invocation: id, approval, needed: 1, is_separate: false, edited: None, event, event_counted };
    assert!(matches!(server.store.approve(approve).await.unwrap(), Approved::Approved(_)));
}

async fn an_approved_call_that_had_not_started_waits_and_then_runs(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    approve_without_running(&server, &id).await;
    server.owner.switch("on", "org").await.ok();
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS * 2);
    let restarted = server.restart().await;
    restarted.pipeline.sweep().await.unwrap();
    restarted.pipeline.recover().await.unwrap();
    restarted.pipeline.finish().await;
    let shown = restarted.shown(&id).await;
    assert_eq!((&shown["status"], restarted.source.effects()), (&json!("approved"), 0), "{shown}");
    restarted.owner.switch("off", "org").await.ok();
    restarted.pipeline.sweep().await.unwrap();
    restarted.pipeline.finish().await;
    assert_eq!((&restarted.shown(&id).await["status"], restarted.source.effects()), (&json!("succeeded"), 1));
    restarted.verify().await;
}

async fn what_runs_already_is_recorded_as_it_ended(kind: Kind) {
    let server = everything_allowed(kind).await;
    let agent = server.agent().await;
    let mut held = server.source.will_hold(Ok(Output::new(json!({ "done": 1 }))));
    let calling = {
        let agent = agent.clone();
        tokio::spawn(async move { agent.invoke("fake.write", json!({})).await })
    };
    held.arrived().await;
    server.owner.switch("on", "org").await.ok();
    held.release();
    let answer = calling.await.unwrap();
    assert_eq!((answer.status, &answer.body["result"]), (200, &json!({ "done": 1 })), "{answer:?}");
    server.verify().await;
}

async fn a_switch_beats_grants_and_replays_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let grant = server.owner.grant(json!({ "covers": "*", "scope": "org" })).await;
    let call = json!({ "action": "fake.write", "params": { "text": "a" }, "idempotency_key": "k" });
    agent.invoke_with(call.clone()).await.ok();
    server.owner.switch("on", "org").await.ok();
    agent.invoke_with(call.clone()).await.problem(403, "denied_by_policy");
    agent.invoke("fake.write", json!({})).await.problem(403, "denied_by_policy");
    let used = server.owner.get(&format!("/api/v1/grants/{grant}")).await.ok()["calls_used"].clone();
    assert_eq!((used, server.source.effects()), (json!(1), 1));
    server.owner.switch("off", "org").await.ok();
    assert_eq!(agent.invoke_with(call).await.ok()["replayed"], true);
    server.verify().await;
}

async fn only_a_person_turns_a_switch_off(kind: Kind) {
    let server = everything_allowed(kind).await;
    let agent = server.agent().await;
    let member = server.owner.person("mia", "member").await;
    let scopes = json!(["invoke", "read_session", "read", "create_session", "manage_policy", "manage_identity"]);
    let service = server.owner.post("/api/v1/tokens", json!({ "name": "watchdog", "scopes": scopes })).await.ok();
    let service = server.owner.with_token(service["token"].as_str().unwrap());
    // A service may turn a switch on, but not off.
    for client in [&agent.client, &member] {
        client.switch("on", "org").await.problem(403, "forbidden");
    }
    service.switch("on", "org").await.ok();
    for client in [&agent.client, &member, &service] {
        client.switch("off", "org").await.problem(403, "forbidden");
    }
    assert!(is_stopped(&agent, "fake.write").await);
    let admin = server.owner.person("ada", "admin").await;
    admin.switch("off", "org").await.ok();
    assert!(!is_stopped(&agent, "fake.write").await);
    let off: Vec<Value> = server.rules().await.into_iter().filter(|rule| rule["rule"] == "switched_off").collect();
    assert_eq!((off.len(), &off[0]["reason"]), (1, &json!("test")));
    server.verify().await;
}

async fn a_switch_that_makes_no_sense_is_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    for (scope, status, code) in [
        ("everything", 400, "invalid_request"),
        ("", 400, "invalid_request"),
        ("action:fake", 400, "invalid_request"),
        ("source:nowhere", 404, "not_found"),
        ("action:fake.nothing", 404, "not_found"),
        ("space:spc_00000000000000000000000000", 404, "not_found"),
        ("session:ses_00000000000000000000000000", 404, "not_found"),
    ] {
        server.owner.switch("on", scope).await.problem(status, code);
    }
    server.owner.post("/api/v1/kill-switches/on", json!({ "scope": "org", "reason": " " })).await.problem(400, "invalid_request");
    server.owner.post("/api/v1/kill-switches/on", json!({ "scope": "org" })).await.problem(400, "invalid_request");
    server.owner.switch("off", "org").await.problem(404, "not_found");
    assert_eq!(server.owner.get("/api/v1/kill-switches").await.ok()["items"], json!([]));
    assert_eq!(server.rules().await, [] as [Value; 0]);
}

/// The audit log shows it: an intent between a switch's on and its off does not verify.
async fn a_switch_turned_on_and_off_while_calls_pour_in_lets_none_through(kind: Kind) {
    let server = everything_allowed(kind).await;
    let agents = futures_util::future::join_all((0..4).map(|_| server.agent())).await;
    let calls = agents.iter().map(async |agent| {
        let mut ran = 0;
        for at in 0..15 {
            let answer = agent.invoke("fake.write", json!({ "count": at })).await;
            match answer.status {
                200 => ran += 1,
                403 => assert_eq!(answer.body["error"], "stopped", "{answer:?}"),
                // Decided again too often: nothing was done, and retrying is safe.
                503 => {}
                _ => panic!("{answer:?}"),
            }
        }
        ran
    });
    let toggling = async {
        for _ in 0..25 {
            server.owner.switch("on", "action:fake.write").await.ok();
            server.owner.switch("off", "action:fake.write").await.ok();
        }
    };
    let (ran, ()) = tokio::join!(futures_util::future::join_all(calls), toggling);
    assert_eq!(server.source.effects(), ran.iter().sum::<u64>());
    server.verify().await;
}

async fn a_switch_of_one_server_stops_the_other(kind: Kind) {
    let server = everything_allowed(kind).await;
    let other = server.restart().await;
    let mut agent = server.agent().await;
    agent.client.url.clone_from(&other.url);
    assert!(!is_stopped(&agent, "fake.write").await);
    for _ in 0..5 {
        server.owner.switch("on", "org").await.ok();
        assert!(is_stopped(&agent, "fake.write").await);
        other.owner.switch("off", "org").await.ok();
        assert!(!is_stopped(&agent, "fake.write").await);
    }
    server.verify().await;
}
