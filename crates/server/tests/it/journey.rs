//! The path of one call, from the HTTP API to the receipt.

use crate::harness::{Kind, TestServer, on_both_engines};
use serde_json::json;

on_both_engines!(
    a_read_is_allowed_executed_and_receipted,
    a_write_waits_for_a_person_and_then_happens_once,
    a_denied_call_reaches_no_source_and_has_a_receipt,
    the_reason_of_a_denial_reaches_the_agent,
    a_mode_set_by_an_admin_decides_and_is_in_the_log,
    a_waiting_reader_is_woken_by_the_answer,
    a_caller_may_hold_the_line_until_the_answer,
    a_dry_run_says_what_would_change_and_changes_nothing,
    secrets_are_in_no_answer_and_no_row,
    the_log_verifies_and_every_receipt_can_be_proved,
    receipts_are_found_by_their_action_their_session_and_their_person,
    pages_follow_each_other_without_gap_or_repeat,
);

async fn a_read_is_allowed_executed_and_receipted(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.source.will_answer(json!({ "answer": 42 }));
    let answer = agent.invoke("fake.read", json!({})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.body["result"], json!({ "answer": 42 }));
    let invocation = &answer.body["invocation"];
    assert_eq!(
        (&invocation["status"], &invocation["mode"], &invocation["mode_source"]),
        (&json!("succeeded"), &json!("allow"), &json!("inferred_default"))
    );
    let receipt = server.receipt_of(&answer.id()).await;
    assert_eq!((&receipt["status"], &receipt["tier"]), (&json!("succeeded"), &json!("R0")));
    assert_eq!(receipt["policy"]["rbac"]["verdict"], "ok");
    assert_eq!(server.verify().await.receipts, 1);
}

async fn a_write_waits_for_a_person_and_then_happens_once(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let answer = agent.invoke("fake.write", json!({ "text": "hello" })).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.body["invocation"]["mode"], "require_approval");
    assert_eq!(server.source.effects(), 0, "nothing happens before the answer");
    let inbox = server.owner.get("/api/v1/invocations?status=pending").await.ok();
    assert_eq!(inbox["items"][0]["id"], answer.id());

    let approved = server.owner.approve(&answer.id()).await;
    assert_eq!((approved.status, &approved.body["invocation"]["status"]), (200, &json!("succeeded")), "{approved:?}");
    assert_eq!(server.source.effects(), 1);
    assert_eq!(server.source.calls()[0].params, json!({ "text": "hello" }));
    let receipt = server.receipt_of(&answer.id()).await;
    assert_eq!(receipt["approval"]["approvers"].as_array().unwrap().len(), 1);
    let report = server.verify().await;
    assert_eq!((report.receipts, report.intents), (1, 1));
}

async fn a_denied_call_reaches_no_source_and_has_a_receipt(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let answer = agent.invoke("fake.destroy", json!({})).await;
    answer.problem(403, "denied_by_policy");
    assert_eq!((&answer.body["invocation"]["status"], &answer.body["error"]), (&json!("denied"), &json!("denied_by_mode")));
    assert!(answer.body["detail"].as_str().unwrap().contains("inferred from the tier"), "the denial names what decided: {answer:?}");
    assert_eq!(server.source.calls().len(), 0);
    assert_eq!(server.receipt_of(&answer.id()).await["denied_by"], "policy");

    let crossed = agent.invoke("fake.write", json!({ "space_id": "spc_elsewhere" })).await;
    crossed.problem(403, "denied_by_policy");
    assert_eq!(crossed.body["error"], "denied_by_gate");
    assert_eq!(server.receipt_of(&crossed.id()).await["policy"]["space"]["verdict"], "deny");
    server.verify().await;
}

async fn the_reason_of_a_denial_reaches_the_agent(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    server.owner.deny(&id, "not on a friday").await.ok();
    let seen = agent.client.get(&format!("/api/v1/sessions/{}/actions/invocations/{id}", agent.session)).await.ok();
    assert_eq!(seen["invocation"]["status"], "denied");
    assert!(seen["invocation"]["error"]["message"].as_str().unwrap().contains("not on a friday"));
    assert_eq!(server.receipt_of(&id).await["denied_by"], "person");
    assert_eq!(server.source.effects(), 0);
    server.verify().await;
}

async fn a_mode_set_by_an_admin_decides_and_is_in_the_log(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.owner.set_mode("fake.write", "allow").await;
    let answer = agent.invoke("fake.write", json!({})).await;
    assert_eq!((answer.status, &answer.body["invocation"]["mode_source"]), (200, &json!("org_default")), "{answer:?}");
    server.owner.set_mode("fake.read", "deny").await;
    agent.invoke("fake.read", json!({})).await.problem(403, "denied_by_policy");
    server.owner.set_mode("fake.destroy", "allow").await;
    let danger = agent.invoke("fake.destroy", json!({})).await;
    assert_eq!((danger.status, &danger.body["invocation"]["mode"]), (202, &json!("require_approval")), "R4 is never allowed: {danger:?}");
    let removed = server.owner.send(reqwest::Method::DELETE, "/api/v1/modes/fake.read", None).await;
    assert_eq!(removed.status, 200);
    assert_eq!(agent.invoke("fake.read", json!({})).await.status, 200);
    server.verify().await;
}

