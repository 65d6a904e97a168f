//! Grants that bound a sum: what fits is taken with the intent, by one conditional update, and what is observed is counted.

use crate::harness::{Kind, Tenant, WRITE, World, on_both_engines};
use countersign_core::grant::{Covers, GrantScope, GrantTerms, SumMax};
use countersign_core::ledger::{Begin, Begun, Finish, GrantUse, Row};
use countersign_core::observe::{AskedFor, Observed};
use countersign_core::ports::{Invocations, Rules};
use countersign_core::{ActionId, Amount, Clock as _, GrantId, Invocation, Status, Tier};
use store::{NewGrant, Store};

on_both_engines!(
    a_sum_is_taken_while_it_fits_into_the_window,
    many_at_once_never_take_more_than_the_sum,
    what_is_given_back_is_there_again_and_what_is_in_doubt_is_not,
    a_grant_without_a_sum_needs_no_amount_and_one_with_a_sum_does,
    what_was_observed_is_counted_by_action_and_session,
);

const HOUR: u64 = 3_600;

/// A grant for the session of the tenant; `max` is what its calls may add up to in an hour.
async fn given(store: &Store, tenant: &Tenant, max: Option<&str>) -> GrantId {
    let scope = GrantScope::Session(tenant.session.id.clone());
    let sum_max = max.map(|max| SumMax { max: Amount::parse(max).unwrap(), of: "/amount".to_owned(), per_seconds: HOUR });
    let covers = Covers::parse(WRITE).unwrap();
    let terms = GrantTerms { scope, space: None, covers, condition: None, calls_max: None, sum_max, definition: None };
    let new = NewGrant { terms: terms.clone(), lifetime_seconds: 24 * HOUR, reason: Some("why".to_owned()) };
    let given = store.give_grant(&tenant.org, new, &tenant.person()).await.unwrap();
    let read = store.find_grant(&tenant.org, &given.id).await.unwrap().unwrap();
    assert_eq!((&read, &read.terms, read.reason.as_deref()), (&given, &terms, Some("why")));
    given.id
}

async fn begin(store: &Store, tenant: &Tenant, grant: &GrantId, amount: Option<&str>) -> (Begun, Invocation) {
    let spends = amount.map(|amount| Amount::parse(amount).unwrap());
    let call = Invocation { grant: Some(grant.clone()), spends, ..tenant.calling(WRITE, Status::Running) };
    let rules_version = store.rules_version(&tenant.org).await.unwrap();
    let begin = Begin { rules_version, ..tenant.begin(&call, Row::Insert) };
    let begun = begin.invocation.clone();
    (store.begin(begin).await.unwrap(), begun)
}

async fn takes(store: &Store, tenant: &Tenant, grant: &GrantId, amount: &str) -> bool {
    let (begun, _) = begin(store, tenant, grant, Some(amount)).await;
    assert!(matches!(begun, Begun::Started | Begun::GrantSpent), "{begun:?}");
    begun == Begun::Started
}

async fn state(store: &Store, tenant: &Tenant, grant: &GrantId) -> (String, u32) {
    let found = store.find_grant(&tenant.org, grant).await.unwrap().unwrap();
    let usable = store.find_grants(&tenant.session, &ActionId::parse(WRITE).unwrap()).await.unwrap();
    assert_eq!(usable.iter().find(|usable| usable.id == *grant).unwrap().spent, found.spent);
    (found.spent.to_string(), found.used)
}

