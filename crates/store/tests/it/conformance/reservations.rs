//! Idempotency keys: one call per key, until the call ends without an effect or the key expires.

use crate::harness::{BEGUN, Kind, Tenant, World, on_both_engines, sha256};
use countersign_core::ledger::{Begun, Finished, Held, KeyFate, Reservation, Row};
use countersign_core::ports::Invocations;
use countersign_core::{ActionId, Invocation, SpaceId, Status};
use store::Store;

on_both_engines!(
    a_key_is_taken_once_by_a_call_that_runs_or_waits,
    a_key_is_of_one_space_and_one_action,
    a_key_answers_after_a_success_until_its_time_is_over,
    a_key_is_free_again_after_a_call_without_effect,
    a_call_that_is_still_open_keeps_its_key_past_its_time,
    of_many_calls_at_once_one_gets_the_key,
    keys_past_their_time_are_forgotten_and_no_others,
);

async fn keys_past_their_time_are_forgotten_and_no_others(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let ended = begun(store, &tenant, keyed(tenant.reading())).await;
    store.finish(tenant.finish(&ended, Row::From(Status::Running), Status::Succeeded).into()).await.unwrap();
    let open = begun(store, &tenant, keyed(tenant.writing())).await;
    assert_eq!(store.forget_expired_keys(&tenant.org).await, Ok(0), "their time is not over");
    world.clock.advance_seconds(25 * 60 * 60);
    assert_eq!(store.forget_expired_keys(&tenant.org).await, Ok(1));
    assert_eq!(store.forget_expired_keys(&tenant.org).await, Ok(0));
    assert_eq!(holder(store, &open).await.map(|holder| holder.invocation), Some(open.id), "a call that is open keeps its key");
}

fn keyed(invocation: Invocation) -> Invocation {
    Invocation { idempotency_key: Some("order-7".into()), ..invocation }
}

async fn holder(store: &Store, of: &Invocation) -> Option<Reservation> {
    store.find_reservation(&of.org, &of.space, &of.action, "order-7").await.unwrap()
}

/// Begins a call with the key. The store must accept it.
async fn begun(store: &Store, tenant: &Tenant, invocation: Invocation) -> Invocation {
    let begin = tenant.begin(&invocation, Row::Insert);
    let running = begin.invocation.clone();
    assert_eq!(store.begin(begin).await, Ok(Begun::Started));
    running
}

async fn a_key_is_taken_once_by_a_call_that_runs_or_waits(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    assert_eq!(holder(store, &tenant.reading()).await, None);
    let first = begun(store, &tenant, keyed(tenant.reading())).await;
    let taken = Reservation { invocation: first.id.clone(), raw: first.digests.raw };
    assert_eq!(holder(store, &first).await, Some(taken.clone()));
    let mut second = keyed(tenant.reading());
    second.digests.raw = sha256("other params");
    assert_eq!(store.begin(tenant.begin(&second, Row::Insert)).await, Ok(Begun::KeyTaken(taken)));
    assert_eq!(store.find_invocation(&tenant.org, &second.id).await, Ok(None));
    assert_eq!(store.log_size(&tenant.org).await, Ok(BEGUN + 1), "no intent of the second");

    let waiting = keyed(tenant.writing());
    assert_eq!(store.hold(tenant.hold(&waiting)).await, Ok(Held::Pending));
    let taken = Reservation { invocation: waiting.id.clone(), raw: waiting.digests.raw };
    assert_eq!(store.hold(tenant.hold(&keyed(tenant.writing()))).await, Ok(Held::KeyTaken(taken)));
    assert_eq!(store.count_in_status(&tenant.org, Status::Pending).await, Ok(1));
}

async fn a_key_is_of_one_space_and_one_action(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let first = begun(store, &tenant, keyed(tenant.reading())).await;
    let elsewhere = Invocation { space: tenant.draw(SpaceId::new), ..keyed(tenant.reading()) };
    let otherwise = Invocation { action: ActionId::parse("fake.other").unwrap(), ..keyed(tenant.reading()) };
    for invocation in [&elsewhere, &otherwise] {
        assert_eq!(holder(store, invocation).await, None);
        begun(store, &tenant, invocation.clone()).await;
        assert_eq!(holder(store, invocation).await.unwrap().invocation, invocation.id);
    }
    assert_eq!(holder(store, &first).await.unwrap().invocation, first.id);
}

