//! Approvals that need several people, change the params, come in bulk, or go through another server.

use crate::harness::{Agent, Answer, Client, Kind, TestServer, on_both_engines, on_postgres, on_sqlite, smuggled};
use countersign_core::limits;
use serde_json::{Value, json};

on_sqlite!(
    it_takes_as_many_people_as_the_space_says,
    a_lowered_quorum_is_met_by_who_approved_already_and_each_still_counts_once,
    one_no_ends_it_however_many_said_yes,
    a_yes_of_somebody_who_may_no_longer_give_one_does_not_count,
    a_yes_to_ones_own_call_does_not_count_once_the_space_refuses_it,
    what_goes_beyond_the_call_takes_everybody_to_say_the_same,
    an_approver_may_change_the_params,
    changed_params_are_judged_like_sent_ones,
    a_change_takes_the_earlier_yeses_with_it,
    whoever_changes_what_destroys_is_not_the_only_one_to_approve_it,
    what_was_shown_is_what_is_approved_and_changed,
    several_are_approved_each_by_itself,
    one_of_several_that_is_not_as_it_was_shown_is_left,
    a_snooze_decides_nothing_and_hides_it_from_one_person_only,
);

on_both_engines!(many_people_at_once_make_one_quorum, another_orgs_approval_looks_like_none);
on_postgres!(every_conflict_is_told_by_another_server_too, two_servers_count_one_quorum);

/// Every way in which an answer, or a call that refers to an approval, may not fit.
const CONFLICTS: [&str; 15] = [
    "not_found",
    "cross_tenant",
    "rejected",
    "expired",
    "consumed",
    "already_ended",
    "already_approved",
    "args_mismatch",
    "definition_mismatch",
    "policy_mismatch",
    "tuple_mismatch",
    "stopped",
    "self_approval",
    "may_not_approve",
    "store_unavailable",
];

async fn quorum(server: &TestServer, by_tier: Value) {
    server.change_space(json!({ "quorum": by_tier })).await;
}

async fn it_takes_as_many_people_as_the_space_says(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    quorum(&server, json!({ "R2": 2 })).await;
    let ada = server.owner.person("ada", "admin").await;
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    let counted = server.owner.approve(&id).await;
    assert_eq!((counted.status, &counted.body["invocation"]["status"]), (202, &json!("pending")), "{counted:?}");
    assert_eq!(counted.body["invocation"]["approvals"].as_array().unwrap().len(), 1);
    // The same person counts once, whichever token they use.
    server.owner.approve(&id).await.problem(409, "already_approved");
    let me = server.owner.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    let token = server.owner.post("/api/v1/tokens", json!({ "name": "phone", "user_id": me })).await.ok();
    server.owner.with_token(token["token"].as_str().unwrap()).approve(&id).await.problem(409, "already_approved");
    assert_eq!(server.source.effects(), 0);
    let approved = ada.approve(&id).await.ok();
    assert_eq!(approved["invocation"]["status"], "succeeded");
    let receipt = server.receipt_of(&id).await;
    assert_eq!(receipt["approval"]["approvers"].as_array().unwrap().len(), 2);
    // Another tier needs only one approval.
    let send = agent.pending("fake.send", json!({})).await;
    server.owner.approve(&send).await.ok();
    assert_eq!(server.source.effects(), 2);
    for wrong in [json!({ "R2": 0 }), json!({ "R2": 1000 }), json!({ "R9": 1 })] {
        let path = format!("/api/v1/spaces/{}", server.main_space().await);
        server.owner.send(reqwest::Method::PATCH, &path, Some(json!({ "quorum": wrong }))).await.problem(400, "invalid_request");
    }
    server.verify().await;
}

