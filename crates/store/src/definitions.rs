//! Which definition of an action was reviewed, and whether it has drifted since. Definitions are archived for verifiers.

use crate::archive::archive_in;
use crate::db::{Columns, Row, Tx, Val, only, to_json, vals};
use crate::invocations::finish_in;
use crate::reviews::{insert_pin, pin_first_in, record_review, write_pin};
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Page, PageRequest, Store, grants, page};
use countersign_core::grant::{Grant, GrantedDefinition};
use countersign_core::ports::Definitions;
use countersign_core::ports::definitions::{ArchivedDefinition, NewDrift, Pin, Wording};
use countersign_core::ports::invocations::{Finish, Finished};
use countersign_core::{ActionId, Digest, Future, OrgId, PrincipalId, Timestamp};
use receipt::body::RuleChange;
use std::collections::BTreeSet;
use std::sync::Arc;

macro_rules! select_pin {
    () => {
        "SELECT action, structural, textual, wording, seen_structural, seen_textual, reviewed_by, reviewed_at, seen_at
         FROM pins WHERE org_id = $1"
    };
}

/// A reviewed definition, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    pub action: ActionId,
    pub pin: Pin,
    pub reviewed_by: PrincipalId,
    pub reviewed_at: Timestamp,
    /// When the definition that differs from the reviewed one was first seen.
    pub seen_at: Option<Timestamp>,
}

impl Definitions for Store {
    fn find_pin<'a>(&'a self, org: &'a OrgId, action: &'a ActionId) -> Future<'a, Result<Option<Pin>, Error>> {
        Box::pin(async move { Ok(self.find_review(org, action).await?.map(|review| review.pin)) })
    }

    fn review<'a>(&'a self, org: &'a OrgId, action: &'a ActionId, pin: Pin, by: &'a PrincipalId) -> Future<'a, Result<(), Error>> {
        Box::pin(async move {
            let (store, owned, action, by) = (self.clone(), org.clone(), action.clone(), by.clone());
            let review =
                self.db.write(org.clone(), move |tx| Box::pin(async move { review_in(&store, tx, &owned, action, pin, by).await }));
            grants::log_revoked(org, &review.await?);
            Ok(())
        })
    }

    fn pin_first<'a>(&'a self, org: &'a OrgId, action: &'a ActionId, pin: Pin, by: &'a PrincipalId) -> Future<'a, Result<(), Error>> {
        let (store, org, action, by) = (self.clone(), org.clone(), action.clone(), by.clone());
        Box::pin(self.db.write(org.clone(), move |tx| Box::pin(async move { pin_first_in(&store, tx, &org, &action, pin, by).await })))
    }

    fn drift<'a>(&'a self, org: &'a OrgId, drift: NewDrift, ends: Vec<Arc<Finish>>) -> Future<'a, Result<Vec<Finished>, Error>> {
        Box::pin(async move {
            let action = drift.action.clone();
            let (store, owned) = (self.clone(), org.clone());
            let (mut revoked, ended) =
                self.db.write(org.clone(), move |tx| Box::pin(async move { drift_in(&store, tx, &owned, drift, &ends).await })).await?;
            // No grant can be used meanwhile: while the definition differs from the reviewed one, grants do not replace approvals.
            while !revoked.is_empty() {
                grants::log_revoked(org, &revoked);
                if (revoked.len() as i64) < grants::SWEPT_AT_ONCE {
                    break;
                }
                let (store, owned, action) = (self.clone(), org.clone(), action.clone());
                let revoke =
                    self.db.write(org.clone(), move |tx| Box::pin(async move { grants::revoke_for_in(&store, tx, &owned, &action).await }));
                revoked = revoke.await?;
            }
            Ok(ended)
        })
    }

    fn archive_definition<'a>(&'a self, org: &'a OrgId, definition: ArchivedDefinition) -> Future<'a, Result<(), Error>> {
        let org = org.clone();
        Box::pin(self.db.write(org.clone(), move |tx| Box::pin(async move { archive_in(tx, &org, definition).await })))
    }
}

impl Store {
    /// The definition that was archived under this digest.
    pub async fn find_definition(&self, org: &OrgId, digest: Digest) -> Result<Option<String>, Error> {
        let sql = "SELECT body FROM definitions WHERE org_id = $1 AND digest = $2";
        only(self.db.read(sql, &vals![org.as_str(), digest.to_string()]).await?, |row| Columns::of(row).text())
    }

