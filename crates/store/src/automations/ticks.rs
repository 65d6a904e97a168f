//! How schedules go forward: past the ticks that were handled, or from now on.

use super::{FromNow, tell_of};
use crate::db::{Tx, vals};
use crate::firings::{SkippedRow, insert_skipped};
use crate::{Error, Store};
use countersign_core::ports::automations::{Mended, PassedTicks};
use countersign_core::{AutomationId, OrgId, Timestamp};
use serde_json::json;

pub(super) async fn pass_in(store: &Store, tx: &mut Tx, passed: PassedTicks) -> Result<bool, Error> {
    let PassedTicks { org, automation, trigger, from, high_water, next_due_at, skipped, mended } = passed;
    let sql = "UPDATE triggers SET high_water = $1, next_due_at = $2 WHERE org_id = $3 AND automation_id = $4 AND id = $5
               AND (high_water = $6 OR high_water IS NULL AND $6 IS NULL)";
    let params = vals![high_water, next_due_at, org.as_str(), automation.as_str(), trigger.as_str(), from];
    if tx.exec(sql, &params).await? == 0 {
        return Ok(false);
    }
    for ticks in skipped {
        insert_skipped(store, tx, SkippedRow { org: &org, automation: &automation, trigger: &trigger, ticks }).await?;
    }
    match mended {
        Some(Mended::HighWater) => {
            let body = json!({ "automation_id": automation, "trigger_id": trigger, "was": from, "is": high_water }).to_string();
            tell_of(store, tx, &org, &automation, "automation.clock_corrected", body).await?;
        }
        Some(what @ Mended::NextDue) => {
            let body = json!({ "automation_id": automation, "trigger_id": trigger, "what": what.as_str() }).to_string();
            tell_of(store, tx, &org, &automation, "automation.mended", body).await?;
        }
        None => {}
    }
    Ok(true)
}

pub(super) async fn go_on(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    automation: &AutomationId,
    trigger: &str,
    from_now: FromNow,
) -> Result<(), Error> {
    start_from_now(tx, org, automation, trigger, from_now.next_due_at).await?;
    match from_now.left_out {
        Some(ticks) => insert_skipped(store, tx, SkippedRow { org, automation, trigger, ticks }).await,
        None => Ok(()),
    }
}

/// A schedule that was edited or enabled starts from now: what it missed before is not caught up.
pub(super) async fn start_from_now(
    tx: &mut Tx,
    org: &OrgId,
    automation: &AutomationId,
    trigger: &str,
    next_due_at: Option<Timestamp>,
) -> Result<(), Error> {
    let sql = "UPDATE triggers SET next_due_at = $1, high_water = CASE WHEN high_water > $2 THEN high_water ELSE $2 END
               WHERE org_id = $3 AND automation_id = $4 AND id = $5 AND kind = 'schedule'";
    tx.exec(sql, &vals![next_due_at, tx.now(), org.as_str(), automation.as_str(), trigger]).await.map(|_| ())
}
