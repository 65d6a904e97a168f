//! Leases: a server keeps the calls it runs while it renews its lease. After that they belong to the first server that claims them.

use crate::harness::{BEGUN, Kind, Tenant, World, on_both_engines};
use countersign_core::batch::BatchStatus;
use countersign_core::ledger::{Begun, Finished, Held, OpenedBatch, Reservation, Row};
use countersign_core::limits::{LEASE_FENCE_SECONDS, LEASE_SECONDS, LEASE_SILENT_SECONDS, RUNNING_SECONDS_MAX};
use countersign_core::ports::{Batches, Claims, Invocations, Rules};
use countersign_core::{Batch, Invocation, InvocationId, ServerId, Status};
use store::limits::SERVER_REMEMBERED_SECONDS;
use store::{Error, Store};

on_both_engines!(
    what_a_server_runs_is_its_own_until_its_lease_runs_out,
    of_several_servers_one_claims_a_call,
    a_call_of_a_silent_server_is_claimed_by_who_asks_for_it,
    a_call_in_doubt_is_claimed_and_let_go_of,
    a_call_in_doubt_is_tried_again_by_who_claimed_it_and_stays_so,
    an_approved_call_belongs_to_whoever_starts_it,
    an_approved_call_keeps_since_when_it_was_taken_up,
    what_began_before_anybody_noted_who_runs_it_is_left_to_its_own_bound,
    a_server_takes_over_from_those_before_it_at_once,
    a_part_that_another_server_has_begun_is_not_begun_twice,
    a_batch_belongs_to_the_server_that_runs_it,
    servers_are_listed_until_they_are_long_gone,
    a_lease_that_was_ended_is_gone_at_once,
    a_server_that_starts_alone_ends_every_lease,
);

/// Two servers that know of each other.
async fn two(kind: Kind) -> (World, Store, Tenant) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    let second = world.another_store().await;
    for store in [&world.store, &second] {
        store.join().await.unwrap();
    }
    // On SQLite the second store to join considers itself the only one and ends the first one's lease, so the first renews it.
    world.store.renew_lease().await.unwrap();
    (world, second, tenant)
}

/// Lets time pass. Only the servers in `alive` renew their leases meanwhile.
async fn pass(world: &World, seconds: u64, alive: &[&Store]) {
    world.clock.advance_seconds(seconds);
    for store in alive {
        store.renew_lease().await.unwrap();
    }
}

fn ids(invocations: &[Invocation]) -> Vec<InvocationId> {
    invocations.iter().map(|invocation| invocation.id.clone()).collect()
}

async fn what_a_server_runs_is_its_own_until_its_lease_runs_out(kind: Kind) {
    let (world, second, tenant) = two(kind).await;
    let running = tenant.running(&world.store).await;
    pass(&world, LEASE_SECONDS - 1, &[&second]).await;
    assert_eq!(second.list_left_behind(&tenant.org, None).await, Ok(vec![]));
    assert_eq!(second.claim(&tenant.org, &running.id, Status::Running).await, Ok(false), "its server may live");
    pass(&world, 1, &[&second]).await;
    assert_eq!(ids(&second.list_left_behind(&tenant.org, None).await.unwrap()), std::slice::from_ref(&running.id));
    let own = tenant.running(&second).await;
    let listed = ids(&second.list_left_behind(&tenant.org, None).await.unwrap());
    assert_eq!(listed, [running.id.clone(), own.id.clone()], "its own, too, and only it knows whether they are left");
    assert_eq!(second.claim(&tenant.org, &running.id, Status::InDoubt).await, Ok(false), "it is not in doubt");
    assert_eq!(second.claim(&tenant.org, &running.id, Status::Running).await, Ok(true));
    let finish = tenant.finish(&running, Row::From(Status::Running), Status::Succeeded);
    assert!(matches!(second.finish(finish.into()).await, Ok(Finished::Recorded { .. })));
    assert_eq!(second.claim(&tenant.org, &running.id, Status::Running).await, Ok(false), "it has ended");
    world.verify(&tenant).await;
}

