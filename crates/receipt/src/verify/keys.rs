//! Which key may sign which entry: first the pinned key, then each key that the log itself announces, signed by the key before.

use super::{Class, Finding, parse_seq, shape};
use crate::Error;
use crate::body::KeyBody;
use crate::envelope::Envelope;
use crate::key::PublicKey;
use std::collections::HashSet;

/// The keys announced so far.
pub(super) struct Keys {
    receipt: PublicKey,
    retired: HashSet<String>,
    revoked: HashSet<String>,
    /// Each with the seq of the entry that announced it, ascending.
    checkpoint: Vec<(u64, PublicKey)>,
}

impl Keys {
    pub(super) fn new(pinned: PublicKey) -> Self {
        Self { receipt: pinned, retired: HashSet::new(), revoked: HashSet::new(), checkpoint: Vec::new() }
    }

    /// Returns the payload, if the one key that may sign now has signed it.
    pub(super) fn open(&self, envelope: &Envelope) -> Result<String, Finding> {
        envelope.open(std::slice::from_ref(&self.receipt)).map_err(|error| {
            if let Error::UnknownKey { key_id } = &error { Finding::new(Class::WrongKey, self.why_not(key_id)) } else { shape(error) }
        })
    }

    /// Takes over the keys of a key entry, which the current key has signed.
    pub(super) fn announce(&mut self, seq: u64, body: &KeyBody) -> Result<(), Finding> {
        let wrong = |reason: String| Finding::new(Class::WrongKey, reason);
        let lax = |error: Error| Finding::new(Class::LaxSignature, error.to_string());
        let receipt = body.receipt_key.read().map_err(lax)?;
        let checkpoint = body.checkpoint_key.read().map_err(lax)?;
        let starts = parse_seq(&body.starts_at_seq)?;
        if seq == 0 {
            if receipt != self.receipt {
                return Err(wrong(format!("the log begins with key `{}`, not with the pinned one", receipt.key_id())));
            }
            if body.replaces.is_some() || starts != 0 {
                return Err(wrong("the first keys replace nothing and sign from seq 0".to_owned()));
            }
        } else {
            if body.replaces.as_deref() != Some(self.receipt.key_id()) {
                return Err(wrong(format!("the entry does not replace key `{}`", self.receipt.key_id())));
            }
            if starts != seq + 1 {
                return Err(wrong(format!("the new key is to sign from seq {starts}, not from the next one")));
            }
        }
        if receipt == checkpoint {
            return Err(wrong("one key signs both entries and checkpoints".to_owned()));
        }
        self.revoked.extend(body.revoked.iter().cloned());
        for key in [&receipt, &checkpoint] {
            if self.revoked.contains(key.key_id()) {
                return Err(wrong(format!("key `{}` is revoked", key.key_id())));
            }
        }
        self.retired.insert(self.receipt.key_id().to_owned());
        self.receipt = receipt;
        self.checkpoint.push((seq, checkpoint));
        Ok(())
    }

    /// The key that signs a checkpoint of `size` entries: the last one announced among them.
    pub(super) fn checkpoint_at(&self, size: u64) -> Option<&PublicKey> {
        let announced = self.checkpoint.partition_point(|(seq, _)| *seq < size);
        self.checkpoint.get(announced.saturating_sub(1)).map(|(_, key)| key)
    }

    fn why_not(&self, key_id: &str) -> String {
        let current = self.receipt.key_id();
        if self.revoked.contains(key_id) {
            format!("signed by key `{key_id}`, which is revoked")
        } else if self.retired.contains(key_id) {
            format!("signed by key `{key_id}`, which `{current}` has replaced")
        } else {
            format!("signed by key `{key_id}`, which is not the log's key `{current}`")
        }
    }
}
