//! What an approver can know before answering: whether the call could run, what it would change, and why it needs an approval. A call that
//! cannot run never asks a person.

use crate::harness::{Agent, Kind, TestServer, on_sqlite};
use countersign_core::InvocationId;
use countersign_core::action::{Effect, Reversibility};
use countersign_core::limits::PARAMS_STORED_BYTES_MAX;
use countersign_core::ports::Invocations;
use countersign_core::source::{Error, Output};
use reqwest::Method;
use serde_json::{Value, json};

on_sqlite!(
    who_is_asked_sees_what_would_change_and_nothing_happens,
    who_is_asked_sees_all_of_what_was_too_large_to_keep,
    what_is_seen_ahead_is_bounded_like_a_dry_run,
    only_who_may_answer_looks_ahead_and_only_at_what_waits,
    a_call_that_ends_while_it_is_looked_at_is_no_fault_of_the_server,
    nobody_is_asked_about_what_cannot_run,
    what_cannot_run_ends_the_same_whoever_would_be_asked,
    a_denial_says_what_would_make_the_call_possible,
    what_becomes_impossible_while_it_waits_says_so_and_takes_no_yes,
    what_would_be_refused_by_what_it_meets_takes_no_yes,
    what_was_waited_for_people_is_counted_apart,
    a_batch_with_a_part_that_cannot_run_is_refused_whole,
    what_the_session_holds_is_told_with_where_it_came_from,
    what_a_yes_no_longer_fits_is_said_and_not_rehearsed,
    nobody_is_asked_to_take_back_what_cannot_be,
);

async fn ahead(server: &TestServer, id: &str) -> Value {
    server.owner.get(&format!("/api/v1/invocations/{id}/foresight")).await.ok()
}

/// An agent that may read and send without approval, until its session holds both private data and untrusted content.
async fn agent_that_reads_and_sends(server: &TestServer) -> Agent {
    server.source.redefine("read", |action| action.effects = vec![Effect::FilesystemRead]);
    server.source.redefine("send", |action| action.effects = vec![Effect::NetworkCall]);
    server.owner.review("fake.read").await;
    server.owner.review("fake.send").await;
    server.owner.set_mode("fake.send", "allow").await;
    server.owner.consent("fake.send").await;
    server.agent().await
}

fn disabled() -> Error {
    Error::Refused { code: "package_code_disabled", message: "this server runs no code of packages".into() }
}

async fn who_is_asked_sees_what_would_change_and_nothing_happens(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({ "text": "x", "password": "hunter2-of-ours" })).await;
    let before = server.counts().await;
    server.source.will_preview(Ok(Output::new(
        json!({ "change": "would_create", "path": "a", "token": "ghp_0123456789abcdefghijABCDEFGHIJ012345" }),
    )));
    let seen = ahead(&server, &id).await;
    assert_eq!((&seen["changes"]["path"], &seen["blocked"], &seen["unknown"]), (&json!("a"), &Value::Null, &Value::Null), "{seen}");
    assert!(!seen.to_string().contains("ghp_"), "{seen}");
    assert_eq!(seen["ran_code"], false, "{seen}");
    // The preview uses the original params, although they are shown to nobody.
    assert_eq!(server.source.previews()[0].params["password"], "hunter2-of-ours");
    assert_eq!((server.source.calls().len(), server.counts().await), (0, before));
    // An error that the call would end with is known before anybody answers. A transient error does not block it.
    server.source.will_preview(Err(Error::Refused { code: "path_outside", message: "it leads out".into() }));
    assert_eq!(ahead(&server, &id).await["blocked"]["code"], "path_outside");
    server.source.will_preview(Err(Error::Busy { source_id: "fake".into(), message: "later".into(), retry_after_ms: None }));
    let busy = ahead(&server, &id).await;
    assert!(busy["blocked"].is_null() && busy["unknown"].as_str().unwrap().contains("later"), "{busy}");
    server.owner.approve(&id).await.ok();
    server.verify().await;
}

