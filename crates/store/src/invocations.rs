//! Invocations. A row has real columns for everything that is filtered by, and one JSON body for the rest.
//! Each kind of write (begin, hold, finish) has a file of its own.

mod begin;
mod finish;
mod hold;
mod keys;
mod row;
mod signed;
pub(crate) mod table;

pub(crate) use finish::finish_in;

use crate::db::{Columns, Val, all, count, only, to_json, vals};
use crate::orgs::not_among;
use crate::sweep::SWEEP_ROWS;
use crate::{Error, Page, PageRequest, Store, page};
use begin::{begin_again_in, begin_in};
use countersign_core::invocation::{REVERT_KEY, revert_key};
use countersign_core::limits::DRIFT_ENDS_PER_WRITE;
use countersign_core::ports::Invocations;
use countersign_core::ports::events::EventDraft;
use countersign_core::ports::invocations::{
    Approve, Approved, Begin, BeginAgain, Begun, Finish, Finished, Held, Hold, Reservation, SignedAnswer, SignedIntent,
};
use countersign_core::{ActionId, AutomationId, Future, Invocation, InvocationId, OrgId, SessionId, SpaceId, Status, Tier, Timestamp};
use finish::doubt_in;
use hold::{approve_in, hold_in};
use keys::{SELECT_RESERVATION, read_reservation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use table::{among_open, read_invocation, select_invocation};

/// Selects invocations. All given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvocationFilter {
    pub session: Option<SessionId>,
    pub status: Option<Status>,
    pub action: Option<ActionId>,
    pub tier: Option<Tier>,
    /// The caller's own name for the call.
    pub action_id: Option<String>,
    /// Only calls of runs of this automation.
    pub automation: Option<AutomationId>,
    /// Only calls that a person answered.
    pub answered: bool,
    /// Calls in these spaces are left out.
    pub hidden: BTreeSet<SpaceId>,
}

impl InvocationFilter {
    /// Its part of a WHERE clause; what it compares with is added to `params`.
    fn clauses(&self, params: &mut Vec<Val>) -> String {
        let wanted = [
            ("session_id", self.session.as_ref().map(SessionId::as_str)),
            ("action", self.action.as_ref().map(ActionId::as_str)),
            ("tier", self.tier.map(Tier::as_str)),
            ("status", self.status.map(Status::as_str)),
            ("action_id", self.action_id.as_deref()),
        ];
        let mut clauses = not_among("space_id", &self.hidden, params);
        for (column, value) in wanted {
            if let Some(value) = value {
                params.push(Val::from(value));
                clauses.push_str(&format!(" AND {column} = ${}", params.len()));
            }
        }
        if let Some(automation) = &self.automation {
            params.push(Val::from(automation.as_str()));
            clauses.push_str(&format!(
                " AND EXISTS (SELECT 1 FROM sessions WHERE sessions.org_id = $1 AND sessions.id = invocations.session_id
                  AND sessions.automation_id = ${})",
                params.len()
            ));
        }
        if self.answered {
            clauses.push_str(" AND id IN (SELECT invocation_id FROM approvals WHERE org_id = $1)");
        }
        clauses
    }
}

