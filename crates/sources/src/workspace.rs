//! A folder that actions work in, and the folder where what they replace is kept. Sources that change files share one `Place`, so
//! that of two changes one sees the other.
//! Read `path` (which spellings are accepted), then `root` (how they are opened), then `evidence` (how a change is taken back).

pub(crate) mod commitment;
pub(crate) mod diff;
pub(crate) mod evidence;
pub(crate) mod id;
pub(crate) mod made;
pub(crate) mod mounts;
pub(crate) mod outcome;
pub(crate) mod path;
pub(crate) mod regular;
pub(crate) mod root;
pub(crate) mod scope;
pub(crate) mod snapshot;
pub(crate) mod staged;
pub(crate) mod view;
pub(crate) mod visit;
pub(crate) mod workers;

pub use id::ID_FILE;
pub use root::{Spelling, spelling_of};
pub use snapshot::Kept;

use countersign_core::fault::Faults;
use countersign_core::source::Error;
use countersign_core::{Random, Timestamp};
use id::WorkspaceId;
use root::Workspace;
use snapshot::Snapshots;
use std::path::{Path, PathBuf};

/// What actions on files work on.
pub struct Place {
    pub(crate) workspace: Workspace,
    pub(crate) snapshots: Snapshots,
    pub(crate) id: WorkspaceId,
    /// Where a jail finds it.
    pub(crate) folder: PathBuf,
    pub(crate) faults: Faults,
}

impl Place {
    /// The workspace, by its whole path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens both folders, makes them (0700) where they are absent, and removes what a crash left half-written. Neither may lie
    /// inside the other. `random` is asked for the id of a workspace that has none yet.
    pub fn open(root: &Path, snapshots: &Path, random: &dyn Random) -> Result<Self, crate::Error> {
        root::make_folder(root)?;
        root::make_folder(snapshots)?;
        root::check_apart(root, snapshots)?;
        let folder = root.canonicalize().map_err(|error| root::folder_error(root, &error))?;
        let workspace = Workspace::open(root)?;
        let id = WorkspaceId::find_or_make(workspace.root(), root, random)?;
        Ok(Self { workspace, snapshots: Snapshots::open(snapshots)?, id, folder, faults: Faults::default() })
    }

    /// The same, with somebody who listens between the steps of a change.
    #[must_use]
    pub fn with_faults(mut self, faults: &Faults) -> Self {
        self.faults = faults.clone();
        self.snapshots.listen(faults);
        self
    }

    /// Removes what undoes effects of before `then`, and answers how much there was of it and how much is left.
    pub fn forget_before(&self, then: Timestamp) -> std::io::Result<Kept> {
        Ok(self.snapshots.forget_before(then)?)
    }

    /// Whether this is the workspace a change was made in. What was kept before workspaces had ids was kept by the only one there was.
    pub(crate) fn is(&self, workspace: Option<&WorkspaceId>) -> bool {
        workspace.is_none_or(|workspace| *workspace == self.id)
    }

    pub(crate) fn check_is(&self, workspace: Option<&WorkspaceId>) -> Result<(), Error> {
        if self.is(workspace) { Ok(()) } else { Err(Error::WorkspaceElsewhere) }
    }
}
