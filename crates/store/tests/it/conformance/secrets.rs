//! Secrets: a value opens in its own row only, leaves the store only through `resolve_secret`, and is in no file in the clear.

use crate::harness::{BEGUN, Home, Kind, TOLD, Tenant, World, everything, on_both_engines};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::Secret;
use countersign_core::ports::secrets::{SecretName, SecretValue};
use countersign_core::ports::{EventFeed, Invocations, Secrets};
use serde_json::Value;
use std::io::Cursor;
use store::limits::SECRET_USED_SECONDS;
use store::{DeletedSecret, Engine, NamedSecret, NewSecret, PageRequest, SetSecret, Store};
use testkit::{FixedClock, SeededRandom};

on_both_engines!(
    a_secret_is_set_rotated_and_deleted_and_the_log_says_so,
    a_value_replaces_the_version_that_the_caller_knows,
    a_value_is_in_no_column_no_event_and_no_backup_in_the_clear,
    a_value_opens_in_its_own_row_only,
    a_restored_store_opens_every_secret,
    the_last_use_is_noted_to_the_minute,
    secrets_are_listed_by_name_and_page,
);

const VALUE: &str = "correct-horse-battery-staple-7731";

fn name(text: &str) -> SecretName {
    SecretName::parse(text).unwrap()
}

fn new(text: &str, value: &str, replaces: Option<i64>) -> NewSecret {
    let value = SecretValue::new(Secret::new(value.to_owned())).unwrap();
    NewSecret { name: name(text), value, description: None, replaces }
}

async fn set(store: &Store, tenant: &Tenant, text: &str, value: &str) -> NamedSecret {
    let made = store.set_secret(&tenant.org, new(text, value, None), &tenant.person()).await.unwrap();
    let SetSecret::Created(secret) = made else { panic!("`{text}` is new") };
    secret
}

async fn value_of(store: &Store, tenant: &Tenant, text: &str) -> Option<String> {
    store.resolve_secret(&tenant.org, &name(text)).await.unwrap().map(|value| value.expose().to_owned())
}

