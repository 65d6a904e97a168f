//! Opens a connection for a call, and renews its tokens: one server at a time, which reads them once more under its lock, and keeps the new
//! ones before anybody uses them.

use super::{does_not_open, read_connection, read_sealed, select_connection};
use crate::db::{Tx, all, only, vals};
use crate::events::tell;
use crate::limits::SECRET_USED_SECONDS;
use crate::{Error, Store};
use countersign_core::limits::OAUTH_REFRESH_SECONDS;
use countersign_core::ports::connections::{Connection, ConnectionKind, ConnectionState, Locked, Need, OpenConnection};
use countersign_core::ports::secrets::SecretValue;
use countersign_core::ports::{KeptConnections, Secrets};
use countersign_core::{ConnectionId, Future, OrgId};
use serde_json::json;

const BY_ID: &str = concat!(select_connection!(), " AND id = $2");

impl KeptConnections for Store {
    fn open_connection<'a>(&'a self, org: &'a OrgId, connection: &'a ConnectionId) -> Future<'a, Result<Option<OpenConnection>, Error>> {
        Box::pin(async move {
            let rows = self.db.read(BY_ID, &vals![org.as_str(), connection.as_str()]).await?;
            let Some((connection, sealed)) = only(rows, read_sealed)? else {
                return Ok(None);
            };
            let opened = self.open_credential(org, &connection, sealed)?;
            let value = match (&connection.secret, opened) {
                (Some(secret), Some(named)) if named.expose() == secret.as_str() => self.resolve_secret(org, secret).await?,
                (Some(_), Some(_)) => return Err(does_not_open(&connection)),
                (Some(_), None) => None,
                (None, opened) => opened,
            };
            // A mail server that asks for no login is used too.
            let is_open = connection.kind == ConnectionKind::Smtp && connection.removed_at.is_none();
            if value.is_some() || is_open {
                self.note_connection_use(org, &connection).await?;
            }
            Ok(Some(OpenConnection { connection, value }))
        })
    }

    fn mail_connections<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Vec<Connection>, Error>> {
        Box::pin(async move {
            let sql = concat!(select_connection!(), " AND kind = 'smtp' AND removed_at IS NULL ORDER BY name");
            all(self.db.read(sql, &vals![org.as_str()]).await?, read_connection)
        })
    }

    fn lock_tokens<'a>(&'a self, org: &'a OrgId, connection: &'a ConnectionId, holder: &'a str) -> Future<'a, Result<Locked, Error>> {
        let (store, org, connection, holder) = (self.clone(), org.clone(), connection.clone(), holder.to_owned());
        Box::pin(self.db.write(org.clone(), move |tx| Box::pin(async move { lock(&store, tx, &org, &connection, &holder).await })))
    }

    fn keep_tokens<'a>(
        &'a self,
        org: &'a OrgId,
        connection: &'a ConnectionId,
        holder: &'a str,
        tokens: SecretValue,
    ) -> Future<'a, Result<bool, Error>> {
        let (store, org, connection, holder) = (self.clone(), org.clone(), connection.clone(), holder.to_owned());
        Box::pin(self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                let sql = concat!(select_connection!(), " AND id = $2 AND renewed_by = $3");
                let rows = tx.query_locked(sql, &vals![org.as_str(), connection.as_str(), holder.as_str()]).await?;
                let Some((connection, _)) = only(rows, read_sealed)? else {
                    return Ok(false);
                };
                let sealed = store.seal_credential(tx, &org, &connection, &tokens).await?;
                tx.exec(
                    "UPDATE connections SET sealed_credential = $1, renewed_by = NULL, renewed_until = NULL WHERE org_id = $2 AND id = $3",
                    &vals![sealed, org.as_str(), connection.id.as_str()],
                )
                .await?;
                Ok(true)
            })
        }))
    }

    fn unlock_tokens<'a>(&'a self, org: &'a OrgId, connection: &'a ConnectionId, holder: &'a str) -> Future<'a, Result<(), Error>> {
        let (org, connection, holder) = (org.clone(), connection.clone(), holder.to_owned());
        Box::pin(self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                let sql = "UPDATE connections SET renewed_by = NULL, renewed_until = NULL
                           WHERE org_id = $1 AND id = $2 AND renewed_by = $3";
                tx.exec(sql, &vals![org.as_str(), connection.as_str(), holder.as_str()]).await.map(|_| ())
            })
        }))
    }

    fn need_login<'a>(&'a self, org: &'a OrgId, connection: &'a ConnectionId, version: i64, need: Need) -> Future<'a, Result<(), Error>> {
        let (store, org, connection) = (self.clone(), org.clone(), connection.clone());
        Box::pin(
            self.db.write(org.clone(), move |tx| Box::pin(async move { note_need(&store, tx, &org, &connection, version, need).await })),
        )
    }
}

