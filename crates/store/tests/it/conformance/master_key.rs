//! Replacing the master key, also while others read and write: whoever has both keys reads everything at every moment, and at the end
//! everything opens under the new one, and nothing under the old one.

use crate::harness::{Home, Kind, Tenant, World, on_both_engines, verify};
use countersign_core::keyring::Keyring;
use countersign_core::mcp::McpWishes;
use countersign_core::ports::connections::{ConnectionKind, ConnectionName};
use countersign_core::ports::secrets::{SecretName, SecretValue};
use countersign_core::ports::{Claims, KeptConnections, Secrets};
use countersign_core::{ConnectionId, Secret};
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{
    BegunReplacement, Config, CreatedConnection, Engine, Error, MasterKey, NewConnection, NewSecret, Patience, SetSecret, Store,
    TimeSource, TokenKind,
};

on_both_engines!(
    everything_opens_under_the_new_key_and_nothing_under_the_old,
    calls_go_on_meanwhile,
    one_that_was_interrupted_goes_on_with_both_keys,
    a_backup_of_two_keys_is_restored_with_both,
    what_opens_under_no_key_is_not_lost,
    one_at_a_time,
    no_server_is_left_without_the_key,
    the_first_org_is_told_by_whom,
);

/// The key of the harness, and two others.
const OLD: u8 = 7;
const NEW: u8 = 8;
const NEWEST: u8 = 9;

/// The keys that sign entries and checkpoints, one space, one secret, one connection and one open login.
const SEALED: u64 = 6;

/// More than one write seals anew.
const SECRETS: i64 = 120;

fn master(key: u8) -> MasterKey {
    MasterKey::new(&Secret::new([key; 32]))
}

fn config(world: &World, engine: &Engine, key: u8, next: Option<u8>) -> Config {
    Config {
        engine: engine.clone(),
        master: master(key),
        next_master: next.map(master),
        time: TimeSource::Fixed(Arc::new(world.clock.clone())),
        patience: Patience::default(),
        random: Arc::new(world.random.clone()),
    }
}

async fn opened(world: &World, key: u8, next: Option<u8>) -> Result<Store, Error> {
    Store::open(config(world, &world.home.engine, key, next)).await
}

/// Goes on until everything is sealed under the new key. Returns how many values were sealed anew.
async fn finish(store: &Store) -> u64 {
    let seals = store.find_master_key().await.unwrap().unwrap().seals;
    let mut all = 0;
    loop {
        match store.reseal_some().await.unwrap() {
            0 => break,
            some => all += some,
        }
        assert!(store.find_master_key().await.unwrap().unwrap().is_replacing(), "it has not ended before that is said");
    }
    assert_eq!(store.end_replacement(seals).await, Ok(true));
    all
}

fn name(of: &str) -> SecretName {
    SecretName::parse(of).unwrap()
}

async fn set_secret(store: &Store, tenant: &Tenant, of: &str, replaces: Option<i64>) -> SetSecret {
    let value = SecretValue::new(Secret::new(format!("x7731 of {of}"))).unwrap();
    let new = NewSecret { name: name(of), value, description: None, replaces };
    store.set_secret(&tenant.org, new, &tenant.person()).await.unwrap()
}

/// The value of a secret that `set_secret` has set.
async fn is_read(store: &Store, tenant: &Tenant, of: &str) {
    let value = store.resolve_secret(&tenant.org, &name(of)).await.unwrap().unwrap();
    assert_eq!(value.expose(), format!("x7731 of {of}"));
}

