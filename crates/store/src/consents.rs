//! Consents. Withdrawing one takes effect at once: no call decided under it starts any more.

use crate::db::{Columns, Row, Tx, Val, only, vals};
use crate::orgs::not_among;
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::consent::{Consent, KINDS_OF_ACTIONS};
use countersign_core::{ConsentId, OrgId, PrincipalId, SpaceId, UserId, random_bytes};
use receipt::body::RuleChange;
use std::collections::BTreeSet;

macro_rules! select_consent {
    () => {
        "SELECT id, user_id, space_id, purpose, evidence, given_at, expires_at, withdrawn_at FROM consents WHERE org_id = $1"
    };
}
pub(crate) use select_consent;

/// A consent to give.
#[derive(Clone, Debug)]
pub struct NewConsent {
    pub user: UserId,
    pub space: Option<SpaceId>,
    pub purpose: String,
    pub evidence: Option<String>,
    pub lifetime_seconds: Option<u64>,
}

impl Store {
    pub async fn give_consent(&self, org: &OrgId, new: NewConsent) -> Result<Consent, Error> {
        let (store, org) = (self.clone(), org.clone());
        self.db.write(org.clone(), move |tx| Box::pin(async move { give_in(&store, tx, &org, new).await })).await
    }

    /// Withdraws a consent of this person; `None` if they have no such consent, or have already withdrawn it.
    pub async fn withdraw_consent(&self, org: &OrgId, consent: &ConsentId, user: &UserId) -> Result<Option<Consent>, Error> {
        let (store, org, consent, user) = (self.clone(), org.clone(), consent.clone(), user.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = concat!(select_consent!(), " AND id = $2 AND user_id = $3 AND withdrawn_at IS NULL");
                    let rows = tx.query_locked(sql, &vals![org.as_str(), consent.as_str(), user.as_str()]).await?;
                    let Some(mut found) = only(rows, read_consent)? else {
                        return Ok(None);
                    };
                    found.withdrawn_at = Some(tx.now());
                    tx.exec(
                        "UPDATE consents SET withdrawn_at = $1 WHERE org_id = $2 AND id = $3",
                        &vals![tx.now(), org.as_str(), consent.as_str()],
                    )
                    .await?;
                    let by = Some(PrincipalId::User(user));
                    let told = RuleEvent { name: "consent.withdrawn", key: consent.to_string() };
                    rule_log::record(&store, tx, &org, by, RuleChange::ConsentWithdrawn { consent }, told).await?;
                    Ok(Some(found))
                })
            })
            .await
    }

    /// Lists consents, newest first, of one person or of all.
    pub async fn list_consents(
        &self,
        org: &OrgId,
        user: Option<&UserId>,
        hidden: &BTreeSet<SpaceId>,
        hidden_sources: &BTreeSet<String>,
        request: &PageRequest,
    ) -> Result<Page<Consent>, Error> {
        let user = user.map_or("", UserId::as_str);
        let mut params = vals![org.as_str(), request.after.as_deref().unwrap_or("~"), user].to_vec();
        // A consent without a space is for all of them.
        let mut visible = not_among("COALESCE(space_id, '')", hidden, &mut params);
        for (source, kind) in hidden_sources.iter().flat_map(|source| KINDS_OF_ACTIONS.map(|kind| (source, kind))) {
            // The ids of its actions begin with its name and a dot.
            let begins = format!("{kind}{source}.");
            params.push(Val::from(begins.as_str()));
            visible.push_str(&format!(" AND substr(purpose, 1, {}) <> ${}", begins.len(), params.len()));
        }
        params.push(Val::from(i64::from(request.limit) + 1));
        let which = concat!(select_consent!(), " AND id < $2 AND ($3 = '' OR user_id = $3)");
        let sql = format!("{which}{visible} ORDER BY id DESC LIMIT ${}", params.len());
        let rows = self.db.read(&sql, &params).await?;
        page(rows, request.limit, read_consent, |consent| consent.id.to_string())
    }
}

pub(crate) async fn give_in(store: &Store, tx: &mut Tx, org: &OrgId, new: NewConsent) -> Result<Consent, Error> {
    let now = tx.now();
    let consent = Consent {
        id: ConsentId::new(now, random_bytes(&*store.random)),
        user: new.user,
        space: new.space,
        purpose: new.purpose,
        evidence: new.evidence,
        given_at: now,
        expires_at: new.lifetime_seconds.map(|seconds| now.plus_seconds(seconds)),
        withdrawn_at: None,
    };
    tx.exec(
        "INSERT INTO consents (org_id, id, user_id, space_id, purpose, evidence, given_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &vals![
            org.as_str(),
            consent.id.as_str(),
            consent.user.as_str(),
            consent.space.as_ref().map(SpaceId::as_str),
            consent.purpose.as_str(),
            consent.evidence.as_deref(),
            now,
            consent.expires_at
        ],
    )
    .await?;
    let change = RuleChange::ConsentGiven {
        consent: consent.id.clone(),
        purpose: consent.purpose.clone(),
        space: consent.space.clone(),
        expires_at: consent.expires_at,
    };
    let by = Some(PrincipalId::User(consent.user.clone()));
    rule_log::record(store, tx, org, by, change, RuleEvent { name: "consent.given", key: consent.id.to_string() }).await?;
    Ok(consent)
}

pub(crate) fn read_consent(row: Row) -> Result<Consent, Error> {
    let mut columns = Columns::of(row);
    Ok(Consent {
        id: columns.id()?,
        user: columns.id()?,
        space: columns.id_or_null()?,
        purpose: columns.text()?,
        evidence: columns.text_or_null()?,
        given_at: columns.time()?,
        expires_at: columns.time_or_null()?,
        withdrawn_at: columns.time_or_null()?,
    })
}
