//! Artifacts: what an action made is taken out of its answer and kept apart, where the action declares it (`Action::produces_artifacts`). A row
//! comes before its bytes and goes after them, so that no bytes are left that nobody knows of.

use super::ground::Walk;
use crate::limits::{ARTIFACTS_PER_CALL_MAX, ARTIFACTS_SWEPT_AT_ONCE, ARTIFACTS_SWEPT_MAX};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::artifact::{Artifact, ArtifactKind, ArtifactRetention, ArtifactSpec, Visibility, media_type_problem, name_problem};
use countersign_core::ledger::{self, NewArtifact};
use countersign_core::limits::ARTIFACT_BYTES_MAX;
use countersign_core::{ArtifactId, Digest, Invocation, InvocationId, OrgId, SessionId, SpaceId};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The member of a result that lists what was made.
pub(super) const MEMBER: &str = "artifacts";

/// Bytes to be kept, with what is said of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub name: String,
    pub media_type: String,
    pub retention: ArtifactRetention,
    pub visibility: Visibility,
    pub bytes: Vec<u8>,
}

/// One entry of the list: what can be kept, or why it cannot, with its name as far as it has one.
pub(super) type Entry = Result<Made, (Option<String>, String)>;

/// Takes the list of what was made out of an answer. `None` if it has none: then nothing is changed.
pub(super) fn take_out(answer: &mut Value, declared: &[ArtifactSpec]) -> Option<Vec<Entry>> {
    let object = answer.as_object_mut()?;
    if !object.get(MEMBER)?.is_array() {
        return None;
    }
    let Some(Value::Array(listed)) = object.remove(MEMBER) else { return None };
    Some(listed.into_iter().enumerate().map(|(at, entry)| read(at, &entry, declared)).collect())
}

fn read(at: usize, entry: &Value, declared: &[ArtifactSpec]) -> Entry {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    // A name that cannot be one, or would be redacted, is not repeated.
    let name = text("name").filter(|name| name_problem(name).is_none() && policy::redact_text(name) == **name);
    let refused = |why: String| (name.map(str::to_owned), why);
    if at >= ARTIFACTS_PER_CALL_MAX {
        return Err(refused(format!("a call makes at most {ARTIFACTS_PER_CALL_MAX} artifacts")));
    }
    let Some(name) = name else {
        let problem = name_problem(text("name").unwrap_or_default());
        return Err(refused(problem.unwrap_or_else(|| "its name holds what is redacted".to_owned())));
    };
    let media_type = text("media_type").unwrap_or("application/octet-stream");
    if let Some(problem) = media_type_problem(media_type) {
        return Err(refused(problem));
    }
    let kind = ArtifactKind::of_media_type(media_type);
    let Some(spec) = declared.iter().find(|spec| spec.kind == kind) else {
        return Err(refused(format!("the action declares no artifacts of the kind `{kind}`")));
    };
    let word = |key: &str, problem: &str| (entry.get(key).is_some(), text(key), format!("`{key}` is {problem}"));
    let retention = match word("retention", "transient, default or permanent") {
        (false, ..) => spec.retention,
        (true, said, problem) => said.and_then(ArtifactRetention::parse).ok_or_else(|| refused(problem))?,
    };
    let visibility = match word("visibility", "private, space or shared") {
        (false, ..) => spec.visibility,
        (true, said, problem) => said.and_then(Visibility::parse).ok_or_else(|| refused(problem))?,
    };
    let bytes = match (text("text"), text("base64")) {
        // What is text is redacted like the result that it was a part of.
        (Some(text), None) => policy::redact_text(text).into_bytes(),
        (None, Some(encoded)) => {
            STANDARD.decode(encoded).map_err(|_| refused("`base64` is not base64, as of RFC 4648 with padding".to_owned()))?
        }
        (Some(_), Some(_)) | (None, None) => return Err(refused("an artifact has either `text` or `base64`".to_owned())),
    };
    if bytes.len() > ARTIFACT_BYTES_MAX {
        return Err(refused(format!("it has {} bytes, and at most {ARTIFACT_BYTES_MAX} can be kept", bytes.len())));
    }
    Ok(Made { name: name.to_owned(), media_type: media_type.to_owned(), retention, visibility, bytes })
}

/// How a result refers to an artifact.
fn reference(artifact: &Artifact) -> Value {
    json!({
        "id": artifact.id,
        "name": artifact.name,
        "kind": artifact.kind,
        "media_type": artifact.media_type,
        "size_bytes": artifact.size,
        "sha256": artifact.sha256,
    })
}

