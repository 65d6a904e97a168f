//! Opening a database: a new one, an existing one, by two stores at once, and databases that this binary must not touch.

use crate::harness::{Home, Kind, World, everything, on_both_engines};
use countersign_core::call::Claimed;
use countersign_core::ports::invocations::Row;
use countersign_core::ports::{Invocations as _, Rules as _};
use countersign_core::{SpaceId, Status};
use store::{Error, InvocationFilter, SpaceChange};
use testkit::{FixedClock, SeededRandom};

on_both_engines!(
    a_second_opening_changes_nothing,
    a_changed_migration_is_refused_with_its_sentence,
    a_newer_database_is_refused_with_its_sentence,
    a_space_from_before_asks_for_no_consent_until_somebody_says_so,
    a_call_from_before_is_found_by_the_name_that_its_caller_gave_it,
);

async fn a_second_opening_changes_nothing(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    world.clock.advance_seconds(60);
    let mut before = Vec::new();
    world.store.backup(&mut before).await.unwrap();
    let again = world.another_store().await;
    let mut after = Vec::new();
    again.backup(&mut after).await.unwrap();
    assert_eq!(String::from_utf8(after), String::from_utf8(before));
    tenant.read_once(&again).await;
    world.verify(&tenant).await;
}

async fn refused(home: &Home) -> Error {
    home.open(&FixedClock::new(), &SeededRandom::new(2)).await.map(|_| ()).unwrap_err()
}

async fn a_changed_migration_is_refused_with_its_sentence(kind: Kind) {
    let world = World::new(kind).await;
    world.home.tamper("UPDATE schema_migrations SET checksum = 'other' WHERE version = 1").await;
    let message = "migration 1 was applied from another text than this binary's".into();
    assert_eq!(refused(&world.home).await, Error::Corrupt { message });
}

async fn a_newer_database_is_refused_with_its_sentence(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    world.home.tamper("INSERT INTO schema_migrations (version, checksum, at) VALUES (99, 'x', 0)").await;
    let message = "the database is at schema version 99, which is newer than this binary; run the newer one".into();
    assert_eq!(refused(&world.home).await, Error::Corrupt { message });
    world.home.tamper("DELETE FROM schema_migrations WHERE version = 99").await;
    world.verify(&tenant).await;
}

async fn a_space_from_before_asks_for_no_consent_until_somebody_says_so(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    let asks = async |store: &store::Store, space: &SpaceId| store.find_space(&tenant.org, space).await.unwrap().unwrap().asks_consent;
    assert!(asks(&world.store, &tenant.space).await, "a new space asks");
    // As it was before the third migration.
    world
        .home
        .tamper(
            "ALTER TABLE spaces DROP COLUMN consent; DROP TABLE trigger_payloads; DROP TABLE allowed; DROP INDEX invocations_by_action_id;
             ALTER TABLE invocations DROP COLUMN action_id; DELETE FROM schema_migrations WHERE version >= 3",
        )
        .await;
    world.clock.advance_seconds(60);
    let migrated = world.another_store().await;
    assert!(!asks(&migrated, &tenant.space).await, "it keeps what it had");
    assert_eq!(migrated.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
    let by = tenant.person();
    let new = migrated.create_space(&tenant.org, "new", &by).await.unwrap().unwrap();
    assert!(asks(&migrated, &new.id).await);
    let asked = SpaceChange { asks_consent: Some(true), ..SpaceChange::default() };
    migrated.change_space(&tenant.org, &tenant.space, asked, &by).await.unwrap().unwrap();
    assert!(asks(&migrated, &tenant.space).await);
    assert_eq!(migrated.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
}

async fn a_call_from_before_is_found_by_the_name_that_its_caller_gave_it(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    tenant.read_once(&world.store).await;
    let mut named = tenant.reading();
    named.call.claimed = Some(Claimed { action_id: Some("act \"7\"".into()), ..Claimed::default() });
    world.store.finish(tenant.finish(&named, Row::Insert, Status::Succeeded).into()).await.unwrap();
    // As it was before the fifth migration.
    world
        .home
        .tamper(
            "DROP TABLE allowed; DROP INDEX invocations_by_action_id; ALTER TABLE invocations DROP COLUMN action_id;
             DELETE FROM schema_migrations WHERE version >= 5",
        )
        .await;
    let migrated = world.another_store().await;
    let filter = InvocationFilter { action_id: Some("act \"7\"".into()), ..InvocationFilter::default() };
    let found = migrated.list_invocations(&tenant.org, &filter, &everything()).await.unwrap().items;
    assert_eq!(found.into_iter().map(|call| call.id).collect::<Vec<_>>(), [named.id]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_stores_open_an_empty_postgresql_database_at_once() {
    let home = Home::empty_on_postgres().await;
    let (clock, random) = (FixedClock::new(), SeededRandom::new(3));
    let open = || home.open(&clock, &random);
    let (one, two, three, four) = tokio::join!(open(), open(), open(), open());
    let token = one.as_ref().unwrap().draw_owner_token();
    one.unwrap().create_org("acme", "owner", token).await.unwrap();
    for store in [two, three, four] {
        let store = store.unwrap();
        assert_eq!(store.list_orgs().await.unwrap().len(), 1);
        assert_eq!(store.check().await, Ok(()));
    }
}

#[tokio::test]
async fn what_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, random) = (FixedClock::new(), SeededRandom::default());
    let open = |engine| crate::harness::open(engine, &clock, &random);
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "these are not the pages of a database, and there are more than a hundred bytes of them, as a header has")
        .unwrap();
    let refusal = open(store::Engine::Sqlite { path: path.clone() }).await.map(|_| ()).unwrap_err();
    assert!(matches!(refusal, Error::Corrupt { .. }), "{refusal}");
    assert!(std::fs::read_to_string(path).unwrap().starts_with("these are"), "and left as it was");
    let nowhere = open(store::Engine::Sqlite { path: folder.path().join("no/such/folder.db") }).await.map(|_| ()).unwrap_err();
    assert!(matches!(nowhere, Error::Unavailable { .. }), "{nowhere}");
    for (url, is_away) in [("not a url", false), ("postgres://nobody:secret@127.0.0.1:1/none", true)] {
        let refusal = open(store::Engine::Postgres { url: url.into() }).await.map(|_| ()).unwrap_err();
        assert_eq!(refusal.is_transient(), is_away, "{refusal}");
        assert!(!refusal.to_string().contains("secret"), "{refusal}");
    }
}