async fn who_is_asked_sees_all_of_what_was_too_large_to_keep(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.source.redefine("write", |action| action.params_schema = json!({ "type": "object" }));
    server.owner.review("fake.write").await;
    let agent = server.agent().await;
    let long = format!("{}end", "x".repeat(PARAMS_STORED_BYTES_MAX));
    let id = agent.pending("fake.write", json!({ "text": long, "password": "hunter2-of-ours" })).await;
    let kept = server.shown(&id).await["params"].clone();
    assert_eq!(kept["_truncated"], true);
    assert!(!kept.to_string().contains("end"), "{kept}");
    let seen = ahead(&server, &id).await;
    assert_eq!(seen["params"], json!({ "text": long, "password": "[redacted]" }));
    // The params are shown as they are recorded: redacted by the rules of the space.
    server.change_space(json!({ "redaction": { "kinds": ["email"], "regions": [] } })).await;
    let mailed = agent.pending("fake.write", json!({ "text": format!("{long} of robin@example.com") })).await;
    let seen = ahead(&server, &mailed).await["params"].to_string();
    assert!(seen.contains("end of ") && !seen.contains("robin@"), "{}", &seen[seen.len() - 80..]);
    let small = agent.pending("fake.write", json!({ "text": "x" })).await;
    assert!(ahead(&server, &small).await.get("params").is_none());
}

async fn what_is_seen_ahead_is_bounded_like_a_dry_run(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let send = agent.pending("fake.send", json!({ "text": "x" })).await;
    assert_eq!(ahead(&server, &send).await["unknown"], "this action cannot tell in advance");
    server.owner.set_mode("fake.read", "require_approval").await;
    let read = agent.pending("fake.read", json!({})).await;
    assert_eq!(ahead(&server, &read).await["changes"], json!({ "changes": [] }));
    // A preview that amounts to a read needs the mode of that read.
    server.source.redefine("write", |action| action.preview_reads = Some(countersign_core::ActionId::parse("fake.read").unwrap()));
    server.owner.review("fake.write").await;
    let write = agent.pending("fake.write", json!({ "text": "x" })).await;
    let seen = ahead(&server, &write).await;
    assert!(seen["unknown"].as_str().unwrap().contains("fake.read") && seen["changes"].is_null(), "{seen}");
    assert!(server.source.previews().is_empty());
    // A kill switch blocks the call, whatever the answer is.
    server.owner.switch("on", "org").await.ok();
    assert_eq!(ahead(&server, &send).await["blocked"]["code"], "stopped");
}

async fn only_who_may_answer_looks_ahead_and_only_at_what_waits(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({ "text": "x" })).await;
    let path = format!("/api/v1/invocations/{id}/foresight");
    agent.client.get(&path).await.problem(403, "forbidden");
    server.owner.person("vera", "member").await.get(&path).await.problem(403, "forbidden");
    server.owner.get("/api/v1/invocations/inv_00000000000000000000000000/foresight").await.problem(404, "not_found");
    assert!(server.source.previews().is_empty());
    server.owner.deny(&id, "no").await.ok();
    server.owner.get(&path).await.problem(409, "rejected");
}

async fn a_call_that_ends_while_it_is_looked_at_is_no_fault_of_the_server(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = InvocationId::parse(&agent.pending("fake.write", json!({ "text": "x" })).await).unwrap();
    // As a list has read it, before it is denied.
    let read = server.store.find_invocation(&server.org, &id).await.unwrap().unwrap();
    server.owner.deny(id.as_str(), "no").await.ok();
    let conflict = pipeline::Error::Conflict { invocation: id, conflict: pipeline::Conflict::Rejected };
    // Nothing has changed that it was decided by, so nobody looks at it again.
    assert_eq!(server.pipeline.void_reason(&read).await, Ok(None));
    server.owner.send(Method::PUT, "/api/v1/modes/fake.read", Some(json!({ "mode": "allow" }))).await.ok();
    assert_eq!(server.pipeline.void_reason(&read).await, Err(conflict.clone()));
    assert_eq!(server.pipeline.foresee(&read).await.unwrap_err(), conflict);
}

async fn nobody_is_asked_about_what_cannot_run(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.source.becomes_impossible(Some(disabled()));
    let refused = agent.invoke("fake.write", json!({ "text": "x" })).await;
    refused.problem(403, "package_code_disabled");
    assert_eq!((&refused.body["error"], &refused.body["invocation"]["status"]), (&json!("package_code_disabled"), &json!("denied")));
    assert_eq!(server.owner.get("/api/v1/invocations?status=pending").await.ok()["items"], json!([]));
    let question = json!({ "session_id": agent.session, "action": "fake.write", "params": { "text": "x" } });
    let explained = server.owner.post("/api/v1/explain", question).await.ok();
    assert_eq!((&explained["would"], &explained["because"]), (&json!("denied"), &json!("this server runs no code of packages")));
    // A source that is only busy or unreachable may be back when somebody answers.
    server.source.becomes_impossible(Some(Error::Unreachable { source_id: "fake".into(), message: "away".into() }));
    agent.pending("fake.write", json!({ "text": "x" })).await;
    assert_eq!(server.source.calls().len(), 0);
    server.verify().await;
}

