//! Connections: a credential opens in its own row and for its own address only, one store renews its tokens at a time, and a login counts
//! once.

use crate::harness::{BEGUN, Home, Kind, TOLD, Tenant, World, everything, on_both_engines};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::limits::OAUTH_REFRESH_SECONDS;
use countersign_core::ports::connections::{Connection, ConnectionKind, ConnectionName, ConnectionState, Locked, Need, OpenConnection};
use countersign_core::ports::secrets::{SecretName, SecretValue};
use countersign_core::ports::{EventFeed, Invocations, KeptConnections, Rules};
use countersign_core::{ConnectionId, Secret};
use serde_json::Value;
use std::io::Cursor;
use store::limits::{LOGIN_SECONDS, SECRET_USED_SECONDS};
use store::{
    CreatedConnection, DeletedSecret, Engine, LoginEnd, NewConnection, NewSecret, PageRequest, RemovedConnection, SecretUse, Store,
};
use testkit::{FixedClock, SeededRandom};

on_both_engines!(
    a_connection_is_made_logged_in_for_and_removed_and_the_log_says_so,
    a_credential_is_in_no_column_no_event_and_no_backup_in_the_clear,
    a_credential_opens_in_its_own_row_and_for_its_own_address_only,
    a_connection_follows_its_secret_which_stays_while_it_is_used,
    of_two_stores_one_renews_the_tokens_and_the_other_finds_them,
    a_login_counts_once_and_in_time,
    what_a_person_has_to_do_is_noted_for_the_version_it_is_about,
    connections_are_listed_by_name_and_a_removed_one_frees_its_name,
    mail_connections_are_found_with_the_address_that_mail_comes_from,
);

const VALUE: &str = "correct-horse-battery-staple-7731";

fn name(text: &str) -> ConnectionName {
    ConnectionName::parse(text).unwrap()
}

fn secret(text: &str) -> SecretValue {
    SecretValue::new(Secret::new(text.to_owned())).unwrap()
}

fn new(text: &str, kind: ConnectionKind, value: Option<&str>) -> NewConnection {
    NewConnection {
        name: name(text),
        kind,
        url: "https://api.example.com/mcp".to_owned(),
        account: None,
        from: None,
        secret: None,
        scopes: None,
        spaces: None,
        value: value.map(secret),
    }
}

async fn create(store: &Store, tenant: &Tenant, new: NewConnection) -> Connection {
    let made = store.create_connection(&tenant.org, new, &tenant.person()).await.unwrap();
    let CreatedConnection::Created(connection) = made else { panic!("it is new: {made:?}") };
    *connection
}

async fn make(store: &Store, tenant: &Tenant, text: &str, value: &str) -> Connection {
    create(store, tenant, new(text, ConnectionKind::Bearer, Some(value))).await
}

/// Removes a connection that no source uses.
async fn remove(store: &Store, tenant: &Tenant, text: &str) -> OpenConnection {
    match store.remove_connection(&tenant.org, &name(text), &tenant.person()).await.unwrap().unwrap() {
        RemovedConnection::Done(removed) => *removed,
        RemovedConnection::InUse(sources) => panic!("it is used by {sources:?}"),
    }
}

async fn value_of(store: &Store, tenant: &Tenant, id: &ConnectionId) -> Option<String> {
    let opened = store.open_connection(&tenant.org, id).await.unwrap()?;
    opened.value.map(|value| value.expose().to_owned())
}

/// Somebody logs in.
async fn log_in(store: &Store, tenant: &Tenant, id: &ConnectionId, value: &str) {
    let state = Secret::new(format!("state of {value}"));
    store.start_login(&tenant.org, id, &state, &secret("details"), &tenant.person()).await.unwrap().unwrap();
    let taken = store.take_login(&tenant.org, state.expose()).await.unwrap().unwrap();
    let end = LoginEnd::Granted { value: secret(value), issuer: "https://login.example.com".to_owned() };
    assert_eq!(store.end_login(taken, end).await, Ok(true));
}

