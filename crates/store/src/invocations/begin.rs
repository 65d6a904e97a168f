//! Beginning an effect: each attempt writes its intent before the effect.

use super::keys::reserve;
use super::row::{append, begun_elsewhere, has_passed, legal, must, status_of};
use super::signed;
use super::table::{Inserted, InvocationRow, SealedParams, Updated, insert, insert_later, lock, update};
use crate::db::{Columns, Tx, vals};
use crate::grants::{self, Given, Used};
use crate::{Error, ModeChange, NewConsent, Store, consents, lines, modes, reviews, seal};
use countersign_core::consent::purpose_of;
use countersign_core::decision::Lock;
use countersign_core::ports::definitions::{Pin, Wording};
use countersign_core::ports::invocations::{Begin, BeginAgain, Begun, BeyondOnce, Row};
use countersign_core::{Invocation, Mode, PrincipalId, Status};
use receipt::entry::{Entry, Kind};

pub(super) async fn begin_in(store: &Store, tx: &mut Tx, begin: Begin, body: String) -> Result<Begun, Error> {
    let invocation = &begin.invocation;
    unfenced(tx)?;
    // The rules that the call was decided by must still be in force; otherwise the call is decided again.
    if seal::rules_version(tx, &invocation.org).await? != begin.rules_version {
        return Ok(Begun::RulesChanged);
    }
    if let Some(grant) = &invocation.grant
        && grants::use_in(tx, grant, invocation).await? == Used::Spent
    {
        return Ok(Begun::GrantSpent);
    }
    let row = InvocationRow::begun(invocation, body);
    match (&begin.row, &begin.reservation) {
        (Row::Insert, None) if invocation.batch.is_none() => insert_later(tx, row, begin.sealed_params),
        (Row::Insert | Row::InsertAgain, reservation) => {
            let mut taken = reserve(tx, invocation, reservation.as_ref()).await?;
            if taken.is_none() && insert(tx, row, begin.sealed_params).await? == Inserted::Already {
                taken = Some(begun_elsewhere(invocation)?);
            }
            if let Some(taken) = taken {
                if let Some(grant) = &invocation.grant {
                    grants::return_in(tx, grant, invocation).await?;
                }
                return Ok(Begun::KeyTaken(taken));
            }
        }
        (Row::Begun, _) => return Err(Error::Corrupt { message: format!("invocation `{}` has begun already", invocation.id) }),
        (Row::From(from) | Row::ExpiredFrom(from), _) => match lock(tx, &invocation.org, &invocation.id).await? {
            None => return Ok(Begun::Missing),
            Some(held) if held.status != *from => return Ok(Begun::Not(held.status)),
            Some(held) if has_passed(&held, tx.now()) => return Ok(Begun::Expired),
            Some(held) => {
                if lines::has_left_in(tx, &held.org, &held.id).await? {
                    return Ok(Begun::CallerLeft);
                }
                legal(invocation, *from)?;
                unused(tx, invocation).await?;
                must(update(tx, row, *from, SealedParams::Keep).await?, invocation)?;
            }
        },
    }
    if let Some(line) = &begin.line {
        lines::open_later(tx, line);
    }
    start_attempt(tx, invocation);
    append(tx, invocation, &begin.intent).await?;
    match begin.beyond {
        None => {}
        Some(BeyondOnce::Always { automation, by, consents }) => {
            let (action, mode) = (invocation.action.clone(), Some(Mode::Allow));
            let change = ModeChange { automation, action, mode, lock: Lock::Open, by: by.clone(), invocation: Some(invocation.id.clone()) };
            modes::change_in(store, tx, &invocation.org, change).await?;
            let (structural, textual) = (invocation.digests.structural, invocation.digests.textual);
            let pin = Pin { structural, textual, wording: Wording::Reviewed, seen: None, changed_at: None };
            reviews::pin_first_in(store, tx, &invocation.org, &invocation.action, pin, by.clone()).await?;
            if let (true, PrincipalId::User(user)) = (consents, by) {
                let (space, purpose) = (Some(invocation.space.clone()), purpose_of(&invocation.action));
                let evidence = Some(format!("approved `{}`, and every further call", invocation.id));
                let consent = NewConsent { user, space, purpose, evidence, lifetime_seconds: None };
                consents::give_in(store, tx, &invocation.org, consent).await?;
            }
        }
        Some(BeyondOnce::Grant { id, terms, lifetime_seconds, by }) => {
            let givers = grants::people(invocation.approvals.iter().map(|answer| &answer.by));
            let given = Given { id, terms: *terms, lifetime_seconds, reason: None, by, givers, invocation: Some(invocation.id.clone()) };
            grants::give_in(store, tx, &invocation.org, given).await?;
        }
    }
    Ok(Begun::Started)
}

