//! Commands that a caller wants to succeed after the effect: checked against the allowlist first, run afterwards, and part of the call.

use crate::harness::{Agent, Answer, Kind, TestServer, on_sqlite};
use countersign_core::InvocationId;
use countersign_core::action::Reversibility;
use countersign_core::effect::Check;
use countersign_core::limits::{ATTEMPTS_MAX, COMMANDS_PER_CALL_MAX};
use countersign_core::ports::Invocations;
use countersign_core::source::{Error, Output, Reconciled};
use pipeline::limits::{COMMAND_CHARS_MAX, UNVERIFIED_SECONDS};
use serde_json::{Value, json};

on_sqlite!(
    a_call_is_verified_with_its_own_commands,
    what_its_commands_fail_is_repaired_once_or_taken_back,
    a_command_nobody_allowed_is_refused_before_anything_happens,
    a_yes_covers_the_commands_and_the_call_it_lets_run_runs_them,
    a_yes_to_commands_that_are_no_longer_allowed_runs_nothing,
    a_key_stands_for_its_scope_and_its_commands_too,
    a_rehearsal_looks_at_the_commands_and_runs_none,
    a_scope_that_cannot_be_held_to_is_refused,
    a_look_that_had_no_turn_is_asked_for_again,
    an_effect_nobody_could_look_at_is_in_doubt_and_stands,
    what_nobody_could_look_at_is_looked_at_again,
    what_stays_unlooked_at_is_a_persons_to_say,
);

fn body(action: &str, commands: &[&str]) -> Value {
    json!({ "action": action, "params": { "text": "hello" }, "verification": { "commands": commands } })
}

fn with(mut body: Value, field: &str, value: Value) -> Value {
    body[field] = value;
    body
}

/// `fake.write` is allowed and can be reverted.
async fn reversible(server: &TestServer) -> Agent {
    server.source.redefine("write", |action| action.reversibility = Reversibility::Reversible);
    server.owner.set_mode("fake.write", "allow").await;
    server.agent().await
}

fn checks(invocation: &Value) -> Vec<(String, bool)> {
    let checks = invocation["checks"].as_array().unwrap();
    checks.iter().map(|check| (check["name"].as_str().unwrap().to_owned(), check["ok"].as_bool().unwrap())).collect()
}

async fn a_call_is_verified_with_its_own_commands(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = reversible(&server).await;
    let answer = agent.invoke_with(body("fake.write", &["npm test", "npm run lint"])).await.ok();
    let invocation = &answer["invocation"];
    assert_eq!(invocation["verification"], json!({ "commands": ["npm test", "npm run lint"] }));
    let expected = [("result_schema", true), ("npm test", true), ("npm run lint", true)].map(|(name, ok)| (name.to_owned(), ok));
    assert_eq!(checks(invocation), expected);
    assert_eq!(server.commands.runs(), ["npm test", "npm run lint"]);
    let receipt = server.receipt_of(invocation["id"].as_str().unwrap()).await;
    assert!(receipt["verification"].to_string().contains("npm run lint"), "{receipt:#}");
    // Without commands, none runs and none is shown.
    let plain = agent.invoke("fake.write", json!({})).await.ok();
    assert_eq!((plain["invocation"].get("verification"), server.commands.runs().len()), (None, 2));
    server.verify().await;
}

