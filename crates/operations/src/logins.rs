//! Logins in a browser: a person shows a token once, and a cookie for a short time afterwards.

use super::{Error, must_be_person, tokens};
use crate::App;
use api::identity::RedeemRequest;
use countersign_core::{Principal, Secret};
use std::net::IpAddr;
use store::Refused;

/// Logs a person in with their token. Returns what their browser shows from now on.
pub async fn log_in(app: &App, token: &str, from: IpAddr) -> Result<Secret<String>, Error> {
    let wait = |retry_after_ms| Error::TooManyLogins { retry_after_ms };
    app.tries().begin(from, app.parts.clock.now()).map_err(wait)?;
    let principal = app.store().authenticate(token).await?.map_err(Error::TokenRefused)?;
    must_be_person(&principal, "logs in")?;
    let login = app.store().log_in(&principal).await?.ok_or(Error::TokenRefused(Refused::Revoked))?;
    app.tries().succeeded(from);
    Ok(login)
}

/// Offers a login to whoever reads the terminal of the server, with the token of the data folder; `None` if that is not valid.
pub async fn offer(app: &App, token: &Secret<String>) -> Result<Option<Secret<String>>, Error> {
    let token = Secret::new(token.expose().trim().to_owned());
    if app.store().authenticate(token.expose()).await?.is_err() {
        return Ok(None);
    }
    Ok(Some(app.one_time_login().offer(token, &*app.parts.random, app.parts.clock.now())))
}

/// Logs in whoever shows the text that was offered; `None` if it is not that, was shown before, or its time is over.
pub async fn log_in_once(app: &App, text: &str, from: IpAddr) -> Result<Option<Secret<String>>, Error> {
    let now = app.parts.clock.now();
    app.tries().begin(from, now).map_err(|retry_after_ms| Error::TooManyLogins { retry_after_ms })?;
    let Some(token) = app.one_time_login().take(text, now) else { return Ok(None) };
    app.tries().succeeded(from);
    log_in(app, token.expose(), from).await.map(Some)
}

/// Redeems an invitation in a browser. Returns the token that the person keeps, and what their browser shows from now on.
pub async fn accept(app: &App, invitation: &str, from: IpAddr) -> Result<(Secret<String>, Secret<String>), Error> {
    app.tries().begin(from, app.parts.clock.now()).map_err(|retry_after_ms| Error::TooManyLogins { retry_after_ms })?;
    let request = RedeemRequest { invitation: invitation.to_owned(), name: None };
    let (_, token) = tokens::redeem(app, &request).await?.map_err(Error::TokenRefused)?;
    app.tries().succeeded(from);
    let login = log_in(app, token.text.expose(), from).await?;
    Ok((token.text, login))
}

/// The person who has logged in in the browser that shows this text; `None` if nobody has, or their login or their token has ended.
pub async fn find(app: &App, login: &str) -> Result<Option<Principal>, Error> {
    Ok(app.store().find_logged_in(login).await?)
}

/// Extends the login of the browser that shows this text, if it is time to. Returns whether it did.
pub async fn extend(app: &App, login: &str) -> Result<bool, Error> {
    Ok(app.store().extend_login(login).await?)
}

/// Ends the login of the browser that shows this text.
pub async fn log_out(app: &App, login: &str) -> Result<(), Error> {
    Ok(app.store().log_out(login).await?)
}
