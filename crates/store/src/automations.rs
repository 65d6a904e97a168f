//! Saved automations, their versions and their triggers. The text of each version is archived under its digest, as other definitions are, and
//! the audit log names that digest: what an automation does cannot be changed without a person's entry in the log.
//! `save` and `change` have what a person does, `hooks` the tokens of webhooks, `ticks` how schedules go forward.

mod save;
mod change;
mod hooks;
mod ticks;
pub(crate) mod table;

use crate::archive::digest_of;
use crate::db::{Columns, Tx, Val, all, only, vals};
use crate::events::tell_in;
use crate::orgs::not_among;
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::automation::{Automation, AutomationStatus, AutomationVersion, Trigger, TriggerType};
use countersign_core::limits::TICK_MISSED_SECONDS;
use countersign_core::ports::Automations;
use countersign_core::ports::automations::{EventTrigger, PassedTicks, SkippedTicks};
use countersign_core::ports::events::Event;
use countersign_core::{AutomationId, Digest, Future, OrgId, PrincipalId, Secret, SpaceId, Timestamp, UserId};
use receipt::body::RuleChange;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use table::{find_in, read_automation, read_trigger, read_version, select_automation, trigger_columns};
use ticks::pass_in;

/// A definition that a person saves.
#[derive(Clone, Debug)]
pub struct SaveAutomation {
    /// Absent: a new automation.
    pub automation: Option<AutomationId>,
    pub space: SpaceId,
    pub name: String,
    /// The normalised definition as canonical JSON.
    pub definition: String,
    pub triggers: Vec<SavedTrigger>,
    /// The version that the person has seen must still be the current one.
    pub expected: Option<Digest>,
}

/// What a definition says of one of its triggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedTrigger {
    pub id: String,
    pub kind: TriggerType,
    pub next_due_at: Option<Timestamp>,
    /// The secret that signs a webhook; it then has no token.
    pub signed_by: Option<String>,
}

/// What became of a definition to be saved.
#[derive(Debug)]
pub enum Saved {
    Done {
        automation: Automation,
        /// The tokens of webhooks that had none, by the id of their trigger. These are the only copies.
        tokens: Vec<(String, Secret<String>)>,
        /// False: the definition is the same as before, and nothing was written.
        is_new_version: bool,
    },
    /// Another automation of the space has the name.
    NameTaken(AutomationId),
    /// Somebody saved another version since.
    Changed(Automation),
    Unknown,
    TooMany,
}

/// Which automations to list; by default all but the archived ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutomationFilter {
    pub status: Option<AutomationStatus>,
    pub hidden: BTreeSet<SpaceId>,
}

/// What a person does to a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerChange {
    /// A schedule starts from now.
    Enable(FromNow),
    /// A schedule goes on from where it was disabled, and makes up for what it missed as its `catch_up` says.
    CatchUp,
    Disable,
}

/// How a schedule goes on that a person lets fire again: from now, and what it left out until then is not made up for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FromNow {
    pub next_due_at: Option<Timestamp>,
    pub left_out: Option<SkippedTicks>,
}

