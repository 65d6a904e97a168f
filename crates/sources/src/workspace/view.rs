//! The part of the workspace that code may see while it acts for a call: all of it, or only what the call's scope permits. The view is
//! built from the permitted entries, never by covering forbidden ones: a cover is lost when the file below it is replaced.

use super::mounts::mounts_below;
use super::open::{FOLDER, identity_on_one_mount, open_beneath, open_folder, real_path};
use super::outcome::{unchanged, unchanged_io};
use super::root::{Spelling, spelling_of};
use crate::words::{refused, shown};
use countersign_core::effect::Scope;
use countersign_core::jail::{Confinement, View};
use countersign_core::limits::VIEW_PARTS_MAX;
use countersign_core::source::Error;
use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Shows the workspace to a run, as far as the scope of its call permits.
pub(crate) async fn show(workspace: &Path, jail: &str, scope: &Scope, confinement: &mut Confinement) -> Result<(), Error> {
    let (host, jail) = (workspace.to_owned(), PathBuf::from(jail));
    if scope.is_unbounded() {
        confinement.read_only.push((host, jail));
        return Ok(());
    }
    let (folder, scope) = (host.clone(), scope.clone());
    let looked = tokio::task::spawn_blocking(move || parts(&folder, &scope)).await;
    let only = looked.unwrap_or_else(|error| Err(unchanged_io(&std::io::Error::other(error), ".")))?;
    confinement.views.push(View { host, jail, only });
    Ok(())
}

/// The entries of the workspace that a scope permits, none of which lies in another.
pub(crate) fn parts(workspace: &Path, scope: &Scope) -> Result<Vec<String>, Error> {
    let root = open_folder(workspace).map_err(|error| unchanged_io(&std::io::Error::other(error.to_string()), "."))?;
    let mut view = Parts {
        root: &root,
        hidden: Vec::new(),
        folds_case: spelling_of(workspace) != Some(Spelling::CaseSensitive),
        found: BTreeSet::new(),
    };
    for forbidden in scope.forbidden_paths() {
        // A forbidden path is hidden by its name, and by the path to which its links lead.
        let real = real_path(&root, &forbidden).map_err(|errno| unchanged(errno, &forbidden))?;
        check_is_on_one_mount(&root, real.as_deref().unwrap_or_default())?;
        view.hidden.extend([view.folded(&forbidden)].into_iter().chain(real.map(|real| view.folded(&real))));
    }
    // SECURITY: a mount can show the inside of a forbidden folder, and files covered by a mount were not visible before either. So mounts
    // are hidden.
    let mounts = mounts_below(workspace).map_err(|error| unchanged_io(&error, "."))?;
    view.hidden.extend(mounts.iter().map(|mount| view.folded(mount)).collect::<Vec<_>>());
    let is_open = scope.allowed_files.is_empty() && scope.allowed_dirs.is_empty();
    let (folders, files) = if is_open { (vec![String::new()], Vec::new()) } else { scope.allowed_paths() };
    for folder in folders {
        view.add_folder(folder)?;
    }
    for file in files {
        view.add_file(file)?;
    }
    Ok(view.apart())
}

/// Refuses a forbidden path behind a mount: its content has a second name where the mount comes from, and that name is unknown.
fn check_is_on_one_mount(root: &OwnedFd, forbidden: &str) -> Result<(), Error> {
    if forbidden.is_empty() || identity_on_one_mount(root, forbidden) != Err(Errno::XDEV) {
        return Ok(());
    }
    let why = "it lies behind a mount, and could be seen under a second name";
    Err(refused("outside_scope", format!("`{}` cannot be kept from the code of this call: {why}; nothing ran", shown(forbidden))))
}

struct Parts<'a> {
    root: &'a OwnedFd,
    /// The paths that must not be seen, folded for comparison.
    hidden: Vec<String>,
    folds_case: bool,
    found: BTreeSet<String>,
}

impl Parts<'_> {
    /// Adds a folder with all its contents. It is split into its entries only where something in it must not be seen.
    fn add_folder(&mut self, folder: String) -> Result<(), Error> {
        let mut ahead = vec![folder];
        while let Some(path) = ahead.pop() {
            if self.is_hidden(&path) {
                continue;
            }
            // The root itself is always split, because it is where the entries are placed.
            if !path.is_empty() && !self.hides_below(&path) {
                self.found.insert(path);
            } else {
                match self.names(&path)? {
                    Some(names) => ahead.extend(names.into_iter().map(|name| join(&path, &name)).filter(|path| !self.is_hidden(path))),
                    // It is not a folder, so it contains nothing that must not be seen.
                    None => drop(self.found.insert(path)),
                }
            }
            if self.found.len() + ahead.len() > VIEW_PARTS_MAX {
                return Err(too_fine());
            }
        }
        Ok(())
    }

    /// Adds a file. A folder of that name is not what was allowed.
    fn add_file(&mut self, path: String) -> Result<(), Error> {
        if path.is_empty() || self.is_hidden(&path) {
            return Ok(());
        }
        let found = open_beneath(self.root, &path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty());
        match found.and_then(rustix::fs::fstat) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => Ok(()),
            Ok(_) => {
                self.found.insert(path);
                if self.found.len() > VIEW_PARTS_MAX { Err(too_fine()) } else { Ok(()) }
            }
            Err(errno) if is_absence(errno) => Ok(()),
            Err(errno) => Err(unchanged(errno, &path)),
        }
    }

    /// The names in a folder; `None` if it is not a folder. Names that are not UTF-8 are left out, because no call can name them.
    fn names(&self, path: &str) -> Result<Option<Vec<String>>, Error> {
        let folder = match open_beneath(self.root, if path.is_empty() { "." } else { path }, FOLDER, Mode::empty()) {
            Ok(folder) => folder,
            Err(errno) if is_absence(errno) => return Ok(None),
            Err(errno) => return Err(unchanged(errno, path)),
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder).map_err(|errno| unchanged(errno, path))? {
            let entry = entry.map_err(|errno| unchanged(errno, path))?;
            match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                // With so many names, not all of them can be hidden, so there are too many parts. The rest need not be read.
                Ok(_) if names.len() > VIEW_PARTS_MAX + self.hidden.len() => return Err(too_fine()),
                Ok(name) => names.push(name.to_owned()),
            }
        }
        Ok(Some(names))
    }

    fn is_hidden(&self, path: &str) -> bool {
        let path = self.folded(path);
        self.hidden.iter().any(|hidden| lies_in(&path, hidden))
    }

    fn hides_below(&self, path: &str) -> bool {
        let path = self.folded(path);
        self.hidden.iter().any(|hidden| lies_in(hidden, &path))
    }

    /// Where the file system ignores case, hidden paths are compared without case too.
    fn folded(&self, path: &str) -> String {
        if self.folds_case { path.to_lowercase() } else { path.to_owned() }
    }

    fn apart(self) -> Vec<String> {
        let lies_in_another = |path: &str| path.match_indices('/').any(|(end, _)| self.found.contains(&path[..end]));
        self.found.iter().filter(|path| !lies_in_another(path)).cloned().collect()
    }
}

/// Whether a path is `folder` or lies in it. The empty path is the workspace.
fn lies_in(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Whether the error means that there is nothing to show.
fn is_absence(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NAMETOOLONG | Errno::INVAL)
}

fn too_fine() -> Error {
    let message = format!(
        "the scope of the call leaves more than {VIEW_PARTS_MAX} separate parts of the workspace to be shown: forbid a whole folder, or allow \
         one, instead of a file among very many; nothing ran"
    );
    refused("scope_too_fine", message)
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
