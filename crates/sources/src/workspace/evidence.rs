//! The evidence of a change, collected before it is made: enough to see whether the change is there, and to revert it.

use super::Place;
use super::commitment::Commitment;
use super::id::WorkspaceId;
use super::open::{identity_of, sync_folder};
use super::outcome::{changed, changed_since, content_changed, unchanged};
use super::path::WorkspacePath;
use super::regular::Regular;
use super::staged::Staged;
use crate::words::{failed, shown};
use countersign_core::Digest;
use countersign_core::effect::Check;
use countersign_core::source::{Error, Output};
use rustix::fs::{AtFlags, Mode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::os::fd::OwnedFd;

pub(crate) const READ_BACK: &str = "read_back";

/// A file before and after a change. The content itself is in the snapshots, under its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Evidence {
    pub(crate) path: String,
    /// `None` if there was no such file.
    pub(crate) previous_sha256: Option<Digest>,
    /// `None` if the change deletes the file.
    pub(crate) new_sha256: Option<Digest>,
    /// The permissions of the file before the change.
    pub(crate) mode: Option<u32>,
    /// The permissions of a file that the change creates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) new_mode: Option<u32>,
    /// The folders that the change creates, the outermost first.
    #[serde(default)]
    pub(crate) made_folders: Vec<String>,
    /// The workspace of the change. `None` in a journal, which names it once for all its files, and in evidence from before workspaces had
    /// ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<WorkspaceId>,
}

/// What is found at the path of a change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The content after the change.
    New,
    /// The content before the change.
    Previous,
    /// Other content, which somebody else wrote.
    Other,
}

impl Evidence {
    pub(crate) fn read(value: &Value) -> Result<Self, Error> {
        Self::deserialize(value).map_err(|_| failed("evidence_unreadable", "what was kept before the change does not read".to_owned()))
    }

    pub(crate) fn to_value(&self) -> Value {
        json!(self)
    }

    /// Whether the file can be inspected without waiting; see `Workspace::is_at_hand`.
    pub(crate) fn is_at_hand(&self, place: &Place) -> bool {
        let is_at_hand = |path| place.workspace.is_at_hand(&path) || place.workspace.is_free_at_hand(&path);
        WorkspacePath::parse(&self.path).is_ok_and(is_at_hand)
    }

    /// The change that reverts this one. It does not include the folders that were created.
    pub(crate) fn turned_round(&self) -> Self {
        Self {
            previous_sha256: self.new_sha256,
            new_sha256: self.previous_sha256,
            mode: self.mode.or(self.new_mode),
            new_mode: None,
            made_folders: Vec::new(),
            ..self.clone()
        }
    }

    /// A write that changes nothing counts as made.
    pub(crate) fn compare(&self, present: Option<Digest>) -> Found {
        if present == self.new_sha256 {
            Found::New
        } else if present == self.previous_sha256 {
            Found::Previous
        } else {
            Found::Other
        }
    }
}

/// The digest of the content at a path now.
pub(crate) fn present(place: &Place, path: &WorkspacePath) -> Result<Option<Digest>, Error> {
    let reached = place.workspace.reach(path, path.folders())?;
    if !reached.missing.is_empty() {
        return Ok(None);
    }
    Regular::find(&place.workspace, &reached.folder, path)?.map(|file| file.digest()).transpose()
}

/// The same, in the folder that is about to be changed, so that the file compared and the file replaced cannot be two different ones.
pub(crate) fn present_in(place: &Place, path: &WorkspacePath, folder: &OwnedFd) -> Result<Option<Digest>, Error> {
    let again = place.workspace.reach(path, path.folders())?;
    let is_same = matches!((identity_of(&again.folder), identity_of(folder)), (Ok(now), Ok(then)) if now == then);
    if !again.missing.is_empty() || !is_same {
        return Err(content_changed(path.as_str()));
    }
    Regular::find(&place.workspace, folder, path)?.map(|file| file.digest()).transpose()
}

/// Compares the current content with the evidence. Waits for a change that is under way.
pub(crate) fn look(place: &Place, evidence: &Evidence) -> Result<Found, Error> {
    let path = WorkspacePath::parse(&evidence.path)?;
    let _alone = place.workspace.one_at_a_time();
    Ok(evidence.compare(present(place, &path)?))
}

