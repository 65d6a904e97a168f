//! The page of a call, for whoever logs in: read and answered in a browser, with the rules of the API.

use crate::browser::Browser;
use crate::harness::{Client, Kind, TestServer, on_both_engines};
use countersign_core::action::Effect;
use countersign_core::{Clock as _, limits};
use reqwest::Method;
use serde_json::{Value, json};

on_both_engines!(
    a_person_logs_in_and_approves_on_the_page_of_a_call,
    a_person_logs_in_and_denies_with_a_reason,
    the_page_of_a_call_that_has_ended_says_what_became_of_it,
    the_page_says_what_a_call_declares_that_nobody_can_foresee,
    whoever_has_no_call_is_led_to_the_inbox,
    a_link_that_was_passed_on_asks_for_a_login,
    a_form_that_another_page_made_is_refused,
    whoever_may_not_answer_is_told_so,
    the_page_waits_for_a_second_person,
    what_was_decided_elsewhere_or_expired_or_changed_is_said,
    a_login_ends_with_its_hour_its_token_and_its_button,
    a_login_is_known_to_every_server,
    only_a_person_logs_in_and_wrong_tokens_are_counted,
    an_r4_call_is_approved_by_its_name,
    a_page_shows_hostile_texts_as_text_and_is_shown_by_no_other_page,
);

async fn me(client: &Client) -> Value {
    client.get("/api/v1/whoami").await.ok()["principal"].clone()
}

async fn link_to(client: &Client, id: &str) -> String {
    client.post(&format!("/api/v1/invocations/{id}/link"), json!({})).await.ok()["path"].as_str().unwrap().to_owned()
}

fn place(id: &str) -> String {
    format!("/inbox/{id}")
}

async fn a_person_logs_in_and_approves_on_the_page_of_a_call(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.owner.new_session(json!({ "title": "night shift" })).await;
    let params = json!({ "text": "42 € back" });
    let id = agent.invoke_with(json!({ "action": "fake.write", "params": params, "reason": "the customer asked" })).await.id();
    let browser = Browser::of(&server);
    let asked = browser.get(&place(&id)).await;
    assert_eq!(asked.status, 401);
    assert!(asked.text.contains("type=\"password\"") && !asked.text.contains("fake.write"), "{}", asked.text);
    let wrong = browser.send("/login", "token=cs_user_wrong").await;
    assert!(wrong.status == 401 && wrong.text.contains("the token is not valid"), "{}", wrong.text);
    assert!(!wrong.text.contains("cs_user_wrong") && browser.cookie("countersign_login").is_none());
    let shown = browser.send("/login", &format!("token=+{}+", server.owner.token)).await;
    assert_eq!(shown.status, 200, "{}", shown.text);
    let now = server.clock.now();
    let expires = now.plus_seconds(limits::APPROVAL_INTERACTIVE_SECONDS).to_minute();
    for told in [
        "<h1>fake.write</h1>",
        &format!("pending · R2 write · expires {expires}, 5 minutes left"),
        &format!(" · {}<dt>", now.to_minute()),
        "42 € back",
        "<dt>Requested by<dd>night shift · ",
        "<dt>Reason given<dd>“the customer asked”",
        "<dt>Space<dd>main (",
        "<dt>Decision<dd>",
        "<dt>Reversible<dd>",
        "<dt>Earlier calls<dd>none of this action in this session",
        "<dt>Approval covers<dd>this one call",
        "Logged in as owner.",
    ] {
        assert!(shown.text.contains(told), "{told}: {}", shown.text);
    }
    assert_eq!(server.source.effects(), 0);
    let done = browser.send(&place(&id), "answer=approve&reason=from+the+page").await;
    assert!(done.status == 200 && done.text.contains("succeeded"), "{}", done.text);
    let answer = server.shown(&id).await["answer"].clone();
    assert_eq!((&answer["by"], &answer["reason"]), (&me(&server.owner).await, &json!("from the page")));
    assert_eq!(server.source.effects(), 1);
    let after = browser.get(&place(&id)).await;
    assert!(after.status == 200 && after.text.contains("succeeded") && !after.text.contains("value=\"approve\""), "{}", after.text);
    server.verify().await;
}

async fn a_person_logs_in_and_denies_with_a_reason(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let browser = Browser::of(&server);
    browser.log_in(&id, &server.owner.token).await;
    let done = browser.send(&place(&id), "answer=deny&reason=not+today").await;
    assert!(done.status == 200 && done.text.contains("denied"), "{}", done.text);
    assert!(server.shown(&id).await["error"]["message"].as_str().unwrap().contains("not today"));
    assert_eq!(server.source.effects(), 0);
    server.verify().await;
}