impl Store {
    /// Notes that a connection was used, at most once in `SECRET_USED_SECONDS`: a call should not pay for one more write.
    async fn note_connection_use(&self, org: &OrgId, connection: &Connection) -> Result<(), Error> {
        let now = self.db.clock().now();
        if connection.last_used_at.is_some_and(|before| now < before.plus_seconds(SECRET_USED_SECONDS)) {
            return Ok(());
        }
        let (org, connection) = (org.clone(), connection.id.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "UPDATE connections SET last_used_at = $1 WHERE org_id = $2 AND id = $3";
                    tx.exec(sql, &vals![tx.now(), org.as_str(), connection.as_str()]).await.map(|_| ())
                })
            })
            .await
    }
}

/// If two servers try at once, the second waits for the row's lock, checks the condition again, and finds it taken.
async fn lock(store: &Store, tx: &mut Tx, org: &OrgId, connection: &ConnectionId, holder: &str) -> Result<Locked, Error> {
    let now = tx.now();
    let taken = tx
        .exec(
            "UPDATE connections SET renewed_by = $1, renewed_until = $2
             WHERE org_id = $3 AND id = $4 AND removed_at IS NULL AND (renewed_until IS NULL OR renewed_until <= $5)",
            &vals![holder, now.plus_seconds(OAUTH_REFRESH_SECONDS), org.as_str(), connection.as_str(), now],
        )
        .await?;
    let rows = tx.query(BY_ID, &vals![org.as_str(), connection.as_str()]).await?;
    match only(rows, read_sealed)?.filter(|(connection, _)| connection.removed_at.is_none()) {
        None => Ok(Locked::Gone),
        Some(_) if taken == 0 => Ok(Locked::Taken),
        Some((connection, sealed)) => {
            let value = store.open_credential(org, &connection, sealed)?;
            Ok(Locked::Ours(Box::new(OpenConnection { connection, value })))
        }
    }
}

/// A login that succeeded meanwhile gave the connection another version: then nothing is needed any more.
async fn note_need(store: &Store, tx: &mut Tx, org: &OrgId, connection: &ConnectionId, version: i64, need: Need) -> Result<(), Error> {
    let (state, why, scopes) = match need {
        Need::Login { why } => (ConnectionState::NeedsLogin, why, None),
        Need::Scopes { why, scopes } => (ConnectionState::Ready, why, Some(scopes)),
    };
    let noted = tx
        .exec(
            "UPDATE connections SET state = $1, why = $2, scopes = coalesce($3, scopes), renewed_by = NULL, renewed_until = NULL
             WHERE org_id = $4 AND id = $5 AND version = $6 AND removed_at IS NULL",
            &vals![state.as_str(), why.as_str(), scopes, org.as_str(), connection.as_str(), version],
        )
        .await?;
    if noted == 0 {
        return Ok(());
    }
    let body = json!({ "connection": connection, "state": state, "why": why }).to_string();
    tell(store, tx, org, "connection.needs_login", connection.to_string(), body).await
}
