//! Modes, definitions, events and notifications.

use crate::harness::{BEGUN, Kind, READ, TOLD, World, definition, everything, on_both_engines, sha256};
use countersign_core::decision::Lock;
use countersign_core::ledger::{ArchivedDefinition, ModeRow, ModeRows};
use countersign_core::notification::{Notification, Notifier};
use countersign_core::ports::{Definitions, EventFeed, Invocations, Rules};
use countersign_core::{ActionId, AutomationId, InvocationId, Mode, NotificationId, PrincipalId};
use store::{Error, ModeChange, PageRequest};

on_both_engines!(
    modes_have_versions_that_grow_and_two_scopes,
    changes_of_modes_made_at_once_get_versions_of_their_own,
    modes_are_listed_by_page,
    every_change_of_a_mode_is_listed_newest_first,
    a_definition_is_archived_once,
    an_invocation_notifies_once,
    a_call_that_is_over_notifies_nobody,
    notifications_are_listed_newest_first_by_page,
);

fn action(text: &str) -> ActionId {
    ActionId::parse(text).unwrap()
}

async fn modes_have_versions_that_grow_and_two_scopes(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let by = PrincipalId::User(tenant.owner.clone());
    let (automation, other) = (tenant.draw(AutomationId::new), tenant.draw(AutomationId::new));
    let change = |automation: Option<&AutomationId>, mode| {
        let change =
            ModeChange { automation: automation.cloned(), action: action(READ), mode, lock: Lock::Open, by: by.clone(), invocation: None };
        store.change_mode(&tenant.org, change)
    };
    let read = action(READ);
    let rows = |automation| store.find_modes(&tenant.org, automation, &read);
    let row = |mode, version| Some(ModeRow { mode, lock: Lock::Open, version });
    assert_eq!(rows_of(rows(None).await), (None, None));
    assert_eq!(change(None, Some(Mode::Deny)).await, Ok(1));
    assert_eq!(change(Some(&automation), Some(Mode::Allow)).await, Ok(2));
    assert_eq!(rows_of(rows(Some(&automation)).await), (row(Mode::Allow, 2), row(Mode::Deny, 1)));
    assert_eq!(rows_of(rows(None).await), (None, row(Mode::Deny, 1)));
    assert_eq!(rows_of(rows(Some(&other)).await), (None, row(Mode::Deny, 1)));
    assert_eq!(change(None, Some(Mode::RequireApproval)).await, Ok(3));
    assert_eq!(change(Some(&automation), None).await, Ok(4));
    assert_eq!(rows_of(rows(Some(&automation)).await), (None, row(Mode::RequireApproval, 3)));
    assert_eq!(change(None, None).await, Ok(5));
    assert_eq!(change(None, None).await, Ok(6), "a removal of nothing is a change too, and recorded");
    assert_eq!(rows_of(rows(None).await), (None, None));
    let events = store.list_events_after(&tenant.org, TOLD, 1_000).await.unwrap();
    assert!(events.iter().all(|event| event.name == "mode.changed" && event.key == "modes"));
    assert_eq!(events.len(), 6);
    assert_eq!(world.verify(&tenant).await.entries, BEGUN + 6, "every change is signed into the log");
}

fn rows_of(found: Result<ModeRows, store::Error>) -> (Option<ModeRow>, Option<ModeRow>) {
    let ModeRows { automation, org } = found.unwrap();
    (automation, org)
}

async fn changes_of_modes_made_at_once_get_versions_of_their_own(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let changes: Vec<_> = (0..20)
        .map(|n| {
            let (store, org) = (store.clone(), tenant.org.clone());
            let by = PrincipalId::User(tenant.owner.clone());
            let change = ModeChange {
                automation: None,
                action: action(&format!("fake.a{n}")),
                mode: Some(Mode::Deny),
                lock: Lock::Open,
                by,
                invocation: None,
            };
            tokio::spawn(async move { store.change_mode(&org, change).await.unwrap() })
        })
        .collect();
    let mut versions = Vec::new();
    for change in changes {
        versions.push(change.await.unwrap());
    }
    versions.sort_unstable();
    assert_eq!(versions, (1..=20).collect::<Vec<_>>());
    world.verify(&tenant).await;
}

async fn modes_are_listed_by_page(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let by = PrincipalId::User(tenant.owner.clone());
    let automation = tenant.draw(AutomationId::new);
    // `.`, `-` and letters sort by their bytes on both engines.
    let actions = ["fake-x.a", "fake.A", "fake.a", "fake.a.b", "fake.b"];
    for name in actions.iter().rev() {
        for automation in [None, Some(automation.clone())] {
            let change = ModeChange {
                automation,
                action: action(name),
                mode: Some(Mode::Allow),
                lock: Lock::Open,
                by: by.clone(),
                invocation: None,
            };
            store.change_mode(&tenant.org, change).await.unwrap();
        }
    }
    let all = store.list_modes(&tenant.org, None, &everything()).await.unwrap().items;
    let listed: Vec<_> = all.iter().map(|setting| (setting.action.as_str(), setting.scope.as_str())).collect();
    let scope = format!("automation:{automation}");
    let expected: Vec<_> = actions.iter().flat_map(|name| [(*name, scope.as_str()), (*name, "org")]).collect();
    assert_eq!(listed, expected);
    assert!(all.iter().all(|setting| setting.set_by == by && setting.mode == Mode::Allow));
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = store.list_modes(&tenant.org, None, &PageRequest { limit: 3, after }).await.unwrap();
        paged.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(paged, all);
    let own = store.list_modes(&tenant.org, Some(&automation), &everything()).await.unwrap().items;
    assert_eq!(own.iter().map(|setting| setting.action.as_str()).collect::<Vec<_>>(), actions);
    assert!(own.iter().all(|setting| setting.scope == scope));
    assert_eq!(store.list_modes(&tenant.org, Some(&tenant.draw(AutomationId::new)), &everything()).await.unwrap().items, []);
}