/// A connection with a credential, and a login that was started for it.
async fn connect(world: &World, tenant: &Tenant) -> ConnectionId {
    let (org, by) = (&tenant.org, tenant.person());
    let new = NewConnection {
        name: ConnectionName::parse("linear").unwrap(),
        kind: ConnectionKind::Oauth,
        url: "https://mcp.example.com/mcp".to_owned(),
        account: None,
        from: None,
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
    set_secret(&world.store, &tenant, "token", None).await;
    let connection = connect(&world, &tenant).await;
    let sealed = world.store.space_key(&tenant.org, &tenant.space).await.unwrap().seal("params", b"kept");
    tenant.read_once(&world.store).await;
    let mut receipts = 1;
    for (from, to) in [(OLD, NEW), (NEW, NEWEST)] {
        let store = opened(&world, from, None).await.unwrap();
        assert_eq!(store.begin_replacement(master(to), None).await, Ok(BegunReplacement::Begun));
        assert_eq!(store.count_sealed_otherwise(master(to).id()).await, Ok(SEALED));
        assert_eq!(finish(&store).await, SEALED);
        assert_eq!(store.count_sealed_otherwise(master(to).id()).await, Ok(0));
        let state = store.find_master_key().await.unwrap().unwrap();
        assert!(!state.is_replacing() && state.seals == master(to).id(), "{state:?}");
        assert_eq!(store.begin_replacement(master(to), None).await, Ok(BegunReplacement::Same));
        let refused = opened(&world, from, None).await.map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("another master key"), "{refused}");

        let store = opened(&world, to, None).await.unwrap();
        for token in [&tenant.owner_token, &tenant.agent_token] {
            assert!(store.authenticate(token).await.unwrap().is_ok(), "tokens work as before");
        }
        is_read(&store, &tenant, "token").await;
        let opened = store.open_connection(&tenant.org, &connection).await.unwrap().unwrap();
        assert_eq!(opened.value.unwrap().expose(), "y7731");
        let key = store.space_key(&tenant.org, &tenant.space).await.unwrap();
        assert_eq!(key.open("params", &sealed).unwrap(), b"kept");
        // What is made from now on works, too.
        let kind = TokenKind::User(tenant.owner.clone());
        let made = store.create_token(&tenant.as_owner, kind, "later", &[], None, McpWishes::default(), None).await.unwrap().unwrap();
        assert!(store.authenticate(made.text.expose()).await.unwrap().is_ok());
        tenant.read_once(&store).await;
        receipts += 1;
        assert_eq!(verify(&store, &tenant.org).await.receipts, receipts);
    }
    // A process that has forgotten the old keys reads everything; one that has only those reads nothing.
    let store = opened(&world, NEWEST, Some(OLD)).await.unwrap();
    store.keep_only_master_key(master(OLD).id());
    let refused = store.resolve_secret(&tenant.org, &name("token")).await.map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("does not open"), "{refused}");
    // A backup has what tokens are hashed with.
    let mut file = Vec::new();
    opened(&world, NEWEST, None).await.unwrap().backup(&mut file).await.unwrap();
    for target in [Kind::Sqlite, Kind::Postgres] {
        let home = Home::new(target).await;
        let restored = Store::open(config(&world, &home.engine, NEWEST, None)).await.unwrap();
        restored.restore(Cursor::new(file.clone())).await.unwrap();
        assert!(restored.authenticate(&tenant.owner_token).await.unwrap().is_ok());
        is_read(&restored, &tenant, "token").await;
        assert_eq!(restored.take_login(&tenant.org, "state").await.unwrap().unwrap().details.expose(), "z7731");
    }
}