async fn a_connection_is_made_logged_in_for_and_removed_and_the_log_says_so(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let spaces = Some(vec![tenant.space.clone()]);
    let made = create(store, &tenant, NewConnection { spaces, ..new("linear", ConnectionKind::Oauth, None) }).await;
    assert_eq!((made.version, made.state, made.why.as_deref()), (1, ConnectionState::NeedsLogin, Some("nobody has logged in yet")));
    assert_eq!(store.find_connection(&tenant.org, &name("linear")).await, Ok(Some(made.clone())));
    assert_eq!(value_of(store, &tenant, &made.id).await, None);
    log_in(store, &tenant, &made.id, VALUE).await;
    let ready = store.find_connection(&tenant.org, &name("linear")).await.unwrap().unwrap();
    assert_eq!((ready.version, ready.state, ready.why.clone()), (2, ConnectionState::Ready, None));
    assert_eq!((ready.issuer.as_deref(), ready.login_by.as_ref()), (Some("https://login.example.com"), Some(&tenant.person())));
    assert_eq!(value_of(store, &tenant, &made.id).await.as_deref(), Some(VALUE));
    assert_eq!(store.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());

    let removed = remove(store, &tenant, "linear").await;
    assert_eq!(removed.value.map(|value| value.expose().to_owned()).as_deref(), Some(VALUE), "to be revoked where it came from");
    assert!(store.remove_connection(&tenant.org, &name("linear"), &tenant.person()).await.unwrap().is_none());
    assert_eq!(store.find_connection(&tenant.org, &name("linear")).await, Ok(None));
    let kept = store.find_connection_by_id(&tenant.org, &made.id).await.unwrap().unwrap();
    assert_eq!((kept.state, kept.removed_at), (ConnectionState::Revoked, Some(store.now().await.unwrap())));
    assert_eq!(value_of(store, &tenant, &made.id).await, None, "its credential is gone");
    assert!(matches!(store.lock_tokens(&tenant.org, &made.id, "x").await, Ok(Locked::Gone)));

    let events = store.list_events_after(&tenant.org, TOLD, 1_000).await.unwrap();
    let told: Vec<_> = events.iter().map(|event| (event.name.as_str(), event.key.as_str())).collect();
    assert_eq!(told, ["connection.made", "connection.logged_in", "connection.removed"].map(|name| (name, made.id.as_str())));
    assert_eq!(world.verify(&tenant).await.entries, BEGUN + 3);
    assert_eq!(store.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
    world.home.tamper("UPDATE connections SET url = 'https://evil.test', spaces = NULL, version = 7").await;
    let differences = store.check_integrity(&tenant.org).await.unwrap().differences;
    assert!(differences.iter().any(|one| one.contains("https://evil.test")), "{differences:?}");
    assert!(differences.iter().any(|one| one.contains("is `version 7` in the database; the log says `version 2`")), "{differences:?}");
}

async fn backup(store: &Store) -> Vec<u8> {
    let mut file = Vec::new();
    store.backup(&mut file).await.unwrap();
    file
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

async fn a_credential_is_in_no_column_no_event_and_no_backup_in_the_clear(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    make(store, &tenant, "github", VALUE).await;
    let linear = create(store, &tenant, new("linear", ConnectionKind::Oauth, Some(VALUE))).await;
    log_in(store, &tenant, &linear.id, VALUE).await;
    // One more login, which is still open.
    store.start_login(&tenant.org, &linear.id, &Secret::new(VALUE.to_owned()), &secret(VALUE), &tenant.person()).await.unwrap().unwrap();
    let Ok(Locked::Ours(_)) = store.lock_tokens(&tenant.org, &linear.id, "holder").await else { panic!("it is free") };
    assert_eq!(store.keep_tokens(&tenant.org, &linear.id, "holder", secret(VALUE)).await, Ok(true));
    let file = backup(store).await;
    let mut columns = vec![file.clone()];
    for line in file.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line: Value = serde_json::from_slice(line).unwrap();
        let values = line["row"].as_array().into_iter().flatten();
        columns.extend(values.filter_map(|value| STANDARD.decode(value["base64"].as_str()?).ok()));
    }
    assert!(columns.iter().any(|column| holds(column, b"linear")), "the name is there, so this search finds what there is");
    for written in [VALUE.as_bytes(), STANDARD.encode(VALUE).as_bytes(), hex::encode(VALUE).as_bytes()] {
        assert!(!columns.iter().any(|column| holds(column, written)));
    }
    if let Engine::Sqlite { path } = &world.home.engine {
        for file in ["", "-wal"].map(|ending| format!("{}{ending}", path.display())) {
            assert!(!holds(&std::fs::read(&file).unwrap(), VALUE.as_bytes()), "{file}");
        }
    }
    let events = store.list_events_after(&tenant.org, 0, 1_000).await.unwrap();
    assert!(!format!("{events:?}").contains(VALUE));
    // It opens where it is restored, also while somebody is logging in.
    for target in [Kind::Sqlite, Kind::Postgres] {
        let home = Home::new(target).await;
        let restored = home.open(&FixedClock::new(), &SeededRandom::new(77)).await.unwrap();
        restored.restore(Cursor::new(file.clone())).await.unwrap();
        assert_eq!(value_of(&restored, &tenant, &linear.id).await.as_deref(), Some(VALUE));
        assert_eq!(restored.take_login(&tenant.org, VALUE).await.unwrap().unwrap().details.expose(), VALUE);
        assert_eq!(restored.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
    }
}

async fn a_credential_opens_in_its_own_row_and_for_its_own_address_only(kind: Kind) {
    let world = World::new(kind).await;
    let (store, ours, theirs) = (&world.store, world.tenant("ours").await, world.tenant("theirs").await);
    let weak = make(store, &ours, "weak", "everybody knows it").await;
    make(store, &ours, "strong", VALUE).await;
    let other = make(store, &theirs, "weak", "theirs").await;
    let (of_ours, of_theirs) = (format!("org_id = '{}'", ours.org), format!("org_id = '{}'", theirs.org));
    let strong = format!("(SELECT sealed_credential FROM connections WHERE name = 'strong' AND {of_ours})");
    let check = async |tenant: &Tenant, id: &ConnectionId, change: &str, back: &str| {
        world.home.tamper(change).await;
        let refused = store.open_connection(&tenant.org, id).await.map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("connection `weak` does not open"), "{change}: {refused}");
        world.home.tamper(back).await;
    };
    let to = |url: &str, of: &str| format!("UPDATE connections SET url = '{url}' WHERE name = 'weak' AND {of}");
    check(&ours, &weak.id, &to("https://evil.test/", &of_ours), &to(&weak.url, &of_ours)).await;
    let version = |version: i64| format!("UPDATE connections SET version = {version} WHERE name = 'weak' AND {of_ours}");
    check(&ours, &weak.id, &version(2), &version(1)).await;
    let spaces = |spaces: &str| format!("UPDATE connections SET spaces = {spaces} WHERE name = 'weak' AND {of_ours}");
    check(&ours, &weak.id, &spaces("'[]'"), &spaces("NULL")).await;
    assert_eq!(value_of(store, &ours, &weak.id).await.as_deref(), Some("everybody knows it"));
    let swap = |of: &str| format!("UPDATE connections SET sealed_credential = {strong} WHERE name = 'weak' AND {of}");
    check(&ours, &weak.id, &swap(&of_ours), "SELECT 1").await;
    check(&theirs, &other.id, &swap(&of_theirs), "SELECT 1").await;
}

async fn a_connection_follows_its_secret_which_stays_while_it_is_used(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let key = SecretName::parse("search-key").unwrap();
    let with_secret = || NewConnection { secret: Some(key.clone()), ..new("search", ConnectionKind::Bearer, None) };
    assert_eq!(store.create_connection(&tenant.org, with_secret(), &tenant.person()).await, Ok(CreatedConnection::NoSecret));
    let set = async |value: &str, replaces| {
        let new = NewSecret { name: key.clone(), value: secret(value), description: None, replaces };
        store.set_secret(&tenant.org, new, &tenant.person()).await.unwrap()
    };
    set("one", None).await;
    let made = create(store, &tenant, with_secret()).await;
    assert_eq!(value_of(store, &tenant, &made.id).await.as_deref(), Some("one"));
    set("two", Some(1)).await;
    assert_eq!(value_of(store, &tenant, &made.id).await.as_deref(), Some("two"));
    // The address and the name of the secret are sealed too.
    for (column, other, own) in [("url", "https://evil.test/", made.url.as_str()), ("secret", "another", "search-key")] {
        world.home.tamper(&format!("UPDATE connections SET {column} = '{other}'")).await;
        assert!(store.open_connection(&tenant.org, &made.id).await.is_err(), "{column}");
        world.home.tamper(&format!("UPDATE connections SET {column} = '{own}'")).await;
    }
    let used = SecretUse { kind: "connection", id: made.id.to_string(), name: "search".to_owned() };
    assert_eq!(store.list_secret_uses(&tenant.org, &key).await, Ok(vec![used.clone()]));
    assert_eq!(store.delete_secret(&tenant.org, &key, &tenant.person()).await, Ok(Some(DeletedSecret::InUse(vec![used]))));
    remove(store, &tenant, "search").await;
    assert_eq!(value_of(store, &tenant, &made.id).await, None, "a removed connection opens nothing");
    assert_eq!(store.delete_secret(&tenant.org, &key, &tenant.person()).await, Ok(Some(DeletedSecret::Done)));
    world.verify(&tenant).await;
}

async fn of_two_stores_one_renews_the_tokens_and_the_other_finds_them(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    let one = &world.store;
    let linear = create(one, &tenant, new("linear", ConnectionKind::Oauth, None)).await;
    log_in(one, &tenant, &linear.id, "old").await;
    // On SQLite there is one server, and its calls take turns in the same way.
    let two = if matches!(kind, Kind::Postgres) { world.another_store().await } else { one.clone() };
    let (first, second) = tokio::join!(one.lock_tokens(&tenant.org, &linear.id, "one"), two.lock_tokens(&tenant.org, &linear.id, "two"));
    let locked = [first.unwrap(), second.unwrap()].map(|locked| matches!(locked, Locked::Ours(_)));
    assert_eq!(locked.iter().filter(|is_ours| **is_ours).count(), 1, "{locked:?}");
    let (holder, other) = if locked[0] { ("one", "two") } else { ("two", "one") };
    assert_eq!(two.keep_tokens(&tenant.org, &linear.id, other, secret("stolen")).await, Ok(false));
    two.unlock_tokens(&tenant.org, &linear.id, other).await.unwrap();
    assert!(matches!(one.lock_tokens(&tenant.org, &linear.id, "third").await, Ok(Locked::Taken)), "the lock is the holder's to give back");
    assert_eq!(one.keep_tokens(&tenant.org, &linear.id, holder, secret("new")).await, Ok(true));
    // Whoever has the lock next reads what the first one kept.
    let Ok(Locked::Ours(opened)) = two.lock_tokens(&tenant.org, &linear.id, "next").await else { panic!("it is free") };
    assert_eq!(opened.value.unwrap().expose(), "new");
    // A server that is gone does not keep it for ever.
    assert!(matches!(one.lock_tokens(&tenant.org, &linear.id, "later").await, Ok(Locked::Taken)));
    world.clock.advance_seconds(OAUTH_REFRESH_SECONDS);
    assert!(matches!(one.lock_tokens(&tenant.org, &linear.id, "later").await, Ok(Locked::Ours(_))));
    assert_eq!(two.keep_tokens(&tenant.org, &linear.id, "next", secret("late")).await, Ok(false));
    assert_eq!(value_of(one, &tenant, &linear.id).await.as_deref(), Some("new"));
    // The last use is noted to the minute.
    let used = async || one.find_connection(&tenant.org, &name("linear")).await.unwrap().unwrap().last_used_at;
    let before = used().await;
    world.clock.advance_seconds(SECRET_USED_SECONDS);
    value_of(&two, &tenant, &linear.id).await;
    assert!(used().await > before);
}

async fn a_login_counts_once_and_in_time(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let linear = create(store, &tenant, new("linear", ConnectionKind::Oauth, None)).await;
    let start = async |state: &str| {
        let state = Secret::new(state.to_owned());
        store.start_login(&tenant.org, &linear.id, &state, &secret("details"), &tenant.person()).await.unwrap().unwrap()
    };
    assert!(store.find_login(&tenant.org, &linear.id).await.unwrap().is_none());
    let expires_at = start("one").await;
    assert_eq!(expires_at, store.now().await.unwrap().plus_seconds(LOGIN_SECONDS));
    for wrong in ["", "two", "ONE", "one "] {
        assert!(store.take_login(&tenant.org, wrong).await.unwrap().is_none(), "{wrong:?}");
    }
    // Of two who come back with the same state, one is let in.
    let (first, second) = tokio::join!(store.take_login(&tenant.org, "one"), store.take_login(&tenant.org, "one"));
    let taken = [first.unwrap(), second.unwrap()].into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(taken.len(), 1);
    let taken = taken.into_iter().next().unwrap();
    assert_eq!((taken.details.expose(), taken.expires_at, &taken.started_by), ("details", expires_at, &tenant.person()));
    assert!(store.take_login(&tenant.org, "one").await.unwrap().is_none(), "a replay finds nothing");
    // Another login that was started since is not ended by the first.
    start("two").await;
    assert_eq!(store.end_login(taken, LoginEnd::Failed { problem: "no".to_owned() }).await, Ok(true));
    let open = store.find_login(&tenant.org, &linear.id).await.unwrap().unwrap();
    assert_eq!((open.ended_at, open.problem), (None, None));
    let taken = store.take_login(&tenant.org, "two").await.unwrap().unwrap();
    assert_eq!(store.end_login(taken, LoginEnd::Failed { problem: "no".to_owned() }).await, Ok(true));
    let failed = store.find_login(&tenant.org, &linear.id).await.unwrap().unwrap();
    assert_eq!((failed.ended_at.is_some(), failed.problem.as_deref()), (true, Some("no")));
    // One for a connection that was removed meanwhile changes nothing.
    start("three").await;
    let taken = store.take_login(&tenant.org, "three").await.unwrap().unwrap();
    remove(store, &tenant, "linear").await;
    let end = LoginEnd::Granted { value: secret(VALUE), issuer: "https://login.example.com".to_owned() };
    assert_eq!(store.end_login(taken, end).await, Ok(false));
    assert_eq!(value_of(store, &tenant, &linear.id).await, None);
    let state = Secret::new("four".to_owned());
    assert_eq!(store.start_login(&tenant.org, &linear.id, &state, &secret("x"), &tenant.person()).await, Ok(None));
    world.verify(&tenant).await;
}

async fn what_a_person_has_to_do_is_noted_for_the_version_it_is_about(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let linear = create(store, &tenant, new("linear", ConnectionKind::Oauth, None)).await;
    log_in(store, &tenant, &linear.id, "tokens").await;
    let shown = async || store.find_connection(&tenant.org, &name("linear")).await.unwrap().unwrap();
    let need = async |version, need| store.need_login(&tenant.org, &linear.id, version, need).await.unwrap();
    need(2, Need::Scopes { why: "more".to_owned(), scopes: "read write".to_owned() }).await;
    let now = shown().await;
    assert_eq!((now.state, now.why.as_deref(), now.scopes.as_deref()), (ConnectionState::Ready, Some("more"), Some("read write")));
    need(1, Need::Login { why: "late".to_owned() }).await;
    assert_eq!(shown().await.state, ConnectionState::Ready, "somebody has logged in since");
    need(2, Need::Login { why: "ended".to_owned() }).await;
    let now = shown().await;
    assert_eq!((now.state, now.why.as_deref()), (ConnectionState::NeedsLogin, Some("ended")));
    assert_eq!(now.scopes.as_deref(), Some("read write"), "the next login asks for them");
    let events = store.list_events_after(&tenant.org, TOLD, 1_000).await.unwrap();
    assert_eq!(events.iter().filter(|event| event.name == "connection.needs_login").count(), 2);
    assert_eq!(store.connection_version(&tenant.org, &linear.id).await, Ok(Some(2)));
    log_in(store, &tenant, &linear.id, "again").await;
    let now = shown().await;
    assert_eq!((now.version, now.state, now.why), (3, ConnectionState::Ready, None));
    assert_eq!(store.connection_version(&tenant.org, &linear.id).await, Ok(Some(3)), "approvals are bound to it");
    remove(store, &tenant, "linear").await;
    assert_eq!(store.connection_version(&tenant.org, &linear.id).await, Ok(None));
    assert_eq!(store.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
}

async fn connections_are_listed_by_name_and_a_removed_one_frees_its_name(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    for text in ["b", "a", "c"] {
        make(store, &tenant, text, VALUE).await;
    }
    let taken = store.create_connection(&tenant.org, new("a", ConnectionKind::Bearer, Some(VALUE)), &tenant.person()).await;
    assert_eq!(taken, Ok(CreatedConnection::Taken));
    remove(store, &tenant, "a").await;
    let again = make(store, &tenant, "a", VALUE).await;
    remove(store, &tenant, "c").await;
    let all = store.list_connections(&tenant.org, &Default::default(), &everything()).await.unwrap().items;
    assert_eq!(all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(all[0].id, again.id);
    let first = store.list_connections(&tenant.org, &Default::default(), &PageRequest { limit: 1, after: None }).await.unwrap();
    assert_eq!((first.items.len(), first.next.as_deref()), (1, Some("a")));
}

async fn mail_connections_are_found_with_the_address_that_mail_comes_from(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    make(store, &tenant, "github", VALUE).await;
    let mail = |text: &str, value: Option<&str>| NewConnection {
        url: "smtps://mail.example.com:465".to_owned(),
        account: value.map(|_| "robin".to_owned()),
        from: Some(format!("{text}@example.com")),
        ..new(text, ConnectionKind::Smtp, value)
    };
    let support = create(store, &tenant, mail("support", Some(VALUE))).await;
    let billing = create(store, &tenant, mail("billing", None)).await;
    assert_eq!((support.state, billing.from.as_deref()), (ConnectionState::Ready, Some("billing@example.com")));
    assert_eq!(store.mail_connections(&tenant.org).await, Ok(vec![billing.clone(), support.clone()]));
    assert_eq!(value_of(store, &tenant, &support.id).await.as_deref(), Some(VALUE));
    assert_eq!(value_of(store, &tenant, &billing.id).await, None, "it needs no login");
    let used = store.find_connection_by_id(&tenant.org, &billing.id).await.unwrap().unwrap();
    assert_eq!(used.last_used_at, Some(store.now().await.unwrap()), "and is used all the same");
    remove(store, &tenant, "billing").await;
    let left: Vec<_> = store.mail_connections(&tenant.org).await.unwrap().into_iter().map(|connection| connection.id).collect();
    assert_eq!(left, [support.id]);

    world.verify(&tenant).await;
    assert_eq!(store.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
    world.home.tamper("UPDATE connections SET mail_from = 'boss@example.com' WHERE name = 'support'").await;
    let differences = store.check_integrity(&tenant.org).await.unwrap().differences;
    assert!(differences.iter().any(|one| one.contains("from boss@example.com")), "{differences:?}");
}
