//! A store with tenants in it, and builders for every step of an invocation's life.

use countersign_core::batch::{BatchStatus, Part, PartEffect};
use countersign_core::decision::ModeSource;
use countersign_core::effect::{Aftermath, Purpose};
use countersign_core::invocation::{Answer, Beyond, Binding, Deadline, Digests, Intention};
use countersign_core::jail::Meter;
use countersign_core::ledger::{
    Approval, Approve, ArchivedDefinition, Begin, BeginAgain, Begun, EndBatch, EntryDraft, EntryId, EventDraft, Finish, Finished, GrantUse,
    Hold, KeyFate, NewBatch, NewReservation, Row,
};
use countersign_core::mcp::McpWishes;
use countersign_core::observe::Observed;
use countersign_core::part_of::BatchMode;
use countersign_core::ports::{Definitions, Invocations};
use countersign_core::session::{Attendance, Session};
use countersign_core::{
    ActionId, ApprovalId, Batch, BatchId, Call, Clock, Decision, Digest, EventId, IntentId, Invocation, InvocationId, Mode, OrgId,
    Principal, PrincipalId, Random, ReceiptId, Secret, SpaceId, Status, Tier, Timestamp, TokenId, UserId, json, random_bytes,
};
use receipt::body::{
    ApprovalBody, BatchBody, Body as _, Cost, DefinitionDigests, IntentBody, Outputs, ReceiptBody, Reward, Sandbox, Timing,
};
use receipt::key::PublicKey;
use receipt::verify::Report;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::{Config, Engine, Error, MasterKey, NewSession, PageRequest, Patience, Store, TimeSource};
use testkit::{FixedClock, SeededRandom};

/// Runs each test function on both engines, as two tests.
macro_rules! on_both_engines {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::harness::Kind::Sqlite).await; })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::harness::Kind::Postgres).await; })*
        }
    };
}
pub(crate) use on_both_engines;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// The place of a database. It outlives a store, so that a second store can be opened on it.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) engine: Engine,
    _folder: Arc<tempfile::TempDir>,
}

impl Home {
    /// A database that is already migrated.
    pub(crate) async fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let migrate = async |engine| open(engine, &FixedClock::new(), &SeededRandom::new(1)).await.unwrap();
        let engine = match kind {
            Kind::Sqlite => {
                let path = folder.path().join("test.db");
                testkit::sqlite::migrated_file(&path, async |path| migrate(Engine::Sqlite { path }).await).await;
                Engine::Sqlite { path }
            }
            Kind::Postgres => {
                let url = testkit::postgres::migrated_database(async |url| drop(migrate(Engine::Postgres { url }).await)).await;
                Engine::Postgres { url }
            }
        };
        Self { engine, _folder: Arc::new(folder) }
    }

    /// A PostgreSQL database with nothing in it.
    pub(crate) async fn empty_on_postgres() -> Self {
        let engine = Engine::Postgres { url: testkit::postgres::fresh_database().await };
        Self { engine, _folder: Arc::new(tempfile::tempdir().unwrap()) }
    }

    pub(crate) async fn open(&self, clock: &FixedClock, random: &SeededRandom) -> Result<Store, Error> {
        open_with(self.engine.clone(), clock, random, Patience::default()).await
    }

    /// Changes the database without the store.
    pub(crate) async fn tamper(&self, sql: &str) {
        match &self.engine {
            Engine::Sqlite { path } => rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap(),
            Engine::Postgres { url } => {
                let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                client.batch_execute(sql).await.unwrap();
            }
        }
    }
}

/// Opens a store that gives up on the database after two seconds, for tests in which it is unavailable.
pub(crate) async fn open(engine: Engine, clock: &FixedClock, random: &SeededRandom) -> Result<Store, Error> {
    open_with(engine, clock, random, Patience { read: Duration::from_secs(2), write: Duration::from_secs(2) }).await
}

async fn open_with(engine: Engine, clock: &FixedClock, random: &SeededRandom, patience: Patience) -> Result<Store, Error> {
    // If a provider is installed already, that one serves as well.
    let _already = rustls::crypto::ring::default_provider().install_default();
    let master = MasterKey::new(&Secret::new([7; 32]));
    let time = TimeSource::Fixed(Arc::new(clock.clone()));
    Store::open(Config { engine, master, next_master: None, time, patience, random: Arc::new(random.clone()) }).await
}

/// A store whose clock and randomness the test controls.
pub(crate) struct World {
    pub(crate) home: Home,
    pub(crate) store: Store,
    pub(crate) clock: FixedClock,
    pub(crate) random: SeededRandom,
}

