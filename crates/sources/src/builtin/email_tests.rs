//! Tests of `email` with the mail server of `make test`.

use super::*;
use crate::builtin::tests::{call, context, preview, promised};
use crate::mail::{MailServer, Route};
use countersign_core::source::AfterError;
use testkit::{FixedClock, mail};

fn email() -> Email {
    let route = Route { server: mail::plain().parse().unwrap(), login: None };
    let mailer = Mailer::new(vec![route.server.clone()], None).unwrap();
    let sender = Sender { route, from: "countersign@example.com".parse().unwrap() };
    Email::new(Arc::new(mailer), Arc::new(sender), Arc::new(FixedClock::new())).unwrap()
}

fn params(to: &[&str], subject: &str, text: &str) -> Value {
    json!({ "to": to, "subject": subject, "text": text })
}

#[tokio::test]
async fn a_mail_is_sent_once_with_the_id_of_its_call() {
    let (email, context) = (email(), context());
    let action = ActionId::parse("email.send").unwrap();
    let sent = email.call(&context, &action, &params(&["once@email.test"], "Grüße", "It is done.")).await.unwrap();
    assert_eq!(sent.value, json!({ "recipients": 1, "from": "countersign@example.com" }));
    let taken = mail::to("once@email.test");
    assert_eq!((taken.len(), taken[0].from.as_str()), (1, "countersign@example.com"));
    let id = format!("Message-ID: <{}@example.com>", context.invocation);
    assert!(taken[0].text.contains(&id) && taken[0].text.contains("It is done."), "{}", taken[0].text);
}

#[tokio::test]
async fn params_that_could_mean_something_else_are_refused_before_anybody_is_asked() {
    let email = email();
    let long = "x".repeat(EMAIL_TEXT_CHARS_MAX + 1);
    let many = vec!["many@email.test"; EMAIL_RECIPIENTS_MAX + 1];
    for bad in [
        params(&[], "a", "b"),
        params(&many, "a", "b"),
        params(&["not an address"], "a", "b"),
        params(&["a@email.test\r\nBcc: eve@email.test"], "a", "b"),
        params(&["a@email.test, eve@email.test"], "a", "b"),
        params(&["Ann <a@email.test>"], "a", "b"),
        params(&["bad@email.test"], "", "b"),
        params(&["bad@email.test"], "a\r\nBcc: eve@email.test", "b"),
        params(&["bad@email.test"], "a\nContent-Type: text/html", "b"),
        params(&["bad@email.test"], &"x".repeat(EMAIL_SUBJECT_CHARS_MAX + 1), "b"),
        params(&["bad@email.test"], "a", " \n"),
        params(&["bad@email.test"], "a", &long),
    ] {
        let action = ActionId::parse("email.send").unwrap();
        let context = context();
        let checked = email.check(context.asked(&action, Some(&bad))).await.unwrap_err();
        let called = email.call(&context, &action, &bad).await.unwrap_err();
        assert_eq!((checked.code(), called.code()), ("invalid_params", "invalid_params"), "{bad}");
    }
    assert!(mail::to("bad@email.test").is_empty() && mail::to("many@email.test").is_empty() && mail::to("eve@email.test").is_empty());
}

#[tokio::test]
async fn whoever_approves_a_mail_through_the_operators_server_approves_the_server_and_the_address() {
    let (email, context) = (email(), context());
    let server: MailServer = mail::plain().parse().unwrap();
    let expected = SentAs::Setting(format!("countersign@example.com through {server}"));
    assert_eq!(email.sent_as(&context.org, &context.space).await, Ok(Some(expected)));
}

#[tokio::test]
async fn text_that_looks_like_the_end_of_a_mail_stays_text() {
    let text = "before\r\n.\r\nMAIL FROM:<eve@email.test>\r\nRCPT TO:<victim@email.test>\r\nDATA\r\nSubject: forged\r\n\r\nafter\n.\nend";
    call(&email(), "email.send", params(&["smuggled@email.test"], "a", text)).await.unwrap();
    let taken = mail::to("smuggled@email.test");
    assert_eq!(taken.len(), 1);
    assert!(taken[0].text.contains("after") && taken[0].text.contains("end"), "{}", taken[0].text);
    assert!(mail::to("victim@email.test").is_empty());
}

#[tokio::test]
async fn what_became_of_a_mail_that_broke_off_is_not_known() {
    let email = email();
    let error = call(&email, "email.send", params(&["gone@email.test"], "a", "b")).await.unwrap_err();
    assert_eq!((error.code(), error.after()), ("source_broke", AfterError::Unknown));
    let error = call(&email, "email.send", params(&["unknown@email.test"], "a", "b")).await.unwrap_err();
    assert_eq!((error.code(), error.after()), ("mail_refused", AfterError::NoEffect));
    let action = ActionId::parse("email.send").unwrap();
    let asked = email.reconcile(&context(), &action, &params(&["gone@email.test"], "a", "b")).await;
    assert_eq!(asked, Ok(countersign_core::source::Reconciled::Unknown));
    assert_eq!(preview(&email, "email.send", params(&["x@email.test"], "a", "b")).await.unwrap_err().code(), "dry_run_unsupported");
}

#[test]
fn its_actions_and_their_tiers_are_these() {
    assert_eq!(promised(&BUILTIN), ["email.send R3 NotReversible NotRepeatable Unsupported"]);
}
