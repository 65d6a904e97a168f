//! Channels, and the notices on their way to them: each change is a rule of its own in the log, each notice is made and claimed once, in the
//! order in which things happened, and what is given up stays until somebody asks for it once more.

use crate::harness::{Home, Kind, TOLD, Tenant, World, everything, on_both_engines};
use countersign_core::channel::{Channel, Delivery, DeliveryState, Moment};
use countersign_core::ledger::{Approved, Finished, Held, Hold, Row};
use countersign_core::ports::secrets::{SecretName, SecretValue};
use countersign_core::ports::{EventFeed, Invocations, Rules};
use countersign_core::session::Attendance;
use countersign_core::{Band, ChannelId, Digest, Invocation, Secret, Status, Tier};
use serde_json::{Value, json};
use std::io::Cursor;
use store::limits::{CHANNELS_MAX, DELIVERY_CLAIM_SECONDS, DELIVERY_KEPT_SECONDS};
use store::{AddedChannel, DeletedSecret, DeliveryEnd, DeliveryFilter, NewChannel, NewSecret, SecretUse, Store};
use testkit::{FixedClock, SeededRandom};

on_both_engines!(
    a_channel_is_added_and_removed_and_the_log_says_so,
    an_org_has_as_many_channels_as_it_may_have,
    a_secret_stays_while_a_channel_uses_it,
    a_channel_that_was_changed_in_the_database_shows,
    the_channels_that_a_call_concerns_are_told_of_it,
    a_channel_is_told_of_what_came_after_it,
    who_is_to_be_told_later_is_not_told_of_what_was_answered,
    what_happened_first_is_told_first,
    each_notice_is_made_and_claimed_once,
    what_a_server_left_is_claimed_again,
    a_dead_letter_stays_until_somebody_asks_for_it_again,
    what_waits_for_a_channel_goes_with_it,
    a_restored_store_has_every_channel_and_delivery,
);

fn webhook(name: &str) -> NewChannel {
    NewChannel {
        name: name.to_owned(),
        kind: "webhook".to_owned(),
        settings: json!({ "url": "https://example.com/hook", "secret": "hook" }),
        space: None,
        tiers: Vec::new(),
        bands: Vec::new(),
        attendance: None,
        after_seconds: 0,
    }
}

async fn add(store: &Store, tenant: &Tenant, new: NewChannel) -> Channel {
    match store.add_channel(&tenant.org, new, Vec::new(), &tenant.person()).await.unwrap() {
        AddedChannel::Done(channel) => *channel,
        refused @ (AddedChannel::Taken | AddedChannel::NoSecret(_) | AddedChannel::TooMany) => panic!("{refused:?}"),
    }
}

/// A call that waits under the rules as they are now.
async fn held(store: &Store, tenant: &Tenant) -> Invocation {
    let call = tenant.writing();
    let rules_version = store.rules_version_anew(&tenant.org).await.unwrap();
    assert_eq!(store.hold(Hold { rules_version, ..tenant.hold(&call) }).await.unwrap(), Held::Pending);
    Invocation { pending_from_seq: Some(store.log_size(&tenant.org).await.unwrap()), ..call }
}

/// The call ends without an answer.
async fn expire(store: &Store, tenant: &Tenant, call: &Invocation) {
    let expired = store.finish(tenant.finish(call, Row::From(Status::Pending), Status::Expired).into()).await.unwrap();
    assert!(matches!(expired, Finished::Recorded { .. }), "{expired:?}");
}

async fn fill(store: &Store, tenant: &Tenant) {
    while store.fill_outbox(&tenant.org).await.unwrap() {}
}

async fn listed(store: &Store, tenant: &Tenant) -> Vec<Delivery> {
    let mut items = store.list_deliveries(&tenant.org, &DeliveryFilter::default(), &everything()).await.unwrap().items;
    items.reverse();
    items
}

async fn states(store: &Store, tenant: &Tenant) -> Vec<(Moment, DeliveryState)> {
    let mut states: Vec<_> = listed(store, tenant).await.into_iter().map(|one| (one.moment, one.state)).collect();
    states.sort();
    states
}

async fn claim(store: &Store, tenant: &Tenant, channel: &ChannelId) -> Vec<store::ClaimedDelivery> {
    store.claim_deliveries(&tenant.org, channel, 100).await.unwrap()
}

async fn differences(store: &Store, tenant: &Tenant) -> Vec<String> {
    store.check_integrity(&tenant.org).await.unwrap().differences
}

