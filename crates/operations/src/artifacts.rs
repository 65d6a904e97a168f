//! Artifacts: who may see them, and who gets their bytes. A link is signed and ends; it opens only for those who may read the artifact.

use super::{Error, must, must_be_person, must_read_session, sight};
use crate::App;
use countersign_core::artifact::{Artifact, Visibility};
use countersign_core::keyring::Keyring;
use countersign_core::ports::{Artifacts, Invocations};
use countersign_core::principal::Permission;
use countersign_core::{ArtifactId, Digest, Principal, RunId, SpaceId, Timestamp};
use std::collections::BTreeSet;
use store::{ArtifactFilter, Page, PageRequest, Private};

/// What the signature of a link is about.
const SIGNED: &str = "artifact_link";
const MICROS_PER_SECOND: i64 = 1_000_000;

/// A link that opens an artifact until it ends.
pub struct Link {
    pub path: String,
    pub expires_at: Timestamp,
}

pub async fn list(
    app: &App,
    by: &Principal,
    run: Option<&str>,
    invocation: Option<&str>,
    request: &PageRequest,
) -> Result<Page<Artifact>, Error> {
    // An agent sees what was made in its own session.
    let session = if by.may(Permission::Read) {
        None
    } else {
        must_read_session(by)?;
        Some(by.session.clone().ok_or(Error::UnknownSession)?)
    };
    let run = run.map(|text| RunId::parse(text).map_err(|_| Error::not_found("run", text))).transpose()?;
    let invocation = invocation.map(super::invocations::parse).transpose()?;
    let private = match (by.may(Permission::ManagePolicy), &by.owner) {
        (true, _) => Private::All,
        (false, Some(person)) => Private::Of(person.clone()),
        (false, None) => Private::None,
    };
    let hidden = sight::hidden(app, by).await?;
    let filter = ArtifactFilter { run, invocation, session, hidden, private };
    Ok(app.store().list_artifacts(&by.org, &filter, request).await?)
}

/// What is known of an artifact. One that they may not see does not exist for them.
pub async fn find(app: &App, by: &Principal, text: &str) -> Result<Artifact, Error> {
    let unknown = || Error::not_found("artifact", text);
    let id = ArtifactId::parse(text).map_err(|_| unknown())?;
    let found = app.store().find_artifact(&by.org, &id).await?.ok_or_else(unknown)?;
    // Of one in quarantine the row stays.
    let is_over = found.quarantined_at.is_none() && found.has_expired(app.store().now().await?);
    let is_there = !is_over && may_read(by, &found, &sight::hidden(app, by).await?);
    if is_there { Ok(found) } else { Err(unknown()) }
}

fn may_read(by: &Principal, artifact: &Artifact, hidden: &BTreeSet<SpaceId>) -> bool {
    let is_hidden = hidden.contains(&artifact.space);
    if by.may(Permission::ReadSession) && by.session.as_ref() == Some(&artifact.session) {
        return !is_hidden;
    }
    let is_own = || by.owner.is_some() && by.owner == artifact.owner;
    by.may(Permission::Read)
        && match artifact.visibility {
            Visibility::Shared => true,
            Visibility::Space => !is_hidden,
            Visibility::Private => !is_hidden && (is_own() || by.may(Permission::ManagePolicy)),
        }
}

/// Makes a link that opens the artifact for as many seconds.
pub async fn link(app: &App, by: &Principal, text: &str, seconds: u64) -> Result<Link, Error> {
    let artifact = find(app, by, text).await?;
    must_be_free(&artifact)?;
    let expires = app.store().now().await?.plus_seconds(seconds).as_micros() / MICROS_PER_SECOND;
    let signature = signature(app, &artifact, expires).await?;
    let path = format!("/artifacts/{}?expires={expires}&signature={signature}", artifact.id);
    Ok(Link { path, expires_at: ends(expires) })
}

/// The bytes of an artifact, for whoever opens a link of ours and may read it.
pub async fn open(app: &App, by: &Principal, text: &str, expires: i64, signed: &str) -> Result<(Artifact, Vec<u8>), Error> {
    let artifact = find(app, by, text).await?;
    let expected = signature(app, &artifact, expires).await?;
    // SECURITY: a link that is not ours says nothing, not even that there is such an artifact.
    if !Digest::parse(signed).is_some_and(|signed| expected.matches(&signed)) {
        return Err(Error::not_found("artifact", text));
    }
    if ends(expires) <= app.store().now().await? {
        return Err(Error::ArtifactLinkExpired { artifact: artifact.id });
    }
    must_be_free(&artifact)?;
    let bytes = app.pipeline().read_artifact(&artifact).await?;
    let gone = || Error::Absent { message: format!("the bytes of artifact `{}` are gone", artifact.id), listed_at: "artifacts" };
    let bytes = bytes.ok_or_else(gone)?;
    Ok((artifact, bytes))
}

/// Takes the bytes of an artifact away from everybody. What is known of it stays, with its digest.
pub async fn quarantine(app: &App, by: &Principal, text: &str) -> Result<Artifact, Error> {
    must(by, Permission::ManagePolicy)?;
    must_be_person(by, "puts an artifact into quarantine")?;
    let artifact = find(app, by, text).await?;
    let quarantined = app.store().quarantine_artifact(&by.org, &artifact.id, &by.id).await?;
    quarantined.ok_or_else(|| Error::not_found("artifact", text))
}

fn must_be_free(artifact: &Artifact) -> Result<(), Error> {
    match artifact.quarantined_at {
        None => Ok(()),
        Some(_) => Err(Error::ArtifactQuarantined { artifact: artifact.id.clone() }),
    }
}

/// A time in whole seconds, kept within what a time can be.
const fn ends(expires: i64) -> Timestamp {
    Timestamp::from_micros(expires.saturating_mul(MICROS_PER_SECOND))
}

/// Under the key of the artifact's space: whoever destroys that key ends its links.
async fn signature(app: &App, artifact: &Artifact, expires: i64) -> Result<Digest, Error> {
    let key = app.store().space_key(&artifact.org, &artifact.space).await?;
    Ok(key.digest(SIGNED, format!("{} {expires}", artifact.id).as_bytes()))
}
