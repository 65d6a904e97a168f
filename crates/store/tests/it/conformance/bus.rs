//! The event bus: what is published is published once and in the order of its commits, and a group gets each event until it has dealt with it.

use crate::harness::{Kind, Tenant, World, everything, on_both_engines};
use countersign_core::ledger::{Begun, Finished, Row};
use countersign_core::limits::{EVENT_LEASE_SECONDS, GROUPS_MAX};
use countersign_core::ports::bus::{ClaimRef, Claimed, GroupName, LetterKind, NewEvent, NewGroup, Start, Subscribed};
use countersign_core::ports::events::{Cause, Origin};
use countersign_core::ports::{EventBus, EventFeed, Invocations};
use countersign_core::retention::Retention;
use countersign_core::{AutomationId, Invocation, RunId, Status};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::limits::EVENTS_IN_FLIGHT_MAX;
use store::{Engine, Move, Store};

on_both_engines!(
    event_commit_order,
    an_event_keeps_all_that_was_said_of_it,
    an_event_that_is_known_by_its_source_and_id_is_published_once,
    consumers_that_claim_at_once_on_two_servers_share_the_events,
    a_group_gets_each_event_once_and_its_cursor_is_the_lowest_that_is_not_acknowledged,
    who_does_not_answer_in_time_loses_the_event_to_the_next_and_counts_no_more,
    what_is_given_back_comes_again_after_its_delay,
    what_fails_too_often_becomes_a_dead_letter_and_can_be_asked_for_once_more,
    a_consumer_of_ours_is_told_of_what_it_gets_once_more,
    the_event_that_tells_of_a_dead_letter_causes_no_other,
    a_group_that_retention_overtakes_says_how_many_events_it_lost,
    what_a_consumer_of_ours_has_lost_is_counted_once,
    a_group_has_a_bounded_number_of_events_in_flight,
    a_group_is_reset_and_gets_events_once_more,
    a_call_whose_attempts_are_used_up_is_a_dead_letter_until_somebody_answers_for_it,
    dead_letters_are_kept_for_ninety_days,
);

const DAY: u64 = 24 * 60 * 60;

fn group() -> GroupName {
    GroupName::parse("billing").unwrap()
}

fn event(id: &str) -> NewEvent {
    NewEvent {
        name: "drive.file_added".to_owned(),
        key: format!("file {id}"),
        body: json!({ "size": 3 }).to_string(),
        origin: Some(Origin { source: "/drive".to_owned(), id: id.to_owned(), time: None, more: BTreeMap::new() }),
        space: None,
        cause: Cause::default(),
    }
}

async fn publish(store: &Store, tenant: &Tenant, ids: &[&str]) -> Vec<i64> {
    let published = store.publish(&tenant.org, ids.iter().map(|id| event(id)).collect()).await.unwrap();
    published.into_iter().map(|one| one.seq).collect()
}

/// A group from now on, whose events are delivered so often.
async fn join(store: &Store, tenant: &Tenant, deliveries_max: u32) {
    let new = NewGroup { deliveries_max, by: Some(tenant.person()), ..NewGroup::ours(group(), Start::Now) };
    assert!(matches!(store.subscribe(&tenant.org, new).await, Ok(Subscribed::Made(_))));
}

async fn claim(store: &Store, tenant: &Tenant, limit: u32) -> Vec<Claimed> {
    store.claim_events(&tenant.org, &group(), limit).await.unwrap().unwrap()
}

fn keys(claimed: &[Claimed]) -> Vec<&str> {
    claimed.iter().map(|one| one.event.key.as_str()).collect()
}

async fn nack(store: &Store, tenant: &Tenant, claims: Vec<ClaimRef>, delay_seconds: u64) -> Vec<ClaimRef> {
    store.nack_events(&tenant.org, &group(), claims, delay_seconds, "the ledger was closed".to_owned()).await.unwrap()
}

