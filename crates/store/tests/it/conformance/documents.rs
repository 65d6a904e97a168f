//! The documents of spaces: how they are found, changed, taken back and forgotten.

use crate::harness::{Home, Kind, TOLD, Tenant, World, everything, on_both_engines, sha256};
use countersign_core::ledger::Row;
use countersign_core::limits::SNAPSHOT_DAYS;
use countersign_core::ports::documents::{ChangedDocuments, DocumentChange, DocumentChanges, DocumentQuery, DocumentState};
use countersign_core::ports::{Documents, EventFeed, Invocations};
use countersign_core::{Clock as _, DocumentId, InvocationId, SpaceId, Status};
use serde_json::{Value, json};
use std::io::Cursor;
use store::{DocumentFilter, Error, Store};
use testkit::{FixedClock, SeededRandom};

on_both_engines!(
    every_word_must_be_there_and_a_title_counts_more,
    signs_divide_words_and_none_is_an_operator,
    tags_and_times_narrow_a_search,
    a_space_sees_its_own_documents_alone,
    a_change_is_made_once_and_taken_back_by_its_reverse,
    what_somebody_changed_since_is_left_alone,
    a_file_is_one_document,
    what_becomes_of_a_document_is_published,
    a_call_that_has_ended_changes_nothing,
    what_was_removed_or_replaced_is_forgotten_in_time,
    the_words_of_a_restored_store_are_found,
);

const DAY_SECONDS: u64 = 24 * 60 * 60;

pub(crate) fn state(title: &str, text: &str, tags: &[&str]) -> DocumentState {
    DocumentState { title: title.to_owned(), tags: tags.iter().map(|tag| (*tag).to_owned()).collect(), sha256: sha256(text) }
}

/// Changes of the tenant's first space, by a call that has no row.
pub(crate) fn changes(tenant: &Tenant, changes: Vec<DocumentChange>, texts: &[&str]) -> DocumentChanges {
    DocumentChanges {
        org: tenant.org.clone(),
        space: tenant.space.clone(),
        invocation: tenant.draw(InvocationId::new),
        takes_back: false,
        session: tenant.session.id.clone(),
        changes,
        texts: texts.iter().map(|text| (sha256(text), (*text).to_owned())).collect(),
    }
}

pub(crate) fn addition(tenant: &Tenant, path: Option<&str>, state: DocumentState) -> DocumentChange {
    DocumentChange { id: tenant.draw(DocumentId::new), path: path.map(str::to_owned), before: None, after: Some(state) }
}

pub(crate) async fn add(store: &Store, tenant: &Tenant, title: &str, text: &str, tags: &[&str]) -> DocumentId {
    let change = addition(tenant, None, state(title, text, tags));
    let id = change.id.clone();
    assert_eq!(store.change_documents(changes(tenant, vec![change], &[text])).await, Ok(ChangedDocuments::Done));
    id
}

fn query(words: &[&str]) -> DocumentQuery {
    DocumentQuery { words: words.iter().map(|word| (*word).to_owned()).collect(), limit: 10, ..DocumentQuery::default() }
}

async fn titles(store: &Store, tenant: &Tenant, space: &SpaceId, query: &DocumentQuery) -> Vec<String> {
    let hits = store.search_documents(&tenant.org, space, query).await.unwrap();
    hits.into_iter().map(|hit| hit.document.state.title).collect()
}

async fn every_word_must_be_there_and_a_title_counts_more(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let long = format!("{} the falcon lands {}", "before it ".repeat(60), "after it ".repeat(60));
    add(store, &tenant, "Notes", &long, &[]).await;
    add(store, &tenant, "Falcon launch", "what was said about the rocket", &[]).await;
    add(store, &tenant, "Rocket science", "thrust and mass", &[]).await;
    for (words, expected) in [
        (vec!["falcon"], vec!["Falcon launch", "Notes"]),
        (vec!["FALCON"], vec!["Falcon launch", "Notes"]),
        (vec!["rocket"], vec!["Rocket science", "Falcon launch"]),
        (vec!["falcon", "lands"], vec!["Notes"]),
        (vec!["falcon", "thrust"], vec![]),
        (vec!["falco"], vec![]),
    ] {
        assert_eq!(titles(store, &tenant, &tenant.space, &query(&words)).await, expected, "{words:?}");
    }
    let limited = DocumentQuery { limit: 1, ..query(&["falcon"]) };
    assert_eq!(titles(store, &tenant, &tenant.space, &limited).await, ["Falcon launch"]);
    let hits = store.search_documents(&tenant.org, &tenant.space, &query(&["falcon", "lands"])).await.unwrap();
    let snippet = &hits[0].snippet;
    assert!(snippet.contains("falcon lands") && snippet.len() < 400, "{snippet}");
}

