//! Many writers at once, in one process and in two: no gap, no lost update, and a failed write undoes only itself.

use crate::harness::{BEGUN, Kind, TOLD, Tenant, World, everything, on_both_engines, verify};
use countersign_core::ledger::{Begun, Finished, Held, Row};
use countersign_core::ports::{EventFeed, Invocations};
use countersign_core::{Invocation, Secret, Status};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use store::{Engine, Error, InvocationFilter, Store};

on_both_engines!(
    sixty_four_writers_in_two_orgs_leave_two_whole_logs,
    a_write_that_fails_among_others_undoes_only_itself,
    a_session_never_gets_more_pending_calls_than_it_may,
    an_approval_is_used_by_one_of_many,
    a_row_that_cannot_be_kept_costs_nobody_else_more_than_another_try,
);

const WRITERS: usize = 64;
const CALLS_EACH: usize = 4;

/// One store on SQLite; on PostgreSQL two, as two servers would have them.
async fn stores(world: &World, kind: Kind) -> Vec<Store> {
    match kind {
        Kind::Sqlite => vec![world.store.clone()],
        Kind::Postgres => vec![world.store.clone(), world.another_store().await],
    }
}

async fn sixty_four_writers_in_two_orgs_leave_two_whole_logs(kind: Kind) {
    let world = World::new(kind).await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let stores = stores(&world, kind).await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| {
            let (store, ours, theirs) = (stores[n % stores.len()].clone(), ours.clone(), theirs.clone());
            tokio::spawn(async move {
                let mut seqs = Vec::new();
                for call in 0..CALLS_EACH {
                    // Half of the tasks start with the other org, so that batches lock the two logs in both orders.
                    let order = if (n / 2 + call) % 2 == 0 { [&ours, &theirs] } else { [&theirs, &ours] };
                    for tenant in order {
                        let running = tenant.running(&store).await;
                        let finish = tenant.finish(&running, Row::From(Status::Running), Status::Succeeded);
                        match store.finish(finish.into()).await.unwrap() {
                            Finished::Recorded { seq } => seqs.push((tenant.org.clone(), seq)),
                            other @ (Finished::Not(_) | Finished::RulesChanged | Finished::MayNotAnswer | Finished::Missing) => {
                                panic!("{other:?}")
                            }
                        }
                    }
                }
                seqs
            })
        })
        .collect();
    let mut seqs = BTreeSet::new();
    for writer in writers {
        for seq in writer.await.unwrap() {
            assert!(seqs.insert(seq), "a position was given twice");
        }
    }
    let calls = (WRITERS * CALLS_EACH) as u64;
    for store in &stores {
        for tenant in [&ours, &theirs] {
            let report = verify(store, &tenant.org).await;
            assert_eq!((report.entries, report.intents, report.receipts, report.open_intents), (BEGUN + 2 * calls, calls, calls, 0));
            assert_eq!(store.log_size(&tenant.org).await, Ok(BEGUN + 2 * calls));
            let events = store.list_events_after(&tenant.org, TOLD, 1_000).await.unwrap();
            assert_eq!(events.len() as u64, calls);
        }
    }
}

async fn a_write_that_fails_among_others_undoes_only_itself(kind: Kind) {
    let world = World::new(kind).await;
    let (tenant, stores) = (world.tenant("acme").await, stores(&world, kind).await);
    let existing = tenant.read_once(&world.store).await;
    let mut writes = Vec::new();
    for n in 0..192 {
        let (store, tenant, existing) = (stores[n % stores.len()].clone(), tenant.clone(), existing.clone());
        writes.push(tokio::spawn(async move {
            match n % 4 {
                // Reserves a key, then finds that its row exists already.
                1 => {
                    let again = Invocation { idempotency_key: Some(format!("key-{n}")), ..existing };
                    store.begin(tenant.begin(&again, Row::Insert)).await.map(|_| None)
                }
                // Creates an org with its log, its keys and its owner, then violates a constraint of the schema: the token is in use.
                3 => {
                    let token = Secret::new(tenant.owner_token.clone());
                    store.create_org(&format!("org-{n}"), "owner", token).await.map(|_| None)
                }
                _ => tenant.read_once_or_fail(&store).await.map(Some),
            }
        }));
    }
    let mut written = BTreeSet::new();
    for (n, write) in writes.into_iter().enumerate() {
        match (n % 4, write.await.unwrap()) {
            (0 | 2, Ok(Some(ended))) => assert!(written.insert((ended.receipt.unwrap().seq, ended.id))),
            (1 | 3, Err(Error::Corrupt { .. })) => {}
            other => panic!("{other:?}"),
        }
    }
    let positions: Vec<_> = written.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(positions, (BEGUN + 1..BEGUN + 97).collect::<Vec<_>>(), "the failed ones left no gap");
    for (seq, id) in &written {
        let row = world.store.find_invocation(&tenant.org, id).await.unwrap().unwrap();
        assert_eq!(row.receipt.unwrap().seq, *seq, "everyone was told where it really stands");
    }
    for n in 0..192 {
        let key = format!("key-{n}");
        assert_eq!(world.store.find_reservation(&tenant.org, &tenant.space, &existing.action, &key).await, Ok(None));
    }
    assert_eq!(world.store.list_orgs().await.unwrap().len(), 1);
    let rows = world.store.list_invocations(&tenant.org, &InvocationFilter::default(), &everything()).await.unwrap();
    assert_eq!(rows.items.len(), 97);
    assert_eq!(world.store.list_events_after(&tenant.org, TOLD, 1_000).await.unwrap().len(), 97);
    assert_eq!(world.verify(&tenant).await.receipts, 97);
}

