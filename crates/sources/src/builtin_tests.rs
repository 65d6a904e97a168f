//! Tests that apply to every builtin source, and helpers that the sources' tests share.

use super::documents::tests::Kept;
use super::*;
use crate::limits::MEDIUM_TIMEOUT_MS;
use crate::mail::{Mailer, Route, Sender};
use crate::words::patience;
use crate::workspace::{Folders, Places};
use countersign_core::action::SafetyClass;
use countersign_core::effect::Scope;
use countersign_core::fault::Faults;
use countersign_core::limits::{CALL_TIMEOUT_MS, LOW_TIMEOUT_MS};
use countersign_core::notification::{Notification, Notifier};
use countersign_core::source::{BUILTIN_SOURCES, CallContext, Output, Source};
use countersign_core::{Action, Future, InvocationId, NotificationId, OrgId, SessionId, SpaceId, Timestamp, ledger};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testkit::{FixedClock, SeededRandom};

/// The context of a first attempt, each time of a new invocation.
pub(crate) fn context() -> CallContext {
    static INVOCATIONS: AtomicU64 = AtomicU64::new(1);
    let mut random = [0; 10];
    random[2..].copy_from_slice(&INVOCATIONS.fetch_add(1, Ordering::SeqCst).to_be_bytes());
    let at = Timestamp::from_micros(1_794_729_600_000_000);
    CallContext {
        org: OrgId::new(at, [1; 10]),
        space: SpaceId::new(at, [2; 10]),
        has_own_workspace: false,
        session: SessionId::new(at, [3; 10]),
        chain: None,
        invocation: InvocationId::new(at, random),
        is_read: false,
        attempt: 1,
        timeout_ms: 10_000,
        prepared: None,
        failed_checks: Vec::new(),
        scope: Scope::default(),
        progress: None,
        code: None,
        may_ask_again: false,
        meter: Default::default(),
        trace_id: "trace".to_owned(),
    }
}

/// What the definitions of a source promise, each in a line.
pub(super) fn promised(builtin: &Builtin) -> Vec<String> {
    let actions = (builtin.actions)().unwrap();
    let line = |action: &Arc<Action>| {
        let Action { id, tier, reversibility, repeatability, preview, .. } = &**action;
        format!("{id} {tier} {reversibility:?} {repeatability:?} {preview:?}")
    };
    actions.iter().map(line).collect()
}

/// Calls an action as the pipeline would, and checks the result against its definition.
pub(super) async fn call(source: &dyn Source, action: &str, params: Value) -> Result<Output, Error> {
    let output = source.call(&context(), &ActionId::parse(action).unwrap(), &params).await?;
    let definitions = source.list(&context().org).await.unwrap();
    let definition = definitions.iter().find(|definition| definition.id.as_str() == action).unwrap();
    assert_fits(&definition.result_schema, &output.value);
    Ok(output)
}

pub(super) async fn preview(source: &dyn Source, action: &str, params: Value) -> Result<Output, Error> {
    source.preview(&context(), &ActionId::parse(action).unwrap(), &params).await
}

/// Checks a value against the part of JSON Schema that the result definitions use.
fn assert_fits(schema: &Value, value: &Value) {
    if let Some(allowed) = schema.get("enum") {
        assert!(allowed.as_array().unwrap().contains(value), "{value} is not one of {allowed}");
        return;
    }
    if let Some(constant) = schema.get("const") {
        assert_eq!(value, constant);
        return;
    }
    match schema["type"].as_str().unwrap() {
        "object" => {
            let value = value.as_object().unwrap();
            for key in schema["required"].as_array().into_iter().flatten() {
                assert!(value.contains_key(key.as_str().unwrap()), "{key} is missing in {value:?}");
            }
            for (key, member) in value {
                match schema.get("properties").and_then(|properties| properties.get(key)) {
                    Some(schema) => assert_fits(schema, member),
                    None => assert_fits(&schema["additionalProperties"], member),
                }
            }
        }
        "array" => value.as_array().unwrap().iter().for_each(|item| assert_fits(&schema["items"], item)),
        "string" => {
            let text = value.as_str().unwrap_or_else(|| panic!("{value} is not a string"));
            if schema.get("pattern").is_some() {
                assert!(countersign_core::Digest::parse(text).is_some(), "{text} is not a digest");
            }
        }
        "integer" => assert!(value.is_u64(), "{value} is not a whole number"),
        "boolean" => assert!(value.is_boolean(), "{value} is not true or false"),
        other => panic!("the definitions have no type {other}"),
    }
}

struct Nobody;

impl Notifier for Nobody {
    fn deliver<'a>(&'a self, _notification: &'a Notification) -> Future<'a, Result<(), ledger::Error>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn find_delivered<'a>(&'a self, _: &'a OrgId, _: &'a InvocationId) -> Future<'a, Result<Option<NotificationId>, ledger::Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

fn sources() -> (tempfile::TempDir, Vec<Arc<dyn Source>>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let scratch = tempfile::tempdir().unwrap();
    let random = Arc::new(SeededRandom::default());
    let places = Arc::new(Places::open(Folders::below(scratch.path()), random.clone(), &Faults::default()).unwrap());
    let route = Route { server: "smtps://mail.example.com".parse().unwrap(), login: None };
    let sender = Sender { route, from: "countersign@example.com".parse().unwrap() };
    let parts = Parts {
        documents: Arc::new(Kept::default()),
        notifier: Arc::new(Nobody),
        http: http::HttpConfig::default(),
        mail: Some((Arc::new(Mailer::default()), Arc::new(sender))),
        clock: Arc::new(FixedClock::new()),
        random,
    };
    let mut sources = open_on(&places, &parts).unwrap();
    sources.extend(open_once(&parts).unwrap());
    (scratch, sources)
}

