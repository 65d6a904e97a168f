//! The pipeline's port: each method is one transaction over an invocation's rows, its log entry and its event.

use crate::db::{Columns, Row as DbRow, Tx, vals};
use crate::events::insert_event;
use crate::grants::{self, Given, Used};
use crate::invocations::{
    Inserted, InvocationRow, SealedParams, Updated, among_open, insert, insert_later, lock, read_invocation, rebind, select_invocation,
    to_body, update, update_later,
};
use crate::servers::SWEEP_ROWS;
use crate::{Error, ModeChange, Store, modes, pins, quarantines, seal};
use countersign_core::batch::BatchStatus;
use countersign_core::breaker::{Breaker, BreakerKey};
use countersign_core::decision::Lock;
use countersign_core::invocation::{Deadline, ReceiptRef};
use countersign_core::ledger::{
    Approval, Approve, Approved, ArchivedDefinition, Begin, BeginAgain, Begun, BeyondOnce, EndBatch, EntryDraft, EntryId, EventDraft,
    Finish, Finished, GrantUse, Held, Hold, KeyFate, Ledger, ModeRows, NewBatch, NewDrift, NewReservation, OpenedBatch, Pin, Reservation,
    Row, Settled, Settling, Wording,
};
use countersign_core::policies::PoliciesInForce;
use countersign_core::principal::Standing;
use countersign_core::quarantine::Quarantine;
use countersign_core::session::SessionLabel;
use countersign_core::switch::Switch;
use countersign_core::{
    ActionId, AutomationId, Batch, BatchId, Digest, Future, Grant, Invocation, InvocationId, Mode, OrgId, Principal, PrincipalId, Session,
    SessionId, Space, SpaceId, Status, Timestamp, UserId,
};
use receipt::entry::Kind;
use std::sync::Arc;

/// Idempotency keys forgotten in one write.
const FORGOTTEN_AT_ONCE: i64 = 1_000;

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
        Box::pin(async move {
            let now = self.db.now().await?;
            let params = vals![org.as_str(), space.as_str(), action.as_str(), key, now];
            let rows = self.db.read(SELECT_RESERVATION, &params).await?;
            rows.into_iter().next().map(read_reservation).transpose()
        })
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

    fn break_once<'a>(&'a self, org: &'a OrgId, key: &'a BreakerKey, reason: &'a str) -> Future<'a, Result<(), Error>> {
        Box::pin(Self::break_once(self, org, key.clone(), reason.to_owned()))
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
        let BeginAgain { invocation, intent, rules_version } = begin;
        Box::pin(self.db.write(move |tx| {
            Box::pin(async move {
                unfenced(tx)?;
                if let Some(decided_by) = rules_version
                    && seal::rules_version(tx, &invocation.org).await? != decided_by
                {
                    return Ok(Begun::RulesChanged);
                }
                announceable(&invocation)?;
                let row = InvocationRow::begun_again(&invocation)?;
                if update(tx, row, invocation.status, SealedParams::Keep).await? == Updated::NotFound {
                    return Ok(status_of(tx, &invocation).await?.map_or(Begun::Missing, Begun::Not));
                }
                end_attempt(tx, &invocation, "failed");
                start_attempt(tx, &invocation);
                append(tx, &invocation, &intent).await?;
                Ok(Begun::Started)
            })
        }))
    }

    fn doubt(&self, invocation: Invocation, event: EventDraft) -> Future<'_, Result<Finished, Error>> {
        Box::pin(self.db.write(move |tx| {
            Box::pin(async move {
                if update(tx, InvocationRow::open(&invocation)?, Status::Running, SealedParams::Keep).await? == Updated::NotFound {
                    return not_finishable(tx, &invocation).await;
                }
                insert_event(tx, &invocation.org, &event, None);
                let seq = seal::size(tx, &invocation.org).await?;
                Ok(Finished::Recorded { seq })
            })
        }))
    }

    fn finish(&self, finish: Arc<Finish>) -> Future<'_, Result<Finished, Error>> {
        Box::pin(async move {
            let body = to_body(&finish.invocation)?;
            self.db.write(move |tx| Box::pin(async move { finish_in(tx, &finish, body).await })).await
        })
    }
}

