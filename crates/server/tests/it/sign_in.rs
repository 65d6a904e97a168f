//! People sign in at an OpenID Connect issuer: who they are is the issuer's to say, and their role follows their groups at each sign-in, up to the
//! one that somebody here gave them.

use crate::browser::{Browser, Shown};
use crate::harness::{Kind, TestServer, on_both_engines, on_sqlite};
use crate::openid_issuer::{NAME, OpenIdIssuer};
use countersign_core::limits;
use reqwest::{Method, header};
use serde_json::{Value, json};

on_both_engines!(
    a_person_signs_in_and_their_role_follows_their_groups,
    whoever_has_no_role_is_refused_in_plain_words,
    a_sign_in_counts_once_in_its_browser_and_in_time,
    a_token_that_is_not_right_lets_nobody_in,
    nobody_becomes_somebody_who_is_there_already,
    whoever_was_disabled_has_no_vote_as_somebody_new_at_the_issuer,
    nobody_keeps_others_from_signing_in,
);
on_sqlite!(nobody_signs_in_to_a_disabled_org,);

const WORD: &str = "x-countersign-csrf";
/// What whoever is not signed in reads of an issuer that cannot be used.
const FAILED: &str = "did not let you in, or what it says cannot be used";

async fn started(kind: Kind) -> (TestServer, OpenIdIssuer) {
    let issuer = OpenIdIssuer::start().await;
    let server = TestServer::start_with_issuer(kind, issuer.config()).await;
    issuer.follow(&server.clock);
    (server, issuer)
}

/// Goes to the issuer, and stops before it comes back. Returns the way back.
async fn sent(browser: &Browser, issuer: &OpenIdIssuer, place: &str) -> String {
    browser.get("/login").await;
    let sent = browser.fetch(Method::GET, place, &[]).await;
    assert_eq!(sent.status(), 303);
    issuer.authorize(sent.headers()[header::LOCATION].to_str().unwrap())
}

async fn signed_in(browser: &Browser, issuer: &OpenIdIssuer) -> Shown {
    let back = sent(browser, issuer, "/login/oidc").await;
    browser.get(&back).await
}

async fn who(browser: &Browser) -> Value {
    let word = browser.word().await.expect("somebody is logged in");
    browser.fetch(Method::GET, "/api/v1/whoami", &[(WORD, word.as_str())]).await.json().await.unwrap()
}

/// Whether this person's approval of the call was taken.
async fn approves(browser: &Browser, call: &str) -> u16 {
    let word = browser.word().await.unwrap();
    browser.fetch(Method::POST, &format!("/api/v1/invocations/{call}/approve"), &[(WORD, word.as_str())]).await.status().as_u16()
}

/// The owner of the server gives this person a role.
async fn give(server: &TestServer, me: &Value, role: &str) {
    let user = me["principal"].as_str().unwrap().replace("user:", "");
    let given = server.owner.send(Method::PATCH, &format!("/api/v1/users/{user}"), Some(json!({ "role": role }))).await.ok();
    assert_eq!(given["role"], role);
}

async fn people(server: &TestServer) -> usize {
    server.owner.get("/api/v1/users").await.ok()["items"].as_array().unwrap().len()
}

