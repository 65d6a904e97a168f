//! Templates as people write them, rendered by a real worker where they are not trivial.

use crate::workers::renderer;
use automation::template::{Context, Names, check, check_predicate};
use serde_json::{Value, json};

fn names() -> Names {
    Names { inputs: None, outputs: ["summary".to_owned()].into(), in_on_failure: true }
}

fn context() -> Context {
    let inputs = json!({
        "tags": ["b", "a"], "count": 3, "large": 9_007_199_254_740_993_i64, "share": 0.5, "none": null, "yes": true, "empty": [],
        "text": "Größe <b> & \"q\"", "at": "2026-05-26T22:30:00Z",
        "people": [{ "name": "Zoe", "age": 3 }, { "name": "adam", "age": 7 }],
    });
    let run = json!({ "id": "run_1", "started_at": "2026-05-26T09:00:00.000000Z", "error": { "code": "timed_out" } });
    let summary = json!({ "bullets": ["one", "two"], "z": 1, "a": { "k": "v" } });
    Context::new([("inputs".into(), inputs), ("run".into(), run), ("summary".into(), summary)]).unwrap()
}

#[tokio::test]
async fn templates_render_as_written() {
    let (renderer, context) = (renderer(), context());
    for (source, expected) in [
        ("no template", "no template"),
        ("Daily digest for {{ run.started_at | date }}", "Daily digest for 2026-05-26"),
        ("{{ inputs.at | date('%H:%M %d.%m.%Y', 'Africa/Kigali') }}", "00:30 27.05.2026"),
        ("{% for b in summary.bullets %}• {{ b }}\n{% endfor %}", "• one\n• two\n"),
        ("{{ inputs.tags }} {{ summary.a }}", "[\"b\", \"a\"] {\"k\": \"v\"}"),
        ("{{ inputs.large }} {{ inputs.large + 1 }}", "9007199254740993 9007199254740994"),
        ("{{ inputs.share }} {{ inputs.yes }} [{{ inputs.none }}]", "0.5 true []"),
        ("{{ inputs.text }}", "Größe <b> & \"q\""),
        ("{{ inputs.text | tojson }}", "\"Größe <b> & \\\"q\\\"\""),
        ("{{ inputs.people | sort(attribute='name') | first }}", "{\"name\": \"adam\", \"age\": 7}"),
        ("{{ 'many' if inputs.count > 2 else 'few' }}", "many"),
        ("{% set n = inputs.count * 2 %}{% if n is number and n >= 6 %}{{ n }}{% endif %}", "6"),
        ("{% with x = 1 %}{{ x }}{% endwith %}{% filter upper %}abc{% endfilter %}", "1ABC"),
        ("{% for p in inputs.people if p.age > 5 %}{{ loop.index }}:{{ p.name }}{% else %}nobody{% endfor %}", "1:adam"),
        ("{% for p in inputs.empty %}x{% else %}nobody{% endfor %}", "nobody"),
        ("{{ inputs.nothing | default('-') }}{{ inputs.none | default('-', true) }}", "--"),
        ("[{{ 'x' if inputs.empty }}]", "[]"),
        ("{# a note #}{{- inputs.count -}} times", "3times"),
        ("{{ run.error.code }}", "timed_out"),
    ] {
        let template = check(source, &names()).unwrap_or_else(|mistakes| panic!("{source}: {mistakes:?}"));
        let rendered = renderer.render(&template, &context).await;
        assert_eq!(rendered.as_deref(), Ok(expected), "{source}");
    }
}

#[tokio::test]
async fn a_leaf_that_is_one_expression_keeps_its_type_where_no_string_is_allowed() {
    let (renderer, context) = (renderer(), context());
    for (source, allows_string, expected) in [
        ("{{ inputs.count }}", false, json!(3)),
        ("{{ inputs.count + 1 }}", false, json!(4)),
        ("{{- inputs.tags -}}", false, json!(["b", "a"])),
        ("{{ inputs.none }}", false, Value::Null),
        ("{{ inputs.large }}", false, json!(9_007_199_254_740_993_i64)),
        ("{{ summary.a }}", false, json!({ "k": "v" })),
        ("{{ inputs.count }}", true, json!("3")),
        (" {{ inputs.count }}", false, json!(" 3")),
        ("{{ inputs.count }}{{ inputs.count }}", false, json!("33")),
        ("{{ inputs.none }}", true, json!("")),
    ] {
        let template = check(source, &names()).unwrap();
        assert_eq!(renderer.render_value(&template, &context, allows_string).await, Ok(expected), "{source}");
    }
}

#[tokio::test]
async fn a_predicate_has_a_truth_and_a_string_has_none() {
    let (renderer, context) = (renderer(), context());
    for (source, expected) in [
        ("{{ summary.bullets | length > 0 }}", Ok(true)),
        ("inputs.count > 3", Ok(false)),
        ("inputs.yes", Ok(true)),
        ("{{ inputs.empty }}", Ok(false)),
        ("inputs.none", Ok(false)),
        ("inputs.tags", Ok(true)),
        ("inputs.count - 3", Ok(false)),
        ("inputs.nothing is defined", Ok(false)),
        ("inputs.yes and not inputs.empty", Ok(true)),
        ("inputs.text", Err("when_not_boolean")),
        ("inputs.text ~ ''", Err("when_not_boolean")),
        ("inputs.text == 'x'", Ok(false)),
        ("inputs.nothing", Err("template_undefined")),
        ("inputs.nothing > 1", Err("template_undefined")),
        ("inputs.tags + 1", Err("template_failed")),
    ] {
        let predicate = check_predicate(source, &names()).unwrap();
        let holds = renderer.evaluate_predicate(&predicate, &context).await;
        assert_eq!(holds.as_ref().map_err(|error| error.code()).copied(), expected, "{source}: {holds:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_rendered_says_why() {
    let (renderer, context) = (renderer(), context());
    for (source, code) in [
        ("{{ inputs.nothing }}", "template_undefined"),
        ("{{ inputs.nothing.more }}", "template_undefined"),
        ("{% if inputs.nothing %}x{% endif %}", "template_undefined"),
        ("{{ inputs.empty | first }}", "template_undefined"),
        ("{{ 1 / 0 }}", "template_failed"),
        ("{{ inputs.text + 1 }}", "template_failed"),
        ("{{ inputs.text | date }}", "template_failed"),
        ("{{ inputs.at | date('%Y', inputs.text) }}", "template_failed"),
        ("{{ 'x' | truncate(3, false, '.....') }}", "template_failed"),
        ("{% for a in inputs.tags * 5000 %}{% for b in inputs.tags * 5000 %}{% endfor %}{% endfor %}", "template_time"),
    ] {
        let template = check(source, &names()).unwrap_or_else(|mistakes| panic!("{source}: {mistakes:?}"));
        let error = renderer.render(&template, &context).await.unwrap_err();
        assert_eq!(error.code(), code, "{source}: {error:?}");
    }
}