impl Walk {
    /// Keeps what a call made, and says of each where it is. What could not be kept is named with the reason: the effect has happened, and
    /// stays one.
    pub(super) async fn keep_all(&self, invocation: &Invocation, made: Vec<Entry>) -> (Vec<Artifact>, Vec<Value>) {
        let (mut kept, mut listed) = (Vec::new(), Vec::with_capacity(made.len()));
        for entry in made {
            match entry {
                Ok(made) => {
                    let name = made.name.clone();
                    let whose = (&invocation.org, &invocation.space, &invocation.session);
                    match self.keep_artifact(whose, Some(&invocation.id), made).await {
                        Ok(artifact) => {
                            listed.push(reference(&artifact));
                            kept.push(artifact);
                        }
                        Err(error) => {
                            tracing::error!(%error, invocation = %invocation.id, "an artifact could not be kept");
                            listed.push(json!({ "name": name, "problem": "it could not be kept" }));
                        }
                    }
                }
                Err((name, problem)) => listed.push(json!({ "name": name, "problem": problem })),
            }
        }
        (kept, listed)
    }

    /// Whether there is a place for bytes.
    pub(crate) fn keeps_artifacts(&self) -> bool {
        self.inner.blobs.is_some()
    }

    /// Keeps bytes of a session, as the artifact of a call or of nothing but the session.
    pub(crate) async fn keep_artifact(
        &self,
        (org, space, session): (&OrgId, &SpaceId, &SessionId),
        invocation: Option<&InvocationId>,
        made: Made,
    ) -> Result<Artifact, ledger::Error> {
        let Made { name, media_type, retention, visibility, bytes } = made;
        let Some(blobs) = &self.inner.blobs else {
            return Err(ledger::Error::Unavailable { message: "this server keeps no artifacts".into() });
        };
        let new = NewArtifact {
            id: ArtifactId::new(self.now(), self.random_bytes()),
            org: org.clone(),
            space: space.clone(),
            session: session.clone(),
            invocation: invocation.cloned(),
            name,
            media_type,
            size: bytes.len() as u64,
            sha256: Digest::new(Sha256::digest(&bytes).into()),
            retention,
            visibility,
        };
        let artifact = self.ledger().add_artifact(new).await?;
        if let Err(error) = blobs.put(&artifact.key(), bytes).await {
            self.drop_artifacts(std::slice::from_ref(&artifact)).await;
            return Err(error);
        }
        Ok(artifact)
    }

    /// Removes artifacts that nobody is to get. What fails is left to the sweep.
    pub(crate) async fn drop_artifacts(&self, artifacts: &[Artifact]) {
        for artifact in artifacts {
            if let Err(error) = self.drop_artifact(artifact).await {
                tracing::warn!(%error, artifact = %artifact.id, "an artifact could not be removed; it goes when its time is over");
            }
        }
    }

    async fn drop_artifact(&self, artifact: &Artifact) -> Result<(), ledger::Error> {
        if let Some(blobs) = &self.inner.blobs {
            blobs.delete(&artifact.key()).await?;
        }
        self.ledger().forget_artifact(&artifact.org, &artifact.id).await
    }

    /// The bytes of an artifact; `None` if they are gone, or are no longer what they were when they were kept.
    pub(crate) async fn read_artifact(&self, artifact: &Artifact) -> Result<Option<Vec<u8>>, ledger::Error> {
        let Some(blobs) = &self.inner.blobs else { return Ok(None) };
        let found = blobs.get(&artifact.key()).await?;
        let is_same = |bytes: &Vec<u8>| Digest::new(Sha256::digest(bytes).into()) == artifact.sha256;
        if found.as_ref().is_some_and(|bytes| !is_same(bytes)) {
            tracing::error!(artifact = %artifact.id, "the bytes of an artifact are not those that were kept; nobody gets them");
        }
        Ok(found.filter(is_same))
    }

