//! Asks an MCP server everything that the source for MCP servers can ask: lists its tools and calls each, lists its prompts and resources and
//! reads each. For the conformance suite of the protocol, which starts it with the address of a server as the last argument.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "it is a program of its own, and the source is what it is about")]

use countersign_core::action::PROTOCOL_ACTIONS;
use countersign_core::source::{CallContext, Source};
use countersign_core::{ActionId, InvocationId, OrgId, SessionId, SourceId, SpaceId, Timestamp};
use serde_json::{Map, Value, json};
use sources::mcp::{McpConfig, McpSource, Server, Tiers};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = std::env::args().next_back().ok_or("name the address of a server")?;
    let origin = url::Url::parse(&url)?.origin().ascii_serialization();
    let source = McpSource::new(McpConfig {
        id: SourceId::parse("probe")?,
        title: "Probe".to_owned(),
        server: Server::Http {
            url,
            allowed_hosts: vec![origin.parse()?],
            allowed_networks: vec!["127.0.0.0/8".parse()?, "::1/128".parse()?],
            credentials: None,
        },
        connection: None,
        server_sha256: None,
        spaces: None,
        tiers: Tiers::default(),
        list_timeout_ms: 15_000,
        call_timeout_ms: 30_000,
        hearer: None,
    });
    let actions = source.refresh().await?.actions;
    let calls = match calls_of_the_suite() {
        Some(calls) => calls,
        None => {
            let tools = actions.iter().filter(|action| !PROTOCOL_ACTIONS.contains(&action.id.name()));
            tools.map(|action| (action.id.name().to_owned(), example(&action.params_schema))).collect()
        }
    };
    for (name, mut params) in calls {
        // One scenario wants to see the schema of one tool as we understood it.
        if let (Some(focal), "json_schema_echo") =
            (actions.iter().find(|action| action.id.name() == "json_schema_2020_12_tool"), name.as_str())
        {
            params = json!({ "schema": focal.params_schema });
        }
        call(&source, &name, &params).await?;
    }
    let prompts = call(&source, "prompts.list", &json!({})).await?;
    for prompt in prompts["prompts"].as_array().into_iter().flatten() {
        let arguments = prompt["arguments"].as_array().into_iter().flatten();
        let arguments: Map<_, _> = arguments.filter_map(|one| Some((one["name"].as_str()?.to_owned(), json!("x")))).collect();
        call(&source, "prompts.get", &json!({ "name": prompt["name"], "arguments": arguments })).await?;
    }
    let resources = call(&source, "resources.list", &json!({})).await?;
    for uri in resources["resources"].as_array().into_iter().flatten().filter_map(|resource| resource["uri"].as_str()) {
        call(&source, "resources.read", &json!({ "uri": uri })).await?;
    }
    source.disconnect().await;
    Ok(())
}

/// Makes a call, and prints what came of it.
async fn call(source: &McpSource, name: &str, params: &Value) -> Result<Value, Box<dyn std::error::Error>> {
    match source.call(&context(), &ActionId::parse(&format!("probe.{name}"))?, params).await {
        Ok(output) => {
            println!("{name}: {}", output.value);
            Ok(output.value)
        }
        Err(error) => {
            println!("{name}: {error}");
            Ok(Value::Null)
        }
    }
}

/// The calls that the suite asks for, if it asks for certain ones.
fn calls_of_the_suite() -> Option<Vec<(String, Value)>> {
    let context: Value = serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT").ok()?).ok()?;
    let calls = context["toolCalls"].as_array()?.iter();
    Some(calls.filter_map(|call| Some((call["name"].as_str()?.to_owned(), call["arguments"].clone()))).collect())
}

/// A value for a schema, as simple as it can be.
fn example(schema: &Value) -> Value {
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)).or_else(|| schema.get("default")) {
        return value.clone();
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            Value::Object(properties.map(|(name, schema)| (name.clone(), example(schema))).collect())
        }
        Some(_) | None => json!("x"),
    }
}

fn context() -> CallContext {
    let at = Timestamp::from_micros(1_794_729_600_000_000);
    CallContext {
        org: OrgId::new(at, [1; 10]),
        space: SpaceId::new(at, [2; 10]),
        has_own_workspace: false,
        chain: None,
        session: SessionId::new(at, [3; 10]),
        invocation: InvocationId::new(at, [4; 10]),
        is_read: false,
        attempt: 1,
        timeout_ms: 30_000,
        prepared: None,
        failed_checks: Vec::new(),
        scope: Default::default(),
        progress: None,
        code: None,
        may_ask_again: false,
        meter: Default::default(),
        trace_id: "probe".to_owned(),
    }
}
