//! Tests of `notify` with a notifier that remembers notifications, or fails as told.

use super::*;
use crate::builtin::tests::{call, context, preview, promised};
use countersign_core::InvocationId;
use std::sync::Mutex;
use testkit::clock::START;
use testkit::{FixedClock, SeededRandom};

#[derive(Default)]
struct Remembering {
    delivered: Mutex<Vec<Notification>>,
    failure: Option<ledger::Error>,
}

impl Notifier for Remembering {
    fn deliver<'a>(&'a self, notification: &'a Notification) -> Future<'a, Result<(), ledger::Error>> {
        Box::pin(async move {
            self.delivered.lock().unwrap().push(notification.clone());
            self.failure.clone().map_or(Ok(()), Err)
        })
    }

    fn find_delivered<'a>(
        &'a self,
        org: &'a OrgId,
        invocation: &'a InvocationId,
    ) -> Future<'a, Result<Option<NotificationId>, ledger::Error>> {
        Box::pin(async move {
            let delivered = self.delivered.lock().unwrap();
            let found = delivered.iter().find(|one| (&one.org, one.invocation.as_ref()) == (org, Some(invocation)));
            self.failure.clone().map_or(Ok(found.map(|one| one.id.clone())), Err)
        })
    }
}

fn notify(failure: Option<ledger::Error>) -> (Arc<Remembering>, Notify) {
    let notifier = Arc::new(Remembering { failure, ..Remembering::default() });
    let notify = Notify::new(notifier.clone(), Arc::new(FixedClock::new()), Arc::new(SeededRandom::new(1))).unwrap();
    (notifier, notify)
}

#[tokio::test]
async fn a_notification_carries_the_words_and_where_they_came_from() {
    let (notifier, notify) = notify(None);
    let context = context();
    let action = ActionId::parse("notify.send").unwrap();
    let output = notify.call(&context, &action, &json!({ "title": "Done", "body": "<b>All</b> of it" })).await.unwrap();
    let delivered = notifier.delivered.lock().unwrap().clone();
    let expected = Notification {
        id: delivered[0].id.clone(),
        org: context.org,
        space: context.space,
        invocation: Some(context.invocation),
        title: "Done".to_owned(),
        body: "<b>All</b> of it".to_owned(),
        created_at: START,
    };
    assert_eq!(delivered, [expected]);
    assert_eq!(output.value, json!({ "notification_id": delivered[0].id }));
}

#[tokio::test]
async fn ids_differ_from_one_notification_to_the_next() {
    let (_, notify) = notify(None);
    let first = call(&notify, "notify.send", json!({ "title": "a", "body": "b" })).await.unwrap();
    let second = call(&notify, "notify.send", json!({ "title": "a", "body": "b" })).await.unwrap();
    assert_ne!(first.value, second.value);
}

#[tokio::test]
async fn empty_and_endless_words_are_refused_and_nobody_is_notified() {
    let (notifier, notify) = notify(None);
    for (title, body) in [
        (String::new(), "b".to_owned()),
        ("a".to_owned(), " \n".to_owned()),
        ("é".repeat(NOTIFICATION_TITLE_CHARS_MAX + 1), "b".to_owned()),
        ("a".to_owned(), "b".repeat(NOTIFICATION_BODY_CHARS_MAX + 1)),
    ] {
        let error = call(&notify, "notify.send", json!({ "title": title, "body": body })).await.unwrap_err();
        assert_eq!(error.code(), "invalid_params");
    }
    assert!(notifier.delivered.lock().unwrap().is_empty());
    call(&notify, "notify.send", json!({ "title": "é".repeat(NOTIFICATION_TITLE_CHARS_MAX), "body": "b" })).await.unwrap();
}

#[tokio::test]
async fn what_the_store_says_decides_whether_it_may_have_happened() {
    let message = || "disk on fire".to_owned();
    for (failure, code, transient, after) in [
        (ledger::Error::Unavailable { message: message() }, "source_unreachable", true, countersign_core::source::AfterError::NoEffect),
        (ledger::Error::CommitUnknown { message: message() }, "source_broke", false, countersign_core::source::AfterError::Unknown),
        (ledger::Error::Corrupt { message: message() }, "notification_refused", false, countersign_core::source::AfterError::NoEffect),
    ] {
        let (_, notify) = notify(Some(failure));
        let error = call(&notify, "notify.send", json!({ "title": "a", "body": "b" })).await.unwrap_err();
        assert_eq!((error.code(), error.was_not_taken_up(), error.after()), (code, transient, after));
    }
}

#[tokio::test]
async fn a_notification_cannot_be_previewed() {
    let (notifier, notify) = notify(None);
    let error = preview(&notify, "notify.send", json!({ "title": "a", "body": "b" })).await.unwrap_err();
    assert_eq!(error.code(), "dry_run_unsupported");
    assert!(notifier.delivered.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_became_of_a_notification_is_told_by_its_row() {
    let (action, params) = (ActionId::parse("notify.send").unwrap(), json!({ "title": "a", "body": "b" }));
    let context = context();
    let (_, working) = notify(None);
    assert_eq!(working.reconcile(&context, &action, &params).await, Ok(Reconciled::DidNot));
    let sent = working.call(&context, &action, &params).await.unwrap();
    assert_eq!(working.reconcile(&context, &action, &params).await, Ok(Reconciled::Happened(sent)));
    let (_, away) = notify(Some(ledger::Error::Unavailable { message: "away".to_owned() }));
    assert!(away.reconcile(&context, &action, &params).await.is_err(), "nothing is concluded");
}

#[test]
fn its_actions_and_their_tiers_are_these() {
    assert_eq!(promised(&BUILTIN), ["notify.send R3 NotReversible NotRepeatable Unsupported"]);
}
