//! The definitions of the `files` actions.

use crate::builtin::{VERSION, action_id, object_schema};
use crate::limits::{FILE_LIST_ENTRIES_MAX, FILE_READ_BYTES_MAX, FILE_WRITE_BYTES_MAX, MEDIUM_TIMEOUT_MS};
use countersign_core::action::{Effect, Preview, Repeatability, Reversibility};
use countersign_core::limits::{FILE_PATH_BYTES_MAX, LOW_TIMEOUT_MS, REVERSIBLE_SECONDS_MAX};
use countersign_core::{Action, Tier};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn actions() -> Result<Vec<Arc<Action>>, crate::Error> {
    Ok(vec![Arc::new(read_text()?), Arc::new(list()?), Arc::new(write_text()?), Arc::new(delete()?)])
}

fn read_text() -> Result<Action, crate::Error> {
    Ok(Action {
        version: VERSION.to_owned(),
        title: "Read a text file".to_owned(),
        description: format!("Returns a UTF-8 text file of the workspace whole, up to {FILE_READ_BYTES_MAX} bytes."),
        params_schema: object_schema(json!({ "path": path_schema() }), &["path"]),
        result_schema: object_schema(
            json!({
                "text": { "type": "string" },
                "bytes": bytes_schema("Bytes of the file."),
                "sha256": sha256_schema("Digest of the content."),
            }),
            &["text", "bytes", "sha256"],
        ),
        requires: vec!["files.read".to_owned()],
        effects: vec![Effect::FilesystemRead],
        timeout_ms: LOW_TIMEOUT_MS,
        reversibility: Reversibility::NoEffect,
        repeatability: Repeatability::Repeatable,
        ..Action::new(action_id("files.read_text")?, Tier::R0)
    })
}

fn list() -> Result<Action, crate::Error> {
    let folder = json!({ "type": "string", "minLength": 1, "maxLength": FILE_PATH_BYTES_MAX,
        "description": "Folder to list, relative to the workspace; leave it out for the workspace itself." });
    let entry = object_schema(
        json!({
            "path": { "type": "string", "description": "Relative to the workspace." },
            "kind": { "enum": ["file", "folder", "link", "other"], "description": "Links are named, never followed." },
            "bytes": bytes_schema("Bytes of a file; absent for everything else."),
        }),
        &["path", "kind"],
    );
    Ok(Action {
        version: VERSION.to_owned(),
        title: "List files".to_owned(),
        description: format!("Lists a folder of the workspace, sorted by path, up to {FILE_LIST_ENTRIES_MAX} entries."),
        params_schema: object_schema(
            json!({ "path": folder, "recursive": { "type": "boolean", "description": "Whether to list the folders inside too." } }),
            &[],
        ),
        result_schema: object_schema(
            json!({
                "entries": { "type": "array", "items": entry, "maxItems": FILE_LIST_ENTRIES_MAX },
                "omitted": { "type": "integer", "minimum": 0,
                    "description": "Entries seen but not listed: too many, or with names these actions do not accept." },
            }),
            &["entries", "omitted"],
        ),
        requires: vec!["files.read".to_owned()],
        effects: vec![Effect::FilesystemRead],
        timeout_ms: LOW_TIMEOUT_MS,
        reversibility: Reversibility::NoEffect,
        repeatability: Repeatability::Repeatable,
        ..Action::new(action_id("files.list")?, Tier::R0)
    })
}

fn write_text() -> Result<Action, crate::Error> {
    Ok(Action {
        version: VERSION.to_owned(),
        title: "Write a text file".to_owned(),
        description: "Writes a UTF-8 text file of the workspace whole, making it and its folders where they are absent. \
            What it held before is kept."
            .to_owned(),
        params_schema: object_schema(
            json!({
                "path": path_schema(),
                "text": { "type": "string", "maxLength": FILE_WRITE_BYTES_MAX, "description": "The whole new content." },
                "expected_sha256": sha256_schema("Digest the file must have now, or nothing is written; `files.read_text` tells it."),
            }),
            &["path", "text"],
        ),
        result_schema: object_schema(
            json!({
                "bytes_written": bytes_schema("Bytes of the new content."),
                "sha256_text": sha256_schema("Digest of the new content."),
                "created": { "type": "boolean", "description": "Whether there was no such file before." },
                "previous_sha256": sha256_schema("Digest of the content that was replaced and kept."),
            }),
            &["bytes_written", "sha256_text", "created"],
        ),
        requires: vec!["files.write".to_owned()],
        effects: vec![Effect::FilesystemWrite],
        timeout_ms: LOW_TIMEOUT_MS,
        idempotency_key_fields: vec!["path".to_owned(), "sha256(text)".to_owned()],
        reversibility: Reversibility::Reversible,
        reversible_seconds: Some(REVERSIBLE_SECONDS_MAX),
        checks: vec![super::evidence::READ_BACK.to_owned()],
        repeatability: Repeatability::Repeatable,
        preview: Preview::Supported,
        // The diff shows the current content of the file.
        preview_reads: Some(action_id("files.read_text")?),
        ..Action::new(action_id("files.write_text")?, Tier::R2)
    })
}

fn delete() -> Result<Action, crate::Error> {
    Ok(Action {
        version: VERSION.to_owned(),
        title: "Delete a file".to_owned(),
        description: "Deletes one regular file of the workspace. Its content is kept.".to_owned(),
        params_schema: object_schema(json!({ "path": path_schema() }), &["path"]),
        result_schema: object_schema(
            json!({ "deleted": { "const": true }, "previous_sha256": sha256_schema("Digest of the content that was kept.") }),
            &["deleted", "previous_sha256"],
        ),
        requires: vec!["files.delete".to_owned()],
        effects: vec![Effect::FilesystemWrite],
        timeout_ms: MEDIUM_TIMEOUT_MS,
        reversibility: Reversibility::Reversible,
        reversible_seconds: Some(REVERSIBLE_SECONDS_MAX),
        checks: vec![super::evidence::READ_BACK.to_owned()],
        preview: Preview::Supported,
        // The diff shows the current content of the file.
        preview_reads: Some(action_id("files.read_text")?),
        // Not repeatable: the second time, there is nothing to delete, and the call fails.
        ..Action::new(action_id("files.delete")?, Tier::R3)
    })
}

fn path_schema() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": FILE_PATH_BYTES_MAX,
        "description": "Relative to the workspace, names divided by `/`, without `.` and `..`." })
}

fn bytes_schema(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

fn sha256_schema(description: &str) -> Value {
    json!({ "type": "string", "pattern": "^[0-9a-f]{64}$", "minLength": 64, "maxLength": 64, "description": description })
}