impl Automations for Store {
    fn find_automation<'a>(&'a self, org: &'a OrgId, automation: &'a AutomationId) -> Future<'a, Result<Option<Automation>, Error>> {
        Box::pin(async move {
            let sql = concat!(select_automation!(), " AND id = $2");
            only(self.db.read(sql, &vals![org.as_str(), automation.as_str()]).await?, read_automation)
        })
    }

    fn find_automation_definition<'a>(&'a self, org: &'a OrgId, digest: Digest) -> Future<'a, Result<Option<Arc<Value>>, Error>> {
        Box::pin(async move {
            let Some(text) = self.find_definition(org, digest).await? else {
                return Ok(None);
            };
            if digest_of(&text) != digest {
                return Err(Error::Corrupt { message: format!("the definition `{digest}` is not what was saved") });
            }
            let value = serde_json::from_str(&text).map_err(|error| Error::Corrupt { message: error.to_string() })?;
            Ok(Some(Arc::new(value)))
        })
    }

    fn find_trigger<'a>(
        &'a self,
        org: &'a OrgId,
        automation: &'a AutomationId,
        trigger: &'a str,
    ) -> Future<'a, Result<Option<Trigger>, Error>> {
        Box::pin(async move {
            let sql = concat!("SELECT ", trigger_columns!(), " FROM triggers WHERE org_id = $1 AND automation_id = $2 AND id = $3");
            only(self.db.read(sql, &vals![org.as_str(), automation.as_str(), trigger]).await?, read_trigger)
        })
    }

    fn last_fired_at<'a>(&'a self, org: &'a OrgId, automation: &'a AutomationId) -> Future<'a, Result<Option<Timestamp>, Error>> {
        Box::pin(async move {
            // A firing is kept for a while, and a trigger keeps its last one.
            let sql = "SELECT max(at) FROM (
                         SELECT max(last_fired_at) AS at FROM triggers WHERE org_id = $1 AND automation_id = $2
                         UNION ALL SELECT at FROM (SELECT at FROM firings
                           WHERE org_id = $1 AND automation_id = $2 AND outcome = 'started' ORDER BY id DESC LIMIT 1) AS newest) AS times";
            let rows = self.db.read(sql, &vals![org.as_str(), automation.as_str()]).await?;
            Ok(only(rows, |row| Columns::of(row).time_or_null())?.flatten())
        })
    }

    fn list_due_triggers(&self, limit: u32) -> Future<'_, Result<Vec<Trigger>, Error>> {
        Box::pin(async move {
            let sql = concat!(
                "/* every org: one clock serves the schedules of all */ SELECT ",
                trigger_columns!(),
                " FROM triggers JOIN automations ON automations.org_id = triggers.org_id AND automations.id = triggers.automation_id
                  AND automations.status = 'active'
                  WHERE enabled = 1 AND next_due_at IS NOT NULL AND next_due_at <= $1 ORDER BY next_due_at LIMIT $2"
            );
            all(self.db.read(sql, &vals![self.db.now().await?, i64::from(limit)]).await?, read_trigger)
        })
    }

    fn list_stray_schedules(&self, limit: u32) -> Future<'_, Result<Vec<Trigger>, Error>> {
        Box::pin(async move {
            let sql = concat!(
                "/* every org: one clock serves the schedules of all */ SELECT ",
                trigger_columns!(),
                " FROM triggers JOIN automations ON automations.org_id = triggers.org_id AND automations.id = triggers.automation_id
                  AND automations.status = 'active'
                  WHERE enabled = 1 AND kind = 'schedule' AND (next_due_at IS NULL OR high_water > $1)
                  ORDER BY triggers.org_id, triggers.automation_id, triggers.id LIMIT $2"
            );
            let latest = self.db.now().await?.plus_seconds(TICK_MISSED_SECONDS);
            all(self.db.read(sql, &vals![latest, i64::from(limit)]).await?, read_trigger)
        })
    }

    fn next_due_at(&self) -> Future<'_, Result<Option<Timestamp>, Error>> {
        Box::pin(async move {
            let sql = "/* every org: one clock serves the schedules of all */
                       SELECT min(next_due_at) FROM triggers
                       JOIN automations ON automations.org_id = triggers.org_id AND automations.id = triggers.automation_id
                       AND automations.status = 'active' WHERE enabled = 1 AND next_due_at IS NOT NULL";
            Ok(only(self.db.read(sql, &[]).await?, |row| Columns::of(row).time_or_null())?.flatten())
        })
    }

    fn pass_ticks(&self, passed: PassedTicks) -> Future<'_, Result<bool, Error>> {
        let store = self.clone();
        Box::pin(self.db.write(passed.org.clone(), move |tx| Box::pin(async move { pass_in(&store, tx, passed).await })))
    }

    fn list_event_triggers<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Vec<EventTrigger>, Error>> {
        Box::pin(async move {
            let sql = "SELECT triggers.automation_id, automations.space_id, triggers.id, automations.definition FROM triggers
                       JOIN automations ON automations.org_id = triggers.org_id AND automations.id = triggers.automation_id
                       WHERE triggers.org_id = $1 AND kind = 'event' AND automations.status <> 'archived'
                       ORDER BY triggers.automation_id, triggers.id";
            all(self.db.read(sql, &vals![org.as_str()]).await?, |row| {
                let mut columns = Columns::of(row);
                let (automation, space) = (columns.id()?, columns.id()?);
                Ok(EventTrigger { automation, space, trigger: columns.text()?, definition: columns.parsed(Digest::parse)? })
            })
        })
    }

    fn is_heard_in<'a>(&'a self, org: &'a OrgId, space: &'a SpaceId, event: &'a Event) -> Future<'a, Result<bool, Error>> {
        Box::pin(async move {
            let closed = self.list_closed_spaces(org).await?;
            let others: BTreeSet<_> = closed.iter().filter(|closed| closed.id != *space).map(|closed| closed.id.clone()).collect();
            Ok(!self.is_event_about(org, &others, event, None).await?)
        })
    }
}