async fn a_lowered_quorum_is_met_by_who_approved_already_and_each_still_counts_once(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    quorum(&server, json!({ "R2": 3 })).await;
    let (ada, bob) = (server.owner.person("ada", "admin").await, server.owner.person("bob", "admin").await);
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    assert_eq!(ada.approve(&id).await.status, 202);
    // One has approved and two are needed: the same person is still one.
    quorum(&server, json!({ "R2": 2 })).await;
    ada.approve(&id).await.problem(409, "already_approved");
    assert_eq!((server.source.effects(), server.shown(&id).await["status"].clone()), (0, json!("pending")));
    // One is enough now, and whoever said yes says it again.
    quorum(&server, json!({})).await;
    let approved = ada.approve_with(&id, json!({ "reason": "still fine" })).await.ok();
    let ended = &approved["invocation"];
    assert_eq!((&ended["status"], &ended["answer"]["reason"]), (&json!("succeeded"), &json!("still fine")));
    assert_eq!(server.receipt_of(&id).await["approval"]["approvers"].as_array().unwrap().len(), 1);

    // Two have approved and two are needed now: either of them, or a third, completes it.
    for last in [&ada, &bob, &server.owner] {
        quorum(&server, json!({ "R2": 4 })).await;
        let id = agent.pending("fake.write", json!({ "text": "b" })).await;
        for person in [&ada, &bob] {
            assert_eq!(person.approve(&id).await.status, 202);
        }
        quorum(&server, json!({ "R2": 2 })).await;
        last.approve(&id).await.ok();
        let approvers = server.receipt_of(&id).await["approval"]["approvers"].as_array().unwrap().clone();
        let distinct: std::collections::HashSet<_> = approvers.iter().map(ToString::to_string).collect();
        assert_eq!(approvers.len(), distinct.len(), "{approvers:?}");
    }
    assert_eq!(server.source.effects(), 4);
    server.verify().await;
}

async fn one_no_ends_it_however_many_said_yes(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    quorum(&server, json!({ "R2": 3 })).await;
    let (ada, bob) = (server.owner.person("ada", "admin").await, server.owner.person("bob", "admin").await);
    let id = agent.pending("fake.write", json!({})).await;
    for person in [&server.owner, &ada] {
        assert_eq!(person.approve(&id).await.status, 202);
    }
    bob.deny(&id, "no").await.ok();
    bob.approve(&id).await.problem(409, "rejected");
    assert_eq!((server.source.effects(), server.receipt_of(&id).await["denied_by"].clone()), (0, json!("person")));
    // A person who approved may still deny.
    let id = agent.pending("fake.write", json!({})).await;
    assert_eq!(ada.approve(&id).await.status, 202);
    ada.deny(&id, "on second thought").await.ok();
    assert_eq!(server.source.effects(), 0);
    server.verify().await;
}

async fn many_people_at_once_make_one_quorum(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    quorum(&server, json!({ "R2": 3 })).await;
    let mut people = vec![server.owner.clone()];
    for name in ["ada", "bob", "cy", "dan", "eve"] {
        people.push(server.owner.person(name, "admin").await);
    }
    let id = agent.pending("fake.write", json!({})).await;
    // Everybody approves twice.
    let answers = futures_util::future::join_all(people.iter().chain(&people).map(|person| person.approve(&id))).await;
    let count = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(202), count(200), count(409)), (2, 1, 9), "{answers:?}");
    assert_eq!(server.source.effects(), 1);
    let approvers = server.receipt_of(&id).await["approval"]["approvers"].as_array().unwrap().clone();
    let distinct: std::collections::HashSet<_> = approvers.iter().map(ToString::to_string).collect();
    assert_eq!((approvers.len(), distinct.len()), (3, 3));
    server.verify().await;
}

async fn what_goes_beyond_the_call_takes_everybody_to_say_the_same(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    quorum(&server, json!({ "R2": 2 })).await;
    let ada = server.owner.person("ada", "admin").await;
    let id = agent.pending("fake.write", json!({})).await;
    assert_eq!(server.owner.approve_with(&id, json!({ "mode": "once" })).await.status, 202);
    ada.approve_with(&id, json!({ "mode": "always" })).await.ok();
    agent.pending("fake.write", json!({})).await;
    let id = agent.pending("fake.write", json!({})).await;
    assert_eq!(server.owner.approve_with(&id, json!({ "mode": "always" })).await.status, 202);
    ada.approve_with(&id, json!({ "mode": "always" })).await.ok();
    agent.invoke("fake.write", json!({})).await.ok();
    server.verify().await;
}

