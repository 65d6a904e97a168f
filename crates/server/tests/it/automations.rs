//! Automations: a person saves what runs by itself, everybody else proposes it; webhooks and people start runs, whose steps are calls like any
//! other, with a receipt each.

use crate::harness::{Answer, Client, Kind, TestServer, on_both_engines, on_sqlite};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::Clock as _;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;

on_both_engines!(
    a_run_by_hand_ends_with_a_receipt_for_each_step,
    a_held_step_is_approved_and_the_run_goes_on,
    a_webhook_fires_once_for_a_key_and_a_body,
    a_space_sets_what_its_automations_are_given,
);

on_sqlite!(
    a_person_saves_a_version_and_nobody_overwrites_another,
    a_service_proposes_and_a_person_saves,
    all_mistakes_are_told_at_once_and_nothing_is_stored,
    the_plan_tells_the_mode_of_each_step_and_the_next_firings,
    a_dry_run_renders_what_is_known_and_names_what_is_not,
    a_dry_run_says_what_the_action_would_refuse,
    a_dry_run_shows_no_run_to_whoever_may_only_propose,
    a_webhook_takes_its_token_and_nothing_else,
    a_signed_webhook_takes_what_its_secret_signed,
    what_fires_an_automation_follows_its_status_and_its_triggers,
    what_a_webhook_could_not_start_is_in_the_ledger,
    a_run_is_cancelled_and_run_again_from_a_step,
    a_run_shows_what_its_trigger_was_given_and_is_run_again_with_it,
    a_webhook_starts_a_run_for_what_its_filter_accepts,
    what_was_since_the_last_run_is_known_by_hand_too,
    an_automation_of_a_hidden_space_does_not_exist,
    a_definition_travels_as_a_draft,
    a_space_has_few_regexes_that_run_for_every_event,
);

/// The example key of the specification.
const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Reads, then writes what it was given.
pub(crate) fn digest() -> Value {
    json!({
        "schema_version": "1.0",
        "name": "Digest",
        "inputs": { "schema": { "type": "object", "additionalProperties": false,
            "properties": { "text": { "type": "string", "default": "hello" } } } },
        "plan": [
            { "step_id": "read", "action": "fake.read", "config": { "text": "{{ inputs.text }}" }, "output_as": "found" },
            { "step_id": "write", "action": "fake.write", "config": { "text": "{{ inputs.text }}" } },
        ],
    })
}

pub(crate) fn with_triggers(triggers: Value) -> Value {
    let mut definition = digest();
    definition["triggers"] = triggers;
    definition
}

/// Saves a new automation, and returns what the server says of it.
pub(crate) async fn saved(client: &Client, definition: Value) -> Value {
    let answer = client.post("/api/v1/automations", json!({ "definition": definition })).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.body
}

pub(crate) fn id_of(saved: &Value) -> String {
    saved["automation"]["id"].as_str().unwrap().to_owned()
}

/// A service with these permissions.
async fn service(server: &TestServer, scopes: Value) -> Client {
    let made = server.owner.post("/api/v1/tokens", json!({ "name": "svc", "scopes": scopes })).await.ok();
    server.owner.with_token(made["token"].as_str().unwrap())
}

/// Starts a run, and returns its id.
pub(crate) async fn run(client: &Client, automation: &str, inputs: Value) -> String {
    let answer = client.post(&format!("/api/v1/automations/{automation}/run"), json!({ "inputs": inputs })).await;
    assert_eq!((answer.status, &answer.body["outcome"]), (202, &json!("started")), "{answer:?}");
    answer.body["run_id"].as_str().unwrap().to_owned()
}

pub(crate) async fn ended(client: &Client, run: &str) -> Value {
    client.get(&format!("/api/v1/runs/{run}?wait=30s")).await.ok()
}

