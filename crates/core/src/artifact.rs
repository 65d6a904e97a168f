//! Artifacts: what calls and runs made that does not fit into a result, because it is long or no JSON. The store has a row for each; the bytes
//! are behind the port `ports::Blobs`, under the key that `Artifact::key` gives.

use crate::limits::{ARTIFACT_DEFAULT_SECONDS, ARTIFACT_MEDIA_TYPE_CHARS_MAX, ARTIFACT_NAME_CHARS_MAX, ARTIFACT_TRANSIENT_SECONDS};
use crate::{ArtifactId, Digest, InvocationId, OrgId, PrincipalId, RunId, SessionId, SpaceId, Timestamp, UserId, clean};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What an artifact is, in one word. It follows from its media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    Audio,
    Document,
    Image,
    Data,
}

/// Media types of `application/` that people read.
const DOCUMENTS: [&str; 5] = ["application/pdf", "application/rtf", "application/msword", "application/epub+zip", "application/xhtml+xml"];
/// What the media types of office documents begin with.
const OFFICE: [&str; 2] = ["application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument."];

crate::words!(ArtifactKind { Audio = "audio", Document = "document", Image = "image", Data = "data" });

impl ArtifactKind {
    pub fn of_media_type(media_type: &str) -> Self {
        let is_office = OFFICE.iter().any(|begin| media_type.starts_with(begin));
        match media_type.split('/').next().unwrap_or_default() {
            "audio" => Self::Audio,
            "image" => Self::Image,
            "text" if media_type != "text/csv" => Self::Document,
            _ if is_office || DOCUMENTS.contains(&media_type) => Self::Document,
            _ => Self::Data,
        }
    }
}

/// How long an artifact is kept, unless its org keeps calls for less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactRetention {
    /// For a day.
    Transient,
    /// For 30 days.
    #[default]
    Default,
    Permanent,
}

crate::words!(ArtifactRetention { Transient = "transient", Default = "default", Permanent = "permanent" });

impl ArtifactRetention {
    /// When an artifact ends that was made now; `None`: not by itself.
    pub fn ends(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Transient => Some(now.plus_seconds(ARTIFACT_TRANSIENT_SECONDS)),
            Self::Default => Some(now.plus_seconds(ARTIFACT_DEFAULT_SECONDS)),
            Self::Permanent => None,
        }
    }
}

/// For whom an artifact is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// For the person it was made for, and for those who administer the org.
    Private,
    /// For whoever may read its call or its run.
    #[default]
    Space,
    /// For everybody in the org who may read.
    Shared,
}

crate::words!(Visibility { Private = "private", Space = "space", Shared = "shared" });

/// What an action declares of the artifacts of one kind that it makes. An artifact may say otherwise of how long it is kept, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactSpec {
    pub kind: ArtifactKind,
    #[serde(default)]
    pub retention: ArtifactRetention,
    #[serde(default)]
    pub visibility: Visibility,
}

impl ArtifactSpec {
    /// Of this kind, kept as long and for whom it is usual.
    pub fn of(kind: ArtifactKind) -> Self {
        Self { kind, retention: ArtifactRetention::default(), visibility: Visibility::default() }
    }
}

/// What is known of bytes that a call or a run made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    pub id: ArtifactId,
    pub org: OrgId,
    pub space: SpaceId,
    /// The session in which it was made.
    pub session: SessionId,
    /// The person it was made for, if there is one.
    pub owner: Option<UserId>,
    /// The run whose step made it, if one did.
    pub run: Option<RunId>,
    /// The call that made it, as far as there was one.
    pub invocation: Option<InvocationId>,
    /// A file name, in one line and without a folder.
    pub name: String,
    pub kind: ArtifactKind,
    pub media_type: String,
    /// In bytes.
    pub size: u64,
    /// Of the bytes. It stays when they are withheld.
    pub sha256: Digest,
    pub retention: ArtifactRetention,
    pub visibility: Visibility,
    pub created_at: Timestamp,
    /// Absent: it is kept.
    pub expires_at: Option<Timestamp>,
    /// From then on nobody gets the bytes.
    pub quarantined_at: Option<Timestamp>,
    pub quarantined_by: Option<PrincipalId>,
}

