//! Automations on the wire: saved definitions, what waits to be saved, what triggers them, and what their triggers came to.

use crate::run::RunErrorView;
use countersign_core::automation::{
    Automation, AutomationStatus, AutomationVersion, Draft, Firing, FiringOutcome, FiringReason, Trigger, TriggerType,
};
use countersign_core::decision::ModeSource;
use countersign_core::run::{Phase, Run, RunStatus};
use countersign_core::{Mode, Tier, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Something that is wrong with a definition or with inputs, or that is worth a look, at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MistakeView {
    /// RFC 6901, from the root of the definition or of the inputs; empty: all of it.
    pub pointer: String,
    /// A stable word, such as `cron_invalid`.
    #[schema(example = "cron_invalid")]
    pub code: String,
    pub message: String,
    /// What to try next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A saved automation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AutomationView {
    pub id: String,
    pub space_id: String,
    pub name: String,
    pub status: AutomationStatus,
    /// Counts from 1.
    pub version: u32,
    /// SHA-256 of the normalised definition. It is the `ETag` too, and `If-Match` takes it.
    pub digest: String,
    /// The person on whose behalf it acts: whoever saved its current version.
    pub created_by: String,
    pub created_at: Timestamp,
    pub changed_at: Timestamp,
    /// When the next of its schedules is due.
    pub next_due_at: Option<Timestamp>,
    pub last_run: Option<LastRunView>,
    pub triggers: Vec<TriggerView>,
    /// The normalised definition; null in lists.
    #[serde(default)]
    pub definition: Option<Value>,
}

impl AutomationView {
    pub fn new(automation: Automation, triggers: Vec<TriggerView>, last_run: Option<&Run>, definition: Option<Value>) -> Self {
        let fires = automation.status == AutomationStatus::Active;
        let due = triggers.iter().filter(|trigger| fires && trigger.enabled).filter_map(|trigger| trigger.next_due_at);
        Self {
            id: automation.id.to_string(),
            space_id: automation.space.to_string(),
            name: automation.name,
            status: automation.status,
            version: automation.version,
            digest: automation.definition.to_string(),
            created_by: format!("user:{}", automation.creator),
            created_at: automation.created_at,
            changed_at: automation.changed_at,
            next_due_at: due.min(),
            last_run: last_run.map(LastRunView::from),
            triggers,
            definition,
        }
    }
}

/// The run of an automation that was asked for last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastRunView {
    pub id: String,
    pub status: RunStatus,
    pub created_at: Timestamp,
}

impl From<&Run> for LastRunView {
    fn from(run: &Run) -> Self {
        Self { id: run.id.to_string(), status: run.status, created_at: run.created_at }
    }
}

/// One version of an automation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AutomationVersionView {
    pub version: u32,
    pub digest: String,
    pub saved_by: String,
    pub saved_at: Timestamp,
}

impl From<AutomationVersion> for AutomationVersionView {
    fn from(version: AutomationVersion) -> Self {
        Self {
            version: version.version,
            digest: version.definition.to_string(),
            saved_by: format!("user:{}", version.saved_by),
            saved_at: version.saved_at,
        }
    }
}

/// What starts an automation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TriggerView {
    /// Its `trigger_id` in the definition.
    pub id: String,
    pub automation_id: String,
    #[serde(rename = "type")]
    pub kind: TriggerType,
    pub enabled: bool,
    /// Why it is disabled, if no person did it.
    pub disabled_why: Option<String>,
    pub enabled_at: Timestamp,
    /// When a schedule fires, in words.
    pub schedule: Option<String>,
    pub next_due_at: Option<Timestamp>,
    /// When it last started a run; of a schedule, when that was due.
    pub last_fired_at: Option<Timestamp>,
    /// Where a webhook is sent to.
    pub fire_url: Option<String>,
    /// Whether a webhook has a token.
    pub has_token: bool,
    /// The name of the secret that signs a webhook.
    pub signed_by: Option<String>,
}

