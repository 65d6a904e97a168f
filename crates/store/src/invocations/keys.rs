//! Idempotency keys: a call reserves its key, and after it has ended, a further call with the same key gets its answer.

use crate::db::{Columns, Row as DbRow, Tx, only, vals};
use crate::{Error, Store};
use countersign_core::ports::invocations::{KeyFate, NewReservation, Reservation};
use countersign_core::{Digest, Invocation, InvocationId, OrgId};

/// The most keys removed in one write.
const FORGOTTEN_AT_ONCE: i64 = 1_000;

impl Store {
    /// Removes expired idempotency keys of ended calls, the oldest first, a bounded number at a time.
    pub async fn forget_expired_keys(&self, org: &OrgId) -> Result<u64, Error> {
        let org = org.clone();
        self.db
            .write(org.clone(), move |tx| {
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

/// Reserves the idempotency key, or returns the reservation that holds it. An expired key of an ended call is free, and a call made
/// instead of an earlier one (`instead_of`) takes over its key.
pub(super) async fn reserve(
    tx: &mut Tx,
    invocation: &Invocation,
    reservation: Option<&NewReservation>,
) -> Result<Option<Reservation>, Error> {
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
    let taken = only(rows, read_reservation)?;
    taken.map(Some).ok_or_else(|| Error::Corrupt { message: "a taken idempotency key has no row".into() })
}

pub(super) async fn settle_key(tx: &mut Tx, invocation: &Invocation, fate: KeyFate) -> Result<(), Error> {
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

/// A key of an open call stays reserved even after its expiry: only the key of an ended call can expire.
pub(super) const SELECT_RESERVATION: &str = "SELECT invocation_id, raw FROM reservations
     WHERE org_id = $1 AND space_id = $2 AND action = $3 AND key = $4 AND (expires_at > $5 OR state = 'in_flight')";

pub(super) fn read_reservation(row: DbRow) -> Result<Reservation, Error> {
    let mut columns = Columns::of(row);
    Ok(Reservation { invocation: columns.id()?, raw: columns.parsed(Digest::parse)? })
}
