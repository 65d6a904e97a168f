//! Quarantined calls. Their content is kept sealed until an approver releases or discards it, or until it expires.

use crate::db::{Columns, Row, Tx, Val, only, to_json, vals};
use crate::events::tell_in;
use crate::orgs::not_among;
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::ports::Quarantines;
use countersign_core::ports::invocations::NewQuarantine;
use countersign_core::ports::quarantines::{Settled, Settling};
use countersign_core::quarantine::{Holds, Quarantine, QuarantineState};
use countersign_core::{ActionId, Digest, Future, Invocation, InvocationId, OrgId, PrincipalId, SpaceId, UserId};
use receipt::body::RuleChange;
use std::collections::BTreeSet;

macro_rules! select_quarantine {
    () => {
        "SELECT invocation_id, space_id, session_id, action, principal, owner_id, holds, digest, caught, state, settled_by, settled_at, reason,
           released_as, expires_at, created_at
         FROM quarantines WHERE org_id = $1"
    };
}

/// The most quarantines that one sweep ends.
const SWEPT_AT_ONCE: i64 = 100;

impl Quarantines for Store {
    fn find_quarantine<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Quarantine>, Error>> {
        Box::pin(async move {
            let sql = concat!(select_quarantine!(), " AND invocation_id = $2");
            only(self.db.read(sql, &vals![org.as_str(), invocation.as_str()]).await?, read_quarantine)
        })
    }

    fn find_quarantined<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(async move {
            let sql = "SELECT sealed FROM quarantines WHERE org_id = $1 AND invocation_id = $2 AND sealed IS NOT NULL";
            only(self.db.read(sql, &vals![org.as_str(), invocation.as_str()]).await?, |row| Columns::of(row).bytes())
        })
    }

    fn look_at_quarantined<'a>(
        &'a self,
        org: &'a OrgId,
        invocation: &'a InvocationId,
        by: &'a PrincipalId,
    ) -> Future<'a, Result<(), Error>> {
        let (store, org, invocation, by) = (self.clone(), org.clone(), invocation.clone(), by.clone());
        Box::pin(self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                let sql = "SELECT space_id FROM quarantines WHERE org_id = $1 AND invocation_id = $2";
                let rows = tx.query(sql, &vals![org.as_str(), invocation.as_str()]).await?;
                let Some(space) = only(rows, |row| Columns::of(row).id::<SpaceId>())? else {
                    return Ok(());
                };
                let body = serde_json::json!({ "invocation_id": invocation, "by": by }).to_string();
                tell_in(&store, tx, &org, &space, "quarantine.looked_at", invocation.to_string(), body).await
            })
        }))
    }

    fn settle_quarantine<'a>(&'a self, org: &'a OrgId, settling: Settling) -> Future<'a, Result<Option<Settled>, Error>> {
        let (store, org) = (self.clone(), org.clone());
        Box::pin(self.db.write(org.clone(), move |tx| Box::pin(async move { settle_in(&store, tx, &org, settling).await })))
    }
}

impl Store {
    /// Lists quarantines, newest first.
    pub async fn list_quarantines(
        &self,
        org: &OrgId,
        state: Option<QuarantineState>,
        hidden: &BTreeSet<SpaceId>,
        request: &PageRequest,
    ) -> Result<Page<Quarantine>, Error> {
        let mut sql = String::from(concat!(select_quarantine!(), " AND invocation_id < $2"));
        let mut params = vals![org.as_str(), request.after.as_deref().unwrap_or("~")].to_vec();
        if let Some(state) = state {
            params.push(Val::from(state.as_str()));
            sql.push_str(&format!(" AND state = ${}", params.len()));
        }
        sql.push_str(&not_among("space_id", hidden, &mut params));
        params.push(Val::from(i64::from(request.limit) + 1));
        sql.push_str(&format!(" ORDER BY invocation_id DESC LIMIT ${}", params.len()));
        let rows = self.db.read(&sql, &params).await?;
        page(rows, request.limit, read_quarantine, |quarantine| quarantine.invocation.to_string())
    }

    /// Deletes the content of expired quarantines. One that is still held becomes `expired`.
    pub async fn expire_quarantines(&self, org: &OrgId) -> Result<Vec<String>, Error> {
        let sql = "SELECT invocation_id, state, space_id FROM quarantines WHERE org_id = $1 AND sealed IS NOT NULL AND expires_at <= $2
                   ORDER BY expires_at LIMIT $3";
        let now = self.db.now().await?;
        if self.db.read(sql, &vals![org.as_str(), now, 1_i64]).await?.is_empty() {
            return Ok(Vec::new());
        }
        let (store, org) = (self.clone(), org.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let rows = tx.query(sql, &vals![org.as_str(), tx.now(), SWEPT_AT_ONCE]).await?;
                    let mut expired = Vec::new();
                    for row in rows {
                        let mut columns = Columns::of(row);
                        let (id, state) = (columns.text()?, columns.parsed(QuarantineState::parse)?);
                        let space: SpaceId = columns.id()?;
                        tx.exec(
                            "UPDATE quarantines SET state = CASE state WHEN 'held' THEN 'expired' ELSE state END, sealed = NULL
                             WHERE org_id = $1 AND invocation_id = $2",
                            &vals![org.as_str(), id.as_str()],
                        )
                        .await?;
                        // A quarantine that was released ended then; only its content is deleted now, so it gets no event.
                        if state == QuarantineState::Held {
                            let body = serde_json::json!({ "invocation_id": id }).to_string();
                            expired.push(id.clone());
                            tell_in(&store, tx, &org, &space, "quarantine.expired", id, body).await?;
                        }
                    }
                    Ok(expired)
                })
            })
            .await
    }
}

