//! No org ever reads or changes rows of another. Each function is called with every id of the other org, and must return none of its data.

use crate::conformance::{artifacts, automations, documents};
use crate::harness::{Kind, READ, Tenant, WRITE, World, everything, on_both_engines};
use countersign_core::allowed::AllowedList;
use countersign_core::automation::{Automation, AutomationStatus, FiringReason};
use countersign_core::batch::BatchStatus;
use countersign_core::channel::DeliveryState;
use countersign_core::decision::{Drift, Lock};
use countersign_core::grant::{Covers, GrantScope, GrantTerms};
use countersign_core::invocation::revert_key;
use countersign_core::keyring::Keyring;
use countersign_core::ledger::{
    Approved, AskedAgain, Begin, Begun, Finished, Held, Hold, Joined, LinkMaker, NewDrift, NewLine, NewLink, NewQuarantine, OpenedBatch,
    Pin, Row, SealedPayload, Settling, Wording,
};
use countersign_core::notification::{Notification, Notifier};
use countersign_core::policies::PolicyTexts;
use countersign_core::ports::automations::PassedTicks;
use countersign_core::ports::bus::{ClaimRef, GroupName, NewEvent, NewGroup, Start};
use countersign_core::ports::connections::{ConnectionKind, ConnectionName, Locked, Need};
use countersign_core::ports::documents::{ChangedDocuments, DocumentChange, DocumentChanges, DocumentQuery};
use countersign_core::ports::events::{Cause, Origin};
use countersign_core::ports::runs::{
    Fired, FiredGathering, Gather, Gathered, GatheredEvent, Gathering, Lease, NewFiring, Occasion, ReserveBudget, Reserved, SavedRun, Then,
};
use countersign_core::ports::secrets::{SecretName, SecretValue};
use countersign_core::ports::sources::{AddedSource, Hints, McpServer, SourceSettings};
use countersign_core::ports::{
    AddedSources, Artifacts, Automations, Batches, Breakers, Claims, Definitions, Documents, EventBus, EventFeed, Invocations,
    KeptConnections, Lines, Principals, Quarantines, Rules, Runs, Secrets, Sessions,
};
use countersign_core::price::{Price, ResultField, Unit};
use countersign_core::principal::Role;
use countersign_core::quarantine::{Caught, Holds, QuarantineState};
use countersign_core::retention::Retention;
use countersign_core::source::{KeptListing, Listings};
use countersign_core::switch::{Stop, SwitchScope};
use countersign_core::{
    Action, ActionId, Amount, ArtifactId, Band, Batch, CanaryId, ChannelId, ConnectionId, ConsentId, DeadLetterId, DeliveryId, Digest,
    DocumentId, DraftId, GrantId, Invocation, InvocationId, Mode, NotificationId, Principal, PrincipalId, ReceiptId, Secret, SecretId,
    Session, SourceId, SpaceId, Status,
};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use store::{
    Added, AddedChannel, ArtifactFilter, AutomationFilter, Changed, CreatedConnection, Crossing, DeliveryEnd, DeliveryFilter,
    DocumentFilter, FiringFilter, GrantFilter, InvocationFilter, LetIn, LoginEnd, ModeChange, Move, NewAllowed, NewChannel, NewConnection,
    NewConsent, NewGrant, NewSecret, RunFilter, SaveAutomation, Saved, SetSecret, SignedIn, SpaceChange, Store, TriggerChange, UserChange,
};

on_both_engines!(no_read_returns_a_row_of_another_org, no_write_changes_a_row_of_another_org);

/// An org with rows in every table.
struct Full {
    tenant: Tenant,
    pending: Invocation,
    running: Invocation,
    ended: Invocation,
    reverted: Invocation,
    receipt: ReceiptId,
    notification: NotificationId,
    notified: InvocationId,
    grant: GrantId,
    request: GrantId,
    consent: ConsentId,
    quarantined: InvocationId,
    other_space: SpaceId,
    canary: CanaryId,
    secret: SecretId,
    secret_name: SecretName,
    connection: ConnectionId,
    connection_name: ConnectionName,
    channel: ChannelId,
    delivery: DeliveryId,
    letter: DeadLetterId,
    claim: ClaimRef,
    batch: Batch,
    automation: Automation,
    draft: DraftId,
    document: DocumentId,
    /// Its run is leased.
    lease: Lease,
    gathering: Gathering,
    artifact: ArtifactId,
}

const KEY: &str = "order-7";

fn limited(max_band: Band) -> UserChange {
    UserChange { max_band: Some(max_band), ..UserChange::default() }
}

/// A command that both orgs have, with terms that name the org.
fn allowed(name: &str) -> NewAllowed {
    NewAllowed { list: AllowedList::Commands, entry: "5f0c2a9d11e47b60".to_owned(), terms: Some(format!("\"of {name}\"")) }
}

/// A source that both orgs have.
fn remote() -> SourceId {
    SourceId::parse("remote").unwrap()
}

/// A source that has the same name in both orgs, with a title that names the org.
async fn add_source(store: &Store, of: &Tenant) -> Result<Added, store::Error> {
    store.add_source(&of.org, remote(), settings(of), &of.person(), 10, None).await
}

/// A group that both orgs have.
fn group() -> GroupName {
    GroupName::parse("shared").unwrap()
}

/// An event whose id names the org.
fn event_of(name: &str, number: u32) -> NewEvent {
    NewEvent {
        name: "drive.file_added".to_owned(),
        key: format!("event of {name}"),
        body: "{}".to_owned(),
        origin: Some(Origin { source: "/drive".to_owned(), id: format!("event {number} of {name}"), time: None, more: BTreeMap::new() }),
        space: None,
        cause: Cause::default(),
    }
}

/// One event becomes a dead letter, and another one is claimed.
async fn consume(store: &Store, of: &Tenant, name: &str) -> (DeadLetterId, ClaimRef) {
    let new = NewGroup { deliveries_max: 1, ..NewGroup::ours(group(), Start::Now) };
    store.subscribe(&of.org, new).await.unwrap();
    store.publish(&of.org, vec![event_of(name, 1), event_of(name, 2)]).await.unwrap();
    let first = store.claim_events(&of.org, &group(), 1).await.unwrap().unwrap().remove(0).claim;
    assert_eq!(store.nack_events(&of.org, &group(), vec![first], 0, format!("problem of {name}")).await, Ok(vec![]));
    let letter = store.list_dead_letters(&of.org, None, &everything()).await.unwrap().items.remove(0).id;
    let claim = store.claim_events(&of.org, &group(), 1).await.unwrap().unwrap().remove(0).claim;
    (DeadLetterId::parse(&letter).unwrap(), claim)
}

/// A channel whose name names the org.
async fn add_channel(store: &Store, of: &Tenant, name: &str) -> ChannelId {
    let settings = json!({ "url": "https://example.com/hook", "secret": "hook" });
    let (tiers, bands) = (Vec::new(), Vec::new());
    let new = NewChannel {
        name: name.to_owned(),
        kind: "webhook".to_owned(),
        settings,
        space: None,
        tiers,
        bands,
        attendance: None,
        after_seconds: 0,
    };
    match store.add_channel(&of.org, new, Vec::new(), &of.person()).await.unwrap() {
        AddedChannel::Done(channel) => channel.id,
        refused @ (AddedChannel::Taken | AddedChannel::NoSecret(_) | AddedChannel::TooMany) => {
            panic!("names are the org's own: {refused:?}")
        }
    }
}

fn settings(of: &Tenant) -> SourceSettings {
    SourceSettings {
        title: of.org.to_string(),
        server: McpServer::Http { url: "https://mcp.example.com".to_owned() },
        connection: None,
        default_tier: None,
        hints: Hints::Untrusted,
        tiers: BTreeMap::new(),
        spaces: None,
        list_timeout_ms: 1,
        call_timeout_ms: 1,
    }
}

/// A listing with one action, whose description names the org.
fn listing(of: &Tenant) -> KeptListing {
    let described = Action { description: of.org.to_string(), ..testkit::source::action("remote.read") };
    KeptListing { actions: vec![Arc::new(described)], listed_at: testkit::clock::START }
}

