//! The params of a step: JSON whose texts may be templates.

use crate::limits::STEP_PARAMS_BYTES_MAX;
use automation::Mistake;
use automation::template::{self, Context, Names, Reason, RenderError, Renderer, Template};
use countersign_core::Future;
use countersign_core::call::Label;
use countersign_core::json::escape;
use pipeline::limits::PROVENANCE_MAX;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The config of a step with its templates read.
#[derive(Debug)]
pub(crate) struct Params(Vec<(String, Leaf)>);

#[derive(Debug)]
enum Leaf {
    Plain(Value),
    Template(Template),
    List(Vec<Leaf>),
    Object(Vec<(String, Leaf)>),
}

impl Params {
    pub(crate) fn of(config: &Map<String, Value>, names: &Names) -> Result<Self, Vec<Mistake>> {
        members(config, names).map(Self)
    }

    /// `schema` is the schema of the params; it says which leaves may be texts. An error names the leaf by its JSON pointer.
    pub(crate) async fn render(&self, renderer: &Renderer, context: &Context, schema: Option<&Value>) -> Result<Value, RenderError> {
        let mut left = STEP_PARAMS_BYTES_MAX;
        object(&self.0, "", renderer, context, schema, &mut left).await.map(Value::Object)
    }

    /// The members of the context that its templates read.
    pub(crate) fn reads(&self) -> BTreeSet<String> {
        let mut reads = BTreeSet::new();
        self.0.iter().for_each(|(_, leaf)| leaf.reads(&mut reads));
        reads
    }

    /// Where the rendered params come from, by JSON pointer. `of` says it of a member of the context. What a person wrote has no label.
    pub(crate) fn provenance(&self, of: &dyn Fn(&str) -> Label) -> BTreeMap<String, Label> {
        let mut labels = BTreeMap::new();
        label_members(&self.0, "", of, &mut labels);
        // A call says so much and no more.
        match labels.values().max().copied() {
            Some(strictest) if labels.len() > PROVENANCE_MAX => BTreeMap::from([(String::new(), strictest)]),
            Some(_) | None => labels,
        }
    }
}

impl Leaf {
    fn reads(&self, reads: &mut BTreeSet<String>) {
        match self {
            Self::Plain(_) => {}
            Self::Template(template) => reads.extend(template.reads().iter().cloned()),
            Self::List(items) => items.iter().for_each(|item| item.reads(reads)),
            Self::Object(members) => members.iter().for_each(|(_, leaf)| leaf.reads(reads)),
        }
    }
}

fn label_members(members: &[(String, Leaf)], place: &str, of: &dyn Fn(&str) -> Label, labels: &mut BTreeMap<String, Label>) {
    for (name, leaf) in members {
        label(leaf, format!("{place}/{}", escape(name)), of, labels);
    }
}

fn label(leaf: &Leaf, place: String, of: &dyn Fn(&str) -> Label, labels: &mut BTreeMap<String, Label>) {
    match leaf {
        Leaf::Plain(_) => {}
        Leaf::Template(template) => {
            let strictest = template.reads().iter().map(|name| of(name)).max();
            if let Some(label) = strictest.filter(|label| *label > Label::User) {
                labels.insert(place, label);
            }
        }
        Leaf::List(items) => items.iter().enumerate().for_each(|(index, item)| label(item, format!("{place}/{index}"), of, labels)),
        Leaf::Object(members) => label_members(members, &place, of, labels),
    }
}

fn members(config: &Map<String, Value>, names: &Names) -> Result<Vec<(String, Leaf)>, Vec<Mistake>> {
    config.iter().map(|(name, value)| Ok((name.clone(), leaf(value, names)?))).collect()
}

