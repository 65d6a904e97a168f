//! An example audit log with fixed keys and times, in which every kind of entry occurs, for tests to tamper with.

use crate::body::{
    Answer, AnswerBody, ApprovalBody, Cost, DefinitionDigests, IdentityBody, IdentityChange, IntentBody, KeyBody, KeyText, ModeBody,
    Outputs, PolicyVerdict, ReceiptBody, Remedy, Reward, Sandbox, Timing, Verification,
};
use crate::bundle::{Line, Opening, Tally, to_line};
use crate::checkpoint::Checkpoint;
use crate::entry::{self, Header, Kind, NO_PREV};
use crate::envelope::{self, Envelope};
use crate::key::SealingKey;
use crate::tree::{self, Frontier};
use countersign_core::batch::BatchStatus;
use countersign_core::decision::{Gate, Lock, ModeSource, Reason, Verdict};
use countersign_core::effect::Purpose;
use countersign_core::invocation::{Beyond, DeniedBy};
use countersign_core::principal::Role;
use countersign_core::{
    ActionId, ApprovalId, AutomationId, Decision, Digest, EventId, IntentId, InvocationId, LogId, Mode, PrincipalId, ReceiptId, Secret,
    SessionId, SpaceId, Status, Tier, Timestamp, TokenId, UserId, json,
};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The positions of the entries of `Story::new`.
pub(crate) mod at {
    pub(crate) const KEYS: u64 = 0;
    pub(crate) const OWNER: u64 = 1;
    pub(crate) const OWNER_TOKEN: u64 = 2;
    pub(crate) const READ: u64 = 3;
    pub(crate) const WRITE_MODE: u64 = 4;
    pub(crate) const WRITE_INTENT: u64 = 5;
    pub(crate) const WRITE: u64 = 6;
    pub(crate) const SEND_ANSWER: u64 = 7;
    pub(crate) const SEND_INTENT: u64 = 8;
    pub(crate) const SEND: u64 = 9;
    pub(crate) const DENIED: u64 = 10;
    pub(crate) const DELETE_MODE: u64 = 11;
    pub(crate) const DELETE_INTENT: u64 = 13;
    pub(crate) const DELETE: u64 = 14;
    pub(crate) const ROTATION: u64 = 15;
    pub(crate) const FIRST_TRY: u64 = 16;
    pub(crate) const SECOND_TRY: u64 = 17;
    pub(crate) const FAILED: u64 = 18;
    pub(crate) const DRY_RUN: u64 = 19;
    pub(crate) const AUTOMATION_MODE: u64 = 20;
    pub(crate) const AUTOMATED: u64 = 21;
    pub(crate) const GATED: u64 = 22;
    pub(crate) const OPEN_INTENT: u64 = 23;
    pub(crate) const EXPIRED: u64 = 24;
    pub(crate) const SIZE: u64 = 25;
}

/// Signs the entries up to `at::ROTATION`; `NEXT_KEY` signs the later ones.
pub(crate) const FIRST_KEY: u8 = 1;
pub(crate) const NEXT_KEY: u8 = 2;
pub(crate) const FIRST_CHECKPOINT_KEY: u8 = 3;
pub(crate) const NEXT_CHECKPOINT_KEY: u8 = 4;
/// A key that belongs to nobody in the story.
pub(crate) const STRANGER: u8 = 9;

pub(crate) fn key(seed: u8) -> SealingKey {
    SealingKey::from_seed(&Secret::new([seed; 32]))
}

pub(crate) fn log() -> LogId {
    LogId::new(second(0), [1; 10])
}

pub(crate) fn second(second: u64) -> Timestamp {
    Timestamp::from_micros(1_763_164_800_000_000).plus_seconds(second)
}

pub(crate) fn digest(text: &str) -> Digest {
    Digest::new(Sha256::digest(text).into())
}

pub(crate) struct Draft {
    pub(crate) kind: Kind,
    pub(crate) at: Timestamp,
    /// What the clock said, if it had been set back.
    pub(crate) clock: Option<Timestamp>,
    pub(crate) body: Value,
}

/// The entries to record, before they are signed.
pub(crate) struct Story {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) definitions: Vec<String>,
}