async fn full(world: &World, name: &str) -> Full {
    let (store, tenant) = (&world.store, world.tenant(name).await);
    let mut keyed = tenant.writing();
    keyed.idempotency_key = Some(KEY.into());
    store.hold(tenant.hold(&keyed)).await.unwrap();
    let running = tenant.running(store).await;
    let ended = tenant.read_once(store).await;
    let reverted = Invocation { status: Status::Succeeded, evidence: Some(json!({})), ..tenant.reading() };
    let revert = Invocation { idempotency_key: Some(revert_key(&reverted.id)), ..tenant.reading() };
    let begun = tenant.begin(&revert, Row::Insert);
    let running_revert = begun.invocation.clone();
    assert_eq!(store.begin(begun).await.unwrap(), Begun::Started);
    store.finish(tenant.finish(&running_revert, Row::Begun, Status::Succeeded).into()).await.unwrap();
    assert_eq!(store.find_reverts(std::slice::from_ref(&reverted)).await.unwrap(), BTreeMap::from([(reverted.id.clone(), revert.id)]));
    let by = PrincipalId::User(tenant.owner.clone());
    let change =
        ModeChange { automation: None, action: action(WRITE), mode: Some(Mode::RequireApproval), lock: Lock::Open, by, invocation: None };
    store.change_mode(&tenant.org, change).await.unwrap();
    let other_space = store.create_space(&tenant.org, &format!("space of {name}"), &tenant.person()).await.unwrap().unwrap().id;
    let notification = Notification {
        id: tenant.draw(NotificationId::new),
        org: tenant.org.clone(),
        space: tenant.space.clone(),
        invocation: Some(tenant.draw(InvocationId::new)),
        title: name.into(),
        body: String::new(),
        created_at: store.now().await.unwrap(),
    };
    store.deliver(&notification).await.unwrap();
    let by = tenant.person();
    let grant = store.give_grant(&tenant.org, new_grant(&tenant), &by).await.unwrap().id;
    let request = store.request_grant(&tenant.org, new_grant(&tenant), &by).await.unwrap().id;
    store.switch_on(&tenant.org, switched(&tenant), Stop::Everything, name, &by).await.unwrap();
    let pin = Pin { structural: digest(1), textual: digest(2), wording: Wording::Reviewed, seen: None, changed_at: None };
    store.review(&tenant.org, &action(READ), pin, &by).await.unwrap();
    let consent = store.give_consent(&tenant.org, new_consent(&tenant)).await.unwrap().id;
    store.allow_crossing(&tenant.org, crossing(&tenant, &other_space), &by).await.unwrap();
    store.set_price(&tenant.org, &action(WRITE), price_of(name), &by).await.unwrap();
    store.set_allowed(&tenant.org, allowed(name), &by).await.unwrap();
    store.set_policies(&tenant.org, PolicyTexts { abac: format!("// of {}", tenant.org), ..PolicyTexts::default() }, &by).await.unwrap();
    store.change_user(&tenant.org, &tenant.owner, limited(Band::Red), &by).await.unwrap();
    let canary = store.add_canary(&tenant.org, &format!("canary of {name}"), &by).await.unwrap().id;
    let secret_name = SecretName::parse(&format!("secret-of-{name}")).unwrap();
    let made = store.set_secret(&tenant.org, new_secret(&secret_name, &format!("value of {name}"), None), &by).await.unwrap();
    let SetSecret::Created(secret) = made else { panic!("it is new") };
    // It is used once before, so that the uses below change nothing.
    store.resolve_secret(&tenant.org, &secret_name).await.unwrap();
    let connection_name = ConnectionName::parse(&format!("connection-of-{name}")).unwrap();
    let made = store.create_connection(&tenant.org, new_connection(&connection_name), &by).await.unwrap();
    let CreatedConnection::Created(connection) = made else { panic!("it is new") };
    store.open_connection(&tenant.org, &connection.id).await.unwrap();
    let mail = NewConnection {
        name: ConnectionName::parse(&format!("mail-connection-of-{name}")).unwrap(),
        kind: ConnectionKind::Smtp,
        ..new_connection(&connection_name)
    };
    store.create_connection(&tenant.org, mail, &by).await.unwrap();
    let (state, details) = (Secret::new(format!("state of {name}")), SecretValue::new(Secret::new(format!("details of {name}"))).unwrap());
    store.start_login(&tenant.org, &connection.id, &state, &details, &by).await.unwrap();
    store.label_session(&tenant.org, &tenant.session.id, "private_data", &tenant.draw(InvocationId::new)).await.unwrap();
    let dangerous = tenant.calling(WRITE, Status::Quarantined);
    let mut finish = tenant.finish(&dangerous, Row::Insert, Status::Quarantined);
    finish.quarantine = Some(NewQuarantine {
        holds: Holds::Params,
        sealed: SealedPayload { bytes: tenant.org.as_str().as_bytes().to_vec(), digest: digest(3) },
        caught: vec![Caught { rule: "rule".into(), pointer: String::new(), message: name.into() }],
        lifetime_seconds: 60,
    });
    store.finish(finish.into()).await.unwrap();
    let until = store.now().await.unwrap().plus_seconds(60);
    store.snooze(&tenant.org, &keyed.id, &tenant.owner, until).await.unwrap();
    assert_eq!(store.use_slack_request(&tenant.org, name.as_bytes(), until).await, Ok(true));
    store.leave(line_of(&keyed)).await.unwrap();
    store.log_in(&tenant.as_owner).await.unwrap().unwrap();
    store.start_sign_in(&tenant.org, "browser", "https://cs.example.com/back", Some(name)).await.unwrap();
    assert!(matches!(store.sign_in(&tenant.org, let_in(name)).await, Ok(SignedIn::Done(_))));
    store.bind_link(&tenant.org, &format!("link of {}", tenant.org), "browser", until).await.unwrap();
    store.keep_listing(&tenant.org, &remote(), listing(&tenant)).await.unwrap();
    assert!(matches!(add_source(store, &tenant).await, Ok(Added::Done(_))), "names are the org's own");
    let channel = add_channel(store, &tenant, &format!("channel of {name}")).await;
    let rules_version = store.rules_version_anew(&tenant.org).await.unwrap();
    let waits = store.hold(Hold { rules_version, ..tenant.hold(&tenant.writing()) }).await;
    assert_eq!(waits, Ok(Held::Pending));
    assert_eq!(store.fill_outbox(&tenant.org).await, Ok(false));
    let delivery = store.list_deliveries(&tenant.org, &DeliveryFilter::default(), &everything()).await.unwrap().items.remove(0).id;
    let (letter, claim) = consume(store, &tenant, name).await;
    store.checkpoint(&tenant.org).await.unwrap();
    // Opens the key, so that it is in memory: a key in memory must not be given to another org.
    store.space_key(&tenant.org, &tenant.space).await.unwrap();
    let receipt = ended.receipt.clone().unwrap().id;
    let opened = store.open_batch(tenant.new_batch(Some(KEY))).await.unwrap();
    let OpenedBatch::New(batch) = opened else { panic!("it is new") };
    let automation = automations::saved(store, &tenant, &format!("automation of {name}")).await;
    let draft = store.add_draft(&tenant.org, &tenant.space, None, json!(format!("draft of {name}")), &tenant.person()).await;
    let draft = draft.unwrap().unwrap().id;
    let fired = store.fire(automations::firing(&tenant, &automation, Occasion::Request)).await.unwrap();
    assert!(matches!(fired, Fired::New(_)));
    let lease = store.claim_runs(&["fast".to_owned()], 1).await.unwrap().remove(0);
    // Full already, so it is due at once.
    let gather = automations::gathered(&tenant, &automation, 1, Gather::Batch { max: 1, window_seconds: 60 });
    assert!(matches!(store.gather(gather).await, Ok(Gathered::Until(_))));
    let due = store.list_due_gatherings(100).await.unwrap();
    let gathering = due.into_iter().find(|gathering| gathering.org == tenant.org).unwrap();
    let most = Amount::from_millionths(1).unwrap();
    let reserve = ReserveBudget { lease: lease.clone(), key: name.into(), action: WRITE.to_owned(), most, cap: Amount::MAX };
    assert_eq!(store.reserve_budget(reserve).await, Ok(Reserved::Done));
    let (title, text) = (format!("document of {name}"), format!("text of {name}"));
    let imported = documents::addition(&tenant, Some("shared.md"), documents::state(&title, &text, &["shared"]));
    let document = imported.id.clone();
    let added = store.change_documents(documents::changes(&tenant, vec![imported], &[&text])).await;
    assert_eq!(added, Ok(ChangedDocuments::Done), "files are the org's own");
    let artifact = store.add_artifact(artifacts::new(&tenant, &format!("artifact of {name}"))).await.unwrap().id;
    Full {
        artifact,
        automation,
        gathering,
        draft,
        document,
        lease,
        pending: keyed,
        running,
        ended,
        reverted,
        receipt,
        notification: notification.id,
        notified: notification.invocation.unwrap(),
        grant,
        request,
        consent,
        quarantined: dangerous.id,
        other_space,
        canary,
        secret: secret.id,
        secret_name,
        connection: connection.id,
        connection_name,
        channel,
        delivery,
        letter,
        claim,
        batch,
        tenant,
    }
}

