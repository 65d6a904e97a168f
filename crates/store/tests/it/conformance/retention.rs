//! What an org does not want to keep goes, its audit log stays whole, and nobody else loses anything.

use super::automations::{at, claimed, fired, firing, leased, saved, step};
use crate::harness::{Kind, Tenant, World, everything, on_both_engines, sha256};
use countersign_core::automation::Automation;
use countersign_core::call::Claimed;
use countersign_core::invocation::{DIGEST, Failure, NOT_KEPT};
use countersign_core::ledger::{Approved, Begun, Held, OpenedBatch, Row};
use countersign_core::notification::{Notification, Notifier};
use countersign_core::ports::bus::NewEvent;
use countersign_core::ports::events::Cause;
use countersign_core::ports::runs::{Fired, Occasion, ReserveBudget, Reserved, SavedRun, Then};
use countersign_core::ports::{Batches, EventBus, EventFeed, Invocations, Runs, Sessions};
use countersign_core::retention::Retention;
use countersign_core::run::{Run, RunFailure, RunStatus, StepRecord, StepStatus};
use countersign_core::session::Keeps;
use countersign_core::{Amount, Batch, Call, Clock as _, Invocation, InvocationId, NotificationId, PrincipalId, Status};
use serde_json::{Value, json};
use store::limits::{DIGEST_AFTER_SECONDS, FORGET_ROWS};
use store::{FiringFilter, Forgotten, InvocationFilter, ReceiptFilter, RunFilter, SpaceChange, Store};

on_both_engines!(
    old_calls_and_events_are_forgotten_and_the_log_still_verifies,
    events_go_after_a_week_where_nobody_said_otherwise,
    events_go_though_nothing_else_is_recorded,
    retention_is_signed_into_the_log,
    a_sweep_forgets_more_than_one_write_does,
    firings_of_long_ago_and_expired_keys_are_forgotten_and_the_others_stay,
    what_belongs_to_old_calls_goes_with_them,
    a_space_that_keeps_digests_only_keeps_no_text_of_what_ended_an_hour_ago,
    no_text_of_a_space_that_keeps_digests_only_is_in_a_backup,
    ended_runs_are_forgotten_after_their_calls,
    a_space_that_keeps_digests_only_keeps_no_text_of_runs_that_ended_an_hour_ago,
    the_inputs_of_a_run_are_sealed_and_open_in_no_other_run,
);

const DAY: u64 = 24 * 60 * 60;

fn retention() -> Retention {
    Retention { receipts_days: Some(180), events_days: Some(7), ..Retention::default() }
}

/// The calls, and the receipts that are found by their action.
async fn left(store: &Store, tenant: &Tenant) -> (usize, usize) {
    let calls = store.list_invocations(&tenant.org, &InvocationFilter::default(), &everything()).await.unwrap().items;
    let filter = ReceiptFilter { space: Some(tenant.space.clone()), ..ReceiptFilter::default() };
    (calls.len(), store.list_receipts(&tenant.org, &filter, &everything()).await.unwrap().items.len())
}