async fn what_its_commands_fail_is_repaired_once_or_taken_back(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = reversible(&server).await;
    server.commands.will_fail("1 test failed");
    server.commands.will_pass();
    let repaired = agent.invoke_with(body("fake.write", &["npm test"])).await.ok()["invocation"].clone();
    assert_eq!((&repaired["status"], &repaired["repair"]), (&json!("succeeded"), &json!({ "attempted": true, "ok": true })));
    assert_eq!((server.source.effects(), server.source.reverts().len()), (2, 1));

    server.commands.will_fail("1 test failed");
    server.commands.will_fail("still 1 test failed");
    let reverted = agent.invoke_with(body("fake.write", &["npm test"])).await;
    reverted.problem(502, "source_failed");
    let invocation = &reverted.body["invocation"];
    assert_eq!((&invocation["status"], &invocation["error"]["code"]), (&json!("reverted"), &json!("verification_failed")));
    assert_eq!(invocation["error"]["message"], "check `npm test`: still 1 test failed");
    assert_eq!(checks(invocation)[1], ("npm test".to_owned(), false));
    assert_eq!((&invocation["repair"]["ok"], &invocation["rollback"]["ok"]), (&json!(false), &json!(true)));
    let receipt = server.receipt_of(&reverted.id()).await;
    assert_eq!(receipt["status"], "reverted");
    assert!(receipt["verification"].to_string().contains("npm test"), "{receipt:#}");

    // A read has nothing to repair, so the call fails.
    server.commands.will_fail("no");
    let read = agent.invoke_with(json!({ "action": "fake.read", "verification": { "commands": ["npm test"] } })).await;
    assert_eq!((&read.body["invocation"]["status"], read.body["invocation"].get("repair")), (&json!("failed"), None));
    server.verify().await;
}

async fn a_command_nobody_allowed_is_refused_before_anything_happens(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = reversible(&server).await;
    let before = server.counts().await;
    let long = "x".repeat(COMMAND_CHARS_MAX + 1);
    let many = vec!["npm test"; COMMANDS_PER_CALL_MAX + 1];
    let cases: [(&[&str], &str, &str); 6] = [
        (&["npm test", "rm -rf /"], "/verification/commands/1", "the command `rm -rf /` is refused: the test does not allow it"),
        (&[""], "/verification/commands/0", "the command `` is refused"),
        (&["npm\ntest"], "/verification/commands/0", "the command `npm\\ntest` is refused: it must be one line of plain words"),
        (&["npm test\u{1b}[2J"], "/verification/commands/0", "it must be one line of plain words"),
        (&[&long], "/verification/commands/0", "it is longer than 1000 characters"),
        (&many, "/verification/commands", "names more than 16 commands"),
    ];
    for (commands, pointer, message) in cases {
        for dry_run in [false, true] {
            let refused = agent.invoke_with(with(body("fake.write", commands), "dry_run", json!(dry_run))).await;
            refused.problem(422, "command_not_allowed");
            let error = &refused.body["errors"][0];
            assert_eq!(error["pointer"], pointer, "{refused:?}");
            assert!(error["message"].as_str().unwrap().contains(message), "{refused:?}");
        }
    }
    for verification in
        [json!({ "command": ["npm test"] }), json!(["npm test"]), json!({ "commands": "npm test" }), json!({ "commands": [1] })]
    {
        agent.invoke_with(with(body("fake.write", &[]), "verification", verification)).await.problem(400, "invalid_request");
    }
    assert_eq!((server.counts().await, server.source.calls().len(), server.commands.runs().len()), (before, 0, 0));
}

async fn a_yes_covers_the_commands_and_the_call_it_lets_run_runs_them(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let asked = body("fake.write", &["npm test"]);
    let held = agent.invoke_with(asked.clone()).await;
    assert_eq!((held.status, server.commands.runs().len()), (202, 0));
    // The approver sees the commands.
    assert_eq!(server.shown(&held.id()).await["verification"]["commands"], json!(["npm test"]));
    // With other commands, or none, a call that refers to the approval is another call.
    let referring = |body: Value| with(body, "approval_ref", json!(held.id()));
    for other in
        [body("fake.write", &["npm run lint"]), body("fake.write", &[]), with(asked.clone(), "scope", json!({ "allowed_dirs": ["a"] }))]
    {
        agent.invoke_with(referring(other)).await.problem(409, "args_mismatch");
    }
    let binding =
        server.store.find_invocation(&server.org, &InvocationId::parse(&held.id()).unwrap()).await.unwrap().unwrap().binding.unwrap();
    assert_eq!(binding.facts["commands"], json!(["npm test"]));
    server.owner.approve(&held.id()).await.ok();
    assert_eq!(server.commands.runs(), ["npm test"]);
    let answered = agent.invoke_with(referring(asked)).await.ok();
    assert_eq!((&answered["replayed"], server.commands.runs().len()), (&json!(true), 1));
    server.verify().await;
}