fn new_grant(tenant: &Tenant) -> NewGrant {
    let scope = GrantScope::Session(tenant.session.id.clone());
    let covers = Covers::parse(WRITE).unwrap();
    let terms = GrantTerms { scope, space: None, covers, condition: None, calls_max: Some(2), sum_max: None, definition: None };
    NewGrant { terms, lifetime_seconds: 3_600, reason: None }
}

fn new_consent(tenant: &Tenant) -> NewConsent {
    let purpose = "action:files.write_text".to_owned();
    NewConsent { user: tenant.owner.clone(), space: None, purpose, evidence: None, lifetime_seconds: None }
}

fn new_secret(name: &SecretName, value: &str, replaces: Option<i64>) -> NewSecret {
    let value = SecretValue::new(Secret::new(value.to_owned())).unwrap();
    NewSecret { name: name.clone(), value, description: None, replaces }
}

fn new_connection(name: &ConnectionName) -> NewConnection {
    NewConnection {
        name: name.clone(),
        kind: ConnectionKind::Bearer,
        url: "https://api.example.com".to_owned(),
        account: None,
        from: None,
        secret: None,
        scopes: None,
        spaces: None,
        value: SecretValue::new(Secret::new(format!("credential of {name}"))),
    }
}

/// Somebody whom one issuer lets in, whatever the org.
fn let_in(subject: &str) -> LetIn {
    let (issuer, name) = ("https://login.example.com".to_owned(), format!("signed in of {subject}"));
    LetIn { issuer, subject: subject.to_owned(), name, role: Role::Viewer }
}

/// The line of a call whose caller has left.
fn line_of(of: &Invocation) -> NewLine {
    let (org, session, invocation) = (of.org.clone(), of.session.clone(), of.id.clone());
    NewLine { org, session, invocation, identity: digest(4), line: "line".into(), kept_seconds: 60 }
}

/// Another one for each name.
fn price_of(name: &str) -> Price {
    let unit = Unit { field: ResultField::parse(&format!("result.{name}")).unwrap(), at_most: Amount::MAX };
    Price { usd: Amount::default(), unit: Some(unit) }
}

fn crossing(tenant: &Tenant, to: &SpaceId) -> Crossing {
    Crossing { from: tenant.space.clone(), to: to.clone(), action: action(WRITE) }
}

fn switched(tenant: &Tenant) -> SwitchScope {
    SwitchScope::Space(tenant.space.clone())
}

fn digest(byte: u8) -> Digest {
    Digest::new([byte; 32])
}

fn action(text: &str) -> ActionId {
    ActionId::parse(text).unwrap()
}