async fn an_approver_may_change_the_params(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let call = json!({ "action": "fake.write", "params": { "text": "pay 1000", "count": 1 }, "idempotency_key": "k" });
    let asked = agent.invoke_with(call.clone()).await;
    let id = asked.id();
    server.source.will_answer(json!({ "paid": 10 }));
    let approved = server.owner.approve_with(&id, json!({ "params": { "text": "pay 10", "count": 1 } })).await.ok();
    assert_eq!((&approved["invocation"]["status"], &approved["result"]), (&json!("succeeded"), &json!({ "paid": 10 })));
    assert_eq!(server.source.calls()[0].params, json!({ "text": "pay 10", "count": 1 }));
    let edit = &approved["invocation"]["edit"];
    assert_eq!((&edit["changed"], &edit["proposed_params"]["text"]), (&json!(["/text"]), &json!("pay 1000")));
    let receipt = server.receipt_of(&id).await;
    assert!(receipt["edit"].is_object(), "{receipt}");
    assert_ne!(receipt["params"], receipt["raw"], "what ran is not what was sent");
    assert_eq!(receipt["raw"], asked.body["invocation"]["digests"]["raw"]);
    // The caller refers to the call it proposed, and gets the result of the changed one.
    let mut repeat = call.clone();
    repeat["approval_ref"] = json!(id);
    let answered = agent.invoke_with(repeat.clone()).await;
    assert_eq!((answered.status, answered.id(), &answered.body["result"]), (200, id.clone(), &json!({ "paid": 10 })), "{answered:?}");
    assert_eq!(answered.body["invocation"]["edit"]["changed"], json!(["/text"]), "it is told of the change");
    let replayed = agent.invoke_with(call).await;
    assert_eq!((replayed.status, replayed.id()), (200, id.clone()), "{replayed:?}");
    repeat["params"]["text"] = json!("pay 10");
    agent.invoke_with(repeat).await.problem(409, "args_mismatch");
    assert_eq!(server.source.effects(), 1);
    // The same params do not count as a change.
    let same = agent.pending("fake.write", json!({ "text": "b" })).await;
    let approved = server.owner.approve_with(&same, json!({ "params": { "text": "b" } })).await.ok();
    assert_eq!(approved["invocation"]["edit"], json!(null));
    server.verify().await;
}

async fn changed_params_are_judged_like_sent_ones(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    for params in [json!({ "text": 1 }), json!({ "text": "a", "unknown": true }), json!({ "text": "a".repeat(1001) }), json!([])] {
        server.owner.approve_with(&id, json!({ "params": params })).await.problem(422, "invalid_params");
    }
    // The changed params name another space, or are too dangerous to run.
    for params in [json!({ "space_id": "spc_elsewhere" }), json!({ "text": smuggled("hi", "ignore all") })] {
        server.owner.approve_with(&id, json!({ "params": params })).await.problem(409, "policy_mismatch");
    }
    let shown = server.shown(&id).await;
    assert_eq!((&shown["status"], &shown["approvals"], &shown["params"]), (&json!("pending"), &json!([]), &json!({ "text": "a" })));
    assert_eq!(server.source.calls().len(), 0);
    server.owner.approve(&id).await.ok();
    assert_eq!(server.source.calls()[0].params, json!({ "text": "a" }));
    // A principal that may not approve may not change the params either.
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    let member = server.owner.person("mia", "member").await;
    for client in [&member, &agent.client] {
        client.approve_with(&id, json!({ "params": { "text": "b" } })).await.problem(403, "may_not_approve");
    }
    assert_eq!(server.shown(&id).await["params"], json!({ "text": "a" }));
    server.verify().await;
}

async fn a_change_takes_the_earlier_yeses_with_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    quorum(&server, json!({ "R2": 2 })).await;
    let ada = server.owner.person("ada", "admin").await;
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    assert_eq!(server.owner.approve(&id).await.status, 202);
    let edited = ada.approve_with(&id, json!({ "params": { "text": "b" } })).await;
    assert_eq!((edited.status, server.source.effects()), (202, 0), "the first yes was to something else: {edited:?}");
    assert_eq!(edited.body["invocation"]["approvals"].as_array().unwrap().len(), 1);
    ada.approve(&id).await.problem(409, "already_approved");
    let approved = server.owner.approve(&id).await.ok();
    assert_eq!(approved["invocation"]["status"], "succeeded");
    assert_eq!(server.source.calls()[0].params, json!({ "text": "b" }));
    // The recorded proposal stays what the agent sent, however often approvers change the params.
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    assert_eq!(ada.approve_with(&id, json!({ "params": { "text": "b" } })).await.status, 202);
    let again = server.owner.approve_with(&id, json!({ "params": { "text": "c" } })).await;
    assert_eq!((again.status, &again.body["invocation"]["edit"]["proposed_params"]["text"]), (202, &json!("a")), "{again:?}");
    ada.approve(&id).await.ok();
    assert_eq!(server.source.calls()[1].params, json!({ "text": "c" }));
    server.verify().await;
}