/// The run once it waits for a person.
pub(crate) async fn waiting(client: &Client, run: &str) -> Value {
    for _ in 0..300 {
        let shown = client.get(&format!("/api/v1/runs/{run}")).await.ok();
        if shown["status"] == "waiting" && shown["invocation_id"].is_string() {
            return shown;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("run `{run}` never waited: {:#}", client.get(&format!("/api/v1/runs/{run}")).await.body);
}

/// Sends a webhook.
pub(crate) async fn fire(server: &TestServer, automation: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut request = server.owner.http.post(format!("{}/api/v1/automations/{automation}/fire", server.url));
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Answer::of(request.body(body.to_owned()).send().await.unwrap()).await
}

async fn a_person_saves_a_version_and_nobody_overwrites_another(kind: Kind) {
    let server = TestServer::start(kind).await;
    let first = saved(&server.owner, digest()).await;
    let (id, seen) = (id_of(&first), first["automation"]["digest"].as_str().unwrap().to_owned());
    assert_eq!((&first["automation"]["version"], &first["is_new_version"]), (&json!(1), &json!(true)));
    let path = format!("/api/v1/automations/{id}");
    let shown = server.owner.get(&path).await;
    assert_eq!(shown.headers["etag"], format!("\"{seen}\""));
    assert_eq!(shown.body["definition"]["execution"]["concurrency"], "drop_if_running", "defaults are written in");
    // Another of the same name in the space is none.
    server.owner.post("/api/v1/automations", json!({ "definition": digest() })).await.problem(409, "name_taken");

    let mut second = digest();
    second["goal"] = json!("To show that it changes.");
    let put = async |definition: &Value, seen: &str| {
        let request = server.owner.http.put(format!("{}{path}", server.url)).bearer_auth(&server.owner.token);
        Answer::of(request.header("if-match", seen).json(&json!({ "definition": definition })).send().await.unwrap()).await
    };
    let changed = put(&second, &format!("\"{seen}\"")).await.ok();
    assert_eq!((&changed["automation"]["version"], &changed["is_new_version"]), (&json!(2), &json!(true)));
    put(&digest(), &format!("\"{seen}\"")).await.problem(412, "automation_changed");
    put(&digest(), "\"nonsense\"").await.problem(400, "invalid_request");
    let same = put(&second, "*").await.ok();
    assert_eq!((&same["automation"]["version"], &same["is_new_version"]), (&json!(2), &json!(false)));

    let history = server.owner.get(&format!("{path}/versions")).await.ok();
    let versions: Vec<_> = history["items"].as_array().unwrap().iter().map(|one| one["version"].clone()).collect();
    assert_eq!(versions, [2, 1]);
    let earlier = server.owner.get(&format!("{path}/export?version=1")).await;
    assert_eq!((earlier.headers["etag"].to_str().unwrap(), &earlier.body["goal"]), (format!("\"{seen}\"").as_str(), &json!("")));
    let diff = server.owner.post(&format!("{path}/diff"), json!({ "definition": digest() })).await.ok();
    assert_eq!(diff["changes"][0]["pointer"], "/goal", "{diff:#}");
    // Each version is in the audit log.
    let rules = server.rules().await;
    assert_eq!(rules.iter().filter(|rule| rule.to_string().contains(&id)).count(), 2, "{rules:#?}");
    server.verify().await;
}

async fn a_service_proposes_and_a_person_saves(kind: Kind) {
    let server = TestServer::start(kind).await;
    let service = service(&server, json!(["invoke"])).await;
    let proposed = service.post("/api/v1/automations", json!({ "definition": digest() })).await;
    assert_eq!((proposed.status, &proposed.body["automation"]), (202, &Value::Null), "{proposed:?}");
    let draft = proposed.body["draft"]["id"].as_str().unwrap().to_owned();
    assert_eq!(server.owner.get("/api/v1/automations").await.ok()["items"], json!([]), "a draft is no automation");
    let path = format!("/api/v1/automation-drafts/{draft}");
    service.post(&format!("{path}/save"), json!({ "accept": [] })).await.problem(403, "save_needs_person");
    // Whoever saves it has read what is worth checking, and each template.
    let unread = server.owner.post(&format!("{path}/save"), json!({})).await;
    unread.problem(422, "draft_flags");
    let flags = unread.body["mistakes"].as_array().unwrap();
    assert!(flags.iter().any(|flag| flag["code"] == "no_on_failure"), "{unread:?}");
    let template = "/plan/1/config/text";
    assert!(flags.iter().any(|flag| flag["code"] == "template_unread" && flag["pointer"] == template), "{unread:?}");
    assert_eq!(server.owner.get(&path).await.ok()["flags"], unread.body["mistakes"], "the same flags every time");
    let places: Vec<_> = flags.iter().map(|flag| flag["pointer"].clone()).collect();
    let most: Vec<_> = places.iter().filter(|place| *place != template).collect();
    let left = server.owner.post(&format!("{path}/save"), json!({ "accept": most })).await;
    left.problem(422, "draft_flags");
    let left: Vec<_> = left.body["mistakes"].as_array().unwrap().iter().map(|flag| flag["pointer"].clone()).collect();
    assert_eq!(left, [template], "each is accepted by itself");
    server.owner.post(&format!("{path}/save"), json!({ "accept_flags": true })).await.problem(400, "invalid_request");
    let saved = server.owner.post(&format!("{path}/save"), json!({ "accept": places })).await.ok();
    let id = id_of(&saved);
    server.owner.get(&path).await.problem(404, "not_found");
    // A new version by a service is a draft of that automation.
    let put = service.send(Method::PUT, &format!("/api/v1/automations/{id}"), Some(json!({ "definition": digest() }))).await;
    assert_eq!((put.status, &put.body["draft"]["automation_id"]), (202, &json!(id)), "{put:?}");
    let named = service.post("/api/v1/automations", json!({ "definition": digest() })).await;
    assert_eq!(named.body["draft"]["automation_id"], json!(id), "so is one of the same name");
    for verb in ["pause", "resume", "archive"] {
        service.post(&format!("/api/v1/automations/{id}/{verb}"), json!({})).await.problem(403, "save_needs_person");
    }
    // It may run what a person has saved; an agent and a viewer may not.
    assert_eq!(service.post(&format!("/api/v1/automations/{id}/run"), json!({})).await.status, 202);
    let agent = server.agent().await.client;
    agent.post(&format!("/api/v1/automations/{id}/run"), json!({})).await.problem(403, "forbidden");
    let viewer = server.owner.person("vera", "viewer").await;
    viewer.get(&format!("/api/v1/automations/{id}")).await.ok();
    viewer.post(&format!("/api/v1/automations/{id}/run"), json!({})).await.problem(403, "forbidden");
    viewer.post("/api/v1/automations", json!({ "definition": digest() })).await.problem(403, "forbidden");
}

async fn all_mistakes_are_told_at_once_and_nothing_is_stored(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.send", "deny").await;
    let mut wrong = with_triggers(json!([{ "type": "schedule", "config": { "cron": "61 9 * * *", "timezone": "Africa/Kigal" } }]));
    wrong["plan"][0]["action"] = json!("fake.reed");
    wrong["plan"][1]["action"] = json!("fake.send");
    for path in ["/api/v1/automations", "/api/v1/automations/validate", "/api/v1/automations/import", "/api/v1/automations/dry-run"] {
        let answer = server.owner.post(path, json!({ "definition": wrong })).await;
        answer.problem(422, "definition_invalid");
        let codes: Vec<_> = answer.body["mistakes"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
        for code in ["cron_invalid", "timezone_unknown", "action_unknown", "action_denied"] {
            assert!(codes.contains(&code), "{code} is not among {codes:?}");
        }
    }
    assert_eq!(server.owner.get("/api/v1/automations").await.ok()["items"], json!([]));
    assert_eq!(server.owner.get("/api/v1/automation-drafts").await.ok()["items"], json!([]));
    let valid = server.owner.post("/api/v1/automations/validate", json!({ "definition": digest() })).await.ok();
    assert_eq!(valid["digest"].as_str().unwrap().len(), 64);
    let schema = server.owner.with_token("").get("/api/v1/schemas/automation").await.ok();
    assert_eq!(schema["$id"], "urn:countersign:schema:automation:1");
    let schema = server.owner.with_token("").get("/api/v1/schemas/filter").await.ok();
    assert_eq!(schema["$id"], "urn:countersign:schema:filter:1");
}

async fn the_plan_tells_the_mode_of_each_step_and_the_next_firings(kind: Kind) {
    let server = TestServer::start(kind).await;
    let schedule = json!([{ "trigger_id": "daily", "type": "schedule", "config": { "cron": "0 9 * * *", "timezone": "UTC" } }]);
    let plan = server.owner.post("/api/v1/automations/dry-run", json!({ "definition": with_triggers(schedule.clone()) })).await.ok();
    let modes: Vec<_> = plan["steps"].as_array().unwrap().iter().map(|step| (step["step_id"].as_str(), step["mode"].as_str())).collect();
    assert_eq!(modes, [(Some("read"), Some("allow")), (Some("write"), Some("require_approval"))]);
    assert_eq!(plan["schedules"][0]["next"].as_array().unwrap().len(), 3, "{plan:#}");
    // A saved one has the modes of its own.
    let id = id_of(&saved(&server.owner, with_triggers(schedule)).await);
    let path = format!("/api/v1/automations/{id}/modes/fake.write");
    server.owner.send(Method::PUT, &path, Some(json!({ "mode": "allow" }))).await.ok();
    let plan = server.owner.get(&format!("/api/v1/automations/{id}/plan")).await.ok();
    assert_eq!((&plan["steps"][1]["mode"], &plan["steps"][1]["mode_source"]), (&json!("allow"), &json!("automation_override")));
    assert!(server.owner.get(&format!("/api/v1/automations/{id}")).await.ok()["next_due_at"].is_string());
}

/// Writes what it read, if that is enough.
fn with_templates() -> Value {
    let mut definition = digest();
    definition["plan"][1] = json!({ "step_id": "write", "action": "fake.write", "when": "{{ found.count > 1 }}",
        "config": { "text": "{{ inputs.text | upper }}", "count": "{{ found.count }}", "password": "{{ inputs.text }}" } });
    let tell =
        json!({ "step_id": "tell", "action": "fake.write", "config": { "text": "{{ run.automation_name }}: {{ run.error.code }}" } });
    definition["execution"] = json!({ "on_failure": [tell] });
    definition
}

/// Whether each step of a plan would run, with which params, and what it needs.
fn foreseen(plan: &Value) -> Vec<Value> {
    let step = |step: &Value| {
        assert_eq!(step["error"], Value::Null, "{plan:#}");
        json!([step["when"], step["params"], step["needs"]])
    };
    plan["steps"].as_array().unwrap().iter().map(step).collect()
}

async fn a_dry_run_renders_what_is_known_and_names_what_is_not(kind: Kind) {
    const DRY_RUN: &str = "/api/v1/automations/dry-run";
    let server = TestServer::start(kind).await;
    let _working = server.work();
    server.owner.set_mode("fake.write", "allow").await;
    let tried = async |asked: Value| server.owner.post(DRY_RUN, asked).await;
    let tell = json!([true, null, ["run.error"]]);

    // Nothing has run: defaults are inputs, and nobody knows what the first step will find.
    let plan = tried(json!({ "definition": with_templates() })).await.ok();
    assert_eq!(foreseen(&plan), [json!([true, { "text": "hello" }, []]), json!([null, null, ["found"]]), tell.clone()]);
    assert_eq!(plan["run_id"], Value::Null);
    let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let plan = tried(json!({ "definition": with_templates(), "inputs": { "text": token } })).await.ok();
    assert_eq!(plan["steps"][0]["params"]["text"], "[redacted]");
    assert!(!plan.to_string().contains(token), "{plan:#}");
    tried(json!({ "definition": with_templates(), "inputs": { "text": 3 } })).await.problem(422, "inputs_invalid");
    tried(json!({ "inputs": {} })).await.problem(400, "invalid_request");

    // What the last run came to stands for what is not known.
    let id = id_of(&saved(&server.owner, with_templates()).await);
    server.source.will_answer(json!({ "count": 2 }));
    let first = run(&server.owner, &id, json!({ "text": "good morning" })).await;
    assert_eq!(ended(&server.owner, &first).await["status"], "succeeded");
    let written = json!([true, { "text": "GOOD MORNING", "count": 2, "password": "[redacted]" }, []]);
    for plan in [
        server.owner.get(&format!("/api/v1/automations/{id}/plan")).await.ok(),
        tried(json!({ "automation": id, "run": first })).await.ok(),
    ] {
        assert_eq!(foreseen(&plan), [json!([true, { "text": "good morning" }, []]), written.clone(), tell.clone()]);
        assert_eq!(plan["run_id"], json!(first));
    }
    let other_inputs = tried(json!({ "automation": id, "inputs": { "text": "other" } })).await.ok();
    assert_eq!((&other_inputs["steps"][1]["params"]["text"], &other_inputs["steps"][1]["params"]["count"]), (&json!("OTHER"), &json!(2)));
    // A step that is another one by now has come to nothing yet.
    let mut edited = with_templates();
    edited["plan"][0]["step_id"] = json!("look");
    let plan = tried(json!({ "automation": id, "definition": edited })).await.ok();
    assert_eq!(foreseen(&plan)[1], json!([null, null, ["found"]]));

    server.clock.advance_ms(1);
    server.source.will_answer(json!({ "count": 1 }));
    let second = run(&server.owner, &id, json!({})).await;
    assert_eq!(ended(&server.owner, &second).await["steps"][1]["status"], "skipped");
    let plan = tried(json!({ "automation": id })).await.ok();
    assert_eq!((&plan["run_id"], &foreseen(&plan)[1]), (&json!(second), &json!([false, null, []])));

    // What cannot be rendered says why.
    let mut wrong = with_templates();
    wrong["plan"][1]["config"]["text"] = json!("{{ found.nothing }}");
    let plan = tried(json!({ "automation": id, "definition": wrong, "run": first })).await.ok();
    assert_eq!((&plan["steps"][1]["params"], &plan["steps"][1]["error"]["code"]), (&Value::Null, &json!("template_undefined")), "{plan:#}");
    let mut other = with_templates();
    other["name"] = json!("Other");
    let other = id_of(&saved(&server.owner, other).await);
    tried(json!({ "automation": other, "run": first })).await.problem(400, "invalid_request");
    tried(json!({ "automation": other, "space": "elsewhere" })).await.problem(400, "invalid_request");
    assert_eq!(server.source.calls().len(), 3, "no dry run called anything");
    server.verify().await;
}

async fn a_dry_run_says_what_the_action_would_refuse(kind: Kind) {
    let server = TestServer::start_whole(kind, &[]).await;
    let mut definition = digest();
    definition["inputs"]["schema"]["properties"]["most"] = json!({ "type": "integer", "default": 5_000 });
    definition["plan"] =
        json!([{ "step_id": "find", "action": "documents.search", "config": { "query": "x", "limit": "{{ inputs.most }}" } }]);
    let plan = server.owner.post("/api/v1/automations/dry-run", json!({ "definition": definition })).await.ok();
    let step = &plan["steps"][0];
    assert_eq!((&step["params"]["limit"], &step["error"]["code"]), (&json!(5_000), &json!("invalid_params")), "{plan:#}");
    assert!(step["error"]["message"].as_str().unwrap().starts_with("`/limit`: "), "{plan:#}");
}

async fn a_dry_run_shows_no_run_to_whoever_may_only_propose(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let id = id_of(&saved(&server.owner, digest()).await);
    server.owner.set_mode("fake.write", "allow").await;
    let run = run(&server.owner, &id, json!({ "text": "for those who read" })).await;
    assert_eq!(ended(&server.owner, &run).await["status"], "succeeded");
    let service = service(&server, json!(["invoke"])).await;
    let tried = async |client: &Client, asked: Value| client.post("/api/v1/automations/dry-run", asked).await;
    let plan = tried(&service, json!({ "automation": id, "definition": digest() })).await.ok();
    assert_eq!((&plan["run_id"], &plan["steps"][0]["params"]["text"]), (&Value::Null, &json!("hello")), "{plan:#}");
    for asked in [json!({ "automation": id, "definition": digest(), "run": run }), json!({ "automation": id })] {
        tried(&service, asked).await.problem(403, "forbidden");
    }
    // Who reads, and proposes nothing, tries what is saved.
    let viewer = server.owner.person("vera", "viewer").await;
    let plan = tried(&viewer, json!({ "automation": id })).await.ok();
    assert_eq!((&plan["run_id"], &plan["steps"][0]["params"]["text"]), (&json!(run), &json!("for those who read")));
    tried(&viewer, json!({ "automation": id, "definition": digest() })).await.problem(403, "forbidden");
}

async fn a_run_by_hand_ends_with_a_receipt_for_each_step(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    server.owner.set_mode("fake.write", "allow").await;
    let id = id_of(&saved(&server.owner, digest()).await);
    let wrong = server.owner.post(&format!("/api/v1/automations/{id}/run"), json!({ "inputs": { "text": 3, "more": true } })).await;
    wrong.problem(422, "inputs_invalid");
    assert_eq!(wrong.body["mistakes"].as_array().unwrap().len(), 2, "{wrong:?}");
    let run = run(&server.owner, &id, json!({ "text": "good morning" })).await;
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], &shown["trigger_type"]), (&json!("succeeded"), &json!("manual")), "{shown:#}");
    let steps = shown["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2);
    for step in steps {
        assert_eq!(step["status"], "succeeded");
        let receipt = server.receipt_of(step["invocation_id"].as_str().unwrap()).await;
        assert!(receipt.to_string().contains(&format!("automation:{id}")), "{receipt:#}");
        assert!(step["receipt"]["seq"].is_u64());
    }
    assert_eq!(server.source.calls()[1].params["text"], "good morning");
    let listed = server.owner.get(&format!("/api/v1/runs?automation={id}&status=succeeded")).await.ok();
    assert_eq!((&listed["items"][0]["id"], &listed["items"][0]["automation_name"]), (&json!(run), &json!("Digest")));
    let firings = server.owner.get(&format!("/api/v1/automations/{id}/firings")).await.ok();
    assert_eq!((&firings["items"][0]["reason"], &firings["items"][0]["run_id"]), (&json!("manual"), &json!(run)));
    server.verify().await;
}

async fn a_space_sets_what_its_automations_are_given(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    server.owner.set_mode("fake.write", "allow").await;
    let mut definition = digest();
    definition["inputs"]["schema"]["properties"]["text"] = json!({ "type": "string", "default": "$space_default" });
    let id = id_of(&saved(&server.owner, definition).await);
    let set = async |defaults: Value| server.owner.send(Method::PATCH, "/api/v1/spaces/main", Some(json!({ "defaults": defaults }))).await;
    let refused = async || {
        let answer = server.owner.post(&format!("/api/v1/automations/{id}/run"), json!({})).await;
        answer.problem(422, "inputs_invalid");
        assert_eq!(answer.body["mistakes"][0]["pointer"], "/text", "{answer:?}");
    };
    refused().await;
    assert_eq!(server.owner.get("/api/v1/spaces/main").await.ok()["defaults"], json!({}));
    assert_eq!(set(json!({ "text": "from the space", "n": 3 })).await.ok()["defaults"], json!({ "n": 3, "text": "from the space" }));
    let shown = ended(&server.owner, &run(&server.owner, &id, json!({})).await).await;
    assert_eq!((&shown["status"], &shown["inputs"]["text"]), (&json!("succeeded"), &json!("from the space")), "{shown:#}");
    let shown = ended(&server.owner, &run(&server.owner, &id, json!({ "text": "mine" })).await).await;
    assert_eq!(shown["inputs"]["text"], "mine", "a default is for what is not given");
    // It may be of the wrong type, and is checked like what is sent.
    set(json!({ "text": 3 })).await.ok();
    refused().await;
    set(json!({})).await.ok();
    refused().await;
    set(json!({ "text": "x".repeat(16 * 1024) })).await.problem(400, "invalid_request");
    let many: serde_json::Map<_, _> = (0..65).map(|number| (format!("n{number}"), json!(number))).collect();
    set(json!(many)).await.problem(400, "invalid_request");
    server.verify().await;
}

async fn a_held_step_is_approved_and_the_run_goes_on(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let id = id_of(&saved(&server.owner, digest()).await);
    let run = run(&server.owner, &id, json!({})).await;
    let waits = waiting(&server.owner, &run).await;
    assert_eq!((&waits["waiting_for"], waits["steps"].as_array().unwrap().len()), (&json!("approval"), 1), "{waits:#}");
    server.owner.approve(waits["invocation_id"].as_str().unwrap()).await.ok();
    let shown = ended(&server.owner, &run).await;
    assert_eq!((&shown["status"], shown["steps"].as_array().unwrap().len()), (&json!("succeeded"), 2), "{shown:#}");
    assert_eq!(server.source.calls().len(), 2, "each step is called once");
    server.verify().await;
}

async fn a_webhook_fires_once_for_a_key_and_a_body(kind: Kind) {
    let server = TestServer::start(kind).await;
    let saved = saved(&server.owner, with_triggers(json!([{ "trigger_id": "hook", "type": "webhook" }]))).await;
    let (id, token) = (id_of(&saved), saved["tokens"][0]["token"].as_str().unwrap().to_owned());
    assert!(token.starts_with("cs_hook_"), "{saved:#}");
    let bearer = format!("Bearer {token}");
    let auth = ("authorization", bearer.as_str());
    let first = fire(&server, &id, &[auth, ("idempotency-key", "k1")], r#"{"text": "a"}"#).await;
    assert_eq!((first.status, &first.body["outcome"]), (202, &json!("started")), "{first:?}");
    let run = first.body["run_id"].as_str().unwrap();
    assert_eq!(first.headers["location"], format!("/api/v1/runs/{run}"));
    assert!(!first.headers.contains_key("idempotent-replayed"));
    // The key may be in the body, in any order of members; it is no part of what is compared.
    let again = fire(&server, &id, &[auth], r#"{"idempotency_key": "k1", "text": "a"}"#).await;
    assert_eq!((again.status, &again.body["run_id"]), (202, &json!(run)), "{again:?}");
    assert_eq!(again.headers["idempotent-replayed"], "true");
    fire(&server, &id, &[auth, ("idempotency-key", "k1")], r#"{"text": "b"}"#).await.problem(422, "idempotency_key_reused");
    for (headers, body) in [
        (vec![auth, ("idempotency-key", "k1")], r#"{"idempotency_key": "k2"}"#),
        (vec![auth, ("idempotency-key", "a key")], "{}"),
        (vec![auth], r#"{"idempotency_key": 3}"#),
    ] {
        fire(&server, &id, &headers, body).await.problem(400, "invalid_request");
    }
    // What was refused binds no key.
    fire(&server, &id, &[auth, ("idempotency-key", "k3")], r#"{"text": 3}"#).await.problem(422, "inputs_invalid");
    let later = fire(&server, &id, &[auth, ("idempotency-key", "k3")], r#"{"text": "c"}"#).await;
    assert_eq!((later.status, &later.body["reason"]), (202, &json!("already_running")), "a firing that starts nothing says so: {later:?}");
}

async fn a_webhook_takes_its_token_and_nothing_else(kind: Kind) {
    let server = TestServer::start(kind).await;
    let saved = saved(&server.owner, with_triggers(json!([{ "trigger_id": "hook", "type": "webhook" }]))).await;
    let (id, token) = (id_of(&saved), saved["tokens"][0]["token"].as_str().unwrap().to_owned());
    let bearer = |token: &str| format!("Bearer {token}");
    let wrong = fire(&server, &id, &[("authorization", "Bearer cs_hook_wrong")], "{}").await;
    wrong.problem(401, "unauthenticated");
    // An automation that is not there sounds the same, and so does a token that is none.
    for (automation, header) in [
        ("aut_00000000000000000000000000", bearer(&token)),
        ("nonsense", bearer(&token)),
        (id.as_str(), bearer(&server.owner.token)),
        (id.as_str(), String::new()),
    ] {
        let answer = fire(&server, automation, &[("authorization", &header)], "{}").await;
        answer.problem(401, "unauthenticated");
        assert_eq!(answer.body["detail"], wrong.body["detail"]);
    }
    let old = bearer(&token);
    fire(&server, &id, &[("authorization", &old), ("content-type", "text/plain")], "{}").await.problem(415, "unsupported_media_type");
    fire(&server, &id, &[("authorization", &old)], &format!("\"{}\"", "x".repeat(1024 * 1024))).await.problem(413, "body_too_large");
    fire(&server, &id, &[("authorization", &old)], r#"{"text": "a", "text": "b"}"#).await.problem(400, "malformed_json");
    // Some senders sign whatever they send. Nobody asked for it here, so neither the signature nor the name of the message says anything.
    for body in [r#"{"text": "a"}"#, r#"{"text": "b"}"#] {
        let headers = [("authorization", old.as_str()), ("webhook-id", "msg_1"), ("webhook-signature", "v1,AAAA")];
        assert_eq!(fire(&server, &id, &headers, body).await.status, 202);
        fire(&server, &id, &headers[1..], body).await.problem(401, "signature_invalid");
    }
    // The token of a webhook opens no other door.
    server.owner.with_token(&token).get("/api/v1/automations").await.problem(401, "unauthenticated");

    let path = format!("/api/v1/automations/{id}/triggers/hook/rotate-token");
    let next = server.owner.post(&path, json!({ "keep_old": true })).await.ok();
    let next = bearer(next["token"].as_str().unwrap());
    for header in [&old, &next] {
        assert_eq!(fire(&server, &id, &[("authorization", header)], "{}").await.status, 202);
    }
    server.owner.post(&path, json!({})).await.ok();
    for header in [&old, &next] {
        fire(&server, &id, &[("authorization", header)], "{}").await.problem(401, "unauthenticated");
    }
}

fn signature(id: &str, seconds: i64, body: &str) -> String {
    let key = STANDARD.decode(KEY.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{seconds}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

async fn a_signed_webhook_takes_what_its_secret_signed(kind: Kind) {
    let server = TestServer::start(kind).await;
    let hook = json!([{ "trigger_id": "hook", "type": "webhook", "config": { "signature": "standard_webhooks" } }]);
    let definition = with_triggers(hook.clone());
    let unnamed = server.owner.post("/api/v1/automations", json!({ "definition": definition })).await;
    unnamed.problem(422, "definition_invalid");
    assert_eq!(unnamed.body["mistakes"][0]["code"], "signing_secret_missing");
    let request = json!({ "definition": definition, "signing_secrets": { "hook": "ci-key" } });
    server.owner.post("/api/v1/automations", request.clone()).await.problem(404, "not_found");
    server.owner.send(Method::PUT, "/api/v1/secrets/ci-key", Some(json!({ "value": KEY }))).await.ok();
    let saved = server.owner.post("/api/v1/automations", request).await.ok();
    let id = id_of(&saved);
    assert_eq!((&saved["tokens"], &saved["automation"]["triggers"][0]["signed_by"]), (&json!([]), &json!("ci-key")));
    server.owner.send(Method::DELETE, "/api/v1/secrets/ci-key", None).await.problem(409, "secret_in_use");

    let now = server.clock.now().as_micros() / 1_000_000;
    let send = async |message: &str, seconds: i64, signature: &str, body: &str| {
        let seconds = seconds.to_string();
        let headers = [("webhook-id", message), ("webhook-timestamp", seconds.as_str()), ("webhook-signature", signature)];
        fire(&server, &id, &headers, body).await
    };
    let body = r#"{"text": "signed"}"#;
    let good = format!("v1,AAAA {}", signature("msg_1", now, body));
    let first = send("msg_1", now, &good, body).await;
    assert_eq!((first.status, &first.body["outcome"]), (202, &json!("started")), "{first:?}");
    // Its sender sends a message again under the same name.
    assert_eq!(send("msg_1", now, &good, body).await.headers["idempotent-replayed"], "true");
    // The header is not signed: it does not make another message of it.
    let seconds = now.to_string();
    let named = [("webhook-id", "msg_1"), ("webhook-timestamp", seconds.as_str()), ("webhook-signature", good.as_str())];
    fire(&server, &id, &[named.as_slice(), &[("idempotency-key", "another")]].concat(), body).await.problem(400, "invalid_request");
    let same = fire(&server, &id, &[named.as_slice(), &[("idempotency-key", "msg_1")]].concat(), body).await;
    assert_eq!(same.body["run_id"], first.body["run_id"]);
    send("msg_1", now, &good, r#"{"text": "other"}"#).await.problem(401, "signature_invalid");
    let late = now - 301;
    send("msg_2", late, &signature("msg_2", late, body), body).await.problem(401, "signature_invalid");
    // Nor does a token take the place of the signature.
    let token = server.owner.post(&format!("/api/v1/automations/{id}/triggers/hook/rotate-token"), json!({})).await.ok();
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    fire(&server, &id, &[("authorization", &bearer)], body).await.problem(401, "signature_invalid");
    let absent = "aut_00000000000000000000000000";
    fire(&server, absent, &[("webhook-signature", "v1,AAAA")], body).await.problem(401, "signature_invalid");

    // Another secret is no new version, and counts at once.
    let other = format!("whsec_{}", STANDARD.encode([7; 32]));
    server.owner.send(Method::PUT, "/api/v1/secrets/new-key", Some(json!({ "value": other }))).await.ok();
    let path = format!("{}/api/v1/automations/{id}", server.url);
    let resign = async |secret: &str| {
        let request = server.owner.http.put(&path).bearer_auth(&server.owner.token).header("if-match", "*");
        let body = json!({ "definition": with_triggers(hook.clone()), "signing_secrets": { "hook": secret } });
        Answer::of(request.json(&body).send().await.unwrap()).await.ok()
    };
    let rules = server.rules().await.len();
    assert_eq!(resign("ci-key").await["automation"]["triggers"][0]["signed_by"], "ci-key");
    assert_eq!(server.rules().await.len(), rules, "what is so already is not said again");
    let resigned = resign("new-key").await;
    assert_eq!((&resigned["is_new_version"], &resigned["automation"]["version"]), (&json!(false), &json!(1)), "{resigned:#}");
    assert_eq!(resigned["automation"]["triggers"][0]["signed_by"], "new-key");
    assert_eq!(server.rules().await.len(), rules + 1, "whoever changed it is in the log");
    send("msg_3", now, &signature("msg_3", now, body), body).await.problem(401, "signature_invalid");
    server.owner.send(Method::DELETE, "/api/v1/secrets/ci-key", None).await.ok();
}

async fn what_fires_an_automation_follows_its_status_and_its_triggers(kind: Kind) {
    let server = TestServer::start(kind).await;
    let hook = json!({ "trigger_id": "hook", "type": "webhook", "config": { "rate_limit": { "max": 1, "per_seconds": 60 } } });
    let daily = json!({ "trigger_id": "daily", "type": "schedule", "config": { "cron": "0 9 * * *", "timezone": "UTC" } });
    let mut definition = with_triggers(json!([hook, daily]));
    definition["execution"] = json!({ "concurrency": "allow_parallel" });
    let saved = saved(&server.owner, definition).await;
    let (id, path) = (id_of(&saved), format!("/api/v1/automations/{}", id_of(&saved)));
    let bearer = format!("Bearer {}", saved["tokens"][0]["token"].as_str().unwrap());
    let send = async || fire(&server, &id, &[("authorization", &bearer)], "{}").await;
    server.owner.post(&format!("{path}/triggers/hook/disable"), json!({})).await.ok();
    send().await.problem(409, "trigger_disabled");
    server.owner.post(&format!("{path}/triggers/hook/enable"), json!({})).await.ok();
    let paused = server.owner.post(&format!("{path}/pause"), json!({})).await.ok();
    assert_eq!((&paused["status"], &paused["next_due_at"]), (&json!("paused"), &Value::Null));
    send().await.problem(409, "automation_paused");
    run(&server.owner, &id, json!({})).await;
    let resumed = server.owner.post(&format!("{path}/resume"), json!({})).await.ok();
    assert!(resumed["next_due_at"].is_string(), "{resumed:#}");
    assert_eq!(send().await.status, 202);
    let often = send().await;
    often.problem(429, "rate_limited");
    assert_eq!(often.headers["retry-after"], "60");
    let triggers = server.owner.get(&format!("{path}/triggers")).await.ok();
    let words: Vec<_> = triggers["items"].as_array().unwrap().iter().map(|one| one["schedule"].as_str()).collect();
    assert_eq!(words, [Some("at 09:00 every day"), None]);
    server.owner.post(&format!("{path}/triggers/nope/enable"), json!({})).await.problem(404, "not_found");
    server.owner.post(&format!("{path}/archive"), json!({})).await.ok();
    server.owner.post(&format!("{path}/run"), json!({})).await.problem(409, "automation_archived");
    server.owner.post(&format!("{path}/resume"), json!({})).await.problem(409, "automation_archived");
    assert_eq!(server.owner.get("/api/v1/automations").await.ok()["items"], json!([]));
    assert_eq!(server.owner.get("/api/v1/automations?status=archived").await.ok()["items"][0]["id"], json!(id));
}

async fn what_a_webhook_could_not_start_is_in_the_ledger(kind: Kind) {
    let server = TestServer::start(kind).await;
    let saved = saved(&server.owner, with_triggers(json!([{ "trigger_id": "hook", "type": "webhook" }]))).await;
    let (id, path) = (id_of(&saved), format!("/api/v1/automations/{}", id_of(&saved)));
    let bearer = format!("Bearer {}", saved["tokens"][0]["token"].as_str().unwrap());
    let send = async |body: &str| fire(&server, &id, &[("authorization", &bearer), ("idempotency-key", "k")], body).await;
    let post = async |verb: &str| server.owner.post(&format!("{path}/{verb}"), json!({})).await.ok();
    post("triggers/hook/disable").await;
    for _ in 0..2 {
        let refused = send("{}").await;
        refused.problem(409, "trigger_disabled");
        assert_eq!(refused.body["detail"], "the trigger `hook` is disabled");
    }
    post("triggers/hook/enable").await;
    post("pause").await;
    send("{}").await.problem(409, "automation_paused");
    post("resume").await;
    send(r#"{"text": 3}"#).await.problem(422, "inputs_invalid");
    let empty = send("").await;
    empty.problem(400, "malformed_json");
    assert!(empty.body["detail"].as_str().unwrap().contains("send `{}` at least"), "{empty:?}");
    let listed = server.owner.get(&format!("{path}/firings")).await.ok();
    let mut rows: Vec<_> = listed["items"].as_array().unwrap().iter().map(|one| (one["reason"].as_str(), one["count"].as_u64())).collect();
    rows.sort();
    assert_eq!(rows, [(Some("disabled"), Some(2)), (Some("inputs_invalid"), Some(1)), (Some("paused"), Some(1))], "{listed:#}");
    let unfit = listed["items"].as_array().unwrap().iter().find(|one| one["reason"] == "inputs_invalid").unwrap();
    assert!(unfit["detail"].as_str().unwrap().starts_with("`/text`: "), "{unfit:#}");
    // None of them has used the key up.
    let first = send(r#"{"text": "a"}"#).await;
    assert_eq!((first.status, &first.body["outcome"]), (202, &json!("started")), "{first:?}");
    // What was answered is answered in the same way, whatever became of the automation since.
    post("pause").await;
    let again = send(r#"{"text": "a"}"#).await;
    assert_eq!((again.status, &again.body["run_id"]), (202, &first.body["run_id"]), "{again:?}");
    assert_eq!(again.headers["idempotent-replayed"], "true");
}

async fn a_run_is_cancelled_and_run_again_from_a_step(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let id = id_of(&saved(&server.owner, digest()).await);
    let first = run(&server.owner, &id, json!({ "text": "first" })).await;
    waiting(&server.owner, &first).await;
    // A run that has not ended is not run again from a step.
    let rerun = async |run: &str, body: Value| server.owner.post(&format!("/api/v1/runs/{run}/rerun"), body).await;
    rerun(&first, json!({ "from_step": "write" })).await.problem(409, "rerun_refused");
    server.owner.post(&format!("/api/v1/runs/{first}/cancel"), json!({})).await.ok();
    let shown = ended(&server.owner, &first).await;
    assert_eq!((&shown["status"], shown["cancelled_by"].is_string()), (&json!("cancelled"), true), "{shown:#}");

    server.owner.post(&format!("/api/v1/runs/{first}/cancel"), json!({})).await.problem(409, "already_ended");

    server.owner.set_mode("fake.write", "allow").await;
    rerun(&first, json!({ "from_step": "nope" })).await.problem(409, "rerun_refused");
    // What came before the step came from other inputs.
    let mixed = rerun(&first, json!({ "from_step": "write", "inputs": { "text": "edited" } })).await;
    mixed.problem(409, "rerun_refused");
    assert!(mixed.body["detail"].as_str().unwrap().contains("with others only all of it"), "{mixed:?}");
    let again = rerun(&first, json!({ "from_step": "write", "inputs": { "text": "first" } })).await.ok();
    let second = again["run_id"].as_str().unwrap();
    let shown = ended(&server.owner, second).await;
    assert_eq!((&shown["status"], &shown["rerun_of"]), (&json!("succeeded"), &json!(first)), "{shown:#}");
    assert_eq!((&shown["steps"][0]["copied_from"], &shown["steps"][1]["copied_from"]), (&json!(first), &Value::Null));
    let whole = rerun(second, json!({ "inputs": { "text": "edited" } })).await.ok();
    let shown = ended(&server.owner, whole["run_id"].as_str().unwrap()).await;
    assert_eq!((&shown["status"], &shown["inputs"]["text"]), (&json!("succeeded"), &json!("edited")));
    server.verify().await;
}

/// What its trigger was given is mapped anew: the mapping may have been mended since.
async fn a_run_shows_what_its_trigger_was_given_and_is_run_again_with_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    server.owner.set_mode("fake.write", "allow").await;
    let hook = |path: &str| json!([{ "trigger_id": "hook", "type": "webhook", "config": { "input_mapping": { "text": path } } }]);
    let made = saved(&server.owner, with_triggers(hook("$.wrong"))).await;
    let id = id_of(&made);
    let bearer = format!("Bearer {}", made["tokens"][0]["token"].as_str().unwrap());
    let sent = json!({ "issue": { "title": "It is broken" }, "password": "hunter22" });
    let fired = fire(&server, &id, &[("authorization", &bearer)], &sent.to_string()).await.ok();
    let first = fired["run_id"].as_str().unwrap();
    let shown = ended(&server.owner, first).await;
    assert_eq!((&shown["inputs"]["text"], &shown["trigger_payload"]["issue"]), (&json!("hello"), &sent["issue"]), "{shown:#}");
    assert!(shown["trigger_payload"].get("password").is_some() && !shown.to_string().contains("hunter22"), "it is redacted: {shown:#}");
    let listed = server.owner.get(&format!("/api/v1/runs?automation={id}")).await.ok();
    assert_eq!(listed["items"][0]["trigger_payload"], Value::Null, "one run has it, and no list");

    let change = json!({ "definition": with_triggers(hook("$.issue.title")) });
    assert_eq!(server.owner.send(Method::PUT, &format!("/api/v1/automations/{id}"), Some(change)).await.status, 200);
    let rerun = async |run: &str, body: Value| server.owner.post(&format!("/api/v1/runs/{run}/rerun"), body).await;
    let mut run_id = first.to_owned();
    for _ in 0..2 {
        let again = rerun(&run_id, json!({ "with_payload": true })).await.ok();
        run_id = again["run_id"].as_str().unwrap().to_owned();
        let shown = ended(&server.owner, &run_id).await;
        assert_eq!((&shown["inputs"]["text"], &shown["trigger_type"]), (&json!("It is broken"), &json!("webhook")), "{shown:#}");
    }
    rerun(first, json!({ "with_payload": true, "inputs": {} })).await.problem(400, "invalid_request");
    let by_hand = run(&server.owner, &id, json!({})).await;
    let refused = rerun(&by_hand, json!({ "with_payload": true })).await;
    refused.problem(409, "rerun_refused");
    assert!(refused.body["detail"].as_str().unwrap().contains("it has none"), "{refused:?}");
    let change = json!({ "definition": with_triggers(json!([])) });
    assert_eq!(server.owner.send(Method::PUT, &format!("/api/v1/automations/{id}"), Some(change)).await.status, 200);
    rerun(first, json!({ "with_payload": true })).await.problem(409, "rerun_refused");
    server.verify().await;
}

async fn a_webhook_starts_a_run_for_what_its_filter_accepts(kind: Kind) {
    let server = TestServer::start(kind).await;
    let filters = json!({ "event.action": "opened", "inputs.text": { "not_equals": "skip" } });
    let config = json!({ "filters": filters, "input_mapping": { "text": "$.title" } });
    let mut definition = with_triggers(json!([{ "trigger_id": "hook", "type": "webhook", "config": config }]));
    definition["execution"] = json!({ "concurrency": "allow_parallel" });
    let saved = saved(&server.owner, definition).await;
    let id = id_of(&saved);
    let bearer = format!("Bearer {}", saved["tokens"][0]["token"].as_str().unwrap());
    for (sent, outcome, reason) in [
        (json!({ "action": "opened", "title": "a" }), "started", "on_time"),
        (json!({ "action": "closed", "title": "a" }), "skipped", "filtered"),
        (json!({ "action": "opened", "title": "skip" }), "skipped", "filtered"),
    ] {
        let answer = fire(&server, &id, &[("authorization", &bearer)], &sent.to_string()).await.ok();
        assert_eq!(
            (&answer["outcome"], &answer["reason"], answer["run_id"].is_string()),
            (&json!(outcome), &json!(reason), outcome == "started")
        );
    }
}

/// By hand and in a dry run it stands for the last run, whatever started that.
async fn what_was_since_the_last_run_is_known_by_hand_too(kind: Kind) {
    let server = TestServer::start(kind).await;
    let since = json!({ "type": "string", "format": "date-time", "default": "$last_fired_at" });
    let mut definition = digest();
    definition["inputs"]["schema"]["properties"] = json!({ "text": since });
    definition["execution"] = json!({ "concurrency": "allow_parallel" });
    let saved = saved(&server.owner, definition).await;
    let (id, created) = (id_of(&saved), saved["automation"]["created_at"].clone());
    let known = async || {
        let tried = server.owner.post("/api/v1/automations/dry-run", json!({ "automation": id })).await.ok();
        tried["steps"][0]["params"]["text"].clone()
    };
    assert_eq!(known().await, created, "it never ran");
    server.clock.advance_seconds(60);
    let first = run(&server.owner, &id, json!({})).await;
    let first = server.owner.get(&format!("/api/v1/runs/{first}")).await.ok();
    assert_eq!(first["inputs"]["text"], created);
    server.clock.advance_seconds(60);
    assert_eq!(known().await, first["created_at"]);
    let second = run(&server.owner, &id, json!({})).await;
    assert_eq!(server.owner.get(&format!("/api/v1/runs/{second}")).await.ok()["inputs"]["text"], first["created_at"]);
}

async fn an_automation_of_a_hidden_space_does_not_exist(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (ines, otto) = (server.owner.person("ines", "member").await, server.owner.person("otto", "member").await);
    let whoami = ines.get("/api/v1/whoami").await.ok();
    let user = whoami["principal"].as_str().unwrap().trim_start_matches("user:");
    let space = server.owner.post("/api/v1/spaces", json!({ "name": "payroll" })).await.ok()["id"].as_str().unwrap().to_owned();
    server.owner.post(&format!("/api/v1/spaces/{space}/members"), json!({ "user_id": user })).await.ok();
    let request = json!({ "space": "payroll", "definition": digest() });
    otto.post("/api/v1/automations", request.clone()).await.problem(404, "not_found");
    let id = id_of(&ines.post("/api/v1/automations", request.clone()).await.ok());
    let draft = ines.post("/api/v1/automations/import", request).await.ok()["id"].as_str().unwrap().to_owned();
    let run = run(&ines, &id, json!({})).await;
    for path in [
        format!("automations/{id}"),
        format!("automations/{id}/plan"),
        format!("automations/{id}/export"),
        format!("automations/{id}/firings"),
        format!("automation-drafts/{draft}"),
        format!("runs/{run}"),
    ] {
        ines.get(&format!("/api/v1/{path}")).await.ok();
        otto.get(&format!("/api/v1/{path}")).await.problem(404, "not_found");
    }
    for path in
        [format!("automations/{id}/run"), format!("automations/{id}/pause"), format!("runs/{run}/cancel"), format!("runs/{run}/rerun")]
    {
        otto.post(&format!("/api/v1/{path}"), json!({})).await.problem(404, "not_found");
    }
    for list in ["automations", "automation-drafts", "runs", "events"] {
        let items = otto.get(&format!("/api/v1/{list}")).await.ok().to_string();
        assert!(!items.contains(&id) && !items.contains(&run), "{list}: {items}");
    }
    // An admin sees it, and only a member runs it.
    server.owner.get(&format!("/api/v1/automations/{id}")).await.ok();
    server.owner.post(&format!("/api/v1/automations/{id}/run"), json!({})).await.problem(403, "not_a_member");
}

async fn a_definition_travels_as_a_draft(kind: Kind) {
    let server = TestServer::start(kind).await;
    let id = id_of(&saved(&server.owner, digest()).await);
    let exported = server.owner.get(&format!("/api/v1/automations/{id}/export")).await.ok();
    // Beside the one that it came from it could not be saved, which is said at once, and again whenever it is shown.
    let taken = server.owner.post("/api/v1/automations/import", json!({ "definition": exported })).await.ok();
    let path = format!("/api/v1/automation-drafts/{}", taken["id"].as_str().unwrap());
    let last = taken["flags"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["code"], &last["pointer"]), (&json!("name_taken"), &json!("/name")), "{taken:#}");
    assert_eq!(server.owner.get(&path).await.ok()["flags"], taken["flags"]);
    let places: Vec<_> = taken["flags"].as_array().unwrap().iter().map(|flag| flag["pointer"].clone()).collect();
    server.owner.post(&format!("{path}/save"), json!({ "accept": places })).await.problem(409, "name_taken");
    let other = server.owner.post("/api/v1/automations/import", json!({ "definition": exported })).await.ok();
    let other = format!("/api/v1/automation-drafts/{}/save", other["id"].as_str().unwrap());
    let renamed = server.owner.post(&other, json!({ "accept": places, "name": "Evening digest" })).await.ok();
    assert_eq!(renamed["automation"]["name"], "Evening digest", "{renamed:#}");
    server.owner.post(&format!("/api/v1/automations/{id}/archive"), json!({})).await.ok();
    assert!(!server.owner.get(&path).await.ok()["flags"].to_string().contains("name_taken"));
    let draft = server.owner.post("/api/v1/automations/import", json!({ "definition": exported })).await;
    assert_eq!((draft.status, &draft.body["definition"]), (201, &exported), "what is exported is normalised: {draft:?}");
    assert!(!draft.body["flags"].as_array().unwrap().is_empty());
    let path = format!("/api/v1/automation-drafts/{}", draft.body["id"].as_str().unwrap());
    assert_eq!(server.owner.get(&path).await.ok()["flags"], draft.body["flags"]);
    server.owner.send(Method::DELETE, &path, None).await.ok();
    server.owner.send(Method::DELETE, &path, None).await.problem(404, "not_found");
}

async fn a_space_has_few_regexes_that_run_for_every_event(kind: Kind) {
    let server = TestServer::start(kind).await;
    let costly = |name: &str, triggers: usize, event_type: &str| {
        let filters = json!({ "data.a": { "regex": "[a-z]+" }, "data.b": { "regex": "[a-z]+" }, "data.c": { "regex": "[a-z]+" }, "data.d": { "regex": "[a-z]+" } });
        let trigger = |_| json!({ "type": "event", "config": { "event_type": event_type, "filters": filters } });
        let mut definition = with_triggers((0..triggers).map(trigger).collect());
        definition["name"] = json!(name);
        definition
    };
    saved(&server.owner, costly("first", 10, "drive.file_added")).await;
    saved(&server.owner, costly("second", 10, "drive.file_added")).await;
    let third = id_of(&saved(&server.owner, costly("third", 5, "drive.file_added")).await);
    let one_more = |event_type: &str| json!({ "definition": costly("one more", 1, event_type) });
    for met in ["drive.file_added", "drive.*"] {
        let refused = server.owner.post("/api/v1/automations", one_more(met)).await;
        assert_eq!(
            (&refused.body["mistakes"][0]["code"], &refused.body["mistakes"][0]["pointer"]),
            (&json!("filter_too_complex"), &json!("/triggers/0/config/filters")),
            "{refused:?}"
        );
        refused.problem(422, "definition_invalid");
    }
    saved(&server.owner, costly("another type", 1, "mail.received")).await;
    // What is archived hears nothing.
    server.owner.post(&format!("/api/v1/automations/{third}/archive"), json!({})).await.ok();
    saved(&server.owner, costly("one more", 1, "drive.file_added")).await;
}
