//! A folder that actions work in, and the folder where what they replace is kept. Sources that change files share one `Place`, so
//! that of two changes one sees the other.
//! Read `path` (which spellings are accepted), then `root` (how they are opened), then `evidence` (how a change is taken back).

pub(crate) mod commitment;
pub(crate) mod diff;
pub(crate) mod evidence;
pub(crate) mod made;
pub(crate) mod outcome;
pub(crate) mod path;
pub(crate) mod regular;
pub(crate) mod root;
pub(crate) mod scope;
pub(crate) mod snapshot;
pub(crate) mod staged;
pub(crate) mod visit;
pub(crate) mod workers;

use root::Workspace;
use snapshot::Snapshots;
use std::path::{Path, PathBuf};

/// What actions on files work on.
pub struct Place {
    pub(crate) workspace: Workspace,
    pub(crate) snapshots: Snapshots,
    /// Where a jail finds it.
    pub(crate) folder: PathBuf,
}

impl Place {
    /// The workspace, by its whole path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens both folders, makes them (0700) where they are absent, and removes what a crash left half-written. Neither may lie
    /// inside the other.
    pub fn open(root: &Path, snapshots: &Path) -> Result<Self, crate::Error> {
        root::make_folder(root)?;
        root::make_folder(snapshots)?;
        root::check_apart(root, snapshots)?;
        let folder = root.canonicalize().map_err(|error| root::folder_error(root, &error))?;
        Ok(Self { workspace: Workspace::open(root)?, snapshots: Snapshots::open(snapshots)?, folder })
    }
}
