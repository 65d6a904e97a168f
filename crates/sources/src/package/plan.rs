//! Checks the files on a script's stage against the paths the call may write, before any of them is applied.

use super::journal::{Journal, result_path};
use super::script::UNCHANGED;
use crate::limits::{FILE_READ_BYTES_MAX, PACKAGE_CHANGES_MAX};
use crate::words::{failed, refused, shown};
use crate::workspace::Place;
use crate::workspace::diff::Diff;
use crate::workspace::evidence::Evidence;
use crate::workspace::path::WorkspacePath;
use crate::workspace::regular::Regular;
use crate::workspace::scope::check_scope;
use countersign_core::Digest;
use countersign_core::changed_file::warn;
use countersign_core::effect::Scope;
use countersign_core::jail::StagedFile;
use countersign_core::json::in_plain_words;
use countersign_core::source::{Error, Output};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// The JSON that `execute` prints.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    #[serde(default)]
    pub(super) output: Value,
    /// Files to delete. A file that is merely absent from the stage stays.
    #[serde(default)]
    pub(super) deletes: Vec<String>,
    #[serde(default)]
    quality: Quality,
}

/// The quality that the script gives its own result; 0 if it gives none.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(try_from = "f64")]
struct Quality {
    thousandths: u32,
}

impl TryFrom<f64> for Quality {
    type Error = String;

    fn try_from(quality: f64) -> Result<Self, String> {
        if !(0.0..=1.0).contains(&quality) {
            return Err(format!("`quality` is {quality}; it lies between 0 and 1"));
        }
        Ok(Self { thousandths: (quality * 1_000.0).round() as u32 })
    }
}

impl Answer {
    pub(super) fn read(result: Value) -> Result<Self, Error> {
        Self::deserialize(result).map_err(|error| {
            failed(
                "package_bad_output",
                format!(
                    "the result of `execute` is not `{{\"output\": …, \"deletes\": […], \"quality\": …}}`: {}{UNCHANGED}",
                    in_plain_words(&error)
                ),
            )
        })
    }
}

/// All changes of a call, before any of them is made.
pub(super) struct Plan {
    changes: Vec<Change>,
    output: Value,
    quality: Quality,
}

struct Change {
    path: WorkspacePath,
    previous: Option<(Regular, Digest)>,
    /// `None` if the file is to be deleted.
    new: Option<(Vec<u8>, Digest)>,
    evidence: Evidence,
}

impl Plan {
    pub(super) fn new(place: &Place, staged: Vec<StagedFile>, answer: Answer, scope: &Scope, may_write: bool) -> Result<Self, Error> {
        let count = staged.len() + answer.deletes.len();
        if count > 0 && !may_write {
            return Err(refused(
                "package_may_not_write",
                format!("it would change {count} files, and its tier and permissions let it change none"),
            ));
        }
        if count > PACKAGE_CHANGES_MAX {
            return Err(refused(
                "package_stage_refused",
                format!("it would change {count} files; at most {PACKAGE_CHANGES_MAX} are allowed in one call"),
            ));
        }
        let mut named = BTreeSet::new();
        let mut changes = Vec::new();
        let writes = staged.into_iter().map(|file| (file.path, Some((file.bytes, file.mode))));
        for (text, content) in writes.chain(answer.deletes.into_iter().map(|path| (path, None))) {
            let path = WorkspacePath::parse(&text)?;
            check_scope(place, scope, &path)?;
            if !named.insert(text) {
                return Err(refused("package_stage_refused", format!("`{}` is named twice", shown(path.as_str()))));
            }
            changes.extend(Change::new(place, path, content)?);
        }
        Ok(Self { changes, output: answer.output, quality: answer.quality })
    }

