//! One tool of a server, read from its raw JSON and turned into an action.

use super::header_params;
use super::tier::{Annotations, Because, Tiered, Tiers, tier};
use crate::limits::MCP_TOOL_BYTES_MAX;
use crate::words::shown;
use countersign_core::action::{Class, Effect, PROTOCOL_ACTIONS, Profile, Repeatability, Reversibility};
use countersign_core::json::{canonical_exact, parse_strict};
use countersign_core::{Action, ActionId, Digest, SourceId, Tier};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// What all actions of a source have in common.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub(super) source: SourceId,
    pub(super) tiers: Tiers,
    pub(super) timeout_ms: u64,
    pub(super) profile: Profile,
    pub(super) hosts: Vec<String>,
    pub(super) effects: Vec<Effect>,
    pub(super) server_sha256: Option<Digest>,
    /// Digest of the package whose code performs them.
    pub(super) code: Option<Digest>,
}

/// A tool that is left out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its name, cut and made safe to show; `None` if it has none that could be read.
    pub tool: Option<String>,
    pub why: String,
}

/// Where the structured content of a result stands, as a JSON pointer into the result schema.
const STRUCTURED: &str = "/properties/structuredContent";

impl Common {
    /// An action of this source with nothing of its own yet.
    pub(super) fn base(&self, id: ActionId, tier: Tier) -> Action {
        let (requires, reversibility, repeatability) = match tier.class() {
            Class::Read => ("http.get", Reversibility::NoEffect, Repeatability::Repeatable),
            Class::Write | Class::Danger => ("http.request", Reversibility::NotReversible, Repeatability::NotRepeatable),
        };
        Action {
            requires: vec![requires.to_owned()],
            effects: self.effects.clone(),
            timeout_ms: self.timeout_ms,
            reversibility,
            repeatability,
            profile: self.profile,
            package_sha256: self.code,
            server_sha256: self.server_sha256,
            hosts: self.hosts.clone(),
            ..Action::new(id, tier)
        }
    }

    /// The action of a tool and why it has its tier, or why there is none.
    pub(super) fn action(&self, raw: &str) -> Result<(Action, Because), Skipped> {
        let unnamed = |why: String| Skipped { tool: None, why };
        if raw.len() > MCP_TOOL_BYTES_MAX {
            return Err(unnamed(format!("its definition is longer than {MCP_TOOL_BYTES_MAX} bytes")));
        }
        let tool = parse_strict(raw.as_bytes()).map_err(|error| unnamed(format!("its definition cannot be read: {error}")))?;
        let name = tool["name"].as_str().ok_or_else(|| unnamed("it has no name".to_owned()))?;
        self.define(&tool, name).map_err(|why| Skipped { tool: Some(shown(name)), why })
    }

    fn define(&self, tool: &Value, name: &str) -> Result<(Action, Because), String> {
        let id = ActionId::parse(&format!("{}.{name}", self.source))
            .map_err(|_| "its name is not 1 to 128 letters, digits, `_`, `-` and `.`".to_owned())?;
        if PROTOCOL_ACTIONS.contains(&name) {
            return Err("its name is that of a request of the protocol".to_owned());
        }
        let params = tool["inputSchema"].as_object().ok_or("its `inputSchema` is not an object")?;
        let result = match &tool["outputSchema"] {
            Value::Null => None,
            Value::Object(schema) => Some(schema),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err("its `outputSchema` is not an object".to_owned());
            }
        };
        if tool["execution"]["taskSupport"] == "required" {
            return Err("it can only be called as a task, which is not supported".to_owned());
        }
        if let Some(wrong) = header_params::wrong(params) {
            return Err(wrong);
        }
        let text = canonical_exact(tool).map_err(|error| format!("its definition has no canonical form: {error}"))?;
        let hints = &tool["annotations"];
        let annotations = Annotations { read_only: hints["readOnlyHint"].as_bool(), destructive: hints["destructiveHint"].as_bool() };
        let Tiered { tier, because } = tier(name, annotations, &self.tiers);
        let title = tool["title"].as_str().or_else(|| hints["title"].as_str());
        let description = tool["description"].as_str().filter(|text| !text.trim().is_empty());
        let action = Action {
            title: title.map_or_else(|| name.replace(['_', '-', '.'], " "), str::to_owned),
            description: description.map_or_else(|| format!("A tool of `{}`, which does not describe it.", self.source), str::to_owned),
            params_schema: params_schema(params),
            result_schema: result_schema(result),
            upstream_sha256: Some(Digest::new(Sha256::digest(text).into())),
            ..self.base(id, tier)
        };
        Ok((action, because))
    }
}

