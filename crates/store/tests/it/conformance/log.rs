//! The audit log: receipts in order, checkpoints when they are due, a proof for every entry, and a key rotation in the middle.

use crate::harness::{BEGUN, Kind, Tenant, World, everything, on_both_engines, verify};
use countersign_core::{OrgId, ReceiptId};
use receipt::checkpoint::Checkpoint;
use receipt::entry::Kind as EntryKind;
use receipt::key::PublicKey;
use receipt::tree;
use std::collections::BTreeSet;
use store::{Error, PageRequest, Purpose, Store};

on_both_engines!(
    a_log_begins_with_its_keys,
    receipts_are_listed_newest_first_by_page,
    a_checkpoint_is_signed_on_demand_and_not_twice,
    a_checkpoint_is_signed_by_itself_every_256_entries,
    every_receipt_of_a_long_log_with_two_keys_is_proved,
    time_in_a_log_never_runs_backwards,
    an_export_ends_when_its_reader_goes_away,
);

/// Makes many reads at once, so that they share a few commits.
async fn read_many(store: &Store, tenant: &Tenant, count: usize) {
    let reads = (0..count).map(|_| {
        let (store, tenant) = (store.clone(), tenant.clone());
        tokio::spawn(async move { tenant.read_once(&store).await })
    });
    for read in reads.collect::<Vec<_>>() {
        read.await.unwrap();
    }
}

fn checkpoint(note: &str) -> Checkpoint {
    Checkpoint::parse(note).unwrap().checkpoint
}

async fn key_of(store: &Store, org: &OrgId, purpose: Purpose, index: usize) -> PublicKey {
    let keys = store.list_log_keys(org).await.unwrap();
    let key = keys.iter().filter(|key| key.purpose == purpose).nth(index).unwrap();
    PublicKey::from_base64(&key.public).unwrap()
}

async fn a_log_begins_with_its_keys(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    assert_eq!(store.log_size(&tenant.org).await, Ok(BEGUN));
    let keys = store.list_log_keys(&tenant.org).await.unwrap();
    let purposes: Vec<_> = keys.iter().map(|key| (key.purpose, key.starts_at_seq, key.retired_at)).collect();
    assert_eq!(purposes, [(Purpose::Receipt, 0, None), (Purpose::Checkpoint, 0, None)]);
    assert_ne!(keys[0].public, keys[1].public);
    assert_eq!(world.verify(&tenant).await.entries, BEGUN);
    let nobody = tenant.draw(OrgId::new);
    assert_eq!(store.log_size(&nobody).await, Ok(0));
    assert_eq!(store.checkpoint(&nobody).await, Ok(None));
    assert_eq!(store.latest_checkpoint(&nobody).await, Ok(None));
}

async fn receipts_are_listed_newest_first_by_page(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(tenant.read_once(store).await.receipt.unwrap());
        tenant.running(store).await;
    }
    all.reverse();
    let first = store.list_receipts(&tenant.org, &store::ReceiptFilter::default(), &PageRequest { limit: 3, after: None }).await.unwrap();
    let rest = store
        .list_receipts(&tenant.org, &store::ReceiptFilter::default(), &PageRequest { limit: 3, after: first.next.clone() })
        .await
        .unwrap();
    assert_eq!(rest.next, None);
    let listed: Vec<_> = first.items.iter().chain(&rest.items).map(|entry| (entry.id.clone(), entry.seq, entry.kind)).collect();
    let expected: Vec<_> = all.iter().map(|receipt| (receipt.id.to_string(), receipt.seq, EntryKind::Receipt)).collect();
    assert_eq!(listed, expected, "receipts only, not intents");
    let found = store.find_receipt(&tenant.org, &all[0].id).await.unwrap().unwrap();
    assert_eq!(found, first.items[0]);
    let key = key_of(store, &tenant.org, Purpose::Receipt, 0).await;
    assert_eq!(found.envelope().open(&[key]), Ok(found.payload));
    assert_eq!(store.find_receipt(&tenant.org, &tenant.draw(ReceiptId::new)).await, Ok(None));
    assert_eq!(store.prove_receipt(&tenant.org, &tenant.draw(ReceiptId::new)).await, Ok(None));
}

async fn a_checkpoint_is_signed_on_demand_and_not_twice(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    assert_eq!(store.latest_checkpoint(&tenant.org).await, Ok(None));
    let first = store.checkpoint(&tenant.org).await.unwrap().unwrap();
    assert_eq!(checkpoint(&first).size, BEGUN);
    Checkpoint::parse(&first).unwrap().verify(&key_of(store, &tenant.org, Purpose::Checkpoint, 0).await).unwrap();
    world.clock.advance_seconds(5);
    assert_eq!(store.checkpoint(&tenant.org).await, Ok(Some(first.clone())));
    tenant.read_once(store).await;
    assert_eq!(store.latest_checkpoint(&tenant.org).await, Ok(Some(first)));
    let asked: Vec<_> = (0..8)
        .map(|_| {
            let (store, org) = (store.clone(), tenant.org.clone());
            tokio::spawn(async move { store.checkpoint(&org).await.unwrap().unwrap() })
        })
        .collect();
    let mut notes = BTreeSet::new();
    for note in asked {
        notes.insert(note.await.unwrap());
    }
    assert_eq!(notes.len(), 1, "whoever asks at once gets the same one: {notes:?}");
    assert_eq!(world.verify(&tenant).await.checkpoints, 2);
}

