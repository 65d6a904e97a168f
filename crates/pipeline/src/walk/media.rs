//! Images, audio and other bytes in the answer of an MCP server: they are taken out of it and kept as artifacts. Nobody reads base64, and cut
//! base64 is nothing at all. In its place the answer says which artifact it is; the MCP door puts the bytes back for its clients.

use super::artifacts::{Entry, Made};
use crate::limits::ARTIFACTS_PER_CALL_MAX;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::artifact::{ArtifactKind, ArtifactSpec, media_type_problem, name_problem};
use countersign_core::limits::ARTIFACT_BYTES_MAX;
use serde_json::{Map, Value};

/// The member of a block that says which artifact its bytes are.
const ARTIFACT: &str = "artifact";
const OCTETS: &str = "application/octet-stream";

/// A block of an answer whose bytes were taken out.
pub(super) struct Lifted {
    /// Where the block is, as a JSON pointer.
    pub(super) pointer: String,
    pub(super) entry: Entry,
}

/// Takes the bytes out of an answer: of the blocks of a result, of the contents of a resource, and of the messages of a prompt.
pub(super) fn take_out(answer: &mut Value) -> Vec<Lifted> {
    let mut lifted = Vec::new();
    for list in ["content", "contents"] {
        each(answer.get_mut(list), &format!("/{list}"), &mut lifted);
    }
    for (at, message) in answer.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
        let pointer = format!("/messages/{at}/content");
        match message.get_mut("content") {
            Some(block @ Value::Object(_)) => block_of(block, pointer, &mut lifted),
            content => each(content, &pointer, &mut lifted),
        }
    }
    lifted
}

/// Says in the answer what became of the bytes. A place that is gone was redacted, and says so itself.
pub(super) fn put_in(answer: &mut Value, pointer: &str, told: Value) {
    if let Some(Value::Object(block)) = answer.pointer_mut(pointer) {
        block.insert(ARTIFACT.to_owned(), told);
    }
}

fn each(list: Option<&mut Value>, pointer: &str, lifted: &mut Vec<Lifted>) {
    for (at, block) in list.and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
        block_of(block, format!("{pointer}/{at}"), lifted);
    }
}

fn block_of(block: &mut Value, pointer: String, lifted: &mut Vec<Lifted>) {
    let (holder, member, pointer) = match block["type"].as_str() {
        Some("image" | "audio") => (Some(block), "data", pointer),
        Some("resource") => (block.get_mut("resource"), "blob", format!("{pointer}/resource")),
        Some(_) => return,
        None => (Some(block), "blob", pointer),
    };
    let Some(Value::Object(holder)) = holder else { return };
    // SECURITY: only we say which artifact something is.
    holder.remove(ARTIFACT);
    let Some(Value::String(encoded)) = holder.remove(member) else { return };
    let entry = read(holder, &encoded, lifted.len());
    lifted.push(Lifted { pointer, entry });
}

fn read(holder: &Map<String, Value>, encoded: &str, at: usize) -> Entry {
    let said = holder.get("mimeType").and_then(Value::as_str).map(str::to_ascii_lowercase).unwrap_or_default();
    let media_type = said.split(';').next().map(str::trim).filter(|said| media_type_problem(said).is_none()).unwrap_or(OCTETS).to_owned();
    let kind = ArtifactKind::of_media_type(&media_type);
    let name = name_of(holder, &media_type, kind, at);
    let refused = |why: String| (Some(name.clone()), why);
    if at >= ARTIFACTS_PER_CALL_MAX {
        return Err(refused(format!("a call makes at most {ARTIFACTS_PER_CALL_MAX} artifacts")));
    }
    let bytes = STANDARD.decode(encoded).map_err(|_| refused("its data is not base64, as of RFC 4648 with padding".to_owned()))?;
    if bytes.len() > ARTIFACT_BYTES_MAX {
        return Err(refused(format!("it has {} bytes, and at most {ARTIFACT_BYTES_MAX} can be kept", bytes.len())));
    }
    let ArtifactSpec { retention, visibility, .. } = ArtifactSpec::of(kind);
    Ok(Made { name, media_type, retention, visibility, bytes })
}