/// Calls every function that reads, as `ours`, with the ids of `theirs`. Returns the text of all answers.
async fn read_everything(store: &Store, ours: &Full, theirs: &Full) -> Vec<(&'static str, String)> {
    let org = &ours.tenant.org;
    let mut found = Vec::new();
    macro_rules! asked {
        ($($name:ident: $answer:expr;)*) => { $(found.push((stringify!($name), format!("{:?}", $answer)));)* };
    }
    let all = everything();
    let session = Some(theirs.tenant.session.id.clone());
    let filter = InvocationFilter { session, ..InvocationFilter::default() };
    let receipts = store::ReceiptFilter { space: Some(theirs.tenant.space.clone()), ..store::ReceiptFilter::default() };
    let agent = PrincipalId::Agent(theirs.tenant.session.id.clone());
    let user = PrincipalId::User(theirs.tenant.owner.clone());
    let service = PrincipalId::Service(theirs.tenant.agent_token_id.clone());
    let spaces = BTreeSet::from([theirs.tenant.space.clone()]);
    let event = store.list_events_after(&theirs.tenant.org, 0, 1).await.unwrap().remove(0);
    asked! {
        is_about: store.is_about(org, &spaces, theirs.automation.id.as_str()).await.unwrap();
        is_event_about: store.is_event_about(org, &spaces, &event, None).await.unwrap();
        is_heard_in: store.is_heard_in(org, &theirs.tenant.space, &event).await.unwrap();
        is_enabled: store.is_enabled(org).await.unwrap();
        find_invocation: store.find_invocation(org, &theirs.ended.id).await.unwrap();
        find_sealed_params: store.find_sealed_params(org, &theirs.pending.id).await.unwrap();
        find_receipt: store.find_receipt(org, &theirs.receipt).await.unwrap();
        find_session: store.find_session(org, &theirs.tenant.session.id).await.unwrap();
        find_space: store.find_space(org, &theirs.tenant.space).await.unwrap();
        find_space_by_name: store.find_space_by_name(org, "space of theirs").await.unwrap();
        find_user: store.find_user(org, &theirs.tenant.owner).await.unwrap();
        find_active_user: store.find_active_user(org, theirs.tenant.owner.as_str()).await.unwrap();
        find_token: store.find_token(org, &theirs.tenant.agent_token_id).await.unwrap();
        find_mcp_wishes: store.find_mcp_wishes(org, &theirs.tenant.agent_token_id).await.unwrap();
        find_token_of: store.find_token_of(org, "owner").await.unwrap();
        find_principal: store.find_principal(org, &agent).await.unwrap();
        find_principal: store.find_principal(org, &user).await.unwrap();
        find_principal: store.find_principal(org, &service).await.unwrap();
        find_principal_in: store.find_principal_in(org, &agent, &theirs.tenant.session.id).await.unwrap();
        list_signed_answers: store.list_signed_answers(org, &theirs.pending.id).await.unwrap();
        find_signed_intent: store.find_signed_intent(org, &theirs.running.id).await.unwrap();
        check_integrity: store.check_integrity(org).await.unwrap();
        find_bearer: store.find_bearer(org, &theirs.tenant.agent_token_id).await.unwrap();
        find_reservation: store.find_reservation(org, &theirs.tenant.space, &theirs.pending.action, KEY).await.unwrap();
        find_grant: store.find_grant(org, &theirs.grant).await.unwrap();
        find_grant_of: store.find_grant_of(org, &theirs.pending.id).await.unwrap();
        find_mode_of: store.find_mode_of(org, &theirs.pending.id).await.unwrap();
        find_grants: store.find_grants(&Session { org: org.clone(), ..theirs.tenant.session.clone() }, &action(WRITE)).await.unwrap();
        find_pin: store.find_pin(org, &action(READ)).await.unwrap();
        find_review: store.find_review(org, &action(READ)).await.unwrap();
        find_definition: store.find_definition(org, digest(2)).await.unwrap();
        find_policies: store.find_policies(org).await.unwrap();
        find_purposes: store.find_purposes(org, &theirs.tenant.owner, &theirs.tenant.space).await.unwrap();
        find_standing: store.find_standing(org, &theirs.tenant.owner).await.unwrap();
        find_labels: store.find_labels(org, &theirs.tenant.session.id).await.unwrap();
        list_labels: store.list_labels(org, &theirs.tenant.session.id).await.unwrap();
        find_reverts: store.find_reverts(std::slice::from_ref(&Invocation { org: org.clone(), ..theirs.reverted.clone() })).await.unwrap();
        find_quarantine: store.find_quarantine(org, &theirs.quarantined).await.unwrap();
        find_quarantined: store.find_quarantined(org, &theirs.quarantined).await.unwrap();
        find_price: store.find_price(org, &action(WRITE)).await.unwrap();
        list_prices: store.list_prices(org, &all).await.unwrap();
        list_allowed: store.list_allowed(org).await.unwrap();
        is_crossing: store.is_crossing(org, &theirs.tenant.space, theirs.other_space.as_str(), &action(WRITE)).await.unwrap();
        list_approvers: store.list_approvers(org).await.unwrap();
        list_canaries: store.list_canaries(org).await.unwrap();
        list_canary_texts: store.list_canary_texts(org).await.unwrap();
        find_secret: store.find_secret(org, &theirs.secret_name).await.unwrap();
        list_secrets: store.list_secrets(org, &all).await.unwrap();
        list_secret_uses: store.list_secret_uses(org, &theirs.secret_name).await.unwrap();
        resolve_secret: store.resolve_secret(org, &theirs.secret_name).await.unwrap().map(|value| value.expose().to_owned());
        secret_version: store.secret_version(org, &theirs.secret_name).await.unwrap();
        find_connection: store.find_connection(org, &theirs.connection_name).await.unwrap();
        find_connection_by_id: store.find_connection_by_id(org, &theirs.connection).await.unwrap();
        list_connections: store.list_connections(org, &BTreeSet::new(), &all).await.unwrap();
        open_connection: store.open_connection(org, &theirs.connection).await.unwrap().and_then(|opened| opened.value).map(|value| value.expose().to_owned());
        mail_connections: store.mail_connections(org).await.unwrap();
        connection_version: store.connection_version(org, &theirs.connection).await.unwrap();
        find_login: store.find_login(org, &theirs.connection).await.unwrap();
        find_source: store.find_source(org, &remote()).await.unwrap();
        list_sources: store.list_sources(org, &BTreeSet::new(), &all).await.unwrap();
        added_sources: store.added_sources(org).await.unwrap();
        all_sources: store.all_sources(org).await.unwrap();
        find_channel: store.find_channel(org, &theirs.channel).await.unwrap();
        find_channel_by_name: store.find_channel_by_name(org, "channel of theirs").await.unwrap();
        list_channels: store.list_channels(org, &BTreeSet::new(), &all).await.unwrap();
        list_due_channels: store.list_due_channels(org).await.unwrap();
        find_delivery: store.find_delivery(org, &theirs.delivery).await.unwrap();
        list_deliveries: store.list_deliveries(org, &DeliveryFilter { channel: Some(theirs.channel.clone()), ..DeliveryFilter::default() }, &all).await.unwrap();
        list_deliveries: store.list_deliveries(org, &DeliveryFilter::default(), &all).await.unwrap();
        count_deliveries: store.count_deliveries(org, &theirs.channel, DeliveryState::Waiting).await.unwrap();
        list_consents: store.list_consents(org, None, &BTreeSet::new(), &BTreeSet::new(), &all).await.unwrap();
        list_consents: store.list_consents(org, Some(&theirs.tenant.owner), &BTreeSet::new(), &BTreeSet::new(), &all).await.unwrap();
        list_crossings: store.list_crossings(org).await.unwrap();
        list_policy_versions: store.list_policy_versions(org, &all).await.unwrap();
        list_quarantines: store.list_quarantines(org, None, &BTreeSet::new(), &all).await.unwrap();
        find_modes: store.find_modes(org, None, &action(READ)).await.unwrap();
        list_entries_of: store.list_entries_of(org, &theirs.ended.id).await.unwrap();
        list_invocations: store.list_invocations(org, &filter, &all).await.unwrap();
        list_invocations: store.list_invocations(org, &InvocationFilter::default(), &all).await.unwrap();
        list_in_status: store.list_in_status(org, Status::Running, None).await.unwrap();
        list_expired: store.list_expired(org, Status::Pending).await.unwrap();
        list_pending_of: store.list_pending_of(org, &action(WRITE), None).await.unwrap();
        list_asked_for: store.list_asked_for(org, &theirs.tenant.space, testkit::clock::START, 9).await.unwrap();
        list_grants: store.list_grants(org, &GrantFilter::default(), &all).await.unwrap();
        list_grants: store.list_grants(org, &GrantFilter { covers: Some(action(WRITE)), ..GrantFilter::default() }, &all).await.unwrap();
        list_switches: store.list_switches(org).await.unwrap();
        list_reviews: store.list_reviews(org, &BTreeSet::new(), &all).await.unwrap();
        find_batch: store.find_batch(org, &theirs.batch.id).await.unwrap();
        find_sealed_parts: store.find_sealed_parts(org, &theirs.batch.id).await.unwrap();
        list_batches: store.list_batches(org, None, &BTreeSet::new(), &all).await.unwrap();
        list_batches: store.list_batches(org, Some(&theirs.tenant.session.id), &BTreeSet::new(), &all).await.unwrap();
        list_left_behind: store.list_left_behind(org, None).await.unwrap();
        list_left_batches: store.list_left_batches(org).await.unwrap();
        list_batches_in_status: store.list_batches_in_status(org, BatchStatus::Running).await.unwrap();
        list_breakers: store.list_breakers(org).await.unwrap();
        find_listing: store.find_listing(org, &remote()).await.unwrap();
        find_opened_link: store.find_opened_link(org, &format!("link of {}", theirs.tenant.org), "browser").await.unwrap();
        has_left: store.has_left(org, &theirs.pending.id).await.unwrap();
        list_snoozes: store.list_snoozes(org, &theirs.tenant.owner).await.unwrap();
        rules_version: store.rules_version(org).await.unwrap();
        rules_version_anew: store.rules_version_anew(org).await.unwrap();
        list_receipts: store.list_receipts(org, &store::ReceiptFilter::default(), &all).await.unwrap();
        list_receipts: store.list_receipts(org, &receipts, &all).await.unwrap();
        find_action_stats: store.find_action_stats(org, &action(READ), &BTreeSet::new(), None).await.unwrap();
        find_retention: store.find_retention(org).await.unwrap();
        list_sessions: store.list_sessions(org, &BTreeSet::new(), &all).await.unwrap();
        list_spaces: store.list_spaces(org, &BTreeSet::new(), &all).await.unwrap();
        list_closed_spaces: store.list_closed_spaces(org).await.unwrap();
        list_users: store.list_users(org, &all).await.unwrap();
        list_tokens: store.list_tokens(org, &all).await.unwrap();
        find_token_named: store.find_token_named(org, theirs.tenant.owner.as_str(), "first").await.unwrap();
        list_modes: store.list_modes(org, None, &all).await.unwrap();
        list_mode_versions: store.list_mode_versions(org, None, &all).await.unwrap();
        list_mode_versions: store.list_mode_versions(org, Some(&action(READ)), &all).await.unwrap();
        newest_event: store.newest_event(org).await.unwrap();
        oldest_event: store.oldest_event(org).await.unwrap();
        list_events_after: store.list_events_after(org, 0, 1_000).await.unwrap();
        find_event: store.find_event(org, theirs.claim.seq).await.unwrap();
        find_event_by_id: store.find_event_by_id(org, "event 1 of theirs").await.unwrap();
        find_event_from: store.find_event_from(org, testkit::clock::START).await.unwrap();
        list_event_groups: store.list_event_groups(org).await.unwrap();
        find_event_group: store.find_event_group(org, &group()).await.unwrap();
        list_dead_letters: store.list_dead_letters(org, None, &all).await.unwrap();
        find_dead_letter: store.find_dead_letter(org, theirs.letter.as_str()).await.unwrap();
        list_notifications: store.list_notifications(org, &BTreeSet::new(), &all).await.unwrap();
        find_delivered: store.find_delivered(org, &theirs.notified).await.unwrap();
        list_log_keys: store.list_log_keys(org).await.unwrap();
        count_in_status: store.count_in_status(org, Status::Pending).await.unwrap();
        count_invocations: store.count_invocations(org, &store::InvocationFilter::default()).await.unwrap();
        log_size: store.log_size(org).await.unwrap();
        check_keys: store.check_keys(org).await.unwrap();
        checkpoint: store.checkpoint(org).await.unwrap();
        latest_checkpoint: store.latest_checkpoint(org).await.unwrap();
        prove_receipt: store.prove_receipt(org, &theirs.receipt).await.unwrap();
        space_key: store.space_key(org, &theirs.tenant.space).await.map(|_| "their key").unwrap_or("refused");
        find_automation: store.find_automation(org, &theirs.automation.id).await.unwrap();
        find_automation_by_name: store.find_automation_by_name(org, &theirs.tenant.space, "automation of theirs").await.unwrap();
        find_automation_definition: store.find_automation_definition(org, theirs.automation.definition).await.unwrap();
        list_automations: store.list_automations(org, &AutomationFilter::default(), &all).await.unwrap();
        list_automation_versions: store.list_automation_versions(org, &theirs.automation.id, &all).await.unwrap();
        find_trigger: store.find_trigger(org, &theirs.automation.id, "hook").await.unwrap();
        last_fired_at: store.last_fired_at(org, &theirs.automation.id).await.unwrap();
        find_trigger_payload: store.find_trigger_payload(org, &theirs.lease.run).await.unwrap();
        is_waited_for: store.is_waited_for(org, std::slice::from_ref(&theirs.pending.id)).await.unwrap();
        list_triggers: store.list_triggers(org, &theirs.automation.id).await.unwrap();
        list_event_triggers: store.list_event_triggers(org).await.unwrap();
        find_draft: store.find_draft(org, &theirs.draft).await.unwrap();
        list_drafts: store.list_drafts(org, &BTreeSet::new(), &all).await.unwrap();
        list_firings: store.list_firings(org, &theirs.automation.id, &FiringFilter::default(), &all).await.unwrap();
        find_run: store.find_run(org, &theirs.lease.run).await.unwrap();
        find_run_cost: store.find_run_cost(org, &theirs.lease.run).await.unwrap();
        find_run_of_session: store.find_run_of_session(org, &theirs.tenant.session.id).await.unwrap();
        mean_cost: store.mean_cost(org, WRITE).await.unwrap();
        measured_p95_ms: store.measured_p95_ms(org, WRITE).await.unwrap();
        chain_of: store.chain_of(org, &theirs.tenant.session.id).await.unwrap();
        read_chain: store.read_chain(org, "v1;aut_01k4c2w9pbnm7sxa8jw5z3d6ht;nothing");
        list_runs: store.list_runs(org, &RunFilter::default(), &all).await.unwrap();
        list_steps: store.list_steps(org, &theirs.lease.run).await.unwrap();
        find_artifact: store.find_artifact(org, &theirs.artifact).await.unwrap();
        list_artifacts: store.list_artifacts(org, &ArtifactFilter::default(), &all).await.unwrap();
        list_expired_artifacts: store.list_expired_artifacts(org, None, 10).await.unwrap();
        find_made: store.find_made(org, &theirs.tenant.session.id, KEY).await.unwrap();
        find_whole_result: store.find_whole_result(org, &theirs.ended.id).await.unwrap();
        find_document: store.find_document(org, &theirs.tenant.space, &theirs.document).await.unwrap();
        read_document: store.read_document(org, &theirs.tenant.space, &theirs.document).await.unwrap();
        find_document_of_org: store.find_document_of_org(org, &theirs.document).await.unwrap();
        list_imported: store.list_imported(org, &theirs.tenant.space, "").await.unwrap();
        search_documents: store.search_documents(org, &theirs.tenant.space, &found_by("document")).await.unwrap();
        search_documents: store.search_documents(org, &ours.tenant.space, &found_by("document")).await.unwrap();
        list_documents: store.list_documents(org, &DocumentFilter::default(), &all).await.unwrap();
        authenticate: store.authenticate(&ours.tenant.owner_token).await.unwrap();
    }
    let mut export = store.export(org).await.unwrap();
    while let Some(line) = export.recv().await {
        found.push(("export", line.unwrap()));
    }
    found
}

