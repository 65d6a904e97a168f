//! PostgreSQL outages: a failed write leaves nothing behind, an uncertain commit is reported as such, and all goes on afterwards.

use crate::harness::{BEGUN, Home, Kind, World, open, verify};
use countersign_core::ledger::{Finished, Row};
use countersign_core::ports::{Claims, Invocations, Sessions};
use countersign_core::{Invocation, Status};
use std::time::{Duration, Instant};
use store::{Engine, Error, Store};
use testkit::proxy::{Commit, Proxy};
use testkit::{FixedClock, SeededRandom};

/// A world whose store reaches its database through a proxy that can cut the connection.
async fn behind_a_proxy() -> (World, Proxy) {
    let home = Home::new(Kind::Postgres).await;
    let Engine::Postgres { url } = &home.engine else { panic!("this is about PostgreSQL") };
    let (proxy, url) = Proxy::before(url).await;
    let (clock, random) = (FixedClock::new(), SeededRandom::new(1));
    let store = open(Engine::Postgres { url }, &clock, &random).await.unwrap();
    (World { home, store, clock, random }, proxy)
}

/// Whether it is stored. A read may be the first to find that its connection was cut; the next read gets another.
async fn is_there(store: &Store, invocation: &Invocation) -> bool {
    let read = || store.find_invocation(&invocation.org, &invocation.id);
    match read().await {
        Err(Error::Unavailable { message }) if message == "connection closed" => read().await.unwrap().is_some(),
        read => read.unwrap().is_some(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_is_away_nothing_is_written_and_then_everything_goes_on() {
    let (world, proxy) = behind_a_proxy().await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    tenant.read_once(store).await;
    proxy.cut();
    let finish = tenant.finish(&tenant.reading(), Row::Insert, Status::Succeeded);
    for _ in 0..3 {
        let away = store.finish(finish.clone().into()).await.unwrap_err();
        assert!(matches!(away, Error::Unavailable { .. }) && away.is_transient(), "{away:?}");
    }
    for away in [store.check().await.unwrap_err(), store.log_size(&tenant.org).await.unwrap_err()] {
        assert!(matches!(away, Error::Unavailable { .. }), "{away:?}");
    }
    proxy.mend();
    assert_eq!(store.check().await, Ok(()));
    assert!(!is_there(store, &finish.invocation).await);
    assert_eq!(store.finish(finish.into()).await, Ok(Finished::Recorded { seq: BEGUN + 1 }));
    assert_eq!(world.verify(&tenant).await.receipts, 2);
}

#[tokio::test]
async fn a_database_that_refuses_us_is_not_away() {
    let world = World::new(Kind::Postgres).await;
    let Engine::Postgres { url } = &world.home.engine else { panic!("this is about PostgreSQL") };
    let (server, _) = url.rsplit_once('/').unwrap();
    let absent = Engine::Postgres { url: format!("{server}/nobody_made_this") };
    let refused = open(absent, &world.clock, &world.random).await.map(|_| ()).unwrap_err();
    assert!(matches!(&refused, Error::Corrupt { message } if message.contains("does not exist")), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_cut_is_uncertain_and_a_repetition_tells() {
    let (world, proxy) = behind_a_proxy().await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    tenant.read_once(store).await;
    for (commit, again) in [(Commit::IsLost, Finished::Recorded { seq: BEGUN + 1 }), (Commit::Arrives, Finished::Not(Status::Succeeded))] {
        proxy.cut_at_commit(0, commit);
        let finish = tenant.finish(&tenant.reading(), Row::Insert, Status::Succeeded);
        let uncertain = store.finish(finish.clone().into()).await.unwrap_err();
        assert!(matches!(uncertain, Error::CommitUnknown { .. }) && !uncertain.is_transient(), "{uncertain:?}");
        proxy.mend();
        assert_eq!(is_there(store, &finish.invocation).await, commit == Commit::Arrives);
        let finish = countersign_core::ledger::Finish { row: Row::InsertAgain, ..finish };
        assert_eq!(store.finish(finish.into()).await, Ok(again), "{commit:?}");
    }
    assert_eq!(world.verify(&tenant).await.receipts, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_takes_our_words_and_never_answers_counts_as_away() {
    let (world, proxy) = behind_a_proxy().await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    tenant.read_once(store).await;
    store.log_size(&tenant.org).await.unwrap();
    proxy.fall_silent();
    let away = store.log_size(&tenant.org).await.unwrap_err();
    assert!(matches!(away, Error::Unavailable { .. }), "{away:?}");
    // Many writes at once: they wait together, not one after the other.
    let began = std::time::Instant::now();
    let finishes: Vec<_> = (0..16).map(|_| tenant.finish(&tenant.reading(), Row::Insert, Status::Succeeded)).collect();
    let writes: Vec<_> = finishes
        .iter()
        .map(|finish| {
            let (store, finish) = (store.clone(), finish.clone());
            tokio::spawn(async move { store.finish(finish.into()).await })
        })
        .collect();
    for write in writes {
        let unanswered = write.await.unwrap().unwrap_err();
        assert!(matches!(unanswered, Error::Unavailable { .. }), "nothing was committed, and that is known: {unanswered:?}");
    }
    // One wait per write would take half a minute and more. The limit is far from both.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    proxy.mend();
    for finish in &finishes {
        assert!(!is_there(store, &finish.invocation).await);
    }
    tenant.read_once(store).await;
    assert_eq!(world.verify(&tenant).await.receipts, 2);
}

/// Waits until the condition holds: long enough for a notification to arrive, or for a cut connection to be noticed.
async fn soon(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..400 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{what} did not come about");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_server_revokes_is_refused_here_too() {
    let (world, proxy) = behind_a_proxy().await;
    let (here, elsewhere) = (&world.store, world.another_store().await);
    let tenant = world.tenant("acme").await;
    let is_accepted = async |store: &Store| store.authenticate(&tenant.agent_token).await.unwrap().is_ok();
    // Asked often enough that the answer is remembered.
    for _ in 0..3 {
        assert!(is_accepted(here).await);
    }
    elsewhere.revoke_token(&tenant.org, &tenant.agent_token_id, &tenant.person()).await.unwrap();
    assert!(!is_accepted(&elsewhere).await, "at once where it was revoked");
    soon("the revocation", async || !is_accepted(here).await).await;

    // A store that cannot receive notices remembers nothing: after the cut every answer comes from the database.
    let session = tenant.session.id.clone();
    soon("a connection", async || here.find_session(&tenant.org, &session).await.is_ok()).await;
    proxy.cut();
    soon("the cut", async || here.find_session(&tenant.org, &session).await.is_err()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_in_the_middle_of_commits_under_load_leave_a_whole_log() {
    let (world, proxy) = behind_a_proxy().await;
    let tenant = world.tenant("acme").await;
    let mut answered: Vec<(Box<Invocation>, Result<Finished, Error>)> = Vec::new();
    for round in 0..testkit::rounds(8, 4) {
        proxy.cut_at_commit(0, if round % 2 == 0 { Commit::Arrives } else { Commit::IsLost });
        let writes: Vec<_> = (0..24)
            .map(|_| {
                let (store, finish) = (world.store.clone(), tenant.finish(&tenant.reading(), Row::Insert, Status::Succeeded));
                tokio::spawn(async move { (finish.invocation.clone(), store.finish(finish.into()).await) })
            })
            .collect();
        proxy.was_cut().await;
        if round % 4 < 2 {
            proxy.mend();
        }
        for write in writes {
            answered.push(write.await.unwrap());
        }
        proxy.mend();
    }
    for (invocation, answer) in &answered {
        let there = is_there(&world.store, invocation).await;
        match answer {
            Ok(Finished::Recorded { .. }) => assert!(there, "what was said to be written is there"),
            Err(Error::Unavailable { .. }) => assert!(!there, "what was said not to be written is not there"),
            Err(Error::CommitUnknown { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    let written = world.store.log_size(&tenant.org).await.unwrap() - BEGUN;
    assert_eq!(verify(&world.store, &tenant.org).await.receipts, written);
    assert!(answered.iter().any(|(_, answer)| matches!(answer, Err(Error::CommitUnknown { .. }))));
    tenant.read_once(&world.store).await;
    world.verify(&tenant).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_outage_a_store_is_still_known_to_be_there() {
    let (world, proxy) = behind_a_proxy().await;
    assert_eq!(world.store.join().await, Ok(true));
    proxy.cut();
    world.store.check().await.unwrap_err();
    // PostgreSQL has noticed that the store's connection is gone.
    presence_becomes(&world, 0).await;
    proxy.mend();
    presence_becomes(&world, 1).await;
    let second = world.another_store().await;
    assert_eq!(second.join().await, Ok(false), "a server that starts now must not take over what the first one runs");
}

/// Waits until PostgreSQL says that this many servers hold the presence lock, and lets the store write in between.
async fn presence_becomes(world: &World, wanted: i64) {
    let Engine::Postgres { url } = &world.home.engine else { panic!("this is about PostgreSQL") };
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let held = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objid = 7117002 AND l.granted";
    let patience = Instant::now();
    while client.query_one(held, &[]).await.unwrap().get::<_, i64>(0) != wanted {
        assert!(patience.elapsed() < Duration::from_secs(30), "the presence lock is never held by {wanted}");
        // The result of this write does not matter here.
        let _checked = world.store.check().await;
    }
}
