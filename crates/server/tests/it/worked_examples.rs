//! The examples that are shipped, each run from its file on a whole server. Each is fired as its file says, and what it sends is looked at
//! where it arrives.

use crate::automations::{ended, fire, id_of, run, saved, waiting};
use crate::email::address;
use crate::harness::{Kind, TestServer, on_both_engines, on_sqlite};
use crate::upstream::Upstream;
use countersign_core::Tier;
use countersign_core::action::{Repeatability, Reversibility};
use countersign_core::ports::bus::GroupName;
use reqwest::Method;
use serde_json::{Map, Value, json};
use std::time::Duration;
use testkit::clock::START;
use testkit::{FakeSource, mail};
use tokio_util::sync::DropGuard;

on_both_engines!(
    the_digest_tells_at_its_hour_what_is_new,
    a_contract_that_is_added_is_announced_by_mail,
    the_end_of_a_report_starts_what_follows_it,
    a_sweep_makes_documents_of_what_is_new_in_a_folder,
);

on_sqlite!(
    a_digest_that_cannot_be_made_is_told,
    a_broken_build_is_kept_and_told,
    a_podcast_is_written_and_sent_to_the_speech_service,
    a_run_whose_question_a_mode_settles_goes_on,
    the_morning_note_is_fired_by_its_webhook,
    a_definition_in_older_names_does_what_it_says,
    a_step_sends_a_request_and_the_next_one_reads_the_answer,
);

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/automations");

fn example(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(format!("{FOLDER}/{name}.json")).unwrap()).unwrap()
}

#[test]
fn every_example_is_run_here_and_named_in_the_guide() {
    let mut files: Vec<_> = std::fs::read_dir(FOLDER).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    let run = [
        "build-triage",
        "daily-digest",
        "file-added",
        "folder-sweep",
        "morning-note",
        "report-follow-up",
        "weekly-podcast",
        "weekly-report",
    ];
    assert_eq!(files, run.map(|name| format!("{name}.json")));
    let guide = include_str!("../../../../docs/guides/automations.md");
    for file in &files {
        assert!(guide.contains(&format!("| `{file}` |")) && guide.contains(&format!("apply -f examples/automations/{file}")), "{file}");
    }
}

async fn allow(server: &TestServer, actions: &[&str]) {
    for action in actions {
        server.owner.set_mode(action, "allow").await;
        server.owner.consent(action).await;
    }
}

/// A source with one action that takes these texts.
fn taking(source: &str, action: &str, params: &[&str]) -> FakeSource {
    let properties: Map<_, _> = params.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect();
    FakeSource::new(source).offering(action, |action| {
        action.tier = Tier::R2;
        action.repeatability = Repeatability::NotRepeatable;
        action.reversibility = Reversibility::NotReversible;
        action.params_schema = json!({ "type": "object", "additionalProperties": false, "required": params, "properties": properties });
    })
}

/// The org's Slack, whose messages nobody has to approve.
async fn slack(server: &TestServer) -> FakeSource {
    let slack = taking("slack", "send_message", &["channel", "text"]);
    server.registry.add(&server.org, slack.clone());
    allow(server, &["slack.send_message"]).await;
    slack
}

fn params(source: &FakeSource) -> Vec<Value> {
    source.calls().into_iter().map(|call| call.params).collect()
}

/// What people were told, the newest first.
async fn told(server: &TestServer) -> Vec<Value> {
    server.owner.get("/api/v1/notifications").await.ok()["items"].as_array().unwrap().clone()
}

async fn add_document(server: &TestServer, title: &str, text: &str, tags: Value) -> Value {
    let params = json!({ "title": title, "text": text, "tags": tags });
    server.agent().await.invoke("documents.add", params).await.ok()["result"]["document_id"].clone()
}

/// Lets the engine work, and returns once it hears events.
async fn hearing(server: &TestServer) -> DropGuard {
    let working = server.work();
    let group = GroupName::parse("automations").unwrap();
    while server.store.find_event_group(&server.org, &group).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    working
}

