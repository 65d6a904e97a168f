//! Automations as they are saved, fired and run.

use super::retention::backup_of;
use crate::harness::{Kind, Tenant, World, everything, on_both_engines, sha256};
use countersign_core::automation::{Automation, AutomationStatus, FiringOutcome, FiringReason, Tick, TriggerType};
use countersign_core::invocation::Failure;
use countersign_core::ledger::Row;
use countersign_core::limits::RUN_LEASE_SECONDS;
use countersign_core::ports::automations::{Mended, PassedTicks, SkippedTicks};
use countersign_core::ports::events::Cause;
use countersign_core::ports::runs::{
    Concurrency, Dropped, Fired, Gather, GatheredEvent, Lease, NewFiring, Occasion, Rate, SavedRun, Start, Then,
};
use countersign_core::ports::{Automations, EventFeed, Invocations, Principals, Runs, Sessions};
use countersign_core::principal::Role;
use countersign_core::run::{Phase, Run, RunStatus, StepRecord, StepStatus, TriggerPayload, WaitingFor};
use countersign_core::{
    AutomationId, Clock as _, EventId, FiringId, Invocation, InvocationId, PrincipalId, RunId, SessionId, SpaceId, Status, Timestamp,
};
use serde_json::{Value, json};
use store::limits::{
    DRAFTS_MAX, FIRE_KEY_SECONDS, RUN_FORGOTTEN_SECONDS, RUN_RECOVERIES_MAX, TRIGGER_PAYLOAD_BYTES_MAX, TRIGGER_PAYLOAD_SECONDS,
};
use store::{FiringFilter, FromNow, SaveAutomation, Saved, SavedTrigger, Store, TriggerChange};

on_both_engines!(
    a_definition_is_a_version_and_the_same_one_is_none,
    what_was_saved_is_in_the_log_and_a_changed_row_shows,
    a_trigger_keeps_its_token_and_its_history_across_versions,
    a_webhook_that_is_signed_no_longer_gets_a_token,
    a_token_is_shown_once_and_the_old_one_lasts_if_asked_for,
    a_draft_lasts_a_day,
    a_maker_has_so_many_drafts_in_a_space,
    a_schedule_goes_forward_once,
    a_schedule_that_would_not_fire_as_it_has_to_is_found,
    what_a_person_stopped_leaves_a_row_when_it_goes_on,
    the_same_tick_event_or_key_starts_one_run,
    a_key_of_another_request_is_refused_and_expires,
    each_sender_has_keys_of_its_own,
    queue_order_and_bound,
    a_queue_without_its_first_run_goes_on,
    a_full_queue_drops_the_newest_or_the_oldest,
    what_started_nothing_is_one_row_a_minute,
    a_rate_is_kept,
    lease_lost_while_running,
    a_run_that_was_freed_does_not_wait_behind_later_ones,
    terminal_never_overwritten,
    a_run_waits_without_a_lease_and_is_woken_by_the_end_of_its_call,
    a_run_that_waits_for_a_person_who_can_tell_is_woken_by_the_doubt,
    a_run_that_was_forgotten_for_a_while_is_woken_and_told,
    what_a_trigger_was_given_is_kept_sealed_for_a_while_and_up_to_a_length,
    a_run_that_parks_after_its_call_has_ended_is_due_at_once,
    poison_run_quarantined,
    a_cancelled_run_is_due_and_one_behind_another_ends_at_once,
    an_automation_acts_as_long_as_its_creator_may,
    a_run_acts_for_whoever_saved_its_version,
    a_session_holds_what_its_run_has_taken_over_or_was_sent,
);

pub(crate) fn save(tenant: &Tenant, name: &str, version: u32) -> SaveAutomation {
    SaveAutomation {
        automation: None,
        space: tenant.space.clone(),
        name: name.to_owned(),
        definition: json!({ "name": name, "version": version }).to_string(),
        triggers: vec![
            SavedTrigger { id: "hook".into(), kind: TriggerType::Webhook, next_due_at: None, signed_by: None },
            SavedTrigger { id: "day".into(), kind: TriggerType::Schedule, next_due_at: Some(testkit::clock::START), signed_by: None },
            SavedTrigger { id: "added".into(), kind: TriggerType::Event, next_due_at: None, signed_by: None },
        ],
        expected: None,
    }
}

pub(crate) async fn saved(store: &Store, tenant: &Tenant, name: &str) -> Automation {
    let saved = store.save_automation(&tenant.org, save(tenant, name, 1), &tenant.owner).await.unwrap();
    let Saved::Done { automation, .. } = saved else { panic!("{saved:?}") };
    automation
}

pub(crate) fn firing(tenant: &Tenant, automation: &Automation, occasion: Occasion) -> NewFiring {
    let start = Start {
        run: tenant.draw(RunId::new),
        session: tenant.draw(SessionId::new),
        version: automation.version,
        definition: automation.definition,
        trigger_type: TriggerType::Webhook,
        inputs: json!({ "since": "now" }),
        shown_inputs: json!({ "since": "now" }),
        payload: None,
        queue: "fast".to_owned(),
        concurrency: Concurrency::AllowParallel,
        rate: None,
        rerun_of: None,
        copied: Vec::new(),
        from_outside: false,
        asked_by: None,
    };
    NewFiring {
        id: tenant.draw(FiringId::new),
        org: tenant.org.clone(),
        automation: automation.id.clone(),
        trigger: Some("hook".to_owned()),
        occasion,
        reason: FiringReason::OnTime,
        detail: None,
        cause: Cause::default(),
        start: Some(Box::new(start)),
    }
}