async fn a_person_signs_in_and_their_role_follows_their_groups(kind: Kind) {
    let (server, issuer) = started(kind).await;
    let page = Browser::of(&server).get("/login?next=/receipts").await;
    assert!(page.text.contains("<a href=\"/login/oidc?next=%2Freceipts\">Sign in with Example SSO</a>"), "{}", page.text);
    issuer.let_in("robin", &["strangers", "viewers", "approvers"]);
    let browser = Browser::of(&server);
    let back = sent(&browser, &issuer, "/login/oidc?next=/receipts").await;
    let shown = browser.get(&back).await;
    assert_eq!((shown.status, shown.headers["refresh"].to_str().unwrap()), (200, "0; url=/receipts"), "{}", shown.text);
    let me = who(&browser).await;
    // Of several groups the highest role counts; but nobody approves whom nobody here knows.
    assert_eq!((&me["name"], &me["role"]), (&json!("robin"), &json!("member")));
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    assert_eq!(approves(&browser, &id).await, 403);
    give(&server, &me, "admin").await;
    // They answer calls, and the audit log knows who they are.
    assert_eq!(approves(&browser, &id).await, 200);
    assert_eq!(server.shown(&id).await["answer"]["by"], me["principal"]);
    let up_to_admin =
        [("approvers", "approver"), ("admins", "admin"), ("owners", "admin"), ("viewers", "viewer"), ("approvers", "approver")];
    for (group, role) in up_to_admin {
        issuer.let_in("robin", &[group]);
        let again = Browser::of(&server);
        assert_eq!(signed_in(&again, &issuer).await.status, 200);
        let same = who(&again).await;
        assert_eq!((&same["principal"], &same["role"]), (&me["principal"], &json!(role)));
        assert_eq!(who(&browser).await["role"], json!(role), "where they had signed in before too");
    }
    assert_eq!(people(&server).await, 2);
    // What was taken from them here, the groups do not give back, also where they had taken it too.
    for role in ["member", "viewer"] {
        give(&server, &me, role).await;
        assert_eq!(signed_in(&browser, &issuer).await.status, 200);
        assert_eq!(who(&browser).await["role"], role);
    }
    give(&server, &me, "approver").await;
    issuer.let_in("robin", &["viewers"]);
    signed_in(&browser, &issuer).await;
    give(&server, &me, "viewer").await;
    issuer.let_in("robin", &["approvers"]);
    signed_in(&browser, &issuer).await;
    assert_eq!(who(&browser).await["role"], "viewer");
    // Groups that the ID token does not have may be told apart from it.
    issuer.say(json!({ "sub": "ada" }));
    issuer.tell(json!({ "sub": "ada", "name": "Ada L.", "realm": { "groups": "admins" } }));
    let other = Browser::of(&server);
    assert_eq!(signed_in(&other, &issuer).await.status, 200);
    let ada = who(&other).await;
    assert_eq!((&ada["name"], &ada["role"]), (&json!("Ada L."), &json!("member")));
    // It ends like every login.
    server.clock.advance_seconds(store::limits::LOGGED_IN_SECONDS);
    assert_eq!(browser.word().await, None);
    server.verify().await;
    let integrity = server.store.check_integrity(&server.org).await.unwrap();
    assert!(integrity.differences.is_empty(), "{integrity:#?}");
}

async fn whoever_has_no_role_is_refused_in_plain_words(kind: Kind) {
    let (server, issuer) = started(kind).await;
    for groups in [&[][..], &["strangers"], &["Viewers"]] {
        issuer.let_in("eve", groups);
        let browser = Browser::of(&server);
        let refused = signed_in(&browser, &issuer).await;
        assert_eq!(refused.status, 403);
        assert!(refused.text.contains(&format!("none of your groups at {NAME} gives you a role here")), "{}", refused.text);
        assert_eq!((browser.word().await, people(&server).await), (None, 1));
    }
    issuer.let_in("robin", &["approvers"]);
    let browser = Browser::of(&server);
    signed_in(&browser, &issuer).await;
    let robin = who(&browser).await["principal"].as_str().unwrap().replace("user:", "");
    // Whoever loses their groups is refused, and whoever was disabled stays out.
    issuer.let_in("robin", &[]);
    assert_eq!(signed_in(&Browser::of(&server), &issuer).await.status, 403);
    server.owner.post(&format!("/api/v1/users/{robin}/disable"), json!({})).await.ok();
    issuer.let_in("robin", &["owners"]);
    let refused = signed_in(&browser, &issuer).await;
    assert!(refused.status == 403 && refused.text.contains("you were disabled here"), "{}", refused.text);
    assert_eq!(browser.word().await, None);
    server.verify().await;
}

async fn a_sign_in_counts_once_in_its_browser_and_in_time(kind: Kind) {
    let (server, issuer) = started(kind).await;
    issuer.let_in("robin", &["approvers"]);
    let (browser, other) = (Browser::of(&server), Browser::of(&server));
    let back = sent(&browser, &issuer, "/login/oidc").await;
    // Whoever gets hold of the way back has nothing from it in another browser, which thus cannot be logged in as somebody else.
    other.get("/login").await;
    assert_eq!((other.get(&back).await.status, other.word().await), (404, None));
    assert_eq!(browser.get(&back).await.status, 200);
    let replayed = browser.get(&back).await;
    assert!(replayed.status == 404 && replayed.text.contains("it was used already"), "{}", replayed.text);
    for made_up in ["?code=x&state=made-up", "?code=x", "?state=", "", "?error=access_denied&state=x"] {
        assert_eq!(other.get(&format!("/login/oidc/callback{made_up}")).await.status, 404, "{made_up}");
    }
    assert_eq!(other.get("/login/oidc/callback?state=a&state=b").await.status, 400);
    let late = sent(&other, &issuer, "/login/oidc").await;
    server.clock.advance_seconds(store::limits::LOGIN_SECONDS);
    assert_eq!(other.get(&late).await.status, 404);
    // A person who is not let in is told so, and another issuer does not answer for this one.
    for answer in ["&error=access_denied", "&code=x&iss=https://evil.example"] {
        let back = sent(&other, &issuer, "/login/oidc").await;
        let (_, state) = back.split_once("&state=").unwrap();
        let (state, _) = state.split_once('&').unwrap();
        let iss = if answer.contains("iss=") { String::new() } else { format!("&iss={}", issuer.url) };
        let shown = other.get(&format!("/login/oidc/callback?state={state}{answer}{iss}")).await;
        assert!(shown.status == 502 && shown.text.contains(FAILED), "{}", shown.text);
        // The operator finds the rest in the log.
        let trace = shown.headers["x-trace-id"].to_str().unwrap();
        assert!(!shown.text.contains("evil.example") && shown.text.contains(&format!("Trace id: {trace}")), "{}", shown.text);
    }
    // A page of others is no page to go on with.
    assert_eq!(other.fetch(Method::GET, "/login/oidc?next=https://evil.example", &[]).await.status(), 400);
    assert_eq!(people(&server).await, 2);
}

