//! `files.read_text`

use crate::limits::FILE_READ_BYTES_MAX;
use crate::words::{refused, shown};
use crate::workspace::Place;
use crate::workspace::path::WorkspacePath;
use crate::workspace::regular::Regular;
use crate::workspace::scope::check_scope;
use countersign_core::Digest;
use countersign_core::effect::Scope;
use countersign_core::source::{Error, Output};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadText {
    path: String,
}

/// Whether `read_text` would return without waiting; see `Workspace::is_at_hand`.
pub(super) fn is_at_hand(place: &Place, params: &ReadText) -> bool {
    WorkspacePath::parse(&params.path).is_ok_and(|path| place.workspace.is_at_hand(&path))
}

pub(super) fn read_text(place: &Place, params: &ReadText, scope: &Scope) -> Result<Output, Error> {
    let path = WorkspacePath::parse(&params.path)?;
    check_scope(place, scope, &path)?;
    let reached = place.workspace.reach(&path, path.folders())?;
    if !reached.missing.is_empty() {
        return Err(crate::workspace::outcome::unchanged(Errno::NOENT, path.as_str()));
    }
    let content = Regular::get(&place.workspace, &reached.folder, &path)?.read(FILE_READ_BYTES_MAX)?;
    let digest = Digest::new(Sha256::digest(&content).into());
    let bytes = content.len();
    let text = String::from_utf8(content).map_err(|_| refused("not_utf8", format!("`{}` is not UTF-8 text", shown(path.as_str()))))?;
    let value = json!({ "text": text, "bytes": bytes, "sha256": digest });
    Ok(Output { value, quality_thousandths: 1_000, evidence: None })
}