async fn a_channel_is_added_and_removed_and_the_log_says_so(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let new = NewChannel {
        space: Some(tenant.space.clone()),
        tiers: vec![Tier::R3],
        bands: vec![Band::Red],
        attendance: Some(Attendance::Unattended),
        after_seconds: 30,
        ..webhook("night")
    };
    let added = add(store, &tenant, new.clone()).await;
    assert_eq!((&added.created_by, added.created_at, added.removed_at), (&tenant.person(), store.now().await.unwrap(), None));
    assert_eq!((&added.tiers, added.after_seconds, &added.settings), (&new.tiers, 30, &new.settings));
    assert_eq!(store.find_channel(&tenant.org, &added.id).await, Ok(Some(added.clone())));
    assert_eq!(store.find_channel_by_name(&tenant.org, "night").await, Ok(Some(added.clone())));
    assert_eq!(store.list_channels(&tenant.org, &Default::default(), &everything()).await.unwrap().items, std::slice::from_ref(&added));
    let again = store.add_channel(&tenant.org, webhook("night"), Vec::new(), &tenant.person()).await;
    assert_eq!(again, Ok(AddedChannel::Taken));
    assert_eq!(differences(store, &tenant).await, Vec::<String>::new());

    world.clock.advance_seconds(1);
    let removed = store.remove_channel(&tenant.org, &added.id, &tenant.person()).await.unwrap().unwrap();
    assert_eq!(removed, Channel { removed_at: Some(store.now().await.unwrap()), ..added.clone() });
    assert_eq!(store.remove_channel(&tenant.org, &added.id, &tenant.person()).await, Ok(None));
    assert_eq!(store.find_channel(&tenant.org, &added.id).await, Ok(Some(removed)), "its deliveries name it");
    assert_eq!(store.find_channel_by_name(&tenant.org, "night").await, Ok(None));
    add(store, &tenant, webhook("night")).await;

    let events = store.list_events_after(&tenant.org, TOLD, 1_000).await.unwrap();
    let told: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(told, ["channel.added", "channel.removed", "channel.added"]);
    let change = serde_json::from_str::<Value>(&events[0].body).unwrap()["change"].clone();
    assert_eq!((&change["rule"], &change["name"], &change["kind"]), (&json!("channel_set"), &json!("night"), &json!("webhook")));
    // What was set stays readable under the digest that the log has.
    let digest = Digest::parse(change["settings"].as_str().unwrap()).unwrap();
    let archived = store.find_definition(&tenant.org, digest).await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<NewChannel>(&archived).unwrap(), new);
    assert_eq!(differences(store, &tenant).await, Vec::<String>::new());
    world.verify(&tenant).await;
}

async fn an_org_has_as_many_channels_as_it_may_have(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    for number in 0..CHANNELS_MAX {
        add(store, &tenant, webhook(&format!("channel {number}"))).await;
    }
    let further = store.add_channel(&tenant.org, webhook("one more"), Vec::new(), &tenant.person()).await;
    assert_eq!(further, Ok(AddedChannel::TooMany));
}

async fn a_secret_stays_while_a_channel_uses_it(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let hook = SecretName::parse("hook").unwrap();
    let new = async || store.add_channel(&tenant.org, webhook("night"), vec![hook.clone()], &tenant.person()).await.unwrap();
    assert_eq!(new().await, AddedChannel::NoSecret(hook.clone()));
    let value = SecretValue::new(Secret::new("whsec_c2VjcmV0".to_owned())).unwrap();
    let secret = NewSecret { name: hook.clone(), value, description: None, replaces: None };
    store.set_secret(&tenant.org, secret, &tenant.person()).await.unwrap();
    let AddedChannel::Done(channel) = new().await else { panic!("the secret is there") };
    let used = SecretUse { kind: "channel", id: channel.id.to_string(), name: "night".to_owned() };
    assert_eq!(store.list_secret_uses(&tenant.org, &hook).await, Ok(vec![used.clone()]));
    assert_eq!(store.delete_secret(&tenant.org, &hook, &tenant.person()).await, Ok(Some(DeletedSecret::InUse(vec![used]))));
    store.remove_channel(&tenant.org, &channel.id, &tenant.person()).await.unwrap();
    assert_eq!(store.delete_secret(&tenant.org, &hook, &tenant.person()).await, Ok(Some(DeletedSecret::Done)));
}