fn leaf(value: &Value, names: &Names) -> Result<Leaf, Vec<Mistake>> {
    Ok(match value {
        Value::String(text) if template::is_template(text) => Leaf::Template(template::check(text, names)?),
        Value::Array(items) => Leaf::List(items.iter().map(|item| leaf(item, names)).collect::<Result<_, _>>()?),
        Value::Object(config) => Leaf::Object(members(config, names)?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Leaf::Plain(value.clone()),
    })
}

async fn object(
    members: &[(String, Leaf)],
    place: &str,
    renderer: &Renderer,
    context: &Context,
    schema: Option<&Value>,
    left: &mut usize,
) -> Result<Map<String, Value>, RenderError> {
    let mut rendered = Map::new();
    for (name, leaf) in members {
        let schema = below(schema, |schema| schema.get("properties")?.get(name));
        let place = format!("{place}/{}", escape(name));
        rendered.insert(name.clone(), value(leaf, place, renderer, context, schema, left).await?);
    }
    Ok(rendered)
}

fn value<'a>(
    leaf: &'a Leaf,
    place: String,
    renderer: &'a Renderer,
    context: &'a Context,
    schema: Option<&'a Value>,
    left: &'a mut usize,
) -> Future<'a, Result<Value, RenderError>> {
    Box::pin(async move {
        match leaf {
            Leaf::Plain(value) => Ok(value.clone()),
            Leaf::Template(template) => {
                // Many trivial templates in a row would keep their thread to themselves.
                tokio::task::coop::consume_budget().await;
                let rendered = renderer.render_value(template, context, is_text(schema)).await;
                let rendered = rendered.map_err(|error| RenderError { message: format!("`{place}`: {error}"), ..error })?;
                *left = left.checked_sub(bytes(&rendered)).ok_or_else(too_large)?;
                Ok(rendered)
            }
            Leaf::List(items) => {
                let schema = below(schema, |schema| schema.get("items"));
                let mut rendered = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    rendered.push(value(item, format!("{place}/{index}"), renderer, context, schema, left).await?);
                }
                Ok(Value::Array(rendered))
            }
            Leaf::Object(members) => object(members, &place, renderer, context, schema, left).await.map(Value::Object),
        }
    })
}

/// How large a rendered leaf is: a text by itself, anything else as JSON.
fn bytes(value: &Value) -> usize {
    value.as_str().map_or_else(|| value.to_string().len(), str::len)
}

/// SECURITY: each template may read the same large value, so that few words could fill the memory.
fn too_large() -> RenderError {
    RenderError::new(Reason::Output, format!("the params of the step have more than {STEP_PARAMS_BYTES_MAX} bytes"))
}

/// The schema of a part. Below what may be anything, anything may stand.
fn below<'a>(schema: Option<&'a Value>, part: impl FnOnce(&'a Value) -> Option<&'a Value>) -> Option<&'a Value> {
    let schema = schema?;
    part(schema).or_else(|| is_open(schema).then_some(schema))
}

/// Whether a template becomes a text here, even one that is a single value: wherever a text may stand, unless anything may. A schema that is
/// not known forbids no text.
fn is_text(schema: Option<&Value>) -> bool {
    match schema.and_then(|schema| schema.get("type")) {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        Some(_) | None => !schema.is_some_and(is_open),
    }
}

