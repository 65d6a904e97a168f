//! The keys in the database. They are sealed; one master key outside the database opens them.
//! SECURITY: a person who has the master key and the database has the receipt keys too; the docs say so.

mod cipher;
pub(crate) mod keychain;
mod master;
mod replace;

pub use master::{MasterKey, MasterKeyId};
pub use replace::{BegunReplacement, MasterKeyState};

use crate::Error;
use crate::db::{Columns, Db, Row, Tx, Val, only, vals};
use countersign_core::{OrgId, Secret, SpaceId, Timestamp};
pub(crate) use keychain::Keychain;
use keychain::{LiveSpaceKey, another_master_key};
use receipt::key::{PublicKey, SealingKey};
use std::sync::Arc;

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

impl Keychain {
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