/// An event of the trigger `added`, at this place in the log.
pub(crate) fn gathered(tenant: &Tenant, automation: &Automation, seq: i64, gather: Gather) -> GatheredEvent {
    let (org, automation) = (tenant.org.clone(), automation.id.clone());
    GatheredEvent { org, automation, trigger: "added".to_owned(), seq, bytes: 100, gather }
}

pub(super) fn with(mut firing: NewFiring, concurrency: Concurrency) -> NewFiring {
    if let Some(start) = &mut firing.start {
        start.concurrency = concurrency;
    }
    firing
}

pub(super) async fn fired(store: &Store, firing: NewFiring) -> (FiringReason, Option<RunId>) {
    let fired = store.fire(firing).await.unwrap();
    let Fired::New(firing) = fired else { panic!("{fired:?}") };
    (firing.reason, firing.run)
}

pub(super) async fn claimed(store: &Store) -> Vec<Lease> {
    store.claim_runs(&["fast".to_owned()], 10).await.unwrap()
}

/// A run that this server has leased.
pub(super) async fn leased(store: &Store, tenant: &Tenant, automation: &Automation) -> (Lease, Run) {
    fired(store, firing(tenant, automation, Occasion::Request)).await;
    let lease = claimed(store).await.remove(0);
    let run = store.find_run(&tenant.org, &lease.run).await.unwrap().unwrap();
    (lease, run)
}

pub(super) fn at(lease: &Lease, run: &Run, then: Then) -> SavedRun {
    SavedRun { lease: lease.clone(), run: Box::new(run.clone()), steps: Vec::new(), then }
}

pub(super) fn step(index: u32, at: Timestamp) -> StepRecord {
    StepRecord {
        phase: Phase::Plan,
        index,
        step_id: format!("step_{index}"),
        action: "test.read".to_owned(),
        status: StepStatus::Succeeded,
        invocation: None,
        output: Some(json!({ "done": true })),
        artifact: None,
        failure: None::<Failure>,
        copied_from: None,
        started_at: at,
        ended_at: at,
    }
}

async fn a_definition_is_a_version_and_the_same_one_is_none(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let first = saved(store, &tenant, "digest").await;
    assert_eq!((first.version, first.status), (1, AutomationStatus::Active));
    let definition = store.find_automation_definition(&tenant.org, first.definition).await.unwrap().unwrap();
    assert_eq!(*definition, json!({ "name": "digest", "version": 1 }));
    let again = |version, expected| SaveAutomation { automation: Some(first.id.clone()), expected, ..save(&tenant, "digest", version) };
    let save_again = |again| async { store.save_automation(&tenant.org, again, &tenant.owner).await.unwrap() };
    assert!(matches!(save_again(again(1, None)).await, Saved::Done { is_new_version: false, .. }));
    let Saved::Done { automation: second, tokens, is_new_version: true } = save_again(again(2, Some(first.definition))).await else {
        panic!("it is another definition")
    };
    assert_eq!((second.version, tokens.len()), (2, 0));
    assert!(matches!(save_again(again(3, Some(first.definition))).await, Saved::Changed(seen) if seen.version == 2));
    let taken = store.save_automation(&tenant.org, save(&tenant, "digest", 9), &tenant.owner).await.unwrap();
    assert!(matches!(taken, Saved::NameTaken(other) if other == first.id));
    let versions = store.list_automation_versions(&tenant.org, &first.id, &everything()).await.unwrap().items;
    assert_eq!(versions.iter().map(|version| version.version).collect::<Vec<_>>(), [2, 1]);
    world.verify(&tenant).await;
}

async fn what_was_saved_is_in_the_log_and_a_changed_row_shows(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let paused = store.set_automation_status(&tenant.org, &automation.id, AutomationStatus::Paused, Vec::new(), &tenant.owner).await;
    assert_eq!(paused.unwrap().unwrap().status, AutomationStatus::Paused);
    assert_eq!(store.check_integrity(&tenant.org).await.unwrap().differences, Vec::<String>::new());
    world.home.tamper("UPDATE automations SET status = 'active'").await;
    assert_eq!(store.check_integrity(&tenant.org).await.unwrap().differences.len(), 1);
}

async fn a_trigger_keeps_its_token_and_its_history_across_versions(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let Saved::Done { automation, tokens, .. } =
        store.save_automation(&tenant.org, save(&tenant, "digest", 1), &tenant.owner).await.unwrap()
    else {
        panic!("it is new")
    };
    let [(_, token)] = tokens.as_slice() else { panic!("one webhook, one token") };
    fired(store, firing(&tenant, &automation, Occasion::Request)).await;
    let mut again = SaveAutomation { automation: Some(automation.id.clone()), ..save(&tenant, "digest", 2) };
    again.triggers.retain(|trigger| trigger.id != "added");
    assert!(matches!(store.save_automation(&tenant.org, again, &tenant.owner).await, Ok(Saved::Done { .. })));
    let hook = store.find_hook(&automation.id, token.expose()).await.unwrap().unwrap();
    assert!(hook.last_fired_at.is_some() && hook.is_enabled);
    assert_eq!(store.find_trigger(&tenant.org, &automation.id, "added").await, Ok(None), "the definition has it no more");
    let disabled = store.change_trigger(&tenant.org, &automation.id, "hook", TriggerChange::Disable, &tenant.owner).await.unwrap();
    assert!(!disabled.unwrap().is_enabled);
    assert_eq!(store.change_trigger(&tenant.org, &automation.id, "other", TriggerChange::Disable, &tenant.owner).await, Ok(None));
}