async fn the_page_of_a_call_that_has_ended_says_what_became_of_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.owner.new_session(json!({ "title": "night shift" })).await;
    let (done, denied) = (agent.pending("fake.write", json!({ "text": "42 € back" })).await, agent.pending("fake.write", json!({})).await);
    let link = link_to(&server.owner, &done).await;
    let (opened, unopened) = (Browser::of(&server), Browser::of(&server));
    opened.look(&link).await;
    server.owner.approve_with(&done, json!({ "reason": "he is <right>" })).await.ok();
    server.owner.deny(&denied, "not today").await.ok();
    let receipt = server.shown(&done).await["receipt"]["id"].as_str().unwrap().to_owned();
    let browser = Browser::of(&server);
    let shown = browser.log_in(&done, &server.owner.token).await;
    assert_eq!(shown.status, 200);
    let same = opened.look(&link).await.1;
    for page in [&shown.text, &same] {
        for told in [
            "<h1>fake.write</h1>",
            "succeeded · R2 write",
            "42 € back",
            "<dt>Requested by<dd>night shift · ",
            "<dt>Answered by<dd>owner, ",
            ": “he is &lt;right&gt;”",
            "<dt>Took<dd>",
            "<h2>Result</h2><pre>",
            receipt.as_str(),
        ] {
            assert!(page.contains(told), "{told}: {page}");
        }
        assert!(!page.contains("value=\"approve\"") && !page.contains("value=\"deny\""), "{page}");
    }
    let shown = browser.get(&place(&denied)).await.text;
    for told in ["denied · R2 write", "<dt>Error<dd>denied_by_person: ", "not today", "<dt>Receipt<dd>rcp_"] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    assert!(!shown.contains("<dt>Reversible<dd>") && !shown.contains("· expires "), "{shown}");
    // A link that nobody has opened here says only how it ended.
    let other = agent.pending("fake.write", json!({ "text": "43 € back" })).await;
    let link = link_to(&server.owner, &other).await;
    server.owner.deny(&other, "no").await.ok();
    let page = unopened.get(&link).await.text;
    assert!(page.contains("denied") && page.contains(&format!("href=\"/inbox/{other}\"")) && !page.contains("43 €"), "{page}");
}

async fn the_page_says_what_a_call_declares_that_nobody_can_foresee(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.source.redefine("send", |action| action.effects = vec![Effect::NetworkCall, Effect::DeviceNotification]);
    server.owner.review("fake.send").await;
    let id = server.agent().await.pending("fake.send", json!({ "text": "x" })).await;
    let declared = "; it declares that it uses the network and notifies people";
    let shown = Browser::of(&server).log_in(&id, &server.owner.token).await.text;
    assert!(shown.contains("<h2>Would change</h2><p>") && shown.contains(declared), "{shown}");
    // Whoever may not answer it is told what is declared, too.
    let member = server.owner.person("mia", "member").await;
    let shown = Browser::of(&server).log_in(&id, &member.token).await.text;
    assert!(shown.contains(&format!("<h2>Would change</h2><p>It is not known in advance{declared}.</p>")), "{shown}");
}

async fn whoever_has_no_call_is_led_to_the_inbox(kind: Kind) {
    let server = TestServer::start(kind).await;
    let browser = Browser::of(&server);
    let led = browser.fetch(Method::GET, "/inbox", &[]).await;
    assert_eq!((led.status().as_u16(), led.headers()["location"].to_str().unwrap()), (303, "/"));
    let nothing = browser.get("/answer/nothing").await;
    assert!(nothing.status == 404 && nothing.text.contains("<a href=\"/\">Your inbox</a>"), "{}", nothing.text);
}