    pub async fn find_review(&self, org: &OrgId, action: &ActionId) -> Result<Option<Review>, Error> {
        let sql = concat!(select_pin!(), " AND action = $2");
        let params = vals![org.as_str(), action.as_str()];
        let review = self.db.read_remembered(org, sql, &params, |rows| only(rows, read_review)).await?;
        Ok(Option::clone(&review))
    }

    /// Lists every reviewed action, by name, without those of these sources.
    pub async fn list_reviews(&self, org: &OrgId, hidden: &BTreeSet<String>, request: &PageRequest) -> Result<Page<Review>, Error> {
        let mut params = vals![org.as_str(), request.after.as_deref().unwrap_or_default()].to_vec();
        let mut sql = String::from(concat!(select_pin!(), " AND action > $2"));
        for source in hidden {
            // The ids of its actions begin with its name and a dot.
            let begins = format!("{source}.");
            params.push(Val::from(begins.as_str()));
            sql.push_str(&format!(" AND substr(action, 1, {}) <> ${}", begins.len(), params.len()));
        }
        params.push(Val::from(i64::from(request.limit) + 1));
        sql.push_str(&format!(" ORDER BY action LIMIT ${}", params.len()));
        let rows = self.db.read(&sql, &params).await?;
        page(rows, request.limit, read_review, |review| review.action.to_string())
    }
}

/// Replaces the review of an action. A grant that was given for another definition covers nothing any more, and ends.
async fn review_in(store: &Store, tx: &mut Tx, org: &OrgId, action: ActionId, pin: Pin, by: PrincipalId) -> Result<Vec<Grant>, Error> {
    let sql = concat!(
        insert_pin!(),
        " ON CONFLICT (org_id, action) DO UPDATE
         SET structural = excluded.structural, textual = excluded.textual, wording = excluded.wording,
             reviewed_by = excluded.reviewed_by, reviewed_at = excluded.reviewed_at,
             seen_structural = NULL, seen_textual = NULL, seen_at = NULL"
    );
    write_pin(tx, sql, org, &action, &pin, &by).await?;
    let reviewed = GrantedDefinition { structural: pin.structural, textual: pin.textual };
    let revoked = grants::revoke_others_in(store, tx, org, &action, reviewed, &by).await?;
    record_review(store, tx, org, action, pin, by).await?;
    Ok(revoked)
}

/// Returns the grants of the action that it revoked, of which there may be more, and how the given calls ended.
async fn drift_in(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    drift: NewDrift,
    ends: &[Arc<Finish>],
) -> Result<(Vec<Grant>, Vec<Finished>), Error> {
    let NewDrift { action, drift, structural, textual } = drift;
    let noted = tx
        .exec(
            "UPDATE pins SET seen_structural = $1, seen_textual = $2, seen_at = $3
             WHERE org_id = $4 AND action = $5 AND (structural <> $1 OR textual <> $2)
               AND (seen_structural IS NULL OR seen_structural <> $1 OR seen_textual <> $2)",
            &vals![structural.to_string(), textual.to_string(), tx.now(), org.as_str(), action.as_str()],
        )
        .await?;
    let mut revoked = Vec::new();
    if noted == 1 {
        revoked = grants::revoke_for_in(store, tx, org, &action).await?;
        let told = RuleEvent { name: "action.drifted", key: action.to_string() };
        let change = RuleChange::Drifted { action, drift, structural, textual };
        rule_log::record(store, tx, org, None, change, told).await?;
    }
    let mut ended = Vec::with_capacity(ends.len());
    for finish in ends {
        ended.push(finish_in(tx, finish, to_json(&finish.invocation)?).await?);
    }
    Ok((revoked, ended))
}

fn read_review(row: Row) -> Result<Review, Error> {
    let mut columns = Columns::of(row);
    let action = columns.parsed(|text| ActionId::parse(text).ok())?;
    let (structural, textual) = (columns.parsed(Digest::parse)?, columns.parsed(Digest::parse)?);
    let wording = columns.parsed(Wording::parse)?;
    let seen = columns.parsed_or_null(Digest::parse)?.zip(columns.parsed_or_null(Digest::parse)?);
    let (reviewed_by, reviewed_at, seen_at) = (columns.parsed(PrincipalId::parse)?, columns.time()?, columns.time_or_null()?);
    let changed_at = Some(seen_at.map_or(reviewed_at, |seen_at| seen_at.max(reviewed_at)));
    Ok(Review { action, pin: Pin { structural, textual, wording, seen, changed_at }, reviewed_by, reviewed_at, seen_at })
}
