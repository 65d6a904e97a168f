//! Tests of the wire with a Slack that takes what its published description has, and nothing else.

use super::fake::{self, CHANNEL, FakeSlack, TOKEN};
use super::*;
use crate::Who;
use crate::sample::sample;
use countersign_core::invocation::{Answer, Beyond, Binding, Failure};
use countersign_core::ports::secrets::{SecretName, SecretValue};
use countersign_core::principal::Role;
use countersign_core::{Call, ChannelId, Digest, Invocation, Principal, PrincipalId, Status, Tier, UserId, ports};
use testkit::clock::START;

/// Has the bot's token, and another secret of the org.
struct Kept;

impl Secrets for Kept {
    fn resolve_secret<'a>(&'a self, _org: &'a OrgId, name: &'a SecretName) -> Future<'a, Result<Option<SecretValue>, ports::Error>> {
        let text = match name.as_str() {
            "bot" => Some(TOKEN),
            "other" => Some("a password of something else"),
            _ => None,
        };
        Box::pin(std::future::ready(Ok(text.and_then(|text| SecretValue::new(Secret::new(text.to_owned()))))))
    }

    fn secret_version<'a>(&'a self, _org: &'a OrgId, _name: &'a SecretName) -> Future<'a, Result<Option<i64>, ports::Error>> {
        Box::pin(std::future::ready(Ok(Some(1))))
    }
}

fn wire(slack: &FakeSlack) -> SlackWire {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let outbound = Outbound::new(vec![slack.host().parse().unwrap()], vec!["127.0.0.1/32".parse().unwrap()]).unwrap();
    SlackWire::new(Arc::new(Kept), Arc::new(outbound), Own::new("https://countersign.example.com/"), Some(&slack.api_url))
}

fn robin() -> PrincipalId {
    PrincipalId::User(UserId::new(START, [3; 10]))
}

fn principal() -> Principal {
    let (org, session, scopes, token) = (OrgId::new(START, [1; 10]), None, Vec::new(), None);
    Principal { org, id: robin(), name: "robin".to_owned(), role: Some(Role::Owner), owner: None, session, scopes, token, device: None }
}

fn channel() -> Channel {
    let settings = json!({ "channel": CHANNEL, "token": "bot", "signing_secret": "sign", "users": { "U1": "robin" } });
    Channel {
        id: ChannelId::new(START, [2; 10]),
        org: principal().org,
        name: "approvals".to_owned(),
        kind: "slack".to_owned(),
        settings,
        space: None,
        tiers: Vec::new(),
        bands: Vec::new(),
        attendance: None,
        after_seconds: 0,
        created_by: robin(),
        created_at: START,
        removed_at: None,
    }
}

fn call(tier: Tier, params: Value) -> Invocation {
    let sample = sample(&principal(), "approvals", START, [5; 10]).unwrap();
    let binding = Binding { digest: Digest::new([8; 32]), nonce: Digest::new([0; 32]), expires_at: START, facts: json!({}) };
    let call = Call { reason: Some("because <!channel> said\nso".to_owned()), ..Call::new(params) };
    Invocation { tier, call, binding: Some(binding), ..sample }
}

fn notice(invocation: Invocation, moment: Moment) -> Notice {
    let link = Some("https://countersign.example.com/answer/x".to_owned());
    let (requester, owner) = ("agent:ses_1".to_owned(), Some("robin".to_owned()));
    let who = Who { session_title: Some("nightly refunds".to_owned()), requester, owner, answered_by: Some("sam".to_owned()) };
    Notice { org: invocation.org.clone(), invocation: Box::new(invocation), moment, made_at: START, link, who, is_test: false }
}

fn labels(form: &std::collections::BTreeMap<String, String>) -> Vec<&'static str> {
    ["Approve once", "Deny", "Open"].into_iter().filter(|label| fake::button(form, label).is_some()).collect()
}

