//! What the audit log itself says about an invocation. Rows can be changed by whoever has the database; an entry cannot, because only the
//! master key opens the key that signs it.

use crate::db::{Columns, Row, vals};
use crate::keys::Keychain;
use crate::{Error, Store};
use countersign_core::ports::invocations::{SignedAnswer, SignedIntent};
use countersign_core::{InvocationId, LogId, OrgId, Secret};
use receipt::body::{Answer, AnswerBody, Body as _, IntentBody};
use receipt::entry::{Entry, Kind};
use receipt::key::SealingKey;

/// The entries of one kind of an invocation, with the key that signed each.
pub(super) const SELECT_SIGNED: &str = "SELECT e.seq, e.payload, e.signature, l.log_id, k.key_id, k.sealed_secret FROM entries e
     JOIN logs l ON l.org_id = e.org_id
     JOIN keys k ON k.org_id = e.org_id AND k.key_id = e.key_id AND k.purpose = 'receipt'
     WHERE e.org_id = $1 AND e.invocation_id = $2 AND e.kind = $3 ORDER BY e.seq";

impl Store {
    pub(super) async fn signed_answers(&self, org: &OrgId, invocation: &InvocationId) -> Result<Vec<SignedAnswer>, Error> {
        let rows = self.db.read(SELECT_SIGNED, &vals![org.as_str(), invocation.as_str(), Kind::Answer.as_str()]).await?;
        let bodies = rows.into_iter().map(|row| open(&self.keychain, row, Kind::Answer));
        let answers = bodies.filter_map(|entry| match entry {
            Ok(entry) => AnswerBody::read(&entry?.body).ok().map(Ok),
            Err(error) => Some(Err(error)),
        });
        answers
            .filter(|body| body.as_ref().map_or(true, |body| body.invocation_id == *invocation))
            .map(|body| {
                let AnswerBody { answer, beyond, binding, by, .. } = body?;
                Ok(SignedAnswer { by, approves: answer == Answer::Approve, binding, beyond })
            })
            .collect()
    }
}

impl Store {
    pub(super) async fn signed_intent(&self, org: &OrgId, invocation: &InvocationId) -> Result<Option<SignedIntent>, Error> {
        let rows = self.db.read(SELECT_SIGNED, &vals![org.as_str(), invocation.as_str(), Kind::Intent.as_str()]).await?;
        let Some(last) = rows.into_iter().last() else { return Ok(None) };
        let entry = open(&self.keychain, last, Kind::Intent)?;
        let intent = entry.and_then(|entry| IntentBody::read(&entry.body).ok()).filter(|intent| intent.invocation_id == *invocation);
        Ok(intent.map(|IntentBody { attempt, purpose, evidence, .. }| SignedIntent { attempt, purpose, evidence }))
    }
}

/// Reads an entry, if it is signed and stands where its row says.
pub(super) fn open(keychain: &Keychain, row: Row, kind: Kind) -> Result<Option<Entry>, Error> {
    let mut columns = Columns::of(row);
    let (seq, payload) = (columns.int()? as u64, columns.text()?);
    let signature = columns.bytes()?;
    let log: LogId = columns.id()?;
    let key_id = columns.text()?;
    let seed: Secret<[u8; 32]> = keychain.open_seed(&format!("signing:{key_id}"), &columns.bytes()?)?;
    let key = SealingKey::from_seed(&seed).public();
    let is_signed = <[u8; 64]>::try_from(signature.as_slice()).is_ok_and(|signature| {
        key.verify_strict(&receipt::envelope::pae(receipt::envelope::PAYLOAD_TYPE, payload.as_bytes()), &signature).is_ok()
    });
    let entry = Entry::parse(&payload)
        .ok()
        .filter(|entry| is_signed && (entry.header.seq, entry.header.kind, &entry.header.log) == (seq, kind, &log));
    if entry.is_none() {
        tracing::error!(seq, "an entry of the audit log is not what was signed: somebody has changed the database");
    }
    Ok(entry)
}
