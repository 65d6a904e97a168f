//! Automations: saved definitions, their triggers, and the firings that say what a trigger came to.

use crate::{AutomationId, Digest, DraftId, EventId, FiringId, OrgId, PrincipalId, RunId, SpaceId, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A saved automation. Its definition is stored by its digest, once for each version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Automation {
    pub id: AutomationId,
    pub org: OrgId,
    pub space: SpaceId,
    pub name: String,
    pub status: AutomationStatus,
    /// Counts from 1.
    pub version: u32,
    /// SHA-256 of the normalised definition.
    pub definition: Digest,
    /// The person on whose behalf it acts: whoever saved its current version.
    pub creator: UserId,
    pub created_at: Timestamp,
    pub changed_at: Timestamp,
}

/// Whether an automation fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AutomationStatus {
    Active,
    /// Nothing fires it, but a person still may run it.
    Paused,
    /// Kept for its history. Nothing runs it any more.
    Archived,
}

crate::words!(AutomationStatus { Active = "active", Paused = "paused", Archived = "archived" });

/// One version of an automation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutomationVersion {
    pub version: u32,
    pub definition: Digest,
    pub saved_by: UserId,
    pub saved_at: Timestamp,
}

/// A definition that waits for a person to save it. It is no automation: nothing fires it.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    pub id: DraftId,
    pub org: OrgId,
    pub space: SpaceId,
    /// The automation that it would be a new version of.
    pub automation: Option<AutomationId>,
    /// The definition that the automation had when the draft was made. It replaces no other.
    pub replaces: Option<Digest>,
    /// The normalised definition.
    pub definition: Value,
    pub made_by: PrincipalId,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// What starts an automation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TriggerType {
    Schedule,
    Webhook,
    Event,
    /// A person or a program asked for it by name. No trigger of the definition has this type.
    Manual,
}

crate::words!(TriggerType { Schedule = "schedule", Webhook = "webhook", Event = "event", Manual = "manual" });

/// What is stored of a trigger besides its definition. It lasts across versions, as long as its id does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    pub org: OrgId,
    pub automation: AutomationId,
    /// Its id in the definition.
    pub id: String,
    pub kind: TriggerType,
    /// A person or a breaker may disable it.
    pub is_enabled: bool,
    /// Why it was disabled, if a breaker did it.
    pub disabled_why: Option<String>,
    pub enabled_at: Timestamp,
    /// When its schedule is due next.
    pub next_due_at: Option<Timestamp>,
    /// The last tick of its schedule that was handled, whatever came of it. It never decreases.
    pub high_water: Option<Timestamp>,
    /// The last firing that made a run: for a schedule, the time that it was due.
    pub last_fired_at: Option<Timestamp>,
    /// Whether a webhook has a token.
    pub has_token: bool,
}

/// What a firing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FiringOutcome {
    /// There is a run, which may still be queued.
    Started,
    Skipped,
    Dropped,
    /// It was the same as an earlier one.
    Deduplicated,
    Refused,
}

crate::words!(FiringOutcome {
    Started = "started", Skipped = "skipped", Dropped = "dropped", Deduplicated = "deduplicated", Refused = "refused",
});

/// Why a firing came to what it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FiringReason {
    OnTime,
    CaughtUp,
    Manual,
    Rerun,
    CatchUpNone,
    Superseded,
    OutsideWindow,
    OverMax,
    DstGap,
    Paused,
    Disabled,
    Filtered,
    AlreadyRunning,
    QueueFull,
    RateLimited,
    Debounced,
    Batched,
    SameKey,
    SameEvent,
    InputsInvalid,
    BudgetEstimate,
    LoopGuard,
    ChainTooDeep,
    CreatorInactive,
    ActionUnavailable,
    BreakerOpen,
    FilterTooCostly,
}

crate::words!(FiringReason {
    OnTime = "on_time", CaughtUp = "caught_up", Manual = "manual", Rerun = "rerun", CatchUpNone = "catch_up_none",
    Superseded = "superseded", OutsideWindow = "outside_window", OverMax = "over_max", DstGap = "dst_gap", Paused = "paused",
    Disabled = "disabled", Filtered = "filtered", AlreadyRunning = "already_running", QueueFull = "queue_full",
    RateLimited = "rate_limited", Debounced = "debounced", Batched = "batched", SameKey = "same_key", SameEvent = "same_event",
    InputsInvalid = "inputs_invalid", BudgetEstimate = "budget_estimate", LoopGuard = "loop_guard", ChainTooDeep = "chain_too_deep",
    CreatorInactive = "creator_inactive", ActionUnavailable = "action_unavailable", BreakerOpen = "breaker_open",
    FilterTooCostly = "filter_too_costly",
});

impl FiringReason {
    /// What a firing with this reason came to.
    pub const fn outcome(self) -> FiringOutcome {
        match self {
            Self::OnTime | Self::CaughtUp | Self::Manual | Self::Rerun => FiringOutcome::Started,
            Self::CatchUpNone
            | Self::Superseded
            | Self::OutsideWindow
            | Self::OverMax
            | Self::DstGap
            | Self::Paused
            | Self::Disabled
            | Self::Filtered => FiringOutcome::Skipped,
            Self::AlreadyRunning | Self::QueueFull | Self::RateLimited | Self::Debounced | Self::Batched => FiringOutcome::Dropped,
            Self::SameKey | Self::SameEvent => FiringOutcome::Deduplicated,
            Self::InputsInvalid
            | Self::BudgetEstimate
            | Self::LoopGuard
            | Self::ChainTooDeep
            | Self::CreatorInactive
            | Self::ActionUnavailable
            | Self::BreakerOpen
            | Self::FilterTooCostly => FiringOutcome::Refused,
        }
    }
}

/// One occurrence of a trigger, or several of the same kind that started nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    pub id: FiringId,
    pub org: OrgId,
    pub automation: AutomationId,
    /// Absent if it was asked for by name.
    pub trigger: Option<String>,
    pub reason: FiringReason,
    /// More than the reason says, such as which input is wrong.
    pub detail: Option<String>,
    /// The run that it started.
    pub run: Option<RunId>,
    pub tick: Option<Tick>,
    pub event: Option<EventId>,
    pub at: Timestamp,
    /// How many occurrences the row stands for, from `first_at` to `last_at`.
    pub count: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
}

/// One time that a schedule was due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    pub scheduled_for: Timestamp,
    /// The time on the wall, as the schedule says it: `2026-03-08T02:30`.
    pub wall: String,
    pub zone: String,
    /// The version of the time zone data that turned one into the other.
    pub tzdata: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_ledger_is_read_back_as_itself() {
        for reason in FiringReason::ALL {
            assert_eq!(FiringReason::parse(reason.as_str()), Some(reason));
            assert_eq!(serde_json::json!(reason), reason.as_str());
            assert!(FiringOutcome::ALL.contains(&reason.outcome()));
        }
        for outcome in FiringOutcome::ALL {
            assert_eq!(FiringOutcome::parse(outcome.as_str()), Some(outcome));
        }
        for status in AutomationStatus::ALL {
            assert_eq!(AutomationStatus::parse(status.as_str()), Some(status));
        }
        for kind in TriggerType::ALL {
            assert_eq!(TriggerType::parse(kind.as_str()), Some(kind));
        }
    }
}