/// The arguments of a tool are an object, whether its schema says so or not.
fn params_schema(schema: &Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    schema.entry("type").or_insert_with(|| json!("object"));
    Value::Object(schema)
}

/// The schema of what a call returns: the content, and with an `outputSchema` the structured content, which then has to be there.
fn result_schema(structured: Option<&Map<String, Value>>) -> Value {
    let content = json!({ "type": "array", "items": { "type": "object" } });
    match structured {
        None => json!({ "type": "object", "properties": { "content": content }, "required": ["content"] }),
        Some(structured) => json!({
            "type": "object",
            "properties": { "content": content, "structuredContent": embedded(structured) },
            "required": ["content", "structuredContent"],
        }),
    }
}

/// A schema that stands inside another one: its references lead to where it stands now.
fn embedded(schema: &Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    // They name a whole document, which it no longer is.
    schema.remove("$schema");
    schema.remove("$id");
    let mut schema = Value::Object(schema);
    lead_inside(&mut schema);
    schema
}

fn lead_inside(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (keyword, value) in members {
                match (keyword.as_str(), value) {
                    ("$ref", Value::String(reference)) => {
                        if let Some(pointer) = reference.strip_prefix('#').filter(|rest| rest.is_empty() || rest.starts_with('/')) {
                            *reference = format!("#{STRUCTURED}{pointer}");
                        }
                    }
                    // These hold values, not schemas.
                    ("const" | "enum" | "default" | "examples", _) => {}
                    // These hold schemas by name, and a name may be that of a keyword.
                    ("properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions", Value::Object(named)) => {
                        named.values_mut().for_each(lead_inside);
                    }
                    (_, value) => lead_inside(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(lead_inside),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::ports::sources::Hints;

    fn common() -> Common {
        Common {
            source: SourceId::parse("kit").unwrap(),
            tiers: Tiers { hints: Hints::Trusted, ..Tiers::default() },
            timeout_ms: 5_000,
            profile: Profile::InProcess,
            hosts: vec!["kit.example".to_owned()],
            effects: vec![Effect::NetworkCall],
            server_sha256: None,
            code: None,
        }
    }

    fn action(tool: &Value) -> Action {
        common().action(&tool.to_string()).unwrap().0
    }

    #[test]
    fn a_tool_becomes_an_action() {
        let schema = json!({ "type": "object", "properties": { "q": { "type": "string" } } });
        let tool = json!({ "name": "Look.up-it", "title": "Look", "description": "Looks.", "inputSchema": schema,
            "annotations": { "readOnlyHint": true } });
        let found = action(&tool);
        assert_eq!((found.id.as_str(), found.title.as_str(), found.description.as_str()), ("kit.Look.up-it", "Look", "Looks."));
        assert_eq!((found.tier, found.reversibility, found.requires), (Tier::R1, Reversibility::NoEffect, vec!["http.get".to_owned()]));
        assert_eq!((found.params_schema, found.timeout_ms, found.hosts), (schema, 5_000, vec!["kit.example".to_owned()]));
        let bare = action(&json!({ "name": "set_it", "inputSchema": {} }));
        assert_eq!((bare.tier, bare.title.as_str(), bare.params_schema), (Tier::R3, "set it", json!({ "type": "object" })));
        assert_eq!(bare.description, "A tool of `kit`, which does not describe it.");
    }

    #[test]
    fn every_member_of_the_raw_json_counts_and_its_spelling_does_not() {
        let digest = |text: &str| common().action(text).unwrap().0.upstream_sha256.unwrap();
        let plain = digest(r#"{"name":"a","inputSchema":{"type":"object"}}"#);
        assert_eq!(digest(r#"{ "inputSchema": {"type":"object"}, "name": "\u0061" }"#), plain);
        for other in [
            r#"{"name":"a","inputSchema":{"type":"object"},"_meta":{"x":1}}"#,
            r#"{"name":"a","inputSchema":{"type":"object"},"icons":[]}"#,
            r#"{"name":"a","inputSchema":{"type":"object","x-unknown":true}}"#,
            r#"{"name":"a","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}"#,
        ] {
            assert_ne!(digest(other), plain, "{other}");
        }
    }

    #[test]
    fn what_cannot_be_offered_is_left_out_and_says_why() {
        let long = format!(r#"{{"name":"a","inputSchema":{{}},"description":"{}"}}"#, "x".repeat(MCP_TOOL_BYTES_MAX));
        let name = "n".repeat(129);
        for (raw, tool, why) in [
            ("7", None, "it has no name"),
            (r#"{"inputSchema":{}}"#, None, "it has no name"),
            (r#"{"name":"a","name":"b","inputSchema":{}}"#, None, "its definition cannot be read"),
            (&long, None, "its definition is longer than 262144 bytes"),
            (r#"{"name":"a"}"#, Some("a"), "its `inputSchema` is not an object"),
            (r#"{"name":"prompts.get","inputSchema":{}}"#, Some("prompts.get"), "its name is that of a request of the protocol"),
            (r#"{"name":"a","inputSchema":true}"#, Some("a"), "its `inputSchema` is not an object"),
            (r#"{"name":"a","inputSchema":{},"outputSchema":[]}"#, Some("a"), "its `outputSchema` is not an object"),
            (r#"{"name":"a b","inputSchema":{}}"#, Some("a b"), "its name is not 1 to 128"),
            (r#"{"name":"","inputSchema":{}}"#, Some(""), "its name is not 1 to 128"),
            (r#"{"name":"ä\u202e","inputSchema":{}}"#, Some("ä\\u{202e}"), "its name is not 1 to 128"),
            (
                &format!(r#"{{"name":"{name}","inputSchema":{{}}}}"#),
                Some(name[..120].to_owned() + "…").as_deref(),
                "its name is not 1 to 128",
            ),
            (r#"{"name":"a","inputSchema":{},"execution":{"taskSupport":"required"}}"#, Some("a"), "it can only be called as a task"),
            (r#"{"name":"a","inputSchema":{"x-mcp-header":"A"}}"#, Some("a"), "its schema has `x-mcp-header` at the top"),
        ] {
            let skipped = common().action(raw).unwrap_err();
            assert_eq!(skipped.tool.as_deref(), tool, "{raw:.60}");
            assert!(skipped.why.starts_with(why), "{}", skipped.why);
        }
    }

    #[test]
    fn the_references_of_an_output_schema_stay_inside_it() {
        let output = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "https://kit.example/schema",
            "type": "object",
            "properties": { "tree": { "$ref": "#/$defs/node" }, "$ref": { "const": { "$ref": "#/a" } }, "all": { "$ref": "#" },
                "out": { "$ref": "file:///etc/passwd" }, "named": { "$ref": "#anchor" } },
            "$defs": { "node": { "anyOf": [{ "$ref": "#/$defs/node" }, true] } },
        });
        let schema = action(&json!({ "name": "a", "inputSchema": {}, "outputSchema": output })).result_schema;
        let inside = schema.pointer(STRUCTURED).unwrap();
        assert_eq!(inside["properties"]["tree"]["$ref"], "#/properties/structuredContent/$defs/node");
        assert_eq!(inside["properties"]["all"]["$ref"], "#/properties/structuredContent");
        assert_eq!(inside["$defs"]["node"]["anyOf"][0]["$ref"], "#/properties/structuredContent/$defs/node");
        assert_eq!(inside["properties"]["$ref"]["const"]["$ref"], "#/a");
        assert_eq!(inside["properties"]["out"]["$ref"], "file:///etc/passwd");
        assert_eq!(inside["properties"]["named"]["$ref"], "#anchor");
        assert!(inside.get("$id").is_none() && inside.get("$schema").is_none());
        assert_eq!(schema["required"], json!(["content", "structuredContent"]));
    }
}
