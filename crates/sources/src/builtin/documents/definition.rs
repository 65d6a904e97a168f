//! The definitions of the `documents` actions. Documents are the space's own data, as its files are, so they have the effects of files.

use crate::builtin::{VERSION, action_id, object_schema};
use crate::limits::{
    DOCUMENT_BYTES_MAX, DOCUMENT_CHANGES_MAX, DOCUMENT_FILES_MAX, DOCUMENT_HITS_DEFAULT, DOCUMENT_HITS_MAX, DOCUMENT_QUERY_CHARS_MAX,
    DOCUMENT_TAG_CHARS_MAX, DOCUMENT_TAGS_MAX, DOCUMENT_TITLE_CHARS_MAX, MEDIUM_TIMEOUT_MS,
};
use crate::workspace::evidence::READ_BACK;
use countersign_core::action::{Effect, Preview, Repeatability, Reversibility};
use countersign_core::limits::{FILE_PATH_BYTES_MAX, LOW_TIMEOUT_MS, REVERSIBLE_SECONDS_MAX};
use countersign_core::{Action, Tier};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn actions() -> Result<Vec<Arc<Action>>, crate::Error> {
    Ok(vec![Arc::new(search()?), Arc::new(fetch()?), Arc::new(add()?), Arc::new(import_folder()?), Arc::new(tag()?), Arc::new(remove()?)])
}

fn search() -> Result<Action, crate::Error> {
    let hit = object_schema(
        json!({
            "document_id": id_schema(),
            "title": { "type": "string" },
            "snippet": { "type": "string", "description": "A part of the text around the words." },
            "tags": found_tags_schema(),
            "path": { "type": "string", "description": "The file that it was imported from." },
            "changed_at": time_schema("When it was added or last changed."),
        }),
        &["document_id", "title", "snippet", "tags", "changed_at"],
    );
    reading(
        "documents.search",
        "Search documents",
        "Finds documents of the space that have every word in their title or text, the best first. Without words, the last changed come first."
            .to_owned(),
        object_schema(
            json!({
                "query": { "type": "string", "maxLength": DOCUMENT_QUERY_CHARS_MAX, "description": "Words; signs and case do not count." },
                "tags": tags_schema("Only documents that have each of these."),
                "since": { "type": "string", "maxLength": 64, "description": "Only what was added or changed at this time or later (RFC 3339)." },
                "limit": { "type": "integer", "minimum": 1, "maximum": DOCUMENT_HITS_MAX,
                    "description": format!("How many at most; {DOCUMENT_HITS_DEFAULT} if absent.") },
            }),
            &[],
        ),
        object_schema(json!({ "hits": { "type": "array", "items": hit, "maxItems": DOCUMENT_HITS_MAX } }), &["hits"]),
    )
}

fn fetch() -> Result<Action, crate::Error> {
    reading(
        "documents.fetch",
        "Read a document",
        "Returns a document of the space whole.".to_owned(),
        object_schema(json!({ "document_id": id_schema() }), &["document_id"]),
        object_schema(
            json!({
                "document_id": id_schema(),
                "title": { "type": "string" },
                "text": { "type": "string" },
                "tags": found_tags_schema(),
                "path": { "type": "string", "description": "The file that it was imported from." },
                "sha256": sha256_schema(),
                "bytes": count_schema("Bytes of the text."),
                "created_at": time_schema("When it was added."),
                "changed_at": time_schema("When it was added or last changed."),
            }),
            &["document_id", "title", "text", "tags", "sha256", "bytes", "created_at", "changed_at"],
        ),
    )
}

fn reading(id: &str, title: &str, description: String, params_schema: Value, result_schema: Value) -> Result<Action, crate::Error> {
    Ok(Action {
        version: VERSION.to_owned(),
        title: title.to_owned(),
        description,
        params_schema,
        result_schema,
        requires: vec!["documents.read".to_owned()],
        effects: vec![Effect::FilesystemRead],
        timeout_ms: LOW_TIMEOUT_MS,
        reversibility: Reversibility::NoEffect,
        repeatability: Repeatability::Repeatable,
        ..Action::new(action_id(id)?, Tier::R0)
    })
}

fn add() -> Result<Action, crate::Error> {
    Ok(Action {
        title: "Add a document".to_owned(),
        description: format!("Adds a text of up to {DOCUMENT_BYTES_MAX} bytes to the documents of the space."),
        params_schema: object_schema(
            json!({
                "title": { "type": "string", "minLength": 1, "maxLength": DOCUMENT_TITLE_CHARS_MAX, "description": "One line." },
                "text": { "type": "string", "minLength": 1, "maxLength": DOCUMENT_BYTES_MAX },
                "tags": tags_schema("By which it is found."),
            }),
            &["title", "text"],
        ),
        result_schema: object_schema(
            json!({ "document_id": id_schema(), "sha256": sha256_schema(), "bytes": count_schema("Bytes of the text.") }),
            &["document_id", "sha256", "bytes"],
        ),
        idempotency_key_fields: vec!["title".to_owned(), "sha256(text)".to_owned()],
        ..writing("documents.add", Tier::R2)?
    })
}

