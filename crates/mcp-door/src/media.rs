//! Images, audio and other bytes of a result. They are kept as artifacts, and a result says which; a client gets them in their own content type,
//! as the server that made them gave them, as far as there is room in an answer.

use crate::limits::MCP_MEDIA_BYTES_MAX;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::ports::{Artifacts, Invocations};
use countersign_core::{ArtifactId, Invocation};
use operations::App;
use pipeline::Outcome;
use serde_json::{Value, json};

/// The member of `_meta` that names the artifact of a block.
const NAMED: &str = "countersign/artifact";
const MEMBER: &str = "artifact";

/// Puts the bytes back into the result of a call.
pub(super) async fn restore(app: &App, outcome: &mut Outcome) {
    match outcome {
        Outcome::Ended { invocation, result: Some(result) } => restore_in(app, invocation, result).await,
        Outcome::Replayed(invocation) => {
            let Some(mut result) = invocation.result.take() else { return };
            restore_in(app, invocation, &mut result).await;
            invocation.result = Some(result);
        }
        Outcome::Ended { result: None, .. } | Outcome::Pending(_) | Outcome::InDoubt(_) => {}
    }
}

pub(super) async fn restore_in(app: &App, invocation: &Invocation, result: &mut Value) {
    let mut room = MCP_MEDIA_BYTES_MAX;
    for block in blocks(result) {
        let is_resource = block["type"] == "resource";
        let holder = if is_resource { &mut block["resource"] } else { &mut *block };
        let Some(told) = holder.as_object_mut().and_then(|holder| holder.remove(MEMBER)) else { continue };
        let found = match told["id"].as_str() {
            Some(id) => bytes_of(app, invocation, id, &mut room).await,
            None => Err(told["problem"].as_str().unwrap_or("it could not be kept").to_owned()),
        };
        let is_media = matches!(holder["type"].as_str(), Some("image" | "audio"));
        match found {
            Ok(bytes) => {
                holder[if is_media { "data" } else { "blob" }] = json!(STANDARD.encode(bytes));
                // The contents of a resource need no type, and the others have theirs.
                if !holder["_meta"].is_object() {
                    holder["_meta"] = json!({});
                }
                holder["_meta"][NAMED] = told["id"].clone();
            }
            Err(why) => {
                let name = told["name"].as_str().unwrap_or("what it made");
                let kept = told["id"].as_str().map(|id| format!("; it is the artifact `{id}`")).unwrap_or_default();
                let text = format!("`{name}` is not in this answer: {why}{kept}.");
                if is_media {
                    *block = json!({ "type": "text", "text": text });
                } else {
                    holder["text"] = json!(text);
                    holder["mimeType"] = json!("text/plain");
                }
            }
        }
    }
}

/// The blocks of a result, the contents of a resource, and those of the messages of a prompt.
fn blocks(result: &mut Value) -> Vec<&mut Value> {
    let Some(members) = result.as_object_mut() else { return Vec::new() };
    let mut found = Vec::new();
    for (name, member) in members {
        let Some(listed) = member.as_array_mut() else { continue };
        match name.as_str() {
            "content" | "contents" => found.extend(listed),
            "messages" => {
                for content in listed.iter_mut().filter_map(|message| message.get_mut("content")) {
                    if content.is_array() {
                        found.extend(content.as_array_mut().into_iter().flatten());
                    } else {
                        found.push(content);
                    }
                }
            }
            _ => {}
        }
    }
    found.retain(|block| block.is_object());
    found
}

/// SECURITY: only of an artifact that this very call made, whatever the result says.
async fn bytes_of(app: &App, invocation: &Invocation, id: &str, room: &mut usize) -> Result<Vec<u8>, String> {
    let gone = || "it is no longer kept".to_owned();
    let id = ArtifactId::parse(id).map_err(|_| gone())?;
    let away = |error: &dyn std::fmt::Display| {
        tracing::warn!(%error, artifact = %id, "an artifact could not be read for a client");
        "it cannot be read now".to_owned()
    };
    let found = app.store().find_artifact(&invocation.org, &id).await.map_err(|error| away(&error))?.ok_or_else(gone)?;
    let now = app.store().now().await.map_err(|error| away(&error))?;
    if found.invocation.as_ref() != Some(&invocation.id) || found.has_expired(now) {
        return Err(gone());
    }
    if found.quarantined_at.is_some() {
        return Err("it is in quarantine".to_owned());
    }
    let size = usize::try_from(found.size).unwrap_or(usize::MAX);
    *room = room.checked_sub(size).ok_or_else(|| format!("an answer has room for {MCP_MEDIA_BYTES_MAX} bytes, and it has {size}"))?;
    app.pipeline().read_artifact(&found).await.map_err(|error| away(&error))?.ok_or_else(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_the_protocol_is_looked_at() {
        let mut result = json!({
            "content": [{ "a": 1 }, 7], "contents": [{ "b": 1 }],
            "messages": [{ "content": { "c": 1 } }, { "content": [{ "d": 1 }] }, 7], "other": [{ "e": 1 }],
        });
        let found: Vec<_> = blocks(&mut result).into_iter().map(|block| block.to_string()).collect();
        assert_eq!(found, [r#"{"a":1}"#, r#"{"b":1}"#, r#"{"c":1}"#, r#"{"d":1}"#]);
        assert!(blocks(&mut json!("text")).is_empty());
    }
}
