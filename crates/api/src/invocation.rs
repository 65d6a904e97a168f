//! Invocations on the wire.

use crate::Page;
use crate::batch::PartOfView;
use countersign_core::decision::{GateVerdict, Verdict};
use countersign_core::effect::{Check, Remedy, Scope};
use countersign_core::invocation::{Answer, Beyond, Claimed, Deadline, DeniedBy, Intention};
use countersign_core::{Decision, Invocation, Status, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Asks for one action to be performed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvokeRequest {
    /// `<source>.<name>`.
    #[schema(example = "files.write_text")]
    pub action: String,
    #[serde(default = "empty_object")]
    #[schema(value_type = Object)]
    pub params: Value,
    /// The same key with the same params has one effect; `auto` derives it from the fields the action names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The id of an earlier, held invocation of this very call, whose answer is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_ref: Option<String>,
    /// Says what would change and changes nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Why, in the caller's words; shown to whoever approves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the caller knows of the moment. It is recorded and never evaluated: our clock and the token's principal are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<CallerContext>,
    /// Where params came from, by JSON pointer. It can only make a call stricter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provenance: BTreeMap<String, ProvenanceName>,
    /// Where the call may act, narrower than its source would let it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeView>,
    /// What has to succeed after the effect, besides what the action checks itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationView>,
}

/// What a call is verified with, besides what its action checks itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerificationView {
    /// Run after the effect, at most 16; each must be on the server's list of commands, word by word.
    #[serde(default)]
    #[schema(example = json!(["node --check src/a.js"]))]
    pub commands: Vec<String>,
}

/// Where a call may act at most. Nothing said means: wherever its source acts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScopeView {
    /// These files, besides what lies in `allowed_dirs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_files: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_dirs: Vec<String>,
    /// Whatever else is said, not these; a folder stands for all it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden_files: Vec<String>,
}

impl From<ScopeView> for Scope {
    fn from(view: ScopeView) -> Self {
        Self { allowed_files: view.allowed_files, allowed_dirs: view.allowed_dirs, forbidden_files: view.forbidden_files }
    }
}

impl From<Scope> for ScopeView {
    fn from(scope: Scope) -> Self {
        Self { allowed_files: scope.allowed_files, allowed_dirs: scope.allowed_dirs, forbidden_files: scope.forbidden_files }
    }
}

/// Takes back the effect of an invocation that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevertRequest {
    /// Why; shown to whoever approves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A person's word on an effect in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettleDoubtRequest {
    #[serde(rename = "as")]
    pub settlement: SettlementName,
    /// How one knows.
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettlementName {
    /// It happened.
    Succeeded,
    /// It did not happen.
    Failed,
    /// Nobody knows, and twice does no harm: it ends `failed`, and the same call is made as a new invocation.
    Retry,
}

/// A caller's own words about a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallerContext {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

impl From<CallerContext> for Claimed {
    fn from(context: CallerContext) -> Self {
        Self { time: context.time, device: context.device, actor: context.actor, ..Self::default() }
    }
}

/// Everything a caller said of itself and a call: shown and recorded, never evaluated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClaimedView {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Whom the caller says it acts as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The caller's own name for the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_id: Option<String>,
    /// How sure the caller says it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// How the caller would take it back, redacted. Nothing follows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub rollback_plan: Option<Value>,
}

impl From<Claimed> for ClaimedView {
    fn from(claimed: Claimed) -> Self {
        Self {
            time: claimed.time,
            device: claimed.device,
            actor: claimed.actor,
            subject: claimed.subject,
            action_id: claimed.action_id,
            confidence: claimed.confidence.and_then(|confidence| confidence.as_f64()),
            rollback_plan: claimed.rollback_plan,
        }
    }
}

/// Where a param came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProvenanceName {
    User,
    ActionOutput,
    Web,
}

fn empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}

/// The answer to an invocation that ended well or waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InvokeResponse {
    pub invocation: InvocationView,
    /// Redacted, and whole; `invocation.result` may be truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<Value>,
    /// What happens next, when nothing has happened yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// True when an earlier call under the same idempotency key answers.
    #[serde(default)]
    pub replayed: bool,
}

/// A line a running call printed: redacted, cut when long, and harmless to a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProgressEvent {
    /// Counted from 1.
    pub seq: u64,
    pub text: String,
}

