//! In whose name an automation acts, and what it may do: for whoever saved what it does, with what was permitted for that, and no longer than they
//! may act.

use crate::automations::{digest, ended, fire, id_of, run, saved, waiting, with_triggers};
use crate::harness::{Answer, Client, Kind, TestServer, on_both_engines, on_sqlite};
use countersign_core::source::Output;
use reqwest::Method;
use serde_json::{Value, json};
use store::limits::DRAFTS_MAX;

on_both_engines!(a_run_acts_for_whoever_saved_its_version);

on_sqlite!(
    a_new_definition_takes_over_no_mode_and_no_grant,
    whoever_asks_for_a_run_does_not_approve_its_calls,
    a_run_ends_when_its_author_may_no_longer_act,
    what_a_stranger_sends_is_no_command,
    a_draft_replaces_the_version_it_was_made_for_and_no_later_one,
    nobody_leaves_drafts_without_end,
    who_is_no_person_drops_no_draft_of_somebody_else,
    a_mode_a_grant_and_a_session_are_for_an_automation_that_is_there,
    an_event_of_a_run_is_for_its_space_whatever_it_says,
);

async fn principal(client: &Client) -> String {
    client.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().to_owned()
}

async fn user(client: &Client) -> String {
    principal(client).await.trim_start_matches("user:").to_owned()
}

async fn put(client: &Client, automation: &str, definition: &Value) -> Answer {
    client.send(Method::PUT, &format!("/api/v1/automations/{automation}"), Some(json!({ "definition": definition }))).await
}

/// Writes another text.
fn writing(text: &str) -> Value {
    let mut definition = digest();
    definition["plan"][1]["config"]["text"] = json!(text);
    definition
}

async fn a_new_definition_takes_over_no_mode_and_no_grant(kind: Kind) {
    let server = TestServer::start(kind).await;
    let mia = server.owner.person("mia", "member").await;
    let id = id_of(&saved(&mia, digest()).await);
    put(&mia, &id, &writing("a")).await.ok();
    let mode = format!("/api/v1/automations/{id}/modes/fake.write");
    let set = async |word: &str| server.owner.send(Method::PUT, &mode, Some(json!({ "mode": word }))).await.ok();
    set("allow").await;
    let refused = put(&mia, &id, &writing("b")).await;
    refused.problem(403, "forbidden");
    let told = format!("{} {}", refused.body["detail"], refused.body["hint"]);
    assert!(told.contains("`fake.write`") && told.contains("an admin"), "{told}");
    put(&mia, &id, &writing("a")).await.ok();
    // What does not call the action takes nothing over, and what calls it again does.
    let mut without = digest();
    without["plan"].as_array_mut().unwrap().pop();
    put(&mia, &id, &without).await.ok();
    put(&mia, &id, &writing("b")).await.problem(403, "forbidden");
    // A mode that loosens nothing is nothing to take over.
    set("require_approval").await;
    put(&mia, &id, &writing("b")).await.ok();
    let grant = server.owner.grant(json!({ "covers": "fake.write", "scope": "automation", "automation_id": id })).await;
    put(&mia, &id, &writing("c")).await.problem(403, "forbidden");
    // Whoever could give it answers for what it is used for.
    put(&server.owner, &id, &writing("d")).await.ok();
    server.owner.revoke(&grant).await.ok();
    put(&mia, &id, &writing("c")).await.ok();
    server.verify().await;
}