async fn a_session_never_gets_more_pending_calls_than_it_may(kind: Kind) {
    let world = World::new(kind).await;
    let (tenant, stores) = (world.tenant("acme").await, stores(&world, kind).await);
    let holds: Vec<_> = (0..24)
        .map(|n| {
            let (store, hold) = (stores[n % stores.len()].clone(), tenant.hold(&tenant.writing()));
            tokio::spawn(async move { store.hold(hold).await.unwrap() })
        })
        .collect();
    let mut held = 0;
    for hold in holds {
        match hold.await.unwrap() {
            Held::Pending => held += 1,
            Held::TooManyPending { pending } => assert_eq!(pending, 10),
            other @ (Held::KeyTaken(_) | Held::RulesChanged) => panic!("{other:?}"),
        }
    }
    assert_eq!((held, world.store.count_in_status(&tenant.org, Status::Pending).await), (10, Ok(10)));
}

async fn an_approval_is_used_by_one_of_many(kind: Kind) {
    let world = World::new(kind).await;
    let (tenant, stores) = (world.tenant("acme").await, stores(&world, kind).await);
    let approved = tenant.approved(&world.store).await;
    let begins: Vec<_> = (0..16)
        .map(|n| {
            let (store, begin) = (stores[n % stores.len()].clone(), tenant.begin(&approved, Row::From(Status::Approved)));
            tokio::spawn(async move { store.begin(begin).await.unwrap() })
        })
        .collect();
    let mut started = 0;
    for begin in begins {
        match begin.await.unwrap() {
            Begun::Started => started += 1,
            Begun::Not(status) => assert_eq!(status, Status::Running),
            other
            @ (Begun::KeyTaken(_) | Begun::Expired | Begun::Missing | Begun::RulesChanged | Begun::GrantSpent | Begun::CallerLeft) => {
                panic!("{other:?}")
            }
        }
    }
    assert_eq!(started, 1);
    assert_eq!(intents_of(&world.store, &tenant).await, 1);
}

async fn intents_of(store: &Store, tenant: &Tenant) -> u64 {
    verify(store, &tenant.org).await.intents
}

async fn a_row_that_cannot_be_kept_costs_nobody_else_more_than_another_try(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    tenant.read_once(store).await;
    let used = store.list_events_after(&tenant.org, 0, 1_000).await.unwrap()[0].id.clone();
    let finishes: Vec<_> = (0..12)
        .map(|n| {
            let mut finish = tenant.finish(&tenant.reading(), Row::Insert, Status::Succeeded);
            if n == 5 {
                finish.event.id = used.clone();
            }
            finish
        })
        .collect();
    let writes: Vec<_> = finishes
        .iter()
        .map(|finish| {
            let (store, finish) = (store.clone(), finish.clone());
            tokio::spawn(async move { store.finish(finish.into()).await })
        })
        .collect();
    for (n, write) in writes.into_iter().enumerate() {
        match write.await.unwrap() {
            Ok(Finished::Recorded { .. }) => assert_ne!(n, 5),
            Err(Error::Unavailable { .. }) => {
                let again = store.finish(finishes[n].clone().into()).await;
                assert_eq!(again.is_ok(), n != 5, "{again:?}");
            }
            Err(Error::Corrupt { .. }) => assert_eq!(n, 5, "told alone"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.verify(&tenant).await.receipts, 12);
}

/// Until it has counted them it plans as for empty tables, and on PostgreSQL each prepared statement keeps its plan.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_database_soon_knows_how_large_its_tables_are() {
    let world = World::new(Kind::Postgres).await;
    let Engine::Postgres { url } = &world.home.engine else { panic!("this is about PostgreSQL") };
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let counted = "SELECT last_analyze IS NOT NULL FROM pg_stat_user_tables WHERE relname = 'entries'";
    let is_counted = async || client.query_one(counted, &[]).await.unwrap().get::<_, bool>(0);
    assert!(!is_counted().await);
    for _ in 0..128 {
        tenant.read_once(store).await;
    }
    let began = Instant::now();
    while !is_counted().await {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody counted them");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
