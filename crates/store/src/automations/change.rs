//! What a person changes of an automation beside its definition: whether it fires, and which of its triggers do.

use super::table::find_in;
use super::ticks::go_on;
use super::{FromNow, TriggerChange, record};
use crate::db::vals;
use crate::{Error, Store};
use countersign_core::automation::{Automation, AutomationStatus, Trigger};
use countersign_core::ports::Automations as _;
use countersign_core::{AutomationId, OrgId, UserId};

impl Store {
    /// Says whether an automation fires. `schedules` has how its schedules go on, by the id of their trigger, if it is active again. `None` if
    /// there is no such automation.
    pub async fn set_automation_status(
        &self,
        org: &OrgId,
        automation: &AutomationId,
        status: AutomationStatus,
        schedules: Vec<(String, FromNow)>,
        by: &UserId,
    ) -> Result<Option<Automation>, Error> {
        let (store, org, automation, by) = (self.clone(), org.clone(), automation.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let Some(before) = find_in(tx, &org, &automation).await? else {
                        return Ok(None);
                    };
                    if [status, AutomationStatus::Archived].contains(&before.status) {
                        return Ok(Some(before));
                    }
                    let sql = "UPDATE automations SET status = $1, changed_at = $2 WHERE org_id = $3 AND id = $4";
                    tx.exec(sql, &vals![status.as_str(), tx.now(), org.as_str(), automation.as_str()]).await?;
                    for (trigger, from_now) in schedules {
                        go_on(&store, tx, &org, &automation, &trigger, from_now).await?;
                    }
                    if status == AutomationStatus::Archived {
                        // A worker ends them, and takes back what they ask.
                        let sql = "UPDATE run_leases SET due_at = $1 WHERE org_id = $2 AND lease_until IS NULL
                                   AND run_id IN (SELECT id FROM runs WHERE org_id = $2 AND automation_id = $3 AND status = 'waiting')";
                        tx.exec(sql, &vals![tx.now(), org.as_str(), automation.as_str()]).await?;
                    }
                    let automation = Automation { status, changed_at: tx.now(), ..before };
                    record(&store, tx, &automation, &by, event_of(status)).await?;
                    Ok(Some(automation))
                })
            })
            .await
    }

    /// Enables or disables a trigger. `None` if there is none.
    pub async fn change_trigger(
        &self,
        org: &OrgId,
        automation: &AutomationId,
        trigger: &str,
        change: TriggerChange,
        by: &UserId,
    ) -> Result<Option<Trigger>, Error> {
        let (store, owned, by) = (self.clone(), (org.clone(), automation.clone(), trigger.to_owned()), by.clone());
        let changed = self
            .db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let (org, automation, trigger) = owned;
                    let Some(saved) = find_in(tx, &org, &automation).await? else { return Ok(0) };
                    let (is_enabled, now) = (change != TriggerChange::Disable, tx.now());
                    let sql = "UPDATE triggers SET enabled = $1, disabled_why = NULL, crowded_since = NULL, enabled_at = $2
                               WHERE org_id = $3 AND automation_id = $4 AND id = $5";
                    let params = vals![i64::from(is_enabled), now, org.as_str(), automation.as_str(), trigger.as_str()];
                    let changed = tx.exec(sql, &params).await?;
                    if let (1, TriggerChange::Enable(from_now)) = (changed, change) {
                        go_on(&store, tx, &org, &automation, &trigger, from_now).await?;
                    }
                    if changed == 1 {
                        let sql = "UPDATE automations SET changed_at = $1 WHERE org_id = $2 AND id = $3";
                        tx.exec(sql, &vals![now, org.as_str(), automation.as_str()]).await?;
                        record(&store, tx, &saved, &by, "automation.trigger_changed").await?;
                    }
                    Ok(changed)
                })
            })
            .await?;
        if changed == 0 { Ok(None) } else { self.find_trigger(org, automation, trigger).await }
    }
}

const fn event_of(status: AutomationStatus) -> &'static str {
    match status {
        AutomationStatus::Active => "automation.resumed",
        AutomationStatus::Paused => "automation.paused",
        AutomationStatus::Archived => "automation.archived",
    }
}
