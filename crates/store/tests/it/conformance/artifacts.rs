//! Artifacts: rows that come before their bytes and go after them.

use crate::conformance::automations;
use crate::harness::{Kind, Tenant, World, everything, on_both_engines};
use countersign_core::artifact::{ArtifactKind, ArtifactRetention, Visibility};
use countersign_core::ledger::NewArtifact;
use countersign_core::limits::{ARTIFACT_DEFAULT_SECONDS, ARTIFACT_TRANSIENT_SECONDS};
use countersign_core::ports::runs::{Occasion, SavedRun, Then};
use countersign_core::ports::{Artifacts, Runs};
use countersign_core::retention::Retention;
use countersign_core::run::RunStatus;
use countersign_core::session::Keeps;
use countersign_core::{ArtifactId, Digest, UserId};
use std::collections::BTreeSet;
use store::{ArtifactFilter, Private, SpaceChange, Store};

on_both_engines!(
    an_artifact_knows_its_session_its_person_and_its_run,
    only_what_somebody_sees_is_listed,
    what_is_over_goes_and_what_is_permanent_stays,
    no_artifact_outlives_what_its_org_keeps,
    a_run_keeps_what_its_steps_made_until_it_has_ended,
    what_is_in_quarantine_keeps_its_row_and_its_digest,
);

const DAY: u64 = 24 * 60 * 60;

pub(crate) fn new(tenant: &Tenant, name: &str) -> NewArtifact {
    NewArtifact {
        id: tenant.draw(ArtifactId::new),
        org: tenant.org.clone(),
        space: tenant.space.clone(),
        session: tenant.session.id.clone(),
        invocation: None,
        name: name.to_owned(),
        media_type: "application/pdf".to_owned(),
        size: 3,
        sha256: Digest::new([7; 32]),
        retention: ArtifactRetention::Default,
        visibility: Visibility::Space,
    }
}

async fn listed(store: &Store, tenant: &Tenant, filter: &ArtifactFilter) -> Vec<String> {
    store.list_artifacts(&tenant.org, filter, &everything()).await.unwrap().items.into_iter().map(|one| one.name).collect()
}

async fn expired(store: &Store, tenant: &Tenant) -> Vec<String> {
    store.list_expired_artifacts(&tenant.org, None, 10).await.unwrap().into_iter().map(|one| one.name).collect()
}

async fn an_artifact_knows_its_session_its_person_and_its_run(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let plain = store.add_artifact(new(&tenant, "plain")).await.unwrap();
    assert_eq!((&plain.owner, &plain.run, plain.kind), (&tenant.session.owner, &None, ArtifactKind::Document));
    assert_eq!(plain.expires_at, Some(plain.created_at.plus_seconds(ARTIFACT_DEFAULT_SECONDS)));
    assert_eq!(store.find_artifact(&tenant.org, &plain.id).await, Ok(Some(plain.clone())));

    world.clock.advance_ms(1);
    let automation = automations::saved(store, &tenant, "automation").await;
    store.fire(automations::firing(&tenant, &automation, Occasion::Request)).await.unwrap();
    let lease = store.claim_runs(&["fast".to_owned()], 1).await.unwrap().remove(0);
    let run = store.find_run(&tenant.org, &lease.run).await.unwrap().unwrap();
    let made = store.add_artifact(NewArtifact { session: run.session.clone(), ..new(&tenant, "made") }).await.unwrap();
    assert_eq!((made.run.as_ref(), made.owner.as_ref()), (Some(&run.id), Some(&tenant.owner)));
    let of_run = ArtifactFilter { run: Some(run.id.clone()), ..ArtifactFilter::default() };
    assert_eq!(listed(store, &tenant, &of_run).await, ["made"]);
    assert_eq!(listed(store, &tenant, &ArtifactFilter::default()).await, ["made", "plain"], "newest first");
}

async fn only_what_somebody_sees_is_listed(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    for (name, visibility) in [("private", Visibility::Private), ("space", Visibility::Space), ("shared", Visibility::Shared)] {
        store.add_artifact(NewArtifact { visibility, ..new(&tenant, name) }).await.unwrap();
        world.clock.advance_ms(1);
    }
    let hidden = BTreeSet::from([tenant.space.clone()]);
    let stranger = tenant.draw(UserId::new);
    for (hidden, private, expected) in [
        (BTreeSet::new(), Private::All, vec!["shared", "space", "private"]),
        (BTreeSet::new(), Private::Of(stranger), vec!["shared", "space"]),
        (BTreeSet::new(), Private::None, vec!["shared", "space"]),
        (hidden.clone(), Private::None, vec!["shared"]),
    ] {
        let filter = ArtifactFilter { hidden, private, ..ArtifactFilter::default() };
        assert_eq!(listed(store, &tenant, &filter).await, expected, "{filter:?}");
    }
    let owner = tenant.session.owner.clone().unwrap();
    let own = ArtifactFilter { private: Private::Of(owner), ..ArtifactFilter::default() };
    assert_eq!(listed(store, &tenant, &own).await, ["shared", "space", "private"]);
}