/// Readers who follow the log while commits are held up never miss an event that is committed later: positions have no gaps at any moment.
async fn event_commit_order(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    // On PostgreSQL two servers write to the same org; SQLite has one.
    let other = match kind {
        Kind::Sqlite => world.store.clone(),
        Kind::Postgres => world.another_store().await,
    };
    let done = Arc::new(AtomicBool::new(false));
    let follow = |store: Store| {
        let (org, done) = (tenant.org.clone(), Arc::clone(&done));
        tokio::spawn(async move {
            let mut seen = 0;
            loop {
                // Looked at before reading: after the last write there is one more read.
                let is_last = done.load(Ordering::SeqCst);
                for event in store.list_events_after(&org, seen, 7).await.unwrap() {
                    assert_eq!(event.seq, seen + 1, "an event became visible after one with a higher position");
                    seen = event.seq;
                }
                if is_last && store.newest_event(&org).await.unwrap() == seen {
                    return seen;
                }
                tokio::task::yield_now().await;
            }
        })
    };
    let readers = [follow(world.store.clone()), follow(other.clone())];
    let before = world.store.newest_event(&tenant.org).await.unwrap();
    let mut published = 0;
    for round in 0..20 {
        let held = if world.random.next_u64() & 1 == 0 { hold_commits(&world, &tenant).await } else { None };
        let mut writers = Vec::new();
        for writer in 0..4 {
            let (store, org) = (if writer % 2 == 0 { world.store.clone() } else { other.clone() }, tenant.org.clone());
            let count = 1 + world.random.next_u64() % 5;
            published += count;
            writers.push(tokio::spawn(async move {
                let events = (0..count).map(|number| event(&format!("{round}-{writer}-{number}"))).collect();
                store.publish(&org, events).await.unwrap();
            }));
            // Events of ours are written at another moment of the batch than those of others.
            published += 1;
            let (store, tenant) = (world.store.clone(), tenant.clone());
            writers.push(tokio::spawn(async move { drop(tenant.read_once(&store).await) }));
        }
        tokio::task::yield_now().await;
        drop(held);
        for writer in writers {
            writer.await.unwrap();
        }
    }
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        assert_eq!(reader.await.unwrap(), before + i64::try_from(published).unwrap());
    }
}

/// On PostgreSQL: somebody else has the head of the org's log, so no write of the org commits until this is dropped.
async fn hold_commits(world: &World, tenant: &Tenant) -> Option<tokio_postgres::Client> {
    match &world.home.engine {
        Engine::Postgres { url } => {
            let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            let lock = format!("BEGIN; SELECT 1 FROM logs WHERE org_id = '{}' FOR UPDATE", tenant.org);
            client.batch_execute(&lock).await.unwrap();
            Some(client)
        }
        Engine::Sqlite { .. } => None,
    }
}

async fn an_event_keeps_all_that_was_said_of_it(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = tenant.draw(AutomationId::new);
    let more = BTreeMap::from([("partitionkey".to_owned(), json!("7")), ("attempt".to_owned(), json!(2))]);
    let new = NewEvent {
        origin: Some(Origin { source: "/drive".to_owned(), id: "a".to_owned(), time: Some(testkit::clock::START), more }),
        space: Some(tenant.space.clone()),
        cause: Cause { chain: vec![automation], depth: 1, root_run_id: Some(tenant.draw(RunId::new)) },
        ..event("a")
    };
    let published = store.publish(&tenant.org, vec![new.clone()]).await.unwrap().remove(0);
    let kept = store.find_event(&tenant.org, published.seq).await.unwrap().unwrap();
    assert_eq!((&kept.id, &kept.name, &kept.key, &kept.body), (&published.id, &new.name, &new.key, &new.body));
    assert_eq!((&kept.origin, &kept.space, &kept.cause), (&new.origin, &new.space, &new.cause));
    assert_eq!(store.find_event_by_id(&tenant.org, "a").await, Ok(Some(kept.clone())), "by the id that its source gave it");
    assert_eq!(store.find_event_by_id(&tenant.org, kept.id.as_str()).await, Ok(Some(kept.clone())), "and by ours");
    assert_eq!(store.list_events_after(&tenant.org, published.seq - 1, 10).await, Ok(vec![kept]));
    assert_eq!(store.find_event(&tenant.org, published.seq + 1).await, Ok(None));
}

