//! Replacing the master key: everything opens under the new one, and nothing under the old one.

use crate::harness::{Home, Kind, Tenant, World, on_both_engines, verify};
use countersign_core::keyring::Keyring;
use countersign_core::ports::connections::{ConnectionKind, ConnectionName};
use countersign_core::ports::secrets::{SecretName, SecretValue};
use countersign_core::ports::{Claims, KeptConnections, Secrets};
use countersign_core::{ConnectionId, Secret};
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;
use store::{Config, CreatedConnection, Engine, Error, MasterKey, NewConnection, NewSecret, Patience, Store, TimeSource, TokenKind};

on_both_engines!(
    everything_opens_under_the_new_key_and_nothing_under_the_old,
    a_value_that_opens_under_neither_key_changes_nothing,
    a_database_that_a_server_works_on_keeps_its_key,
);

/// The key of the harness, and two others.
const OLD: u8 = 7;
const NEW: u8 = 8;
const NEWEST: u8 = 9;

/// The keys that sign entries and checkpoints, one space, one secret, one connection and one open login.
const SEALED: u64 = 6;

fn master(key: u8) -> MasterKey {
    MasterKey::new(&Secret::new([key; 32]))
}

fn config(world: &World, engine: &Engine, key: u8) -> Config {
    Config {
        engine: engine.clone(),
        master: master(key),
        time: TimeSource::Fixed(Arc::new(world.clock.clone())),
        patience: Patience::default(),
        random: Arc::new(world.random.clone()),
    }
}

async fn opened(world: &World, key: u8) -> Result<Store, Error> {
    Store::open(config(world, &world.home.engine, key)).await
}

async fn replace(world: &World, from: u8, to: u8) -> Result<u64, Error> {
    let replaced = async || Store::replace_master_key(config(world, &world.home.engine, from), master(to)).await;
    let mut found = replaced().await;
    // PostgreSQL may not have noticed yet that the store of the run before is closed.
    for _ in 0..100 {
        if !matches!(found, Err(Error::Unavailable { .. })) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        found = replaced().await;
    }
    found
}

fn name() -> SecretName {
    SecretName::parse("token").unwrap()
}

fn new_secret(replaces: Option<i64>) -> NewSecret {
    NewSecret { name: name(), value: SecretValue::new(Secret::new("x7731".to_owned())).unwrap(), description: None, replaces }
}

/// A connection with a credential, and a login that was started for it.
async fn connect(world: &World, tenant: &Tenant) -> ConnectionId {
    let (org, by) = (&tenant.org, tenant.person());
    let new = NewConnection {
        name: ConnectionName::parse("linear").unwrap(),
        kind: ConnectionKind::Oauth,
        url: "https://mcp.example.com/mcp".to_owned(),
        account: None,
        secret: None,
        scopes: None,
        spaces: None,
        value: SecretValue::new(Secret::new("y7731".to_owned())),
    };
    let made = world.store.create_connection(org, new, &by).await.unwrap();
    let CreatedConnection::Created(connection) = made else { panic!("it is new") };
    let details = SecretValue::new(Secret::new("z7731".to_owned())).unwrap();
    world.store.start_login(org, &connection.id, &Secret::new("state".to_owned()), &details, &by).await.unwrap();
    connection.id
}

async fn everything_opens_under_the_new_key_and_nothing_under_the_old(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    world.store.set_secret(&tenant.org, new_secret(None), &tenant.person()).await.unwrap();
    let connection = connect(&world, &tenant).await;
    let sealed = world.store.space_key(&tenant.org, &tenant.space).await.unwrap().seal("params", b"kept");
    tenant.read_once(&world.store).await;
    let mut receipts = 1;
    for (from, to) in [(OLD, NEW), (NEW, NEWEST)] {
        assert_eq!(replace(&world, from, to).await, Ok(SEALED));
        assert_eq!(replace(&world, from, to).await, Ok(0), "a run that is repeated finds nothing to do");
        let refused = opened(&world, from).await.map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("another master key"), "{refused}");

        let store = opened(&world, to).await.unwrap();
        for token in [&tenant.owner_token, &tenant.agent_token] {
            assert!(store.authenticate(token).await.unwrap().is_ok(), "tokens work as before");
        }
        let value = store.resolve_secret(&tenant.org, &name()).await.unwrap().unwrap();
        assert_eq!(value.expose(), "x7731");
        let opened = store.open_connection(&tenant.org, &connection).await.unwrap().unwrap();
        assert_eq!(opened.value.unwrap().expose(), "y7731");
        let key = store.space_key(&tenant.org, &tenant.space).await.unwrap();
        assert_eq!(key.open("params", &sealed).unwrap(), b"kept");
        // What is made from now on works, too.
        let kind = TokenKind::User(tenant.owner.clone());
        let made = store.create_token(&tenant.as_owner, kind, "later", &[], None).await.unwrap().unwrap();
        assert!(store.authenticate(made.text.expose()).await.unwrap().is_ok());
        tenant.read_once(&store).await;
        receipts += 1;
        assert_eq!(verify(&store, &tenant.org).await.receipts, receipts);
    }
    // A backup has what tokens are hashed with.
    let mut file = Vec::new();
    opened(&world, NEWEST).await.unwrap().backup(&mut file).await.unwrap();
    for target in [Kind::Sqlite, Kind::Postgres] {
        let home = Home::new(target).await;
        let restored = Store::open(config(&world, &home.engine, NEWEST)).await.unwrap();
        restored.restore(Cursor::new(file.clone())).await.unwrap();
        assert!(restored.authenticate(&tenant.owner_token).await.unwrap().is_ok());
        assert!(restored.resolve_secret(&tenant.org, &name()).await.unwrap().is_some());
        assert_eq!(restored.take_login("state").await.unwrap().unwrap().details.expose(), "z7731");
    }
}

async fn a_value_that_opens_under_neither_key_changes_nothing(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    world.store.set_secret(&tenant.org, new_secret(None), &tenant.person()).await.unwrap();
    connect(&world, &tenant).await;
    let refused = replace(&world, NEWEST, NEW).await.unwrap_err();
    assert!(refused.to_string().contains("another master key"), "{refused}");
    // Its own key, but one row was changed.
    world.home.tamper("UPDATE secrets SET version = 2").await;
    replace(&world, OLD, NEW).await.unwrap_err();
    world.home.tamper("UPDATE secrets SET version = 1").await;
    let store = opened(&world, OLD).await.unwrap();
    assert!(store.resolve_secret(&tenant.org, &name()).await.unwrap().is_some());
    tenant.read_once(&store).await;
    drop(store);
    assert_eq!(replace(&world, OLD, OLD).await, Ok(0), "the same key");
    assert_eq!(replace(&world, OLD, NEW).await, Ok(SEALED));
}

async fn a_database_that_a_server_works_on_keeps_its_key(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    // On SQLite the lock of the data folder keeps others away.
    if kind == Kind::Postgres {
        assert_eq!(world.store.join().await, Ok(true));
        let refused = Store::replace_master_key(config(&world, &world.home.engine, OLD), master(NEW)).await.unwrap_err();
        assert!(refused.to_string().contains("a server works on this database"), "{refused}");
        tenant.read_once(&world.store).await;
        assert!(opened(&world, OLD).await.is_ok());
    }
}
