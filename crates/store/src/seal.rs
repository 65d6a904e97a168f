//! Appends signed entries to an org's audit log, inside the transaction of the change they record.
//! An entry gets its position and its link in the chain while the batch runs. All entries of a batch are signed just before its commit
//! (`sealing`).

pub(crate) mod sealing;

use crate::Error;
use crate::db::{Columns, Tx, vals};
use countersign_core::{Digest, InvocationId, LogId, OrgId};
use receipt::entry::{Header, Kind};
use receipt::tree::Frontier;
use sealing::{Head, INSERT_CHECKPOINT, Sealing, Unsealed, checkpoint_values};
use std::sync::Arc;

/// An entry to append. `body` is canonical JSON.
pub(crate) struct Draft<'a> {
    pub(crate) kind: Kind,
    pub(crate) id: &'a str,
    pub(crate) invocation: Option<&'a InvocationId>,
    pub(crate) body: &'a str,
}

/// Starts an org's audit log. Its first entry, which names the keys, must follow in the same write.
pub(crate) async fn create_log(tx: &mut Tx, org: &OrgId, log: &LogId, key_id: &str, checkpoint_key_id: &str) -> Result<(), Error> {
    tx.exec(
        "INSERT INTO logs (org_id, log_id, size, prev, frontier, key_id, checkpoint_key_id, checkpointed, at, last_event) VALUES ($1, $2, 0, $3, $4, $5, $6, 0, $7, 0)",
        &vals![
            org.as_str(),
            log.as_str(),
            Digest::new([0; 32]).to_string(),
            Frontier::new().to_bytes(),
            key_id,
            checkpoint_key_id,
            tx.now()
        ],
    )
    .await?;
    Ok(())
}

/// Appends an entry to the org's audit log and returns its position. The entry is written when the batch commits.
pub(crate) async fn append(tx: &mut Tx, org: &OrgId, draft: Draft<'_>) -> Result<u64, Error> {
    let now = tx.now();
    let head = change_head(tx, org).await?;
    // Time in a log never runs backwards, even when the machine's clock does.
    head.at = head.at.max(now);
    let clock = (now < head.at).then_some(now);
    let seq = head.frontier.size();
    let header = Header { log: head.log.clone(), seq, prev: head.prev, kind: draft.kind, at: head.at, clock };
    let payload = receipt::entry::payload(&header, draft.body);
    let leaf = receipt::tree::leaf(&payload);
    head.prev = receipt::entry::payload_digest(&payload);
    let tiles = head.frontier.append(leaf);
    let entry = Unsealed {
        org: org.clone(),
        seq,
        kind: draft.kind,
        id: draft.id.to_owned(),
        invocation: draft.invocation.cloned(),
        payload,
        leaf,
        key: Arc::clone(&head.key),
    };
    tx.sealing.tiles.extend(tiles.into_iter().map(|tile| (org.clone(), tile)));
    tx.sealing.unsealed.push(entry);
    Ok(seq)
}

/// Makes the org's audit log use other keys from the next entry on. The entry that announces them must have been appended already.
pub(crate) async fn change_keys(tx: &mut Tx, org: &OrgId, key_id: &str, checkpoint_key_id: &str) -> Result<(), Error> {
    let keychain = Arc::clone(&tx.sealing.keychain);
    let key = keychain.signing_key(tx, org, key_id).await?;
    let checkpoint_key = keychain.signing_key(tx, org, checkpoint_key_id).await?;
    let head = change_head(tx, org).await?;
    (head.key, head.checkpoint_key) = (key, checkpoint_key);
    Ok(())
}

/// The version of the org's rules, as of this write.
pub(crate) async fn rules_version(tx: &mut Tx, org: &OrgId) -> Result<i64, Error> {
    Ok(head_of(tx, org).await?.rules_version)
}

/// Assigns the next rules version to a change of a rule. The version orders the change among all others of the org.
pub(crate) async fn next_rules_version(tx: &mut Tx, org: &OrgId) -> Result<i64, Error> {
    let head = change_head(tx, org).await?;
    head.rules_version += 1;
    let version = head.rules_version;
    tx.exec("UPDATE orgs SET rules_version = $1 WHERE org_id = $2", &vals![version, org.as_str()]).await?;
    Ok(version)
}

