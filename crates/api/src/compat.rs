//! The envelopes of two older contracts, field by field, and the only place that knows their words: an action request answered
//! with a receipt (`tool_id`, `ok`, `skipped`), and an action plan answered with a result (`actionType`, `queued`, `rejected`). A third
//! has names for events (`action_completed`).
//! Whatever a caller says of risk, time, place or checks can only tighten what we would do. No field and no status of these contracts is
//! ever removed. A field that they do not have is recorded and not refused, because they may gain optional ones.

use crate::invocation::{InvocationView, ScopeView};
use crate::receipt::EntryView;
use countersign_core::decision::Verdict;
use countersign_core::{Invocation, Status, Tier, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Asks for one action, in the form of the action request contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActionRequest {
    /// The caller's own name for the request: given back and recorded, never evaluated.
    #[serde(default)]
    pub action_id: Option<String>,
    /// Whom the caller says it acts as: recorded, never evaluated.
    #[serde(default)]
    pub subject_id: Option<String>,
    /// Id or name of the session's space; a request for another one is denied.
    #[serde(default)]
    pub space_id: Option<String>,
    /// `<source>.<name>`.
    #[schema(example = "files.write_text")]
    pub tool_id: String,
    /// A `space_id` in here must be the session's space too, by id or name, and is left out; one that the action itself asks for stays.
    #[serde(default = "empty_object")]
    #[schema(value_type = BTreeMap<String, Value>)]
    pub params: Value,
    #[serde(default)]
    pub qos: Option<Qos>,
    /// What the caller knows of the moment: recorded, never evaluated.
    #[serde(default)]
    pub policy_ctx: Option<PolicyContext>,
    #[serde(default)]
    pub idempotency_key: Option<String>,
    #[serde(default)]
    pub dry_run: bool,
    #[serde(default)]
    pub trace_id: Option<String>,
    /// The session it is asked in; an agent's own when absent.
    #[serde(default)]
    pub session_id: Option<String>,
    /// Fields that the contract does not have: recorded, never evaluated.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

/// How long and how often a caller wants it tried, at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Qos {
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    #[serde(default)]
    pub max_retries: Option<u32>,
    /// What the caller calls the target; a label within our own key for it.
    #[serde(default)]
    pub circuit_breaker_key: Option<String>,
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyContext {
    #[serde(default)]
    pub actor: Option<String>,
    #[serde(default)]
    pub device: Option<String>,
    #[serde(default)]
    pub time: Option<String>,
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

/// The outcome of an action request, in the form of its contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActionReceipt {
    /// Null while it is pending.
    pub receipt_id: Option<String>,
    pub action_id: Option<String>,
    pub tool_id: String,
    /// As it was sent, else the id.
    pub space_id: String,
    pub subject_id: Option<String>,
    pub status: ReceiptStatus,
    pub error: Option<ErrorView>,
    /// Each param as `sha256_<name>`, the SHA-256 of its text as it is kept: without secrets. A `path` that the action names its calls by
    /// is told as it is.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub inputs: Value,
    /// Of a dry run: `dry_run` is true, and the rest is what would be written.
    pub outputs: Option<Value>,
    /// By gate.
    pub policy: BTreeMap<String, PolicyVerdict>,
    pub cost: CostView,
    pub timing: TimingView,
    /// The key that is reserved, or the one that was sent with a dry run.
    pub idempotency_key: Option<String>,
    pub trace_id: String,
    /// Null while it is pending.
    pub reward: Option<RewardView>,
    pub dry_run: bool,
    /// An earlier request under the same key answers.
    pub replayed: bool,
    pub invocation_id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptStatus {
    Ok,
    Error,
    /// It is pending, or a kill switch had it rehearsed: nothing was done.
    Skipped,
    Quarantined,
}

/// The verdict of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyVerdict {
    Ok,
    NeedsApproval,
    Deny,
    Quarantine,
    Redacted,
    #[serde(rename = "n/a")]
    NotApplicable,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorView {
    pub code: String,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CostView {
    /// Null where the effect ran inside the server and no honest figure exists.
    pub cpu_ms: Option<u64>,
    /// Dollars as text; absent if the action had no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<String>,
    /// What the host's processors used while the effect was made, whatever else they did meanwhile; null where the host does not tell it.
    pub energy_mwh: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimingView {
    pub queued_ms: u64,
    pub exec_ms: u64,
    pub total_ms: u64,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RewardView {
    pub scalar: f64,
    pub components: BTreeMap<String, f64>,
}

/// A planned action, in the form of the plan contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionPlan {
    /// The planner's own name for it: given back and recorded, never evaluated.
    #[serde(default)]
    pub action_id: Option<String>,
    /// `<source>.<name>`, or a name that only one source has.
    pub action_type: String,
    /// It can only raise the risk; without it the plan counts as R4.
    #[serde(default)]
    pub risk_tier: Option<Tier>,
    /// Shown and recorded, never evaluated.
    #[serde(default)]
    pub confidence: Option<f64>,
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default = "empty_object")]
    #[schema(value_type = BTreeMap<String, Value>)]
    pub input: Value,
    /// How the planner would revert it: shown and recorded, never followed. A write of tier R2 or above without one is rejected, unless the
    /// action can be reverted. It is an object or a text that is not empty.
    #[serde(default)]
    pub rollback_plan: Option<Value>,
    #[serde(default)]
    pub verification: Option<PlannedVerification>,
    #[serde(default)]
    pub scope: Option<PlannedScope>,
    /// The session it is asked in; an agent's own when absent.
    #[serde(default)]
    pub session_id: Option<String>,
    #[serde(default)]
    pub dry_run: bool,
    /// The same key with the same input makes one call. Without a key, a plan that still waits is not queued a second time.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// Fields that the contract does not have: recorded, never evaluated.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedVerification {
    /// The result of a read (R0, R1) is verified by its schema, and by whatever else checks it. A write of tier R2 or above is verified
    /// whatever this says, by a check of its action or by a command; it is rejected if there is neither, or if this is false.
    #[serde(default)]
    pub required: Option<bool>,
    /// Run after the effect, besides what the action checks itself; each must be on the server's list of commands, or the plan is rejected.
    #[serde(default)]
    pub commands: Vec<String>,
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

/// Where the plan may act at most. A plan with another member is rejected: it may be a limit, and that could not be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedScope {
    #[serde(default)]
    pub allowed_files: Vec<String>,
    #[serde(default)]
    pub allowed_dirs: Vec<String>,
    #[serde(default)]
    pub forbidden_files: Vec<String>,
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

impl ActionRequest {
    /// The fields that the contract does not have, by their names.
    pub fn unknown_fields(&self) -> Option<Value> {
        let qos = self.qos.as_ref().map(|qos| ("qos", &qos.more));
        let context = self.policy_ctx.as_ref().map(|context| ("policy_ctx", &context.more));
        gathered(&self.more, [qos, context])
    }
}

impl ActionPlan {
    /// The fields that the contract does not have, by their names.
    pub fn unknown_fields(&self) -> Option<Value> {
        let verification = self.verification.as_ref().map(|verification| ("verification", &verification.more));
        let scope = self.scope.as_ref().map(|scope| ("scope", &scope.more));
        gathered(&self.more, [verification, scope])
    }
}

/// All of them, those of each part below its name.
fn gathered(own: &BTreeMap<String, Value>, parts: [Option<(&str, &BTreeMap<String, Value>)>; 2]) -> Option<Value> {
    let mut all: Map<String, Value> = own.clone().into_iter().collect();
    for (name, fields) in parts.into_iter().flatten().filter(|(_, fields)| !fields.is_empty()) {
        all.insert(name.to_owned(), fields.clone().into_iter().collect());
    }
    (!all.is_empty()).then_some(Value::Object(all))
}

impl From<PlannedScope> for ScopeView {
    fn from(scope: PlannedScope) -> Self {
        Self { allowed_files: scope.allowed_files, allowed_dirs: scope.allowed_dirs, forbidden_files: scope.forbidden_files }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    Succeeded,
    Reverted,
    Queued,
    Rejected,
    Failed,
}

/// The outcome of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanResult {
    pub status: PlanStatus,
    pub action_id: Option<String>,
    pub action_type: String,
    pub risk_tier: Tier,
    /// Of a dry run: `dry_run` is true, and the rest is what would be written.
    pub output: Value,
    pub verification: PlanVerification,
    pub repair: PlanRemedy,
    pub rollback: PlanRemedy,
    /// What a planner learns from: the invocation, its receipt, the reward, and why it did not succeed.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub feedback: Value,
    /// As it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanVerification {
    /// Whether every check passed, and at least one was made.
    pub ok: bool,
    /// What was checked: `result_schema`, which every result passes or fails, and what the action and the commands checked beside it.
    pub checks: Vec<PlanCheck>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanCheck {
    pub name: String,
    pub ok: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanRemedy {
    pub attempted: bool,
    pub ok: bool,
}

fn empty_object() -> Value {
    Value::Object(Map::new())
}

/// What the caller is told back of what it sent.
#[derive(Clone, Debug, Default)]
pub struct Echo {
    pub action_id: Option<String>,
    /// The action as the caller named it.
    pub action: Option<String>,
    pub subject_id: Option<String>,
    pub space_id: Option<String>,
    pub trace_id: Option<String>,
    pub idempotency_key: Option<String>,
    pub confidence: Option<f64>,
    pub inputs: Option<Value>,
    /// A kill switch had its dry run made instead of the effect.
    pub is_rehearsed: bool,
}

impl Echo {
    /// What is kept of it with the call, without secrets.
    pub fn kept(invocation: &Invocation) -> Self {
        let claimed = invocation.call.claimed.clone().unwrap_or_default();
        let older = invocation.call.older.clone().unwrap_or_default();
        Self {
            action_id: claimed.action_id,
            action: older.action,
            subject_id: claimed.subject,
            space_id: older.space,
            trace_id: None,
            idempotency_key: older.idempotency_key,
            confidence: claimed.confidence.and_then(|confidence| confidence.as_f64()),
            inputs: older.inputs,
            is_rehearsed: older.is_rehearsed,
        }
    }
}

impl ActionReceipt {
    /// `entry` is the receipt's, absent while it waits; `result` is whole where the stored one may be pruned.
    pub fn new(view: InvocationView, entry: Option<&EntryView>, result: Option<Value>, replayed: bool, echo: Echo) -> Self {
        let body = entry.map_or(&Value::Null, |entry| &entry.payload["body"]);
        let number = |pointer: &str| body.pointer(pointer).and_then(Value::as_u64);
        Self {
            receipt_id: view.receipt.as_ref().map(|receipt| receipt.id.clone()),
            action_id: echo.action_id,
            tool_id: view.action,
            space_id: echo.space_id.unwrap_or(view.space_id),
            subject_id: echo.subject_id.or(Some(view.principal)),
            status: receipt_status(view.status, echo.is_rehearsed),
            error: view.error.map(|error| ErrorView { code: error.code, message: error.message }),
            inputs: echo.inputs.unwrap_or_else(empty_object),
            outputs: result.or(view.result).map(|output| told_output(output, view.dry_run)),
            policy: view.gates.iter().map(|gate| (gate.gate.as_str().to_owned(), gate.verdict.into())).collect(),
            cost: CostView {
                cpu_ms: number("/cost/cpu_ms"),
                usd: view.cost_usd,
                energy_mwh: number("/cost/energy_uj").map(|uj| uj as f64 / 3_600_000.0),
            },
            timing: TimingView {
                queued_ms: number("/timing/queued_ms").unwrap_or_default(),
                exec_ms: number("/timing/exec_ms").unwrap_or_default(),
                total_ms: number("/timing/total_ms").unwrap_or_default(),
                started_at: view.started_at,
                ended_at: view.completed_at,
            },
            idempotency_key: view.idempotency_key.or(echo.idempotency_key),
            trace_id: echo.trace_id.unwrap_or(view.trace_id),
            reward: reward_of(body),
            dry_run: view.dry_run,
            replayed,
            invocation_id: view.id,
        }
    }
}

impl PlanResult {
    pub fn new(view: InvocationView, entry: Option<&EntryView>, result: Option<Value>, echo: Echo) -> Self {
        let body = entry.map_or(&Value::Null, |entry| &entry.payload["body"]);
        let remedy = |remedy: Option<crate::invocation::RemedyView>| {
            remedy.map_or_else(PlanRemedy::default, |remedy| PlanRemedy { attempted: remedy.attempted, ok: remedy.ok })
        };
        let checks: Vec<_> = view.checks.iter().map(|check| PlanCheck { name: check.name.clone(), ok: check.ok }).collect();
        Self {
            status: plan_status(view.status, view.error.as_ref().map(|error| error.code.as_str()), echo.is_rehearsed),
            action_id: echo.action_id,
            action_type: echo.action.unwrap_or(view.action),
            risk_tier: view.tier,
            output: result.or(view.result).map_or_else(empty_object, |output| told_output(output, view.dry_run)),
            // Nothing looked at is nothing verified.
            verification: PlanVerification { ok: !checks.is_empty() && checks.iter().all(|check| check.ok), checks },
            repair: remedy(view.repair),
            rollback: remedy(view.rollback),
            feedback: json!({
                "invocationId": view.id,
                "receiptId": view.receipt.as_ref().map(|receipt| receipt.id.clone()),
                "error": view.error,
                "confidence": echo.confidence,
                "reward": reward_of(body),
                "dryRun": view.dry_run,
            }),
            idempotency_key: view.idempotency_key.or(echo.idempotency_key),
        }
    }
}

/// The output of a dry run says that it is none.
fn told_output(mut output: Value, dry_run: bool) -> Value {
    if let (true, Some(members)) = (dry_run, output.as_object_mut()) {
        members.insert("dry_run".to_owned(), Value::Bool(true));
    }
    output
}

fn reward_of(body: &Value) -> Option<RewardView> {
    let part = |name: &str| body["reward"][name].as_i64().map(|millionths| millionths as f64 / 1_000_000.0);
    let components = ["success", "quality", "cost", "latency"].into_iter().filter_map(|name| Some((name.to_owned(), part(name)?)));
    Some(RewardView { scalar: part("scalar_millionths")?, components: components.collect() })
}

/// The words of the receipt contract. What was rehearsed instead of done is no success.
const fn receipt_status(status: Status, is_rehearsed: bool) -> ReceiptStatus {
    match status {
        Status::Succeeded if is_rehearsed => ReceiptStatus::Skipped,
        Status::Succeeded => ReceiptStatus::Ok,
        Status::Pending | Status::Approved | Status::Running => ReceiptStatus::Skipped,
        Status::Quarantined => ReceiptStatus::Quarantined,
        Status::Failed | Status::Reverted | Status::Denied | Status::Expired | Status::Cancelled | Status::InDoubt => ReceiptStatus::Error,
    }
}

/// What refuses a call before it has any effect, because of what it may not: by scope, by what an operator allows, or for safety. Everything
/// else that fails has failed at its work.
const REJECTIONS: [&str; 19] = [
    "address_not_allowed",
    "command_not_allowed",
    "hard_link_refused",
    "header_not_allowed",
    "host_not_allowed",
    "outside_scope",
    "package_changed",
    "package_code_disabled",
    "package_command_not_allowed",
    "package_may_not_write",
    "package_network_not_allowed",
    "package_refused",
    "package_stage_refused",
    "path_not_allowed",
    "path_outside_workspace",
    "rollback_evidence_missing",
    "sandbox_unavailable",
    "scope_too_fine",
    "url_not_allowed",
];

/// The terminal words of the plan contract. What was rehearsed instead of done is no success.
fn plan_status(status: Status, code: Option<&str>, is_rehearsed: bool) -> PlanStatus {
    match status {
        Status::Succeeded if is_rehearsed => PlanStatus::Rejected,
        Status::Failed if code.is_some_and(|code| REJECTIONS.contains(&code)) => PlanStatus::Rejected,
        Status::Succeeded => PlanStatus::Succeeded,
        Status::Reverted => PlanStatus::Reverted,
        Status::Pending | Status::Approved | Status::Running => PlanStatus::Queued,
        Status::Denied | Status::Quarantined | Status::Expired | Status::Cancelled => PlanStatus::Rejected,
        Status::Failed | Status::InDoubt => PlanStatus::Failed,
    }
}

/// An event under its older name, and the status that it announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    pub name: &'static str,
    pub status: &'static str,
}

/// How the event of a status was called; `None` for what that contract has no event for.
pub const fn announced(status: Status) -> Option<Announced> {
    let (name, status) = match status {
        Status::Pending => ("action_approval_request", "pending"),
        Status::Succeeded => ("action_completed", "completed"),
        Status::Failed | Status::Reverted => ("action_completed", "failed"),
        Status::Denied => ("action_approval_result", "denied"),
        Status::Approved | Status::Running | Status::Quarantined | Status::Expired | Status::Cancelled | Status::InDoubt => return None,
    };
    Some(Announced { name, status })
}

/// Whether an event with this name carries an action request: our name for it, and the older one.
pub fn is_decision(name: &str) -> bool {
    matches!(name, "action.decision" | "ACTION_DECISION")
}

/// How the event that answers an older contract's request was called, with the status of its receipt.
pub const fn executed(status: Status) -> Announced {
    let status = match receipt_status(status, false) {
        ReceiptStatus::Ok => "ok",
        ReceiptStatus::Error => "error",
        ReceiptStatus::Skipped => "skipped",
        ReceiptStatus::Quarantined => "quarantined",
    };
    Announced { name: "ACTION_EXECUTED", status }
}

/// Whether an older contract has an event of this name, however it is written.
pub fn is_older_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_announced = Status::ALL.into_iter().filter_map(announced).any(|announced| announced.name == name);
    let upper = name.to_ascii_uppercase();
    is_announced || is_decision(&upper) || executed(Status::Succeeded).name == upper
}

impl From<Verdict> for PolicyVerdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Ok => Self::Ok,
            Verdict::NeedsApproval => Self::NeedsApproval,
            Verdict::Deny => Self::Deny,
            Verdict::Quarantine => Self::Quarantine,
            Verdict::Redacted => Self::Redacted,
            Verdict::NotApplicable => Self::NotApplicable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_status_has_its_word_in_both_contracts() {
        let words = |status: Status| (receipt_status(status, false), plan_status(status, None, false));
        for (status, expected) in [
            (Status::Pending, (ReceiptStatus::Skipped, PlanStatus::Queued)),
            (Status::Approved, (ReceiptStatus::Skipped, PlanStatus::Queued)),
            (Status::Running, (ReceiptStatus::Skipped, PlanStatus::Queued)),
            (Status::Succeeded, (ReceiptStatus::Ok, PlanStatus::Succeeded)),
            (Status::Failed, (ReceiptStatus::Error, PlanStatus::Failed)),
            (Status::Reverted, (ReceiptStatus::Error, PlanStatus::Reverted)),
            (Status::Denied, (ReceiptStatus::Error, PlanStatus::Rejected)),
            (Status::Quarantined, (ReceiptStatus::Quarantined, PlanStatus::Rejected)),
            (Status::Expired, (ReceiptStatus::Error, PlanStatus::Rejected)),
            (Status::Cancelled, (ReceiptStatus::Error, PlanStatus::Rejected)),
            (Status::InDoubt, (ReceiptStatus::Error, PlanStatus::Failed)),
        ] {
            assert_eq!(words(status), expected, "{status}");
            let rehearsed = (receipt_status(status, true), plan_status(status, None, true));
            let is_done = status == Status::Succeeded;
            assert_eq!(rehearsed, if is_done { (ReceiptStatus::Skipped, PlanStatus::Rejected) } else { expected }, "{status}");
        }
    }

    /// What has failed at its work, of all that is documented.
    const FAILURES: [&str; 59] = [
        "body_too_large",
        "breaker_open",
        "content_changed",
        "disk_full",
        "document_not_found",
        "document_refused",
        "dry_run_unsupported",
        "evidence_of_another_call",
        "evidence_unreadable",
        "file_io_failed",
        "file_not_found",
        "file_too_large",
        "http_429",
        "http_502",
        "http_503",
        "http_504",
        "interrupted",
        "invalid_params",
        "listing_invalid",
        "mail_login_refused",
        "mail_not_encrypted",
        "mail_refused",
        "mail_server_missing",
        "not_a_regular_file",
        "not_reversible",
        "not_utf8",
        "not_verified",
        "notification_refused",
        "package_bad_output",
        "package_failed",
        "package_flooded",
        "package_interpreter_missing",
        "package_invalid",
        "package_killed",
        "package_lost",
        "package_missing",
        "package_out_of_memory",
        "package_timed_out",
        "program_missing",
        "result_schema_mismatch",
        "secret_missing",
        "snapshot_lost",
        "source_broke",
        "source_busy",
        "source_refused",
        "source_reported_error",
        "source_timed_out",
        "source_unauthorized",
        "source_unreachable",
        "too_many_documents",
        "too_many_files",
        "too_many_redirects",
        "transform_empty",
        "transform_invalid",
        "transform_mismatch",
        "transform_too_large",
        "unknown_action",
        "verification_failed",
        "workspace_elsewhere",
    ];

    /// The codes a call can fail with, as they are documented.
    fn documented() -> BTreeSet<&'static str> {
        let page = include_str!("../../../docs/errors/invocation-errors.md");
        let (_denied, failed) = page.split_once("## From any source").unwrap();
        let cells = failed.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
        cells.flat_map(|cell| cell.split(", ").map(|code| code.trim_matches('`'))).collect()
    }

    #[test]
    fn a_plan_that_is_refused_before_any_effect_is_rejected_whatever_refuses_it() {
        for code in REJECTIONS {
            assert_eq!(plan_status(Status::Failed, Some(code), false), PlanStatus::Rejected, "{code}");
            // The word of another status stays what it is.
            let others = (plan_status(Status::Reverted, Some(code), false), plan_status(Status::InDoubt, Some(code), false));
            assert_eq!(others, (PlanStatus::Reverted, PlanStatus::Failed), "{code}");
        }
        for code in FAILURES {
            assert_eq!(plan_status(Status::Failed, Some(code), false), PlanStatus::Failed, "{code}");
        }
        // A new code has to be judged, and one that is gone to go.
        let judged: BTreeSet<_> = REJECTIONS.into_iter().chain(FAILURES).collect();
        assert_eq!(documented(), judged);
    }
}