async fn a_secret_is_set_rotated_and_deleted_and_the_log_says_so(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let first = NewSecret { description: Some("for builds".to_owned()), ..new("token", VALUE, None) };
    let made = store.set_secret(&tenant.org, first, &tenant.person()).await.unwrap();
    let SetSecret::Created(made) = made else { panic!("it is new") };
    assert_eq!((made.version, &made.set_by, made.set_at), (1, &tenant.person(), store.now().await.unwrap()));
    assert_eq!(store.find_secret(&tenant.org, &name("token")).await, Ok(Some(made.clone())));
    assert_eq!(value_of(store, &tenant, "token").await.as_deref(), Some(VALUE));
    assert_eq!(store.secret_version(&tenant.org, &name("token")).await, Ok(Some(1)));

    world.clock.advance_seconds(1);
    let rotated = store.set_secret(&tenant.org, new("token", "another", Some(1)), &tenant.person()).await.unwrap();
    let SetSecret::Rotated(rotated) = rotated else { panic!("it is there") };
    assert_eq!((&rotated.id, rotated.version, rotated.set_at), (&made.id, 2, store.now().await.unwrap()));
    assert_eq!(rotated.description.as_deref(), Some("for builds"), "what is not given stays");
    assert_eq!(value_of(store, &tenant, "token").await.as_deref(), Some("another"));
    assert_eq!(store.secret_version(&tenant.org, &name("token")).await, Ok(Some(2)), "what is remembered of it changes with it");

    assert_eq!(store.list_secret_uses(&tenant.org, &name("token")).await, Ok(vec![]));
    assert_eq!(store.delete_secret(&tenant.org, &name("token"), &tenant.person()).await, Ok(Some(DeletedSecret::Done)));
    assert_eq!(store.delete_secret(&tenant.org, &name("token"), &tenant.person()).await, Ok(None));
    assert_eq!(value_of(store, &tenant, "token").await, None);
    assert_eq!(store.secret_version(&tenant.org, &name("token")).await, Ok(None));
    assert_eq!(store.find_secret(&tenant.org, &name("token")).await, Ok(None));

    let events = store.list_events_after(&tenant.org, TOLD, 1_000).await.unwrap();
    let told: Vec<_> = events.iter().map(|event| (event.name.as_str(), event.key.as_str())).collect();
    assert_eq!(told, ["secret.set", "secret.rotated", "secret.deleted"].map(|name| (name, made.id.as_str())));
    assert_eq!(world.verify(&tenant).await.entries, BEGUN + 3, "every change is signed, and a use is none");
    assert_eq!(store.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
    // The same name again is another secret.
    let again = set(store, &tenant, "token", VALUE).await;
    assert_eq!((again.version, again.id == made.id), (1, false));
}

async fn a_value_replaces_the_version_that_the_caller_knows(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let set_to =
        async |value: &str, replaces| store.set_secret(&tenant.org, new("token", value, replaces), &tenant.person()).await.unwrap();
    assert_eq!(set_to("a", Some(1)).await, SetSecret::Missing);
    set(store, &tenant, "token", "a").await;
    assert_eq!(set_to("b", None).await, SetSecret::Taken);
    for other in [0, 2, -1] {
        assert_eq!(set_to("b", Some(other)).await, SetSecret::OtherVersion(1));
    }
    assert_eq!(value_of(store, &tenant, "token").await.as_deref(), Some("a"), "nothing was changed");
    // Of two who know the same version, one wins.
    let (one, two) = tokio::join!(set_to("b", Some(1)), set_to("c", Some(1)));
    assert_eq!([&one, &two].iter().filter(|set| matches!(set, SetSecret::Rotated(_))).count(), 1, "{one:?} {two:?}");
    assert_eq!([&one, &two].iter().filter(|set| ***set == SetSecret::OtherVersion(2)).count(), 1, "{one:?} {two:?}");
    world.verify(&tenant).await;
}

async fn a_value_is_in_no_column_no_event_and_no_backup_in_the_clear(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    set(store, &tenant, "token", VALUE).await;
    store.set_secret(&tenant.org, new("token", VALUE, Some(1)), &tenant.person()).await.unwrap();
    assert_eq!(value_of(store, &tenant, "token").await.as_deref(), Some(VALUE));
    // A backup has every column of every table.
    let file = backup(store).await;
    let mut columns = vec![file.clone()];
    for line in file.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line: Value = serde_json::from_slice(line).unwrap();
        let values = line["row"].as_array().into_iter().flatten();
        columns.extend(values.filter_map(|value| STANDARD.decode(value["base64"].as_str()?).ok()));
    }
    assert!(columns.len() > 3, "the bytes of keys and of the secret were read");
    assert!(columns.iter().any(|column| holds(column, b"token")), "the name is there, so this search finds what there is");
    for written in [VALUE.as_bytes(), STANDARD.encode(VALUE).as_bytes(), hex::encode(VALUE).as_bytes()] {
        assert!(!columns.iter().any(|column| holds(column, written)));
    }
    if let Engine::Sqlite { path } = &world.home.engine {
        for file in ["", "-wal"].map(|ending| format!("{}{ending}", path.display())) {
            let bytes = std::fs::read(&file).unwrap();
            assert!(!holds(&bytes, VALUE.as_bytes()), "{file}");
        }
    }
    // Two rows with the same value do not look alike.
    let sealed = |secret: &str| format!("SELECT sealed_value FROM secrets WHERE name = '{secret}'");
    set(store, &tenant, "same", VALUE).await;
    world.home.tamper(&format!("DELETE FROM secrets WHERE name = 'same' AND sealed_value = ({})", sealed("token"))).await;
    assert!(store.find_secret(&tenant.org, &name("same")).await.unwrap().is_some());
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

async fn backup(store: &Store) -> Vec<u8> {
    let mut file = Vec::new();
    store.backup(&mut file).await.unwrap();
    file
}

async fn a_value_opens_in_its_own_row_only(kind: Kind) {
    let world = World::new(kind).await;
    let (store, ours, theirs) = (&world.store, world.tenant("ours").await, world.tenant("theirs").await);
    set(store, &ours, "weak", "everybody knows it").await;
    set(store, &ours, "strong", VALUE).await;
    set(store, &theirs, "weak", "theirs").await;
    store.set_secret(&ours.org, new("weak", "a newer one", Some(1)), &ours.person()).await.unwrap();
    let (of_ours, of_theirs) = (format!("org_id = '{}'", ours.org), format!("org_id = '{}'", theirs.org));
    let strong = format!("(SELECT sealed_value FROM secrets WHERE name = 'strong' AND {of_ours})");
    let check = async |tenant: &Tenant, change: &str| {
        world.home.tamper(change).await;
        let refused = store.resolve_secret(&tenant.org, &name("weak")).await.map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("secret `weak` does not open"), "{change}: {refused}");
        assert!(!refused.to_string().contains(VALUE));
    };
    check(&ours, &format!("UPDATE secrets SET version = 1 WHERE name = 'weak' AND {of_ours}")).await;
    check(&ours, &format!("UPDATE secrets SET sealed_value = {strong}, version = 1 WHERE name = 'weak' AND {of_ours}")).await;
    check(&theirs, &format!("UPDATE secrets SET sealed_value = {strong} WHERE name = 'weak' AND {of_theirs}")).await;
    assert_eq!(value_of(store, &ours, "strong").await.as_deref(), Some(VALUE));
    // With its id, too, a value stays in its org.
    let id = format!("(SELECT id FROM secrets WHERE name = 'strong' AND {of_ours})");
    check(&theirs, &format!("UPDATE secrets SET id = {id} WHERE name = 'weak' AND {of_theirs}")).await;
    // The log says which version there is.
    let differences = store.check_integrity(&ours.org).await.unwrap().differences;
    assert!(differences.iter().any(|one| one.contains("is `weak 1` in the database; the log says `weak 2`")), "{differences:?}");
}

