//! Secrets. A value is sealed under the master key for exactly its org, its secret and its version, so that it opens in no other row.
//! `resolve_secret` alone opens one: every other function returns secrets without their values.

mod uses;

pub use uses::SecretUse;

use self::uses::USES;
use crate::db::{Columns, Row, Tx, only, vals};
use crate::limits::SECRET_USED_SECONDS;
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::ports::Secrets;
use countersign_core::ports::secrets::{SecretName, SecretValue};
use countersign_core::{Future, OrgId, PrincipalId, Secret, SecretId, Timestamp, random_bytes};
use receipt::body::IdentityChange;

macro_rules! select_secret {
    () => {
        "SELECT id, name, description, version, set_by, set_at, last_used_at FROM secrets WHERE org_id = $1"
    };
}

/// A secret without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSecret {
    pub id: SecretId,
    pub name: SecretName,
    pub description: Option<String>,
    /// 1 for the first value, and 1 more for each that replaced it.
    pub version: i64,
    /// Who set the present value.
    pub set_by: PrincipalId,
    pub set_at: Timestamp,
    /// When a call last used it, to the minute.
    pub last_used_at: Option<Timestamp>,
}

/// A value to be kept under a name.
pub struct NewSecret {
    pub name: SecretName,
    pub value: SecretValue,
    /// If it is absent, a secret that exists keeps the one it has.
    pub description: Option<String>,
    /// The version that the value replaces; absent for a secret that does not exist yet.
    pub replaces: Option<i64>,
}

/// What became of a value to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetSecret {
    Created(NamedSecret),
    Rotated(NamedSecret),
    /// A secret has the name, and none was to be replaced.
    Taken,
    /// There is no secret to replace.
    Missing,
    /// The secret has this version, not the one to be replaced.
    OtherVersion(i64),
}

/// What became of a secret to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletedSecret {
    Done,
    InUse(Vec<SecretUse>),
}

impl Store {
    /// Keeps a value: of a new secret, or in place of the version that the caller knows.
    pub async fn set_secret(&self, org: &OrgId, new: NewSecret, by: &PrincipalId) -> Result<SetSecret, Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let found = find_locked(tx, &org, &new.name).await?;
                    match (found, new.replaces) {
                        (None, None) => insert(&store, tx, &org, new, by).await.map(SetSecret::Created),
                        (Some(found), Some(version)) if found.version == version => {
                            rotate(&store, tx, &org, found, new, by).await.map(SetSecret::Rotated)
                        }
                        (Some(found), Some(_)) => Ok(SetSecret::OtherVersion(found.version)),
                        (Some(_), None) => Ok(SetSecret::Taken),
                        (None, Some(_)) => Ok(SetSecret::Missing),
                    }
                })
            })
            .await
    }

    /// Deletes a secret that nothing uses; `None` if there is none with this name.
    pub async fn delete_secret(&self, org: &OrgId, name: &SecretName, by: &PrincipalId) -> Result<Option<DeletedSecret>, Error> {
        let (store, org, name, by) = (self.clone(), org.clone(), name.clone(), by.clone());
        self.db.write(org.clone(), move |tx| Box::pin(async move { delete(&store, tx, &org, &name, by, USES).await })).await
    }

    pub async fn find_secret(&self, org: &OrgId, name: &SecretName) -> Result<Option<NamedSecret>, Error> {
        let sql = concat!(select_secret!(), " AND name = $2");
        only(self.db.read(sql, &vals![org.as_str(), name.as_str()]).await?, read_secret)
    }

    /// Lists secrets by name.
    pub async fn list_secrets(&self, org: &OrgId, request: &PageRequest) -> Result<Page<NamedSecret>, Error> {
        let sql = concat!(select_secret!(), " AND name > $2 ORDER BY name LIMIT $3");
        let after = request.after.as_deref().unwrap_or_default();
        let rows = self.db.read(sql, &vals![org.as_str(), after, i64::from(request.limit) + 1]).await?;
        page(rows, request.limit, read_secret, |secret| secret.name.to_string())
    }

    /// Lists everything that uses the secret with this name.
    pub async fn list_secret_uses(&self, org: &OrgId, name: &SecretName) -> Result<Vec<SecretUse>, Error> {
        let mut found = Vec::new();
        for &(kind, sql) in USES {
            for row in self.db.read(sql, &vals![org.as_str(), name.as_str()]).await? {
                found.push(SecretUse::read(kind, row)?);
            }
        }
        Ok(found)
    }

    /// Notes that a secret was used, at most once in `SECRET_USED_SECONDS`: a call should not pay for one more write.
    async fn note_use(&self, org: &OrgId, secret: SecretId, before: Option<Timestamp>) -> Result<(), Error> {
        let now = self.db.clock().now();
        if before.is_some_and(|before| now < before.plus_seconds(SECRET_USED_SECONDS)) {
            return Ok(());
        }
        let org = org.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "UPDATE secrets SET last_used_at = $1 WHERE org_id = $2 AND id = $3";
                    tx.exec(sql, &vals![tx.now(), org.as_str(), secret.as_str()]).await.map(|_| ())
                })
            })
            .await
    }
}