async fn what_cannot_run_ends_the_same_whoever_would_be_asked(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = agent_that_reads_and_sends(&server).await;
    server.owner.grant(json!({ "covers": "fake.write", "scope": "org", "calls_max": 1 })).await;
    let calls = server.source.calls().len();
    server.source.becomes_impossible(Some(disabled()));
    let dry_run = json!({ "action": "fake.write", "params": { "text": "x" }, "dry_run": true });
    for (whoever, refused) in [
        ("nobody: a read", agent.invoke("fake.read", json!({})).await),
        ("nobody: it is allowed", agent.invoke("fake.send", json!({ "text": "x" })).await),
        ("nobody: a grant stands in", agent.invoke("fake.write", json!({ "text": "x" })).await),
        ("nobody: a dry run", agent.client.post(&format!("/api/v1/sessions/{}/actions/invoke", agent.session), dry_run).await),
    ] {
        refused.problem(403, "package_code_disabled");
        let ended = &refused.body["invocation"];
        assert_eq!((&refused.body["error"], &ended["status"]), (&json!("package_code_disabled"), &json!("denied")), "{whoever}");
        assert_eq!((&ended["attempts"], &ended["grant_id"]), (&json!(0), &Value::Null), "{whoever}");
    }
    assert_eq!((server.source.calls().len(), server.source.previews().len()), (calls, 0));
    server.source.becomes_impossible(None);
    // The grant was not used, and the session got no labels.
    assert_eq!(agent.invoke("fake.write", json!({ "text": "x" })).await.ok()["invocation"]["status"], "succeeded");
    agent.invoke("fake.send", json!({ "text": "x" })).await.ok();
    agent.invoke("fake.send", json!({ "text": "y" })).await.ok();
    // With these calls the session gets its labels, and an explanation names the calls and the way out.
    agent.invoke("fake.read", json!({})).await.ok();
    let question = json!({ "session_id": agent.session, "action": "fake.send", "params": { "text": "x" } });
    let because = server.owner.post("/api/v1/explain", question).await.ok()["because"].to_string();
    for part in ["safety.trifecta", "`private_data` by `inv_", "(`fake.read`)", "(`fake.send`)", "a new one would hold neither"] {
        assert!(because.contains(part), "{part}: {because}");
    }
    server.verify().await;
}

async fn a_denial_says_what_would_make_the_call_possible(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let hint_of = async |action: &str, params: Value| {
        let denied = agent.invoke(action, params).await;
        denied.problem(403, "denied_by_policy");
        denied.body["hint"].as_str().unwrap().to_owned()
    };
    let inferred = hint_of("fake.destroy", json!({ "text": "x" })).await;
    assert!(inferred.contains("`PUT /api/v1/modes/fake.destroy`"), "{inferred}");
    server.owner.set_mode("fake.read", "deny").await;
    let by_org = hint_of("fake.read", json!({})).await;
    assert!(by_org.contains("`DELETE /api/v1/modes/fake.read`"), "{by_org}");
    // A dry run that amounts to a read is held to the read's mode, and that is the one to change.
    server.source.redefine("write", |action| action.preview_reads = Some(countersign_core::ActionId::parse("fake.read").unwrap()));
    server.owner.review("fake.write").await;
    let dry_run = json!({ "action": "fake.write", "params": { "text": "x" }, "dry_run": true });
    let denied = agent.client.post(&format!("/api/v1/sessions/{}/actions/invoke", agent.session), dry_run).await;
    denied.problem(403, "denied_by_policy");
    let by_read = denied.body["hint"].as_str().unwrap();
    assert!(
        by_read.contains("the action that it would read with") && denied.body["detail"].as_str().unwrap().contains("`fake.read`"),
        "{denied:?}"
    );
    let space = server.owner.get(&format!("/api/v1/sessions/{}", agent.session)).await.ok()["space_id"].as_str().unwrap().to_owned();
    let set_band =
        async |band: &str| server.owner.send(Method::PATCH, &format!("/api/v1/spaces/{space}"), Some(json!({ "band": band }))).await.ok();
    set_band("black").await;
    let by_band = hint_of("fake.send", json!({ "text": "x" })).await;
    assert!(by_band.contains("`PATCH /api/v1/spaces/"), "{by_band}");
    set_band("green").await;
    server.owner.switch("on", "org").await.ok();
    let stopped = hint_of("fake.send", json!({ "text": "x" })).await;
    assert!(stopped.contains("`GET /api/v1/kill-switches`"), "{stopped}");
}