async fn a_webhook_that_is_signed_no_longer_gets_a_token(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let version = async |automation: Option<AutomationId>, number, signed_by: Option<&str>| {
        let mut save = SaveAutomation { automation, ..save(&tenant, "digest", number) };
        save.triggers[0].signed_by = signed_by.map(str::to_owned);
        let saved = store.save_automation(&tenant.org, save, &tenant.owner).await.unwrap();
        let Saved::Done { automation, tokens, .. } = saved else { panic!("{saved:?}") };
        (automation.id, tokens)
    };
    let (id, tokens) = version(None, 1, Some("ci-key")).await;
    assert!(tokens.is_empty(), "{tokens:?}");
    let (_, tokens) = version(Some(id.clone()), 2, None).await;
    let [(trigger, token)] = tokens.as_slice() else { panic!("one webhook, one token: {tokens:?}") };
    assert_eq!(trigger, "hook");
    // It is shown once, and stays.
    for (number, signed_by) in [(3, None), (4, Some("ci-key")), (5, None)] {
        assert!(version(Some(id.clone()), number, signed_by).await.1.is_empty(), "version {number}");
    }
    assert_eq!(store.find_hook(&id, token.expose()).await.unwrap().unwrap().id, "hook");
}

async fn a_token_is_shown_once_and_the_old_one_lasts_if_asked_for(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let rotate = |keep| store.rotate_hook_token(&tenant.org, &automation.id, "hook", keep, &tenant.owner);
    let id = &automation.id;
    let takes = |token: String| async move { store.find_hook(id, &token).await.unwrap().is_some() };
    let first = rotate(false).await.unwrap().unwrap().expose().clone();
    let second = rotate(true).await.unwrap().unwrap().expose().clone();
    assert!(first.starts_with("cs_hook_") && first != second);
    assert!(takes(first.clone()).await && takes(second.clone()).await);
    let third = rotate(false).await.unwrap().unwrap().expose().clone();
    assert!(takes(third).await && !takes(first).await && !takes(second).await);
}

async fn a_draft_lasts_a_day(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let draft = store.add_draft(&tenant.org, &tenant.space, Some(&automation), json!({ "name": "x" }), &tenant.person()).await;
    let draft = draft.unwrap().unwrap();
    assert_eq!((&draft.automation, draft.replaces), (&Some(automation.id), Some(automation.definition)));
    assert_eq!(store.find_draft(&tenant.org, &draft.id).await.unwrap(), Some(draft.clone()));
    assert_eq!(store.list_drafts(&tenant.org, &Default::default(), &everything()).await.unwrap().items.len(), 1);
    world.clock.set(draft.expires_at);
    assert_eq!(store.find_draft(&tenant.org, &draft.id).await, Ok(None));
    assert_eq!(store.forget_drafts(&tenant.org).await, Ok(1));
}

async fn a_maker_has_so_many_drafts_in_a_space(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let other = store.create_space(&tenant.org, "lab", &tenant.person()).await.unwrap().unwrap().id;
    let add =
        async |space: &SpaceId, by: &PrincipalId| store.add_draft(&tenant.org, space, None, json!({ "name": "x" }), by).await.unwrap();
    let (person, agent) = (tenant.person(), PrincipalId::Agent(tenant.session.id.clone()));
    let mut last = None;
    for _ in 0..DRAFTS_MAX {
        last = add(&tenant.space, &person).await;
        assert!(last.is_some());
    }
    assert_eq!(add(&tenant.space, &person).await, None);
    assert!(add(&tenant.space, &agent).await.is_some() && add(&other, &person).await.is_some(), "each maker in each space");
    // One that is gone makes room, whether or not it has been removed.
    world.clock.set(last.unwrap().expires_at);
    assert!(add(&tenant.space, &person).await.is_some());
}

async fn a_schedule_goes_forward_once(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let due = store.list_due_triggers(10).await.unwrap();
    let trigger = due.iter().find(|trigger| trigger.automation == automation.id).unwrap();
    let later = world.clock.now().plus_seconds(3_600);
    assert_eq!(store.next_due_at().await.unwrap(), trigger.next_due_at);
    let passed = PassedTicks {
        org: tenant.org.clone(),
        automation: automation.id.clone(),
        trigger: "day".to_owned(),
        from: trigger.high_water,
        high_water: world.clock.now(),
        next_due_at: Some(later),
        skipped: vec![SkippedTicks { reason: FiringReason::Superseded, count: 7, first_at: testkit::clock::START, last_at: later }],
        mended: Some(Mended::HighWater),
    };
    world.clock.advance_ms(1);
    let passed = PassedTicks { high_water: world.clock.now(), ..passed };
    assert_eq!(store.pass_ticks(passed.clone()).await, Ok(true));
    assert_eq!(store.pass_ticks(passed).await, Ok(false), "another server was first");
    assert_eq!(store.list_due_triggers(10).await, Ok(vec![]));
    let skipped = store.list_firings(&tenant.org, &automation.id, &FiringFilter::default(), &everything()).await.unwrap().items;
    assert_eq!((skipped[0].count, skipped[0].reason.outcome()), (7, FiringOutcome::Skipped));
    world.clock.set(later);
    assert_eq!(store.list_due_triggers(10).await.unwrap().len(), 1);
    store.set_automation_status(&tenant.org, &automation.id, AutomationStatus::Paused, Vec::new(), &tenant.owner).await.unwrap();
    assert_eq!(store.list_due_triggers(10).await, Ok(vec![]), "it is paused");
}