async fn settle_in(store: &Store, tx: &mut Tx, org: &OrgId, settling: Settling) -> Result<Option<Settled>, Error> {
    let Settling { invocation, state, reason, by, digest, released_as } = settling;
    let sql = concat!(select_quarantine!(), " AND invocation_id = $2");
    let rows = tx.query_locked(sql, &vals![org.as_str(), invocation.as_str()]).await?;
    let Some(mut found) = only(rows, read_quarantine)? else {
        return Ok(None);
    };
    let now = if found.state == QuarantineState::Held && found.expires_at <= tx.now() { QuarantineState::Expired } else { found.state };
    if now != QuarantineState::Held {
        return Ok(Some(Settled::Not(now)));
    }
    if digest.is_some_and(|digest| digest != found.digest) {
        return Ok(Some(Settled::OtherPayload));
    }
    // Released content is kept until the new call has been made, so that a crash in between does not lose it.
    let sealed = if state == QuarantineState::Released { "" } else { ", sealed = NULL" };
    tx.exec(
        &format!(
            "UPDATE quarantines SET state = $1, settled_by = $2, settled_at = $3, reason = $4, released_as = $5{sealed}
             WHERE org_id = $6 AND invocation_id = $7"
        ),
        &vals![
            state.as_str(),
            by.to_string(),
            tx.now(),
            reason.as_str(),
            released_as.as_ref().map(InvocationId::as_str),
            org.as_str(),
            invocation.as_str()
        ],
    )
    .await?;
    let told = RuleEvent {
        name: if state == QuarantineState::Released { "quarantine.released" } else { "quarantine.discarded" },
        key: invocation.to_string(),
    };
    let change = RuleChange::QuarantineSettled {
        invocation_id: invocation,
        state,
        digest: found.digest,
        reason: reason.clone(),
        released_as: released_as.clone(),
    };
    rule_log::record_in(store, tx, org, &found.space, Some(by.clone()), change, told).await?;
    (found.state, found.settled_by, found.settled_at) = (state, Some(by), Some(tx.now()));
    (found.reason, found.released_as) = (Some(reason), released_as);
    Ok(Some(Settled::Done(Box::new(found))))
}

/// Stores a quarantine in the same write as the receipt that ends the invocation.
pub(crate) async fn insert_in(tx: &mut Tx, invocation: &Invocation, quarantine: &NewQuarantine) -> Result<(), Error> {
    let caught = to_json(&quarantine.caught)?;
    let params = vals![
        invocation.org.as_str(),
        invocation.id.as_str(),
        invocation.space.as_str(),
        invocation.session.as_str(),
        invocation.action.as_str(),
        invocation.principal.to_string(),
        invocation.owner.as_ref().map(UserId::as_str),
        quarantine.holds.as_str(),
        quarantine.sealed.bytes.clone(),
        quarantine.sealed.digest.to_string(),
        caught,
        tx.now().plus_seconds(quarantine.lifetime_seconds),
        tx.now()
    ];
    tx.exec(
        "INSERT INTO quarantines (org_id, invocation_id, space_id, session_id, action, principal, owner_id, holds, sealed, digest, caught,
           state, expires_at, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'held', $12, $13)
         ON CONFLICT (org_id, invocation_id) DO NOTHING",
        &params,
    )
    .await
    .map(|_| ())
}

fn read_quarantine(row: Row) -> Result<Quarantine, Error> {
    let mut columns = Columns::of(row);
    Ok(Quarantine {
        invocation: columns.id()?,
        space: columns.id()?,
        session: columns.id()?,
        action: columns.parsed(|text| ActionId::parse(text).ok())?,
        principal: columns.parsed(PrincipalId::parse)?,
        owner: columns.id_or_null()?,
        holds: columns.parsed(Holds::parse)?,
        digest: columns.parsed(Digest::parse)?,
        caught: columns.json()?,
        state: columns.parsed(QuarantineState::parse)?,
        settled_by: columns.parsed_or_null(PrincipalId::parse)?,
        settled_at: columns.time_or_null()?,
        reason: columns.text_or_null()?,
        released_as: columns.id_or_null()?,
        expires_at: columns.time()?,
        created_at: columns.time()?,
    })
}