async fn signs_divide_words_and_none_is_an_operator(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    add(store, &tenant, "Mail", "ask robin@example.com about v1.2-beta; it's OR and NEAR", &[]).await;
    add(store, &tenant, "Grüße", "Ein Café in Köln", &[]).await;
    for word in ["robin", "example", "com", "v1", "2", "beta", "OR", "AND", "NOT", "NEAR"] {
        let expected: &[&str] = if word == "NOT" { &[] } else { &["Mail"] };
        assert_eq!(titles(store, &tenant, &tenant.space, &query(&[word])).await, expected, "{word}");
    }
    for word in ["grüße", "café", "KÖLN"] {
        assert_eq!(titles(store, &tenant, &tenant.space, &query(&[word])).await, ["Grüße"], "{word}");
    }
    assert!(titles(store, &tenant, &tenant.space, &query(&["cafe"])).await.is_empty());
}

async fn tags_and_times_narrow_a_search(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    add(store, &tenant, "old", "about rivals", &["competitor", "x_y"]).await;
    world.clock.advance_seconds(60);
    let then = world.clock.now();
    add(store, &tenant, "new", "about rivals", &["competitor"]).await;
    world.clock.advance_seconds(60);
    add(store, &tenant, "other", "about rivals", &["x-y"]).await;
    let tagged = |tags: &[&str]| DocumentQuery { tags: tags.iter().map(|tag| (*tag).to_owned()).collect(), ..query(&[]) };
    for (query, expected) in [
        (query(&[]), vec!["other", "new", "old"]),
        (tagged(&["competitor"]), vec!["new", "old"]),
        (tagged(&["competitor", "x_y"]), vec!["old"]),
        (tagged(&["x_y"]), vec!["old"]),
        (tagged(&["comp"]), vec![]),
        (DocumentQuery { since: Some(then), ..query(&[]) }, vec!["other", "new"]),
        (DocumentQuery { since: Some(then), ..tagged(&["competitor"]) }, vec!["new"]),
        (DocumentQuery { since: Some(then), words: vec!["rivals".into()], ..tagged(&["competitor"]) }, vec!["new"]),
        (DocumentQuery { limit: 2, ..query(&[]) }, vec!["other", "new"]),
    ] {
        assert_eq!(titles(store, &tenant, &tenant.space, &query).await, expected, "{query:?}");
    }
}

async fn a_space_sees_its_own_documents_alone(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant, theirs) = (&world.store, world.tenant("acme").await, world.tenant("other").await);
    let other = store.create_space(&tenant.org, "second", &tenant.person()).await.unwrap().unwrap().id;
    let id = add(store, &tenant, "Plan", "the falcon", &["plan"]).await;
    add(store, &theirs, "Theirs", "the falcon", &["plan"]).await;
    assert_eq!(titles(store, &tenant, &tenant.space, &query(&["falcon"])).await, ["Plan"]);
    assert!(titles(store, &tenant, &other, &query(&["falcon"])).await.is_empty());
    assert!(titles(store, &tenant, &other, &query(&[])).await.is_empty());
    assert_eq!(store.find_document(&tenant.org, &other, &id).await, Ok(None));
    assert_eq!(store.read_document(&tenant.org, &other, &id).await, Ok(None));
    let (found, text) = store.read_document(&tenant.org, &tenant.space, &id).await.unwrap().unwrap();
    assert_eq!((found.state.title.as_str(), found.bytes, text.as_str()), ("Plan", 10, "the falcon"));
    let mut elsewhere = changes(&tenant, Vec::new(), &[]);
    let removal = DocumentChange { id: id.clone(), path: None, before: Some(found.state), after: Some(state("Taken", "the falcon", &[])) };
    elsewhere.space = other.clone();
    elsewhere.changes.push(removal);
    assert_eq!(store.change_documents(elsewhere).await, Ok(ChangedDocuments::Conflict(id.clone())));
    // Lists show what is seen, and nothing else.
    let listed = async |filter: DocumentFilter| store.list_documents(&tenant.org, &filter, &everything()).await.unwrap().items.len();
    assert_eq!(listed(DocumentFilter::default()).await, 1);
    assert_eq!(listed(DocumentFilter { hidden: [tenant.space.clone()].into(), ..DocumentFilter::default() }).await, 0);
    assert_eq!(listed(DocumentFilter { space: Some(other), ..DocumentFilter::default() }).await, 0);
    assert_eq!(listed(DocumentFilter { tag: Some("plan".into()), ..DocumentFilter::default() }).await, 1);
    assert_eq!(listed(DocumentFilter { tag: Some("pla".into()), ..DocumentFilter::default() }).await, 0);
}