async fn of_several_servers_one_claims_a_call(kind: Kind) {
    let (world, second, tenant) = two(kind).await;
    let third = world.another_store().await;
    third.join().await.unwrap();
    let running = tenant.running(&world.store).await;
    pass(&world, LEASE_SECONDS, &[&second, &third]).await;
    let claim = |store: &Store| {
        let (store, org, id) = (store.clone(), tenant.org.clone(), running.id.clone());
        async move { store.claim(&org, &id, Status::Running).await.unwrap() }
    };
    let (one, other) = tokio::join!(claim(&second), claim(&third));
    assert_ne!(one, other, "exactly one of them has it");
    // A server that claims a call and then dies counts as gone like any other.
    let survivor = if one { &third } else { &second };
    pass(&world, LEASE_SECONDS - 1, &[survivor]).await;
    assert!(!claim(survivor).await, "the claimer may live");
    pass(&world, 1, &[survivor]).await;
    assert!(claim(survivor).await);
}

/// A run that goes on elsewhere does not wait until the server of its call is gone.
async fn a_call_of_a_silent_server_is_claimed_by_who_asks_for_it(kind: Kind) {
    let (world, second, tenant) = two(kind).await;
    let (running, own) = (tenant.running(&world.store).await, tenant.running(&second).await);
    pass(&world, LEASE_SILENT_SECONDS - 1, &[&second]).await;
    assert_eq!(second.claim_silent(&tenant.org, &running.id).await, Ok(false), "it was heard of");
    pass(&world, 1, &[&second]).await;
    assert_eq!(second.claim(&tenant.org, &running.id, Status::Running).await, Ok(false), "it is not gone");
    assert_eq!(second.claim_silent(&tenant.org, &own.id).await, Ok(false), "nobody claims what it runs itself");
    assert_eq!(second.claim_silent(&tenant.org, &running.id).await, Ok(true));
    world.store.renew_lease().await.unwrap();
    assert_eq!(world.store.claim_silent(&tenant.org, &running.id).await, Ok(false), "the claimer was heard of");
    let finish = |status| tenant.finish(&running, Row::From(Status::Running), status);
    assert_eq!(world.store.finish(finish(Status::Failed).into()).await, Ok(Finished::Not(Status::Running)), "it is the claimer's by now");
    assert!(matches!(second.finish(finish(Status::Succeeded).into()).await, Ok(Finished::Recorded { .. })));
    assert_eq!(second.claim_silent(&tenant.org, &running.id).await, Ok(false), "it has ended");
    world.verify(&tenant).await;
}

/// On PostgreSQL only: two stores on one SQLite file would each number events by itself. Two processes cannot share such a file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_taken_for_gone_writes_no_end_until_the_other_is_done() {
    for row in [Row::From(Status::Running), Row::Begun] {
        let (world, second, tenant) = two(Kind::Postgres).await;
        let first = &world.store;
        let running = tenant.running(first).await;
        pass(&world, LEASE_SECONDS, &[&second]).await;
        assert_eq!(second.claim(&tenant.org, &running.id, Status::Running).await, Ok(true));
        // The first server is back and knows how the call ended, but it must not write while the second has the call.
        first.renew_lease().await.unwrap();
        let finish = tenant.finish(&running, row, Status::Succeeded);
        match (first.finish(finish.clone().into()).await, row) {
            (Ok(Finished::Not(Status::Running)), _) => {}
            // The whole batch failed. The caller then retries with `Row::From`.
            (Err(Error::Unavailable { .. }), Row::Begun) => {}
            (other, _) => panic!("{other:?}"),
        }
        let rules_version = first.rules_version(&tenant.org).await.unwrap();
        let again = tenant.again(&Invocation { attempts: 2, ..running.clone() }, Some(rules_version));
        assert_eq!(first.begin_again(again).await, Ok(Begun::Not(Status::Running)), "nor begin another attempt");
        let doubted = Invocation { status: Status::InDoubt, ..running.clone() };
        let event = |store: &Store| (store.clone(), tenant.event(&doubted, Status::InDoubt));
        let (store, told) = event(first);
        assert_eq!(store.doubt(doubted.clone(), told).await, Ok(Finished::Not(Status::Running)));
        let (store, told) = event(&second);
        assert!(matches!(store.doubt(doubted.clone(), told).await, Ok(Finished::Recorded { .. })));
        // Now the first server may record the end it knows.
        let finish = tenant.finish(&running, Row::From(Status::InDoubt), Status::Succeeded);
        assert!(matches!(first.finish(finish.into()).await, Ok(Finished::Recorded { .. })));
        world.verify(&tenant).await;
    }
}

