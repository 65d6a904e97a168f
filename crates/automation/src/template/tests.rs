use super::names::{RUN, RUN_ERROR, RUN_FAILED};
use super::*;
use crate::limits::TEMPLATE_OUTPUT_BYTES_MAX;
use countersign_core::{Future, Timestamp};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};

fn run() -> Run {
    Run {
        id: "run_1".into(),
        started_at: Timestamp::parse("2026-05-26T09:00:00Z").unwrap(),
        automation_id: "aut_1".into(),
        automation_name: "Digest".into(),
        automation_version: 3,
        trigger_type: "schedule".into(),
        trigger_id: Some("weekdays".into()),
        space_id: Some("spc_1".into()),
        creator_id: "usr_1".into(),
        attempt: 1,
        failure: None,
    }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_check_knows_exactly_the_members_that_a_run_has() {
    let context = build_run_context(&run(), json!({}), Map::new()).unwrap();
    let facts = context.json("run").unwrap();
    assert_eq!(keys(facts), RUN);
    assert_eq!(facts["started_at"], "2026-05-26T09:00:00.000000Z");
    assert_eq!(facts["search_space_id"], facts["space_id"]);
    let failure = Failure { step_id: "deliver".into(), code: "timed_out".into(), message: "too slow".into() };
    let context = build_run_context(&Run { failure: Some(failure), ..run() }, json!({}), Map::new()).unwrap();
    let facts = context.json("run").unwrap();
    assert_eq!(keys(facts), [&RUN[..], &RUN_FAILED[..]].concat());
    assert_eq!(keys(&facts["error"]), RUN_ERROR);
}

#[test]
fn no_output_stands_in_the_place_of_the_run_or_its_inputs() {
    let outputs =
        Map::from_iter([("run".to_owned(), json!("mine")), ("inputs".to_owned(), json!("mine")), ("summary".to_owned(), json!(1))]);
    let context = build_run_context(&run(), json!({ "a": 1 }), outputs).unwrap();
    assert_eq!(context.json("run").unwrap()["id"], "run_1");
    assert_eq!(context.json("inputs"), Some(&json!({ "a": 1 })));
    assert_eq!(context.json("summary"), Some(&json!(1)));
}

#[test]
fn a_string_that_is_too_large_is_refused_wherever_it_is() {
    let large = "a".repeat(TEMPLATE_OUTPUT_BYTES_MAX + 1);
    for inputs in [json!(large), json!({ "a": [{ "b": large }] }), json!({ large.clone(): 1 })] {
        let error = Context::new([("inputs".to_owned(), inputs)]).unwrap_err();
        assert_eq!(error.code(), "template_too_large");
        assert!(error.message.contains("`inputs`"), "{error}");
    }
    assert!(Context::new([("inputs".to_owned(), json!(large[1..]))]).is_ok());
}

/// Remembers what it is asked, and always gives the same answer.
struct Told {
    requests: Mutex<Vec<Value>>,
    answer: &'static str,
}

impl Workers for Told {
    fn ask(&self, request: String) -> Future<'_, Result<String, RenderError>> {
        self.requests.lock().unwrap().push(serde_json::from_str(&request).unwrap());
        Box::pin(async { Ok(self.answer.to_owned()) })
    }
}

fn told(answer: &'static str) -> (Arc<Told>, Renderer) {
    let told = Arc::new(Told { requests: Mutex::default(), answer });
    (told.clone(), Renderer::new(told))
}

#[tokio::test]
async fn only_templates_that_are_not_trivial_go_to_a_worker_with_no_more_than_they_read() {
    let (told, renderer) = told(r#"{"done":"rendered"}"#);
    let names = Names { outputs: ["summary".to_owned()].into(), ..Names::default() };
    let context = build_run_context(&run(), json!({ "a": "b" }), Map::from_iter([("summary".to_owned(), json!(1))])).unwrap();
    let trivial = check("{{ run.id }}-{{ inputs.a | upper }}", &names).unwrap();
    assert_eq!(renderer.render(&trivial, &context).await.as_deref(), Ok("run_1-B"));
    let predicate = check_predicate("{{ summary }}", &names).unwrap();
    assert_eq!(renderer.evaluate_predicate(&predicate, &context).await, Ok(true));
    assert_eq!(told.requests.lock().unwrap().len(), 0);
    let other = check("{{ inputs.a ~ 'c' }}", &names).unwrap();
    assert_eq!(renderer.render(&other, &context).await.as_deref(), Ok("rendered"));
    let request = json!({ "form": "text", "source": "{{ inputs.a ~ 'c' }}", "context": { "inputs": { "a": "b" } } });
    assert_eq!(*told.requests.lock().unwrap(), [request]);
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_no_result() {
    let template = check("{{ 1 + 1 }}", &Names::default()).unwrap();
    for answer in ["", "{}", "nonsense", r#"{"done":1}"#] {
        let (_, renderer) = told(answer);
        let error = renderer.render(&template, &Context::default()).await.unwrap_err();
        assert!(error.is_transient(), "{answer}: {error:?}");
    }
    let (_, renderer) = told(r#"{"failed":{"reason":"template_output","message":"too much"}}"#);
    let error = renderer.render(&template, &Context::default()).await.unwrap_err();
    assert_eq!((error.code(), error.is_transient()), ("template_output", false));
}

#[test]
fn a_worker_answers_every_line_even_one_that_it_cannot_read() {
    let requests = "nonsense\n{\"form\":\"predicate\",\"source\":\"1 > 0\",\"context\":{}}\n{\"form\":\"value\",\"source\":\"[1, none]\",\"context\":{}}\n";
    let mut answers = vec![];
    worker::serve(requests.as_bytes(), &mut answers).unwrap();
    let answers: Vec<Value> = String::from_utf8(answers).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[0]["failed"]["reason"], "template_failed");
    assert_eq!(answers[1..], [json!({ "done": true }), json!({ "done": [1, null] })]);
}

#[test]
fn a_text_is_a_template_if_it_opens_a_tag() {
    for (text, expected) in [("a {{ b }}", true), ("{% if a %}", true), ("{# a #}", true), ("plain { a } %", false), ("", false)] {
        assert_eq!(is_template(text), expected, "{text}");
    }
}

#[test]
fn every_reason_is_told_by_its_code() {
    for reason in [
        Reason::Syntax,
        Reason::Undefined,
        Reason::FilterUnknown,
        Reason::TooLarge,
        Reason::Time,
        Reason::Output,
        Reason::Failed,
        Reason::WhenNotBoolean,
        Reason::Unavailable,
    ] {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.code());
    }
}
