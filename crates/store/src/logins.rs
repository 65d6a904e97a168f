//! Browsers. A person logs in with a token; the cookie that the browser shows from then on is kept as a hash, and is worth nothing once the
//! token is. And the links that answer one call, each with the browser that opened it first.

use crate::db::{Columns, Row, only, vals};
use crate::keys::Keychain;
use crate::limits::{LOGGED_IN_SECONDS, LOGGED_IN_SECONDS_MAX, LOGINS_PER_TOKEN_MAX};
use crate::tokens::draw_token;
use crate::{Error, Store};
use countersign_core::ports::Principals;
use countersign_core::{OrgId, Principal, Secret, Timestamp, TokenId};
use serde_json::json;

/// Where a link was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkOpened {
    Nowhere,
    /// In the browser that asks.
    Here,
    /// In another browser.
    Elsewhere,
}

/// What nobody changes in a login's row without the master key: whose browser it is, since when, and for how long.
struct Login {
    org: OrgId,
    hash: Vec<u8>,
    token: TokenId,
    created_at: Timestamp,
    expires_at: Timestamp,
}

impl Login {
    fn mac(&self, keychain: &Keychain) -> blake3::Hash {
        let Self { org, hash, token, created_at, expires_at } = self;
        keychain.row_mac(&json!(["login", org, hash, token, created_at, expires_at]).to_string())
    }
}

