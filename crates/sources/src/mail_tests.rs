//! Tests of sending, with the mail server of `make test`.

use super::*;
use countersign_core::Timestamp;
use countersign_core::source::AfterError;
use testkit::{certificates, mail};

const PATIENCE: Duration = Duration::from_secs(20);

fn mail_to(to: &[&str]) -> Mail {
    Mail {
        from: "countersign@example.com".parse().unwrap(),
        to: to.iter().map(|address| address.parse().unwrap()).collect(),
        subject: Subject::new("A refund waits – 40 €").unwrap(),
        text: "First line.\n.\nThe line before is a dot.".to_owned(),
        html: Some("<p>First line.</p>".to_owned()),
        id: "inv_1".to_owned(),
        answers: None,
        at: Timestamp::parse("2026-11-15T08:00:00Z").unwrap(),
    }
}

/// A mailer that knows both servers.
fn mailer() -> Mailer {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let servers = vec![mail::plain().parse().unwrap(), mail::secured().parse().unwrap()];
    Mailer::new(servers, Some(certificates::ROOT)).unwrap()
}

fn plainly() -> Route {
    Route { server: mail::plain().parse().unwrap(), login: None }
}

fn login(password: &str) -> Option<MailLogin> {
    Some(MailLogin { username: mail::LOGIN.0.to_owned(), password: Secret::new(password.to_owned()) })
}

#[tokio::test]
async fn a_mail_arrives_as_it_was_written() {
    let to = ["arrives@mail.test", "arrives-too@mail.test"];
    mailer().send(&plainly(), &mail_to(&to), PATIENCE).await.unwrap();
    let taken = mail::to(to[0]);
    assert_eq!((taken.len(), &taken[0].to, taken[0].from.as_str()), (1, &to.map(str::to_owned).to_vec(), "countersign@example.com"));
    let text = &taken[0].text;
    assert!(text.contains("Message-ID: <inv_1@example.com>") && text.contains("multipart/alternative"), "{text}");
    assert!(text.contains("First line.\r\n.\r\n") && text.contains("<p>First line.</p>"), "{text}");
}

#[tokio::test]
async fn a_login_is_sent_over_tls_alone() {
    let secured = |password| Route { server: mail::secured().parse().unwrap(), login: login(password) };
    mailer().send(&secured(mail::LOGIN.1), &mail_to(&["secured@mail.test"]), PATIENCE).await.unwrap();
    let taken = mail::to("secured@mail.test").remove(0);
    assert!(taken.with_tls && taken.with_login, "{taken:?}");
    let refused = mailer().send(&secured("wrong"), &mail_to(&["secured@mail.test"]), PATIENCE).await.unwrap_err();
    assert_eq!((refused.code(), refused.after()), ("mail_login_refused", AfterError::NoEffect));
    // A server without encryption never sees the password, and one whose certificate nobody vouches for sees nothing.
    let in_the_clear = Route { login: login(mail::LOGIN.1), ..plainly() };
    let error = mailer().send(&in_the_clear, &mail_to(&["secured@mail.test"]), PATIENCE).await.unwrap_err();
    assert_eq!(error.code(), "mail_not_encrypted");
    let strangers = Mailer::new(vec![mail::secured().parse().unwrap()], None).unwrap();
    let error = strangers.send(&secured(mail::LOGIN.1), &mail_to(&["secured@mail.test"]), PATIENCE).await.unwrap_err();
    assert_eq!(error.code(), "source_unreachable", "{error}");
    assert_eq!(mail::to("secured@mail.test").len(), 1);
}

#[tokio::test]
async fn a_server_is_asked_whether_it_takes_our_mail_without_any() {
    let from = "greeted@mail.test".parse::<MailAddress>().unwrap();
    let secured =
        |password| Sender { route: Route { server: mail::secured().parse().unwrap(), login: login(password) }, from: from.clone() };
    mailer().greet(&secured(mail::LOGIN.1), PATIENCE).await.unwrap();
    let refused = mailer().greet(&secured("wrong"), PATIENCE).await.unwrap_err();
    assert_eq!(refused.code(), "mail_login_refused");
    let plain = Sender { route: plainly(), from };
    mailer().greet(&plain, PATIENCE).await.unwrap();
    assert_eq!(Mailer::default().greet(&plain, PATIENCE).await.unwrap_err().code(), "host_not_allowed");
}

#[tokio::test]
async fn a_server_that_offers_no_encryption_gets_nothing_unless_that_was_asked_for() {
    let port = mail::plain().trim_end_matches("?tls=none").to_owned();
    let route = Route { server: port.parse().unwrap(), login: None };
    let mailer = Mailer::new(vec![route.server.clone()], None).unwrap();
    let error = mailer.send(&route, &mail_to(&["offers@mail.test"]), PATIENCE).await.unwrap_err();
    assert_eq!((error.code(), mail::to("offers@mail.test").len()), ("mail_not_encrypted", 0));
}

#[tokio::test]
async fn what_a_failure_means_depends_on_how_far_the_mail_was() {
    for (to, code, is_transient, after) in [
        ("unknown@mail.test", "mail_refused", false, AfterError::NoEffect),
        ("later@mail.test", "source_busy", true, AfterError::NoEffect),
        ("full@mail.test", "mail_refused", false, AfterError::NoEffect),
        ("gone@mail.test", "source_broke", false, AfterError::Unknown),
    ] {
        let error = mailer().send(&plainly(), &mail_to(&["means@mail.test", to]), PATIENCE).await.unwrap_err();
        assert_eq!((error.code(), error.was_not_taken_up(), error.after()), (code, is_transient, after), "{to}: {error}");
    }
    let error = mailer().send(&plainly(), &mail_to(&["silent@mail.test"]), Duration::from_millis(500)).await.unwrap_err();
    assert_eq!((error.code(), error.after()), ("source_timed_out", AfterError::Unknown));
    assert!(mail::to("means@mail.test").is_empty(), "a mail goes to all of its recipients or to none");
    let nobody = "smtp://127.0.0.1:1?tls=none".parse::<MailServer>().unwrap();
    let mailer = Mailer::new(vec![nobody.clone()], None).unwrap();
    let error = mailer.send(&Route { server: nobody, login: None }, &mail_to(&["x@mail.test"]), PATIENCE).await.unwrap_err();
    assert_eq!((error.code(), error.was_not_taken_up()), ("source_unreachable", true));
}

#[tokio::test]
async fn a_server_that_says_nothing_at_all_is_left_in_time() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server: MailServer = format!("smtp://{}?tls=none", listener.local_addr().unwrap()).parse().unwrap();
    let mailer = Mailer::new(vec![server.clone()], None).unwrap();
    let error = mailer.send(&Route { server, login: None }, &mail_to(&["x@mail.test"]), Duration::from_millis(300)).await.unwrap_err();
    assert_eq!((error.code(), error.after()), ("source_unreachable", AfterError::NoEffect));
}

#[tokio::test]
async fn only_servers_that_an_operator_has_named_are_asked() {
    let error = Mailer::default().send(&plainly(), &mail_to(&["named@mail.test"]), PATIENCE).await.unwrap_err();
    assert_eq!((error.code(), mail::to("named@mail.test").len()), ("host_not_allowed", 0));
    assert!(error.to_string().contains("`email.allowed_servers`"), "{error}");
    assert!(Mailer::new(Vec::new(), Some("no certificate")).is_err());
}
