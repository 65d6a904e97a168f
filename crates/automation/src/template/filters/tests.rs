use super::{FILTERS, takes};
use crate::limits::{TEMPLATE_LIST_ITEMS_MAX, TEMPLATE_OUTPUT_BYTES_MAX};
use crate::template::Reason;
use crate::template::engine;
use minijinja::value::Serde;
use serde_json::{Value, json};

fn render(source: &str, x: &Value) -> Result<String, Reason> {
    engine::text(source, Serde(&json!({ "x": x })).into()).map_err(|error| error.reason)
}

#[test]
fn each_filter_at_its_edges() {
    let people = json!([{ "n": "b", "a": { "b": 2 } }, { "n": "A", "a": { "b": 1 } }]);
    for (source, x, expected) in [
        ("{{ x | join(', ') }}", json!(["a", 1, 2.5, true, null, ["b"]]), "a, 1, 2.5, true, , [\"b\"]"),
        ("{{ x | join }}", json!([]), ""),
        ("{{ x | join('-') }}", json!("abc"), "a-b-c"),
        ("{{ x | join(d='-') }}", json!({ "k": 1, "a": 2 }), "k-a"),
        ("{{ x | length }}", json!("äöü"), "3"),
        ("{{ x | length }}", json!({ "a": 1 }), "1"),
        ("{{ x | length }}", json!([]), "0"),
        ("{{ (x * 3) | length }}", json!([1, 2]), "6"),
        ("{{ x.y | default('d') }}", json!({}), "d"),
        ("{{ x.y | default }}|", json!({}), "|"),
        ("[{{ x | default('d') }}]", json!(null), "[]"),
        ("{{ x | default('d', true) }}", json!(""), "d"),
        ("{{ x | default('d', boolean=true) }}", json!(0), "d"),
        ("{{ x | upper }}{{ x | lower }}", json!("Straße"), "STRASSEstraße"),
        ("{{ x | upper }}", json!(null), ""),
        ("{{ x | truncate(9) }}", json!("one two three"), "one two three"),
        ("{{ x | truncate(9, leeway=0) }}", json!("one two three"), "one..."),
        ("{{ x | truncate(9, true, '…', 0) }}", json!("one two three"), "one two …"),
        ("{{ x | truncate(length=5, end='', leeway=0) }}", json!("äöüäöü"), "äöüäö"),
        ("{{ x | tojson }}", json!({ "b": [1, null, "<\n>"], "a": 1.0 }), "{\"b\": [1, null, \"<\\n>\"], \"a\": 1.0}"),
        ("{{ x | tojson }}", json!(18_446_744_073_709_551_615_u64), "18446744073709551615"),
        ("{{ x | date }}", json!("2026-02-28T23:59:59+02:00"), "2026-02-28"),
        ("{{ x | date('%Y-%m-%d %H:%M:%S') }}", json!("2026-02-28T23:59:59.5+02:00"), "2026-02-28 21:59:59"),
        ("{{ x | date('%d %B %Y', tz='America/New_York') }}", json!("2026-03-08T07:00:00Z"), "08 March 2026"),
        ("{{ x | date('%H:%M', 'America/New_York') }}", json!("2026-03-08T07:00:00Z"), "03:00"),
        ("{{ x | date }}", json!("2026-02-28"), "2026-02-28"),
        ("{{ x | date('%H') }}", json!("2026-02-28T10:00:00"), "10"),
        ("{{ x | date }}", json!(0), "1970-01-01"),
        ("{{ x | replace('a', 'b') }}", json!("aXa"), "bXb"),
        ("{{ x | replace('', '-') }}", json!("ab"), "-a-b-"),
        ("{{ x | replace('a', '', 1) }}", json!("aaa"), "aa"),
        ("{{ x | replace(1, 2) }}", json!(111), "222"),
        ("[{{ x | trim }}]", json!(" \t a \n"), "[a]"),
        ("{{ x | trim('x') }}", json!("xxaxx"), "a"),
        ("{{ x | slugify }}", json!("  Grüße, Welt! 2026 -- ok_"), "grüße-welt-2026-ok"),
        ("[{{ x | slugify }}]", json!("!?"), "[]"),
        ("{{ x | first }}{{ x | last }}", json!(["a", "b"]), "ab"),
        ("{{ x | first }}{{ x | last }}", json!("äbc"), "äc"),
        ("{{ x | first | default('none') }}", json!([]), "none"),
        ("{{ x | sort }}", json!([3, 1, 2.5, true]), "[1, true, 2.5, 3]"),
        ("{{ x | sort | join }}", json!(["b", "A", "a", "B"]), "AabB"),
        ("{{ x | sort(case_sensitive=true) | join }}", json!(["b", "A", "a", "B"]), "ABab"),
        ("{{ x | sort(true) | join }}", json!([1, 3, 2]), "321"),
        ("{{ (x | sort(attribute='n') | first).n }}{{ (x | sort(attribute='a.b') | first).n }}", people.clone(), "AA"),
        ("{{ x | sort | join }}", json!({ "b": 1, "a": 2 }), "ab"),
        ("{{ x | reverse }}", json!("äb"), "bä"),
        ("{{ x | reverse }}", json!([1, 2]), "[2, 1]"),
    ] {
        assert_eq!(render(source, &x).as_deref(), Ok(expected), "{source} of {x}");
    }
}

