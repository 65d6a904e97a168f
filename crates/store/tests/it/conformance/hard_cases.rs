//! What breaks engines of this kind: races between servers, storms, bursts, money, a store that takes no writes.

use super::automations::{at, claimed, fired, firing, gathered, leased, saved, step, with};
use crate::harness::{Home, Kind, World, everything, on_both_engines, sha256};
use countersign_core::automation::{FiringOutcome, FiringReason};
use countersign_core::ledger::Row;
use countersign_core::limits::{GROUP_HELD_SECONDS, TRIGGER_BATCH_BYTES_MAX};
use countersign_core::ports::bus::{GroupName, NewGroup, Start};
use countersign_core::ports::runs::{
    Concurrency, Fired, FiredGathering, Gather, Gathered, GatheredEvent, NewFiring, Occasion, Rate, ReserveBudget, Reserved, SavedRun, Then,
};
use countersign_core::ports::{Automations, Claims as _, EventBus, EventFeed, Invocations as _, Runs};
use countersign_core::run::{RunStatus, WaitingFor};
use countersign_core::{Amount, Clock as _, EventId, Invocation, PrincipalId, SpaceId, Status};
use std::collections::BTreeSet;
use std::io::Cursor;
use std::time::{Duration, Instant};
use store::limits::{FIRE_KEY_SECONDS, TRIGGER_CROWDED_SECONDS};
use store::{FiringFilter, FromNow, Store, TriggerChange};
use testkit::SeededRandom;

on_both_engines!(
    same_key_concurrent_replicas,
    key_outlives_run_and_restore,
    a_key_that_was_told_to_come_again_is_free,
    drop_race_across_replicas,
    event_storm_bounded,
    a_burst_starts_one_run_with_its_last_event,
    a_batch_starts_one_run_with_all_of_its_events,
    a_batch_of_long_events_is_full_before_it_has_all_that_it_may,
    spaces_take_turns,
    timeout_vs_result,
    a_run_is_running_from_its_lease_on,
    a_run_that_is_cancelled_while_it_parks_is_due,
    a_paused_schedule_is_not_waited_for,
    approval_wait_holds_nothing,
    budget_never_crossed,
    a_store_that_takes_no_writes_claims_nothing,
    a_chain_is_read_by_the_org_that_signed_it,
    one_server_at_a_time_reads_for_a_group,
    a_server_takes_up_at_once_what_the_one_before_it_worked_on,
);

/// A second server on the database; a file has one.
async fn replica(world: &World, kind: Kind) -> Store {
    match kind {
        Kind::Sqlite => world.store.clone(),
        Kind::Postgres => world.another_store().await,
    }
}

async fn same_key_concurrent_replicas(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant, other) = (&world.store, world.tenant("acme").await, replica(&world, kind).await);
    let automation = saved(store, &tenant, "digest").await;
    let key = || Occasion::Key { key: "once".into(), fingerprint: sha256("body") };
    let new = || firing(&tenant, &automation, key());
    let (a, b, c, d) = tokio::join!(store.fire(new()), other.fire(new()), store.fire(new()), other.fire(new()));
    let fired: Vec<_> = [a, b, c, d].into_iter().map(Result::unwrap).collect();
    assert_eq!(fired.iter().filter(|fired| matches!(fired, Fired::New(_))).count(), 1, "{fired:?}");
    let runs: BTreeSet<_> = fired
        .iter()
        .map(|fired| match fired {
            Fired::New(firing) | Fired::Earlier(firing) => firing.run.clone().unwrap().to_string(),
            Fired::KeyReused(_) | Fired::UnknownAutomation => panic!("{fired:?}"),
        })
        .collect();
    assert_eq!(runs.len(), 1, "whoever came second was told of the first one's run");
    assert_eq!(claimed(store).await.len(), 1);
}

