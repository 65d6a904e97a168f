//! The file changes of one call, recorded before the first of them is made. The journal is enough to make the changes, to finish them after
//! a crash, and to revert them. The contents before and after are among the snapshots, by digest.

use crate::words::{failed, shown};
use crate::workspace::commitment::Commitment;
use crate::workspace::evidence::{self, Evidence, Found};
use crate::workspace::id::WorkspaceId;
use crate::workspace::made::MadeFolders;
use crate::workspace::open::sync_folder;
use crate::workspace::outcome::{changed, changed_since, content_changed, unchanged};
use crate::workspace::path::WorkspacePath;
use crate::workspace::staged::Staged;
use crate::workspace::{Place, Places};
use countersign_core::Digest;
use countersign_core::effect::Check;
use countersign_core::source::{CallContext, Error, Output};
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::os::fd::OwnedFd;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    pub(super) files: Vec<Evidence>,
    /// The digest of the script's result.
    pub(super) result_sha256: Digest,
    /// The digest of the definition the changes are made under, which is also among the snapshots. The changes are reverted under that
    /// definition, even if the package is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) definition_sha256: Option<Digest>,
    /// The workspace of the changes. `None` in journals from before workspaces had ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) workspace: Option<WorkspaceId>,
    /// The quality that the script gives its own result, in thousandths.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) quality_thousandths: u32,
}

/// A quality of 0 is left out of the JSON.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_zero(quality: &u32) -> bool {
    *quality == 0
}

/// How many of the changes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Made,
    NotMade,
    /// Some changes are made; the others can still be made.
    Half,
    /// One of the files holds neither the old nor the new content: somebody else changed it.
    Other,
}

/// Whether changes are made or reverted.
#[derive(Clone, Copy)]
enum Direction {
    Forth,
    Back,
}

impl Direction {
    /// The error for a file whose content is not the expected one.
    fn conflict(self, path: &str) -> Error {
        match self {
            Self::Forth => content_changed(path),
            Self::Back => changed_since(path),
        }
    }
}

/// Everything a step needs besides the journal.
pub(super) struct Desk<'a> {
    pub(super) place: &'a Place,
    pub(super) temporary: &'a str,
    pub(super) commitment: &'a Commitment,
}

impl Journal {
    pub(super) fn read(value: &Value) -> Result<Self, Error> {
        Self::deserialize(value).map_err(|_| failed("evidence_unreadable", "what was kept before the change does not read".to_owned()))
    }

    pub(super) fn to_value(&self) -> Value {
        json!(self)
    }

    /// The workspace of the changes.
    pub(super) fn place(&self, places: &Places, context: &CallContext) -> Result<Arc<Place>, Error> {
        places.with(context, self.workspace.as_ref())
    }

    /// Checks that the journal belongs to this workspace.
    pub(super) fn check_is_of(&self, place: &Place) -> Result<(), Error> {
        place.check_is(self.workspace.as_ref())
    }

    pub(super) fn output(&self, place: &Place) -> Result<Output, Error> {
        let mut text = Vec::new();
        place.snapshots.copy(self.result_sha256, &result_path()?, |chunk| {
            text.extend_from_slice(chunk);
            Ok(())
        })?;
        let value = serde_json::from_slice(&text).map_err(|_| failed("snapshot_lost", "the kept result does not read".to_owned()))?;
        Ok(Output { value, quality_thousandths: self.quality_thousandths, evidence: Some(self.to_value()) })
    }

    /// Makes the changes that are not made yet.
    pub(super) fn commit(&self, desk: &Desk<'_>) -> Result<(), Error> {
        self.check_is_of(desk.place)?;
        make_all(&self.files, desk, Direction::Forth)
    }

    /// Restores the previous contents, unless somebody changed one of the files since. Repeating it has no further effect.
    pub(super) fn revert(&self, desk: &Desk<'_>) -> Result<Output, Error> {
        self.check_is_of(desk.place)?;
        make_all(&self.to_put_back(desk.place)?, desk, Direction::Back)?;
        for file in &self.files {
            evidence::remove_made(desk.place, file);
        }
        let restored: Vec<_> = self.files.iter().map(|file| json!({ "path": file.path, "sha256": file.previous_sha256 })).collect();
        Ok(Output { value: json!({ "restored": restored }), quality_thousandths: 1_000, evidence: None })
    }

    /// Checks that nobody changed one of the files since.
    pub(super) fn check_revert(&self, place: &Place) -> Result<(), Error> {
        self.check_is_of(place)?;
        self.to_put_back(place).map(drop)
    }

    /// The changes that still have to be reverted, last one first.
    fn to_put_back(&self, place: &Place) -> Result<Vec<Evidence>, Error> {
        let mut back = Vec::new();
        for file in self.files.iter().rev().map(Evidence::turned_round) {
            match evidence::look(place, &file)? {
                Found::New => {}
                Found::Previous if file.previous_sha256.is_some() || evidence::is_folder_there(place, &file)? => back.push(file),
                Found::Previous | Found::Other => return Err(changed_since(&file.path)),
            }
        }
        Ok(back)
    }

    pub(super) fn standing(&self, place: &Place) -> Result<Standing, Error> {
        let found = self.files.iter().map(|file| evidence::look(place, file)).collect::<Result<Vec<_>, _>>()?;
        let any = |what| found.contains(&what);
        Ok(match (any(Found::New), any(Found::Previous), any(Found::Other)) {
            (_, _, true) => Standing::Other,
            (true, true, false) => Standing::Half,
            (false, true, false) => Standing::NotMade,
            // A journal without changes counts as made.
            (_, false, false) => Standing::Made,
        })
    }