fn found_by(word: &str) -> DocumentQuery {
    DocumentQuery { words: vec![word.to_owned()], limit: 10, ..DocumentQuery::default() }
}

/// Functions that read nothing of an org, or every org on purpose; each with its reason.
const NOT_OF_ONE_ORG: [(&str, &str); 47] = [
    ("list_due_triggers", "for one clock, which goes on by org"),
    ("list_stray_schedules", "for one clock, which goes on by org"),
    ("next_due_at", "a time, for one clock"),
    ("list_due_gatherings", "for one clock, which goes on by org"),
    ("next_gathering_at", "a time, for one clock"),
    ("count_due_runs", "a number, of everything"),
    ("find_hook", "whoever calls a webhook has its token alone"),
    ("list_signed_hooks", "whoever calls a webhook has its signature alone"),
    ("claim_runs", "for workers, which go on by org"),
    ("keep_leases", "for workers, of runs that they lease"),
    ("free_lost_runs", "a number, of everything"),
    ("free_all_runs", "a number, of everything"),
    ("free_earlier_runs", "a number, of everything"),
    ("wake_forgotten_runs", "a number, of everything"),
    ("promote_stuck_runs", "a number, of everything"),
    ("open", "no row is returned"),
    ("open_unchanged", "no row is returned"),
    ("check", "no row is returned"),
    ("check_readiness", "no row is returned"),
    ("now", "a clock"),
    ("wait_for_event", "no row is returned"),
    ("is_shared", "no row is returned"),
    ("join", "a lock, and this server's own lease"),
    ("renew_lease", "this server's own lease"),
    ("end_lease", "this server's own lease"),
    ("end_earlier_leases", "leases of servers that this one replaces"),
    ("list_servers", "the operator's: servers work for every org"),
    ("forget_servers", "no row is returned"),
    ("list_orgs", "for background loops, which go on by org"),
    ("backup", "the operator's, of everything"),
    ("restore", "the operator's, of everything"),
    ("find_master_key", "the operator's: the key seals for every org"),
    ("count_sealed_otherwise", "the operator's: a number, of everything"),
    ("begin_replacement", "the operator's, of everything"),
    ("reseal_some", "the operator's, of everything"),
    ("end_replacement", "the operator's, of everything"),
    ("find_org_of_login", "whoever comes back has the state alone, which names the org"),
    ("find_logged_in", "the browser shows its login alone, which names the org"),
    ("extend_login", "the browser shows its login alone, which names the org; it lasts longer"),
    ("log_out", "the browser shows its login alone, which names the org; it is ended"),
    ("connect", "the limiter, which counts by ids that no two orgs share"),
    ("find_called_channel", "Slack names the channel alone; what it signs decides whether it is answered"),
    ("create_org", "makes the org it returns"),
    ("add_org", "an operator's: makes the org it returns"),
    ("redeem", "the invitation says of which org it is"),
    ("disable_org", "an operator's, of another org on purpose"),
    ("is_of_another_org", "a yes or no for a metric; no door tells it"),
];

/// Functions that write. `no_write_changes_a_row_of_another_org` calls each of them.
const WRITES: [&str; 133] = [
    "hold_group",
    "change_documents",
    "forget_documents",
    "add_artifact",
    "forget_artifact",
    "quarantine_artifact",
    "pass_events",
    "save_automation",
    "set_automation_status",
    "change_trigger",
    "rotate_hook_token",
    "pass_ticks",
    "add_draft",
    "drop_draft",
    "forget_drafts",
    "fire",
    "forget_firings",
    "gather",
    "fire_gathered",
    "reserve_budget",
    "settle_budget",
    "save_run",
    "save_run_along",
    "give_back",
    "cancel_run",
    "publish",
    "subscribe",
    "claim_events",
    "ack_events",
    "nack_events",
    "move_event_group",
    "remove_event_group",
    "retry_dead_events",
    "drop_dead_event",
    "answer_failure",
    "forget_dead_letters",
    "add_channel",
    "use_slack_request",
    "remove_channel",
    "fill_outbox",
    "claim_deliveries",
    "end_delivery",
    "retry_deliveries",
    "drop_deliveries",
    "forget_deliveries",
    "set_retention",
    "forget_old",
    "digest_ended",
    "invite",
    "record_link",
    "log_in",
    "start_sign_in",
    "take_sign_in",
    "sign_in",
    "bind_link",
    "keep_listing",
    "note_listing",
    "claim",
    "claim_silent",
    "release",
    "open_batch",
    "save_batch",
    "end_batch",
    "break_once",
    "claim_probe",
    "close_breaker",
    "forget_breakers",
    "create_space",
    "change_space",
    "replace_modes",
    "forget_expired_keys",
    "give_grant",
    "give_consent",
    "withdraw_consent",
    "set_allowed",
    "remove_allowed",
    "set_price",
    "remove_price",
    "allow_crossing",
    "forbid_crossing",
    "set_policies",
    "add_canary",
    "remove_canary",
    "set_secret",
    "delete_secret",
    "create_connection",
    "remove_connection",
    "add_source",
    "change_source",
    "remove_source",
    "start_login",
    "take_login",
    "end_login",
    "lock_tokens",
    "keep_tokens",
    "unlock_tokens",
    "need_login",
    "change_user",
    "label_session",
    "look_at_quarantined",
    "settle_quarantine",
    "expire_quarantines",
    "request_grant",
    "approve_grant",
    "refuse_grant",
    "revoke_grant",
    "expire_grants",
    "switch_on",
    "switch_off",
    "review",
    "pin_first",
    "drift",
    "snooze",
    "create_user",
    "disable_user",
    "create_session",
    "end_session",
    "create_token",
    "revoke_token",
    "change_mode",
    "rotate_keys",
    "archive_definition",
    "hold",
    "join_left",
    "leave",
    "hang_up",
    "give_ticket",
    "take_ticket",
    "forget_lines",
    "approve",
    "begin",
    "begin_again",
    "doubt",
];

