//! Circuit breakers: a target that fails again and again gets no calls for a while, and then one call to try it.

use crate::harness::{Kind, TestServer, on_both_engines, on_postgres, on_sqlite};
use countersign_core::Clock as _;
use countersign_core::limits::{ATTEMPTS_MAX, BREAKER_CALLS_MIN, BREAKER_FAILURES_MAX, BREAKER_WINDOW_SECONDS};
use countersign_core::ports::EventFeed;
use countersign_core::source::{Error, Output};
use serde_json::{Value, json};
use store::limits::{BREAKER_FORGOTTEN_SECONDS, BREAKER_OPEN_SECONDS, BREAKERS_WITH_LABELS_MAX};
use testkit::FakeSource;

on_sqlite!(
    what_works_or_says_no_is_never_left_alone,
    a_failure_that_began_before_the_probe_does_not_decide_for_it,
    a_caller_who_waits_less_than_the_action_may_take_says_nothing_about_the_target,
    labels_are_bounded_and_what_was_counted_long_ago_is_forgotten,
    code_that_has_to_be_ended_is_left_alone,
    what_never_reached_the_target_says_nothing_about_it,
    a_label_is_one_more_reason_and_no_way_around,
    what_a_person_approved_is_tried_all_the_same,
    a_source_is_asked_so_many_questions_at_a_time,
    sources_of_two_orgs_with_one_name_share_no_turns,
);

on_both_engines!(
    a_target_that_fails_every_other_time_is_left_alone,
    a_target_that_fails_again_and_again_is_left_alone_and_tried_by_one,
    failures_at_once_open_it_once_and_for_the_shortest_time,
    a_restart_forgets_nothing,
);
on_postgres!(two_servers_agree_who_tries);

/// It counts against the target, and the call itself does not try again.
fn spent() -> Error {
    Error::Failed { code: "package_out_of_memory", message: "it was ended".into() }
}

async fn breakers(server: &TestServer) -> Vec<Value> {
    server.owner.get("/api/v1/breakers").await.ok()["items"].as_array().unwrap().clone()
}

async fn failing(server: &TestServer) {
    let agent = server.agent().await;
    for _ in 0..BREAKER_FAILURES_MAX {
        server.source.will_fail(spent());
        agent.invoke("fake.read", json!({})).await.problem(502, "source_failed");
    }
}

fn is_refused(answer: &crate::harness::Answer) -> bool {
    answer.status == 502 && answer.body["error"] == "breaker_open"
}

async fn a_target_that_fails_again_and_again_is_left_alone_and_tried_by_one(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    failing(&server).await;
    let open = breakers(&server).await;
    assert_eq!(
        (&open[0]["key"], &open[0]["state"], &open[0]["reason"]),
        (&json!("fake.read"), &json!("open"), &json!("package_out_of_memory"))
    );
    let calls = server.source.calls().len();
    let refused = agent.invoke("fake.read", json!({})).await;
    assert!(is_refused(&refused), "{refused:?}");
    assert_eq!(server.source.calls().len(), calls, "nothing is sent");
    // Other actions of the source are not affected.
    server.owner.set_mode("fake.write", "allow").await;
    agent.invoke("fake.write", json!({})).await.ok();
    // One call is let through, and no other while it runs. When it fails, the breaker stays open for longer.
    server.clock.advance_seconds(BREAKER_OPEN_SECONDS);
    server.source.will_fail(spent());
    agent.invoke("fake.read", json!({})).await.problem(502, "source_failed");
    server.clock.advance_seconds(BREAKER_OPEN_SECONDS);
    assert!(is_refused(&agent.invoke("fake.read", json!({})).await), "twice as long");
    server.clock.advance_seconds(BREAKER_OPEN_SECONDS);
    let mut held = server.source.will_hold(Ok(Output::new(json!({ "done": true }))));
    let probing = {
        let agent = agent.clone();
        tokio::spawn(async move { agent.invoke("fake.read", json!({})).await })
    };
    held.arrived().await;
    assert_eq!(breakers(&server).await[0]["state"], "half_open");
    assert!(is_refused(&agent.invoke("fake.read", json!({})).await), "one decides");
    held.release();
    probing.await.unwrap().ok();
    assert_eq!(breakers(&server).await, [] as [Value; 0], "it works: nothing is counted any more");
    agent.invoke("fake.read", json!({})).await.ok();
    let told: Vec<_> = server.store.list_events_after(&server.org, 0, 100).await.unwrap();
    let told: Vec<_> = told.iter().map(|event| event.name.as_str()).filter(|name| name.starts_with("breaker.")).collect();
    assert_eq!(told, ["breaker.opened", "breaker.half_opened", "breaker.opened", "breaker.half_opened", "breaker.closed"]);
    server.verify().await;
}