/// The position of the next event of the org.
pub(crate) async fn next_event(tx: &mut Tx, org: &OrgId) -> Result<i64, Error> {
    let head = change_head(tx, org).await?;
    head.last_event += 1;
    Ok(head.last_event)
}

/// The size the log will have when this batch commits.
pub(crate) async fn size(tx: &mut Tx, org: &OrgId) -> Result<u64, Error> {
    Ok(head_of(tx, org).await?.frontier.size())
}

/// Advances the time of the log to now, without an entry. A change of a rule after a call became pending must not be
/// recorded with a time before it, even if the clock is set back in between.
pub(crate) async fn advance(tx: &mut Tx, org: &OrgId) -> Result<(), Error> {
    let now = tx.now();
    let head = change_head(tx, org).await?;
    head.at = head.at.max(now);
    Ok(())
}

/// The ids of the keys in use: first the receipt key, then the checkpoint key.
pub(crate) async fn key_ids(tx: &mut Tx, org: &OrgId) -> Result<(String, String), Error> {
    let head = head_of(tx, org).await?;
    Ok((head.key.key_id().to_owned(), head.checkpoint_key.key_id().to_owned()))
}

/// Signs a checkpoint over everything so far, unless the last one covers it already.
pub(crate) async fn checkpoint(tx: &mut Tx, org: &OrgId) -> Result<(), Error> {
    let head = head_of(tx, org).await?;
    if head.checkpointed == head.frontier.size() {
        return Ok(());
    }
    let head = change_head(tx, org).await?;
    let note = head.sign_checkpoint();
    let values = checkpoint_values(org, head, note);
    tx.exec(INSERT_CHECKPOINT, &values).await.map(|_| ())
}

/// The head of the org's audit log, for this write to change. If the write fails, `undo_to` restores the head.
async fn change_head<'t>(tx: &'t mut Tx, org: &OrgId) -> Result<&'t mut Head, Error> {
    read_head(tx, org).await?;
    let Sealing { heads, undo, marked, .. } = &mut tx.sealing;
    let head = heads.get_mut(org).ok_or_else(|| no_log(org))?;
    if undo.iter().skip(*marked).all(|(changed, _)| changed != org) {
        undo.push((org.clone(), head.clone()));
    }
    head.changed = true;
    Ok(head)
}

async fn head_of<'t>(tx: &'t mut Tx, org: &OrgId) -> Result<&'t Head, Error> {
    read_head(tx, org).await?;
    tx.sealing.heads.get(org).ok_or_else(|| no_log(org))
}

/// Reads the head of the org's audit log, unless it is in memory already.
async fn read_head(tx: &mut Tx, org: &OrgId) -> Result<(), Error> {
    if tx.sealing.heads.contains_key(org) {
        return Ok(());
    }
    let rows = tx
        .query_for_batch(
            "SELECT log_id, size, prev, frontier, key_id, checkpoint_key_id, checkpointed, at, last_event,
               (SELECT rules_version FROM orgs WHERE orgs.org_id = logs.org_id)
             FROM logs WHERE org_id = $1",
            &vals![org.as_str()],
        )
        .await?;
    let mut columns = Columns::of(rows.into_iter().next().ok_or_else(|| no_log(org))?);
    let log = columns.id()?;
    let size = columns.int()? as u64;
    let prev = columns.parsed(Digest::parse)?;
    let frontier = Frontier::from_bytes(size, &columns.bytes()?)
        .ok_or_else(|| Error::Corrupt { message: format!("the tree of log `{log}` does not fit its size {size}") })?;
    let (key_id, checkpoint_key_id) = (columns.text()?, columns.text()?);
    let (checkpointed, at) = (columns.int()? as u64, columns.time()?);
    let (last_event, rules_version) = (columns.int()?, columns.int()?);
    let keychain = Arc::clone(&tx.sealing.keychain);
    let key = keychain.signing_key(tx, org, &key_id).await?;
    let checkpoint_key = keychain.signing_key(tx, org, &checkpoint_key_id).await?;
    let head = Head { log, prev, frontier, key, checkpoint_key, checkpointed, at, rules_version, last_event, changed: false };
    tx.sealing.heads.insert(org.clone(), head);
    Ok(())
}

fn no_log(org: &OrgId) -> Error {
    Error::Corrupt { message: format!("org `{org}` has no log") }
}