async fn a_key_answers_after_a_success_until_its_time_is_over(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let first = begun(store, &tenant, keyed(tenant.reading())).await;
    store.finish(tenant.finish(&first, Row::From(Status::Running), Status::Succeeded).into()).await.unwrap();
    world.clock.advance_seconds(3_599);
    assert_eq!(holder(store, &first).await.unwrap().invocation, first.id);
    world.clock.advance_seconds(1);
    assert_eq!(holder(store, &first).await, None);
    let second = begun(store, &tenant, keyed(tenant.reading())).await;
    assert_eq!(holder(store, &first).await.unwrap().invocation, second.id);
    // The first call can no longer change the key, which belongs to the second.
    let late = store.finish(tenant.finish(&first, Row::From(Status::Running), Status::Failed).into()).await;
    assert_eq!(late, Ok(Finished::Not(Status::Succeeded)));
    assert_eq!(holder(store, &first).await.unwrap().invocation, second.id);
}

async fn a_key_is_free_again_after_a_call_without_effect(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let first = begun(store, &tenant, keyed(tenant.reading())).await;
    let mut finish = tenant.finish(&first, Row::From(Status::Running), Status::Failed);
    assert_eq!(finish.key, KeyFate::Freed);
    store.finish(finish.clone().into()).await.unwrap();
    assert_eq!(holder(store, &first).await, None);
    let second = begun(store, &tenant, keyed(tenant.reading())).await;
    // A failed call whose effect may have happened keeps its key.
    finish = tenant.finish(&second, Row::From(Status::Running), Status::Failed);
    finish.key = KeyFate::Answers;
    store.finish(finish.into()).await.unwrap();
    assert_eq!(holder(store, &first).await.unwrap().invocation, second.id);
    let waiting = keyed(tenant.writing());
    store.hold(tenant.hold(&waiting)).await.unwrap();
    store.finish(tenant.finish(&waiting, Row::From(Status::Pending), Status::Denied).into()).await.unwrap();
    assert_eq!(holder(store, &waiting).await, None);
    world.verify(&tenant).await;
}

async fn a_call_that_is_still_open_keeps_its_key_past_its_time(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let first = begun(store, &tenant, keyed(tenant.reading())).await;
    let doubted = Invocation { status: Status::InDoubt, ..first.clone() };
    store.doubt(doubted.clone(), tenant.event(&doubted, Status::InDoubt)).await.unwrap();
    world.clock.advance_seconds(100_000);
    assert_eq!(holder(store, &first).await.unwrap().invocation, first.id);
    let taken = store.begin(tenant.begin(&keyed(tenant.reading()), Row::Insert)).await.unwrap();
    assert!(matches!(taken, Begun::KeyTaken(_)), "{taken:?}");
    store.finish(tenant.finish(&first, Row::From(Status::InDoubt), Status::Succeeded).into()).await.unwrap();
    assert_eq!(holder(store, &first).await, None, "it ended long after its key's time");
    begun(store, &tenant, keyed(tenant.reading())).await;
}

async fn of_many_calls_at_once_one_gets_the_key(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    let stores = match kind {
        Kind::Sqlite => vec![world.store.clone()],
        Kind::Postgres => vec![world.store.clone(), world.another_store().await],
    };
    let calls = (0..16).map(|n| {
        let (store, begin) = (stores[n % stores.len()].clone(), tenant.begin(&keyed(tenant.reading()), Row::Insert));
        tokio::spawn(async move { (begin.invocation.id.clone(), store.begin(begin).await.unwrap()) })
    });
    let mut winners = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap() {
            (id, Begun::Started) => winners.push(id),
            (_, Begun::KeyTaken(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(winners, [holder(&world.store, &tenant.reading()).await.unwrap().invocation]);
    assert_eq!(world.verify(&tenant).await.intents, 1);
}