/// Whether a schema asks for nothing: what it says is for people alone.
fn is_open(schema: &Value) -> bool {
    const FOR_PEOPLE: [&str; 6] = ["title", "description", "default", "examples", "deprecated", "$comment"];
    match schema {
        Value::Bool(is_open) => *is_open,
        Value::Object(members) => members.keys().all(|name| FOR_PEOPLE.contains(&name.as_str()) || name.starts_with("x-")),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use serde_json::json;

    #[test]
    fn what_may_be_anything_keeps_its_type_and_what_may_be_a_text_becomes_one() {
        for (schema, expected) in [
            (json!({}), false),
            (json!(true), false),
            (json!({ "description": "Any value.", "x-countersign-widget": "json" }), false),
            (json!({ "type": "integer" }), false),
            (json!({ "type": ["array", "null"] }), false),
            (json!({ "type": "string" }), true),
            (json!({ "type": ["string", "null"] }), true),
            (json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }), true),
            (json!({ "enum": ["a", "b"] }), true),
        ] {
            assert_eq!(is_text(Some(&schema)), expected, "{schema}");
        }
        assert!(is_text(None));
    }

    /// No template of these tests needs a worker.
    struct Nobody;

    impl template::Workers for Nobody {
        fn ask(&self, request: String) -> Future<'_, Result<String, RenderError>> {
            unreachable!("{request}")
        }
    }

    #[test]
    fn one_large_value_fills_no_memory_however_often_it_is_read() {
        let text = "x".repeat(STEP_PARAMS_BYTES_MAX / 8);
        let context = Context::new([("inputs".to_owned(), json!({ "text": text, "list": [text] }))]).unwrap();
        let rendered = |leaf: &str, times: usize| {
            let config = json!({ "deep": { "all": vec![leaf; times] } }).as_object().cloned().unwrap();
            let params = Params::of(&config, &Names::default()).unwrap();
            assert_eq!(params.reads(), BTreeSet::from(["inputs".to_owned()]));
            params.render(&Renderer::new(std::sync::Arc::new(Nobody)), &context, Some(&json!(true))).now_or_never().unwrap()
        };
        for (leaf, most) in [("{{ inputs.text }}", 8), ("{{ inputs.list }}", 7)] {
            assert!(rendered(leaf, most).is_ok(), "{leaf}");
            assert_eq!(rendered(leaf, most + 1).unwrap_err().reason, Reason::Output, "{leaf}");
        }
    }

    #[test]
    fn an_error_names_the_param_and_its_template_and_quotes_no_value() {
        let context = Context::new([("o".to_owned(), json!({ "a": "hunter2" }))]).unwrap();
        let names = Names { outputs: ["o".to_owned()].into(), ..Names::default() };
        let config = json!({ "title": "{{ o.a }}", "to/from": ["plain", "Dear\nyou {{ o.missing.deep }}!"] });
        let params = Params::of(config.as_object().unwrap(), &names).unwrap();
        let rendered = params.render(&Renderer::new(std::sync::Arc::new(Nobody)), &context, None).now_or_never().unwrap();
        let error = rendered.unwrap_err();
        assert_eq!(
            (error.code(), error.message.as_str()),
            ("template_undefined", "`/to~1from/1`: undefined value in `{{ o.missing.deep }}!` (line 2)")
        );
    }

    #[test]
    fn a_param_comes_from_the_least_trusted_of_what_its_template_reads() {
        let names = Names { outputs: ["found".to_owned()].into(), ..Names::default() };
        let of = |name: &str| match name {
            "run" => Label::User,
            "inputs" => Label::Web,
            _ => Label::ActionOutput,
        };
        let provenance = |config: Value| {
            let told = Params::of(config.as_object().unwrap(), &names).unwrap().provenance(&of);
            told.into_iter().map(|(place, label)| (place, label.as_str())).collect::<Vec<_>>()
        };
        let config =
            json!({ "written": "{{ run.id }}", "to/from": ["plain", "{{ found.who }}"], "url": { "of": "{{ found.a }}{{ inputs.b }}" } });
        assert_eq!(provenance(config), [("/to~1from/1".to_owned(), "action_output"), ("/url/of".to_owned(), "web")]);
        let mut many: Vec<_> = (0..PROVENANCE_MAX).map(|_| json!("{{ found.a }}")).collect();
        assert_eq!(provenance(json!({ "list": many })).len(), PROVENANCE_MAX);
        many.push(json!("{{ inputs.a }}"));
        assert_eq!(provenance(json!({ "list": many })), [(String::new(), "web")], "more than can be said one by one");
    }

    #[test]
    fn below_what_may_be_anything_anything_may_stand() {
        let schema = json!({ "type": "object", "properties": { "value": { "description": "Any value." }, "rows": { "type": "array" } } });
        let value = below(Some(&schema), |schema| schema.get("properties")?.get("value"));
        let member = below(value, |schema| schema.get("properties")?.get("count"));
        assert!(!is_text(below(member, |schema| schema.get("items"))));
        // What a schema with other words does not name is not known.
        let rows = below(Some(&schema), |schema| schema.get("properties")?.get("rows"));
        assert!(is_text(below(rows, |schema| schema.get("items"))));
        assert!(is_text(below(Some(&schema), |schema| schema.get("properties")?.get("other"))));
    }
}