async fn a_call_in_doubt_is_claimed_and_let_go_of(kind: Kind) {
    let (world, second, tenant) = two(kind).await;
    let running = tenant.running(&world.store).await;
    let doubted = Invocation { status: Status::InDoubt, ..running.clone() };
    world.store.doubt(doubted.clone(), tenant.event(&doubted, Status::InDoubt)).await.unwrap();
    // The server that ran the call is done with it, so another can claim the call even while that server is alive.
    let claim = |store: &Store| {
        let (store, org, id) = (store.clone(), tenant.org.clone(), running.id.clone());
        async move { store.claim(&org, &id, Status::InDoubt).await.unwrap() }
    };
    assert!(claim(&second).await);
    assert!(!claim(&world.store).await, "the other asks about it now");
    world.store.release(&tenant.org, &running.id).await.unwrap();
    assert!(!claim(&world.store).await, "nobody lets go of what is another's");
    second.release(&tenant.org, &running.id).await.unwrap();
    assert!(claim(&world.store).await);
    // While one server has claimed the call, no other may end it.
    let finish = || tenant.finish(&running, Row::From(Status::InDoubt), Status::Failed);
    assert_eq!(second.finish(finish().into()).await, Ok(Finished::Not(Status::InDoubt)));
    assert!(matches!(world.store.finish(finish().into()).await, Ok(Finished::Recorded { .. })));
    world.verify(&tenant).await;
}

async fn a_call_in_doubt_is_tried_again_by_who_claimed_it_and_stays_so(kind: Kind) {
    let (world, second, tenant) = two(kind).await;
    let running = tenant.running(&world.store).await;
    let doubted = Invocation { status: Status::InDoubt, ..running };
    world.store.doubt(doubted.clone(), tenant.event(&doubted, Status::InDoubt)).await.unwrap();
    assert_eq!(world.store.claim(&tenant.org, &doubted.id, Status::InDoubt).await, Ok(true));
    let next = Invocation { attempts: doubted.attempts + 1, ..doubted.clone() };
    assert_eq!(second.begin_again(tenant.again(&next, None)).await, Ok(Begun::Not(Status::InDoubt)), "it is not the other's");
    assert_eq!(world.store.begin_again(tenant.again(&next, None)).await, Ok(Begun::Started));
    let row = world.store.find_invocation(&tenant.org, &next.id).await.unwrap().unwrap();
    assert_eq!((row.status, row.attempts), (Status::InDoubt, next.attempts));
    assert_eq!(second.claim(&tenant.org, &next.id, Status::InDoubt).await, Ok(false), "whoever tries it still has it");
    let ended = Invocation { status: Status::Failed, ..next.clone() };
    assert!(matches!(world.store.begin_again(tenant.again(&ended, None)).await, Err(Error::Corrupt { .. })), "what has ended is not tried");
    let finish = tenant.finish(&next, Row::From(Status::InDoubt), Status::Failed);
    assert!(matches!(world.store.finish(finish.into()).await, Ok(Finished::Recorded { .. })));
    world.verify(&tenant).await;
}