    pub(super) fn read_back(&self, place: &Place, name: &str) -> Result<Check, Error> {
        if let Err(elsewhere) = self.check_is_of(place) {
            return Ok(Check::failed(name, elsewhere.to_string()));
        }
        for (found, why) in [(Found::Previous, "is as it was before"), (Found::Other, "does not hold what was written")] {
            if let Some(file) = self.first(place, found)? {
                return Ok(Check::failed(name, format!("`{}` {why}", shown(&file.path))));
            }
        }
        Ok(Check::passed(name))
    }

    fn first(&self, place: &Place, what: Found) -> Result<Option<&Evidence>, Error> {
        for file in &self.files {
            if evidence::look(place, file)? == what {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }
}

/// Makes the changes one file after the other. On return either all of them are made or none; otherwise the error says that some files
/// changed and could not be restored.
fn make_all(files: &[Evidence], desk: &Desk<'_>, direction: Direction) -> Result<(), Error> {
    let mut steps = Vec::new();
    for (position, file) in files.iter().enumerate() {
        steps.push(Step::new(desk.place, file, format!("{}-{position}", desk.temporary), direction)?);
    }
    let mut ready = steps.iter().map(|step| step.stage(desk.place, direction)).collect::<Result<Vec<_>, _>>()?;
    match direction {
        Direction::Forth => desk.place.faults.point("package.staged"),
        Direction::Back => desk.place.faults.point("package.revert_staged"),
    }
    let mut made = Vec::new();
    let stopped = {
        let _alone = desk.place.workspace.one_at_a_time();
        let mut ahead = Vec::new();
        for (position, step) in steps.iter().enumerate() {
            match step.file.compare(evidence::present_in(desk.place, &step.path, &step.folder)?) {
                Found::New => {}
                Found::Previous => ahead.push(position),
                Found::Other => return Err(direction.conflict(&step.file.path)),
            }
        }
        desk.commitment.begin()?;
        let mut stopped = None;
        for position in ahead {
            let (step, staged) = (&steps[position], ready[position].take());
            if let Err(errno) = step.make(staged) {
                stopped = Some(if errno == Errno::EXIST { direction.conflict(&step.file.path) } else { unchanged(errno, &step.file.path) });
                break;
            }
            made.push(step.file);
            match direction {
                Direction::Forth => desk.place.faults.point("package.committed_one"),
                Direction::Back => desk.place.faults.point("package.reverted_one"),
            }
        }
        stopped
    };
    drop(ready);
    if let Some(error) = stopped {
        let undone = made.iter().rev().try_for_each(|file| evidence::revert(desk.place, file, desk.temporary, desk.commitment).map(drop));
        return Err(undone.err().map_or(error, |failure| broken(&failure)));
    }
    match direction {
        Direction::Forth => desk.place.faults.point("package.committed"),
        Direction::Back => desk.place.faults.point("package.reverted"),
    }
    for step in steps {
        step.settle()?;
    }
    Ok(())
}

/// The change of one file while it is being made.
struct Step<'j> {
    file: &'j Evidence,
    path: WorkspacePath,
    folder: OwnedFd,
    made: MadeFolders,
    temporary: String,
}

impl<'j> Step<'j> {
    fn new(place: &Place, file: &'j Evidence, temporary: String, direction: Direction) -> Result<Self, Error> {
        let path = WorkspacePath::parse(&file.path)?;
        let reached = place.workspace.reach(&path, path.folders())?;
        if file.new_sha256.is_none() && !reached.missing.is_empty() {
            return Err(direction.conflict(&file.path));
        }
        let (folder, made) = MadeFolders::make(reached, &path)?;
        Ok(Self { file, path, folder, made, temporary })
    }

    /// Writes the new content to disk beside its target.
    fn stage<'s>(&'s self, place: &Place, direction: Direction) -> Result<Option<Staged<'s>>, Error> {
        let Some(digest) = self.file.new_sha256 else {
            return Ok(None);
        };
        let mode = Mode::from_raw_mode(self.file.mode.or(self.file.new_mode).unwrap_or(0o644));
        let mut staged = Staged::create(&self.folder, &self.temporary, mode, &self.path)?;
        place.snapshots.copy(digest, &self.path, |chunk| staged.write(chunk))?;
        staged.set_mode(mode)?;
        staged.sync()?;
        match direction {
            Direction::Forth => place.faults.point("package.staged_one"),
            Direction::Back => {}
        }
        Ok(Some(staged))
    }

    fn make(&self, staged: Option<Staged<'_>>) -> Result<(), Errno> {
        match (staged, self.file.previous_sha256) {
            (Some(staged), None) => staged.appear(self.path.name()),
            (Some(staged), Some(_)) => staged.replace(self.path.name()),
            (None, _) => rustix::fs::unlinkat(&self.folder, self.path.name(), AtFlags::empty()),
        }
    }

    fn settle(self) -> Result<(), Error> {
        self.made.keep();
        sync_folder(&self.folder).map_err(|errno| changed(errno, &self.file.path))
    }
}

/// The name that errors about a kept result use.
pub(super) fn result_path() -> Result<WorkspacePath, Error> {
    WorkspacePath::parse("result")
}

fn broken(error: &Error) -> Error {
    Error::Broken { source_id: "packages".to_owned(), message: format!("some files were changed and could not be put back: {error}") }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