async fn hold_in(tx: &mut Tx, hold: Hold) -> Result<Held, Error> {
    let invocation = &hold.invocation;
    if seal::rules_version(tx, &invocation.org).await? != hold.rules_version {
        return Ok(Held::RulesChanged);
    }
    // Locking the session makes the count exact when several servers hold at once.
    tx.query_locked("SELECT id FROM sessions WHERE org_id = $1 AND id = $2", &vals![invocation.org.as_str(), invocation.session.as_str()])
        .await?;
    let rows = tx
        .query(
            &format!(
                "SELECT count(*) FROM invocations WHERE org_id = $1 AND session_id = $2 AND status = 'pending'{}",
                among_open(Status::Pending)
            ),
            &vals![invocation.org.as_str(), invocation.session.as_str()],
        )
        .await?;
    let pending = rows.into_iter().next().map_or(Ok(0), |row| Columns::of(row).int())?;
    let pending = u32::try_from(pending).unwrap_or(u32::MAX);
    if pending >= hold.pending_max {
        return Ok(Held::TooManyPending { pending });
    }
    if let Some(taken) = reserve(tx, invocation, hold.reservation.as_ref()).await? {
        return Ok(Held::KeyTaken(taken));
    }
    if insert(tx, InvocationRow::open(invocation)?, Some(hold.sealed_params)).await? == Inserted::Already {
        return Err(Error::Corrupt { message: format!("invocation `{}` exists already", invocation.id) });
    }
    insert_event(tx, &invocation.org, &hold.event, None);
    Ok(Held::Pending)
}

async fn approve_in(tx: &mut Tx, approve: Approve) -> Result<Approved, Error> {
    let Some(mut row) = lock(tx, &approve.org, &approve.invocation).await? else {
        return Ok(Approved::Missing);
    };
    if row.status != Status::Pending {
        return Ok(Approved::Not(row.status));
    }
    let Some(binding) = row.binding.clone() else {
        return Err(Error::Corrupt { message: format!("pending invocation `{}` is bound to nothing", row.id) });
    };
    if has_passed(&row, tx.now()) {
        return Ok(Approved::Expired);
    }
    let sealed_params = match approve.edited {
        None if binding.digest != approve.approval.binding => return Ok(Approved::OtherBinding),
        None => None,
        Some(edited) if binding.digest != edited.shown => return Ok(Approved::OtherBinding),
        // Everyone before has approved something else.
        Some(edited) => {
            row = Invocation { approvals: Vec::new(), deadline: row.deadline, ..*edited.invocation };
            Some(edited.sealed_params)
        }
    };
    let answer = &approve.approval.answer;
    if row.approvals.iter().any(|earlier| earlier.by == answer.by) {
        return Ok(Approved::Already);
    }
    row.approvals.push(answer.clone());
    let is_enough = row.approvals.len() >= approve.needed as usize;
    if is_enough {
        row.status = Status::Approved;
        row.answer = Some(answer.clone());
    }
    let changed = InvocationRow::open(&row)?;
    let updated = match sealed_params {
        Some(sealed_params) => rebind(tx, changed, sealed_params).await?,
        None => update(tx, changed, Status::Pending, SealedParams::Keep).await?,
    };
    must(updated, &row)?;
    insert_approval(tx, &row, &approve.approval);
    insert_event(tx, &approve.org, if is_enough { &approve.event } else { &approve.event_counted }, None);
    let row = Box::new(row);
    Ok(if is_enough { Approved::Approved(row) } else { Approved::Counted(row) })
}