/// The events of this name since a place in the log, each by what it says in `what`.
async fn told(store: &Store, tenant: &Tenant, after: i64, name: &str) -> Vec<Value> {
    let events = store.list_events_after(&tenant.org, after, 500).await.unwrap();
    let body = |event: &str| serde_json::from_str::<Value>(event).unwrap();
    events.iter().filter(|event| event.name == name).map(|event| body(&event.body)["what"].clone()).collect()
}

async fn a_schedule_that_would_not_fire_as_it_has_to_is_found(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let stray = async || store.list_stray_schedules(10).await.unwrap();
    assert_eq!(stray().await, []);
    world.home.tamper("UPDATE triggers SET next_due_at = NULL WHERE kind = 'schedule'").await;
    let found = stray().await.remove(0);
    assert_eq!((&found.automation, found.id.as_str()), (&automation.id, "day"));
    let before = store.newest_event(&tenant.org).await.unwrap();
    let passed = PassedTicks {
        org: tenant.org.clone(),
        automation: automation.id.clone(),
        trigger: found.id,
        from: found.high_water,
        high_water: world.clock.now(),
        next_due_at: Some(world.clock.now().plus_seconds(3_600)),
        skipped: Vec::new(),
        mended: Some(Mended::NextDue),
    };
    assert_eq!(store.pass_ticks(passed).await, Ok(true));
    assert_eq!(told(store, &tenant, before, "automation.mended").await, ["next_due"]);
    assert_eq!(stray().await, []);
    // A clock may be off by a minute.
    let now = world.clock.now();
    world.clock.set(now.minus_seconds(60));
    assert_eq!(stray().await, []);
    world.clock.set(now.minus_seconds(61));
    assert_eq!(stray().await.len(), 1, "its high-water is ahead of the clock");
    store.set_automation_status(&tenant.org, &automation.id, AutomationStatus::Paused, Vec::new(), &tenant.owner).await.unwrap();
    assert_eq!(stray().await, [], "it does not fire anyway");
}

async fn what_a_person_stopped_leaves_a_row_when_it_goes_on(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let (from, until) = (world.clock.now(), world.clock.now().plus_seconds(7_200));
    let set = |status, schedules| store.set_automation_status(&tenant.org, &automation.id, status, schedules, &tenant.owner);
    let from_now = |reason, count| {
        let left_out = Some(SkippedTicks { reason, count, first_at: from, last_at: until });
        FromNow { next_due_at: Some(until.plus_seconds(3_600)), left_out }
    };
    set(AutomationStatus::Paused, Vec::new()).await.unwrap();
    world.clock.set(until);
    let schedules = || vec![("day".to_owned(), from_now(FiringReason::Paused, 3))];
    set(AutomationStatus::Active, schedules()).await.unwrap();
    set(AutomationStatus::Active, schedules()).await.unwrap();
    let trigger = store.find_trigger(&tenant.org, &automation.id, "day").await.unwrap().unwrap();
    assert_eq!((trigger.high_water, trigger.next_due_at), (Some(until), Some(until.plus_seconds(3_600))));
    world.clock.advance_ms(1);
    let change = async |change| store.change_trigger(&tenant.org, &automation.id, "day", change, &tenant.owner).await.unwrap().unwrap();
    assert!(!change(TriggerChange::Disable).await.is_enabled);
    assert!(change(TriggerChange::Enable(from_now(FiringReason::Disabled, 2))).await.is_enabled);
    let rows = store.list_firings(&tenant.org, &automation.id, &FiringFilter::default(), &everything()).await.unwrap().items;
    let rows: Vec<_> = rows.iter().map(|row| (row.reason, row.count, row.first_at, row.last_at)).collect();
    assert_eq!(rows, [(FiringReason::Disabled, 2, from, until), (FiringReason::Paused, 3, from, until)], "once each");
}

async fn the_same_tick_event_or_key_starts_one_run(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (automation, other) = (saved(store, &tenant, "digest").await, world.another_store().await);
    let tick = Tick { scheduled_for: testkit::clock::START, wall: "2026-01-01T09:00".into(), zone: "UTC".into(), tzdata: "2026a".into() };
    let key = Occasion::Key { key: "once".into(), fingerprint: sha256("body") };
    for occasion in [Occasion::Tick(tick), Occasion::Event(tenant.draw(EventId::new)), key] {
        let (_, run) = fired(store, firing(&tenant, &automation, occasion.clone())).await;
        let again = other.fire(firing(&tenant, &automation, occasion)).await.unwrap();
        assert!(matches!(&again, Fired::Earlier(firing) if firing.run == run && run.is_some()), "{again:?}");
    }
    assert_eq!(claimed(store).await.len(), 3);
    let filter = FiringFilter { outcome: Some(FiringOutcome::Deduplicated), ..FiringFilter::default() };
    let rows = store.list_firings(&tenant.org, &automation.id, &filter, &everything()).await.unwrap().items;
    let mut reasons: Vec<_> = rows.iter().map(|row| (row.reason.as_str(), row.count, row.run.is_some())).collect();
    reasons.sort();
    assert_eq!(reasons, [("same_event", 1, false), ("same_key", 1, false)], "a tick is looked at by every clock");
}