/// As many calls as the source is given at a time, all running before any of them fails.
async fn failing_at_once(server: &TestServer) {
    let agent = server.agent().await;
    let under_way = server.source.calls().len();
    let held: Vec<_> = (0..crate::harness::CALLS_PER_SOURCE).map(|_| server.source.will_hold(Err(spent()))).collect();
    let calling: Vec<_> = held
        .iter()
        .map(|_| {
            let agent = agent.clone();
            tokio::spawn(async move { agent.invoke("fake.read", json!({})).await })
        })
        .collect();
    while server.source.calls().len() < under_way + held.len() {
        tokio::task::yield_now().await;
    }
    held.iter().for_each(|held| held.release());
    for call in calling {
        call.await.unwrap().problem(502, "source_failed");
    }
}

async fn failures_at_once_open_it_once_and_for_the_shortest_time(kind: Kind) {
    let server = TestServer::start(kind).await;
    failing_at_once(&server).await;
    let open = &breakers(&server).await[0];
    let count = crate::harness::CALLS_PER_SOURCE;
    assert_eq!((&open["state"], &open["failures"]), (&json!("open"), &json!(count)), "every one of them is counted");
    let until = server.clock.now().plus_seconds(BREAKER_OPEN_SECONDS);
    assert_eq!(open["until"], until.to_string(), "and only the first that was too many opened it");
    let told = server.store.list_events_after(&server.org, 0, 100).await.unwrap();
    assert_eq!(told.iter().filter(|event| event.name == "breaker.opened").count(), 1);
    // A call that a person approved is made while the breaker is open. Its failure does not extend the time.
    server.owner.set_mode("fake.read", "require_approval").await;
    let held = server.agent().await.pending("fake.read", json!({})).await;
    server.source.will_fail(spent());
    server.clock.advance_seconds(1);
    server.owner.approve(&held).await;
    let open = &breakers(&server).await[0];
    assert_eq!((&open["failures"], &open["until"]), (&json!(count + 1), &json!(until.to_string())));
    server.verify().await;
}

async fn a_failure_that_began_before_the_probe_does_not_decide_for_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let call = || {
        let agent = agent.clone();
        tokio::spawn(async move { agent.invoke("fake.read", json!({})).await })
    };
    let mut early = server.source.will_hold(Err(spent()));
    let late_to_fail = call();
    early.arrived().await;
    failing(&server).await;
    server.clock.advance_seconds(BREAKER_OPEN_SECONDS);
    let mut probe = server.source.will_hold(Ok(Output::new(json!({ "done": true }))));
    let probing = call();
    probe.arrived().await;
    early.release();
    late_to_fail.await.unwrap().problem(502, "source_failed");
    assert_eq!(breakers(&server).await[0]["state"], "half_open", "the one that was let through decides");
    probe.release();
    probing.await.unwrap().ok();
    assert_eq!(breakers(&server).await, [] as [Value; 0]);
    server.verify().await;
}

async fn a_caller_who_waits_less_than_the_action_may_take_says_nothing_about_the_target(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.source.redefine("read", |action| action.timeout_ms = 4_000);
    let agent = server.agent().await;
    let waiting = async |timeout_ms: u64, error: Error| {
        server.source.will_fail(error);
        let qos = json!({ "timeout_ms": timeout_ms, "max_retries": 0 });
        let request = json!({ "tool_id": "fake.read", "params": {}, "qos": qos });
        let answer = agent.client.post("/api/v1/actions/execute", request).await.ok();
        assert_eq!(answer["status"], "error", "{answer}");
    };
    let slow = |timeout_ms| Error::TimedOut { source_id: "fake".into(), timeout_ms };
    let ended = || Error::Failed { code: "package_timed_out", message: "it was ended".into() };
    for _ in 0..BREAKER_FAILURES_MAX {
        waiting(3_999, slow(3_999)).await;
        waiting(1_000, ended()).await;
    }
    assert_eq!(breakers(&server).await, [] as [Value; 0]);
    // Code that had to be ended counts as failed, whatever the caller's timeout was.
    waiting(1_000, spent()).await;
    // A caller that waits at least the action's own timeout has seen that the target does not answer.
    for timeout_ms in [4_000, 4_000, 30_000, 30_000] {
        waiting(timeout_ms, slow(4_000)).await;
    }
    assert_eq!(breakers(&server).await[0]["state"], "open");
    server.verify().await;
}