async fn a_link_that_was_passed_on_asks_for_a_login(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let ada = server.owner.person("ada", "admin").await;
    let id = agent.pending("fake.write", json!({ "text": "x" })).await;
    let link = link_to(&server.owner, &id).await;
    let (hers, passed_on) = (Browser::of(&server), Browser::of(&server));
    assert!(hers.look(&link).await.1.contains("value=\"approve\""));
    let (status, page) = passed_on.look(&link).await;
    assert!(status == 401 && page.contains("opened in another browser") && !page.contains("fake.write"), "{page}");
    // Neither without a word of a page, nor with the word that the first browser was shown, nor by opening it again.
    for form in ["answer=approve".to_owned(), format!("{}answer=approve", hers.fields(&link)), "answer=open".to_owned()] {
        let refused = passed_on.send_bare(&link, &form).await;
        assert!([401, 403].contains(&refused.status), "{form}: {}", refused.text);
    }
    assert_eq!((server.source.effects(), server.shown(&id).await["status"].clone()), (0, json!("pending")));
    // Whoever logs in answers as themselves.
    let shown = passed_on.send("/login", &format!("token={}", ada.token)).await;
    assert!(shown.status == 200 && shown.text.contains("Logged in as ada."), "{}", shown.text);
    assert_eq!(passed_on.send(&place(&id), "answer=approve").await.status, 200);
    assert_eq!(server.shown(&id).await["answer"]["by"], me(&ada).await);
    assert_eq!(server.source.effects(), 1);
    // Of two browsers that open a link at the same time, one has it.
    let other = agent.pending("fake.write", json!({})).await;
    let link = link_to(&server.owner, &other).await;
    let browsers: Vec<_> = (0..6).map(|_| Browser::of(&server)).collect();
    let looked = futures_util::future::join_all(browsers.iter().map(|browser| browser.look(&link))).await;
    assert_eq!(looked.iter().filter(|(status, _)| *status == 200).count(), 1);
    server.verify().await;
}

async fn a_form_that_another_page_made_is_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let (id, other) = (agent.pending("fake.write", json!({})).await, agent.pending("fake.write", json!({})).await);
    let (browser, stranger) = (Browser::of(&server), Browser::of(&server));
    // A form that logs in needs the word of its page, too: nobody is logged in as somebody else without noticing.
    let login = format!("token={}", server.owner.token);
    browser.get(&place(&id)).await;
    stranger.get(&place(&id)).await;
    let forged = format!("{}{login}", stranger.fields("/login"));
    for (form, status) in [(login.clone(), 400), (format!("form=x&{login}"), 403), (forged, 403)] {
        assert_eq!(browser.send_bare("/login", &form).await.status, status, "{form}");
    }
    browser.log_in(&id, &server.owner.token).await;
    stranger.log_in(&id, &server.owner.token).await;
    browser.get(&place(&other)).await;
    let own = browser.fields(&place(&id));
    let binding = own.split('&').find(|field| field.starts_with("binding=")).unwrap().to_owned();
    for (form, status) in [
        (format!("{binding}&answer=approve"), 400),
        (format!("form=&{binding}&answer=approve"), 403),
        (format!("{}answer=approve", stranger.fields(&place(&id))), 403),
        (format!("{}answer=approve", browser.fields(&place(&other))), 403),
        (format!("{own}answer=approve&answer=deny"), 400),
        (format!("{own}answer=approve&mode=always"), 400),
    ] {
        assert_eq!(browser.send_bare(&place(&id), &form).await.status, status, "{form}");
    }
    // A page that was open before somebody else logged in answers in nobody's name.
    let ada = server.owner.person("ada", "admin").await;
    assert_eq!(browser.send("/login", &format!("token={}", ada.token)).await.status, 200);
    assert_eq!(browser.send_bare(&place(&id), &format!("{own}answer=approve")).await.status, 403);
    assert_eq!(browser.send_bare("/logout", "form=x").await.status, 403);
    // The cookies of a browser are no token of the API.
    let cookie = browser.cookie("countersign_login").unwrap();
    server.owner.with_token(&cookie).get("/api/v1/whoami").await.problem(401, "unauthenticated");
    assert_eq!((server.source.effects(), server.shown(&id).await["status"].clone()), (0, json!("pending")));
}

async fn whoever_may_not_answer_is_told_so(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let member = server.owner.person("mia", "member").await;
    let browser = Browser::of(&server);
    let shown = browser.log_in(&id, &member.token).await;
    assert!(shown.status == 200 && shown.text.contains("people with another role answer it"), "{}", shown.text);
    assert!(!shown.text.contains("value=\"approve\"") && !shown.text.contains("value=\"deny\""), "{}", shown.text);
    // Nor may whoever asked for the call, where a space says so.
    let owners = Browser::of(&server);
    owners.log_in(&id, &server.owner.token).await;
    server.change_space(json!({ "self_approval": "refused" })).await;
    owners.get(&place(&id)).await;
    for answer in ["answer=approve", "answer=deny"] {
        let refused = owners.send(&place(&id), answer).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
    }
    // Somebody of another org finds nothing.
    let org = server.owner.post("/api/v1/orgs", json!({ "name": "acme" })).await.ok();
    let invitation = json!({ "invitation": org["invitation"]["invitation"], "name": "laptop" });
    let token = server.owner.post("/api/v1/invitations/redeem", invitation).await;
    let stranger = Browser::of(&server);
    let shown = stranger.log_in(&id, token.body["token"].as_str().unwrap()).await;
    assert!(shown.status == 404 && !shown.text.contains("fake.write"), "{}", shown.text);
    assert_eq!(browser.get("/inbox/nothing").await.status, 404);
    assert_eq!((server.source.effects(), server.shown(&id).await["status"].clone()), (0, json!("pending")));
}