/// Lines that were gone before they could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissedEvent {
    pub count: u64,
}

/// The invocation that is followed has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndEvent {
    pub status: String,
}

/// How a pending invocation is approved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApproveMode {
    /// This invocation only.
    #[default]
    Once,
    /// This invocation, and the action is `allow` from now on.
    Always,
    /// This invocation, and more like it within the bounds of `grant`.
    Grant,
}

/// The grant that is given along with an approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantOfferRequest {
    #[serde(default)]
    pub scope: GrantScopeName,
    /// Calls it is good for; without it, any number until it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_max: Option<u32>,
    /// An older name of `calls_max`; one of them, not both.
    #[serde(default, rename = "maxCalls", skip_serializing_if = "Option::is_none")]
    #[schema(deprecated)]
    pub max_calls: Option<u32>,
    /// Such as `30m`, `2h` or `7d`; 24 hours when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
}

/// Whose calls a grant is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantScopeName {
    #[default]
    Session,
    Automation,
    Org,
}

/// Approves a pending invocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveRequest {
    #[serde(default)]
    pub mode: ApproveMode,
    /// With mode `grant` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantOfferRequest>,
    /// Other params than the ones that were asked for: these are validated, approved and performed instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<Value>,
    /// The `binding.digest` that was shown; when it is not the invocation's, nothing is approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Approves several pending invocations, each once and by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveManyRequest {
    /// At most 100.
    pub invocations: Vec<OneOfMany>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One of several: its id, or its id with what was shown of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum OneOfMany {
    Id(String),
    Shown(ShownOne),
}

impl OneOfMany {
    pub fn id(&self) -> &str {
        match self {
            Self::Id(id) | Self::Shown(ShownOne { id, .. }) => id,
        }
    }

    pub fn binding(&self) -> Option<&str> {
        match self {
            Self::Id(_) => None,
            Self::Shown(shown) => Some(&shown.binding),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShownOne {
    pub id: String,
    /// The `binding.digest` that was shown; when it is not the invocation's, this one is not approved.
    pub binding: String,
}

/// What became of each, in the order they were given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApproveManyResponse {
    pub results: Vec<ApprovedOne>,
}

/// What became of one of several: its invocation, or why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApprovedOne {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation: Option<Box<InvocationView>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Box<crate::Problem>>,
}

/// Hides a pending invocation from one's own inbox for a while. Nothing is decided by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnoozeRequest {
    /// Such as `30m` or `2h`; `0s` shows it again.
    #[serde(rename = "for")]
    pub time: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnoozeResponse {
    pub id: String,
    pub until: String,
}

/// Asks for a link that answers one invocation in one's own name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLinkRequest {
    /// Such as `10m`; 15 minutes when absent. It also ends with the invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkResponse {
    /// A path on this server. Whoever holds it can answer this one invocation as you.
    pub path: String,
    pub expires_at: String,
}

/// Denies a pending invocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DenyRequest {
    /// Reaches whoever asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answer to a denial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DenyResponse {
    pub invocation: InvocationView,
}

