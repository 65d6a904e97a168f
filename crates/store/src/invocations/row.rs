//! Helpers shared by the writes to an invocation: the legal changes of status, and the entry in the audit log.

use super::table::{Updated, lock};
use crate::db::Tx;
use crate::{Error, seal};
use countersign_core::invocation::Deadline;
use countersign_core::ports::invocations::{EntryDraft, EntryId, Reservation};
use countersign_core::{Invocation, Status, Timestamp};
use receipt::entry::Kind;

/// Whether the time to answer is over. A stopped deadline does not run out.
pub(super) fn has_passed(held: &Invocation, now: Timestamp) -> bool {
    match held.deadline {
        Some(Deadline::At(at)) => at <= now,
        Some(Deadline::Stopped { .. }) | None => false,
    }
}

pub(super) async fn status_of(tx: &mut Tx, invocation: &Invocation) -> Result<Option<Status>, Error> {
    Ok(lock(tx, &invocation.org, &invocation.id).await?.map(|row| row.status))
}

/// Checks the update of a row that this write has locked and read before, and which must therefore still be there.
pub(super) fn must(updated: Updated, invocation: &Invocation) -> Result<(), Error> {
    match updated {
        Updated::Done => Ok(()),
        Updated::NotFound => Err(Error::Corrupt { message: format!("`{}` changed while it was locked", invocation.id) }),
    }
}

/// Refuses a change of status that `Status::may_become` does not allow.
pub(super) fn legal(invocation: &Invocation, from: Status) -> Result<(), Error> {
    if from.may_become(invocation.status) {
        return Ok(());
    }
    Err(Error::Corrupt { message: format!("invocation `{}` is `{from}` and cannot become `{}`", invocation.id, invocation.status) })
}

/// For an invocation whose row exists already. That may be so for a part of a batch, which has its id before it begins: a server that was
/// considered gone comes back while another one goes on with its batch. The row then answers for both, like that of a taken key.
pub(super) fn begun_elsewhere(invocation: &Invocation) -> Result<Reservation, Error> {
    if invocation.batch.is_some() {
        return Ok(Reservation { invocation: invocation.id.clone(), raw: invocation.digests.raw });
    }
    Err(Error::Corrupt { message: format!("invocation `{}` exists already", invocation.id) })
}

pub(super) async fn append(tx: &mut Tx, invocation: &Invocation, draft: &EntryDraft) -> Result<u64, Error> {
    let (kind, id) = match &draft.id {
        EntryId::Intent(id) => (Kind::Intent, id.as_str()),
        EntryId::Receipt(id) => (Kind::Receipt, id.as_str()),
    };
    seal::append(tx, &invocation.org, seal::Draft { kind, id, invocation: Some(&invocation.id), body: &draft.body }).await
}
