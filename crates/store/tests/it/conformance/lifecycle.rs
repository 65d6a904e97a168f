//! An invocation's life: every change is made completely and from the right status, or not at all.

use crate::harness::{BEGUN, Kind, TOLD, Tenant, World, everything, on_both_engines, receipt_id, sha256};
use countersign_core::invocation::ReceiptRef;
use countersign_core::ledger::{Approved, Begun, EntryId, Finish, Finished, Held, Hold, Row};
use countersign_core::limits::DRIFT_ENDS_PER_WRITE;
use countersign_core::mcp::McpWishes;
use countersign_core::ports::{Claims, EventFeed, Invocations, Rules};
use countersign_core::{Invocation, InvocationId, Status, Tier};
use receipt::entry::Kind as EntryKind;
use store::{Error, InvocationFilter, Store};

on_both_engines!(
    an_answer_with_a_revoked_token_is_refused,
    pending_calls_of_an_action_are_listed_a_bounded_number_at_a_time,
    a_call_is_held_approved_begun_and_finished,
    a_session_has_no_more_pending_calls_than_it_may,
    an_approval_is_refused_in_any_status_but_pending,
    an_approval_is_refused_past_its_time_and_for_another_binding,
    a_call_begins_only_from_the_status_it_was_said_to_be_in,
    an_approved_call_does_not_begin_past_its_time,
    every_further_attempt_has_its_own_intent,
    only_what_runs_can_be_doubted_and_a_doubt_can_be_resolved,
    a_call_ends_only_from_the_status_it_was_said_to_be_in,
    an_end_that_no_intent_came_before_is_written_only_by_the_rules_in_force,
    a_call_expires_only_past_its_time,
    a_change_that_no_status_allows_is_refused,
    what_cannot_be_written_whole_is_not_written_at_all,
    loops_find_what_is_open_and_what_has_run_out,
    invocations_are_listed_newest_first_by_page_and_filter,
);

/// Counts invocations, events and entries, so that a test can show that nothing was left behind.
async fn counts(store: &Store, tenant: &Tenant) -> (usize, usize, u64) {
    let invocations = store.list_invocations(&tenant.org, &InvocationFilter::default(), &everything()).await.unwrap().items.len();
    let events = store.list_events_after(&tenant.org, 0, 1_000).await.unwrap().len();
    (invocations, events, store.log_size(&tenant.org).await.unwrap())
}

async fn row(store: &Store, invocation: &Invocation) -> Invocation {
    store.find_invocation(&invocation.org, &invocation.id).await.unwrap().unwrap()
}

async fn a_call_is_held_approved_begun_and_finished(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let asked = tenant.writing();
    assert_eq!(store.hold(tenant.hold(&asked)).await, Ok(Held::Pending));
    let asked = Invocation { pending_from_seq: Some(BEGUN), ..asked };
    assert_eq!(row(store, &asked).await, asked);
    assert_eq!(store.count_in_status(&tenant.org, Status::Pending).await, Ok(1));
    assert_eq!(store.find_sealed_params(&tenant.org, &asked.id).await, Ok(Some(b"sealed".to_vec())));

    let approve = tenant.approve(&asked);
    assert!(matches!(store.approve(approve.clone()).await, Ok(Approved::Approved(_))));
    let approved = row(store, &asked).await;
    let answer = approve.approval.answer;
    let approvals = vec![answer.clone()];
    assert_eq!(approved, Invocation { status: Status::Approved, answer: Some(answer), approvals, ..asked.clone() });
    assert_eq!(store.count_in_status(&tenant.org, Status::Pending).await, Ok(0));

    let begin = tenant.begin(&approved, Row::From(Status::Approved));
    assert_eq!(store.begin(begin.clone()).await, Ok(Begun::Started));
    assert_eq!(row(store, &asked).await, begin.invocation);
    assert_eq!(store.find_sealed_params(&tenant.org, &asked.id).await, Ok(Some(b"sealed".to_vec())), "kept until it ends");

    let finish = tenant.finish(&begin.invocation, Row::From(Status::Running), Status::Succeeded);
    assert_eq!(store.finish(finish.clone().into()).await, Ok(Finished::Recorded { seq: BEGUN + 2 }));
    let receipt = Some(ReceiptRef { id: receipt_id(&finish), seq: BEGUN + 2 });
    assert_eq!(row(store, &asked).await, Invocation { receipt, ..Invocation::clone(&finish.invocation) });
    assert_eq!(store.find_sealed_params(&tenant.org, &asked.id).await, Ok(None), "shredded with the end");

    let entries = store.list_entries_of(&tenant.org, &asked.id).await.unwrap();
    let told: Vec<_> = entries.iter().map(|entry| (entry.seq, entry.kind, entry.invocation.clone())).collect();
    let of = Some(asked.id.clone());
    assert_eq!(
        told,
        [(BEGUN, EntryKind::Answer, of.clone()), (BEGUN + 1, EntryKind::Intent, of.clone()), (BEGUN + 2, EntryKind::Receipt, of)]
    );
    let events = store.list_events_after(&tenant.org, TOLD, 1_000).await.unwrap();
    let told: Vec<_> = events.iter().map(|event| (event.name.as_str(), event.key.as_str(), event.receipt.clone())).collect();
    let id = asked.id.as_str();
    assert_eq!(
        told,
        [("invocation.held", id, None), ("invocation.approved", id, None), ("invocation.succeeded", id, Some(receipt_id(&finish)))]
    );
    let report = world.verify(&tenant).await;
    assert_eq!((report.intents, report.receipts, report.open_intents), (1, 1, 0));
}