async fn a_channel_that_was_changed_in_the_database_shows(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    add(store, &tenant, webhook("night")).await;
    let check = async |change: &str, back: &str, expected: &str| {
        world.home.tamper(change).await;
        let found = differences(store, &tenant).await;
        assert!(found.len() == 1 && found[0].contains(expected), "{change}: {found:?}");
        world.home.tamper(back).await;
        assert_eq!(differences(store, &tenant).await, Vec::<String>::new(), "{back}");
    };
    let replaced = |old: &str, new: &str| format!("UPDATE channels SET terms = replace(terms, '{old}', '{new}')");
    check(&replaced("example.com", "evil.test"), &replaced("evil.test", "example.com"), "` is `night ").await;
    check("UPDATE channels SET name = 'day'", "UPDATE channels SET name = 'night'", "` is `day ").await;
    check("UPDATE channels SET removed_at = 1", "UPDATE channels SET removed_at = NULL", " removed`").await;
}

async fn the_channels_that_a_call_concerns_are_told_of_it(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let other_space = store.create_space(&tenant.org, "other", &tenant.person()).await.unwrap().unwrap().id;
    let told = [
        webhook("all"),
        NewChannel { tiers: vec![Tier::R2], ..webhook("tier") },
        NewChannel { bands: vec![Band::Green], attendance: Some(Attendance::Interactive), ..webhook("band") },
        NewChannel { space: Some(tenant.space.clone()), ..webhook("space") },
    ];
    let not_told = [
        NewChannel { tiers: vec![Tier::R3, Tier::R4], ..webhook("other tier") },
        NewChannel { bands: vec![Band::Black], ..webhook("other band") },
        NewChannel { attendance: Some(Attendance::Unattended), ..webhook("other attendance") },
        NewChannel { space: Some(other_space), ..webhook("other space") },
    ];
    let mut expected = Vec::new();
    for new in told {
        expected.push(add(store, &tenant, new).await.id);
    }
    for new in not_told {
        add(store, &tenant, new).await;
    }
    let mail = NewChannel {
        kind: "email".to_owned(),
        settings: json!({ "to": ["robin", "sam"], "from": "c@example.com", "server": "smtp://127.0.0.1" }),
        ..webhook("mail")
    };
    let mail = add(store, &tenant, mail).await.id;
    let call = held(store, &tenant).await;
    tenant.read_once(store).await;
    fill(store, &tenant).await;
    let made = listed(store, &tenant).await;
    assert!(made.iter().all(|one| one.invocation == call.id && one.moment == Moment::Pending && one.state == DeliveryState::Waiting));
    let (mailed, whole): (Vec<_>, Vec<_>) = made.into_iter().partition(|one| one.channel == mail);
    let mut recipients: Vec<_> = mailed.into_iter().filter_map(|one| one.recipient).collect();
    recipients.sort();
    assert_eq!(recipients, ["robin", "sam"], "each by themselves");
    let mut channels: Vec<_> = whole.iter().map(|one| one.channel.clone()).collect();
    channels.sort();
    expected.sort();
    assert_eq!(channels, expected);
}

async fn a_channel_is_told_of_what_came_after_it(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let before = tenant.pending(store).await;
    fill(store, &tenant).await;
    add(store, &tenant, webhook("night")).await;
    expire(store, &tenant, &before).await;
    fill(store, &tenant).await;
    assert_eq!(listed(store, &tenant).await, []);
    let after = held(store, &tenant).await;
    fill(store, &tenant).await;
    assert_eq!(listed(store, &tenant).await.into_iter().map(|one| one.invocation).collect::<Vec<_>>(), [after.id]);
}

async fn who_is_to_be_told_later_is_not_told_of_what_was_answered(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let late = add(store, &tenant, NewChannel { after_seconds: 60, ..webhook("late") }).await;
    let (answered, open) = (held(store, &tenant).await, held(store, &tenant).await);
    fill(store, &tenant).await;
    assert_eq!(store.list_due_channels(&tenant.org).await, Ok(vec![]));
    world.clock.advance_seconds(59);
    expire(store, &tenant, &answered).await;
    fill(store, &tenant).await;
    assert_eq!(claim(store, &tenant, &late.id).await, [], "it is not due yet");
    world.clock.advance_seconds(1);
    assert_eq!(store.list_due_channels(&tenant.org).await, Ok(vec![late.id.clone()]));
    let claimed = claim(store, &tenant, &late.id).await;
    assert_eq!(claimed.iter().map(|one| &one.delivery.invocation).collect::<Vec<_>>(), [&open.id]);
    assert_eq!(states(store, &tenant).await, [(Moment::Pending, DeliveryState::Waiting), (Moment::Pending, DeliveryState::Skipped)]);
}