/// Moves the clock, and lets the schedules see it.
async fn tick(server: &TestServer, seconds: u64) {
    server.clock.advance_seconds(seconds);
    server.engine.handle_due_schedules().await.unwrap();
}

/// The run of an automation that comes after this many others, once it has ended.
async fn run_after(server: &TestServer, automation: &str, others: usize) -> Value {
    for _ in 0..300 {
        let runs = server.owner.get(&format!("/api/v1/runs?automation={automation}")).await.ok();
        let runs = runs["items"].as_array().unwrap();
        assert!(runs.len() <= others + 1, "{runs:#?}");
        if runs.len() > others {
            return ended(&server.owner, runs[0]["id"].as_str().unwrap()).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nothing has started `{automation}`");
}

/// The name, the action and the end of each step. Every call of one has a receipt, which names the automation.
async fn steps(server: &TestServer, run: &Value) -> Vec<[String; 3]> {
    let by = format!("automation:{}", run["automation_id"].as_str().unwrap());
    let mut steps = Vec::new();
    for step in run["steps"].as_array().unwrap() {
        if let Some(invocation) = step["invocation_id"].as_str() {
            let receipt = server.receipt_of(invocation).await;
            assert!(receipt.to_string().contains(&by) && step["receipt"]["seq"].is_u64(), "{step:#} {receipt:#}");
        }
        steps.push(["step_id", "action", "status"].map(|field| step[field].as_str().unwrap().to_owned()));
    }
    steps
}

/// From the start of the clock, on a Sunday at 08:00 in UTC, to nine o'clock on Monday in Kigali.
const TO_MONDAY_SECONDS: u64 = 23 * 3_600;
const DAY_SECONDS: u64 = 24 * 3_600;

async fn the_digest_tells_at_its_hour_what_is_new(kind: Kind) {
    let server = TestServer::start_whole(kind, &[]).await;
    allow(&server, &["documents.add", "notify.send"]).await;
    let id = id_of(&saved(&server.owner, example("daily-digest")).await);
    add_document(&server, "New rival", "They sell falcons.", json!(["competitor"])).await;
    add_document(&server, "Lunch", "Soup", json!([])).await;
    tick(&server, TO_MONDAY_SECONDS).await;
    let _working = server.work();

    let run = run_after(&server, &id, 0).await;
    assert_eq!((&run["status"], &run["trigger_id"]), (&json!("succeeded"), &json!("weekdays")), "{run:#}");
    assert_eq!(run["inputs"], json!({ "since": START, "tags": ["competitor"] }));
    let expected = [
        ["find", "documents.search", "succeeded"],
        ["shape", "builtin.transform_data", "succeeded"],
        ["deliver", "notify.send", "succeeded"],
    ];
    assert_eq!(steps(&server, &run).await, expected);
    assert_eq!(run["output"], json!({ "count": 1, "text": "• New rival\n" }), "`output_from` names a step that is not the last");
    let messages = told(&server).await;
    assert_eq!(messages.len(), 1, "{messages:#?}");
    assert_eq!((&messages[0]["title"], &messages[0]["body"]), (&json!(format!("1 new documents since {START}")), &json!("• New rival\n")));

    // A day later nothing is new since the last digest, and nobody is told.
    tick(&server, DAY_SECONDS).await;
    let run = run_after(&server, &id, 1).await;
    let since = START.plus_seconds(TO_MONDAY_SECONDS);
    assert_eq!((&run["status"], &run["inputs"]["since"]), (&json!("succeeded"), &json!(since)), "{run:#}");
    let expected =
        [["find", "documents.search", "succeeded"], ["shape", "builtin.transform_data", "skipped"], ["deliver", "notify.send", "skipped"]];
    assert_eq!(steps(&server, &run).await, expected);
    assert_eq!((&run["output"], told(&server).await.len()), (&Value::Null, 1), "the step that `output_from` names has no output");
    server.verify().await;
}

async fn a_digest_that_cannot_be_made_is_told(kind: Kind) {
    let server = TestServer::start_whole(kind, &[]).await;
    allow(&server, &["notify.send"]).await;
    let id = id_of(&saved(&server.owner, example("daily-digest")).await);
    server.owner.set_mode("documents.search", "deny").await;
    let _working = server.work();
    let run = ended(&server.owner, &run(&server.owner, &id, json!({})).await).await;
    assert_eq!((&run["status"], &run["error"]["step_id"], &run["output"]), (&json!("failed"), &json!("find"), &Value::Null), "{run:#}");
    let messages = told(&server).await;
    assert_eq!(messages[0]["title"], "The digest failed", "{messages:#?}");
    assert!(messages[0]["body"].as_str().unwrap().starts_with("find: "), "{messages:#?}");
    assert_eq!(steps(&server, &run).await.last().unwrap(), &["tell", "notify.send", "succeeded"]);
    server.verify().await;
}

async fn a_broken_build_is_kept_and_told(kind: Kind) {
    let server = TestServer::start_whole(kind, &[]).await;
    allow(&server, &["documents.add", "notify.send"]).await;
    let saved = saved(&server.owner, example("build-triage")).await;
    let (id, bearer) = (id_of(&saved), format!("Bearer {}", saved["tokens"][0]["token"].as_str().unwrap()));
    let _working = server.work();
    let send = async |key: &str, build: Value| {
        let body = json!({ "repository": { "full_name": "acme/app" }, "build": build }).to_string();
        fire(&server, &id, &[("authorization", &bearer), ("idempotency-key", key)], &body).await
    };
    let build = |branch: &str, status: &str| json!({ "branch": branch, "status": status, "url": "https://ci.example.com/812" });

    let mut broken = build("main", "failed");
    broken["jobs"] = json!([{ "name": "unit", "failed": true }, { "name": "lint", "failed": false }, { "name": "docs", "failed": true }]);
    let first = send("build-812", broken.clone()).await;
    assert_eq!((first.status, &first.body["outcome"]), (202, &json!("started")), "{first:?}");
    let again = send("build-812", broken).await;
    assert_eq!((&again.body["run_id"], again.headers["idempotent-replayed"].as_bytes()), (&first.body["run_id"], b"true".as_slice()));
    let run = ended(&server.owner, first.body["run_id"].as_str().unwrap()).await;
    assert_eq!((&run["status"], &run["inputs"]["jobs"]), (&json!("succeeded"), &json!(["unit", "docs"])), "{run:#}");
    assert_eq!(steps(&server, &run).await, [["file", "documents.add", "succeeded"], ["tell", "notify.send", "succeeded"]]);
    let document = run["steps"][0]["output"]["document_id"].as_str().unwrap();
    let kept = server.agent().await.invoke("documents.fetch", json!({ "document_id": document })).await.ok()["result"].clone();
    assert_eq!((&kept["title"], &kept["tags"]), (&json!("Build of acme/app failed"), &json!(["triage"])));
    assert_eq!(kept["text"], "https://ci.example.com/812\n\nFailed jobs: unit, docs");
    let messages = told(&server).await;
    assert_eq!(messages[0]["title"], "The build of acme/app failed", "{messages:#?}");
    assert_eq!(messages[0]["body"], json!(format!("https://ci.example.com/812 is document {document}")));

    // Nobody is told of a build that passed, or of another branch.
    for (key, build) in [("build-813", build("main", "passed")), ("build-814", build("next", "failed"))] {
        let fired = send(key, build).await.ok();
        let run = ended(&server.owner, fired["run_id"].as_str().unwrap()).await;
        assert_eq!((&run["status"], &run["output"]), (&json!("succeeded"), &Value::Null), "{run:#}");
        assert!(steps(&server, &run).await.iter().all(|[.., status]| status == "skipped"), "{run:#}");
    }
    assert_eq!(told(&server).await.len(), 1);
    server.verify().await;
}

async fn a_sweep_makes_documents_of_what_is_new_in_a_folder(kind: Kind) {
    let server = TestServer::start_whole(kind, &[]).await;
    allow(&server, &["documents.import_folder", "notify.send"]).await;
    let folder = server.home.workspace().join("inbox");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("rival.md"), "They sell falcons.").unwrap();
    let id = id_of(&saved(&server.owner, example("folder-sweep")).await);
    let _working = server.work();
    tick(&server, 3_600).await;
    let run = run_after(&server, &id, 0).await;
    assert_eq!(steps(&server, &run).await, [["sweep", "documents.import_folder", "succeeded"], ["tell", "notify.send", "succeeded"]]);
    assert_eq!((&run["output"]["added"], &run["output"]["changed"]), (&json!(1), &json!(0)), "{run:#}");
    let messages = told(&server).await;
    assert_eq!((&messages[0]["title"], &messages[0]["body"]), (&json!("Swept inbox"), &json!("1 new, 0 changed")));
    let found = server.agent().await.invoke("documents.search", json!({ "query": "falcons", "tags": ["competitor"] })).await.ok();
    assert_eq!(found["result"]["hits"][0]["title"], "rival.md", "{found:#}");

    // An hour later nothing is new, and nobody is told.
    tick(&server, 3_600).await;
    let run = run_after(&server, &id, 1).await;
    assert_eq!(steps(&server, &run).await, [["sweep", "documents.import_folder", "succeeded"], ["tell", "notify.send", "skipped"]]);
    assert_eq!(told(&server).await.len(), 1);
    server.verify().await;
}

/// From the start of the clock to four o'clock on Friday in Paris.
const TO_PODCAST_SECONDS: u64 = 5 * 24 * 3_600 + 7 * 3_600;

async fn a_podcast_is_written_and_sent_to_the_speech_service(kind: Kind) {
    let speech = Upstream::start().await;
    let server = TestServer::start_whole(kind, &[&speech.url]).await;
    allow(&server, &["documents.add", "files.write_text", "http.request", "notify.send"]).await;
    server.owner.consent("http.request").await;
    let mut definition = example("weekly-podcast");
    assert_eq!(definition["plan"][3]["config"]["url"].take(), json!("https://speech.example.com/v1/episodes"));
    definition["plan"][3]["config"]["url"] = json!(speech.mcp());
    let id = id_of(&saved(&server.owner, definition).await);
    add_document(&server, "New rival", "They sell falcons.", json!([])).await;
    let _working = server.work();
    tick(&server, TO_PODCAST_SECONDS).await;
    let run = run_after(&server, &id, 0).await;
    let expected = [
        ["find", "documents.search", "succeeded"],
        ["write", "builtin.transform_data", "succeeded"],
        ["keep", "files.write_text", "succeeded"],
        ["speak", "http.request", "succeeded"],
        ["tell", "notify.send", "succeeded"],
    ];
    assert_eq!(steps(&server, &run).await, expected, "{run:#}");
    let path = run["steps"][1]["output"]["path"].as_str().unwrap();
    let script = std::fs::read_to_string(server.home.workspace().join(path)).unwrap();
    assert!(script.starts_with("This week there are 1 new documents.\n") && script.contains("New rival. They sell falcons."), "{script}");
    assert!(told(&server).await[0]["body"].as_str().unwrap().starts_with(&format!("The script is {path}; ")));
    server.verify().await;
}

async fn a_contract_that_is_added_is_announced_by_mail(kind: Kind) {
    let server = TestServer::start_whole(kind, &[]).await;
    allow(&server, &["documents.add", "documents.import_folder", "email.send"]).await;
    // Others send mails too, under the same ids on the other database.
    let reader = address(kind, "legal");
    let mut definition = example("file-added");
    assert_eq!(definition["plan"][1]["config"]["to"].take(), json!(["legal@example.com"]));
    definition["plan"][1]["config"]["to"] = json!([reader]);
    let id = id_of(&saved(&server.owner, definition).await);
    let _working = hearing(&server).await;
    // Events are handled in their order, so these two have started nothing once the third has started a run.
    add_document(&server, "Draft of a lease", "Not yet.", json!(["contract"])).await;
    add_document(&server, "Lunch", "Soup", json!(["menu"])).await;
    let document = add_document(&server, "Supply of falcons", "Two falcons a month.", json!(["contract", "supply"])).await;

    let run = run_after(&server, &id, 0).await;
    assert_eq!((&run["status"], &run["trigger_type"]), (&json!("succeeded"), &json!("event")), "{run:#}");
    assert_eq!(run["inputs"], json!({ "document_id": document, "title": "Supply of falcons" }));
    assert_eq!(steps(&server, &run).await, [["read", "documents.fetch", "succeeded"], ["tell", "email.send", "succeeded"]]);
    assert_eq!(run["steps"][0]["output"]["text"], "Two falcons a month.");
    assert_eq!(run["output"], json!({ "recipients": 1, "from": "countersign@example.com" }), "it is the last step's");
    let mails = mail::to(&reader);
    assert_eq!(mails.len(), 1, "{mails:?}");
    for part in ["Subject: New contract: Supply of falcons", "Two falcons a month."] {
        assert!(mails[0].text.contains(part), "{}", mails[0].text);
    }

    // So is a file that is imported.
    let folder = server.home.workspace().join("contracts");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("lease.md"), "Ten years.").unwrap();
    server.clock.advance_seconds(1);
    let import = json!({ "path": "contracts", "tags": ["contract"] });
    server.agent().await.invoke("documents.import_folder", import).await.ok();
    let run = run_after(&server, &id, 1).await;
    assert_eq!((&run["status"], &run["inputs"]["title"]), (&json!("succeeded"), &json!("lease.md")), "{run:#}");
    assert_eq!(run["steps"][0]["output"]["text"], "Ten years.");
    server.verify().await;
}

