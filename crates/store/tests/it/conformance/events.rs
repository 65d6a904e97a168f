//! The event feed: events come in order and without gaps, and a waiting reader is woken.

use crate::harness::{Kind, TOLD, World, on_both_engines};
use countersign_core::limits::EVENT_WAIT_SECONDS;
use countersign_core::ports::EventFeed;
use futures_util::FutureExt;
use std::pin::pin;
use std::time::Duration;

on_both_engines!(
    events_of_an_org_are_read_in_order_after_a_position,
    events_of_each_org_are_numbered_without_gaps,
    a_reader_who_waits_is_woken_by_the_next_event_of_its_org,
);

async fn events_of_an_org_are_read_in_order_after_a_position(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let mut expected = Vec::new();
    for _ in 0..3 {
        expected.push((tenant.pending(store).await.id.to_string(), None));
        let read = tenant.read_once(store).await;
        expected.push((read.id.to_string(), read.receipt.map(|receipt| receipt.id)));
    }
    let (mut listed, mut after) = (Vec::new(), TOLD);
    loop {
        let events = store.list_events_after(&tenant.org, after, 4).await.unwrap();
        let Some(last) = events.last() else { break };
        assert!(events.len() <= 4);
        after = last.seq;
        listed.extend(events);
    }
    assert_eq!(listed.into_iter().map(|event| (event.key, event.receipt)).collect::<Vec<_>>(), expected);
}

async fn events_of_each_org_are_numbered_without_gaps(kind: Kind) {
    let world = World::new(kind).await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let calls = (0..20).map(|n| if n % 2 == 0 { &ours } else { &theirs }).map(|tenant| tenant.read_once(&world.store));
    futures_util::future::join_all(calls).await;
    for tenant in [ours, theirs] {
        let events = world.store.list_events_after(&tenant.org, 0, 100).await.unwrap();
        assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=TOLD + 10).collect::<Vec<_>>());
    }
}

async fn a_reader_who_waits_is_woken_by_the_next_event_of_its_org(kind: Kind) {
    let world = World::new(kind).await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    ours.read_once(&world.store).await;
    // On PostgreSQL another server writes the events.
    let writer = match kind {
        Kind::Sqlite => world.store.clone(),
        Kind::Postgres => world.another_store().await,
    };
    let mut waiting = pin!(world.store.wait_for_event(&ours.org, TOLD + 1));
    assert!(waiting.as_mut().now_or_never().is_none(), "the first event is not after itself");
    theirs.read_once(&writer).await;
    theirs.read_once(&writer).await;
    assert!(waiting.as_mut().now_or_never().is_none(), "another org's events wake nobody here");
    ours.read_once(&writer).await;
    let woken = tokio::time::timeout(Duration::from_secs(EVENT_WAIT_SECONDS - 1), waiting).await;
    assert!(woken.is_ok(), "it was not woken, and would have read again only when its time was up");
    assert_eq!(world.store.list_events_after(&ours.org, TOLD + 1, 10).await.unwrap().len(), 1);
    // A reader that asks after the event was committed does not wait for another one.
    let late = tokio::time::timeout(Duration::from_secs(EVENT_WAIT_SECONDS - 1), world.store.wait_for_event(&ours.org, TOLD + 1)).await;
    assert!(late.is_ok());
}