async fn what_happened_first_is_told_first(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let channel = add(store, &tenant, webhook("night")).await;
    let call = held(store, &tenant).await;
    fill(store, &tenant).await;
    let first = claim(store, &tenant, &channel.id).await.remove(0);
    assert_eq!((first.delivery.moment, first.delivery.attempts, first.earlier), (Moment::Pending, 1, None));
    assert!(matches!(store.approve(tenant.approve(&call)).await, Ok(Approved::Approved(_))));
    fill(store, &tenant).await;
    assert_eq!(claim(store, &tenant, &channel.id).await, [], "what waits before it goes first");
    let problem = "it answered 500".to_owned();
    let due_at = store.now().await.unwrap().plus_seconds(10);
    let again = DeliveryEnd::Again { due_at, problem: problem.clone() };
    assert_eq!(store.end_delivery(&tenant.org, &first.delivery.id, again).await, Ok(true));
    let waits = store.find_delivery(&tenant.org, &first.delivery.id).await.unwrap().unwrap();
    assert_eq!((waits.state, waits.due_at, waits.problem, waits.ended_at), (DeliveryState::Waiting, due_at, Some(problem), None));
    assert_eq!(claim(store, &tenant, &channel.id).await, []);
    world.clock.advance_seconds(10);
    let second = claim(store, &tenant, &channel.id).await.remove(0);
    assert_eq!((&second.delivery.id, second.delivery.attempts), (&first.delivery.id, 2), "it keeps its id");
    let remembered = json!({ "ts": "1.2" });
    assert_eq!(store.end_delivery(&tenant.org, &first.delivery.id, DeliveryEnd::Sent(Some(remembered.clone()))).await, Ok(true));
    let decided = claim(store, &tenant, &channel.id).await.remove(0);
    assert_eq!((decided.delivery.moment, decided.earlier), (Moment::Decided, Some(remembered)));
}

async fn each_notice_is_made_and_claimed_once(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let other = match kind {
        Kind::Sqlite => store.clone(),
        Kind::Postgres => world.another_store().await,
    };
    let channel = add(store, &tenant, webhook("night")).await;
    for _ in 0..5 {
        held(store, &tenant).await;
        let (one, two) = tokio::join!(store.fill_outbox(&tenant.org), other.fill_outbox(&tenant.org));
        assert_eq!((one, two), (Ok(false), Ok(false)));
    }
    fill(store, &tenant).await;
    assert_eq!(listed(store, &tenant).await.len(), 5);
    let (ours, theirs) = tokio::join!(claim(store, &tenant, &channel.id), claim(&other, &tenant, &channel.id));
    assert_eq!(ours.len() + theirs.len(), 5);
    assert_eq!(store.list_due_channels(&tenant.org).await, Ok(vec![]));
}

async fn what_a_server_left_is_claimed_again(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let channel = add(store, &tenant, webhook("night")).await;
    held(store, &tenant).await;
    fill(store, &tenant).await;
    let gone = match kind {
        Kind::Sqlite => store.clone(),
        Kind::Postgres => world.another_store().await,
    };
    let left = claim(&gone, &tenant, &channel.id).await.remove(0);
    world.clock.advance_seconds(DELIVERY_CLAIM_SECONDS - 1);
    assert_eq!(claim(store, &tenant, &channel.id).await, []);
    world.clock.advance_seconds(1);
    let taken = claim(store, &tenant, &channel.id).await.remove(0);
    assert_eq!((&taken.delivery.id, taken.delivery.attempts), (&left.delivery.id, 2));
    if kind == Kind::Postgres {
        assert_eq!(gone.end_delivery(&tenant.org, &left.delivery.id, DeliveryEnd::Sent(None)).await, Ok(false));
    }
    assert_eq!(store.end_delivery(&tenant.org, &left.delivery.id, DeliveryEnd::Sent(None)).await, Ok(true));
    assert_eq!(store.end_delivery(&tenant.org, &left.delivery.id, DeliveryEnd::Skipped).await, Ok(false), "it has ended");
}