async fn key_outlives_run_and_restore(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let key = |body| Occasion::Key { key: "once".into(), fingerprint: sha256(body) };
    let (_, first) = fired(store, firing(&tenant, &automation, key("one"))).await;
    let lease = claimed(store).await.remove(0);
    let mut run = store.find_run(&tenant.org, &lease.run).await.unwrap().unwrap();
    run.status = RunStatus::Succeeded;
    assert_eq!(store.save_run(at(&lease, &run, Then::End)).await, Ok(true));
    let mut file = Vec::new();
    store.backup(&mut file).await.unwrap();
    let home = Home::new(kind).await;
    let restored = home.open(&world.clock, &SeededRandom::new(77)).await.unwrap();
    restored.restore(Cursor::new(file)).await.unwrap();
    for store in [store, &restored] {
        let again = store.fire(firing(&tenant, &automation, key("one"))).await.unwrap();
        assert!(matches!(&again, Fired::Earlier(firing) if firing.run == first), "{again:?}");
        assert!(matches!(store.fire(firing(&tenant, &automation, key("two"))).await, Ok(Fired::KeyReused(_))));
    }
    world.clock.set(world.clock.now().plus_seconds(FIRE_KEY_SECONDS));
    assert!(matches!(restored.fire(firing(&tenant, &automation, key("two"))).await, Ok(Fired::New(_))));
}

async fn a_key_that_was_told_to_come_again_is_free(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let fire = |key: &'static str| {
        let mut new = firing(&tenant, &automation, Occasion::Key { key: key.into(), fingerprint: sha256(key) });
        new.start.as_mut().unwrap().rate = Some(Rate { max: 1, per_seconds: 60 });
        store.fire(new)
    };
    assert!(matches!(fire("first").await, Ok(Fired::New(firing)) if firing.reason == FiringReason::OnTime));
    // Both share a row of the ledger.
    for key in ["second", "third"] {
        assert!(matches!(fire(key).await, Ok(Fired::New(firing)) if firing.reason == FiringReason::RateLimited), "{key}");
    }
    world.clock.set(world.clock.now().plus_seconds(60));
    assert!(matches!(fire("second").await, Ok(Fired::New(firing)) if firing.reason == FiringReason::OnTime), "as it was told");
    // What was dropped for another reason stays dropped, and each is told of a firing that is there.
    let dropped = |key: &'static str| {
        let occasion = Occasion::Key { key: key.into(), fingerprint: sha256(key) };
        store.fire(NewFiring { start: None, reason: FiringReason::LoopGuard, ..firing(&tenant, &automation, occasion) })
    };
    for key in ["a", "b"] {
        let Ok(Fired::New(first)) = dropped(key).await else { panic!("{key} is new") };
        assert!(matches!(dropped(key).await, Ok(Fired::Earlier(again)) if again.id == first.id), "{key}");
    }
    // Who came while it was stopped, or sent what did not fit, comes again with the same key.
    for reason in [FiringReason::Paused, FiringReason::Disabled, FiringReason::InputsInvalid] {
        let occasion = |body| Occasion::Key { key: reason.to_string(), fingerprint: sha256(body) };
        let refused = NewFiring { start: None, reason, ..firing(&tenant, &automation, occasion("first")) };
        assert!(matches!(store.fire(refused).await, Ok(Fired::New(_))), "{reason}");
        let again = store.fire(firing(&tenant, &automation, occasion("second"))).await;
        assert!(matches!(again, Ok(Fired::New(firing)) if firing.run.is_some()), "{reason}");
    }
}

async fn drop_race_across_replicas(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant, other) = (&world.store, world.tenant("acme").await, replica(&world, kind).await);
    let automation = saved(store, &tenant, "digest").await;
    let new = || with(firing(&tenant, &automation, Occasion::Request), Concurrency::DropIfRunning);
    let at_once = (0..10).map(|n| if n % 2 == 0 { store.fire(new()) } else { other.fire(new()) });
    let fired = futures_util::future::join_all(at_once).await;
    let reason = |fired: Result<Fired, store::Error>| match fired.unwrap() {
        Fired::New(firing) => firing.reason,
        fired @ (Fired::Earlier(_) | Fired::KeyReused(_) | Fired::UnknownAutomation) => panic!("{fired:?}"),
    };
    let reasons: Vec<_> = fired.into_iter().map(reason).collect();
    let started = reasons.iter().filter(|reason| **reason == FiringReason::OnTime).count();
    let dropped = reasons.iter().filter(|reason| **reason == FiringReason::AlreadyRunning).count();
    assert_eq!((started, dropped), (1, 9), "{reasons:?}");
    let filter = FiringFilter { outcome: Some(FiringOutcome::Dropped), ..FiringFilter::default() };
    let rows = store.list_firings(&tenant.org, &automation.id, &filter, &everything()).await.unwrap().items;
    assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 9, "what was dropped is in the ledger");
    assert_eq!(claimed(store).await.len(), 1);
}