async fn calls_go_on_meanwhile(kind: Kind) {
    let world = World::new(kind).await;
    let tenants = [Arc::new(world.tenant("acme").await), Arc::new(world.tenant("zenith").await)];
    for tenant in &tenants {
        for at in 0..SECRETS {
            set_secret(&world.store, tenant, &format!("s{at}"), None).await;
        }
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let mut callers = Vec::new();
    for (at, tenant) in tenants.iter().enumerate() {
        let (store, tenant, is_over) = (world.store.clone(), Arc::clone(tenant), Arc::clone(&is_over));
        callers.push(tokio::spawn(async move {
            let mut round: i64 = 0;
            // One round more after the end: what was made meanwhile is read under the new key.
            loop {
                let is_last = is_over.load(Ordering::SeqCst);
                is_read(&store, &tenant, &format!("s{}", round % SECRETS)).await;
                set_secret(&store, &tenant, &format!("made{at}-{round}"), None).await;
                is_read(&store, &tenant, &format!("made{at}-{round}")).await;
                set_secret(&store, &tenant, "s0", Some(round + 1)).await;
                tenant.read_once(&store).await;
                assert!(store.authenticate(&tenant.owner_token).await.unwrap().is_ok());
                round += 1;
                if is_last {
                    return round;
                }
            }
        }));
    }
    assert_eq!(world.store.begin_replacement(master(NEW), None).await, Ok(BegunReplacement::Begun));
    finish(&world.store).await;
    assert!(!world.store.find_master_key().await.unwrap().unwrap().is_replacing());
    is_over.store(true, Ordering::SeqCst);
    let mut rounds = Vec::new();
    for caller in callers {
        rounds.push(caller.await.unwrap());
    }
    assert_eq!(world.store.count_sealed_otherwise(master(NEW).id()).await, Ok(0));
    // Everything that was written before, meanwhile and after opens under the new key alone.
    let store = opened(&world, NEW, None).await.unwrap();
    for (at, (tenant, rounds)) in tenants.iter().zip(rounds).enumerate() {
        for of in (0..SECRETS).map(|of| format!("s{of}")).chain((0..rounds).map(|round| format!("made{at}-{round}"))) {
            is_read(&store, tenant, &of).await;
        }
        verify(&store, &tenant.org).await;
    }
}

async fn one_that_was_interrupted_goes_on_with_both_keys(kind: Kind) {
    let world = World::new(kind).await;
    let tenants = [world.tenant("acme").await, world.tenant("zenith").await];
    for tenant in &tenants {
        set_secret(&world.store, tenant, "token", None).await;
    }
    let store = opened(&world, OLD, None).await.unwrap();
    assert_eq!(store.begin_replacement(master(NEW), None).await, Ok(BegunReplacement::Begun));
    let mut left = store.count_sealed_otherwise(master(NEW).id()).await.unwrap();
    drop(store);
    let refused = opened(&world, OLD, None).await.map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("the next one of a replacement is missing"), "{refused}");
    // Each process dies after one write. In between everything is read, and written, by whoever has both keys, whichever comes first.
    for at in 0.. {
        let (key, next) = if at % 2 == 0 { (OLD, NEW) } else { (NEW, OLD) };
        let store = opened(&world, key, Some(next)).await.unwrap();
        for tenant in &tenants {
            is_read(&store, tenant, "token").await;
            assert!(store.authenticate(&tenant.owner_token).await.unwrap().is_ok());
            tenant.read_once(&store).await;
            set_secret(&store, tenant, &format!("made{at}"), None).await;
        }
        let some = store.reseal_some().await.unwrap();
        left -= some;
        assert_eq!(store.end_replacement(master(NEW).id()).await, Ok(left == 0), "it ends when nothing is left, and not before");
        assert_eq!(store.count_sealed_otherwise(master(NEW).id()).await, Ok(left), "what is new is sealed under the new key");
        if some == 0 {
            break;
        }
    }
    assert_eq!(left, 0);
    let store = opened(&world, NEW, None).await.unwrap();
    for tenant in &tenants {
        is_read(&store, tenant, "token").await;
        is_read(&store, tenant, "made0").await;
        verify(&store, &tenant.org).await;
    }
}

async fn a_backup_of_two_keys_is_restored_with_both(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    set_secret(&world.store, &tenant, "token", None).await;
    assert_eq!(world.store.begin_replacement(master(NEW), None).await, Ok(BegunReplacement::Begun));
    assert!(world.store.reseal_some().await.unwrap() > 0);
    let mut file = Vec::new();
    world.store.backup(&mut file).await.unwrap();
    for target in [Kind::Sqlite, Kind::Postgres] {
        let home = Home::new(target).await;
        let restored = Store::open(config(&world, &home.engine, OLD, Some(NEW))).await.unwrap();
        restored.restore(Cursor::new(file.clone())).await.unwrap();
        is_read(&restored, &tenant, "token").await;
        assert!(restored.authenticate(&tenant.owner_token).await.unwrap().is_ok());
        assert!(finish(&restored).await > 0);
        let reopened = Store::open(config(&world, &home.engine, NEW, None)).await.unwrap();
        is_read(&reopened, &tenant, "token").await;
    }
}

async fn what_opens_under_no_key_is_not_lost(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    set_secret(&world.store, &tenant, "token", None).await;
    connect(&world, &tenant).await;
    world.home.tamper("UPDATE secrets SET version = 2").await;
    let refused = world.store.begin_replacement(master(NEW), None).await.unwrap_err();
    assert!(refused.to_string().contains("in `secrets` of org"), "{refused}");
    world.home.tamper("UPDATE secrets SET version = 1").await;
    let state = world.store.find_master_key().await.unwrap().unwrap();
    assert!(state.seals == master(OLD).id() && state.began_at.is_none(), "nothing was begun: {state:?}");
    assert_eq!(world.store.reseal_some().await, Ok(0), "there is nothing to go on with");
    assert_eq!(world.store.begin_replacement(master(OLD), None).await, Ok(BegunReplacement::Same), "the same key");
    is_read(&world.store, &tenant, "token").await;
    assert_eq!(world.store.begin_replacement(master(NEW), None).await, Ok(BegunReplacement::Begun));
    // Changed while it goes on: it waits, and what it waits for can be set anew.
    world.home.tamper("UPDATE secrets SET version = 2").await;
    let refused = async {
        loop {
            if let Err(refused) = world.store.reseal_some().await {
                return refused;
            }
        }
    };
    let refused = refused.await;
    assert!(refused.to_string().contains("in `secrets` of org"), "{refused}");
    assert!(matches!(set_secret(&world.store, &tenant, "token", Some(2)).await, SetSecret::Rotated(_)));
    finish(&world.store).await;
    is_read(&opened(&world, NEW, None).await.unwrap(), &tenant, "token").await;
}

