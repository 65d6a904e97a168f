//! Checks the scope of a call: the outer limit of where it may act. Forbidden files are compared by identity, not by spelling: a forbidden
//! file is forbidden under every name it has. If a scope forbids nothing, this does not access the disk.

use super::Place;
use super::open::{Identity, identity_behind_links, identity_on_one_mount};
use super::outcome::unchanged;
use super::path::WorkspacePath;
use super::root::{Spelling, Workspace};
use crate::words::{refused, shown};
use countersign_core::effect::Scope;
use countersign_core::source::Error;
use rustix::io::Errno;

/// Checks a path against the scope. Every check of an action includes this.
pub(crate) fn check_scope(place: &Place, scope: &Scope, path: &WorkspacePath) -> Result<(), Error> {
    check_spelling(scope, path)?;
    Forbidden::of(place, scope)?.check(path)
}

/// Checks only what the spelling of the path can tell.
pub(crate) fn check_spelling(scope: &Scope, path: &WorkspacePath) -> Result<(), Error> {
    if scope.permits(path.as_str()) { Ok(()) } else { Err(outside(path)) }
}

/// The files that a call must not touch, looked up once for all the paths that are checked.
pub(crate) struct Forbidden<'a> {
    workspace: &'a Workspace,
    /// Only the forbidden part of the scope, as it is spelled.
    named: Scope,
    found: Vec<Identity>,
}

impl<'a> Forbidden<'a> {
    pub(crate) fn of(place: &'a Place, scope: &Scope) -> Result<Self, Error> {
        let workspace = &place.workspace;
        let named = Scope { forbidden_files: scope.forbidden_files.clone(), ..Scope::default() };
        Ok(Self { workspace, found: identities(workspace, &named)?, named })
    }

    pub(crate) fn check(&self, path: &WorkspacePath) -> Result<(), Error> {
        if self.named.forbidden_files.is_empty() {
            return Ok(());
        }
        if !self.named.permits(path.as_str()) {
            return Err(outside(path));
        }
        self.check_spellings(path)?;
        self.check_identities(path)
    }

    /// A file that does not exist yet has no identity. So where the file system ignores case, forbidden names are compared without case
    /// too.
    fn check_spellings(&self, path: &WorkspacePath) -> Result<(), Error> {
        match self.workspace.spelling() {
            Spelling::CaseSensitive => return Ok(()),
            Spelling::CaseInsensitive => {}
        }
        let forbidden_files = self.named.forbidden_files.iter().map(|forbidden| forbidden.to_lowercase()).collect();
        let folded = Scope { forbidden_files, ..Scope::default() };
        if folded.permits(&path.as_str().to_lowercase()) { Ok(()) } else { Err(outside(path)) }
    }

    /// SECURITY: neither the file nor a folder on the way may be forbidden. A mount on the way is refused: it can show the inside of a
    /// forbidden folder, whose identity is then nowhere on the way.
    fn check_identities(&self, path: &WorkspacePath) -> Result<(), Error> {
        let names = path.names();
        for last in 0..names.len() {
            match identity_on_one_mount(self.workspace.root(), &names[..=last].join("/")) {
                Ok(found) if self.found.contains(&found) => return Err(outside(path)),
                Ok(_) => {}
                Err(Errno::NOENT) => return Ok(()),
                Err(Errno::XDEV) => {
                    let why = "it passes a mount, behind which what the call must not touch could have a second name";
                    return Err(refused("outside_scope", format!("`{}` lies outside the scope of the call: {why}", shown(path.as_str()))));
                }
                Err(errno) => return Err(unchanged(errno, path.as_str())),
            }
        }
        Ok(())
    }
}

fn identities(workspace: &Workspace, scope: &Scope) -> Result<Vec<Identity>, Error> {
    let mut identities = Vec::new();
    for forbidden in scope.forbidden_paths() {
        match identity_behind_links(workspace.root(), if forbidden.is_empty() { "." } else { &forbidden }) {
            Ok(identity) => identities.push(identity),
            // Nothing exists there, or it lies outside the workspace, where no path of a call leads.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NAMETOOLONG | Errno::INVAL) => {}
            Err(errno) => return Err(unchanged(errno, &forbidden)),
        }
    }
    Ok(identities)
}

fn outside(path: &WorkspacePath) -> Error {
    refused("outside_scope", format!("`{}` lies outside the scope of the call", shown(path.as_str())))
}