impl World {
    pub(crate) async fn new(kind: Kind) -> Self {
        let (home, clock, random) = (Home::new(kind).await, FixedClock::new(), SeededRandom::new(1));
        let store = home.open(&clock, &random).await.unwrap();
        Self { home, store, clock, random }
    }

    /// Another store on the same database, as another process would open it.
    pub(crate) async fn another_store(&self) -> Store {
        self.home.open(&self.clock, &self.random).await.unwrap()
    }

    /// An org with an owner and one session; the definitions of both its actions are archived.
    pub(crate) async fn tenant(&self, name: &str) -> Tenant {
        let token = self.store.draw_owner_token();
        let first = self.store.create_org(name, "owner", token.clone()).await.unwrap();
        for action in [READ, WRITE] {
            self.store.archive_definition(&first.org, definition(action)).await.unwrap();
        }
        let new = NewSession {
            space: first.space.clone(),
            created_by: PrincipalId::User(first.owner.clone()),
            owner: Some(first.owner.clone()),
            title: format!("agent of {name}"),
            attendance: Attendance::Interactive,
            automation: None,
            sources: None,
            device: None,
            token_lifetime_seconds: None,
            mcp: McpWishes::default(),
        };
        let (session, agent_token) = self.store.create_session(&first.org, new).await.unwrap();
        let as_owner = self.store.authenticate(token.expose()).await.unwrap().unwrap();
        Tenant {
            as_owner,
            org: first.org,
            space: first.space,
            owner: first.owner,
            owner_token: token.expose().clone(),
            agent_token: agent_token.text.expose().clone(),
            agent_token_id: agent_token.id,
            session,
            clock: self.clock.clone(),
            random: self.random.clone(),
        }
    }

    pub(crate) async fn verify(&self, tenant: &Tenant) -> Report {
        verify(&self.store, &tenant.org).await
    }
}

/// Exports the org's audit log and verifies it as an outsider would. It must always verify.
pub(crate) async fn verify(store: &Store, org: &OrgId) -> Report {
    let keys = store.list_log_keys(org).await.unwrap();
    let pinned = PublicKey::from_base64(&keys[0].public).unwrap();
    let mut lines = Vec::new();
    let mut export = store.export(org).await.unwrap();
    while let Some(line) = export.recv().await {
        lines.push(Ok::<_, std::io::Error>(line.unwrap().trim_end_matches('\n').to_owned()));
    }
    let report = receipt::verify::verify(lines, &pinned, None);
    assert!(report.ok, "{report:#?}");
    report
}

/// The entries in the log of a new tenant: its keys, its owner, the owner's token and the agent's token.
pub(crate) const BEGUN: u64 = 4;
/// The events of a new tenant: its owner, the owner's token and the agent's token.
pub(crate) const TOLD: i64 = 3;

/// R0: allowed without an approval.
pub(crate) const READ: &str = "fake.read";
/// R2: waits for an approval.
pub(crate) const WRITE: &str = "fake.write";

/// An org, with everything needed to build its invocations.
#[derive(Clone)]
pub(crate) struct Tenant {
    pub(crate) org: OrgId,
    pub(crate) space: SpaceId,
    pub(crate) owner: UserId,
    pub(crate) as_owner: Principal,
    pub(crate) owner_token: String,
    pub(crate) agent_token: String,
    pub(crate) agent_token_id: TokenId,
    pub(crate) session: Session,
    clock: FixedClock,
    random: SeededRandom,
}

impl Tenant {
    /// The owner as a principal.
    pub(crate) fn person(&self) -> PrincipalId {
        PrincipalId::User(self.owner.clone())
    }

    /// A new id of any kind.
    pub(crate) fn draw<T>(&self, new: fn(Timestamp, [u8; 10]) -> T) -> T {
        new(self.clock.now(), random_bytes(&self.random as &dyn Random))
    }

    /// A call that may run at once.
    pub(crate) fn reading(&self) -> Invocation {
        self.calling(READ, Status::Running)
    }

    /// A call that waits for a person, with five minutes to answer.
    pub(crate) fn writing(&self) -> Invocation {
        let mut invocation = self.calling(WRITE, Status::Pending);
        let expires_at = self.clock.now().plus_seconds(300);
        let digest = sha256(invocation.id.as_str());
        invocation.binding = Some(Binding { digest, nonce: sha256("nonce"), expires_at, facts: json!({}) });
        invocation.deadline = Some(Deadline::At(expires_at));
        invocation
    }