async fn no_read_returns_a_row_of_another_org(kind: Kind) {
    let world = World::new(kind).await;
    let (ours, theirs) = (full(&world, "ours").await, full(&world, "theirs").await);
    let their_log = theirs_words(&world.store, &theirs).await;
    let asked = read_everything(&world.store, &ours, &theirs).await;
    for (function, answer) in &asked {
        for word in &their_log {
            assert!(!answer.contains(word.as_str()), "`{function}` told one org of another's `{word}`: {answer}");
        }
    }
    let refused = asked.iter().find(|(function, _)| *function == "space_key").unwrap();
    assert_eq!(refused.1, "\"refused\"");
    // The same calls return data for one's own rows. This shows that the test above can fail.
    let own = read_everything(&world.store, &theirs, &theirs).await;
    for function in [
        "find_batch",
        "find_listing",
        "find_sealed_parts",
        "find_delivered",
        "find_invocation",
        "find_sealed_params",
        "find_receipt",
        "find_session",
        "find_space",
        "find_space_by_name",
        "find_secret",
        "resolve_secret",
        "secret_version",
        "find_connection",
        "find_connection_by_id",
        "open_connection",
        "find_login",
        "find_source",
        "find_channel",
        "find_channel_by_name",
        "find_delivery",
        "find_automation",
        "find_automation_by_name",
        "find_automation_definition",
        "find_trigger",
        "find_draft",
        "find_document",
        "read_document",
        "find_document_of_org",
        "find_run",
        "find_artifact",
        "find_event",
        "find_event_by_id",
        "find_event_group",
        "find_dead_letter",
    ] {
        let (_, answer) = own.iter().find(|(asked, _)| *asked == function).unwrap();
        assert!(answer.starts_with("Some"), "`{function}`: {answer}");
    }
    assert!(own.iter().any(|(function, answer)| *function == "space_key" && answer.contains("their key")));

    let told: BTreeSet<_> = asked.iter().map(|(function, _)| *function).collect();
    let known: BTreeSet<_> =
        told.iter().copied().chain(NOT_OF_ONE_ORG.map(|(name, _)| name)).chain(WRITES).chain(["finish", "deliver"]).collect();
    let unknown: Vec<_> = public_functions().into_iter().filter(|name| !known.contains(name.as_str())).collect();
    assert_eq!(unknown, Vec::<String>::new(), "ask these in `read_everything`, or say in a list above why not");
}

/// Texts that would identify the other org in an answer: its ids, and the payloads of its log.
async fn theirs_words(store: &Store, theirs: &Full) -> Vec<String> {
    let tenant = &theirs.tenant;
    let mut words: Vec<_> = [
        tenant.org.as_str(),
        tenant.space.as_str(),
        tenant.owner.as_str(),
        tenant.session.id.as_str(),
        tenant.agent_token_id.as_str(),
        theirs.pending.id.as_str(),
        theirs.running.id.as_str(),
        theirs.ended.id.as_str(),
        theirs.receipt.as_str(),
        theirs.notification.as_str(),
        theirs.grant.as_str(),
        theirs.request.as_str(),
        theirs.consent.as_str(),
        theirs.quarantined.as_str(),
        theirs.other_space.as_str(),
        theirs.canary.as_str(),
        theirs.secret.as_str(),
        theirs.connection.as_str(),
        theirs.channel.as_str(),
        theirs.delivery.as_str(),
        theirs.letter.as_str(),
        "event of theirs",
        "problem of theirs",
        theirs.batch.id.as_str(),
        theirs.automation.id.as_str(),
        theirs.draft.as_str(),
        theirs.document.as_str(),
        "document of theirs",
        "text of theirs",
        theirs.lease.run.as_str(),
        theirs.artifact.as_str(),
        "artifact of theirs",
        "automation of theirs",
        "draft of theirs",
        "canary of theirs",
        "secret-of-theirs",
        "value of theirs",
        "connection-of-theirs",
        "channel of theirs",
    ]
    .map(str::to_owned)
    .into();
    words.extend(store.list_log_keys(&tenant.org).await.unwrap().into_iter().flat_map(|key| [key.key_id, key.public]));
    words.extend(store.latest_checkpoint(&tenant.org).await.unwrap().unwrap().lines().next().map(str::to_owned));
    words
}

