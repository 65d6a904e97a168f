//! Tests of the wire with the mail server of `make test`.

use super::*;
use crate::Who;
use crate::sample::sample;
use countersign_core::invocation::Deadline;
use countersign_core::ports::secrets::{SecretName, SecretValue};
use countersign_core::principal::Role;
use countersign_core::{Call, ChannelId, Principal, PrincipalId, Secret, Status, UserId, ports};
use testkit::clock::START;
use testkit::{FixedClock, certificates, mail};

/// Has the passwords of the mail server, a good one and a bad one.
struct Kept;

impl Secrets for Kept {
    fn resolve_secret<'a>(&'a self, _org: &'a OrgId, name: &'a SecretName) -> Future<'a, Result<Option<SecretValue>, ports::Error>> {
        let text = match name.as_str() {
            "good" => Some(mail::LOGIN.1),
            "bad" => Some("wrong"),
            _ => None,
        };
        Box::pin(std::future::ready(Ok(text.and_then(|text| SecretValue::new(Secret::new(text.to_owned()))))))
    }

    fn secret_version<'a>(&'a self, _org: &'a OrgId, _name: &'a SecretName) -> Future<'a, Result<Option<i64>, ports::Error>> {
        Box::pin(std::future::ready(Ok(Some(1))))
    }
}

fn wire() -> SmtpWire {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mailer = Mailer::new(vec![mail::plain().parse().unwrap(), mail::secured().parse().unwrap()], Some(certificates::ROOT)).unwrap();
    let sender = Sender { route: Route { server: mail::plain().parse().unwrap(), login: None }, from: "org@example.com".parse().unwrap() };
    let address = Own::new("https://countersign.example.com");
    SmtpWire { secrets: Arc::new(Kept), mailer: Arc::new(mailer), senders: Arc::new(sender), clock: Arc::new(FixedClock::new()), address }
}

fn robin() -> Principal {
    let (org, session, scopes, token) = (OrgId::new(START, [1; 10]), None, Vec::new(), None);
    let id = PrincipalId::User(UserId::new(START, [3; 10]));
    Principal { org, id, name: "robin".to_owned(), role: Some(Role::Owner), owner: None, session, scopes, token, device: None }
}

fn settings(to: &str) -> Value {
    json!({ "to": [to], "from": "countersign@example.com", "server": mail::plain() })
}

fn channel(settings: Value) -> Channel {
    Channel {
        id: ChannelId::new(START, [2; 10]),
        org: robin().org,
        name: "mail".to_owned(),
        kind: "email".to_owned(),
        settings,
        space: None,
        tiers: Vec::new(),
        bands: Vec::new(),
        attendance: None,
        after_seconds: 0,
        created_by: robin().id,
        created_at: START,
        removed_at: None,
    }
}

fn who() -> Who {
    let (requester, owner) = ("agent:ses_1".to_owned(), Some("robin".to_owned()));
    Who { session_title: Some("nightly\nrefunds".to_owned()), requester, owner, answered_by: Some("sam".to_owned()) }
}

fn notice(moment: Moment) -> Notice {
    let sample = sample(&robin(), "mail", START, [5; 10]).unwrap();
    let call = Call { reason: Some("<b>now</b>\r\nBcc: eve@wire.test".to_owned()), ..Call::new(json!({ "to": "<script>" })) };
    let status = match moment {
        Moment::Pending | Moment::Decided => Status::Pending,
        Moment::InDoubt => Status::InDoubt,
        Moment::Ended => Status::Succeeded,
    };
    let deadline = Some(Deadline::At(START.plus_seconds(60)));
    let invocation = Box::new(Invocation { call, status, deadline, ..sample });
    let link = Some("https://countersign.example.com/answer/abc".to_owned());
    Notice { org: robin().org, invocation, moment, made_at: START, link, who: who(), is_test: false }
}

