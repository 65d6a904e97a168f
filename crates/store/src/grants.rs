//! Grants: given by a person or requested by an agent, and used in the transaction that records the intent.

use crate::db::{Columns, Db, Row, Tx, Val, all, count, only, vals};
use crate::events::tell;
use crate::limits::GRANT_REQUEST_SECONDS;
use crate::orgs::places;
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::grant::{Covers, Grant, GrantScope, GrantState, GrantStateName, GrantTerms, GrantedDefinition, SumMax};
use countersign_core::{
    ActionId, Amount, Digest, GrantId, Invocation, InvocationId, OrgId, PrincipalId, SessionId, SourceId, SpaceId, Timestamp, UserId,
    random_bytes,
};
use receipt::body::{RuleChange, Terms};
use std::collections::BTreeSet;

/// The most grants that one write ends.
pub(crate) const SWEPT_AT_ONCE: i64 = 100;

macro_rules! select_grant {
    () => {
        "SELECT id, scope, space_id, source, name, condition, calls_max, used, sum_of, sum_max, sum_seconds, structural, textual, state,
           requested_by, reason, lifetime_seconds, given_by, given_at, givers, invocation_id, ended_by, ended_at, expires_at, created_at
         FROM grants WHERE org_id = $1"
    };
}
pub(crate) use select_grant;

/// A grant to give or to request.
#[derive(Clone, Debug)]
pub struct NewGrant {
    pub terms: GrantTerms,
    pub lifetime_seconds: u64,
    pub reason: Option<String>,
}

/// Selects grants. All given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantFilter {
    pub state: Option<GrantStateName>,
    /// Grants that an agent of this session can use or has requested.
    pub session: Option<SessionId>,
    /// Grants that cover this action.
    pub covers: Option<ActionId>,
    /// None that are for these spaces or for sessions in them, or that an agent there has requested.
    pub hidden: BTreeSet<SpaceId>,
    /// None that name one of these sources, but for those that `by` gave or requested.
    pub hidden_sources: BTreeSet<String>,
    pub by: Option<PrincipalId>,
}

/// The result of answering or revoking a grant.
#[derive(Clone, Debug, PartialEq)]
pub enum GrantChanged {
    Done(Box<Grant>),
    /// It is in another state.
    Not(GrantState),
}