async fn a_session_has_no_more_pending_calls_than_it_may(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    for _ in 0..2 {
        tenant.pending(store).await;
    }
    let before = counts(store, &tenant).await;
    let mut hold = tenant.hold(&tenant.writing());
    hold.pending_max = 2;
    assert_eq!(store.hold(hold).await, Ok(Held::TooManyPending { pending: 2 }));
    assert_eq!(counts(store, &tenant).await, before);
    // Another session of the same org has its own count.
    let mut elsewhere = tenant.writing();
    elsewhere.session = tenant.draw(countersign_core::SessionId::new);
    let mut hold = tenant.hold(&elsewhere);
    hold.pending_max = 1;
    assert_eq!(store.hold(hold).await, Ok(Held::Pending));
}

async fn an_approval_is_refused_in_any_status_but_pending(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    assert_eq!(store.approve(tenant.approve(&tenant.writing())).await, Ok(Approved::Missing));
    let approved = tenant.approved(store).await;
    let denied = tenant.pending(store).await;
    store.finish(tenant.finish(&denied, Row::From(Status::Pending), Status::Denied).into()).await.unwrap();
    let running = tenant.running(store).await;
    let before = counts(store, &tenant).await;
    for (invocation, status) in [(approved, Status::Approved), (denied, Status::Denied), (running, Status::Running)] {
        assert_eq!(store.approve(tenant.approve(&invocation)).await, Ok(Approved::Not(status)));
    }
    assert_eq!(counts(store, &tenant).await, before);
}

async fn an_approval_is_refused_past_its_time_and_for_another_binding(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let asked = tenant.pending(store).await;
    let before = counts(store, &tenant).await;
    let mut other = tenant.approve(&asked);
    other.approval.binding = sha256("what was not shown");
    assert_eq!(store.approve(other).await, Ok(Approved::OtherBinding));
    world.clock.advance_seconds(300);
    assert_eq!(store.approve(tenant.approve(&asked)).await, Ok(Approved::Expired), "its last moment is already too late");
    assert_eq!(row(store, &asked).await, asked);
    assert_eq!(counts(store, &tenant).await, before);
}

async fn a_call_begins_only_from_the_status_it_was_said_to_be_in(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let from_approved = Row::From(Status::Approved);
    assert_eq!(store.begin(tenant.begin(&tenant.writing(), from_approved)).await, Ok(Begun::Missing));
    let pending = tenant.pending(store).await;
    let before = counts(store, &tenant).await;
    assert_eq!(store.begin(tenant.begin(&pending, from_approved)).await, Ok(Begun::Not(Status::Pending)));
    assert_eq!(row(store, &pending).await, pending);
    assert_eq!(counts(store, &tenant).await, before);
    let approved = tenant.approved(store).await;
    assert_eq!(store.begin(tenant.begin(&approved, from_approved)).await, Ok(Begun::Started));
    assert_eq!(store.begin(tenant.begin(&approved, from_approved)).await, Ok(Begun::Not(Status::Running)), "an approval is used once");
    assert_eq!(store.list_entries_of(&tenant.org, &approved.id).await.unwrap().len(), 2, "the answer and one intent");
    world.verify(&tenant).await;
}