async fn what_becomes_impossible_while_it_waits_says_so_and_takes_no_yes(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({ "text": "x" })).await;
    server.source.becomes_impossible(Some(disabled()));
    assert_eq!(ahead(&server, &id).await["blocked"]["code"], "package_code_disabled");
    let refused = server.owner.approve(&id).await;
    refused.problem(409, "cannot_run");
    assert_eq!(refused.body["error"], "package_code_disabled");
    let shown = server.shown(&id).await;
    assert_eq!((&shown["status"], &shown["approvals"]), (&json!("pending"), &json!([])), "no yes was spent");
    // Once the cause is fixed, the same call can be approved.
    server.source.becomes_impossible(None);
    assert_eq!(server.owner.approve(&id).await.ok()["invocation"]["status"], "succeeded");
    server.verify().await;
}

async fn what_would_be_refused_by_what_it_meets_takes_no_yes(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({ "text": "x" })).await;
    server.source.will_preview(Err(Error::Refused { code: "not_a_regular_file", message: "`notes` is not a regular file".into() }));
    let refused = server.owner.approve(&id).await;
    refused.problem(409, "cannot_run");
    assert_eq!((&refused.body["error"], &server.shown(&id).await["status"]), (&json!("not_a_regular_file"), &json!("pending")));
    // A transient error does not block the approval.
    server.source.will_preview(Err(Error::Busy { source_id: "fake".into(), message: "later".into(), retry_after_ms: None }));
    assert_eq!(server.owner.approve(&id).await.ok()["invocation"]["status"], "succeeded");
    server.verify().await;
}

async fn what_was_waited_for_people_is_counted_apart(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let read = agent.invoke("fake.read", json!({})).await.ok();
    assert_eq!((&read["invocation"]["duration_ms"], &read["invocation"]["attempts"]), (&json!(0), &json!(1)));
    assert_eq!(read["invocation"].get("waited_ms"), None, "nobody was asked");
    let id = agent.pending("fake.write", json!({ "text": "x" })).await;
    server.clock.advance_seconds(37);
    let done = server.owner.approve(&id).await.ok();
    let told = |of: &Value| (of["waited_ms"].clone(), of["duration_ms"].clone(), of["attempts"].clone());
    assert_eq!(told(&done["invocation"]), (json!(37_000), json!(0), json!(1)), "{done}");
    // Nobody answered: all of the time was waiting.
    let id = agent.pending("fake.write", json!({ "text": "y" })).await;
    server.clock.advance_seconds(countersign_core::limits::APPROVAL_INTERACTIVE_SECONDS + 1);
    server.owner.approve(&id).await.problem(410, "expired");
    assert_eq!(told(&server.shown(&id).await).1, json!(0));
}

async fn a_batch_with_a_part_that_cannot_run_is_refused_whole(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.source.becomes_impossible(Some(disabled()));
    let actions = json!([{ "action": "fake.read", "params": {} }, { "action": "fake.write", "params": { "text": "x" } }]);
    let path = format!("/api/v1/sessions/{}/actions/batch", agent.session);
    let batch = agent.client.post(&path, json!({ "mode": "all_or_nothing", "actions": actions })).await.ok();
    assert_eq!((&batch["status"], &batch["parts"][0]["error"]["code"]), (&json!("denied"), &json!("package_code_disabled")), "{batch}");
    assert!(server.source.calls().is_empty());
    server.verify().await;
}