#[tokio::test]
async fn a_call_becomes_a_message_with_buttons_and_the_message_becomes_its_outcome() {
    let slack = FakeSlack::start().await;
    let (wire, channel) = (wire(&slack), channel());
    let pending = call(Tier::R3, json!({ "to": "<!here> *bold* `code`", "hidden": "a\u{202e}b" }));
    let posted = wire.deliver(&channel, &notice(pending.clone(), Moment::Pending), None).await.unwrap().unwrap();
    let form = slack.taken("chat.postMessage").remove(0);
    assert_eq!((form["channel"].as_str(), labels(&form)), (CHANNEL, vec!["Approve once", "Deny", "Open"]));
    let page = format!("https://countersign.example.com/inbox/{}", pending.id);
    assert_eq!(fake::button(&form, "Open").unwrap()["url"], page, "everybody there sees it: it answers in nobody's name");
    let text = form["blocks"].as_str();
    assert!(text.contains("Requested by: nightly refunds, agent:ses_1, for robin"), "{text}");
    assert!(text.contains("because <!channel> said\\\\nso") && text.contains("a\\\\u202eb"), "{text}");
    let pressed = interaction::read(fake::pressed("U1", &fake::button(&form, "Approve once").unwrap()).as_bytes()).unwrap();
    let shown = interaction::Shown { invocation: pending.id.clone(), binding: Digest::new([8; 32]) };
    let (user, place) = ("U1".to_owned(), Some(fake::PRESSED_IN.to_owned()));
    assert_eq!(pressed, interaction::Interaction { user, place, pressed: interaction::Pressed::Approve(shown) });

    // Told again, it is not posted again. The outcome takes its place, without buttons.
    assert_eq!(wire.deliver(&channel, &notice(pending.clone(), Moment::Pending), Some(&posted)).await, Ok(Some(posted.clone())));
    let answer = Answer { by: robin(), at: START, reason: Some("fine".to_owned()), beyond: Beyond::Once };
    let failure = Failure { code: "source_failed".to_owned(), message: "it broke".to_owned() };
    let ended = Invocation { status: Status::Failed, answer: Some(answer), failure: Some(failure), ..pending };
    for moment in [Moment::Decided, Moment::Ended] {
        wire.deliver(&channel, &notice(ended.clone(), moment), Some(&posted)).await.unwrap();
    }
    let updates = slack.taken("chat.update");
    assert_eq!((slack.taken("chat.postMessage").len(), updates.len()), (1, 2));
    assert!(updates.iter().all(|form| form["ts"] == posted["ts"] && labels(form).is_empty()), "{updates:?}");
    assert!(updates[1]["blocks"].contains("Answered by: sam"), "{updates:?}");
    assert!(updates[1]["blocks"].contains("has ended: failed") && updates[1]["blocks"].contains("it broke"), "{updates:?}");
    // In doubt it needs somebody, also where nobody was asked before.
    let doubted = Invocation { status: Status::InDoubt, ..ended.clone() };
    for earlier in [Some(&posted), None] {
        assert!(wire.deliver(&channel, &notice(doubted.clone(), Moment::InDoubt), earlier).await.unwrap().is_some());
    }
    let (posts, updates) = (slack.taken("chat.postMessage"), slack.taken("chat.update"));
    assert_eq!((posts.len(), updates.len()), (2, 3));
    assert!([&posts[1], &updates[2]].iter().all(|form| form["text"].contains("is in doubt") && labels(form).is_empty()), "{posts:?}");
    // Nobody was told of it here, so there is nothing to update.
    assert_eq!(wire.deliver(&channel, &notice(ended, Moment::Ended), None).await, Ok(None));
}

#[tokio::test]
async fn what_is_not_shown_whole_is_not_approved_from_here() {
    let slack = FakeSlack::start().await;
    let (wire, channel) = (wire(&slack), channel());
    for (invocation, expected) in [
        (call(Tier::R3, json!({ "text": "x".repeat(10_000) })), vec!["Deny", "Open"]),
        (call(Tier::R3, json!({ "_truncated": true })), vec!["Deny", "Open"]),
        (call(Tier::R4, json!({})), vec!["Deny", "Open"]),
        (Invocation { binding: None, ..call(Tier::R3, json!({})) }, Vec::new()),
    ] {
        wire.deliver(&channel, &notice(invocation, Moment::Pending), None).await.unwrap();
        let form = slack.taken("chat.postMessage").pop().unwrap();
        assert_eq!(labels(&form), expected, "{form:?}");
    }
}

