//! Receipts are found by what they are about, and an action's calls are counted.

use crate::harness::{Kind, READ, Tenant, World, everything, on_both_engines, receipt_id};
use countersign_core::call::Claimed;
use countersign_core::ports::Invocations;
use countersign_core::ports::invocations::Row;
use countersign_core::{ActionId, Clock as _, Invocation, Status};
use store::{PageRequest, ReceiptFilter, Store};

on_both_engines!(
    receipts_are_found_by_status_space_time_key_trace_subject_and_action,
    a_page_of_found_receipts_goes_on_where_the_one_before_ended,
    an_action_is_counted_over_its_tried_effects,
);

/// Ends a call, and returns the id of its receipt.
async fn ended(store: &Store, tenant: &Tenant, call: &Invocation, status: Status) -> String {
    let finish = tenant.finish(call, Row::Insert, status);
    let id = receipt_id(&finish).to_string();
    store.finish(finish.into()).await.unwrap();
    id
}

async fn found(store: &Store, tenant: &Tenant, filter: &ReceiptFilter) -> Vec<String> {
    let page = store.list_receipts(&tenant.org, filter, &everything()).await.unwrap();
    page.items.into_iter().map(|entry| entry.id).collect()
}

async fn receipts_are_found_by_status_space_time_key_trace_subject_and_action(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let lab = store.create_space(&tenant.org, "lab", &tenant.person()).await.unwrap().unwrap().id;
    let plain = ended(store, &tenant, &tenant.reading(), Status::Succeeded).await;
    world.clock.advance_seconds(60);
    let mut special = Invocation { space: lab.clone(), idempotency_key: Some("order-7".into()), ..tenant.reading() };
    special.trace_id = "11112222333344445555666677778888".into();
    special.call.claimed = Some(Claimed { subject: Some("agent://planner".into()), action_id: Some("act-7".into()), ..Claimed::default() });
    let special_at = world.clock.now();
    let special = ended(store, &tenant, &special, Status::Failed).await;
    world.clock.advance_seconds(60);
    let other = ended(store, &tenant, &tenant.calling("fake.other", Status::Running), Status::Succeeded).await;
    // Another org has the same, and is not asked.
    let theirs = world.tenant("theirs").await;
    ended(store, &theirs, &theirs.reading(), Status::Failed).await;

    let any = ReceiptFilter::default;
    let of = |text: &str| Some(text.to_owned());
    for (filter, expected) in [
        (any(), vec![&other, &special, &plain]),
        (ReceiptFilter { status: Some(Status::Failed), ..any() }, vec![&special]),
        (ReceiptFilter { status: Some(Status::Denied), ..any() }, vec![]),
        (ReceiptFilter { space: Some(lab), ..any() }, vec![&special]),
        (ReceiptFilter { space: Some(tenant.space.clone()), ..any() }, vec![&other, &plain]),
        (ReceiptFilter { since: Some(special_at), ..any() }, vec![&other, &special]),
        (ReceiptFilter { until: Some(special_at), ..any() }, vec![&plain]),
        (ReceiptFilter { since: Some(special_at), until: Some(special_at.plus_seconds(1)), ..any() }, vec![&special]),
        (ReceiptFilter { idempotency_key: of("order-7"), ..any() }, vec![&special]),
        (ReceiptFilter { idempotency_key: of("order-8"), ..any() }, vec![]),
        (ReceiptFilter { trace_id: of("11112222333344445555666677778888"), ..any() }, vec![&special]),
        (ReceiptFilter { subject: of("agent://planner"), ..any() }, vec![&special]),
        (ReceiptFilter { subject: of("agent://"), ..any() }, vec![]),
        (ReceiptFilter { action_id: of("act-7"), ..any() }, vec![&special]),
        (ReceiptFilter { action_id: of("act"), ..any() }, vec![]),
        (ReceiptFilter { action: ActionId::parse(READ).ok(), ..any() }, vec![&special, &plain]),
        (ReceiptFilter { action: ActionId::parse(READ).ok(), status: Some(Status::Succeeded), ..any() }, vec![&plain]),
        (ReceiptFilter { user: Some(tenant.owner.clone()), status: Some(Status::Failed), ..any() }, vec![&special]),
    ] {
        assert_eq!(found(store, &tenant, &filter).await.iter().collect::<Vec<_>>(), expected, "{filter:?}");
    }
}

async fn a_page_of_found_receipts_goes_on_where_the_one_before_ended(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let mut expected = Vec::new();
    for status in [Status::Succeeded, Status::Failed, Status::Succeeded, Status::Succeeded, Status::Failed, Status::Succeeded] {
        let id = ended(store, &tenant, &tenant.reading(), status).await;
        if status == Status::Succeeded {
            expected.insert(0, id);
        }
    }
    let filter = ReceiptFilter { status: Some(Status::Succeeded), ..ReceiptFilter::default() };
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = store.list_receipts(&tenant.org, &filter, &PageRequest { limit: 3, after }).await.unwrap();
        assert!(page.items.len() <= 3);
        listed.extend(page.items.into_iter().map(|entry| entry.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, expected);
}

async fn an_action_is_counted_over_its_tried_effects(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let action = ActionId::parse(READ).unwrap();
    assert_eq!(store.find_action_stats(&tenant.org, &action, &Default::default(), None).await, Ok(store::ActionStats::default()));
    let tried = |status: Status, took_ms: u64| {
        let (world, tenant) = (&world, &tenant);
        async move {
            let call = Invocation { started_at: Some(world.clock.now()), attempts: 1, ..tenant.reading() };
            world.clock.advance_ms(took_ms);
            ended(store, tenant, &call, status).await;
        }
    };
    tried(Status::Succeeded, 30).await;
    tried(Status::Failed, 10).await;
    ended(store, &tenant, &tenant.reading(), Status::Denied).await;
    ended(store, &tenant, &tenant.calling("fake.other", Status::Running), Status::Succeeded).await;
    let from_here = world.clock.now().plus_seconds(1);
    world.clock.advance_seconds(1);
    tried(Status::Succeeded, 20).await;

    let stats = store.find_action_stats(&tenant.org, &action, &Default::default(), None).await.unwrap();
    assert_eq!(stats.by_status, [("denied", 1), ("failed", 1), ("succeeded", 2)].into());
    assert_eq!((stats.rewards, stats.succeeded, stats.exec_ms), (vec![600_000, 0, 600_000], 2, vec![10, 20, 30]));
    let newest = store.find_action_stats(&tenant.org, &action, &Default::default(), Some(from_here)).await.unwrap();
    assert_eq!((newest.by_status, newest.exec_ms), ([("succeeded", 1)].into(), vec![20]));
}
