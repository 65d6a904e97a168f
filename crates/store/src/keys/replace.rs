//! Replaces the master key while servers work. The table `master_key` names the key that seals, and a sealed value begins with the id of its
//! key, so whoever has both keys reads everything at any moment. To begin is one write: it changes the name. What the key before it has
//! sealed is then sealed anew, a few values at a time; any server goes on with it, also after a crash.

use super::keychain::{Keychain, another_master_key};
use super::{MasterKey, MasterKeyId, PEPPER};
use crate::db::lease::gone_before;
use crate::db::{Columns, Row, Tx, all, count, only, vals};
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Store};
use countersign_core::{OrgId, PrincipalId, Secret, ServerId, Timestamp};
use receipt::body::IdentityChange;
use std::sync::Arc;

/// The most values that one write seals anew: no call waits long behind it.
const RESEALED_MAX: i64 = 100;

const SELECT_STATE: &str = "/* every org: they share the master key */ SELECT key_id, replaced_by, began_at, ended_at FROM master_key";

/// One kind of value that the master key seals, as its table, its columns and what it is sealed for.
struct Kind {
    table: &'static str,
    id: &'static str,
    context: &'static str,
    sealed: &'static str,
}

/// Everything that the master key seals, besides what tokens are hashed with. What is not here would be lost with the old key.
const KINDS: [Kind; 5] = [
    Kind { table: "keys", id: "key_id", context: "'signing:' || key_id", sealed: "sealed_secret" },
    Kind { table: "spaces", id: "id", context: "'space:' || id", sealed: "sealed_key" },
    Kind { table: "secrets", id: "id", context: "'secret:' || org_id || ':' || id || ':' || version", sealed: "sealed_value" },
    Kind {
        table: "connections",
        id: "id",
        context: "'connection:' || org_id || ':' || id || ':' || version || ':' || kind || ':' || coalesce(spaces, '*') || ':' || url",
        sealed: "sealed_credential",
    },
    Kind {
        table: "connection_logins",
        id: "connection_id",
        context: "'login:' || org_id || ':' || connection_id || ':' || state_hash",
        sealed: "sealed_login",
    },
];

impl Kind {
    /// The values that another key has sealed than the one whose id is `$1`.
    fn select(&self, columns: &str, rest: &str) -> String {
        let Self { table, sealed, .. } = self;
        format!("/* every org: they share the master key */ SELECT {columns} FROM {table} WHERE substr({sealed}, 1, 8) <> $1{rest}")
    }
}

/// The master key in use, and how its replacement stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterKeyState {
    /// The key under which everything is sealed that is sealed from now on.
    pub seals: MasterKeyId,
    /// Who began the last replacement; absent if there was none, or if it was made on the data folder, without a server.
    pub replaced_by: Option<PrincipalId>,
    pub began_at: Option<Timestamp>,
    /// From then on the key before it opens nothing.
    pub ended_at: Option<Timestamp>,
}

impl MasterKeyState {
    /// Whether a key before it may still seal something.
    pub const fn is_replacing(&self) -> bool {
        self.began_at.is_some() && self.ended_at.is_none()
    }
}

/// What became of a replacement to be begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BegunReplacement {
    Begun,
    /// The key seals already.
    Same,
    /// An earlier replacement has not ended.
    Running,
    /// These servers do not have the key: they could not read what is sealed under it.
    Missing(Vec<ServerId>),
}

impl Store {
    /// Makes this process able to open what `key` seals. Other servers learn that it is with the next renewal of the lease.
    pub fn learn_master_key(&self, key: MasterKey) {
        let mut masters = self.keychain.masters.write();
        if masters.iter().all(|known| known.id() != key.id()) {
            masters.push(Arc::new(key));
        }
    }

    /// Forgets every master key but this one, which has replaced them.
    pub fn keep_only_master_key(&self, id: MasterKeyId) {
        self.keychain.masters.write().retain(|known| known.id() == id);
    }

    /// Which master key seals, and how its replacement stands; `None` if nothing was ever sealed.
    pub async fn find_master_key(&self) -> Result<Option<MasterKeyState>, Error> {
        only(self.db.read(SELECT_STATE, &[]).await?, read_state)
    }