impl TriggerView {
    pub fn new(trigger: Trigger) -> Self {
        Self {
            id: trigger.id,
            automation_id: trigger.automation.to_string(),
            kind: trigger.kind,
            enabled: trigger.is_enabled,
            disabled_why: trigger.disabled_why,
            enabled_at: trigger.enabled_at,
            schedule: None,
            next_due_at: trigger.next_due_at,
            last_fired_at: trigger.last_fired_at,
            fire_url: None,
            has_token: trigger.has_token,
            signed_by: None,
        }
    }
}

/// A definition that waits for a person to save it. It is gone after 24 hours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DraftView {
    pub id: String,
    pub space_id: String,
    /// The name that the automation would have.
    pub name: String,
    /// The automation that it would be a new version of; null: it would be a new one.
    pub automation_id: Option<String>,
    /// The normalised definition; null in lists.
    #[serde(default)]
    pub definition: Option<Value>,
    pub made_by: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// What is worth checking before it is saved; empty in lists.
    #[serde(default)]
    pub flags: Vec<MistakeView>,
}

impl DraftView {
    /// As it is in a list.
    pub fn listed(draft: Draft) -> Self {
        Self { definition: None, ..Self::new(draft, Vec::new()) }
    }

    pub fn new(draft: Draft, flags: Vec<MistakeView>) -> Self {
        Self {
            id: draft.id.to_string(),
            space_id: draft.space.to_string(),
            name: draft.definition.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            automation_id: draft.automation.map(|automation| automation.to_string()),
            definition: Some(draft.definition),
            made_by: draft.made_by.to_string(),
            created_at: draft.created_at,
            expires_at: draft.expires_at,
            flags,
        }
    }
}

/// A definition to be saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SaveAutomationRequest {
    /// The name or id of the space that it acts in; `main` when absent. That of an automation that is saved already stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// As `GET /api/v1/schemas/automation` describes it.
    pub definition: Value,
    /// The names of the secrets that sign its webhooks, by the id of their trigger. One that is not named keeps what it has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub signing_secrets: BTreeMap<String, String>,
}

/// What became of a definition to be saved. A person has saved it; of anybody else it is a draft.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SavedAutomationResponse {
    pub automation: Option<AutomationView>,
    pub draft: Option<DraftView>,
    /// False: the definition is the same as before, or it is a draft.
    pub is_new_version: bool,
    /// The tokens of webhooks that had none. They are shown here and never again.
    pub tokens: Vec<HookTokenView>,
    /// What is allowed but worth a look.
    pub warnings: Vec<MistakeView>,
}

/// The token of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HookTokenView {
    pub trigger_id: String,
    /// Whoever sends the webhook shows it as `authorization: Bearer cs_hook_…`.
    #[schema(example = "cs_hook_…")]
    pub token: String,
    pub fire_url: String,
}

/// A draft to be saved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SaveDraftRequest {
    /// The name to save it under; its own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The places (JSON pointers) of the flags that whoever saves it has read, and stands for. All flags of the draft must be among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<String>,
    /// As with `SaveAutomationRequest`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub signing_secrets: BTreeMap<String, String>,
}

/// A definition to be looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DefinitionRequest {
    /// The name or id of the space that it would act in; `main` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    pub definition: Value,
}

/// A plan to be tried without calling anything: that of a definition, or of a saved automation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DryRunRequest {
    /// The id of a saved automation; with a definition, the one that it would be a new version of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automation: Option<String>,
    /// The name or id of the space that it would act in; that of the automation, else `main`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// The saved one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Value>,
    /// What the definition's `inputs` ask for; those of the run when absent, or its defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// An earlier run: what its steps came to stands for what is not known yet. Absent: the last one of the automation that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// A definition without a mistake.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ValidDefinitionResponse {
    /// What would be stored: every default is written in, every alias replaced.
    pub definition: Value,
    pub digest: String,
    pub warnings: Vec<MistakeView>,
    /// What is worth checking before a person saves it.
    pub flags: Vec<MistakeView>,
}

/// What would happen to the steps of a definition, and when it would fire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlanView {
    pub digest: String,
    /// The earlier run whose inputs and outputs stand for what is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    pub steps: Vec<PlannedStepView>,
    /// Its schedules, each with the next three times.
    pub schedules: Vec<PlannedScheduleView>,
    pub warnings: Vec<MistakeView>,
    pub flags: Vec<MistakeView>,
}