/// A trigger that is fired without end starts as many runs as it may, leaves one row a minute, and is disabled after three minutes.
async fn event_storm_bounded(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let fire = || {
        let mut new = firing(&tenant, &automation, Occasion::Event(tenant.draw(EventId::new)));
        new.start.as_mut().unwrap().rate = Some(Rate { max: 5, per_seconds: 60 });
        fired(store, new)
    };
    let before = store.newest_event(&tenant.org).await.unwrap();
    let (mut started, mut last) = (0, FiringReason::OnTime);
    for _ in 0..=TRIGGER_CROWDED_SECONDS / 10 {
        for _ in 0..10 {
            last = fire().await.0;
            started += u32::from(last == FiringReason::OnTime);
        }
        world.clock.advance_seconds(10);
    }
    assert_eq!(last, FiringReason::BreakerOpen);
    assert!(started <= 5 * 4, "{started} runs in three minutes");
    let trigger = store.find_trigger(&tenant.org, &automation.id, "hook").await.unwrap().unwrap();
    assert!(!trigger.is_enabled && trigger.disabled_why.is_some(), "{trigger:?}");
    let events = store.list_events_after(&tenant.org, before, 500).await.unwrap();
    let disabled: Vec<_> = events.iter().filter(|event| event.name == "automation.trigger_disabled").collect();
    assert_eq!(disabled.iter().map(|event| event.space.as_ref()).collect::<Vec<_>>(), [Some(&automation.space)]);
    let told = store.list_notifications(&tenant.org, &BTreeSet::new(), &everything()).await.unwrap().items;
    assert_eq!(told.iter().map(|told| told.title.as_str()).collect::<Vec<_>>(), ["A trigger was disabled"]);
    assert!(told[0].invocation.is_none() && told[0].body.starts_with("`hook` of the automation `digest`: "), "{told:?}");
    assert!(told[0].body.contains(&format!("countersign trigger enable {} hook", automation.id)), "{told:?}");
    let filter = FiringFilter { outcome: Some(FiringOutcome::Dropped), ..FiringFilter::default() };
    let rows = store.list_firings(&tenant.org, &automation.id, &filter, &everything()).await.unwrap().items;
    assert!(rows.len() <= 5, "one row a minute: {rows:?}");
    assert_eq!(fire().await.0, FiringReason::BreakerOpen, "until a person enables it");
    let change = TriggerChange::Enable(FromNow::default());
    store.change_trigger(&tenant.org, &automation.id, "hook", change, &tenant.owner).await.unwrap();
    world.clock.advance_seconds(60);
    assert_eq!(fire().await.0, FiringReason::OnTime);
    // A trigger that is at its rate now and then stays enabled.
    let calm = saved(store, &tenant, "calm").await;
    for _ in 0..10 {
        for _ in 0..3 {
            let mut new = firing(&tenant, &calm, Occasion::Request);
            new.start.as_mut().unwrap().rate = Some(Rate { max: 1, per_seconds: 60 });
            last = fired(store, new).await.0;
        }
        world.clock.advance_seconds(90);
    }
    assert_eq!(last, FiringReason::RateLimited);
    assert_eq!(store.count_due_runs(3).await, Ok(3), "those above are not counted");
}