async fn a_change_is_made_once_and_taken_back_by_its_reverse(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (first, second) = (state("A", "one falcon", &["a"]), state("B", "two herons", &["a", "b"]));
    let id = tenant.draw(DocumentId::new);
    let step = |before: Option<&DocumentState>, after: Option<&DocumentState>| DocumentChange {
        id: id.clone(),
        path: None,
        before: before.cloned(),
        after: after.cloned(),
    };
    let steps = [step(None, Some(&first)), step(Some(&first), Some(&second)), step(Some(&second), None)];
    let made = async |change: DocumentChange, texts: &[&str]| {
        let made = store.change_documents(changes(&tenant, vec![change], texts)).await.unwrap();
        let found = store.find_document(&tenant.org, &tenant.space, &id).await.unwrap().map(|found| found.state);
        let words = [
            titles(store, &tenant, &tenant.space, &query(&["falcon"])).await.len(),
            titles(store, &tenant, &tenant.space, &query(&["herons"])).await.len(),
        ];
        (made, found, words)
    };
    for (change, words) in steps.iter().zip([[1, 0], [0, 1], [0, 0]]) {
        let expected = (ChangedDocuments::Done, change.after.clone(), words);
        // The texts come with the changes, each once.
        assert_eq!(made(change.clone(), &["one falcon", "two herons"]).await, expected);
        assert_eq!(made(change.clone(), &[]).await, expected, "a second time changes nothing");
    }
    for (change, words) in steps.iter().rev().zip([[0, 1], [1, 0], [0, 0]]) {
        let back = change.clone().reversed();
        assert_eq!(made(back.clone(), &[]).await, (ChangedDocuments::Done, back.after.clone(), words), "the texts were kept");
    }
    // A text that nobody has cannot be given.
    let unknown = step(None, Some(&state("C", "nobody has it", &[])));
    assert_eq!(made(unknown, &[]).await.0, ChangedDocuments::TextGone(id.clone()));
}

async fn what_somebody_changed_since_is_left_alone(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let kept = add(store, &tenant, "Kept", "one", &[]).await;
    let moved = add(store, &tenant, "Moved", "two", &[]).await;
    let change = |id: &DocumentId, before: DocumentState, after: Option<DocumentState>| DocumentChange {
        id: id.clone(),
        path: None,
        before: Some(before),
        after,
    };
    // The second is not as it should be, so the first stays too.
    let both = vec![
        change(&kept, state("Kept", "one", &[]), None),
        change(&moved, state("Moved before", "two", &[]), Some(state("Moved again", "two", &[]))),
    ];
    assert_eq!(store.change_documents(changes(&tenant, both, &[])).await, Ok(ChangedDocuments::Conflict(moved)));
    assert!(store.find_document(&tenant.org, &tenant.space, &kept).await.unwrap().is_some());
}

async fn a_file_is_one_document(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let from_file = |path: &str| addition(&tenant, Some(path), state("A", "one", &[]));
    for path in ["notes/a.md", "notes/b.md", "notes_/c.md"] {
        assert_eq!(store.change_documents(changes(&tenant, vec![from_file(path)], &["one"])).await, Ok(ChangedDocuments::Done));
    }
    let again = from_file("notes/a.md");
    let refused = ChangedDocuments::Conflict(again.id.clone());
    assert_eq!(store.change_documents(changes(&tenant, vec![again], &["one"])).await, Ok(refused));
    let imported = async |folder: &str| {
        let found = store.list_imported(&tenant.org, &tenant.space, folder).await.unwrap();
        let mut paths: Vec<_> = found.into_iter().filter_map(|document| document.path).collect();
        paths.sort();
        paths
    };
    assert_eq!(imported("notes").await, ["notes/a.md", "notes/b.md"]);
    assert_eq!(imported("notes_").await, ["notes_/c.md"]);
    assert_eq!(imported("").await.len(), 3);
}

