//! PostgreSQL goes away, also in the middle of a commit: callers are told, nothing is half-written, no effect happens twice,
//! and when it is back everything goes on without a restart.

#[path = "../../../store/tests/it/proxy.rs"]
mod proxy;

use crate::harness::{Agent, Answer, Kind, TestServer};
use countersign_core::limits::RUNNING_SECONDS_MAX;
use countersign_core::source::Output;
use countersign_core::{InvocationId, Secret, Status};
use proxy::{Commit, Proxy};
use serde_json::json;
use std::sync::Arc;
use store::{Config, Engine, MasterKey, Store, TimeSource};
use testkit::{FixedClock, SeededRandom};

/// A server whose store reaches PostgreSQL through a line that can be cut, and an agent whose writes need no approval.
struct Cuttable {
    server: TestServer,
    agent: Agent,
    proxy: Proxy,
    /// The clock of the database.
    clock: FixedClock,
}

impl Cuttable {
    async fn start() -> Self {
        server::init_process();
        let (proxy, url) = Proxy::before(&testkit::postgres::fresh_database().await).await;
        let clock = FixedClock::new();
        let config = Config {
            engine: Engine::Postgres { url },
            master: MasterKey::new(&Secret::new([7; 32])),
            time: TimeSource::Fixed(Arc::new(clock.clone())),
            random: Arc::new(SeededRandom::new(11)),
        };
        let store = Store::open(config).await.unwrap();
        let token = store.draw_owner_token();
        store.create_org("test", "owner", token.clone()).await.unwrap();
        // Lends its home and gives the owner's token; its own store is not used.
        let mut origin = TestServer::start(Kind::Sqlite).await;
        origin.owner = origin.owner.with_token(token.expose());
        let server = TestServer::on_store(store, &origin).await;
        server.owner.set_mode("fake.write", "allow").await;
        let agent = server.agent().await;
        // The definitions are archived with the first call: from here on an invocation's first commit is its intent.
        agent.invoke("fake.write", json!({ "text": "first" })).await.ok();
        Self { server, agent, proxy, clock }
    }

    async fn write(&self, text: &str) -> Answer {
        self.agent.invoke("fake.write", json!({ "text": text })).await
    }

    fn effects_of(&self, text: &str) -> usize {
        self.server.source.calls().iter().filter(|call| call.params["text"] == text).count()
    }