#[tokio::test]
async fn what_slack_says_decides_whether_it_is_tried_again() {
    let slack = FakeSlack::start().await;
    let (wire, channel) = (wire(&slack), channel());
    let pending = notice(call(Tier::R3, json!({})), Moment::Pending);
    for (status, error, is_again) in [
        (200, "ratelimited", true),
        (200, "fatal_error", true),
        (429, "ratelimited", true),
        (500, "", true),
        (503, "", true),
        (200, "channel_not_found", false),
        (200, "invalid_auth", false),
        (200, "<script>", false),
    ] {
        slack.refuse(Some((status, error)));
        let refused = wire.deliver(&channel, &pending, None).await.unwrap_err();
        assert_eq!(matches!(refused, DeliveryError::Again(_)), is_again, "{status} {error}: {refused:?}");
        assert!(!format!("{refused:?}").contains("script"), "{refused:?}");
    }
    slack.refuse(None);
    let named = |name: &str| Channel { settings: json!({ "channel": CHANNEL, "token": name, "signing_secret": "s" }), ..channel.clone() };
    assert_eq!(wire.deliver(&named("gone"), &pending, None).await, Err(DeliveryError::Never("there is no secret `gone`".to_owned())));
    assert_eq!(wire.refusal(&channel.settings), None);
    assert!(slack.taken("chat.postMessage").is_empty());
}

#[tokio::test]
async fn no_secret_but_the_token_of_a_bot_is_sent_and_only_to_where_the_operator_says() {
    let slack = FakeSlack::start().await;
    let (wire, channel) = (wire(&slack), channel());
    let pending = notice(call(Tier::R3, json!({})), Moment::Pending);
    let others = json!({ "channel": CHANNEL, "token": "other", "signing_secret": "s" });
    let refused = wire.deliver(&Channel { settings: others, ..channel.clone() }, &pending, None).await.unwrap_err();
    assert!(
        matches!(&refused, DeliveryError::Never(why) if why.contains("`other` is no token") && !why.contains("password")),
        "{refused:?}"
    );
    assert_eq!(slack.asked(), 0, "a secret of something else stays here");
    // Whoever sets a channel cannot say where Slack is.
    let mut elsewhere = channel.settings.clone();
    elsewhere["api_url"] = json!(slack.api_url);
    assert!(wire.refusal(&elsewhere).unwrap().to_string().contains("api_url"));
    let refused = wire.deliver(&Channel { settings: elsewhere, ..channel.clone() }, &pending, None).await;
    assert!(matches!(refused, Err(DeliveryError::Never(_))), "{refused:?}");
    assert_eq!(slack.asked(), 0);
    // The operator must also allow the host.
    let outbound = Outbound::new(vec![slack.host().parse().unwrap()], vec!["127.0.0.1/32".parse().unwrap()]).unwrap();
    let usual = SlackWire::new(Arc::new(Kept), Arc::new(outbound), Own::new("https://countersign.example.com"), None);
    assert_eq!(usual.method("chat.update"), "https://slack.com/api/chat.update");
    assert!(usual.refusal(&channel.settings).unwrap().to_string().contains("`source_allowed_hosts`"));
}

#[test]
fn requests_that_slack_does_not_describe_are_noticed_by_these_tests() {
    let form = |pairs: &[(&str, &str)]| pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>();
    let kind = "application/x-www-form-urlencoded";
    assert_eq!(fake::fits("chat.postMessage", kind, &form(&[("channel", "C1"), ("text", "x")])), Ok(()));
    let button = r#"[{"type":"actions","elements":[{"type":"button","action_id":"a","text":{"type":"mrkdwn","text":"x"}}]}]"#;
    for (method, kind, pairs) in [
        ("chat.nothing", kind, vec![("channel", "C1")]),
        ("chat.postMessage", "text/plain", vec![("channel", "C1")]),
        ("chat.postMessage", kind, vec![("text", "x")]),
        ("chat.postMessage", kind, vec![("channel", "C1"), ("ts", "1")]),
        ("chat.postMessage", kind, vec![("channel", "C1"), ("unfurl_links", "no")]),
        ("chat.postMessage", kind, vec![("channel", "C1"), ("blocks", "[{}]")]),
        ("chat.postMessage", kind, vec![("channel", "C1"), ("blocks", button)]),
        ("chat.update", kind, vec![("channel", "C1")]),
    ] {
        assert!(fake::fits(method, kind, &form(&pairs)).is_err(), "{method} {pairs:?}");
    }
}
