//! Links that answer one invocation as one person, once, until they expire.

use crate::browser::Browser;
use crate::harness::{Answer, Client, Kind, TestServer, on_sqlite};
use countersign_core::limits;
use countersign_core::source::{Error, Output};
use serde_json::json;

on_sqlite!(
    a_link_approves_its_one_invocation_once,
    a_link_may_say_no_with_a_reason,
    a_link_is_for_one_invocation_one_person_and_one_time,
    an_edited_call_takes_its_links_with_it,
    a_link_of_somebody_who_may_no_longer_approve_is_worth_nothing,
    a_link_made_with_a_token_since_revoked_or_expired_answers_nothing,
    a_form_that_says_two_things_is_refused,
    looking_at_a_link_decides_nothing,
    a_link_shows_whole_what_was_too_large_to_keep,
    a_link_shows_what_a_text_hides,
    a_link_shows_what_would_change_and_how_many_must_approve,
    a_link_shows_what_changed_since_the_review,
    a_link_is_made_by_who_may_approve,
);

async fn link_to(client: &Client, id: &str) -> String {
    let made = client.post(&format!("/api/v1/invocations/{id}/link"), json!({})).await.ok();
    made["path"].as_str().unwrap().to_owned()
}

/// Opens a link in a browser of its own and presses a button there.
pub(crate) async fn press(server: &TestServer, link: &str, form: &str) -> (u16, String) {
    Browser::of(server).press(link, form).await
}

async fn a_link_approves_its_one_invocation_once(kind: Kind) {
    let server = TestServer::start(kind).await;
    let browser = Browser::of(&server);
    let agent = server.agent().await;
    let (id, other) = (agent.pending("fake.write", json!({ "text": "<b>hi</b>" })).await, agent.pending("fake.write", json!({})).await);
    let link = link_to(&server.owner, &id).await;
    let (status, page) = browser.look(&link).await;
    assert_eq!(status, 200);
    assert!(page.contains("fake.write") && page.contains("&lt;b&gt;hi") && !page.contains("<b>hi"), "{page}");
    assert!(page.contains("<dt>Requested by<dd>") && page.contains("<dt>Approval covers<dd>this one call"), "{page}");
    let (status, page) = browser.press(&link, "answer=approve&reason=from+the+train").await;
    assert_eq!((status, server.source.effects()), (200, 1), "{page}");
    let shown = server.shown(&id).await;
    assert_eq!((&shown["status"], &shown["answer"]["reason"]), (&json!("succeeded"), &json!("from the train")));
    let me = server.owner.get("/api/v1/whoami").await.ok()["principal"].clone();
    assert_eq!((&shown["answer"]["by"], &shown["answer"]["mode"]), (&me, &json!("once")), "as the person whose link it is");
    for form in ["answer=approve", "answer=deny"] {
        assert_eq!(browser.press(&link, form).await.0, 409);
    }
    assert_eq!((server.source.effects(), server.shown(&other).await["status"].clone()), (1, json!("pending")));
    assert!(browser.look(&link).await.1.contains("succeeded"));
    // Pressed many times at once, it counts as one answer.
    let link = link_to(&server.owner, &other).await;
    let pressed = futures_util::future::join_all((0..8).map(|_| browser.press(&link, "answer=approve"))).await;
    assert_eq!((pressed.iter().filter(|(status, _)| *status == 200).count(), server.source.effects()), (1, 2));
    server.verify().await;
}

async fn a_link_may_say_no_with_a_reason(kind: Kind) {
    let server = TestServer::start(kind).await;
    let browser = Browser::of(&server);
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let link = link_to(&server.owner, &id).await;
    assert_eq!(browser.press(&link, "answer=maybe").await.0, 400);
    assert_eq!(browser.press(&link, "").await.0, 400);
    assert_eq!(server.shown(&id).await["status"], "pending");
    assert_eq!(browser.press(&link, "answer=deny&reason=not+today").await.0, 200);
    assert!(server.shown(&id).await["error"]["message"].as_str().unwrap().contains("not today"));
    assert_eq!(server.source.effects(), 0);
    server.verify().await;
}

