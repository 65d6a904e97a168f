//! The tables of automations and their triggers: how a row is read.

use crate::Error;
use crate::db::{Columns, Row, Tx, only, vals};
use countersign_core::automation::{Automation, AutomationStatus, AutomationVersion, Trigger, TriggerType};
use countersign_core::{AutomationId, Digest, OrgId};

macro_rules! select_automation {
    () => {
        "SELECT id, org_id, space_id, name, status, version, definition, creator_id, created_at, changed_at FROM automations WHERE org_id = $1"
    };
}
pub(super) use select_automation;

macro_rules! trigger_columns {
    () => {
        "triggers.org_id, triggers.automation_id, triggers.id, kind, enabled, disabled_why, enabled_at, next_due_at, high_water, last_fired_at,
         token_hash"
    };
}
pub(super) use trigger_columns;

pub(crate) async fn find_in(tx: &mut Tx, org: &OrgId, automation: &AutomationId) -> Result<Option<Automation>, Error> {
    let sql = concat!(select_automation!(), " AND id = $2");
    only(tx.query(sql, &vals![org.as_str(), automation.as_str()]).await?, read_automation)
}

pub(super) fn read_automation(row: Row) -> Result<Automation, Error> {
    let mut columns = Columns::of(row);
    Ok(Automation {
        id: columns.id()?,
        org: columns.id()?,
        space: columns.id()?,
        name: columns.text()?,
        status: columns.parsed(AutomationStatus::parse)?,
        version: version_of(columns.int()?),
        definition: columns.parsed(Digest::parse)?,
        creator: columns.id()?,
        created_at: columns.time()?,
        changed_at: columns.time()?,
    })
}

fn version_of(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(u32::MAX)
}

pub(super) fn read_version(row: Row) -> Result<AutomationVersion, Error> {
    let mut columns = Columns::of(row);
    let (version, definition) = (version_of(columns.int()?), columns.parsed(Digest::parse)?);
    Ok(AutomationVersion { version, definition, saved_by: columns.id()?, saved_at: columns.time()? })
}

pub(super) fn read_trigger(row: Row) -> Result<Trigger, Error> {
    read_trigger_and_token(&mut Columns::of(row)).map(|(trigger, _)| trigger)
}

pub(super) fn read_trigger_and_token(columns: &mut Columns) -> Result<(Trigger, Option<String>), Error> {
    let mut trigger = Trigger {
        org: columns.id()?,
        automation: columns.id()?,
        id: columns.text()?,
        kind: columns.parsed(TriggerType::parse)?,
        is_enabled: columns.int()? == 1,
        disabled_why: columns.text_or_null()?,
        enabled_at: columns.time()?,
        next_due_at: columns.time_or_null()?,
        high_water: columns.time_or_null()?,
        last_fired_at: columns.time_or_null()?,
        has_token: false,
    };
    let token = columns.text_or_null()?;
    trigger.has_token = token.is_some();
    Ok((trigger, token))
}
