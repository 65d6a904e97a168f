//! The keys in memory. How they are read from the database and stored there says the module above.

use super::cipher::{open, seal};
use super::master::{MasterKey, MasterKeyId};
use crate::Error;
use countersign_core::keyring::{DoesNotOpen, SpaceKey};
use countersign_core::{Digest, OrgId, Random, Secret, SpaceId};
use hmac::{Hmac, Mac};
use parking_lot::RwLock;
use receipt::key::SealingKey;
use sha2::Sha256;
use std::collections::HashMap;
use std::sync::Arc;

/// The keys in use, opened once and kept in memory.
pub(crate) struct Keychain {
    /// The key this process was opened with, then those it has learned since: while the master key is replaced, values of two are read.
    pub(super) masters: RwLock<Vec<Arc<MasterKey>>>,
    pub(super) random: Arc<dyn Random>,
    /// What tokens are hashed with. It was derived from the first master key, and outlives it: hashes cannot be made anew.
    pub(super) pepper: RwLock<Secret<[u8; 32]>>,
    pub(super) signing: RwLock<HashMap<String, Arc<SealingKey>>>,
    /// Keyed by org too: the id of another org's space must find nothing, even if its key is in memory.
    pub(super) spaces: RwLock<HashMap<(OrgId, SpaceId), Arc<LiveSpaceKey>>>,
}

impl Keychain {
    pub(crate) fn new(master: MasterKey, next: Option<MasterKey>, random: Arc<dyn Random>) -> Self {
        let pepper = RwLock::new(master.pepper().clone());
        let masters = RwLock::new(std::iter::once(master).chain(next).map(Arc::new).collect());
        Self { masters, random, pepper, signing: RwLock::default(), spaces: RwLock::default() }
    }

    /// The stored form of a token. It is useless without the master key. A fast hash suffices, because tokens are random and long.
    pub(crate) fn token_hash(&self, token: &str) -> [u8; 32] {
        *blake3::keyed_hash(self.pepper.read().expose(), token.as_bytes()).as_bytes()
    }

    /// Says of a row that this product wrote it. Whoever has only the database cannot make one.
    pub(crate) fn row_mac(&self, row: &str) -> blake3::Hash {
        let key = Secret::new(blake3::derive_key("countersign 2026-11 row mac", self.pepper.read().expose()));
        blake3::keyed_hash(key.expose(), row.as_bytes())
    }

    /// Opens what one of the known master keys has sealed.
    pub(crate) fn open(&self, context: &str, sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let master = self.masters.read().iter().find(|master| master.has_sealed(sealed)).map(Arc::clone);
        master.ok_or(DoesNotOpen).and_then(|master| master.open(context, sealed)).map_err(|DoesNotOpen| another_master_key())
    }

    pub(crate) fn open_seed(&self, context: &str, sealed: &[u8]) -> Result<Secret<[u8; 32]>, Error> {
        let plain = Secret::new(self.open(context, sealed)?);
        let seed = <[u8; 32]>::try_from(plain.expose().as_slice());
        seed.map(Secret::new).map_err(|_| Error::Corrupt { message: "a stored key has the wrong length".into() })
    }

    pub(super) fn master(&self, id: MasterKeyId) -> Result<Arc<MasterKey>, Error> {
        self.masters.read().iter().find(|master| master.id() == id).map(Arc::clone).ok_or_else(another_master_key)
    }

    /// The ids of the master keys that this process has, in one text.
    pub(crate) fn master_ids(&self) -> String {
        self.masters.read().iter().map(|master| master.id().to_string()).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn random(&self) -> &dyn Random {
        &*self.random
    }
}

pub(super) fn another_master_key() -> Error {
    let message = "a stored key does not open: this database belongs to another master key, or the next one of a replacement is missing";
    Error::Corrupt { message: message.into() }
}

pub(crate) struct LiveSpaceKey {
    digesting: Secret<[u8; 32]>,
    sealing: Secret<[u8; 32]>,
    random: Arc<dyn Random>,
}

impl LiveSpaceKey {
    pub(super) fn new(secret: &Secret<[u8; 32]>, random: Arc<dyn Random>) -> Self {
        Self {
            digesting: Secret::new(blake3::derive_key("countersign 2026-11 space digests", secret.expose())),
            sealing: Secret::new(blake3::derive_key("countersign 2026-11 space sealing", secret.expose())),
            random,
        }
    }
}

impl SpaceKey for LiveSpaceKey {
    fn digest(&self, field: &str, value: &[u8]) -> Digest {
        // HMAC pads a key shorter than its block with zeros. We do it here, so that the key has a fixed length and cannot be rejected.
        let mut block = [0u8; 64];
        block[..32].copy_from_slice(self.digesting.expose());
        let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new(&block.into());
        // The length keeps `("ab", "c")` and `("a", "bc")` apart.
        mac.update(&(field.len() as u64).to_be_bytes());
        mac.update(field.as_bytes());
        mac.update(value);
        Digest::new(mac.finalize().into_bytes().into())
    }

    fn seal(&self, context: &str, plain: &[u8]) -> Vec<u8> {
        seal(self.sealing.expose(), &*self.random, context, plain)
    }

    fn open(&self, context: &str, sealed: &[u8]) -> Result<Vec<u8>, DoesNotOpen> {
        open(self.sealing.expose(), context, sealed)
    }
}