async fn an_approved_call_belongs_to_whoever_starts_it(kind: Kind) {
    let (world, second, tenant) = two(kind).await;
    let approved = tenant.approved(&world.store).await;
    let begun = Invocation { status: Status::Running, ..approved.clone() };
    assert_eq!(second.begin(tenant.begin(&begun, Row::From(Status::Approved))).await, Ok(Begun::Started));
    pass(&world, LEASE_SECONDS, &[&second]).await;
    assert_eq!(
        ids(&second.list_left_behind(&tenant.org, None).await.unwrap()),
        std::slice::from_ref(&approved.id),
        "it is the taker's own"
    );
    world.store.renew_lease().await.unwrap();
    assert_eq!(world.store.list_left_behind(&tenant.org, None).await, Ok(vec![]), "the taker lives");
    pass(&world, LEASE_SECONDS, &[&world.store]).await;
    assert_eq!(ids(&world.store.list_left_behind(&tenant.org, None).await.unwrap()), [approved.id]);
}

async fn an_approved_call_keeps_since_when_it_was_taken_up(kind: Kind) {
    let (world, second, tenant) = two(kind).await;
    let approved = tenant.approved(&world.store).await;
    let taken_up_at = || async { second.find_invocation(&tenant.org, &approved.id).await.unwrap().unwrap().taken_up_at };
    assert_eq!(second.claim(&tenant.org, &approved.id, Status::Approved).await, Ok(false), "who took the yes is about to start it");
    assert_eq!(taken_up_at().await, None);
    pass(&world, LEASE_SECONDS, &[&second]).await;
    assert_eq!(second.claim(&tenant.org, &approved.id, Status::Approved).await, Ok(true));
    let first = taken_up_at().await;
    assert_eq!(first, Some(Invocations::now(&second).await.unwrap()));
    // A second claim keeps the time of the first, and everything else of the row.
    pass(&world, 1, &[&second]).await;
    assert_eq!(second.claim(&tenant.org, &approved.id, Status::Approved).await, Ok(true));
    let row = second.find_invocation(&tenant.org, &approved.id).await.unwrap().unwrap();
    assert_eq!(row, Invocation { taken_up_at: first, deadline: row.deadline, ..approved.clone() });
    assert_eq!(second.find_sealed_params(&tenant.org, &approved.id).await, world.store.find_sealed_params(&tenant.org, &approved.id).await);
}

async fn what_began_before_anybody_noted_who_runs_it_is_left_to_its_own_bound(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    // This store has not joined, so no other server could see whether it is alive.
    let running = tenant.running(&world.store).await;
    let OpenedBatch::New(batch) = Batches::open_batch(&world.store, tenant.new_batch(None)).await.unwrap() else { panic!("it is new") };
    let second = world.another_store().await;
    second.join().await.unwrap();
    pass(&world, LEASE_SECONDS, &[&second]).await;
    assert_eq!(second.list_left_behind(&tenant.org, None).await, Ok(vec![]));
    let left = || async { second.list_left_batches(&tenant.org).await.unwrap().len() };
    // On SQLite no other server could be running it.
    assert_eq!(left().await, usize::from(kind == Kind::Sqlite));
    pass(&world, RUNNING_SECONDS_MAX - LEASE_SECONDS, &[&second]).await;
    assert_eq!(left().await, 1);
    assert_eq!(second.claim(&tenant.org, &running.id, Status::Running).await, Ok(true), "whoever asks has seen to it that it is old");
    assert!(Batches::save_batch(&second, batch).await.unwrap().is_some());
}

async fn a_server_takes_over_from_those_before_it_at_once(kind: Kind) {
    let (world, second, tenant) = two(kind).await;
    let running = tenant.running(&world.store).await;
    Batches::open_batch(&world.store, tenant.new_batch(None)).await.unwrap();
    assert_eq!(second.list_left_behind(&tenant.org, None).await, Ok(vec![]));
    second.succeed(world.store.server_id().clone());
    // One that died before it could do anything.
    second.succeed(ServerId::parse("srv_00000000000000000000000000").unwrap());
    assert_eq!(ids(&second.list_left_behind(&tenant.org, None).await.unwrap()), std::slice::from_ref(&running.id));
    assert_eq!(second.list_left_batches(&tenant.org).await.unwrap().len(), 1);
    assert_eq!(second.claim(&tenant.org, &running.id, Status::Running).await, Ok(true));
    second.end_earlier_leases().await.unwrap();
    let servers: Vec<_> = second.list_servers().await.unwrap().into_iter().map(|server| server.id).collect();
    assert_eq!(servers, [second.server_id().clone()]);
}

