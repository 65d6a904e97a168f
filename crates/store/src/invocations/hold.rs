//! Holding a call for a person, and counting the approvals it gets.

use super::keys::reserve;
use super::row::{begun_elsewhere, has_passed, must};
use super::table::{Inserted, InvocationRow, SealedParams, among_open, insert, lock, rebind, update};
use crate::db::{Columns, Tx, count, only, vals};
use crate::events::insert_event;
use crate::{Error, lines, seal};
use countersign_core::ports::invocations::{Approval, Approve, Approved, Held, Hold};
use countersign_core::principal::{Permission, Role};
use countersign_core::{Invocation, OrgId, PrincipalId, Status};
use receipt::body::{Answer, AnswerBody, Body as _};
use receipt::entry::Kind;

pub(super) async fn hold_in(tx: &mut Tx, hold: Hold) -> Result<Held, Error> {
    let invocation = &hold.invocation;
    if let Some(line) = &hold.line
        && lines::is_open_in(tx, line).await?
    {
        // This write is repeated after an uncertain commit, and its first try was kept.
        return Ok(Held::Pending);
    }
    if seal::rules_version(tx, &invocation.org).await? != hold.rules_version {
        return Ok(Held::RulesChanged);
    }
    // Locking the session keeps the count exact when several servers hold calls of it at once.
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
    let pending = count(rows)?;
    let pending = u32::try_from(pending).unwrap_or(u32::MAX);
    if pending >= hold.pending_max {
        return Ok(Held::TooManyPending { pending });
    }
    if let Some(taken) = reserve(tx, invocation, hold.reservation.as_ref()).await? {
        return Ok(Held::KeyTaken(taken));
    }
    let pending_from_seq = Some(seal::size(tx, &invocation.org).await?);
    let invocation = &Invocation { pending_from_seq, ..invocation.clone() };
    if insert(tx, InvocationRow::open(invocation)?, Some(hold.sealed_params)).await? == Inserted::Already {
        return begun_elsewhere(invocation).map(Held::KeyTaken);
    }
    seal::advance(tx, &invocation.org).await?;
    if let Some(line) = &hold.line {
        lines::open_in(tx, line).await?;
    }
    insert_event(tx, &invocation.org, &hold.event, None).await?;
    Ok(Held::Pending)
}

pub(super) async fn approve_in(tx: &mut Tx, approve: Approve) -> Result<Approved, Error> {
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
        // The edit makes it another call, so the approvals given so far do not count for it.
        Some(edited) => {
            let (deadline, pending_from_seq) = (row.deadline, row.pending_from_seq);
            row = Invocation { approvals: Vec::new(), deadline, pending_from_seq, ..*edited.invocation };
            Some(edited.sealed_params)
        }
    };
    let Some(role) = answering_role(tx, &approve.org, &approve.approval).await? else {
        return Ok(Approved::MayNot);
    };
    let answer = &approve.approval.answer;
    // A person counts once. Whoever has approved approves again only if that is enough: the space asks for fewer people than it did then.
    let needed = approve.needed as usize;
    let others = row.approvals.iter().filter(|earlier| earlier.by != answer.by).count();
    if others < row.approvals.len() && others + 1 < needed {
        return Ok(Approved::Already);
    }
    if approve.is_separate && !could_approve(tx, &row, &approve.approval).await? {
        return Ok(Approved::TooNew);
    }
    row.approvals.retain(|earlier| earlier.by != answer.by);
    row.approvals.push(answer.clone());
    let is_enough = row.approvals.len() >= needed;
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
    record_answer(tx, &row, &approve.approval, role).await?;
    insert_event(tx, &approve.org, if is_enough { &approve.event } else { &approve.event_counted }, None).await?;
    let row = Box::new(row);
    Ok(if is_enough { Approved::Approved(row) } else { Approved::Counted(row) })
}

/// The role of whoever answers, if they may answer now and with this token. It is read in the write that stores the answer: both may have
/// changed since the token was shown.
pub(super) async fn answering_role(tx: &mut Tx, org: &OrgId, approval: &Approval) -> Result<Option<Role>, Error> {
    let PrincipalId::User(user) = &approval.answer.by else { return Ok(None) };
    let sql = "SELECT u.role FROM tokens t JOIN users u ON u.org_id = t.org_id AND u.id = t.user_id
               WHERE t.org_id = $1 AND t.id = $2 AND t.user_id = $3 AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > $4)
                 AND u.disabled_at IS NULL";
    let rows = tx.query(sql, &vals![org.as_str(), approval.token.as_str(), user.as_str(), tx.now()]).await?;
    let role = only(rows, |row| Columns::of(row).parsed(Role::parse))?;
    Ok(role.filter(|role| role.may(Permission::Approve)))
}

/// Whether the person could approve when the call became pending: they had the role, and the token was theirs.
async fn could_approve(tx: &mut Tx, pending: &Invocation, approval: &Approval) -> Result<bool, Error> {
    let PrincipalId::User(user) = &approval.answer.by else { return Ok(false) };
    let sql = "SELECT 1 FROM tokens t JOIN users u ON u.org_id = t.org_id AND u.id = t.user_id
               WHERE t.org_id = $1 AND t.id = $2 AND t.user_id = $3 AND t.from_seq < $4 AND u.approves_from < $4";
    let pending_from = pending.pending_from_seq.unwrap_or_default() as i64;
    let rows = tx.query(sql, &vals![pending.org.as_str(), approval.token.as_str(), user.as_str(), pending_from]).await?;
    Ok(!rows.is_empty())
}

/// Signs the answer into the audit log. A call is resumed by this entry, not by its row. The row of the answer is written at the end of
/// the batch: no write of the batch reads it, and its id is new.
pub(super) async fn record_answer(tx: &mut Tx, invocation: &Invocation, approval: &Approval, role: Role) -> Result<(), Error> {
    let body = AnswerBody {
        answer: if approval.approves { Answer::Approve } else { Answer::Deny },
        approval_id: approval.id.clone(),
        beyond: approval.answer.beyond.clone(),
        binding: approval.binding,
        by: approval.answer.by.clone(),
        invocation_id: invocation.id.clone(),
        pending_from_seq: invocation.pending_from_seq.unwrap_or_default().to_string(),
        role,
        token: approval.token.clone(),
    };
    let body = body.to_canonical().map_err(|error| Error::Corrupt { message: error.to_string() })?;
    let draft = seal::Draft { kind: Kind::Answer, id: approval.id.as_str(), invocation: Some(&invocation.id), body: &body };
    seal::append(tx, &invocation.org, draft).await?;
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
    Ok(())
}
