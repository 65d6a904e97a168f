//! The keys in the database. They are sealed; one master key outside the database opens them.
//! SECURITY: a person who has the master key and the database has the receipt keys too; the docs say so.

mod master;
mod replace;

pub use master::{MasterKey, MasterKeyId};
pub use replace::{BegunReplacement, MasterKeyState};

use crate::Error;
use crate::db::{Columns, Db, Row, Tx, Val, only, vals};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use countersign_core::keyring::{DoesNotOpen, SpaceKey};
use countersign_core::{Digest, OrgId, Random, Secret, SpaceId, Timestamp};
use hmac::{Hmac, Mac};
use parking_lot::RwLock;
use receipt::key::{PublicKey, SealingKey};
use sha2::Sha256;
use std::collections::HashMap;
use std::sync::Arc;

const NONCE_BYTES: usize = 24;

/// What the pepper is sealed for.
const PEPPER: &str = "pepper";

const SELECT_SPACE_KEY: &str = "SELECT sealed_key FROM spaces WHERE org_id = $1 AND id = $2";

/// The purpose of a signing key. No key serves both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Receipt,
    Checkpoint,
}

impl Purpose {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Receipt => "receipt",
            Self::Checkpoint => "checkpoint",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Receipt, Self::Checkpoint].into_iter().find(|purpose| purpose.as_str() == text)
    }
}

/// A public key of an org's audit log, with the position of the first entry it signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogKey {
    pub key_id: String,
    pub purpose: Purpose,
    /// Base64 of the 32 bytes.
    pub public: String,
    pub starts_at_seq: u64,
    pub created_at: Timestamp,
    pub retired_at: Option<Timestamp>,
    /// When it was revoked, because someone else may have it.
    pub revoked_at: Option<Timestamp>,
}

/// The keys in use, opened once and kept in memory.
pub(crate) struct Keychain {
    /// The key this process was opened with, then those it has learned since: while the master key is replaced, values of two are read.
    masters: RwLock<Vec<Arc<MasterKey>>>,
    random: Arc<dyn Random>,
    /// What tokens are hashed with. It was derived from the first master key, and outlives it: hashes cannot be made anew.
    pepper: RwLock<Secret<[u8; 32]>>,
    signing: RwLock<HashMap<String, Arc<SealingKey>>>,
    /// Keyed by org too: the id of another org's space must find nothing, even if its key is in memory.
    spaces: RwLock<HashMap<(OrgId, SpaceId), Arc<LiveSpaceKey>>>,
}

impl Keychain {
    pub(crate) fn new(master: MasterKey, next: Option<MasterKey>, random: Arc<dyn Random>) -> Self {
        let pepper = RwLock::new(master.pepper().clone());
        let masters = RwLock::new(std::iter::once(master).chain(next).map(Arc::new).collect());
        Self { masters, random, pepper, signing: RwLock::default(), spaces: RwLock::default() }
    }

    /// Looks up which master key seals, and what tokens are hashed with; both must be known before the first token is looked at. Refuses a
    /// database whose master key is not here.
    pub(crate) async fn load(&self, db: &Db) -> Result<(), Error> {
        let rows = db.read("/* every org: they share the master key */ SELECT key_id, sealed_pepper FROM master_key", &[]).await?;
        let Some(row) = rows.into_iter().next() else {
            return Ok(());
        };
        let mut columns = Columns::of(row);
        self.master(MasterKeyId::read(&columns.bytes()?)?)?;
        if let Some(sealed) = columns.bytes_or_null()? {
            let pepper = self.open_seed(PEPPER, &sealed)?;
            *self.pepper.write() = pepper;
        }
        Ok(())
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

    /// Seals a value under the master key that the database names, in the write that stores it.
    pub(crate) async fn seal(&self, tx: &mut Tx, context: &str, plain: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.sealing(tx).await?.seal(self.random(), context, plain))
    }

