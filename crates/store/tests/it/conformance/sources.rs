//! Sources that admins add: each change is a rule of its own in the log, a caller changes what it read, and what a source uses stays.

use crate::harness::{BEGUN, Home, Kind, TOLD, Tenant, World, everything, on_both_engines};
use countersign_core::allowed::AllowedList;
use countersign_core::grant::{Covers, GrantScope, GrantState, GrantTerms, GrantedDefinition};
use countersign_core::ports::connections::{ConnectionKind, ConnectionName};
use countersign_core::ports::definitions::{Pin, Wording};
use countersign_core::ports::secrets::{SecretName, SecretValue};
use countersign_core::ports::sources::{AddedSource, Hints, McpServer, SourceSettings, Variable, VariableValue};
use countersign_core::ports::{AddedSources, Definitions, EventFeed, Invocations, Rules};
use countersign_core::source::{KeptListing, Listings};
use countersign_core::{ActionId, ConnectionId, Digest, GrantId, Secret, SourceId, Tier};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::sync::Arc;
use store::{
    Added, AllowedRow, Changed, CreatedConnection, DeletedSecret, NewAllowed, NewConnection, NewGrant, NewSecret, PageRequest,
    RemovedConnection, SecretUse, Store,
};
use testkit::{FixedClock, SeededRandom};

on_both_engines!(
    a_source_is_added_changed_and_removed_and_the_log_says_so,
    a_change_is_made_to_the_version_that_was_read,
    an_org_has_as_many_sources_as_it_may_have,
    a_removed_name_is_free_and_its_version_goes_on,
    the_sources_are_remembered_until_they_change,
    the_grants_for_a_source_end_with_it_and_with_its_connection,
    a_review_ends_the_grants_for_other_definitions,
    a_secret_and_a_connection_stay_while_a_source_uses_them,
    a_source_that_was_changed_in_the_database_shows,
    sources_are_listed_by_name_and_page,
    a_restored_store_has_every_source,
    what_is_allowed_with_a_source_is_there_with_it_or_not_at_all,
    what_is_allowed_is_remembered_until_it_changes,
);

fn id(text: &str) -> SourceId {
    SourceId::parse(text).unwrap()
}

fn remote(title: &str) -> SourceSettings {
    SourceSettings {
        title: title.to_owned(),
        server: McpServer::Http { url: "https://mcp.example.com/mcp".to_owned() },
        connection: None,
        default_tier: Some(Tier::R2),
        hints: Hints::Trusted,
        tiers: BTreeMap::from([("delete_repo".to_owned(), Tier::R4), ("search".to_owned(), Tier::R1)]),
        spaces: None,
        list_timeout_ms: 15_000,
        call_timeout_ms: 30_000,
    }
}

/// A program whose environment has a value, and each of these secrets.
fn program(secrets: &[&str]) -> SourceSettings {
    let secrets = secrets.iter().map(|secret| Variable { name: "TOKEN".to_owned(), value: VariableValue::Secret((*secret).to_owned()) });
    let level = Variable { name: "LOG_LEVEL".to_owned(), value: VariableValue::Value("debug".to_owned()) };
    let env = std::iter::once(level).chain(secrets).collect();
    SourceSettings { server: McpServer::Program { command: vec!["node".to_owned(), "index.js".to_owned()], env }, ..remote("Files") }
}

async fn try_add(store: &Store, tenant: &Tenant, text: &str, settings: SourceSettings) -> Added {
    store.add_source(&tenant.org, id(text), settings, &tenant.person(), 20, None).await.unwrap()
}

async fn add(store: &Store, tenant: &Tenant, text: &str, settings: SourceSettings) -> AddedSource {
    match try_add(store, tenant, text, settings).await {
        Added::Done(source) => source,
        refused @ (Added::Taken | Added::TooMany | Added::TooManyAllowed) => panic!("`{text}` was not added: {refused:?}"),
    }
}

async fn remove(store: &Store, tenant: &Tenant, text: &str) -> AddedSource {
    store.remove_source(&tenant.org, &id(text), &tenant.person()).await.unwrap().unwrap()
}

async fn differences(store: &Store, tenant: &Tenant) -> Vec<String> {
    store.check_integrity(&tenant.org).await.unwrap().differences
}