async fn a_key_of_another_request_is_refused_and_expires(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let key = |body| Occasion::Key { key: "once".into(), fingerprint: sha256(body) };
    fired(store, firing(&tenant, &automation, key("one"))).await;
    assert!(matches!(store.fire(firing(&tenant, &automation, key("two"))).await, Ok(Fired::KeyReused(_))));
    world.clock.set(world.clock.now().plus_seconds(FIRE_KEY_SECONDS));
    assert!(matches!(store.fire(firing(&tenant, &automation, key("two"))).await, Ok(Fired::New(_))));
}

async fn each_sender_has_keys_of_its_own(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    for (trigger, body) in [(Some("hook"), "one"), (Some("added"), "two"), (None, "three")] {
        let occasion = Occasion::Key { key: "once".into(), fingerprint: sha256(body) };
        let new = || NewFiring { trigger: trigger.map(str::to_owned), ..firing(&tenant, &automation, occasion.clone()) };
        assert!(matches!(store.fire(new()).await, Ok(Fired::New(_))), "{trigger:?}");
        assert!(matches!(store.fire(new()).await, Ok(Fired::Earlier(_))), "{trigger:?}");
    }
}

async fn queue_order_and_bound(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let queue = Concurrency::Queue { max: 10, drop: Dropped::Newest };
    let mut runs = Vec::new();
    for _ in 0..3 {
        world.clock.advance_ms(1);
        runs.push(fired(store, with(firing(&tenant, &automation, Occasion::Request), queue)).await.1.unwrap());
    }
    let dropped = with(firing(&tenant, &automation, Occasion::Request), Concurrency::DropIfRunning);
    assert_eq!(fired(store, dropped).await, (FiringReason::AlreadyRunning, None));
    for expected in runs {
        let [lease] = <[Lease; 1]>::try_from(claimed(store).await).unwrap();
        assert_eq!(lease.run, expected, "the order in which they fired");
        let mut run = store.find_run(&tenant.org, &lease.run).await.unwrap().unwrap();
        run.status = RunStatus::Waiting;
        let due_at = Some(world.clock.now());
        assert_eq!(store.save_run(at(&lease, &run, Then::Park { due_at })).await, Ok(true));
        let [lease] = <[Lease; 1]>::try_from(claimed(store).await).unwrap();
        assert_eq!(lease.run, expected, "one that waits keeps its place");
        run.status = RunStatus::Succeeded;
        assert_eq!(store.save_run(at(&lease, &run, Then::End)).await, Ok(true));
    }
    assert_eq!(claimed(store).await, []);
}

async fn a_queue_without_its_first_run_goes_on(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let queue = Concurrency::Queue { max: 10, drop: Dropped::Newest };
    let fire = || fired(store, with(firing(&tenant, &automation, Occasion::Request), queue));
    let (first, second) = (fire().await.1.unwrap(), fire().await.1.unwrap());
    assert_eq!(store.promote_stuck_runs().await, Ok(0), "the first one goes on");
    world.home.tamper(&format!("UPDATE runs SET slot = 0 WHERE id = '{first}'; DELETE FROM run_leases WHERE run_id = '{first}'")).await;
    assert_eq!(claimed(store).await, [], "nothing else would ever end the wait");
    let before = store.newest_event(&tenant.org).await.unwrap();
    assert_eq!(store.promote_stuck_runs().await, Ok(1));
    assert_eq!(store.promote_stuck_runs().await, Ok(0));
    assert_eq!(told(store, &tenant, before, "automation.mended").await, ["queue_moved"]);
    assert_eq!(claimed(store).await.iter().map(|lease| &lease.run).collect::<Vec<_>>(), [&second]);
}

async fn a_full_queue_drops_the_newest_or_the_oldest(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    for (name, drop) in [("newest", Dropped::Newest), ("oldest", Dropped::Oldest)] {
        let automation = saved(store, &tenant, name).await;
        let fire = || fired(store, with(firing(&tenant, &automation, Occasion::Request), Concurrency::Queue { max: 1, drop }));
        let (_, waiting) = (fire().await, fire().await.1.unwrap());
        world.clock.advance_ms(1);
        let third = fire().await;
        let status = store.find_run(&tenant.org, &waiting).await.unwrap().unwrap().status;
        match drop {
            Dropped::Newest => assert_eq!((third.0, status), (FiringReason::QueueFull, RunStatus::Pending)),
            Dropped::Oldest => assert_eq!((third.0, status), (FiringReason::OnTime, RunStatus::Cancelled)),
        }
    }
}

async fn what_started_nothing_is_one_row_a_minute(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let refused = || NewFiring {
        start: None,
        reason: FiringReason::LoopGuard,
        ..firing(&tenant, &automation, Occasion::Event(tenant.draw(EventId::new)))
    };
    for _ in 0..5 {
        fired(store, refused()).await;
    }
    world.clock.set(world.clock.now().plus_seconds(60));
    fired(store, refused()).await;
    let rows = store.list_firings(&tenant.org, &automation.id, &FiringFilter::default(), &everything()).await.unwrap().items;
    assert_eq!(rows.iter().map(|row| row.count).collect::<Vec<_>>(), [1, 5]);
}