    /// Counts the values that are not sealed under this master key.
    pub async fn count_sealed_otherwise(&self, id: MasterKeyId) -> Result<u64, Error> {
        let mut left = 0;
        for kind in &KINDS {
            left += count(self.db.read(&kind.select("count(*)", ""), &vals![id.as_bytes().to_vec()]).await?)?;
        }
        Ok(left as u64)
    }

    /// Makes `next` the key that seals, from this write on. Refused if something opens under no key: it would be lost.
    pub async fn begin_replacement(&self, next: MasterKey, by: Option<&PrincipalId>) -> Result<BegunReplacement, Error> {
        self.learn_master_key(next.clone());
        self.check_sealed().await?;
        let (store, by) = (self.clone(), by.cloned());
        // The operators' org: its log says who replaced the key.
        match self.list_orgs().await?.into_iter().next() {
            Some(org) => {
                let org = org.id;
                self.db.write(org.clone(), move |tx| Box::pin(async move { begin(&store, tx, Some(&org), &next, by).await })).await
            }
            None => self.db.write_unscoped(move |tx| Box::pin(async move { begin(&store, tx, None, &next, by).await })).await,
        }
    }

    /// Goes on with a replacement: seals up to 100 values of one org anew, in one write. Returns how many; 0 when nothing is left.
    pub async fn reseal_some(&self) -> Result<u64, Error> {
        let Some(state) = self.find_master_key().await?.filter(MasterKeyState::is_replacing) else {
            return Ok(0);
        };
        let master = self.keychain.master(state.seals)?;
        for kind in &KINDS {
            let Kind { id, context, sealed, .. } = kind;
            let sql = kind.select(&format!("org_id, {id}, {context}, {sealed}"), " ORDER BY org_id LIMIT $2");
            let rows = self.db.read(&sql, &vals![state.seals.as_bytes().to_vec(), RESEALED_MAX]).await?;
            let values = all(rows, |row| Resealed::of(row, kind, &self.keychain, &master))?;
            if let Some(org) = values.first().map(|value| value.org.clone()) {
                return self.replace_values(kind, org, values).await;
            }
        }
        Ok(0)
    }

    /// Notes that the replacement by this key has ended, if nothing is left of it. Returns whether nothing is: from then on only this key is
    /// needed.
    pub async fn end_replacement(&self, by: MasterKeyId) -> Result<bool, Error> {
        if self.count_sealed_otherwise(by).await? > 0 {
            return Ok(false);
        }
        let sql = "/* every org: they share the master key */ UPDATE master_key SET ended_at = $1
                   WHERE key_id = $2 AND began_at IS NOT NULL AND ended_at IS NULL";
        let id = by.as_bytes().to_vec();
        self.db.write_unscoped(move |tx| Box::pin(async move { tx.exec(sql, &vals![tx.now(), id]).await.map(|_| true) })).await
    }

    /// Stores the values of this org, each unless it was changed meanwhile: whoever changed it has sealed it under the new key.
    async fn replace_values(&self, kind: &Kind, org: OrgId, values: Vec<Resealed>) -> Result<u64, Error> {
        let Kind { table, id, sealed, .. } = kind;
        let sql = format!("UPDATE {table} SET {sealed} = $1 WHERE org_id = $2 AND {id} = $3 AND {sealed} = $4");
        let values: Vec<_> = values.into_iter().filter(|value| value.org == org).collect();
        let resealed = values.len() as u64;
        self.db
            .write(org, move |tx| {
                Box::pin(async move {
                    for Resealed { org, id, before, after } in values {
                        tx.exec(&sql, &vals![after, org.as_str(), id, before]).await?;
                    }
                    Ok(resealed)
                })
            })
            .await
    }

    /// Opens everything once.
    async fn check_sealed(&self) -> Result<(), Error> {
        let mut snapshot = self.db.snapshot().await?;
        for Kind { table, id, context, sealed } in &KINDS {
            let sql = format!(
                "/* every org: they share the master key */ SELECT org_id, {id}, {context}, {sealed} FROM {table} WHERE {sealed} IS NOT NULL"
            );
            let mut each = |row: Row| Value::of(row)?.open(table, &self.keychain).map(|_| ());
            snapshot.scan(&sql, &mut each).await?;
        }
        Ok(())
    }
}