async fn an_event_that_is_known_by_its_source_and_id_is_published_once(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let first = store.publish(&tenant.org, vec![event("a"), event("b"), event("a")]).await.unwrap();
    assert_eq!(first.iter().map(|one| one.is_known).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!((&first[0].id, first[0].seq), (&first[2].id, first[2].seq));
    let other = NewEvent { origin: event("a").origin.map(|origin| Origin { source: "/mail".to_owned(), ..origin }), ..event("a") };
    assert!(!store.publish(&tenant.org, vec![other]).await.unwrap()[0].is_known, "another source has ids of its own");
    // Many at once, in one batch of the writer or in several.
    let newest = store.newest_event(&tenant.org).await.unwrap();
    let again = (0..20).map(|_| store.publish(&tenant.org, vec![event("c")]));
    let published = futures_util::future::join_all(again).await;
    assert_eq!(published.into_iter().filter(|one| !one.as_ref().unwrap()[0].is_known).count(), 1);
    assert_eq!(store.newest_event(&tenant.org).await, Ok(newest + 1));
}

async fn a_group_gets_each_event_once_and_its_cursor_is_the_lowest_that_is_not_acknowledged(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    assert_eq!(store.claim_events(&tenant.org, &group(), 10).await, Ok(None), "there is no such group");
    publish(store, &tenant, &["before"]).await;
    join(store, &tenant, 5).await;
    let again = store.subscribe(&tenant.org, NewGroup::ours(group(), Start::Earliest)).await.unwrap();
    assert!(matches!(again, Subscribed::There(there) if there.created_by == Some(tenant.person())), "a group that is there stays");
    let positions = publish(store, &tenant, &["a", "b", "c", "d"]).await;
    let first = claim(store, &tenant, 2).await;
    let second = claim(store, &tenant, 10).await;
    assert_eq!((keys(&first), keys(&second)), (vec!["file a", "file b"], vec!["file c", "file d"]), "nothing from before, nothing twice");
    assert_eq!(claim(store, &tenant, 10).await, []);
    assert_eq!((first[0].delivery, first[0].leased_until), (1, store.now().await.unwrap().plus_seconds(EVENT_LEASE_SECONDS)));
    let standing = async || {
        let found = store.find_event_group(&tenant.org, &group()).await.unwrap().unwrap();
        (found.cursor, found.in_flight, found.behind)
    };
    assert_eq!(standing().await, (positions[0], 4, 0));
    let (a, b, c) = (first[0].claim, first[1].claim, second[0].claim);
    assert_eq!(store.ack_events(&tenant.org, &group(), vec![b, c]).await, Ok(vec![]));
    assert_eq!(standing().await, (positions[0], 2, 0), "the first is not acknowledged");
    assert_eq!(store.ack_events(&tenant.org, &group(), vec![a, b]).await, Ok(vec![b]), "an event is acknowledged once");
    assert_eq!(standing().await, (positions[3], 1, 0));
    publish(store, &tenant, &["e"]).await;
    assert_eq!(standing().await, (positions[3], 1, 1));
    let earliest = GroupName::parse("audit").unwrap();
    store.subscribe(&tenant.org, NewGroup::ours(earliest.clone(), Start::Earliest)).await.unwrap();
    let all = store.claim_events(&tenant.org, &earliest, 100).await.unwrap().unwrap();
    assert_eq!(all.iter().map(|one| one.event.seq).collect::<Vec<_>>(), (1..=positions[3] + 1).collect::<Vec<_>>());
    assert_eq!(store.list_event_groups(&tenant.org).await.unwrap().len(), 2);
    for number in 2..GROUPS_MAX {
        let name = GroupName::parse(&format!("group-{number}")).unwrap();
        store.subscribe(&tenant.org, NewGroup::ours(name, Start::Now)).await.unwrap();
    }
    let one_more = NewGroup::ours(GroupName::parse("one-more").unwrap(), Start::Now);
    assert_eq!(store.subscribe(&tenant.org, one_more).await, Ok(Subscribed::TooMany));
}

async fn consumers_that_claim_at_once_on_two_servers_share_the_events(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    let other = match kind {
        Kind::Sqlite => world.store.clone(),
        Kind::Postgres => world.another_store().await,
    };
    join(&world.store, &tenant, 5).await;
    let ids: Vec<_> = (0..60).map(|number| number.to_string()).collect();
    let positions = publish(&world.store, &tenant, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let consumers = (0..20).map(|number| if number % 2 == 0 { &world.store } else { &other }).map(|store| claim(store, &tenant, 4));
    let mut claimed: Vec<_> = futures_util::future::join_all(consumers).await.into_iter().flatten().map(|one| one.claim.seq).collect();
    claimed.sort_unstable();
    assert_eq!(claimed, positions, "each event has one consumer");
}

async fn who_does_not_answer_in_time_loses_the_event_to_the_next_and_counts_no_more(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    join(store, &tenant, 5).await;
    publish(store, &tenant, &["a"]).await;
    let slow = claim(store, &tenant, 10).await.remove(0);
    world.clock.advance_seconds(EVENT_LEASE_SECONDS - 1);
    assert_eq!(claim(store, &tenant, 10).await, [], "it still has the event for itself");
    world.clock.advance_seconds(1);
    let next = claim(store, &tenant, 10).await.remove(0);
    assert_eq!((&next.event, next.delivery), (&slow.event, 2));
    assert!(next.claim.token > slow.claim.token);
    assert_eq!(store.ack_events(&tenant.org, &group(), vec![slow.claim]).await, Ok(vec![slow.claim]));
    assert_eq!(nack(store, &tenant, vec![slow.claim], 0).await, [slow.claim]);
    assert_eq!(store.ack_events(&tenant.org, &group(), vec![next.claim]).await, Ok(vec![]));
    world.clock.advance_seconds(DAY);
    assert_eq!(claim(store, &tenant, 10).await, []);
}

async fn what_is_given_back_comes_again_after_its_delay(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    join(store, &tenant, 5).await;
    publish(store, &tenant, &["a", "b"]).await;
    let claimed = claim(store, &tenant, 1).await.remove(0);
    assert_eq!(nack(store, &tenant, vec![claimed.claim], 60).await, []);
    assert_eq!(store.ack_events(&tenant.org, &group(), vec![claimed.claim]).await, Ok(vec![claimed.claim]), "it was given back");
    assert_eq!(keys(&claim(store, &tenant, 10).await), ["file b"], "others go before it");
    world.clock.advance_seconds(EVENT_LEASE_SECONDS);
    assert_eq!(keys(&claim(store, &tenant, 10).await), ["file b"]);
    world.clock.advance_seconds(60 - EVENT_LEASE_SECONDS);
    let again = claim(store, &tenant, 10).await;
    assert_eq!(again.iter().map(|one| (one.event.key.as_str(), one.delivery)).collect::<Vec<_>>(), [("file a", 2), ("file b", 3)]);
}

async fn what_fails_too_often_becomes_a_dead_letter_and_can_be_asked_for_once_more(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    join(store, &tenant, 2).await;
    let position = publish(store, &tenant, &["a"]).await[0];
    for delivery in 1..=2 {
        let claimed = claim(store, &tenant, 10).await.remove(0);
        assert_eq!(claimed.delivery, delivery);
        assert_eq!(nack(store, &tenant, vec![claimed.claim], 0).await, []);
    }
    let letters = async || store.list_dead_letters(&tenant.org, None, &everything()).await.unwrap().items;
    let letter = letters().await.remove(0);
    let dead = letter.event().unwrap();
    assert_eq!((letter.kind, dead.event.seq, dead.deliveries, dead.group), (LetterKind::Event, position, 2, group()));
    assert_eq!(dead.problem, "the ledger was closed");
    assert_eq!(store.find_dead_letter(&tenant.org, &letter.id).await, Ok(Some(letter.clone())));
    let told = claim(store, &tenant, 10).await.remove(0).event;
    assert_eq!((told.name.as_str(), told.key.as_str()), ("event.dead_lettered", letter.id.as_str()), "the event left the group");
    assert!(told.body.contains("the ledger was closed"), "{}", told.body);

    // The log keeps the event no longer, and the letter does.
    store.set_retention(&tenant.org, Retention { events_days: Some(7), ..Retention::default() }, &tenant.person()).await.unwrap();
    world.clock.advance_seconds(8 * DAY);
    tenant.read_once(store).await;
    store.forget_old(&tenant.org).await.unwrap();
    assert_eq!(store.find_event(&tenant.org, position).await, Ok(None));
    assert_eq!(store.retry_dead_events(&tenant.org, None, Some(&dead.id), &tenant.person()).await, Ok(1));
    assert_eq!(letters().await, []);
    let again = claim(store, &tenant, 1).await.remove(0);
    assert_eq!((&again.event, again.delivery), (&dead.event, 1), "as if it had never been delivered");

    // Who never answers uses the deliveries up too.
    world.clock.advance_seconds(EVENT_LEASE_SECONDS);
    assert_eq!(claim(store, &tenant, 1).await[0].delivery, 2);
    world.clock.advance_seconds(EVENT_LEASE_SECONDS);
    claim(store, &tenant, 1).await;
    let letter = letters().await.remove(0).event().unwrap();
    assert_eq!((letter.event.seq, letter.problem.contains("within 30 seconds")), (position, true), "{letter:?}");
    assert_eq!(store.drop_dead_event(&tenant.org, &letter.id).await, Ok(true));
    assert_eq!(store.drop_dead_event(&tenant.org, &letter.id).await, Ok(false));
    assert_eq!(letters().await, []);
}

async fn a_consumer_of_ours_is_told_of_what_it_gets_once_more(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let ours = GroupName::parse("automations").unwrap();
    for name in [&ours, &group()] {
        let new = NewGroup { deliveries_max: 1, ..NewGroup::ours(name.clone(), Start::Now) };
        store.subscribe(&tenant.org, new).await.unwrap();
    }
    let position = publish(store, &tenant, &["a"]).await[0];
    for name in [&ours, &group()] {
        let claimed = store.claim_events(&tenant.org, name, 1).await.unwrap().unwrap().remove(0);
        assert_eq!(store.nack_events(&tenant.org, name, vec![claimed.claim], 0, "no".to_owned()).await, Ok(vec![]));
    }
    let before = store.newest_event(&tenant.org).await.unwrap();
    assert_eq!(store.retry_dead_events(&tenant.org, None, None, &tenant.person()).await, Ok(2));
    let told = store.list_events_after(&tenant.org, before, 10).await.unwrap();
    let told: Vec<_> = told.iter().map(|event| (event.name.as_str(), event.key.as_str())).collect();
    assert_eq!(told, [("event_group.replayed", "automations")], "others ask for their events");
    let found = store.find_event_group(&tenant.org, &ours).await.unwrap().unwrap();
    assert_eq!((found.in_flight, found.cursor), (1, position));
}

async fn the_event_that_tells_of_a_dead_letter_causes_no_other(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    join(store, &tenant, 1).await;
    publish(store, &tenant, &["a"]).await;
    // A consumer that fails at everything.
    for _ in 0..4 {
        let claims = claim(store, &tenant, 10).await.into_iter().map(|one| one.claim).collect::<Vec<_>>();
        if !claims.is_empty() {
            nack(store, &tenant, claims, 0).await;
        }
    }
    let letters = store.list_dead_letters(&tenant.org, Some(LetterKind::Event), &everything()).await.unwrap().items;
    assert_eq!(letters.len(), 2, "{letters:?}");
    assert_eq!(claim(store, &tenant, 10).await, [], "nothing comes after it");
}

async fn a_group_that_retention_overtakes_says_how_many_events_it_lost(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    join(store, &tenant, 5).await;
    publish(store, &tenant, &["a", "b", "c"]).await;
    let claimed = claim(store, &tenant, 1).await;
    world.clock.advance_seconds(8 * DAY);
    store.set_retention(&tenant.org, Retention { events_days: Some(7), ..Retention::default() }, &tenant.person()).await.unwrap();
    let kept = store.newest_event(&tenant.org).await.unwrap();
    store.forget_old(&tenant.org).await.unwrap();
    assert_eq!(store.oldest_event(&tenant.org).await, Ok(kept));
    let next = claim(store, &tenant, 10).await;
    assert_eq!(next.iter().map(|one| one.event.seq).collect::<Vec<_>>(), [kept], "it goes on with what is kept");
    let found = store.find_event_group(&tenant.org, &group()).await.unwrap().unwrap();
    assert_eq!((found.lost, found.overtaken_at), (3, Some(store.now().await.unwrap())), "one was claimed and left, two were never claimed");
    assert_eq!(store.ack_events(&tenant.org, &group(), vec![claimed[0].claim]).await, Ok(vec![claimed[0].claim]));
    let told = store.list_events_after(&tenant.org, kept, 10).await.unwrap();
    assert_eq!(told.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["event_group.overtaken"]);
    assert!(told[0].body.contains("\"lost\":3"), "{}", told[0].body);
}

async fn what_a_consumer_of_ours_has_lost_is_counted_once(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let ours = GroupName::parse("automations").unwrap();
    store.subscribe(&tenant.org, NewGroup::ours(ours.clone(), Start::Now)).await.unwrap();
    let at = store.newest_event(&tenant.org).await.unwrap();
    publish(store, &tenant, &["a", "b", "c"]).await;
    for is_passed in [true, false] {
        assert_eq!(store.pass_events(&tenant.org, &ours, at, at + 2, 2).await, Ok(is_passed));
    }
    assert_eq!(store.pass_events(&tenant.org, &ours, at + 2, at + 3, 0).await, Ok(true));
    let found = store.find_event_group(&tenant.org, &ours).await.unwrap().unwrap();
    assert_eq!((found.cursor, found.lost, found.overtaken_at), (at + 4, 2, Some(store.now().await.unwrap())));
    let told = store.list_events_after(&tenant.org, at + 3, 10).await.unwrap();
    assert_eq!(told.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["event_group.overtaken"]);
    assert!(told[0].body.contains("\"lost\":2"), "{}", told[0].body);
}

async fn a_group_has_a_bounded_number_of_events_in_flight(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    join(store, &tenant, 5).await;
    let most = usize::try_from(EVENTS_IN_FLIGHT_MAX).unwrap();
    let events = (0..most + 5).map(|number| event(&number.to_string())).collect();
    store.publish(&tenant.org, events).await.unwrap();
    let mut claims = Vec::new();
    loop {
        let more = claim(store, &tenant, 100).await;
        if more.is_empty() {
            break;
        }
        claims.extend(more.into_iter().map(|one| one.claim));
    }
    assert_eq!(claims.len(), most);
    store.ack_events(&tenant.org, &group(), claims[..3].to_vec()).await.unwrap();
    assert_eq!(claim(store, &tenant, 100).await.len(), 3, "there is room for as many as were acknowledged");
}

async fn a_group_is_reset_and_gets_events_once_more(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant, by) = (&world.store, world.tenant("acme").await, world.tenant("other").await.person());
    join(store, &tenant, 5).await;
    let positions = publish(store, &tenant, &["a", "b"]).await;
    world.clock.advance_seconds(60);
    let later = store.now().await.unwrap();
    publish(store, &tenant, &["c"]).await;
    let first = claim(store, &tenant, 10).await;
    store.ack_events(&tenant.org, &group(), vec![first[1].claim]).await.unwrap();
    let shift = async |to, how| store.move_event_group(&tenant.org, &group(), to, how, &by).await.unwrap().unwrap();
    shift(Start::At(positions[1]), Move::Replay).await;
    let again = claim(store, &tenant, 10).await;
    assert_eq!(keys(&again)[..2], ["file b", "file c"], "what was acknowledged too");
    assert_eq!(again[2].event.name, "event_group.replayed");
    assert_eq!(store.ack_events(&tenant.org, &group(), vec![first[2].claim]).await, Ok(vec![first[2].claim]), "the earlier claim is void");
    assert_eq!(store.ack_events(&tenant.org, &group(), vec![first[0].claim]).await, Ok(vec![]), "what is before it stays as it was");
    let from = store.find_event_from(&tenant.org, later).await.unwrap().unwrap();
    assert_eq!(from, positions[1] + 1, "by its time");
    let stays = shift(Start::Earliest, Move::ReplayAnew).await;
    assert_eq!((stays.cursor, stays.behind), (again[0].event.seq, 0), "the group stays where it is");
    assert!(claim(store, &tenant, 10).await[0].event.body.contains("\"ids\":\"new\""));
    let now = shift(Start::Now, Move::Reset).await;
    assert_eq!((now.in_flight, now.behind), (0, 0));
    let after: Vec<_> = claim(store, &tenant, 10).await.into_iter().map(|one| one.event.name).collect();
    assert_eq!(after, ["event_group.reset"], "what was not acknowledged counts as done");
    shift(Start::Earliest, Move::Reset).await;
    assert_eq!(claim(store, &tenant, 1).await[0].event.seq, 1);
    assert_eq!(store.remove_event_group(&tenant.org, &group(), &by).await, Ok(true));
    assert_eq!(store.move_event_group(&tenant.org, &group(), Start::Now, Move::Reset, &by).await, Ok(None));
}

async fn a_call_whose_attempts_are_used_up_is_a_dead_letter_until_somebody_answers_for_it(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let mut failed = Vec::new();
    for attempts in [1, 3, 2] {
        let begin = tenant.begin(&tenant.writing(), Row::Insert);
        let running = begin.invocation.clone();
        assert_eq!(store.begin(begin).await.unwrap(), Begun::Started);
        let mut last = running;
        for attempt in 2..=attempts {
            last = Invocation { attempts: attempt, ..last };
            assert_eq!(store.begin_again(tenant.again(&last, None)).await.unwrap(), Begun::Started);
        }
        let ended = store.finish(tenant.finish(&last, Row::Begun, Status::Failed).into()).await.unwrap();
        assert!(matches!(ended, Finished::Recorded { .. }), "{ended:?}");
        failed.push(last.id);
        world.clock.advance_seconds(1);
    }
    let listed = async |kind| {
        let letters = store.list_dead_letters(&tenant.org, kind, &everything()).await.unwrap().items;
        letters.into_iter().map(|one| (one.id, one.attempts)).collect::<Vec<_>>()
    };
    let expected = [(failed[2].to_string(), 2), (failed[1].to_string(), 3)];
    assert_eq!(listed(None).await, expected, "the newest first, and none that was tried once");
    assert_eq!(listed(Some(LetterKind::Invocation)).await, expected);
    assert_eq!(listed(Some(LetterKind::Delivery)).await, []);
    assert_eq!(store.answer_failure(&tenant.org, &failed[1], Some(&failed[0]), &tenant.person()).await, Ok(true));
    assert_eq!(store.answer_failure(&tenant.org, &failed[1], None, &tenant.person()).await, Ok(false), "once");
    assert_eq!(listed(None).await, expected[..1]);
    assert_eq!(store.find_dead_letter(&tenant.org, failed[1].as_str()).await, Ok(None));
    // Page by page.
    store.answer_failure(&tenant.org, &failed[0], None, &tenant.person()).await.unwrap();
    let request = store::PageRequest { limit: 1, after: None };
    let page = store.list_dead_letters(&tenant.org, None, &request).await.unwrap();
    assert_eq!((page.items.len(), page.next), (1, None));
}

async fn dead_letters_are_kept_for_ninety_days(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    join(store, &tenant, 1).await;
    publish(store, &tenant, &["a", "b"]).await;
    let claimed = claim(store, &tenant, 2).await;
    nack(store, &tenant, vec![claimed[0].claim], 0).await;
    world.clock.advance_seconds(1);
    nack(store, &tenant, vec![claimed[1].claim], 0).await;
    let page = async |after| store.list_dead_letters(&tenant.org, None, &store::PageRequest { limit: 1, after }).await.unwrap();
    let first = page(None).await;
    let second = page(first.next.clone()).await;
    let names = [&first, &second].map(|page| page.items[0].event().unwrap().event.key);
    assert_eq!((names, second.next), (["file b".to_owned(), "file a".to_owned()], None));
    world.clock.advance_seconds(90 * DAY);
    assert_eq!(store.forget_dead_letters(&tenant.org).await, Ok(1), "the first is a second older");
    assert_eq!(page(None).await.items.len(), 1);
}
