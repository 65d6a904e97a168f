//! Automations as the engine reads them, and how far their schedules have come.

use super::Error;
use super::events::Event;
use crate::automation::{Automation, FiringReason, Trigger};
use crate::{AutomationId, Digest, Future, OrgId, SpaceId, Timestamp};
use serde_json::Value;
use std::sync::Arc;

/// Saved automations and their triggers.
pub trait Automations: Send + Sync {
    fn find_automation<'a>(&'a self, org: &'a OrgId, automation: &'a AutomationId) -> Future<'a, Result<Option<Automation>, Error>>;
    /// A normalised definition. What has this digest never changes.
    fn find_automation_definition<'a>(&'a self, org: &'a OrgId, digest: Digest) -> Future<'a, Result<Option<Arc<Value>>, Error>>;
    fn find_trigger<'a>(
        &'a self,
        org: &'a OrgId,
        automation: &'a AutomationId,
        trigger: &'a str,
    ) -> Future<'a, Result<Option<Trigger>, Error>>;
    /// When the automation last started a run, whatever started it; `None` if it never did, as far as that is kept.
    fn last_fired_at<'a>(&'a self, org: &'a OrgId, automation: &'a AutomationId) -> Future<'a, Result<Option<Timestamp>, Error>>;
    /// At most `limit` enabled schedules of active automations that are due, of every org, the longest due first.
    fn list_due_triggers(&self, limit: u32) -> Future<'_, Result<Vec<Trigger>, Error>>;
    /// At most `limit` enabled schedules of active automations that will not fire as they have to, of every org: they have no time at which they
    /// are due next, or their high-water is ahead of the clock.
    fn list_stray_schedules(&self, limit: u32) -> Future<'_, Result<Vec<Trigger>, Error>>;
    /// When the next schedule is due, of any org.
    fn next_due_at(&self) -> Future<'_, Result<Option<Timestamp>, Error>>;
    /// Says how far a schedule was handled. Returns false, and changes nothing, if another server has said so meanwhile.
    fn pass_ticks(&self, passed: PassedTicks) -> Future<'_, Result<bool, Error>>;
    /// The enabled event triggers of the org's active automations, always in the same order.
    fn list_event_triggers<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Vec<EventTrigger>, Error>>;
    /// Whether automations of this space hear of an event of ours that belongs to none. SECURITY: what is about another space with members stays
    /// there, whoever saved the automation: everybody in its own space reads what its runs are given.
    fn is_heard_in<'a>(&'a self, org: &'a OrgId, space: &'a SpaceId, event: &'a Event) -> Future<'a, Result<bool, Error>>;
}

/// An event trigger; what it asks for is in the definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTrigger {
    pub automation: AutomationId,
    pub space: SpaceId,
    pub trigger: String,
    pub definition: Digest,
}

/// The ticks of a schedule that were handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedTicks {
    pub org: OrgId,
    pub automation: AutomationId,
    pub trigger: String,
    /// What `high_water` was when the ticks were listed.
    pub from: Option<Timestamp>,
    pub high_water: Timestamp,
    pub next_due_at: Option<Timestamp>,
    /// Ticks that started nothing.
    pub skipped: Vec<SkippedTicks>,
    /// What was wrong with the schedule until now.
    pub mended: Option<Mended>,
}

/// What was wrong with a schedule, and is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mended {
    /// Its high-water was ahead of the clock, and is set back.
    HighWater,
    /// It had no time at which it is due next.
    NextDue,
}

crate::words!(Mended { HighWater = "high_water", NextDue = "next_due" });

/// Several ticks of a schedule that were left out for the same reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedTicks {
    pub reason: FiringReason,
    pub count: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
}