    /// Removes artifacts whose time is over, with their bytes. One that cannot be removed is left to the next sweep, and does not end this one.
    /// Returns how many were removed.
    pub(crate) async fn sweep_artifacts(&self, org: &OrgId) -> Result<u64, ledger::Error> {
        let (mut swept, mut left, mut after) = (0, 0, None::<ArtifactId>);
        for _ in 0..ARTIFACTS_SWEPT_MAX / ARTIFACTS_SWEPT_AT_ONCE {
            let expired = self.ledger().list_expired_artifacts(org, after.as_ref(), ARTIFACTS_SWEPT_AT_ONCE).await?;
            for artifact in &expired {
                match self.drop_artifact(artifact).await {
                    Ok(()) => swept += 1,
                    Err(error) => {
                        // Where one cannot be removed, thousands may be.
                        if left == 0 {
                            tracing::warn!(%error, %org, artifact = %artifact.id, "an artifact whose time is over could not be removed");
                        }
                        left += 1;
                    }
                }
            }
            after = expired.last().map(|last| last.id.clone());
            if expired.len() < ARTIFACTS_SWEPT_AT_ONCE as usize {
                break;
            }
        }
        if left > 0 {
            tracing::warn!(%org, artifacts = left, "artifacts whose time is over could not be removed; they are tried again");
        }
        Ok(swept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(mut answer: Value) -> (Value, Option<Vec<Entry>>) {
        let made = take_out(&mut answer, &[ArtifactKind::Document, ArtifactKind::Data].map(ArtifactSpec::of));
        (answer, made)
    }

    #[test]
    fn what_was_made_is_taken_out_and_the_rest_stays() {
        let (rest, made) = taken(json!({
            "pages": 2,
            "artifacts": [
                { "name": "report.pdf", "media_type": "application/pdf", "base64": "AAEC", "retention": "permanent", "visibility": "private" },
                { "name": "notes.txt", "text": "the token is ghp_0123456789abcdefghijklmnopqrstuvwxyz" },
            ],
        }));
        assert_eq!(rest, json!({ "pages": 2 }));
        let made: Vec<_> = made.unwrap().into_iter().map(Result::unwrap).collect();
        assert_eq!(
            (made[0].bytes.as_slice(), made[0].retention, made[0].visibility),
            (&[0, 1, 2][..], ArtifactRetention::Permanent, Visibility::Private)
        );
        assert_eq!(
            (made[1].media_type.as_str(), made[1].retention, made[1].visibility),
            ("application/octet-stream", ArtifactRetention::Default, Visibility::Space)
        );
        assert!(!String::from_utf8(made[1].bytes.clone()).unwrap().contains("ghp_"), "a text is redacted like the result");
    }

    #[test]
    fn what_cannot_be_kept_says_why() {
        for (entry, why) in [
            (json!({ "text": "x" }), "a name has"),
            (json!({ "name": "../x", "text": "x" }), "a name has"),
            (json!({ "name": "ghp_0123456789abcdefghijklmnopqrstuvwxyz", "text": "x" }), "redacted"),
            (json!({ "name": "x", "text": "x", "media_type": "text/plain\r\nx: y" }), "a media type"),
            (json!({ "name": "x" }), "either"),
            (json!({ "name": "x", "text": "x", "base64": "AA==" }), "either"),
            (json!({ "name": "x", "base64": "no base64!" }), "RFC 4648"),
            (json!({ "name": "x", "text": "x", "retention": "for ever" }), "`retention`"),
            (json!({ "name": "x", "text": "x", "visibility": 7 }), "`visibility`"),
            (json!({ "name": "x", "text": "x".repeat(ARTIFACT_BYTES_MAX + 1) }), "at most"),
            (json!("x"), "a name has"),
        ] {
            let (_, made) = taken(json!({ "artifacts": [entry] }));
            let (_, problem) = made.unwrap().remove(0).unwrap_err();
            assert!(problem.contains(why), "{problem}");
        }
        let many = vec![json!({ "name": "x", "text": "x" }); ARTIFACTS_PER_CALL_MAX + 1];
        let (_, made) = taken(json!({ "artifacts": many }));
        assert_eq!(made.unwrap().iter().filter(|entry| entry.is_err()).count(), 1);
    }

    #[test]
    fn what_is_not_said_of_an_artifact_is_what_the_action_declares_of_its_kind() {
        let private = ArtifactSpec { kind: ArtifactKind::Image, retention: ArtifactRetention::Transient, visibility: Visibility::Private };
        let mut answer = json!({ "artifacts": [
            { "name": "a.png", "media_type": "image/png", "base64": "AAEC" },
            { "name": "b.png", "media_type": "image/png", "base64": "AAEC", "retention": "permanent" },
            { "name": "c.pdf", "media_type": "application/pdf", "base64": "AAEC" },
        ] });
        let made = take_out(&mut answer, &[private, ArtifactSpec::of(ArtifactKind::Data)]).unwrap();
        let kept: Vec<_> = made.iter().flatten().map(|made| (made.name.as_str(), made.retention, made.visibility)).collect();
        assert_eq!(
            kept,
            [("a.png", ArtifactRetention::Transient, Visibility::Private), ("b.png", ArtifactRetention::Permanent, Visibility::Private)]
        );
        let (name, problem) = made[2].clone().unwrap_err();
        assert!(name.as_deref() == Some("c.pdf") && problem.contains("`document`"), "{problem}");
    }

    #[test]
    fn what_lists_nothing_is_left_alone() {
        for answer in [json!(null), json!([]), json!({ "pages": 2 }), json!({ "artifacts": "none" })] {
            assert_eq!(taken(answer.clone()), (answer, None));
        }
    }
}