async fn a_source_is_added_changed_and_removed_and_the_log_says_so(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let before = store.rules_version(&tenant.org).await.unwrap();
    let spaces = Some(BTreeSet::from([tenant.space.clone()]));
    let added = add(store, &tenant, "github", SourceSettings { spaces, ..remote("GitHub") }).await;
    assert_eq!((added.version, &added.added_by, added.added_at), (1, &tenant.person(), store.now().await.unwrap()));
    assert_eq!((&added.changed_by, added.changed_at, added.removed_at), (&added.added_by, added.added_at, None));
    assert_eq!(store.find_source(&tenant.org, &id("github")).await, Ok(Some(added.clone())));
    assert_eq!(differences(store, &tenant).await, Vec::<String>::new());

    world.clock.advance_seconds(1);
    let changed = store.change_source(&tenant.org, &id("github"), 1, program(&["key"]), &tenant.person()).await.unwrap();
    let Changed::Done(changed) = changed else { panic!("it is there: {changed:?}") };
    let now = store.now().await.unwrap();
    assert_eq!(changed, AddedSource { version: 2, settings: program(&["key"]), changed_at: now, ..added.clone() });
    assert_eq!(store.find_source(&tenant.org, &id("github")).await, Ok(Some(changed.clone())));

    world.clock.advance_seconds(1);
    let now = store.now().await.unwrap();
    let removed = remove(store, &tenant, "github").await;
    assert_eq!(removed, AddedSource { changed_at: now, removed_at: Some(now), ..changed.clone() });
    assert_eq!(store.find_source(&tenant.org, &id("github")).await, Ok(Some(removed)), "receipts can name it");
    assert_eq!(*store.added_sources(&tenant.org).await.unwrap(), []);
    assert_eq!(store.remove_source(&tenant.org, &id("github"), &tenant.person()).await, Ok(None));
    assert_eq!(store.rules_version_anew(&tenant.org).await, Ok(before + 3), "each change is one of the rules");

    let events = store.list_events_after(&tenant.org, TOLD, 1_000).await.unwrap();
    let told: Vec<_> = events.iter().map(|event| (event.name.as_str(), event.key.as_str())).collect();
    assert_eq!(told, ["source.added", "source.changed", "source.removed"].map(|name| (name, "github")));
    let said: Vec<_> = events.iter().map(|event| serde_json::from_str::<Value>(&event.body).unwrap()["change"].clone()).collect();
    let of = |index: usize, fields: &[&str]| fields.iter().map(|field| said[index][*field].clone()).collect::<Vec<_>>();
    assert_eq!(of(0, &["rule", "version", "server", "connection"]), [json!("source_set"), json!(1), json!("http"), json!(null)]);
    assert_eq!(said[0]["tiers"], json!({ "delete_repo": "R4", "search": "R1" }));
    assert_eq!(of(1, &["rule", "version", "server"]), [json!("source_set"), json!(2), json!("program")]);
    assert_eq!(of(2, &["rule", "source", "version"]), [json!("source_removed"), json!("github"), json!(2)]);
    // What was set stays readable under the digest that the log has.
    for (change, source) in said.iter().zip([&added, &changed]) {
        let digest = Digest::parse(change["settings"].as_str().unwrap()).unwrap();
        let archived = store.find_definition(&tenant.org, digest).await.unwrap().unwrap();
        assert_eq!(serde_json::from_str::<SourceSettings>(&archived).unwrap(), source.settings);
    }
    assert_eq!(world.verify(&tenant).await.entries, BEGUN + 3);
    assert_eq!(differences(store, &tenant).await, Vec::<String>::new());
}

async fn a_change_is_made_to_the_version_that_was_read(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let change = async |version: i64, title: &str| {
        store.change_source(&tenant.org, &id("github"), version, remote(title), &tenant.person()).await.unwrap()
    };
    assert_eq!(change(1, "early").await, Changed::Gone);
    add(store, &tenant, "github", remote("first")).await;
    assert_eq!(change(2, "other").await, Changed::Stale);
    // Of two who have read the same version, one changes it.
    let (one, other) = tokio::join!(change(1, "one"), change(1, "other"));
    let done = [&one, &other].into_iter().filter(|changed| matches!(changed, Changed::Done(_))).count();
    assert!(done == 1 && [one, other].contains(&Changed::Stale));
    remove(store, &tenant, "github").await;
    assert_eq!(change(2, "late").await, Changed::Gone);
    assert_eq!(world.verify(&tenant).await.entries, BEGUN + 3);
}

