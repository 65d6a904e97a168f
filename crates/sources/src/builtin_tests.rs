//! Tests that apply to every builtin source, and helpers that the sources' tests share.

use super::documents::Documents;
use super::documents::tests::Kept;
use super::email::Email;
use super::files::Files;
use super::http::{Http, HttpConfig};
use super::notify::Notify;
use super::*;
use crate::limits::MEDIUM_TIMEOUT_MS;
use crate::mail::{Mailer, Route, Sender};
use crate::words::patience;
use crate::workspace::{Folders, Places};
use countersign_core::action::{Preview, Repeatability, Reversibility, SafetyClass};
use countersign_core::effect::Scope;
use countersign_core::fault::Faults;
use countersign_core::limits::{CALL_TIMEOUT_MS, LOW_TIMEOUT_MS};
use countersign_core::notification::{Notification, Notifier};
use countersign_core::source::{CallContext, Output, Source};
use countersign_core::{Action, Future, InvocationId, NotificationId, OrgId, SessionId, SpaceId, Tier, Timestamp, ledger};
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

fn sources() -> (tempfile::TempDir, Vec<Box<dyn Source>>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let scratch = tempfile::tempdir().unwrap();
    let places = Places::open(Folders::below(scratch.path()), Arc::new(SeededRandom::default()), &Faults::default()).unwrap();
    let places = Arc::new(places);
    let files = Files::on(Arc::clone(&places)).unwrap();
    let kept = Arc::new(Kept::default());
    let documents = Documents::on(places, kept, Arc::new(FixedClock::new()), Arc::new(SeededRandom::default())).unwrap();
    let http = Http::new(HttpConfig::default()).unwrap();
    let notify = Notify::new(Arc::new(Nobody), Arc::new(FixedClock::new()), Arc::new(SeededRandom::new(1))).unwrap();
    let route = Route { server: "smtps://mail.example.com".parse().unwrap(), login: None };
    let sender = Sender { route, from: "countersign@example.com".parse().unwrap() };
    let email = Email::new(Arc::new(Mailer::default()), Arc::new(sender), Arc::new(FixedClock::new())).unwrap();
    (scratch, vec![Box::new(files), Box::new(documents), Box::new(http), Box::new(notify), Box::new(email)])
}

async fn definitions() -> Vec<Arc<Action>> {
    let (_scratch, sources) = sources();
    let mut definitions = Vec::new();
    for source in sources {
        let listed = source.list(&context().org).await.unwrap();
        assert!(listed.iter().all(|action| action.id.source() == source.id().as_str()));
        definitions.extend(listed);
    }
    definitions
}

#[tokio::test]
async fn the_actions_and_their_tiers_are_these() {
    let table: Vec<(String, Tier, Reversibility, Repeatability, Preview)> = definitions()
        .await
        .iter()
        .map(|action| (action.id.to_string(), action.tier, action.reversibility, action.repeatability, action.preview))
        .collect();
    use Preview::{Supported, Unsupported};
    use Repeatability::{NotRepeatable, Repeatable};
    use Reversibility::{NoEffect, NotReversible, Reversible};
    let expected = [
        ("files.read_text", Tier::R0, NoEffect, Repeatable, Unsupported),
        ("files.list", Tier::R0, NoEffect, Repeatable, Unsupported),
        ("files.write_text", Tier::R2, Reversible, Repeatable, Supported),
        ("files.delete", Tier::R3, Reversible, NotRepeatable, Supported),
        ("documents.search", Tier::R0, NoEffect, Repeatable, Unsupported),
        ("documents.fetch", Tier::R0, NoEffect, Repeatable, Unsupported),
        ("documents.add", Tier::R2, Reversible, NotRepeatable, Supported),
        ("documents.import_folder", Tier::R2, Reversible, Repeatable, Supported),
        ("documents.tag", Tier::R2, Reversible, Repeatable, Supported),
        ("documents.remove", Tier::R3, Reversible, NotRepeatable, Supported),
        ("http.get", Tier::R1, NoEffect, Repeatable, Unsupported),
        ("http.request", Tier::R3, NotReversible, NotRepeatable, Unsupported),
        ("notify.send", Tier::R3, NotReversible, NotRepeatable, Unsupported),
        ("email.send", Tier::R3, NotReversible, NotRepeatable, Unsupported),
    ];
    assert_eq!(table, expected.map(|(id, tier, undo, again, preview)| (id.to_owned(), tier, undo, again, preview)));
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
