//! The pipeline's port: each method is one transaction over an invocation's rows, its log entry and its event.

mod begin;
mod finish;
mod hold;
mod keys;
mod row;

pub(crate) use finish::finish_in;

use crate::db::{Columns, vals};
use crate::invocations::{among_open, read_invocation, select_invocation, to_body};
use crate::servers::SWEEP_ROWS;
use crate::{Error, Store};
use begin::{begin_again_in, begin_in};
use countersign_core::batch::BatchStatus;
use countersign_core::breaker::{Breaker, BreakerKey, LetThrough};
use countersign_core::ledger::{
    Approve, Approved, ArchivedDefinition, Begin, BeginAgain, Begun, EndBatch, EventDraft, Finish, Finished, Held, Hold, Ledger, ModeRows,
    NewBatch, NewDrift, OpenedBatch, Pin, Reservation, Settled, Settling,
};
use countersign_core::policies::PoliciesInForce;
use countersign_core::principal::Standing;
use countersign_core::quarantine::Quarantine;
use countersign_core::session::SessionLabel;
use countersign_core::switch::Switch;
use countersign_core::{
    ActionId, AutomationId, Batch, BatchId, Future, Grant, Invocation, InvocationId, OrgId, Principal, PrincipalId, Session, SessionId,
    Space, SpaceId, Status, Timestamp, UserId,
};
use finish::doubt_in;
use hold::{approve_in, hold_in};
use std::sync::Arc;

/// Pending invocations that end in the write that notes a drift. Any beyond them are void by their binding.
const DRIFTED_ROWS: i64 = 1_000;