/// From the start of the clock to half past seven on Monday in Paris.
const TO_REPORT_SECONDS: u64 = 22 * 3_600 + 1_800;

async fn the_end_of_a_report_starts_what_follows_it(kind: Kind) {
    let server = TestServer::start_whole(kind, &[]).await;
    allow(&server, &["documents.add", "notify.send"]).await;
    let report = id_of(&saved(&server.owner, example("weekly-report")).await);
    server.clock.advance_ms(1);
    let follow_up = id_of(&saved(&server.owner, example("report-follow-up")).await);
    add_document(&server, "New rival", "They sell falcons.", json!([])).await;
    let _working = hearing(&server).await;
    tick(&server, TO_REPORT_SECONDS).await;

    let first = run_after(&server, &report, 0).await;
    let summary = format!("1 documents since {START}");
    assert_eq!((&first["status"], &first["output"]["summary"]), (&json!("succeeded"), &json!(summary)), "{first:#}");
    assert_eq!(first["output"]["titles"][0]["title"], "New rival");
    let second = run_after(&server, &follow_up, 0).await;
    assert_eq!(second["inputs"], json!({ "outcome": "succeeded", "summary": summary }), "{second:#}");
    assert_eq!(steps(&server, &second).await, [["send", "notify.send", "succeeded"], ["warn", "notify.send", "skipped"]]);
    let messages = told(&server).await;
    assert_eq!((&messages[0]["title"], &messages[0]["body"]), (&json!("Weekly report"), &json!(summary)));
    assert_eq!(second["output"], json!({ "notification_id": messages[0]["id"] }), "the last step that succeeded is not the last step");
    assert_eq!((&second["chain"], &second["root_run_id"]), (&json!([report, follow_up]), &first["id"]));

    // A report that fails has no summary, and people are told.
    server.owner.set_mode("documents.search", "deny").await;
    server.clock.advance_seconds(1);
    let failed = ended(&server.owner, &run(&server.owner, &report, json!({})).await).await;
    assert_eq!((&failed["status"], &failed["error"]["step_id"]), (&json!("failed"), &json!("find")), "{failed:#}");
    let warned = run_after(&server, &follow_up, 1).await;
    assert_eq!(warned["inputs"], json!({ "outcome": "failed", "summary": "no summary" }), "{warned:#}");
    assert_eq!(steps(&server, &warned).await, [["send", "notify.send", "skipped"], ["warn", "notify.send", "succeeded"]]);
    let messages = told(&server).await;
    assert_eq!((&messages[0]["title"], &messages[0]["body"]), (&json!("No weekly report"), &json!("The run ended failed.")));
    assert_eq!(messages.len(), 2);
    server.verify().await;
}