async fn a_burst_starts_one_run_with_its_last_event(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let debounce = Gather::Debounce { seconds: 30 };
    let gather = |seq| store.gather(gathered(&tenant, &automation, seq, debounce));
    for seq in 1..=4 {
        assert_eq!(gather(seq).await, Ok(Gathered::Until(world.clock.now().plus_seconds(30))));
        world.clock.advance_seconds(20);
    }
    assert_eq!(gather(4).await, Ok(Gathered::Known), "it was handled before a crash");
    assert_eq!(store.list_due_gatherings(10).await, Ok(vec![]), "the last one came 20 s ago");
    assert_eq!(store.next_gathering_at().await, Ok(Some(world.clock.now().plus_seconds(10))));
    world.clock.advance_seconds(10);
    let gathering = store.list_due_gatherings(10).await.unwrap().remove(0);
    assert_eq!((gathering.events.as_slice(), gathering.count), ([4].as_slice(), 4));
    // Another event comes before it is fired: nothing is, until it is quiet again.
    gather(5).await.unwrap();
    let fire = |gathering| {
        let firing =
            NewFiring { trigger: Some("added".into()), ..firing(&tenant, &automation, Occasion::Event(tenant.draw(EventId::new))) };
        store.fire_gathered(FiredGathering { gathering, firing: Some(Box::new(firing)), others: FiringReason::Debounced })
    };
    assert_eq!(fire(gathering).await, Ok(None));
    world.clock.advance_seconds(30);
    let gathering = store.list_due_gatherings(10).await.unwrap().remove(0);
    let done = fire(gathering.clone()).await.unwrap();
    let Some(Fired::New(started)) = done else { panic!("{done:?}") };
    assert_eq!(fire(gathering).await, Ok(None), "another server was first");
    let filter = FiringFilter { outcome: Some(FiringOutcome::Dropped), ..FiringFilter::default() };
    let rows = store.list_firings(&tenant.org, &automation.id, &filter, &everything()).await.unwrap().items;
    assert_eq!(rows.iter().map(|row| (row.reason, row.count)).collect::<Vec<_>>(), [(FiringReason::Debounced, 4)]);
    assert!(rows[0].detail.as_ref().unwrap().contains(started.id.as_str()), "it says which firing they went into");
    assert_eq!(gather(5).await, Ok(Gathered::Known), "nor does an event that was fired start another");
}

async fn a_batch_starts_one_run_with_all_of_its_events(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let batch = Gather::Batch { max: 3, window_seconds: 60 };
    let gather = |seq| store.gather(gathered(&tenant, &automation, seq, batch));
    let (began, now) = (world.clock.now(), || world.clock.now());
    assert_eq!(gather(1).await, Ok(Gathered::Until(began.plus_seconds(60))));
    world.clock.advance_seconds(10);
    assert_eq!(gather(2).await, Ok(Gathered::Until(began.plus_seconds(60))), "the window begins with the first");
    assert_eq!(gather(5).await, Ok(Gathered::Until(now())), "it is full, and due at once");
    assert_eq!(gather(6).await, Ok(Gathered::Full));
    let gathering = store.list_due_gatherings(10).await.unwrap().remove(0);
    assert_eq!(gathering.events, [1, 2, 5]);
    let firing = NewFiring { trigger: Some("added".into()), ..firing(&tenant, &automation, Occasion::Event(tenant.draw(EventId::new))) };
    let fired = FiredGathering { gathering, firing: Some(Box::new(firing)), others: FiringReason::Batched };
    assert!(matches!(store.fire_gathered(fired).await, Ok(Some(Fired::New(_)))));
    assert_eq!(gather(6).await, Ok(Gathered::Until(now().plus_seconds(60))), "the next batch");
    assert_eq!(claimed(store).await.len(), 1);
}

async fn a_batch_of_long_events_is_full_before_it_has_all_that_it_may(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let (bytes, now) = (u64::try_from(TRIGGER_BATCH_BYTES_MAX).unwrap() / 2, world.clock.now());
    let later = Ok(Gathered::Until(now.plus_seconds(60)));
    let gather = |seq, gather| store.gather(GatheredEvent { bytes, ..gathered(&tenant, &automation, seq, gather) });
    // Of a burst the last one counts alone.
    for seq in 1..=3 {
        assert_eq!(gather(seq, Gather::Debounce { seconds: 60 }).await, later);
    }
    let batch = Gather::Batch { max: 100, window_seconds: 60 };
    assert_eq!(gather(4, batch).await, Ok(Gathered::Until(now)), "there is no room for a third");
    assert_eq!(gather(5, batch).await, Ok(Gathered::Full));
    let gathering = store.list_due_gatherings(10).await.unwrap().remove(0);
    assert_eq!(gathering.events, [3, 4]);
    let firing = NewFiring { trigger: Some("added".into()), ..firing(&tenant, &automation, Occasion::Event(tenant.draw(EventId::new))) };
    let fired = FiredGathering { gathering, firing: Some(Box::new(firing)), others: FiringReason::Batched };
    assert!(matches!(store.fire_gathered(fired).await, Ok(Some(Fired::New(_)))));
    assert_eq!(gather(5, batch).await, later, "the next batch");
}