/// A step as it would be called now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedStepView {
    pub phase: Phase,
    pub step_id: String,
    pub action: String,
    pub title: String,
    pub tier: Tier,
    /// What the rules say of a call of the automation; gates look at each call besides.
    pub mode: Mode,
    pub mode_source: ModeSource,
    /// What made the mode stricter.
    pub tightened: Vec<String>,
    /// Whether it would run: it has no `when`, or that holds. Null: that depends on what is not known yet.
    pub when: Option<bool>,
    /// What it would be called with, as the params of a call are shown: redacted, and pruned when large. Null if that is not known yet, or if it
    /// would be skipped.
    pub params: Option<Value>,
    /// What its templates read and what is not known yet: outputs of earlier steps, `inputs`, or `run.error`.
    pub needs: Vec<String>,
    /// Why its templates cannot be rendered.
    pub error: Option<RunErrorView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedScheduleView {
    pub trigger_id: String,
    /// In words, such as `at 09:00 on weekdays`.
    pub schedule: String,
    pub timezone: String,
    pub next: Vec<Timestamp>,
}

/// How a definition differs from the saved one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DefinitionDiffView {
    /// The version that it is compared with.
    pub version: u32,
    pub changes: Vec<DefinitionChangeView>,
}

/// One place that differs. Steps and triggers are compared with those of the same id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DefinitionChangeView {
    /// RFC 6901.
    pub pointer: String,
    /// Absent: it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Absent: it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// How a trigger is enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnableTriggerRequest {
    /// Whether a schedule makes up for what it missed since it was disabled, as its `catch_up` says. Otherwise it starts from now.
    #[serde(default)]
    pub catch_up: bool,
}

/// How a trigger is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateTokenRequest {
    /// Whether the token that it has now is taken for another 24 hours.
    #[serde(default)]
    pub keep_old: bool,
}

/// What an occurrence of a trigger, or a request to run, came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FiredResponse {
    pub firing_id: String,
    pub outcome: FiringOutcome,
    pub reason: FiringReason,
    /// The run that it started, or that the earlier request with the same key had started.
    pub run_id: Option<String>,
    pub run_url: Option<String>,
}

impl FiredResponse {
    /// `address` is where the server is reached.
    pub fn new(firing: &Firing, address: &str) -> Self {
        Self {
            firing_id: firing.id.to_string(),
            outcome: firing.reason.outcome(),
            reason: firing.reason,
            run_id: firing.run.as_ref().map(ToString::to_string),
            run_url: firing.run.as_ref().map(|run| format!("{address}/api/v1/runs/{run}")),
        }
    }
}

/// One occurrence of a trigger, or several that started nothing for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FiringView {
    pub id: String,
    pub automation_id: String,
    /// Null if it was asked for by name.
    pub trigger_id: Option<String>,
    pub outcome: FiringOutcome,
    pub reason: FiringReason,
    /// More than the reason says, such as which input is wrong.
    pub detail: Option<String>,
    pub run_id: Option<String>,
    /// When a schedule was due.
    pub scheduled_for: Option<Timestamp>,
    /// The same on the wall of the schedule's zone, such as `2026-03-08T02:30`.
    pub wall: Option<String>,
    pub timezone: Option<String>,
    pub event_id: Option<String>,
    pub at: Timestamp,
    /// How many occurrences it stands for, from `first_at` to `last_at`.
    pub count: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
}

impl From<Firing> for FiringView {
    fn from(firing: Firing) -> Self {
        let (scheduled_for, wall, timezone) = match firing.tick {
            Some(tick) => (Some(tick.scheduled_for), Some(tick.wall), Some(tick.zone)),
            None => (None, None, None),
        };
        Self {
            id: firing.id.to_string(),
            automation_id: firing.automation.to_string(),
            trigger_id: firing.trigger,
            outcome: firing.reason.outcome(),
            reason: firing.reason,
            detail: firing.detail,
            run_id: firing.run.map(|run| run.to_string()),
            scheduled_for,
            wall,
            timezone,
            event_id: firing.event.map(|event| event.to_string()),
            at: firing.at,
            count: firing.count,
            first_at: firing.first_at,
            last_at: firing.last_at,
        }
    }
}
