//! The workspaces of one org: the one that its spaces share, and one for each space with members, so that nobody reads through another space
//! what was written there. In which of them a call works is decided here and nowhere else.

use super::Place;
use super::id::WorkspaceId;
use super::open::folder_error;
use super::root::check_apart;
use super::snapshot::{Kept, Snapshots};
use crate::words::failed;
use countersign_core::fault::Faults;
use countersign_core::source::{CallContext, Error};
use countersign_core::{Random, SpaceId, Timestamp};
use parking_lot::RwLock;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folders of an org. None of them may lie inside another.
#[derive(Clone, Debug)]
pub struct Folders {
    /// The workspace that spaces share.
    pub root: PathBuf,
    /// Where the content is kept that is replaced there.
    pub snapshots: PathBuf,
    /// Where each space with members has a folder with its own workspace and snapshots. It is made with the first of them.
    pub spaces: PathBuf,
}

impl Folders {
    /// The folders by their usual names.
    pub fn below(home: &Path) -> Self {
        Self { root: home.join("workspace"), snapshots: home.join("snapshots"), spaces: home.join("spaces") }
    }
}

/// The workspaces of one org.
pub struct Places {
    pub(crate) shared: Arc<Place>,
    spaces: PathBuf,
    /// Those of spaces, opened when they are first needed.
    own: RwLock<HashMap<SpaceId, Arc<Place>>>,
    random: Arc<dyn Random>,
    faults: Faults,
}

impl Places {
    pub fn open(folders: Folders, random: Arc<dyn Random>, faults: &Faults) -> Result<Self, crate::Error> {
        let shared = Place::open(&folders.root, &folders.snapshots, &*random)?.with_faults(faults);
        Ok(Self { shared: Arc::new(shared), spaces: folders.spaces, own: RwLock::default(), random, faults: faults.clone() })
    }

    /// The workspace that spaces without members share, and that programs see which run for longer than a call.
    pub const fn shared(&self) -> &Arc<Place> {
        &self.shared
    }

    /// Where a call works: in the workspace that its evidence names, if it has collected some, and otherwise in the one of its space.
    pub(crate) fn of(&self, context: &CallContext) -> Result<Arc<Place>, Error> {
        let named = context.prepared.as_ref().and_then(|evidence| WorkspaceId::deserialize(&evidence["workspace"]).ok());
        match named {
            Some(named) => self.with(context, Some(&named)),
            None => self.of_space(context),
        }
    }

    /// The workspace in which evidence was collected, whether or not its space has had members since. Evidence without an id is from the
    /// time when there was only the shared one. If neither has the id, whoever uses the place notices it by `Place::check_is`.
    pub(crate) fn with(&self, context: &CallContext, workspace: Option<&WorkspaceId>) -> Result<Arc<Place>, Error> {
        if self.shared.is(workspace) {
            return Ok(Arc::clone(&self.shared));
        }
        if home_of(&self.spaces, &context.space).exists() {
            let own = self.own(&context.space)?;
            if own.is(workspace) {
                return Ok(own);
            }
        }
        self.of_space(context)
    }

    fn of_space(&self, context: &CallContext) -> Result<Arc<Place>, Error> {
        if context.has_own_workspace { self.own(&context.space) } else { Ok(Arc::clone(&self.shared)) }
    }

    fn own(&self, space: &SpaceId) -> Result<Arc<Place>, Error> {
        if let Some(place) = self.own.read().get(space) {
            return Ok(Arc::clone(place));
        }
        let mut own = self.own.write();
        if let Some(place) = own.get(space) {
            return Ok(Arc::clone(place));
        }
        let opened = self.open_own(space).map_err(|error| {
            tracing::error!(%error, %space, "the workspace of a space cannot be opened");
            failed("file_io_failed", "the workspace of this space cannot be opened; nothing was changed")
        });
        let place = Arc::new(opened?);
        own.insert(space.clone(), Arc::clone(&place));
        Ok(place)
    }

    fn open_own(&self, space: &SpaceId) -> Result<Place, crate::Error> {
        let Folders { root, snapshots, .. } = Folders::below(&home_of(&self.spaces, space));
        let place = Place::open(&root, &snapshots, &*self.random)?.with_faults(&self.faults);
        // SECURITY: an operator may have put a link in the place of the shared workspace. If that led here, every space would see this one.
        check_apart(&self.shared.folder, &root)?;
        place.show_to_code()?;
        Ok(place)
    }

    /// Removes snapshots of all workspaces that were kept before `then`, and the oldest ones beyond `bytes_max`, but none that was kept since
    /// `spared`. Reports how many were removed and how many are left.
    pub fn forget(&self, then: Timestamp, bytes_max: u64, spared: Timestamp) -> std::io::Result<Kept> {
        let own = self.all_own();
        let all: Vec<_> = std::iter::once(&self.shared).chain(&own).map(|place| &place.snapshots).collect();
        Ok(Snapshots::forget(&all, then, bytes_max, spared)?)
    }

    /// The workspaces of spaces that exist on this server, also of those that have no members any more.
    fn all_own(&self) -> Vec<Arc<Place>> {
        let entries = fs::read_dir(&self.spaces).into_iter().flatten().flatten();
        let spaces = entries.filter_map(|entry| SpaceId::parse(entry.file_name().to_str()?).ok());
        spaces.filter_map(|space| self.own(&space).ok()).collect()
    }
}

fn home_of(spaces: &Path, space: &SpaceId) -> PathBuf {
    spaces.join(space.as_str())
}

impl Place {
    /// If the server runs as root, package code runs under another uid and must be able to read the workspace. The folder that contains the
    /// workspace stays private.
    pub(crate) fn show_to_code(&self) -> Result<(), crate::Error> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let shown = fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o755));
        shown.map_err(|error| folder_error(&self.folder, &error))
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