    /// Stores the old and the new contents as snapshots, so that a crash loses neither. `definition` is the digest of the kept definition.
    pub(super) fn keep(&self, place: &Place, definition: Digest, temporary: &str) -> Result<Journal, Error> {
        for change in &self.changes {
            if let Some((file, digest)) = &change.previous {
                place.snapshots.keep(file, *digest, &change.path, temporary)?;
            }
            if let Some((bytes, _)) = &change.new {
                place.snapshots.keep_bytes(bytes, &change.path, temporary)?;
            }
        }
        let result_sha256 = place.snapshots.keep_bytes(self.output.to_string().as_bytes(), &result_path()?, temporary)?;
        let definition_sha256 = Some(definition);
        let files = self.changes.iter().map(|change| change.evidence.clone()).collect();
        let quality_thousandths = self.quality.thousandths;
        Ok(Journal { files, result_sha256, definition_sha256, workspace: Some(place.id.clone()), quality_thousandths })
    }

    /// The changes as JSON, for a dry run and for an approver.
    pub(super) fn describe(self) -> Result<Value, Error> {
        let changes = self.changes.iter().map(Change::describe).collect::<Result<Vec<_>, _>>()?;
        Ok(json!({ "changes": changes, "output": self.output }))
    }

    pub(super) fn into_output(self) -> Output {
        Output { quality_thousandths: self.quality.thousandths, ..Output::new(self.output) }
    }
}

impl Change {
    /// `None` if the file would not change.
    fn new(place: &Place, path: WorkspacePath, content: Option<(Vec<u8>, u32)>) -> Result<Option<Self>, Error> {
        let reached = place.workspace.reach(&path, path.folders())?;
        let previous = if reached.missing.is_empty() { Regular::find(&place.workspace, &reached.folder, &path)? } else { None };
        let previous = previous.map(|file| file.digest().map(|digest| (file, digest))).transpose()?;
        if content.is_none() && previous.is_none() {
            return Err(crate::workspace::outcome::unchanged(Errno::NOENT, path.as_str()));
        }
        let is_executable = content.as_ref().is_some_and(|(_, mode)| mode & 0o100 != 0);
        let new = content.map(|(bytes, _)| {
            let digest = Digest::new(Sha256::digest(&bytes).into());
            (bytes, digest)
        });
        let digest_of = |new: &Option<(Vec<u8>, Digest)>| new.as_ref().map(|(_, digest)| *digest);
        let previous_sha256 = previous.as_ref().map(|(_, digest)| *digest);
        if previous_sha256 == digest_of(&new) {
            return Ok(None);
        }
        let evidence = Evidence {
            path: path.as_str().to_owned(),
            previous_sha256,
            new_sha256: digest_of(&new),
            mode: previous.as_ref().map(|(file, _)| file.mode.as_raw_mode()),
            new_mode: (previous.is_none() && new.is_some()).then_some(if is_executable { 0o755 } else { 0o644 }),
            made_folders: if new.is_some() { path.last_folders(reached.missing.len()) } else { Vec::new() },
            workspace: None,
        };
        Ok(Some(Self { path, previous, new, evidence }))
    }

    fn describe(&self) -> Result<Value, Error> {
        let change = match (&self.previous, &self.new) {
            (None, _) => "would_create",
            (Some(_), Some(_)) => "would_change",
            (Some(_), None) => "would_delete",
        };
        let mut value = json!({ "path": self.path.as_str(), "change": change,
            "previous_sha256": self.evidence.previous_sha256, "new_sha256": self.evidence.new_sha256 });
        if self.new.is_some() {
            warn(&mut value, self.path.as_str(), self.evidence.mode.or(self.evidence.new_mode));
        }
        let old = match &self.previous {
            Some((file, _)) if file.bytes > FILE_READ_BYTES_MAX => None,
            Some((file, _)) => String::from_utf8(file.read(FILE_READ_BYTES_MAX)?).ok(),
            None => Some(String::new()),
        };
        let new = match &self.new {
            Some((bytes, _)) => std::str::from_utf8(bytes).ok(),
            None => Some(""),
        };
        match (old, new) {
            (Some(old), Some(new)) => Diff::of(&old, new).describe(&mut value),
            (_, _) => value["diff"] = Value::Null,
        }
        Ok(value)
    }
}