async fn a_waiting_reader_is_woken_by_the_answer(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let waiting = {
        let (client, path) = (agent.client.clone(), format!("/api/v1/sessions/{}/actions/invocations/{id}?wait=30s", agent.session));
        tokio::spawn(async move { client.get(&path).await })
    };
    // The approval or the wait may come first. Either way the wait must see the end of the call and not its own timeout.
    server.owner.approve(&id).await.ok();
    let seen = tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.expect("woken, not timed out").unwrap();
    assert_eq!(seen.ok()["invocation"]["status"], "succeeded");
}

async fn a_caller_may_hold_the_line_until_the_answer(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let held = {
        let agent = agent.clone();
        let path = format!("/api/v1/sessions/{}/actions/invoke?wait=30s", agent.session);
        tokio::spawn(async move { agent.client.post(&path, json!({ "action": "fake.write" })).await })
    };
    let id = loop {
        let inbox = server.owner.get("/api/v1/invocations?status=pending").await.ok();
        if let Some(id) = inbox["items"][0]["id"].as_str() {
            break id.to_owned();
        }
        tokio::task::yield_now().await;
    };
    server.owner.approve(&id).await.ok();
    let answer = held.await.unwrap();
    assert_eq!((answer.status, &answer.body["invocation"]["status"]), (200, &json!("succeeded")), "{answer:?}");
}

async fn a_dry_run_says_what_would_change_and_changes_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let answer = agent.invoke_with(json!({ "action": "fake.write", "params": { "text": "x" }, "dry_run": true })).await;
    assert_eq!((answer.status, &answer.body["invocation"]["dry_run"]), (200, &json!(true)), "{answer:?}");
    assert_eq!((server.source.previews().len(), server.source.calls().len()), (1, 0));
    assert_eq!(server.receipt_of(&answer.id()).await["dry_run"], true);
    agent.invoke_with(json!({ "action": "fake.send", "dry_run": true })).await.problem(422, "dry_run_unsupported");
    // A read changes nothing: that is known without making it or asking anybody.
    for mode in ["allow", "require_approval"] {
        server.owner.set_mode("fake.read", mode).await;
        let read = agent.invoke_with(json!({ "action": "fake.read", "dry_run": true })).await.ok();
        assert_eq!((&read["invocation"]["status"], &read["result"]["changes"]), (&json!("succeeded"), &json!([])), "{mode}");
        // Nothing was read, so the answer does not promise that the read would succeed.
        assert!(read["result"]["untried"].is_string(), "{read}");
    }
    server.owner.set_mode("fake.read", "deny").await;
    agent.invoke_with(json!({ "action": "fake.read", "dry_run": true })).await.problem(403, "denied_by_policy");
    server.owner.set_mode("fake.read", "allow").await;
    assert_eq!((server.source.previews().len(), server.source.calls().len()), (1, 0));
    agent.invoke_with(json!({ "action": "fake.destroy", "dry_run": true })).await.problem(403, "denied_by_policy");
    // A preview that amounts to a read needs the mode of that read.
    server.source.redefine("write", |action| action.preview_reads = Some(countersign_core::ActionId::parse("fake.read").unwrap()));
    agent.invoke_with(json!({ "action": "fake.write", "dry_run": true })).await.ok();
    server.owner.set_mode("fake.read", "require_approval").await;
    let refused = agent.invoke_with(json!({ "action": "fake.write", "dry_run": true })).await;
    refused.problem(403, "denied_by_policy");
    assert!(refused.body["detail"].as_str().unwrap().contains("fake.read"), "{refused:?}");
    assert_eq!(server.source.previews().len(), 2);
    server.verify().await;
}

async fn secrets_are_in_no_answer_and_no_row(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let planted = "correct-horse-battery-staple";
    server.source.will_answer(json!({ "session_token": planted, "note": "fine" }));
    let id = agent.pending("fake.write", json!({ "password": planted, "text": "fine" })).await;
    let approved = server.owner.approve(&id).await;
    assert_eq!(server.source.calls()[0].params["password"], planted, "the source gets the real value");
    let shown = [
        approved.ok().to_string(),
        server.owner.get(&format!("/api/v1/invocations/{id}")).await.ok().to_string(),
        server.owner.get("/api/v1/receipts").await.ok().to_string(),
    ];
    for text in shown {
        assert!(!text.contains(planted), "{text}");
        assert!(text.contains("fine") || text.contains("rcp_"));
    }
    let mut backup = Vec::new();
    server.store.backup(&mut backup).await.unwrap();
    assert!(!String::from_utf8_lossy(&backup).contains(planted), "the database holds no secret in clear");
}

