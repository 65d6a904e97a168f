//! Renews the tokens of a connection, once for all servers: whoever has the lock in the database reads the tokens again, asks the
//! authorization server, and keeps the new tokens before anybody uses them. A refresh token that is used twice ends the login.

use super::{Connected, needs_login, not_ready, of_store};
use crate::limits::OAUTH_ANSWER_MS;
use crate::oauth::{self, Credential};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use countersign_core::ports::connections::{Connection, Locked, Need, OpenConnection};
use countersign_core::source::Error;
use countersign_core::{ConnectionId, OrgId, Secret, random_bytes};
use std::time::Duration;

/// How long a call waits before it looks again whether another one has renewed the tokens.
const PAUSE_MS: u64 = 100;
/// How often it looks: a little longer than the authorization server may take.
const LOOKS_MAX: u64 = OAUTH_ANSWER_MS / PAUSE_MS + 20;

/// How long it waits before it tries again to keep what was renewed, and how often.
const KEEP_PAUSE_MS: u64 = 500;
const KEEPS_MAX: u64 = OAUTH_ANSWER_MS / KEEP_PAUSE_MS;

impl Connected {
    /// Fresh tokens, other than those that were refused. The work goes on if the caller goes away: a refresh token that was sent is used up,
    /// so the answer must be kept.
    pub(super) async fn renewed(&self, org: &OrgId, connection: &Connection, refused: Option<Secret<String>>) -> Result<Credential, Error> {
        let (connected, org, connection) = (self.clone(), org.clone(), connection.id.clone());
        let task = tokio::spawn(async move { connected.renew(&org, &connection, refused).await });
        task.await.unwrap_or_else(|_| Err(busy("renewing its tokens broke off")))
    }

    async fn renew(&self, org: &OrgId, connection: &ConnectionId, refused: Option<Secret<String>>) -> Result<Credential, Error> {
        let holder = URL_SAFE_NO_PAD.encode(random_bytes::<16>(&*self.random));
        for _ in 0..LOOKS_MAX {
            match self.kept.lock_tokens(org, connection, &holder).await.map_err(|error| of_store(&error))? {
                Locked::Ours(opened) => return self.renew_locked(org, *opened, &holder, refused.as_ref()).await,
                Locked::Gone => return Err(not_ready(format!("connection `{connection}` was removed"))),
                Locked::Taken => tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await,
            }
        }
        Err(busy("another server is renewing its tokens"))
    }

    async fn renew_locked(
        &self,
        org: &OrgId,
        opened: OpenConnection,
        holder: &str,
        refused: Option<&Secret<String>>,
    ) -> Result<Credential, Error> {
        let OpenConnection { connection, value } = opened;
        let now = self.clock.now();
        let outcome = match value.as_ref().map(Credential::read).transpose() {
            Err(error) => Outcome::Failed(error),
            Ok(None) => Outcome::Over,
            Ok(Some(credential)) if is_good(&credential, refused, now) => Outcome::Good(credential),
            Ok(Some(credential)) => match oauth::renew(&self.fetch(), credential, now).await {
                Ok(Some(renewed)) => Outcome::Renewed(renewed),
                Ok(None) => Outcome::Over,
                Err(error) => Outcome::Failed(error),
            },
        };
        let store = |error: countersign_core::ports::Error| of_store(&error);
        match outcome {
            Outcome::Renewed(renewed) => {
                let is_kept = self.keep(org, &connection.id, holder, &renewed).await?;
                // The lock lasts longer than an answer may take, so this server was stopped in between, or a person logged in anew.
                if is_kept { Ok(renewed) } else { Err(busy("its tokens were replaced meanwhile")) }
            }
            Outcome::Over => {
                let why = "the authorization server no longer takes its login".to_owned();
                let ended = Connection { why: Some(why.clone()), ..connection };
                self.kept.need_login(org, &ended.id, ended.version, Need::Login { why }).await.map_err(store)?;
                Err(needs_login(&ended))
            }
            Outcome::Good(credential) => {
                self.kept.unlock_tokens(org, &connection.id, holder).await.map_err(store)?;
                Ok(credential)
            }
            Outcome::Failed(error) => {
                self.kept.unlock_tokens(org, &connection.id, holder).await.map_err(store)?;
                Err(error)
            }
        }
    }
}

impl Connected {
    /// What was renewed cannot be had again, so a store that is away for a moment is waited for, as long as the lock may last.
    async fn keep(&self, org: &OrgId, connection: &ConnectionId, holder: &str, renewed: &Credential) -> Result<bool, Error> {
        for _ in 0..KEEPS_MAX {
            match self.kept.keep_tokens(org, connection, holder, renewed.write()?).await {
                Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_millis(KEEP_PAUSE_MS)).await,
                kept => return kept.map_err(|error| of_store(&error)),
            }
        }
        Err(busy("the store is not available"))
    }
}

/// What there is to do with the lock.
enum Outcome {
    /// Another server has renewed them already.
    Good(Credential),
    Renewed(Credential),
    /// The login has ended: a person must log in.
    Over,
    Failed(Error),
}

fn is_good(credential: &Credential, refused: Option<&Secret<String>>, now: countersign_core::Timestamp) -> bool {
    credential
        .tokens
        .as_ref()
        .is_some_and(|tokens| tokens.is_fresh(now) && refused.is_none_or(|refused| refused.expose() != tokens.access.expose()))
}

fn busy(message: &str) -> Error {
    Error::Busy { source_id: "connection".to_owned(), message: message.to_owned(), retry_after_ms: None }
}