async fn a_rate_is_kept(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let fire = || {
        let mut new = firing(&tenant, &automation, Occasion::Request);
        new.start.as_mut().unwrap().rate = Some(Rate { max: 2, per_seconds: 60 });
        fired(store, new)
    };
    let reasons = [fire().await.0, fire().await.0, fire().await.0];
    assert_eq!(reasons, [FiringReason::OnTime, FiringReason::OnTime, FiringReason::RateLimited]);
    world.clock.set(world.clock.now().plus_seconds(60));
    assert_eq!(fire().await.0, FiringReason::OnTime);
}

async fn lease_lost_while_running(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let (lease, run) = leased(store, &tenant, &automation).await;
    assert_eq!(store.keep_leases(vec![lease.clone()]).await.unwrap().len(), 1);
    assert_eq!(store.free_lost_runs().await, Ok(0), "it is held");
    world.clock.set(world.clock.now().plus_seconds(RUN_LEASE_SECONDS + 1));
    assert_eq!(store.free_lost_runs().await, Ok(1));
    let next = claimed(store).await.remove(0);
    assert!(next.token > lease.token);
    assert_eq!(store.keep_leases(vec![lease.clone()]).await, Ok(vec![]));
    let before = store.newest_event(&tenant.org).await.unwrap();
    for then in [Then::GoOn, Then::Park { due_at: None }, Then::End] {
        assert_eq!(store.save_run(at(&lease, &run, then)).await, Ok(false), "{then:?}");
        let late = SavedRun { steps: vec![step(0, world.clock.now())], ..at(&lease, &run, then) };
        assert_eq!(store.save_run(late).await, Ok(false), "{then:?}");
    }
    assert_eq!(store.list_steps(&tenant.org, &run.id).await, Ok(vec![]));
    let events = store.list_events_after(&tenant.org, before, 500).await.unwrap();
    let discarded: Vec<_> = events.iter().filter(|event| event.name == "automation.run.discarded_attempt").collect();
    assert_eq!((discarded.len(), events.len()), (3, 3), "what it brought is told, and nothing else happened: {events:#?}");
    let told: Value = serde_json::from_str(&discarded[0].body).unwrap();
    assert_eq!((&told["run_id"], &told["lease_token"]), (&json!(run.id), &json!(lease.token)));
    assert_eq!((&told["steps"][0]["step_id"], &told["steps"][0]["status"]), (&json!("step_0"), &json!("succeeded")));
    assert_eq!(store.find_run(&tenant.org, &run.id).await.unwrap().unwrap().status, RunStatus::Running, "the run is the next worker's");
    let saved = SavedRun { steps: vec![step(0, world.clock.now())], ..at(&next, &run, Then::GoOn) };
    assert_eq!(store.save_run(saved).await, Ok(true));
    assert_eq!(store.list_steps(&tenant.org, &run.id).await.unwrap().len(), 1);
}

async fn a_run_that_was_freed_does_not_wait_behind_later_ones(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let (_, first) = leased(store, &tenant, &automation).await;
    world.clock.advance_seconds(1);
    let second = fired(store, firing(&tenant, &automation, Occasion::Request)).await.1.unwrap();
    world.clock.advance_seconds(RUN_LEASE_SECONDS);
    assert_eq!(store.free_lost_runs().await, Ok(1));
    let one = store.claim_runs(&["fast".to_owned()], 1).await.unwrap().remove(0);
    assert_eq!(one.run, first.id, "and not `{second}`, which was fired later");
}

async fn terminal_never_overwritten(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let (lease, mut run) = leased(store, &tenant, &automation).await;
    run.status = RunStatus::Succeeded;
    run.output = Some(json!(1));
    assert_eq!(store.save_run(at(&lease, &run, Then::End)).await, Ok(true));
    run.status = RunStatus::Failed;
    assert_eq!(store.save_run(at(&lease, &run, Then::End)).await, Ok(false));
    let ended = store.cancel_run(&tenant.org, &run.id, &tenant.person()).await.unwrap().unwrap();
    assert_eq!((ended.status, ended.output), (RunStatus::Succeeded, Some(json!(1))));
    let session = countersign_core::ports::Sessions::find_session(store, &tenant.org, &run.session).await.unwrap().unwrap();
    assert!(session.ended_at.is_some(), "nothing is invoked in its session any more");
}

async fn a_run_waits_without_a_lease_and_is_woken_by_the_end_of_its_call(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let pending = tenant.pending(store).await;
    let automation = saved(store, &tenant, "digest").await;
    let (lease, mut run) = leased(store, &tenant, &automation).await;
    (run.status, run.waiting_for, run.invocation) = (RunStatus::Waiting, Some(WaitingFor::Approval), Some(pending.id.clone()));
    assert_eq!(store.save_run(at(&lease, &run, Then::Park { due_at: None })).await, Ok(true));
    assert_eq!(claimed(store).await, []);
    let is_waited_for = async |call: &InvocationId| store.is_waited_for(&tenant.org, std::slice::from_ref(call)).await.unwrap();
    assert!(!is_waited_for(&tenant.draw(InvocationId::new)).await && is_waited_for(&pending.id).await);
    let pending = Invocation { principal: PrincipalId::Automation(automation.id), ..pending };
    let denied = tenant.finish(&pending, Row::From(Status::Pending), Status::Denied);
    store.finish(denied.into()).await.unwrap();
    world.clock.advance_seconds(RUN_FORGOTTEN_SECONDS);
    assert_eq!(store.wake_forgotten_runs().await, Ok(0), "the end of its call has woken it");
    assert_eq!(claimed(store).await.len(), 1);
}

