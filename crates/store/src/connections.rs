//! Connections. A credential is sealed under the master key for exactly its org, its connection, its version, its spaces and the address it
//! is for, so that it opens in no other row and is sent nowhere else. Of one that a secret has, the name of the secret is sealed. `tokens` alone opens one; `logins` has what is needed while a person logs in.

mod logins;
mod tokens;

pub use logins::{Login, LoginEnd, TakenLogin};

use crate::db::{Columns, Row, Tx, Val, all, only, to_json, vals};
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::ports::connections::{Connection, ConnectionKind, ConnectionName, ConnectionState, OpenConnection};
use countersign_core::ports::secrets::{SecretName, SecretValue};
use countersign_core::{ConnectionId, OrgId, PrincipalId, Secret, SourceId, SpaceId, random_bytes};
use receipt::body::IdentityChange;
use std::collections::BTreeSet;

macro_rules! select_connection {
    () => {
        "SELECT id, name, kind, url, account, mail_from, secret, issuer, scopes, spaces, version, state, why, made_by, made_at, login_by, \
         login_at, last_used_at, removed_at, sealed_credential FROM connections WHERE org_id = $1"
    };
}
pub(crate) use select_connection;

/// Stands at a connection for which nobody has logged in.
const NO_LOGIN: &str = "nobody has logged in yet";

/// A connection to be made.
pub struct NewConnection {
    pub name: ConnectionName,
    pub kind: ConnectionKind,
    pub url: String,
    pub account: Option<String>,
    /// The address that mail comes from, for `smtp`.
    pub from: Option<String>,
    /// The secret that has the value, instead of `value`.
    pub secret: Option<SecretName>,
    pub scopes: Option<String>,
    pub spaces: Option<Vec<SpaceId>>,
    /// For OAuth: what is known of the client already, if anything.
    pub value: Option<SecretValue>,
}

/// What became of a connection to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreatedConnection {
    Created(Box<Connection>),
    /// Another connection has the name.
    Taken,
    /// There is no such secret.
    NoSecret,
}

/// What became of a connection to be removed.
pub enum RemovedConnection {
    /// With its credential once more, so that its tokens can be revoked where they came from.
    Done(Box<OpenConnection>),
    /// These sources use it.
    InUse(Vec<SourceId>),
}

impl Store {
    pub async fn create_connection(&self, org: &OrgId, new: NewConnection, by: &PrincipalId) -> Result<CreatedConnection, Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        self.db.write(org.clone(), move |tx| Box::pin(async move { create(&store, tx, &org, new, by).await })).await
    }

    /// Removes a connection that no source uses, and forgets its credential. The row stays, for receipts that name it. `None` if there is none
    /// with this name.
    pub async fn remove_connection(
        &self,
        org: &OrgId,
        name: &ConnectionName,
        by: &PrincipalId,
    ) -> Result<Option<RemovedConnection>, Error> {
        let (store, org, name, by) = (self.clone(), org.clone(), name.clone(), by.clone());
        self.db.write(org.clone(), move |tx| Box::pin(async move { remove(&store, tx, &org, &name, by).await })).await
    }

    pub async fn find_connection(&self, org: &OrgId, name: &ConnectionName) -> Result<Option<Connection>, Error> {
        let sql = concat!(select_connection!(), " AND name = $2 AND removed_at IS NULL");
        only(self.db.read(sql, &vals![org.as_str(), name.as_str()]).await?, read_connection)
    }

    /// Like `find_connection`, also for one that was removed.
    pub async fn find_connection_by_id(&self, org: &OrgId, connection: &ConnectionId) -> Result<Option<Connection>, Error> {
        let sql = concat!(select_connection!(), " AND id = $2");
        only(self.db.read(sql, &vals![org.as_str(), connection.as_str()]).await?, read_connection)
    }

    /// Lists connections by name, without those that were removed, and without those that are only for these spaces.
    pub async fn list_connections(
        &self,
        org: &OrgId,
        hidden: &BTreeSet<SpaceId>,
        request: &PageRequest,
    ) -> Result<Page<Connection>, Error> {
        let mut params = vals![org.as_str(), request.after.as_deref().unwrap_or_default()].to_vec();
        let mut sql = String::from(concat!(select_connection!(), " AND removed_at IS NULL AND name > $2"));
        if !hidden.is_empty() {
            // What is left of the list when these are taken out of it.
            let mut left = String::from("spaces");
            for space in hidden {
                params.push(Val::from(space.as_str()));
                left = format!("replace({left}, ${}, '')", params.len());
            }
            sql.push_str(&format!(" AND (spaces IS NULL OR {left} LIKE '%spc%')"));
        }
        params.push(Val::from(i64::from(request.limit) + 1));
        sql.push_str(&format!(" ORDER BY name LIMIT ${}", params.len()));
        let rows = self.db.read(&sql, &params).await?;
        page(rows, request.limit, read_connection, |connection| connection.name.to_string())
    }

    /// Opens the credential of a row. `None` if it has none.
    fn open_credential(&self, org: &OrgId, connection: &Connection, sealed: Option<Vec<u8>>) -> Result<Option<SecretValue>, Error> {
        let Some(sealed) = sealed else {
            return Ok(None);
        };
        let opened = self.keychain.open(&place(org, connection), &sealed).ok();
        let value = opened.and_then(|bytes| String::from_utf8(bytes).ok()).and_then(|text| SecretValue::new(Secret::new(text)));
        value.map(Some).ok_or_else(|| does_not_open(connection))
    }

    async fn seal_credential(&self, tx: &mut Tx, org: &OrgId, connection: &Connection, value: &SecretValue) -> Result<Vec<u8>, Error> {
        self.keychain.seal(tx, &place(org, connection), value.expose().as_bytes()).await
    }
}