async fn a_run_acts_for_whoever_saved_its_version(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let (ann, bob) = (server.owner.person("ann", "member").await, server.owner.person("bob", "member").await);
    let queued = |text: &str| {
        let mut definition = writing(text);
        definition["execution"] = json!({ "concurrency": "queue" });
        definition
    };
    let id = id_of(&saved(&ann, queued("of ann")).await);
    let runs = [run(&ann, &id, json!({})).await, run(&ann, &id, json!({})).await];
    waiting(&server.owner, &runs[0]).await;
    server.clock.advance_ms(1);
    put(&bob, &id, &queued("of bob")).await.ok();
    // One waits for a person and one behind it while another version is saved.
    for run in &runs {
        let call = waiting(&server.owner, run).await["invocation_id"].as_str().unwrap().to_owned();
        assert_eq!(server.shown(&call).await["owner_id"], json!(user(&ann).await));
        server.owner.approve(&call).await.ok();
        assert_eq!(ended(&server.owner, run).await["status"], "succeeded");
    }
    // The steps before are those of another definition: all of it is run again, for whoever saved that.
    let rerun = async |body: Value| server.owner.post(&format!("/api/v1/runs/{}/rerun", runs[0]), body).await;
    let refused = rerun(json!({ "from_step": "write" })).await;
    refused.problem(409, "rerun_refused");
    assert!(refused.body["detail"].as_str().unwrap().contains("another definition"), "{refused:?}");
    let whole = rerun(json!({})).await.ok()["run_id"].as_str().unwrap().to_owned();
    let call = waiting(&server.owner, &whole).await["invocation_id"].as_str().unwrap().to_owned();
    assert_eq!(server.shown(&call).await["owner_id"], json!(user(&bob).await));
    server.verify().await;
}

async fn whoever_asks_for_a_run_does_not_approve_its_calls(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.change_space(json!({ "self_approval": "refused" })).await;
    let (ann, bob) = (server.owner.person("ann", "member").await, server.owner.person("bob", "approver").await);
    let id = id_of(&saved(&ann, digest()).await);
    let _working = server.work();
    let first = run(&bob, &id, json!({})).await;
    let waits = waiting(&server.owner, &first).await;
    assert_eq!(waits["asked_by"], json!(principal(&bob).await));
    let call = waits["invocation_id"].as_str().unwrap();
    bob.approve(call).await.problem(403, "self_approval");
    server.owner.approve(call).await.ok();
    assert_eq!(ended(&server.owner, &first).await["status"], "succeeded");
    let again = server.owner.post(&format!("/api/v1/runs/{first}/rerun"), json!({ "from_step": "write" })).await.ok();
    let again = again["run_id"].as_str().unwrap();
    let waits = waiting(&server.owner, again).await;
    assert_eq!(waits["asked_by"], json!(principal(&server.owner).await));
    let call = waits["invocation_id"].as_str().unwrap();
    server.owner.approve(call).await.problem(403, "self_approval");
    bob.approve(call).await.ok();
    assert_eq!(ended(&server.owner, again).await["status"], "succeeded");
    server.verify().await;
}

async fn a_run_ends_when_its_author_may_no_longer_act(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let step = |id: &str| json!({ "step_id": id, "action": "fake.read", "config": { "text": "x" } });
    let mut definition = json!({ "schema_version": "1.0", "plan": [step("first"), step("second")],
        "execution": { "on_failure": [step("tell")] } });
    for (name, method, path, body) in
        [("ann", Method::POST, "/disable", json!({})), ("bob", Method::PATCH, "", json!({ "role": "viewer" }))]
    {
        let author = server.owner.person(name, "member").await;
        let user = user(&author).await;
        definition["name"] = json!(name);
        let id = id_of(&saved(&author, definition.clone()).await);
        let before = server.source.calls().len();
        let mut held = server.source.will_hold(Ok(Output::new(json!({}))));
        let run = run(&server.owner, &id, json!({})).await;
        held.arrived().await;
        server.owner.send(method, &format!("/api/v1/users/{user}{path}"), Some(body)).await.ok();
        held.release();
        let shown = ended(&server.owner, &run).await;
        assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("failed"), &json!("creator_inactive")), "{shown:#}");
        assert_eq!((&shown["error"]["step_id"], shown["steps"].as_array().unwrap().len()), (&json!("second"), 1), "{shown:#}");
        assert_eq!(server.source.calls().len(), before + 1, "nothing is called for them any more, not even what follows a failure");
    }
}