impl Store {
    /// Logs the bearer of a token in. Returns what the browser shows from now on, which is the only copy there will ever be; `None` if the
    /// token was revoked meanwhile, or has expired. Beyond a number of browsers for each token, the one that came first is logged out.
    pub async fn log_in(&self, by: &Principal) -> Result<Option<Secret<String>>, Error> {
        let Some(token) = by.token.clone() else {
            return Ok(None);
        };
        let (store, org, text) = (self.clone(), by.org.clone(), draw_token(&*self.random, "login"));
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let now = tx.now();
                    let live = "SELECT id FROM tokens WHERE org_id = $1 AND id = $2 AND revoked_at IS NULL
                                AND (expires_at IS NULL OR expires_at > $3)";
                    if tx.query(live, &vals![org.as_str(), token.as_str(), now]).await?.is_empty() {
                        return Ok(None);
                    }
                    tx.exec("DELETE FROM logins WHERE org_id = $1 AND expires_at <= $2", &vals![org.as_str(), now]).await?;
                    tx.exec(
                        "DELETE FROM logins WHERE org_id = $1 AND token_id = $2 AND hash NOT IN (
                           SELECT hash FROM logins WHERE org_id = $1 AND token_id = $2 ORDER BY created_at DESC, hash LIMIT $3
                         )",
                        &vals![org.as_str(), token.as_str(), LOGINS_PER_TOKEN_MAX - 1],
                    )
                    .await?;
                    let hash = store.keychain.token_hash(text.expose()).to_vec();
                    let login = Login { org, hash, token, created_at: now, expires_at: now.plus_seconds(LOGGED_IN_SECONDS) };
                    let mac = login.mac(&store.keychain).as_bytes().to_vec();
                    tx.exec(
                        "INSERT INTO logins (org_id, hash, token_id, created_at, expires_at, mac) VALUES ($1, $2, $3, $4, $5, $6)",
                        &vals![login.org.as_str(), login.hash, login.token.as_str(), login.created_at, login.expires_at, mac],
                    )
                    .await?;
                    Ok(Some(text))
                })
            })
            .await
    }

    /// The person who has logged in in the browser that shows this text, as the token they logged in with lets them act now.
    pub async fn find_logged_in(&self, text: &str) -> Result<Option<Principal>, Error> {
        let Some(login) = self.find_open_login(text).await? else {
            return Ok(None);
        };
        Principals::find_bearer(self, &login.org, &login.token).await
    }

    /// Extends the login of the browser that shows this text, if half of its time is over, up to the longest time that a login has. Returns
    /// whether it did.
    pub async fn extend_login(&self, text: &str) -> Result<bool, Error> {
        let Some(login) = self.find_open_login(text).await? else {
            return Ok(false);
        };
        let (now, before) = (self.db.now().await?, login.expires_at);
        let until = now.plus_seconds(LOGGED_IN_SECONDS).min(login.created_at.plus_seconds(LOGGED_IN_SECONDS_MAX));
        if before > now.plus_seconds(LOGGED_IN_SECONDS / 2) || until <= before {
            return Ok(false);
        }
        let login = Login { expires_at: until, ..login };
        let mac = login.mac(&self.keychain).as_bytes().to_vec();
        self.db
            .write(login.org.clone(), move |tx| {
                Box::pin(async move {
                    // Whoever has logged out meanwhile stays so.
                    let sql = "UPDATE logins SET expires_at = $1, mac = $2 WHERE org_id = $3 AND hash = $4 AND expires_at = $5";
                    let changed = tx.exec(sql, &vals![login.expires_at, mac, login.org.as_str(), login.hash, before]).await?;
                    Ok(changed > 0)
                })
            })
            .await
    }

    /// Ends the login of the browser that shows this text, if there is one.
    pub async fn log_out(&self, text: &str) -> Result<(), Error> {
        let Some((Login { org, hash, .. }, _)) = self.find_row_of_login(text).await? else {
            return Ok(());
        };
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "DELETE FROM logins WHERE org_id = $1 AND hash = $2";
                    tx.exec(sql, &vals![org.as_str(), hash]).await.map(|_| ())
                })
            })
            .await
    }

    /// The login that this text stands for, if its time is not over.
    async fn find_open_login(&self, text: &str) -> Result<Option<Login>, Error> {
        let Some((login, mac)) = self.find_row_of_login(text).await? else {
            return Ok(None);
        };
        // SECURITY: this comparison takes the same time wherever a difference lies.
        if login.mac(&self.keychain) != *mac {
            return Err(Error::Corrupt { message: format!("a login with token `{}` was changed in the database", login.token) });
        }
        Ok((login.expires_at > self.db.now().await?).then_some(login))
    }

    async fn find_row_of_login(&self, text: &str) -> Result<Option<(Login, Vec<u8>)>, Error> {
        let sql =
            "/* every org: the browser shows its login alone */ SELECT org_id, hash, token_id, created_at, expires_at, mac FROM logins
                   WHERE hash = $1";
        only(self.db.read(sql, &vals![self.keychain.token_hash(text).to_vec()]).await?, read_login)
    }

    /// Opens a link in a browser, unless another one has opened it. Returns whether it is open in this one.
    pub async fn bind_link(&self, org: &OrgId, link: &str, browser: &str, until: Timestamp) -> Result<bool, Error> {
        let (org, link, browser) = (org.clone(), self.keychain.token_hash(link).to_vec(), self.keychain.token_hash(browser).to_vec());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let now = tx.now();
                    tx.exec("DELETE FROM opened_links WHERE org_id = $1 AND expires_at <= $2", &vals![org.as_str(), now]).await?;
                    tx.exec(
                        "INSERT INTO opened_links (org_id, link, browser, opened_at, expires_at) VALUES ($1, $2, $3, $4, $5)
                         ON CONFLICT (org_id, link) DO NOTHING",
                        &vals![org.as_str(), link.clone(), browser.clone(), now, until],
                    )
                    .await?;
                    let first = "SELECT browser FROM opened_links WHERE org_id = $1 AND link = $2";
                    let first = only(tx.query(first, &vals![org.as_str(), link]).await?, |row| Columns::of(row).bytes())?;
                    Ok(first.is_some_and(|first| first == browser))
                })
            })
            .await
    }

    /// Where a link was opened, as seen from this browser.
    pub async fn find_opened_link(&self, org: &OrgId, link: &str, browser: &str) -> Result<LinkOpened, Error> {
        let sql = "SELECT browser FROM opened_links WHERE org_id = $1 AND link = $2";
        let rows = self.db.read(sql, &vals![org.as_str(), self.keychain.token_hash(link).to_vec()]).await?;
        let first = only(rows, |row| Columns::of(row).bytes())?;
        Ok(match first {
            None => LinkOpened::Nowhere,
            Some(first) if first == self.keychain.token_hash(browser) => LinkOpened::Here,
            Some(_) => LinkOpened::Elsewhere,
        })
    }
}

fn read_login(row: Row) -> Result<(Login, Vec<u8>), Error> {
    let mut columns = Columns::of(row);
    let (org, hash, token) = (columns.id()?, columns.bytes()?, columns.id()?);
    let login = Login { org, hash, token, created_at: columns.time()?, expires_at: columns.time()? };
    Ok((login, columns.bytes()?))
}