impl Secrets for Store {
    fn resolve_secret<'a>(&'a self, org: &'a OrgId, name: &'a SecretName) -> Future<'a, Result<Option<SecretValue>, Error>> {
        Box::pin(async move {
            let sql = "SELECT id, version, sealed_value, last_used_at FROM secrets WHERE org_id = $1 AND name = $2";
            let rows = self.db.read(sql, &vals![org.as_str(), name.as_str()]).await?;
            let Some(row) = rows.into_iter().next() else {
                return Ok(None);
            };
            let mut columns = Columns::of(row);
            let (secret, version): (SecretId, i64) = (columns.id()?, columns.int()?);
            let opened = self.keychain.open(&place(org, &secret, version), &columns.bytes()?).ok();
            let value = opened.and_then(|bytes| String::from_utf8(bytes).ok()).and_then(|text| SecretValue::new(Secret::new(text)));
            let value = value.ok_or_else(|| Error::Corrupt {
                message: format!("secret `{name}` does not open: its row was changed, or this database belongs to another master key"),
            })?;
            self.note_use(org, secret, columns.time_or_null()?).await?;
            Ok(Some(value))
        })
    }

    fn secret_version<'a>(&'a self, org: &'a OrgId, name: &'a SecretName) -> Future<'a, Result<Option<i64>, Error>> {
        Box::pin(async move {
            let sql = "SELECT version FROM secrets WHERE org_id = $1 AND name = $2";
            let params = vals![org.as_str(), name.as_str()];
            let version = self.db.read_remembered(org, sql, &params, |rows| only(rows, |row| Columns::of(row).int())).await?;
            Ok(*version)
        })
    }
}

/// What a value is sealed for. No part of it contains the separator, so no two rows have the same.
fn place(org: &OrgId, secret: &SecretId, version: i64) -> String {
    format!("secret:{org}:{secret}:{version}")
}

async fn sealed(store: &Store, tx: &mut Tx, org: &OrgId, secret: &NamedSecret, value: &SecretValue) -> Result<Vec<u8>, Error> {
    store.keychain.seal(tx, &place(org, &secret.id, secret.version), value.expose().as_bytes()).await
}

async fn find_locked(tx: &mut Tx, org: &OrgId, name: &SecretName) -> Result<Option<NamedSecret>, Error> {
    let sql = concat!(select_secret!(), " AND name = $2");
    only(tx.query_locked(sql, &vals![org.as_str(), name.as_str()]).await?, read_secret)
}

async fn insert(store: &Store, tx: &mut Tx, org: &OrgId, new: NewSecret, by: PrincipalId) -> Result<NamedSecret, Error> {
    let NewSecret { name, value, description, replaces: _ } = new;
    let set_at = tx.now();
    let id = SecretId::new(set_at, random_bytes(&*store.random));
    let secret = NamedSecret { id, name, description, version: 1, set_by: by.clone(), set_at, last_used_at: None };
    let sealed = sealed(store, tx, org, &secret, &value).await?;
    tx.exec(
        "INSERT INTO secrets (org_id, id, name, description, version, sealed_value, set_by, set_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &vals![
            org.as_str(),
            secret.id.as_str(),
            secret.name.as_str(),
            secret.description.as_deref(),
            secret.version,
            sealed,
            by.to_string(),
            set_at
        ],
    )
    .await?;
    let change = IdentityChange::SecretSet { secret: secret.id.clone(), name: secret.name.to_string(), version: secret.version };
    let told = RuleEvent { name: "secret.set", key: secret.id.to_string() };
    rule_log::record_identity(store, tx, org, Some(by), change, told).await?;
    Ok(secret)
}

async fn rotate(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    before: NamedSecret,
    new: NewSecret,
    by: PrincipalId,
) -> Result<NamedSecret, Error> {
    let description = new.description.or_else(|| before.description.clone());
    let secret = NamedSecret { description, version: before.version + 1, set_by: by.clone(), set_at: tx.now(), ..before };
    let sealed = sealed(store, tx, org, &secret, &new.value).await?;
    tx.exec(
        "UPDATE secrets SET description = $1, version = $2, sealed_value = $3, set_by = $4, set_at = $5 WHERE org_id = $6 AND id = $7",
        &vals![secret.description.as_deref(), secret.version, sealed, by.to_string(), secret.set_at, org.as_str(), secret.id.as_str()],
    )
    .await?;
    let change = IdentityChange::SecretRotated { secret: secret.id.clone(), name: secret.name.to_string(), version: secret.version };
    let told = RuleEvent { name: "secret.rotated", key: secret.id.to_string() };
    rule_log::record_identity(store, tx, org, Some(by), change, told).await?;
    Ok(secret)
}

async fn delete(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    name: &SecretName,
    by: PrincipalId,
    uses: &[uses::Query],
) -> Result<Option<DeletedSecret>, Error> {
    let Some(secret) = find_locked(tx, org, name).await? else {
        return Ok(None);
    };
    let mut used_by = Vec::new();
    for &(kind, sql) in uses {
        for row in tx.query(sql, &vals![org.as_str(), name.as_str()]).await? {
            used_by.push(SecretUse::read(kind, row)?);
        }
    }
    if !used_by.is_empty() {
        return Ok(Some(DeletedSecret::InUse(used_by)));
    }
    tx.exec("DELETE FROM secrets WHERE org_id = $1 AND id = $2", &vals![org.as_str(), secret.id.as_str()]).await?;
    let told = RuleEvent { name: "secret.deleted", key: secret.id.to_string() };
    let change = IdentityChange::SecretDeleted { secret: secret.id, name: secret.name.to_string(), version: secret.version };
    rule_log::record_identity(store, tx, org, Some(by), change, told).await?;
    Ok(Some(DeletedSecret::Done))
}

fn read_secret(row: Row) -> Result<NamedSecret, Error> {
    let mut columns = Columns::of(row);
    Ok(NamedSecret {
        id: columns.id()?,
        name: columns.parsed(SecretName::parse)?,
        description: columns.text_or_null()?,
        version: columns.int()?,
        set_by: columns.parsed(PrincipalId::parse)?,
        set_at: columns.time()?,
        last_used_at: columns.time_or_null()?,
    })
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