async fn begin_in(store: &Store, tx: &mut Tx, begin: Begin, body: String) -> Result<Begun, Error> {
    let invocation = &begin.invocation;
    unfenced(tx)?;
    // What it was decided by is what is in force now, or it is decided again.
    if seal::rules_version(tx, &invocation.org).await? != begin.rules_version {
        return Ok(Begun::RulesChanged);
    }
    if let Some(grant) = &invocation.grant
        && grants::use_in(tx, &invocation.org, grant).await? == Used::Spent
    {
        return Ok(Begun::GrantSpent);
    }
    let row = InvocationRow::begun(invocation, body);
    match (&begin.row, &begin.reservation) {
        (Row::Insert, None) => insert_later(tx, row, begin.sealed_params),
        (Row::Insert | Row::InsertAgain, reservation) => {
            if let Some(taken) = reserve(tx, invocation, reservation.as_ref()).await? {
                if let Some(grant) = &invocation.grant {
                    grants::return_in(tx, &invocation.org, grant).await?;
                }
                return Ok(Begun::KeyTaken(taken));
            }
            if insert(tx, row, begin.sealed_params).await? == Inserted::Already {
                return Err(Error::Corrupt { message: format!("invocation `{}` exists already", invocation.id) });
            }
        }
        (Row::Begun, _) => return Err(Error::Corrupt { message: format!("invocation `{}` has begun already", invocation.id) }),
        (Row::From(from) | Row::ExpiredFrom(from), _) => match lock(tx, &invocation.org, &invocation.id).await? {
            None => return Ok(Begun::Missing),
            Some(held) if held.status != *from => return Ok(Begun::Not(held.status)),
            Some(held) if has_passed(&held, tx.now()) => return Ok(Begun::Expired),
            Some(_) => {
                legal(invocation, *from)?;
                must(update(tx, row, *from, SealedParams::Keep).await?, invocation)?;
            }
        },
    }
    start_attempt(tx, invocation);
    append(tx, invocation, &begin.intent).await?;
    match begin.beyond {
        None => {}
        Some(BeyondOnce::Always { automation, by }) => {
            let (action, mode) = (invocation.action.clone(), Some(Mode::Allow));
            let change = ModeChange { automation, action, mode, lock: Lock::Open, by: by.clone() };
            modes::change_in(store, tx, &invocation.org, change).await?;
            let (structural, textual) = (invocation.digests.structural, invocation.digests.textual);
            let pin = Pin { structural, textual, wording: Wording::Reviewed, seen: None };
            pins::pin_first_in(store, tx, &invocation.org, &invocation.action, pin, by).await?;
        }
        Some(BeyondOnce::Grant { id, terms, lifetime_seconds, by }) => {
            // One that was approved before several could be has its one answer.
            let answers = if invocation.approvals.is_empty() { invocation.answer.as_slice() } else { &invocation.approvals };
            let givers = grants::people(answers.iter().map(|answer| &answer.by));
            let given = Given { id, terms: *terms, lifetime_seconds, by, givers, invocation: Some(invocation.id.clone()) };
            grants::give_in(store, tx, &invocation.org, given).await?;
        }
    }
    Ok(Begun::Started)
}

/// Refuses to begin an effect whose end others might not wait for.
fn unfenced(tx: &Tx) -> Result<(), Error> {
    if !tx.is_fenced() {
        return Ok(());
    }
    Err(Error::Unavailable {
        message: "this server could not tell the others for a while that it lives, and begins nothing until it can".into(),
    })
}

pub(crate) async fn finish_in(tx: &mut Tx, finish: &Finish, body: String) -> Result<Finished, Error> {
    let invocation = &finish.invocation;
    let EntryId::Receipt(receipt_id) = &finish.receipt.id else {
        return Err(Error::Corrupt { message: "an invocation ends with a receipt, nothing else".into() });
    };
    ended(invocation)?;
    if let Some(decided_by) = finish.rules_version
        && seal::rules_version(tx, &invocation.org).await? != decided_by
    {
        return outdated(tx, finish).await;
    }
    if let Row::ExpiredFrom(_) = finish.row
        && !has_expired(tx, invocation).await?
    {
        return not_finishable(tx, invocation).await;
    }
    // SQLite has no round trip to save.
    let row = if finish.row == Row::Begun && !tx.is_postgres() { Row::From(Status::Running) } else { finish.row };
    let before = tx.sealing.mark();
    let seq = append(tx, invocation, &finish.receipt).await?;
    let receipt = ReceiptRef { id: receipt_id.clone(), seq };
    let ended = InvocationRow::ended(invocation, body, &receipt);
    let is_found = match row {
        Row::Insert => {
            insert_later(tx, ended, None);
            true
        }
        // A repeated write after an uncertain commit: perhaps the first one was kept.
        Row::InsertAgain => insert(tx, ended, None).await? == Inserted::New,
        Row::Begun => {
            legal(invocation, Status::Running)?;
            end_attempt(tx, invocation, invocation.status.as_str());
            settle_key(tx, invocation, finish.key).await?;
            update_later(tx, ended);
            true
        }
        Row::From(from) | Row::ExpiredFrom(from) => {
            legal(invocation, from)?;
            end_attempt(tx, invocation, invocation.status.as_str());
            let updated = update(tx, ended, from, SealedParams::Shred).await?;
            if updated == Updated::Done {
                settle_key(tx, invocation, finish.key).await?;
            }
            updated == Updated::Done
        }
    };
    if !is_found {
        tx.sealing.undo_to(before);
        return not_finishable(tx, invocation).await;
    }
    if let Some(approval) = &finish.approval {
        insert_approval(tx, invocation, approval);
    }
    if let Some(quarantine) = &finish.quarantine {
        quarantines::insert_in(tx, invocation, quarantine).await?;
    }
    if let (GrantUse::Returned, Some(grant)) = (finish.grant, &invocation.grant) {
        grants::return_in(tx, &invocation.org, grant).await?;
    }
    insert_event(tx, &invocation.org, &finish.event, Some(receipt_id));
    Ok(Finished::Recorded { seq })
}