async fn old_calls_and_events_are_forgotten_and_the_log_still_verifies(kind: Kind) {
    let world = World::new(kind).await;
    let (store, ours, theirs) = (&world.store, world.tenant("ours").await, world.tenant("theirs").await);
    let old = ours.read_once(store).await;
    theirs.read_once(store).await;
    let pending = ours.pending(store).await;
    store.set_retention(&ours.org, retention(), &ours.person()).await.unwrap();
    assert_eq!(store.forget_old(&ours.org).await, Ok(Forgotten::default()), "nothing is old yet");
    world.clock.advance_seconds(8 * DAY);
    assert_eq!(store.forget_old(&ours.org).await, Ok(Forgotten::default()), "events are counted back from the newest entry of the log");
    let events = store.newest_event(&ours.org).await.unwrap();
    store.set_retention(&ours.org, Retention { snapshots_days: Some(90), ..retention() }, &ours.person()).await.unwrap();
    let forgotten = store.forget_old(&ours.org).await.unwrap();
    assert_eq!(forgotten, Forgotten { events: u64::try_from(events).unwrap(), ..Forgotten::default() });
    assert_eq!((store.oldest_event(&ours.org).await, store.newest_event(&ours.org).await), (Ok(events + 1), Ok(events + 1)));
    assert_eq!(left(store, &ours).await, (2, 1), "calls are kept for longer");
    world.verify(&ours).await;
    world.clock.advance_seconds(200 * DAY);
    let young = ours.read_once(store).await;
    assert_eq!(store.forget_old(&ours.org).await.unwrap().invocations, 1);
    assert_eq!(left(store, &ours).await, (2, 1));
    assert_eq!(store.find_invocation(&ours.org, &old.id).await, Ok(None));
    assert!(store.find_invocation(&ours.org, &pending.id).await.unwrap().is_some(), "what is open is never old");
    // The receipt itself stays, and so does its place in the log.
    let receipt = old.receipt.unwrap().id;
    assert!(store.find_receipt(&ours.org, &receipt).await.unwrap().is_some());
    assert!(store.prove_receipt(&ours.org, &receipt).await.unwrap().is_some());
    let listed = store.list_receipts(&ours.org, &ReceiptFilter::default(), &everything()).await.unwrap().items;
    assert_eq!(
        listed.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>(),
        [young.receipt.unwrap().id.to_string(), receipt.to_string()]
    );
    world.verify(&ours).await;
    assert_eq!(store.check_integrity(&ours.org).await.unwrap().differences, Vec::<String>::new());
    assert_eq!((left(store, &theirs).await, store.oldest_event(&theirs.org).await), ((1, 1), Ok(1)), "the other org keeps everything");
}