async fn what_is_over_goes_and_what_is_permanent_stays(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    for retention in ArtifactRetention::ALL {
        store.add_artifact(NewArtifact { retention, ..new(&tenant, retention.as_str()) }).await.unwrap();
        world.clock.advance_ms(1);
    }
    assert_eq!(expired(store, &tenant).await, Vec::<String>::new());
    world.clock.advance_seconds(ARTIFACT_TRANSIENT_SECONDS);
    assert_eq!(expired(store, &tenant).await, ["transient"]);
    assert_eq!(listed(store, &tenant, &ArtifactFilter::default()).await, ["permanent", "default"], "what is over is listed no more");
    let gone = store.list_expired_artifacts(&tenant.org, None, 10).await.unwrap().remove(0);
    assert_eq!(store.list_expired_artifacts(&tenant.org, Some(&gone.id), 10).await, Ok(vec![]), "it is the last one");
    store.forget_artifact(&tenant.org, &gone.id).await.unwrap();
    assert_eq!(store.find_artifact(&tenant.org, &gone.id).await, Ok(None));
    world.clock.advance_seconds(ARTIFACT_DEFAULT_SECONDS);
    assert_eq!(expired(store, &tenant).await, ["default"]);
    world.clock.advance_seconds(1_000 * DAY);
    assert_eq!(listed(store, &tenant, &ArtifactFilter::default()).await, ["permanent"]);
}

async fn no_artifact_outlives_what_its_org_keeps(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let permanent = NewArtifact { retention: ArtifactRetention::Permanent, ..new(&tenant, "permanent") };
    store.add_artifact(permanent.clone()).await.unwrap();
    let retention = Retention { receipts_days: Some(180), ..Retention::default() };
    store.set_retention(&tenant.org, retention, &tenant.person()).await.unwrap();
    world.clock.advance_seconds(179 * DAY);
    assert_eq!(expired(store, &tenant).await, Vec::<String>::new());
    world.clock.advance_seconds(2 * DAY);
    assert_eq!(expired(store, &tenant).await, ["permanent"]);
    // A space that keeps digests only keeps bytes for a day.
    store.add_artifact(NewArtifact { id: tenant.draw(ArtifactId::new), name: "young".to_owned(), ..permanent }).await.unwrap();
    let digests = SpaceChange { keeps: Some(Keeps::Digests), ..SpaceChange::default() };
    store.change_space(&tenant.org, &tenant.space, digests, &tenant.person()).await.unwrap();
    assert_eq!(expired(store, &tenant).await, ["permanent"]);
    world.clock.advance_seconds(DAY);
    assert_eq!(expired(store, &tenant).await, ["permanent", "young"]);
}

async fn a_run_keeps_what_its_steps_made_until_it_has_ended(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let automation = automations::saved(store, &tenant, "automation").await;
    store.fire(automations::firing(&tenant, &automation, Occasion::Request)).await.unwrap();
    let lease = store.claim_runs(&["fast".to_owned()], 1).await.unwrap().remove(0);
    let mut run = store.find_run(&tenant.org, &lease.run).await.unwrap().unwrap();
    let made = NewArtifact { session: run.session.clone(), retention: ArtifactRetention::Transient, ..new(&tenant, "made") };
    store.add_artifact(made).await.unwrap();
    world.clock.advance_seconds(2 * DAY);
    assert_eq!(expired(store, &tenant).await, Vec::<String>::new(), "a later step may read it");
    run.status = RunStatus::Succeeded;
    assert_eq!(store.save_run(SavedRun { lease, run: Box::new(run), steps: Vec::new(), then: Then::End }).await, Ok(true));
    assert_eq!(expired(store, &tenant).await, ["made"]);
}

async fn what_is_in_quarantine_keeps_its_row_and_its_digest(kind: Kind) {
    let world = World::new(kind).await;
    let (store, tenant) = (&world.store, world.tenant("acme").await);
    let made = store.add_artifact(NewArtifact { retention: ArtifactRetention::Transient, ..new(&tenant, "made") }).await.unwrap();
    let quarantined = store.quarantine_artifact(&tenant.org, &made.id, &tenant.person()).await.unwrap().unwrap();
    assert_eq!((quarantined.quarantined_by, quarantined.sha256), (Some(tenant.person()), made.sha256));
    world.clock.advance_seconds(60);
    let again = store.quarantine_artifact(&tenant.org, &made.id, &tenant.person()).await.unwrap().unwrap();
    assert_eq!(again.quarantined_at, quarantined.quarantined_at, "the first time counts");
    world.clock.advance_seconds(2 * DAY);
    assert_eq!(expired(store, &tenant).await, ["made"], "its bytes go");
    store.forget_artifact(&tenant.org, &made.id).await.unwrap();
    assert_eq!(expired(store, &tenant).await, Vec::<String>::new(), "and are not looked for again");
    assert_eq!(store.find_artifact(&tenant.org, &made.id).await, Ok(Some(again)));
    assert_eq!(listed(store, &tenant, &ArtifactFilter::default()).await, ["made"]);
}
