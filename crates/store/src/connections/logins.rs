//! Logins: a person is sent to an authorization server and comes back with a `state`, which counts once and for a few minutes. What is needed
//! to end the login (the PKCE verifier, the client) is sealed for that state.

use super::{read_sealed, select_connection};
use crate::db::{Columns, Row, Tx, only, vals};
use crate::limits::LOGIN_SECONDS;
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Store};
use countersign_core::ports::connections::{Connection, ConnectionState};
use countersign_core::ports::secrets::SecretValue;
use countersign_core::{ConnectionId, OrgId, PrincipalId, Secret, Timestamp};
use receipt::body::IdentityChange;

/// How the last login of a connection stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    pub started_by: PrincipalId,
    pub started_at: Timestamp,
    pub expires_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// Why it failed, as a sentence.
    pub problem: Option<String>,
}

/// A login of which somebody came back. It is used up.
pub struct TakenLogin {
    pub org: OrgId,
    pub connection: ConnectionId,
    pub started_by: PrincipalId,
    pub expires_at: Timestamp,
    /// What was sealed when it was started.
    pub details: SecretValue,
    state_hash: String,
}

/// How a login ended.
pub enum LoginEnd {
    /// What is kept of it from now on, and who issued it.
    Granted {
        value: SecretValue,
        issuer: String,
    },
    Failed {
        problem: String,
    },
}

impl Store {
    /// Starts a login in place of an earlier one. Returns until when it can be ended; `None` if there is no such connection.
    pub async fn start_login(
        &self,
        org: &OrgId,
        connection: &ConnectionId,
        state: &Secret<String>,
        details: &SecretValue,
        by: &PrincipalId,
    ) -> Result<Option<Timestamp>, Error> {
        let state_hash = self.state_hash(state.expose());
        let context = place(org, connection, &state_hash);
        let (store, details) = (self.clone(), Secret::new(details.expose().to_owned()));
        let (org, connection, by) = (org.clone(), connection.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    if find_locked(tx, &org, &connection).await?.is_none() {
                        return Ok(None);
                    }
                    let sealed = store.keychain.seal(tx, &context, details.expose().as_bytes()).await?;
                    let expires_at = tx.now().plus_seconds(LOGIN_SECONDS);
                    tx.exec(
                        "INSERT INTO connection_logins (org_id, connection_id, state_hash, sealed_login, started_by, started_at, expires_at)
                         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (org_id, connection_id) DO UPDATE SET state_hash = excluded.state_hash,
                           sealed_login = excluded.sealed_login, started_by = excluded.started_by, started_at = excluded.started_at,
                           expires_at = excluded.expires_at, ended_at = NULL, problem = NULL",
                        &vals![
                            org.as_str(),
                            connection.as_str(),
                            state_hash,
                            sealed,
                            by.to_string(),
                            tx.now(),
                            expires_at
                        ],
                    )
                    .await?;
                    Ok(Some(expires_at))
                })
            })
            .await
    }

    /// The org of the login that this `state` belongs to.
    pub async fn find_org_of_login(&self, state: &str) -> Result<Option<OrgId>, Error> {
        let sql = "/* every org: whoever comes back has the state alone */ SELECT org_id FROM connection_logins WHERE state_hash = $1";
        only(self.db.read(sql, &vals![self.state_hash(state)]).await?, |row| Columns::of(row).id())
    }

    /// Takes the login that this `state` belongs to, once: whoever comes with it again finds none. It may have expired.
    pub async fn take_login(&self, org: &OrgId, state: &str) -> Result<Option<TakenLogin>, Error> {
        let (store, org, state_hash) = (self.clone(), org.clone(), self.state_hash(state));
        self.db.write(org.clone(), move |tx| Box::pin(async move { take(&store, tx, org, state_hash).await })).await
    }

    /// Ends a login that was taken. Returns whether the connection is still there.
    pub async fn end_login(&self, login: TakenLogin, end: LoginEnd) -> Result<bool, Error> {
        let store = self.clone();
        self.db.write(login.org.clone(), move |tx| Box::pin(async move { finish(&store, tx, login, end).await })).await
    }

    /// How the last login of the connection stands.
    pub async fn find_login(&self, org: &OrgId, connection: &ConnectionId) -> Result<Option<Login>, Error> {
        let sql =
            "SELECT started_by, started_at, expires_at, ended_at, problem FROM connection_logins WHERE org_id = $1 AND connection_id = $2";
        only(self.db.read(sql, &vals![org.as_str(), connection.as_str()]).await?, read_login)
    }

    fn state_hash(&self, state: &str) -> String {
        hex::encode(self.keychain.token_hash(state))
    }
}

