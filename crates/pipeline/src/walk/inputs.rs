//! The params of a call as the receipt of an older contract tells them: digests, not texts.

use countersign_core::json;
use countersign_core::limits::FILE_PATH_BYTES_MAX;
use serde_json::{Map, Value};

/// The one param that stays readable, if the action names its calls by it.
const READABLE: &str = "path";
/// A receipt has the space beside its inputs.
const SPACE: &str = "space_id";

/// Every param as `sha256_<name>`: the SHA-256 of a text, or of the canonical JSON of another value. The params come without secrets, so no
/// digest lets a reader guess one.
pub(super) fn digested(params: &Value, key_fields: &[String]) -> Value {
    let is_readable = |name: &str, value: &Value| {
        name == READABLE
            && key_fields.iter().any(|field| field == name)
            && value.as_str().is_some_and(|path| path.len() <= FILE_PATH_BYTES_MAX)
    };
    let members = params.as_object().into_iter().flatten().filter(|(name, _)| *name != SPACE);
    let told = members.map(|(name, value)| {
        if is_readable(name, value) {
            return (name.clone(), value.clone());
        }
        let text = value.as_str().map_or_else(|| json::canonical(value).unwrap_or_else(|_| value.to_string()), str::to_owned);
        (format!("sha256_{name}"), Value::String(policy::digest::of_text(&text).to_string()))
    });
    Value::Object(told.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_is_told_by_its_digest_and_a_path_as_it_is_where_it_names_the_call() {
        let hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let params = json!({ "path": "a/b.txt", "text": "hello", "space_id": "spc_1" });
        let fields = ["path".to_owned(), "sha256(text)".to_owned()];
        assert_eq!(digested(&params, &fields), json!({ "path": "a/b.txt", "sha256_text": hello }));
        // No other field is readable, whatever the definition says.
        let told = digested(&params, &["text".to_owned()]);
        assert_eq!((told.get("path"), told.get("text"), &told["sha256_text"]), (None, None, &json!(hello)));
        // A value that is no text has a digest too, and so has a path that is none.
        let told = digested(&json!({ "path": { "deep": "hello" }, "count": 3 }), &fields);
        assert_eq!(told["sha256_count"], json!("4e07408562bedb8b60ce05c1decfe3ad16b72230967de01f640b7e4729b49fce"));
        assert!(!told.to_string().contains("hello"), "{told}");
        assert_eq!(digested(&json!(null), &fields), json!({}));
    }
}
