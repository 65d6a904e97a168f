//! The params of a step: JSON whose texts may be templates.

use automation::Mistake;
use automation::template::{self, Context, Names, RenderError, Renderer, Template};
use countersign_core::Future;
use serde_json::{Map, Value};

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

    /// `schema` is the schema of the params; it says which leaves may be texts.
    pub(crate) async fn render(&self, renderer: &Renderer, context: &Context, schema: Option<&Value>) -> Result<Value, RenderError> {
        object(&self.0, renderer, context, schema).await.map(Value::Object)
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
    renderer: &Renderer,
    context: &Context,
    schema: Option<&Value>,
) -> Result<Map<String, Value>, RenderError> {
    let mut rendered = Map::new();
    for (name, leaf) in members {
        let schema = schema.and_then(|schema| schema.get("properties")?.get(name));
        rendered.insert(name.clone(), value(leaf, renderer, context, schema).await?);
    }
    Ok(rendered)
}

fn value<'a>(
    leaf: &'a Leaf,
    renderer: &'a Renderer,
    context: &'a Context,
    schema: Option<&'a Value>,
) -> Future<'a, Result<Value, RenderError>> {
    Box::pin(async move {
        match leaf {
            Leaf::Plain(value) => Ok(value.clone()),
            Leaf::Template(template) => renderer.render_value(template, context, allows_string(schema)).await,
            Leaf::List(items) => {
                let schema = schema.and_then(|schema| schema.get("items"));
                let mut rendered = Vec::with_capacity(items.len());
                for item in items {
                    rendered.push(value(item, renderer, context, schema).await?);
                }
                Ok(Value::Array(rendered))
            }
            Leaf::Object(members) => object(members, renderer, context, schema).await.map(Value::Object),
        }
    })
}

/// Whether a text may stand here. A schema that does not say forbids none.
fn allows_string(schema: Option<&Value>) -> bool {
    match schema.and_then(|schema| schema.get("type")) {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        Some(_) | None => true,
    }
}