impl Store {
    /// Gives a grant.
    pub async fn give_grant(&self, org: &OrgId, grant: NewGrant, by: &PrincipalId) -> Result<Grant, Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        let of = org.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let id = GrantId::new(tx.now(), random_bytes(&*store.random));
                    let NewGrant { terms, lifetime_seconds, reason } = grant;
                    let givers = alone(&by);
                    give_in(&store, tx, &org, Given { id, terms, lifetime_seconds, reason, by, givers, invocation: None }).await
                })
            })
            .await
            .inspect(|grant| log("grant given", &of, grant))
    }

    /// Stores an agent's request for a grant. It allows nothing until a person gives the grant.
    pub async fn request_grant(&self, org: &OrgId, grant: NewGrant, by: &PrincipalId) -> Result<Grant, Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let now = tx.now();
                    let asked = Grant {
                        id: GrantId::new(now, random_bytes(&*store.random)),
                        terms: grant.terms,
                        state: GrantState::Requested,
                        used: 0,
                        spent: Amount::default(),
                        requested_by: Some(by),
                        reason: grant.reason,
                        lifetime_seconds: grant.lifetime_seconds,
                        given_by: None,
                        given_at: None,
                        givers: Vec::new(),
                        invocation: None,
                        ended_by: None,
                        ended_at: None,
                        expires_at: now.plus_seconds(GRANT_REQUEST_SECONDS),
                        created_at: now,
                    };
                    insert(tx, &org, &asked).await?;
                    tell_of(&store, tx, &org, &asked, "grant.requested").await?;
                    Ok(asked)
                })
            })
            .await
    }

    /// Turns a request into a grant; `None` if there is no such grant.
    pub async fn approve_grant(&self, org: &OrgId, grant: &GrantId, by: &PrincipalId) -> Result<Option<GrantChanged>, Error> {
        self.change_grant(org, grant, by, GrantState::Requested, GrantState::Active).await
    }

    pub async fn refuse_grant(&self, org: &OrgId, grant: &GrantId, by: &PrincipalId) -> Result<Option<GrantChanged>, Error> {
        self.change_grant(org, grant, by, GrantState::Requested, GrantState::Refused).await
    }

    pub async fn revoke_grant(&self, org: &OrgId, grant: &GrantId, by: &PrincipalId) -> Result<Option<GrantChanged>, Error> {
        self.change_grant(org, grant, by, GrantState::Active, GrantState::Revoked).await
    }

    async fn change_grant(
        &self,
        org: &OrgId,
        grant: &GrantId,
        by: &PrincipalId,
        from: GrantState,
        to: GrantState,
    ) -> Result<Option<GrantChanged>, Error> {
        let (store, owned, grant, by) = (self.clone(), org.clone(), grant.clone(), by.clone());
        let mut change = self
            .db
            .write(org.clone(), move |tx| Box::pin(async move { change_in(&store, tx, &owned, &grant, Some(by), from, to).await }))
            .await?;
        if let Some(GrantChanged::Done(grant)) = &mut change {
            // The change is durable: that the sum cannot be read just now does not undo it.
            if let Ok(now) = self.db.now().await {
                drop(add_spent(&self.db, org, now, std::slice::from_mut(&mut **grant)).await);
            }
            let what = match to {
                GrantState::Active => "grant given",
                GrantState::Revoked => "grant revoked",
                GrantState::Requested | GrantState::Refused | GrantState::Expired => "grant refused",
            };
            log(what, org, grant);
        }
        Ok(change)
    }

    pub async fn find_grant(&self, org: &OrgId, grant: &GrantId) -> Result<Option<Grant>, Error> {
        let rows = self.db.read(concat!(select_grant!(), " AND id = $2"), &vals![org.as_str(), grant.as_str()]).await?;
        self.with_spent(org, only(rows, read_grant)?).await
    }

    async fn with_spent(&self, org: &OrgId, mut grant: Option<Grant>) -> Result<Option<Grant>, Error> {
        add_spent(&self.db, org, self.db.now().await?, grant.as_mut_slice()).await?;
        Ok(grant)
    }

    /// The grant that came with the approval of this invocation.
    pub async fn find_grant_of(&self, org: &OrgId, invocation: &InvocationId) -> Result<Option<Grant>, Error> {
        let rows = self.db.read(concat!(select_grant!(), " AND invocation_id = $2"), &vals![org.as_str(), invocation.as_str()]).await?;
        self.with_spent(org, only(rows, read_grant)?).await
    }

    /// Lists grants, newest first.
    pub async fn list_grants(&self, org: &OrgId, filter: &GrantFilter, request: &PageRequest) -> Result<Page<Grant>, Error> {
        let mut sql = String::from(concat!(select_grant!(), " AND id < $2"));
        let mut params = vals![org.as_str(), request.after.as_deref().unwrap_or("~")].to_vec();
        if let Some(state) = filter.state {
            sql.push_str(" AND ");
            sql.push_str(told_as(state));
        }
        if let Some(session) = &filter.session {
            let own = params.len() + 1;
            params.push(Val::from(GrantScope::Session(session.clone()).to_string()));
            params.push(Val::from(session.as_str()));
            params.push(Val::from(PrincipalId::Agent(session.clone()).to_string()));
            // A session of an automation also uses the grants of that automation. What was only requested is nobody's to use, and what
            // another agent requests for the org is not its own.
            let automation = "SELECT 'automation:' || automation_id FROM sessions WHERE org_id = $1 AND id = ";
            let usable = format!("given_at IS NOT NULL AND scope IN ('org', ${own}, ({automation}${}))", own + 1);
            sql.push_str(&format!(" AND ({usable} OR requested_by = ${})", own + 2));
        }
        if let Some(action) = &filter.covers {
            params.extend([Val::from(action.source()), Val::from(action.name())]);
            sql.push_str(&format!(" AND source IN ('*', ${}) AND name IN ('*', ${})", params.len() - 1, params.len()));
        }
        if let Some(hidden) = places(filter.hidden.iter().map(SpaceId::as_str), &mut params) {
            let session = format!("|| id FROM sessions WHERE org_id = $1 AND space_id IN ({hidden})");
            sql.push_str(&format!(
                " AND COALESCE(space_id, '') NOT IN ({hidden}) AND scope NOT IN (SELECT 'session:' {session})
                  AND COALESCE(requested_by, '') NOT IN (SELECT 'agent:' {session})"
            ));
        }
        if let Some(hidden) = places(filter.hidden_sources.iter().map(String::as_str), &mut params) {
            params.push(Val::from(filter.by.as_ref().map_or_else(String::new, ToString::to_string)));
            sql.push_str(&format!(" AND (source NOT IN ({hidden}) OR ${} IN (given_by, requested_by))", params.len()));
        }
        params.push(Val::from(i64::from(request.limit) + 1));
        sql.push_str(&format!(" ORDER BY id DESC LIMIT ${}", params.len()));
        let rows = self.db.read(&sql, &params).await?;
        let mut page = page(rows, request.limit, read_grant, |grant| grant.id.to_string())?;
        add_spent(&self.db, org, self.db.now().await?, &mut page.items).await?;
        Ok(page)
    }

    /// Ends requests and grants that have expired, a bounded number at a time. They allowed nothing any more even before that.
    pub async fn expire_grants(&self, org: &OrgId) -> Result<u64, Error> {
        let sql = concat!(select_grant!(), " AND state IN ('requested', 'active') AND expires_at <= $2 ORDER BY expires_at LIMIT $3");
        // Nearly always there is nothing to end. The read then avoids a write.
        let now = self.db.now().await?;
        if self.db.read(sql, &vals![org.as_str(), now, 1_i64]).await?.is_empty() {
            return Ok(0);
        }
        let (store, owned) = (self.clone(), org.clone());
        let expired = self
            .db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let rows = tx.query(sql, &vals![owned.as_str(), tx.now(), SWEPT_AT_ONCE]).await?;
                    let grants = all(rows, read_grant)?;
                    for grant in &grants {
                        end_in(tx, &owned, grant, None, GrantState::Expired).await?;
                        tell_of(&store, tx, &owned, grant, "grant.expired").await?;
                    }
                    Ok(grants)
                })
            })
            .await?;
        expired.iter().for_each(|grant| log("grant expired", org, grant));
        Ok(expired.len() as u64)
    }
}

