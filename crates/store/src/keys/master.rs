//! The master key. What it seals begins with its id, so that whoever has several knows which one opens it.

use super::cipher::{open, seal};
use crate::Error;
use countersign_core::keyring::DoesNotOpen;
use countersign_core::{Random, Secret};
use std::fmt;

const ID_BYTES: usize = 8;

/// Tells one master key from another, and nothing else of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MasterKeyId([u8; ID_BYTES]);

impl MasterKeyId {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let id = bytes.try_into().map_err(|_| Error::Corrupt { message: "the id of a master key has the wrong length".into() })?;
        Ok(Self(id))
    }

    pub(crate) const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for MasterKeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

/// The one secret that lives outside the database. While it is replaced there are two.
#[derive(Clone, Debug)]
pub struct MasterKey {
    id: MasterKeyId,
    pepper: Secret<[u8; 32]>,
    sealing: Secret<[u8; 32]>,
}

impl MasterKey {
    pub fn new(secret: &Secret<[u8; 32]>) -> Self {
        let id = blake3::derive_key("countersign 2026-11 master key id", secret.expose());
        Self {
            id: MasterKeyId(std::array::from_fn(|at| id[at])),
            pepper: Secret::new(blake3::derive_key("countersign 2026-11 token pepper", secret.expose())),
            sealing: Secret::new(blake3::derive_key("countersign 2026-11 key sealing", secret.expose())),
        }
    }

    pub const fn id(&self) -> MasterKeyId {
        self.id
    }

    /// What tokens are hashed with, until the first master key is replaced.
    pub(super) const fn pepper(&self) -> &Secret<[u8; 32]> {
        &self.pepper
    }

    pub(super) fn seal(&self, random: &dyn Random, context: &str, plain: &[u8]) -> Vec<u8> {
        [self.id.as_bytes(), &seal(self.sealing.expose(), random, context, plain)].concat()
    }

    /// Whether it is this key that has sealed the value.
    pub(super) fn has_sealed(&self, sealed: &[u8]) -> bool {
        sealed.starts_with(self.id.as_bytes())
    }

    pub(super) fn open(&self, context: &str, sealed: &[u8]) -> Result<Vec<u8>, DoesNotOpen> {
        let body = sealed.strip_prefix(self.id.as_bytes()).ok_or(DoesNotOpen)?;
        open(self.sealing.expose(), context, body)
    }
}