async fn an_approved_call_does_not_begin_past_its_time(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let approved = tenant.approved(store).await;
    world.clock.advance_seconds(301);
    assert_eq!(store.begin(tenant.begin(&approved, Row::From(Status::Approved))).await, Ok(Begun::Expired));
    assert_eq!(row(store, &approved).await.status, Status::Approved);
    assert_eq!(store.log_size(&tenant.org).await, Ok(BEGUN + 1), "the answer alone");
}

async fn every_further_attempt_has_its_own_intent(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let mut running = tenant.running(store).await;
    for attempt in 2..=3 {
        running.attempts = attempt;
        assert_eq!(store.begin_again(tenant.again(&running, Some(0))).await, Ok(Begun::Started));
        assert_eq!(row(store, &running).await.attempts, attempt);
    }
    let missing = tenant.reading();
    assert_eq!(store.begin_again(tenant.again(&missing, Some(0))).await, Ok(Begun::Missing));
    store.finish(tenant.finish(&running, Row::From(Status::Running), Status::Failed).into()).await.unwrap();
    assert_eq!(store.begin_again(tenant.again(&running, Some(0))).await, Ok(Begun::Not(Status::Failed)));
    let report = world.verify(&tenant).await;
    assert_eq!((report.intents, report.receipts), (3, 1));
}

async fn only_what_runs_can_be_doubted_and_a_doubt_can_be_resolved(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let doubt = |invocation: &Invocation| {
        let doubted = Invocation { status: Status::InDoubt, ..invocation.clone() };
        let event = tenant.event(&doubted, Status::InDoubt);
        async move { store.doubt(doubted, event).await }
    };
    assert_eq!(doubt(&tenant.reading()).await, Ok(Finished::Missing));
    let running = tenant.running(store).await;
    assert_eq!(doubt(&running).await, Ok(Finished::Recorded { seq: BEGUN + 1 }), "the size of the log: a doubt adds no entry");
    assert_eq!(doubt(&running).await, Ok(Finished::Not(Status::InDoubt)));
    assert_eq!(world.verify(&tenant).await.open_intents, 1);
    let finish = tenant.finish(&running, Row::From(Status::InDoubt), Status::Succeeded);
    assert_eq!(store.finish(finish.into()).await, Ok(Finished::Recorded { seq: BEGUN + 1 }));
    assert_eq!(doubt(&running).await, Ok(Finished::Not(Status::Succeeded)));
    let names: Vec<_> = store.list_events_after(&tenant.org, TOLD, 1_000).await.unwrap().into_iter().map(|event| event.name).collect();
    assert_eq!(names, ["invocation.doubted", "invocation.succeeded"]);
    world.verify(&tenant).await;
}

async fn a_call_ends_only_from_the_status_it_was_said_to_be_in(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let from_running = Row::From(Status::Running);
    let missing = tenant.finish(&tenant.reading(), from_running, Status::Succeeded);
    assert_eq!(store.finish(missing.into()).await, Ok(Finished::Missing));
    let pending = tenant.pending(store).await;
    let before = counts(store, &tenant).await;
    assert_eq!(store.finish(tenant.finish(&pending, from_running, Status::Succeeded).into()).await, Ok(Finished::Not(Status::Pending)));
    assert_eq!(counts(store, &tenant).await, before);

    let ended = tenant.read_once(store).await;
    let again = tenant.finish(&ended, Row::InsertAgain, Status::Succeeded);
    assert_eq!(store.finish(again.into()).await, Ok(Finished::Not(Status::Succeeded)), "a repeated write finds the first one");
    assert_eq!(store.find_invocation(&tenant.org, &ended.id).await, Ok(Some(ended)));

    let mut denial = tenant.finish(&pending, Row::From(Status::Pending), Status::Denied);
    denial.approval = Some(countersign_core::ledger::Approval { approves: false, ..tenant.approval(&pending) });
    assert_eq!(store.finish(denial.clone().into()).await, Ok(Finished::Recorded { seq: BEGUN + 2 }));
    assert_eq!(store.finish(denial.into()).await, Ok(Finished::Not(Status::Denied)));
    assert_eq!(world.verify(&tenant).await.receipts, 2);
}