async fn an_org_has_as_many_sources_as_it_may_have(kind: Kind) {
    let world = World::new(kind).await;
    let (store, ours, theirs) = (&world.store, world.tenant("ours").await, world.tenant("theirs").await);
    add(store, &theirs, "a", remote("theirs")).await;
    let try_add = async |text: &str| store.add_source(&ours.org, id(text), remote(text), &ours.person(), 2, None).await.unwrap();
    assert!(matches!(try_add("a").await, Added::Done(_)));
    assert_eq!(try_add("a").await, Added::Taken);
    assert!(matches!(try_add("b").await, Added::Done(_)));
    assert_eq!(try_add("a").await, Added::Taken, "the name is said first");
    assert_eq!(try_add("c").await, Added::TooMany);
    remove(store, &ours, "a").await;
    // Of two at once, one finds room.
    let (one, other) = tokio::join!(try_add("c"), try_add("d"));
    let done = [&one, &other].into_iter().filter(|added| matches!(added, Added::Done(_))).count();
    assert!(done == 1 && [one, other].contains(&Added::TooMany));
}

async fn a_removed_name_is_free_and_its_version_goes_on(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let first = add(store, &tenant, "github", remote("first")).await;
    remove(store, &tenant, "github").await;
    world.clock.advance_seconds(1);
    let again = add(store, &tenant, "github", program(&[])).await;
    assert_eq!((again.version, again.removed_at, again.settings.clone()), (2, None, program(&[])));
    assert!(again.added_at > first.added_at);
    assert_eq!(*store.added_sources(&tenant.org).await.unwrap(), [again]);
    let events = store.list_events_after(&tenant.org, TOLD, 1_000).await.unwrap();
    let told: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(told, ["source.added", "source.removed", "source.added"]);
    assert_eq!(differences(store, &tenant).await, Vec::<String>::new());
    world.verify(&tenant).await;
}

async fn the_sources_are_remembered_until_they_change(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    add(store, &tenant, "b", remote("b")).await;
    add(store, &tenant, "a", remote("a")).await;
    let names = async |store: &Store| {
        let sources = store.added_sources(&tenant.org).await.unwrap();
        sources.iter().map(|source| format!("{} {}", source.id, source.version)).collect::<Vec<_>>()
    };
    assert_eq!(names(store).await, ["a 1", "b 1"]);
    // On PostgreSQL nothing is remembered until the store hears of what others change.
    if kind == Kind::Sqlite {
        let (one, two) = (store.added_sources(&tenant.org).await.unwrap(), store.added_sources(&tenant.org).await.unwrap());
        assert!(Arc::ptr_eq(&one, &two));
        set_secret(store, &tenant, "key").await;
        assert!(Arc::ptr_eq(&one, &store.added_sources(&tenant.org).await.unwrap()), "another row was written");
    }
    assert!(matches!(store.change_source(&tenant.org, &id("a"), 1, remote("A"), &tenant.person()).await, Ok(Changed::Done(_))));
    assert_eq!(names(store).await, ["a 2", "b 1"]);
    if kind == Kind::Postgres {
        let elsewhere = world.another_store().await;
        assert_eq!(names(&elsewhere).await, ["a 2", "b 1"]);
        remove(&elsewhere, &tenant, "b").await;
        // Whoever knows the version of the rules knows the sources that belong to it.
        store.rules_version_anew(&tenant.org).await.unwrap();
        assert_eq!(names(store).await, ["a 2"]);
    }
}

/// Gives a grant for the session of the tenant.
async fn grant(store: &Store, tenant: &Tenant, covers: &str, definition: Option<GrantedDefinition>) -> GrantId {
    let scope = GrantScope::Session(tenant.session.id.clone());
    let covers = Covers::parse(covers).unwrap();
    let terms = GrantTerms { scope, space: None, covers, condition: None, calls_max: None, sum_max: None, definition };
    store.give_grant(&tenant.org, NewGrant { terms, lifetime_seconds: 3_600, reason: None }, &tenant.person()).await.unwrap().id
}

async fn states(store: &Store, tenant: &Tenant, grants: &[GrantId]) -> Vec<GrantState> {
    let mut states = Vec::new();
    for grant in grants {
        states.push(store.find_grant(&tenant.org, grant).await.unwrap().unwrap().state);
    }
    states
}