async fn a_dead_letter_stays_until_somebody_asks_for_it_again(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let channel = add(store, &tenant, webhook("night")).await;
    for _ in 0..2 {
        held(store, &tenant).await;
    }
    fill(store, &tenant).await;
    for claimed in claim(store, &tenant, &channel.id).await {
        let dead = DeliveryEnd::Dead { problem: "gone".to_owned() };
        assert_eq!(store.end_delivery(&tenant.org, &claimed.delivery.id, dead).await, Ok(true));
    }
    let filter = DeliveryFilter { channel: Some(channel.id.clone()), state: Some(DeliveryState::Dead), ..DeliveryFilter::default() };
    let dead = store.list_deliveries(&tenant.org, &filter, &everything()).await.unwrap().items;
    assert_eq!((dead.len(), store.count_deliveries(&tenant.org, &channel.id, DeliveryState::Dead).await), (2, Ok(2)));
    world.clock.advance_seconds(24 * 60 * 60);
    assert_eq!(claim(store, &tenant, &channel.id).await, []);
    let retry =
        async |one: Option<&countersign_core::DeliveryId>| store.retry_deliveries(&tenant.org, &channel.id, one, &tenant.person()).await;
    assert_eq!(retry(Some(&dead[0].id)).await, Ok(1));
    let retried = claim(store, &tenant, &channel.id).await.remove(0).delivery;
    assert_eq!((&retried.id, retried.attempts, &retried.retried_by), (&dead[0].id, 1, &Some(tenant.person())));
    assert_eq!(store.drop_deliveries(&tenant.org, &channel.id, Some(&retried.id), &tenant.person()).await, Ok(0), "it waits");
    assert_eq!(retry(None).await, Ok(1), "the other one");
    assert_eq!(retry(None).await, Ok(0));
    assert_eq!(store.drop_deliveries(&tenant.org, &channel.id, None, &tenant.person()).await, Ok(0));
    assert_eq!(store.end_delivery(&tenant.org, &retried.id, DeliveryEnd::Sent(None)).await, Ok(true));
    world.clock.advance_seconds(DELIVERY_KEPT_SECONDS);
    assert_eq!(store.forget_deliveries(&tenant.org).await, Ok(0));
    world.clock.advance_seconds(1);
    assert_eq!(store.forget_deliveries(&tenant.org).await, Ok(1), "what waits is never forgotten");
}

async fn what_waits_for_a_channel_goes_with_it(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let channel = add(store, &tenant, webhook("night")).await;
    held(store, &tenant).await;
    fill(store, &tenant).await;
    let given_up = claim(store, &tenant, &channel.id).await.remove(0).delivery.id;
    let dead = DeliveryEnd::Dead { problem: "gone".to_owned() };
    assert_eq!(store.end_delivery(&tenant.org, &given_up, dead).await, Ok(true));
    held(store, &tenant).await;
    fill(store, &tenant).await;
    store.remove_channel(&tenant.org, &channel.id, &tenant.person()).await.unwrap();
    assert_eq!(states(store, &tenant).await, [(Moment::Pending, DeliveryState::Skipped); 2]);
    assert_eq!(store.count_deliveries(&tenant.org, &channel.id, DeliveryState::Dead).await, Ok(0), "nobody can ask for them once more");
    held(store, &tenant).await;
    fill(store, &tenant).await;
    assert_eq!(listed(store, &tenant).await.len(), 2);
}

async fn a_restored_store_has_every_channel_and_delivery(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let channel = add(store, &tenant, webhook("night")).await;
    held(store, &tenant).await;
    fill(store, &tenant).await;
    let dropped = claim(store, &tenant, &channel.id).await.remove(0).delivery.id;
    let dead = DeliveryEnd::Dead { problem: "gone".to_owned() };
    assert_eq!(store.end_delivery(&tenant.org, &dropped, dead).await, Ok(true));
    assert_eq!(store.drop_deliveries(&tenant.org, &channel.id, None, &tenant.person()).await, Ok(1));
    let dropped = store.find_delivery(&tenant.org, &dropped).await.unwrap().unwrap();
    assert_eq!((dropped.state, dropped.dropped_by), (DeliveryState::Skipped, Some(tenant.person())));
    held(store, &tenant).await;
    fill(store, &tenant).await;
    let mut file = Vec::new();
    store.backup(&mut file).await.unwrap();
    for target in [Kind::Sqlite, Kind::Postgres] {
        let home = Home::new(target).await;
        let restored = home.open(&FixedClock::new(), &SeededRandom::new(77)).await.unwrap();
        restored.restore(Cursor::new(file.clone())).await.unwrap();
        assert_eq!(restored.find_channel(&tenant.org, &channel.id).await, Ok(Some(channel.clone())));
        assert_eq!(listed(&restored, &tenant).await, listed(store, &tenant).await);
        fill(&restored, &tenant).await;
        assert_eq!(listed(&restored, &tenant).await.len(), 2, "nothing is made twice");
        assert_eq!(differences(&restored, &tenant).await, Vec::<String>::new());
    }
}