async fn what_becomes_of_a_document_is_published(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (first, second) = (state("A", "one", &["x"]), state("A", "one", &["x", "y"]));
    let added = addition(&tenant, Some("a.md"), first.clone());
    let step = |before, after| DocumentChange { before, after, ..added.clone() };
    for change in [added.clone(), step(Some(first), Some(second.clone())), step(Some(second), None)] {
        store.change_documents(changes(&tenant, vec![change.clone()], &["one"])).await.unwrap();
        // What is there already is no news.
        store.change_documents(changes(&tenant, vec![change], &["one"])).await.unwrap();
    }
    let events = store.list_events_after(&tenant.org, TOLD, 10).await.unwrap();
    let told: Vec<_> = events
        .iter()
        .map(|event| {
            assert_eq!((event.key.as_str(), event.space.as_ref()), (added.id.as_str(), Some(&tenant.space)));
            (event.name.as_str(), serde_json::from_str::<Value>(&event.body).unwrap())
        })
        .collect();
    let body = |tags: Value| {
        json!({ "document_id": added.id, "space_id": tenant.space, "title": "A", "tags": tags, "path": "a.md",
            "sha256": sha256("one"), "size": 3 })
    };
    let (one, two) = (body(json!(["x"])), body(json!(["x", "y"])));
    assert_eq!(told, [("document.added", one), ("document.changed", two.clone()), ("document.removed", two)]);
}

async fn a_call_that_has_ended_changes_nothing(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let running = tenant.running(store).await;
    let adding = || DocumentChanges {
        invocation: running.id.clone(),
        ..changes(&tenant, vec![addition(&tenant, None, state("A", "one", &[]))], &["one"])
    };
    assert_eq!(store.change_documents(adding()).await, Ok(ChangedDocuments::Done));
    store.finish(tenant.finish(&running, Row::From(Status::Running), Status::Succeeded).into()).await.unwrap();
    assert_eq!(store.change_documents(adding()).await, Err(Error::Fenced));
    assert_eq!(titles(store, &tenant, &tenant.space, &query(&[])).await, ["A"]);
}

async fn what_was_removed_or_replaced_is_forgotten_in_time(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (first, second) = (state("A", "one", &[]), state("A", "two", &[]));
    let kept = add(store, &tenant, "A", "one", &[]).await;
    let removed = add(store, &tenant, "A", "one", &[]).await;
    let step = |id: &DocumentId, before: &DocumentState, after: Option<&DocumentState>| DocumentChange {
        id: id.clone(),
        path: None,
        before: Some(before.clone()),
        after: after.cloned(),
    };
    let both = [step(&kept, &first, Some(&second)), step(&removed, &first, None)];
    assert_eq!(store.change_documents(changes(&tenant, both.to_vec(), &["two"])).await, Ok(ChangedDocuments::Done));
    world.clock.advance_seconds(SNAPSHOT_DAYS * DAY_SECONDS);
    assert_eq!(store.forget_documents(&tenant.org).await, Ok(0), "a revert at the last moment finds them");
    world.clock.advance_seconds(2 * DAY_SECONDS);
    assert_eq!(store.forget_documents(&tenant.org).await, Ok(2));
    assert_eq!(titles(store, &tenant, &tenant.space, &query(&["two"])).await, ["A"], "what is there stays");
    for change in both {
        let gone = ChangedDocuments::TextGone(change.id.clone());
        assert_eq!(store.change_documents(changes(&tenant, vec![change.reversed()], &[])).await, Ok(gone));
    }
}

async fn the_words_of_a_restored_store_are_found(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    add(&world.store, &tenant, "Plan", "the falcon", &[]).await;
    let mut file = Vec::new();
    world.store.backup(&mut file).await.unwrap();
    for other in [Kind::Sqlite, Kind::Postgres] {
        let home = Home::new(other).await;
        let store = home.open(&FixedClock::new(), &SeededRandom::new(77)).await.unwrap();
        store.restore(Cursor::new(file.clone())).await.unwrap();
        assert_eq!(titles(&store, &tenant, &tenant.space, &query(&["falcon"])).await, ["Plan"], "{other:?}");
    }
}