impl Story {
    pub(crate) fn new() -> Self {
        let mut story = Self { drafts: Vec::new(), definitions: Vec::new() };
        let person = PrincipalId::User(owner());
        let automation = AutomationId::new(second(0), [3; 10]);
        let set = |scope: &str, action: &str, mode, version| ModeBody {
            scope: scope.to_owned(),
            action: ActionId::parse(action).unwrap(),
            mode,
            lock: Lock::Open,
            version,
            by: person.clone(),
        };
        let approval = || Some(ApprovalBody { approvers: vec![person.clone()], binding: digest("binding") });
        let inferred = |mode| Decision::new(mode, ModeSource::InferredDefault, None);
        let by_org = |mode, version| Decision::new(mode, ModeSource::OrgDefault, Some(version));

        story.add(
            Kind::Key,
            &KeyBody {
                receipt_key: KeyText::new(&key(FIRST_KEY).public()),
                checkpoint_key: KeyText::new(&key(FIRST_CHECKPOINT_KEY).public()),
                replaces: None,
                starts_at_seq: "0".to_owned(),
                revoked: Vec::new(),
            },
        );
        story.add(Kind::Identity, &IdentityBody { by: None, change: IdentityChange::UserCreated { user: owner(), role: Role::Owner } });
        let holder = person.clone();
        let change =
            IdentityChange::TokenMade { token: owner_token(), holder, scopes: Vec::new(), with: None, expires_at: None, device: None };
        story.add(Kind::Identity, &IdentityBody { by: None, change });
        story.add(Kind::Receipt, &receipt(1, "files.read_text", Tier::R0, inferred(Mode::Allow), Status::Succeeded));

        story.add(Kind::Mode, &set("org", "files.write_text", Some(Mode::Allow), 1));
        let key_digest = Some(digest("idempotency key"));
        let write = ReceiptBody {
            idempotency_key: key_digest,
            verification: Some(Verification { ok: true, checks: vec!["read_back".to_owned()] }),
            ..receipt(2, "files.write_text", Tier::R2, by_org(Mode::Allow, 1), Status::Succeeded)
        };
        story.add(Kind::Intent, &intent(&write, 1));
        story.add(Kind::Receipt, &write);

        let send = ReceiptBody {
            approval: approval(),
            ..receipt(3, "http.request", Tier::R3, inferred(Mode::RequireApproval), Status::Succeeded)
        };
        story.add(Kind::Answer, &answer(&send, &person));
        story.add(Kind::Intent, &intent(&send, 1));
        story.add(Kind::Receipt, &send);

        story.add(Kind::Receipt, &denied(receipt(4, "files.delete", Tier::R4, inferred(Mode::Deny), Status::Denied)));

        story.add(Kind::Mode, &set("org", "files.delete", Some(Mode::Allow), 2));
        let tightened = by_org(Mode::Allow, 2).at_least(Mode::RequireApproval, Reason::DangerIsNeverAllowed);
        let delete = ReceiptBody {
            approval: approval(),
            rollback: Some(Remedy { attempted: true, ok: true }),
            ..receipt(5, "files.delete", Tier::R4, tightened, Status::Reverted)
        };
        story.add(Kind::Answer, &answer(&delete, &person));
        story.add(Kind::Intent, &intent(&delete, 1));
        story.add(Kind::Receipt, &delete);

        story.add(
            Kind::Key,
            &KeyBody {
                receipt_key: KeyText::new(&key(NEXT_KEY).public()),
                checkpoint_key: KeyText::new(&key(NEXT_CHECKPOINT_KEY).public()),
                replaces: Some(key(FIRST_KEY).key_id().to_owned()),
                starts_at_seq: (at::ROTATION + 1).to_string(),
                revoked: Vec::new(),
            },
        );

        let failed = ReceiptBody {
            attempts: 2,
            error: Some("source_unreachable".to_owned()),
            outputs: None,
            ..receipt(6, "files.write_text", Tier::R2, by_org(Mode::Allow, 1), Status::Failed)
        };
        story.add(Kind::Intent, &intent(&failed, 1));
        story.add(Kind::Intent, &intent(&failed, 2));
        story.add(Kind::Receipt, &failed);

        let dry_run = receipt(7, "http.request", Tier::R3, inferred(Mode::RequireApproval), Status::Succeeded);
        story.add(Kind::Receipt, &ReceiptBody { attempts: 0, dry_run: true, ..dry_run });

        story.add(Kind::Mode, &set(&format!("automation:{automation}"), "files.write_text", Some(Mode::Deny), 3));
        let overridden = Decision::new(Mode::Deny, ModeSource::AutomationOverride, Some(3));
        let automated = denied(receipt(8, "files.write_text", Tier::R2, overridden, Status::Denied));
        let policy_slice = policy_slice(Some((Mode::Deny, 3)), Some((Mode::Allow, 1)));
        story.add(Kind::Receipt, &ReceiptBody { principal: PrincipalId::Automation(automation), policy_slice, ..automated });

        let mut gated = denied(receipt(9, "files.read_text", Tier::R0, inferred(Mode::Allow), Status::Denied));
        gated.policy.insert(
            Gate::Rbac,
            PolicyVerdict { errors: Vec::new(), verdict: Verdict::Deny, determining: vec!["builtin.invoke".to_owned()] },
        );
        story.add(Kind::Receipt, &gated);

        story.add(Kind::Intent, &intent(&receipt(10, "files.write_text", Tier::R2, by_org(Mode::Allow, 1), Status::Running), 1));

        let expired = denied(receipt(11, "http.request", Tier::R3, inferred(Mode::RequireApproval), Status::Expired));
        story.add(Kind::Receipt, &ReceiptBody { denied_by: None, ..expired });

        for (action, tier) in DEFINED {
            story.definitions.push(structural_text(action));
            story.definitions.push(textual_text(action, tier));
        }
        story
    }