#[test]
fn a_filter_refuses_what_it_cannot_do() {
    let people = json!([{ "n": 1 }, {}]);
    for (source, x, expected) in [
        ("{{ x | join }}", json!(1), Reason::Failed),
        ("{{ x | length }}", json!(1), Reason::Failed),
        ("{{ x.y | upper }}", json!({}), Reason::Undefined),
        ("{{ x | join(x.y) }}", json!({}), Reason::Undefined),
        ("{{ x | first }}", json!([]), Reason::Undefined),
        ("{{ x | truncate(-1) }}", json!("a"), Reason::Failed),
        ("{{ x | truncate(1.5) }}", json!("a"), Reason::Failed),
        ("{{ x | truncate(2) }}", json!("a"), Reason::Failed),
        ("{{ x | date }}", json!("yesterday"), Reason::Failed),
        ("{{ x | date('%Q%!') }}", json!("2026-02-28"), Reason::Failed),
        ("{{ x | date('%Y', 'Nowhere') }}", json!("2026-02-28"), Reason::Failed),
        ("{{ x | replace('a') }}", json!("a"), Reason::Failed),
        ("{{ x | sort }}", json!([1, "a"]), Reason::Failed),
        ("{{ x | sort(attribute='n') }}", people.clone(), Reason::Failed),
        ("{{ x | sort(attribute='__n') }}", people, Reason::Failed),
        ("{{ x | upper(1) }}", json!("a"), Reason::Failed),
        ("{{ x | upper(nothing=1) }}", json!("a"), Reason::Failed),
    ] {
        let found = render(source, &x);
        let failed = found == Err(expected) || (expected == Reason::Failed && source.contains("nothing=") && found.is_err());
        assert!(failed, "{source} of {x}: {found:?}");
    }
}

#[test]
fn the_check_knows_exactly_the_arguments_that_a_filter_takes() {
    let said = |source: &str| engine::text(source, Serde(&json!({ "x": "2026-02-28" })).into()).map_err(|error| error.message);
    for filter in FILTERS {
        let (_, takes) = takes(filter);
        for (name, _) in takes {
            let said = said(&format!("{{{{ x | {filter}({name}=none) }}}}"));
            assert!(!said.is_err_and(|message| message.contains("unknown")), "{filter} {name}");
        }
        let more = said(&format!("{{{{ x | {filter}({}) }}}}", vec!["none"; takes.len() + 1].join(", ")));
        assert!(more.is_err_and(|message| message.contains(&format!("takes {} arguments at most", takes.len()))), "{filter}");
    }
}

#[test]
fn what_a_filter_takes_and_makes_is_bounded() {
    let most = "a".repeat(TEMPLATE_OUTPUT_BYTES_MAX);
    let many = Value::Array(vec![json!(1); TEMPLATE_LIST_ITEMS_MAX + 1]);
    for (source, x) in [
        ("{{ x | replace('a', 'bb') | length }}", json!(most)),
        ("{{ x | replace('', 'b') | length }}", json!(most)),
        ("{{ x | truncate(1, true, x, 0) | length }}", json!(most)),
        ("{{ [x, 'b'] | join | length }}", json!(most)),
        ("{{ x | tojson | length }}", json!(most)),
        ("{{ x | join | length }}", many.clone()),
        ("{{ x | sort | length }}", many.clone()),
        ("{{ x | reverse | length }}", many.clone()),
        ("{{ x | last }}", many),
        ("{{ x }}{{ x }}", json!(most)),
    ] {
        let found = render(source, &x);
        // `truncate` sees first that its end does not fit.
        assert!(found == Err(Reason::Output) || (source.contains("truncate") && found == Err(Reason::Failed)), "{source}: {found:?}");
    }
    assert_eq!(render("{{ x | upper | lower | trim | length }}", &json!(most)), Ok(TEMPLATE_OUTPUT_BYTES_MAX.to_string()));
    assert_eq!(render("{{ x }}", &json!(most)).map(|text| text.len()), Ok(TEMPLATE_OUTPUT_BYTES_MAX));
}
