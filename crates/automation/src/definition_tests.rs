use super::*;
use crate::Mistake;
use countersign_core::Mode;
use countersign_core::action::{Class, Effect, Repeatability};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The automations that are shipped, by file.
const EXAMPLES: [(&str, &str); 7] = [
    ("build-triage", include_str!("../../../examples/automations/build-triage.json")),
    ("daily-digest", include_str!("../../../examples/automations/daily-digest.json")),
    ("file-added", include_str!("../../../examples/automations/file-added.json")),
    ("folder-sweep", include_str!("../../../examples/automations/folder-sweep.json")),
    ("weekly-podcast", include_str!("../../../examples/automations/weekly-podcast.json")),
    ("weekly-report", include_str!("../../../examples/automations/weekly-report.json")),
    ("report-follow-up", include_str!("../../../examples/automations/report-follow-up.json")),
];

fn action(class: Class, required: &[&str], properties: Value) -> ActionFacts {
    ActionFacts {
        params_schema: json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties }),
        class,
        repeatability: Repeatability::NotRepeatable,
        mode: Mode::Allow,
        effects: Vec::new(),
        timeout_seconds: 30,
        p95_ms: None,
    }
}

pub(crate) fn facts() -> Facts {
    let text = || json!({ "type": "string", "minLength": 1, "maxLength": 4_000 });
    let texts = || json!({ "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 50 });
    let outside = |action: ActionFacts| ActionFacts { effects: vec![Effect::NetworkCall], ..action };
    let repeatable = |action: ActionFacts| ActionFacts { repeatability: Repeatability::Repeatable, ..action };
    let message = json!({ "channel": { "type": "string", "pattern": "^C[0-9]+$", "description": "Where it is said." }, "text": text() });
    let search = json!({ "query": text(), "tags": texts(), "since": { "type": "string", "format": "date-time" },
        "limit": { "type": "integer", "minimum": 1, "maximum": 100 } });
    let actions = [
        ("slack.send_message", outside(action(Class::Write, &["channel", "text"], message))),
        (
            "email.send",
            outside(action(Class::Write, &["to", "subject", "text"], json!({ "to": texts(), "subject": text(), "text": text() }))),
        ),
        ("notify.send", action(Class::Write, &["title", "body"], json!({ "title": text(), "body": text() }))),
        (
            "linear.create_issue",
            outside(action(Class::Write, &["team", "title"], json!({ "team": text(), "title": text(), "description": text() }))),
        ),
        ("documents.search", action(Class::Read, &[], search)),
        ("documents.add", action(Class::Write, &["title", "text"], json!({ "title": text(), "text": text(), "tags": texts() }))),
        ("documents.import_folder", repeatable(action(Class::Write, &[], json!({ "path": text(), "tags": texts() })))),
        ("files.write_text", repeatable(action(Class::Write, &["path", "text"], json!({ "path": text(), "text": text() })))),
        (
            "http.request",
            outside(action(
                Class::Write,
                &["method", "url"],
                json!({ "method": { "enum": ["POST"] }, "url": text(), "headers": { "type": "object" }, "body": text() }),
            )),
        ),
        ("documents.fetch", action(Class::Read, &["document_id"], json!({ "document_id": text() }))),
        (
            "builtin.transform_data",
            repeatable(action(Class::Write, &["value"], json!({ "value": {}, "select": text(), "output_schema": { "type": "object" } }))),
        ),
        ("files.delete", ActionFacts { mode: Mode::Deny, ..action(Class::Danger, &["path"], json!({ "path": text() })) }),
        ("pay.transfer", action(Class::Danger, &[], json!({ "path": text(), "url": text() }))),
    ];
    Facts {
        actions: actions.into_iter().map(|(id, facts)| (id.to_owned(), facts)).collect(),
        event_types: ["document.added", "automation.run.succeeded", "automation.run.failed"].map(str::to_owned).into(),
        automation_id: None,
        used_actions: ["documents.search".to_owned()].into(),
        queues: BTreeSet::new(),
    }
}

fn good() -> Value {
    json!({
        "schema_version": "1.0",
        "name": "Digest",
        "inputs": { "schema": { "type": "object", "properties": { "since": { "type": "string", "format": "date-time" } } } },
        "triggers": [
            { "trigger_id": "mornings", "type": "schedule", "config": { "cron": "0 9 * * 1-5", "timezone": "Africa/Kigali" } },
            { "type": "webhook" },
            { "type": "event", "config": { "event_type": "document.added", "filters": { "data.kind": "pdf" } } },
        ],
        "plan": [
            { "step_id": "find", "action": "documents.search", "config": { "query": "{{ inputs.since }}" }, "output_as": "found" },
            { "step_id": "send", "action": "slack.send_message", "config": { "channel": "C1", "text": "{{ found.hits | length }}" } },
        ],
        "execution": { "timeout_seconds": 100, "on_failure": [
            { "step_id": "tell", "action": "notify.send", "config": { "title": "It failed", "body": "{{ run.error.message }}" } } ] },
    })
}

/// Puts a value at a pointer whose parents are made where they are missing; `-` is the end of a list.
fn put(root: &mut Value, pointer: &str, new: Value) {
    let (above, last) = pointer.rsplit_once('/').unwrap();
    if root.pointer(above).is_none() {
        put(root, above, json!({}));
    }
    match root.pointer_mut(above).unwrap() {
        Value::Array(items) if last == "-" => items.push(new),
        Value::Array(items) => items[last.parse::<usize>().unwrap()] = new,
        Value::Object(members) => drop(members.insert(last.replace("~1", "/"), new)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => panic!("nothing stands below {above}"),
    }
}

fn with(changes: &[(&str, Value)]) -> Value {
    let mut value = good();
    changes.iter().for_each(|(pointer, new)| put(&mut value, pointer, new.clone()));
    value
}

fn without(pointer: &str) -> Value {
    let mut value = good();
    let (above, last) = pointer.rsplit_once('/').unwrap();
    value.pointer_mut(above).unwrap().as_object_mut().unwrap().remove(last).unwrap();
    value
}

fn mistakes(value: &Value) -> Vec<Mistake> {
    read(value, &facts()).err().unwrap_or_default()
}

fn accepted(value: &Value) -> Read {
    read(value, &facts()).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"))
}

#[test]
fn the_published_schema_is_a_schema_and_has_a_description_of_every_field() {
    assert!(shape::is_compiled());
    assert!(jsonschema::meta::is_valid(&schema()));
    fn described(schema: &Value, place: &str) {
        for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let is_plain = ["max", "window_seconds", "per_seconds", "limit", "drop", "all", "input_mapping", "rate_limit", "tags"];
            assert!(field.get("description").is_some() || is_plain.contains(&name.as_str()), "{place}/{name} has no description");
            described(field, &format!("{place}/{name}"));
        }
    }
    let schema = schema();
    described(&schema, "");
    schema["$defs"].as_object().unwrap().iter().for_each(|(name, part)| described(part, name));
}

#[test]
fn the_schema_says_the_defaults_that_are_written_in() {
    let written = accepted(&good()).normalised;
    let schema = schema();
    for (name, field) in schema["properties"]["execution"]["properties"].as_object().unwrap() {
        if let (Some(default), false) = (field.get("default"), ["timeout_seconds", "on_failure"].contains(&name.as_str())) {
            assert_eq!(&written["execution"][name], default, "{name}");
        }
    }
    assert_eq!(schema["properties"]["inputs"]["properties"]["schema"]["default"], Inputs::default().schema);
    assert_eq!(schema["$defs"]["rate_limit"]["default"], written["triggers"][1]["config"]["rate_limit"]);
    assert_eq!(schema["$defs"]["webhook"]["properties"]["signature"]["default"], written["triggers"][1]["config"]["signature"]);
    for name in ["catch_up", "dst_gap", "dst_overlap"] {
        assert_eq!(schema["$defs"]["schedule"]["properties"][name]["default"], written["triggers"][0]["config"][name], "{name}");
    }
}

/// One mistake each: what is changed in a good definition, then code, place and a part of the hint.
#[test]
fn each_mistake_has_its_code_its_place_and_the_next_thing_to_try() {
    let deep = (0..40).fold(json!(1), |below, _| json!([below]));
    let long = |length: usize| Value::String("x".repeat(length));
    let steps = |count: usize| (0..count).map(|n| json!({ "step_id": format!("s{n}"), "action": "documents.search" })).collect::<Value>();
    let many =
        |value: Value| (0..64).map(|n| n.to_string()).chain(["since".to_owned()]).map(|name| (name, value.clone())).collect::<Value>();
    let cases: Vec<(Value, &str, &str, &str)> = vec![
        (with(&[("/metadata/note", long(300_000))]), "definition_too_large", "", "split the plan"),
        (with(&[("/metadata/note", deep)]), "definition_too_large", "", "flatten"),
        (without("/name"), "required", "/name", "What people call it"),
        (with(&[("/plan/0/outputas", json!("x"))]), "unknown_member", "/plan/0/outputas", "`output_as`"),
        (with(&[("/goal", json!(7))]), "type", "/goal", "What it is for"),
        (with(&[("/execution/retry_backoff", json!("exponentially"))]), "enum", "/execution/retry_backoff", "`exponential`"),
        (with(&[("/execution/max_retries", json!(11))]), "range", "/execution/max_retries", "from 0 to 10"),
        (
            with(&[("/triggers/1/config/rate_limit", json!({ "max": 0, "per_seconds": 1 }))]),
            "range",
            "/triggers/1/config/rate_limit/max",
            "from 1",
        ),
        (with(&[("/name", json!(""))]), "text_length", "/name", "1 to 120"),
        (with(&[("/plan/0/step_id", json!("Find it"))]), "name_form", "/plan/0/step_id", "`_` or `-`"),
        (with(&[("/plan/1/output_as", json!("Sent-it"))]), "name_form", "/plan/1/output_as", "digits or `_`"),
        (with(&[("/schema_version", json!("2.0"))]), "schema_version_unsupported", "/schema_version", "`1.0`"),
        (with(&[("/triggers", json!(vec![json!({ "type": "webhook" }); 11]))]), "too_many_triggers", "/triggers", "10"),
        (with(&[("/plan", json!([]))]), "plan_length", "/plan", "1 to 50"),
        (with(&[("/plan", steps(51))]), "plan_length", "/plan", "1 to 50"),
        (with(&[("/metadata/note", long(5_000))]), "metadata_too_large", "/metadata", "find it"),
        (with(&[("/metadata/tags", json!(vec!["x"; 21]))]), "metadata_too_large", "/metadata/tags", "20"),
        (with(&[("/inputs/schema/type", json!("array"))]), "input_schema_invalid", "/inputs/schema", "object"),
        (
            with(&[("/inputs/schema/properties/a", json!({ "pattern": "(" }))]),
            "input_schema_invalid",
            "/inputs/schema/properties/a/pattern",
            "",
        ),
        (with(&[("/inputs/schema/properties/a", json!({ "$ref": "#" }))]), "input_schema_invalid", "/inputs/schema", "levels"),
        (with(&[("/inputs/schema/properties/a", json!({ "$ref": "#/$defs/b" }))]), "input_schema_invalid", "/inputs/schema", "$defs"),
        (
            with(&[("/inputs/schema/properties/n", json!({ "type": "integer", "default": "x" }))]),
            "input_schema_invalid",
            "/inputs/schema/properties/n/default",
            "fits",
        ),
        (
            with(&[("/inputs/schema/properties/since/default", json!("nonsense"))]),
            "input_schema_invalid",
            "/inputs/schema/properties/since/default",
            "fits",
        ),
        (with(&[("/inputs/schema/description", long(40_000))]), "input_schema_invalid", "/inputs/schema", "describes"),
        (
            with(&[("/inputs/schema/properties/a", json!({ "$ref": "https://example.com/a.json" }))]),
            "remote_ref_refused",
            "/inputs/schema/properties/a/$ref",
            "$defs",
        ),
        (
            with(&[("/inputs/schema/properties/since/default", json!("$last_fired"))]),
            "default_token_unknown",
            "/inputs/schema/properties/since/default",
            "`$last_fired_at`",
        ),
        (with(&[("/triggers/1/trigger_id", json!("mornings"))]), "trigger_id_duplicate", "/triggers/1/trigger_id", "leave it out"),
        (with(&[("/triggers/1/type", json!("web_hook"))]), "trigger_type_unknown", "/triggers/1/type", "`webhook`"),
        (with(&[("/triggers/0/config/cron", json!("0 9 * *"))]), "cron_invalid", "/triggers/0/config/cron", ""),
        (with(&[("/triggers/0/config/timezone", json!("Africa/Kigal"))]), "timezone_unknown", "/triggers/0/config/timezone", ""),
        (with(&[("/triggers/0/config/catch_up", json!("some"))]), "catch_up_invalid", "/triggers/0/config/catch_up", "last"),
        (with(&[("/triggers/0/config/catch_up", json!("all"))]), "catch_up_needs_queue", "/triggers/0/config/catch_up", "`queue`"),
        (
            with(&[("/triggers/1/config/input_mapping/since", json!("window.from"))]),
            "jsonpath_invalid",
            "/triggers/1/config/input_mapping/since",
            "",
        ),
        (
            with(&[("/triggers/1/config/input_mapping/since", json!(format!("$.{}", "a".repeat(512))))]),
            "jsonpath_unsupported",
            "/triggers/1/config/input_mapping/since",
            "larger part",
        ),
        (
            with(&[("/inputs/schema/properties", many(json!({}))), ("/triggers/1/config/input_mapping", many(json!("$.a")))]),
            "mapping_too_large",
            "/triggers/1/config/input_mapping",
            "JSONPath",
        ),
        (
            with(&[("/triggers/1/config/input_mapping/sinc", json!("$.a"))]),
            "mapping_target_unknown",
            "/triggers/1/config/input_mapping/sinc",
            "`since`",
        ),
        (with(&[("/triggers/2/config/event_type", json!("Document*"))]), "event_type_invalid", "/triggers/2/config/event_type", "document"),
        (
            with(&[("/triggers/2/config/filters", json!({ "data": { "equal": 1 } }))]),
            "filter_invalid",
            "/triggers/2/config/filters/data/equal",
            "`equals`",
        ),
        (
            with(&[
                ("/inputs/schema/properties/events", json!({ "type": "array" })),
                ("/triggers/2/config/batch", json!({ "max": 10, "window_seconds": 60 })),
                ("/triggers/2/config/debounce_seconds", json!(5)),
            ]),
            "debounce_and_batch",
            "/triggers/2/config/debounce_seconds",
            "`batch`",
        ),
        (
            with(&[("/triggers/2/config/batch", json!({ "max": 10, "window_seconds": 60 }))]),
            "batch_needs_events",
            "/triggers/2/config/batch",
            "array",
        ),
        (
            with(&[("/triggers/2/config/filters", json!({ "state": "open" }))]),
            "filter_path_unknown",
            "/triggers/2/config/filters/state",
            "`data.state`",
        ),
        (with(&[("/execution/on_failure/0/step_id", json!("find"))]), "step_id_duplicate", "/execution/on_failure/0/step_id", "own"),
        (with(&[("/execution/output_from", json!("fin"))]), "step_unknown", "/execution/output_from", "`find`"),
        (with(&[("/plan/1/action", json!("slack.send_mesage"))]), "action_unknown", "/plan/1/action", "`slack.send_message`"),
        (
            with(&[
                ("/plan/0", json!({ "step_id": "x", "action": "files.delete", "config": { "path": "a" } })),
                ("/plan/1/config/text", json!("x")),
            ]),
            "action_denied",
            "/plan/0/action",
            "admin",
        ),
        (with(&[("/plan/1/config/chanel", json!("C1"))]), "config_invalid", "/plan/1/config/chanel", "`channel`"),
        (with(&[("/plan/1/config/channel", json!(5))]), "config_invalid", "/plan/1/config/channel", "/properties/channel/type"),
        (with(&[("/plan/1/output_as", json!("found"))]), "output_name_taken", "/plan/1/output_as", "found_2"),
        (with(&[("/plan/1/output_as", json!("loop"))]), "output_name_taken", "/plan/1/output_as", "loop_2"),
        (with(&[("/plan/1/timeout_seconds", json!(101))]), "timeout_exceeds_run", "/plan/1/timeout_seconds", "100"),
        (
            with(&[("/execution/timeout_seconds", json!(1_000)), ("/execution/on_failure/0/timeout_seconds", json!(301))]),
            "timeout_exceeds_run",
            "/execution/on_failure/0/timeout_seconds",
            "300",
        ),
        (with(&[("/plan/1/on_interrupted", json!("retry"))]), "on_interrupted_retry_unsafe", "/plan/1/on_interrupted", "ask_human"),
        (
            with(&[("/execution/max_queued", json!({ "limit": 5, "drop": "oldest" }))]),
            "drop_needs_queue",
            "/execution/max_queued/drop",
            "`queue`",
        ),
        (with(&[("/execution/budget_cap_usd", json!(0.000_000_1))]), "money_precision", "/execution/budget_cap_usd", "0.000001"),
        (with(&[("/execution/queue", json!("mediun"))]), "queue_unknown", "/execution/queue", "`medium`"),
        (
            with(&[("/execution/on_failure/0/on_failure", json!([]))]),
            "on_failure_nested",
            "/execution/on_failure/0/on_failure",
            "execution",
        ),
    ];
    let covered: BTreeSet<&str> = cases.iter().map(|(_, code, _, _)| *code).collect();
    for (value, code, pointer, hint) in cases {
        let found = mistakes(&value);
        let [mistake] = found.as_slice() else { panic!("{code} at {pointer}: {found:#?}") };
        assert_eq!((mistake.code, mistake.pointer.as_str()), (code, pointer), "{mistake:#?}");
        assert!(mistake.hint.as_ref().is_some_and(|said| said.contains(hint)) || hint.is_empty(), "{mistake:#?}");
        assert!(mistake.message.starts_with(|first: char| !first.is_uppercase()), "{mistake:#?}");
    }
    let told: BTreeSet<&str> = CODES.into_iter().filter(|(_, meaning)| !meaning.starts_with("w")).map(|(code, _)| code).collect();
    assert_eq!(told.difference(&covered).collect::<Vec<_>>(), [&"inputs_invalid"]);
    assert_eq!(covered.difference(&told).count(), 0);
}

#[test]
fn all_mistakes_come_at_once_in_the_order_of_the_document() {
    let value = with(&[
        ("/name", json!("")),
        ("/triggers/0/config/timezone", json!("Mars")),
        ("/triggers/0/config/dst_gap", json!("jump")),
        ("/triggers/2/config/event_type", json!("document.addd")),
        ("/plan/0/config/limit", json!(1_000)),
        ("/plan/1/config/text", json!("{{ founds }} {{ found.hits")),
        ("/plan/1/when", json!("later.ok")),
        ("/execution/queue", json!("slow")),
    ]);
    let found: Vec<_> = mistakes(&value).into_iter().map(|mistake| (mistake.pointer, mistake.code)).collect();
    let expected = [
        ("/name", "text_length"),
        ("/triggers/0/config/timezone", "timezone_unknown"),
        ("/triggers/0/config/dst_gap", "enum"),
        ("/plan/0/config/limit", "config_invalid"),
        ("/plan/1/config/text", "template_syntax"),
        ("/plan/1/when", "template_undefined"),
        ("/execution/queue", "queue_unknown"),
    ];
    assert_eq!(found, expected.map(|(pointer, code)| (pointer.to_owned(), code)));
}

#[test]
fn a_schema_of_inputs_that_grows_or_winds_is_refused_before_it_is_compiled() {
    let refused = |defs: Value| {
        let found =
            mistakes(&with(&[("/inputs/schema/$defs", defs), ("/inputs/schema/properties/since", json!({ "$ref": "#/$defs/a0" }))]));
        found.into_iter().map(|mistake| (mistake.pointer, mistake.code)).collect::<Vec<_>>()
            == [("/inputs/schema".to_owned(), "input_schema_invalid")]
    };
    let next = |n: usize| json!({ "$ref": format!("#/$defs/a{}", n + 1) });
    let end = |count: usize| [(format!("a{count}"), json!({ "type": "string" }))];
    let chain = |count: usize| (0..count).map(|n| (format!("a{n}"), next(n))).chain(end(count)).collect::<Value>();
    let doubled =
        |count: usize| (0..count).map(|n| (format!("a{n}"), json!({ "allOf": [next(n), next(n)] }))).chain(end(count)).collect::<Value>();
    assert!(!refused(chain(20)) && refused(chain(800)));
    assert!(!refused(doubled(4)) && refused(doubled(30)));
}

#[test]
fn a_mistake_of_the_whole_stays_beside_one_of_a_part() {
    let steps: Value = (0..51).map(|n| json!({ "step_id": format!("s{n}"), "action": "documents.serch" })).collect();
    let codes: BTreeSet<_> = mistakes(&with(&[("/plan", steps)])).into_iter().map(|mistake| mistake.code).collect();
    assert_eq!(codes, ["action_unknown", "plan_length"].into());
}

#[test]
fn nothing_that_is_no_definition_is_taken_for_one() {
    for value in
        [json!(null), json!([]), json!("text"), json!(1), json!({}), json!({ "plan": {}, "triggers": 5, "execution": [], "inputs": 1 })]
    {
        assert!(!mistakes(&value).is_empty(), "{value}");
    }
}

#[test]
fn templates_are_holes_that_settle_only_what_they_could_settle() {
    let step = |action: &str, config: Value| with(&[("/plan/1", json!({ "step_id": "x", "action": action, "config": config }))]);
    for (action, config, places) in [
        // A hole may become whatever the schema asks for.
        ("documents.search", json!({ "tags": "{{ inputs.since }}", "limit": "{{ found.count }}" }), vec![]),
        ("slack.send_message", json!({ "channel": "C{{ found.number }}", "text": "{{ found.text }}" }), vec![]),
        // A text around it is a text for ever.
        ("documents.search", json!({ "limit": "at most {{ found.count }}" }), vec!["/limit"]),
        ("documents.search", json!({ "limit": "{{ found.a }}{{ found.b }}" }), vec!["/limit"]),
        // What stands beside a hole is checked as ever.
        ("documents.search", json!({ "tags": ["{{ inputs.since }}", 5] }), vec!["/tags/1"]),
        ("documents.search", json!({ "tags": [], "query": "{{ inputs.since }}" }), vec!["/tags"]),
        ("slack.send_message", json!({ "text": "{{ found.text }}" }), vec!["/channel"]),
        ("slack.send_message", json!({ "channel": "general", "text": "{{ found.text }}" }), vec!["/channel"]),
    ] {
        let found: Vec<_> = mistakes(&step(action, config.clone())).into_iter().map(|mistake| mistake.pointer).collect();
        assert_eq!(found, places.into_iter().map(|place| format!("/plan/1/config{place}")).collect::<Vec<_>>(), "{config}");
    }
}

#[test]
fn a_template_reads_what_is_bound_before_it() {
    let place =
        |changes: &[(&str, Value)]| mistakes(&with(changes)).into_iter().map(|mistake| (mistake.pointer, mistake.code)).collect::<Vec<_>>();
    let undefined = |pointer: &str| vec![(pointer.to_owned(), "template_undefined")];
    assert_eq!(place(&[("/plan/0/config/query", json!("{{ found.text }}"))]), undefined("/plan/0/config/query"));
    assert_eq!(place(&[("/plan/0/config/query", json!("{{ inputs.until }}"))]), undefined("/plan/0/config/query"));
    assert_eq!(place(&[("/plan/0/config/query", json!("{{ run.error.message }}"))]), undefined("/plan/0/config/query"));
    // What is handled after a failure may read what the plan has bound.
    assert_eq!(place(&[("/execution/on_failure/0/config/body", json!("{{ found.text }}"))]), []);
    // A schema that asks for further inputs has names that nobody can list.
    let open = ("/inputs/schema/additionalProperties", json!({ "type": "string" }));
    assert_eq!(place(&[open, ("/plan/0/config/query", json!("{{ inputs.until }}"))]), []);
}

#[test]
fn a_condition_over_a_hole_is_left_to_the_call() {
    let schema = json!({ "type": "object", "properties": { "kind": { "type": "string" } },
        "if": { "properties": { "kind": { "const": "a" } } }, "then": { "required": ["x"] }, "else": { "required": ["y"] } });
    assert_eq!(config::check(&json!({ "kind": "{{ inputs.kind }}" }), &schema), []);
    assert_eq!(config::check(&json!({ "kind": "a" }), &schema).len(), 1);
    let either = json!({ "oneOf": [{ "properties": { "a": { "const": 1 } } }, { "properties": { "a": { "const": 2 } } }] });
    assert_eq!(config::check(&json!({ "a": "{{ inputs.a }}" }), &either), []);
    assert_eq!(config::check(&json!({ "a": 3 }), &either).len(), 1);
}

#[test]
fn what_is_stored_has_every_default_every_id_and_no_shorthand() {
    let read = accepted(&with(&[("/execution/max_queued", json!(7))]));
    let stored = &read.normalised;
    let ids: Vec<_> = read.definition.triggers.iter().map(|trigger| trigger.trigger_id.as_str()).collect();
    assert_eq!(ids, ["mornings", "webhook", "event"]);
    assert_eq!(stored["triggers"][2]["config"]["filters"], json!({ "data.kind": { "equals": "pdf" } }));
    assert_eq!(stored["triggers"][2]["config"]["rate_limit"], json!({ "max": 600, "per_seconds": 60 }));
    assert_eq!(stored["execution"]["max_queued"], json!({ "limit": 7, "drop": "newest" }));
    assert_eq!(stored["execution"]["concurrency"], "drop_if_running");
    // A read may be repeated; a message may not.
    let interrupted: Vec<_> = read.definition.plan.iter().map(|step| step.on_interrupted).collect();
    assert_eq!(interrupted, [OnInterrupted::Retry, OnInterrupted::AskHuman]);
    let asked = accepted(&with(&[("/execution/on_interrupted", json!("fail"))]));
    assert_eq!(asked.definition.plan[0].on_interrupted, OnInterrupted::Fail);
}

#[test]
fn ids_of_triggers_are_found_beside_those_that_are_taken() {
    let webhook = || json!({ "type": "webhook" });
    let value = with(&[("/triggers", json!([webhook(), { "type": "webhook", "trigger_id": "webhook_2" }, webhook(), webhook()]))]);
    let ids: Vec<_> = accepted(&value).definition.triggers.into_iter().map(|trigger| trigger.trigger_id).collect();
    assert_eq!(ids, ["webhook", "webhook_2", "webhook_3", "webhook_4"]);
}

#[test]
fn a_retry_is_believed_of_reads_and_repeatables() {
    for (action, is_safe) in [("documents.search", true), ("builtin.transform_data", true), ("pay.transfer", false), ("notify.send", false)]
    {
        let config = match action {
            "builtin.transform_data" => json!({ "value": 1 }),
            "notify.send" => json!({ "title": "a", "body": "b" }),
            _ => json!({}),
        };
        let step = json!({ "step_id": "x", "action": action, "config": config, "on_interrupted": "retry" });
        assert_eq!(mistakes(&with(&[("/plan/1", step)])).is_empty(), is_safe, "{action}");
    }
    // What the execution asks of all steps is asked of each, and told where it was written.
    let found = mistakes(&with(&[("/execution/on_interrupted", json!("retry"))]));
    assert_eq!(found.iter().map(|mistake| mistake.pointer.as_str()).collect::<Vec<_>>(), ["/execution/on_interrupted"; 2]);
}

#[test]
fn older_names_become_ours_and_mistakes_are_told_at_the_older_ones() {
    let older = |config: Value| {
        with(&[
            ("/inputs/schema/properties/since/x-surfsense-widget", json!("date")),
            ("/plan/0", json!({ "step_id": "find", "action": "search_space.query", "config": { "query": "x" }, "output_as": "found" })),
            ("/plan/1", json!({ "step_id": "send", "action": "slack_post", "config": config })),
        ])
    };
    let stored = accepted(&older(json!({ "channel_id": "C1", "message_template": "{{ found.hits }}" }))).normalised;
    assert_eq!(stored["plan"][0]["action"], "documents.search");
    assert_eq!(stored["plan"][1]["action"], "slack.send_message");
    assert_eq!(stored["plan"][1]["config"], json!({ "channel": "C1", "text": "{{ found.hits }}" }));
    assert_eq!(stored["inputs"]["schema"]["properties"]["since"]["x-countersign-widget"], "date");
    let place = |config: Value| mistakes(&older(config)).into_iter().map(|mistake| mistake.pointer).collect::<Vec<_>>();
    assert_eq!(
        place(json!({ "channel_id": 5, "message_template": "{{ lost }}" })),
        ["/plan/1/config/channel_id", "/plan/1/config/message_template"]
    );
    assert_eq!(place(json!({ "channel_id": "C1", "text": "a", "message_template": "b" })), ["/plan/1/config/message_template"]);
    // An action that is there under the older name is meant itself.
    let mut facts = facts();
    facts.actions.insert("search_space.query".to_owned(), action(Class::Read, &[], json!({ "query": {} })));
    let read = read(&older(json!({ "channel": "C1", "text": "a" })), &facts).unwrap();
    assert_eq!(read.definition.plan[0].action, "search_space.query");
}

#[test]
fn every_alias_leads_to_an_action() {
    for (name, action) in [
        ("agent_task", "builtin.agent_task"),
        ("transform_data", "builtin.transform_data"),
        ("slack_post", "slack.send_message"),
        ("slack.post_message", "slack.send_message"),
        ("send_email", "email.send"),
        ("notification", "notify.send"),
        ("linear_create_issue", "linear.create_issue"),
        ("search_space.query", "documents.search"),
        ("search_space.fetch_document", "documents.fetch"),
    ] {
        assert_eq!(aliases::action(name, &facts()), Some(action));
    }
    assert_eq!(aliases::action("email.send", &facts()), None);
}

#[test]
fn every_older_name_of_a_param_becomes_ours() {
    for (older, config, action, expected) in [
        ("transform_data", json!({ "value": 1 }), "builtin.transform_data", json!({ "value": 1 })),
        (
            "slack_post",
            json!({ "channel_id": "C1", "message_template": "a" }),
            "slack.send_message",
            json!({ "channel": "C1", "text": "a" }),
        ),
        (
            "slack.post_message",
            json!({ "channel": "C1", "message_template": "a" }),
            "slack.send_message",
            json!({ "channel": "C1", "text": "a" }),
        ),
        ("slack.send_message", json!({ "channel_id": "C1", "text": "a" }), "slack.send_message", json!({ "channel": "C1", "text": "a" })),
        (
            "send_email",
            json!({ "to": ["a@b.test"], "subject_template": "a", "body_template": "b" }),
            "email.send",
            json!({ "to": ["a@b.test"], "subject": "a", "text": "b" }),
        ),
        (
            "send_email",
            json!({ "to": ["a@b.test"], "subject": "a", "message_template": "b" }),
            "email.send",
            json!({ "to": ["a@b.test"], "subject": "a", "text": "b" }),
        ),
        ("notification", json!({ "title_template": "a", "body_template": "b" }), "notify.send", json!({ "title": "a", "body": "b" })),
        ("notification", json!({ "title": "a", "message_template": "b" }), "notify.send", json!({ "title": "a", "body": "b" })),
        (
            "linear_create_issue",
            json!({ "team": "ENG", "title_template": "a", "description_template": "b" }),
            "linear.create_issue",
            json!({ "team": "ENG", "title": "a", "description": "b" }),
        ),
        ("search_space.query", json!({ "query": "a", "limit": 5 }), "documents.search", json!({ "query": "a", "limit": 5 })),
        ("search_space.fetch_document", json!({ "document_id": "a" }), "documents.fetch", json!({ "document_id": "a" })),
    ] {
        let step = json!({ "step_id": "x", "action": older, "config": config });
        let stored = accepted(&with(&[("/plan/1", step)])).normalised;
        assert_eq!((&stored["plan"][1]["action"], &stored["plan"][1]["config"]), (&json!(action), &expected), "{older}");
    }
}

#[test]
fn the_examples_have_no_mistakes_and_read_again_as_what_was_stored() {
    for (name, text) in EXAMPLES {
        let value = countersign_core::json::parse_strict(text.as_bytes()).unwrap();
        let first = accepted(&value);
        assert_eq!(first.warnings, [], "{name}");
        let again = accepted(&first.normalised);
        assert_eq!((again.hash, &again.normalised), (first.hash, &first.normalised), "{name}");
        let stored: Definition = serde_json::from_value(first.normalised).unwrap();
        assert_eq!(stored, first.definition, "{name}");
    }
}

#[test]
fn the_example_on_the_page_of_definitions_has_no_mistakes() {
    let page = include_str!("../../../docs/concepts/definitions.md");
    let example = page.split_once("```json\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
    accepted(&example.parse().unwrap());
}

#[test]
fn an_older_name_is_proposed_only_where_its_action_is_there() {
    let hint = |facts: &Facts| {
        let found = read(&with(&[("/plan/1/action", json!("slack_pst"))]), facts).unwrap_err();
        found.into_iter().find(|mistake| mistake.code == "action_unknown").and_then(|mistake| mistake.hint).unwrap()
    };
    assert!(hint(&facts()).contains("`slack_post`"));
    let mut without_slack = facts();
    without_slack.actions.remove("slack.send_message");
    assert!(!hint(&without_slack).contains("slack_post"));
}

#[test]
fn an_action_of_a_source_that_is_not_there_says_how_to_add_it() {
    let hint = |action: &str, absent: &str| {
        let mut without = facts();
        without.actions.retain(|id, _| !id.starts_with(absent));
        let found = read(&with(&[("/plan/1/action", json!(action))]), &without).unwrap_err();
        found.into_iter().find(|mistake| mistake.pointer == "/plan/1/action").and_then(|mistake| mistake.hint).unwrap()
    };
    let slack = hint("slack.send_message", "slack.");
    assert!(slack.contains("no source `slack`") && slack.contains("countersign source add slack"), "{slack}");
    assert!(hint("email.whatever_it_is", "slack.").contains("countersign action list"));
    assert!(hint("email.whatever_it_is", "email.").contains("COUNTERSIGN_EMAIL_SERVER"));
}

#[test]
fn an_agent_step_is_not_mistaken_for_another_action() {
    for named in ["agent_task", "builtin.agent_task"] {
        let [mistake] = <[Mistake; 1]>::try_from(mistakes(&with(&[("/plan/1/action", json!(named))]))).unwrap();
        assert_eq!((mistake.code, mistake.hint), ("action_unknown", None));
        assert!(mistake.message.contains("not in this version"), "{}", mistake.message);
    }
}

#[test]
fn a_default_is_checked_with_what_is_filled_in_below_it() {
    for (default, fits) in
        [(json!({}), true), (json!({ "days": "x" }), false), (json!({ "team": 5, "days": 1 }), false), (json!("$creator"), true)]
    {
        let days = json!({ "type": "object", "required": ["days"], "default": default, "properties": {
            "days": { "$ref": "#/$defs/days" }, "by": { "type": "string", "minLength": 3, "default": "$creator" }, "team": { "type": "string" } } });
        let changes = [("/inputs/schema/$defs/days", json!({ "type": "integer", "default": 7 })), ("/inputs/schema/properties/a~1b", days)];
        let found = mistakes(&with(&changes)).into_iter().map(|mistake| mistake.pointer).collect::<Vec<_>>();
        assert_eq!(found, vec!["/inputs/schema/properties/a~1b/default"; usize::from(!fits)], "{default}");
    }
    // What the space gives is known only when a run starts.
    let of_space = json!({ "type": "object", "required": ["x"], "default": {}, "properties": { "x": { "default": "$space_default" } } });
    accepted(&with(&[("/inputs/schema/properties/a", of_space)]));
}

#[test]
fn numbers_and_keys_exact() {
    let hash = |number: Value| accepted(&with(&[("/triggers/2/config/filters", json!({ "data.id": number }))])).hash;
    assert_ne!(hash(json!(9_007_199_254_740_993_u64)), hash(json!(9_007_199_254_740_992_u64)));
    assert_eq!(hash(json!(1)), hash(json!(1.0)));
    // The order of members says nothing, their names everything.
    let filters = |text: &str| hash_of(text.parse().unwrap());
    assert_eq!(filters(r#"{"data.a":1,"data.b":2}"#), filters(r#"{"data.b":2,"data.a":1}"#));
    assert_ne!(filters(r#"{"data.a":1,"data.b":2}"#), filters(r#"{"data.a":2,"data.b":1}"#));
    // In a call such a number would change when it is signed.
    let found = mistakes(&with(&[("/plan/0/config/limit", json!(9_007_199_254_740_993_u64))]));
    assert!(found.iter().any(|mistake| mistake.pointer == "/plan/0/config/limit" && mistake.message.contains("2^53")), "{found:#?}");
}

fn hash_of(filters: Value) -> countersign_core::Digest {
    accepted(&with(&[("/triggers/2/config/filters", filters)])).hash
}

#[test]
fn a_budget_is_exact_to_the_millionth() {
    for (written, millionths) in
        [(json!(0), 0), (json!(1.5), 1_500_000), (json!(0.000_001), 1), (json!(1000), 1_000_000_000), (json!(999.999_999), 999_999_999)]
    {
        let read = accepted(&with(&[("/execution/budget_cap_usd", written.clone())]));
        assert_eq!(read.definition.execution.budget_cap_usd.as_millionths(), millionths, "{written}");
        assert_eq!(read.normalised["execution"]["budget_cap_usd"], written);
    }
    let codes = |written: Value| {
        mistakes(&with(&[("/execution/budget_cap_usd", written)])).into_iter().map(|mistake| mistake.code).collect::<Vec<_>>()
    };
    assert_eq!(codes(json!(-1)), ["range"]);
    assert_eq!(codes(json!(1_000.1)), ["range"]);
    assert_eq!(codes(json!(1.234_567_8)), ["money_precision"]);
}

#[test]
fn what_may_start_itself_is_told_of_and_what_follows_others_is_not() {
    let warned = |facts: &Facts, event_type: &str, filters: Value, policy: &str| {
        let value = with(&[
            ("/triggers/2/config", json!({ "event_type": event_type, "filters": filters })),
            ("/execution/chain_policy", json!(policy)),
        ]);
        let warnings = read(&value, facts).unwrap().warnings;
        warnings.iter().any(|warning| warning.code == "may_trigger_itself" && warning.pointer == "/triggers/2/config/event_type")
    };
    let saved = Facts { automation_id: Some("aut_1".to_owned()), ..facts() };
    assert!(warned(&saved, "automation.run.failed", json!({ "data.status": "failed" }), "avoid_loop"));
    assert!(warned(&saved, "automation.*", json!({ "data.status": "failed" }), "allow"));
    assert!(warned(&saved, "automation.run.*", json!({ "data.automation_id": { "in": ["aut_2", "aut_1"] } }), "avoid_loop"));
    assert!(!warned(&saved, "automation.run.*", json!({ "data.automation_id": { "in": ["aut_2"] } }), "avoid_loop"));
    assert!(!warned(&saved, "automation.run.*", json!({ "data.automation_id": { "not_equals": "aut_1" } }), "avoid_loop"));
    assert!(!warned(&facts(), "automation.run.*", json!({ "data.automation_id": "aut_2" }), "avoid_loop"));
    assert!(!warned(&saved, "automation.run.failed", json!({ "data.status": "failed" }), "ignore_runs"));
    assert!(!warned(&saved, "document.added", json!({ "data.status": "failed" }), "avoid_loop"));
}

#[test]
fn an_event_that_the_server_does_not_publish_is_a_warning_with_the_nearest_name() {
    let read = accepted(&with(&[("/triggers/2/config/event_type", json!("document.addd"))]));
    let [warning] = read.warnings.as_slice() else { panic!("{:#?}", read.warnings) };
    assert_eq!((warning.code, warning.pointer.as_str()), ("event_type_unregistered", "/triggers/2/config/event_type"));
    assert!(warning.hint.as_ref().unwrap().contains("`document.added`"));
    // Somebody else may have published such events already.
    let read = accepted(&with(&[("/triggers/2/config/event_type", json!("com.example.order"))]));
    let [warning] = read.warnings.as_slice() else { panic!("{:#?}", read.warnings) };
    assert_eq!(warning.message, "the server itself publishes no events of type `com.example.order`");
    assert!(warning.hint.as_ref().unwrap().contains("countersign event publish"), "{warning:?}");
}

#[test]
fn a_filter_that_looks_where_no_event_has_anything_is_refused() {
    let filters = json!({ "state": "open", "spaceid": { "exists": true }, "data.a": 1, "replay_of": { "exists": false },
        "$or": [{ "subject": "x" }, { "$not": { "a/b.c": 1 } }] });
    let told = mistakes(&with(&[("/triggers/2/config/filters", filters)]));
    let told: Vec<_> = told.iter().map(|one| (one.pointer.as_str(), one.code, one.hint.as_deref().unwrap_or_default())).collect();
    for (one, (pointer, hint)) in
        told.iter().zip([("state", "`data.state`"), ("spaceid", "`space_id`"), ("$or/1/$not/a~1b.c", "`data.a/b.c`")])
    {
        assert_eq!((one.0, one.1), (format!("/triggers/2/config/filters/{pointer}").as_str(), "filter_path_unknown"));
        assert!(one.2.contains(hint), "{one:?}");
    }
    assert_eq!(told.len(), 3, "{told:?}");
}

#[test]
fn the_filter_of_a_webhook_sees_its_body_and_its_inputs() {
    let hook = |filters: Value| with(&[("/triggers/1/config/filters", filters)]);
    let told = |filters: Value| {
        mistakes(&hook(filters)).into_iter().map(|one| (one.pointer, one.code, one.hint.unwrap_or_default())).collect::<Vec<_>>()
    };
    assert_eq!(told(json!({ "event.action": "opened", "inputs.since": { "exists": true }, "$not": { "event": "x" } })), []);
    for (path, hint) in
        [("action", "`event.action`"), ("data.action", "`event.data.action`"), ("since", "`inputs.since`"), ("inputs.sinse", "`inputs`")]
    {
        let wrong = told(json!({ path: "x" }));
        let [(pointer, code, said)] = wrong.as_slice() else { panic!("{path}: {wrong:?}") };
        assert_eq!((pointer.as_str(), *code), (format!("/triggers/1/config/filters/{path}").as_str(), "filter_path_unknown"));
        assert!(said.contains(hint), "{said}");
    }
}

#[test]
fn a_queue_is_chosen_by_what_the_longest_step_takes() {
    let mut facts = facts();
    let definition = accepted(&good()).definition;
    assert_eq!(definition.queue(&facts), "medium"); // Two steps that may take 30 s, without history.
    for (p95_ms, queue) in [(9_999, "fast"), (10_000, "medium"), (300_000, "medium"), (300_001, "long")] {
        facts.actions.values_mut().for_each(|action| action.p95_ms = Some(p95_ms));
        assert_eq!(definition.queue(&facts), queue);
    }
    assert_eq!(accepted(&with(&[("/execution/queue", json!("fast"))])).definition.queue(&facts), "fast");
}

#[test]
fn steps_say_how_often_they_are_tried_or_do_as_all_do() {
    let definition = accepted(&with(&[("/plan/0/max_retries", json!(5)), ("/plan/0/retry_backoff", json!("none"))])).definition;
    let tried = |index: usize| {
        (definition.plan[index].max_retries(&definition.execution), definition.plan[index].retry_backoff(&definition.execution))
    };
    assert_eq!((tried(0), tried(1)), ((5, Backoff::None), (2, Backoff::Exponential)));
}

#[test]
fn a_difference_is_told_by_place_and_steps_keep_their_names() {
    let old = accepted(&good()).normalised;
    assert_eq!(diff(&old, &old), []);
    let mut new = good();
    put(&mut new, "/name", json!("Digest of the day"));
    put(&mut new, "/plan/1/config/text", json!("{{ found }}"));
    put(&mut new, "/plan/1/when", json!("found.hits"));
    new["plan"].as_array_mut().unwrap().insert(0, json!({ "step_id": "first", "action": "documents.search" }));
    new["execution"]["on_failure"] = json!([]);
    let new = accepted(&new).normalised;
    let changes = diff(&old, &new);
    let places: Vec<_> = changes.iter().map(|change| (change.pointer.as_str(), change.before.is_some(), change.after.is_some())).collect();
    assert_eq!(
        places,
        [
            ("/name", true, true),
            ("/plan/0", false, true),
            ("/plan/2/config/text", true, true),
            ("/plan/2/when", false, true),
            ("/execution/on_failure/0", true, false),
        ]
    );
    let mut turned = old.clone();
    turned["plan"].as_array_mut().unwrap().reverse();
    let [change] = <[Change; 1]>::try_from(diff(&old, &turned)).unwrap();
    assert_eq!(change, Change { pointer: "/plan".to_owned(), before: Some(json!(["find", "send"])), after: Some(json!(["send", "find"])) });
}

#[test]
fn what_is_worth_checking_is_told_beside_its_field() {
    let value = with(&[
        ("/triggers/0/config/cron", json!("*/5 * * * *")),
        ("/plan/1/config/text", json!("{{ found.a.b.c.d.e.f }}")),
        (
            "/plan/-",
            json!({ "step_id": "pay", "action": "pay.transfer", "config": { "path": "../secrets", "url": "http://10.0.0.1/pay" } }),
        ),
        ("/execution/on_failure", json!([])),
    ]);
    let flags: Vec<_> = review(&accepted(&value).definition, &facts()).into_iter().map(|flag| (flag.pointer, flag.code)).collect();
    let expected = [
        ("/triggers/0/config/cron", "schedule_frequent"),
        ("/plan/1/action", "action_first_use"),
        ("/plan/1/action", "outside_system"),
        ("/plan/1/config/text", "deep_path"),
        ("/plan/2/action", "action_first_use"),
        ("/plan/2/config/path", "path_unusual"),
        ("/plan/2/config/url", "address_unusual"),
        ("/execution/on_failure", "no_on_failure"),
    ];
    assert_eq!(flags, expected.map(|(pointer, code)| (pointer.to_owned(), code)));
}

#[test]
fn every_template_is_named_with_its_place() {
    let value = with(&[
        ("/plan/1/when", json!("found.hits")),
        ("/plan/1/config/text", json!("{{ found.hits }}")),
        ("/plan/-", json!({ "step_id": "pay", "action": "pay.transfer", "config": { "path": "plain", "url": "{{ found.hits }}" } })),
    ]);
    let named: Vec<_> = templates(&accepted(&value).definition).into_iter().map(|flag| flag.pointer).collect();
    for place in ["/plan/1/when", "/plan/1/config/text", "/plan/2/config/url"] {
        assert!(named.iter().any(|named| named == place), "{place}: {named:?}");
    }
    assert!(!named.iter().any(|named| named == "/plan/2/config/path"), "{named:?}");
}

#[test]
fn the_page_on_definitions_lists_every_code() {
    let page = include_str!("../../../docs/concepts/definitions.md");
    let listed: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    for (code, _) in CODES {
        assert!(listed.contains(code), "`{code}` is not on the page");
    }
}

proptest! {
    /// Whatever stands where, reading ends, and ends the same for what it stored.
    #[test]
    fn reading_never_fails_to_answer(pointer in "/(name|inputs|triggers|plan|execution|metadata|plan/0|plan/0/config|triggers/0/config|execution/queue|inputs/schema)",
        value in prop_oneof![Just(json!(null)), Just(json!({})), Just(json!([])), Just(json!("{{")), Just(json!([[1]])), Just(json!({ "a": { "$ref": "#" } })), Just(json!(-1.5))]) {
        let written = with(&[(pointer.as_str(), value)]);
        if let Ok(first) = read(&written, &facts()) {
            prop_assert_eq!(accepted(&first.normalised).hash, first.hash);
        }
    }
}