impl Artifact {
    /// Where the bytes are. It names the org, so that no two orgs share a place.
    pub fn key(&self) -> String {
        format!("{}/{}", self.org, self.id)
    }

    /// Whether the time it is kept for is over.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

/// Why a text cannot be the name of an artifact. The name becomes that of a file, on machines of all kinds.
pub fn name_problem(name: &str) -> Option<String> {
    let length = name.chars().count();
    if !(1..=ARTIFACT_NAME_CHARS_MAX).contains(&length) {
        return Some(format!("a name has 1 to {ARTIFACT_NAME_CHARS_MAX} characters"));
    }
    let is_hidden = name.starts_with('.') || name.trim() != name;
    let has_bad = name.chars().any(|character| clean::is_deceptive(character) || "/\\:*?\"<>|".contains(character));
    (is_hidden || has_bad)
        .then(|| "a name has no dot at its beginning, no space at its ends, and no character that file names cannot have".to_owned())
}

/// Why a text cannot be the media type of an artifact: it is `type/subtype`, without parameters.
pub fn media_type_problem(media_type: &str) -> Option<String> {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$&^_.+-".contains(&byte))
    };
    let fits = media_type.len() <= ARTIFACT_MEDIA_TYPE_CHARS_MAX
        && media_type.split_once('/').is_some_and(|(one, other)| is_token(one) && is_token(other));
    (!fits).then(|| "a media type is `type/subtype` in lower case, such as `application/pdf`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_read_back_as_themselves() {
        assert!(ArtifactKind::ALL.into_iter().all(|kind| ArtifactKind::parse(kind.as_str()) == Some(kind) && json!(kind) == kind.as_str()));
        assert!(
            ArtifactRetention::ALL.into_iter().all(|one| ArtifactRetention::parse(one.as_str()) == Some(one) && json!(one) == one.as_str())
        );
        assert!(Visibility::ALL.into_iter().all(|one| Visibility::parse(one.as_str()) == Some(one) && json!(one) == one.as_str()));
    }

    #[test]
    fn the_kind_follows_from_the_media_type() {
        for (media_type, expected) in [
            ("audio/mpeg", ArtifactKind::Audio),
            ("image/png", ArtifactKind::Image),
            ("text/markdown", ArtifactKind::Document),
            ("text/csv", ArtifactKind::Data),
            ("application/pdf", ArtifactKind::Document),
            ("application/vnd.oasis.opendocument.text", ArtifactKind::Document),
            ("application/json", ArtifactKind::Data),
            ("", ArtifactKind::Data),
        ] {
            assert_eq!(ArtifactKind::of_media_type(media_type), expected, "{media_type}");
        }
    }

    #[test]
    fn a_name_is_a_file_name_and_a_media_type_a_media_type() {
        for good in ["report.pdf", "Bericht für März.md", "a"] {
            assert_eq!(name_problem(good), None, "{good}");
        }
        for bad in
            ["", ".hidden", " a", "../a", "a/b", "a\\b", "a\nb", "a\u{202e}gpj.exe", "a\"b", &"n".repeat(ARTIFACT_NAME_CHARS_MAX + 1)]
        {
            assert!(name_problem(bad).is_some(), "{bad:?}");
        }
        for good in ["text/plain", "application/vnd.oasis.opendocument.text", "image/svg+xml"] {
            assert_eq!(media_type_problem(good), None, "{good}");
        }
        for bad in ["", "text", "text/", "/plain", "text/plain; charset=utf-8", "Text/plain", "text/pl ain", "text/plain\r\nx: y", "a/b/c"]
        {
            assert!(media_type_problem(bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_permanent_never_ends_by_itself() {
        let now = Timestamp::from_micros(0);
        assert_eq!(ArtifactRetention::Transient.ends(now), Some(now.plus_seconds(24 * 60 * 60)));
        assert_eq!(ArtifactRetention::Default.ends(now), Some(now.plus_seconds(30 * 24 * 60 * 60)));
        assert_eq!(ArtifactRetention::Permanent.ends(now), None);
    }
}
