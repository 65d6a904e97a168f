//! Appends signed entries to an org's audit log, inside the transaction of the change they record.
//! An entry gets its position and its link in the chain while the batch runs. All entries of a batch are signed just before its commit.

use crate::Error;
use crate::db::{Columns, Statement, Tx, Val, vals};
use crate::keys::Keychain;
use crate::limits::CHECKPOINT_ENTRIES;
use countersign_core::{Digest, InvocationId, LogId, OrgId, Timestamp};
use receipt::checkpoint::Checkpoint;
use receipt::entry::{Header, Kind};
use receipt::key::SealingKey;
use receipt::tree::{CompleteTile, Frontier};
use std::collections::HashMap;
use std::sync::Arc;

/// The heads of the audit logs that a batch touched, and the entries it has appended so far.
pub(crate) struct Sealing {
    keychain: Arc<Keychain>,
    heads: HashMap<OrgId, Head>,
    unsealed: Vec<Unsealed>,
    tiles: Vec<(OrgId, CompleteTile)>,
    /// Statements deferred to the end of the batch; see `Tx::later`.
    later: Vec<Statement>,
    /// Heads as they were before the writes of the batch changed them, in the order of the changes.
    undo: Vec<(OrgId, Head)>,
    /// The length of `undo` at the last mark.
    marked: usize,
    /// The last event of each org whose head the batch has changed; filled in when the closing statements are made.
    last_events: Vec<(OrgId, i64)>,
}

#[derive(Clone)]
struct Head {
    log: LogId,
    prev: Digest,
    frontier: Frontier,
    key: Arc<SealingKey>,
    checkpoint_key: Arc<SealingKey>,
    /// The size of the log at the last checkpoint.
    checkpointed: u64,
    at: Timestamp,
    /// The version of the org's rules. It is kept here because every write that begins an effect compares it.
    rules_version: i64,
    /// The position of the org's newest event. Events are numbered under the lock of their org, so no event becomes visible after one
    /// with a higher number.
    last_event: i64,
    changed: bool,
}

impl Head {
    fn sign_checkpoint(&mut self) -> String {
        self.checkpointed = self.frontier.size();
        Checkpoint::new(&self.log, self.frontier.size(), self.frontier.root()).sign(&self.checkpoint_key)
    }
}

struct Unsealed {
    org: OrgId,
    seq: u64,
    kind: Kind,
    id: String,
    invocation: Option<InvocationId>,
    payload: String,
    leaf: Digest,
    key: Arc<SealingKey>,
}

/// The state at the start of a write, so that the write can be undone if it fails.
pub(crate) struct Mark {
    unsealed: usize,
    tiles: usize,
    later: usize,
    undo: usize,
}

impl Sealing {
    pub(crate) fn new(keychain: Arc<Keychain>) -> Self {
        Self {
            keychain,
            heads: HashMap::new(),
            unsealed: Vec::new(),
            tiles: Vec::new(),
            later: Vec::new(),
            undo: Vec::new(),
            marked: 0,
            last_events: Vec::new(),
        }
    }

    pub(crate) fn mark(&mut self) -> Mark {
        self.marked = self.undo.len();
        Mark { unsealed: self.unsealed.len(), tiles: self.tiles.len(), later: self.later.len(), undo: self.undo.len() }
    }

    pub(crate) fn undo_to(&mut self, mark: Mark) {
        self.unsealed.truncate(mark.unsealed);
        self.tiles.truncate(mark.tiles);
        self.later.truncate(mark.later);
        for (org, head) in self.undo.drain(mark.undo..).rev() {
            self.heads.insert(org, head);
        }
    }

    pub(crate) fn push_later(&mut self, sql: &'static str, params: Vec<Val>) {
        self.later.push((sql, params));
    }

    /// Drops everything that was not committed, and the heads, which are then read again from the database.
    pub(crate) fn forget(&mut self) {
        self.heads.clear();
        self.unsealed.clear();
        self.tiles.clear();
        self.later.clear();
        self.clear_undo();
        self.last_events.clear();
    }

    fn clear_undo(&mut self) {
        self.undo.clear();
        self.marked = 0;
    }

    /// The last event of each org whose head the batch has changed, to wake the callers who wait for events.
    pub(crate) fn take_last_events(&mut self) -> impl Iterator<Item = (OrgId, i64)> {
        std::mem::take(&mut self.last_events).into_iter()
    }
}

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

const INSERT_CHECKPOINT: &str = "INSERT INTO checkpoints (org_id, size, note, at) VALUES ($1, $2, $3, $4)";

fn checkpoint_values(org: &OrgId, head: &Head, note: String) -> Vec<Val> {
    vals![org.as_str(), head.frontier.size() as i64, note, head.at].into()
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

/// The last statements of a batch, just before its commit: the deferred ones, the signed entries, and the new heads.
pub(crate) fn closing(tx: &mut Tx) -> Vec<Statement> {
    let mut statements = appended(tx);
    statements.extend(heads(tx));
    statements
}

/// The statements deferred so far, then the entries appended so far, now signed.
pub(crate) fn appended(tx: &mut Tx) -> Vec<Statement> {
    let sealing = &mut tx.sealing;
    let unsealed = std::mem::take(&mut sealing.unsealed);
    let tiles = std::mem::take(&mut sealing.tiles);
    let mut statements = std::mem::take(&mut sealing.later);
    sealing.clear_undo();
    statements.reserve(unsealed.len() + tiles.len());
    for entry in unsealed {
        let signature = receipt::envelope::sign(&entry.key, &entry.payload);
        statements.push((
            "INSERT INTO entries (org_id, seq, kind, id, invocation_id, payload, leaf, key_id, signature) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            vals![
                entry.org.as_str(),
                entry.seq as i64,
                entry.kind.as_str(),
                entry.id,
                entry.invocation.as_ref().map(InvocationId::as_str),
                entry.payload,
                entry.leaf.as_bytes().to_vec(),
                entry.key.key_id(),
                signature.to_vec()
            ].into(),
        ));
    }
    for (org, tile) in tiles {
        statements.push((
            "INSERT INTO tree_nodes (org_id, level, position, hash) VALUES ($1, $2, $3, $4)",
            vals![org.as_str(), i64::from(tile.level), tile.position as i64, tile.hash.as_bytes().to_vec()].into(),
        ));
    }
    statements
}

/// The statements that write the new heads of the changed logs. They are made last: nothing of the batch may move a head after them.
pub(crate) fn heads(tx: &mut Tx) -> Vec<Statement> {
    let mut statements = Vec::new();
    let Sealing { heads, last_events, .. } = &mut tx.sealing;
    for (org, head) in heads {
        if std::mem::take(&mut head.changed) {
            if head.frontier.size() - head.checkpointed >= CHECKPOINT_ENTRIES {
                let note = head.sign_checkpoint();
                statements.push((INSERT_CHECKPOINT, checkpoint_values(org, head, note)));
            }
            last_events.push((org.clone(), head.last_event));
            statements.push((
                "UPDATE logs SET size = $1, prev = $2, frontier = $3, key_id = $4, checkpoint_key_id = $5, checkpointed = $6, at = $7, last_event = $8
                 WHERE org_id = $9",
                vals![
                    head.frontier.size() as i64,
                    head.prev.to_string(),
                    head.frontier.to_bytes(),
                    head.key.key_id(),
                    head.checkpoint_key.key_id(),
                    head.checkpointed as i64,
                    head.at,
                    head.last_event,
                    org.as_str()
                ].into(),
            ));
        }
    }
    statements
}
