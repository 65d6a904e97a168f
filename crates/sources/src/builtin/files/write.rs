//! `files.write_text`: the text is staged beside its target, the old content is kept, then one rename puts the text in place. The file is
//! always old or new, never a mixture.

use crate::limits::{FILE_READ_BYTES_MAX, FILE_WRITE_BYTES_MAX};
use crate::words::{refused, shown};
use crate::workspace::Place;
use crate::workspace::commitment::Commitment;
use crate::workspace::diff::Diff;
use crate::workspace::evidence::Evidence;
use crate::workspace::made::MadeFolders;
use crate::workspace::open::sync_folder;
use crate::workspace::outcome::{changed, content_changed, unchanged};
use crate::workspace::path::WorkspacePath;
use crate::workspace::regular::Regular;
use crate::workspace::root::{AT_HAND_BYTES_MAX, Reached};
use crate::workspace::scope::check_scope;
use crate::workspace::staged::Staged;
use countersign_core::Digest;
use countersign_core::changed_file::warn;
use countersign_core::effect::Scope;
use countersign_core::source::{Error, Output};
use rustix::fs::Mode;
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteText {
    path: String,
    text: String,
    expected_sha256: Option<Digest>,
}

/// Whether `prepare` would return without waiting, because there is no old content to keep.
pub(super) fn is_free_at_hand(place: &Place, params: &WriteText) -> bool {
    params.text.len() as u64 <= AT_HAND_BYTES_MAX
        && WorkspacePath::parse(&params.path).is_ok_and(|path| place.workspace.is_free_at_hand(&path))
}

/// Describes the change, and keeps the current content.
pub(super) fn prepare(place: &Place, params: &WriteText, scope: &Scope, temporary: &str) -> Result<Evidence, Error> {
    let path = WorkspacePath::parse(&params.path)?;
    check_scope(place, scope, &path)?;
    let planned = Planned::new(place, params, &path)?;
    if let Some((file, digest)) = &planned.previous {
        place.snapshots.keep(file, *digest, &path, temporary)?;
    }
    Ok(Evidence {
        path: path.as_str().to_owned(),
        previous_sha256: planned.previous.as_ref().map(|(_, digest)| *digest),
        new_sha256: Some(planned.new),
        mode: planned.previous.as_ref().map(|(file, _)| file.mode.as_raw_mode()),
        new_mode: None,
        made_folders: path.last_folders(planned.reached.missing.len()),
        workspace: Some(place.id.clone()),
    })
}

/// Writes the prepared text, if everything is still as it was then.
pub(super) fn write_text(
    place: &Place,
    params: &WriteText,
    evidence: &Evidence,
    temporary: &str,
    commitment: &Commitment,
) -> Result<Output, Error> {
    let path = WorkspacePath::parse(&params.path)?;
    place.check_is(evidence.workspace.as_ref())?;
    let new = Digest::new(Sha256::digest(&params.text).into());
    if evidence.path != path.as_str() || evidence.new_sha256 != Some(new) {
        return Err(refused("evidence_of_another_call", format!("what was prepared is not for this change of `{}`", shown(path.as_str()))));
    }
    let (folder, made) = MadeFolders::make(place.workspace.reach(&path, path.folders())?, &path)?;
    let mut staged = Staged::create(&folder, temporary, Mode::from_raw_mode(0o644), &path)?;
    staged.write(params.text.as_bytes())?;
    if let Some(mode) = evidence.mode {
        staged.set_mode(Mode::from_raw_mode(mode))?;
    }
    staged.sync()?;
    place.faults.point("files.staged");

    let previous = evidence.previous_sha256;
    let placed = {
        let _alone = place.workspace.one_at_a_time();
        let present = Regular::find(&place.workspace, &folder, &path)?.map(|file| file.digest()).transpose()?;
        if present != previous {
            return Err(content_changed(path.as_str()));
        }
        commitment.begin()?;
        match previous {
            Some(_) => staged.replace(path.name()),
            None => staged.appear(path.name()),
        }
    };
    placed.map_err(|errno| if errno == Errno::EXIST { content_changed(path.as_str()) } else { unchanged(errno, path.as_str()) })?;
    place.faults.point("files.placed");
    made.keep();
    sync_folder(&folder).map_err(|errno| changed(errno, path.as_str()))?;
    Ok(written(params, evidence))
}

/// The output of a write that was made.
pub(super) fn written(params: &WriteText, evidence: &Evidence) -> Output {
    let previous = evidence.previous_sha256;
    let mut value = json!({ "bytes_written": params.text.len(), "sha256_text": evidence.new_sha256, "created": previous.is_none() });
    if let Some(previous) = previous {
        value["previous_sha256"] = json!(previous);
    }
    Output { value, quality_thousandths: 1_000, evidence: Some(evidence.to_value()) }
}

/// Reports what `write_text` would do, after the same checks.
pub(super) fn preview(place: &Place, params: &WriteText, scope: &Scope) -> Result<Output, Error> {
    let path = WorkspacePath::parse(&params.path)?;
    check_scope(place, scope, &path)?;
    let planned = Planned::new(place, params, &path)?;
    let mut value =
        json!({ "path": path.as_str(), "bytes": params.text.len(), "bytes_written": params.text.len(), "new_sha256": planned.new });
    let change = match &planned.previous {
        None => "would_create",
        Some((_, digest)) if *digest == planned.new => "no_change",
        Some(_) => "would_change",
    };
    value["change"] = json!(change);
    if change != "no_change" {
        warn(&mut value, path.as_str(), planned.previous.as_ref().map(|(file, _)| file.mode.as_raw_mode()));
    }
    let old = match &planned.previous {
        None => Some(String::new()),
        Some((file, digest)) => {
            value["previous_sha256"] = json!(digest);
            text_of(file)?
        }
    };
    match old {
        Some(old) => Diff::of(&old, &params.text).describe(&mut value),
        None => value["diff"] = Value::Null,
    }
    Ok(Output { value, quality_thousandths: 1_000, evidence: None })
}

/// The current content, if it is text and small enough for a diff.
pub(super) fn text_of(file: &Regular) -> Result<Option<String>, Error> {
    if file.bytes > FILE_READ_BYTES_MAX {
        return Ok(None);
    }
    Ok(String::from_utf8(file.read(FILE_READ_BYTES_MAX)?).ok())
}

/// A write that has passed its checks; nothing is changed yet.
struct Planned<'p> {
    reached: Reached<'p>,
    previous: Option<(Regular, Digest)>,
    new: Digest,
}

impl<'p> Planned<'p> {
    fn new(place: &Place, params: &WriteText, path: &'p WorkspacePath) -> Result<Self, Error> {
        if params.text.len() > FILE_WRITE_BYTES_MAX {
            let (path, bytes) = (shown(path.as_str()), params.text.len());
            let message = format!("the text for `{path}` has {bytes} bytes; at most {FILE_WRITE_BYTES_MAX} are allowed");
            return Err(refused("file_too_large", message));
        }
        let reached = place.workspace.reach(path, path.folders())?;
        let previous = if reached.missing.is_empty() { Regular::find(&place.workspace, &reached.folder, path)? } else { None };
        let previous = previous.map(|file| file.digest().map(|digest| (file, digest))).transpose()?;
        let present = previous.as_ref().map(|(_, digest)| *digest);
        if params.expected_sha256.is_some() && params.expected_sha256 != present {
            return Err(content_changed(path.as_str()));
        }
        Ok(Self { reached, previous, new: Digest::new(Sha256::digest(&params.text).into()) })
    }
}