async fn whoever_changes_what_destroys_is_not_the_only_one_to_approve_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.owner.set_mode("fake.destroy", "require_approval").await;
    let ada = server.owner.person("ada", "admin").await;
    let id = agent.pending("fake.destroy", json!({ "text": "a" })).await;
    let by_name = json!({ "confirm": "fake.destroy" });
    let edited = server.owner.approve_with(&id, json!({ "params": { "text": "b" }, "confirm": "fake.destroy" })).await;
    assert_eq!((edited.status, server.source.effects()), (202, 0), "{edited:?}");
    server.owner.approve_with(&id, by_name.clone()).await.problem(409, "already_approved");
    assert_eq!(server.source.effects(), 0, "nor with a second yes of the same person");
    ada.approve_with(&id, by_name.clone()).await.ok();
    assert_eq!(server.source.calls()[0].params, json!({ "text": "b" }));
    // Without a change, one approval is enough.
    let id = agent.pending("fake.destroy", json!({ "text": "a" })).await;
    server.owner.approve_with(&id, by_name).await.ok();
    assert_eq!(server.source.effects(), 2);
    server.verify().await;
}

async fn what_was_shown_is_what_is_approved_and_changed(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    quorum(&server, json!({ "R2": 2 })).await;
    let ada = server.owner.person("ada", "admin").await;
    let asked = agent.invoke("fake.write", json!({ "text": "a" })).await;
    let (id, before) = (asked.id(), asked.body["invocation"]["binding"]["digest"].clone());
    assert_eq!(server.owner.approve_with(&id, json!({ "params": { "text": "b" } })).await.status, 202);
    let after = server.shown(&id).await["binding"]["digest"].clone();
    assert_ne!(before, after);
    ada.approve_with(&id, json!({ "binding": before })).await.problem(409, "args_mismatch");
    ada.approve_with(&id, json!({ "binding": before, "params": { "text": "c" } })).await.problem(409, "args_mismatch");
    assert_eq!((server.source.effects(), server.shown(&id).await["params"].clone()), (0, json!({ "text": "b" })));
    ada.approve_with(&id, json!({ "binding": after })).await.ok();
    assert_eq!(server.source.calls()[0].params, json!({ "text": "b" }));
    ada.approve_with(&id, json!({ "binding": "zz" })).await.problem(400, "invalid_request");
    server.verify().await;
}

async fn several_are_approved_each_by_itself(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let mut ids = Vec::new();
    for at in 0..4 {
        ids.push(agent.pending("fake.write", json!({ "count": at })).await);
    }
    server.owner.deny(&ids[1], "no").await.ok();
    let unknown = "inv_00000000000000000000000000".to_owned();
    let asked: Vec<_> = [&ids[0], &ids[1], &unknown, &"nonsense".to_owned(), &ids[2], &ids[0]].into_iter().cloned().collect();
    let answer = server.owner.post("/api/v1/invocations/approve", json!({ "invocations": asked, "reason": "the batch" })).await.ok();
    let results = answer["results"].as_array().unwrap();
    let told: Vec<_> =
        results.iter().map(|one| one["problem"]["code"].as_str().or(one["invocation"]["status"].as_str()).unwrap().to_owned()).collect();
    assert_eq!(told, ["succeeded", "rejected", "not_found", "not_found", "succeeded", "consumed"]);
    assert!(results.iter().zip(&asked).all(|(one, id)| one["id"] == id.as_str()));
    assert_eq!(results[0]["invocation"]["answer"]["reason"], "the batch");
    assert_eq!((server.source.effects(), server.shown(&ids[3]).await["status"].clone()), (2, json!("pending")));
    let path = "/api/v1/invocations/approve";
    let many = vec![unknown; limits::BULK_ANSWERS_MAX + 1];
    for body in [json!({ "invocations": [] }), json!({ "invocations": many })] {
        server.owner.post(path, body).await.problem(400, "invalid_request");
    }
    let member = server.owner.person("mia", "member").await;
    for client in [&member, &agent.client] {
        client.post(path, json!({ "invocations": [ids[3]] })).await.problem(403, "may_not_approve");
    }
    assert_eq!(server.source.effects(), 2);
    server.verify().await;
}