async fn a_link_is_for_one_invocation_one_person_and_one_time(kind: Kind) {
    let server = TestServer::start(kind).await;
    let browser = Browser::of(&server);
    let agent = server.owner.new_session(json!({ "unattended": true })).await;
    let (id, other) = (agent.pending("fake.write", json!({})).await, agent.pending("fake.write", json!({})).await);
    let ada = server.owner.person("ada", "admin").await;
    let (mine, hers, elsewhere) = (link_to(&server.owner, &id).await, link_to(&ada, &id).await, link_to(&server.owner, &other).await);
    let parts = |link: &str| link.trim_start_matches("/answer/").split('.').map(str::to_owned).collect::<Vec<_>>();
    let (mine, hers, elsewhere) = (parts(&mine), parts(&hers), parts(&elsewhere));
    // Each part is replaced by one from another valid link, or damaged.
    let mut forged = Vec::new();
    for (at, stranger) in [(1, &elsewhere), (2, &hers), (4, &hers), (4, &elsewhere)] {
        let mut link = mine.clone();
        link[at].clone_from(&stranger[at]);
        forged.push(link.join("."));
    }
    let mut later = mine.clone();
    later[3] = (later[3].parse::<i64>().unwrap() + 1).to_string();
    forged.push(later.join("."));
    forged.extend([mine[..4].join("."), format!("{}.x", mine.join(".")), "x".to_owned(), mine.join(".").to_uppercase()]);
    let mut told = std::collections::HashSet::new();
    for link in &forged {
        let path = format!("/answer/{link}");
        let (status, page) = browser.press(&path, "answer=approve").await;
        assert_eq!((status, browser.look(&path).await.0), (404, 404), "{link}");
        told.insert(page);
    }
    assert_eq!((told.len(), server.source.effects()), (1, 0), "all of them sound the same: {told:?}");
    // By the clock of the database, and for a day at most.
    let link = link_to(&server.owner, &id).await;
    server.clock.advance_seconds(15 * 60 - 1);
    assert_eq!(browser.look(&link).await.0, 200);
    server.clock.advance_seconds(1);
    assert_eq!((browser.look(&link).await.0, browser.press(&link, "answer=approve").await.0), (410, 410));
    let path = format!("/api/v1/invocations/{id}/link");
    server.owner.post(&path, json!({ "expires_in": "25h" })).await.problem(400, "invalid_request");
    assert_eq!(server.source.effects(), 0);
    // A link that lives longer than the call does not extend the call's expiry.
    let made = server.owner.post(&path, json!({ "expires_in": "24h" })).await.ok();
    assert_eq!(browser.look(made["path"].as_str().unwrap()).await.0, 200);
    server.clock.advance_seconds(limits::APPROVAL_UNATTENDED_SECONDS - 15 * 60);
    assert_eq!(browser.press(made["path"].as_str().unwrap(), "answer=approve").await.0, 410);
    assert_eq!(server.source.effects(), 0);
    server.verify().await;
}

async fn an_edited_call_takes_its_links_with_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let browser = Browser::of(&server);
    let agent = server.agent().await;
    server.change_space(json!({ "quorum": { "R2": 2 } })).await;
    let ada = server.owner.person("ada", "admin").await;
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    let link = link_to(&server.owner, &id).await;
    assert_eq!(ada.approve_with(&id, json!({ "params": { "text": "b" } })).await.status, 202);
    assert_eq!(browser.press(&link, "answer=approve").await.0, 404, "it was for another question");
    assert_eq!(server.source.effects(), 0);
    let link = link_to(&server.owner, &id).await;
    assert_eq!(browser.press(&link, "answer=approve").await.0, 200);
    assert_eq!(server.source.calls()[0].params, json!({ "text": "b" }));
    server.verify().await;
}

async fn a_link_of_somebody_who_may_no_longer_approve_is_worth_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let browser = Browser::of(&server);
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let user = |answer: &Answer| answer.body["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    let bob = server.owner.person("bob", "admin").await;
    let his = link_to(&bob, &id).await;
    let path = format!("/api/v1/users/{}/disable", user(&bob.get("/api/v1/whoami").await));
    server.owner.post(&path, json!({})).await.ok();
    for form in ["answer=approve", "answer=deny"] {
        let (status, page) = browser.press(&his, form).await;
        assert!([403, 404].contains(&status), "{status}: {page}");
    }
    // Nor does it work if the requester may not approve their own call.
    let mine = link_to(&server.owner, &id).await;
    server.change_space(json!({ "self_approval": "refused" })).await;
    assert_eq!(browser.press(&mine, "answer=approve").await.0, 403);
    assert_eq!((server.source.effects(), server.shown(&id).await["status"].clone()), (0, json!("pending")));
    server.verify().await;
}