async fn events_go_after_a_week_where_nobody_said_otherwise(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    tenant.read_once(store).await;
    let first = store.newest_event(&tenant.org).await.unwrap();
    world.clock.advance_seconds(6 * DAY);
    tenant.read_once(store).await;
    assert_eq!(store.forget_old(&tenant.org).await, Ok(Forgotten::default()));
    world.clock.advance_seconds(2 * DAY);
    tenant.read_once(store).await;
    let forgotten = Forgotten { events: u64::try_from(first).unwrap(), ..Forgotten::default() };
    assert_eq!(store.forget_old(&tenant.org).await, Ok(forgotten));
    assert_eq!((store.oldest_event(&tenant.org).await, left(store, &tenant).await), (Ok(first + 1), (3, 3)), "calls are kept for ever");
    // No entry of the log tells of it, and a verifier knows it all the same.
    world.verify(&tenant).await;
    assert_eq!(store.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
}

async fn events_go_though_nothing_else_is_recorded(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    tenant.read_once(store).await;
    let (org, first) = (&tenant.org, store.newest_event(&tenant.org).await.unwrap());
    let event = || NewEvent {
        name: "drive.file_added".into(),
        key: "file".into(),
        body: "{}".into(),
        origin: None,
        space: None,
        cause: Cause::default(),
    };
    world.clock.advance_seconds(8 * DAY);
    store.publish(org, vec![event()]).await.unwrap();
    let size = store.log_size(org).await.unwrap();
    // A time is signed, from which they are counted back at the next sweep.
    assert_eq!(store.forget_old(org).await, Ok(Forgotten::default()));
    assert_eq!(store.log_size(org).await, Ok(size + 1));
    let forgotten = Forgotten { events: u64::try_from(first).unwrap(), ..Forgotten::default() };
    assert_eq!(store.forget_old(org).await, Ok(forgotten));
    world.verify(&tenant).await;
    assert_eq!(store.check_integrity(org).await.unwrap().differences, Vec::<String>::new());
    // The newest event stays, so nothing waits for another.
    world.clock.advance_seconds(20 * DAY);
    assert_eq!((store.forget_old(org).await, store.log_size(org).await), (Ok(Forgotten::default()), Ok(size + 1)));
    assert_eq!(store.oldest_event(org).await, Ok(first + 1));
}

async fn a_sweep_forgets_more_than_one_write_does(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    store.set_retention(&tenant.org, retention(), &tenant.person()).await.unwrap();
    let (org, many) = (&tenant.org, u64::from(FORGET_ROWS) * 2 + 1);
    let older = format!(
        "INSERT INTO events (org_id, seq, id, name, key, receipt_id, body, at)
         WITH RECURSIVE older (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM older WHERE n < {many})
         SELECT '{org}', -n, 'evt_older_' || n, 'test.older', 'older', NULL, '{{}}', 0 FROM older"
    );
    world.home.tamper(&older).await;
    assert_eq!(store.forget_old(org).await, Ok(Forgotten { events: many, ..Forgotten::default() }));
    assert_eq!(store.oldest_event(org).await, Ok(1));
}

async fn firings_of_long_ago_and_expired_keys_are_forgotten_and_the_others_stay(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let new = || firing(&tenant, &automation, Occasion::Key { key: "once".into(), fingerprint: sha256("body") });
    fired(store, new()).await;
    // One write forgets neither all of these firings nor all of these keys, and of the keys even two do not.
    let (org, id, firings, keys) = (&tenant.org, &automation.id, u64::from(FORGET_ROWS) + 1, u64::from(FORGET_ROWS) * 2 + 1);
    let older = |many: u64| format!("WITH RECURSIVE older (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM older WHERE n < {many})");
    let old_firings = format!(
        "INSERT INTO firings (org_id, id, automation_id, outcome, reason, at, count, first_at, last_at) {}
         SELECT '{org}', 'older_' || n, '{id}', 'started', 'on_time', 0, 1, 0, 0 FROM older",
        older(firings)
    );
    let expired_keys = format!(
        "INSERT INTO fire_keys (org_id, automation_id, key, fingerprint, firing_id, expires_at) {}
         SELECT '{org}', '{id}', 'older ' || n, '', 'older_' || n, 0 FROM older",
        older(keys)
    );
    world.home.tamper(&old_firings).await;
    world.home.tamper(&expired_keys).await;
    assert_eq!(store.forget_firings(org).await, Ok(firings + keys));
    assert_eq!(store.list_firings(org, id, &FiringFilter::default(), &everything()).await.unwrap().items.len(), 1);
    assert!(matches!(store.fire(new()).await, Ok(Fired::Earlier(_))), "its key is remembered");
}

/// Stands in every text that somebody wrote.
const CANARY: &str = "the old mill at dawn";

/// A call that a person approved, with its notification and a notice that could not be sent, and a batch: all have ended, each with texts.
async fn ended_with_texts(world: &World, tenant: &Tenant) -> (Invocation, Batch) {
    let (store, told) = (&world.store, || Some(CANARY.to_owned()));
    let mut wanted = tenant.writing();
    let claimed = Claimed { more: Some(json!({ "note": CANARY })), rollback_plan: Some(json!(CANARY)), ..Claimed::default() };
    wanted.call = Call { reason: told(), claimed: Some(claimed), ..Call::new(json!({ "text": CANARY })) };
    assert_eq!(store.hold(tenant.hold(&wanted)).await.unwrap(), Held::Pending);
    let mut approve = tenant.approve(&wanted);
    approve.approval.answer.reason = told();
    assert!(matches!(store.approve(approve).await.unwrap(), Approved::Approved(_)));
    let approved = store.find_invocation(&tenant.org, &wanted.id).await.unwrap().unwrap();
    let begin = tenant.begin(&approved, Row::From(Status::Approved));
    let running = begin.invocation.clone();
    assert_eq!(store.begin(begin).await.unwrap(), Begun::Started);
    let notification = Notification {
        id: tenant.draw(NotificationId::new),
        org: tenant.org.clone(),
        space: tenant.space.clone(),
        invocation: Some(running.id.clone()),
        title: CANARY.to_owned(),
        body: CANARY.to_owned(),
        created_at: store.now().await.unwrap(),
    };
    store.deliver(&notification).await.unwrap();
    let mut finish = tenant.finish(&running, Row::From(Status::Running), Status::Succeeded);
    finish.invocation.result = Some(json!({ "text": CANARY }));
    finish.invocation.aftermath.settled_reason = told();
    store.finish(finish.into()).await.unwrap();
    let (org, id) = (&tenant.org, &running.id);
    world
        .home
        .tamper(&format!(
            "INSERT INTO deliveries (org_id, id, channel_id, invocation_id, recipient, moment, seq, state, attempts, due_at, problem, created_at)
             VALUES ('{org}', 'dlv_1', 'chn_1', '{id}', '', 'pending', 1, 'dead', 1, 0, '{CANARY}', 0)"
        ))
        .await;
    let mut new = tenant.new_batch(None);
    new.batch.reason = told();
    new.batch.parts[0].failure = Some(Failure { code: "invalid_params".to_owned(), message: CANARY.to_owned() });
    let OpenedBatch::New(batch) = Batches::open_batch(store, new).await.unwrap() else { panic!("it is new") };
    let batch = Batches::end_batch(store, tenant.end_batch(batch)).await.unwrap().unwrap();
    (running, batch)
}

pub(super) async fn backup_of(store: &Store) -> String {
    let mut backup = Vec::new();
    store.backup(&mut backup).await.unwrap();
    String::from_utf8(backup).unwrap()
}

/// Puts a call into quarantine, in this state and with this column of its space for its content.
async fn quarantine(world: &World, tenant: &Tenant, invocation: &InvocationId, state: &str, sealed: &str) {
    let (space, session) = (&tenant.space, &tenant.session.id);
    let quarantine = format!(
        "INSERT INTO quarantines (org_id, invocation_id, space_id, session_id, action, principal, holds, sealed, digest, caught, state,
           reason, expires_at, created_at)
         SELECT org_id, '{invocation}', '{space}', '{session}', 'fake.read', 'agent:{session}', 'params', {sealed}, 'digest', '[]',
           '{state}', '{CANARY}', 0, 0 FROM spaces WHERE id = '{space}'"
    );
    world.home.tamper(&quarantine).await;
}

