//! `files.delete`: keeps the content, then removes the name.

use super::Place;
use super::commitment::Commitment;
use super::outcome::{changed, content_changed, unchanged};
use super::path::WorkspacePath;
use super::regular::Regular;
use super::workspace::sync_folder;
use countersign_core::Digest;
use countersign_core::source::{Error, Output};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::json;
use std::os::fd::OwnedFd;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Delete {
    path: String,
}

pub(super) fn delete(place: &Place, params: &Delete, temporary: &str, commitment: &Commitment) -> Result<Output, Error> {
    let path = WorkspacePath::parse(&params.path)?;
    let Doomed { folder, file, digest } = Doomed::find(place, &path)?;
    place.snapshots.keep(&file, digest, &path, temporary)?;
    {
        let _alone = place.workspace.one_at_a_time();
        if Regular::get(&place.workspace, &folder, &path)?.digest()? != digest {
            return Err(content_changed(path.as_str()));
        }
        commitment.begin()?;
        rustix::fs::unlinkat(&folder, path.name(), AtFlags::empty()).map_err(|errno| unchanged(errno, path.as_str()))?;
    }
    sync_folder(&folder).map_err(|errno| changed(errno, path.as_str()))?;
    let value = json!({ "deleted": true, "previous_sha256": digest });
    let evidence = json!({ "path": path.as_str(), "previous_sha256": digest, "new_sha256": null });
    Ok(Output { value, quality_thousandths: 1_000, evidence: Some(evidence) })
}

/// Says what `delete` would remove, by the same checks.
pub(super) fn preview(place: &Place, params: &Delete) -> Result<Output, Error> {
    let path = WorkspacePath::parse(&params.path)?;
    let doomed = Doomed::find(place, &path)?;
    let value = json!({ "path": path.as_str(), "change": "would_delete", "bytes": doomed.file.bytes, "previous_sha256": doomed.digest });
    Ok(Output { value, quality_thousandths: 1_000, evidence: None })
}

/// A file that may be deleted, and what it holds.
struct Doomed {
    folder: OwnedFd,
    file: Regular,
    digest: Digest,
}

impl Doomed {
    fn find(place: &Place, path: &WorkspacePath) -> Result<Self, Error> {
        let reached = place.workspace.reach(path, path.folders())?;
        if !reached.missing.is_empty() {
            return Err(unchanged(Errno::NOENT, path.as_str()));
        }
        let file = Regular::get(&place.workspace, &reached.folder, path)?;
        let digest = file.digest()?;
        Ok(Self { folder: reached.folder, file, digest })
    }
}