    pub(crate) fn add(&mut self, kind: Kind, body: &impl Serialize) {
        // An answer comes in the second of the entry before it, so that the times of the calls stay whole.
        let is_untimed = |kind| matches!(kind, Kind::Identity | Kind::Answer);
        let timed = self.drafts.iter().filter(|draft| !is_untimed(draft.kind)).count() as u64;
        let at = second(if is_untimed(kind) { timed.saturating_sub(1) } else { timed });
        self.drafts.push(Draft { kind, at, clock: None, body: serde_json::to_value(body).unwrap() });
    }

    /// Changes a recorded value, as the holder of the key could.
    pub(crate) fn with(mut self, seq: u64, pointer: &str, value: Value) -> Self {
        *self.drafts[seq as usize].body.pointer_mut(pointer).unwrap() = value;
        self
    }

    /// Adds one more entry at the end, as the holder of the key could.
    pub(crate) fn and(mut self, kind: Kind, body: &impl Serialize) -> Self {
        self.add(kind, body);
        self
    }

    /// Changes the time of the last entry.
    pub(crate) fn retimed(mut self, at: Timestamp) -> Self {
        self.drafts.last_mut().unwrap().at = at;
        self
    }

    pub(crate) fn receipt(&self, seq: u64) -> ReceiptBody {
        serde_json::from_value(self.drafts[seq as usize].body.clone()).unwrap()
    }

    pub(crate) fn intent(&self, seq: u64) -> IntentBody {
        serde_json::from_value(self.drafts[seq as usize].body.clone()).unwrap()
    }

    pub(crate) fn seal(&self) -> Bundle {
        let mut bundle = Bundle { log: log(), lines: Vec::new(), roots: vec![tree::empty_root()] };
        let mut frontier = Frontier::new();
        let mut prev = NO_PREV;
        let mut signer = FIRST_KEY;
        for (seq, Draft { kind, at, clock, body }) in (0..).zip(&self.drafts) {
            let header = Header { log: log(), seq, prev, kind: *kind, at: *at, clock: *clock };
            let payload = entry::payload(&header, &json::canonical(body).unwrap());
            bundle.lines.push(entry_line(seq, &payload, &key(signer)));
            if let Some(announced) = body.get("receipt_key") {
                let known = (1..=STRANGER).find(|seed| announced == &json!(key(*seed).public().to_base64()));
                signer = known.unwrap_or(signer);
            }
            if let (Kind::Batch, Some(status)) = (kind, body["status"].as_str().and_then(BatchStatus::parse)) {
                bundle.lines.push(Line::Event {
                    event_id: EventId::new(*at, [seq as u8; 10]),
                    name: status.event_name().to_owned(),
                    receipt_id: ReceiptId::parse(body["receipt_id"].as_str().unwrap()).unwrap(),
                    invocation_id: None,
                });
            }
            if let (Kind::Receipt, Some(status)) = (kind, body["status"].as_str().and_then(Status::parse)) {
                bundle.lines.push(Line::Event {
                    event_id: EventId::new(*at, [seq as u8; 10]),
                    name: status.event_name().to_owned(),
                    receipt_id: ReceiptId::parse(body["receipt_id"].as_str().unwrap()).unwrap(),
                    invocation_id: InvocationId::parse(body["invocation_id"].as_str().unwrap()).ok(),
                });
            }
            prev = entry::payload_digest(&payload);
            frontier.append(tree::leaf(&payload));
            bundle.roots.push(frontier.root());
            if seq == at::DELETE {
                bundle.lines.push(bundle.checkpoint(seq + 1, FIRST_CHECKPOINT_KEY));
            }
        }
        for body in &self.definitions {
            bundle.lines.push(Line::Definition { digest: digest(body), body: body.clone() });
        }
        bundle.lines.push(bundle.checkpoint(frontier.size(), NEXT_CHECKPOINT_KEY));
        bundle
    }
}