pub(crate) fn verify(place: &Place, evidence: &Evidence) -> Result<Vec<Check>, Error> {
    if let Err(elsewhere) = place.check_is(evidence.workspace.as_ref()) {
        return Ok(vec![Check::failed(READ_BACK, elsewhere.to_string())]);
    }
    Ok(vec![match look(place, evidence)? {
        Found::New => Check::passed(READ_BACK),
        Found::Previous => Check::failed(READ_BACK, format!("`{}` is as it was before", shown(&evidence.path))),
        Found::Other => Check::failed(READ_BACK, format!("`{}` does not hold what was written", shown(&evidence.path))),
    }])
}

/// Whether `revert` could restore the content: it could not if somebody has changed the file since.
pub(crate) fn check_revert(place: &Place, evidence: &Evidence) -> Result<(), Error> {
    place.check_is(evidence.workspace.as_ref())?;
    match look(place, evidence)? {
        Found::Previous => Ok(()),
        Found::New if evidence.new_sha256.is_some() || is_folder_there(place, evidence)? => Ok(()),
        Found::New | Found::Other => Err(changed_since(&evidence.path)),
    }
}

/// Whether the folder to restore the file into still exists.
pub(crate) fn is_folder_there(place: &Place, evidence: &Evidence) -> Result<bool, Error> {
    let path = WorkspacePath::parse(&evidence.path)?;
    Ok(place.workspace.reach(&path, path.folders())?.missing.is_empty())
}

/// Restores the content before the change, unless somebody has changed the file since. A second revert finds it done.
pub(crate) fn revert(place: &Place, evidence: &Evidence, temporary: &str, commitment: &Commitment) -> Result<Output, Error> {
    place.check_is(evidence.workspace.as_ref())?;
    let path = WorkspacePath::parse(&evidence.path)?;
    let restored = || {
        let value = json!({ "restored": path.as_str(), "sha256": evidence.previous_sha256 });
        Ok(Output { value, quality_thousandths: 1_000, evidence: None })
    };
    if present(place, &path)? == evidence.previous_sha256 {
        // A crash may have come after the file was restored and before the folders were removed.
        remove_made(place, evidence);
        return restored();
    }
    let reached = place.workspace.reach(&path, path.folders())?;
    if !reached.missing.is_empty() {
        return Err(changed_since(path.as_str()));
    }
    let folder = reached.folder;
    let staged = match evidence.previous_sha256 {
        None => None,
        Some(digest) => {
            let mode = Mode::from_raw_mode(evidence.mode.unwrap_or(0o644));
            let mut staged = Staged::create(&folder, temporary, mode, &path)?;
            place.snapshots.copy(digest, &path, |chunk| staged.write(chunk))?;
            staged.set_mode(mode)?;
            staged.sync()?;
            Some(staged)
        }
    };
    place.faults.point("revert.staged");
    {
        let _alone = place.workspace.one_at_a_time();
        match evidence.compare(present_in(place, &path, &folder)?) {
            Found::New => {}
            Found::Previous => return restored(),
            Found::Other => return Err(changed_since(path.as_str())),
        }
        commitment.begin()?;
        let put_back = match staged {
            Some(staged) if evidence.new_sha256.is_none() => staged.appear(path.name()),
            Some(staged) => staged.replace(path.name()),
            None => rustix::fs::unlinkat(&folder, path.name(), AtFlags::empty()),
        };
        put_back.map_err(|errno| unchanged(errno, path.as_str()))?;
    }
    place.faults.point("revert.placed");
    sync_folder(&folder).map_err(|errno| changed(errno, path.as_str()))?;
    remove_made(place, evidence);
    if present(place, &path)? != evidence.previous_sha256 {
        let message = format!("`{}` was put back, and somebody has changed it since", shown(path.as_str()));
        return Err(Error::Broken { source_id: "files".to_owned(), message });
    }
    restored()
}

/// Removes the folders that the change created, if they are empty by now.
pub(crate) fn remove_made(place: &Place, evidence: &Evidence) {
    for made in evidence.made_folders.iter().rev() {
        let Ok(path) = WorkspacePath::parse(made) else { continue };
        if let Ok(reached) = place.workspace.reach(&path, path.folders())
            && reached.missing.is_empty()
        {
            // Fails if the folder is not empty, and then it must stay.
            let _ = rustix::fs::unlinkat(&reached.folder, path.name(), AtFlags::REMOVEDIR);
        }
    }
}