async fn a_restored_store_opens_every_secret(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    set(&world.store, &tenant, "token", "first").await;
    world.store.set_secret(&tenant.org, new("token", VALUE, Some(1)), &tenant.person()).await.unwrap();
    let file = backup(&world.store).await;
    for target in [Kind::Sqlite, Kind::Postgres] {
        let home = Home::new(target).await;
        let restored = home.open(&FixedClock::new(), &SeededRandom::new(77)).await.unwrap();
        restored.restore(Cursor::new(file.clone())).await.unwrap();
        assert_eq!(value_of(&restored, &tenant, "token").await.as_deref(), Some(VALUE));
        assert_eq!(restored.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
    }
}

async fn the_last_use_is_noted_to_the_minute(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    set(store, &tenant, "token", VALUE).await;
    let last_use = async || store.find_secret(&tenant.org, &name("token")).await.unwrap().unwrap().last_used_at;
    assert_eq!(last_use().await, None);
    value_of(store, &tenant, "token").await;
    let first = store.now().await.unwrap();
    assert_eq!(last_use().await, Some(first));
    world.clock.advance_seconds(SECRET_USED_SECONDS - 1);
    value_of(store, &tenant, "token").await;
    assert_eq!(last_use().await, Some(first));
    world.clock.advance_seconds(1);
    value_of(store, &tenant, "token").await;
    assert_eq!(last_use().await, Some(first.plus_seconds(SECRET_USED_SECONDS)));
    // A new value does not make it unused.
    store.set_secret(&tenant.org, new("token", "x", Some(1)), &tenant.person()).await.unwrap();
    assert_eq!(last_use().await, Some(first.plus_seconds(SECRET_USED_SECONDS)));
}

async fn secrets_are_listed_by_name_and_page(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    for name in ["b", "a.b", "B", "a-b"] {
        set(store, &tenant, name, VALUE).await;
    }
    let all = store.list_secrets(&tenant.org, &everything()).await.unwrap().items;
    // By their bytes on both engines.
    assert_eq!(all.iter().map(|secret| secret.name.as_str()).collect::<Vec<_>>(), ["B", "a-b", "a.b", "b"]);
    let first = store.list_secrets(&tenant.org, &PageRequest { limit: 3, after: None }).await.unwrap();
    let rest = store.list_secrets(&tenant.org, &PageRequest { limit: 3, after: first.next.clone() }).await.unwrap();
    assert_eq!((first.next.as_deref(), rest.next), (Some("a.b"), None));
    assert_eq!([first.items, rest.items].concat(), all);
}