async fn a_run_that_waits_for_a_person_who_can_tell_is_woken_by_the_doubt(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let running = tenant.running(store).await;
    let automation = saved(store, &tenant, "digest").await;
    let (lease, mut run) = leased(store, &tenant, &automation).await;
    (run.status, run.waiting_for, run.invocation) = (RunStatus::Waiting, Some(WaitingFor::Approval), Some(running.id.clone()));
    assert_eq!(store.save_run(at(&lease, &run, Then::Park { due_at: None })).await, Ok(true));
    assert_eq!(claimed(store).await, [], "its call was approved, and runs");
    let doubted = Invocation { status: Status::InDoubt, principal: PrincipalId::Automation(automation.id), ..running };
    store.doubt(doubted.clone(), tenant.event(&doubted, Status::InDoubt)).await.unwrap();
    assert_eq!(claimed(store).await.len(), 1);
}

/// Nothing of ours forgets a run. What is told of one that was forgotten all the same is not told of one whose call has just ended.
async fn a_run_that_was_forgotten_for_a_while_is_woken_and_told(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let pending = tenant.pending(store).await;
    let automation = saved(store, &tenant, "digest").await;
    let (lease, mut run) = leased(store, &tenant, &automation).await;
    (run.status, run.waiting_for, run.invocation) = (RunStatus::Waiting, Some(WaitingFor::Approval), Some(pending.id.clone()));
    assert_eq!(store.save_run(at(&lease, &run, Then::Park { due_at: None })).await, Ok(true));
    world.clock.advance_seconds(RUN_FORGOTTEN_SECONDS);
    assert_eq!(store.wake_forgotten_runs().await, Ok(0), "its call is still pending");
    store.finish(tenant.finish(&pending, Row::From(Status::Pending), Status::Denied).into()).await.unwrap();
    world.home.tamper("UPDATE run_leases SET due_at = NULL").await;
    let before = store.newest_event(&tenant.org).await.unwrap();
    world.clock.advance_seconds(RUN_FORGOTTEN_SECONDS - 1);
    assert_eq!(store.wake_forgotten_runs().await, Ok(0), "a server of an earlier version may be about to wake it");
    world.clock.advance_seconds(1);
    assert_eq!(store.wake_forgotten_runs().await, Ok(1));
    assert_eq!(told(store, &tenant, before, "automation.mended").await, ["run_woken"]);
    assert_eq!(store.wake_forgotten_runs().await, Ok(0), "it is awake");
    assert_eq!(claimed(store).await.len(), 1);
}

async fn a_run_that_parks_after_its_call_has_ended_is_due_at_once(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let (lease, mut run) = leased(store, &tenant, &automation).await;
    run.invocation = Some(tenant.read_once(store).await.id);
    run.status = RunStatus::Waiting;
    assert_eq!(store.save_run(at(&lease, &run, Then::Park { due_at: None })).await, Ok(true));
    assert_eq!(claimed(store).await.len(), 1);
}

async fn poison_run_quarantined(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let (_, run) = leased(store, &tenant, &automation).await;
    let lose_all_but_one = async || {
        let mut lease = None;
        for _ in 1..RUN_RECOVERIES_MAX {
            assert_eq!(store.free_all_runs().await, Ok(1));
            lease = claimed(store).await.pop();
        }
        lease.unwrap()
    };
    let lease = lose_all_but_one().await;
    // A step that ended did not take its workers down: for the next one, it is counted anew.
    let mut run = store.find_run(&tenant.org, &run.id).await.unwrap().unwrap();
    (run.step, run.step_recoveries) = (1, 0);
    assert_eq!(store.save_run(at(&lease, &run, Then::GoOn)).await, Ok(true));
    lose_all_but_one().await;
    assert_eq!(store.free_all_runs().await, Ok(1));
    assert_eq!(claimed(store).await, []);
    let run = store.find_run(&tenant.org, &run.id).await.unwrap().unwrap();
    assert_eq!((run.status, run.recoveries), (RunStatus::Quarantined, 5));
    let told = store.list_notifications(&tenant.org, &Default::default(), &everything()).await.unwrap().items;
    assert_eq!(told.iter().map(|told| told.title.as_str()).collect::<Vec<_>>(), ["A run was quarantined"]);
    assert!(told[0].space == run.space && told[0].body.contains(run.id.as_str()), "{told:?}");
}

async fn a_cancelled_run_is_due_and_one_behind_another_ends_at_once(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let queue = Concurrency::Queue { max: 10, drop: Dropped::Newest };
    fired(store, with(firing(&tenant, &automation, Occasion::Request), queue)).await;
    let behind = fired(store, with(firing(&tenant, &automation, Occasion::Request), queue)).await.1.unwrap();
    let lease = claimed(store).await.remove(0);
    let cancelled = store.cancel_run(&tenant.org, &behind, &tenant.person()).await.unwrap().unwrap();
    assert_eq!(cancelled.status, RunStatus::Cancelled);
    store.cancel_run(&tenant.org, &lease.run, &tenant.person()).await.unwrap().unwrap();
    assert!(store.keep_leases(vec![lease.clone()]).await.unwrap()[0].is_cancelled);
    let run = store.find_run(&tenant.org, &lease.run).await.unwrap().unwrap();
    assert_eq!((run.status.is_final(), run.cancelled_by), (false, Some(tenant.person())));
    assert_eq!(store.cancel_run(&tenant.org, &tenant.draw(RunId::new), &tenant.person()).await, Ok(None));
}