async fn one_at_a_time(kind: Kind) {
    let world = World::new(kind).await;
    world.tenant("acme").await;
    let second = world.another_store().await;
    let (first, other) = tokio::join!(world.store.begin_replacement(master(NEW), None), second.begin_replacement(master(NEWEST), None));
    let begun: Vec<_> = [first, other].into_iter().map(Result::unwrap).collect();
    assert!(begun.contains(&BegunReplacement::Begun) && begun.contains(&BegunReplacement::Running), "{begun:?}");
    assert_eq!(world.store.begin_replacement(master(NEW), None).await, Ok(BegunReplacement::Running));
    let whoever_began = if begun[0] == BegunReplacement::Begun { &world.store } else { &second };
    assert!(finish(whoever_began).await > 0);
    assert_ne!(whoever_began.begin_replacement(master(OLD), None).await, Ok(BegunReplacement::Running), "the first has ended");
}

async fn no_server_is_left_without_the_key(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    set_secret(&world.store, &tenant, "token", None).await;
    // On SQLite one process holds the file.
    if kind == Kind::Sqlite {
        return;
    }
    let (second, late) = (world.another_store().await, world.another_store().await);
    for store in [&world.store, &second] {
        store.join().await.unwrap();
    }
    let missing = BegunReplacement::Missing(vec![second.server_id().clone()]);
    assert_eq!(world.store.begin_replacement(master(NEW), None).await, Ok(missing.clone()));
    // It has another key, which does not help.
    second.learn_master_key(master(NEWEST));
    second.renew_lease().await.unwrap();
    assert_eq!(world.store.begin_replacement(master(NEW), None).await, Ok(missing));
    second.learn_master_key(master(NEW));
    second.renew_lease().await.unwrap();
    assert_eq!(world.store.begin_replacement(master(NEW), None).await, Ok(BegunReplacement::Begun));
    set_secret(&world.store, &tenant, "made", None).await;
    is_read(&second, &tenant, "made").await;
    set_secret(&second, &tenant, "made-there", None).await;
    is_read(&world.store, &tenant, "made-there").await;
    // A server that was opened before and joins only now must not begin to work.
    let refused = late.join().await.unwrap_err();
    assert!(refused.to_string().contains("another master key"), "{refused}");
    // Either server goes on with it.
    assert!(second.reseal_some().await.unwrap() > 0);
    finish(&world.store).await;
    for store in [&world.store, &second] {
        store.keep_only_master_key(master(NEW).id());
        is_read(store, &tenant, "token").await;
    }
}

async fn the_first_org_is_told_by_whom(kind: Kind) {
    let world = World::new(kind).await;
    let (first, other) = (world.tenant("acme").await, world.tenant("zenith").await);
    let sizes = async || (world.store.log_size(&first.org).await.unwrap(), world.store.log_size(&other.org).await.unwrap());
    let before = sizes().await;
    assert_eq!(world.store.begin_replacement(master(NEW), Some(&first.person())).await, Ok(BegunReplacement::Begun));
    finish(&world.store).await;
    assert_eq!(world.store.begin_replacement(master(NEWEST), None).await, Ok(BegunReplacement::Begun), "on the data folder");
    finish(&world.store).await;
    assert_eq!(sizes().await, (before.0 + 2, before.1));
    let state = world.store.find_master_key().await.unwrap().unwrap();
    assert_eq!((state.replaced_by, state.ended_at.is_some()), (None, true));
    verify(&world.store, &first.org).await;
    // A maker who could not do it is noticed.
    assert_eq!(world.store.begin_replacement(master(NEW), Some(&other.person())).await, Ok(BegunReplacement::Begun));
    let keys = world.store.list_log_keys(&first.org).await.unwrap();
    let pinned = receipt::key::PublicKey::from_base64(&keys[0].public).unwrap();
    let mut lines = Vec::new();
    let mut export = world.store.export(&first.org).await.unwrap();
    while let Some(line) = export.recv().await {
        lines.push(Ok::<_, std::io::Error>(line.unwrap().trim_end_matches('\n').to_owned()));
    }
    assert!(!receipt::verify::verify(lines, &pinned, None).ok);
}