async fn the_page_waits_for_a_second_person(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let ada = server.owner.person("ada", "admin").await;
    server.change_space(json!({ "quorum": { "R2": 2 } })).await;
    let id = agent.pending("fake.write", json!({})).await;
    let (first, second) = (Browser::of(&server), Browser::of(&server));
    assert!(first.log_in(&id, &server.owner.token).await.text.contains("<dt>Approvals<dd>0 of 2"));
    let counted = first.send(&place(&id), "answer=approve").await;
    assert!(counted.status == 202 && counted.text.contains("Another person has to approve it too"), "{}", counted.text);
    assert_eq!(first.send(&place(&id), "answer=approve").await.status, 409);
    let shown = second.log_in(&id, &ada.token).await;
    assert!(shown.text.contains("<dt>Approvals<dd>1 of 2") && shown.text.contains("<dt>Approved by<dd>owner, "), "{}", shown.text);
    assert_eq!(second.send(&place(&id), "answer=approve").await.status, 200);
    assert_eq!(server.source.effects(), 1);
    server.verify().await;
}

async fn what_was_decided_elsewhere_or_expired_or_changed_is_said(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let (decided, drifted) = (agent.pending("fake.write", json!({})).await, agent.pending("fake.write", json!({ "text": "x" })).await);
    let expired = agent.pending("fake.send", json!({ "text": "x" })).await;
    let browser = Browser::of(&server);
    browser.log_in(&decided, &server.owner.token).await;
    server.owner.deny(&decided, "no").await.ok();
    let refused = browser.send(&place(&decided), "answer=approve").await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    // The definition changes between the look and the answer.
    browser.get(&place(&drifted)).await;
    server.source.redefine("write", |action| action.title = "Other".into());
    let refused = browser.send(&place(&drifted), "answer=approve").await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    let shown = browser.get(&place(&drifted)).await;
    assert!(!shown.text.contains("value=\"approve\""), "{}", shown.text);
    browser.get(&place(&expired)).await;
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS);
    let refused = browser.send(&place(&expired), "answer=approve").await;
    assert_eq!(refused.status, 410, "{}", refused.text);
    assert_eq!(server.source.effects(), 0);
    server.verify().await;
}

async fn a_login_ends_with_its_hour_its_token_and_its_button(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.owner.new_session(json!({ "unattended": true })).await;
    let id = agent.pending("fake.write", json!({})).await;
    let browser = Browser::of(&server);
    browser.log_in(&id, &server.owner.token).await;
    server.clock.advance_seconds(store::limits::LOGGED_IN_SECONDS - 1);
    assert_eq!(browser.get(&place(&id)).await.status, 200);
    server.clock.advance_seconds(1);
    assert_eq!(browser.get(&place(&id)).await.status, 401);
    let late = browser.send(&place(&id), "answer=approve").await;
    assert!(late.status == 401 && late.text.contains("nothing was answered"), "{}", late.text);
    // Its token is revoked.
    let user = me(&server.owner).await.as_str().unwrap().trim_start_matches("user:").to_owned();
    let token = server.owner.post("/api/v1/tokens", json!({ "name": "phone", "user_id": user })).await.ok();
    assert_eq!(browser.log_in(&id, token["token"].as_str().unwrap()).await.status, 200);
    server.owner.post(&format!("/api/v1/tokens/{}/revoke", token["id"].as_str().unwrap()), json!({})).await.ok();
    assert_eq!(browser.get(&place(&id)).await.status, 401);
    // The person logs out. Whoever kept the cookie has nothing.
    browser.log_in(&id, &server.owner.token).await;
    let kept = browser.cookie("countersign_login").unwrap();
    let out = browser.send("/logout", "").await;
    assert!(out.status == 200 && out.text.contains("type=\"password\""), "{}", out.text);
    assert!(browser.cookie("countersign_login").is_none());
    let request = server.owner.http.get(format!("{}{}", server.url, place(&id))).header("cookie", format!("countersign_login={kept}"));
    assert_eq!(request.send().await.unwrap().status(), 401);
    assert_eq!(server.source.effects(), 0);
}

