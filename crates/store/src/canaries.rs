//! Canary tokens: texts that nothing should ever send. A call that contains one is quarantined.

use crate::db::{Columns, Row, all, vals};
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Store};
use countersign_core::{CanaryId, OrgId, PrincipalId, Timestamp, random_bytes};
use receipt::body::RuleChange;

/// A canary token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canary {
    pub id: CanaryId,
    pub text: String,
    pub added_by: PrincipalId,
    pub added_at: Timestamp,
}

pub(crate) const SELECT_CANARIES: &str = "SELECT id, text, added_by, added_at FROM canaries WHERE org_id = $1 ORDER BY id";

impl Store {
    pub async fn add_canary(&self, org: &OrgId, text: &str, by: &PrincipalId) -> Result<Canary, Error> {
        let (store, org, text, by) = (self.clone(), org.clone(), text.to_owned(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let now = tx.now();
                    let canary = Canary { id: CanaryId::new(now, random_bytes(&*store.random)), text, added_by: by.clone(), added_at: now };
                    tx.exec(
                        "INSERT INTO canaries (org_id, id, text, added_by, added_at) VALUES ($1, $2, $3, $4, $5)",
                        &vals![org.as_str(), canary.id.as_str(), canary.text.as_str(), by.to_string(), now],
                    )
                    .await?;
                    let told = RuleEvent { name: "canary.added", key: canary.id.to_string() };
                    rule_log::record(&store, tx, &org, Some(by), RuleChange::CanaryAdded { canary: canary.id.clone() }, told).await?;
                    Ok(canary)
                })
            })
            .await
    }

    /// Removes a canary token. Returns whether there was one.
    pub async fn remove_canary(&self, org: &OrgId, canary: &CanaryId, by: &PrincipalId) -> Result<bool, Error> {
        let (store, org, canary, by) = (self.clone(), org.clone(), canary.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "DELETE FROM canaries WHERE org_id = $1 AND id = $2";
                    if tx.exec(sql, &vals![org.as_str(), canary.as_str()]).await? == 0 {
                        return Ok(false);
                    }
                    let told = RuleEvent { name: "canary.removed", key: canary.to_string() };
                    rule_log::record(&store, tx, &org, Some(by), RuleChange::CanaryRemoved { canary }, told).await?;
                    Ok(true)
                })
            })
            .await
    }

    pub async fn list_canaries(&self, org: &OrgId) -> Result<Vec<Canary>, Error> {
        all(self.db.read(SELECT_CANARIES, &vals![org.as_str()]).await?, read_canary)
    }
}

pub(crate) fn read_canary(row: Row) -> Result<Canary, Error> {
    let mut columns = Columns::of(row);
    Ok(Canary { id: columns.id()?, text: columns.text()?, added_by: columns.parsed(PrincipalId::parse)?, added_at: columns.time()? })
}
