//! Artifacts: what an action makes is kept apart, what is too long for a step too; a link opens it for those who may read it, and for nobody else.

use crate::automations::{ended, id_of, run};
use crate::browser::Browser;
use crate::harness::{Agent, Client, Kind, TestServer, on_both_engines, on_sqlite};
use crate::mcp_door::ask;
use crate::upstream::Upstream;
use countersign_core::ArtifactId;
use countersign_core::artifact::{Artifact, ArtifactKind, ArtifactSpec};
use countersign_core::ledger::NewArtifact;
use countersign_core::limits::ARTIFACT_DEFAULT_SECONDS;
use countersign_core::ports::Artifacts as _;
use pipeline::limits::ARTIFACTS_SWEPT_AT_ONCE;
use runs::limits::{STEP_OUTPUT_BYTES_MAX, STEP_OUTPUT_KEPT_BYTES_MAX};
use serde_json::{Value, json};
use std::collections::BTreeSet;

on_both_engines!(
    what_an_action_makes_is_taken_out_of_its_result_and_kept,
    a_long_output_of_a_step_is_an_artifact_that_later_steps_read,
    a_run_whose_output_was_taken_away_can_be_cancelled_and_fails_if_it_is_read,
    what_is_over_is_gone_and_the_sweep_removes_its_bytes,
);

on_sqlite!(
    images_and_files_of_an_mcp_server_are_artifacts_and_its_clients_get_them_back,
    an_action_that_declares_nothing_keeps_its_result_whole,
    what_cannot_be_removed_does_not_end_the_sweep,
    a_link_opens_for_those_who_may_read_it_until_it_ends,
    a_forged_link_opens_nothing,
    what_was_made_in_another_space_or_for_somebody_else_does_not_exist,
    what_a_run_made_opens_for_those_who_may_read_the_run,
    a_quarantine_ends_every_link_and_keeps_the_digest,
    a_person_saves_the_file_in_a_browser_after_a_login,
    bytes_that_cannot_be_kept_or_were_changed_are_told,
);

/// The bytes are `%PDF`.
fn report() -> Value {
    json!({ "name": "report.pdf", "media_type": "application/pdf", "base64": "JVBERg==" })
}

/// A server whose source has an action that makes artifacts.
async fn making(kind: Kind) -> TestServer {
    let server = TestServer::start(kind).await;
    server.source.offer("make", |action| action.produces_artifacts = ArtifactKind::ALL.map(ArtifactSpec::of).to_vec());
    server
}

/// Makes these artifacts, and returns the result.
async fn made(server: &TestServer, agent: &Agent, artifacts: Value) -> Value {
    server.source.will_answer(json!({ "pages": 1, "artifacts": artifacts }));
    agent.invoke("fake.make", json!({})).await.ok()["result"].clone()
}

/// Makes one artifact, and returns its id.
async fn one(server: &TestServer, agent: &Agent, artifact: Value) -> String {
    let result = made(server, agent, json!([artifact])).await;
    result["artifacts"][0]["id"].as_str().unwrap_or_else(|| panic!("it was not kept: {result:#}")).to_owned()
}

async fn link(client: &Client, artifact: &str) -> String {
    client.post(&format!("/api/v1/artifacts/{artifact}/link"), json!({})).await.ok()["path"].as_str().unwrap().to_owned()
}