impl Invocations for Store {
    fn now(&self) -> Future<'_, Result<Timestamp, Error>> {
        Box::pin(self.db.now())
    }

    fn find_invocation<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Invocation>, Error>> {
        Box::pin(async move {
            let rows = self.db.read(concat!(select_invocation!(), " AND id = $2"), &vals![org.as_str(), invocation.as_str()]).await?;
            only(rows, read_invocation)
        })
    }

    fn is_of_another_org<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<bool, Error>> {
        Box::pin(async move {
            // Asks for each org, of which there are few: the index finds a row by org and id together, not by id alone.
            let sql = "SELECT 1 FROM orgs WHERE org_id <> $1
                       AND EXISTS (SELECT 1 FROM invocations WHERE invocations.org_id = orgs.org_id AND invocations.id = $2) LIMIT 1";
            Ok(!self.db.read(sql, &vals![org.as_str(), invocation.as_str()]).await?.is_empty())
        })
    }

    fn find_sealed_params<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(async move {
            let sql = "SELECT sealed_params FROM invocations WHERE org_id = $1 AND id = $2 AND sealed_params IS NOT NULL";
            only(self.db.read(sql, &vals![org.as_str(), invocation.as_str()]).await?, |row| Columns::of(row).bytes())
        })
    }

    fn find_reservation<'a>(
        &'a self,
        org: &'a OrgId,
        space: &'a SpaceId,
        action: &'a ActionId,
        key: &'a str,
    ) -> Future<'a, Result<Option<Reservation>, Error>> {
        Box::pin(async move {
            let params = vals![org.as_str(), space.as_str(), action.as_str(), key, self.db.now().await?];
            only(self.db.read(SELECT_RESERVATION, &params).await?, read_reservation)
        })
    }

    fn list_in_status<'a>(
        &'a self,
        org: &'a OrgId,
        status: Status,
        after: Option<&'a InvocationId>,
    ) -> Future<'a, Result<Vec<Invocation>, Error>> {
        Box::pin(async move {
            // Sorted by an expression, so that the database sorts the few open rows instead of walking all ids in order.
            let open = among_open(status);
            let sql = format!("{} AND status = $2{open} AND id || '' > $3 ORDER BY id || '' LIMIT $4", select_invocation!());
            let params = vals![org.as_str(), status.as_str(), after.map_or("", InvocationId::as_str), SWEEP_ROWS];
            all(self.db.read(&sql, &params).await?, read_invocation)
        })
    }

    fn list_expired<'a>(&'a self, org: &'a OrgId, status: Status) -> Future<'a, Result<Vec<Invocation>, Error>> {
        Box::pin(async move {
            let open = among_open(status);
            let sql = format!("{} AND status = $2{open} AND expires_at <= $3 ORDER BY expires_at LIMIT $4", select_invocation!());
            let params = vals![org.as_str(), status.as_str(), self.db.now().await?, SWEEP_ROWS];
            all(self.db.read(&sql, &params).await?, read_invocation)
        })
    }

    fn list_pending_of<'a>(
        &'a self,
        org: &'a OrgId,
        action: &'a ActionId,
        after: Option<&'a InvocationId>,
    ) -> Future<'a, Result<Vec<Invocation>, Error>> {
        Box::pin(async move {
            let open = among_open(Status::Pending);
            let sql = format!("{} AND status = 'pending'{open} AND action = $2 AND id > $3 ORDER BY id LIMIT $4", select_invocation!());
            let after = after.map_or("", InvocationId::as_str);
            all(self.db.read(&sql, &vals![org.as_str(), action.as_str(), after, DRIFT_ENDS_PER_WRITE as i64]).await?, read_invocation)
        })
    }

    fn list_signed_answers<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Vec<SignedAnswer>, Error>> {
        Box::pin(self.signed_answers(org, invocation))
    }

    fn find_signed_intent<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<SignedIntent>, Error>> {
        Box::pin(self.signed_intent(org, invocation))
    }

    fn hold(&self, hold: Hold) -> Future<'_, Result<Held, Error>> {
        Box::pin(self.db.write(hold.invocation.org.clone(), move |tx| Box::pin(hold_in(tx, hold))))
    }

    fn approve(&self, approve: Approve) -> Future<'_, Result<Approved, Error>> {
        Box::pin(self.db.write(approve.org.clone(), move |tx| Box::pin(approve_in(tx, approve))))
    }

    fn begin(&self, begin: Begin) -> Future<'_, Result<Begun, Error>> {
        Box::pin(async move {
            // Serialised here and not in the write: callers run in parallel, writes run one at a time.
            let body = to_json(&begin.invocation)?;
            let store = self.clone();
            let org = begin.invocation.org.clone();
            self.db.write(org, move |tx| Box::pin(async move { begin_in(&store, tx, begin, body).await })).await
        })
    }

    fn begin_again(&self, begin: BeginAgain) -> Future<'_, Result<Begun, Error>> {
        let store = self.clone();
        Box::pin(self.db.write(begin.invocation.org.clone(), move |tx| Box::pin(async move { begin_again_in(&store, tx, begin).await })))
    }

    fn doubt(&self, invocation: Invocation, event: EventDraft) -> Future<'_, Result<Finished, Error>> {
        let org = invocation.org.clone();
        Box::pin(self.db.write(org, move |tx| Box::pin(async move { doubt_in(tx, &invocation, &event).await })))
    }

    fn finish(&self, finish: Arc<Finish>) -> Future<'_, Result<Finished, Error>> {
        Box::pin(async move {
            let body = to_json(&finish.invocation)?;
            let org = finish.invocation.org.clone();
            self.db.write(org, move |tx| Box::pin(async move { finish_in(tx, &finish, body).await })).await
        })
    }
}

