//! Checks that the checkpoints agree with the entries: none is forged, of another log, or of more entries than there are.

use super::chain::Chain;
use super::keys::Keys;
use super::report::entries;
use super::{Class, Finding, shape};
use crate::Error;
use crate::checkpoint::{Checkpoint, SignedCheckpoint, origin};
use countersign_core::LogId;
use std::collections::BTreeSet;

/// The checkpoints read so far.
pub(super) struct Checkpoints {
    origin: String,
    /// Checkpoints of more entries than had been read when they came.
    ahead: Vec<SignedCheckpoint>,
    sizes: BTreeSet<u64>,
    checked: u64,
}

impl Checkpoints {
    pub(super) fn new(log: &LogId) -> Self {
        Self { origin: origin(log), ahead: Vec::new(), sizes: BTreeSet::new(), checked: 0 }
    }

    /// How many checkpoints were verified.
    pub(super) const fn checked(&self) -> u64 {
        self.checked
    }

    /// The size of the largest verified checkpoint.
    pub(super) fn covered(&self) -> Option<u64> {
        self.sizes.last().copied()
    }

    pub(super) fn check(&mut self, note: &str, chain: &Chain, keys: &Keys) -> Result<(), Finding> {
        let signed = Checkpoint::parse(note).map_err(shape)?;
        self.is_ours(&signed.checkpoint)?;
        if signed.checkpoint.size > chain.size() {
            self.ahead.push(signed);
            return Ok(());
        }
        self.holds(&signed, chain, keys)
    }

    /// Checks the checkpoints that came before their entries.
    pub(super) fn finish(&mut self, chain: &Chain, keys: &Keys) -> Result<(), Finding> {
        std::mem::take(&mut self.ahead).iter().try_for_each(|signed| self.holds(signed, chain, keys))
    }

    /// Checks a note that the reader kept. It is trusted over the bundle: a person with every key can rewrite the bundle, not the note.
    pub(super) fn check_retained(&mut self, note: &str, chain: &Chain, keys: &Keys) -> Result<(), Finding> {
        let unreadable = |error: Error| Finding::new(Class::Unreadable, format!("the retained checkpoint: {error}"));
        let signed = Checkpoint::parse(note).map_err(unreadable)?;
        let Checkpoint { size, root, .. } = signed.checkpoint;
        self.is_ours(&signed.checkpoint)?;
        let left = left(chain.size());
        match chain.root_at(size) {
            None => Err(forked(format!("the retained checkpoint is of {}, and {left}", entries(size)))),
            Some(found) if found != root => Err(forked(match size {
                1 => "the first entry is not that of the retained checkpoint".to_owned(),
                _ => format!("the first {size} entries are not those of the retained checkpoint"),
            })),
            Some(_) => {
                signed_by_log(&signed, keys)?;
                self.sizes.insert(size);
                Ok(())
            }
        }
    }

    fn is_ours(&self, checkpoint: &Checkpoint) -> Result<(), Finding> {
        if checkpoint.origin == self.origin {
            return Ok(());
        }
        Err(shape(Error::OtherOrigin { found: checkpoint.origin.clone(), expected: self.origin.clone() }))
    }

    fn holds(&mut self, signed: &SignedCheckpoint, chain: &Chain, keys: &Keys) -> Result<(), Finding> {
        let Checkpoint { size, root, .. } = signed.checkpoint;
        let by_log = signed_by_log(signed, keys);
        let Some(found) = chain.root_at(size) else {
            // The key it names may have been announced in one of the missing entries. A broken signature is reported in any case.
            by_log.or_else(|finding| if finding.is(Class::WrongKey) { Ok(()) } else { Err(finding) })?;
            let reason = format!("a checkpoint is of {}, and {}", entries(size), left(chain.size()));
            return Err(Finding::new(Class::TruncatedTail, reason).at(chain.size()));
        };
        by_log?;
        if found != root {
            return Err(if self.sizes.contains(&size) {
                forked(format!("two checkpoints of {} have different roots", entries(size)))
            } else {
                Finding::new(Class::ForgedRoot, format!("the checkpoint of {} has another root than what it covers", entries(size)))
            });
        }
        self.sizes.insert(size);
        self.checked += 1;
        Ok(())
    }
}

fn signed_by_log(signed: &SignedCheckpoint, keys: &Keys) -> Result<(), Finding> {
    let size = signed.checkpoint.size;
    let key = keys.checkpoint_at(size).ok_or_else(|| Finding::new(Class::WrongKey, "a checkpoint stands in a log without keys"))?;
    signed.verify(key).map_err(|error| {
        let finding = shape(error);
        // An edited note is not an edited entry: it forges the root.
        if finding.is(Class::EditedBody) {
            return Finding::new(Class::ForgedRoot, format!("the checkpoint of {} was changed after it was signed", entries(size)));
        }
        finding
    })
}

fn left(count: u64) -> String {
    if count == 1 { "1 is left".to_owned() } else { format!("{count} are left") }
}

fn forked(reason: String) -> Finding {
    Finding::new(Class::ForkOrRollback, reason)
}
