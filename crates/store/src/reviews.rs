//! Reviews: which definition of an action a person stands for.

use crate::db::{Tx, vals};
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Store};
use countersign_core::ports::definitions::Pin;
use countersign_core::{ActionId, OrgId, PrincipalId};
use receipt::body::RuleChange;

macro_rules! insert_pin {
    () => {
        "INSERT INTO pins (org_id, action, structural, textual, wording, reviewed_by, reviewed_at) VALUES ($1, $2, $3, $4, $5, $6, $7)"
    };
}
pub(crate) use insert_pin;

/// Records the definition as reviewed, unless the action has a review already. A person who allows an action for ever stands for the
/// definition they were shown; an earlier review stays as it is.
pub(crate) async fn pin_first_in(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    action: &ActionId,
    pin: Pin,
    by: PrincipalId,
) -> Result<(), Error> {
    let sql = concat!(insert_pin!(), " ON CONFLICT (org_id, action) DO NOTHING");
    if write_pin(tx, sql, org, action, &pin, &by).await? == 0 {
        return Ok(());
    }
    record_review(store, tx, org, action.clone(), pin, by).await
}

pub(crate) async fn write_pin(tx: &mut Tx, sql: &str, org: &OrgId, action: &ActionId, pin: &Pin, by: &PrincipalId) -> Result<u64, Error> {
    let Pin { structural, textual, wording, .. } = pin;
    let params =
        vals![org.as_str(), action.as_str(), structural.to_string(), textual.to_string(), wording.as_str(), by.to_string(), tx.now()];
    tx.exec(sql, &params).await
}

pub(crate) async fn record_review(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    action: ActionId,
    pin: Pin,
    by: PrincipalId,
) -> Result<(), Error> {
    let Pin { structural, textual, wording, .. } = pin;
    let told = RuleEvent { name: "action.reviewed", key: action.to_string() };
    let change = RuleChange::Reviewed { action, structural, textual, wording };
    rule_log::record(store, tx, org, Some(by), change, told).await.map(|_| ())
}