/// Like `log`, for grants that something else ended.
pub(crate) fn log_revoked(org: &OrgId, grants: &[Grant]) {
    grants.iter().for_each(|grant| log("grant revoked", org, grant));
}

/// Call when the change is durable.
pub(crate) fn log(what: &str, org: &OrgId, grant: &Grant) {
    let session = match &grant.terms.scope {
        GrantScope::Session(session) => Some(session.as_str()),
        GrantScope::Automation(_) | GrantScope::Org => None,
    };
    tracing::info!(grant = %grant.id, %org, session, scope = %grant.terms.scope, covers = %grant.terms.covers, "{what}");
}

/// A grant about to be given.
pub(crate) struct Given {
    pub(crate) id: GrantId,
    pub(crate) terms: GrantTerms,
    pub(crate) lifetime_seconds: u64,
    pub(crate) reason: Option<String>,
    pub(crate) by: PrincipalId,
    pub(crate) givers: Vec<UserId>,
    pub(crate) invocation: Option<InvocationId>,
}

/// The people who gave a grant that one principal gave alone.
fn alone(by: &PrincipalId) -> Vec<UserId> {
    people(std::slice::from_ref(by))
}

/// The people among these principals. Only people are listed as givers.
pub(crate) fn people<'a>(by: impl IntoIterator<Item = &'a PrincipalId>) -> Vec<UserId> {
    let users = by.into_iter().filter_map(|by| match by {
        PrincipalId::User(user) => Some(user.clone()),
        PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => None,
    });
    users.collect()
}

