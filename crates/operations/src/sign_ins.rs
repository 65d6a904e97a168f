//! Sign-in at the issuer that the operator named. The issuer says who somebody is; the groups that it tells, and the operator's settings, say in
//! which role, up to the one that somebody here gave them. Whoever has no role from them does not come in, and roles are settled anew at every
//! sign-in.

use super::Error;
use crate::App;
use countersign_core::Secret;
use countersign_core::ports::Principals as _;
use sources::oauth::{Known, Own, Returned, SigningIn};
use std::net::IpAddr;
use store::{LetIn, Refused, SignedIn};

/// Where the issuer sends a person back to. It is registered there.
const CALLBACK_PATH: &str = "/login/oidc/callback";
/// What it is called in an error.
const SIGN_IN: &str = "sign-in";
/// What somebody is called of whom the issuer tells no name.
const NAMELESS: &str = "person";
/// Characters of the issuer's name for a person that are kept. There is room for what tells two of the same name apart.
const NAME_CHARS_MAX: usize = 48;

/// A person came back, and is logged in.
pub struct CameBack {
    /// What their browser shows from now on.
    pub login: Secret<String>,
    /// The page to go on with.
    pub next: Option<String>,
}

/// What people call the issuer; `None` if they log in with tokens only.
pub fn name(app: &App) -> Option<&str> {
    app.parts.sign_in.as_ref().map(|sign_in| sign_in.name.as_str())
}

/// Begins a sign-in in this browser, and returns the address that it goes to.
pub async fn start(app: &App, browser: &str, own: &Own, next: Option<&str>, from: IpAddr) -> Result<String, Error> {
    let sign_in = app.parts.sign_in.as_ref().ok_or_else(unknown)?;
    let now = app.parts.clock.now();
    app.sign_ins_begun().begin(from, now).map_err(|retry_after_ms| Error::TooManyLogins { retry_after_ms })?;
    super::must_be_enabled(app, &sign_in.org, SIGN_IN).await?;
    // Nothing is written for an issuer that nobody could be sent to.
    sign_in.client.find(now).await.map_err(failed(&sign_in.name))?;
    let redirect_uri = format!("{}{CALLBACK_PATH}", own.address());
    let open = app.store().start_sign_in(&sign_in.org, browser, &redirect_uri, next).await?;
    let asked = SigningIn { nonce: &open.nonce, verifier: &open.verifier, redirect_uri: &redirect_uri };
    sign_in.client.begin(&open.state, &asked, now).await.map_err(failed(&sign_in.name))
}

/// Ends the sign-in that the `state` belongs to, once, in the browser in which it began.
pub async fn end(app: &App, state: &str, browser: &str, returned: Returned, from: IpAddr) -> Result<CameBack, Error> {
    let sign_in = app.parts.sign_in.as_ref().ok_or_else(unknown)?;
    let now = app.parts.clock.now();
    super::must_be_enabled(app, &sign_in.org, SIGN_IN).await?;
    // A page of others can send a browser back with a state that it made up. That is no try: it would lock others of the same address out.
    let taken = app.store().take_sign_in(&sign_in.org, state, browser).await?.ok_or(Error::LoginUnknown)?;
    app.tries().begin(from, now).map_err(|retry_after_ms| Error::TooManyLogins { retry_after_ms })?;
    let asked = SigningIn { nonce: &taken.nonce, verifier: &taken.verifier, redirect_uri: &taken.redirect_uri };
    let Known { subject, name, groups } = sign_in.client.end(&asked, returned, now).await.map_err(failed(&sign_in.name))?;
    let refused = |why: String| Error::SignInRefused { why };
    let Some(role) = sign_in.role_of(&groups) else {
        tracing::warn!(groups = groups.len(), "somebody came from the issuer whose groups give no role here");
        return Err(refused(format!("none of your groups at {} gives you a role here", sign_in.name)));
    };
    let (issuer, name) = (sign_in.client.issuer().to_owned(), readable(name.as_deref().unwrap_or_default()));
    let token = match app.store().sign_in(&sign_in.org, LetIn { issuer, subject, name, role }).await? {
        SignedIn::Done(token) => token,
        SignedIn::Disabled => return Err(refused("you were disabled here, for good".to_owned())),
        SignedIn::LastOwner => {
            let why = format!("your groups at {} make you {}, and you are the last owner here", sign_in.name, role.with_article());
            return Err(refused(why));
        }
    };
    // Nobody bears the token if the org was disabled.
    let revoked = || Error::TokenRefused(Refused::Revoked);
    let person = app.store().find_bearer(&sign_in.org, &token).await?.ok_or_else(revoked)?;
    if person.role < Some(role) {
        tracing::info!(user = %person.id, groups_give = role.as_str(), "somebody signed in with a lower role than their groups give: nobody here gave it");
    }
    let login = app.store().log_in(&person).await?.ok_or_else(revoked)?;
    app.tries().succeeded(from);
    Ok(CameBack { login, next: taken.next })
}

fn unknown() -> Error {
    Error::not_found(SIGN_IN, "oidc")
}

/// SECURITY: whoever is not signed in reads nothing of it; the operator reads all of it.
fn failed(issuer: &str) -> impl FnOnce(countersign_core::source::Error) -> Error {
    move |error| {
        tracing::warn!(%error, "a sign-in at the issuer failed");
        Error::SignInFailed { issuer: issuer.to_owned() }
    }
}

/// What an issuer calls a person, in the characters that names have here.
fn readable(name: &str) -> String {
    let fits = |character: char| character.is_alphanumeric() || matches!(character, ' ' | '_' | '-' | '.' | '@');
    let kept: String = name.chars().filter(|character| fits(*character)).take(NAME_CHARS_MAX).collect();
    let kept = kept.trim();
    if kept.is_empty() { NAMELESS.to_owned() } else { kept.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_issuer_is_one_that_people_can_have_here() {
        for (told, kept) in [
            ("robin@example.com", "robin@example.com"),
            ("Zoë O'Neill", "Zoë ONeill"),
            ("  <b>robin</b>\n\u{202e} ", "brobinb"),
            ("", NAMELESS),
            ("<>\u{200b}", NAMELESS),
        ] {
            assert_eq!(readable(told), kept, "{told}");
            assert!(super::super::named(kept).is_ok());
        }
        assert_eq!(readable(&"x".repeat(1_000)).len(), NAME_CHARS_MAX);
    }
}