async fn a_link_made_with_a_token_since_revoked_or_expired_answers_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let browser = Browser::of(&server);
    let agent = server.owner.new_session(json!({ "unattended": true })).await;
    let id = agent.pending("fake.write", json!({})).await;
    let me = server.owner.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    let new_token = async |days: Option<u64>| {
        server.owner.post("/api/v1/tokens", json!({ "name": "phone", "user_id": me, "expires_in_days": days })).await.ok()
    };
    let (lost, short) = (new_token(None).await, new_token(Some(1)).await);
    let link_by = async |token: &serde_json::Value| {
        let client = server.owner.with_token(token["token"].as_str().unwrap());
        let made = client.post(&format!("/api/v1/invocations/{id}/link"), json!({ "expires_in": "24h" })).await.ok();
        made["path"].as_str().unwrap().to_owned()
    };
    let of_lost = link_by(&lost).await;
    assert_eq!(browser.look(&of_lost).await.0, 200);
    server.owner.post(&format!("/api/v1/tokens/{}/revoke", lost["id"].as_str().unwrap()), json!({})).await.ok();
    assert_eq!(browser.look(&of_lost).await.0, 404);
    assert_eq!(browser.press(&of_lost, "answer=approve").await.0, 404);
    server.clock.advance_seconds(60 * 60);
    let of_short = link_by(&short).await;
    server.clock.advance_seconds(23 * 60 * 60 - 1);
    assert_eq!(browser.look(&of_short).await.0, 200);
    server.clock.advance_seconds(1);
    assert_eq!(browser.look(&of_short).await.0, 404);
    // The same person may still make links with a token that works.
    let second = agent.pending("fake.write", json!({})).await;
    let link = link_to(&server.owner, &second).await;
    for (link, status) in [(&of_short, 404), (&link, 200)] {
        assert_eq!(browser.press(link, "answer=deny").await.0, status);
    }
    assert_eq!(server.source.effects(), 0);
}

async fn a_form_that_says_two_things_is_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    let browser = Browser::of(&server);
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let link = link_to(&server.owner, &id).await;
    for (form, named) in [
        ("answer=approve&answer=deny", "answer"),
        ("answer=deny&answer=deny", "answer"),
        ("answer=approve&reason=a&reason=b", "reason"),
        ("answer=approve&reazon=a", "reazon"),
    ] {
        let (status, page) = browser.press(&link, form).await;
        assert!(status == 400 && page.contains(&format!("`{named}`")), "{form}: {status} {page}");
    }
    assert_eq!((server.source.effects(), server.shown(&id).await["status"].clone()), (0, json!("pending")));
}

async fn looking_at_a_link_decides_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let browser = Browser::of(&server);
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let link = link_to(&server.owner, &id).await;
    let before = (server.shown(&id).await, server.counts().await);
    // A mail scanner that follows links opens nothing and answers nothing, and is told nothing of the call.
    for _ in 0..2 {
        let scanned = Browser::of(&server).get(&format!("{link}?answer=approve")).await;
        assert!(scanned.status == 200 && !scanned.text.contains("fake.write"), "{}", scanned.text);
    }
    assert_eq!(server.source.previews().len(), 0);
    let (status, page) = browser.look(&link).await;
    assert!(status == 200 && page.contains("fake.write") && page.contains("value=\"approve\""), "{page}");
    let previews = server.source.previews().len();
    let cookie = format!("countersign_browser={}", browser.cookie("countersign_browser").unwrap());
    server.owner.http.head(format!("{}{link}", server.url)).header("cookie", cookie).send().await.unwrap();
    assert_eq!(server.source.previews().len(), previews, "and a `HEAD` runs nothing");
    assert_eq!((server.shown(&id).await, server.counts().await), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preview_that_failed_is_not_shown_as_none() {
    let server = TestServer::start(Kind::Sqlite).await;
    let browser = Browser::of(&server);
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({ "text": "x" })).await;
    let link = link_to(&server.owner, &id).await;
    assert!(!browser.look(&link).await.1.contains("could not be found out"));
    server.home.tamper("UPDATE invocations SET sealed_params = NULL");
    let (status, page) = browser.look(&link).await;
    let told = "<h2>Would change</h2><p>What it would change could not be found out: something is wrong on our side";
    assert!(status == 200 && page.contains(told) && page.contains("value=\"deny\""), "{page}");
}

async fn a_link_is_made_by_who_may_approve(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let path = format!("/api/v1/invocations/{id}/link");
    let member = server.owner.person("mia", "member").await;
    for client in [&member, &agent.client] {
        client.post(&path, json!({})).await.problem(403, "may_not_approve");
    }
    server.owner.deny(&id, "no").await.ok();
    server.owner.post(&path, json!({})).await.problem(409, "already_ended");
}

async fn a_link_shows_whole_what_was_too_large_to_keep(kind: Kind) {
    let server = TestServer::start(kind).await;
    let browser = Browser::of(&server);
    server.source.redefine("write", |action| action.params_schema = json!({ "type": "object" }));
    server.owner.review("fake.write").await;
    let agent = server.agent().await;
    let long = format!("{}the end", "x".repeat(limits::PARAMS_STORED_BYTES_MAX));
    let id = agent.pending("fake.write", json!({ "text": long, "password": "hunter2-of-ours" })).await;
    let link = link_to(&server.owner, &id).await;
    let (status, page) = browser.look(&link).await;
    assert_eq!(status, 200);
    assert!(page.contains("the end") && !page.contains("_truncated") && !page.contains("hunter2"));
    // A call that can no longer run cannot be shown completely: the page says so, and still takes a denial.
    server.source.redefine("write", |action| action.params_schema = json!({ "type": "object", "required": ["other"] }));
    server.owner.review("fake.write").await;
    let (status, page) = browser.look(&link).await;
    assert!(status == 200 && page.contains("this is not all that would be sent") && !page.contains("the end"), "{page}");
    assert_eq!((browser.press(&link, "answer=deny").await.0, server.source.effects()), (200, 0));
}