async fn a_sum_is_taken_while_it_fits_into_the_window(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let grant = given(store, &tenant, Some("500")).await;
    assert!(takes(store, &tenant, &grant, "300.25").await);
    world.clock.advance_seconds(HOUR / 2);
    assert!(!takes(store, &tenant, &grant, "199.750001").await);
    assert!(takes(store, &tenant, &grant, "199.75").await);
    assert!(takes(store, &tenant, &grant, "0").await);
    assert_eq!(state(store, &tenant, &grant).await, ("500".to_owned(), 3));
    world.clock.advance_seconds(HOUR / 2 - 1);
    assert!(!takes(store, &tenant, &grant, "0.000001").await, "the first is in the window for one second more");
    world.clock.advance_seconds(1);
    assert_eq!(state(store, &tenant, &grant).await, ("199.75".to_owned(), 3));
    assert!(takes(store, &tenant, &grant, "300.25").await);
    assert!(!takes(store, &tenant, &grant, "0.000001").await);
    world.verify(&tenant).await;
}

async fn many_at_once_never_take_more_than_the_sum(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let grant = given(store, &tenant, Some("500")).await;
    let other = if kind == Kind::Postgres { world.another_store().await } else { store.clone() };
    let calls = (0..64).map(|at| takes(if at % 2 == 0 { store } else { &other }, &tenant, &grant, "33.3"));
    let taken = futures_util::future::join_all(calls).await.into_iter().filter(|taken| *taken).count();
    assert_eq!((taken, state(store, &tenant, &grant).await), (15, ("499.5".to_owned(), 15)));
    world.verify(&tenant).await;
}

async fn what_is_given_back_is_there_again_and_what_is_in_doubt_is_not(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let grant = given(store, &tenant, Some("500")).await;
    let (_, doubted) = begin(store, &tenant, &grant, Some("100")).await;
    let doubted = Invocation { status: Status::InDoubt, ..doubted };
    store.doubt(doubted.clone(), tenant.event(&doubted, Status::InDoubt)).await.unwrap();
    let (_, unsent) = begin(store, &tenant, &grant, Some("400")).await;
    assert_eq!(state(store, &tenant, &grant).await, ("500".to_owned(), 2));
    let ended = tenant.finish(&unsent, Row::Begun, Status::Failed);
    store.finish(Finish { grant: GrantUse::Returned, ..ended }.into()).await.unwrap();
    assert_eq!(state(store, &tenant, &grant).await, ("100".to_owned(), 1));
    assert!(!takes(store, &tenant, &grant, "401").await);
    assert!(takes(store, &tenant, &grant, "400").await);
}

async fn a_grant_without_a_sum_needs_no_amount_and_one_with_a_sum_does(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let (free, bounded) = (given(store, &tenant, None).await, given(store, &tenant, Some("500")).await);
    assert_eq!(begin(store, &tenant, &free, None).await.0, Begun::Started);
    assert_eq!(begin(store, &tenant, &bounded, None).await.0, Begun::GrantSpent);
    let revoked = store.revoke_grant(&tenant.org, &bounded, &tenant.person()).await.unwrap();
    assert!(matches!(revoked, Some(store::GrantChanged::Done(_))), "{revoked:?}");
    assert!(!takes(store, &tenant, &bounded, "1").await);
    world.verify(&tenant).await;
}

async fn what_was_observed_is_counted_by_action_and_session(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let since = world.clock.now();
    world.clock.advance_seconds(1);
    for observed in [Some(Observed::Mode), Some(Observed::Person), Some(Observed::Mode), None] {
        let call = Invocation { observed, ..tenant.calling(WRITE, Status::Running) };
        assert_eq!(store.begin(tenant.begin(&call, Row::Insert)).await.unwrap(), Begun::Started);
    }
    let counted = |observed, calls| AskedFor {
        action: ActionId::parse(WRITE).unwrap(),
        tier: Tier::R2,
        session: tenant.session.id.clone(),
        title: Some("agent of acme".to_owned()),
        observed,
        calls,
    };
    let list = async |since, limit| store.list_asked_for(&tenant.org, &tenant.space, since, limit).await.unwrap();
    assert_eq!(list(since, 9).await, [counted(Observed::Mode, 2), counted(Observed::Person, 1)]);
    assert_eq!(list(since, 1).await, [counted(Observed::Mode, 2)]);
    assert!(list(world.clock.now().plus_seconds(1), 9).await.is_empty());
}