async fn an_end_that_no_intent_came_before_is_written_only_by_the_rules_in_force(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let decided_by = Rules::rules_version(store, &tenant.org).await.unwrap();
    let by_rules = |row, status| Finish { rules_version: Some(decided_by), ..tenant.finish(&tenant.reading(), row, status) };
    let kept = by_rules(Row::Insert, Status::Succeeded);
    assert_eq!(store.finish(kept.clone().into()).await, Ok(Finished::Recorded { seq: BEGUN }));
    store.add_canary(&tenant.org, "a text to be stolen", &tenant.person()).await.unwrap();
    let before = counts(store, &tenant).await;
    for row in [Row::Insert, Row::InsertAgain] {
        for status in [Status::Succeeded, Status::Denied] {
            assert_eq!(store.finish(by_rules(row, status).into()).await, Ok(Finished::RulesChanged));
        }
    }
    let again = Finish { row: Row::InsertAgain, ..kept };
    assert_eq!(store.finish(again.into()).await, Ok(Finished::Not(Status::Succeeded)), "it was written before the rules changed");
    assert_eq!(counts(store, &tenant).await, before);
    world.verify(&tenant).await;
}

async fn a_call_expires_only_past_its_time(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (pending, approved) = (tenant.pending(store).await, tenant.approved(store).await);
    let expire = |invocation: &Invocation, from| tenant.finish(invocation, Row::ExpiredFrom(from), Status::Expired);
    world.clock.advance_seconds(299);
    assert_eq!(store.finish(expire(&pending, Status::Pending).into()).await, Ok(Finished::Not(Status::Pending)));
    world.clock.advance_seconds(1);
    assert_eq!(store.finish(expire(&approved, Status::Pending).into()).await, Ok(Finished::Not(Status::Approved)));
    assert_eq!(store.finish(expire(&pending, Status::Pending).into()).await, Ok(Finished::Recorded { seq: BEGUN + 1 }));
    assert_eq!(store.finish(expire(&approved, Status::Approved).into()).await, Ok(Finished::Recorded { seq: BEGUN + 2 }));
    assert_eq!(store.finish(expire(&approved, Status::Approved).into()).await, Ok(Finished::Not(Status::Expired)));
    world.verify(&tenant).await;
}

async fn a_change_that_no_status_allows_is_refused(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let ended = tenant.read_once(store).await;
    let (pending, approved, running) = (tenant.pending(store).await, tenant.approved(store).await, tenant.running(store).await);
    let before = counts(store, &tenant).await;
    for (invocation, from, to) in [
        (&ended, Status::Succeeded, Status::Failed),
        (&pending, Status::Pending, Status::Succeeded),
        (&pending, Status::Pending, Status::Running),
        (&approved, Status::Approved, Status::Succeeded),
        (&running, Status::Running, Status::Denied),
        (&running, Status::Running, Status::Running),
    ] {
        let refused = store.finish(tenant.finish(invocation, Row::From(from), to).into()).await;
        assert!(matches!(refused, Err(Error::Corrupt { .. })), "{from} became {to}: {refused:?}");
    }
    let unended = store.finish(tenant.finish(&tenant.reading(), Row::Insert, Status::Pending).into()).await;
    assert!(matches!(unended, Err(Error::Corrupt { .. })), "{unended:?}");
    let unapproved = store.begin(tenant.begin(&pending, Row::From(Status::Pending))).await;
    assert!(matches!(unapproved, Err(Error::Corrupt { .. })), "{unapproved:?}");
    assert_eq!(counts(store, &tenant).await, before);
    world.verify(&tenant).await;
}