/// The signed story. Its `end` line is made when it is written, as a person who tampers with the bundle would also do.
#[derive(Clone)]
pub(crate) struct Bundle {
    pub(crate) log: LogId,
    pub(crate) lines: Vec<Line>,
    /// The root at each size.
    pub(crate) roots: Vec<Digest>,
}

impl Bundle {
    /// The lines without their newlines.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut tally = Tally::new();
        let mut texts = vec![tally.opening(&Opening::new(self.log.clone()))];
        texts.extend(self.lines.iter().map(|line| tally.line(line)));
        texts.push(to_line(&tally.end()));
        texts.iter().map(|text| text.trim_end_matches('\n').to_owned()).collect()
    }

    /// The index of an entry's line.
    pub(crate) fn index(&self, seq: u64) -> usize {
        let label = seq.to_string();
        self.lines.iter().position(|line| matches!(line, Line::Entry { seq, .. } if *seq == label)).unwrap()
    }

    pub(crate) fn envelope(&mut self, seq: u64) -> &mut Envelope {
        let index = self.index(seq);
        let Line::Entry { envelope, .. } = &mut self.lines[index] else { panic!("line {index} is not an entry") };
        envelope
    }

    pub(crate) fn payload(&mut self, seq: u64) -> String {
        self.envelope(seq).peek().unwrap()
    }

    /// Signs another payload and puts it in an entry's place.
    pub(crate) fn reseal(&mut self, seq: u64, payload: &str, signer: u8) {
        let index = self.index(seq);
        self.lines[index] = entry_line(seq, payload, &key(signer));
    }

    pub(crate) fn checkpoint(&self, size: u64, signer: u8) -> Line {
        Line::Checkpoint { note: self.note(size, signer) }
    }

    pub(crate) fn note(&self, size: u64, signer: u8) -> String {
        Checkpoint::new(&self.log, size, self.roots[size as usize]).sign(&key(signer))
    }
}

fn entry_line(seq: u64, payload: &str, key: &SealingKey) -> Line {
    Line::Entry { seq: seq.to_string(), envelope: Envelope::new(payload, key.key_id(), &envelope::sign(key, payload)) }
}

const DEFINED: [(&str, Tier); 4] =
    [("files.read_text", Tier::R0), ("files.write_text", Tier::R2), ("http.request", Tier::R3), ("files.delete", Tier::R4)];

fn structural_text(action: &str) -> String {
    json::canonical(&json!({ "id": action, "params_schema": {} })).unwrap()
}

fn textual_text(action: &str, tier: Tier) -> String {
    json::canonical(&json!({ "id": action, "params_schema": {}, "tier": tier, "title": "A title" })).unwrap()
}

pub(crate) fn invocation(number: u8) -> InvocationId {
    InvocationId::new(second(u64::from(number)), [number; 10])
}

pub(crate) fn owner() -> UserId {
    UserId::new(second(0), [2; 10])
}

pub(crate) fn owner_token() -> TokenId {
    TokenId::new(second(0), [2; 10])
}

/// The approval of a call, given by this person with the owner's token.
pub(crate) fn answer(receipt: &ReceiptBody, by: &PrincipalId) -> AnswerBody {
    AnswerBody {
        answer: Answer::Approve,
        approval_id: ApprovalId::new(second(0), [receipt.receipt_id.as_str().len() as u8; 10]),
        beyond: Beyond::Once,
        binding: digest("binding"),
        by: by.clone(),
        invocation_id: receipt.invocation_id.clone(),
        pending_from_seq: (at::OWNER_TOKEN + 1).to_string(),
        role: Role::Owner,
        token: owner_token(),
    }
}

/// The digest of rules in which only the deciding row is set.
pub(crate) fn slice_of(decision: &Decision) -> Digest {
    let row = decision.modes_version.map(|version| (decision.base, version));
    match decision.source {
        ModeSource::AutomationOverride => policy_slice(row, None),
        ModeSource::OrgDefault | ModeSource::InferredDefault => policy_slice(None, row),
    }
}