async fn every_change_of_a_mode_is_listed_newest_first(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let by = PrincipalId::User(tenant.owner.clone());
    let automation = tenant.draw(AutomationId::new);
    // Two names that differ only by case are two actions.
    for (name, automation, mode) in [
        ("fake.a", None, Some(Mode::Allow)),
        ("fake.A", None, Some(Mode::Deny)),
        ("fake.a", Some(automation.clone()), Some(Mode::Deny)),
        ("fake.a", None, None),
    ] {
        let change = ModeChange { automation, action: action(name), mode, lock: Lock::Open, by: by.clone(), invocation: None };
        store.change_mode(&tenant.org, change).await.unwrap();
    }
    let all = store.list_mode_versions(&tenant.org, None, &everything()).await.unwrap().items;
    assert_eq!(all.iter().map(|version| version.change.version).collect::<Vec<_>>(), [4, 3, 2, 1]);
    assert_eq!((all[0].change.mode, &all[1].change.scope), (None, &format!("automation:{automation}")));
    assert!(all.iter().all(|version| version.change.by == by));
    let own = store.list_mode_versions(&tenant.org, Some(&action("fake.a")), &everything()).await.unwrap().items;
    assert_eq!(own.iter().map(|version| version.change.version).collect::<Vec<_>>(), [4, 3, 1]);
    let first = store.list_mode_versions(&tenant.org, Some(&action("fake.a")), &PageRequest { limit: 2, after: None }).await.unwrap();
    let rest = PageRequest { limit: 2, after: first.next };
    let rest = store.list_mode_versions(&tenant.org, Some(&action("fake.a")), &rest).await.unwrap();
    assert_eq!(([first.items, rest.items].concat(), rest.next), (own, None));
}

async fn a_definition_is_archived_once(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let known = definition(READ);
    let other = ArchivedDefinition { body: "{\"id\":\"changed\"}".into(), ..known };
    store.archive_definition(&tenant.org, other).await.unwrap();
    let new = ArchivedDefinition { digest: sha256("{}"), body: "{}".into() };
    store.archive_definition(&tenant.org, new).await.unwrap();
    tenant.read_once(store).await;
    // If the first text had been replaced, its digest would not match and the bundle would not verify.
    world.verify(&tenant).await;
}

async fn an_invocation_notifies_once(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let first = Notification {
        id: tenant.draw(NotificationId::new),
        org: tenant.org.clone(),
        space: tenant.space.clone(),
        invocation: Some(tenant.draw(InvocationId::new)),
        title: "Done".into(),
        body: "It is done.".into(),
        created_at: store.now().await.unwrap(),
    };
    store.deliver(&first).await.unwrap();
    let again = Notification { id: tenant.draw(NotificationId::new), title: "Twice".into(), ..first.clone() };
    store.deliver(&again).await.unwrap();
    assert_eq!(store.find_delivered(&tenant.org, first.invocation.as_ref().unwrap()).await, Ok(Some(first.id.clone())));
    assert_eq!(store.list_notifications(&tenant.org, &Default::default(), &everything()).await.unwrap().items, [first]);
}

async fn a_call_that_is_over_notifies_nobody(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let of = |invocation: &InvocationId, now| Notification {
        id: tenant.draw(NotificationId::new),
        org: tenant.org.clone(),
        space: tenant.space.clone(),
        invocation: Some(invocation.clone()),
        title: "Done".into(),
        body: String::new(),
        created_at: now,
    };
    let now = store.now().await.unwrap();
    let (running, ended) = (tenant.running(store).await.id, tenant.read_once(store).await.id);
    assert_eq!(store.find_delivered(&tenant.org, &running).await, Ok(None));
    store.deliver(&of(&running, now)).await.unwrap();
    assert_eq!(store.deliver(&of(&ended, now)).await, Err(Error::Fenced));
    assert!(store.find_delivered(&tenant.org, &running).await.unwrap().is_some());
    assert_eq!(store.find_delivered(&tenant.org, &ended).await, Ok(None));
}

async fn notifications_are_listed_newest_first_by_page(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let mut all = Vec::new();
    for n in 0..5 {
        world.clock.advance_ms(1);
        let notification = Notification {
            id: tenant.draw(NotificationId::new),
            org: tenant.org.clone(),
            space: tenant.space.clone(),
            invocation: Some(tenant.draw(InvocationId::new)),
            title: format!("{n}"),
            body: String::new(),
            created_at: store.now().await.unwrap(),
        };
        store.deliver(&notification).await.unwrap();
        all.insert(0, notification);
    }
    let first = store.list_notifications(&tenant.org, &Default::default(), &PageRequest { limit: 3, after: None }).await.unwrap();
    let rest =
        store.list_notifications(&tenant.org, &Default::default(), &PageRequest { limit: 3, after: first.next.clone() }).await.unwrap();
    assert_eq!(rest.next, None);
    assert_eq!([first.items, rest.items].concat(), all);
    let hidden = [tenant.space.clone()].into();
    let others = store.list_notifications(&tenant.org, &hidden, &PageRequest { limit: 3, after: None }).await.unwrap();
    assert_eq!((others.items, others.next), (Vec::new(), None));
}