async fn receipts_are_found_by_their_action_their_session_and_their_person(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (one, other) = (server.agent().await, server.agent().await);
    for agent in [&one, &other] {
        agent.invoke("fake.read", json!({})).await.ok();
    }
    one.invoke("fake.destroy", json!({})).await.problem(403, "denied_by_policy");
    let found = async |query: &str| {
        let page = server.owner.get(&format!("/api/v1/receipts?{query}")).await.ok();
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["payload"]["body"]["action"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(found("").await.len(), 3);
    assert_eq!(found("action=fake.read").await, ["fake.read"; 2]);
    assert_eq!(found(&format!("session={}", one.session)).await, ["fake.destroy", "fake.read"]);
    assert_eq!(found(&format!("session={}&action=fake.read&limit=1", other.session)).await, ["fake.read"]);
    let owner = server.owner.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    assert_eq!(found(&format!("user={owner}")).await.len(), 3);
    assert_eq!(found("action=fake.write").await.len(), 0);
    for bad in ["action=", "session=me", "user=ada", "status=lost"] {
        server.owner.get(&format!("/api/v1/receipts?{bad}")).await.problem(400, "invalid_query");
    }
}

async fn the_log_verifies_and_every_receipt_can_be_proved(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for _ in 0..5 {
        agent.invoke("fake.read", json!({})).await.ok();
    }
    server.owner.post("/api/v1/keys/rotate", json!({})).await.ok();
    agent.invoke("fake.read", json!({})).await.ok();
    let receipts = server.owner.get("/api/v1/receipts").await.ok();
    let keys = server.owner.get("/api/v1/keys").await.ok();
    let checkpoint_keys: Vec<_> = keys["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|key| key["purpose"] == "checkpoint")
        .map(|key| receipt::key::PublicKey::from_base64(key["public"].as_str().unwrap()).unwrap())
        .collect();
    assert_eq!(checkpoint_keys.len(), 2);
    for item in receipts["items"].as_array().unwrap() {
        let proof = server.owner.get(&format!("/api/v1/receipts/{}/proof", item["id"].as_str().unwrap())).await.ok();
        let signed = receipt::checkpoint::Checkpoint::parse(proof["checkpoint"].as_str().unwrap()).unwrap();
        assert!(checkpoint_keys.iter().any(|key| signed.verify(key).is_ok()), "the checkpoint is signed by one of the log's keys");
        let digest = |value: &serde_json::Value| countersign_core::Digest::parse(value.as_str().unwrap()).unwrap();
        let hashes: Vec<_> = proof["hashes"].as_array().unwrap().iter().map(digest).collect();
        let checkpoint = &signed.checkpoint;
        receipt::tree::verify_inclusion(
            &digest(&proof["leaf"]),
            proof["index"].as_u64().unwrap(),
            checkpoint.size,
            &hashes,
            &checkpoint.root,
        )
        .unwrap();
    }
    let report = server.verify().await;
    assert_eq!(report.receipts, 6);
}

async fn pages_follow_each_other_without_gap_or_repeat(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let mut made = Vec::new();
    for _ in 0..7 {
        made.push(agent.invoke("fake.read", json!({})).await.id());
        server.clock.advance_ms(1);
    }
    made.reverse();
    for path in ["/api/v1/invocations".to_owned(), format!("/api/v1/sessions/{}/actions/invocations", agent.session)] {
        let mut seen = Vec::new();
        let mut after = String::new();
        loop {
            let page = server.owner.get(&format!("{path}?limit=3{after}")).await.ok();
            seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        assert_eq!(seen, made, "{path}");
        // An agent sees its own pending calls, as an admin does.
        let waits = agent.pending("fake.write", json!({ "text": "x" })).await;
        let reader = if path.contains("sessions") { &agent.client } else { &server.owner };
        let page = reader.get(&format!("{path}?status=pending&action=fake.write")).await.ok();
        assert_eq!((page["items"].as_array().unwrap().len(), &page["items"][0]["id"]), (1, &json!(waits)), "{page}");
        for wrong in ["status=nonsense", "action=%20", "colour=red"] {
            reader.get(&format!("{path}?{wrong}")).await.problem(400, "invalid_query");
        }
        server.owner.deny(&waits, "no").await.ok();
        made.insert(0, waits);
    }
    let receipts = server.owner.get("/api/v1/receipts?limit=100").await.ok();
    assert_eq!(receipts["items"].as_array().unwrap().len(), 9);
}