/// One invocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InvocationView {
    #[schema(example = "inv_01k9z6m4x0abcdefghjkmnpqrs")]
    pub id: String,
    /// `pending`, `approved`, `running`, `succeeded`, `failed`, `reverted`, `denied`, `quarantined`, `expired`, `cancelled` or `in_doubt`.
    pub status: Cow<'static, str>,
    /// `allow`, `require_approval` or `deny`.
    pub mode: Cow<'static, str>,
    /// `automation_override`, `org_default` or `inferred_default`.
    pub mode_source: Cow<'static, str>,
    pub action: String,
    pub source: String,
    /// `R0` to `R4`.
    pub tier: Cow<'static, str>,
    /// `read`, `write` or `danger`.
    pub class: Cow<'static, str>,
    pub session_id: String,
    pub space_id: String,
    /// `user:…`, `agent:…`, `service:…` or `automation:…`.
    pub principal: String,
    pub owner_id: Option<String>,
    /// Redacted, and pruned when large.
    #[schema(value_type = Object)]
    pub params: Value,
    /// Redacted, and pruned to 10 KB with `_truncated: true`.
    #[schema(value_type = Option<Object>)]
    pub result: Option<Value>,
    pub error: Option<FailureView>,
    /// `policy`, `person`, `binding` or `drift`.
    pub denied_by: Option<Cow<'static, str>>,
    pub reason: Option<String>,
    pub idempotency_key: Option<String>,
    pub dry_run: bool,
    pub decision: DecisionView,
    pub gates: Vec<GateView>,
    pub digests: DigestsView,
    /// What an approval of it is bound to.
    pub binding: Option<BindingView>,
    /// When nobody can answer any more; null while a kill switch has stopped the clock.
    pub expires_at: Option<String>,
    /// A kill switch is on: it stays where it is, and its clock stands still.
    #[serde(default)]
    pub clock_stopped: bool,
    /// Everyone who said yes so far.
    #[serde(default)]
    pub approvals: Vec<AnswerView>,
    pub answer: Option<AnswerView>,
    /// How an approver changed the params.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<EditView>,
    /// What the caller said of itself and the call; never evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<ClaimedView>,
    /// How much of each kind was taken out of the params before the source saw them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub redacted: BTreeMap<String, u32>,
    /// The quarantined call that a person released as this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_from: Option<String>,
    /// The grant that stood in for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<String>,
    /// What was looked at after the effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckView>,
    /// The one repair, where a check failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<RemedyView>,
    /// Taking it back, where a check failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<RemedyView>,
    /// The invocation whose effect this one takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverses: Option<String>,
    /// The invocation that took its effect back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_back_by: Option<String>,
    /// The files it changed, where it is read by itself; of one that takes back, those it put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_files: Vec<ChangedFileView>,
    /// The batch it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<PartOfView>,
    /// Who said how it ended, where nobody else could know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<SettledView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeView>,
    /// What the caller wants to see succeed after the effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationView>,
    /// How often its source was asked to act: the effect with what was tried again, its repair, and taking it back.
    pub attempts: u32,
    /// When it was admitted.
    pub created_at: String,
    /// When it was taken up again: approved, and not started by who was to, such as a server that stopped before it could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_up_at: Option<String>,
    /// When its source was first asked.
    pub started_at: Option<String>,
    pub completed_at: Option<String>,
    /// From when it was admitted to its end, without `waited_ms`.
    pub duration_ms: Option<u64>,
    /// How long it waited for people, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    pub receipt: Option<ReceiptRefView>,
    pub trace_id: String,
}

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedFileView {
    pub path: String,
    /// `created`, `changed` or `removed`.
    pub change: Cow<'static, str>,
}

/// What can be known of a call that waits, for whoever answers it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ForesightView {
    /// Why it could not run now, whatever the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<FailureView>,
    /// What would change, as a dry run tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub changes: Option<Value>,
    /// Why that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Code of a package was run, without effect, to know all this.
    #[serde(default)]
    pub ran_code: bool,
    /// What about its content made us ask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub concerns: Vec<ConcernView>,
    /// What its session has come to hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelView>,
}

