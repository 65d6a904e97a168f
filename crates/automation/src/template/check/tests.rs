use super::{check, check_predicate};
use crate::Mistake;
use crate::limits::TEMPLATE_BYTES_MAX;
use crate::template::Names;

fn names() -> Names {
    Names { inputs: Some(["tags".to_owned(), "since".to_owned()].into()), outputs: ["summary".to_owned()].into(), in_on_failure: false }
}

fn codes(mistakes: &[Mistake]) -> Vec<&'static str> {
    mistakes.iter().map(|mistake| mistake.code).collect()
}

#[test]
fn what_is_not_on_the_list_is_refused_with_the_nearest_names() {
    for (source, code, hint) in [
        ("{{ inputs.tags | uper }}", "template_filter_unknown", "`upper`"),
        ("{{ inputs.tags | safe }}", "template_filter_unknown", "`join`"),
        ("{{ inputs.tags is defind }}", "template_filter_unknown", "`defined`"),
        ("{% filter shout %}a{% endfilter %}", "template_filter_unknown", "`sort`"),
        ("{% set a | shout %}a{% endset %}", "template_filter_unknown", "`sort`"),
        ("{{ range(3) }}", "template_filter_unknown", "`join`"),
        ("{{ summary.upper() }}", "template_filter_unknown", "`| upper`"),
        ("{{ loop.cycle(1) }}", "template_undefined", ""),
        ("{{ summry.bullets }}", "template_undefined", "`summary`"),
        ("{{ inputs.tag }}", "template_undefined", "`tags`"),
        ("{{ inputs['tag'] }}", "template_undefined", "`tags`"),
        ("{{ run.startd_at }}", "template_undefined", "`started_at`"),
        ("{{ run.error.code }}", "template_undefined", ""),
        ("{{ run.__class__ }}", "template_syntax", ""),
        ("{{ run['_x'] }}", "template_syntax", ""),
        ("{{ run.id", "template_syntax", ""),
        ("{% if run.id %}", "template_syntax", ""),
        ("{% macro a() %}{% endmacro %}", "template_syntax", ""),
        ("{% include 'a' %}", "template_syntax", ""),
        ("{% extends 'a' %}", "template_syntax", ""),
        ("{% set run.id = 1 %}", "template_syntax", ""),
        ("{% autoescape true %}a{% endautoescape %}", "template_syntax", ""),
        ("{% do run.id() %}", "template_filter_unknown", ""),
        ("{{ 1 is number(2) }}", "template_syntax", ""),
        ("{{ run.id | replace }}", "template_syntax", ""),
        ("{{ run.id | replace(new='a') }}", "template_syntax", ""),
        ("{{ run.id | truncate(1, 2, 3, 4, 5, 6) }}", "template_syntax", ""),
        ("{{ run.id | truncate('9') }}", "template_syntax", ""),
        ("{{ run.id | truncate(leeway=-1) }}", "template_syntax", ""),
        ("{% filter upper(1) %}a{% endfilter %}", "template_syntax", ""),
        ("{{ inputs.tags | join(sep=', ') }}", "template_syntax", "`d`"),
        ("{{ inputs.since | date('%d', 'Mars/X') }}", "template_syntax", ""),
        ("{% for a in summary %}{% endfor %}{{ a }}", "template_undefined", ""),
        ("{% for a in summary %}{{ loop.nextitem }}{% endfor %}", "template_undefined", "`index`"),
    ] {
        let mistakes = check(source, &names()).unwrap_err();
        assert_eq!(mistakes[0].code, code, "{source}: {mistakes:?}");
        assert!(mistakes.iter().any(|mistake| mistake.hint.as_deref().unwrap_or_default().contains(hint)), "{source}: {mistakes:?}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_and_with_their_lines() {
    let mistakes = check("{{ a }}\n{{ b | c }}\n{{ run._d }}", &names()).unwrap_err();
    assert_eq!(codes(&mistakes), ["template_undefined", "template_undefined", "template_filter_unknown", "template_syntax"]);
    for (mistake, line) in mistakes.iter().zip([1, 2, 2, 3]) {
        assert!(mistake.message.ends_with(&format!("(line {line})")), "{mistake:?}");
    }
}

#[test]
fn names_are_bound_where_the_template_binds_them() {
    for source in [
        "{% for a in summary %}{{ a }}{{ loop.index }}{% endfor %}",
        "{% for a, b in summary %}{{ a }}{{ b }}{% endfor %}",
        "{% set a = 1 %}{% if a %}{% set b = a %}{% endif %}{{ b }}",
        "{% set a %}text{% endset %}{{ a }}",
        "{% with a = 1, b = a %}{{ b }}{% endwith %}",
        "{% for a in summary if a.x %}{{ a }}{% else %}{{ summary }}{% endfor %}",
        "{{ inputs.tags[0].anything }}",
        "{{ inputs.since | replace('a', new='b') | date('%d', inputs.tags) | truncate(none, leeway=0) | trim(*inputs.tags) }}",
        "{% set inputs = summary %}{{ inputs.whatever }}",
    ] {
        assert_eq!(check(source, &names()).err(), None, "{source}");
    }
    let failed = Names { in_on_failure: true, ..names() };
    assert_eq!(check("{{ run.failed_step_id }} {{ run.error.message }}", &failed).err(), None);
    assert_eq!(codes(&check("{{ run.error.mesage }}", &failed).unwrap_err()), ["template_undefined"]);
    let open = Names { inputs: None, ..names() };
    assert_eq!(check("{{ inputs.whatever }}", &open).err(), None);
}

#[test]
fn a_template_is_trivial_only_if_its_cost_is_bounded() {
    for (source, is_trivial) in [
        ("text", true),
        ("{{ run.id }} and {{ summary.a.b.c }}", true),
        ("{{ inputs.tags | join(', ') | upper | trim }}", true),
        ("{{ inputs.since | date('%Y', tz='UTC') }}", true),
        ("{# note #}{{ run.id }}", true),
        ("{{ inputs.tags | join | upper | trim | length }}", false),
        ("{{ inputs.tags | join(run.id) }}", false),
        ("{{ inputs.tags[0] }}", false),
        ("{{ 'a' }}", false),
        ("{{ 'a' * 9 }}", false),
        ("{{ run.id ~ run.id }}", false),
        ("{{ run.id is defined }}", false),
        ("{% if run.id %}{% endif %}", false),
        ("{% set a = run.id %}", false),
    ] {
        assert_eq!(check(source, &names()).unwrap().is_trivial(), is_trivial, "{source}");
    }
    let many = "{{ inputs.since | upper }}".repeat(33);
    assert!(!check(&many, &names()).unwrap().is_trivial());
    assert!(check(&"{{ inputs.since }}".repeat(33), &names()).unwrap().is_trivial());
    for (source, is_trivial) in [("inputs.tags", true), ("{{ inputs.tags | length }}", true), ("inputs.tags | length > 0", false)] {
        assert_eq!(check_predicate(source, &names()).unwrap().is_trivial(), is_trivial, "{source}");
    }
}

#[test]
fn a_template_reads_only_what_it_names() {
    let template = check("{{ inputs.tags }}{% set x = 1 %}{{ x }}{% for b in summary %}{{ b }}{% endfor %}", &names()).unwrap();
    assert_eq!(template.reads().iter().collect::<Vec<_>>(), ["inputs", "summary"]);
    // Where the branch is not taken, it is the step's output.
    let template = check("{% if inputs.tags %}{% set summary = 1 %}{% endif %}{{ summary }}", &names()).unwrap();
    assert!(template.reads().contains("summary"));
}

#[test]
fn a_predicate_is_one_expression() {
    for source in ["inputs.tags", "{{ inputs.tags }}", " {{- inputs.tags -}} ", "inputs.tags | length > 0 and run.attempt == 1"] {
        assert_eq!(check_predicate(source, &names()).err(), None, "{source}");
    }
    for source in [
        "{{ inputs.tags }} and {{ inputs.tags }}",
        "{% if inputs.tags %}{% endif %}",
        "",
        "inputs.tags inputs.tags",
        "text {{ inputs.tags }}",
    ] {
        assert_eq!(codes(&check_predicate(source, &names()).unwrap_err()), ["template_syntax"], "{source}");
    }
    assert_eq!(codes(&check_predicate("nothing > 1", &names()).unwrap_err()), ["template_undefined"]);
    for source in ["'false'", "{{ \"open\" }}"] {
        assert_eq!(codes(&check_predicate(source, &names()).unwrap_err()), ["when_not_boolean"], "{source}");
    }
}

#[test]
fn a_template_that_is_too_large_is_not_even_parsed() {
    let most = "x".repeat(TEMPLATE_BYTES_MAX);
    assert!(check(&most, &names()).is_ok());
    for source in [most.clone() + "x", "{{".repeat(TEMPLATE_BYTES_MAX)] {
        assert_eq!(codes(&check(&source, &names()).unwrap_err()), ["template_too_large"]);
        assert_eq!(codes(&check_predicate(&source, &names()).unwrap_err()), ["template_too_large"]);
    }
}

#[test]
fn no_source_within_the_limit_uses_up_a_small_stack() {
    let within = |part: &str, rest: &str| part.repeat((TEMPLATE_BYTES_MAX - rest.len() - 16) / part.len());
    let sources = [
        format!("{{{{ {}1 }}}}", within("not ", "")),
        format!("{{{{ {}1 }}}}", within("-", "")),
        format!("{{{{ 1{} }}}}", within("+1", "")),
        format!("{{{{ run{} }}}}", within(".a", "")),
        format!("{{{{ run{} }}}}", within("[0]", "")),
        format!("{{{{ run{} }}}}", within("|trim", "")),
        format!("{{{{ 1{} }}}}", within(" if 1 else 1", "")),
        format!("{{{{ {} }}}}", within("(", "")),
        format!("{{{{ {} }}}}", within("[", "")),
        format!("{{{{ {} }}}}", within("{1:", "")),
        format!("{{% if 1 %}}{}{{% endif %}}", within("{%elif 1%}", "{%endif%}")),
        within("{%if 1%}", ""),
        within("{%for a in a%}", ""),
        format!("{{% set {} = 1 %}}", within("(", "")),
    ];
    // A thread of the server has 2 MiB.
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(move || {
        for source in sources {
            let _ = check(&source, &names());
            let _ = check_predicate(source.trim_start_matches("{{").trim_end_matches("}}"), &names());
        }
    });
    thread.unwrap().join().unwrap();
}