/// What a login is sealed for. No part of it contains the separator.
fn place(org: &OrgId, connection: &ConnectionId, state_hash: &str) -> String {
    format!("login:{org}:{connection}:{state_hash}")
}

async fn take(store: &Store, tx: &mut Tx, org: OrgId, state_hash: String) -> Result<Option<TakenLogin>, Error> {
    let sql = "SELECT connection_id, started_by, expires_at, sealed_login FROM connection_logins
               WHERE org_id = $1 AND state_hash = $2 AND sealed_login IS NOT NULL";
    let rows = tx.query_locked(sql, &vals![org.as_str(), state_hash.as_str()]).await?;
    let Some(row) = rows.into_iter().next() else {
        return Ok(None);
    };
    let mut columns = Columns::of(row);
    let (connection, started_by): (ConnectionId, _) = (columns.id()?, columns.parsed(PrincipalId::parse)?);
    let expires_at = columns.time()?;
    let opened = store.keychain.open(&place(&org, &connection, &state_hash), &columns.bytes()?)?;
    let details = String::from_utf8(opened).ok().and_then(|text| SecretValue::new(Secret::new(text)));
    let details = details.ok_or_else(|| Error::Corrupt { message: "a login makes no sense".into() })?;
    let sql = "UPDATE connection_logins SET sealed_login = NULL WHERE org_id = $1 AND connection_id = $2";
    tx.exec(sql, &vals![org.as_str(), connection.as_str()]).await?;
    Ok(Some(TakenLogin { org, connection, started_by, expires_at, details, state_hash }))
}

async fn finish(store: &Store, tx: &mut Tx, login: TakenLogin, end: LoginEnd) -> Result<bool, Error> {
    let TakenLogin { org, connection, started_by, state_hash, .. } = login;
    let (granted, problem) = match end {
        LoginEnd::Granted { value, issuer } => (Some((value, issuer)), None),
        LoginEnd::Failed { problem } => (None, Some(problem)),
    };
    let Some(before) = find_locked(tx, &org, &connection).await? else {
        return Ok(false);
    };
    // Another login may have been started meanwhile: then its row is not this one's.
    tx.exec(
        "UPDATE connection_logins SET ended_at = $1, problem = $2 WHERE org_id = $3 AND connection_id = $4 AND state_hash = $5",
        &vals![tx.now(), problem, org.as_str(), connection.as_str(), state_hash],
    )
    .await?;
    let Some((value, issuer)) = granted else {
        return Ok(true);
    };
    let after = Connection { version: before.version + 1, ..before };
    let sealed = store.seal_credential(tx, &org, &after, &value).await?;
    tx.exec(
        "UPDATE connections SET sealed_credential = $1, version = $2, issuer = $3, state = $4, why = NULL, login_by = $5, login_at = $6,
           renewed_by = NULL, renewed_until = NULL WHERE org_id = $7 AND id = $8",
        &vals![
            sealed,
            after.version,
            issuer.as_str(),
            ConnectionState::Ready.as_str(),
            started_by.to_string(),
            tx.now(),
            org.as_str(),
            after.id.as_str()
        ],
    )
    .await?;
    let told = RuleEvent { name: "connection.logged_in", key: after.id.to_string() };
    let change = IdentityChange::ConnectionLoggedIn { connection: after.id, name: after.name.to_string(), issuer, version: after.version };
    rule_log::record_identity(store, tx, &org, Some(started_by), change, told).await?;
    Ok(true)
}

/// The connection, if it was not removed.
async fn find_locked(tx: &mut Tx, org: &OrgId, connection: &ConnectionId) -> Result<Option<Connection>, Error> {
    let sql = concat!(select_connection!(), " AND id = $2 AND removed_at IS NULL");
    Ok(only(tx.query_locked(sql, &vals![org.as_str(), connection.as_str()]).await?, read_sealed)?.map(|(connection, _)| connection))
}

fn read_login(row: Row) -> Result<Login, Error> {
    let mut columns = Columns::of(row);
    Ok(Login {
        started_by: columns.parsed(PrincipalId::parse)?,
        started_at: columns.time()?,
        expires_at: columns.time()?,
        ended_at: columns.time_or_null()?,
        problem: columns.text_or_null()?,
    })
}
