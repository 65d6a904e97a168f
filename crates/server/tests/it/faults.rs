//! PostgreSQL goes away, even in the middle of a commit: callers are told, nothing is half-written, no effect happens twice, and once it is
//! back the server continues without a restart.

use crate::harness::{Agent, Answer, Kind, TestServer};
use countersign_core::action::Reversibility;
use countersign_core::effect::Check;
use countersign_core::ports::Invocations;
use countersign_core::source::Output;
use countersign_core::{InvocationId, Secret, Status};
use serde_json::json;
use std::sync::Arc;
use store::{Config, Engine, InvocationFilter, MasterKey, PageRequest, Store, TimeSource};
use testkit::proxy::{Commit, Proxy};
use testkit::{FixedClock, SeededRandom};

/// A server whose connection to PostgreSQL can be cut, and an agent whose writes need no approval.
struct Cuttable {
    server: TestServer,
    agent: Agent,
    proxy: Proxy,
}

impl Cuttable {
    async fn start() -> Self {
        server::init_process();
        let (proxy, url) = Proxy::before(&crate::harness::postgres().await).await;
        let config = Config {
            engine: Engine::Postgres { url },
            master: MasterKey::new(&Secret::new([7; 32])),
            next_master: None,
            time: TimeSource::Fixed(Arc::new(FixedClock::new())),
            patience: store::Patience::default(),
            random: Arc::new(SeededRandom::new(11)),
        };
        let store = Store::open(config).await.unwrap();
        let token = store.draw_owner_token();
        store.create_org("test", "owner", token.clone()).await.unwrap();
        // Provides the home and the owner's token; its own store is not used.
        let mut origin = TestServer::start(Kind::Sqlite).await;
        origin.owner = origin.owner.with_token(token.expose());
        let server = TestServer::on_store(store, &origin).await;
        server.owner.set_mode("fake.write", "allow").await;
        let agent = server.agent().await;
        // The first call archives the definitions. From here on an invocation's first commit is its intent.
        agent.invoke("fake.write", json!({ "text": "first" })).await.ok();
        Self { server, agent, proxy }
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

    /// Waits until the server is ready again. It reconnects by itself; a connection it tried just before may still fail.
    async fn is_ready_again(&self) {
        for _ in 0..100 {
            if self.ready().await == 200 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("the store is back, and the server does not notice");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_away_gauges_keep_their_values() {
    let cuttable = Cuttable::start().await;
    let server = &cuttable.server;
    cuttable.agent.pending("fake.send", json!({})).await;
    let shows_one = async || {
        let text = server.owner.get("/metrics").await.body;
        text.as_str().unwrap().lines().any(|line| line == "countersign_pending 1")
    };
    server::measure(&server.store, &mut server::Lags::default()).await.unwrap();
    assert!(shows_one().await);
    cuttable.proxy.cut();
    server::measure(&server.store, &mut server::Lags::default()).await.unwrap_err();
    assert!(shows_one().await);
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
    cuttable.is_ready_again().await;
    assert_eq!(server.counts().await, before, "nothing was half-written");
    cuttable.write("back").await.ok();
    assert_eq!(server.verify().await.receipts, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_away_no_answer_is_taken_and_no_rule_changes() {
    let cuttable = Cuttable::start().await;
    let server = &cuttable.server;
    let (send, kept) = (cuttable.agent.pending("fake.send", json!({})).await, cuttable.agent.pending("fake.send", json!({})).await);
    let grant = server.owner.grant(json!({ "covers": "fake.send", "scope": "org", "calls_max": 1 })).await;
    let before = server.counts().await;
    let effects = server.source.effects();
    cuttable.proxy.cut();
    server.owner.approve(&send).await.problem(503, "store_unavailable");
    server.owner.deny(&send, "no").await.problem(503, "store_unavailable");
    cuttable.agent.invoke("fake.send", json!({})).await.problem(503, "store_unavailable");
    server.owner.revoke(&grant).await.problem(503, "store_unavailable");
    server.owner.switch("on", "org").await.problem(503, "store_unavailable");
    server.owner.set_policies(json!({})).await.problem(503, "store_unavailable");
    cuttable.proxy.mend();
    cuttable.is_ready_again().await;
    assert_eq!((server.counts().await, server.source.effects()), (before, effects), "nothing was half-done");
    assert_eq!(server.owner.get(&format!("/api/v1/grants/{grant}")).await.ok()["calls_used"], 0);
    for id in [&send, &kept] {
        assert_eq!(server.shown(id).await["status"], "pending");
    }
    server.owner.approve(&send).await.ok();
    cuttable.agent.invoke("fake.send", json!({})).await.ok();
    assert_eq!(server.source.effects(), effects + 2);
    server.verify().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_whose_intent_is_cut_at_its_commit_is_never_used_twice() {
    let cuttable = Cuttable::start().await;
    let server = &cuttable.server;
    // The first call of an action archives its definition, so it is made before, with a grant of its own.
    server.owner.grant(json!({ "covers": "fake.send", "scope": "org", "calls_max": 1 })).await;
    cuttable.agent.invoke("fake.send", json!({ "text": "first" })).await.ok();
    let grant = server.owner.grant(json!({ "covers": "fake.send", "scope": "org", "calls_max": 1 })).await;
    let effects = server.source.effects();
    for commit in [Commit::IsLost, Commit::Arrives] {
        cuttable.proxy.cut_at_commit(0, commit);
        let answer = cuttable.agent.invoke("fake.send", json!({ "text": "cut" })).await;
        assert!(answer.status >= 400 || answer.status == 202, "{answer:?}");
        cuttable.proxy.mend();
        cuttable.is_ready_again().await;
    }
    server.pipeline.finish().await;
    let used = server.owner.get(&format!("/api/v1/grants/{grant}")).await.ok()["calls_used"].as_u64().unwrap();
    assert!(used <= 1 && server.source.effects() == effects, "{used} uses, {} effects", server.source.effects());
    server.verify().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intent_whose_commit_is_cut_has_no_effect() {
    let cuttable = Cuttable::start().await;
    let server = &cuttable.server;
    let before = server.counts().await;

    cuttable.proxy.cut_at_commit(0, Commit::IsLost);
    let answer = cuttable.write("lost").await;
    answer.problem(503, "store_unavailable");
    assert!(answer.body["detail"].as_str().unwrap().contains("read before retrying"), "{answer:?}");
    cuttable.proxy.mend();
    cuttable.is_ready_again().await;
    assert_eq!(server.counts().await, before);

    // The commit that is cut may be another one, such as that of the server's lease. Then nothing was written, and the call is made again.
    for _ in 0..20 {
        cuttable.proxy.cut_at_commit(0, Commit::Arrives);
        cuttable.write("unknown").await.problem(503, "store_unavailable");
        cuttable.proxy.mend();
        // It is known that nothing was sent, so the server ends the intent by itself.
        server.pipeline.finish().await;
        cuttable.is_ready_again().await;
        if server.counts().await != before {
            break;
        }
    }
    assert_eq!(server.counts().await, (before.0 + 1, before.1 + 2), "one row, its intent and its receipt");
    let listed = server.owner.get("/api/v1/invocations?status=failed").await.ok();
    assert_eq!(listed["items"][0]["error"]["code"], "store_unavailable", "{listed}");
    assert_eq!((cuttable.effects_of("lost"), cuttable.effects_of("unknown")), (0, 0));
    let report = server.verify().await;
    assert_eq!((report.receipts, report.open_intents), (2, 0));
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
    // The caller is told after a few failed tries; the server keeps trying.
    calling.await.unwrap().problem(503, "outcome_unrecorded");
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
        cuttable.proxy.cut_at_commit(0, commit);
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

/// Whoever is told that nothing was written sends the batch again, and its effects happen twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_may_have_begun_is_never_said_to_have_written_nothing() {
    let cuttable = Cuttable::start().await;
    let server = &cuttable.server;
    let path = format!("/api/v1/sessions/{}/actions/batch", cuttable.agent.session);
    let mut unrecorded = 0;
    for (commits, commit) in (0..6).flat_map(|commits| [(commits, Commit::IsLost), (commits, Commit::Arrives)]) {
        let text = format!("{commits} {commit:?}");
        let part = |n: usize| json!({ "action": "fake.write", "params": { "text": format!("{text} {n}") } });
        let body = json!({ "mode": "best_effort", "actions": [part(0), part(1)] });
        cuttable.proxy.cut_at_commit(commits, commit);
        let answer = cuttable.agent.client.post(&path, body).await;
        cuttable.proxy.mend();
        cuttable.is_ready_again().await;
        server.pipeline.finish().await;
        server.pipeline.sweep().await.unwrap();
        server.pipeline.finish().await;
        let effects = (0..2).map(|n| cuttable.effects_of(&format!("{text} {n}"))).collect::<Vec<_>>();
        if answer.body["code"] == "outcome_unrecorded" {
            unrecorded += 1;
            let batch = server.owner.get(&format!("/api/v1/batches/{}", answer.body["batch_id"].as_str().unwrap())).await;
            assert!(batch.status == 200 || (batch.status == 404 && effects == [0, 0]), "{text}: {batch:?}");
        } else if answer.status == 503 {
            assert_eq!(effects, [0, 0], "{text}: {answer:?}");
        }
        assert!(effects.iter().all(|times| *times <= 1), "{text}: {effects:?}");
    }
    assert!(unrecorded > 0, "no cut came after the batch was stored");
    server.verify().await;
}

/// A name that is taken by somebody whose only invitation is lost helps nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_could_not_be_added_can_be_added_again() {
    let cuttable = Cuttable::start().await;
    let owner = &cuttable.server.owner;
    let mut refused = 0;
    for commits in 0..3 {
        let person = || owner.post("/api/v1/users", json!({ "name": format!("person {commits}"), "role": "member" }));
        let org = || owner.post("/api/v1/orgs", json!({ "name": format!("org {commits}") }));
        cuttable.proxy.cut_at_commit(commits, Commit::IsLost);
        let added = person().await;
        cuttable.proxy.mend();
        cuttable.is_ready_again().await;
        if added.status != 201 {
            added.problem(503, "store_unavailable");
            refused += 1;
            assert_eq!(person().await.status, 201, "after {commits} commits");
        }
        cuttable.proxy.cut_at_commit(commits, Commit::IsLost);
        let added = org().await;
        cuttable.proxy.mend();
        cuttable.is_ready_again().await;
        if added.status != 201 {
            assert_eq!(org().await.status, 201, "after {commits} commits");
        }
    }
    assert!(refused > 0, "no cut came while somebody was added");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_is_taken_back_although_the_commit_that_announces_it_is_cut() {
    for commit in [Commit::IsLost, Commit::Arrives] {
        let cuttable = Cuttable::start().await;
        let server = &cuttable.server;
        server.source.redefine("write", |action| {
            action.reversibility = Reversibility::Reversible;
            action.checks = vec!["looks_right".to_owned()];
        });
        server.owner.review("fake.write").await;
        cuttable.write("once more").await.ok();
        server.source.will_check(Ok(vec![Check::failed("looks_right", "it does not")]));
        let mut held = server.source.will_hold(Ok(Output::new(json!({ "sent": true }))));
        let calling = {
            let agent = cuttable.agent.clone();
            tokio::spawn(async move { agent.invoke("fake.write", json!({ "text": "wrong" })).await })
        };
        held.arrived().await;
        let id = server.source.calls().last().unwrap().context.invocation.to_string();
        cuttable.proxy.cut_at_commit(0, commit);
        held.release();
        cuttable.proxy.was_cut().await;
        cuttable.proxy.mend();
        calling.await.unwrap();
        // The walk may have continued after its caller was answered.
        server.pipeline.finish().await;
        let ended = server.shown(&id).await;
        assert_eq!(server.source.reverts().len(), 1, "{commit:?}: {ended}");
        let is_well = ended["status"] == "reverted" || ended["repair"]["ok"] == true;
        assert!(is_well, "{commit:?}: {ended}");
        assert_eq!(server.verify().await.open_intents, 0, "{commit:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_under_load_leave_every_effect_with_one_receipt() {
    let cuttable = Cuttable::start().await;
    let server = &cuttable.server;
    let mut answers = Vec::new();
    for round in 0..testkit::rounds(8, 4) {
        // From the first intents to the last outcomes.
        cuttable.proxy.cut_at_commit(round / 2, if round % 2 == 0 { Commit::Arrives } else { Commit::IsLost });
        let calls: Vec<_> = (0..12)
            .map(|n| {
                let (agent, text) = (cuttable.agent.clone(), format!("{round}-{n}"));
                tokio::spawn(async move { (text.clone(), agent.invoke("fake.write", json!({ "text": text })).await) })
            })
            .collect();
        let (mut ended, cut) = (futures_util::future::join_all(calls), cuttable.proxy.was_cut());
        // A round may need fewer commits than the cut waits for; then nothing is cut in it.
        let early = tokio::select! {
            () = cut => None,
            ended = &mut ended => Some(ended),
        };
        cuttable.proxy.mend();
        let ended = match early {
            Some(ended) => ended,
            None => ended.await,
        };
        answers.extend(ended.into_iter().map(Result::unwrap));
    }
    // Outcomes that could not be recorded in time are recorded after their callers were answered.
    server.pipeline.finish().await;
    for (text, answer) in &answers {
        let effects = cuttable.effects_of(text);
        match (answer.status, answer.body["code"].as_str()) {
            (200, _) | (503, Some("outcome_unrecorded")) => assert_eq!(effects, 1, "{text}: {answer:?}"),
            (503, Some("store_unavailable")) => assert_eq!(effects, 0, "{text}: {answer:?}"),
            _ => panic!("{text}: {answer:?}"),
        }
    }
    for status in [200, 503] {
        assert!(answers.iter().any(|(_, answer)| answer.status == status), "no call ended with {status}");
    }
    for call in server.source.calls() {
        let id: InvocationId = call.context.invocation;
        let row = server.store.find_invocation(&server.org, &id).await.unwrap().unwrap();
        assert_eq!(row.status, Status::Succeeded, "{id}");
    }
    let everything = PageRequest { limit: 1_000, after: None };
    let rows = server.store.list_invocations(&server.org, &InvocationFilter::default(), &everything).await.unwrap().items;
    let succeeded = rows.iter().filter(|row| row.status == Status::Succeeded).count();
    assert_eq!(succeeded as u64, server.source.effects(), "one success for each effect, and none without");
    let report = server.verify().await;
    assert_eq!((report.receipts, report.open_intents), (rows.len() as u64, 0), "every row ended with its receipt");
    assert_eq!(cuttable.ready().await, 200);
}