async fn labels_are_bounded_and_what_was_counted_long_ago_is_forgotten(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let failing_under = async |label: String| {
        server.source.will_fail(spent());
        let qos = json!({ "timeout_ms": 3000, "max_retries": 0, "circuit_breaker_key": label });
        let request = json!({ "tool_id": "fake.read", "params": {}, "qos": qos });
        agent.client.post("/api/v1/actions/execute", request).await.ok()
    };
    for at in 0..BREAKERS_WITH_LABELS_MAX + 5 {
        // Successes in between keep the breaker of the target itself closed.
        for _ in 0..2 {
            agent.invoke("fake.read", json!({})).await.ok();
        }
        failing_under(format!("label-{at}")).await;
    }
    let known = breakers(&server).await;
    assert_eq!(known.len(), BREAKERS_WITH_LABELS_MAX, "a label beyond is left out of the key");
    assert!(known.iter().any(|breaker| breaker["key"] == "fake.read"), "what has no label is counted all the same");
    // A known label is still counted.
    failing_under("label-0".to_owned()).await;
    let zero = breakers(&server).await.into_iter().find(|breaker| breaker["key"] == "fake.read|label-0").unwrap();
    assert_eq!(zero["failures"], 2);

    server.clock.advance_seconds(BREAKER_FORGOTTEN_SECONDS - 1);
    server.store.forget_breakers(&server.org).await.unwrap();
    assert_eq!(breakers(&server).await.len(), BREAKERS_WITH_LABELS_MAX);
    agent.invoke("fake.read", json!({})).await.ok();
    failing(&server).await;
    server.clock.advance_seconds(1);
    server.store.forget_breakers(&server.org).await.unwrap();
    let left = breakers(&server).await;
    assert_eq!((left.len(), &left[0]["state"]), (1, &json!("open")), "what is open waits for the call that decides: {left:?}");
    server.verify().await;
}

async fn code_that_has_to_be_ended_is_left_alone(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for code in ["package_timed_out", "package_killed", "package_out_of_memory", "package_flooded", "package_lost"]
        .into_iter()
        .cycle()
        .take(BREAKER_FAILURES_MAX as usize)
    {
        server.source.will_fail(Error::Failed { code, message: "it was ended".into() });
        let once = json!({ "tool_id": "fake.read", "params": {}, "qos": { "max_retries": 0 } });
        assert_eq!(agent.client.post("/api/v1/actions/execute", once).await.ok()["error"]["code"], code);
    }
    assert_eq!(breakers(&server).await[0]["state"], "open");
    assert!(is_refused(&agent.invoke("fake.read", json!({})).await));
    server.verify().await;
}

/// A call that got no turn does not show that the target fails, and a call that we refused does not show that it works.
async fn what_never_reached_the_target_says_nothing_about_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for _ in 0..BREAKER_FAILURES_MAX * ATTEMPTS_MAX {
        server.source.will_fail(Error::NoTurn { source_id: "fake".into(), message: "too many at once".into() });
    }
    for _ in 0..BREAKER_FAILURES_MAX {
        let answer = agent.invoke("fake.read", json!({})).await;
        assert_eq!(answer.body["error"], "source_busy", "{answer:?}");
    }
    assert_eq!(breakers(&server).await, [] as [Value; 0]);
    failing(&server).await;
    server.clock.advance_seconds(BREAKER_OPEN_SECONDS);
    server.source.will_fail(Error::Refused { code: "no", message: "no".into() });
    agent.invoke("fake.read", json!({})).await.problem(502, "source_failed");
    assert_eq!(breakers(&server).await[0]["state"], "half_open", "nobody was asked, so nobody knows");
    server.verify().await;
}