async fn definitions() -> Vec<Arc<Action>> {
    let (_scratch, sources) = sources();
    let mut definitions = Vec::new();
    for (source, builtin) in sources.iter().zip(&ALL) {
        let listed = source.list(&context().org).await.unwrap();
        assert!(listed.iter().all(|action| action.id.source() == source.id().as_str()));
        assert_eq!(listed, (builtin.actions)().unwrap());
        assert!(BUILTIN_SOURCES.contains(&source.id().as_str()), "{}", source.id());
        definitions.extend(listed);
    }
    definitions
}

#[tokio::test]
async fn every_definition_is_closed_and_bounded() {
    for action in definitions().await {
        assert_eq!(action.version, "1.0.0");
        assert!(!action.requires.is_empty() && !action.effects.is_empty() && action.timeout_ms > 0, "{}", action.id);
        assert!(action.requires.iter().all(|permission| permission.starts_with(action.id.source())), "{}", action.id);
        for schema in [&action.params_schema, &action.result_schema] {
            assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)), "{}", action.id);
            for name in schema["required"].as_array().unwrap() {
                assert!(
                    schema["properties"].get(name.as_str().unwrap()).is_some(),
                    "{} requires {name}, which it does not have",
                    action.id
                );
            }
        }
        for (name, property) in action.params_schema["properties"].as_object().unwrap() {
            let bounded = ["maxLength", "enum", "maxProperties", "maxItems", "maximum"].iter().any(|bound| property.get(bound).is_some());
            assert!(bounded || property["type"] == "boolean", "`{name}` of {} has no bound", action.id);
        }
        for field in &action.idempotency_key_fields {
            let name = field.strip_prefix("sha256(").and_then(|rest| rest.strip_suffix(')')).unwrap_or(field);
            assert!(action.params_schema["properties"].get(name).is_some(), "{} has no param `{name}`", action.id);
        }
    }
}

#[tokio::test]
async fn every_builtin_action_has_the_time_limit_of_its_safety_class() {
    for action in definitions().await {
        let expected = match action.safety_class() {
            SafetyClass::Low => LOW_TIMEOUT_MS,
            SafetyClass::Medium => MEDIUM_TIMEOUT_MS,
            SafetyClass::High => CALL_TIMEOUT_MS,
        };
        assert_eq!(action.timeout_ms, expected, "{}", action.id);
    }
}

#[tokio::test]
async fn every_guide_shows_every_action_of_its_source() {
    let (_scratch, sources) = sources();
    for source in sources {
        let guide = source.guide().unwrap();
        assert!(!source.title().is_empty() && guide.starts_with("# "));
        // An agent is told never to put JSON together by hand.
        assert!(!guide.contains("--params '") && !guide.contains("action invoke"), "{guide}");
        for action in source.list(&context().org).await.unwrap() {
            let call = format!("countersign actions run --integration {} --action {} ", source.id(), action.id.name());
            assert!(guide.contains(&call), "the guide of {} lacks `{call}`", source.id());
        }
    }
}

#[tokio::test]
async fn what_is_not_an_action_or_not_its_params_is_refused_without_repeating_values() {
    let (_scratch, sources) = sources();
    for source in &sources {
        for unknown in [format!("{}.nothing", source.id()), "other.read_text".to_owned()] {
            let action = ActionId::parse(&unknown).unwrap();
            let error = source.call(&context(), &action, &json!({})).await.unwrap_err();
            assert_eq!(error.code(), "unknown_action");
            assert!(source.preview(&context(), &action, &json!({})).await.is_err());
        }
        for action in source.list(&context().org).await.unwrap() {
            for params in [
                json!(null),
                json!([]),
                json!("hunter2"),
                json!({ "path": 7, "url": 7, "title": 7 }),
                json!({ "hunter2": 1 }),
                json!({ "path": "a", "text": "b", "extra": "hunter2" }),
                json!({ "url": "https://a.test", "method": "POST", "extra": "hunter2" }),
                json!({ "title": "a", "body": "b", "extra": "hunter2" }),
                json!({ "to": ["robin@example.com"], "subject": "a", "text": "b", "extra": "hunter2" }),
                json!({ "path": ["hunter2"], "url": ["hunter2"], "title": ["hunter2"] }),
            ] {
                let error = source.call(&context(), &action.id, &params).await.unwrap_err();
                assert_eq!(error.code(), "invalid_params", "{} took {params}", action.id);
                assert!(!error.to_string().contains("hunter2"), "{error}");
            }
        }
    }
}

#[test]
fn a_source_gives_up_a_little_before_its_caller() {
    for (timeout_ms, patience_ms) in [(0, 0), (1, 1), (100, 90), (10_000, 9_750), (30_000, 29_750)] {
        let context = CallContext { timeout_ms, ..context() };
        assert_eq!(patience(&context), Duration::from_millis(patience_ms));
    }
}