pub(crate) async fn give_in(store: &Store, tx: &mut Tx, org: &OrgId, given: Given) -> Result<Grant, Error> {
    let now = tx.now();
    let grant = Grant {
        id: given.id,
        terms: given.terms,
        state: GrantState::Active,
        used: 0,
        spent: Amount::default(),
        requested_by: None,
        reason: given.reason,
        lifetime_seconds: given.lifetime_seconds,
        given_by: Some(given.by),
        given_at: Some(now),
        givers: given.givers,
        invocation: given.invocation,
        ended_by: None,
        ended_at: None,
        expires_at: now.plus_seconds(given.lifetime_seconds),
        created_at: now,
    };
    insert(tx, org, &grant).await?;
    record_given(store, tx, org, &grant).await?;
    Ok(grant)
}

async fn record_given(store: &Store, tx: &mut Tx, org: &OrgId, grant: &Grant) -> Result<(), Error> {
    let change = RuleChange::GrantGiven {
        grant: grant.id.clone(),
        terms: Box::new(Terms::of(&grant.terms)),
        expires_at: grant.expires_at,
        givers: grant.givers.clone(),
        invocation_id: grant.invocation.clone(),
        requested_by: grant.requested_by.clone(),
    };
    let told = RuleEvent { name: "grant.given", key: grant.id.to_string() };
    rule_log::record(store, tx, org, grant.given_by.clone(), change, told).await.map(|_| ())
}

async fn change_in(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    id: &GrantId,
    by: Option<PrincipalId>,
    from: GrantState,
    to: GrantState,
) -> Result<Option<GrantChanged>, Error> {
    let rows = tx.query_locked(concat!(select_grant!(), " AND id = $2"), &vals![org.as_str(), id.as_str()]).await?;
    let Some(mut grant) = only(rows, read_grant)? else {
        return Ok(None);
    };
    // The sweep may be late: a grant past its expiry counts as expired all the same.
    let state = if grant.expires_at <= tx.now() && grant.state == from { GrantState::Expired } else { grant.state };
    if state != from {
        return Ok(Some(GrantChanged::Not(state)));
    }
    match to {
        GrantState::Active => {
            let now = tx.now();
            grant.state = to;
            grant.givers = by.as_ref().map(alone).unwrap_or_default();
            (grant.given_by, grant.given_at) = (by, Some(now));
            grant.expires_at = now.plus_seconds(grant.lifetime_seconds);
            let given_by = grant.given_by.as_ref().map(ToString::to_string);
            tx.exec(
                "UPDATE grants SET state = 'active', given_by = $1, given_at = $2, givers = $3, expires_at = $4
                 WHERE org_id = $5 AND id = $6",
                &vals![given_by, now, givers_text(&grant), grant.expires_at, org.as_str(), id.as_str()],
            )
            .await?;
            record_given(store, tx, org, &grant).await?;
        }
        GrantState::Revoked => {
            end_in(tx, org, &grant, by.as_ref(), to).await?;
            let told = RuleEvent { name: "grant.revoked", key: id.to_string() };
            rule_log::record(store, tx, org, by.clone(), RuleChange::GrantRevoked { grant: id.clone() }, told).await?;
            (grant.state, grant.ended_by, grant.ended_at) = (to, by, Some(tx.now()));
        }
        GrantState::Requested | GrantState::Refused | GrantState::Expired => {
            end_in(tx, org, &grant, by.as_ref(), to).await?;
            tell_of(store, tx, org, &grant, "grant.refused").await?;
            (grant.state, grant.ended_by, grant.ended_at) = (to, by, Some(tx.now()));
        }
    }
    Ok(Some(GrantChanged::Done(Box::new(grant))))
}

async fn end_in(tx: &mut Tx, org: &OrgId, grant: &Grant, by: Option<&PrincipalId>, state: GrantState) -> Result<(), Error> {
    let params = vals![state.as_str(), by.map(ToString::to_string), tx.now(), org.as_str(), grant.id.as_str()];
    tx.exec("UPDATE grants SET state = $1, ended_by = $2, ended_at = $3 WHERE org_id = $4 AND id = $5", &params).await?;
    if grant.terms.sum_max.is_some() {
        let sql = "DELETE FROM grant_spends WHERE org_id = $1 AND grant_id = $2";
        tx.exec(sql, &vals![org.as_str(), grant.id.as_str()]).await?;
    }
    Ok(())
}