async fn a_yes_to_commands_that_are_no_longer_allowed_runs_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let held = agent.invoke_with(body("fake.write", &["npm test"])).await;
    server.commands.allow_nothing();
    server.owner.approve(&held.id()).await.problem(409, "definition_mismatch");
    assert_eq!((server.source.calls().len(), server.commands.runs().len()), (0, 0));
    server.verify().await;
}

async fn a_key_stands_for_its_scope_and_its_commands_too(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = reversible(&server).await;
    let keyed = |body: Value| with(body, "idempotency_key", json!("once"));
    agent.invoke_with(keyed(body("fake.write", &["npm test"]))).await.ok();
    for other in [
        body("fake.write", &[]),
        body("fake.write", &["npm run lint"]),
        with(body("fake.write", &["npm test"]), "scope", json!({ "allowed_dirs": ["src"] })),
    ] {
        agent.invoke_with(keyed(other)).await.problem(409, "idempotency_conflict");
    }
    let again = agent.invoke_with(keyed(body("fake.write", &["npm test"]))).await.ok();
    assert_eq!((&again["replayed"], server.source.effects(), server.commands.runs().len()), (&json!(true), 1, 1));
    server.verify().await;
}

/// Such a scope could not be enforced, and an approver would read that it is.
async fn a_scope_that_cannot_be_held_to_is_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = reversible(&server).await;
    for (field, entry) in
        [("forbidden_files", "**/.env"), ("forbidden_files", "/secrets"), ("allowed_dirs", "../up"), ("allowed_files", "*.rs")]
    {
        let scope = json!({ field: ["plain", entry] });
        let refused = agent.invoke_with(with(body("fake.write", &[]), "scope", scope)).await;
        refused.problem(422, "invalid_scope");
        assert_eq!(refused.body["errors"][0]["pointer"], json!(format!("/scope/{field}/1")), "{refused:?}");
        assert!(!refused.body["detail"].as_str().unwrap().contains("params"), "{refused:?}");
    }
    // All mistakes are listed. The problem's code is that of the first kind, in this order: params, the fields beside them, the scope, the
    // commands.
    let scoped = |commands: &[&str]| with(body("fake.write", commands), "scope", json!({ "allowed_dirs": ["../up"] }));
    let pointers =
        |refused: &Answer| refused.body["errors"].as_array().unwrap().iter().map(|error| error["pointer"].clone()).collect::<Vec<_>>();
    let refused = agent.invoke_with(scoped(&["rm -rf /"])).await;
    refused.problem(422, "invalid_scope");
    assert_eq!(pointers(&refused), ["/scope/allowed_dirs/0", "/verification/commands/0"]);
    let refused = agent.invoke_with(with(scoped(&[]), "params", json!({ "count": "one" }))).await;
    refused.problem(422, "invalid_params");
    assert_eq!(pointers(&refused).last(), Some(&json!("/scope/allowed_dirs/0")));
    let refused = agent.invoke_with(with(scoped(&[]), "idempotency_key", json!(""))).await;
    refused.problem(400, "invalid_request");
    assert_eq!(pointers(&refused), ["/idempotency_key", "/scope/allowed_dirs/0"]);
    assert_eq!(server.source.effects(), 0);
    let held_to = json!({ "forbidden_files": [".env", "src/**", "./docs/"], "allowed_dirs": ["."] });
    agent.invoke_with(with(body("fake.write", &[]), "scope", held_to)).await.ok();
    server.verify().await;
}