async fn no_write_changes_a_row_of_another_org(kind: Kind) {
    let world = World::new(kind).await;
    let (store, ours, theirs) = (&world.store, full(&world, "ours").await, full(&world, "theirs").await);
    let before = snapshot(store, &theirs).await;
    let (org, them) = (&ours.tenant.org, &theirs.tenant);
    // The input of a caller of our org who uses their ids.
    let claimed = |invocation: &Invocation| Invocation { org: org.clone(), ..invocation.clone() };
    let mut approve = ours.tenant.approve(&theirs.pending);
    approve.approval.binding = theirs.pending.binding.as_ref().unwrap().digest;
    assert_eq!(store.approve(approve).await, Ok(Approved::Missing));
    let rules_version = store.rules_version(org).await.unwrap();
    let begin = Begin { rules_version, ..ours.tenant.begin(&claimed(&theirs.pending), Row::From(Status::Pending)) };
    assert_eq!(store.begin(begin).await, Ok(Begun::Missing));
    let running = claimed(&theirs.running);
    assert_eq!(store.begin_again(ours.tenant.again(&running, Some(rules_version))).await, Ok(Begun::Missing));
    let granted = Invocation { grant: Some(theirs.grant.clone()), ..ours.tenant.calling(WRITE, Status::Running) };
    let begin = Begin { rules_version, ..ours.tenant.begin(&granted, Row::Insert) };
    assert_eq!(store.begin(begin).await, Ok(Begun::GrantSpent), "another org's grant allows nothing");
    assert_eq!(store.doubt(running.clone(), ours.tenant.event(&running, Status::InDoubt)).await, Ok(Finished::Missing));
    let finish = ours.tenant.finish(&running, Row::From(Status::Running), Status::Succeeded);
    assert_eq!(store.finish(finish.into()).await, Ok(Finished::Missing));
    assert_eq!(store.claim(org, &theirs.running.id, Status::Running).await, Ok(false));
    assert_eq!(store.claim_silent(org, &theirs.running.id).await, Ok(false));
    store.release(org, &theirs.running.id).await.unwrap();
    assert_eq!(store.end_session(org, &them.session.id).await, Ok(None));
    assert_eq!(store.revoke_token(org, &them.agent_token_id, &them.person()).await, Ok(None));
    assert_eq!(store.disable_user(org, &them.owner, &them.person()).await, Ok(None));
    assert!(store.invite(&ours.tenant.as_owner, &them.owner, None).await.unwrap().is_none());
    let (token, expires_at) = (ours.tenant.as_owner.token.clone().unwrap(), store.now().await.unwrap());
    let link = NewLink { invocation: theirs.pending.id.clone(), by: LinkMaker::Person(ours.tenant.person()), token, expires_at };
    store.record_link(org, link).await.unwrap();
    let theirs_open = format!("link of {}", them.org);
    assert_eq!(store.bind_link(org, &theirs_open, "another", expires_at.plus_seconds(60)).await, Ok(true), "links are the org's own");
    let stranger = Principal { token: them.as_owner.token.clone(), ..ours.tenant.as_owner.clone() };
    assert!(store.log_in(&stranger).await.unwrap().is_none(), "another org's token logs nobody in");
    let open = store.start_sign_in(&them.org, "browser", "https://cs.example.com/back", None).await.unwrap();
    assert!(store.take_sign_in(org, open.state.expose(), "browser").await.unwrap().is_none(), "a state is of its org alone");
    assert!(store.take_sign_in(&them.org, open.state.expose(), "browser").await.unwrap().is_some());
    // Whom the issuer knows by their subject is another person here.
    assert!(matches!(store.sign_in(org, let_in("theirs")).await, Ok(SignedIn::Done(_))));
    let by = PrincipalId::User(ours.tenant.owner.clone());
    let banded = SpaceChange { band: Some(Band::Black), ..SpaceChange::default() };
    assert_eq!(store.change_space(org, &them.space, banded, &by).await, Ok(None));
    let retention = Retention { events_days: Some(2), ..Retention::default() };
    assert_eq!(store.set_retention(org, retention, &by).await, Ok(retention));
    assert_eq!(store.forget_old(org).await, Ok(store::Forgotten::default()));
    assert_eq!(store.digest_ended(org).await, Ok(0));
    assert_eq!(store.approve_grant(org, &theirs.request, &by).await, Ok(None));
    assert_eq!(store.refuse_grant(org, &theirs.request, &by).await, Ok(None));
    assert_eq!(store.revoke_grant(org, &theirs.grant, &by).await, Ok(None));
    assert_eq!(store.switch_on(org, switched(them), Stop::Everything, "theirs", &by).await, Ok(0));
    assert_eq!(store.switch_off(org, switched(them), "theirs", &by).await, Ok(Some(0)));
    store.snooze(org, &theirs.pending.id, &them.owner, store.now().await.unwrap()).await.unwrap();
    // They have used a request with this signature.
    assert_eq!(store.use_slack_request(org, b"theirs", store.now().await.unwrap().plus_seconds(60)).await, Ok(true));
    let left = line_of(&theirs.pending);
    store.hang_up(org, &theirs.pending.id, &left.line).await.unwrap();
    let again = AskedAgain {
        org: org.clone(),
        session: them.session.id.clone(),
        identity: left.identity,
        line: "mine".into(),
        kept_seconds: 60,
        since: None,
    };
    assert_eq!(store.join_left(again).await, Ok(Joined::Nothing));
    store.give_ticket(NewLine { org: org.clone(), ..left.clone() }, digest(5)).await.unwrap();
    assert_eq!(store.take_ticket(org, digest(5), "mine").await, Ok(None));
    store.leave(NewLine { org: org.clone(), ..left }).await.unwrap();
    assert_eq!(store.forget_lines(org).await, Ok(0));
    let drift = NewDrift { action: action(READ), drift: Drift::Textual, structural: digest(1), textual: digest(9) };
    let ends = vec![ours.tenant.finish(&claimed(&theirs.pending), Row::From(Status::Pending), Status::Denied).into()];
    assert_eq!(store.drift(org, drift, ends).await, Ok(vec![Finished::Missing]));
    let pin = Pin { structural: digest(1), textual: digest(9), wording: Wording::Ignored, seen: None, changed_at: None };
    store.review(org, &action(READ), pin.clone(), &by).await.unwrap();
    store.pin_first(org, &action(READ), pin, &by).await.unwrap();
    let batch = Batch { org: org.clone(), ..theirs.batch.clone() };
    assert_eq!(store.save_batch(batch.clone()).await, Ok(None));
    assert_eq!(store.end_batch(ours.tenant.end_batch(batch.clone())).await, Ok(None));
    let mut new = ours.tenant.new_batch(Some(KEY));
    new.batch.session = them.session.id.clone();
    assert!(matches!(store.open_batch(new).await, Ok(OpenedBatch::New(_))), "another org's key is not taken");
    assert_eq!(store.expire_grants(org).await, Ok(0));
    assert_eq!(store.withdraw_consent(org, &theirs.consent, &them.owner).await, Ok(None));
    assert!(matches!(store.remove_price(org, &action(WRITE), &by).await, Ok(Some(_))), "our own");
    assert_eq!(store.remove_price(org, &action(WRITE), &by).await, Ok(None));
    let entry = allowed("").entry;
    assert!(matches!(store.remove_allowed(org, AllowedList::Commands, &entry, &by).await, Ok(Some(_))), "our own");
    assert_eq!(store.remove_allowed(org, AllowedList::Commands, &entry, &by).await, Ok(None));
    assert_eq!(store.forbid_crossing(org, crossing(them, &theirs.other_space), &by).await, Ok(false));
    assert_eq!(store.remove_canary(org, &theirs.canary, &by).await, Ok(false));
    store.add_canary(org, "another", &by).await.unwrap();
    assert_eq!(store.delete_secret(org, &theirs.secret_name, &by).await, Ok(None));
    assert_eq!(store.set_secret(org, new_secret(&theirs.secret_name, "x", Some(1)), &by).await, Ok(SetSecret::Missing));
    let own = store.set_secret(org, new_secret(&theirs.secret_name, "ours", None), &by).await;
    assert!(matches!(own, Ok(SetSecret::Created(_))), "names are the org's own: {own:?}");
    let (connection, credential) = (&theirs.connection, || SecretValue::new(Secret::new("x".to_owned())).unwrap());
    assert!(store.remove_connection(org, &theirs.connection_name, &by).await.unwrap().is_none());
    assert!(matches!(store.lock_tokens(org, connection, "holder").await, Ok(Locked::Gone)));
    assert_eq!(store.keep_tokens(org, connection, "holder", credential()).await, Ok(false));
    store.unlock_tokens(org, connection, "holder").await.unwrap();
    store.need_login(org, connection, 1, Need::Login { why: "x".to_owned() }).await.unwrap();
    assert_eq!(store.start_login(org, connection, &Secret::new("x".to_owned()), &credential(), &by).await, Ok(None));
    let own = store.create_connection(org, new_connection(&theirs.connection_name), &by).await;
    assert!(matches!(own, Ok(CreatedConnection::Created(_))), "names are the org's own: {own:?}");
    assert_eq!(add_source(store, &ours.tenant).await, Ok(Added::Taken));
    let changed = store.change_source(org, &remote(), 1, settings(&ours.tenant), &by).await;
    assert!(matches!(changed, Ok(Changed::Done(AddedSource { version: 2, .. }))), "{changed:?}");
    assert!(store.remove_source(org, &remote(), &by).await.unwrap().is_some());
    assert_eq!(store.remove_channel(org, &theirs.channel, &by).await, Ok(None));
    assert_eq!(store.fill_outbox(org).await, Ok(false));
    assert_eq!(store.claim_deliveries(org, &theirs.channel, 10).await, Ok(vec![]));
    assert_eq!(store.end_delivery(org, &theirs.delivery, DeliveryEnd::Skipped).await, Ok(false));
    assert_eq!(store.retry_deliveries(org, &theirs.channel, Some(&theirs.delivery), &by).await, Ok(0));
    assert_eq!(store.drop_deliveries(org, &theirs.channel, Some(&theirs.delivery), &by).await, Ok(0));
    assert_eq!(store.forget_deliveries(org).await, Ok(0));
    add_channel(store, &ours.tenant, "channel of theirs").await;
    let published = store.publish(org, vec![event_of("theirs", 1)]).await.unwrap();
    assert!(!published[0].is_known, "what another org has published is not known here");
    let other = GroupName::parse("other").unwrap();
    store.subscribe(org, NewGroup::ours(other.clone(), Start::Earliest)).await.unwrap();
    assert!(store.claim_events(org, &group(), 10).await.unwrap().is_some());
    assert_eq!(store.hold_group(org, &GroupName::parse("nobodys").unwrap()).await, Ok(false));
    assert_eq!(store.pass_events(org, &group(), 0, i64::MAX, 0).await, Ok(false));
    store.nack_events(org, &group(), vec![theirs.claim], 0, "x".to_owned()).await.unwrap();
    store.ack_events(org, &group(), vec![theirs.claim]).await.unwrap();
    assert!(store.move_event_group(org, &group(), Start::Earliest, Move::Replay, &by).await.unwrap().is_some());
    assert!(store.move_event_group(org, &group(), Start::Now, Move::Reset, &by).await.unwrap().is_some());
    assert_eq!(store.retry_dead_events(org, Some(&group()), Some(&theirs.letter), &by).await, Ok(0));
    assert_eq!(store.drop_dead_event(org, &theirs.letter).await, Ok(false));
    assert_eq!(store.answer_failure(org, &theirs.ended.id, None, &by).await, Ok(false));
    assert_eq!(store.forget_dead_letters(org).await, Ok(0));
    assert_eq!(store.remove_event_group(org, &other, &by).await, Ok(true));
    assert_eq!(store.remove_event_group(org, &group(), &by).await, Ok(true));
    // A login that was taken ends in the org it belongs to.
    assert!(store.take_login(org, "state of theirs").await.unwrap().is_none());
    let taken = store.take_login(org, "state of ours").await.unwrap().unwrap();
    assert_eq!(store.end_login(taken, LoginEnd::Failed { problem: "x".to_owned() }).await, Ok(true));
    assert_eq!(store.change_user(org, &them.owner, limited(Band::Green), &by).await, Ok(None));
    let settling = Settling {
        invocation: theirs.quarantined.clone(),
        state: QuarantineState::Discarded,
        reason: "theirs".into(),
        by: by.clone(),
        digest: None,
        released_as: None,
    };
    assert_eq!(store.settle_quarantine(org, settling).await, Ok(None));
    store.look_at_quarantined(org, &theirs.quarantined, &ours.tenant.person()).await.unwrap();
    assert_eq!(store.expire_quarantines(org).await, Ok(vec![]));
    store.label_session(org, &them.session.id, "untrusted_content", &theirs.pending.id).await.unwrap();
    store.allow_crossing(org, crossing(them, &theirs.other_space), &by).await.unwrap();
    store.set_price(org, &action(WRITE), price_of("ours"), &by).await.unwrap();
    store.set_allowed(org, allowed("ours"), &by).await.unwrap();
    store.keep_listing(org, &remote(), listing(&ours.tenant)).await.unwrap();
    let away = countersign_core::source::Error::Unreachable { source_id: "remote".into(), message: "down".into() };
    store.note_listing(org, &remote(), Some(&away)).await.unwrap();
    store.note_listing(org, &remote(), None).await.unwrap();
    store.set_policies(org, PolicyTexts::default(), &by).await.unwrap();
    store.give_consent(org, new_consent(&ours.tenant)).await.unwrap();
    let change = ModeChange { automation: None, action: action(WRITE), mode: None, lock: Lock::Open, by, invocation: None };
    store.change_mode(org, change).await.unwrap();
    store.replace_modes(org, Vec::new(), &ours.tenant.person()).await.unwrap();
    store.rotate_keys(org, store::OldKeys::Retired).await.unwrap();
    assert!(store.create_space(org, "space of theirs", &ours.tenant.person()).await.unwrap().is_some(), "names are the org's own");
    no_write_changes_an_automation_of_another_org(store, &ours, &theirs).await;
    assert_eq!(snapshot(store, &theirs).await, before);
    world.verify(&ours.tenant).await;
    world.verify(&theirs.tenant).await;
}