async fn a_label_is_one_more_reason_and_no_way_around(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let labelled = async |label: &str| {
        let qos = json!({ "timeout_ms": 3000, "max_retries": 0, "circuit_breaker_key": label });
        let request = json!({ "action_id": "1", "space_id": "main", "tool_id": "fake.read", "params": {}, "qos": qos });
        agent.client.post("/api/v1/actions/execute", request).await
    };
    for at in 0..BREAKER_FAILURES_MAX {
        server.source.will_fail(spent());
        labelled(&format!("label-{at}")).await;
    }
    let calls = server.source.calls().len();
    let refused = labelled("never-seen").await;
    assert!(refused.body.to_string().contains("breaker_open"), "{refused:?}");
    assert_eq!(server.source.calls().len(), calls, "nothing is sent");
    let keys: Vec<_> = breakers(&server).await.iter().map(|breaker| breaker["key"].clone()).collect();
    assert!(keys.contains(&json!("fake.read")) && keys.contains(&json!("fake.read|label-0")), "{keys:?}");
    // A success closes both.
    server.clock.advance_seconds(BREAKER_OPEN_SECONDS);
    labelled("label-0").await;
    let keys: Vec<_> = breakers(&server).await.iter().map(|breaker| breaker["key"].clone()).collect();
    assert!(!keys.contains(&json!("fake.read")) && !keys.contains(&json!("fake.read|label-0")), "{keys:?}");
    server.verify().await;
}

async fn what_works_or_says_no_is_never_left_alone(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for _ in 0..BREAKER_FAILURES_MAX * 2 {
        server.source.will_fail(Error::Refused { code: "no", message: "no".into() });
        agent.invoke("fake.read", json!({})).await.problem(502, "source_failed");
    }
    for _ in 0..BREAKER_FAILURES_MAX * 2 {
        agent.invoke("fake.destroy", json!({})).await.problem(403, "denied_by_policy");
    }
    // A success in between resets the count of failures in a row, and fewer than half of the calls fail.
    for _ in 0..BREAKER_FAILURES_MAX * 2 {
        for _ in 0..2 {
            agent.invoke("fake.read", json!({})).await.ok();
        }
        server.source.will_fail(spent());
        agent.invoke("fake.read", json!({})).await.problem(502, "source_failed");
    }
    assert!(breakers(&server).await.iter().all(|breaker| breaker["state"] == "closed"));
    // What the source answers finally about the params says nothing against it.
    for _ in 0..BREAKER_CALLS_MIN * 2 {
        server.source.will_fail(Error::Failed { code: "file_not_found", message: "there is none".into() });
        agent.invoke("fake.read", json!({})).await.problem(404, "file_not_found");
    }
    assert_eq!(breakers(&server).await, [] as [Value; 0]);
    server.verify().await;
}

/// One call works and the next fails, so no five of them fail in a row.
async fn alternating(server: &TestServer, agent: &crate::harness::Agent, calls: u32) {
    for at in 0..calls {
        if at % 2 == 1 {
            server.source.will_fail(spent());
        }
        agent.invoke("fake.read", json!({})).await;
    }
}

async fn a_target_that_fails_every_other_time_is_left_alone(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    // Calls of more than a minute ago do not count.
    alternating(&server, &agent, BREAKER_CALLS_MIN - 2).await;
    server.clock.advance_seconds(BREAKER_WINDOW_SECONDS);
    alternating(&server, &agent, BREAKER_CALLS_MIN - 2).await;
    assert_eq!(breakers(&server).await[0]["state"], "closed");
    alternating(&server, &agent, 2).await;
    let open = breakers(&server).await;
    assert_eq!((&open[0]["state"], &open[0]["failures"]), (&json!("open"), &json!(1)), "{open:?}");
    let refused = agent.invoke("fake.read", json!({})).await;
    assert!(is_refused(&refused), "{refused:?}");
    assert!(refused.body["detail"].as_str().unwrap().contains("failed in at least half of its latest calls"), "{refused:?}");
    // It begins anew once it works: what opened it does not count twice.
    server.clock.advance_seconds(BREAKER_OPEN_SECONDS);
    agent.invoke("fake.read", json!({})).await.ok();
    alternating(&server, &agent, 2).await;
    assert_eq!(breakers(&server).await[0]["state"], "closed");
    server.verify().await;
}

async fn what_a_person_approved_is_tried_all_the_same(kind: Kind) {
    let server = TestServer::start(kind).await;
    failing(&server).await;
    let agent = server.agent().await;
    server.owner.set_mode("fake.read", "require_approval").await;
    let held = agent.pending("fake.read", json!({})).await;
    server.owner.approve(&held).await.ok();
    assert_eq!(breakers(&server).await, [] as [Value; 0], "and it worked");
    server.verify().await;
}