fn listing() -> KeptListing {
    KeptListing { actions: vec![Arc::new(testkit::source::action("github.merge"))], listed_at: testkit::clock::START }
}

async fn the_grants_for_a_source_end_with_it_and_with_its_connection(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (by, source) = (tenant.person(), id("github"));
    let connection = connect(store, &tenant, &ConnectionName::parse("github").unwrap()).await;
    add(store, &tenant, "github", remote("GitHub")).await;
    let mut grants = Vec::new();
    for covers in ["github.merge", "github.*", "gitlab.*", "*"] {
        grants.push(grant(store, &tenant, covers, None).await);
    }
    store.keep_listing(&tenant.org, &source, listing()).await.unwrap();
    let change = async |version, settings| {
        let changed = store.change_source(&tenant.org, &source, version, settings, &by).await.unwrap();
        assert!(matches!(changed, Changed::Done(_)), "{changed:?}");
    };
    change(1, remote("Hub")).await;
    assert_eq!(states(store, &tenant, &grants).await, [GrantState::Active; 4], "it is the same server and the same account");
    assert!(store.find_listing(&tenant.org, &source).await.unwrap().is_some());

    change(2, SourceSettings { connection: Some(connection), ..remote("Hub") }).await;
    let ended = [GrantState::Revoked, GrantState::Revoked, GrantState::Active, GrantState::Active];
    assert_eq!(states(store, &tenant, &grants).await, ended);
    assert_eq!(store.find_listing(&tenant.org, &source).await, Ok(None), "it was listed for another account");
    let revoked = store.find_grant(&tenant.org, &grants[1]).await.unwrap().unwrap();
    assert_eq!(revoked.ended_by, Some(by.clone()));

    let again = grant(store, &tenant, "github.*", None).await;
    store.keep_listing(&tenant.org, &source, listing()).await.unwrap();
    remove(store, &tenant, "github").await;
    assert_eq!(states(store, &tenant, &[again, grants[2].clone()]).await, [GrantState::Revoked, GrantState::Active]);
    assert_eq!(store.find_listing(&tenant.org, &source).await, Ok(None));
    assert_eq!(differences(store, &tenant).await, Vec::<String>::new());
    world.verify(&tenant).await;
}

async fn a_review_ends_the_grants_for_other_definitions(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let of = |byte: u8| GrantedDefinition { structural: Digest::new([byte; 32]), textual: Digest::new([byte; 32]) };
    let grants = [
        grant(store, &tenant, "github.merge", Some(of(1))).await,
        grant(store, &tenant, "github.merge", Some(of(2))).await,
        grant(store, &tenant, "github.search", Some(of(1))).await,
        grant(store, &tenant, "github.*", None).await,
    ];
    let GrantedDefinition { structural, textual } = of(2);
    let pin = Pin { structural, textual, wording: Wording::Reviewed, seen: None, changed_at: None };
    store.review(&tenant.org, &ActionId::parse("github.merge").unwrap(), pin, &tenant.person()).await.unwrap();
    let expected = [GrantState::Revoked, GrantState::Active, GrantState::Active, GrantState::Active];
    assert_eq!(states(store, &tenant, &grants).await, expected);
    assert_eq!(differences(store, &tenant).await, Vec::<String>::new());
    world.verify(&tenant).await;
}

async fn set_secret(store: &Store, tenant: &Tenant, text: &str) -> SecretName {
    let name = SecretName::parse(text).unwrap();
    let value = SecretValue::new(Secret::new("x".to_owned())).unwrap();
    let new = NewSecret { name: name.clone(), value, description: None, replaces: None };
    store.set_secret(&tenant.org, new, &tenant.person()).await.unwrap();
    name
}

async fn connect(store: &Store, tenant: &Tenant, name: &ConnectionName) -> ConnectionId {
    let new = NewConnection {
        name: name.clone(),
        kind: ConnectionKind::Bearer,
        url: "https://mcp.example.com/mcp".to_owned(),
        account: None,
        from: None,
        secret: None,
        scopes: None,
        spaces: None,
        value: SecretValue::new(Secret::new("x".to_owned())),
    };
    let made = store.create_connection(&tenant.org, new, &tenant.person()).await.unwrap();
    let CreatedConnection::Created(connection) = made else { panic!("it is new: {made:?}") };
    connection.id
}