impl Store {
    /// Lists invocations, newest first.
    pub async fn list_invocations(&self, org: &OrgId, filter: &InvocationFilter, request: &PageRequest) -> Result<Page<Invocation>, Error> {
        let mut params = vals![org.as_str(), request.after.as_deref().unwrap_or("~")].to_vec();
        let mut sql = format!("{} AND id < $2{}", select_invocation!(), filter.clauses(&mut params));
        params.push(Val::from(i64::from(request.limit) + 1));
        sql.push_str(&format!(" ORDER BY id DESC LIMIT ${}", params.len()));
        let rows = self.db.read(&sql, &params).await?;
        page(rows, request.limit, read_invocation, |invocation| invocation.id.to_string())
    }

    /// How many invocations fit the filter.
    pub async fn count_invocations(&self, org: &OrgId, filter: &InvocationFilter) -> Result<u64, Error> {
        let mut params = vals![org.as_str()].to_vec();
        let sql = format!("SELECT count(*) FROM invocations WHERE org_id = $1{}", filter.clauses(&mut params));
        count(self.db.read(&sql, &params).await?).map(|count| count as u64)
    }

    /// Which of these invocations were reverted, and by which invocation. All of them must be of one org.
    pub async fn find_reverts(&self, invocations: &[Invocation]) -> Result<BTreeMap<InvocationId, InvocationId>, Error> {
        let Some(org) = invocations.first().map(|first| first.org.clone()) else {
            return Ok(BTreeMap::new());
        };
        let mut params = vals![org.as_str()].to_vec();
        let mut keys = Vec::new();
        for invocation in invocations.iter().filter(|invocation| invocation.status == Status::Succeeded && invocation.evidence.is_some()) {
            let at = params.len();
            params.extend(vals![invocation.space.as_str(), invocation.action.as_str(), revert_key(&invocation.id)]);
            keys.push(format!("(space_id = ${} AND action = ${} AND key = ${})", at + 1, at + 2, at + 3));
        }
        if keys.is_empty() {
            return Ok(BTreeMap::new());
        }
        let keys = keys.join(" OR ");
        let sql = format!("SELECT key, invocation_id FROM reservations WHERE org_id = $1 AND state = 'done' AND ({keys})");
        let rows = self.db.read(&sql, &params).await?;
        let read = |row| {
            let mut columns = Columns::of(row);
            let reversed = columns.parsed(|text| InvocationId::parse(text.strip_prefix(REVERT_KEY)?).ok())?;
            Ok((reversed, columns.id()?))
        };
        rows.into_iter().map(read).collect()
    }

    /// How many invocations of the org are in this status.
    pub async fn count_in_status(&self, org: &OrgId, status: Status) -> Result<u64, Error> {
        let sql = format!("SELECT count(*) FROM invocations WHERE org_id = $1 AND status = $2{}", among_open(status));
        let rows = self.db.read(&sql, &vals![org.as_str(), status.as_str()]).await?;
        count(rows).map(|count| count as u64)
    }
}
