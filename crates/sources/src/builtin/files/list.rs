//! `files.list`. Entries outside the scope of the call are neither listed nor counted.

use crate::limits::{FILE_LIST_ENTRIES_MAX, FILE_LIST_VISITED_MAX};
use crate::workspace::Place;
use crate::workspace::outcome::unchanged;
use crate::workspace::path::{WorkspacePath, is_reserved};
use crate::workspace::scope::{Forbidden, check_scope};
use crate::workspace::visit::{Descend, Seen, visit};
use countersign_core::effect::Scope;
use countersign_core::source::{Error, Output};
use rustix::fs::FileType;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BinaryHeap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    path: Option<String>,
    recursive: Option<bool>,
}

/// Ordered by path first: the list is sorted, and the entries that do not fit are the last ones.
#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Entry {
    path: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

pub(super) fn list(place: &Place, params: &List, scope: &Scope) -> Result<Output, Error> {
    let start = match params.path.as_deref() {
        None | Some(".") => String::new(),
        Some(text) => start(place, text, scope)?,
    };
    let below = if params.recursive == Some(true) { Descend::Into } else { Descend::Past };
    let forbidden = Forbidden::of(place, scope)?;
    let mut entries = BinaryHeap::new();
    let mut omitted = 0_usize;
    let visited = visit(place.workspace.root(), &start, FILE_LIST_VISITED_MAX, |seen| match Listed::of(seen, scope, &forbidden) {
        Listed::Entry(entry) => {
            entries.push(entry);
            if entries.len() > FILE_LIST_ENTRIES_MAX {
                entries.pop();
                omitted += 1;
            }
            below
        }
        Listed::NotAddressable => {
            omitted += 1;
            Descend::Past
        }
        Listed::OnTheWay => below,
        Listed::Ours | Listed::Forbidden => Descend::Past,
    });
    visited.map_err(|errno| unchanged(errno, &start))?;
    let value = json!({ "entries": entries.into_sorted_vec(), "omitted": omitted });
    Ok(Output { value, quality_thousandths: 1_000, evidence: None })
}

/// Checks the path as every action does. The walk itself starts at the root again.
fn start(place: &Place, text: &str, scope: &Scope) -> Result<String, Error> {
    let path = WorkspacePath::parse(text)?;
    check_scope(place, scope, &path)?;
    let reached = place.workspace.reach(&path, path.names())?;
    if reached.missing.is_empty() { Ok(text.to_owned()) } else { Err(unchanged(Errno::NOENT, text)) }
}

enum Listed {
    Entry(Entry),
    /// It exists, but no action can name it.
    NotAddressable,
    /// A file that is being written, or the id of the workspace.
    Ours,
    /// Outside the scope of the call, but a folder may contain entries that are inside.
    OnTheWay,
    /// The call must not touch it, nor anything in it.
    Forbidden,
}

impl Listed {
    fn of(seen: &Seen<'_>, scope: &Scope, forbidden: &Forbidden<'_>) -> Self {
        let (Some(path), Ok(name)) = (seen.path, seen.name.to_str()) else {
            return if scope.is_unbounded() { Self::NotAddressable } else { Self::Forbidden };
        };
        if is_reserved(name) {
            return Self::Ours;
        }
        let Ok(addressed) = WorkspacePath::parse(path) else {
            return if scope.permits(path) { Self::NotAddressable } else { Self::Forbidden };
        };
        // An entry that cannot be checked could be a forbidden one.
        if forbidden.check(&addressed).is_err() {
            return Self::Forbidden;
        }
        if !scope.permits(path) {
            return Self::OnTheWay;
        }
        let (kind, bytes) = match seen.kind {
            FileType::RegularFile => ("file", Some(seen.bytes)),
            FileType::Directory => ("folder", None),
            FileType::Symlink => ("link", None),
            FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => ("other", None),
        };
        Self::Entry(Entry { path: path.to_owned(), kind, bytes })
    }
}