async fn a_restart_forgets_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let mut agent = server.agent().await;
    failing(&server).await;
    let restarted = server.restart().await;
    agent.client.url.clone_from(&restarted.url);
    assert!(is_refused(&agent.invoke("fake.read", json!({})).await));
    agent.client.post("/api/v1/breakers/close", json!({ "key": "fake.read" })).await.problem(403, "forbidden");
    assert_eq!(restarted.owner.post("/api/v1/breakers/close", json!({ "key": "fake.read" })).await.status, 204);
    restarted.owner.post("/api/v1/breakers/close", json!({ "key": "fake.read" })).await.problem(404, "not_found");
    agent.invoke("fake.read", json!({})).await.ok();
    restarted.verify().await;
}

async fn two_servers_agree_who_tries(kind: Kind) {
    let server = TestServer::start(kind).await;
    let other = server.restart().await;
    let (here, mut there) = (server.agent().await, server.agent().await);
    there.client.url.clone_from(&other.url);
    failing(&server).await;
    assert!(is_refused(&there.invoke("fake.read", json!({})).await), "the other server heard of it");
    server.clock.advance_seconds(BREAKER_OPEN_SECONDS);
    let calls = server.source.calls().len();
    for _ in 0..3 {
        server.source.will_fail(spent());
    }
    let (one, two) = tokio::join!(here.invoke("fake.read", json!({})), there.invoke("fake.read", json!({})));
    assert_eq!(server.source.calls().len() - calls, 1, "{one:?} {two:?}");
    server.verify().await;
}

async fn a_source_is_asked_so_many_questions_at_a_time(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let held: Vec<_> = (0..crate::harness::CALLS_PER_SOURCE).map(|_| server.source.will_hold(Ok(Output::new(json!({}))))).collect();
    let calling: Vec<_> = (0..crate::harness::CALLS_PER_SOURCE)
        .map(|_| {
            let agent = agent.clone();
            tokio::spawn(async move { agent.invoke("fake.read", json!({})).await })
        })
        .collect();
    while server.source.calls().len() < crate::harness::CALLS_PER_SOURCE {
        tokio::task::yield_now().await;
    }
    let patient_for_a_moment = json!({ "tool_id": "fake.read", "qos": { "timeout_ms": 20, "max_retries": 0 } });
    let crowded = agent.client.post("/api/v1/actions/execute", patient_for_a_moment).await.ok();
    assert_eq!(crowded["error"]["code"], "source_busy", "{crowded}");
    assert_eq!(server.source.calls().len(), crate::harness::CALLS_PER_SOURCE);
    held.iter().for_each(|held| held.release());
    for call in calling {
        call.await.unwrap().ok();
    }
    agent.invoke("fake.read", json!({})).await.ok();
    server.verify().await;
}

async fn sources_of_two_orgs_with_one_name_share_no_turns(kind: Kind) {
    let server = TestServer::start(kind).await;
    let made = server.owner.post("/api/v1/orgs", json!({ "name": "acme" })).await.ok();
    let redeemed = server.owner.post("/api/v1/invitations/redeem", json!({ "invitation": made["invitation"]["invitation"] })).await.ok();
    let acme = server.owner.with_token(redeemed["token"].as_str().unwrap());
    let orgs = server.store.list_orgs().await.unwrap();
    let theirs = orgs.into_iter().find(|org| org.id != server.org).unwrap().id;
    let ours = FakeSource::new("far").offering("find_person", |_| {});
    server.registry.add(&server.org, ours.clone());
    server.registry.add(&theirs, FakeSource::new("far").offering("find_person", |_| {}));
    let agent = server.agent().await;
    let held: Vec<_> = (0..crate::harness::CALLS_PER_SOURCE).map(|_| ours.will_hold(Ok(Output::new(json!({}))))).collect();
    let calling: Vec<_> = held
        .iter()
        .map(|_| {
            let agent = agent.clone();
            tokio::spawn(async move { agent.invoke("far.find_person", json!({})).await })
        })
        .collect();
    while ours.calls().len() < held.len() {
        tokio::task::yield_now().await;
    }
    acme.new_session(json!({})).await.invoke("far.find_person", json!({})).await.ok();
    held.iter().for_each(|held| held.release());
    for call in calling {
        call.await.unwrap().ok();
    }
}
