//! `files.delete`: keeps the content as a snapshot, then removes the name.

use super::write::text_of;
use crate::words::{refused, shown};
use crate::workspace::Place;
use crate::workspace::commitment::Commitment;
use crate::workspace::diff::Diff;
use crate::workspace::evidence::Evidence;
use crate::workspace::open::sync_folder;
use crate::workspace::outcome::{changed, content_changed, unchanged};
use crate::workspace::path::WorkspacePath;
use crate::workspace::regular::Regular;
use crate::workspace::scope::check_scope;
use countersign_core::Digest;
use countersign_core::effect::Scope;
use countersign_core::source::{Error, Output};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Delete {
    path: String,
}

/// Finds the file to delete, and keeps its content.
pub(super) fn prepare(place: &Place, params: &Delete, scope: &Scope, temporary: &str) -> Result<Evidence, Error> {
    let path = WorkspacePath::parse(&params.path)?;
    check_scope(place, scope, &path)?;
    let Doomed { file, digest } = Doomed::find(place, &path)?;
    place.snapshots.keep(&file, digest, &path, temporary)?;
    Ok(Evidence {
        path: path.as_str().to_owned(),
        previous_sha256: Some(digest),
        new_sha256: None,
        mode: Some(file.mode.as_raw_mode()),
        new_mode: None,
        made_folders: Vec::new(),
        workspace: Some(place.id.clone()),
    })
}

/// Deletes the prepared file, if its content is still the same.
pub(super) fn delete(place: &Place, params: &Delete, evidence: &Evidence, commitment: &Commitment) -> Result<Output, Error> {
    let path = WorkspacePath::parse(&params.path)?;
    place.check_is(evidence.workspace.as_ref())?;
    if evidence.path != path.as_str() || evidence.new_sha256.is_some() {
        return Err(refused("evidence_of_another_call", format!("what was prepared is not for deleting `{}`", shown(path.as_str()))));
    }
    let reached = place.workspace.reach(&path, path.folders())?;
    if !reached.missing.is_empty() {
        return Err(unchanged(Errno::NOENT, path.as_str()));
    }
    let folder = reached.folder;
    {
        let _alone = place.workspace.one_at_a_time();
        if Some(Regular::get(&place.workspace, &folder, &path)?.digest()?) != evidence.previous_sha256 {
            return Err(content_changed(path.as_str()));
        }
        commitment.begin()?;
        rustix::fs::unlinkat(&folder, path.name(), AtFlags::empty()).map_err(|errno| unchanged(errno, path.as_str()))?;
    }
    place.faults.point("files.removed");
    sync_folder(&folder).map_err(|errno| changed(errno, path.as_str()))?;
    Ok(deleted(evidence))
}

/// The output of a delete that was made.
pub(super) fn deleted(evidence: &Evidence) -> Output {
    let value = json!({ "deleted": true, "previous_sha256": evidence.previous_sha256 });
    Output { value, quality_thousandths: 1_000, evidence: Some(evidence.to_value()) }
}

/// Reports what `delete` would remove, after the same checks.
pub(super) fn preview(place: &Place, params: &Delete, scope: &Scope) -> Result<Output, Error> {
    let path = WorkspacePath::parse(&params.path)?;
    check_scope(place, scope, &path)?;
    let doomed = Doomed::find(place, &path)?;
    let mut value =
        json!({ "path": path.as_str(), "change": "would_delete", "bytes": doomed.file.bytes, "previous_sha256": doomed.digest });
    match text_of(&doomed.file)? {
        Some(old) => Diff::of(&old, "").describe(&mut value),
        None => value["diff"] = Value::Null,
    }
    Ok(Output { value, quality_thousandths: 1_000, evidence: None })
}

/// A file that may be deleted, and the digest of its content.
struct Doomed {
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
        Ok(Self { file, digest })
    }
}