async fn what_belongs_to_old_calls_goes_with_them(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let org = &tenant.org;
    let ((old, batch), kept) = (ended_with_texts(&world, &tenant).await, tenant.read_once(store).await);
    quarantine(&world, &tenant, &old.id, "discarded", "NULL").await;
    quarantine(&world, &tenant, &kept.id, "held", "sealed_key").await;
    store.set_retention(org, retention(), &tenant.person()).await.unwrap();
    world.clock.advance_seconds(181 * DAY);
    let forgotten = store.forget_old(org).await.unwrap();
    assert_eq!((forgotten.invocations, forgotten.batches), (1, 1));
    assert_eq!(store.find_invocation(org, &old.id).await, Ok(None));
    assert_eq!(store.find_batch(org, &batch.id).await, Ok(None));
    assert!(store.find_invocation(org, &kept.id).await.unwrap().is_some(), "what is kept sealed in quarantine needs its call");
    world.home.tamper("UPDATE quarantines SET sealed = NULL, state = 'expired'").await;
    assert_eq!(store.forget_old(org).await.unwrap().invocations, 1);
    assert!(!backup_of(store).await.contains(CANARY), "nothing of it is left");
    world.verify(&tenant).await;
}

async fn retention_is_signed_into_the_log(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    assert_eq!(store.find_retention(&tenant.org).await, Ok(Retention::default()));
    assert_eq!(store.set_retention(&tenant.org, retention(), &tenant.person()).await, Ok(retention()));
    let size = store.log_size(&tenant.org).await.unwrap();
    store.set_retention(&tenant.org, retention(), &tenant.person()).await.unwrap();
    assert_eq!(store.log_size(&tenant.org).await, Ok(size), "what is set already is not set again");
    assert_eq!(store.find_retention(&tenant.org).await, Ok(retention()));
    world.verify(&tenant).await;
    assert_eq!(store.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
    world.home.tamper("UPDATE orgs SET retention = '{\"events_days\":1}'").await;
    let differences = store.check_integrity(&tenant.org).await.unwrap().differences;
    assert!(differences.len() == 1 && differences[0].starts_with("retention `in force`"), "{differences:?}");
}

async fn a_space_that_keeps_digests_only_keeps_no_text_of_what_ended_an_hour_ago(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (before, pending) = (tenant.read_once(store).await, tenant.pending(store).await);
    let change = SpaceChange { keeps: Some(Keeps::Digests), ..SpaceChange::default() };
    let space = store.change_space(&tenant.org, &tenant.space, change, &tenant.person()).await.unwrap().unwrap();
    assert_eq!(space.keeps, Keeps::Digests);
    assert_eq!(store.digest_ended(&tenant.org).await, Ok(0), "whoever waits for a result gets it");
    world.clock.advance_seconds(DIGEST_AFTER_SECONDS + 1);
    let young = tenant.read_once(store).await;
    assert_eq!(store.digest_ended(&tenant.org).await, Ok(1));
    assert_eq!(store.digest_ended(&tenant.org).await, Ok(0), "once is enough");
    let kept = store.find_invocation(&tenant.org, &before.id).await.unwrap().unwrap();
    assert_eq!(kept.call.params, json!({ DIGEST: before.digests.params }));
    let receipt = store.find_receipt(&tenant.org, &before.receipt.as_ref().unwrap().id).await.unwrap().unwrap();
    let body: serde_json::Value = serde_json::from_str(&receipt.payload).unwrap();
    let outputs = &body["body"]["outputs"]["digest"];
    assert_eq!(kept.result, (!outputs.is_null()).then(|| json!({ DIGEST: outputs })));
    assert_eq!((kept.status, kept.receipt), (before.status, before.receipt), "all else is as it was");
    for (call, what) in [(&young, "what ended just now"), (&pending, "what is open")] {
        let found = store.find_invocation(&tenant.org, &call.id).await.unwrap().unwrap();
        assert_eq!(found.call.params, call.call.params, "{what}");
    }
    world.clock.advance_seconds(DIGEST_AFTER_SECONDS + 1);
    assert_eq!(store.digest_ended(&tenant.org).await, Ok(1), "its turn comes");
    world.verify(&tenant).await;
    assert_eq!(store.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
}

async fn no_text_of_a_space_that_keeps_digests_only_is_in_a_backup(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (call, batch) = ended_with_texts(&world, &tenant).await;
    let change = SpaceChange { keeps: Some(Keeps::Digests), ..SpaceChange::default() };
    store.change_space(&tenant.org, &tenant.space, change, &tenant.person()).await.unwrap().unwrap();
    assert!(backup_of(store).await.contains(CANARY), "it was there");
    world.clock.advance_seconds(DIGEST_AFTER_SECONDS + 1);
    assert_eq!(store.digest_ended(&tenant.org).await, Ok(2), "the call, and the batch after it");
    let backup = backup_of(store).await;
    let left: Vec<_> = backup.lines().filter(|line| line.contains(CANARY)).collect();
    assert_eq!(left, Vec::<&str>::new());
    let kept = store.find_invocation(&tenant.org, &call.id).await.unwrap().unwrap();
    assert_eq!((kept.status, kept.approvals.len()), (Status::Succeeded, 1), "who approved stays");
    let notified = store.list_notifications(&tenant.org, &Default::default(), &everything()).await.unwrap().items;
    assert_eq!((notified[0].title.as_str(), notified[0].body.as_str()), (NOT_KEPT, ""));
    let ended = store.find_batch(&tenant.org, &batch.id).await.unwrap().unwrap();
    assert_eq!((ended.status, &ended.receipt, ended.version), (batch.status, &batch.receipt, batch.version), "all else is as it was");
    assert_eq!(ended.parts[0].failure.as_ref().map(|failure| failure.code.as_str()), Some("invalid_params"));
    assert_eq!(store.digest_ended(&tenant.org).await, Ok(0), "once is enough");
    world.verify(&tenant).await;
    assert_eq!(store.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
}

/// What a run was given, which stands nowhere in clear text.
const GIVEN: &str = "the miller's own hand";
/// Names what a run has spent.
const SPENT: &str = "a sack of flour";

/// A run that has failed, with a call, two steps and something spent. All of it but the call has texts.
async fn ended_run(world: &World, tenant: &Tenant, automation: &Automation) -> (Run, Invocation) {
    let (store, now) = (&world.store, world.clock.now());
    let mut new = firing(tenant, automation, Occasion::Request);
    let start = new.start.as_mut().unwrap();
    (start.inputs, start.shown_inputs) = (json!({ "text": GIVEN }), json!({ "text": CANARY }));
    fired(store, new).await;
    let lease = claimed(store).await.remove(0);
    let mut run = store.find_run(&tenant.org, &lease.run).await.unwrap().unwrap();
    let reserve = ReserveBudget {
        lease: lease.clone(),
        key: SPENT.to_owned(),
        action: "fake.read".to_owned(),
        most: Amount::from_millionths(1).unwrap(),
        cap: Amount::MAX,
    };
    assert_eq!(store.reserve_budget(reserve).await, Ok(Reserved::Done));
    let mut call = tenant.reading();
    (call.session, call.principal) = (run.session.clone(), PrincipalId::Automation(automation.id.clone()));
    store.finish(tenant.finish(&call, Row::Insert, Status::Succeeded).into()).await.unwrap();
    let done = StepRecord { invocation: Some(call.id.clone()), output: Some(json!(CANARY)), ..step(0, now) };
    let failure = Failure { code: "denied".to_owned(), message: CANARY.to_owned() };
    let failed = StepRecord { status: StepStatus::Failed, output: None, failure: Some(failure), ..step(1, now) };
    run.status = RunStatus::Failed;
    run.output = Some(json!({ "text": CANARY }));
    run.failure = Some(RunFailure { code: "denied".to_owned(), message: CANARY.to_owned(), step_id: Some("step_1".to_owned()) });
    let saved = SavedRun { steps: vec![done, failed], ..at(&lease, &run, Then::End) };
    assert_eq!(store.save_run(saved).await, Ok(true));
    (run, call)
}

async fn ended_runs_are_forgotten_after_their_calls(kind: Kind) {
    let world = World::new(kind).await;
    let (store, ours, theirs) = (&world.store, world.tenant("ours").await, world.tenant("theirs").await);
    let (automation, other) = (saved(store, &ours, "digest").await, saved(store, &theirs, "digest").await);
    let (old, _) = ended_run(&world, &ours, &automation).await;
    let (held, held_call) = ended_run(&world, &ours, &automation).await;
    quarantine(&world, &ours, &held_call.id, "held", "sealed_key").await;
    let (_, open) = leased(store, &ours, &automation).await;
    let (kept, _) = ended_run(&world, &theirs, &other).await;
    store.set_retention(&ours.org, retention(), &ours.person()).await.unwrap();
    assert_eq!(store.forget_old(&ours.org).await, Ok(Forgotten::default()), "nothing is old yet");
    assert_eq!(backup_of(store).await.matches(SPENT).count(), 3);
    world.clock.advance_seconds(181 * DAY);
    let forgotten = store.forget_old(&ours.org).await.unwrap();
    assert_eq!((forgotten.invocations, forgotten.runs), (1, 1));
    assert_eq!(store.find_run(&ours.org, &old.id).await, Ok(None));
    assert_eq!(store.list_steps(&ours.org, &old.id).await, Ok(vec![]));
    assert!(store.find_session(&ours.org, &old.session).await.unwrap().is_none());
    for (tenant, run, why) in [(&ours, &open, "it has not ended"), (&ours, &held, "its call is kept"), (&theirs, &kept, "it is theirs")] {
        assert!(store.find_run(&tenant.org, &run.id).await.unwrap().is_some(), "{why}");
        assert!(store.find_session(&tenant.org, &run.session).await.unwrap().is_some(), "{why}");
    }
    assert_eq!(store.list_steps(&theirs.org, &kept.id).await.unwrap().len(), 2);
    world.home.tamper("UPDATE quarantines SET sealed = NULL, state = 'expired'").await;
    let forgotten = store.forget_old(&ours.org).await.unwrap();
    assert_eq!((forgotten.invocations, forgotten.runs), (1, 1), "the call that was held, and its run after it");
    assert_eq!(backup_of(store).await.matches(SPENT).count(), 1, "what theirs has spent");
    // The log names the sessions of runs that are gone.
    assert_eq!(store.check_integrity(&ours.org).await.unwrap().differences, Vec::<String>::new());
}

async fn a_space_that_keeps_digests_only_keeps_no_text_of_runs_that_ended_an_hour_ago(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant, other) = (&world.store, world.tenant("acme").await, world.tenant("other").await);
    let (automation, others) = (saved(store, &tenant, "digest").await, saved(store, &other, "digest").await);
    let change = SpaceChange { keeps: Some(Keeps::Digests), ..SpaceChange::default() };
    store.change_space(&tenant.org, &tenant.space, change, &tenant.person()).await.unwrap().unwrap();
    let (before, _) = ended_run(&world, &tenant, &automation).await;
    ended_run(&world, &other, &others).await;
    let told = async |tenant: &Tenant| {
        let events = store.list_events_after(&tenant.org, 0, 500).await.unwrap();
        let ended = events.into_iter().find(|event| event.name == "automation.run.failed").unwrap();
        serde_json::from_str::<Value>(&ended.body).unwrap()
    };
    let (bare, whole) = (told(&tenant).await, told(&other).await);
    assert_eq!((&whole["output"]["text"], &whole["error"]["message"]), (&json!(CANARY), &json!(CANARY)));
    assert_eq!((&bare["output"], &bare["error"]["message"], &bare["error"]["code"]), (&Value::Null, &json!(NOT_KEPT), &json!("denied")));
    let (_, open) = leased(store, &tenant, &automation).await;
    assert_eq!(store.digest_ended(&tenant.org).await, Ok(0), "whoever waits for a run gets what it came to");
    world.clock.advance_seconds(DIGEST_AFTER_SECONDS + 1);
    let (young, _) = ended_run(&world, &tenant, &automation).await;
    assert_eq!(store.digest_ended(&tenant.org).await, Ok(2), "the call, and the run after it");
    assert_eq!(store.digest_ended(&tenant.org).await, Ok(0), "once is enough");
    let kept = store.find_run(&tenant.org, &before.id).await.unwrap().unwrap();
    assert_eq!((&kept.inputs, &kept.shown_inputs, &kept.output), (&None, &Value::Null, &None));
    let failure = RunFailure { message: NOT_KEPT.to_owned(), ..before.failure.unwrap() };
    assert_eq!((kept.status, kept.failure), (RunStatus::Failed, Some(failure)), "all else is as it was");
    let steps = store.list_steps(&tenant.org, &before.id).await.unwrap();
    let left: Vec<_> = steps.iter().map(|step| (&step.output, step.failure.as_ref().map(|failure| failure.message.as_str()))).collect();
    assert_eq!(left, [(&None, None), (&None, Some(NOT_KEPT))]);
    for (run, inputs, why) in [(&young, json!({ "text": GIVEN }), "it ended just now"), (&open, json!({ "since": "now" }), "it is open")] {
        assert_eq!(store.find_run(&tenant.org, &run.id).await.unwrap().unwrap().inputs, Some(inputs), "{why}");
    }
    world.clock.advance_seconds(DIGEST_AFTER_SECONDS + 1);
    assert_eq!(store.digest_ended(&tenant.org).await, Ok(2), "its turn comes");
    let backup = backup_of(store).await;
    let left: Vec<_> = backup.lines().filter(|line| line.contains(tenant.org.as_str()) && line.contains(CANARY)).collect();
    assert_eq!(left, Vec::<&str>::new());
    assert!(backup.lines().any(|line| line.contains(other.org.as_str()) && line.contains(CANARY)), "the other org keeps texts");
    assert_eq!(store.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
}

async fn the_inputs_of_a_run_are_sealed_and_open_in_no_other_run(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let ((one, _), (two, _)) = (ended_run(&world, &tenant, &automation).await, ended_run(&world, &tenant, &automation).await);
    assert!(!backup_of(store).await.contains(GIVEN));
    for store in [store, &world.another_store().await] {
        let found = store.find_run(&tenant.org, &one.id).await.unwrap().unwrap();
        assert_eq!((found.inputs, found.shown_inputs), (Some(json!({ "text": GIVEN })), json!({ "text": CANARY })));
    }
    let listed = store.list_runs(&tenant.org, &RunFilter::default(), &everything()).await.unwrap().items;
    assert_eq!(listed.iter().map(|run| &run.inputs).collect::<Vec<_>>(), [&None, &None], "a list has no use for them");
    let moved = format!("(SELECT sealed_inputs FROM runs WHERE id = '{}')", one.id);
    world.home.tamper(&format!("UPDATE runs SET sealed_inputs = {moved} WHERE id = '{}'", two.id)).await;
    assert!(matches!(store.find_run(&tenant.org, &two.id).await, Err(store::Error::Corrupt { .. })));
}