async fn what_cannot_be_written_whole_is_not_written_at_all(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let pending = tenant.pending(store).await;
    let used = store.list_events_after(&tenant.org, 0, 1_000).await.unwrap()[0].id.clone();
    let before = counts(store, &tenant).await;

    // The event comes last in each of these writes, so everything before it must be undone.
    let mut hold = tenant.hold(&Invocation { idempotency_key: Some("k".into()), ..tenant.writing() });
    hold.event.id = used.clone();
    let mut approve = tenant.approve(&pending);
    approve.event.id = used.clone();
    let mut finish = tenant.finish(&tenant.reading(), Row::Insert, Status::Succeeded);
    finish.event.id = used.clone();
    let mut no_receipt = tenant.finish(&tenant.reading(), Row::Insert, Status::Succeeded);
    no_receipt.receipt.id = EntryId::Intent(tenant.draw(countersign_core::IntentId::new));
    let key = (hold.invocation.space.clone(), hold.invocation.action.clone());
    let refusals = [
        store.hold(hold).await.unwrap_err(),
        store.approve(approve).await.unwrap_err(),
        store.finish(finish.into()).await.unwrap_err(),
        store.finish(no_receipt.into()).await.unwrap_err(),
        store.hold(tenant.hold(&pending)).await.unwrap_err(),
        store.begin(tenant.begin(&pending, Row::Insert)).await.unwrap_err(),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, Error::Corrupt { .. }), "{refusal:?}");
        assert!(!refusal.is_transient());
    }
    assert_eq!(counts(store, &tenant).await, before);
    assert_eq!(row(store, &pending).await, pending);
    assert_eq!(store.find_reservation(&tenant.org, &key.0, &key.1, "k").await, Ok(None));
    tenant.read_once(store).await;
    assert_eq!(world.verify(&tenant).await.receipts, 1, "the log has no gap where the refused writes were");
}

async fn loops_find_what_is_open_and_what_has_run_out(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let ids = |found: Vec<Invocation>| found.into_iter().map(|invocation| invocation.id).collect::<Vec<_>>();
    let first = tenant.pending(store).await;
    world.clock.advance_seconds(10);
    let second = tenant.pending(store).await;
    let running = tenant.running(store).await;
    tenant.read_once(store).await;
    assert_eq!(ids(store.list_in_status(&tenant.org, Status::Pending, None).await.unwrap()), [first.id.clone(), second.id.clone()]);
    assert_eq!(ids(store.list_in_status(&tenant.org, Status::Running, None).await.unwrap()), [running.id]);
    assert_eq!(ids(store.list_in_status(&tenant.org, Status::InDoubt, None).await.unwrap()), []);
    assert_eq!(ids(store.list_expired(&tenant.org, Status::Pending).await.unwrap()), []);
    world.clock.advance_seconds(290);
    assert_eq!(ids(store.list_expired(&tenant.org, Status::Pending).await.unwrap()), std::slice::from_ref(&first.id));
    world.clock.advance_seconds(10);
    assert_eq!(ids(store.list_expired(&tenant.org, Status::Pending).await.unwrap()), [first.id, second.id]);
    assert_eq!(ids(store.list_expired(&tenant.org, Status::Approved).await.unwrap()), []);
    assert_eq!(Claims::list_orgs(store).await, Ok(vec![tenant.org.clone()]));
    assert_eq!(Invocations::now(store).await, store.now().await);
    // The list holds at most a hundred at a time, oldest first.
    for _ in 0..101 {
        let mut hold = tenant.hold(&tenant.writing());
        hold.pending_max = 1_000;
        store.hold(hold).await.unwrap();
    }
    let page = ids(store.list_in_status(&tenant.org, Status::Pending, None).await.unwrap());
    let rest = ids(store.list_in_status(&tenant.org, Status::Pending, page.last()).await.unwrap());
    assert_eq!((page.len(), rest.len()), (100, 3), "then the others");
    assert!(page.is_sorted() && rest.is_sorted() && page.last() < rest.first());
    assert_eq!(ids(store.list_in_status(&tenant.org, Status::Pending, rest.last()).await.unwrap()), []);
    world.clock.advance_seconds(600);
    assert_eq!(store.list_expired(&tenant.org, Status::Pending).await.unwrap().len(), 100);
}