/// Refuses to begin an effect on a server that others may soon consider gone: they could claim the call before the effect has ended.
fn unfenced(tx: &Tx) -> Result<(), Error> {
    if tx.is_fenced() { Err(Error::Fenced) } else { Ok(()) }
}

pub(super) async fn begin_again_in(store: &Store, tx: &mut Tx, begin: BeginAgain) -> Result<Begun, Error> {
    let BeginAgain { invocation, intent, rules_version } = begin;
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
    begun_before(store, tx, &invocation).await?;
    end_attempt(tx, &invocation, "failed");
    start_attempt(tx, &invocation);
    append(tx, &invocation, &intent).await?;
    Ok(Begun::Started)
}

/// Refuses to begin if the audit log says that the call has begun or ended before: an approval is used once, and somebody has changed the row.
async fn unused(tx: &mut Tx, invocation: &Invocation) -> Result<(), Error> {
    let sql = "SELECT payload FROM entries WHERE org_id = $1 AND invocation_id = $2";
    for row in tx.query(sql, &vals![invocation.org.as_str(), invocation.id.as_str()]).await? {
        let entry = Entry::parse(&Columns::of(row).text()?).map_err(|error| Error::Corrupt { message: error.to_string() })?;
        if entry.header.kind != Kind::Answer {
            let message = format!("the audit log says that `{}` has begun before, and its row that it has not", invocation.id);
            return Err(Error::Corrupt { message });
        }
    }
    Ok(())
}

/// Refuses a further attempt if the audit log holds no intent of the call: its row says that it began, and somebody has changed the row.
async fn begun_before(store: &Store, tx: &mut Tx, invocation: &Invocation) -> Result<(), Error> {
    let params = vals![invocation.org.as_str(), invocation.id.as_str(), Kind::Intent.as_str()];
    for row in tx.query(signed::SELECT_SIGNED, &params).await? {
        if signed::open(&store.keychain, row, Kind::Intent)?.is_some() {
            return Ok(());
        }
    }
    Err(Error::Corrupt { message: format!("the audit log holds no intent of `{}`, whose row says that it began", invocation.id) })
}

/// Refuses a further attempt for a call that has not begun or has ended.
fn announceable(invocation: &Invocation) -> Result<(), Error> {
    if matches!(invocation.status, Status::Running | Status::InDoubt) {
        return Ok(());
    }
    Err(Error::Corrupt { message: format!("invocation `{}` is `{}`, and is not tried again", invocation.id, invocation.status) })
}

/// Attempts are written at the end of the batch: no write of the batch reads them, and their numbers are new.
fn start_attempt(tx: &mut Tx, invocation: &Invocation) {
    let params = vals![invocation.org.as_str(), invocation.id.as_str(), i64::from(invocation.attempts), tx.now()];
    tx.later("INSERT INTO attempts (org_id, invocation_id, n, state, intent_at) VALUES ($1, $2, $3, 'dispatched', $4)", params.into());
}

pub(super) fn end_attempt(tx: &mut Tx, invocation: &Invocation, outcome: &str) {
    let params = vals![outcome, tx.now(), invocation.org.as_str(), invocation.id.as_str()];
    tx.later(
        "UPDATE attempts SET state = 'outcome', outcome = $1, outcome_at = $2 WHERE org_id = $3 AND invocation_id = $4 AND outcome IS NULL",
        params.into(),
    );
}