async fn what_the_session_holds_is_told_with_where_it_came_from(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = agent_that_reads_and_sends(&server).await;
    let read = agent.invoke("fake.read", json!({})).await.id();
    let sent = agent.invoke("fake.send", json!({ "text": "hello" })).await.id();
    // Private data, untrusted content and a way out: whatever the mode is, a person is asked and told why.
    let id = agent.pending("fake.send", json!({ "text": "all of it" })).await;
    let seen = ahead(&server, &id).await;
    assert_eq!(seen["concerns"][0]["rule"], "safety.trifecta", "{seen}");
    let labels: Vec<_> = seen["labels"].as_array().unwrap().iter().collect();
    let told =
        |label: &str| labels.iter().find(|held| held["label"] == label).map(|held| (held["action"].clone(), held["invocation_id"].clone()));
    assert_eq!(told("private_data"), Some((json!("fake.read"), json!(read))), "{seen}");
    assert_eq!(told("untrusted_content"), Some((json!("fake.send"), json!(sent))), "{seen}");
    // The page of a link says the same.
    let link = server.owner.post(&format!("/api/v1/invocations/{id}/link"), json!({})).await.ok()["path"].as_str().unwrap().to_owned();
    let (_, page) = crate::browser::Browser::of(&server).look(&link).await;
    let concern = format!("<dt>Asked by<dd>gate `safety`: {} (safety.trifecta)", seen["concerns"][0]["message"].as_str().unwrap());
    let from = [format!(", from fake.read {read}"), format!(", from fake.send {sent}")];
    for told in [concern.as_str(), "<dt>Session holds<dd>private_data since ", "<dd>untrusted_content since ", &from[0], &from[1]] {
        assert!(page.contains(told), "{told}: {page}");
    }
}

async fn what_a_yes_no_longer_fits_is_said_and_not_rehearsed(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({ "text": "x" })).await;
    server.source.redefine("write", |action| action.title = "Other".into());
    let seen = ahead(&server, &id).await;
    assert_eq!((&seen["blocked"]["code"], &seen["changes"]), (&json!("definition_mismatch"), &Value::Null), "{seen}");
    let other = agent.pending("fake.write", json!({ "text": "x" })).await;
    assert!(ahead(&server, &other).await["blocked"].is_null());
    assert_eq!(server.source.previews().len(), 1, "of the one that was asked for as the action is now");
    // Approving gives the error that was foreseen, and so does an answer to a call that a change of the rules has ended.
    server.owner.approve(&id).await.problem(409, "definition_mismatch");
    server.owner.set_mode("fake.write", "require_approval").await;
    server.owner.get(&format!("/api/v1/invocations/{other}/foresight")).await.problem(409, "policy_mismatch");
    server.owner.approve(&other).await.problem(409, "policy_mismatch");
    assert_eq!((server.source.calls().len(), server.source.previews().len()), (0, 1));
    // The same if the params no longer fit the schema; the message then names the misfit.
    let misfit = agent.pending("fake.write", json!({ "text": "x" })).await;
    let schema = json!({ "type": "object", "required": ["other"], "properties": { "other": { "type": "string" } } });
    server.source.redefine("write", |action| action.params_schema = schema.clone());
    let seen = ahead(&server, &misfit).await;
    assert_eq!(seen["blocked"]["code"], "definition_mismatch", "{seen}");
    assert!(seen["blocked"]["message"].as_str().unwrap_or_default().contains("other"), "{seen}");
    server.verify().await;
}

async fn nobody_is_asked_to_take_back_what_cannot_be(kind: Kind) {
    let server = TestServer::start(kind).await;
    let changed = || Some(Error::Refused { code: "content_changed", message: "`a` was changed after the call".into() });
    server.source.redefine("write", |action| action.reversibility = Reversibility::Reversible);
    server.owner.review("fake.write").await;
    let agent = server.agent().await;
    let done = agent.pending("fake.write", json!({ "text": "x" })).await;
    server.owner.approve(&done).await.ok();
    let path = format!("/api/v1/invocations/{done}/revert");
    server.source.becomes_irrevertible(changed());
    let refused = agent.client.post(&path, json!({})).await;
    refused.problem(409, "content_changed");
    assert_eq!(refused.body["invocation"]["error"]["code"], "content_changed", "{refused:?}");
    // The same while the revert is pending: no approval is used for it.
    server.source.becomes_irrevertible(None);
    let held = agent.client.post(&path, json!({})).await;
    assert_eq!(held.status, 202, "{held:?}");
    let revert = held.id();
    server.source.becomes_irrevertible(changed());
    let seen = ahead(&server, &revert).await;
    assert_eq!(seen["blocked"], json!({ "code": "content_changed", "message": "`a` was changed after the call" }), "{seen}");
    server.owner.approve(&revert).await.problem(409, "cannot_run");
    server.source.becomes_irrevertible(None);
    assert_eq!(server.owner.approve(&revert).await.ok()["invocation"]["status"], "succeeded");
    assert_eq!(server.source.reverts().len(), 1);
    server.verify().await;
}
