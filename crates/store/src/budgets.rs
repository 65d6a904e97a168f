//! What runs spend. A call is reserved at its worst case before it is made, and settled with its outcome. What was not settled counts in full:
//! whoever reserved it may have been killed after the call. So what a run may cost is never exceeded.

use crate::db::{Columns, Tx, count, only, vals};
use crate::{Error, Store};
use countersign_core::ports::runs::{ReserveBudget, Reserved};
use countersign_core::{Amount, OrgId, RunId};

/// What the calls of a run did cost, and may have cost where nobody has settled that.
const TAKEN: &str =
    "SELECT CAST(coalesce(sum(coalesce(spent, reserved)), 0) AS BIGINT) FROM budget_entries WHERE org_id = $1 AND run_id = $2";

/// How many of the latest calls of an action say what the next one will cost.
const COSTS_AVERAGED: i64 = 50;

impl Store {
    /// What a run has cost so far, in dollars. What was not settled counts in full.
    pub async fn find_run_cost(&self, org: &OrgId, run: &RunId) -> Result<Amount, Error> {
        let taken = count(self.db.read(TAKEN, &vals![org.as_str(), run.as_str()]).await?)?;
        Ok(Amount::from_millionths(taken).unwrap_or(Amount::MAX))
    }

    pub(crate) async fn read_mean_cost(&self, org: &OrgId, action: &str) -> Result<Option<Amount>, Error> {
        let sql = "SELECT CAST(avg(spent) AS BIGINT) FROM (
                     SELECT spent FROM budget_entries WHERE org_id = $1 AND action = $2 AND spent IS NOT NULL ORDER BY at DESC LIMIT $3) AS latest";
        let mean = only(self.db.read(sql, &vals![org.as_str(), action, COSTS_AVERAGED]).await?, |row| Columns::of(row).int_or_null())?;
        Ok(mean.flatten().and_then(Amount::from_millionths))
    }
}

pub(crate) async fn reserve_in(tx: &mut Tx, reserve: ReserveBudget) -> Result<Reserved, Error> {
    let ReserveBudget { lease, key, action, most, cap } = reserve;
    let (org, run) = (lease.org.as_str(), lease.run.as_str());
    let owner = tx.lease().id().to_string();
    let held = "SELECT count(*) FROM run_leases WHERE org_id = $1 AND run_id = $2 AND lease_token = $3 AND lease_owner = $4";
    if count(tx.query(held, &vals![org, run, lease.token, owner]).await?)? == 0 {
        return Ok(Reserved::Lost);
    }
    let known = "SELECT count(*) FROM budget_entries WHERE org_id = $1 AND run_id = $2 AND key = $3";
    if count(tx.query(known, &vals![org, run, key.as_str()]).await?)? > 0 {
        return Ok(Reserved::Done);
    }
    let taken = count(tx.query(TAKEN, &vals![org, run]).await?)?;
    if taken.saturating_add(most.as_millionths()) > cap.as_millionths() {
        return Ok(Reserved::TooMuch);
    }
    let sql = "INSERT INTO budget_entries (org_id, run_id, key, action, reserved, at) VALUES ($1, $2, $3, $4, $5, $6)";
    tx.exec(sql, &vals![org, run, key, action, most.as_millionths(), tx.now()]).await?;
    Ok(Reserved::Done)
}

pub(crate) async fn settle(store: &Store, org: &OrgId, run: &RunId, key: &str, spent: Amount) -> Result<(), Error> {
    let (org, run, key) = (org.clone(), run.clone(), key.to_owned());
    store
        .db
        .write(org.clone(), move |tx| {
            Box::pin(async move {
                let sql = "UPDATE budget_entries SET spent = $1 WHERE org_id = $2 AND run_id = $3 AND key = $4 AND spent IS NULL";
                tx.exec(sql, &vals![spent.as_millionths(), org.as_str(), run.as_str(), key]).await.map(|_| ())
            })
        })
        .await
}