async fn invocations_are_listed_newest_first_by_page_and_filter(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(tenant.read_once(store).await.id);
        world.clock.advance_ms(1);
    }
    let pending = tenant.pending(store).await;
    all.push(pending.id.clone());
    all.reverse();
    let org = &tenant.org;
    let page = |filter: InvocationFilter, limit, after: Option<String>| async move {
        let request = store::PageRequest { limit, after };
        let page = store.list_invocations(org, &filter, &request).await.unwrap();
        (page.items.into_iter().map(|invocation| invocation.id).collect::<Vec<InvocationId>>(), page.next)
    };
    let (first, next) = page(InvocationFilter::default(), 4, None).await;
    assert_eq!(first, all[..4]);
    assert_eq!(next.as_deref(), Some(all[3].as_str()));
    assert_eq!(page(InvocationFilter::default(), 4, next).await, (all[4..].to_vec(), None));
    assert_eq!(page(InvocationFilter::default(), 6, None).await, (all.clone(), None), "a full last page is the last");
    let is = |status| InvocationFilter { status: Some(status), ..InvocationFilter::default() };
    assert_eq!(page(is(Status::Pending), 9, None).await.0, std::slice::from_ref(&pending.id));
    assert_eq!(page(is(Status::Succeeded), 9, None).await.0, all[1..]);
    assert_eq!(page(is(Status::Failed), 9, None).await.0, []);
    let of_tier = |tier| InvocationFilter { tier: Some(tier), ..InvocationFilter::default() };
    assert_eq!(page(of_tier(pending.tier), 9, None).await.0, std::slice::from_ref(&pending.id));
    assert_eq!(page(of_tier(Tier::R4), 9, None).await.0, []);
    let (session, action) = (Some(pending.session.clone()), Some(pending.action.clone()));
    let of = InvocationFilter { session, action, tier: Some(pending.tier), ..InvocationFilter::default() };
    assert_eq!(page(of.clone(), 9, None).await.0, std::slice::from_ref(&pending.id));
    let elsewhere = InvocationFilter { session: Some(countersign_core::SessionId::new(pending.created_at, [9; 10])), ..of };
    assert_eq!(page(elsewhere, 9, None).await.0, []);
}

async fn pending_calls_of_an_action_are_listed_a_bounded_number_at_a_time(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let calls: Vec<_> = (0..=DRIFT_ENDS_PER_WRITE).map(|_| tenant.writing()).collect();
    let held = calls.iter().map(|call| store.hold(Hold { pending_max: 1_000, ..tenant.hold(call) }));
    assert!(futures_util::future::join_all(held).await.into_iter().all(|held| held == Ok(Held::Pending)));
    let listed = store.list_pending_of(&tenant.org, &calls[0].action, None).await.unwrap();
    assert_eq!(listed.len(), DRIFT_ENDS_PER_WRITE);
    let mut ids: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
    ids.sort();
    assert!(listed.iter().map(|call| &call.id).eq(&ids[..DRIFT_ENDS_PER_WRITE]), "oldest first");
    let rest = store.list_pending_of(&tenant.org, &calls[0].action, Some(&listed.last().unwrap().id)).await.unwrap();
    assert!(rest.iter().map(|call| &call.id).eq(&ids[DRIFT_ENDS_PER_WRITE..]));
}

async fn an_answer_with_a_revoked_token_is_refused(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let pending = tenant.pending(store).await;
    // The token is revoked between the check at the door and the write of the answer.
    let another = store
        .create_token(&tenant.as_owner, store::TokenKind::User(tenant.owner.clone()), "phone", &[], None, McpWishes::default(), None)
        .await
        .unwrap()
        .unwrap();
    store.revoke_token(&tenant.org, &another.id, &tenant.person()).await.unwrap();
    let mut approve = tenant.approve(&pending);
    approve.approval.token = another.id.clone();
    assert_eq!(store.approve(approve.clone()).await, Ok(Approved::MayNot));
    let mut denial = tenant.finish(&pending, Row::From(Status::Pending), Status::Denied);
    denial.approval = Some(countersign_core::ledger::Approval { approves: false, ..approve.approval });
    assert_eq!(store.finish(denial.into()).await, Ok(Finished::MayNotAnswer));
    world.verify(&tenant).await;
}