/// Both run the same batch, because the first was considered gone and came back.
async fn a_part_that_another_server_has_begun_is_not_begun_twice(kind: Kind) {
    let (world, second, tenant) = two(kind).await;
    let OpenedBatch::New(batch) = Batches::open_batch(&world.store, tenant.new_batch(None)).await.unwrap() else { panic!("it is new") };
    let part = Invocation { id: batch.parts[0].invocation.clone(), batch: Some(batch.part_of(0)), ..tenant.reading() };
    assert_eq!(second.begin(tenant.begin(&part, Row::Insert)).await, Ok(Begun::Started));
    let taken = Reservation { invocation: part.id.clone(), raw: part.digests.raw };
    assert_eq!(world.store.begin(tenant.begin(&part, Row::Insert)).await, Ok(Begun::KeyTaken(taken.clone())));
    assert_eq!(world.store.hold(tenant.hold(&part)).await, Ok(Held::KeyTaken(taken)));
    let refused = tenant.finish(&part, Row::Insert, Status::Denied);
    assert_eq!(world.store.finish(refused.into()).await, Ok(Finished::Not(Status::Running)));
    assert_eq!(world.store.log_size(&tenant.org).await, Ok(BEGUN + 1), "one intent");
}

async fn a_batch_belongs_to_the_server_that_runs_it(kind: Kind) {
    let (world, second, tenant) = two(kind).await;
    let OpenedBatch::New(batch) = Batches::open_batch(&world.store, tenant.new_batch(None)).await.unwrap() else { panic!("it is new") };
    let left = |store: &Store| {
        let (store, org) = (store.clone(), tenant.org.clone());
        async move { store.list_left_batches(&org).await.unwrap().len() }
    };
    assert_eq!((left(&world.store).await, left(&second).await), (1, 0), "its own are known to who asks");
    pass(&world, LEASE_SECONDS, &[&second]).await;
    assert_eq!(left(&second).await, 1);
    let taken = Batches::save_batch(&second, batch.clone()).await.unwrap().unwrap();
    world.store.renew_lease().await.unwrap();
    assert_eq!((left(&world.store).await, left(&second).await), (0, 1), "it is the other's now");
    assert_eq!(Batches::save_batch(&world.store, batch).await, Ok(None));
    // A pending batch belongs to no server. The server that continues it becomes its owner.
    let waits = Batches::save_batch(&second, Batch { status: BatchStatus::Pending, ..taken }).await.unwrap().unwrap();
    let runs = Batches::save_batch(&world.store, Batch { status: BatchStatus::Running, ..waits }).await.unwrap().unwrap();
    assert_eq!((left(&world.store).await, left(&second).await), (1, 0));
    Batches::end_batch(&world.store, tenant.end_batch(runs)).await.unwrap().unwrap();
    assert_eq!(left(&world.store).await, 0);
}

async fn servers_are_listed_until_they_are_long_gone(kind: Kind) {
    let (world, second, _tenant) = two(kind).await;
    let listed = || async {
        let servers = second.list_servers().await.unwrap();
        servers.into_iter().map(|server| (server.id, server.is_gone)).collect::<std::collections::BTreeMap<_, _>>()
    };
    let (first_id, second_id) = (world.store.server_id().clone(), second.server_id().clone());
    assert_ne!(first_id, second_id);
    assert_eq!(listed().await, [(first_id.clone(), false), (second_id.clone(), false)].into());
    pass(&world, LEASE_SECONDS, &[&second]).await;
    assert_eq!(listed().await, [(first_id, true), (second_id.clone(), false)].into());
    assert_eq!(second.forget_servers().await, Ok(0));
    pass(&world, SERVER_REMEMBERED_SECONDS, &[&second]).await;
    assert_eq!(second.forget_servers().await, Ok(1));
    assert_eq!(listed().await, [(second_id, false)].into());
}

