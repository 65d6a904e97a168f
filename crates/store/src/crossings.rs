//! Crossings: a crossing lets an action reach from one space into another. Without one, a call stays in its space.

use crate::db::{Columns, Row, all, vals};
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Store};
use countersign_core::{ActionId, OrgId, PrincipalId, SpaceId, Timestamp};
use receipt::body::RuleChange;

/// One action that may reach from one space into another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Crossing {
    pub from: SpaceId,
    pub to: SpaceId,
    pub action: ActionId,
}

/// A crossing, with the principal that allowed it and the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedCrossing {
    pub crossing: Crossing,
    pub listed_by: PrincipalId,
    pub listed_at: Timestamp,
}

impl Store {
    pub async fn allow_crossing(&self, org: &OrgId, crossing: Crossing, by: &PrincipalId) -> Result<(), Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let Crossing { from, to, action } = crossing;
                    let inserted = tx
                        .exec(
                            "INSERT INTO crossings (org_id, from_space, to_space, action, listed_by, listed_at) VALUES ($1, $2, $3, $4, $5, $6)
                             ON CONFLICT (org_id, from_space, to_space, action) DO NOTHING",
                            &vals![org.as_str(), from.as_str(), to.as_str(), action.as_str(), by.to_string(), tx.now()],
                        )
                        .await?;
                    if inserted == 1 {
                        let told = RuleEvent { name: "crossing.allowed", key: action.to_string() };
                        rule_log::record(&store, tx, &org, Some(by), RuleChange::CrossingAllowed { action, from, to }, told).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Removes a crossing. Returns whether there was one.
    pub async fn forbid_crossing(&self, org: &OrgId, crossing: Crossing, by: &PrincipalId) -> Result<bool, Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let Crossing { from, to, action } = crossing;
                    let sql = "DELETE FROM crossings WHERE org_id = $1 AND from_space = $2 AND to_space = $3 AND action = $4";
                    if tx.exec(sql, &vals![org.as_str(), from.as_str(), to.as_str(), action.as_str()]).await? == 0 {
                        return Ok(false);
                    }
                    let told = RuleEvent { name: "crossing.forbidden", key: action.to_string() };
                    rule_log::record(&store, tx, &org, Some(by), RuleChange::CrossingForbidden { action, from, to }, told).await?;
                    Ok(true)
                })
            })
            .await
    }

    pub async fn list_crossings(&self, org: &OrgId) -> Result<Vec<ListedCrossing>, Error> {
        let sql = "SELECT from_space, to_space, action, listed_by, listed_at FROM crossings WHERE org_id = $1
                   ORDER BY from_space, to_space, action";
        all(self.db.read(sql, &vals![org.as_str()]).await?, read_crossing)
    }
}

fn read_crossing(row: Row) -> Result<ListedCrossing, Error> {
    let mut columns = Columns::of(row);
    Ok(ListedCrossing {
        crossing: Crossing { from: columns.id()?, to: columns.id()?, action: columns.parsed(|text| ActionId::parse(text).ok())? },
        listed_by: columns.parsed(PrincipalId::parse)?,
        listed_at: columns.time()?,
    })
}