impl Store {
    pub async fn find_automation_by_name(&self, org: &OrgId, space: &SpaceId, name: &str) -> Result<Option<Automation>, Error> {
        let sql = concat!(select_automation!(), " AND space_id = $2 AND name = $3 AND status <> 'archived'");
        only(self.db.read(sql, &vals![org.as_str(), space.as_str(), name]).await?, read_automation)
    }

    /// Lists automations, newest first.
    pub async fn list_automations(&self, org: &OrgId, filter: &AutomationFilter, request: &PageRequest) -> Result<Page<Automation>, Error> {
        let status = filter.status.map_or("", AutomationStatus::as_str);
        let mut params = vals![org.as_str(), status, request.after.as_deref().unwrap_or("~")].to_vec();
        let visible = not_among("space_id", &filter.hidden, &mut params);
        params.push(Val::from(i64::from(request.limit) + 1));
        let which = concat!(select_automation!(), " AND (status = $2 OR $2 = '' AND status <> 'archived') AND id < $3");
        let sql = format!("{which}{visible} ORDER BY id DESC LIMIT ${}", params.len());
        page(self.db.read(&sql, &params).await?, request.limit, read_automation, |automation| automation.id.to_string())
    }

    /// The versions of an automation, newest first.
    pub async fn list_automation_versions(
        &self,
        org: &OrgId,
        automation: &AutomationId,
        request: &PageRequest,
    ) -> Result<Page<AutomationVersion>, Error> {
        let before = request.after.as_deref().and_then(|after| after.parse::<i64>().ok()).unwrap_or(i64::MAX);
        let sql = "SELECT version, definition, saved_by, saved_at FROM automation_versions
                   WHERE org_id = $1 AND automation_id = $2 AND version < $3 ORDER BY version DESC LIMIT $4";
        let params = vals![org.as_str(), automation.as_str(), before, i64::from(request.limit) + 1];
        page(self.db.read(sql, &params).await?, request.limit, read_version, |version| version.version.to_string())
    }

    /// The triggers of an automation, by id.
    pub async fn list_triggers(&self, org: &OrgId, automation: &AutomationId) -> Result<Vec<Trigger>, Error> {
        let sql = concat!("SELECT ", trigger_columns!(), " FROM triggers WHERE org_id = $1 AND automation_id = $2 ORDER BY id");
        all(self.db.read(sql, &vals![org.as_str(), automation.as_str()]).await?, read_trigger)
    }
}

/// Publishes an event about an automation.
pub(crate) async fn tell_of(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    automation: &AutomationId,
    name: &'static str,
    body: String,
) -> Result<(), Error> {
    let Some(found) = find_in(tx, org, automation).await? else { return Ok(()) };
    tell_in(store, tx, org, &found.space, name, automation.to_string(), body).await
}

async fn record(store: &Store, tx: &mut Tx, automation: &Automation, by: &UserId, event: &'static str) -> Result<(), Error> {
    let Automation { id, version, definition, status, .. } = automation;
    let change = RuleChange::AutomationSet { automation: id.clone(), version: *version, definition: *definition, status: *status };
    let told = RuleEvent { name: event, key: id.to_string() };
    rule_log::record_in(store, tx, &automation.org, &automation.space, Some(PrincipalId::User(by.clone())), change, told).await
}