async fn a_lease_that_was_ended_is_gone_at_once(kind: Kind) {
    let (world, second, tenant) = two(kind).await;
    let running = tenant.running(&world.store).await;
    world.store.end_lease().await.unwrap();
    assert_eq!(ids(&second.list_left_behind(&tenant.org, None).await.unwrap()), [running.id]);
}

async fn a_server_that_starts_alone_ends_every_lease(kind: Kind) {
    let world = World::new(kind).await;
    let tenant = world.tenant("acme").await;
    world.home.tamper("INSERT INTO servers (id, started_at, seen_at) VALUES ('srv_00000000000000000000000000', 0, 0)").await;
    assert_eq!(world.store.join().await, Ok(true));
    let ids: Vec<_> = world.store.list_servers().await.unwrap().into_iter().map(|server| server.id).collect();
    assert_eq!(ids, [world.store.server_id().clone()]);
    tenant.running(&world.store).await;
}

/// When the database restarts, no server holds the presence lock for a moment, although all of them are alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_not_alone_beside_a_lease_that_holds() {
    let world = World::new(Kind::Postgres).await;
    let other = "srv_00000000000000000000000000";
    world.home.tamper(&format!("INSERT INTO servers (id, started_at, seen_at) VALUES ('{other}', 0, 9000000000000000000)")).await;
    let second = world.another_store().await;
    assert_eq!(second.join().await, Ok(false));
    assert_eq!(second.list_servers().await.unwrap().len(), 2, "nobody's lease was ended");
    second.end_lease().await.unwrap();
    drop(second);
    // The exception is the lease of the previous server on the same data folder.
    let third = world.another_store().await;
    third.succeed(ServerId::parse(other).unwrap());
    let mut is_alone = third.join().await.unwrap();
    // The previous server may not have released the lock yet.
    for _ in 0..100 {
        if is_alone {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        third.end_lease().await.unwrap();
        is_alone = third.join().await.unwrap();
    }
    assert!(is_alone);
    let ids: Vec<_> = third.list_servers().await.unwrap().into_iter().map(|server| server.id).collect();
    assert_eq!(ids, [third.server_id().clone()]);
}

/// Where others could claim its calls, a server that cannot renew its lease begins no new call.
async fn a_server_that_is_not_heard_of_begins_nothing(kind: Kind) {
    let (world, second, tenant) = two(kind).await;
    let first = &world.store;
    let running = tenant.running(first).await;
    let again = Invocation { attempts: 2, ..running.clone() };
    let rules_version = first.rules_version(&tenant.org).await.unwrap();
    pass(&world, LEASE_FENCE_SECONDS - 1, &[]).await;
    tenant.running(first).await;
    pass(&world, 1, &[&second]).await;
    let begun = first.begin(tenant.begin(&tenant.writing(), Row::Insert)).await;
    assert_eq!(begun, Err(Error::Fenced));
    let begun = first.begin_again(tenant.again(&again, Some(rules_version))).await;
    assert_eq!(begun, Err(Error::Fenced));
    assert_eq!(first.claim(&tenant.org, &running.id, Status::Running).await, Ok(false));
    tenant.running(&second).await;
    // It is still the owner of its call and may end it.
    let finish = tenant.finish(&running, Row::From(Status::Running), Status::Succeeded);
    assert!(matches!(first.finish(finish.into()).await, Ok(Finished::Recorded { .. })));
    first.renew_lease().await.unwrap();
    tenant.running(first).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_heard_of_begins_nothing_on_postgres() {
    a_server_that_is_not_heard_of_begins_nothing(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_file_nobody_needs_to_hear_of_a_server() {
    let world = World::new(Kind::Sqlite).await;
    let tenant = world.tenant("acme").await;
    world.store.join().await.unwrap();
    world.clock.advance_seconds(LEASE_SECONDS);
    let running = tenant.running(&world.store).await;
    assert_eq!(world.store.claim(&tenant.org, &running.id, Status::Running).await, Ok(true));
}