async fn a_link_shows_what_a_text_hides(kind: Kind) {
    let server = TestServer::start(kind).await;
    let browser = Browser::of(&server);
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({ "text": "photo\u{202e}gpj.exe a\u{2024}txt" })).await;
    let (status, page) = browser.look(&link_to(&server.owner, &id).await).await;
    assert_eq!(status, 200);
    assert!(page.contains("photo\\u{202e}gpj.exe a\\u{2024}txt") && !page.contains(['\u{202e}', '\u{2024}']), "{page}");
}

async fn a_link_shows_what_would_change_and_how_many_must_approve(kind: Kind) {
    let server = TestServer::start(kind).await;
    let browser = Browser::of(&server);
    let agent = server.agent().await;
    server.change_space(json!({ "quorum": { "R2": 2 } })).await;
    let ada = server.owner.person("ada", "admin").await;
    let id = agent.pending("fake.write", json!({ "text": "x" })).await;
    let link = link_to(&server.owner, &id).await;
    assert!(browser.look(&link).await.1.contains("<dt>Approvals<dd>0 of 2"));
    assert_eq!(ada.approve(&id).await.status, 202);
    let hook = json!({ "path": ".git/hooks/<i>", "change": "would_create", "added_lines": 1, "diff": "@@ -0,0 +1 @@\n+<script>\n",
        "warnings": ["it is an executable file", "git may run it & more"] });
    server.source.will_preview(Ok(Output::new(json!({ "changes": [hook] }))));
    let (status, page) = browser.look(&link).await;
    assert_eq!(status, 200);
    for told in [
        "<h2>Would change</h2><pre>+ would create  .git/hooks/&lt;i&gt;  +1\n  ! it is an executable file\n  ! git may run it &amp; more\n",
        "\n  +&lt;script&gt;</pre>",
        "<dt>Approvals<dd>1 of 2",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
    assert!(!page.contains("<script") && !page.contains("<i>"), "{page}");
    server.source.will_preview(Err(Error::Refused { code: "path_outside", message: "it leads <out>".into() }));
    let (_, page) = browser.look(&link).await;
    assert!(page.contains("<b>Cannot run now: it leads &lt;out&gt; (path_outside)</b>") && page.contains("value=\"deny\""), "{page}");
    assert_eq!(server.source.effects(), 0);
    // Where one person is enough, nothing is counted.
    server.change_space(json!({ "quorum": {} })).await;
    let other = agent.pending("fake.write", json!({ "text": "y" })).await;
    let page = browser.look(&link_to(&server.owner, &other).await).await.1;
    assert!(page.contains("Requested by") && !page.contains("Approvals"), "{page}");
}

async fn a_link_shows_what_changed_since_the_review(kind: Kind) {
    let server = TestServer::start(kind).await;
    let browser = Browser::of(&server);
    let agent = server.agent().await;
    server.owner.review("fake.write").await;
    let before = agent.pending("fake.write", json!({ "text": "before" })).await;
    assert!(!browser.look(&link_to(&server.owner, &before).await).await.1.contains("<h2>Definition</h2>"));
    server.source.redefine("write", |action| {
        action.params_schema["properties"]["bypass"] = json!({ "type": "boolean" });
        action.description = "Writes <i>all</i> of it.".into();
    });
    let id = agent.pending("fake.write", json!({ "text": "after" })).await;
    let link = link_to(&server.owner, &id).await;
    let (status, page) = browser.look(&link).await;
    assert_eq!(status, 200);
    let (above, _) = page.split_once("<h2>Params</h2>").unwrap();
    for told in [
        "<h2>Definition</h2><p><b>Its definition differs from what was reviewed.</b></p><pre>",
        "`write` now takes `bypass`, optional boolean\n  + {&quot;type&quot;:&quot;boolean&quot;}",
        "the description of `write` changed\n  - ",
        "\n  + Writes &lt;i&gt;all&lt;/i&gt; of it.",
    ] {
        assert!(above.contains(told), "{told}: {page}");
    }
    assert!(!page.contains("<i>"), "{page}");
    // Once somebody has read it, there is nothing to tell.
    server.owner.review("fake.write").await;
    let (status, page) = browser.look(&link).await;
    assert!(status == 200 && !page.contains("<h2>Definition</h2>"), "{page}");
}