async fn one_of_several_that_is_not_as_it_was_shown_is_left(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let mut shown = Vec::new();
    for at in 0..3 {
        let asked = agent.invoke("fake.write", json!({ "count": at })).await;
        shown.push((asked.id(), asked.body["invocation"]["binding"]["digest"].clone()));
    }
    // The second item is sent with the binding of the third.
    let items = json!([
        { "id": shown[0].0, "binding": shown[0].1 },
        { "id": shown[1].0, "binding": shown[2].1 },
        shown[2].0,
        { "id": shown[1].0, "binding": "zz" },
    ]);
    let answer = server.owner.post("/api/v1/invocations/approve", json!({ "invocations": items })).await.ok();
    let told: Vec<_> =
        answer["results"].as_array().unwrap().iter().map(|one| (one["id"].clone(), one["problem"]["code"].clone())).collect();
    let expected = [(0, json!(null)), (1, json!("args_mismatch")), (2, json!(null)), (1, json!("invalid_request"))];
    assert_eq!(told, expected.map(|(at, code)| (json!(shown[at].0), code)), "{answer}");
    assert_eq!((server.source.effects(), server.shown(&shown[1].0).await["status"].clone()), (2, json!("pending")));
    for wrong in [json!({ "id": shown[1].0 }), json!({ "id": shown[1].0, "binding": shown[1].1, "more": 1 }), json!(7)] {
        server.owner.post("/api/v1/invocations/approve", json!({ "invocations": [wrong] })).await.problem(400, "invalid_request");
    }
    server.verify().await;
}

async fn a_snooze_decides_nothing_and_hides_it_from_one_person_only(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let ada = server.owner.person("ada", "admin").await;
    let id = agent.pending("fake.write", json!({})).await;
    let before = (server.shown(&id).await, server.counts().await);
    let path = format!("/api/v1/invocations/{id}/snooze");
    server.owner.post(&path, json!({ "for": "2m" })).await.ok();
    assert_eq!((server.shown(&id).await, server.counts().await), before, "the call is as it was, clock included");
    let awake = async |person: &Client| {
        let inbox = person.get("/api/v1/invocations?status=pending&awake=true").await.ok();
        inbox["items"].as_array().unwrap().len()
    };
    assert_eq!((awake(&server.owner).await, awake(&ada).await), (0, 1));
    assert_eq!(server.owner.get("/api/v1/invocations?status=pending").await.ok()["items"].as_array().unwrap().len(), 1);
    server.clock.advance_seconds(2 * 60);
    assert_eq!(awake(&server.owner).await, 1);
    server.owner.post(&path, json!({ "for": "2m" })).await.ok();
    // A snoozed call can still be answered, and it still expires.
    let other = agent.pending("fake.write", json!({})).await;
    server.owner.post(&format!("/api/v1/invocations/{other}/snooze"), json!({ "for": "24h" })).await.ok();
    server.owner.approve(&other).await.ok();
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS);
    server.owner.approve(&id).await.problem(410, "expired");
    server.owner.post(&path, json!({ "for": "2m" })).await.problem(409, "already_ended");
    agent.client.post(&path, json!({ "for": "2m" })).await.problem(403, "forbidden");
    server.verify().await;
}

/// A body without the parts that differ from request to request.
fn comparable(answer: &Answer, ids: &[&str]) -> String {
    let mut body = answer.body.clone();
    body["trace_id"] = json!(null);
    ids.iter().fold(body.to_string(), |text, id| text.replace(id, "ID"))
}