#[tokio::test]
async fn a_call_that_waits_is_a_mail_with_its_link_and_its_end_continues_it() {
    let channel = channel(settings("asked@wire.test"));
    let told = wire().deliver(&channel, &notice(Moment::Pending), None).await.unwrap();
    let asked = mail::to("asked@wire.test").remove(0);
    assert!(
        asked.text.contains("https://countersign.example.com/answer/abc") && asked.text.contains("multipart/alternative"),
        "{}",
        asked.text
    );
    assert!(asked.text.contains(&format!("Answer until: {}", START.plus_seconds(60).to_minute())), "{}", asked.text);
    assert!(asked.text.contains("Requested by: nightly\\nrefunds, agent:ses_1, for robin"), "{}", asked.text);
    assert!(!asked.text.contains("<script>\"\n}</pre>") && asked.text.contains("&lt;script&gt;"), "{}", asked.text);
    assert!(!asked.text.lines().any(|line| line.starts_with("Bcc:")) && mail::to("eve@wire.test").is_empty(), "{}", asked.text);

    assert_eq!(wire().deliver(&channel, &notice(Moment::Decided), told.as_ref()).await, Ok(told.clone()));
    wire().deliver(&channel, &notice(Moment::Ended), told.as_ref()).await.unwrap();
    let mails = mail::to("asked@wire.test");
    assert_eq!(mails.len(), 2);
    let ended = &mails[1].text;
    let id = notice(Moment::Ended).invocation.id;
    assert!(ended.contains(&format!("In-Reply-To: <{id}@example.com>")) && ended.contains("succeeded"), "{ended}");
    assert!(!ended.contains("/answer/"), "a link that answers nothing any more is not sent");
    // Who has no link of their own is sent to the page that asks for a login.
    let unnamed = Notice { link: None, ..notice(Moment::Pending) };
    wire().deliver(&self::channel(settings("unnamed@wire.test")), &unnamed, None).await.unwrap();
    assert!(mail::to("unnamed@wire.test")[0].text.contains(&format!("https://countersign.example.com/inbox/{id}")));
    // In doubt it needs somebody, also where nobody was asked before.
    let id = id.to_string();
    for (earlier, answers) in [(told.as_ref(), true), (None, false)] {
        let to = if answers { "doubted@wire.test" } else { "unasked@wire.test" };
        wire().deliver(&self::channel(settings(to)), &notice(Moment::InDoubt), earlier).await.unwrap();
        let doubted = mail::to(to).remove(0).text;
        assert!(doubted.contains("is in doubt: nobody knows") && !doubted.contains("/answer/"), "{doubted}");
        assert_eq!(doubted.contains(&format!("In-Reply-To: <{id}@example.com>")), answers, "{doubted}");
    }
    // A test looks like no call.
    let test = Notice { is_test: true, link: None, ..notice(Moment::Pending) };
    wire().deliver(&self::channel(settings("test@wire.test")), &test, None).await.unwrap();
    let tested = mail::to("test@wire.test").remove(0).text;
    assert!(tested.contains("Subject: This is a test: no call waits") && !tested.contains("waits for an approval"), "{tested}");
    assert!(!tested.contains("/inbox/") && !tested.contains("Answer it here"), "{tested}");
    // Who was never asked is not told.
    assert_eq!(wire().deliver(&channel, &notice(Moment::Ended), None).await, Ok(None));
    assert_eq!(mail::to("asked@wire.test").len(), 2);
}

#[tokio::test]
async fn what_the_server_says_decides_whether_it_is_tried_again() {
    for (to, is_again) in [("unknown@wire.test", false), ("later@wire.test", true), ("full@wire.test", false), ("gone@wire.test", true)] {
        let refused = wire().deliver(&channel(settings(to)), &notice(Moment::Pending), None).await.unwrap_err();
        assert_eq!(matches!(refused, DeliveryError::Again(_)), is_again, "{to}: {refused:?}");
    }
    let with = |password: &str| {
        let server = mail::secured();
        json!({ "to": ["login@wire.test"], "from": "c@example.com", "server": server, "username": mail::LOGIN.0, "password": password })
    };
    wire().deliver(&channel(with("good")), &notice(Moment::Pending), None).await.unwrap();
    assert!(mail::to("login@wire.test")[0].with_login);
    for wrong in ["bad", "missing"] {
        let refused = wire().deliver(&channel(with(wrong)), &notice(Moment::Pending), None).await;
        assert!(matches!(&refused, Err(DeliveryError::Never(why)) if !why.contains("sesame")), "{refused:?}");
    }
    assert_eq!(mail::to("login@wire.test").len(), 1);
}

#[tokio::test]
async fn a_channel_that_names_no_server_sends_as_its_org_does() {
    let settings = json!({ "to": ["org@wire.test"] });
    assert_eq!(wire().refusal(&settings), None);
    wire().deliver(&channel(settings), &notice(Moment::Pending), None).await.unwrap();
    assert_eq!(mail::to("org@wire.test")[0].from, "org@example.com");
}

#[test]
fn settings_that_cannot_work_are_refused_when_the_channel_is_made() {
    assert_eq!(wire().refusal(&settings("robin@wire.test")), None);
    let but = |field: &str, value: Value| {
        let mut changed = settings("robin@wire.test");
        changed[field] = value;
        changed
    };
    for (settings, expected) in [
        (but("to", json!(["robin"])), "`robin` is not an e-mail address"),
        (but("from", json!("Countersign <c@example.com>")), "is not an e-mail address"),
        (but("server", json!("mail.example.com")), "is not a mail server"),
        (but("server", json!("smtps://mail.example.com")), "`email.allowed_servers`"),
        (but("username", json!("c")), "together"),
        (but("password", json!("good")), "needs a `username`"),
        (but("from", json!(null)), "given together"),
        (json!({ "to": ["a@example.com"], "username": "u", "password": "pw" }), "needs a `server`"),
        (but("server", json!(null)), "`server` and `from` are given together"),
        (json!({}), "missing field"),
    ] {
        let refused = wire().refusal(&settings).unwrap().to_string();
        assert!(refused.contains(expected), "{settings}: {refused}");
    }
    let mut clear = but("username", json!("c"));
    clear["password"] = json!("good");
    assert!(wire().refusal(&clear).unwrap().to_string().contains("over TLS only"));
}
