//! What an org does not want to keep goes, its audit log stays whole, and nobody else loses anything.

use crate::harness::{Kind, Tenant, World, everything, on_both_engines};
use countersign_core::invocation::DIGEST;
use countersign_core::limits::DIGEST_AFTER_SECONDS;
use countersign_core::ports::{EventFeed, Invocations};
use countersign_core::retention::Retention;
use countersign_core::session::Keeps;
use serde_json::json;
use store::{Forgotten, InvocationFilter, ReceiptFilter, SpaceChange, Store};

on_both_engines!(
    old_calls_and_events_are_forgotten_and_the_log_still_verifies,
    retention_is_signed_into_the_log,
    a_space_that_keeps_digests_only_keeps_no_text_of_what_ended_an_hour_ago,
);

const DAY: u64 = 24 * 60 * 60;

fn retention() -> Retention {
    Retention { receipts_days: Some(180), events_days: Some(7), ..Retention::default() }
}

/// The calls, and the receipts that are found by their action.
async fn left(store: &Store, tenant: &Tenant) -> (usize, usize) {
    let calls = store.list_invocations(&tenant.org, &InvocationFilter::default(), &everything()).await.unwrap().items;
    let filter = ReceiptFilter { space: Some(tenant.space.clone()), ..ReceiptFilter::default() };
    (calls.len(), store.list_receipts(&tenant.org, &filter, &everything()).await.unwrap().items.len())
}

async fn old_calls_and_events_are_forgotten_and_the_log_still_verifies(kind: Kind) {
    let world = World::new(kind).await;
    let (store, ours, theirs) = (&world.store, world.tenant("ours").await, world.tenant("theirs").await);
    let old = ours.read_once(store).await;
    theirs.read_once(store).await;
    let pending = ours.pending(store).await;
    store.set_retention(&ours.org, retention(), &ours.person()).await.unwrap();
    assert_eq!(store.forget_old(&ours.org).await, Ok(Forgotten::default()), "nothing is old yet");
    world.clock.advance_seconds(8 * DAY);
    let events = store.newest_event(&ours.org).await.unwrap();
    let forgotten = store.forget_old(&ours.org).await.unwrap();
    assert_eq!(forgotten, Forgotten { invocations: 0, events: u64::try_from(events).unwrap() - 1 }, "the newest event stays");
    assert_eq!((store.oldest_event(&ours.org).await, store.newest_event(&ours.org).await), (Ok(events), Ok(events)));
    assert_eq!(left(store, &ours).await, (2, 1), "calls are kept for longer");
    world.verify(&ours).await;
    world.clock.advance_seconds(200 * DAY);
    let young = ours.read_once(store).await;
    assert_eq!(store.forget_old(&ours.org).await.unwrap().invocations, 1);
    assert_eq!(left(store, &ours).await, (2, 1));
    assert_eq!(store.find_invocation(&ours.org, &old.id).await, Ok(None));
    assert!(store.find_invocation(&ours.org, &pending.id).await.unwrap().is_some(), "what is open is never old");
    // The receipt itself stays, and so does its place in the log.
    let receipt = old.receipt.unwrap().id;
    assert!(store.find_receipt(&ours.org, &receipt).await.unwrap().is_some());
    assert!(store.prove_receipt(&ours.org, &receipt).await.unwrap().is_some());
    let listed = store.list_receipts(&ours.org, &ReceiptFilter::default(), &everything()).await.unwrap().items;
    assert_eq!(
        listed.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>(),
        [young.receipt.unwrap().id.to_string(), receipt.to_string()]
    );
    world.verify(&ours).await;
    assert_eq!(store.check_integrity(&ours.org).await.unwrap().differences, Vec::<String>::new());
    assert_eq!((left(store, &theirs).await, store.oldest_event(&theirs.org).await), ((1, 1), Ok(1)), "the other org keeps everything");
}

async fn retention_is_signed_into_the_log(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    assert_eq!(store.find_retention(&tenant.org).await, Ok(Retention::default()));
    assert_eq!(store.set_retention(&tenant.org, retention(), &tenant.person()).await, Ok(retention()));
    let size = store.log_size(&tenant.org).await.unwrap();
    store.set_retention(&tenant.org, retention(), &tenant.person()).await.unwrap();
    assert_eq!(store.log_size(&tenant.org).await, Ok(size), "what is set already is not set again");
    assert_eq!(store.find_retention(&tenant.org).await, Ok(retention()));
    world.verify(&tenant).await;
    assert_eq!(store.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
    world.home.tamper("UPDATE orgs SET retention = '{\"events_days\":1}'").await;
    let differences = store.check_integrity(&tenant.org).await.unwrap().differences;
    assert!(differences.len() == 1 && differences[0].starts_with("retention `in force`"), "{differences:?}");
}

async fn a_space_that_keeps_digests_only_keeps_no_text_of_what_ended_an_hour_ago(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (before, pending) = (tenant.read_once(store).await, tenant.pending(store).await);
    let change = SpaceChange { keeps: Some(Keeps::Digests), ..SpaceChange::default() };
    let space = store.change_space(&tenant.org, &tenant.space, change, &tenant.person()).await.unwrap().unwrap();
    assert_eq!(space.keeps, Keeps::Digests);
    assert_eq!(store.digest_ended(&tenant.org).await, Ok(0), "whoever waits for a result gets it");
    world.clock.advance_seconds(DIGEST_AFTER_SECONDS + 1);
    let young = tenant.read_once(store).await;
    assert_eq!(store.digest_ended(&tenant.org).await, Ok(1));
    assert_eq!(store.digest_ended(&tenant.org).await, Ok(0), "once is enough");
    let kept = store.find_invocation(&tenant.org, &before.id).await.unwrap().unwrap();
    assert_eq!(kept.call.params, json!({ DIGEST: before.digests.params }));
    let receipt = store.find_receipt(&tenant.org, &before.receipt.as_ref().unwrap().id).await.unwrap().unwrap();
    let body: serde_json::Value = serde_json::from_str(&receipt.payload).unwrap();
    let outputs = &body["body"]["outputs"]["digest"];
    assert_eq!(kept.result, (!outputs.is_null()).then(|| json!({ DIGEST: outputs })));
    assert_eq!((kept.status, kept.receipt), (before.status, before.receipt), "all else is as it was");
    for (call, what) in [(&young, "what ended just now"), (&pending, "what is open")] {
        let found = store.find_invocation(&tenant.org, &call.id).await.unwrap().unwrap();
        assert_eq!(found.call.params, call.call.params, "{what}");
    }
    world.clock.advance_seconds(DIGEST_AFTER_SECONDS + 1);
    assert_eq!(store.digest_ended(&tenant.org).await, Ok(1), "its turn comes");
    world.verify(&tenant).await;
    assert_eq!(store.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
}