fn import_folder() -> Result<Action, crate::Error> {
    let document = object_schema(
        json!({ "document_id": id_schema(), "path": { "type": "string" }, "change": { "enum": ["added", "changed"] } }),
        &["document_id", "path", "change"],
    );
    Ok(Action {
        title: "Import a folder".to_owned(),
        description: format!(
            "Makes documents of the text files of a workspace folder and the folders inside, up to {DOCUMENT_FILES_MAX} files. A file that \
             was imported before and has changed changes its document. At most {DOCUMENT_CHANGES_MAX} documents are added or changed; the \
             same call again goes on with the rest."
        ),
        params_schema: object_schema(
            json!({
                "path": { "type": "string", "minLength": 1, "maxLength": FILE_PATH_BYTES_MAX,
                    "description": "Folder to import, relative to the workspace; leave it out for the workspace itself." },
                "tags": tags_schema("Given to each document of the folder, beside those that it has."),
            }),
            &[],
        ),
        result_schema: object_schema(
            json!({
                "added": count_schema("Documents that are new."),
                "changed": count_schema("Documents whose text or tags changed."),
                "unchanged": count_schema("Files whose documents were as they should be."),
                "skipped": count_schema("Files that are no text, are empty or too large, or have names these actions do not accept."),
                "left": count_schema("Files for which there was no room in this call: call again."),
                "documents": { "type": "array", "items": document, "maxItems": DOCUMENT_CHANGES_MAX },
            }),
            &["added", "changed", "unchanged", "skipped", "left", "documents"],
        ),
        effects: vec![Effect::FilesystemRead, Effect::FilesystemWrite],
        repeatability: Repeatability::Repeatable,
        // It names files of the workspace.
        preview_reads: Some(action_id("files.list")?),
        ..writing("documents.import_folder", Tier::R2)?
    })
}

fn tag() -> Result<Action, crate::Error> {
    Ok(Action {
        title: "Tag a document".to_owned(),
        description: "Adds tags to a document of the space, and takes tags from it.".to_owned(),
        params_schema: object_schema(
            json!({ "document_id": id_schema(), "add": tags_schema("Tags it gets."), "remove": tags_schema("Tags it loses.") }),
            &["document_id"],
        ),
        result_schema: object_schema(json!({ "document_id": id_schema(), "tags": found_tags_schema() }), &["document_id", "tags"]),
        repeatability: Repeatability::Repeatable,
        preview_reads: Some(action_id("documents.fetch")?),
        ..writing("documents.tag", Tier::R2)?
    })
}

fn remove() -> Result<Action, crate::Error> {
    Ok(Action {
        title: "Remove a document".to_owned(),
        description: "Removes a document of the space. It is kept for a while, and can be brought back by reverting the call.".to_owned(),
        params_schema: object_schema(json!({ "document_id": id_schema() }), &["document_id"]),
        result_schema: object_schema(json!({ "document_id": id_schema(), "removed": { "const": true } }), &["document_id", "removed"]),
        requires: vec!["documents.remove".to_owned()],
        timeout_ms: MEDIUM_TIMEOUT_MS,
        preview_reads: Some(action_id("documents.fetch")?),
        // Not repeatable: the second time, there is nothing to remove, and the call fails.
        ..writing("documents.remove", Tier::R3)?
    })
}

/// What the actions that change documents share.
fn writing(id: &str, tier: Tier) -> Result<Action, crate::Error> {
    Ok(Action {
        version: VERSION.to_owned(),
        requires: vec!["documents.write".to_owned()],
        effects: vec![Effect::FilesystemWrite],
        timeout_ms: LOW_TIMEOUT_MS,
        reversibility: Reversibility::Reversible,
        reversible_seconds: Some(REVERSIBLE_SECONDS_MAX),
        checks: vec![READ_BACK.to_owned()],
        preview: Preview::Supported,
        ..Action::new(action_id(id)?, tier)
    })
}

fn id_schema() -> Value {
    json!({ "type": "string", "maxLength": 64, "description": "Such as `doc_…`; `documents.search` tells it." })
}

/// Tags that a caller names.
fn tags_schema(description: &str) -> Value {
    let tag = json!({ "type": "string", "minLength": 1, "maxLength": DOCUMENT_TAG_CHARS_MAX });
    json!({ "type": "array", "items": tag, "maxItems": DOCUMENT_TAGS_MAX, "description": description })
}

fn found_tags_schema() -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "maxItems": DOCUMENT_TAGS_MAX })
}

fn count_schema(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

fn sha256_schema() -> Value {
    json!({ "type": "string", "pattern": "^[0-9a-f]{64}$", "minLength": 64, "maxLength": 64, "description": "Digest of the text." })
}

fn time_schema(description: &str) -> Value {
    json!({ "type": "string", "format": "date-time", "description": description })
}
