//! What breaks engines of this kind, on a whole server: crashes, edits, restarts, loops, retries and money.

use crate::automations::{digest, ended, fire, id_of, run, saved, waiting, with_triggers};
use crate::harness::{Answer, Kind, TestServer, on_both_engines, on_sqlite};
use crate::upstream::Upstream;
use countersign_core::action::{Repeatability, Reversibility};
use countersign_core::limits::{APPROVAL_UNATTENDED_SECONDS, BREAKER_FAILURES_MAX, CALL_TIMEOUT_MS, TRIGGER_BATCH_BYTES_MAX};
use countersign_core::ports::automations::PassedTicks;
use countersign_core::ports::bus::{GroupName, NewEvent, NewGroup, Start};
use countersign_core::ports::events::{Cause, Event};
use countersign_core::ports::{Automations, EventBus, EventFeed, Runs};
use countersign_core::source::{Error, Listings, Output};
use countersign_core::{AutomationId, Clock as _, Random, RunId, SourceId, SpaceId, Tier};
use receipt::limits::IDEMPOTENCY_SECONDS;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use store::limits::BREAKER_OPEN_SECONDS;

on_both_engines!(
    a_step_whose_process_died_waits_for_a_person,
    rolling_deploy_drains,
    cancel_with_dead_worker,
    a_cancel_does_not_wait_for_the_step,
    budget_never_crossed,
    events_that_come_together_start_one_run,
    a_batch_of_long_events_does_not_wait_for_more,
    a_replay_starts_nothing_twice_unless_under_new_ids,
    a_call_of_a_run_is_a_dead_letter_once_the_run_has_given_it_up,
    clock_far_forward_and_back,
    a_schedule_that_lost_its_next_time_goes_on,
    filter_edit_leaves_no_ghost,
    a_filter_that_takes_too_much_work_is_suspended_and_the_others_go_on,
);

on_sqlite!(
    a_webhook_whose_filter_takes_too_much_work_is_disabled,
    same_key_replays,
    same_key_other_body_422,
    a_plan_whose_action_is_gone_starts_nothing,
    numbers_and_keys_exact,
    edit_while_running,
    schedule_edit_disable_enable,
    what_a_pause_leaves_out_is_one_row,
    the_data_of_an_event_chooses_neither_its_space_nor_its_chain,
    what_is_about_the_whole_org_fires_automations_of_every_space,
    events_that_are_forgotten_before_they_are_handled_are_counted,
    self_trigger_refused,
    what_a_run_sends_says_what_led_to_it,
    automations_that_follow_each_other_in_a_circle_stop,
    what_a_firing_could_not_start_does_not_start_it_after_all,
    an_automation_of_somebody_who_is_out_starts_nothing,
    a_run_that_takes_too_long_is_timed_out,
    a_source_that_gives_up_first_hides_no_time_out,
    what_a_stopped_automation_does_not_hear_is_counted,
    an_archived_automation_takes_its_questions_back,
    a_step_has_no_more_time_than_it_says,
    code_of_a_package_that_takes_too_long_is_timed_out_like_any_step,
    an_approval_that_never_comes_ends_the_run_after_a_day,
    on_failure_fails_once,
    what_a_worker_brings_that_lost_its_run_is_told_apart,
    a_call_in_doubt_is_repeated_where_that_does_no_harm,
    a_call_in_doubt_fails_its_step_where_that_is_wanted,
    a_person_has_a_call_in_doubt_made_again_and_the_run_takes_it,
    a_step_is_tried_again_when_its_source_says,
    a_retry_waits_by_the_backoff_of_its_step,
    an_open_breaker_is_waited_for,
    what_a_person_approved_is_tried_again_without_asking_them_again,
    a_step_is_not_repeated_after_its_key_has_expired,
    a_run_spends_no_more_than_it_may,
    an_attempt_that_was_not_made_costs_nothing,
    a_call_in_doubt_is_not_repeated_beyond_the_budget,
    an_attempt_is_saved_before_the_next,
    a_queue_follows_what_was_measured,
    a_schedule_that_catches_up_covers_the_time_without_gaps,
);

/// A plan of these steps, each of which reads or writes.
fn plan(steps: &[&str]) -> Value {
    let step = |(n, action): (usize, &&str)| json!({ "step_id": format!("step_{n}"), "action": action, "config": { "text": "x" } });
    let steps: Vec<_> = steps.iter().enumerate().map(step).collect();
    json!({ "schema_version": "1.0", "name": "Hard case", "plan": steps })
}

async fn edit(server: &TestServer, id: &str, definition: &Value) {
    edited(server, id, definition).await.ok();
}

async fn edited(server: &TestServer, id: &str, definition: &Value) -> Answer {
    let request = server.owner.http.put(format!("{}/api/v1/automations/{id}", server.url)).bearer_auth(&server.owner.token);
    Answer::of(request.header("if-match", "*").json(&json!({ "definition": definition })).send().await.unwrap()).await
}

fn busy(retry_after_ms: u64) -> Error {
    Error::Busy { source_id: "fake".into(), message: "it answered 429".into(), retry_after_ms: Some(retry_after_ms) }
}

/// The process dies after the effect and before its outcome is recorded. A real one is killed in `sigkill_mid_step` of the command line's tests.
async fn a_step_whose_process_died_waits_for_a_person(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let working = server.work();
    let id = id_of(&saved(&server.owner, plan(&["fake.read", "fake.write", "fake.read"])).await);
    server.source.will_answer(json!({}));
    let mut held = server.source.will_hold(Ok(Output::new(json!({}))));
    let run = run(&server.owner, &id, json!({})).await;
    held.arrived().await;
    drop(working);
    let restarted = server.restart().await;
    restarted.pipeline.recover().await.unwrap();
    assert_eq!(restarted.store.free_all_runs().await, Ok(1));
    // By then the events are nobody's any more.
    restarted.clock.advance_seconds(11);
    let _working = restarted.work();
    let waits = waiting(&restarted.owner, &run).await;
    assert_eq!((&waits["waiting_for"], &waits["recoveries"]), (&json!("person"), &json!(1)), "nobody knows what became of it: {waits:#}");
    assert_eq!(waits["steps"].as_array().unwrap().len(), 1, "it goes on where it was");
    let path = format!("/api/v1/invocations/{}/settle", waits["invocation_id"].as_str().unwrap());
    restarted.owner.post(&path, json!({ "as": "succeeded", "reason": "I looked" })).await.ok();
    let shown = ended(&restarted.owner, &run).await;
    assert_eq!((&shown["status"], shown["steps"].as_array().unwrap().len()), (&json!("succeeded"), 3), "{shown:#}");
    let writes = restarted.source.calls().iter().filter(|call| call.action.as_str() == "fake.write").count();
    assert_eq!(writes, 1, "the effect is not repeated");
    restarted.verify().await;
}

async fn rolling_deploy_drains(kind: Kind) {
    let server = TestServer::start(kind).await;
    let working = server.work();
    let id = id_of(&saved(&server.owner, plan(&["fake.read", "fake.read"])).await);
    let mut held = server.source.will_hold(Ok(Output::new(json!({}))));
    let run = run(&server.owner, &id, json!({})).await;
    held.arrived().await;
    // Asked to stop in the middle of a step: that one ends, and the next is left to others.
    drop(working);
    tokio::time::sleep(Duration::from_millis(100)).await;
    held.release();
    for _ in 0..200 {
        let steps = server.owner.get(&format!("/api/v1/runs/{run}")).await.ok()["steps"].as_array().unwrap().len();
        if steps == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(server.source.calls().len(), 1, "nothing is begun while it drains");
    let _working = server.work();
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], &shown["recoveries"]), (&json!("succeeded"), &json!(0)), "it was given back, not lost: {shown:#}");
    assert_eq!(server.source.calls().len(), 2);
}

async fn cancel_with_dead_worker(kind: Kind) {
    let server = TestServer::start(kind).await;
    let id = id_of(&saved(&server.owner, plan(&["fake.read"])).await);
    let run = run(&server.owner, &id, json!({})).await;
    // A worker has it, and is never heard of again.
    let queues = ["fast", "medium", "long"].map(str::to_owned);
    assert_eq!(server.store.claim_runs(&queues, 1).await.unwrap().len(), 1);
    server.owner.post(&format!("/api/v1/runs/{run}/cancel"), json!({})).await.ok();
    let shown = server.owner.get(&format!("/api/v1/runs/{run}")).await.ok();
    assert_eq!(shown["status"], "running", "its worker may still be there");
    server.clock.advance_seconds(10);
    let _working = server.work();
    let shown = ended(&server.owner, &run).await;
    assert_eq!(shown["status"], "cancelled", "{shown:#}");
    assert_eq!(server.source.calls().len(), 0);
}

/// The call of the step goes its way, and its receipt says how it ended. Until then the step is not run again.
async fn a_cancel_does_not_wait_for_the_step(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let _working = server.work();
    let id = id_of(&saved(&server.owner, plan(&["fake.read", "fake.write", "fake.read"])).await);
    server.source.will_answer(json!({}));
    let mut held = server.source.will_hold(Ok(Output::new(json!({}))));
    let run = run(&server.owner, &id, json!({})).await;
    held.arrived().await;
    server.owner.post(&format!("/api/v1/runs/{run}/cancel"), json!({})).await.ok();
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], shown["steps"].as_array().unwrap().len()), (&json!("cancelled"), 2), "{shown:#}");
    let left = &shown["steps"][1];
    assert_eq!((&left["status"], &left["error"]["code"]), (&json!("failed"), &json!("cancelled")), "{shown:#}");
    let call = left["invocation_id"].as_str().unwrap();
    let status = async |path: &str| server.owner.get(path).await.ok()["invocation"]["status"].clone();
    assert_eq!(status(&format!("/api/v1/invocations/{call}")).await, "running", "nobody knows yet how it ends");
    let rerun = async || server.owner.post(&format!("/api/v1/runs/{run}/rerun"), json!({ "from_step": "step_1" })).await;
    rerun().await.problem(409, "rerun_refused");
    held.release();
    assert_eq!(status(&format!("/api/v1/invocations/{call}?wait=20s")).await, "succeeded");
    server.receipt_of(call).await;
    assert_eq!(server.source.calls().len(), 2, "nothing came after it");
    server.verify().await;
    rerun().await.ok();
}