async fn an_automation_acts_as_long_as_its_creator_may(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let acts_as = PrincipalId::Automation(automation.id.clone());
    let principal = store.find_principal(&tenant.org, &acts_as).await.unwrap().unwrap();
    assert_eq!((principal.owner, principal.role), (Some(tenant.owner.clone()), None));
    store.set_automation_status(&tenant.org, &automation.id, AutomationStatus::Archived, Vec::new(), &tenant.owner).await.unwrap();
    assert_eq!(store.find_principal(&tenant.org, &acts_as).await, Ok(None));
    let resumed = store.set_automation_status(&tenant.org, &automation.id, AutomationStatus::Active, Vec::new(), &tenant.owner).await;
    assert_eq!(resumed.unwrap().unwrap().status, AutomationStatus::Archived, "whoever read it before it was archived cannot bring it back");
}

async fn a_run_acts_for_whoever_saved_its_version(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let first = saved(store, &tenant, "digest").await;
    let (ada, _) = store.create_user(&tenant.as_owner, "ada", Role::Member).await.unwrap().unwrap();
    let another = SaveAutomation { automation: Some(first.id.clone()), ..save(&tenant, "digest", 2) };
    let another = store.save_automation(&tenant.org, another, &ada.id).await.unwrap();
    let Saved::Done { automation: second, .. } = another else { panic!("{another:?}") };
    let begun = async |version: &Automation| {
        let run = fired(store, firing(&tenant, version, Occasion::Request)).await.1.unwrap();
        store.find_run(&tenant.org, &run).await.unwrap().unwrap().session
    };
    // The first was on its way when the second version was saved.
    let (of_first, of_second) = (begun(&first).await, begun(&second).await);
    let acts_as = PrincipalId::Automation(first.id.clone());
    let acts_for = async |session: &SessionId| {
        let principal = store.find_principal_in(&tenant.org, &acts_as, session).await.unwrap();
        principal.map(|principal| principal.owner.unwrap())
    };
    assert_eq!((acts_for(&of_first).await, acts_for(&of_second).await), (Some(tenant.owner.clone()), Some(ada.id.clone())));
    assert_eq!(acts_for(&tenant.session.id).await, None, "it is no session of the automation's");
    store.disable_user(&tenant.org, &ada.id, &tenant.person()).await.unwrap();
    assert_eq!((acts_for(&of_first).await, acts_for(&of_second).await), (Some(tenant.owner.clone()), None));
}

async fn a_session_holds_what_its_run_has_taken_over_or_was_sent(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let begun = async |from_outside: bool, rerun_of: Option<&Run>, copied: Vec<StepRecord>| {
        let mut new = firing(&tenant, &automation, Occasion::Request);
        let start = new.start.as_mut().unwrap();
        (start.from_outside, start.rerun_of, start.copied) = (from_outside, rerun_of.map(|run| run.id.clone()), copied);
        let run = fired(store, new).await.1.unwrap();
        store.find_run(&tenant.org, &run).await.unwrap().unwrap()
    };
    let held = async |run: &Run| {
        let labels = store.list_labels(&tenant.org, &run.session).await.unwrap();
        labels.into_iter().map(|held| (held.label, held.invocation)).collect::<Vec<_>>()
    };
    let first = begun(true, None, Vec::new()).await;
    let sent = ("untrusted_content".to_owned(), None);
    assert_eq!(held(&first).await, std::slice::from_ref(&sent));
    let call = tenant.draw(InvocationId::new);
    store.label_session(&tenant.org, &first.session, "private_data", &call).await.unwrap();
    let private = ("private_data".to_owned(), Some(call));
    let copied = || vec![step(0, world.clock.now())];
    assert_eq!(
        held(&begun(false, Some(&first), Vec::new()).await).await,
        std::slice::from_ref(&sent),
        "it reads everything anew, with the same inputs"
    );
    assert_eq!(held(&begun(false, Some(&first), copied()).await).await, [private.clone(), sent.clone()]);
    assert_eq!(held(&begun(true, Some(&first), copied()).await).await, [private, sent]);
    assert_eq!(held(&begun(false, None, Vec::new()).await).await, []);
}

async fn what_a_trigger_was_given_is_kept_sealed_for_a_while_and_up_to_a_length(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = saved(store, &tenant, "digest").await;
    let given = |text: String| TriggerPayload { trigger: "hook".to_owned(), value: json!({ "text": text }) };
    let fire = async |payload: &TriggerPayload| {
        let mut new = firing(&tenant, &automation, Occasion::Request);
        new.start.as_mut().unwrap().payload = Some(payload.clone());
        fired(store, new).await.1.unwrap()
    };
    let (short, long) = (given("canary of a payload".to_owned()), given("x".repeat(TRIGGER_PAYLOAD_BYTES_MAX)));
    let (kept, dropped) = (fire(&short).await, fire(&long).await);
    assert_eq!(store.find_trigger_payload(&tenant.org, &kept).await, Ok(Some(short)));
    assert_eq!(store.find_trigger_payload(&tenant.org, &dropped).await, Ok(None));
    assert!(!backup_of(store).await.contains("canary of a payload"), "it is sealed");
    world.clock.advance_seconds(TRIGGER_PAYLOAD_SECONDS);
    assert_eq!(store.find_trigger_payload(&tenant.org, &kept).await, Ok(None));
    assert!(store.forget_firings(&tenant.org).await.unwrap() > 0);
    assert_eq!(store.forget_firings(&tenant.org).await, Ok(0));
}
