//! What operators allow the sources of every org, while the server runs. The rows are those of the first org: its owners are the operators.
//! Every change is versioned, signed into its audit log and published as an event.

use crate::archive::{archive_in, digest_of};
use crate::db::{Columns, Row, Tx, all, count, only, vals};
use crate::limits::ALLOWED_MAX;
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Store};
use countersign_core::allowed::AllowedList;
use countersign_core::ports::definitions::ArchivedDefinition;
use countersign_core::{OrgId, PrincipalId, Timestamp};
use receipt::body::RuleChange;
use std::sync::Arc;

pub(crate) const SELECT_ALLOWED: &str =
    "SELECT list, entry, terms, version, set_by, set_at FROM allowed WHERE org_id = $1 ORDER BY list, entry";

/// Something that an operator allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedRow {
    pub list: AllowedList,
    /// A host, a network, or the id of a command.
    pub entry: String,
    /// Of a command: canonical JSON of all that is allowed of it.
    pub terms: Option<String>,
    pub version: i64,
    pub set_by: PrincipalId,
    pub set_at: Timestamp,
}

/// Something to be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAllowed {
    pub list: AllowedList,
    pub entry: String,
    pub terms: Option<String>,
}

/// What became of something to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetAllowed {
    /// It is allowed, with this version. If it was allowed so before, nothing was changed.
    Done(i64),
    /// The list has as many entries as it may have.
    TooMany,
}

impl Store {
    /// What is allowed beside the file of settings. The same `Arc` as before means that nothing of it has changed.
    pub async fn list_allowed(&self, org: &OrgId) -> Result<Arc<Vec<AllowedRow>>, Error> {
        self.db.read_remembered(org, SELECT_ALLOWED, &vals![org.as_str()], |rows| all(rows, read_allowed)).await
    }

    /// Allows something, or allows it otherwise.
    pub async fn set_allowed(&self, org: &OrgId, new: NewAllowed, by: &PrincipalId) -> Result<SetAllowed, Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        self.db.write(org.clone(), move |tx| Box::pin(async move { set_in(&store, tx, &org, new, &by).await })).await
    }

    /// Returns the version that the change got; `None` if it was not allowed.
    pub async fn remove_allowed(&self, org: &OrgId, list: AllowedList, entry: &str, by: &PrincipalId) -> Result<Option<i64>, Error> {
        let (store, org, entry, by) = (self.clone(), org.clone(), entry.to_owned(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "DELETE FROM allowed WHERE org_id = $1 AND list = $2 AND entry = $3";
                    if tx.exec(sql, &vals![org.as_str(), list.as_str(), entry.as_str()]).await? == 0 {
                        return Ok(None);
                    }
                    let told = RuleEvent { name: "allowed.removed", key: format!("{list} {entry}") };
                    rule_log::record(&store, tx, &org, Some(by), RuleChange::AllowedRemoved { list, entry }, told).await.map(Some)
                })
            })
            .await
    }
}

/// Allows something as a part of a write.
pub(crate) async fn set_in(store: &Store, tx: &mut Tx, org: &OrgId, new: NewAllowed, by: &PrincipalId) -> Result<SetAllowed, Error> {
    let NewAllowed { list, entry, terms } = new;
    let sql = "SELECT list, entry, terms, version, set_by, set_at FROM allowed WHERE org_id = $1 AND list = $2 AND entry = $3";
    let before = only(tx.query_locked(sql, &vals![org.as_str(), list.as_str(), entry.as_str()]).await?, read_allowed)?;
    match before {
        Some(before) if before.terms == terms => return Ok(SetAllowed::Done(before.version)),
        Some(_) => {}
        None => {
            let sql = "SELECT count(*) FROM allowed WHERE org_id = $1 AND list = $2";
            if count(tx.query(sql, &vals![org.as_str(), list.as_str()]).await?)? >= i64::try_from(ALLOWED_MAX).unwrap_or(i64::MAX) {
                return Ok(SetAllowed::TooMany);
            }
        }
    }
    let digest = terms.as_deref().map(digest_of);
    if let (Some(digest), Some(terms)) = (digest, &terms) {
        archive_in(tx, org, ArchivedDefinition { digest, body: terms.clone() }).await?;
    }
    let told = RuleEvent { name: "allowed.set", key: format!("{list} {entry}") };
    let change = RuleChange::AllowedSet { list, entry: entry.clone(), terms: digest };
    let version = rule_log::record(store, tx, org, Some(by.clone()), change, told).await?;
    tx.exec(
        "INSERT INTO allowed (org_id, list, entry, terms, version, set_by, set_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (org_id, list, entry) DO UPDATE
         SET terms = excluded.terms, version = excluded.version, set_by = excluded.set_by, set_at = excluded.set_at",
        &vals![org.as_str(), list.as_str(), entry.as_str(), terms, version, by.to_string(), tx.now()],
    )
    .await?;
    Ok(SetAllowed::Done(version))
}

pub(crate) fn read_allowed(row: Row) -> Result<AllowedRow, Error> {
    let mut columns = Columns::of(row);
    Ok(AllowedRow {
        list: columns.parsed(AllowedList::parse)?,
        entry: columns.text()?,
        terms: columns.text_or_null()?,
        version: columns.int()?,
        set_by: columns.parsed(PrincipalId::parse)?,
        set_at: columns.time()?,
    })
}