    pub(crate) fn calling(&self, action: &str, status: Status) -> Invocation {
        let (action, tier, mode) = (ActionId::parse(action).unwrap(), tier(action), mode(action));
        let textual = definition(action.as_str()).digest;
        Invocation {
            batch: None,
            id: self.draw(InvocationId::new),
            org: self.org.clone(),
            space: self.space.clone(),
            has_own_workspace: false,
            session: self.session.id.clone(),
            principal: PrincipalId::Agent(self.session.id.clone()),
            owner: Some(self.owner.clone()),
            asked_by: None,
            device: None,
            action,
            connection: None,
            tier,
            status,
            intention: Intention::Effect,
            decision: Decision::new(mode, ModeSource::InferredDefault, None),
            gates: Vec::new(),
            digests: Digests { raw: sha256("raw"), params: sha256("params"), structural: textual, textual },
            call: Call::new(json!({ "text": "shown" })),
            result: None,
            evidence: None,
            failure: None,
            denied_by: None,
            idempotency_key: None,
            binding: None,
            deadline: None,
            pending_from_seq: None,
            approvals: Vec::new(),
            answer: None,
            edit: None,
            grant: None,
            spends: None,
            charge: None,
            observed: None,
            redacted: None,
            released_from: None,
            policies: None,
            purpose: Purpose::Effect,
            aftermath: Aftermath::default(),
            reverses: None,
            announced: None,
            meter: Meter::default(),
            attempts: 0,
            created_at: self.clock.now(),
            taken_up_at: None,
            started_at: None,
            ended_at: None,
            receipt: None,
            trace_id: "0123456789abcdef0123456789abcdef".into(),
        }
    }

    pub(crate) fn hold(&self, invocation: &Invocation) -> Hold {
        Hold {
            invocation: invocation.clone(),
            sealed_params: b"sealed".to_vec(),
            reservation: self.reservation(invocation),
            event: self.event(invocation, Status::Pending),
            pending_max: 10,
            rules_version: 0,
            line: None,
        }
    }

    pub(crate) fn approve(&self, invocation: &Invocation) -> Approve {
        let approval = self.approval(invocation);
        let event = self.event(invocation, Status::Approved);
        let event_counted = self.event(invocation, Status::Pending);
        Approve {
            org: self.org.clone(),
            invocation: invocation.id.clone(),
            approval,
            needed: 1,
            is_separate: false,
            edited: None,
            event,
            event_counted,
        }
    }

    pub(crate) fn approval(&self, invocation: &Invocation) -> Approval {
        let binding = invocation.binding.as_ref().map_or(sha256("none"), |binding| binding.digest);
        let answer = Answer {
            by: PrincipalId::User(self.owner.clone()),
            at: self.clock.now(),
            reason: Some("looks right".into()),
            beyond: Beyond::Once,
        };
        let token = self.as_owner.token.clone().unwrap();
        Approval { id: self.draw(ApprovalId::new), answer, approves: true, binding, token }
    }

    /// The first attempt of a call.
    pub(crate) fn begin(&self, invocation: &Invocation, row: Row) -> Begin {
        let mut running = invocation.clone();
        running.status = Status::Running;
        running.attempts = 1;
        running.started_at = Some(self.clock.now());
        Begin {
            intent: self.intent(&running),
            sealed_params: None,
            reservation: self.reservation(invocation),
            invocation: running,
            row,
            rules_version: 0,
            line: None,
            beyond: None,
        }
    }

    /// The end of a call; its receipt is built to verify.
    pub(crate) fn finish(&self, invocation: &Invocation, row: Row, status: Status) -> Finish {
        let mut ended = invocation.clone();
        ended.status = status;
        ended.ended_at = Some(self.clock.now());
        ended.result = (status == Status::Succeeded).then(|| json!({ "done": true }));
        let key = if status == Status::Succeeded { KeyFate::Answers } else { KeyFate::Freed };
        Finish {
            receipt: self.receipt(&ended),
            event: self.event(&ended, status),
            executed: None,
            reward: ended.started_at.map(|_| if status == Status::Succeeded { 600_000 } else { 0 }),
            invocation: Box::new(ended),
            row,
            key,
            approval: None,
            grant: GrantUse::Kept,
            rules_version: None,
            quarantine: None,
            whole_result: None,
        }
    }

    pub(crate) fn event(&self, invocation: &Invocation, status: Status) -> EventDraft {
        EventDraft { id: self.draw(EventId::new), name: status.event_name(), key: invocation.id.to_string(), body: "{}".into() }
    }

