//! Checks the place of an entry: the right log, no gap, the digest of the entry before, and a time that does not run backwards.

use super::{Class, Finding, Head};
use crate::entry::{Header, NO_PREV, payload_digest};
use crate::tree::{self, Frontier};
use countersign_core::{Digest, LogId, Timestamp};

/// The entries read so far.
pub(super) struct Chain {
    log: LogId,
    prev: Digest,
    latest: Option<Timestamp>,
    frontier: Frontier,
    /// The root after each entry, because a checkpoint of any size may follow.
    roots: Vec<Digest>,
}

impl Chain {
    pub(super) const fn new(log: LogId) -> Self {
        Self { log, prev: NO_PREV, latest: None, frontier: Frontier::new(), roots: Vec::new() }
    }

    pub(super) const fn size(&self) -> u64 {
        self.frontier.size()
    }

    pub(super) fn head(&self) -> Option<Head> {
        let seq = self.size().checked_sub(1)?;
        Some(Head { seq, digest: self.prev, root: self.frontier.root() })
    }

    /// The root of the log at this size; absent if the log has not grown so far.
    pub(super) fn root_at(&self, size: u64) -> Option<Digest> {
        match size.checked_sub(1) {
            None => Some(tree::empty_root()),
            Some(last) => usize::try_from(last).ok().and_then(|last| self.roots.get(last)).copied(),
        }
    }

    pub(super) fn expects(&self, seq: u64) -> Result<(), Finding> {
        let expected = self.size();
        if seq < expected {
            return Err(Finding::new(Class::Duplicate, format!("seq {seq} stands in the log already")).at(seq));
        }
        if seq > expected {
            return Err(Finding::new(Class::DeletedEntry, format!("entry {expected} is missing: {seq} follows")).at(expected));
        }
        Ok(())
    }

    /// Whether a header was made for this place.
    pub(super) fn fits(&self, header: &Header, seq: u64) -> bool {
        header.log == self.log && header.seq == seq
    }

    pub(super) fn follows(&self, header: &Header) -> Result<(), Finding> {
        if header.log != self.log {
            return Err(Finding::new(Class::InsertedOrReordered, format!("the entry is of log `{}`", header.log)));
        }
        self.expects(header.seq)?;
        if header.prev != self.prev {
            return Err(Finding::new(Class::InsertedOrReordered, "the entry was made to follow another one"));
        }
        if let Some(latest) = self.latest.filter(|latest| header.at < *latest) {
            return Err(Finding::new(Class::TimeBackwards, format!("recorded at {}, after an entry of {latest}", header.at)));
        }
        // The clock is told only if it had been set back.
        match header.clock {
            Some(clock) if clock >= header.at => {
                Err(Finding::new(Class::TimeBackwards, format!("its clock said {clock}, which is not before {}", header.at)))
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn append(&mut self, header: &Header, payload: &str) {
        self.prev = payload_digest(payload);
        self.latest = Some(header.at);
        self.frontier.append(tree::leaf(payload));
        self.roots.push(self.frontier.root());
    }
}