async fn a_checkpoint_is_signed_by_itself_every_256_entries(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    read_many(store, &tenant, 255 - BEGUN as usize).await;
    assert_eq!(store.latest_checkpoint(&tenant.org).await, Ok(None), "255 entries are not enough");
    tenant.read_once(store).await;
    let first = store.latest_checkpoint(&tenant.org).await.unwrap().unwrap();
    assert_eq!(checkpoint(&first).size, 256);
    tenant.read_once(store).await;
    assert_eq!(store.latest_checkpoint(&tenant.org).await, Ok(Some(first)));
    read_many(store, &tenant, 255).await;
    let second = store.latest_checkpoint(&tenant.org).await.unwrap().unwrap();
    assert!(checkpoint(&second).size >= 512, "{second}");
    world.verify(&tenant).await;
}

async fn every_receipt_of_a_long_log_with_two_keys_is_proved(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    read_many(store, &tenant, 300).await;
    store.rotate_keys(&tenant.org, store::OldKeys::Retired).await.unwrap();
    read_many(store, &tenant, 330).await;
    // The entry that names the new keys is after the first reads.
    let (starts_at, all) = (BEGUN + 301, BEGUN + 631);
    assert_eq!(store.log_size(&tenant.org).await, Ok(all));

    let keys = store.list_log_keys(&tenant.org).await.unwrap();
    let known: Vec<_> = keys.iter().map(|key| (key.purpose, key.starts_at_seq, key.retired_at.is_some())).collect();
    assert_eq!(
        known,
        [
            (Purpose::Receipt, 0, true),
            (Purpose::Checkpoint, 0, true),
            (Purpose::Receipt, starts_at, false),
            (Purpose::Checkpoint, starts_at, false)
        ]
    );
    let newest = key_of(store, &tenant.org, Purpose::Checkpoint, 1).await;
    let receipts = store.list_receipts(&tenant.org, &store::ReceiptFilter::default(), &everything()).await.unwrap().items;
    assert_eq!(receipts.len(), 630);
    for entry in &receipts {
        let signer = if entry.seq < starts_at { &keys[0] } else { &keys[2] };
        assert_eq!(entry.key_id, signer.key_id, "seq {}", entry.seq);
    }
    // On SQLite, where a read is a function call, all entries; on PostgreSQL every seventh, and the edges of the tiles.
    let asked = receipts.iter().filter(|entry| kind == Kind::Sqlite || entry.seq % 7 == 0 || [255, 256, 511, 512].contains(&entry.seq));
    for entry in asked {
        let id = ReceiptId::parse(&entry.id).unwrap();
        let proof = store.prove_receipt(&tenant.org, &id).await.unwrap().unwrap();
        let signed = Checkpoint::parse(&proof.checkpoint).unwrap();
        signed.verify(&newest).unwrap();
        let Checkpoint { size, root, .. } = signed.checkpoint;
        assert_eq!((size, &proof.entry), (all, entry));
        let leaf = tree::leaf(&proof.entry.payload);
        assert_eq!(tree::verify_inclusion(&leaf, entry.seq, size, &proof.hashes, &root), Ok(()), "seq {}", entry.seq);
    }
    let report = world.verify(&tenant).await;
    assert_eq!((report.entries, report.receipts), (all, 630));
    // A store opened later continues the same log.
    let again = world.another_store().await;
    tenant.read_once(&again).await;
    assert_eq!(verify(&again, &tenant.org).await.entries, all + 1);
}

async fn time_in_a_log_never_runs_backwards(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    world.clock.advance_seconds(3_600);
    tenant.read_once(store).await;
    world.clock.set(testkit::clock::START);
    tenant.read_once(store).await;
    world.verify(&tenant).await;
}

async fn an_export_ends_when_its_reader_goes_away(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    read_many(store, &tenant, 200).await;
    for _ in 0..20 {
        let mut export = store.export(&tenant.org).await.unwrap();
        assert!(export.recv().await.unwrap().is_ok());
    }
    // The twenty exports that were not read to the end hold no connection.
    world.verify(&tenant).await;
    let nobody = tenant.draw(OrgId::new);
    let mut export = store.export(&nobody).await.unwrap();
    assert!(matches!(export.recv().await, Some(Err(Error::Corrupt { .. }))));
    assert_eq!(export.recv().await, None);
}