/// An end decided by rules that are no longer in force is not written, unless an earlier try of this very write was kept.
async fn outdated(tx: &mut Tx, finish: &Finish) -> Result<Finished, Error> {
    let kept = match finish.row {
        Row::Insert => None,
        Row::InsertAgain | Row::Begun | Row::From(_) | Row::ExpiredFrom(_) => status_of(tx, &finish.invocation).await?,
    };
    Ok(kept.map_or(Finished::RulesChanged, Finished::Not))
}

async fn has_expired(tx: &mut Tx, invocation: &Invocation) -> Result<bool, Error> {
    let held = lock(tx, &invocation.org, &invocation.id).await?;
    Ok(held.is_some_and(|held| has_passed(&held, tx.now())))
}

/// Whether nobody can answer any more. A stopped clock does not run out.
fn has_passed(held: &Invocation, now: Timestamp) -> bool {
    match held.deadline {
        Some(Deadline::At(at)) => at <= now,
        Some(Deadline::Stopped { .. }) | None => false,
    }
}

/// Says why there was no row to be finished.
async fn not_finishable(tx: &mut Tx, invocation: &Invocation) -> Result<Finished, Error> {
    Ok(status_of(tx, invocation).await?.map_or(Finished::Missing, Finished::Not))
}

async fn status_of(tx: &mut Tx, invocation: &Invocation) -> Result<Option<Status>, Error> {
    Ok(lock(tx, &invocation.org, &invocation.id).await?.map(|row| row.status))
}

/// For a row that was locked and looked at in this very write.
fn must(updated: Updated, invocation: &Invocation) -> Result<(), Error> {
    match updated {
        Updated::Done => Ok(()),
        Updated::NotFound => Err(Error::Corrupt { message: format!("`{}` changed while it was locked", invocation.id) }),
    }
}

/// Refuses a change of status that no life of an invocation has.
fn legal(invocation: &Invocation, from: Status) -> Result<(), Error> {
    if from.may_become(invocation.status) {
        return Ok(());
    }
    Err(Error::Corrupt { message: format!("invocation `{}` is `{from}` and cannot become `{}`", invocation.id, invocation.status) })
}

/// Refuses a further attempt at something that has not begun, or has ended.
fn announceable(invocation: &Invocation) -> Result<(), Error> {
    if matches!(invocation.status, Status::Running | Status::InDoubt) {
        return Ok(());
    }
    Err(Error::Corrupt { message: format!("invocation `{}` is `{}`, and is not tried again", invocation.id, invocation.status) })
}

/// Refuses a receipt for something that goes on.
fn ended(invocation: &Invocation) -> Result<(), Error> {
    if invocation.status.is_final() {
        return Ok(());
    }
    Err(Error::Corrupt { message: format!("invocation `{}` is `{}`, which is not an end", invocation.id, invocation.status) })
}

async fn append(tx: &mut Tx, invocation: &Invocation, draft: &EntryDraft) -> Result<u64, Error> {
    let (kind, id) = match &draft.id {
        EntryId::Intent(id) => (Kind::Intent, id.as_str()),
        EntryId::Receipt(id) => (Kind::Receipt, id.as_str()),
    };
    seal::append(tx, &invocation.org, seal::Draft { kind, id, invocation: Some(&invocation.id), body: &draft.body }).await
}

/// Attempts and approvals are written at the end of the batch: nobody in it reads them, and their ids are new.
fn start_attempt(tx: &mut Tx, invocation: &Invocation) {
    let params = vals![invocation.org.as_str(), invocation.id.as_str(), i64::from(invocation.attempts), tx.now()];
    tx.later("INSERT INTO attempts (org_id, invocation_id, n, state, intent_at) VALUES ($1, $2, $3, 'dispatched', $4)", params.into());
}

fn end_attempt(tx: &mut Tx, invocation: &Invocation, outcome: &str) {
    let params = vals![outcome, tx.now(), invocation.org.as_str(), invocation.id.as_str()];
    tx.later(
        "UPDATE attempts SET state = 'outcome', outcome = $1, outcome_at = $2 WHERE org_id = $3 AND invocation_id = $4 AND outcome IS NULL",
        params.into(),
    );
}