    /// The master key that seals. Its name is locked until this write is committed: so when a replacement begins, everything that the key
    /// before it has sealed can be seen, and nothing is added to it.
    async fn sealing(&self, tx: &mut Tx) -> Result<Arc<MasterKey>, Error> {
        let named = if tx.is_postgres() {
            "/* every org: they share the master key */ SELECT key_id FROM master_key FOR SHARE"
        } else {
            "/* every org: they share the master key */ SELECT key_id FROM master_key"
        };
        let mut rows = tx.query(named, &[]).await?;
        if rows.is_empty() {
            // Nothing was sealed yet. Of two servers that come here at once, one names its key, and the other reads it.
            let own = self.masters.read().first().map(|master| master.id().as_bytes().to_vec());
            let sql = "/* every org: they share the master key */ INSERT INTO master_key (id, key_id) VALUES (1, $1)
                       ON CONFLICT (id) DO NOTHING";
            tx.exec(sql, &vals![own]).await?;
            rows = tx.query(named, &[]).await?;
        }
        let id = only(rows, |row| MasterKeyId::read(&Columns::of(row).bytes()?))?;
        self.master(id.ok_or_else(another_master_key)?)
    }

    fn master(&self, id: MasterKeyId) -> Result<Arc<MasterKey>, Error> {
        self.masters.read().iter().find(|master| master.id() == id).map(Arc::clone).ok_or_else(another_master_key)
    }