async fn a_secret_and_a_connection_stay_while_a_source_uses_them(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let by = tenant.person();
    // Names that another one would match, if a name were read as a pattern or as a part.
    let (used, like, part) =
        (set_secret(store, &tenant, "a_b").await, set_secret(store, &tenant, "a-b").await, set_secret(store, &tenant, "a_").await);
    add(store, &tenant, "files", program(&["other", "a_b"])).await;
    let uses = vec![SecretUse { kind: "source", id: "files".to_owned(), name: "files".to_owned() }];
    assert_eq!(store.list_secret_uses(&tenant.org, &used).await.as_ref(), Ok(&uses));
    assert_eq!(store.delete_secret(&tenant.org, &used, &by).await, Ok(Some(DeletedSecret::InUse(uses))));
    for unused in [like, part] {
        assert_eq!(store.delete_secret(&tenant.org, &unused, &by).await, Ok(Some(DeletedSecret::Done)), "{unused}");
    }

    let name = ConnectionName::parse("github").unwrap();
    let connection = connect(store, &tenant, &name).await;
    add(store, &tenant, "github", SourceSettings { connection: Some(connection.clone()), ..remote("GitHub") }).await;
    let refused = store.remove_connection(&tenant.org, &name, &by).await.unwrap();
    assert!(matches!(&refused, Some(RemovedConnection::InUse(sources)) if *sources == [id("github")]));
    assert!(store.find_connection(&tenant.org, &name).await.unwrap().is_some(), "it is as it was");

    // A source that no longer uses it, or is gone, keeps nothing.
    assert!(matches!(store.change_source(&tenant.org, &id("github"), 1, remote("GitHub"), &by).await, Ok(Changed::Done(_))));
    assert!(matches!(store.remove_connection(&tenant.org, &name, &by).await, Ok(Some(RemovedConnection::Done(_)))));
    remove(store, &tenant, "files").await;
    assert_eq!(store.list_secret_uses(&tenant.org, &used).await, Ok(vec![]));
    assert_eq!(store.delete_secret(&tenant.org, &used, &by).await, Ok(Some(DeletedSecret::Done)));
    let events = store.list_events_after(&tenant.org, 0, 1_000).await.unwrap();
    let set = events.iter().rfind(|event| event.name == "source.added").unwrap();
    assert_eq!(serde_json::from_str::<Value>(&set.body).unwrap()["change"]["connection"], connection.as_str());
    world.verify(&tenant).await;
}