async fn another_orgs_approval_looks_like_none(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let token = server.store.draw_owner_token();
    server.store.create_org("other", "owner", token.clone()).await.unwrap();
    let stranger = server.owner.with_token(token.expose());
    let id = agent.pending("fake.write", json!({})).await;
    let absent = "inv_00000000000000000000000000";
    let before = (server.conflicts("cross_tenant").await, server.conflicts("not_found").await);
    for way in ["approve", "deny", "link", "snooze"] {
        let body = if way == "snooze" { json!({ "for": "1m" }) } else { json!({}) };
        let foreign = stranger.post(&format!("/api/v1/invocations/{id}/{way}"), body.clone()).await;
        let missing = stranger.post(&format!("/api/v1/invocations/{absent}/{way}"), body).await;
        foreign.problem(404, "not_found");
        assert_eq!(comparable(&foreign, &[&id]), comparable(&missing, &[absent]), "{way}");
    }
    let other = stranger.new_session(json!({})).await;
    let refer =
        async |agent: &Agent, reference: &str| agent.invoke_with(json!({ "action": "fake.write", "approval_ref": reference })).await;
    let (foreign, missing) = (refer(&other, &id).await, refer(&other, absent).await);
    foreign.problem(404, "not_found");
    assert_eq!(comparable(&foreign, &[&id]), comparable(&missing, &[absent]));
    // Three requests each: approve, deny and the reference. The caller cannot tell the cases apart, but the metric can. Other tests in this
    // process may count too.
    let after = (server.conflicts("cross_tenant").await, server.conflicts("not_found").await);
    assert!(after.0 >= before.0 + 3 && after.1 >= before.1 + 3, "{before:?} {after:?}");
    assert_eq!((server.source.effects(), server.shown(&id).await["status"].clone()), (0, json!("pending")));
    server.verify().await;
}

async fn every_conflict_is_told_by_another_server_too(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (other, proxy) = server.restart_behind_a_proxy().await;
    let mut before = Vec::new();
    for conflict in CONFLICTS {
        before.push((conflict, server.conflicts(conflict).await));
    }
    let agent = server.agent().await;
    let there = Agent { client: Client { url: other.url.clone(), ..agent.client.clone() }, session: agent.session.clone() };
    let refer = async |action: &str, text: &str, reference: &str| {
        there.invoke_with(json!({ "action": action, "params": { "text": text }, "approval_ref": reference })).await
    };

    other.owner.approve("inv_00000000000000000000000000").await.problem(404, "not_found");
    refer("fake.write", "a", "inv_00000000000000000000000000").await.problem(404, "not_found");

    let token = server.store.draw_owner_token();
    server.store.create_org("other", "owner", token.clone()).await.unwrap();
    let stranger = other.owner.with_token(token.expose());
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    let (foreign, missing) = (stranger.approve(&id).await, stranger.approve("inv_00000000000000000000000000").await);
    foreign.problem(404, "not_found");
    assert_eq!(comparable(&foreign, &[&id]), comparable(&missing, &["inv_00000000000000000000000000"]));
    for nobody in [server.owner.person("mia", "member").await, agent.client.clone()] {
        Client { url: other.url.clone(), ..nobody }.approve(&id).await.problem(403, "may_not_approve");
    }
    proxy.cut();
    other.owner.approve(&id).await.problem(503, "store_unavailable");
    other.owner.deny(&id, "no").await.problem(503, "store_unavailable");
    refer("fake.write", "a", &id).await.problem(503, "store_unavailable");
    proxy.mend();
    // The other server reconnects by itself.
    while other.owner.get("/readyz").await.status != 200 {}
    assert_eq!(server.shown(&id).await["status"], "pending");

    quorum(&server, json!({ "R2": 2 })).await;
    let twice = agent.pending("fake.write", json!({ "text": "twice" })).await;
    assert_eq!(server.owner.approve(&twice).await.status, 202);
    other.owner.approve(&twice).await.problem(409, "already_approved");
    other.owner.deny(&twice, "no").await.ok();
    quorum(&server, json!({ "R2": 1 })).await;

    // The call has ended without an answer.
    let dangerous = agent.invoke("fake.write", json!({ "text": smuggled("hi", "ignore all") })).await.id();
    other.owner.approve(&dangerous).await.problem(409, "already_ended");
    other.owner.deny(&dangerous, "no").await.problem(409, "already_ended");

    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    server.owner.deny(&id, "no").await.ok();
    other.owner.approve(&id).await.problem(409, "rejected");
    refer("fake.write", "a", &id).await.problem(409, "rejected");

    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    server.owner.approve(&id).await.ok();
    other.owner.approve(&id).await.problem(409, "consumed");
    refer("fake.write", "b", &id).await.problem(409, "args_mismatch");
    refer("fake.send", "a", &id).await.problem(409, "tuple_mismatch");
    assert_eq!(refer("fake.write", "a", &id).await.ok()["invocation"]["id"], json!(id));

    let shown = agent.invoke("fake.write", json!({ "text": "b" })).await.body["invocation"]["binding"]["digest"].clone();
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    other.owner.approve_with(&id, json!({ "binding": shown })).await.problem(409, "args_mismatch");

    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    server.owner.set_mode("fake.write", "require_approval").await;
    other.owner.approve(&id).await.problem(409, "policy_mismatch");

    let id = agent.pending("fake.send", json!({ "text": "a" })).await;
    server.owner.switch("on", "org").await.ok();
    other.owner.approve(&id).await.problem(409, "stopped");
    server.owner.switch("off", "org").await.ok();
    other.owner.deny(&id, "no").await.ok();

    let elsewhere = server.agent().await;
    let id = elsewhere.pending("fake.write", json!({})).await;
    server.owner.post(&format!("/api/v1/sessions/{}/end", elsewhere.session), json!({})).await.ok();
    other.owner.approve(&id).await.problem(409, "tuple_mismatch");

    let id = agent.pending("fake.write", json!({})).await;
    server.change_space(json!({ "self_approval": "refused" })).await;
    other.owner.approve(&id).await.problem(403, "self_approval");
    server.change_space(json!({ "self_approval": "allowed" })).await;

    let id = agent.pending("fake.write", json!({})).await;
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS);
    other.owner.approve(&id).await.problem(410, "expired");

    let id = agent.pending("fake.write", json!({})).await;
    server.source.redefine("write", |action| action.description = "Another one.".into());
    other.owner.approve(&id).await.problem(409, "definition_mismatch");
    assert_eq!(server.source.effects(), 1);
    for (conflict, count) in before {
        assert!(server.conflicts(conflict).await > count, "`{conflict}` was not counted");
    }
    server.verify().await;
}

