//! Kill switches. Turning one on stops the deadlines of the calls it covers, in the same write; turning it off starts them again.

use crate::db::{Columns, Row, Tx, Val, all, vals};
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Store};
use countersign_core::switch::{Stop, Switch, SwitchScope};
use countersign_core::{OrgId, PrincipalId};
use receipt::body::RuleChange;

pub(crate) const SELECT_SWITCHES: &str = "SELECT scope, stop, reason, set_by, set_at FROM switches WHERE org_id = $1 ORDER BY scope";

impl Store {
    /// Turns a switch on, or changes one that is on. Returns how many pending or approved invocations had their deadline stopped.
    pub async fn switch_on(&self, org: &OrgId, scope: SwitchScope, stop: Stop, reason: &str, by: &PrincipalId) -> Result<u64, Error> {
        let (store, org, reason, by) = (self.clone(), org.clone(), reason.to_owned(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    tx.exec(
                        "INSERT INTO switches (org_id, scope, stop, reason, set_by, set_at) VALUES ($1, $2, $3, $4, $5, $6)
                         ON CONFLICT (org_id, scope) DO UPDATE SET stop = excluded.stop, reason = excluded.reason, set_by = excluded.set_by",
                        &vals![org.as_str(), scope.to_string(), stop.as_str(), reason.as_str(), by.to_string(), tx.now()],
                    )
                    .await?;
                    let (covered, mut params) = covered(&scope, 3);
                    params.splice(0..0, vals![tx.now(), org.as_str()].to_vec());
                    let stopped = tx
                        .exec(
                            &format!(
                                "UPDATE invocations SET time_left = expires_at - $1, expires_at = NULL
                                 WHERE org_id = $2 AND status IN ('pending', 'approved') AND expires_at > $1 AND {covered}"
                            ),
                            &params,
                        )
                        .await?;
                    let told = RuleEvent { name: "switch.on", key: scope.to_string() };
                    rule_log::record(&store, tx, &org, Some(by), RuleChange::SwitchedOn { scope, stop, reason }, told).await?;
                    Ok(stopped)
                })
            })
            .await
    }

    /// Turns a switch off. The deadlines it stopped run again, unless another switch still covers them. `None` if it was not on.
    pub async fn switch_off(&self, org: &OrgId, scope: SwitchScope, reason: &str, by: &PrincipalId) -> Result<Option<u64>, Error> {
        let (store, org, reason, by) = (self.clone(), org.clone(), reason.to_owned(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "DELETE FROM switches WHERE org_id = $1 AND scope = $2";
                    if tx.exec(sql, &vals![org.as_str(), scope.to_string()]).await? == 0 {
                        return Ok(None);
                    }
                    let released = release(tx, &org, &scope).await?;
                    let told = RuleEvent { name: "switch.off", key: scope.to_string() };
                    rule_log::record(&store, tx, &org, Some(by), RuleChange::SwitchedOff { scope, reason }, told).await?;
                    Ok(Some(released))
                })
            })
            .await
    }
}

async fn release(tx: &mut Tx, org: &OrgId, scope: &SwitchScope) -> Result<u64, Error> {
    let still_on = tx.query(SELECT_SWITCHES, &vals![org.as_str()]).await?;
    let still_on = all(still_on, read_switch)?;
    let (covered_by, values) = covered(scope, 3);
    let mut sql = format!(
        "UPDATE invocations SET expires_at = $1 + time_left, time_left = NULL
         WHERE org_id = $2 AND status IN ('pending', 'approved') AND time_left IS NOT NULL AND {covered_by}"
    );
    let mut params = vals![tx.now(), org.as_str()].to_vec();
    params.extend(values);
    for switch in still_on {
        let (covered_by, values) = covered(&switch.scope, params.len() + 1);
        sql.push_str(&format!(" AND NOT ({covered_by})"));
        params.extend(values);
    }
    tx.exec(&sql, &params).await
}

/// The SQL condition for rows that the scope covers, with its parameters from number `at` on.
fn covered(scope: &SwitchScope, at: usize) -> (String, Vec<Val>) {
    match scope {
        SwitchScope::Org => ("1 = 1".to_owned(), Vec::new()),
        SwitchScope::Space(space) => (format!("space_id = ${at}"), vec![space.as_str().into()]),
        SwitchScope::Session(session) => (format!("session_id = ${at}"), vec![session.as_str().into()]),
        SwitchScope::Action(action) => (format!("action = ${at}"), vec![action.as_str().into()]),
        SwitchScope::Source(source) => {
            // Action ids of the source start with `<source>.`, and `/` is the character right after `.`: the range holds exactly these ids.
            let after = at + 1;
            (format!("action >= ${at} AND action < ${after}"), vec![format!("{source}.").into(), format!("{source}/").into()])
        }
    }
}

pub(crate) fn read_switch(row: Row) -> Result<Switch, Error> {
    let mut columns = Columns::of(row);
    Ok(Switch {
        scope: columns.parsed(SwitchScope::parse)?,
        stop: columns.parsed(Stop::parse)?,
        reason: columns.text()?,
        set_by: columns.parsed(PrincipalId::parse)?,
        set_at: columns.time()?,
    })
}