async fn spaces_take_turns(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    for _ in 0..40 {
        fired(store, firing(&tenant, &automation, Occasion::Request)).await;
    }
    world.clock.advance_seconds(1);
    let quiet = fired(store, firing(&tenant, &automation, Occasion::Request)).await.1.unwrap();
    let other = tenant.draw(SpaceId::new);
    world.home.tamper(&format!("UPDATE run_leases SET space_id = '{other}' WHERE run_id = '{quiet}'")).await;
    let first = claimed(store).await;
    assert_eq!(first.len(), 10, "what one space does not take, the other does");
    assert!(first.iter().any(|lease| lease.run == quiet), "it does not wait behind the 40 of the other space");
}

async fn timeout_vs_result(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let (lease, mut run) = leased(store, &tenant, &automation).await;
    // Its worker seems to be gone; another one takes it up, and finds that its time is over.
    assert_eq!(store.free_all_runs().await, Ok(1));
    let next = claimed(store).await.remove(0);
    run.status = RunStatus::TimedOut;
    assert_eq!(store.save_run(at(&next, &run, Then::End)).await, Ok(true));
    // The first worker comes with the result after all.
    let before = store.newest_event(&tenant.org).await.unwrap();
    run.status = RunStatus::Succeeded;
    let late = SavedRun { steps: vec![step(0, world.clock.now())], ..at(&lease, &run, Then::End) };
    assert_eq!(store.save_run(late).await, Ok(false));
    let events = store.list_events_after(&tenant.org, before, 500).await.unwrap();
    assert_eq!(events.iter().map(|event| event.name.as_str()).collect::<Vec<_>>(), ["automation.run.discarded_attempt"]);
    assert_eq!(store.find_run(&tenant.org, &run.id).await.unwrap().unwrap().status, RunStatus::TimedOut, "the first writer wins");
}

async fn a_run_is_running_from_its_lease_on(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let (_, run) = leased(store, &tenant, &automation).await;
    let began = world.clock.now();
    assert_eq!((run.status, run.started_at), (RunStatus::Running, Some(began)));
    // After a crash its steps read the same time.
    world.clock.advance_seconds(60);
    assert_eq!(store.free_all_runs().await, Ok(1));
    claimed(store).await;
    assert_eq!(store.find_run(&tenant.org, &run.id).await.unwrap().unwrap().started_at, Some(began));
}

async fn a_run_that_is_cancelled_while_it_parks_is_due(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let pending = tenant.pending(store).await;
    let automation = saved(store, &tenant, "digest").await;
    let (lease, mut run) = leased(store, &tenant, &automation).await;
    store.cancel_run(&tenant.org, &run.id, &tenant.person()).await.unwrap().unwrap();
    // Its worker has not heard of it.
    (run.status, run.waiting_for, run.invocation) = (RunStatus::Waiting, Some(WaitingFor::Approval), Some(pending.id.clone()));
    assert_eq!(store.save_run(at(&lease, &run, Then::Park { due_at: None })).await, Ok(true));
    let next = claimed(store).await;
    assert_eq!(next.iter().map(|lease| &lease.run).collect::<Vec<_>>(), [&run.id], "it does not wait for an answer that does not matter");
}

async fn a_paused_schedule_is_not_waited_for(kind: Kind) {
    use countersign_core::automation::AutomationStatus;
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    assert!(store.next_due_at().await.unwrap().is_some());
    store.set_automation_status(&tenant.org, &automation.id, AutomationStatus::Paused, Vec::new(), &tenant.owner).await.unwrap();
    assert_eq!(store.next_due_at().await, Ok(None), "a clock that waits for it would never sleep");
}