async fn the_morning_note_is_fired_by_its_webhook(kind: Kind) {
    let server = TestServer::start_whole(kind, &[]).await;
    allow(&server, &["notify.send"]).await;
    std::fs::create_dir_all(server.home.workspace()).unwrap();
    std::fs::write(server.home.workspace().join("a.txt"), "a").unwrap();
    let saved = saved(&server.owner, example("morning-note")).await;
    let bearer = format!("Bearer {}", saved["tokens"][0]["token"].as_str().unwrap());
    let _working = server.work();
    let fired = fire(&server, &id_of(&saved), &[("authorization", &bearer)], r#"{"greeting": "Hello"}"#).await.ok();
    let run = ended(&server.owner, fired["run_id"].as_str().unwrap()).await;
    assert_eq!(steps(&server, &run).await, [["look", "files.list", "succeeded"], ["tell", "notify.send", "succeeded"]], "{run:#}");
    let told = server.owner.get("/api/v1/notifications").await.ok()["items"][0].clone();
    assert_eq!((&told["title"], &told["body"]), (&json!("Hello"), &json!("Files in the workspace: 1")));
    server.verify().await;
}

async fn a_run_whose_question_a_mode_settles_goes_on(kind: Kind) {
    let server = TestServer::start_whole(kind, &[]).await;
    let id = id_of(&saved(&server.owner, example("morning-note")).await);
    let _working = server.work();
    let run = run(&server.owner, &id, json!({})).await;
    let asked = waiting(&server.owner, &run).await["invocation_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/automations/{id}/modes/notify.send");
    let changed = server.owner.send(Method::PUT, &path, Some(json!({ "mode": "allow" }))).await.ok();
    assert_eq!(changed["voided"], 1, "{changed:#}");
    let run = ended(&server.owner, &run).await;
    assert_eq!(run["status"], "succeeded", "{run:#}");
    assert_eq!(steps(&server, &run).await, [["look", "files.list", "succeeded"], ["tell", "notify.send", "succeeded"]]);
    assert_ne!(run["steps"][1]["invocation_id"], json!(asked), "the call that was asked about ended, and was made again");
    assert_eq!(server.shown(&asked).await["status"], "denied");
    assert_eq!(told(&server).await.len(), 1);
    server.verify().await;
}

/// A digest in the older form: every older name of an action, with the older names of its params, and a trigger without an id.
fn in_older_names() -> Value {
    let since = json!({ "type": "string", "format": "date-time", "default": "$last_fired_at", "x-surfsense-widget": "date" });
    let tags = json!({ "type": "array", "items": { "type": "string" }, "default": ["competitor"] });
    json!({
        "schema_version": "1.0",
        "name": "Older",
        "inputs": { "schema": { "type": "object", "required": ["since"], "properties": { "since": since, "tags": tags } } },
        "triggers": [{ "type": "schedule", "config": { "cron": "0 9 * * 1-5", "timezone": "Africa/Kigali" } }],
        "execution": { "timeout_seconds": 600, "max_retries": 2, "retry_backoff": "exponential", "concurrency": "drop_if_running",
            "budget_cap_usd": 1.50, "on_failure": [] },
        "metadata": { "tags": ["digest"], "created_from_nl": true },
        "plan": [
            { "step_id": "find", "action": "search_space.query", "output_as": "found",
                "config": { "tags": "{{ inputs.tags }}", "since": "{{ inputs.since }}" } },
            { "step_id": "read", "action": "search_space.fetch_document", "output_as": "document",
                "config": { "document_id": "{{ found.hits[0].document_id }}" } },
            { "step_id": "shape", "action": "transform_data", "output_as": "summary",
                "config": { "value": { "bullets": ["{{ document.title }}", "{{ document.text }}"] } } },
            { "step_id": "post", "action": "slack_post",
                "config": { "channel_id": "C0123", "message_template": "{% for b in summary.bullets %}• {{ b }}\n{% endfor %}" } },
            { "step_id": "file", "action": "linear_create_issue",
                "config": { "team": "ENG", "title_template": "{{ document.title }}", "description_template": "{{ document.text }}" } },
            { "step_id": "send", "action": "send_email",
                "config": { "to": ["robin@example.com"], "subject_template": "{{ document.title }}", "body_template": "{{ document.text }}" } },
            { "step_id": "tell", "action": "notification",
                "config": { "title_template": "{{ document.title }}", "message_template": "{{ document.text }}" } },
        ],
    })
}

async fn a_definition_in_older_names_does_what_it_says(kind: Kind) {
    let server = TestServer::start_whole(kind, &[]).await;
    let slack = slack(&server).await;
    let linear = taking("linear", "create_issue", &["team", "title", "description"]);
    server.registry.add(&server.org, linear.clone());
    allow(&server, &["documents.add", "linear.create_issue", "email.send", "notify.send"]).await;
    let id = id_of(&saved(&server.owner, in_older_names()).await);
    add_document(&server, "Falcons", "They are back.", json!(["competitor"])).await;
    let _working = server.work();
    let run = ended(&server.owner, &run(&server.owner, &id, json!({})).await).await;
    let expected = [
        ["find", "documents.search", "succeeded"],
        ["read", "documents.fetch", "succeeded"],
        ["shape", "builtin.transform_data", "succeeded"],
        ["post", "slack.send_message", "succeeded"],
        ["file", "linear.create_issue", "succeeded"],
        ["send", "email.send", "succeeded"],
        ["tell", "notify.send", "succeeded"],
    ];
    assert_eq!(steps(&server, &run).await, expected, "{run:#}");
    assert_eq!(params(&slack), [json!({ "channel": "C0123", "text": "• Falcons\n• They are back.\n" })]);
    assert_eq!(params(&linear), [json!({ "team": "ENG", "title": "Falcons", "description": "They are back." })]);
    let call = run["steps"][5]["invocation_id"].as_str().unwrap();
    let mail = mail::to("robin@example.com").into_iter().find(|mail| mail.text.contains(call)).unwrap();
    assert!(mail.text.contains("Subject: Falcons") && mail.text.contains("They are back."), "{}", mail.text);
    let told = server.owner.get("/api/v1/notifications").await.ok()["items"][0].clone();
    assert_eq!((&told["title"], &told["body"]), (&json!("Falcons"), &json!("They are back.")));
    assert_eq!(run["output"], json!({ "notification_id": told["id"] }));
    server.verify().await;
}

async fn a_step_sends_a_request_and_the_next_one_reads_the_answer(kind: Kind) {
    let upstream = Upstream::start().await;
    let server = TestServer::start_whole(kind, &[&upstream.url]).await;
    allow(&server, &["http.request"]).await;
    let body = r#"{ "id": 1, "method": "tools/call", "params": { "name": "note", "arguments": { "text": {{ inputs.text | tojson }} } } }"#;
    let read = json!({ "type": "object", "required": ["status"], "properties": { "status": { "const": 200 } } });
    let definition = json!({
        "schema_version": "1.0",
        "name": "Ask",
        "inputs": { "schema": { "type": "object", "properties": { "text": { "type": "string" } } } },
        "plan": [
            { "step_id": "send", "action": "http.request", "output_as": "answer",
                "config": { "method": "POST", "url": upstream.mcp(), "headers": { "content-type": "application/json" }, "body": body } },
            { "step_id": "read", "action": "transform_data",
                "config": { "value": "{{ answer }}", "select": { "status": "$.status" }, "output_schema": read } },
        ],
    });
    let id = id_of(&saved(&server.owner, definition).await);
    let _working = server.work();
    let run = ended(&server.owner, &run(&server.owner, &id, json!({ "text": "a \"quoted\" word" })).await).await;
    assert_eq!((&run["status"], &run["output"]), (&json!("succeeded"), &json!({ "status": 200 })), "{run:#}");
    assert_eq!(upstream.given(), [json!({ "text": "a \"quoted\" word" })]);
    server.verify().await;
}