impl Ledger for Store {
    fn now(&self) -> Future<'_, Result<Timestamp, Error>> {
        Box::pin(self.db.now())
    }

    fn find_session<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Option<Session>, Error>> {
        Box::pin(Self::find_session(self, org, session))
    }

    fn find_space<'a>(&'a self, org: &'a OrgId, space: &'a SpaceId) -> Future<'a, Result<Option<Space>, Error>> {
        Box::pin(Self::find_space(self, org, space))
    }

    fn find_principal<'a>(&'a self, org: &'a OrgId, principal: &'a PrincipalId) -> Future<'a, Result<Option<Principal>, Error>> {
        Box::pin(self.principal_now(org, principal))
    }

    fn join(&self) -> Future<'_, Result<bool, Error>> {
        Box::pin(self.join_servers())
    }

    fn list_left_behind<'a>(&'a self, org: &'a OrgId, after: Option<&'a InvocationId>) -> Future<'a, Result<Vec<Invocation>, Error>> {
        Box::pin(self.left_behind(org, after))
    }

    fn claim<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId, status: Status) -> Future<'a, Result<bool, Error>> {
        Box::pin(self.claim_invocation(org, invocation, status))
    }

    fn release<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<(), Error>> {
        Box::pin(self.release_invocation(org, invocation))
    }

    fn list_left_batches<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Vec<Batch>, Error>> {
        Box::pin(self.left_batches(org))
    }

    fn find_modes<'a>(
        &'a self,
        org: &'a OrgId,
        automation: Option<&'a AutomationId>,
        action: &'a ActionId,
    ) -> Future<'a, Result<ModeRows, Error>> {
        Box::pin(self.mode_rows(org, automation, action))
    }

    fn rules_version<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<i64, Error>> {
        Box::pin(self.rules_version_now(org))
    }

    fn rules_version_anew<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<i64, Error>> {
        Box::pin(Self::rules_version_anew(self, org))
    }

    fn list_switches<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<Switch>>, Error>> {
        Box::pin(Self::list_switches(self, org))
    }

    fn find_pin<'a>(&'a self, org: &'a OrgId, action: &'a ActionId) -> Future<'a, Result<Option<Pin>, Error>> {
        Box::pin(async move { Ok(self.find_review(org, action).await?.map(|review| review.pin)) })
    }

    fn find_policies<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<PoliciesInForce>, Error>> {
        Box::pin(Self::find_policies(self, org))
    }

    fn find_purposes<'a>(&'a self, org: &'a OrgId, user: &'a UserId, space: &'a SpaceId) -> Future<'a, Result<Vec<String>, Error>> {
        Box::pin(self.list_purposes(org, user, space))
    }

    fn is_crossing<'a>(&'a self, org: &'a OrgId, from: &'a SpaceId, to: &'a str, action: &'a ActionId) -> Future<'a, Result<bool, Error>> {
        Box::pin(self.has_crossing(org, from, to, action))
    }

    fn find_standing<'a>(&'a self, org: &'a OrgId, user: &'a UserId) -> Future<'a, Result<Standing, Error>> {
        Box::pin(self.standing_of(org, user))
    }

    fn list_approvers<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<UserId>>, Error>> {
        Box::pin(self.approvers(org))
    }

    fn list_canary_texts<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<String>>, Error>> {
        Box::pin(self.canary_texts(org))
    }

    fn find_labels<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Arc<Vec<String>>, Error>> {
        Box::pin(self.labels_of(org, session))
    }

    fn list_labels<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Vec<SessionLabel>, Error>> {
        Box::pin(self.label_origins(org, session))
    }

    fn label_session<'a>(
        &'a self,
        org: &'a OrgId,
        session: &'a SessionId,
        label: &'static str,
        invocation: &'a InvocationId,
    ) -> Future<'a, Result<(), Error>> {
        Box::pin(self.label(org, session, label, invocation))
    }

    fn find_quarantine<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Quarantine>, Error>> {
        Box::pin(Self::find_quarantine(self, org, invocation))
    }

    fn find_quarantined<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(self.sealed_quarantine(org, invocation))
    }

    fn look_at_quarantined<'a>(
        &'a self,
        org: &'a OrgId,
        invocation: &'a InvocationId,
        by: &'a PrincipalId,
    ) -> Future<'a, Result<(), Error>> {
        Box::pin(self.tell_of_look(org, invocation, by))
    }

    fn settle_quarantine<'a>(&'a self, org: &'a OrgId, settling: Settling) -> Future<'a, Result<Option<Settled>, Error>> {
        Box::pin(self.settle(org, settling))
    }

    fn review<'a>(&'a self, org: &'a OrgId, action: &'a ActionId, pin: Pin, by: &'a PrincipalId) -> Future<'a, Result<(), Error>> {
        Box::pin(self.pin(org, action, pin, by))
    }

    fn pin_first<'a>(&'a self, org: &'a OrgId, action: &'a ActionId, pin: Pin, by: &'a PrincipalId) -> Future<'a, Result<(), Error>> {
        Box::pin(self.pin_if_none(org, action, pin, by))
    }

    fn find_grants<'a>(&'a self, session: &'a Session, action: &'a ActionId) -> Future<'a, Result<Vec<Grant>, Error>> {
        Box::pin(self.candidates(session, action))
    }

    fn list_pending_of<'a>(&'a self, org: &'a OrgId, action: &'a ActionId) -> Future<'a, Result<Vec<Invocation>, Error>> {
        Box::pin(self.pending_of(org, action, DRIFTED_ROWS))
    }

    fn drift<'a>(&'a self, org: &'a OrgId, drift: NewDrift, ends: Vec<Arc<Finish>>) -> Future<'a, Result<Vec<Finished>, Error>> {
        Box::pin(self.note_drift(org, drift, ends))
    }

    fn find_invocation<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Invocation>, Error>> {
        Box::pin(Self::find_invocation(self, org, invocation))
    }

    fn is_of_another_org<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<bool, Error>> {
        Box::pin(async move {
            // By org, of which there are few: a row is found by its org and its id together, and by neither alone.
            let sql = "SELECT 1 FROM orgs WHERE org_id <> $1
                       AND EXISTS (SELECT 1 FROM invocations WHERE invocations.org_id = orgs.org_id AND invocations.id = $2) LIMIT 1";
            Ok(!self.db.read(sql, &vals![org.as_str(), invocation.as_str()]).await?.is_empty())
        })
    }

    fn find_sealed_params<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(async move {
            let rows = self
                .db
                .read("SELECT sealed_params FROM invocations WHERE org_id = $1 AND id = $2", &vals![org.as_str(), invocation.as_str()])
                .await?;
            rows.into_iter().next().map_or(Ok(None), |row| Columns::of(row).bytes_or_null())
        })
    }

    fn find_reservation<'a>(
        &'a self,
        org: &'a OrgId,
        space: &'a SpaceId,
        action: &'a ActionId,
        key: &'a str,
    ) -> Future<'a, Result<Option<Reservation>, Error>> {
        Box::pin(self.reservation(org, space, action, key))
    }

    fn list_orgs(&self) -> Future<'_, Result<Vec<OrgId>, Error>> {
        Box::pin(async move { Ok(Self::list_orgs(self).await?.into_iter().map(|org| org.id).collect()) })
    }

    fn list_in_status<'a>(
        &'a self,
        org: &'a OrgId,
        status: Status,
        after: Option<&'a InvocationId>,
    ) -> Future<'a, Result<Vec<Invocation>, Error>> {
        Box::pin(async move {
            let rows = self
                .db
                .read(
                    // Sorted by an expression: sorting the few open ones is better than walking all ids in order.
                    &format!("{} AND status = $2{} AND id || '' > $3 ORDER BY id || '' LIMIT $4", select_invocation!(), among_open(status)),
                    &vals![org.as_str(), status.as_str(), after.map_or("", InvocationId::as_str), SWEEP_ROWS],
                )
                .await?;
            rows.into_iter().map(read_invocation).collect()
        })
    }

    fn list_expired<'a>(&'a self, org: &'a OrgId, status: Status) -> Future<'a, Result<Vec<Invocation>, Error>> {
        Box::pin(async move {
            let now = self.db.now().await?;
            let rows = self
                .db
                .read(
                    &format!(
                        "{} AND status = $2{} AND expires_at <= $3 ORDER BY expires_at LIMIT $4",
                        select_invocation!(),
                        among_open(status)
                    ),
                    &vals![org.as_str(), status.as_str(), now, SWEEP_ROWS],
                )
                .await?;
            rows.into_iter().map(read_invocation).collect()
        })
    }

    fn archive_definition<'a>(&'a self, org: &'a OrgId, definition: ArchivedDefinition) -> Future<'a, Result<(), Error>> {
        let org = org.clone();
        Box::pin(self.db.write(move |tx| {
            Box::pin(async move {
                tx.exec(
                    "INSERT INTO definitions (org_id, digest, body, archived_at) VALUES ($1, $2, $3, $4) ON CONFLICT (org_id, digest) DO NOTHING",
                    &vals![org.as_str(), definition.digest.to_string(), definition.body, tx.now()],
                )
                .await
                .map(|_| ())
            })
        }))
    }

    fn list_breakers<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<Breaker>>, Error>> {
        Box::pin(Self::list_breakers(self, org))
    }

    fn open_batch(&self, batch: NewBatch) -> Future<'_, Result<OpenedBatch, Error>> {
        Box::pin(Self::open_batch(self, batch))
    }

    fn find_batch<'a>(&'a self, org: &'a OrgId, batch: &'a BatchId) -> Future<'a, Result<Option<Batch>, Error>> {
        Box::pin(Self::find_batch(self, org, batch))
    }

    fn find_sealed_parts<'a>(&'a self, org: &'a OrgId, batch: &'a BatchId) -> Future<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(Self::find_sealed_parts(self, org, batch))
    }

    fn list_batches_in_status<'a>(&'a self, org: &'a OrgId, status: BatchStatus) -> Future<'a, Result<Vec<Batch>, Error>> {
        Box::pin(self.batches_in_status(org, status))
    }

    fn save_batch(&self, batch: Batch) -> Future<'_, Result<Option<Batch>, Error>> {
        Box::pin(Self::save_batch(self, batch))
    }

    fn end_batch(&self, end: EndBatch) -> Future<'_, Result<Option<Batch>, Error>> {
        Box::pin(Self::end_batch(self, end))
    }

    fn break_once<'a>(
        &'a self,
        org: &'a OrgId,
        key: &'a BreakerKey,
        reason: &'a str,
        let_through: LetThrough,
    ) -> Future<'a, Result<(), Error>> {
        Box::pin(Self::break_once(self, org, key.clone(), reason.to_owned(), let_through))
    }

    fn close_breaker<'a>(&'a self, org: &'a OrgId, key: &'a BreakerKey) -> Future<'a, Result<(), Error>> {
        Box::pin(async move { Self::close_breaker(self, org, key.as_str()).await.map(|_| ()) })
    }

    fn claim_probe<'a>(&'a self, org: &'a OrgId, key: &'a BreakerKey, lease_seconds: u64) -> Future<'a, Result<bool, Error>> {
        Box::pin(Self::claim_probe(self, org, key.clone(), lease_seconds))
    }

    fn hold(&self, hold: Hold) -> Future<'_, Result<Held, Error>> {
        Box::pin(self.db.write(move |tx| Box::pin(hold_in(tx, hold))))
    }

    fn approve(&self, approve: Approve) -> Future<'_, Result<Approved, Error>> {
        Box::pin(self.db.write(move |tx| Box::pin(approve_in(tx, approve))))
    }

    fn begin(&self, begin: Begin) -> Future<'_, Result<Begun, Error>> {
        Box::pin(async move {
            // Made here and not in the write: writes run one at a time, callers do not.
            let body = to_body(&begin.invocation)?;
            let store = self.clone();
            self.db.write(move |tx| Box::pin(async move { begin_in(&store, tx, begin, body).await })).await
        })
    }

    fn begin_again(&self, begin: BeginAgain) -> Future<'_, Result<Begun, Error>> {
        Box::pin(self.db.write(move |tx| Box::pin(begin_again_in(tx, begin))))
    }

    fn doubt(&self, invocation: Invocation, event: EventDraft) -> Future<'_, Result<Finished, Error>> {
        Box::pin(self.db.write(move |tx| Box::pin(async move { doubt_in(tx, &invocation, &event).await })))
    }

    fn finish(&self, finish: Arc<Finish>) -> Future<'_, Result<Finished, Error>> {
        Box::pin(async move {
            let body = to_body(&finish.invocation)?;
            self.db.write(move |tx| Box::pin(async move { finish_in(tx, &finish, body).await })).await
        })
    }
}