fn does_not_open(connection: &Connection) -> Error {
    let Connection { name, .. } = connection;
    Error::Corrupt {
        message: format!("connection `{name}` does not open: its row was changed, or this database belongs to another master key"),
    }
}

/// What a credential is sealed for. Only the last part can contain the separator, so no two rows have the same.
fn place(org: &OrgId, connection: &Connection) -> String {
    let Connection { id, version, kind, spaces, url, .. } = connection;
    let spaces = spaces.as_ref().and_then(|spaces| to_json(spaces).ok()).unwrap_or_else(|| "*".to_owned());
    format!("connection:{org}:{id}:{version}:{}:{spaces}:{url}", kind.as_str())
}

async fn create(store: &Store, tx: &mut Tx, org: &OrgId, new: NewConnection, by: PrincipalId) -> Result<CreatedConnection, Error> {
    let NewConnection { name, kind, url, account, from, secret, scopes, spaces, value } = new;
    if find_locked(tx, org, &name).await?.is_some() {
        return Ok(CreatedConnection::Taken);
    }
    if let Some(secret) = &secret {
        // Locked, so that nobody deletes it meanwhile.
        let sql = "SELECT id FROM secrets WHERE org_id = $1 AND name = $2";
        if tx.query_locked(sql, &vals![org.as_str(), secret.as_str()]).await?.is_empty() {
            return Ok(CreatedConnection::NoSecret);
        }
    }
    let made_at = tx.now();
    let (state, why) = match kind {
        ConnectionKind::Bearer | ConnectionKind::Header | ConnectionKind::Basic | ConnectionKind::Smtp => (ConnectionState::Ready, None),
        ConnectionKind::Oauth => (ConnectionState::NeedsLogin, Some(NO_LOGIN.to_owned())),
    };
    let connection = Connection {
        id: ConnectionId::new(made_at, random_bytes(&*store.random)),
        name,
        kind,
        url,
        account,
        from,
        secret,
        issuer: None,
        scopes,
        spaces,
        version: 1,
        state,
        why,
        made_by: by.clone(),
        made_at,
        login_by: None,
        login_at: None,
        last_used_at: None,
        removed_at: None,
    };
    let named = connection.secret.as_ref().and_then(|secret| SecretValue::new(Secret::new(secret.to_string())));
    let sealed = match named.or(value) {
        Some(value) => Some(store.seal_credential(tx, org, &connection, &value).await?),
        None => None,
    };
    tx.exec(
        "INSERT INTO connections (org_id, id, name, kind, url, account, mail_from, secret, scopes, spaces, version, state, why, \
         sealed_credential, made_by, made_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
        &vals![
            org.as_str(),
            connection.id.as_str(),
            connection.name.as_str(),
            connection.kind.as_str(),
            connection.url.as_str(),
            connection.account.as_deref(),
            connection.from.as_deref(),
            connection.secret.as_ref().map(SecretName::as_str),
            connection.scopes.as_deref(),
            connection.spaces.as_ref().map(to_json).transpose()?,
            connection.version,
            connection.state.as_str(),
            connection.why.as_deref(),
            sealed,
            by.to_string(),
            made_at
        ],
    )
    .await?;
    let change = IdentityChange::ConnectionMade {
        connection: connection.id.clone(),
        name: connection.name.to_string(),
        kind: connection.kind,
        url: connection.url.clone(),
        from: connection.from.clone(),
        secret: connection.secret.as_ref().map(ToString::to_string),
        spaces: connection.spaces.clone(),
        version: connection.version,
    };
    let told = RuleEvent { name: "connection.made", key: connection.id.to_string() };
    rule_log::record_identity(store, tx, org, Some(by), change, told).await?;
    Ok(CreatedConnection::Created(Box::new(connection)))
}