async fn what_a_stranger_sends_is_no_command(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let mut definition = with_triggers(json!([{ "trigger_id": "hook", "type": "webhook" }]));
    definition["plan"] = json!([{ "step_id": "do", "action": "fake.read", "config": { "command": "{{ inputs.text }}" } }]);
    let saved = saved(&server.owner, definition).await;
    let id = id_of(&saved);
    let by_hand = run(&server.owner, &id, json!({ "text": "list" })).await;
    assert_eq!(ended(&server.owner, &by_hand).await["status"], "succeeded");
    let bearer = format!("Bearer {}", saved["tokens"][0]["token"].as_str().unwrap());
    let fired = fire(&server, &id, &[("authorization", &bearer)], r#"{"text": "list"}"#).await.ok();
    let waits = waiting(&server.owner, fired["run_id"].as_str().unwrap()).await;
    let call = waits["invocation_id"].as_str().unwrap();
    let ahead = server.owner.get(&format!("/api/v1/invocations/{call}/foresight")).await.ok();
    assert_eq!(ahead["concerns"][0]["rule"], "safety.tainted_command", "{ahead:#}");
    let label = &ahead["labels"][0];
    assert_eq!((&label["label"], &label["invocation_id"]), (&json!("untrusted_content"), &Value::Null), "{ahead:#}");
}

async fn a_draft_replaces_the_version_it_was_made_for_and_no_later_one(kind: Kind) {
    let server = TestServer::start(kind).await;
    let owner = &server.owner;
    let id = id_of(&saved(owner, digest()).await);
    let made = owner.post("/api/v1/tokens", json!({ "name": "svc", "scopes": ["invoke"] })).await.ok();
    let service = owner.with_token(made["token"].as_str().unwrap());
    let propose = async |definition: Value| put(&service, &id, &definition).await.ok()["draft"]["id"].as_str().unwrap().to_owned();
    let save = async |draft: &str| {
        let path = format!("/api/v1/automation-drafts/{draft}");
        let flags = owner.get(&path).await.ok()["flags"].clone();
        let places: Vec<_> = flags.as_array().unwrap().iter().map(|flag| flag["pointer"].clone()).collect();
        owner.post(&format!("{path}/save"), json!({ "accept": places })).await
    };
    let draft = propose(writing("proposed")).await;
    put(owner, &id, &writing("newer")).await.ok();
    save(&draft).await.problem(412, "automation_changed");
    let shown = owner.get(&format!("/api/v1/automations/{id}")).await.ok();
    assert_eq!((&shown["version"], &shown["definition"]["plan"][1]["config"]["text"]), (&json!(2), &json!("newer")));
    let saved = save(&propose(writing("proposed")).await).await.ok();
    assert_eq!(saved["automation"]["version"], 3);
    // Whoever proposes says what they have seen, as whoever saves does.
    let stale = service.http.put(format!("{}/api/v1/automations/{id}", server.url)).bearer_auth(&service.token);
    let stale = stale.header("if-match", format!("\"{}\"", shown["digest"].as_str().unwrap())).json(&json!({ "definition": digest() }));
    Answer::of(stale.send().await.unwrap()).await.problem(412, "automation_changed");
}

async fn nobody_leaves_drafts_without_end(kind: Kind) {
    let server = TestServer::start(kind).await;
    let mia = server.owner.person("mia", "member").await;
    let import = async |client: &Client| client.post("/api/v1/automations/import", json!({ "definition": digest() })).await;
    let mut last = Value::Null;
    for _ in 0..DRAFTS_MAX {
        last = import(&mia).await.ok()["id"].clone();
    }
    import(&mia).await.problem(409, "too_many_drafts");
    import(&server.owner).await.ok();
    mia.send(Method::DELETE, &format!("/api/v1/automation-drafts/{}", last.as_str().unwrap()), None).await.ok();
    import(&mia).await.ok();
}

async fn who_is_no_person_drops_no_draft_of_somebody_else(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (owner, agent) = (&server.owner, server.agent().await.client);
    let made = owner.post("/api/v1/tokens", json!({ "name": "svc", "scopes": ["invoke"] })).await.ok();
    let service = owner.with_token(made["token"].as_str().unwrap());
    let mia = owner.person("mia", "member").await;
    let import = async |by: &Client| {
        let made = by.post("/api/v1/automations/import", json!({ "definition": digest() })).await.ok();
        format!("/api/v1/automation-drafts/{}", made["id"].as_str().unwrap())
    };
    let drop = async |by: &Client, draft: &str| by.send(Method::DELETE, draft, None).await;
    let of_agent = import(&agent).await;
    for (made_by, others) in [(owner, [&agent, &service]), (&agent, [&service, &service]), (&service, [&agent, &agent])] {
        let draft = import(made_by).await;
        for by in others {
            let refused = drop(by, &draft).await;
            refused.problem(403, "forbidden");
            assert!(refused.body["detail"].as_str().unwrap().contains("somebody else made"), "{refused:?}");
        }
        owner.get(&draft).await.ok();
        drop(made_by, &draft).await.ok();
    }
    // A person may, as before, who may save it.
    drop(&mia, &of_agent).await.ok();
}

async fn a_mode_a_grant_and_a_session_are_for_an_automation_that_is_there(kind: Kind) {
    let server = TestServer::start(kind).await;
    let absent = "aut_00000000000000000000000000";
    for automation in [absent, "nightly"] {
        let path = format!("/api/v1/automations/{automation}/modes/fake.write");
        server.owner.send(Method::PUT, &path, Some(json!({ "mode": "allow" }))).await.problem(404, "not_found");
        server.owner.send(Method::DELETE, &path, None).await.problem(404, "not_found");
        let grant = json!({ "covers": "fake.write", "scope": "automation", "automation_id": automation });
        server.owner.post("/api/v1/grants", grant).await.problem(404, "not_found");
        server.owner.post("/api/v1/sessions", json!({ "automation_id": automation })).await.problem(404, "not_found");
    }
    let file = json!({ "modes": [{ "action": "fake.write", "automation": absent, "mode": "allow" }] });
    let refused = server.owner.send(Method::PUT, "/api/v1/modes", Some(file)).await;
    refused.problem(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/modes/0/automation");
    assert_eq!(server.owner.get("/api/v1/modes").await.ok()["items"], json!([]));
}

async fn an_event_of_a_run_is_for_its_space_whatever_it_says(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let (ines, otto) = (server.owner.person("ines", "member").await, server.owner.person("otto", "member").await);
    let payroll = server.owner.post("/api/v1/spaces", json!({ "name": "payroll" })).await.ok()["id"].as_str().unwrap().to_owned();
    server.owner.post(&format!("/api/v1/spaces/{payroll}/members"), json!({ "user_id": user(&ines).await })).await.ok();
    let mut definition = digest();
    definition["plan"].as_array_mut().unwrap().pop();
    let main = server.main_space().await;
    let request = json!({ "space": "payroll", "definition": definition });
    let hidden = id_of(&ines.post("/api/v1/automations", request).await.ok());
    let seen = id_of(&saved(&ines, definition).await);
    for (automation, names, is_seen) in [(&seen, &payroll, true), (&hidden, &main, false)] {
        server.source.will_answer(json!({ "found": names }));
        let run = run(&ines, automation, json!({})).await;
        assert_eq!(ended(&ines, &run).await["output"], json!({ "found": names }));
        let events = otto.get("/api/v1/events?type=automation.run.succeeded").await.ok().to_string();
        assert_eq!(events.contains(&run), is_seen, "{events}");
    }
}
