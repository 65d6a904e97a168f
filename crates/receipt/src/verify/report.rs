//! The verifier's answer: the counts of what was verified, the head of the log, and the first problem.

use countersign_core::Digest;
use serde::Serialize;
use serde_json::Value;

/// The ways in which an audit log can be wrong. The numbers are stable, because scripts and exit codes depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    EditedBody,
    SwappedPayload,
    /// The key is unknown, retired, revoked, or does not sign yet at this seq.
    WrongKey,
    /// A signature or key that strict Ed25519 refuses.
    LaxSignature,
    DeletedEntry,
    InsertedOrReordered,
    /// A seq, receipt id or intent id occurs twice.
    Duplicate,
    TruncatedTail,
    ForgedRoot,
    /// The log does not continue what was signed before.
    ForkOrRollback,
    OtherLog,
    TimeBackwards,
    /// An outcome without its intent, an intent without its outcome, or two outcomes.
    UnpairedOutcome,
    EffectDespiteDenial,
    /// The definition is not archived, or the decision does not follow from what the log holds.
    DecisionNotReproduced,
    ArtifactDiffers,
    NotCanonical,
    /// A field, kind or version this verifier does not know.
    UnknownShape,
    /// One idempotency key answered for two different calls.
    KeyReused,
    UnpairedEvent,
    /// The bundle could not be read, so nothing is known about it.
    Unreadable,
}

impl Class {
    pub const ALL: [Self; 21] = [
        Self::EditedBody,
        Self::SwappedPayload,
        Self::WrongKey,
        Self::LaxSignature,
        Self::DeletedEntry,
        Self::InsertedOrReordered,
        Self::Duplicate,
        Self::TruncatedTail,
        Self::ForgedRoot,
        Self::ForkOrRollback,
        Self::OtherLog,
        Self::TimeBackwards,
        Self::UnpairedOutcome,
        Self::EffectDespiteDenial,
        Self::DecisionNotReproduced,
        Self::ArtifactDiffers,
        Self::NotCanonical,
        Self::UnknownShape,
        Self::KeyReused,
        Self::UnpairedEvent,
        Self::Unreadable,
    ];

    pub const fn number(self) -> u8 {
        match self {
            Self::EditedBody => 1,
            Self::SwappedPayload => 2,
            Self::WrongKey => 3,
            Self::LaxSignature => 4,
            Self::DeletedEntry => 5,
            Self::InsertedOrReordered => 6,
            Self::Duplicate => 7,
            Self::TruncatedTail => 8,
            Self::ForgedRoot => 9,
            Self::ForkOrRollback => 10,
            Self::OtherLog => 11,
            Self::TimeBackwards => 12,
            Self::UnpairedOutcome => 13,
            Self::EffectDespiteDenial => 14,
            Self::DecisionNotReproduced => 15,
            Self::ArtifactDiffers => 16,
            Self::NotCanonical => 17,
            Self::UnknownShape => 18,
            Self::KeyReused => 19,
            Self::UnpairedEvent => 20,
            Self::Unreadable => 21,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::EditedBody => "edited_body",
            Self::SwappedPayload => "swapped_payload",
            Self::WrongKey => "wrong_key",
            Self::LaxSignature => "lax_signature",
            Self::DeletedEntry => "deleted_entry",
            Self::InsertedOrReordered => "inserted_or_reordered",
            Self::Duplicate => "duplicate",
            Self::TruncatedTail => "truncated_tail",
            Self::ForgedRoot => "forged_root",
            Self::ForkOrRollback => "fork_or_rollback",
            Self::OtherLog => "other_log",
            Self::TimeBackwards => "time_backwards",
            Self::UnpairedOutcome => "unpaired_outcome",
            Self::EffectDespiteDenial => "effect_despite_denial",
            Self::DecisionNotReproduced => "decision_not_reproduced",
            Self::ArtifactDiffers => "artifact_differs",
            Self::NotCanonical => "not_canonical",
            Self::UnknownShape => "unknown_shape",
            Self::KeyReused => "key_reused",
            Self::UnpairedEvent => "unpaired_event",
            Self::Unreadable => "unreadable",
        }
    }
}

/// The first problem found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// See `Class::number`.
    pub class: u8,
    pub name: &'static str,
    pub seq: Option<u64>,
    pub receipt_id: Option<String>,
    pub invocation_id: Option<String>,
    pub reason: String,
}

/// The last verified entry. Everything up to it is proved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Head {
    pub seq: u64,
    /// SHA-256 of its payload.
    pub digest: Digest,
    /// The root of the tree that ends with this entry.
    pub root: Digest,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub ok: bool,
    /// Verified entries; if there is a finding, those before it.
    pub entries: u64,
    pub receipts: u64,
    /// Receipts of batches.
    pub batches: u64,
    /// Answers of people to pending calls.
    pub answers: u64,
    pub intents: u64,
    /// Intents whose invocation has no receipt yet: running, or in doubt after a crash.
    pub open_intents: u64,
    pub checkpoints: u64,
    /// Artifacts named by digest. Their bytes are not in a bundle, so they are not checked.
    pub artifacts_unchecked: u64,
    /// Lines that were read; if there is a finding, the last of them is where it was found.
    #[serde(skip)]
    pub lines: u64,
    pub head: Option<Head>,
    pub first_bad: Option<Finding>,
    /// Facts that hold but prove less than a reader may think.
    pub warnings: Vec<String>,
}

/// `1 entry`, `2 entries`.
pub(super) fn entries(count: u64) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

impl Finding {
    pub(super) fn new(class: Class, reason: impl Into<String>) -> Self {
        Self { class: class.number(), name: class.name(), seq: None, receipt_id: None, invocation_id: None, reason: reason.into() }
    }

    pub(super) const fn is(&self, class: Class) -> bool {
        self.class == class.number()
    }

    /// Sets the place of the finding, unless a more exact one is known already.
    pub(super) fn at(mut self, seq: u64) -> Self {
        self.seq = self.seq.or(Some(seq));
        self
    }

    /// Adds the receipt and the invocation that a body claims to be about.
    pub(super) fn within(mut self, body: &Value) -> Self {
        let text = |field| body.get(field).and_then(Value::as_str).map(str::to_owned);
        self.receipt_id = self.receipt_id.or_else(|| text("receipt_id"));
        self.invocation_id = self.invocation_id.or_else(|| text("invocation_id"));
        self
    }
}

impl Report {
    /// Adds the warnings.
    pub(super) fn warn(&mut self) {
        let mut warn = |count: u64, one: &str, many: &str| match count {
            0 => {}
            1 => self.warnings.push(format!("1 {one}")),
            count => self.warnings.push(format!("{count} {many}")),
        };
        let open = "no receipt yet: running, or in doubt";
        warn(self.open_intents, &format!("intent has {open}"), &format!("intents have {open}"));
        let unchecked = "named by digest only and";
        let (one, many) = (format!("artifact is {unchecked} was not checked"), format!("artifacts are {unchecked} were not checked"));
        warn(self.artifacts_unchecked, &one, &many);
    }
}