async fn remove(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    name: &ConnectionName,
    by: PrincipalId,
) -> Result<Option<RemovedConnection>, Error> {
    let Some((before, sealed)) = find_locked(tx, org, name).await? else {
        return Ok(None);
    };
    let used = "SELECT id FROM sources WHERE org_id = $1 AND connection_id = $2 AND removed_at IS NULL ORDER BY id";
    let used_by = tx.query(used, &vals![org.as_str(), before.id.as_str()]).await?;
    let used_by = all(used_by, |row| Columns::of(row).parsed(|text| SourceId::parse(text).ok()))?;
    if !used_by.is_empty() {
        return Ok(Some(RemovedConnection::InUse(used_by)));
    }
    let connection = Connection { state: ConnectionState::Revoked, why: None, removed_at: Some(tx.now()), ..before };
    tx.exec(
        "UPDATE connections SET state = $1, why = NULL, sealed_credential = NULL, renewed_by = NULL, renewed_until = NULL, removed_at = $2
         WHERE org_id = $3 AND id = $4",
        &vals![connection.state.as_str(), tx.now(), org.as_str(), connection.id.as_str()],
    )
    .await?;
    let forget = "DELETE FROM connection_logins WHERE org_id = $1 AND connection_id = $2";
    tx.exec(forget, &vals![org.as_str(), connection.id.as_str()]).await?;
    let change = IdentityChange::ConnectionRemoved {
        connection: connection.id.clone(),
        name: connection.name.to_string(),
        version: connection.version,
    };
    let told = RuleEvent { name: "connection.removed", key: connection.id.to_string() };
    rule_log::record_identity(store, tx, org, Some(by), change, told).await?;
    // A credential that does not open cannot be revoked, and is removed all the same.
    let value = store.open_credential(org, &connection, sealed).unwrap_or_default();
    Ok(Some(RemovedConnection::Done(Box::new(OpenConnection { connection, value }))))
}

/// The connection with this name that was not removed, and its sealed credential.
async fn find_locked(tx: &mut Tx, org: &OrgId, name: &ConnectionName) -> Result<Option<(Connection, Option<Vec<u8>>)>, Error> {
    let sql = concat!(select_connection!(), " AND name = $2 AND removed_at IS NULL");
    only(tx.query_locked(sql, &vals![org.as_str(), name.as_str()]).await?, read_sealed)
}

fn read_connection(row: Row) -> Result<Connection, Error> {
    read_sealed(row).map(|(connection, _)| connection)
}

fn read_sealed(row: Row) -> Result<(Connection, Option<Vec<u8>>), Error> {
    let mut columns = Columns::of(row);
    let connection = Connection {
        id: columns.id()?,
        name: columns.parsed(ConnectionName::parse)?,
        kind: columns.parsed(ConnectionKind::parse)?,
        url: columns.text()?,
        account: columns.text_or_null()?,
        from: columns.text_or_null()?,
        secret: columns.parsed_or_null(SecretName::parse)?,
        issuer: columns.text_or_null()?,
        scopes: columns.text_or_null()?,
        spaces: columns.parsed_or_null(|text| serde_json::from_str(text).ok())?,
        version: columns.int()?,
        state: columns.parsed(ConnectionState::parse)?,
        why: columns.text_or_null()?,
        made_by: columns.parsed(PrincipalId::parse)?,
        made_at: columns.time()?,
        login_by: columns.parsed_or_null(PrincipalId::parse)?,
        login_at: columns.time_or_null()?,
        last_used_at: columns.time_or_null()?,
        removed_at: columns.time_or_null()?,
    };
    Ok((connection, columns.bytes_or_null()?))
}