/// 10,000 runs that wait for a person are rows and nothing else: no lease to renew, nothing that is due, nothing that a claim reads.
async fn approval_wait_holds_nothing(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let pending = tenant.pending(store).await;
    let automation = saved(store, &tenant, "digest").await;
    let (lease, mut run) = leased(store, &tenant, &automation).await;
    (run.status, run.waiting_for, run.invocation) = (RunStatus::Waiting, Some(WaitingFor::Approval), Some(pending.id.clone()));
    assert_eq!(store.save_run(at(&lease, &run, Then::Park { due_at: None })).await, Ok(true));
    let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)";
    let runs = "INSERT INTO runs (org_id, id, automation_id, space_id, session_id, status, invocation_id, slot, fire_seq, body, started_at)
                SELECT org_id, id || '-' || i, automation_id, space_id, session_id, status, NULL, 0, fire_seq + i, body, started_at
                FROM runs, n";
    let leases = "INSERT INTO run_leases (run_id, org_id, space_id, queue, lease_token, cancelled)
                  SELECT run_id || '-' || i, org_id, space_id, queue, lease_token, 0 FROM run_leases, n";
    world.home.tamper(&format!("{many} {runs}; {many} {leases}")).await;
    world.clock.advance_seconds(24 * 60 * 60);
    assert_eq!(claimed(store).await, []);
    assert_eq!(store.free_lost_runs().await, Ok(0), "none of them is leased");
    assert_eq!(store.count_due_runs(10).await, Ok(0));
    assert_eq!(store.keep_leases(vec![lease]).await, Ok(vec![]));
    let pending = Invocation { principal: PrincipalId::Automation(automation.id), ..pending };
    store.finish(tenant.finish(&pending, Row::From(Status::Pending), Status::Denied).into()).await.unwrap();
    assert_eq!(claimed(store).await.len(), 1, "the answer wakes the one that waits for it");
}

async fn budget_never_crossed(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let (lease, run) = leased(store, &tenant, &automation).await;
    let amount = |millionths| Amount::from_millionths(millionths).unwrap();
    let reserve = |lease: &countersign_core::ports::runs::Lease, key: &str, most| {
        store.reserve_budget(ReserveBudget {
            lease: lease.clone(),
            key: key.to_owned(),
            action: "fake.read".to_owned(),
            most: amount(most),
            cap: amount(1_000),
        })
    };
    assert_eq!(reserve(&lease, "a", 600).await, Ok(Reserved::Done));
    assert_eq!(reserve(&lease, "b", 401).await, Ok(Reserved::TooMuch), "what is reserved counts");
    assert_eq!(store.find_run_cost(&tenant.org, &run.id).await, Ok(amount(600)));
    assert_eq!(store.mean_cost(&tenant.org, "fake.read").await, Ok(None), "nobody knows yet what it did cost");
    store.settle_budget(&tenant.org, &run.id, "a", amount(100)).await.unwrap();
    store.settle_budget(&tenant.org, &run.id, "a", amount(0)).await.unwrap();
    assert_eq!(store.find_run_cost(&tenant.org, &run.id).await, Ok(amount(100)));
    assert_eq!(store.mean_cost(&tenant.org, "fake.read").await, Ok(Some(amount(100))));
    assert_eq!(reserve(&lease, "b", 900).await, Ok(Reserved::Done), "what was settled counts as what it did cost, once");
    // Killed between the reservation and the outcome: the next worker reserves the same call again, and nothing beside it.
    assert_eq!(store.free_all_runs().await, Ok(1));
    let next = claimed(store).await.remove(0);
    assert_eq!(reserve(&lease, "c", 0).await, Ok(Reserved::Lost));
    assert_eq!(reserve(&next, "b", 900).await, Ok(Reserved::Done));
    assert_eq!(reserve(&next, "c", 1).await, Ok(Reserved::TooMuch), "nobody knows whether the call was made, so it counts");
}

/// Nothing is claimed, health is red, and all goes on afterwards. A real server runs into a full disk in `disk_full_fails_closed` of the command
/// line's tests.
async fn a_store_that_takes_no_writes_claims_nothing(kind: Kind) {
    if kind == Kind::Postgres {
        return;
    }
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    fired(store, firing(&tenant, &automation, Occasion::Request)).await;
    let full = |table: &str, verb: &str| {
        format!("CREATE TRIGGER full_{table} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END;")
    };
    world.home.tamper(&(full("run_leases", "UPDATE") + &full("schema_migrations", "INSERT"))).await;
    assert!(store.claim_runs(&["fast".to_owned()], 10).await.is_err());
    assert!(store.check().await.is_err());
    world.home.tamper("DROP TRIGGER full_run_leases; DROP TRIGGER full_schema_migrations;").await;
    assert_eq!(store.check().await, Ok(()));
    assert_eq!(claimed(store).await.len(), 1, "nothing was lost");
}

