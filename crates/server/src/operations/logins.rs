//! Logins in a browser: a person shows a token once, and a cookie for a short time afterwards.

use super::{Error, must_be_person};
use crate::App;
use countersign_core::{Principal, Secret};
use std::net::IpAddr;
use store::Refused;

/// Logs a person in with their token. Returns what their browser shows from now on.
pub(crate) async fn log_in(app: &App, token: &str, from: IpAddr) -> Result<Secret<String>, Error> {
    let wait = |retry_after_ms| Error::TooManyLogins { retry_after_ms };
    app.tries().begin(from, app.parts.clock.now()).map_err(wait)?;
    let principal = app.store().authenticate(token).await?.map_err(Error::TokenRefused)?;
    must_be_person(&principal, "logs in")?;
    let login = app.store().log_in(&principal).await?.ok_or(Error::TokenRefused(Refused::Revoked))?;
    app.tries().succeeded(from);
    Ok(login)
}

/// The person who has logged in in the browser that shows this text; `None` if nobody has, or their login or their token has ended.
pub(crate) async fn find(app: &App, login: &str) -> Result<Option<Principal>, Error> {
    Ok(app.store().find_logged_in(login).await?)
}

/// Ends the login of the browser that shows this text.
pub(crate) async fn log_out(app: &App, login: &str) -> Result<(), Error> {
    Ok(app.store().log_out(login).await?)
}