/// What taking an effect back would come to. Nothing was done, and nothing is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RevertForesightView {
    /// Whose effect it is.
    pub invocation_id: String,
    pub action: String,
    /// `runs`, `asks`, `denied` or `quarantined`.
    pub would: String,
    /// In one sentence, what decides that.
    pub because: String,
    /// How many people would have to say yes, where any would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals_needed: Option<u32>,
    /// Why it could not be taken back now, whatever the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<FailureView>,
    /// What would be as it was again, as a dry run tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub changes: Option<Value>,
    /// Why that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConcernView {
    /// Such as `safety.trifecta`.
    pub rule: String,
    /// Where in the params; empty where it is about the call as a whole.
    pub pointer: String,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabelView {
    /// `private_data` or `untrusted_content`.
    pub label: String,
    pub at: String,
    /// The call that brought it in; absent where that was before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureView {
    pub code: String,
    pub message: String,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckView {
    pub name: String,
    pub ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A repair or a rollback, and whether it did what it was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemedyView {
    pub attempted: bool,
    pub ok: bool,
}

/// A person's word on an effect that was in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettledView {
    pub by: String,
    pub at: String,
    pub reason: Option<String>,
}

impl From<Check> for CheckView {
    fn from(check: Check) -> Self {
        Self { name: check.name, ok: check.ok, detail: check.detail }
    }
}

impl From<Remedy> for RemedyView {
    fn from(remedy: Remedy) -> Self {
        Self { attempted: remedy.attempted, ok: remedy.ok }
    }
}

/// The mode and everything that decided it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecisionView {
    pub mode: Cow<'static, str>,
    /// What the cascade found, before anything tightened it.
    pub base: Cow<'static, str>,
    pub source: Cow<'static, str>,
    pub modes_version: Option<i64>,
    /// The version of all the org's rules it was made under.
    #[serde(default)]
    pub rules_version: Option<i64>,
    /// Why the mode is stricter than its base.
    pub tightened: Vec<Cow<'static, str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GateView {
    pub gate: Cow<'static, str>,
    /// `ok`, `needs_approval`, `deny`, `quarantine`, `redacted` or `not_applicable`.
    pub verdict: Cow<'static, str>,
    pub determining: Vec<String>,
    /// What went wrong while its rules were evaluated; any of it is a denial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DigestsView {
    pub raw: String,
    pub params: String,
    pub structural: String,
    pub textual: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BindingView {
    pub digest: String,
    pub expires_at: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AnswerView {
    pub by: String,
    pub at: String,
    pub reason: Option<String>,
    /// `once`, `always` or `grant`: what a yes does beyond this call.
    #[serde(default)]
    pub mode: Cow<'static, str>,
}

/// What an approver made of the params that were asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EditView {
    pub by: String,
    pub at: String,
    /// Where they differ: RFC 6901 pointers.
    pub changed: Vec<String>,
    /// As they were asked for, redacted.
    #[schema(value_type = Object)]
    pub proposed_params: Value,
}

fn answer_view(answer: Answer) -> AnswerView {
    let mode = match answer.beyond {
        Beyond::Once => "once",
        Beyond::Always => "always",
        Beyond::Grant(_) => "grant",
    };
    AnswerView { by: answer.by.to_string(), at: answer.at.to_string(), reason: answer.reason, mode: mode.into() }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReceiptRefView {
    pub id: String,
    /// Its position in the org's log.
    pub seq: u64,
}

/// A page of invocations, newest first.
pub type InvocationPage = Page<InvocationView>;

impl From<&Decision> for DecisionView {
    fn from(decision: &Decision) -> Self {
        Self {
            mode: decision.mode.as_str().into(),
            base: decision.base.as_str().into(),
            source: decision.source.as_str().into(),
            modes_version: decision.modes_version,
            rules_version: decision.rules_version,
            tightened: decision.tightened.iter().map(|reason| reason.to_string().into()).collect(),
        }
    }
}

impl From<GateVerdict> for GateView {
    fn from(said: GateVerdict) -> Self {
        Self { gate: said.gate.as_str().into(), verdict: verdict(said.verdict).into(), determining: said.determining, errors: said.errors }
    }
}

impl From<Invocation> for InvocationView {
    fn from(invocation: Invocation) -> Self {
        let waited_ms = waited_ms(&invocation);
        let lasted = |ended: Timestamp| ended.millis_since(invocation.created_at).saturating_sub(waited_ms.unwrap_or_default());
        let duration_ms = invocation.ended_at.map(lasted);
        Self {
            id: invocation.id.to_string(),
            status: invocation.status.as_str().into(),
            mode: invocation.decision.mode.as_str().into(),
            mode_source: invocation.decision.source.as_str().into(),
            action: invocation.action.to_string(),
            source: invocation.action.source().into(),
            tier: invocation.tier.as_str().into(),
            class: invocation.tier.class().as_str().into(),
            session_id: invocation.session.to_string(),
            space_id: invocation.space.to_string(),
            principal: invocation.principal.to_string(),
            owner_id: invocation.owner.as_ref().map(ToString::to_string),
            params: invocation.params,
            result: invocation.result,
            error: invocation.failure.map(|failure| FailureView { code: failure.code, message: failure.message }),
            denied_by: invocation.denied_by.map(|by| denied_by(by).into()),
            reason: invocation.reason,
            idempotency_key: invocation.idempotency_key,
            dry_run: invocation.intention == Intention::DryRun,
            decision: DecisionView::from(&invocation.decision),
            gates: invocation.gates.into_iter().map(GateView::from).collect(),
            digests: DigestsView {
                raw: invocation.digests.raw.to_string(),
                params: invocation.digests.params.to_string(),
                structural: invocation.digests.structural.to_string(),
                textual: invocation.digests.textual.to_string(),
            },
            binding: invocation
                .binding
                .as_ref()
                .map(|binding| BindingView { digest: binding.digest.to_string(), expires_at: binding.expires_at.to_string() }),
            expires_at: match invocation.deadline {
                Some(Deadline::At(at)) if invocation.status == Status::Pending => Some(at.to_string()),
                Some(Deadline::At(_) | Deadline::Stopped { .. }) | None => None,
            },
            clock_stopped: matches!(invocation.deadline, Some(Deadline::Stopped { .. })) && !invocation.status.is_final(),
            approvals: invocation.approvals.into_iter().map(answer_view).collect(),
            answer: invocation.answer.map(answer_view),
            edit: invocation.edit.map(|edit| EditView {
                by: edit.by.to_string(),
                at: edit.at.to_string(),
                changed: edit.changed,
                proposed_params: edit.proposed_params,
            }),
            claimed: invocation.claimed.map(ClaimedView::from),
            redacted: invocation.redacted.map(|taken| taken.counts).unwrap_or_default(),
            released_from: invocation.released_from.as_ref().map(ToString::to_string),
            grant_id: invocation.grant.as_ref().map(ToString::to_string),
            checks: invocation.aftermath.checks.into_iter().flatten().map(CheckView::from).collect(),
            repair: invocation.aftermath.repair.map(RemedyView::from),
            rollback: invocation.aftermath.rollback.map(RemedyView::from),
            reverses: invocation.reverses.as_ref().map(ToString::to_string),
            taken_back_by: None,
            changed_files: Vec::new(),
            batch: invocation.batch.map(PartOfView::from),
            settled: invocation.aftermath.settled.map(|settled| SettledView {
                by: settled.by.to_string(),
                at: settled.at.to_string(),
                reason: invocation.aftermath.settled_reason,
            }),
            scope: Some(invocation.scope).filter(|scope| !scope.is_unbounded()).map(ScopeView::from),
            verification: Some(invocation.commands).filter(|commands| !commands.is_empty()).map(|commands| VerificationView { commands }),
            attempts: invocation.attempts,
            created_at: invocation.created_at.to_string(),
            taken_up_at: invocation.taken_up_at.map(|at| at.to_string()),
            started_at: invocation.started_at.map(|at| at.to_string()),
            completed_at: invocation.ended_at.map(|at| at.to_string()),
            duration_ms,
            waited_ms,
            receipt: invocation.receipt.map(|receipt| ReceiptRefView { id: receipt.id.to_string(), seq: receipt.seq }),
            trace_id: invocation.trace_id,
        }
    }
}

/// From the question to the answer that settled it; without one, to its end. `None` where nobody was asked, or nobody has answered.
fn waited_ms(invocation: &Invocation) -> Option<u64> {
    invocation.binding.as_ref()?;
    let until = invocation.answer.as_ref().map(|answer| answer.at).or(invocation.ended_at)?;
    Some(until.millis_since(invocation.created_at))
}

impl InvocationView {
    /// What is left of one that did not succeed, for a sentence that goes on with the reason.
    pub fn how_it_failed(&self) -> &'static str {
        match (self.status.as_ref(), self.rollback) {
            ("reverted", _) => "failed, and its effects were taken back",
            ("failed", Some(RemedyView { ok: true, .. })) => "failed, and its effects were taken back",
            ("failed", Some(RemedyView { attempted: true, ok: false })) => "failed, and what it did could not be taken back",
            ("failed", Some(RemedyView { attempted: false, ok: false })) => "failed, and what it did was not taken back",
            _ => "did not happen",
        }
    }
}

const fn denied_by(by: DeniedBy) -> &'static str {
    match by {
        DeniedBy::Policy => "policy",
        DeniedBy::Person => "person",
        DeniedBy::Binding => "binding",
        DeniedBy::Drift => "drift",
    }
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::NeedsApproval => "needs_approval",
        Verdict::Deny => "deny",
        Verdict::Quarantine => "quarantine",
        Verdict::Redacted => "redacted",
        Verdict::NotApplicable => "not_applicable",
    }
}