/// The rows of which this state is told: see `Grant::state_name`.
const fn told_as(state: GrantStateName) -> &'static str {
    match state {
        GrantStateName::Requested => "state = 'requested'",
        GrantStateName::Active => "state = 'active' AND (calls_max IS NULL OR used < calls_max)",
        GrantStateName::Refused => "state = 'refused'",
        GrantStateName::Revoked => "state = 'revoked' AND (calls_max IS NULL OR used < calls_max)",
        GrantStateName::Expired => "state = 'expired'",
        GrantStateName::UsedUp => "state IN ('active', 'revoked') AND used >= calls_max",
    }
}

/// Uses a grant once for this call, if it still allows a call and what the call takes of the sum fits into the window that ends now.
pub(crate) async fn use_in(tx: &mut Tx, grant: &GrantId, by: &Invocation) -> Result<Used, Error> {
    let (org, spends) = (by.org.as_str(), by.spends.map(Amount::as_millionths));
    let used = tx
        .exec(
            "UPDATE grants SET used = used + 1
             WHERE org_id = $1 AND id = $2 AND state = 'active' AND expires_at > $3 AND (calls_max IS NULL OR used < calls_max)
               AND (sum_max IS NULL OR CAST($4 AS BIGINT) + (
                 SELECT CAST(coalesce(sum(amount), 0) AS BIGINT) FROM grant_spends
                 WHERE grant_spends.org_id = $1 AND grant_spends.grant_id = $2 AND grant_spends.at > $3 - grants.sum_seconds * 1000000
               ) <= sum_max)",
            &vals![org, grant.as_str(), tx.now(), spends],
        )
        .await?;
    if used != 1 {
        return Ok(Used::Spent);
    }
    if let Some(spends) = spends {
        spend_in(tx, org, grant, &by.id, spends).await?;
    }
    Ok(Used::Once)
}

/// Notes what a call takes of the sum of its grant. What has left the window is forgotten: it counts no more.
async fn spend_in(tx: &mut Tx, org: &str, grant: &GrantId, by: &InvocationId, amount: i64) -> Result<(), Error> {
    let now = tx.now();
    tx.exec(
        "DELETE FROM grant_spends WHERE org_id = $1 AND grant_id = $2
           AND at <= $3 - (SELECT sum_seconds * 1000000 FROM grants WHERE grants.org_id = $1 AND grants.id = $2)",
        &vals![org, grant.as_str(), now],
    )
    .await?;
    tx.exec(
        "INSERT INTO grant_spends (org_id, grant_id, invocation_id, amount, at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (org_id, grant_id, invocation_id) DO UPDATE SET amount = grant_spends.amount + excluded.amount",
        &vals![org, grant.as_str(), by.as_str(), amount, now],
    )
    .await
    .map(|_| ())
}