/// The digest of the rules a call sees, made of the automation's row and the org's.
pub(crate) fn policy_slice(automation: Option<(Mode, i64)>, org: Option<(Mode, i64)>) -> Digest {
    let text = |row: Option<(Mode, i64)>| {
        row.map_or_else(|| "null".to_owned(), |(mode, version)| format!(r#"{{"lock":"open","mode":"{mode}","version":"{version}"}}"#))
    };
    digest(&format!(r#"{{"automation":{},"band":"green","org":{},"rules":"builtin/v2"}}"#, text(automation), text(org)))
}

/// The receipt of call `number`, requested in the second of that number and attempted once.
pub(crate) fn receipt(number: u8, action: &str, tier: Tier, decision: Decision, status: Status) -> ReceiptBody {
    let ok = || PolicyVerdict { errors: Vec::new(), verdict: Verdict::Ok, determining: vec!["builtin.invoke".to_owned()] };
    let silent = || PolicyVerdict { errors: Vec::new(), verdict: Verdict::NotApplicable, determining: Vec::new() };
    let session = SessionId::new(second(0), [4; 10]);
    ReceiptBody {
        receipt_id: ReceiptId::new(second(0), [number; 10]),
        invocation_id: invocation(number),
        attempts: 1,
        batch: None,
        status,
        error: None,
        denied_by: None,
        principal: PrincipalId::Agent(session.clone()),
        owner: Some(owner()),
        session,
        space: SpaceId::new(second(0), [5; 10]),
        action: ActionId::parse(action).unwrap(),
        connection_id: None,
        tier,
        definition: DefinitionDigests { structural: digest(&structural_text(action)), textual: digest(&textual_text(action, tier)) },
        params: digest(&format!("params {number}")),
        raw: digest(&format!("raw {number}")),
        policy: Gate::ALL.into_iter().map(|gate| (gate, if gate == Gate::Rbac { ok() } else { silent() })).collect(),
        policy_slice: slice_of(&decision),
        decision,
        approval: None,
        sandbox: Sandbox::none("in_process".to_owned()),
        outputs: Some(Outputs { digest: digest("outputs"), bytes: 120, withheld: false }),
        artifacts: Vec::new(),
        evidence: None,
        verification: None,
        repair: None,
        rollback: None,
        cost: Cost { cpu_ms: Some(3), energy_uj: None, price: None, usd: None },
        timing: Timing {
            queued_ms: 20,
            exec_ms: 980,
            total_ms: 1_000,
            started_at: Some(Timestamp::from_micros(second(u64::from(number)).as_micros() + 20_000)),
            ended_at: second(u64::from(number) + 1),
        },
        idempotency_key: None,
        replayed: false,
        dry_run: false,
        trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        reward: Reward { scalar_millionths: 720_000, success: 1_000_000, quality: 500_000, cost: 480_000, latency: 120_000 },
        supersedes: None,
        reverses: None,
        settled: None,
        grant: None,
        policies: None,
        claimed: None,
        redacted: Default::default(),
        grant_returned: false,
        observed: false,
        edit: None,
    }
}

fn denied(receipt: ReceiptBody) -> ReceiptBody {
    let timing = Timing { queued_ms: 0, exec_ms: 0, started_at: None, ..receipt.timing };
    let reward = Reward { scalar_millionths: 0, success: 0, quality: 0, cost: 0, latency: 0 };
    ReceiptBody { attempts: 0, denied_by: Some(DeniedBy::Policy), outputs: None, timing, reward, ..receipt }
}

/// The intent that belongs to a receipt.
pub(crate) fn intent(receipt: &ReceiptBody, attempt: u32) -> IntentBody {
    let mut random = [0; 10];
    random.copy_from_slice(&digest(&format!("{} {attempt}", receipt.invocation_id)).as_bytes()[..10]);
    IntentBody {
        intent_id: IntentId::new(second(0), random),
        invocation_id: receipt.invocation_id.clone(),
        attempt,
        principal: receipt.principal.clone(),
        space: receipt.space.clone(),
        action: receipt.action.clone(),
        connection_id: receipt.connection_id.clone(),
        tier: receipt.tier,
        definition: receipt.definition,
        params: receipt.params,
        raw: receipt.raw,
        batch: receipt.batch.clone(),
        reverses: receipt.reverses.clone(),
        decision: receipt.decision.clone(),
        approval: receipt.approval.clone(),
        grant: receipt.grant.clone(),
        observed: receipt.observed,
        spends: None,
        idempotency_key: receipt.idempotency_key,
        profile: receipt.sandbox.profile.clone(),
        owner: None,
        asked_by: None,
        evidence: None,
        purpose: Purpose::Effect,
        trace_id: receipt.trace_id.clone(),
    }
}