async fn a_token_that_is_not_right_lets_nobody_in(kind: Kind) {
    let (server, issuer) = started(kind).await;
    let now = countersign_core::Clock::now(&server.clock).as_micros() / 1_000_000;
    let right = json!({ "sub": "robin", "realm": { "groups": ["owners"] } });
    let with = |changed: Value| {
        let mut claims = right.clone();
        for (name, value) in changed.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    };
    // Why it is not right is for the operator alone.
    for (wrong, kept) in [
        (json!({ "iss": "https://evil.example" }), "another issuer"),
        (json!({ "aud": "another" }), "another client"),
        (json!({ "aud": ["countersign", "another"] }), "another client"),
        (json!({ "exp": now - 60 }), "has expired"),
        (json!({ "iat": now + 600 }), "a time to come"),
        (json!({ "nonce": "of another sign-in" }), "another sign-in"),
        (json!({ "sub": "" }), "names nobody"),
    ] {
        issuer.say(with(wrong.clone()));
        let browser = Browser::of(&server);
        let refused = signed_in(&browser, &issuer).await;
        assert!(refused.status == 502 && refused.text.contains(FAILED), "{wrong}: {}", refused.text);
        assert!(!refused.text.contains(kept) && !refused.text.contains("7731"), "{}", refused.text);
        assert_eq!((browser.word().await, people(&server).await), (None, 1), "{wrong}");
        // Wrong sign-ins are counted for a minute.
        server.clock.advance_seconds(60);
        issuer.follow(&server.clock);
    }
    // What is told apart from the token is about the same person.
    issuer.say(json!({ "sub": "robin" }));
    issuer.tell(json!({ "sub": "ada", "realm": { "groups": ["owners"] } }));
    let refused = signed_in(&Browser::of(&server), &issuer).await;
    assert!(refused.status == 502 && refused.text.contains(FAILED), "{}", refused.text);
    issuer.say(right);
    issuer.be_forged();
    let refused = signed_in(&Browser::of(&server), &issuer).await;
    assert!(refused.status == 502 && refused.text.contains(FAILED), "{}", refused.text);
    assert_eq!(people(&server).await, 1);
    server.verify().await;
}

async fn nobody_becomes_somebody_who_is_there_already(kind: Kind) {
    let (server, issuer) = started(kind).await;
    // The owner of the server has this name.
    issuer.let_in("owner", &["owners"]);
    let browser = Browser::of(&server);
    for _ in 0..2 {
        signed_in(&browser, &issuer).await;
        let me = who(&browser).await;
        assert_eq!(me["role"], "member");
        assert!(me["name"].as_str().unwrap().starts_with("owner "), "{me}");
    }
    // If both are one human, they have one vote.
    let id = server.agent().await.pending("fake.write", json!({})).await;
    assert_eq!(approves(&browser, &id).await, 403);
    // The last owner keeps their role, and is told so.
    issuer.let_in("robin", &["owners"]);
    signed_in(&browser, &issuer).await;
    give(&server, &who(&browser).await, "owner").await;
    // A token of a sign-in ends by itself, so it does not stand in for the last one that stays.
    let tokens = server.owner.get("/api/v1/tokens").await.ok();
    let stays = tokens["items"].as_array().unwrap().iter().find(|token| token["kind"] == "user" && token["name"] != "sign-in").unwrap();
    let revoke = format!("/api/v1/tokens/{}/revoke", stays["id"].as_str().unwrap());
    server.owner.post(&revoke, json!({})).await.problem(409, "last_owner");
    let owner = server.owner.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().replace("user:", "");
    let word = browser.word().await.unwrap();
    let disabled = browser.fetch(Method::POST, &format!("/api/v1/users/{owner}/disable"), &[(WORD, word.as_str())]).await;
    assert_eq!(disabled.status(), 200);
    issuer.let_in("robin", &["viewers"]);
    let refused = signed_in(&browser, &issuer).await;
    assert!(refused.status == 403 && refused.text.contains("you are the last owner here"), "{}", refused.text);
    assert_eq!(who(&browser).await["role"], "owner");
    server.verify().await;
}