async fn a_rehearsal_looks_at_the_commands_and_runs_none(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = reversible(&server).await;
    let rehearsed = agent.invoke_with(with(body("fake.write", &["npm test"]), "dry_run", json!(true))).await.ok();
    assert_eq!((&rehearsed["invocation"]["status"], &rehearsed["invocation"]["dry_run"]), (&json!("succeeded"), &json!(true)));
    assert_eq!((server.commands.runs().len(), server.source.effects()), (0, 0));
    // The scope and the verification do not influence the decision, so an explanation takes neither.
    for field in ["scope", "verification"] {
        let question = json!({ "session_id": agent.session, "action": "fake.write", field: {} });
        server.owner.post("/api/v1/explain", question).await.problem(400, "invalid_request");
    }
    server.verify().await;
}

fn no_turn() -> Error {
    Error::NoTurn { source_id: "fake".into(), message: "as many programs run as may at once".into() }
}

/// `fake.write` also has a check by its source.
async fn checked(server: &TestServer) -> Agent {
    server.source.redefine("write", |action| action.checks = vec!["looks_right".to_owned()]);
    reversible(server).await
}

/// The source's own check never gets a turn, however often it is tried.
fn unlooked(server: &TestServer) {
    for _ in 0..ATTEMPTS_MAX {
        server.source.will_check(Err(no_turn()));
    }
}

fn happened() -> Reconciled {
    Reconciled::Happened(Output::new(json!({ "done": true })))
}

/// A call in doubt, because its effect could not be verified.
async fn unverified(server: &TestServer, agent: &Agent) -> String {
    unlooked(server);
    let doubted = agent.invoke("fake.write", json!({})).await;
    doubted.problem(409, "in_doubt");
    doubted.id()
}

/// Advances the clock to the next verification and returns the invocation after it.
async fn look_again(server: &TestServer, id: &str) -> Value {
    server.clock.advance_seconds(UNVERIFIED_SECONDS);
    server.pipeline.look_at_unverified().await;
    server.shown(id).await
}

async fn a_look_that_had_no_turn_is_asked_for_again(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = checked(&server).await;
    for _ in 1..ATTEMPTS_MAX {
        server.source.will_check(Err(no_turn()));
        server.commands.will_have_no_turn();
    }
    let invocation = agent.invoke_with(body("fake.write", &["npm test"])).await.ok()["invocation"].clone();
    assert_eq!((&invocation["status"], &invocation["attempts"]), (&json!("succeeded"), &json!(1)), "looking is no attempt: {invocation}");
    assert_eq!(checks(&invocation)[1..], [("looks_right".to_owned(), true), ("npm test".to_owned(), true)]);
    assert_eq!((server.source.effects(), server.source.reverts().len(), server.commands.runs().len()), (1, 0, 1));
    server.verify().await;
}

async fn an_effect_nobody_could_look_at_is_in_doubt_and_stands(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = checked(&server).await;
    let id = unverified(&server, &agent).await;
    let invocation = server.shown(&id).await;
    assert_eq!((&invocation["status"], &invocation["error"]["code"]), (&json!("in_doubt"), &json!("not_verified")));
    let message = invocation["error"]["message"].as_str().unwrap();
    assert_eq!(message, "it was made, and check `looks_right` was not: nobody could look: as many programs run as may at once");
    assert_eq!(checks(&invocation), [("result_schema".to_owned(), true), ("looks_right".to_owned(), false)], "it is not verified");
    assert_eq!((server.source.effects(), server.source.reverts().len()), (1, 0), "it stands");

    // The same holds for the caller's commands.
    for _ in 0..ATTEMPTS_MAX {
        server.commands.will_have_no_turn();
    }
    let doubted = agent.invoke_with(body("fake.write", &["npm test"])).await;
    doubted.problem(409, "in_doubt");
    assert_eq!(server.shown(&doubted.id()).await["error"]["code"], "not_verified");
    assert_eq!((server.source.effects(), server.source.reverts().len(), server.commands.runs().len()), (2, 0, 0));

    // A failed check counts more than a check that could not run.
    server.source.will_check(Ok(vec![Check::failed("looks_right", "it does not")]));
    for _ in 0..ATTEMPTS_MAX {
        server.commands.will_have_no_turn();
    }
    let repaired = agent.invoke_with(body("fake.write", &["npm test"])).await.ok()["invocation"].clone();
    assert_eq!(repaired["repair"], json!({ "attempted": true, "ok": true }), "{repaired}");

    // A read has no effect that could be in doubt.
    for _ in 0..ATTEMPTS_MAX {
        server.commands.will_have_no_turn();
    }
    let read = agent.invoke_with(json!({ "action": "fake.read", "verification": { "commands": ["npm test"] } })).await;
    read.problem(502, "source_failed");
    let read = &read.body["invocation"];
    assert_eq!((&read["status"], &read["error"]["code"]), (&json!("failed"), &json!("not_verified")));
    server.verify().await;
}