/// The last part of the address of a resource, else `image-1.png`.
fn name_of(holder: &Map<String, Value>, media_type: &str, kind: ArtifactKind, at: usize) -> String {
    let address = holder.get("uri").and_then(Value::as_str).unwrap_or_default();
    let last = address.split(['?', '#']).next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    if name_problem(last).is_none() && policy::redact_text(last) == *last {
        return last.to_owned();
    }
    let ending = ENDINGS.iter().find(|(known, _)| *known == media_type).map_or("bin", |(_, ending)| *ending);
    format!("{kind}-{}.{ending}", at + 1)
}

const ENDINGS: [(&str, &str); 12] = [
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/svg+xml", "svg"),
    ("audio/mpeg", "mp3"),
    ("audio/wav", "wav"),
    ("audio/ogg", "ogg"),
    ("application/pdf", "pdf"),
    ("application/zip", "zip"),
    ("application/json", "json"),
    ("text/plain", "txt"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn taken(mut answer: Value) -> (Value, Vec<(String, Entry)>) {
        let lifted = take_out(&mut answer).into_iter().map(|lifted| (lifted.pointer, lifted.entry)).collect();
        (answer, lifted)
    }

    #[test]
    fn bytes_are_taken_out_wherever_the_protocol_has_them() {
        let (rest, lifted) = taken(json!({ "content": [
            { "type": "text", "text": "here" },
            { "type": "image", "data": "AAEC", "mimeType": "image/png", "artifact": { "id": "of another" } },
            { "type": "audio", "data": "AAEC", "mimeType": "audio/wav; rate=8000" },
            { "type": "resource", "resource": { "uri": "file:///a/report.pdf?x", "mimeType": "application/pdf", "blob": "AAEC" } },
            { "type": "resource", "resource": { "uri": "file:///a", "text": "kept" } },
        ] }));
        assert_eq!(rest["content"][1], json!({ "type": "image", "mimeType": "image/png" }));
        assert_eq!(rest["content"][4]["resource"]["text"], "kept");
        let told: Vec<_> = lifted
            .iter()
            .map(|(pointer, entry)| {
                let made = entry.as_ref().unwrap();
                (pointer.as_str(), made.name.as_str(), made.media_type.as_str(), made.bytes.as_slice())
            })
            .collect();
        assert_eq!(
            told,
            [
                ("/content/1", "image-1.png", "image/png", &[0, 1, 2][..]),
                ("/content/2", "audio-2.wav", "audio/wav", &[0, 1, 2][..]),
                ("/content/3/resource", "report.pdf", "application/pdf", &[0, 1, 2][..]),
            ]
        );
        let (_, read) = taken(json!({ "contents": [{ "uri": "x://y", "blob": "AA==" }] }));
        assert_eq!(read[0].0, "/contents/0");
        let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/gif" });
        let (_, prompt) = taken(json!({ "messages": [{ "role": "user", "content": image }, { "role": "user", "content": [image] }] }));
        assert_eq!(
            prompt.iter().map(|(pointer, _)| pointer.as_str()).collect::<Vec<_>>(),
            ["/messages/0/content", "/messages/1/content/0"]
        );
    }

    #[test]
    fn what_cannot_be_kept_says_why_and_leaves_no_base64() {
        let image = |data: &str| json!({ "type": "image", "data": data, "mimeType": "no type" });
        let (rest, lifted) = taken(json!({ "content": [image("not base64!")] }));
        assert_eq!(rest["content"][0], json!({ "type": "image", "mimeType": "no type" }));
        let (name, why) = lifted[0].1.clone().unwrap_err();
        assert!(name.as_deref() == Some("data-1.bin") && why.contains("RFC 4648"), "{name:?} {why}");
        let (_, many) = taken(json!({ "content": vec![image("AA=="); ARTIFACTS_PER_CALL_MAX + 1] }));
        assert_eq!(many.iter().filter(|(_, entry)| entry.is_err()).count(), 1);
        for other in [json!(null), json!({ "content": "text" }), json!({ "content": [7, { "data": "AA==" }] }), json!([])] {
            assert_eq!(taken(other.clone()), (other, Vec::new()));
        }
    }

    #[test]
    fn the_answer_says_what_became_of_them() {
        let mut answer = json!({ "content": [{ "type": "image" }] });
        put_in(&mut answer, "/content/0", json!({ "id": "art_1" }));
        put_in(&mut answer, "/content/1", json!({ "id": "art_2" }));
        assert_eq!(answer, json!({ "content": [{ "type": "image", "artifact": { "id": "art_1" } }] }));
    }
}
