//! Params that a server wants in headers as well (`x-mcp-header` in a schema), so that proxies can route by them. A tool that marks them wrongly
//! is not offered: such a header could carry something else than the param, or be one that means something already.

use serde_json::{Map, Value};
use std::collections::HashSet;

const MARK: &str = "x-mcp-header";

/// What is wrong with the marks of a tool's schema, if anything.
pub(super) fn wrong(schema: &Map<String, Value>) -> Option<String> {
    let mut marks = Marks { names: HashSet::new() };
    if schema.contains_key(MARK) {
        return Some(format!("its schema has `{MARK}` at the top"));
    }
    marks.object(schema, true).err()
}

struct Marks {
    names: HashSet<String>,
}

impl Marks {
    /// `is_param`: whether the schema is that of a param, or of a part of one that is reached by `properties` alone.
    fn object(&mut self, schema: &Map<String, Value>, is_param: bool) -> Result<(), String> {
        if let Some(mark) = schema.get(MARK) {
            self.mark(mark, schema, is_param)?;
        }
        for (keyword, below) in schema {
            match (keyword.as_str(), below) {
                ("properties", Value::Object(named)) => self.named(named, is_param)?,
                ("$defs" | "definitions" | "dependentSchemas" | "patternProperties", Value::Object(named)) => self.named(named, false)?,
                // These hold values, not schemas.
                ("const" | "enum" | "default" | "examples", _) | (MARK, _) => {}
                (_, below) => self.any(below)?,
            }
        }
        Ok(())
    }

    fn named(&mut self, named: &Map<String, Value>, is_param: bool) -> Result<(), String> {
        named.values().filter_map(Value::as_object).try_for_each(|schema| self.object(schema, is_param))
    }

    fn any(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::Object(schema) => self.object(schema, false),
            Value::Array(items) => items.iter().try_for_each(|item| self.any(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn mark(&mut self, mark: &Value, schema: &Map<String, Value>, is_param: bool) -> Result<(), String> {
        let name =
            mark.as_str().filter(|name| !name.is_empty() && name.bytes().all(is_token)).ok_or("a header name of its schema is none")?;
        if !is_param {
            return Err("its schema has a header for something else than a param".to_owned());
        }
        if !matches!(schema.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
            return Err(format!("its schema wants `{name}` in a header, which is not a text, an integer or a truth value"));
        }
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err(format!("its schema has the header `{name}` twice"));
        }
        Ok(())
    }
}

/// Whether a byte may stand in the name of a header.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_plain_params_may_be_marked_and_each_name_once() {
        let text = |name: &str| json!({ "type": "string", MARK: name });
        for (schema, is_right) in [
            (json!({ "properties": { "a": text("A"), "b": { "type": "object", "properties": { "c": text("C") } } } }), true),
            (json!({ "properties": { "a": { "type": "integer", MARK: "A" }, "b": { "type": "boolean", MARK: "B" } } }), true),
            (json!({ "properties": { "a": { "const": { MARK: "A B" } }, MARK: { "type": "string" } } }), true),
            (json!({ MARK: "A" }), false),
            (json!({ "properties": { "a": text("") } }), false),
            (json!({ "properties": { "a": text("A B") } }), false),
            (json!({ "properties": { "a": text("A:\r\n") } }), false),
            (json!({ "properties": { "a": text("Ä") } }), false),
            (json!({ "properties": { "a": { "type": "string", MARK: 7 } } }), false),
            (json!({ "properties": { "a": text("A"), "b": text("a") } }), false),
            (json!({ "properties": { "a": { "type": "number", MARK: "A" } } }), false),
            (json!({ "properties": { "a": { "type": "object", MARK: "A" } } }), false),
            (json!({ "properties": { "a": { MARK: "A" } } }), false),
            (json!({ "properties": { "a": { "type": "array", "items": text("A") } } }), false),
            (json!({ "anyOf": [{ "properties": { "a": text("A") } }] }), false),
            (json!({ "$defs": { "a": text("A") } }), false),
        ] {
            assert_eq!(wrong(schema.as_object().unwrap()).is_none(), is_right, "{schema}");
        }
    }
}