    /// A batch of one part that was never started.
    pub(crate) fn new_batch(&self, key: Option<&str>) -> NewBatch {
        let part = Part {
            action: ActionId::parse(WRITE).unwrap(),
            invocation: self.draw(InvocationId::new),
            status: None,
            receipt: None,
            effect: PartEffect::None,
            failure: None,
            revert: None,
        };
        let batch = Batch {
            id: self.draw(BatchId::new),
            org: self.org.clone(),
            space: self.space.clone(),
            session: self.session.id.clone(),
            principal: PrincipalId::Agent(self.session.id.clone()),
            device: None,
            mode: BatchMode::AllOrNothing,
            intention: Intention::Effect,
            status: BatchStatus::Running,
            parts: vec![part],
            asked: false,
            reason: None,
            idempotency_key: key.map(str::to_owned),
            raw: sha256("parts"),
            created_at: self.clock.now(),
            ended_at: None,
            receipt: None,
            trace_id: "trace".into(),
            version: 0,
            touched_at: self.clock.now(),
        };
        NewBatch { batch, sealed_parts: b"sealed".to_vec() }
    }

    /// The end of a batch of which no part ran.
    pub(crate) fn end_batch(&self, batch: Batch) -> EndBatch {
        let batch = Batch { status: BatchStatus::Denied, ended_at: Some(self.clock.now()), ..batch };
        let id = self.draw(ReceiptId::new);
        let body = BatchBody::of(&batch, id.clone(), self.clock.now()).to_canonical().unwrap();
        let event =
            EventDraft { id: self.draw(EventId::new), name: batch.status.event_name(), key: batch.id.to_string(), body: "{}".into() };
        EndBatch { batch, id, body, event }
    }

    pub(crate) fn again(&self, invocation: &Invocation, rules_version: Option<i64>) -> BeginAgain {
        BeginAgain { invocation: invocation.clone(), intent: self.intent(invocation), rules_version }
    }

    pub(crate) fn intent(&self, invocation: &Invocation) -> EntryDraft {
        let id = self.draw(IntentId::new);
        let body = IntentBody {
            batch: None,
            reverses: None,
            intent_id: id.clone(),
            invocation_id: invocation.id.clone(),
            attempt: invocation.attempts,
            principal: invocation.principal.clone(),
            owner: None,
            asked_by: None,
            space: invocation.space.clone(),
            action: invocation.action.clone(),
            connection_id: invocation.connection.clone(),
            tier: invocation.tier,
            definition: definition_digests(invocation),
            params: invocation.digests.params,
            raw: invocation.digests.raw,
            decision: invocation.decision.clone(),
            approval: approved(invocation),
            grant: invocation.grant.clone(),
            observed: is_observed(invocation),
            spends: invocation.spends,
            idempotency_key: invocation.idempotency_key.as_deref().map(sha256),
            profile: "in_process".into(),
            evidence: None,
            purpose: Purpose::Effect,
            trace_id: invocation.trace_id.clone(),
        };
        EntryDraft { id: EntryId::Intent(id), body: body.to_canonical().unwrap() }
    }

    pub(crate) fn receipt(&self, invocation: &Invocation) -> EntryDraft {
        let id = self.draw(ReceiptId::new);
        let ended_at = invocation.ended_at.unwrap_or(self.clock.now());
        let body = ReceiptBody {
            batch: None,
            receipt_id: id.clone(),
            invocation_id: invocation.id.clone(),
            attempts: invocation.attempts,
            status: invocation.status,
            error: None,
            denied_by: invocation.denied_by,
            principal: invocation.principal.clone(),
            owner: invocation.owner.clone(),
            session: invocation.session.clone(),
            space: invocation.space.clone(),
            action: invocation.action.clone(),
            connection_id: invocation.connection.clone(),
            tier: invocation.tier,
            definition: definition_digests(invocation),
            params: invocation.digests.params,
            raw: invocation.digests.raw,
            policy: BTreeMap::new(),
            policy_slice: sha256(NO_MODE_ROWS),
            decision: invocation.decision.clone(),
            approval: approved(invocation),
            sandbox: Sandbox::none("in_process".into()),
            outputs: Some(Outputs { digest: sha256("outputs"), bytes: 7, withheld: false }),
            artifacts: Vec::new(),
            evidence: None,
            verification: None,
            repair: None,
            rollback: None,
            cost: Cost { cpu_ms: None, energy_uj: None, price: None, usd: None },
            timing: Timing {
                queued_ms: 0,
                exec_ms: 0,
                total_ms: ended_at.millis_since(invocation.created_at),
                started_at: invocation.started_at,
                ended_at,
            },
            idempotency_key: invocation.idempotency_key.as_deref().map(sha256),
            replayed: false,
            dry_run: false,
            trace_id: invocation.trace_id.clone(),
            reward: Reward { scalar_millionths: 0, success: 0, quality: 0, cost: 0, latency: 0 },
            supersedes: None,
            reverses: None,
            settled: None,
            grant: invocation.grant.clone(),
            grant_returned: false,
            observed: is_observed(invocation),
            claimed: None,
            policies: None,
            redacted: BTreeMap::new(),
            edit: None,
        };
        EntryDraft { id: EntryId::Receipt(id), body: body.to_canonical().unwrap() }
    }

