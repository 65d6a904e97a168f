//! The port to the keys of a space, under which sensitive input is digested and sealed.

use crate::{Digest, Future, OrgId, SpaceId, ledger};
use std::sync::Arc;

/// A sealed value does not open: another key, another context, or tampering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a sealed value does not open under this space's key")]
pub struct DoesNotOpen;

/// The keys of one space. Destroying them makes everything sealed under them unreadable, and every digest under them useless.
pub trait SpaceKey: Send + Sync {
    /// HMAC-SHA-256 over `field` and `value`. A plain hash of guessable input could be found with a dictionary.
    fn digest(&self, field: &str, value: &[u8]) -> Digest;
    /// Encrypts; the same `context` is needed to open it.
    fn seal(&self, context: &str, plain: &[u8]) -> Vec<u8>;
    fn open(&self, context: &str, sealed: &[u8]) -> Result<Vec<u8>, DoesNotOpen>;
}

/// Finds a space's keys.
pub trait Keyring: Send + Sync {
    fn space_key<'a>(&'a self, org: &'a OrgId, space: &'a SpaceId) -> Future<'a, Result<Arc<dyn SpaceKey>, ledger::Error>>;
}
