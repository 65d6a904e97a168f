//! Reads the text files of a workspace folder for an import. Nothing here changes anything.

use crate::limits::{DOCUMENT_BYTES_MAX, DOCUMENT_FILES_MAX, FILE_LIST_VISITED_MAX};
use crate::words::{refused, shown};
use crate::workspace::Place;
use crate::workspace::outcome::{content_changed, unchanged};
use crate::workspace::path::{WorkspacePath, is_reserved};
use crate::workspace::regular::Regular;
use crate::workspace::scope::{Forbidden, check_scope};
use crate::workspace::visit::{Descend, Seen, visit};
use countersign_core::Digest;
use countersign_core::effect::Scope;
use countersign_core::source::Error;
use rustix::fs::FileType;
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// A text file.
pub(super) struct File {
    pub(super) path: String,
    /// Its own name, without the folders.
    pub(super) name: String,
    pub(super) sha256: Digest,
    pub(super) bytes: usize,
}

/// What is in a folder.
pub(super) struct Found {
    /// Relative to the workspace; empty for the workspace itself.
    pub(super) folder: String,
    pub(super) files: Vec<File>,
    /// Files that cannot be documents.
    pub(super) skipped: usize,
}

/// Looks at every file of a folder and of those inside, in the order of their paths.
pub(super) fn look(place: &Place, folder: Option<&str>, scope: &Scope) -> Result<Found, Error> {
    let folder = match folder {
        None | Some(".") => String::new(),
        Some(text) => start(place, text, scope)?,
    };
    let forbidden = Forbidden::of(place, scope)?;
    let (mut paths, mut skipped) = (Vec::new(), 0);
    let each = |seen: &Seen<'_>| match Looked::at(seen, scope, &forbidden) {
        Looked::File(path) => {
            paths.push(path);
            Descend::Past
        }
        Looked::Folder => Descend::Into,
        Looked::Odd => {
            skipped += 1;
            Descend::Past
        }
        Looked::Nothing => Descend::Past,
    };
    visit(place.workspace.root(), &folder, FILE_LIST_VISITED_MAX, each).map_err(|errno| unchanged(errno, &folder))?;
    if paths.len() > DOCUMENT_FILES_MAX {
        let message = format!(
            "`{}` has {} files, and one import looks at {DOCUMENT_FILES_MAX}: import the folders inside one by one",
            shown(&folder),
            paths.len()
        );
        return Err(refused("too_many_files", message));
    }
    paths.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    let mut files = Vec::new();
    for path in paths {
        match text_at(place, &path) {
            Some(text) => {
                let (name, path) = (path.name().to_owned(), path.as_str().to_owned());
                files.push(File { path, name, sha256: digest_of(&text), bytes: text.len() });
            }
            None => skipped += 1,
        }
    }
    Ok(Found { folder, files, skipped })
}

/// The texts of files that were looked at, by their digests. A file that has changed meanwhile is refused.
pub(super) fn read(place: &Place, files: &[(String, Digest)], scope: &Scope) -> Result<BTreeMap<Digest, String>, Error> {
    let read = |(path, expected): &(String, Digest)| {
        let addressed = WorkspacePath::parse(path)?;
        check_scope(place, scope, &addressed)?;
        let text = text_at(place, &addressed).filter(|text| digest_of(text) == *expected);
        text.map(|text| (*expected, text)).ok_or_else(|| content_changed(path))
    };
    files.iter().map(read).collect()
}

pub(super) fn digest_of(text: &str) -> Digest {
    Digest::new(Sha256::digest(text).into())
}

/// Whether a text can be kept: neither database takes an empty one for a text, and PostgreSQL keeps no zero.
pub(super) fn is_text(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= DOCUMENT_BYTES_MAX && !text.contains('\0')
}

fn start(place: &Place, text: &str, scope: &Scope) -> Result<String, Error> {
    let path = WorkspacePath::parse(text)?;
    check_scope(place, scope, &path)?;
    let reached = place.workspace.reach(&path, path.names())?;
    if reached.missing.is_empty() { Ok(text.to_owned()) } else { Err(unchanged(Errno::NOENT, text)) }
}

/// The text of a file, if it can be a document.
fn text_at(place: &Place, path: &WorkspacePath) -> Option<String> {
    let reached = place.workspace.reach(path, path.folders()).ok().filter(|reached| reached.missing.is_empty())?;
    let file = Regular::get(&place.workspace, &reached.folder, path).ok()?;
    let text = String::from_utf8(file.read(DOCUMENT_BYTES_MAX as u64).ok()?).ok()?;
    is_text(&text).then_some(text)
}

enum Looked {
    File(WorkspacePath),
    Folder,
    /// No action can name it.
    Odd,
    /// Ours, no file, or outside the scope of the call.
    Nothing,
}

impl Looked {
    fn at(seen: &Seen<'_>, scope: &Scope, forbidden: &Forbidden<'_>) -> Self {
        let (Some(path), Ok(name)) = (seen.path, seen.name.to_str()) else {
            return if scope.is_unbounded() { Self::Odd } else { Self::Nothing };
        };
        if is_reserved(name) {
            return Self::Nothing;
        }
        let Ok(addressed) = WorkspacePath::parse(path) else {
            return if scope.permits(path) { Self::Odd } else { Self::Nothing };
        };
        // What cannot be checked could be forbidden.
        if forbidden.check(&addressed).is_err() {
            Self::Nothing
        } else if seen.kind == FileType::Directory {
            Self::Folder
        } else if seen.kind == FileType::RegularFile && scope.permits(path) {
            Self::File(addressed)
        } else {
            Self::Nothing
        }
    }
}