/// Says of each grant that bounds a sum what was spent in the window that ends now.
pub(crate) async fn add_spent(db: &Db, org: &OrgId, now: Timestamp, grants: &mut [Grant]) -> Result<(), Error> {
    for grant in grants {
        let Some(sum) = &grant.terms.sum_max else { continue };
        let sql = "SELECT CAST(coalesce(sum(amount), 0) AS BIGINT) FROM grant_spends WHERE org_id = $1 AND grant_id = $2 AND at > $3";
        let spent = count(db.read(sql, &vals![org.as_str(), grant.id.as_str(), now.minus_seconds(sum.per_seconds)]).await?)?;
        // More than an amount can be leaves no room either.
        grant.spent = Amount::from_millionths(spent).unwrap_or(Amount::MAX);
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Used {
    Once,
    Spent,
}

/// Gives a use back, because the call was not sent to its source.
pub(crate) async fn return_in(tx: &mut Tx, grant: &GrantId, by: &Invocation) -> Result<(), Error> {
    let org = by.org.as_str();
    tx.exec("UPDATE grants SET used = used - 1 WHERE org_id = $1 AND id = $2 AND used > 0", &vals![org, grant.as_str()]).await?;
    if let Some(spends) = by.spends {
        let sql = "UPDATE grant_spends SET amount = amount - $1
                   WHERE org_id = $2 AND grant_id = $3 AND invocation_id = $4 AND amount >= $1";
        tx.exec(sql, &vals![spends.as_millionths(), org, grant.as_str(), by.id.as_str()]).await?;
    }
    Ok(())
}

/// Revokes active grants that name this action, because the action is no longer the one they were given for: `SWEPT_AT_ONCE` at most.
pub(crate) async fn revoke_for_in(store: &Store, tx: &mut Tx, org: &OrgId, action: &ActionId) -> Result<Vec<Grant>, Error> {
    let grants = active_for_in(tx, org, action).await?;
    revoke_each_in(store, tx, org, &grants, None).await?;
    Ok(grants)
}

/// Like `revoke_for_in`, but leaves those that were given for the definition that was just reviewed.
pub(crate) async fn revoke_others_in(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    action: &ActionId,
    reviewed: GrantedDefinition,
    by: &PrincipalId,
) -> Result<Vec<Grant>, Error> {
    let mut grants = active_for_in(tx, org, action).await?;
    grants.retain(|grant| grant.terms.definition.is_some_and(|given| given != reviewed));
    revoke_each_in(store, tx, org, &grants, Some(by)).await?;
    Ok(grants)
}

/// Revokes every active grant for actions of this source, also one for all of them. What has the name later is another source, so none may
/// be left: people give grants one by one, and one write can end them all.
pub(crate) async fn revoke_of_source_in(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    source: &SourceId,
    by: &PrincipalId,
) -> Result<Vec<Grant>, Error> {
    let sql = concat!(select_grant!(), " AND source = $2 AND state = 'active' AND expires_at > $3 ORDER BY id");
    let rows = tx.query(sql, &vals![org.as_str(), source.as_str(), tx.now()]).await?;
    let grants = all(rows, read_grant)?;
    revoke_each_in(store, tx, org, &grants, Some(by)).await?;
    Ok(grants)
}

async fn active_for_in(tx: &mut Tx, org: &OrgId, action: &ActionId) -> Result<Vec<Grant>, Error> {
    let sql = concat!(select_grant!(), " AND source = $2 AND name = $3 AND state = 'active' AND expires_at > $4 ORDER BY id LIMIT $5");
    let rows = tx.query(sql, &vals![org.as_str(), action.source(), action.name(), tx.now(), SWEPT_AT_ONCE]).await?;
    all(rows, read_grant)
}

async fn revoke_each_in(store: &Store, tx: &mut Tx, org: &OrgId, grants: &[Grant], by: Option<&PrincipalId>) -> Result<(), Error> {
    for grant in grants {
        change_in(store, tx, org, &grant.id, by.cloned(), GrantState::Active, GrantState::Revoked).await?;
    }
    Ok(())
}

async fn tell_of(store: &Store, tx: &mut Tx, org: &OrgId, grant: &Grant, name: &'static str) -> Result<(), Error> {
    let body = serde_json::json!({ "grant": grant.id, "covers": grant.terms.covers, "scope": grant.terms.scope });
    tell(store, tx, org, name, grant.id.to_string(), body.to_string()).await
}

async fn insert(tx: &mut Tx, org: &OrgId, grant: &Grant) -> Result<(), Error> {
    let terms = &grant.terms;
    let params = vals![
        org.as_str(),
        grant.id.as_str(),
        terms.scope.to_string(),
        terms.space.as_ref().map(SpaceId::as_str),
        terms.covers.source(),
        terms.covers.name(),
        terms.condition.as_ref().map(ToString::to_string),
        terms.calls_max.map(i64::from),
        i64::from(grant.used),
        terms.sum_max.as_ref().map(|sum| sum.of.as_str()),
        terms.sum_max.as_ref().map(|sum| sum.max.as_millionths()),
        terms.sum_max.as_ref().map(|sum| i64::try_from(sum.per_seconds).unwrap_or(i64::MAX)),
        terms.definition.map(|definition| definition.structural.to_string()),
        terms.definition.map(|definition| definition.textual.to_string()),
        grant.state.as_str(),
        grant.requested_by.as_ref().map(ToString::to_string),
        grant.reason.as_deref(),
        i64::try_from(grant.lifetime_seconds).unwrap_or(i64::MAX),
        grant.given_by.as_ref().map(ToString::to_string),
        grant.given_at,
        givers_text(grant),
        grant.invocation.as_ref().map(InvocationId::as_str),
        grant.expires_at,
        grant.created_at
    ];
    tx.exec(
        "INSERT INTO grants (org_id, id, scope, space_id, source, name, condition, calls_max, used, sum_of, sum_max, sum_seconds,
           structural, textual, state, requested_by, reason, lifetime_seconds, given_by, given_at, givers, invocation_id, expires_at,
           created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)",
        &params,
    )
    .await
    .map(|_| ())
}

/// The givers as the column holds them. A request has none yet.
fn givers_text(grant: &Grant) -> Option<String> {
    let ids: Vec<_> = grant.givers.iter().map(UserId::as_str).collect();
    (!ids.is_empty()).then(|| serde_json::json!(ids).to_string())
}

pub(crate) fn read_grant(row: Row) -> Result<Grant, Error> {
    let mut columns = Columns::of(row);
    let id = columns.id()?;
    let scope = columns.parsed(GrantScope::parse)?;
    let space = columns.id_or_null()?;
    let (source, name) = (columns.text()?, columns.text()?);
    let unreadable = |what: &str| Error::Corrupt { message: format!("the {what} of grant `{id}` does not read") };
    let covers = Covers::parse(&format!("{source}.{name}")).ok_or_else(|| unreadable("actions"))?;
    let condition = columns.parsed_or_null(|text| serde_json::from_str(text).ok())?;
    let calls_max = columns.int_or_null()?.and_then(|calls| u32::try_from(calls).ok());
    let used = u32::try_from(columns.int()?).unwrap_or(u32::MAX);
    let of = columns.text_or_null()?;
    let max = columns.int_or_null()?.map(|max| Amount::from_millionths(max).ok_or_else(|| unreadable("sum"))).transpose()?;
    let per_seconds = columns.int_or_null()?.map(|seconds| u64::try_from(seconds).map_err(|_| unreadable("window"))).transpose()?;
    // A bound that is there only in part would bound nothing.
    let sum_max = match (of, max, per_seconds) {
        (Some(of), Some(max), Some(per_seconds)) => Some(SumMax { max, of, per_seconds }),
        (None, None, None) => None,
        (Some(_) | None, _, _) => return Err(unreadable("sum")),
    };
    let structural = columns.parsed_or_null(Digest::parse)?;
    let textual = columns.parsed_or_null(Digest::parse)?;
    let definition = structural.zip(textual).map(|(structural, textual)| GrantedDefinition { structural, textual });
    let state = columns.parsed(GrantState::parse)?;
    let requested_by = columns.parsed_or_null(PrincipalId::parse)?;
    let reason = columns.text_or_null()?;
    let lifetime_seconds = columns.int()? as u64;
    let given_by = columns.parsed_or_null(PrincipalId::parse)?;
    let given_at = columns.time_or_null()?;
    let givers: Option<_> = columns.parsed_or_null(|text| serde_json::from_str(text).ok())?;
    Ok(Grant {
        terms: GrantTerms { scope, space, covers, condition, calls_max, sum_max, definition },
        used,
        spent: Amount::default(),
        state,
        requested_by,
        reason,
        lifetime_seconds,
        givers: givers.unwrap_or_default(),
        given_by,
        given_at,
        invocation: columns.id_or_null()?,
        ended_by: columns.parsed_or_null(PrincipalId::parse)?,
        ended_at: columns.time_or_null()?,
        expires_at: columns.time()?,
        created_at: columns.time()?,
        id,
    })
}
