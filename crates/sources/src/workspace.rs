//! A folder in which actions work, and a folder for the content they replace. Sources that change files share one `Place`, so that two
//! changes see each other.
//!
//! Read `places` (which workspace is whose), then `path` (which spellings are accepted), then `root` (how paths are opened), then `evidence` (how a
//! change is reverted).

pub(crate) mod commitment;
pub(crate) mod diff;
pub(crate) mod evidence;
pub(crate) mod id;
pub(crate) mod made;
pub(crate) mod mounts;
pub(crate) mod open;
pub(crate) mod outcome;
pub(crate) mod path;
pub(crate) mod places;
pub(crate) mod regular;
pub(crate) mod root;
pub(crate) mod scope;
pub(crate) mod snapshot;
pub(crate) mod staged;
pub(crate) mod view;
pub(crate) mod visit;
pub(crate) mod workers;

pub use id::ID_FILE;
pub use places::{Folders, Places};
pub use root::{Spelling, spelling_of};
pub use snapshot::Kept;

use countersign_core::Random;
use countersign_core::fault::Faults;
use countersign_core::source::Error;
use id::WorkspaceId;
use root::Workspace;
use snapshot::Snapshots;
use std::path::{Path, PathBuf};

/// The folders and settings that all actions on files use.
pub struct Place {
    pub(crate) workspace: Workspace,
    pub(crate) snapshots: Snapshots,
    pub(crate) id: WorkspaceId,
    /// The path at which a jail finds the workspace.
    pub(crate) folder: PathBuf,
    pub(crate) faults: Faults,
}

impl Place {
    /// The absolute path of the workspace.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens both folders, creates them (0700) if they are missing, and removes files that a crash left half-written. Neither folder may
    /// lie inside the other. `random` is used for the id of a workspace that has none yet.
    pub fn open(root: &Path, snapshots: &Path, random: &dyn Random) -> Result<Self, crate::Error> {
        root::make_folder(root)?;
        root::make_folder(snapshots)?;
        root::check_apart(root, snapshots)?;
        let folder = root.canonicalize().map_err(|error| open::folder_error(root, &error))?;
        let workspace = Workspace::open(root)?;
        let id = WorkspaceId::find_or_make(workspace.root(), root, random)?;
        Ok(Self { workspace, snapshots: Snapshots::open(snapshots)?, id, folder, faults: Faults::default() })
    }

    /// The same, with fault points that a test can listen to between the steps of a change.
    #[must_use]
    pub fn with_faults(mut self, faults: &Faults) -> Self {
        self.faults = faults.clone();
        self.snapshots.listen(faults);
        self
    }

    /// Whether a change was made in this workspace. Evidence without an id is from the time before workspaces had ids, when there was only
    /// one.
    pub(crate) fn is(&self, workspace: Option<&WorkspaceId>) -> bool {
        workspace.is_none_or(|workspace| *workspace == self.id)
    }

    pub(crate) fn check_is(&self, workspace: Option<&WorkspaceId>) -> Result<(), Error> {
        if self.is(workspace) { Ok(()) } else { Err(Error::WorkspaceElsewhere) }
    }
}