async fn a_login_is_known_to_every_server(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let (id, other) = (agent.pending("fake.write", json!({})).await, agent.pending("fake.write", json!({})).await);
    let (browser, opened) = (Browser::of(&server), Browser::of(&server));
    browser.log_in(&id, &server.owner.token).await;
    let link = link_to(&server.owner, &other).await;
    opened.look(&link).await;
    let restarted = server.restart().await;
    assert_eq!(Browser::of(&restarted).look(&link).await.0, 401);
    let (browser, opened) = (browser.at(&restarted), opened.at(&restarted));
    assert_eq!(browser.send(&place(&id), "answer=approve").await.status, 200);
    assert_eq!(opened.press(&link, "answer=approve").await.0, 200);
    assert_eq!(server.source.effects(), 2);
}

async fn only_a_person_logs_in_and_wrong_tokens_are_counted(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let browser = Browser::of(&server);
    let refused = browser.log_in(&id, &agent.client.token).await;
    assert!(refused.status == 403 && refused.text.contains("only a person logs in"), "{}", refused.text);
    // The one above counts as well. Right ones do not.
    for _ in 1..limits::LOGIN_TRIES_PER_MINUTE_MAX {
        assert_eq!(browser.log_in(&id, &server.owner.token).await.status, 200);
        assert_eq!(browser.send("/login", "token=cs_user_wrong").await.status, 401);
    }
    let refused = browser.send("/login", &format!("token={}", server.owner.token)).await;
    assert_eq!((refused.status, &refused.headers["retry-after"]), (429, &"60".parse::<reqwest::header::HeaderValue>().unwrap()));
    // The API is not concerned.
    server.owner.get("/api/v1/whoami").await.ok();
    server.clock.advance_seconds(60);
    assert_eq!(browser.send("/login", &format!("token={}", server.owner.token)).await.status, 200);
}

async fn an_r4_call_is_approved_by_its_name(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.destroy", "require_approval").await;
    let agent = server.agent().await;
    let id = agent.pending("fake.destroy", json!({})).await;
    let browser = Browser::of(&server);
    assert!(browser.log_in(&id, &server.owner.token).await.text.contains("type <code>fake.destroy</code>"));
    for form in ["answer=approve", "answer=approve&confirm=fake.write"] {
        let refused = browser.send(&place(&id), form).await;
        assert_eq!((refused.status, server.source.effects()), (422, 0), "{}", refused.text);
    }
    assert_eq!(browser.send(&place(&id), "answer=approve&confirm=fake.destroy").await.status, 200);
    assert_eq!(server.source.effects(), 1);
}

async fn a_page_shows_hostile_texts_as_text_and_is_shown_by_no_other_page(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.owner.new_session(json!({ "title": "<img src=x>\u{202e}" })).await;
    let hostile = "</pre><script>alert(1)</script>\u{202e}\u{2024}\n<dt>Approved by<dd>owner";
    let body = json!({ "action": "fake.write", "params": { "text": hostile }, "reason": hostile });
    let id = agent.invoke_with(body).await.id();
    let browser = Browser::of(&server);
    let asked = browser.get(&place(&id)).await;
    let shown = browser.log_in(&id, &server.owner.token).await;
    let link = link_to(&server.owner, &id).await;
    let unopened = browser.get(&link).await;
    let opened = browser.send(&link, "answer=open").await;
    for page in [&asked, &shown, &unopened, &opened, &browser.get("/login").await, &browser.get("/answer/x").await] {
        for never in ["<script", "<img", "<dt>Approved by", "\u{202e}", "\u{2024}", "onclick", "http-equiv"] {
            assert!(!page.text.contains(never), "{never:?}: {}", page.text);
        }
        for (name, value) in [("referrer-policy", "no-referrer"), ("cache-control", "no-store"), ("x-frame-options", "DENY")] {
            assert_eq!(page.headers[name], value);
        }
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        for rule in ["default-src 'none'", "style-src 'sha256-", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(rule), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    for page in [&shown, &opened] {
        assert_eq!(page.status, 200);
        let told = "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}\\u{2024}\\n&lt;dt&gt;Approved by";
        assert!(page.text.matches(told).count() >= 2, "as a param and as the reason: {}", page.text);
    }
    // It fits a telephone, in the dark too.
    assert!(shown.text.contains("width=device-width") && shown.text.contains("prefers-color-scheme:dark"));
}