async fn what_nobody_could_look_at_is_looked_at_again(kind: Kind) {
    let wrong = || Ok(vec![Check::failed("looks_right", "it does not")]);
    let server = TestServer::start(kind).await;
    let agent = checked(&server).await;
    let id = unverified(&server, &agent).await;
    // Not verified at once, but once the time has come: the check passes.
    server.pipeline.look_at_unverified().await;
    assert_eq!(server.shown(&id).await["status"], "in_doubt");
    server.source.will_reconcile(happened());
    let ended = look_again(&server, &id).await;
    assert_eq!((&ended["status"], &ended["attempts"]), (&json!("succeeded"), &json!(1)), "{ended}");
    assert_eq!(server.receipt_of(&id).await["verification"]["ok"], true);
    assert_eq!((server.source.effects(), server.source.reverts().len()), (1, 0));

    // The check fails: now the effect is known to be wrong and is rolled back.
    let id = unverified(&server, &agent).await;
    server.source.will_reconcile(happened());
    server.source.will_check(wrong());
    let ended = look_again(&server, &id).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("reverted"), &json!("verification_failed")), "{ended}");
    assert_eq!(server.source.reverts().len(), 1);

    // Somebody else has undone the effect in the meantime.
    let id = unverified(&server, &agent).await;
    server.source.will_reconcile(Reconciled::DidNot);
    let ended = look_again(&server, &id).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("failed"), &json!("not_verified")), "{ended}");
    assert!(ended["error"]["message"].as_str().unwrap().contains("no longer there"), "{ended}");

    // The effect that could not be verified was a repair.
    server.source.will_check(wrong());
    let id = unverified(&server, &agent).await;
    server.source.will_reconcile(happened());
    let ended = look_again(&server, &id).await;
    assert_eq!((&ended["status"], &ended["repair"]["ok"]), (&json!("succeeded"), &json!(true)), "{ended}");
    server.verify().await;
}

async fn what_stays_unlooked_at_is_a_persons_to_say(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = checked(&server).await;
    let id = unverified(&server, &agent).await;
    // It cannot be verified this time either. The effect is not repeated to find out, since it is known to have been made.
    server.source.will_reconcile(happened());
    unlooked(&server);
    assert_eq!(look_again(&server, &id).await["status"], "in_doubt");
    server.source.will_reconcile(Reconciled::ByAskingAgain);
    let still = look_again(&server, &id).await;
    assert_eq!((&still["status"], &still["attempts"], server.source.effects()), (&json!("in_doubt"), &json!(1), 1));
    let said = json!({ "as": "succeeded", "reason": "I looked" });
    server.owner.post(&format!("/api/v1/invocations/{id}/settle"), said).await.ok();
    let receipt = server.receipt_of(&id).await;
    assert_eq!((&receipt["status"], &receipt["verification"]["ok"]), (&json!("succeeded"), &json!(false)), "no check has passed");
    // Once the call has ended, it is not verified again.
    look_again(&server, &id).await;

    // A new process verifies it at its start.
    let id = unverified(&server, &agent).await;
    server.source.will_reconcile(happened());
    let restarted = server.restart().await;
    restarted.store.succeed(server.store.server_id().clone());
    restarted.pipeline.recover().await.unwrap();
    assert_eq!(restarted.shown(&id).await["status"], "succeeded");
    restarted.verify().await;
}