async fn begin(
    store: &Store,
    tx: &mut Tx,
    org: Option<&OrgId>,
    next: &MasterKey,
    by: Option<PrincipalId>,
) -> Result<BegunReplacement, Error> {
    // Locked for itself: whoever seals now is waited for, and nobody does until the commit.
    let mut found = only(tx.query_locked(SELECT_STATE, &[]).await?, read_state)?;
    if found.is_none() {
        store.keychain.sealing(tx).await?;
        found = only(tx.query(SELECT_STATE, &[]).await?, read_state)?;
    }
    let state = found.ok_or_else(another_master_key)?;
    if state.is_replacing() {
        return Ok(BegunReplacement::Running);
    }
    if state.seals == next.id() {
        return Ok(BegunReplacement::Same);
    }
    let missing = servers_without(tx, next.id()).await?;
    if !missing.is_empty() {
        return Ok(BegunReplacement::Missing(missing));
    }
    let pepper = store.keychain.pepper.read().clone();
    let sealed_pepper = next.seal(store.keychain.random(), PEPPER, pepper.expose());
    tx.exec(
        "/* every org: they share the master key */ UPDATE master_key SET key_id = $1, sealed_pepper = $2, replaced_by = $3, began_at = $4,
           ended_at = NULL",
        &vals![next.id().as_bytes().to_vec(), sealed_pepper, by.as_ref().map(ToString::to_string), tx.now()],
    )
    .await?;
    if let Some(org) = org {
        let told = RuleEvent { name: "master_key.replaced", key: org.to_string() };
        rule_log::record_identity(store, tx, org, by, IdentityChange::MasterKeyReplaced, told).await?;
    }
    Ok(BegunReplacement::Begun)
}

/// The live servers that have not said that they have the key. On SQLite there is this process alone, which has it.
async fn servers_without(tx: &mut Tx, key: MasterKeyId) -> Result<Vec<ServerId>, Error> {
    if !tx.is_postgres() {
        return Ok(Vec::new());
    }
    // No lease begins until the commit: a server that joins then finds the new key named, and does not start without it.
    tx.exec("/* every org: a server works for all of them */ LOCK TABLE servers IN SHARE MODE", &[]).await?;
    let sql = "/* every org: a server works for all of them */ SELECT id, opens FROM servers
               WHERE seen_at > $1 AND id <> $2 AND $3 NOT LIKE '%' || id || '%' ORDER BY started_at, id";
    let (own, earlier) = (tx.lease().id().to_string(), tx.lease().earlier());
    let servers = all(tx.query(sql, &vals![gone_before(tx.now()), own, earlier]).await?, |row| {
        let mut columns = Columns::of(row);
        Ok((columns.id()?, columns.text()?))
    })?;
    let key = key.to_string();
    Ok(servers.into_iter().filter(|(_, opens)| opens.split(' ').all(|known| known != key)).map(|(id, _)| id).collect())
}

/// A sealed value as it is stored.
struct Value {
    org: OrgId,
    id: String,
    context: String,
    sealed: Vec<u8>,
}

impl Value {
    fn of(row: Row) -> Result<Self, Error> {
        let mut columns = Columns::of(row);
        Ok(Self { org: columns.id()?, id: columns.text()?, context: columns.text()?, sealed: columns.bytes()? })
    }

    fn open(&self, table: &str, keychain: &Keychain) -> Result<Secret<Vec<u8>>, Error> {
        let Self { org, id, context, sealed } = self;
        keychain.open(context, sealed).map(Secret::new).map_err(|error| Error::Corrupt {
            message: format!("`{id}` in `{table}` of org `{org}` does not open, so the master key cannot be replaced: {error}"),
        })
    }
}

/// A value to be stored in place of the one before it.
struct Resealed {
    org: OrgId,
    id: String,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Resealed {
    fn of(row: Row, kind: &Kind, keychain: &Keychain, master: &MasterKey) -> Result<Self, Error> {
        let value = Value::of(row)?;
        let plain = value.open(kind.table, keychain)?;
        let after = master.seal(keychain.random(), &value.context, plain.expose());
        Ok(Self { org: value.org, id: value.id, before: value.sealed, after })
    }
}

fn read_state(row: Row) -> Result<MasterKeyState, Error> {
    let mut columns = Columns::of(row);
    Ok(MasterKeyState {
        seals: MasterKeyId::read(&columns.bytes()?)?,
        replaced_by: columns.parsed_or_null(PrincipalId::parse)?,
        began_at: columns.time_or_null()?,
        ended_at: columns.time_or_null()?,
    })
}