async fn nobody_keeps_others_from_signing_in(kind: Kind) {
    let (server, issuer) = started(kind).await;
    issuer.let_in("robin", &["viewers"]);
    // An issuer that is away is asked once in a while, whoever comes.
    issuer.be_away(true);
    let (browser, other) = (Browser::of(&server), Browser::of(&server));
    browser.get("/login").await;
    let begun = async || other.fetch(Method::GET, "/login/oidc", &[]).await.status().as_u16();
    assert_eq!(begun().await, 502);
    let asked = issuer.asked();
    assert_eq!((begun().await, begun().await, issuer.asked()), (502, 502, asked));
    issuer.be_away(false);
    server.clock.advance_seconds(60);
    issuer.follow(&server.clock);
    let back = sent(&browser, &issuer, "/login/oidc").await;
    // One address begins so many sign-ins only, and ends nobody else's.
    for _ in 1..operations::limits::SIGN_INS_PER_MINUTE_MAX {
        assert_eq!(begun().await, 303);
    }
    assert_eq!(begun().await, 429);
    // States that a page of others made up count for nobody.
    for _ in 0..=limits::LOGIN_TRIES_PER_MINUTE_MAX {
        assert_eq!(browser.get("/login/oidc/callback?code=x&state=made-up").await.status, 404);
    }
    assert_eq!(browser.get(&back).await.status, 200);
    assert_eq!(who(&browser).await["role"], "viewer");
}

async fn whoever_was_disabled_has_no_vote_as_somebody_new_at_the_issuer(kind: Kind) {
    let (server, issuer) = started(kind).await;
    let mia = server.owner.person("mia", "approver").await.get("/api/v1/whoami").await.ok();
    let mia = mia["principal"].as_str().unwrap().replace("user:", "");
    server.owner.post(&format!("/api/v1/users/{mia}/disable"), json!({})).await.ok();
    let id = server.agent().await.pending("fake.write", json!({})).await;
    for subject in ["mia", "mia-again"] {
        issuer.let_in(subject, &["admins"]);
        let browser = Browser::of(&server);
        assert_eq!(signed_in(&browser, &issuer).await.status, 200);
        assert_eq!((&who(&browser).await["role"], approves(&browser, &id).await), (&json!("member"), 403), "{subject}");
    }
    server.verify().await;
}

async fn nobody_signs_in_to_a_disabled_org(kind: Kind) {
    let (server, issuer) = started(kind).await;
    issuer.let_in("robin", &["viewers"]);
    let mut browser = Browser::of(&server);
    let back = sent(&browser, &issuer, "/login/oidc").await;
    let before = people(&server).await;
    server.home.tamper("UPDATE orgs SET disabled_at = 1");
    let restarted = server.restart().await;
    browser.url = restarted.url.clone();
    for place in [back.as_str(), "/login/oidc"] {
        let shown = browser.get(place).await;
        assert!(shown.status == 403 && shown.text.contains("org of this sign-in is disabled"), "{place}: {} {}", shown.status, shown.text);
    }
    server.home.tamper("UPDATE orgs SET disabled_at = NULL");
    assert_eq!(people(&server.restart().await).await, before);
}

#[tokio::test]
async fn nobody_gives_a_subject_another_person_in_the_database() {
    let (server, issuer) = started(Kind::Sqlite).await;
    issuer.let_in("robin", &["viewers"]);
    signed_in(&Browser::of(&server), &issuer).await;
    server.home.tamper("UPDATE identities SET user_id = (SELECT id FROM users WHERE name = 'owner')");
    let browser = Browser::of(&server);
    let refused = signed_in(&browser, &issuer).await;
    assert!(refused.status >= 500 && browser.word().await.is_none(), "{}", refused.text);
    assert!(!server.store.check_integrity(&server.org).await.unwrap().differences.is_empty());
}

#[tokio::test]
async fn without_an_issuer_people_log_in_with_tokens_only() {
    let server = TestServer::start(Kind::Sqlite).await;
    let browser = Browser::of(&server);
    assert!(!browser.get("/login").await.text.contains("Sign in with"));
    for place in ["/login/oidc", "/login/oidc/callback?code=x&state=y"] {
        assert_eq!(browser.get(place).await.status, 404, "{place}");
    }
}