    fn reservation(&self, invocation: &Invocation) -> Option<NewReservation> {
        let expires_at = self.clock.now().plus_seconds(3_600);
        invocation.idempotency_key.clone().map(|key| NewReservation { key, expires_at, instead_of: None })
    }

    /// A read from the request to its receipt, in one write.
    pub(crate) async fn read_once(&self, store: &Store) -> Invocation {
        self.read_once_or_fail(store).await.unwrap()
    }

    pub(crate) async fn read_once_or_fail(&self, store: &Store) -> Result<Invocation, Error> {
        let finish = self.finish(&self.reading(), Row::Insert, Status::Succeeded);
        let mut ended = finish.invocation.clone();
        let id = receipt_id(&finish);
        let Finished::Recorded { seq } = store.finish(finish.into()).await? else { panic!("a new row is recorded") };
        ended.receipt = Some(countersign_core::invocation::ReceiptRef { id, seq });
        Ok(*ended)
    }

    /// A call whose intent is in the audit log and whose outcome is not.
    pub(crate) async fn running(&self, store: &Store) -> Invocation {
        let begin = self.begin(&self.reading(), Row::Insert);
        let running = begin.invocation.clone();
        assert_eq!(store.begin(begin).await.unwrap(), Begun::Started);
        running
    }

    /// A call that waits for a person, as its row holds it.
    pub(crate) async fn pending(&self, store: &Store) -> Invocation {
        let invocation = self.writing();
        assert_eq!(store.hold(self.hold(&invocation)).await.unwrap(), countersign_core::ledger::Held::Pending);
        // Holding a call adds no entry, so this is the size at which it was held.
        Invocation { pending_from_seq: Some(store.log_size(&self.org).await.unwrap()), ..invocation }
    }

    /// A call that a person approved, as its row holds it.
    pub(crate) async fn approved(&self, store: &Store) -> Invocation {
        let invocation = self.pending(store).await;
        assert!(matches!(store.approve(self.approve(&invocation)).await.unwrap(), countersign_core::ledger::Approved::Approved(_)));
        store.find_invocation(&self.org, &invocation.id).await.unwrap().unwrap()
    }
}

pub(crate) fn receipt_id(finish: &Finish) -> ReceiptId {
    match &finish.receipt.id {
        EntryId::Receipt(id) => id.clone(),
        EntryId::Intent(id) => panic!("`{id}` is not a receipt"),
    }
}

pub(crate) fn definition(action: &str) -> ArchivedDefinition {
    let body = json::canonical(&json!({ "id": action, "tier": tier(action), "title": action })).unwrap();
    ArchivedDefinition { digest: sha256(&body), body }
}

pub(crate) fn sha256(text: &str) -> Digest {
    Digest::new(Sha256::digest(text.as_bytes()).into())
}

/// A page large enough for all rows of a test.
pub(crate) fn everything() -> PageRequest {
    PageRequest { limit: 1_000, after: None }
}

/// The rules behind a decision that no mode row made, as the verifier writes them.
const NO_MODE_ROWS: &str = r#"{"automation":null,"band":"green","org":null,"rules":"builtin/v2"}"#;

fn tier(action: &str) -> Tier {
    if action == READ { Tier::R0 } else { Tier::R2 }
}

fn mode(action: &str) -> Mode {
    if action == READ { Mode::Allow } else { Mode::RequireApproval }
}

fn definition_digests(invocation: &Invocation) -> DefinitionDigests {
    DefinitionDigests { structural: invocation.digests.structural, textual: invocation.digests.textual }
}

fn is_observed(invocation: &Invocation) -> bool {
    invocation.observed.is_some_and(Observed::ran_unasked)
}

fn approved(invocation: &Invocation) -> Option<ApprovalBody> {
    let (answer, binding) = invocation.answer.as_ref().zip(invocation.binding.as_ref())?;
    Some(ApprovalBody { approvers: vec![answer.by.clone()], binding: binding.digest })
}
