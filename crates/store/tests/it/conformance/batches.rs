//! Batches: opened once per key, saved by one server at a time, ended once with a receipt.

use crate::harness::{Kind, World, everything, on_both_engines};
use countersign_core::batch::BatchStatus;
use countersign_core::ledger::OpenedBatch;
use countersign_core::ports::Batches;
use countersign_core::{BatchId, Status, UserId};
use receipt::entry::Kind as EntryKind;
use store::{PageRequest, ReceiptFilter};

on_both_engines!(
    a_batch_is_kept_and_found,
    a_key_of_a_session_has_one_batch,
    who_has_not_seen_the_last_save_saves_nothing,
    a_batch_ends_once_with_its_receipt,
    the_receipt_of_a_batch_is_listed_with_the_others,
);

async fn a_batch_is_kept_and_found(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let new = tenant.new_batch(None);
    let OpenedBatch::New(batch) = Batches::open_batch(store, new.clone()).await.unwrap() else { panic!("it is new") };
    assert_eq!(store.find_batch(&tenant.org, &batch.id).await, Ok(Some(batch.clone())));
    assert_eq!(Batches::find_sealed_parts(store, &tenant.org, &batch.id).await, Ok(Some(new.sealed_parts)));
    assert_eq!(Batches::list_batches_in_status(store, &tenant.org, BatchStatus::Running).await, Ok(vec![batch.clone()]));
    assert_eq!(Batches::list_batches_in_status(store, &tenant.org, BatchStatus::Pending).await, Ok(vec![]));
    let second = tenant.new_batch(None);
    Batches::open_batch(store, second.clone()).await.unwrap();
    let listed = store.list_batches(&tenant.org, Some(&tenant.session.id), &Default::default(), &everything()).await.unwrap().items;
    assert_eq!(listed.len(), 2, "without a key nothing is the same");
    assert!(listed[0].id > listed[1].id, "newest first");
    assert_eq!(store.find_batch(&tenant.org, &tenant.draw(BatchId::new)).await, Ok(None));
}

async fn a_key_of_a_session_has_one_batch(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let first = tenant.new_batch(Some("order-7"));
    Batches::open_batch(store, first.clone()).await.unwrap();
    let again = Batches::open_batch(store, tenant.new_batch(Some("order-7"))).await.unwrap();
    assert!(matches!(again, OpenedBatch::Earlier(earlier) if earlier.id == first.batch.id));
    let other = Batches::open_batch(store, tenant.new_batch(Some("order-8"))).await.unwrap();
    assert!(matches!(other, OpenedBatch::New(_)));
}

async fn who_has_not_seen_the_last_save_saves_nothing(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let OpenedBatch::New(mut batch) = Batches::open_batch(store, tenant.new_batch(None)).await.unwrap() else { panic!("it is new") };
    let stale = batch.clone();
    batch.status = BatchStatus::Pending;
    batch.parts[0].status = Some(Status::Pending);
    world.clock.advance_seconds(5);
    let saved = Batches::save_batch(store, batch.clone()).await.unwrap().unwrap();
    assert!(saved.version > batch.version && saved.touched_at > batch.touched_at);
    assert_eq!(store.find_batch(&tenant.org, &batch.id).await, Ok(Some(saved.clone())));
    assert_eq!(Batches::save_batch(store, stale.clone()).await, Ok(None));
    assert_eq!(Batches::end_batch(store, tenant.end_batch(stale)).await, Ok(None));
    assert_eq!(store.find_batch(&tenant.org, &batch.id).await, Ok(Some(saved)));
}

async fn a_batch_ends_once_with_its_receipt(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let OpenedBatch::New(batch) = Batches::open_batch(store, tenant.new_batch(None)).await.unwrap() else { panic!("it is new") };
    let end = tenant.end_batch(batch.clone());
    let ended = Batches::end_batch(store, end.clone()).await.unwrap().unwrap();
    let receipt = ended.receipt.clone().unwrap();
    assert_eq!(receipt.id, end.id);
    let entry = store.find_receipt(&tenant.org, &receipt.id).await.unwrap().unwrap();
    assert_eq!((entry.kind, entry.seq, entry.invocation), (EntryKind::Batch, receipt.seq, None));
    assert_eq!(store.find_batch(&tenant.org, &batch.id).await, Ok(Some(ended.clone())));
    assert_eq!(Batches::find_sealed_parts(store, &tenant.org, &batch.id).await, Ok(None), "what was asked for is gone");
    assert_eq!(Batches::end_batch(store, tenant.end_batch(ended.clone())).await, Ok(None));
    assert_eq!(Batches::save_batch(store, ended).await, Ok(None), "what has ended stays as it is");
    world.verify(&tenant).await;
}

async fn the_receipt_of_a_batch_is_listed_with_the_others(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let read = tenant.read_once(store).await;
    let OpenedBatch::New(batch) = Batches::open_batch(store, tenant.new_batch(None)).await.unwrap() else { panic!("it is new") };
    let ended = Batches::end_batch(store, tenant.end_batch(batch)).await.unwrap().unwrap();
    let (of_call, of_batch) = (read.receipt.unwrap().id.to_string(), ended.receipt.unwrap().id.to_string());
    let both = vec![of_batch, of_call.clone()];
    let nobody = tenant.draw(UserId::new);
    for (filter, expected) in [
        (ReceiptFilter::default(), both.clone()),
        (ReceiptFilter { session: Some(ended.session.clone()), ..ReceiptFilter::default() }, both),
        (ReceiptFilter { action: Some(read.action.clone()), ..ReceiptFilter::default() }, vec![of_call.clone()]),
        (ReceiptFilter { action: Some(read.action), session: Some(ended.session), ..ReceiptFilter::default() }, vec![of_call]),
        (ReceiptFilter { user: Some(nobody), ..ReceiptFilter::default() }, Vec::new()),
    ] {
        let listed = store.list_receipts(&tenant.org, &filter, &PageRequest { limit: 10, after: None }).await.unwrap();
        assert_eq!(listed.items.into_iter().map(|entry| entry.id).collect::<Vec<_>>(), expected, "{filter:?}");
    }
}