async fn a_source_that_was_changed_in_the_database_shows(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    add(store, &tenant, "github", remote("GitHub")).await;
    add(store, &tenant, "gone", remote("Gone")).await;
    remove(store, &tenant, "gone").await;
    let check = async |change: &str, back: &str, expected: &str| {
        world.home.tamper(change).await;
        let found = differences(store, &tenant).await;
        assert!(found.len() == 1 && found[0].contains(expected), "{change}: {found:?}");
        world.home.tamper(back).await;
        assert_eq!(differences(store, &tenant).await, Vec::<String>::new(), "{back}");
    };
    let replaced = |old: &str, new: &str| format!("UPDATE sources SET settings = replace(settings, '{old}', '{new}') WHERE id = 'github'");
    for (old, new) in [("mcp.example.com", "evil.test"), (r#""delete_repo":"R4""#, r#""delete_repo":"R0""#)] {
        check(&replaced(old, new), &replaced(new, old), "source `github` is `version 1 ").await;
    }
    check("UPDATE sources SET version = 7 WHERE id = 'github'", "UPDATE sources SET version = 1 WHERE id = 'github'", "is `version 7 ")
        .await;
    let revived = "UPDATE sources SET removed_at = NULL WHERE id = 'gone'";
    check(revived, "UPDATE sources SET removed_at = 1 WHERE id = 'gone'", " removed`").await;
    let hidden = "UPDATE sources SET removed_at = 1 WHERE id = 'github'";
    check(hidden, "UPDATE sources SET removed_at = NULL WHERE id = 'github'", "source `github` is ").await;
    let planted = "INSERT INTO sources (org_id, id, version, settings, secrets, added_by, added_at, changed_by, changed_at)
                   SELECT org_id, 'planted', 1, settings, '[]', added_by, 1, added_by, 1 FROM sources WHERE id = 'github'";
    check(planted, "DELETE FROM sources WHERE id = 'planted'", "source `planted` is in the database, and the log does not say so").await;
    world.home.tamper("DELETE FROM sources WHERE id = 'gone'").await;
    let found = differences(store, &tenant).await;
    assert!(found.len() == 1 && found[0].contains("source `gone` is missing in the database"), "{found:?}");
}

async fn sources_are_listed_by_name_and_page(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    for text in ["b", "a", "gone", "c"] {
        add(store, &tenant, text, remote(text)).await;
    }
    remove(store, &tenant, "gone").await;
    let all = store.list_sources(&tenant.org, &Default::default(), &everything()).await.unwrap().items;
    assert_eq!(all.iter().map(|source| source.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    let first = store.list_sources(&tenant.org, &Default::default(), &PageRequest { limit: 2, after: None }).await.unwrap();
    assert_eq!((first.items.len(), first.next.as_deref()), (2, Some("b")));
    let rest = store.list_sources(&tenant.org, &Default::default(), &PageRequest { limit: 2, after: first.next }).await.unwrap();
    assert_eq!((rest.items.as_slice(), rest.next), (&all[2..], None));
}

async fn a_restored_store_has_every_source(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    add(store, &tenant, "github", remote("GitHub")).await;
    add(store, &tenant, "files", program(&["key"])).await;
    remove(store, &tenant, "github").await;
    let mut file = Vec::new();
    store.backup(&mut file).await.unwrap();
    for target in [Kind::Sqlite, Kind::Postgres] {
        let home = Home::new(target).await;
        let restored = home.open(&FixedClock::new(), &SeededRandom::new(77)).await.unwrap();
        restored.restore(Cursor::new(file.clone())).await.unwrap();
        for text in ["github", "files"] {
            assert_eq!(restored.find_source(&tenant.org, &id(text)).await, store.find_source(&tenant.org, &id(text)).await);
        }
        assert_eq!(differences(&restored, &tenant).await, Vec::<String>::new());
    }
}

fn allowing(terms: &str) -> NewAllowed {
    NewAllowed { list: AllowedList::Commands, entry: "5f0c2a9d11e47b60".to_owned(), terms: Some(terms.to_owned()) }
}

async fn allowed(store: &Store, tenant: &Tenant) -> Arc<Vec<AllowedRow>> {
    store.list_allowed(&tenant.org).await.unwrap()
}

async fn what_is_allowed_with_a_source_is_there_with_it_or_not_at_all(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let add = async |name: &str, most: u32, terms: &str| {
        store.add_source(&tenant.org, id(name), program(&[]), &tenant.person(), most, Some(allowing(terms))).await.unwrap()
    };
    assert!(matches!(add("files", 2, r#"{"of":1}"#).await, Added::Done(_)));
    let first = allowed(store, &tenant).await;
    assert_eq!((first.len(), first[0].terms.as_deref()), (1, Some(r#"{"of":1}"#)));
    let events = store.list_events_after(&tenant.org, TOLD, 1_000).await.unwrap();
    assert_eq!(events.iter().map(|event| event.name.as_str()).collect::<Vec<_>>(), ["allowed.set", "source.added"]);
    // What is not added allows nothing either.
    assert_eq!(add("files", 2, r#"{"of":2}"#).await, Added::Taken);
    assert_eq!(add("others", 1, r#"{"of":3}"#).await, Added::TooMany);
    assert_eq!(allowed(store, &tenant).await, first);
    // What is allowed so already is signed once.
    assert!(matches!(add("others", 2, r#"{"of":1}"#).await, Added::Done(_)));
    assert_eq!(allowed(store, &tenant).await, first);
    let log = world.verify(&tenant).await;
    assert_eq!((log.entries, differences(store, &tenant).await), (BEGUN + 3, Vec::<String>::new()));
}

async fn what_is_allowed_is_remembered_until_it_changes(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant, by) = (&world.store, world.tenant("acme").await, world.tenant("other").await.person());
    let none = allowed(store, &tenant).await;
    assert!(Arc::ptr_eq(&none, &allowed(store, &tenant).await), "nothing was written, and nothing is read again");
    store.set_allowed(&tenant.org, allowing("{}"), &by).await.unwrap();
    let one = allowed(store, &tenant).await;
    assert_eq!((none.len(), one.len()), (0, 1));
    store.remove_allowed(&tenant.org, AllowedList::Commands, &one[0].entry, &by).await.unwrap();
    assert_eq!(allowed(store, &tenant).await.len(), 0);
}