    async fn ready(&self) -> u16 {
        self.server.owner.get("/readyz").await.status
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_away_callers_are_told_and_nothing_happens() {
    let cuttable = Cuttable::start().await;
    let server = &cuttable.server;
    assert_eq!(cuttable.ready().await, 200);
    let before = server.counts().await;
    cuttable.proxy.cut();
    for _ in 0..3 {
        let answer = cuttable.write("away").await;
        answer.problem(503, "store_unavailable");
        assert!(answer.body["detail"].as_str().unwrap().contains("retrying is safe"), "{answer:?}");
        server.owner.get("/readyz").await.problem(503, "store_unavailable");
        server.owner.get("/api/v1/invocations").await.problem(503, "store_unavailable");
    }
    assert_eq!(server.owner.get("/healthz").await.status, 200, "the process lives, it is only not ready");
    assert_eq!(cuttable.effects_of("away"), 0);
    cuttable.proxy.mend();
    assert_eq!(cuttable.ready().await, 200);
    assert_eq!(server.counts().await, before, "nothing was half-written");
    cuttable.write("back").await.ok();
    assert_eq!(server.verify().await.receipts, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intent_whose_commit_is_cut_has_no_effect() {
    let cuttable = Cuttable::start().await;
    let server = &cuttable.server;
    let before = server.counts().await;

    cuttable.proxy.cut_at_commit(Commit::IsLost);
    let answer = cuttable.write("lost").await;
    answer.problem(503, "store_unavailable");
    assert!(answer.body["detail"].as_str().unwrap().contains("read before retrying"), "{answer:?}");
    cuttable.proxy.mend();
    assert_eq!(server.counts().await, before);

    cuttable.proxy.cut_at_commit(Commit::Arrives);
    cuttable.write("unknown").await.problem(503, "store_unavailable");
    cuttable.proxy.mend();
    assert_eq!(server.counts().await, (before.0 + 1, before.1 + 1), "the row and its intent, together");
    assert_eq!((cuttable.effects_of("lost"), cuttable.effects_of("unknown")), (0, 0));
    assert_eq!(server.verify().await.open_intents, 1);

    // Nobody walks it any more: once that is certain it is said to be in doubt, and never run.
    cuttable.clock.advance_seconds(RUNNING_SECONDS_MAX + 1);
    server.pipeline.sweep().await.unwrap();
    let listed = server.owner.get("/api/v1/invocations?status=in_doubt").await.ok();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(cuttable.effects_of("unknown"), 0);
    server.verify().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_that_cannot_be_recorded_is_recorded_when_the_store_is_back() {
    let cuttable = Cuttable::start().await;
    let server = &cuttable.server;
    let mut held = server.source.will_hold(Ok(Output::new(json!({ "sent": true }))));
    let calling = {
        let agent = cuttable.agent.clone();
        tokio::spawn(async move { agent.invoke("fake.write", json!({ "text": "kept" })).await })
    };
    held.arrived().await;
    let id = server.source.calls().last().unwrap().context.invocation.clone();
    cuttable.proxy.cut();
    held.release();
    // The caller is told once a few tries have failed; the server goes on trying.
    calling.await.unwrap().problem(503, "store_unavailable");
    cuttable.proxy.mend();
    let ended = server.owner.get(&format!("/api/v1/invocations/{id}?wait=20s")).await.ok();
    assert_eq!(ended["invocation"]["status"], "succeeded", "{ended}");
    assert_eq!(server.receipt_of(id.as_str()).await["status"], "succeeded");
    assert_eq!(cuttable.effects_of("kept"), 1);
    let report = server.verify().await;
    assert_eq!((report.receipts, report.open_intents), (2, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_whose_commit_is_cut_is_recorded_once_and_its_caller_gets_it() {
    for commit in [Commit::IsLost, Commit::Arrives] {
        let cuttable = Cuttable::start().await;
        let server = &cuttable.server;
        let mut held = server.source.will_hold(Ok(Output::new(json!({ "sent": true }))));
        let calling = {
            let agent = cuttable.agent.clone();
            tokio::spawn(async move { agent.invoke("fake.write", json!({ "text": "kept" })).await })
        };
        held.arrived().await;
        cuttable.proxy.cut_at_commit(commit);
        held.release();
        cuttable.proxy.was_cut().await;
        cuttable.proxy.mend();
        let answer = calling.await.unwrap();
        assert_eq!((answer.status, &answer.body["invocation"]["status"]), (200, &json!("succeeded")), "{commit:?}: {answer:?}");
        assert_eq!(server.receipt_of(&answer.id()).await["status"], "succeeded");
        assert_eq!(cuttable.effects_of("kept"), 1, "{commit:?}");
        assert_eq!(server.verify().await.receipts, 2, "{commit:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_under_load_leave_every_effect_with_one_receipt() {
    let cuttable = Cuttable::start().await;
    let server = &cuttable.server;
    let mut answers = Vec::new();
    for round in 0..4 {
        cuttable.proxy.cut_at_commit(if round % 2 == 0 { Commit::Arrives } else { Commit::IsLost });
        let calls: Vec<_> = (0..12)
            .map(|n| {
                let (agent, text) = (cuttable.agent.clone(), format!("{round}-{n}"));
                tokio::spawn(async move { (text.clone(), agent.invoke("fake.write", json!({ "text": text })).await) })
            })
            .collect();
        cuttable.proxy.was_cut().await;
        cuttable.proxy.mend();
        for call in calls {
            answers.push(call.await.unwrap());
        }
    }
    // What could not be recorded in time is recorded behind the callers' backs.
    server.pipeline.finish().await;
    let mut succeeded = 1;
    for (text, answer) in &answers {
        let effects = cuttable.effects_of(text);
        match answer.status {
            200 => assert_eq!(effects, 1, "{text}"),
            503 => assert!(effects <= 1, "{text} had {effects} effects"),
            other => panic!("{text}: {other} {answer:?}"),
        }
        succeeded += effects as u64;
    }
    assert!(answers.iter().any(|(_, answer)| answer.status == 503), "no call met a cut");
    let report = server.verify().await;
    assert_eq!(report.receipts, succeeded, "one receipt for each effect, and none without");
    for call in server.source.calls() {
        let id: InvocationId = call.context.invocation;
        let row = server.store.find_invocation(&server.org, &id).await.unwrap().unwrap();
        assert_eq!(row.status, Status::Succeeded, "{id}");
    }
    assert_eq!(cuttable.ready().await, 200);
}