fn insert_approval(tx: &mut Tx, invocation: &Invocation, approval: &Approval) {
    let params = vals![
        invocation.org.as_str(),
        approval.id.as_str(),
        invocation.id.as_str(),
        approval.answer.by.to_string(),
        i64::from(approval.approves),
        approval.answer.reason.as_deref(),
        approval.binding.to_string(),
        approval.answer.at
    ];
    tx.later(
        "INSERT INTO approvals (org_id, id, invocation_id, approver, approves, reason, binding, at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        params.into(),
    );
}

impl Store {
    /// Removes answers of idempotency keys that are past their time, the oldest first, a bounded number at a time.
    pub async fn forget_expired_keys(&self, org: &OrgId) -> Result<u64, Error> {
        let org = org.clone();
        self.db
            .write(move |tx| {
                Box::pin(async move {
                    let params = vals![org.as_str(), tx.now(), FORGOTTEN_AT_ONCE];
                    tx.exec(
                        "DELETE FROM reservations WHERE org_id = $1 AND state = 'done' AND expires_at <= (
                           SELECT max(expires_at) FROM (
                             SELECT expires_at FROM reservations WHERE org_id = $1 AND state = 'done' AND expires_at <= $2
                             ORDER BY expires_at LIMIT $3
                           ) AS oldest
                         )",
                        &params,
                    )
                    .await
                })
            })
            .await
    }
}

/// Takes the idempotency key, or says who has it. A key past its time is free, and that of a call that is made again passes on.
async fn reserve(tx: &mut Tx, invocation: &Invocation, reservation: Option<&NewReservation>) -> Result<Option<Reservation>, Error> {
    let Some(reservation) = reservation else {
        return Ok(None);
    };
    let now = tx.now();
    let taken = tx
        .exec(
            "INSERT INTO reservations (org_id, space_id, action, key, raw, invocation_id, state, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, 'in_flight', $7)
             ON CONFLICT (org_id, space_id, action, key) DO UPDATE
             SET raw = excluded.raw, invocation_id = excluded.invocation_id, state = 'in_flight', expires_at = excluded.expires_at
             WHERE reservations.expires_at <= $8 AND reservations.state = 'done' OR reservations.invocation_id = $9",
            &vals![
                invocation.org.as_str(),
                invocation.space.as_str(),
                invocation.action.as_str(),
                reservation.key.as_str(),
                invocation.digests.raw.to_string(),
                invocation.id.as_str(),
                reservation.expires_at,
                now,
                reservation.instead_of.as_ref().map(InvocationId::as_str)
            ],
        )
        .await?;
    if taken == 1 {
        return Ok(None);
    }
    let params = vals![invocation.org.as_str(), invocation.space.as_str(), invocation.action.as_str(), reservation.key.as_str(), now];
    let rows = tx.query(SELECT_RESERVATION, &params).await?;
    let row = rows.into_iter().next().ok_or_else(|| Error::Corrupt { message: "a taken idempotency key has no row".into() })?;
    read_reservation(row).map(Some)
}

async fn settle_key(tx: &mut Tx, invocation: &Invocation, fate: KeyFate) -> Result<(), Error> {
    let Some(key) = &invocation.idempotency_key else {
        return Ok(());
    };
    let sql = match fate {
        KeyFate::Answers => {
            "UPDATE reservations SET state = 'done' WHERE org_id = $1 AND space_id = $2 AND action = $3 AND key = $4 AND invocation_id = $5"
        }
        KeyFate::Freed => {
            "DELETE FROM reservations WHERE org_id = $1 AND space_id = $2 AND action = $3 AND key = $4 AND invocation_id = $5"
        }
    };
    let params =
        vals![invocation.org.as_str(), invocation.space.as_str(), invocation.action.as_str(), key.as_str(), invocation.id.as_str()];
    tx.exec(sql, &params).await.map(|_| ())
}

/// A key whose call is still open stays taken past its time: only an ended one can be forgotten.
const SELECT_RESERVATION: &str = "SELECT invocation_id, raw FROM reservations
     WHERE org_id = $1 AND space_id = $2 AND action = $3 AND key = $4 AND (expires_at > $5 OR state = 'in_flight')";

fn read_reservation(row: DbRow) -> Result<Reservation, Error> {
    let mut columns = Columns::of(row);
    Ok(Reservation { invocation: columns.parsed(|text| InvocationId::parse(text).ok())?, raw: columns.parsed(Digest::parse)? })
}