/// A worker is killed between the reservation of a paid call and its outcome. The call may have been paid, so it counts, and the one that is
/// made in its place is paid too.
async fn budget_never_crossed(kind: Kind) {
    let server = TestServer::start(kind).await;
    forty_cents_for(&server, &["fake.read"]).await;
    let working = server.work();
    let mut definition = plan(&["fake.read", "fake.read", "fake.read"]);
    definition["execution"] = json!({ "budget_cap_usd": 1.0 });
    // So that the estimate leaves it out.
    definition["plan"][2]["when"] = json!("{{ run.attempt == 1 }}");
    let id = id_of(&saved(&server.owner, definition).await);
    let mut held = server.source.will_hold(Ok(Output::new(json!({}))));
    let run = run(&server.owner, &id, json!({})).await;
    held.arrived().await;
    drop(working);
    let restarted = server.restart().await;
    restarted.pipeline.recover().await.unwrap();
    assert_eq!(restarted.store.free_all_runs().await, Ok(1));
    let _working = restarted.work();
    let shown = ended(&restarted.owner, &run).await;
    assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("failed"), &json!("budget_exceeded")), "{shown:#}");
    assert_eq!(restarted.source.calls().len(), 2, "with a third call at forty cents it could have cost more than a dollar");
}

async fn events_that_come_together_start_one_run(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let config = json!({ "event_type": "drive.file_added", "batch": { "max": 2, "window_seconds": 60 } });
    let mut definition = plan(&["fake.read"]);
    definition["triggers"] = json!([{ "trigger_id": "added", "type": "event", "config": config }]);
    let events = json!({ "type": "array", "items": {} });
    definition["inputs"] = json!({ "schema": { "type": "object", "additionalProperties": false, "properties": { "events": events } } });
    let id = id_of(&saved(&server.owner, definition).await);
    let (group, space) = (GroupName::parse("automations").unwrap(), SpaceId::parse(&server.main_space().await).unwrap());
    while server.store.find_event_group(&server.org, &group).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let added = |n: u32| NewEvent {
        name: "drive.file_added".into(),
        key: format!("file {n}"),
        body: json!({ "n": n }).to_string(),
        origin: None,
        space: Some(space.clone()),
        cause: Cause::default(),
    };
    server.store.publish(&server.org, vec![added(1), added(2)]).await.unwrap();
    let mut runs = Vec::new();
    for _ in 0..200 {
        runs = server.owner.get(&format!("/api/v1/runs?automation={id}")).await.ok()["items"].as_array().unwrap().clone();
        if !runs.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let firings = server.owner.get(&format!("/api/v1/automations/{id}/firings")).await;
    assert_eq!(runs.len(), 1, "{runs:#?} {firings:?}");
    let shown = ended(&server.owner, runs[0]["id"].as_str().unwrap()).await;
    assert_eq!(shown["status"], "succeeded", "{shown:#}");
    let numbers: Vec<_> = shown["inputs"]["events"].as_array().unwrap().iter().map(|event| event["data"]["n"].clone()).collect();
    assert_eq!(numbers, [1, 2]);
    let firings = server.owner.get(&format!("/api/v1/automations/{id}/firings")).await.ok();
    let reasons: Vec<_> = firings["items"].as_array().unwrap().iter().map(|firing| firing["reason"].as_str().unwrap()).collect();
    assert!(reasons.len() == 2 && reasons.contains(&"on_time") && reasons.contains(&"batched"), "{firings:#}");
}

/// Each of them is shorter than an event may be, and all of them together are not as many as a batch may have.
async fn a_batch_of_long_events_does_not_wait_for_more(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let config = json!({ "event_type": "drive.file_added", "batch": { "max": 1_000, "window_seconds": 3_600 } });
    let mut definition = on_event(config, json!({ "events": "$.events[*].data.n" }));
    definition["inputs"]["schema"]["properties"]["events"] = json!({ "type": "array" });
    let id = id_of(&saved(&server.owner, definition).await);
    let space = SpaceId::parse(&server.main_space().await).unwrap();
    listening(&server).await;
    let many = TRIGGER_BATCH_BYTES_MAX / 200_000 + 1;
    let long = |n: i64| NewEvent {
        name: "drive.file_added".into(),
        key: format!("file {n}"),
        body: json!({ "n": n, "text": "x".repeat(200_000) }).to_string(),
        origin: None,
        space: Some(space.clone()),
        cause: Cause::default(),
    };
    server.store.publish(&server.org, (1..=many).map(long).collect()).await.unwrap();
    let run = whole(&server, &runs_of(&server, &id, 1).await[0]).await;
    assert_eq!(run["inputs"]["events"], json!((1..=many).collect::<Vec<_>>()), "nobody waits for the window to end: {run:#}");
}

/// The runs of an automation once there are so many.
async fn runs_of(server: &TestServer, id: &str, count: usize) -> Vec<Value> {
    let mut runs = Vec::new();
    for _ in 0..200 {
        runs = server.owner.get(&format!("/api/v1/runs?automation={id}")).await.ok()["items"].as_array().unwrap().clone();
        if runs.len() >= count {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(runs.len(), count, "{runs:#?}");
    runs
}

/// A run of a list, with all that is known of it.
async fn whole(server: &TestServer, run: &Value) -> Value {
    server.owner.get(&format!("/api/v1/runs/{}", run["id"].as_str().unwrap())).await.ok()
}

async fn a_replay_starts_nothing_twice_unless_under_new_ids(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let mut definition = plan(&["fake.read"]);
    let mapping = json!({ "again": "$.replay_of" });
    definition["triggers"] = json!([{ "type": "event", "config": { "event_type": "drive.file_added", "input_mapping": mapping } }]);
    definition["inputs"] = json!({ "schema": { "type": "object", "additionalProperties": false,
        "properties": { "again": { "type": "string", "default": "no" } } } });
    definition["execution"] = json!({ "concurrency": "allow_parallel" });
    let first = id_of(&saved(&server.owner, definition.clone()).await);
    let space = server.main_space().await;
    let publish = async |id: &str| {
        let event = json!({ "specversion": "1.0", "id": id, "source": "/drive", "type": "drive.file_added", "spaceid": space, "data": {} });
        let published = server.owner.post("/api/v1/events", json!([event])).await.ok();
        published["events"][0]["cursor"].as_str().unwrap().parse::<i64>().unwrap()
    };
    let path = "/api/v1/event-groups/automations/replay";
    while server.owner.get("/api/v1/event-groups/automations").await.status != 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let from = publish("a").await;
    runs_of(&server, &first, 1).await;
    server.owner.post(path, json!({ "from": from })).await.ok();
    // Whatever the replay starts is started before this.
    publish("b").await;
    runs_of(&server, &first, 2).await;
    let reasons: Vec<_> = firings(&server, &first).await.into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(reasons, ["on_time", "on_time", "same_event"], "what starts nothing twice is in the ledger");

    // What was saved since gets them, though no further event comes.
    definition["name"] = json!("Saved since");
    server.clock.advance_ms(1);
    let second = id_of(&saved(&server.owner, definition).await);
    server.owner.post(path, json!({ "from": from })).await.ok();
    runs_of(&server, &second, 2).await;
    runs_of(&server, &first, 2).await;

    let replayed = server.owner.post(path, json!({ "from": from, "new_ids": true })).await.ok();
    assert!(replayed["replayed"].as_u64().unwrap() > 2, "{replayed}");
    for id in [&first, &second] {
        let runs = runs_of(&server, id, 4).await;
        let mut again = Vec::new();
        for run in &runs {
            again.push(ended(&server.owner, run["id"].as_str().unwrap()).await["inputs"]["again"].as_str().unwrap().to_owned());
        }
        again.sort();
        assert_eq!(again, ["a", "b", "no", "no"], "what they replay");
    }
    for wrong in [json!({ "dead_letters": true, "new_ids": true }), json!({ "new_ids": true })] {
        server.owner.post(path, wrong).await.problem(400, "invalid_request");
    }
    server.owner.send(Method::PUT, "/api/v1/event-groups/billing", Some(json!({}))).await.ok();
    let other = "/api/v1/event-groups/billing/replay";
    server.owner.post(other, json!({ "from": from, "new_ids": true })).await.problem(400, "invalid_request");
}

async fn hooked(server: &TestServer) -> (String, String) {
    hooked_by(server, json!({ "trigger_id": "hook", "type": "webhook" })).await
}

async fn hooked_by(server: &TestServer, hook: Value) -> (String, String) {
    let mut definition = with_triggers(json!([hook]));
    definition["plan"].as_array_mut().unwrap().truncate(1);
    definition["execution"] = json!({ "concurrency": "allow_parallel" });
    let saved = saved(&server.owner, definition).await;
    (id_of(&saved), format!("Bearer {}", saved["tokens"][0]["token"].as_str().unwrap()))
}

async fn same_key_replays(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (id, bearer) = hooked(&server).await;
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "k1")];
    let first = fire(&server, &id, &headers, r#"{"text": "a"}"#).await;
    let again = fire(&server, &id, &headers, r#"{ "text":"a" }"#).await;
    assert_eq!((first.status, again.status), (202, 202));
    assert_eq!((&first.body["run_id"], &first.body["firing_id"]), (&again.body["run_id"], &again.body["firing_id"]));
    assert_eq!(again.headers["idempotent-replayed"], "true");
    assert_eq!(server.owner.get(&format!("/api/v1/runs?automation={id}")).await.ok()["items"].as_array().unwrap().len(), 1);
    fire(&server, &id, &headers, r#"{"text": "a"}"#).await.ok();
    assert_eq!(firings(&server, &id).await, of_reasons(&[("on_time", 1), ("same_key", 2)]), "it is in the ledger");
}

async fn a_plan_whose_action_is_gone_starts_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (id, bearer) = hooked(&server).await;
    server.source.withdraw("read");
    let fired = fire(&server, &id, &[("authorization", bearer.as_str())], "{}").await.ok();
    let expected = (&json!("refused"), &json!("action_unavailable"), &Value::Null);
    assert_eq!((&fired["outcome"], &fired["reason"], &fired["run_id"]), expected, "{fired:#}");
    let listed = server.owner.get(&format!("/api/v1/automations/{id}/firings")).await.ok();
    assert!(listed["items"][0]["detail"].as_str().unwrap().contains("`fake.read`"), "{listed:#}");
}

async fn same_key_other_body_422(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (id, bearer) = hooked(&server).await;
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "k1")];
    assert_eq!(fire(&server, &id, &headers, r#"{"text": "a"}"#).await.status, 202);
    fire(&server, &id, &headers, r#"{"text": "b"}"#).await.problem(422, "idempotency_key_reused");
}

/// Two integers that are one double stay two: in events, webhooks and definitions.
async fn numbers_and_keys_exact(kind: Kind) {
    const LARGE: u64 = 9_007_199_254_740_993;
    let server = TestServer::start_with_documents(kind).await;
    let _working = server.work();
    let owner = &server.owner;
    let event = |n: u64| {
        json!({ "specversion": "1.0", "id": n.to_string(), "source": "/drive", "type": "drive.file_added", "subject": n.to_string(),
            "spaceid": "main", "data": { "n": n } })
    };
    let published = owner.post("/api/v1/events", json!([event(LARGE), event(LARGE - 1)])).await.ok();
    let position = published["events"][0]["cursor"].as_str().unwrap();
    assert_eq!(owner.get(&format!("/api/v1/events/{position}")).await.ok()["data"]["n"], LARGE);
    let tried = owner.post("/api/v1/filters/test", json!({ "event_type": "drive.*", "filters": { "data.n": LARGE } })).await.ok();
    assert_eq!((&tried["matching"], &tried["events"][1]["matches"]), (&json!(1), &json!(true)), "{tried:#}");

    let hooked = async |action: &str, config: Value| {
        let mut definition = plan(&[action]);
        definition["name"] = json!(format!("Calls {action}"));
        definition["triggers"] = json!([{ "trigger_id": "hook", "type": "webhook" }]);
        let schema = json!({ "type": "object", "additionalProperties": false, "properties": { "n": { "type": "integer" } } });
        definition["inputs"] = json!({ "schema": schema });
        definition["plan"][0]["config"] = config;
        let made = saved(owner, definition).await;
        (id_of(&made), format!("Bearer {}", made["tokens"][0]["token"].as_str().unwrap()))
    };
    let (id, bearer) = hooked("fake.read", json!({ "text": "number {{ inputs.n }}" })).await;
    let keyed = [("authorization", bearer.as_str()), ("idempotency-key", "k1")];
    let first = fire(&server, &id, &keyed, &format!(r#"{{"n": {LARGE}}}"#)).await;
    assert_eq!(first.status, 202, "{first:?}");
    fire(&server, &id, &keyed, &format!(r#"{{"n": {}}}"#, LARGE - 1)).await.problem(422, "idempotency_key_reused");
    let shown = ended(owner, first.body["run_id"].as_str().unwrap()).await;
    assert_eq!((&shown["inputs"]["n"], &shown["status"]), (&json!(LARGE), &json!("succeeded")), "{shown:#}");
    assert_eq!(server.source.calls()[0].params["text"], format!("number {LARGE}"));
    // As a number it would change when the call is signed, so no such call is made.
    let (signed, its_bearer) = hooked("builtin.transform_data", json!({ "value": "{{ inputs.n }}" })).await;
    let fired = fire(&server, &signed, &[("authorization", its_bearer.as_str())], &format!(r#"{{"n": {LARGE}}}"#)).await;
    let shown = ended(owner, fired.body["run_id"].as_str().unwrap()).await;
    assert_eq!((&shown["status"], server.source.calls().len()), (&json!("failed"), 1), "{shown:#}");

    let filtered = |n: u64| {
        let mut definition = plan(&["fake.read"]);
        definition["name"] = json!(format!("For {n}"));
        let config = json!({ "event_type": "drive.file_added", "filters": { "data.n": n } });
        definition["triggers"] = json!([{ "trigger_id": "added", "type": "event", "config": config }]);
        definition
    };
    let (one, other) = (saved(owner, filtered(LARGE)).await, saved(owner, filtered(LARGE - 1)).await);
    assert_ne!(one["automation"]["digest"], other["automation"]["digest"]);
    let stored = owner.get(&format!("/api/v1/automations/{}", id_of(&one))).await.ok();
    assert_eq!(stored["definition"]["triggers"][0]["config"]["filters"]["data.n"]["equals"], LARGE, "{stored:#}");

    for wrong in [r#"{"n": 1, "n": 2}"#, r#"{"n": 18446744073709551616}"#, r#"{"n": 1e400}"#] {
        fire(&server, &id, &[("authorization", bearer.as_str())], wrong).await.problem(400, "malformed_json");
        for (path, body) in [
            ("events", format!(r#"{{"specversion": "1.0", "id": "x", "source": "/x", "type": "x.y", "data": {wrong}}}"#)),
            ("automations", format!(r#"{{"definition": {wrong}}}"#)),
        ] {
            let request = owner.http.post(format!("{}/api/v1/{path}", server.url)).bearer_auth(&owner.token);
            let sent = request.header("content-type", "application/json").body(body).send().await.unwrap();
            Answer::of(sent).await.problem(400, "malformed_json");
        }
    }
}

/// A run does what its version says, also if it only waits its turn.
async fn edit_while_running(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let mut definition = digest();
    definition["execution"] = json!({ "concurrency": "queue" });
    let id = id_of(&saved(&server.owner, definition.clone()).await);
    let first = run(&server.owner, &id, json!({ "text": "one" })).await;
    let second = run(&server.owner, &id, json!({ "text": "two" })).await;
    let mut waits = waiting(&server.owner, &first).await;
    definition["plan"][1]["config"]["text"] = json!("edited");
    server.clock.advance_ms(1);
    edit(&server, &id, &definition).await;
    let third = run(&server.owner, &id, json!({ "text": "three" })).await;
    for (run, version) in [(&first, 1), (&second, 1), (&third, 2)] {
        if waits["id"] != json!(run) {
            waits = waiting(&server.owner, run).await;
        }
        server.owner.approve(waits["invocation_id"].as_str().unwrap()).await.ok();
        let shown = ended(&server.owner, run).await;
        assert_eq!((&shown["status"], &shown["version"]), (&json!("succeeded"), &json!(version)), "{shown:#}");
    }
    let calls = server.source.calls();
    let written: Vec<_> = calls.iter().filter(|call| call.action.as_str() == "fake.write").map(|call| &call.params["text"]).collect();
    assert_eq!(written, ["one", "two", "edited"]);
}

/// A schedule that was edited or enabled goes on from now.
async fn schedule_edit_disable_enable(kind: Kind) {
    let server = TestServer::start(kind).await;
    let hourly = json!([{ "trigger_id": "hourly", "type": "schedule", "config": { "cron": "0 * * * *", "timezone": "UTC" } }]);
    let mut definition = with_triggers(hourly);
    definition["execution"] = json!({ "concurrency": "allow_parallel" });
    let id = id_of(&saved(&server.owner, definition.clone()).await);
    let path = format!("/api/v1/automations/{id}");
    let fired = async || {
        server.engine.handle_due_schedules().await.unwrap();
        server.owner.get(&format!("{path}/firings?outcome=started")).await.ok()["items"].as_array().unwrap().len()
    };
    server.owner.post(&format!("{path}/triggers/hourly/disable"), json!({})).await.ok();
    server.clock.advance_seconds(5 * 3_600);
    assert_eq!(fired().await, 0, "it is disabled");
    server.owner.post(&format!("{path}/triggers/hourly/enable"), json!({})).await.ok();
    assert_eq!(fired().await, 0, "what it missed is not made up for");
    server.clock.advance_seconds(3_600);
    assert_eq!(fired().await, 1);
    // Three ticks are missed while nobody looks, and then it is edited.
    server.clock.advance_seconds(3 * 3_600 + 60);
    definition["goal"] = json!("To start from now.");
    edit(&server, &id, &definition).await;
    assert_eq!(fired().await, 1);
    server.clock.advance_seconds(3_600 - 60);
    assert_eq!(fired().await, 2);
    // What it missed is made up for if a person asks for that.
    server.owner.post(&format!("{path}/triggers/hourly/disable"), json!({})).await.ok();
    server.clock.advance_seconds(3 * 3_600 + 600);
    server.owner.post(&format!("{path}/triggers/hourly/enable"), json!({ "catch_up": true })).await.ok();
    assert_eq!(fired().await, 3, "the last tick runs, and no other");
    let firings = server.owner.get(&format!("{path}/firings")).await.ok();
    let of = |reason: &str| firings["items"].as_array().unwrap().iter().find(|firing| firing["reason"] == reason).cloned();
    assert!(of("caught_up").is_some_and(|firing| firing["run_id"].is_string()), "{firings:#}");
    assert_eq!(of("superseded").unwrap()["count"], 2, "{firings:#}");
}

/// An automation that fires every hour.
async fn hourly(server: &TestServer) -> String {
    let mut definition = plan(&["fake.read"]);
    let config = json!({ "cron": "0 * * * *", "timezone": "UTC" });
    definition["triggers"] = json!([{ "trigger_id": "hourly", "type": "schedule", "config": config }]);
    definition["execution"] = json!({ "concurrency": "allow_parallel" });
    id_of(&saved(&server.owner, definition).await)
}

/// The reasons of all firings of an automation, each with how many it stands for, sorted.
async fn firings(server: &TestServer, id: &str) -> Vec<(String, u64)> {
    let listed = server.owner.get(&format!("/api/v1/automations/{id}/firings")).await.ok();
    let firing = |one: &Value| (one["reason"].as_str().unwrap().to_owned(), one["count"].as_u64().unwrap());
    let mut firings: Vec<_> = listed["items"].as_array().unwrap().iter().map(firing).collect();
    firings.sort();
    firings
}

fn of_reasons(reasons: &[(&str, u64)]) -> Vec<(String, u64)> {
    reasons.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
}

/// The events of this name since a place in the log.
async fn told(server: &TestServer, after: i64, name: &str) -> Vec<Event> {
    let events = server.store.list_events_after(&server.org, after, 500).await.unwrap();
    events.into_iter().filter(|event| event.name == name).collect()
}

async fn metrics(server: &TestServer) -> String {
    server.owner.get("/metrics").await.body.as_str().unwrap().to_owned()
}

/// The clock is a year ahead for a while. Once it is back, the schedule goes on from there, and that is told once.
async fn clock_far_forward_and_back(kind: Kind) {
    let server = TestServer::start(kind).await;
    let id = hourly(&server).await;
    let (began, before) = (server.clock.now(), server.store.newest_event(&server.org).await.unwrap());
    let far = began.plus_seconds(365 * 24 * 3_600);
    server.clock.set(far);
    server.engine.handle_due_schedules().await.unwrap();
    server.clock.set(began.plus_seconds(60));
    assert_eq!(firings(&server, &id).await, of_reasons(&[("on_time", 1), ("superseded", 8_759)]), "no year of runs");
    for _ in 0..2 {
        server.engine.mend().await.unwrap();
    }
    let corrected = told(&server, before, "automation.clock_corrected").await;
    assert_eq!(corrected.len(), 1, "{corrected:#?}");
    let body: Value = serde_json::from_str(&corrected[0].body).unwrap();
    assert_eq!((&body["was"], &body["is"]), (&json!(far), &json!(server.clock.now())), "{body:#}");
    assert!(metrics(&server).await.contains(r#"countersign_mended_total{what="high_water"}"#));
    server.clock.set(began.plus_seconds(3_600));
    server.engine.handle_due_schedules().await.unwrap();
    assert_eq!(firings(&server, &id).await, of_reasons(&[("on_time", 1), ("on_time", 1), ("superseded", 8_759)]));
}

async fn a_schedule_that_lost_its_next_time_goes_on(kind: Kind) {
    let server = TestServer::start(kind).await;
    let id = hourly(&server).await;
    let automation = AutomationId::parse(&id).unwrap();
    let trigger = server.store.find_trigger(&server.org, &automation, "hourly").await.unwrap().unwrap();
    let lost = PassedTicks {
        org: server.org.clone(),
        automation,
        trigger: "hourly".to_owned(),
        from: trigger.high_water,
        high_water: trigger.high_water.unwrap(),
        next_due_at: None,
        skipped: Vec::new(),
        mended: None,
    };
    assert_eq!(server.store.pass_ticks(lost).await, Ok(true));
    let before = server.store.newest_event(&server.org).await.unwrap();
    server.clock.advance_seconds(3_600);
    server.engine.handle_due_schedules().await.unwrap();
    assert!(firings(&server, &id).await.is_empty(), "nothing else would fire it any more");
    for _ in 0..2 {
        server.engine.mend().await.unwrap();
    }
    assert_eq!(firings(&server, &id).await, of_reasons(&[("on_time", 1)]));
    let mended = told(&server, before, "automation.mended").await;
    assert_eq!(mended.len(), 1, "{mended:#?}");
    let body: Value = serde_json::from_str(&mended[0].body).unwrap();
    assert_eq!((&body["trigger_id"], &body["what"]), (&json!("hourly"), &json!("next_due")), "{body:#}");
    assert!(metrics(&server).await.contains(r#"countersign_mended_total{what="next_due"}"#));
    server.clock.advance_seconds(3_600);
    server.engine.handle_due_schedules().await.unwrap();
    assert_eq!(firings(&server, &id).await, of_reasons(&[("on_time", 1), ("on_time", 1)]));
}

/// What a schedule does not run because a person stopped it is told once the person lets it go on.
async fn what_a_pause_leaves_out_is_one_row(kind: Kind) {
    let server = TestServer::start(kind).await;
    let id = hourly(&server).await;
    let post = async |verb: &str| server.owner.post(&format!("/api/v1/automations/{id}/{verb}"), json!({})).await.ok();
    post("pause").await;
    server.clock.advance_seconds(5 * 3_600);
    post("resume").await;
    assert_eq!(firings(&server, &id).await, of_reasons(&[("paused", 5)]));
    post("triggers/hourly/disable").await;
    server.clock.advance_seconds(2 * 3_600);
    for _ in 0..2 {
        post("triggers/hourly/enable").await;
    }
    assert_eq!(firings(&server, &id).await, of_reasons(&[("disabled", 2), ("paused", 5)]));
    // Stopped twice over, it is told when the last of both ends.
    post("triggers/hourly/disable").await;
    post("pause").await;
    server.clock.advance_seconds(3_600);
    post("resume").await;
    assert_eq!(firings(&server, &id).await, of_reasons(&[("disabled", 2), ("paused", 5)]));
    post("triggers/hourly/enable").await;
    server.clock.advance_seconds(3_600);
    server.engine.handle_due_schedules().await.unwrap();
    assert_eq!(firings(&server, &id).await, of_reasons(&[("disabled", 1), ("disabled", 2), ("on_time", 1), ("paused", 5)]));
}

/// An automation that is fired by these events, and whose inputs are what the mapping takes from them.
fn on_event(config: Value, mapping: Value) -> Value {
    let mut definition = plan(&["fake.read"]);
    let names: Vec<_> = mapping.as_object().unwrap().keys().map(|name| (name.clone(), json!({}))).collect();
    let properties: serde_json::Map<String, Value> = names.into_iter().collect();
    definition["inputs"] = json!({ "schema": { "type": "object", "additionalProperties": false, "properties": properties } });
    definition["triggers"] = json!([{ "trigger_id": "heard", "type": "event", "config": config }]);
    definition["triggers"][0]["config"]["input_mapping"] = mapping;
    definition["execution"] = json!({ "concurrency": "allow_parallel" });
    definition
}

/// Waits until the server listens to events: those before it are not heard.
async fn listening(server: &TestServer) {
    while server.owner.get("/api/v1/event-groups/automations").await.status != 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Publishes an event as others do.
async fn publish(server: &TestServer, name: &str, id: &str, space: Option<&str>, data: Value) {
    let mut event = json!({ "specversion": "1.0", "id": id, "source": "/elsewhere", "type": name, "data": data });
    if let Some(space) = space {
        event["spaceid"] = json!(space);
    }
    server.owner.post("/api/v1/events", json!([event])).await.ok();
}

/// One of the inputs of so many runs, sorted.
async fn inputs_of(server: &TestServer, id: &str, name: &str, count: usize) -> Vec<String> {
    let mut inputs = Vec::new();
    for run in runs_of(server, id, count).await {
        inputs.push(whole(server, &run).await["inputs"][name].to_string());
    }
    inputs.sort();
    inputs
}

/// No search is made that would take too long: its trigger is disabled instead, and people are told.
async fn a_filter_that_takes_too_much_work_is_suspended_and_the_others_go_on(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let filtered = |name: &str, filters: Value| {
        let mut definition = on_event(json!({ "event_type": "issue.moved", "filters": filters }), json!({ "n": "$.data.n" }));
        definition["name"] = json!(name);
        definition
    };
    let costly = json!({ "data.text": { "regex": "[ab]*a[ab]{400}" } });
    let dear = id_of(&saved(&server.owner, filtered("Dear", costly.clone())).await);
    // Its automaton is as large for whoever makes it while it searches, and small as a table.
    let cheap = id_of(&saved(&server.owner, filtered("Cheap", json!({ "data.text": { "regex": "[a-z]{1,480}[0-9]" } }))).await);
    let space = server.main_space().await;
    listening(&server).await;
    let text = |end: &str| format!("{}{end}", "ab".repeat(7_000));
    publish(&server, "issue.moved", "1", Some(&space), json!({ "n": 1, "text": "ab" })).await;
    publish(&server, "issue.moved", "2", Some(&space), json!({ "n": 2, "text": text("7") })).await;
    publish(&server, "issue.moved", "3", Some(&space), json!({ "n": 3, "text": text("8") })).await;
    assert_eq!(inputs_of(&server, &cheap, "n", 2).await, ["2", "3"]);
    let reasons: Vec<_> = firings(&server, &dear).await.into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(reasons, ["filter_too_costly"]);
    let triggers = server.owner.get(&format!("/api/v1/automations/{dear}/triggers")).await.ok();
    let heard = &triggers["items"][0];
    assert_eq!(
        (&heard["enabled"], &heard["disabled_why"]),
        (&json!(false), &json!("its filter would take too much work for an event of type `issue.moved`"))
    );
    let notified = server.owner.get("/api/v1/notifications").await.ok();
    assert!(notified["items"][0]["body"].as_str().unwrap().contains("too much work"), "{notified:#}");
    // Whoever tries it is told the same.
    let tried = server.owner.post("/api/v1/filters/test", json!({ "event_type": "issue.moved", "filters": costly })).await;
    assert_eq!(tried.body["mistakes"][0]["code"], "filter_too_costly", "{tried:?}");
    tried.problem(422, "definition_invalid");
}

/// The same bound holds for what is sent to a webhook, and its sender is told.
async fn a_webhook_whose_filter_takes_too_much_work_is_disabled(kind: Kind) {
    let server = TestServer::start(kind).await;
    let config = json!({ "filters": { "event.text": { "regex": "[ab]*a[ab]{400}" } } });
    let (id, bearer) = hooked_by(&server, json!({ "trigger_id": "hook", "type": "webhook", "config": config })).await;
    let headers = [("authorization", bearer.as_str())];
    let sent = |text: String| json!({ "text": text }).to_string();
    let fired = fire(&server, &id, &headers, &sent("ab".to_owned())).await.ok();
    assert_eq!(fired["reason"], "filtered");
    fire(&server, &id, &headers, &sent("ab".repeat(7_000))).await.problem(409, "trigger_disabled");
    assert_eq!(firings(&server, &id).await, of_reasons(&[("filter_too_costly", 1), ("filtered", 1)]));
    let listed = server.owner.get(&format!("/api/v1/automations/{id}/triggers")).await.ok();
    let hook = (&listed["items"][0]["enabled"], &listed["items"][0]["disabled_why"]);
    assert_eq!(hook, (&json!(false), &json!("its filter would take too much work for what was sent")), "{listed:#}");
    fire(&server, &id, &headers, &sent("ab".to_owned())).await.problem(409, "trigger_disabled");
}

/// The edit is saved at the same time as what was there before, and counts all the same from the next event on.
async fn filter_edit_leaves_no_ghost(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let filtered = |state: &str| {
        let config = json!({ "event_type": "issue.moved", "filters": { "data.state": state } });
        on_event(config, json!({ "state": "$.data.state" }))
    };
    let id = id_of(&saved(&server.owner, filtered("open")).await);
    let space = server.main_space().await;
    listening(&server).await;
    publish(&server, "issue.moved", "1", Some(&space), json!({ "state": "open" })).await;
    runs_of(&server, &id, 1).await;
    edit(&server, &id, &filtered("closed")).await;
    for (event, state) in [("2", "open"), ("3", "closed")] {
        publish(&server, "issue.moved", event, Some(&space), json!({ "state": state })).await;
    }
    assert_eq!(inputs_of(&server, &id, "state", 2).await, [r#""closed""#, r#""open""#]);
    assert_eq!(firings(&server, &id).await, of_reasons(&[("on_time", 1), ("on_time", 1)]));
}

/// Once the automation goes on, a replay may still start what it did not.
async fn what_a_stopped_automation_does_not_hear_is_counted(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let id = id_of(&saved(&server.owner, on_event(json!({ "event_type": "drive.file_added" }), json!({ "event": "$.id" }))).await);
    let space = server.main_space().await;
    listening(&server).await;
    let post = async |verb: &str| server.owner.post(&format!("/api/v1/automations/{id}/{verb}"), json!({})).await.ok();
    let add = async |event: &str| publish(&server, "drive.file_added", event, Some(&space), json!({})).await;
    post("pause").await;
    for event in ["1", "2"] {
        add(event).await;
    }
    publish(&server, "drive.file_removed", "3", Some(&space), json!({})).await;
    let counted = async |expected: &[(&str, u64)]| {
        while firings(&server, &id).await != of_reasons(expected) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    counted(&[("paused", 2)]).await;
    post("resume").await;
    post("triggers/heard/disable").await;
    add("4").await;
    counted(&[("disabled", 1), ("paused", 2)]).await;
    post("triggers/heard/enable").await;
    let replay = json!({ "from": 1 });
    server.owner.post("/api/v1/event-groups/automations/replay", replay).await.ok();
    assert_eq!(inputs_of(&server, &id, "event", 3).await, [r#""1""#, r#""2""#, r#""4""#]);
}

async fn an_archived_automation_takes_its_questions_back(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let id = id_of(&saved(&server.owner, plan(&["fake.write"])).await);
    let run = run(&server.owner, &id, json!({})).await;
    let call = waiting(&server.owner, &run).await["invocation_id"].as_str().unwrap().to_owned();
    server.owner.post(&format!("/api/v1/automations/{id}/archive"), json!({})).await.ok();
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("failed"), &json!("automation_archived")), "{shown:#}");
    let call = server.owner.get(&format!("/api/v1/invocations/{call}")).await.ok()["invocation"].clone();
    assert_eq!(call["status"], "cancelled", "{call:#}");
    edited(&server, &id, &plan(&["fake.read"])).await.problem(409, "automation_archived");
}

/// Who publishes an event says in `spaceid` alone where it belongs, and is asked whether they may. What led to it they do not say at all.
async fn the_data_of_an_event_chooses_neither_its_space_nor_its_chain(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let config = json!({ "event_type": "drive.file_added" });
    let id = id_of(&saved(&server.owner, on_event(config, json!({ "event": "$.id" }))).await);
    let space = server.main_space().await;
    listening(&server).await;
    publish(&server, "drive.file_added", "1", Some(&space), json!({})).await;
    let first = runs_of(&server, &id, 1).await[0]["id"].clone();
    publish(&server, "drive.file_added", "2", None, json!({ "space_id": space })).await;
    // As if a run of the same automation had led to it: that would be refused.
    publish(&server, "drive.file_added", "3", Some(&space), json!({ "trace_id": first })).await;
    assert_eq!(inputs_of(&server, &id, "event", 2).await, [r#""1""#, r#""3""#]);
}

/// What is about an automation belongs to its space, and what is about a space with members stays there.
async fn what_is_about_the_whole_org_fires_automations_of_every_space(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (owner, _working) = (&server.owner, server.work());
    let created = async |name: &str| owner.post("/api/v1/spaces", json!({ "name": name })).await.ok()["id"].as_str().unwrap().to_owned();
    let (side, closed) = (created("side").await, created("closed").await);
    let user = owner.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    owner.post(&format!("/api/v1/spaces/{closed}/members"), json!({ "user_id": user })).await.ok();
    let saved_in = async |space: &str, definition: Value| {
        let mut definition = definition;
        definition["name"] = json!(format!("{} {}", space, definition["triggers"][0]["config"]["event_type"]));
        id_of(&owner.post("/api/v1/automations", json!({ "space": space, "definition": definition })).await.ok())
    };
    let hears =
        async |space: &str, name: &str| saved_in(space, on_event(json!({ "event_type": name }), json!({ "of": "$.subject" }))).await;
    listening(&server).await;

    let drifted = [hears("main", "action.drifted").await, hears("side", "action.drifted").await, hears("closed", "action.drifted").await];
    owner.review("fake.write").await;
    server.source.redefine("write", |action| action.description = "Something else.".into());
    server.agent().await.pending("fake.write", json!({})).await;
    for id in &drifted {
        assert_eq!(inputs_of(&server, id, "of", 1).await, [r#""fake.write""#]);
    }
    let away = hears("main", "source.unavailable").await;
    server.store.note_listing(&server.org, &SourceId::parse("tracker").unwrap(), Some(&busy(1))).await.unwrap();
    assert_eq!(inputs_of(&server, &away, "of", 1).await, [r#""tracker""#]);

    // Each of these would fire before the next, which does.
    let (in_main, in_side) = (hears("main", "automation.paused").await, hears("side", "automation.paused").await);
    let (other, own) = (saved_in("side", plan(&["fake.read"])).await, saved_in("main", plan(&["fake.read"])).await);
    for id in [&other, &own] {
        owner.post(&format!("/api/v1/automations/{id}/pause"), json!({})).await.ok();
    }
    assert_eq!(inputs_of(&server, &in_main, "of", 1).await, [format!("\"{own}\"")]);
    assert_eq!(inputs_of(&server, &in_side, "of", 1).await, [format!("\"{other}\"")]);
    let (in_main, in_closed) = (hears("main", "space.changed").await, hears("closed", "space.changed").await);
    for id in [&closed, &side] {
        owner.send(Method::PATCH, &format!("/api/v1/spaces/{id}"), Some(json!({ "band": "amber" }))).await.ok();
    }
    assert_eq!(inputs_of(&server, &in_main, "of", 1).await, [format!("\"{side}\"")]);
    assert_eq!(inputs_of(&server, &in_closed, "of", 2).await.len(), 2);
    // Whoever tries a filter is told the same.
    let tried = async |space: &str| {
        let tried = owner.post("/api/v1/filters/test", json!({ "event_type": "space.changed", "space": space })).await.ok();
        tried["events"].as_array().unwrap().iter().map(|one| one["subject"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(tried("main").await, std::slice::from_ref(&side));
    assert_eq!(tried("closed").await, [side, closed.clone(), closed]);
}

async fn events_that_are_forgotten_before_they_are_handled_are_counted(kind: Kind) {
    let server = TestServer::start(kind).await;
    // As if nobody had listened for a week.
    let group = GroupName::parse("automations").unwrap();
    server.store.subscribe(&server.org, NewGroup::ours(group.clone(), Start::Now)).await.unwrap();
    let at = server.store.newest_event(&server.org).await.unwrap();
    publish(&server, "drive.file_added", "1", None, json!({})).await;
    server.clock.advance_seconds(8 * 24 * 60 * 60);
    server.owner.set_mode("fake.write", "allow").await;
    server.store.forget_old(&server.org).await.unwrap();
    let lost = u64::try_from(server.store.oldest_event(&server.org).await.unwrap() - at - 1).unwrap();
    assert!(lost > 0);
    let _working = server.work();
    let mut found = server.store.find_event_group(&server.org, &group).await.unwrap().unwrap();
    for _ in 0..200 {
        if found.lost > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        found = server.store.find_event_group(&server.org, &group).await.unwrap().unwrap();
    }
    assert_eq!((found.lost, found.overtaken_at.is_some()), (lost, true), "{found:?}");
    assert_eq!(told(&server, at, "event_group.overtaken").await.len(), 1);
}

/// What the event needs is broken in the database. It is tried again and then given up; it is handled once that is mended and somebody asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_cannot_be_handled_is_given_up_and_the_others_go_on() {
    let server = TestServer::start(Kind::Sqlite).await;
    let _working = server.work();
    let mut other = plan(&["fake.read"]);
    other["name"] = json!("Led to it");
    let cause = run(&server.owner, &id_of(&saved(&server.owner, other).await), json!({})).await;
    ended(&server.owner, &cause).await;
    let config = json!({ "event_type": "drive.file_added" });
    let id = id_of(&saved(&server.owner, on_event(config, json!({ "n": "$.data.n" }))).await);
    let space = SpaceId::parse(&server.main_space().await).unwrap();
    listening(&server).await;
    server.home.tamper(&format!("CREATE TABLE kept AS SELECT id, body FROM runs; UPDATE runs SET body = 'broken' WHERE id = '{cause}'"));
    let event = |name: &str, n: u32, trace: &str| NewEvent {
        name: name.into(),
        key: format!("file {n}"),
        body: json!({ "n": n, "trace_id": trace }).to_string(),
        origin: None,
        space: Some(space.clone()),
        cause: Cause::default(),
    };
    server.store.publish(&server.org, vec![event("drive.file_added", 1, &cause), event("drive.file_added", 2, "-")]).await.unwrap();
    let second = whole(&server, &runs_of(&server, &id, 1).await[0]).await;
    assert_eq!(second["inputs"]["n"], 2, "it does not wait for the first: {second:#}");
    ended(&server.owner, second["id"].as_str().unwrap()).await;
    let letters = async || server.owner.get("/api/v1/dead-letters").await.ok()["items"].as_array().unwrap().clone();
    let mut given_up = letters().await;
    for _ in 0..200 {
        if !given_up.is_empty() {
            break;
        }
        server.clock.advance_seconds(60);
        // Whoever waits for an event looks again.
        server.store.publish(&server.org, vec![event("drive.file_removed", 3, "-")]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        given_up = letters().await;
    }
    assert_eq!(given_up.len(), 1, "{given_up:#?}");
    let letter = &given_up[0];
    assert_eq!((&letter["place"], &letter["attempts"]), (&json!("automations"), &json!(5)), "{letter:#}");
    server.home.tamper("UPDATE runs SET body = (SELECT body FROM kept WHERE kept.id = runs.id) WHERE body = 'broken'");
    server.owner.post(&format!("/api/v1/dead-letters/{}/retry", letter["id"].as_str().unwrap()), json!({})).await.ok();
    assert_eq!(inputs_of(&server, &id, "n", 2).await, ["1", "2"]);
    assert!(letters().await.is_empty());
}

/// A run tells whoever it calls what led to the call. If that comes back, the loop ends.
async fn self_trigger_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let (id, bearer) = hooked(&server).await;
    let auth = ("authorization", bearer.as_str());
    let first = fire(&server, &id, &[auth], "{}").await;
    ended(&server.owner, first.body["run_id"].as_str().unwrap()).await;
    let chain = server.source.calls()[0].context.chain.clone().unwrap();
    let back = fire(&server, &id, &[auth, ("countersign-chain", &chain)], "{}").await;
    assert_eq!((&back.body["outcome"], &back.body["reason"]), (&json!("refused"), &json!("loop_guard")), "{back:?}");
    let forged = chain.replace("v1;", "v1;aut_00000000000000000000000000,");
    let other = fire(&server, &id, &[auth, ("countersign-chain", &forged)], "{}").await;
    assert_eq!(other.body["outcome"], "started", "what this org did not sign says nothing: {other:?}");
    // Calls that no automation makes have no chain.
    server.agent().await.invoke("fake.read", json!({})).await.ok();
    assert!(server.source.calls().iter().any(|call| call.context.chain.is_none()));
}

/// The header of a request and the `_meta` of an MCP call, as they arrive at others.
async fn what_a_run_sends_says_what_led_to_it(kind: Kind) {
    let upstream = Upstream::start().await;
    let server = TestServer::start_whole(kind, &[&upstream.url]).await;
    let _working = server.work();
    server.owner.set_mode("http.request", "allow").await;
    server.owner.consent("http.request").await;
    server.owner.post("/api/v1/sources", json!({ "name": "kit", "url": upstream.mcp(), "trust_hints": true })).await.ok();
    let request = json!({ "method": "POST", "url": upstream.mcp(), "headers": { "content-type": "application/json" },
        "body": r#"{ "id": 1, "method": "prompts/list" }"# });
    let mut definition = plan(&[]);
    definition["triggers"] = json!([{ "trigger_id": "hook", "type": "webhook" }]);
    definition["plan"] = json!([
        { "step_id": "send", "action": "http.request", "config": request },
        { "step_id": "look", "action": "kit.look", "config": { "text": "x" } },
    ]);
    let made = saved(&server.owner, definition).await;
    let (id, bearer) = (id_of(&made), format!("Bearer {}", made["tokens"][0]["token"].as_str().unwrap()));
    let auth = ("authorization", bearer.as_str());
    let fired = fire(&server, &id, &[auth], "{}").await.ok();
    let shown = ended(&server.owner, fired["run_id"].as_str().unwrap()).await;
    assert_eq!(shown["status"], "succeeded", "{shown:#}");
    let chains = upstream.chains();
    assert!(chains.len() == 2 && chains[0] == chains[1] && chains[0].starts_with(&format!("v1;{id};")), "{chains:?}");
    let back = fire(&server, &id, &[auth, ("countersign-chain", &chains[0])], "{}").await;
    assert_eq!((&back.body["outcome"], &back.body["reason"]), (&json!("refused"), &json!("loop_guard")), "{back:?}");
    server.agent().await.invoke("kit.look", json!({})).await.ok();
    assert_eq!(upstream.chains().len(), 2, "nothing led to what an agent does");
}

/// It hears of everything about automations, also of what the loop guard keeps it from.
async fn what_a_firing_could_not_start_does_not_start_it_after_all(kind: Kind) {
    let server = TestServer::start(kind).await;
    let other = id_of(&saved(&server.owner, plan(&["fake.read"])).await);
    let _working = server.work();
    listening(&server).await;
    let mut definition = on_event(json!({ "event_type": "automation.*" }), json!({ "of": "$.type" }));
    definition["name"] = json!("Hears everything");
    let id = id_of(&saved(&server.owner, definition).await);
    let first = runs_of(&server, &id, 1).await.remove(0);
    ended(&server.owner, first["id"].as_str().unwrap()).await;
    let is_refused = |(reason, _): &(String, u64)| reason == "loop_guard";
    while !firings(&server, &id).await.iter().any(is_refused) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The event that tells of it comes before this.
    server.owner.post(&format!("/api/v1/automations/{other}/pause"), json!({})).await.ok();
    assert_eq!(inputs_of(&server, &id, "of", 2).await, [r#""automation.paused""#, r#""automation.saved""#]);
}

/// Each is fired by the end of the other.
async fn automations_that_follow_each_other_in_a_circle_stop(kind: Kind) {
    let server = TestServer::start(kind).await;
    let following = |name: &str, other: &str| {
        let config = json!({ "event_type": "automation.run.*",
            "filters": { "type": "automation.run.succeeded", "data.automation_name": other } });
        let mut definition = plan(&["fake.read"]);
        definition["name"] = json!(name);
        definition["triggers"] = json!([{ "trigger_id": "after", "type": "event", "config": config }]);
        definition["execution"] = json!({ "concurrency": "allow_parallel" });
        definition
    };
    let ping = id_of(&saved(&server.owner, following("Ping", "Pong")).await);
    server.clock.advance_ms(1);
    let pong = id_of(&saved(&server.owner, following("Pong", "Ping")).await);
    let _working = server.work();
    while server.owner.get("/api/v1/event-groups/automations").await.status != 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let first = run(&server.owner, &ping, json!({})).await;
    let firings = async || {
        let firings = server.owner.get(&format!("/api/v1/automations/{ping}/firings")).await.ok();
        let pair = |firing: &Value| [&firing["outcome"], &firing["reason"]].map(|word| word.as_str().unwrap().to_owned());
        firings["items"].as_array().unwrap().iter().map(pair).collect::<Vec<_>>()
    };
    let mut fired = firings().await;
    for _ in 0..200 {
        if fired.len() > 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        fired = firings().await;
    }
    fired.sort();
    assert_eq!(fired, [["refused", "loop_guard"], ["started", "manual"]]);
    let second = runs_of(&server, &pong, 1).await.remove(0);
    let second = ended(&server.owner, second["id"].as_str().unwrap()).await;
    assert_eq!((&second["chain"], &second["root_run_id"]), (&json!([ping, pong]), &json!(first)), "{second:#}");
    assert_eq!(server.source.calls().len(), 2);
}

/// An automation acts for whoever saved it, when it is fired and when its run begins.
async fn an_automation_of_somebody_who_is_out_starts_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let mia = server.owner.person("mia", "member").await;
    let id = id_of(&saved(&mia, plan(&["fake.read"])).await);
    let before = run(&server.owner, &id, json!({})).await;
    let principal = mia.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/users/{}/disable", principal.trim_start_matches("user:"));
    server.owner.post(&path, json!({})).await.ok();
    let refused = server.owner.post(&format!("/api/v1/automations/{id}/run"), json!({})).await;
    assert_eq!((&refused.body["outcome"], &refused.body["reason"]), (&json!("refused"), &json!("creator_inactive")), "{refused:?}");
    let _working = server.work();
    let shown = ended(&server.owner, &before).await;
    assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("failed"), &json!("creator_inactive")), "{shown:#}");
    assert_eq!(server.source.calls().len(), 0);
}

/// The call that is under way when the time is over gets no more of it, and what follows a failure runs.
async fn a_run_that_takes_too_long_is_timed_out(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let mut definition = plan(&["fake.read", "fake.read"]);
    let tell = json!({ "step_id": "tell", "action": "fake.read", "config": { "text": "{{ run.error.code }} at {{ run.error.step_id }}" } });
    definition["execution"] = json!({ "timeout_seconds": 1, "on_failure": [tell] });
    let id = id_of(&saved(&server.owner, definition).await);
    let before = server.store.newest_event(&server.org).await.unwrap();
    let _never = server.source.will_hold(Ok(Output::new(json!({}))));
    let run = run(&server.owner, &id, json!({})).await;
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("timed_out"), &json!("timed_out")), "{shown:#}");
    let steps: Vec<_> = shown["steps"].as_array().unwrap().iter().map(|step| [&step["step_id"], &step["status"]]).collect();
    assert_eq!(steps, [[&json!("step_0"), &json!("timed_out")], [&json!("tell"), &json!("succeeded")]]);
    assert_eq!(server.source.calls()[1].params["text"], "timed_out at step_0");
    let events = server.store.list_events_after(&server.org, before, 500).await.unwrap();
    assert_eq!(events.iter().filter(|event| event.name == "automation.run.timed_out").count(), 1);
}

/// Sources give up a little before the time of their call is over, so that their own error is told.
async fn a_source_that_gives_up_first_hides_no_time_out(kind: Kind) {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let server = TestServer::start_whole(kind, &[&url]).await;
    let _working = server.work();
    let mut definition = plan(&[]);
    definition["plan"] = json!([{ "step_id": "ask", "action": "http.get", "config": { "url": url } }]);
    definition["execution"] = json!({ "timeout_seconds": 1, "max_retries": 0 });
    let id = id_of(&saved(&server.owner, definition).await);
    let shown = ended(&server.owner, &run(&server.owner, &id, json!({})).await).await;
    assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("timed_out"), &json!("timed_out")), "{shown:#}");
}

async fn a_step_has_no_more_time_than_it_says(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let mut definition = plan(&["fake.read", "fake.read"]);
    definition["plan"][1]["timeout_seconds"] = json!(1);
    definition["execution"] = json!({ "retry_backoff": "none", "max_retries": 1 });
    let id = id_of(&saved(&server.owner, definition).await);
    server.source.will_answer(json!({}));
    // It is a read: it is made again as often as it may.
    let _never: Vec<_> = (0..2).map(|_| server.source.will_hold(Ok(Output::new(json!({}))))).collect();
    let run = run(&server.owner, &id, json!({})).await;
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("timed_out"), &json!("timed_out")), "{shown:#}");
    let step = &shown["steps"][1];
    let told = (&step["status"], &step["error"]["code"], &step["error"]["message"]);
    assert_eq!(told, (&json!("timed_out"), &json!("timed_out"), &json!("the step took longer than it may")), "{shown:#}");
    let limits: Vec<_> = server.source.calls().iter().map(|call| call.context.timeout_ms).collect();
    assert_eq!(limits, [CALL_TIMEOUT_MS, 1_000, 1_000], "the other step has the time of its action");
}

/// Code of a package is ended before the time of its call is over, and says so in a word of its own.
async fn code_of_a_package_that_takes_too_long_is_timed_out_like_any_step(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let mut definition = plan(&["fake.read"]);
    definition["execution"] = json!({ "timeout_seconds": 20 });
    let id = id_of(&saved(&server.owner, definition.clone()).await);
    let ended_early = || Error::Failed { code: "package_timed_out", message: "`execute.js` did not end".into() };
    // It had what was left to the run, which is less than its action may take: the run has no time for another attempt.
    server.source.will_fail(ended_early());
    let shown = ended(&server.owner, &run(&server.owner, &id, json!({})).await).await;
    let (status, step) = (&json!("timed_out"), &shown["steps"][0]);
    assert_eq!((&shown["status"], &shown["error"]["code"], &step["status"], &step["error"]["code"]), (status, status, status, status));
    assert_eq!((server.source.calls().len(), &step["error"]["message"]), (1, &json!("the run took longer than it may")));
    // By the limit of its own definition it has failed, and is tried again.
    (definition["name"], definition["execution"]) = (json!("Unlimited"), json!({ "retry_backoff": "none" }));
    let unlimited = id_of(&saved(&server.owner, definition).await);
    server.source.will_fail(ended_early());
    let shown = ended(&server.owner, &run(&server.owner, &unlimited, json!({})).await).await;
    assert_eq!((&shown["status"], server.source.calls().len()), (&json!("succeeded"), 3), "{shown:#}");
}

/// Waiting for a person is no working time of the run.
async fn an_approval_that_never_comes_ends_the_run_after_a_day(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let id = id_of(&saved(&server.owner, plan(&["fake.write"])).await);
    let run = run(&server.owner, &id, json!({})).await;
    let waits = waiting(&server.owner, &run).await;
    let call = waits["invocation_id"].as_str().unwrap();
    server.clock.advance_seconds(APPROVAL_UNATTENDED_SECONDS - 1);
    server.pipeline.sweep().await.unwrap();
    assert_eq!(server.shown(call).await["status"], "pending");
    server.clock.advance_seconds(2);
    server.pipeline.sweep().await.unwrap();
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("failed"), &json!("expired")), "{shown:#}");
    assert_eq!(server.receipt_of(call).await["status"], "expired");
    assert_eq!(server.source.calls().len(), 0);
    server.verify().await;
}

async fn on_failure_fails_once(kind: Kind) {
    let server = TestServer::start(kind).await;
    let mut definition = plan(&["fake.read", "fake.read"]);
    definition["execution"] =
        json!({ "on_failure": [{ "step_id": "tell", "action": "fake.read", "config": { "text": "{{ run.error.code }}" } }] });
    let id = id_of(&saved(&server.owner, definition).await);
    for code in ["first_broke", "handler_broke"] {
        server.source.will_fail(Error::Failed { code, message: "it is broken".into() });
    }
    let before = server.store.newest_event(&server.org).await.unwrap();
    let _working = server.work();
    let run = run(&server.owner, &id, json!({})).await;
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], &shown["handler_failed"]), (&json!("failed"), &json!(true)), "{shown:#}");
    assert_eq!(shown["error"]["code"], "first_broke", "it says why the plan failed");
    let calls = server.source.calls();
    assert_eq!((calls.len(), &calls[1].params["text"]), (2, &json!("first_broke")));
    let events = server.store.list_events_after(&server.org, before, 500).await.unwrap();
    assert_eq!(events.iter().filter(|event| event.name == "automation.run.failed").count(), 1);
}

async fn what_a_worker_brings_that_lost_its_run_is_told_apart(kind: Kind) {
    let server = TestServer::start(kind).await;
    let working = server.work();
    let id = id_of(&saved(&server.owner, plan(&["fake.read", "fake.read"])).await);
    let mut held = server.source.will_hold(Ok(Output::new(json!({}))));
    let run = run(&server.owner, &id, json!({})).await;
    held.arrived().await;
    let before = server.store.newest_event(&server.org).await.unwrap();
    // It takes nothing up any more. The others think that it is gone.
    drop(working);
    assert_eq!(server.store.free_all_runs().await, Ok(1));
    held.release();
    let discarded = async || {
        let events = server.store.list_events_after(&server.org, before, 500).await.unwrap();
        events.into_iter().find(|event| event.name == "automation.run.discarded_attempt")
    };
    let mut found = None;
    for _ in 0..200 {
        found = discarded().await;
        if found.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let body: Value = serde_json::from_str(&found.unwrap().body).unwrap();
    assert_eq!((&body["run_id"], &body["steps"][0]["step_id"]), (&json!(run), &json!("step_0")), "{body:#}");
    let call = body["steps"][0]["invocation_id"].as_str().unwrap();
    assert_eq!(server.receipt_of(call).await["status"], "succeeded", "the call itself is in the log");
    let _working = server.work();
    let shown = ended(&server.owner, &run).await;
    assert_eq!(
        (&shown["status"], shown["steps"].as_array().unwrap().len()),
        (&json!("succeeded"), 2),
        "the run is none the worse: {shown:#}"
    );
}

/// The source offers `fake.set`, which may be called twice.
async fn with_set(server: TestServer) -> TestServer {
    server.source.offer("set", |action| {
        action.tier = Tier::R2;
        action.repeatability = Repeatability::Repeatable;
        action.reversibility = Reversibility::NotReversible;
    });
    server.owner.set_mode("fake.set", "allow").await;
    server
}

fn timed_out() -> Error {
    Error::TimedOut { source_id: "fake".into(), timeout_ms: 1 }
}

async fn a_call_in_doubt_is_repeated_where_that_does_no_harm(kind: Kind) {
    let server = with_set(TestServer::start(kind).await).await;
    let _working = server.work();
    let id = id_of(&saved(&server.owner, plan(&["fake.set"])).await);
    server.source.will_fail(timed_out());
    let first = run(&server.owner, &id, json!({})).await;
    let shown = ended(&server.owner, &first).await;
    assert_eq!(shown["status"], "succeeded", "{shown:#}");
    assert_eq!(server.source.calls().len(), 2);
    // It is not repeated for ever: then a person is asked.
    for _ in 0..3 {
        server.source.will_fail(timed_out());
    }
    let second = run(&server.owner, &id, json!({})).await;
    let waits = waiting(&server.owner, &second).await;
    assert_eq!((&waits["waiting_for"], server.source.calls().len()), (&json!("person"), 5), "{waits:#}");
    server.verify().await;
}

async fn a_call_in_doubt_fails_its_step_where_that_is_wanted(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    server.owner.set_mode("fake.write", "allow").await;
    let mut definition = plan(&["fake.write"]);
    definition["plan"][0]["on_interrupted"] = json!("fail");
    let id = id_of(&saved(&server.owner, definition).await);
    server.source.will_fail(timed_out());
    let run = run(&server.owner, &id, json!({})).await;
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("failed"), &json!("in_doubt")), "{shown:#}");
    assert_eq!(server.source.calls().len(), 1);
}

async fn a_person_has_a_call_in_doubt_made_again_and_the_run_takes_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    server.owner.set_mode("fake.write", "allow").await;
    let id = id_of(&saved(&server.owner, plan(&["fake.write"])).await);
    server.source.will_fail(timed_out());
    let run = run(&server.owner, &id, json!({})).await;
    let waits = waiting(&server.owner, &run).await;
    let path = format!("/api/v1/invocations/{}/settle", waits["invocation_id"].as_str().unwrap());
    // It is tried again itself if its source is busy.
    server.source.will_fail(busy(1));
    server.owner.post(&path, json!({ "as": "retry", "reason": "it did not arrive" })).await.ok();
    let shown = ended(&server.owner, &run).await;
    assert_eq!(shown["status"], "succeeded", "{shown:#}");
    assert_ne!(shown["steps"][0]["invocation_id"], waits["invocation_id"], "the call that was made instead is the step's");
}

async fn a_step_is_tried_again_when_its_source_says(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let mut definition = plan(&["fake.read"]);
    definition["plan"][0]["config"]["text"] = json!("attempt {{ run.attempt }}");
    definition["execution"] = json!({ "retry_backoff": "none", "max_retries": 1, "concurrency": "allow_parallel" });
    let id = id_of(&saved(&server.owner, definition).await);
    // Soon: the worker waits.
    server.source.will_fail(busy(200));
    let soon = run(&server.owner, &id, json!({})).await;
    assert_eq!(ended(&server.owner, &soon).await["status"], "succeeded");
    // Later: nobody does.
    server.source.will_fail(busy(5_000));
    let later = run(&server.owner, &id, json!({})).await;
    for _ in 0..200 {
        let shown = server.owner.get(&format!("/api/v1/runs/{later}")).await.ok();
        if shown["status"] == "waiting" {
            assert_eq!(shown["waiting_for"], "retry");
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.source.calls().len(), 3);
    server.clock.advance_seconds(5);
    assert_eq!(ended(&server.owner, &later).await["status"], "succeeded");
    let said: Vec<_> = server.source.calls()[2..].iter().map(|call| call.params["text"].clone()).collect();
    assert_eq!(said, ["attempt 1", "attempt 2"]);
    // Too late for the run: it fails now.
    server.source.will_fail(busy(3_600_000));
    let never = run(&server.owner, &id, json!({})).await;
    let shown = ended(&server.owner, &never).await;
    assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("failed"), &json!("retry_after_exceeds_deadline")), "{shown:#}");
    // Not more often than it may.
    for _ in 0..2 {
        server.source.will_fail(busy(100));
    }
    let often = run(&server.owner, &id, json!({})).await;
    assert_eq!(ended(&server.owner, &often).await["status"], "failed");
    assert_eq!(server.source.calls().len(), 7);
}

/// Draws the highest number, whenever it is asked.
struct Highest;

impl Random for Highest {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(u8::MAX);
    }
}

fn away() -> Error {
    Error::Unreachable { source_id: "fake".into(), message: "nobody is there".into() }
}

/// Returns once the run waits for the attempt after so many calls.
async fn waits_after(server: &TestServer, run: &str, calls: usize) {
    for _ in 0..300 {
        // Read in this order: a run that has made the call runs, until it waits for the next.
        let is_made = server.source.calls().len() == calls;
        let shown = server.owner.get(&format!("/api/v1/runs/{run}")).await.ok();
        if is_made && shown["status"] == "waiting" {
            assert_eq!(shown["waiting_for"], "retry", "{shown:#}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("run `{run}` never waited: {:#}", server.owner.get(&format!("/api/v1/runs/{run}")).await.body);
}

/// Lets so much time pass. The run that waits is due then, and not before.
async fn pass(server: &TestServer, wait_ms: u64) {
    let queues = ["fast", "medium", "long"].map(str::to_owned);
    server.clock.advance_ms(wait_ms - 1);
    assert_eq!(server.store.claim_runs(&queues, 1).await, Ok(Vec::new()), "it is not due yet");
    server.clock.advance_ms(1);
}

/// With the waits of production.
async fn a_retry_waits_by_the_backoff_of_its_step(kind: Kind) {
    let server = TestServer::start_patient(kind, Arc::new(Highest)).await;
    let _working = server.work();
    let mut definition = plan(&["fake.read"]);
    definition["plan"][0]["config"]["text"] = json!("attempt {{ run.attempt }}");
    definition["execution"] = json!({ "max_retries": 2, "retry_backoff": "exponential" });
    let id = id_of(&saved(&server.owner, definition).await);
    for _ in 0..3 {
        server.source.will_fail(away());
    }
    let run = run(&server.owner, &id, json!({})).await;
    // At random up to two seconds, then up to four.
    for (calls, bound_ms) in [(1, 2_000), (2, 4_000)] {
        waits_after(&server, &run, calls).await;
        pass(&server, u64::MAX % bound_ms).await;
    }
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("failed"), &json!("source_unreachable")), "{shown:#}");
    let said: Vec<_> = server.source.calls().iter().map(|call| call.params["text"].clone()).collect();
    assert_eq!(said, ["attempt 1", "attempt 2", "attempt 3"]);
}

async fn an_open_breaker_is_waited_for(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let mut definition = plan(&["fake.read"]);
    definition["execution"] = json!({ "max_retries": 10, "retry_backoff": "none" });
    let id = id_of(&saved(&server.owner, definition).await);
    let failures = BREAKER_FAILURES_MAX as usize;
    for _ in 0..failures {
        server.source.will_fail(away());
    }
    let run = run(&server.owner, &id, json!({})).await;
    waits_after(&server, &run, failures).await;
    pass(&server, BREAKER_OPEN_SECONDS * 1_000).await;
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], server.source.calls().len()), (&json!("succeeded"), failures + 1), "{shown:#}");
}

/// The approval is for the call, which is tried again itself.
async fn what_a_person_approved_is_tried_again_without_asking_them_again(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let id = id_of(&saved(&server.owner, plan(&["fake.write"])).await);
    server.source.will_fail(busy(1));
    let run = run(&server.owner, &id, json!({})).await;
    let waits = waiting(&server.owner, &run).await;
    server.owner.approve(waits["invocation_id"].as_str().unwrap()).await.ok();
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], server.source.calls().len()), (&json!("succeeded"), 2), "{shown:#}");
    assert_eq!(shown["steps"][0]["invocation_id"], waits["invocation_id"]);
}

/// Its worker lost the run while it made the call, and nobody worked on the run for a day.
async fn a_step_is_not_repeated_after_its_key_has_expired(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let working = server.work();
    let id = id_of(&saved(&server.owner, plan(&["fake.write"])).await);
    let mut held = server.source.will_hold(Ok(Output::new(json!({ "n": 1 }))));
    let run = run(&server.owner, &id, json!({})).await;
    held.arrived().await;
    drop(working);
    assert_eq!(server.store.free_all_runs().await, Ok(1));
    held.release();
    let call = server.owner.get("/api/v1/invocations").await.ok()["items"][0]["id"].as_str().unwrap().to_owned();
    let call = server.owner.get(&format!("/api/v1/invocations/{call}?wait=20s")).await.ok()["invocation"].clone();
    assert_eq!(call["status"], "succeeded", "{call:#}");
    server.clock.advance_seconds(IDEMPOTENCY_SECONDS + 1);
    // The first may be written together with something from before, and at its time.
    let forget = async || server.store.forget_expired_keys(&server.org).await.unwrap();
    assert_eq!(forget().await + forget().await, 1);
    let _working = server.work();
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], &shown["steps"][0]["invocation_id"]), (&json!("succeeded"), &call["id"]), "{shown:#}");
    assert_eq!(shown["steps"][0]["output"], json!({ "n": 1 }));
    assert_eq!(server.source.calls().len(), 1, "the effect is not repeated");
}

async fn a_call_of_a_run_is_a_dead_letter_once_the_run_has_given_it_up(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (owner, _working) = (&server.owner, server.work());
    owner.set_mode("fake.write", "allow").await;
    let mut definition = plan(&["fake.write"]);
    definition["execution"] = json!({ "max_retries": 2, "retry_backoff": "none" });
    let id = id_of(&saved(owner, definition).await);
    let letters = async || owner.get("/api/v1/dead-letters").await.ok()["items"].as_array().unwrap().clone();
    for wait_ms in [1, 5_000] {
        server.source.will_fail(busy(wait_ms));
    }
    let made = run(owner, &id, json!({})).await;
    waits_after(&server, &made, 2).await;
    assert_eq!(letters().await, [] as [Value; 0], "the run tries it again itself");
    pass(&server, 5_000).await;
    assert_eq!(ended(owner, &made).await["status"], "succeeded");
    assert_eq!(letters().await, [] as [Value; 0], "it was made");

    for _ in 0..3 {
        server.source.will_fail(busy(1));
    }
    let given_up = run(owner, &id, json!({})).await;
    let shown = ended(owner, &given_up).await;
    assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("failed"), &json!("source_busy")), "{shown:#}");
    let listed = letters().await;
    assert_eq!(listed.len(), 1, "{listed:#?}");
    let call = &shown["steps"][0]["invocation_id"];
    assert_eq!((&listed[0]["id"], &listed[0]["attempts"]), (call, &json!(3)), "the last of its attempts");
    // Whoever makes it again has as many attempts as for any call, and not what the run had left.
    let session = owner.new_session(json!({})).await.session;
    for _ in 0..2 {
        server.source.will_fail(busy(1));
    }
    let retry = format!("/api/v1/dead-letters/{}/retry", call.as_str().unwrap());
    let unnamed = owner.post(&retry, json!({})).await;
    unnamed.problem(400, "invalid_request");
    assert_eq!(unnamed.body["detail"], "the session of this call has ended: name one of yours as `session`");
    let retried = owner.post(&retry, json!({ "session": session })).await.ok();
    assert_eq!(retried["status"], "succeeded", "{retried:#}");
    assert_eq!(letters().await, [] as [Value; 0]);
    server.verify().await;
}

/// Every call of these actions costs forty cents.
async fn forty_cents_for(server: &TestServer, actions: &[&str]) {
    for action in actions {
        server.owner.send(Method::PUT, &format!("/api/v1/prices/{action}"), Some(json!({ "usd": "0.40" }))).await.ok();
    }
}

async fn a_run_spends_no_more_than_it_may(kind: Kind) {
    let server = TestServer::start(kind).await;
    forty_cents_for(&server, &["fake.read"]).await;
    let _working = server.work();
    let mut definition = plan(&["fake.read", "fake.read", "fake.read"]);
    definition["execution"] = json!({ "budget_cap_usd": 1.0 });
    let doomed = id_of(&saved(&server.owner, definition.clone()).await);
    let refused = server.owner.post(&format!("/api/v1/automations/{doomed}/run"), json!({})).await.ok();
    let expected = (&json!("refused"), &json!("budget_estimate"), &Value::Null);
    assert_eq!((&refused["outcome"], &refused["reason"], &refused["run_id"]), expected, "{refused:#}");
    // A step that may be skipped is not part of the estimate.
    (definition["name"], definition["plan"][2]["when"]) = (json!("Perhaps"), json!("{{ run.attempt == 1 }}"));
    let id = id_of(&saved(&server.owner, definition).await);
    let run = run(&server.owner, &id, json!({})).await;
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("failed"), &json!("budget_exceeded")), "{shown:#}");
    assert_eq!(server.source.calls().len(), 2, "the call is not made");
    assert_eq!(shown["cost_usd"], "0.8");
    // A person may let it cost more.
    let exported = server.owner.send(Method::GET, &format!("/api/v1/automations/{id}/export"), None).await.ok();
    assert_eq!(exported["execution"]["budget_cap_usd"], 1);
}

async fn an_attempt_that_was_not_made_costs_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    forty_cents_for(&server, &["fake.read"]).await;
    let _working = server.work();
    let mut definition = plan(&["fake.read"]);
    definition["execution"] = json!({ "budget_cap_usd": 0.5, "max_retries": 2, "retry_backoff": "none" });
    let id = id_of(&saved(&server.owner, definition).await);
    for _ in 0..2 {
        server.source.will_fail(busy(1));
    }
    let run = run(&server.owner, &id, json!({})).await;
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], &shown["cost_usd"]), (&json!("succeeded"), &json!("0.4")), "{shown:#}");
    assert_eq!(server.source.calls().len(), 3);
    server.verify().await;
}

async fn a_call_in_doubt_is_not_repeated_beyond_the_budget(kind: Kind) {
    let server = with_set(TestServer::start(kind).await).await;
    forty_cents_for(&server, &["fake.set"]).await;
    let _working = server.work();
    let mut definition = plan(&["fake.set"]);
    definition["execution"] = json!({ "budget_cap_usd": 1.0, "max_retries": 2 });
    let id = id_of(&saved(&server.owner, definition).await);
    for _ in 0..3 {
        server.source.will_fail(timed_out());
    }
    let run = run(&server.owner, &id, json!({})).await;
    let waits = waiting(&server.owner, &run).await;
    assert_eq!((&waits["waiting_for"], server.source.calls().len()), (&json!("person"), 2), "the third may not be paid: {waits:#}");
}

/// A worker that takes the run up after a crash makes the next attempt, and not the same one once more, unpaid.
async fn an_attempt_is_saved_before_the_next(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let mut definition = plan(&["fake.read"]);
    definition["execution"] = json!({ "retry_backoff": "none" });
    let id = id_of(&saved(&server.owner, definition).await);
    server.source.will_fail(busy(1));
    let mut held = server.source.will_hold(Ok(Output::new(json!({}))));
    let run = run(&server.owner, &id, json!({})).await;
    held.arrived().await;
    let found = server.store.find_run(&server.org, &RunId::parse(&run).unwrap()).await.unwrap().unwrap();
    assert_eq!(found.attempts, 1);
    held.release();
    assert_eq!(ended(&server.owner, &run).await["status"], "succeeded");
}

async fn a_queue_follows_what_was_measured(kind: Kind) {
    let server = TestServer::start(kind).await;
    let id = id_of(&saved(&server.owner, plan(&["fake.read"])).await);
    let first = {
        let _working = server.work();
        let run = run(&server.owner, &id, json!({})).await;
        ended(&server.owner, &run).await
    };
    assert_eq!((&first["status"], &first["queue"]), (&json!("succeeded"), &json!("medium")), "it may take 30 seconds: {first:#}");
    // Another process measures anew.
    let restarted = server.restart().await;
    let second = run(&restarted.owner, &id, json!({})).await;
    assert_eq!(restarted.owner.get(&format!("/api/v1/runs/{second}")).await.ok()["queue"], "fast", "it took no time");
}

/// What each tick that is made up for covers begins where the one before it ended.
async fn a_schedule_that_catches_up_covers_the_time_without_gaps(kind: Kind) {
    let server = TestServer::start(kind).await;
    let config = json!({ "cron": "0 * * * *", "timezone": "UTC", "catch_up": "all" });
    let mut definition = plan(&["fake.read"]);
    definition["triggers"] = json!([{ "trigger_id": "hourly", "type": "schedule", "config": config }]);
    let since = json!({ "type": "string", "format": "date-time", "default": "$last_fired_at" });
    definition["inputs"] = json!({ "schema": { "type": "object", "additionalProperties": false, "properties": { "since": since } } });
    definition["execution"] = json!({ "concurrency": "allow_parallel" });
    let id = id_of(&saved(&server.owner, definition).await);
    server.clock.advance_seconds(3 * 3_600 + 1_800);
    server.engine.handle_due_schedules().await.unwrap();
    let runs = server.owner.get(&format!("/api/v1/runs?automation={id}")).await.ok();
    let mut since = Vec::new();
    for run in runs["items"].as_array().unwrap() {
        since.push(whole(&server, run).await["inputs"]["since"].as_str().unwrap().to_owned());
    }
    since.sort();
    assert_eq!(since.len(), 3, "{runs:#}");
    since.dedup();
    assert_eq!(since.len(), 3, "no two of them begin at the same time: {since:?}");
}