    /// The ids of the master keys that this process has, in one text.
    pub(crate) fn master_ids(&self) -> String {
        self.masters.read().iter().map(|master| master.id().to_string()).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn random(&self) -> &dyn Random {
        &*self.random
    }

    /// Makes a signing key and stores it sealed.
    pub(crate) async fn create_signing_key(
        &self,
        tx: &mut Tx,
        org: &OrgId,
        purpose: Purpose,
        starts_at_seq: u64,
    ) -> Result<PublicKey, Error> {
        let seed = Secret::new(countersign_core::random_bytes::<32>(self.random()));
        let key = SealingKey::from_seed(&seed);
        let public = key.public();
        let sealed = self.seal(tx, &format!("signing:{}", key.key_id()), seed.expose()).await?;
        tx.exec(
            "INSERT INTO keys (org_id, key_id, purpose, public, sealed_secret, starts_at_seq, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
            &vals![org.as_str(), key.key_id(), purpose.as_str(), public.to_base64(), sealed, starts_at_seq as i64, tx.now()],
        )
        .await?;
        Ok(public)
    }

    /// Finds the key by its id and opens it at its first use.
    pub(crate) async fn signing_key(&self, tx: &mut Tx, org: &OrgId, key_id: &str) -> Result<Arc<SealingKey>, Error> {
        if let Some(key) = self.signing.read().get(key_id) {
            return Ok(Arc::clone(key));
        }
        let rows = tx.query("SELECT sealed_secret FROM keys WHERE org_id = $1 AND key_id = $2", &vals![org.as_str(), key_id]).await?;
        let row = rows.into_iter().next().ok_or_else(|| Error::Corrupt { message: format!("signing key `{key_id}` is missing") })?;
        let seed = self.open_seed(&format!("signing:{key_id}"), &Columns::of(row).bytes()?)?;
        let key = Arc::new(SealingKey::from_seed(&seed));
        self.signing.write().insert(key_id.to_owned(), Arc::clone(&key));
        Ok(key)
    }

    /// Makes the key of a space, sealed.
    pub(crate) async fn new_space_key(&self, tx: &mut Tx, space: &SpaceId) -> Result<Vec<u8>, Error> {
        let secret = Secret::new(countersign_core::random_bytes::<32>(self.random()));
        self.seal(tx, &format!("space:{space}"), secret.expose()).await
    }

    pub(crate) async fn space_key(&self, db: &Db, org: &OrgId, space: &SpaceId) -> Result<Arc<LiveSpaceKey>, Error> {
        match self.opened_space_key(org, space) {
            Some(key) => Ok(key),
            None => self.open_space_key(org, space, db.read(SELECT_SPACE_KEY, &vals![org.as_str(), space.as_str()]).await?),
        }
    }

    /// The same, inside a write.
    pub(crate) async fn space_key_in(&self, tx: &mut Tx, org: &OrgId, space: &SpaceId) -> Result<Arc<LiveSpaceKey>, Error> {
        match self.opened_space_key(org, space) {
            Some(key) => Ok(key),
            None => self.open_space_key(org, space, tx.query(SELECT_SPACE_KEY, &vals![org.as_str(), space.as_str()]).await?),
        }
    }

    fn opened_space_key(&self, org: &OrgId, space: &SpaceId) -> Option<Arc<LiveSpaceKey>> {
        self.spaces.read().get(&(org.clone(), space.clone())).map(Arc::clone)
    }

    fn open_space_key(&self, org: &OrgId, space: &SpaceId, rows: Vec<Row>) -> Result<Arc<LiveSpaceKey>, Error> {
        let row = rows.into_iter().next().ok_or_else(|| Error::Corrupt { message: format!("space `{space}` has no key") })?;
        let secret = self.open_seed(&format!("space:{space}"), &Columns::of(row).bytes()?)?;
        let key = Arc::new(LiveSpaceKey::new(&secret, Arc::clone(&self.random)));
        self.spaces.write().insert((org.clone(), space.clone()), Arc::clone(&key));
        Ok(key)
    }
}

fn another_master_key() -> Error {
    let message = "a stored key does not open: this database belongs to another master key, or the next one of a replacement is missing";
    Error::Corrupt { message: message.into() }
}

pub(crate) struct LiveSpaceKey {
    digesting: Secret<[u8; 32]>,
    sealing: Secret<[u8; 32]>,
    random: Arc<dyn Random>,
}

impl LiveSpaceKey {
    fn new(secret: &Secret<[u8; 32]>, random: Arc<dyn Random>) -> Self {
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

fn seal(key: &[u8; 32], random: &dyn Random, context: &str, plain: &[u8]) -> Vec<u8> {
    let nonce = countersign_core::random_bytes::<NONCE_BYTES>(random);
    let cipher = XChaCha20Poly1305::new(key.into());
    // Encryption in memory fails only beyond 256 GiB. It then gives an empty text, which never opens, so the failure is noticed.
    let sealed = cipher.encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: context.as_bytes() }).unwrap_or_default();
    [nonce.as_slice(), &sealed].concat()
}

fn open(key: &[u8; 32], context: &str, sealed: &[u8]) -> Result<Vec<u8>, DoesNotOpen> {
    let (nonce, body) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(DoesNotOpen)?;
    let cipher = XChaCha20Poly1305::new(key.into());
    cipher.decrypt(&XNonce::from(*nonce), Payload { msg: body, aad: context.as_bytes() }).map_err(|_| DoesNotOpen)
}

pub(crate) async fn list(db: &Db, org: &OrgId) -> Result<Vec<LogKey>, Error> {
    let rows = db
        .read(
            "SELECT key_id, purpose, public, starts_at_seq, created_at, retired_at, revoked_at FROM keys WHERE org_id = $1
             ORDER BY starts_at_seq, purpose DESC",
            &vals![org.as_str()],
        )
        .await?;
    rows.into_iter()
        .map(|row: Vec<Val>| {
            let mut columns = Columns::of(row);
            Ok(LogKey {
                key_id: columns.text()?,
                purpose: columns.parsed(Purpose::parse)?,
                public: columns.text()?,
                starts_at_seq: columns.int()? as u64,
                created_at: columns.time()?,
                retired_at: columns.time_or_null()?,
                revoked_at: columns.time_or_null()?,
            })
        })
        .collect()
}