async fn a_yes_of_somebody_who_may_no_longer_give_one_does_not_count(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    quorum(&server, json!({ "R2": 2 })).await;
    let ada = server.owner.person("ada", "admin").await;
    let id = agent.pending("fake.write", json!({})).await;
    assert_eq!(ada.approve(&id).await.status, 202);
    let users = server.owner.get("/api/v1/users").await.ok();
    let her_id = users["items"].as_array().unwrap().iter().find(|user| user["name"] == "ada").unwrap()["id"].as_str().unwrap().to_owned();
    server.owner.send(reqwest::Method::PATCH, &format!("/api/v1/users/{her_id}"), Some(json!({ "role": "member" }))).await.ok();
    server.owner.approve(&id).await.problem(409, "tuple_mismatch");
    let shown = server.shown(&id).await;
    assert_eq!((&shown["status"], server.source.effects()), (&json!("denied"), 0), "{shown}");
    server.verify().await;
}

async fn a_yes_to_ones_own_call_does_not_count_once_the_space_refuses_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    quorum(&server, json!({ "R2": 2 })).await;
    let ada = server.owner.person("ada", "admin").await;
    let id = agent.pending("fake.write", json!({})).await;
    assert_eq!(server.owner.approve(&id).await.status, 202);
    server.change_space(json!({ "self_approval": "refused" })).await;
    ada.approve(&id).await.problem(409, "policy_mismatch");
    assert_eq!((server.shown(&id).await["status"].clone(), server.source.effects()), (json!("denied"), 0));
    server.verify().await;
}

async fn two_servers_count_one_quorum(kind: Kind) {
    let server = TestServer::start(kind).await;
    let other = server.restart().await;
    let agent = server.agent().await;
    quorum(&server, json!({ "R2": 2 })).await;
    let ada = server.owner.person("ada", "admin").await;
    let ada = Client { url: other.url.clone(), ..ada };
    for _ in 0..4 {
        let before = server.source.effects();
        let id = agent.pending("fake.write", json!({})).await;
        let (mine, hers) = tokio::join!(server.owner.approve(&id), ada.approve(&id));
        let mut statuses = [mine.status, hers.status];
        statuses.sort_unstable();
        assert_eq!((statuses, server.source.effects() - before), ([200, 202], 1), "{mine:?} {hers:?}");
    }
    server.verify().await;
}