async fn what_an_action_makes_is_taken_out_of_its_result_and_kept(kind: Kind) {
    let server = making(kind).await;
    let agent = server.agent().await;
    let unnamed = json!({ "name": "../x", "text": "x" });
    let result =
        made(&server, &agent, json!([report(), { "name": "notes.md", "media_type": "text/markdown", "text": "# Notes" }, unnamed])).await;
    assert_eq!(result["pages"], 1);
    assert_eq!((&result["artifacts"][0]["kind"], &result["artifacts"][0]["size_bytes"]), (&json!("document"), &json!(4)), "{result:#}");
    assert!(result["artifacts"][2]["problem"].is_string() && !result.to_string().contains("JVBERg"), "{result:#}");
    let listed = server.owner.get("/api/v1/artifacts").await.ok();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed:#}");
    assert_eq!(server.home.blobs.keys().len(), 2);
    let id = result["artifacts"][0]["id"].as_str().unwrap();
    let shown = agent.client.get(&format!("/api/v1/artifacts/{id}")).await.ok();
    assert_eq!((&shown["name"], &shown["retention"], &shown["visibility"]), (&json!("report.pdf"), &json!("default"), &json!("space")));
    let answer = agent.client.get(&link(&agent.client, id).await).await;
    assert_eq!((answer.status, &answer.body), (200, &json!("%PDF")));
    for (name, expected) in [
        ("content-type", "application/pdf"),
        ("content-disposition", "attachment; filename=\"report.pdf\"; filename*=UTF-8''report.pdf"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
        ("content-security-policy", "default-src 'none'; sandbox"),
    ] {
        assert_eq!(answer.headers[name], expected, "{name}");
    }
    server.verify().await;
}

async fn images_and_files_of_an_mcp_server_are_artifacts_and_its_clients_get_them_back(kind: Kind) {
    let upstream = Upstream::start().await;
    let server = TestServer::start_reaching(kind, &[&upstream.url]).await;
    server.owner.post("/api/v1/sources", json!({ "name": "kit", "url": upstream.mcp(), "trust_hints": true })).await.ok();
    let image = json!({ "type": "image", "data": "iVBORw==", "mimeType": "image/png" });
    let file = json!({ "type": "resource", "resource": { "uri": "file:///r.pdf", "mimeType": "application/pdf", "blob": "JVBERg==" } });
    // It names an artifact of its own choice, which counts for nothing.
    let other = json!({ "type": "audio", "artifact": { "id": "art_00000000000000000000000000" }, "data": "AAEC", "mimeType": "audio/wav" });
    upstream.will_answer(json!({ "content": [{ "type": "text", "text": "three" }, image, file, other] }));
    let agent = server.agent().await;
    let answer = agent.invoke("kit.look", json!({})).await.ok();
    let content = &answer["result"]["content"];
    let told = &content[1]["artifact"];
    assert_eq!((&told["name"], &told["kind"], &told["size_bytes"]), (&json!("image-1.png"), &json!("image"), &json!(4)), "{content:#}");
    assert_eq!((&content[1]["mimeType"], &content[2]["resource"]["artifact"]["name"]), (&json!("image/png"), &json!("r.pdf")));
    assert!(!answer.to_string().contains("iVBORw") && !answer.to_string().contains("JVBERg"), "{answer:#}");
    let invocation = answer["invocation"]["id"].as_str().unwrap();
    let listed = server.owner.get(&format!("/api/v1/artifacts?invocation={invocation}")).await.ok();
    assert_eq!(listed["items"].as_array().unwrap().len(), 3, "{listed:#}");
    let opened = server.owner.get(&link(&server.owner, told["id"].as_str().unwrap()).await).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    assert_eq!(opened.headers["content-type"], "image/png");

    // Through our own door, a client gets what the server gave, and which artifact it is.
    let called = ask(&agent, "tools/call", json!({ "name": "kit.look", "arguments": {} }), json!({})).await;
    let content = &called["result"]["content"];
    assert_eq!((&content[1]["data"], &content[1]["mimeType"]), (&image["data"], &image["mimeType"]), "{called:#}");
    assert_eq!((&content[2]["resource"]["blob"], &content[3]["data"]), (&json!("JVBERg=="), &json!("AAEC")), "{called:#}");
    let kept = content[1]["_meta"]["countersign/artifact"].as_str().unwrap();
    let again = called["result"]["_meta"]["countersign/invocation"].clone();
    server.owner.post(&format!("/api/v1/artifacts/{kept}/quarantine"), json!({})).await.ok();
    let later = ask(&agent, "tools/call", json!({ "name": "get_invocation", "arguments": { "id": again } }), json!({})).await;
    let content = &later["result"]["content"];
    assert_eq!(
        content[1]["text"],
        format!("`image-1.png` is not in this answer: it is in quarantine; it is the artifact `{kept}`."),
        "{later:#}"
    );
    assert_eq!(content[2]["resource"]["blob"], "JVBERg==");

    // So are the contents of a resource.
    upstream.will_answer(json!({ "contents": [{ "uri": "kit://a", "mimeType": "image/png", "blob": "iVBORw==" }] }));
    let read = agent.invoke("kit.resources.read", json!({ "uri": "kit://a" })).await.ok();
    assert_eq!(read["result"]["contents"][0]["artifact"]["kind"], "image", "{read:#}");
    let read = ask(&agent, "resources/read", json!({ "uri": "countersign://kit/kit://a" }), json!({})).await;
    assert_eq!(read["result"]["contents"][0]["blob"], "iVBORw==", "{read:#}");
    server.verify().await;
}

async fn an_action_that_declares_nothing_keeps_its_result_whole(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.source.will_answer(json!({ "artifacts": [report()] }));
    let answer = agent.invoke("fake.read", json!({})).await.ok();
    assert_eq!(answer["result"], json!({ "artifacts": [report()] }));
    assert_eq!(server.home.blobs.keys(), Vec::<String>::new());
}

/// An automation whose second step asks a person, and whose third reads what the first put out.
async fn reading(server: &TestServer) -> String {
    server.owner.set_mode("fake.write", "allow").await;
    let definition = json!({
        "schema_version": "1.0",
        "name": "Long",
        "plan": [
            { "step_id": "read", "action": "fake.read", "config": {}, "output_as": "found" },
            { "step_id": "send", "action": "fake.send", "config": { "text": "held" } },
            { "step_id": "write", "action": "fake.write", "config": { "text": "{{ found.tag }}" } },
        ],
        "execution": { "output_from": "read" },
    });
    saved(server, definition).await
}

/// One whose first step gives its output no name.
async fn not_reading(server: &TestServer) -> String {
    let plan = json!([
        { "step_id": "read", "action": "fake.read", "config": {} },
        { "step_id": "send", "action": "fake.send", "config": { "text": "held" } },
    ]);
    saved(server, json!({ "schema_version": "1.0", "name": "Long, unread", "plan": plan })).await
}

async fn saved(server: &TestServer, definition: Value) -> String {
    let saved = server.owner.post("/api/v1/automations", json!({ "definition": definition })).await.ok();
    saved["automation"]["id"].as_str().unwrap().to_owned()
}

/// Starts a run of it, and returns its id.
async fn started(server: &TestServer, automation: &str) -> String {
    let fired = server.owner.post(&format!("/api/v1/automations/{automation}/run"), json!({})).await.ok();
    fired["run_id"].as_str().unwrap().to_owned()
}

/// The run, once it is put aside while a person is asked.
async fn asking(server: &TestServer, run: &str) -> Value {
    let mut waits = Value::Null;
    for _ in 0..300 {
        waits = server.owner.get(&format!("/api/v1/runs/{run}")).await.ok();
        if waits["status"] == "waiting" && waits["invocation_id"].is_string() {
            return waits;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("nobody was asked: {waits:#}");
}

async fn a_long_output_of_a_step_is_an_artifact_that_later_steps_read(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let automation = reading(&server).await;
    let long = json!({ "tag": "read again", "text": "x".repeat(STEP_OUTPUT_KEPT_BYTES_MAX) });
    server.source.will_answer(long.clone());
    let run = started(&server, &automation).await;
    // Whoever takes the run up again has only what is stored.
    let waits = asking(&server, &run).await;
    let step = &waits["steps"][0];
    let artifact = step["artifact_id"].as_str().unwrap_or_else(|| panic!("it is no artifact: {waits:#}"));
    assert_eq!(step["output"], Value::Null);
    server.owner.approve(waits["invocation_id"].as_str().unwrap()).await.ok();
    let ended = server.owner.get(&format!("/api/v1/runs/{run}?wait=30s")).await.ok();
    assert_eq!((&ended["status"], &ended["output"]), (&json!("succeeded"), &json!({ "artifact_id": artifact })), "{ended:#}");
    assert_eq!(server.source.calls()[2].params["text"], "read again");
    let listed = server.owner.get(&format!("/api/v1/artifacts?run={run}")).await.ok();
    assert_eq!((&listed["items"][0]["id"], &listed["items"][0]["name"]), (&json!(artifact), &json!("read.json")));
    assert_eq!(server.owner.get(&link(&server.owner, artifact).await).await.body, long);

    server.source.will_answer(json!("x".repeat(STEP_OUTPUT_BYTES_MAX)));
    let run = started(&server, &automation).await;
    let failed = server.owner.get(&format!("/api/v1/runs/{run}?wait=30s")).await.ok();
    assert_eq!(failed["error"]["code"], "step_output_too_large", "{failed:#}");
}

async fn a_run_whose_output_was_taken_away_can_be_cancelled_and_fails_if_it_is_read(kind: Kind) {
    let server = TestServer::start(kind).await;
    let _working = server.work();
    let automation = reading(&server).await;
    let unread = not_reading(&server).await;
    for (automation, verb, status, code, call) in [
        (&automation, "cancel", "cancelled", Value::Null, "cancelled"),
        (&automation, "approve", "failed", json!("step_output_gone"), "succeeded"),
        (&unread, "approve", "succeeded", Value::Null, "succeeded"),
    ] {
        server.source.will_answer(json!({ "tag": "read", "text": "x".repeat(STEP_OUTPUT_KEPT_BYTES_MAX) }));
        let run = started(&server, automation).await;
        let waits = asking(&server, &run).await;
        let (artifact, asked) = (waits["steps"][0]["artifact_id"].as_str().unwrap(), waits["invocation_id"].as_str().unwrap());
        server.owner.post(&format!("/api/v1/artifacts/{artifact}/quarantine"), json!({})).await.ok();
        match verb {
            "cancel" => server.owner.post(&format!("/api/v1/runs/{run}/cancel"), json!({})).await.ok(),
            _ => server.owner.approve(asked).await.ok(),
        };
        let ended = server.owner.get(&format!("/api/v1/runs/{run}?wait=30s")).await.ok();
        assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!(status), &code), "{ended:#}");
        assert_eq!(server.shown(asked).await["status"], call, "{verb}");
    }
}

async fn what_is_over_is_gone_and_the_sweep_removes_its_bytes(kind: Kind) {
    let server = making(kind).await;
    let agent = server.agent().await;
    let over = one(&server, &agent, report()).await;
    let mut kept = report();
    kept["retention"] = json!("permanent");
    let kept = one(&server, &agent, kept).await;
    assert_eq!(server.pipeline.sweep_artifacts(&server.org).await.unwrap(), 0);
    server.clock.advance_seconds(ARTIFACT_DEFAULT_SECONDS);
    server.owner.get(&format!("/api/v1/artifacts/{over}")).await.problem(404, "not_found");
    assert_eq!(server.pipeline.sweep_artifacts(&server.org).await.unwrap(), 1);
    assert_eq!(server.home.blobs.keys(), [format!("{}/{kept}", server.org)]);
    server.owner.get(&format!("/api/v1/artifacts/{kept}")).await.ok();
}

async fn what_cannot_be_removed_does_not_end_the_sweep(kind: Kind) {
    let server = making(kind).await;
    let agent = server.agent().await;
    let stuck = one(&server, &agent, report()).await;
    let found = server.store.find_artifact(&server.org, &ArtifactId::parse(&stuck).unwrap()).await.unwrap().unwrap();
    // With the one that is stuck there are more than are read at once.
    let another = |n: u32| {
        let Artifact { org, space, session, invocation, name, media_type, size, sha256, retention, visibility, .. } = found.clone();
        let mut random = [0; 10];
        random[..4].copy_from_slice(&n.to_be_bytes());
        // It was born later, so it comes later.
        let id = ArtifactId::new(found.created_at.plus_seconds(1), random);
        server.store.add_artifact(NewArtifact {
            id,
            org,
            space,
            session,
            invocation,
            name,
            media_type,
            size,
            sha256,
            retention,
            visibility,
        })
    };
    for n in 0..ARTIFACTS_SWEPT_AT_ONCE {
        another(n).await.unwrap();
    }
    server.home.blobs.hold_on_to(&format!("{}/{stuck}", server.org));
    server.clock.advance_seconds(ARTIFACT_DEFAULT_SECONDS);
    assert_eq!(server.pipeline.sweep_artifacts(&server.org).await.unwrap(), u64::from(ARTIFACTS_SWEPT_AT_ONCE));
    let left = server.store.list_expired_artifacts(&server.org, None, 10).await.unwrap();
    assert_eq!(left, [found], "it is tried again");
}

async fn a_link_opens_for_those_who_may_read_it_until_it_ends(kind: Kind) {
    let server = making(kind).await;
    let agent = server.agent().await;
    let id = one(&server, &agent, report()).await;
    let asked = server.owner.post(&format!("/api/v1/artifacts/{id}/link"), json!({ "expires_in": "10m" })).await.ok();
    let path = asked["path"].as_str().unwrap();
    let viewer = server.owner.person("vera", "viewer").await;
    assert_eq!(viewer.get(path).await.body, "%PDF", "it is for whoever may read, not for whoever made the link");
    let stranger = server.owner.with_token("cs_user_nobody");
    stranger.get(path).await.problem(401, "unauthenticated");
    let another = server.agent().await;
    another.client.get(path).await.problem(404, "not_found");
    server.clock.advance_seconds(10 * 60);
    viewer.get(path).await.problem(410, "expired");
    server.owner.post(&format!("/api/v1/artifacts/{id}/link"), json!({ "expires_in": "25h" })).await.problem(400, "invalid_request");
}

async fn a_forged_link_opens_nothing(kind: Kind) {
    let server = making(kind).await;
    let agent = server.agent().await;
    let (one, other) = (one(&server, &agent, report()).await, one(&server, &agent, report()).await);
    let path = link(&server.owner, &one).await;
    let (place, query) = path.split_once('?').unwrap();
    let (expires, signature) = query.split_once('&').unwrap();
    let later = expires.trim_start_matches("expires=").parse::<i64>().unwrap() + 1;
    for forged in [
        format!("/artifacts/{other}?{query}"),
        format!("{place}?expires={later}&{signature}"),
        format!("{place}?expires={}&{signature}", i64::MAX),
        format!("{place}?{expires}&signature={}", "0".repeat(64)),
        format!("{place}?{expires}&signature=x"),
    ] {
        server.owner.get(&forged).await.problem(404, "not_found");
    }
    for unclear in [place.to_owned(), format!("{place}?{expires}"), format!("{path}&more=1")] {
        server.owner.get(&unclear).await.problem(400, "invalid_query");
    }
    assert_eq!(server.owner.get(&path).await.status, 200);
}

async fn what_was_made_in_another_space_or_for_somebody_else_does_not_exist(kind: Kind) {
    let server = making(kind).await;
    let (ines, otto) = (server.owner.person("ines", "member").await, server.owner.person("otto", "member").await);
    let whoami = ines.get("/api/v1/whoami").await.ok();
    let user = whoami["principal"].as_str().unwrap().trim_start_matches("user:");
    let space = server.owner.post("/api/v1/spaces", json!({ "name": "payroll" })).await.ok()["id"].as_str().unwrap().to_owned();
    server.owner.post(&format!("/api/v1/spaces/{space}/members"), json!({ "user_id": user })).await.ok();
    let agent = ines.new_session(json!({ "space": "payroll" })).await;
    let with = |visibility: &str| json!({ "name": "a.txt", "text": "x", "visibility": visibility });
    let hidden = one(&server, &agent, with("space")).await;
    let shared = one(&server, &agent, with("shared")).await;
    let own = ines.new_session(json!({})).await;
    let private = one(&server, &own, with("private")).await;
    let seen = async |client: &Client| {
        let listed = client.get("/api/v1/artifacts").await.ok();
        listed["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    let all = BTreeSet::from([hidden.clone(), shared.clone(), private.clone()]);
    assert_eq!((seen(&ines).await, seen(&server.owner).await), (all.clone(), all));
    assert_eq!(seen(&otto).await, BTreeSet::from([shared.clone()]));
    assert_eq!(seen(&own.client).await, BTreeSet::from([private.clone()]), "an agent sees what its session made");
    for id in [&hidden, &private] {
        let path = link(&ines, id).await;
        assert_eq!((ines.get(&path).await.status, server.owner.get(&path).await.status), (200, 200));
        otto.get(&path).await.problem(404, "not_found");
        otto.get(&format!("/api/v1/artifacts/{id}")).await.problem(404, "not_found");
        otto.post(&format!("/api/v1/artifacts/{id}/link"), json!({})).await.problem(404, "not_found");
    }
    assert_eq!(otto.get(&link(&ines, &shared).await).await.body, "x");
}

async fn what_a_run_made_opens_for_those_who_may_read_the_run(kind: Kind) {
    let server = making(kind).await;
    let _working = server.work();
    let (ines, otto) = (server.owner.person("ines", "member").await, server.owner.person("otto", "member").await);
    let whoami = ines.get("/api/v1/whoami").await.ok();
    let user = whoami["principal"].as_str().unwrap().trim_start_matches("user:");
    let space = server.owner.post("/api/v1/spaces", json!({ "name": "payroll" })).await.ok()["id"].as_str().unwrap().to_owned();
    server.owner.post(&format!("/api/v1/spaces/{space}/members"), json!({ "user_id": user })).await.ok();
    let definition = json!({ "schema_version": "1.0", "name": "Make", "plan": [{ "step_id": "make", "action": "fake.make" }] });
    let automation = id_of(&ines.post("/api/v1/automations", json!({ "space": "payroll", "definition": definition })).await.ok());
    server.source.will_answer(json!({ "artifacts": [report()] }));
    let run = run(&ines, &automation, json!({})).await;
    let shown = ended(&ines, &run).await;
    let id = shown["output"]["artifacts"][0]["id"].as_str().unwrap_or_else(|| panic!("it made nothing: {shown:#}"));
    let listed = ines.get(&format!("/api/v1/artifacts?run={run}")).await.ok();
    assert_eq!(listed["items"][0]["id"], json!(id), "{listed:#}");
    let path = link(&ines, id).await;
    for reader in [&ines, &server.owner] {
        assert_eq!(reader.get(&path).await.body, "%PDF");
    }
    for hidden in [path, format!("/api/v1/artifacts/{id}"), format!("/api/v1/runs/{run}")] {
        otto.get(&hidden).await.problem(404, "not_found");
    }
}

async fn a_quarantine_ends_every_link_and_keeps_the_digest(kind: Kind) {
    let server = making(kind).await;
    let agent = server.agent().await;
    let id = one(&server, &agent, report()).await;
    let (path, before) = (link(&server.owner, &id).await, server.owner.get(&format!("/api/v1/artifacts/{id}")).await.ok());
    let quarantine = format!("/api/v1/artifacts/{id}/quarantine");
    server.owner.person("mia", "member").await.post(&quarantine, json!({})).await.problem(403, "forbidden");
    agent.client.post(&quarantine, json!({})).await.problem(403, "forbidden");
    let quarantined = server.owner.post(&quarantine, json!({})).await.ok();
    assert_eq!(quarantined["sha256"], before["sha256"]);
    assert!(quarantined["quarantined_at"].is_string() && quarantined["quarantined_by"].is_string(), "{quarantined:#}");
    server.owner.get(&path).await.problem(409, "artifact_quarantined");
    server.owner.post(&format!("/api/v1/artifacts/{id}/link"), json!({})).await.problem(409, "artifact_quarantined");
    server.clock.advance_seconds(ARTIFACT_DEFAULT_SECONDS);
    assert_eq!(server.pipeline.sweep_artifacts(&server.org).await.unwrap(), 1);
    assert_eq!(server.home.blobs.keys(), Vec::<String>::new());
    let shown = server.owner.get(&format!("/api/v1/artifacts/{id}")).await.ok();
    assert_eq!(shown["sha256"], before["sha256"], "the digest stays when the bytes are gone");
}

async fn a_person_saves_the_file_in_a_browser_after_a_login(kind: Kind) {
    let server = making(kind).await;
    let agent = server.agent().await;
    let id = one(&server, &agent, report()).await;
    let (path, browser) = (link(&server.owner, &id).await, Browser::of(&server));
    let asked = browser.get(&path).await;
    assert_eq!(asked.status, 401);
    assert!(asked.text.contains("Access token") && !asked.text.contains("report.pdf"), "{}", asked.text);
    // The login goes on to the file.
    let saved = browser.send("/login", &format!("token={}", server.owner.token)).await;
    assert_eq!(saved.status, 200, "{}", saved.text);
    let saved = browser.get(&path).await;
    assert_eq!((saved.status, saved.text.as_str()), (200, "%PDF"));
    assert!(saved.headers["content-disposition"].to_str().unwrap().starts_with("attachment; filename=\"report.pdf\""));
    let forged = browser.get(&path.replace("signature=", "signature=0")).await;
    assert_eq!((forged.status, forged.headers["content-type"].to_str().unwrap().starts_with("text/html")), (404, true));
}

async fn bytes_that_cannot_be_kept_or_were_changed_are_told(kind: Kind) {
    use countersign_core::ports::Blobs as _;
    let server = making(kind).await;
    let agent = server.agent().await;
    server.home.blobs.set_away(true);
    let result = made(&server, &agent, json!([report()])).await;
    assert_eq!(result["artifacts"][0], json!({ "name": "report.pdf", "problem": "it could not be kept" }));
    server.home.blobs.set_away(false);
    let id = one(&server, &agent, report()).await;
    let path = link(&server.owner, &id).await;
    server.home.blobs.set_away(true);
    server.owner.get(&path).await.problem(503, "store_unavailable");
    server.home.blobs.set_away(false);
    server.home.blobs.put(&format!("{}/{id}", server.org), b"changed".to_vec()).await.unwrap();
    server.owner.get(&path).await.problem(404, "not_found");
}