async fn no_write_changes_an_automation_of_another_org(store: &Store, ours: &Full, theirs: &Full) {
    let (org, owner, automation) = (&ours.tenant.org, &ours.tenant.owner, &theirs.automation.id);
    let save = SaveAutomation { automation: Some(automation.clone()), ..automations::save(&ours.tenant, "automation of theirs", 2) };
    assert!(matches!(store.save_automation(org, save, owner).await, Ok(Saved::Unknown)));
    assert_eq!(store.set_automation_status(org, automation, AutomationStatus::Archived, Vec::new(), owner).await, Ok(None));
    assert_eq!(store.change_trigger(org, automation, "hook", TriggerChange::Disable, owner).await, Ok(None));
    assert!(store.rotate_hook_token(org, automation, "hook", false, owner).await.unwrap().is_none());
    let trigger = store.find_trigger(&theirs.tenant.org, automation, "day").await.unwrap().unwrap();
    let passed = PassedTicks {
        org: org.clone(),
        automation: automation.clone(),
        trigger: "day".to_owned(),
        from: trigger.high_water,
        high_water: testkit::clock::START,
        next_due_at: None,
        skipped: Vec::new(),
        mended: None,
    };
    assert_eq!(store.pass_ticks(passed).await, Ok(false));
    assert_eq!(store.drop_draft(org, &theirs.draft).await, Ok(false));
    assert_eq!(store.forget_drafts(org).await, Ok(0));
    let fired = NewFiring { org: org.clone(), ..automations::firing(&theirs.tenant, &theirs.automation, Occasion::Request) };
    assert_eq!(store.fire(fired).await, Ok(Fired::UnknownAutomation));
    assert_eq!(store.forget_firings(org).await, Ok(0));
    let event = automations::gathered(&theirs.tenant, &theirs.automation, 2, Gather::Debounce { seconds: 60 });
    assert_eq!(store.gather(GatheredEvent { org: org.clone(), ..event }).await, Ok(Gathered::Known));
    let gathering = theirs.gathering.clone();
    let gathering = Gathering { org: org.clone(), ..gathering };
    let fired = FiredGathering { gathering, firing: None, others: FiringReason::Debounced };
    assert_eq!(store.fire_gathered(fired).await, Ok(None));
    let run = store.find_run(&theirs.tenant.org, &theirs.lease.run).await.unwrap().unwrap();
    let lease = Lease { org: org.clone(), ..theirs.lease.clone() };
    let reserve =
        ReserveBudget { lease: lease.clone(), key: "theirs".into(), action: WRITE.to_owned(), most: Amount::MAX, cap: Amount::MAX };
    assert_eq!(store.reserve_budget(reserve).await, Ok(Reserved::Lost));
    store.settle_budget(org, &theirs.lease.run, "theirs", Amount::MAX).await.unwrap();
    for then in [Then::GoOn, Then::Park { due_at: None }, Then::End] {
        let saved = SavedRun { lease: lease.clone(), run: Box::new(run.clone()), steps: Vec::new(), then };
        assert_eq!(store.save_run_along(saved.clone()).await, Ok(false));
        assert_eq!(store.save_run(saved).await, Ok(false));
    }
    store.give_back(lease).await.unwrap();
    assert_eq!(store.cancel_run(org, &theirs.lease.run, &ours.tenant.person()).await, Ok(None));
    let found = store.find_document(&theirs.tenant.org, &theirs.tenant.space, &theirs.document).await.unwrap().unwrap();
    let taken = documents::state("taken", "text of theirs", &[]);
    let change = DocumentChange { id: theirs.document.clone(), path: found.path, before: Some(found.state), after: Some(taken) };
    for space in [&ours.tenant.space, &theirs.tenant.space] {
        let changes =
            DocumentChanges { space: space.clone(), ..documents::changes(&ours.tenant, vec![change.clone()], &["text of theirs"]) };
        assert_eq!(store.change_documents(changes).await, Ok(ChangedDocuments::Conflict(theirs.document.clone())));
    }
    assert_eq!(store.forget_documents(org).await, Ok(0));
    assert_eq!(store.quarantine_artifact(org, &theirs.artifact, &ours.tenant.person()).await, Ok(None));
    store.forget_artifact(org, &theirs.artifact).await.unwrap();
}

async fn snapshot(store: &Store, full: &Full) -> Vec<(&'static str, String)> {
    read_everything(store, full, full).await
}

/// The names of all public functions of the store, read from its source.
fn public_functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in sources() {
        names.extend(text.split("pub async fn ").skip(1).map(name_of));
        // The ports' methods carry no `pub`.
        let ports = text.split("\nimpl ").filter(|block| block.contains(" for Store {"));
        for block in ports {
            let body = block.split("\n}\n").next().unwrap_or_default();
            names.extend(body.split("\n    fn ").skip(1).map(name_of));
        }
    }
    assert!(names.contains("find_invocation") && names.contains("find_sealed_params"), "{names:?}");
    names
}

fn name_of(text: &str) -> String {
    text.chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect()
}

/// The store's source files with their tests cut off.
fn sources() -> Vec<(String, String)> {
    fn collect(folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if !path.ends_with("fixture.rs") && !path.to_string_lossy().ends_with("_tests.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned();
                found.push((path.display().to_string(), text));
            }
        }
    }
    let mut found = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found
}

#[test]
fn every_statement_names_the_org_or_says_why_not() {
    let mut statements = 0;
    for (path, text) in sources() {
        for literal in literals(&text) {
            let words = literal.trim_start();
            let is_sql = ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "WITH ", "CREATE ", "ALTER ", "DROP ", "/* every org"]
                .iter()
                .any(|word| words.starts_with(word));
            // The statement names no table: it is about the database server itself.
            let no_table = is_sql && !["FROM ", "INTO ", "UPDATE ", "TABLE "].iter().any(|word| words.contains(word))
                || words.contains("FROM clock_timestamp()");
            if is_sql && !no_table {
                statements += 1;
                assert!(literal.contains("org_id") || literal.starts_with("/* every org"), "{path}: `{literal}` is not limited to an org");
            }
        }
    }
    assert!(statements > 60, "only {statements} statements were found: this test no longer reads the source");
}

/// The string literals of a Rust source, without comments and character literals.
fn literals(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '/' if characters.peek() == Some(&'/') => while characters.next_if(|next| *next != '\n').is_some() {},
            '\'' if characters.peek() == Some(&'"') => {
                characters.next();
            }
            '"' => {
                let mut literal = String::new();
                while let Some(inner) = characters.next() {
                    match inner {
                        '"' => break,
                        '\\' => literal.extend(characters.next()),
                        _ => literal.push(inner),
                    }
                }
                found.push(literal);
            }
            _ => {}
        }
    }
    found
}
