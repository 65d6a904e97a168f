//! Consents: people give and withdraw their own consents.

use super::{Error, must, must_be_person, sight, sources, spaces, words};
use crate::App;
use crate::limits::CONSENT_SECONDS_MAX;
use countersign_core::consent::{Consent, in_our_words, is_purpose};
use countersign_core::principal::Permission;
use countersign_core::{ConsentId, Principal};
use store::{NewConsent, Page, PageRequest};

/// Lists everyone's consents for a person who manages people, and only their own for everybody else.
pub async fn list(app: &App, by: &Principal, request: &PageRequest) -> Result<Page<Consent>, Error> {
    must(by, Permission::Read)?;
    let own = by.owner.as_ref().filter(|_| by.role.is_some() && !by.may(Permission::ManageIdentity));
    let (spaces, sources) = (sight::hidden(app, by).await?, sources::hidden(app, by).await?);
    Ok(app.store().list_consents(&by.org, own, &spaces, &sources, request).await?)
}

pub async fn give(
    app: &App,
    by: &Principal,
    purpose: String,
    space: Option<&str>,
    evidence: Option<&str>,
    lifetime_seconds: Option<u64>,
) -> Result<Consent, Error> {
    let user = must_be_person(by, GIVES)?.clone();
    if !is_purpose(&purpose) {
        return Err(Error::invalid("`purpose` must be a kind and a name, such as `action:files.write_text`"));
    }
    let known = app.pipeline().known_purposes(&by.org).await?.without(&sources::hidden(app, by).await?);
    let purpose = Some(in_our_words(&purpose)).filter(|ours| known.contains(ours)).unwrap_or(purpose);
    if !known.contains(&purpose) {
        return Err(Error::UnknownPurpose { purpose, of_policies: known.of_policies });
    }
    if lifetime_seconds.is_some_and(|seconds| seconds > CONSENT_SECONDS_MAX) {
        return Err(Error::invalid(format!("`expires_in` is longer than {CONSENT_SECONDS_MAX} s")));
    }
    let evidence = words("evidence", evidence)?;
    let space = match space {
        Some(text) => Some(spaces::find(app, by, text).await?.id),
        None => None,
    };
    Ok(app.store().give_consent(&by.org, NewConsent { user, space, purpose, evidence, lifetime_seconds }).await?)
}

pub async fn withdraw(app: &App, by: &Principal, consent: &str) -> Result<Consent, Error> {
    let user = must_be_person(by, GIVES)?;
    let unknown = || Error::Absent { message: "you have no such live consent".to_owned(), listed_at: "consents" };
    let id = ConsentId::parse(consent).map_err(|_| unknown())?;
    let withdrawn = app.store().withdraw_consent(&by.org, &id, user).await?.ok_or_else(unknown)?;
    app.pipeline().end_void(&by.org, None).await;
    Ok(withdrawn)
}

const GIVES: &str = "gives or withdraws consent, and only their own";