async fn a_chain_is_read_by_the_org_that_signed_it(kind: Kind) {
    use countersign_core::ports::Sessions;
    let world = World::new(kind).await;
    let (store, tenant, stranger) = (&world.store, world.tenant("acme").await, world.tenant("other").await);
    let automation = saved(store, &tenant, "digest").await;
    let (_, run) = leased(store, &tenant, &automation).await;
    let chain = store.chain_of(&tenant.org, &run.session).await.unwrap().unwrap();
    assert_eq!(store.read_chain(&tenant.org, &chain), Some(vec![automation.id.clone()]));
    assert_eq!(store.read_chain(&stranger.org, &chain), None);
    let other = chain.replace(automation.id.as_str(), "aut_01k4c2w9pbnm7sxa8jw5z3d6ht");
    for wrong in ["", "v1;;", &chain[1..], other.as_str()] {
        assert_eq!(store.read_chain(&tenant.org, wrong), None, "{wrong}");
    }
    assert_eq!(store.chain_of(&tenant.org, &tenant.session.id).await, Ok(None), "no run makes its calls");
}

async fn one_server_at_a_time_reads_for_a_group(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant, other) = (&world.store, world.tenant("acme").await, world.another_store().await);
    for store in [store, &other] {
        store.join().await.unwrap();
    }
    let group = GroupName::parse("automations").unwrap();
    store.subscribe(&tenant.org, NewGroup::ours(group.clone(), Start::Now)).await.unwrap();
    assert_eq!(store.hold_group(&tenant.org, &group).await, Ok(true));
    assert_eq!(other.hold_group(&tenant.org, &group).await, Ok(false));
    world.clock.advance_seconds(GROUP_HELD_SECONDS - 1);
    assert_eq!(store.hold_group(&tenant.org, &group).await, Ok(true), "it holds on");
    world.clock.advance_seconds(GROUP_HELD_SECONDS - 1);
    assert_eq!(other.hold_group(&tenant.org, &group).await, Ok(false));
    world.clock.advance_seconds(1);
    assert_eq!(other.hold_group(&tenant.org, &group).await, Ok(true), "the first one is gone");
    assert_eq!(store.hold_group(&tenant.org, &group).await, Ok(false));
}

/// The process of a server ends, and its connections with it. No time passes on the clock of the holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hold_of_a_server_ends_with_its_connection() {
    let world = World::new(Kind::Postgres).await;
    let (store, tenant, first) = (&world.store, world.tenant("acme").await, world.another_store().await);
    for store in [store, &first] {
        store.join().await.unwrap();
    }
    let group = GroupName::parse("automations").unwrap();
    store.subscribe(&tenant.org, NewGroup::ours(group.clone(), Start::Now)).await.unwrap();
    assert_eq!(first.hold_group(&tenant.org, &group).await, Ok(true));
    assert_eq!(store.hold_group(&tenant.org, &group).await, Ok(false));
    drop(first);
    // PostgreSQL notices a little later that the connection is gone.
    let patience = Instant::now();
    while !store.hold_group(&tenant.org, &group).await.unwrap() {
        assert!(patience.elapsed() < Duration::from_secs(30), "nobody holds the group any more, and nobody gets it");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let next = world.another_store().await;
    next.join().await.unwrap();
    assert_eq!(next.hold_group(&tenant.org, &group).await, Ok(false), "it has the group for itself");
}

/// The lock of the data folder proves that the earlier servers on it are gone, whatever their leases say.
async fn a_server_takes_up_at_once_what_the_one_before_it_worked_on(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant, next) = (&world.store, world.tenant("acme").await, world.another_store().await);
    let automation = saved(store, &tenant, "digest").await;
    let (lease, run) = leased(store, &tenant, &automation).await;
    assert_eq!(next.free_earlier_runs().await, Ok(0), "its server may live");
    next.succeed(store.server_id().clone());
    assert_eq!(next.free_earlier_runs().await, Ok(1));
    assert_eq!(claimed(&next).await.len(), 1);
    assert_eq!(store.save_run(at(&lease, &run, Then::GoOn)).await, Ok(false), "nobody else works on it");
    assert_eq!(next.free_earlier_runs().await, Ok(0), "it is worked on by a server that lives");
}
