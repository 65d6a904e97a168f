//! Backup and restore: everything from one moment, or nothing.

use crate::harness::{Home, Kind, TOLD, World, on_both_engines, verify};
use countersign_core::keyring::Keyring;
use countersign_core::ledger::Row;
use countersign_core::ports::{EventFeed, Invocations};
use countersign_core::{Secret, Status};
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Moved, RestoreError, Store};
use testkit::{FixedClock, SeededRandom};

on_both_engines!(
    a_backup_taken_while_sixteen_write_is_of_one_moment,
    a_restored_store_has_every_row_and_goes_on,
    what_is_not_a_whole_backup_restores_nothing,
    only_an_empty_store_is_restored_into,
);

async fn empty(kind: Kind) -> (Home, Store) {
    let home = Home::new(kind).await;
    // The random seed must differ from the origin's, or the store would draw the same ids again.
    let store = home.open(&FixedClock::new(), &SeededRandom::new(77)).await.unwrap();
    (home, store)
}

async fn backup(store: &Store) -> Vec<u8> {
    let mut file = Vec::new();
    let Moved { rows } = store.backup(&mut file).await.unwrap();
    assert_eq!(rows as usize, file.split(|byte| *byte == b'\n').count() - 3, "every line between the first and the last is a row");
    file
}

const fn other(kind: Kind) -> Kind {
    match kind {
        Kind::Sqlite => Kind::Postgres,
        Kind::Postgres => Kind::Sqlite,
    }
}

async fn a_backup_taken_while_sixteen_write_is_of_one_moment(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..16)
        .map(|_| {
            let (store, tenant, done) = (world.store.clone(), tenant.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let mut written = 0;
                while !done.load(Ordering::Relaxed) {
                    let running = tenant.running(&store).await;
                    store.finish(tenant.finish(&running, Row::From(Status::Running), Status::Succeeded).into()).await.unwrap();
                    written += 1;
                }
                written
            })
        })
        .collect();
    let (mut backups, mut size) = (Vec::new(), 0);
    while backups.len() < 3 {
        // Back up only once the log holds enough more for a backup to catch it half-written.
        if world.store.log_size(&tenant.org).await.unwrap() > size + 50 {
            backups.push(backup(&world.store).await);
            size = world.store.log_size(&tenant.org).await.unwrap();
        }
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::Relaxed);
    let mut written = 0;
    for writer in writers {
        written += writer.await.unwrap();
    }
    assert_eq!(world.verify(&tenant).await.receipts, written);
    let mut sizes = Vec::new();
    for file in backups {
        let (_home, restored) = empty(other(kind)).await;
        restored.restore(Cursor::new(file)).await.unwrap();
        let report = verify(&restored, &tenant.org).await;
        sizes.push(report.entries);
        let events = restored.list_events_after(&tenant.org, TOLD, 1_000).await.unwrap().len();
        assert_eq!(events as u64, report.receipts.min(1_000), "every receipt came with its event");
        let running = restored.list_in_status(&tenant.org, Status::Running, None).await.unwrap().len();
        assert_eq!(running as u64, report.open_intents, "every open row came with its intent");
    }
    assert!(sizes.is_sorted_by(|one, next| one < next), "{sizes:?}");
}

async fn a_restored_store_has_every_row_and_goes_on(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    let key = world.store.space_key(&tenant.org, &tenant.space).await.unwrap();
    let sealed = key.seal("params", b"secret");
    tenant.read_once(&world.store).await;
    let pending = tenant.pending(&world.store).await;
    world.store.rotate_keys(&tenant.org, store::OldKeys::Revoked).await.unwrap();
    world.store.checkpoint(&tenant.org).await.unwrap();
    let file = backup(&world.store).await;
    for target in [kind, other(kind)] {
        let (_home, restored) = empty(target).await;
        restored.restore(Cursor::new(file.clone())).await.unwrap();
        assert_eq!(backup(&restored).await, file, "a backup of what was restored is the same file");
        assert!(restored.authenticate(&tenant.owner_token).await.unwrap().is_ok());
        let key = restored.space_key(&tenant.org, &tenant.space).await.unwrap();
        assert_eq!(key.open("params", &sealed).unwrap(), b"secret");
        restored.approve(tenant.approve(&pending)).await.unwrap();
        tenant.read_once(&restored).await;
        let events = restored.list_events_after(&tenant.org, TOLD, 1_000).await.unwrap();
        assert!(events.is_sorted_by(|one, next| one.seq < next.seq));
        assert_eq!(events.len(), 4, "new events come after the restored ones");
        assert_eq!(verify(&restored, &tenant.org).await.receipts, 2);
    }
}

async fn what_is_not_a_whole_backup_restores_nothing(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    tenant.read_once(&world.store).await;
    let file = String::from_utf8(backup(&world.store).await).unwrap();
    let lines: Vec<_> = file.lines().collect();
    let joined = |lines: &[&str]| lines.join("\n") + "\n";
    let (first, last) = (lines[0], lines[lines.len() - 1]);
    let without_one = joined(&[&lines[..3], &lines[4..]].concat());
    let (_home, store) = empty(kind).await;
    let check = async |text: String, expected: fn(&RestoreError) -> bool| {
        let refusal = store.restore(Cursor::new(text.into_bytes())).await.unwrap_err();
        assert!(expected(&refusal), "{refusal:?}");
        assert_eq!(store.list_orgs().await.unwrap(), []);
    };
    let damaged = |error: &RestoreError| matches!(error, RestoreError::Damaged { .. });
    check(String::new(), damaged).await;
    check(joined(&lines[..lines.len() - 1]), damaged).await;
    check(without_one, damaged).await;
    check(file.replace("agent of acme", "agent of evil"), damaged).await;
    check(file[..file.len() / 2].to_owned(), |error| matches!(error, RestoreError::Malformed { .. } | RestoreError::Damaged { .. })).await;
    check("not json\n".into(), |error| matches!(error, RestoreError::Malformed { line: 1, .. })).await;
    let unknown = joined(&[first, r#"{"table":"riddles","row":[]}"#, last]);
    check(unknown, |error| matches!(error, RestoreError::Malformed { line: 2, .. })).await;
    let short = joined(&[first, r#"{"table":"orgs","row":["x"]}"#, last]);
    check(short, |error| matches!(error, RestoreError::Malformed { line: 2, .. })).await;
    let ours = format!("\"schema_version\":{}", Store::schema_version());
    let newer = file.replacen(&ours, "\"schema_version\":99", 1);
    check(newer, |error| matches!(error, RestoreError::OtherVersion { found: 99, .. })).await;
    // After all these refusals the whole file can still be restored.
    store.restore(Cursor::new(file.into_bytes())).await.unwrap();
    assert_eq!(verify(&store, &tenant.org).await.receipts, 1);
}

async fn only_an_empty_store_is_restored_into(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    let file = backup(&world.store).await;
    let refusal = world.store.restore(Cursor::new(file)).await.unwrap_err();
    assert!(matches!(refusal, RestoreError::NotEmpty), "{refusal}");
    world.verify(&tenant).await;
}

/// A disk that fills up while the backup is written.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_backup_that_cannot_be_written_says_so() {
    let world = World::new(Kind::Sqlite).await;
    world.store.create_org("acme", "owner", Secret::new("token".into())).await.unwrap();
    let refusal = world.store.backup(&mut Full(500)).await.unwrap_err();
    assert!(refusal.to_string().contains("the backup file could not be written"), "{refusal}");
    assert_eq!(world.store.check().await, Ok(()));
}
