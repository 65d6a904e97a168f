//! What a batch has appended to the audit logs so far, and the statements that it ends with.

use crate::db::values::{Statement, Val, vals};
use crate::keys::keychain::Keychain;
use crate::limits::CHECKPOINT_ENTRIES;
use countersign_core::{Digest, InvocationId, LogId, OrgId, Timestamp};
use receipt::checkpoint::Checkpoint;
use receipt::entry::Kind;
use receipt::key::SealingKey;
use receipt::tree::{CompleteTile, Frontier};
use std::collections::HashMap;
use std::sync::Arc;

/// The heads of the audit logs that a batch touched, and the entries it has appended so far.
pub(crate) struct Sealing {
    pub(super) keychain: Arc<Keychain>,
    pub(super) heads: HashMap<OrgId, Head>,
    pub(super) unsealed: Vec<Unsealed>,
    pub(super) tiles: Vec<(OrgId, CompleteTile)>,
    /// Statements deferred to the end of the batch; see `Tx::later`.
    pub(super) later: Vec<Statement>,
    /// Heads as they were before the writes of the batch changed them, in the order of the changes.
    pub(super) undo: Vec<(OrgId, Head)>,
    /// The length of `undo` at the last mark.
    pub(super) marked: usize,
    /// The last event of each org whose head the batch has changed; filled in when the closing statements are made.
    pub(super) last_events: Vec<(OrgId, i64)>,
}

#[derive(Clone)]
pub(super) struct Head {
    pub(super) log: LogId,
    pub(super) prev: Digest,
    pub(super) frontier: Frontier,
    pub(super) key: Arc<SealingKey>,
    pub(super) checkpoint_key: Arc<SealingKey>,
    /// The size of the log at the last checkpoint.
    pub(super) checkpointed: u64,
    pub(super) at: Timestamp,
    /// The version of the org's rules. It is kept here because every write that begins an effect compares it.
    pub(super) rules_version: i64,
    /// The position of the org's newest event. Events are numbered under the lock of their org, so no event becomes visible after one
    /// with a higher number.
    pub(super) last_event: i64,
    pub(super) changed: bool,
}

impl Head {
    pub(super) fn sign_checkpoint(&mut self) -> String {
        self.checkpointed = self.frontier.size();
        Checkpoint::new(&self.log, self.frontier.size(), self.frontier.root()).sign(&self.checkpoint_key)
    }
}

pub(super) struct Unsealed {
    pub(super) org: OrgId,
    pub(super) seq: u64,
    pub(super) kind: Kind,
    pub(super) id: String,
    pub(super) invocation: Option<InvocationId>,
    pub(super) payload: String,
    pub(super) leaf: Digest,
    pub(super) key: Arc<SealingKey>,
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

    /// The last statements of a batch, just before its commit: the deferred ones, the signed entries, and the new heads.
    pub(crate) fn closing(&mut self) -> Vec<Statement> {
        let mut statements = self.appended();
        statements.extend(self.heads());
        statements
    }

    /// The statements deferred so far, then the entries appended so far, now signed.
    pub(crate) fn appended(&mut self) -> Vec<Statement> {
        let unsealed = std::mem::take(&mut self.unsealed);
        let tiles = std::mem::take(&mut self.tiles);
        let mut statements = std::mem::take(&mut self.later);
        self.clear_undo();
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
    pub(crate) fn heads(&mut self) -> Vec<Statement> {
        let mut statements = Vec::new();
        let Self { heads, last_events, .. } = self;
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
}

pub(super) const INSERT_CHECKPOINT: &str = "INSERT INTO checkpoints (org_id, size, note, at) VALUES ($1, $2, $3, $4)";

pub(super) fn checkpoint_values(org: &OrgId, head: &Head, note: String) -> Vec<Val> {
    vals![org.as_str(), head.frontier.size() as i64, note, head.at].into()
}
