//! One test per row of the rules, and what is refused.

use super::*;
use crate::limits;
use serde_json::json;

fn check(filter: Value, event: Value, expected: bool) {
    let parsed = Filter::parse(&filter).unwrap_or_else(|mistakes| panic!("{filter}: {mistakes:#?}"));
    assert_eq!(naive::matches(&parsed, &event), expected, "{filter} of {event}");
    // What was written is read as the same filter.
    assert_eq!(Filter::parse(&serde_json::to_value(&parsed).unwrap()).unwrap(), parsed);
}

#[track_caller]
fn refused(filter: Value) -> Vec<Mistake> {
    Filter::parse(&filter).expect_err(&filter.to_string())
}

#[test]
fn a_negation_is_the_complement_of_its_positive() {
    let events = [
        json!({}),
        json!({ "a": null }),
        json!({ "a": 1 }),
        json!({ "a": "1" }),
        json!({ "a": [] }),
        json!({ "a": [1, 2] }),
        json!({ "a": [{ "b": 1 }] }),
    ];
    for event in events {
        for (negated, positive) in [
            (json!({ "a": { "not_equals": 1 } }), json!({ "a": { "equals": 1 } })),
            (json!({ "a": { "not_in": [1, null] } }), json!({ "a": { "in": [1, null] } })),
            (json!({ "a": { "exists": false } }), json!({ "a": { "exists": true } })),
            (json!({ "a.b": { "not_equals": 1 } }), json!({ "a.b": 1 })),
            (json!({ "$not": { "a": { "gt": 0 } } }), json!({ "a": { "gt": 0 } })),
            (json!({ "$not": { "a": { "not_equals": 1 }, "b": 1 } }), json!({ "a": { "not_equals": 1 }, "b": 1 })),
        ] {
            let holds = naive::matches(&Filter::parse(&positive).unwrap(), &event);
            check(negated, event.clone(), !holds);
        }
    }
    check(json!({ "a": { "not_equals": 1 } }), json!({}), true);
    check(json!({ "a": { "not_equals": 1, "exists": true } }), json!({}), false);
}

#[test]
fn a_missing_field_satisfies_no_positive_operator_and_every_negated_one() {
    for operator in positive_operators() {
        check(json!({ "a": operator }), json!({ "b": 1 }), false);
        check(json!({ "a.b": operator }), json!({ "a": 1 }), false);
    }
    for operator in [json!({ "not_equals": null }), json!({ "not_in": ["x"] }), json!({ "exists": false })] {
        check(json!({ "a": operator }), json!({}), true);
    }
}

#[test]
fn null_exists_and_equals_null_alone() {
    let event = json!({ "a": null });
    check(json!({ "a": null }), event.clone(), true);
    check(json!({ "a": { "exists": true } }), event.clone(), true);
    check(json!({ "a": { "not_equals": null } }), event.clone(), false);
    check(json!({ "a": { "in": ["x", null] } }), event.clone(), true);
    for operator in
        [json!({ "starts_with": "n" }), json!({ "regex": "" .to_owned() + "null" }), json!({ "lt": 1 }), json!({ "equals": false })]
    {
        check(json!({ "a": operator }), event.clone(), false);
    }
}

#[test]
fn another_type_is_not_converted() {
    for (filter, value) in [
        (json!(1), json!("1")),
        (json!("1"), json!(1)),
        (json!(1), json!(true)),
        (json!(true), json!("true")),
        (json!({ "gt": 0 }), json!("5")),
        (json!({ "gt": 0 }), json!(true)),
        (json!({ "starts_with": "1" }), json!(12)),
        (json!({ "equals": "x" }), json!({ "x": 1 })),
    ] {
        check(json!({ "a": filter }), json!({ "a": value }), false);
    }
    check(json!({ "a": { "not_equals": "1" } }), json!({ "a": 1 }), true);
}

#[test]
fn some_element_satisfies_all_positive_operators_and_no_element_is_excluded() {
    let event = json!({ "a": [5, 50, ["x", []]], "none": [], "o": [{ "b": 1 }, {}] });
    for (filter, expected) in [
        (json!({ "a": { "gt": 10, "lt": 100 } }), true),
        (json!({ "a": { "gt": 10, "lt": 20 } }), false),
        (json!({ "a": { "gt": 6, "lt": 49 } }), false),
        (json!({ "a": "x" }), true),
        (json!({ "a": { "not_equals": 5 } }), false),
        (json!({ "a": { "not_equals": 6 } }), true),
        (json!({ "a": { "equals": 5, "not_equals": 50 } }), false),
        (json!({ "a": { "not_in": ["y", 50] } }), false),
        (json!({ "none": { "exists": true } }), true),
        (json!({ "none": { "not_equals": 1, "exists": true } }), true),
        (json!({ "none": null }), false),
        (json!({ "none.b": { "exists": true } }), false),
        (json!({ "o.b": { "exists": true } }), true),
        (json!({ "o.b": { "exists": false } }), false),
    ] {
        check(filter, event.clone(), expected);
    }
    check(json!({ "a": { "contains": "b" } }), json!({ "a": ["abc"] }), true);
    check(json!({ "a": { "contains": "ab" } }), json!({ "a": ["a", "b"] }), false);
}

#[test]
fn conditions_under_one_array_speak_of_the_same_element() {
    let event = json!({ "a": [{ "b": 1, "c": 2 }, { "b": 2, "c": 1 }] });
    for (filter, expected) in [
        (json!({ "a.b": 1, "a.c": 1 }), false),
        (json!({ "a.b": 1, "a.c": 2 }), true),
        (json!({ "$and": [{ "a.b": 1 }, { "a.c": 1 }] }), true),
        (json!({ "a.b": 1, "$or": [{ "a.c": 1 }] }), true),
        // The element is judged alone, negations too.
        (json!({ "a.b": { "not_equals": 1 }, "a.c": 1 }), true),
        (json!({ "a.b": { "not_equals": 1 }, "a.c": 2 }), false),
        (json!({ "a.b": { "not_equals": 1 }, "a.c": { "not_equals": 2 } }), true),
        (json!({ "a.b": { "exists": false }, "a.c": 1 }), false),
        // By itself, a negation speaks of all of them.
        (json!({ "a.b": { "not_equals": 1 } }), false),
        (json!({ "$not": { "a.b": 1, "a.c": 1 } }), true),
        // What ends at the array is not below it.
        (json!({ "a": { "exists": true }, "a.b": 1, "a.c": 2 }), true),
        (json!({ "a": { "exists": true }, "a.b": { "not_equals": 2 } }), false),
    ] {
        check(filter, event.clone(), expected);
    }
    for absent in [json!({}), json!({ "a": [] }), json!({ "a": [[]] })] {
        check(json!({ "a.b": { "not_equals": 1 }, "a.c": { "exists": false } }), absent.clone(), true);
        check(json!({ "a.b": { "not_equals": 1 }, "a.c": { "exists": true } }), absent, false);
    }
    // Arrays in arrays are descended, and an inner array is shared only within one element of the outer.
    let nested = json!({ "a": [[{ "b": [{ "c": 1, "d": 2 }] }], { "b": [{ "c": 3, "d": 4 }, { "c": 5, "d": 6 }] }] });
    check(json!({ "a.b.c": 1, "a.b.d": 2 }), nested.clone(), true);
    check(json!({ "a.b.c": 3, "a.b.d": 6 }), nested.clone(), false);
    check(json!({ "a.b.c": 5, "a.b.d": 6 }), nested, true);
}

#[test]
fn what_an_event_does_not_satisfy_is_named() {
    let unmet_of = |filter: &Filter, event: &Value| -> Vec<String> {
        filter.members().filter(|(_, member)| !naive::matches(member, event)).map(|(name, _)| name).collect()
    };
    let filter = Filter::parse(&json!({
        "data.state": "open", r"data.a\.b": { "gt": 1 }, "$or": [{ "data.n": 1 }, { "data.n": 2 }], "$not": { "data.author": "robot" }
    }))
    .unwrap();
    let unmet = |data: Value| unmet_of(&filter, &json!({ "data": data }));
    assert_eq!(unmet(json!({ "state": "open", "a.b": 2, "n": 1 })), [""; 0]);
    assert_eq!(unmet(json!({ "state": "shut", "n": 3, "author": "robot" })), ["data.state", r"data.a\.b", "$or", "$not"]);
    // Each holds for some element, and no element satisfies both.
    let together = Filter::parse(&json!({ "a.b": 1, "a.c": 1 })).unwrap();
    let event = json!({ "a": [{ "b": 1, "c": 2 }, { "b": 2, "c": 1 }] });
    assert!(!naive::matches(&together, &event));
    assert_eq!(unmet_of(&together, &event), [""; 0]);
}

#[test]
fn numbers_and_keys_exact() {
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    for (wanted, found, expected) in [
        ("1", "1.0", true),
        ("1e0", "1", true),
        ("-0.0", "0", true),
        ("9007199254740993", "9007199254740993", true),
        ("9007199254740993", "9007199254740992", false),
        ("9007199254740992", "9007199254740992.0", true),
        ("18446744073709551615", "18446744073709551614", false),
        ("18446744073709551615", "-1", false),
        ("-9223372036854775808", "-9223372036854775808.0", true),
        ("0.1", "0.1", true),
        ("0.3", "0.30000000000000004", false),
    ] {
        check(json!({ "a": number(wanted) }), json!({ "a": number(found) }), expected);
        check(json!({ "a": { "in": [number(wanted)] } }), json!({ "a": number(found) }), expected);
        check(json!({ "a": { "not_equals": number(wanted) } }), json!({ "a": number(found) }), !expected);
    }
    check(json!({ "a": { "gt": number("9007199254740992") } }), json!({ "a": number("9007199254740993") }), true);
    check(json!({ "a": { "lt": number("9007199254740993.0") } }), json!({ "a": number("9007199254740992") }), false);
    check(json!({ "a": { "lt": number("18446744073709551615") } }), json!({ "a": number("1e20") }), false);
    check(json!({ "a": { "gte": 1 } }), json!({ "a": number("0.9999999999999999") }), false);
    check(json!({ r"a\.b.c": 1 }), json!({ "a.b": { "c": 1 } }), true);
    check(json!({ "a.b.c": 1 }), json!({ "a.b": { "c": 1 } }), false);
    check(json!({ r"a\\": 1 }), json!({ r"a\": 1 }), true);
    let large = json!({ "a": { "in": [number("9007199254740993"), number("9007199254740992")] } });
    assert_eq!(serde_json::to_string(&Filter::parse(&large).unwrap()).unwrap(), r#"{"a":{"in":[9007199254740992,9007199254740993]}}"#);
}

#[test]
fn strings_are_compared_by_code_point_and_a_regex_searches() {
    for (operator, text, expected) in [
        (json!("é"), "é", true),
        // The same letter, written as two code points.
        (json!("é"), "e\u{301}", false),
        (json!("A"), "a", false),
        (json!({ "starts_with": "/eu/" }), "/eu/x", true),
        (json!({ "starts_with": "/eu/" }), "/EU/x", false),
        (json!({ "ends_with": ".txt" }), "a.txt", true),
        (json!({ "contains": "b" }), "abc", true),
        (json!({ "regex": "b" }), "abc", true),
        (json!({ "regex": "^b$" }), "abc", false),
        (json!({ "regex": "(?i)^ABC$" }), "abc", true),
        (json!({ "regex": "^rel-[0-9]+$" }), "rel-12", true),
    ] {
        check(json!({ "a": operator }), json!({ "a": text }), expected);
    }
}

#[test]
fn all_mistakes_are_told_at_once_each_at_its_place() {
    let filter = json!({
        "a..b": { "equal": 1, "in": [], "gt": "5" },
        "c/d": { "starts_with": "", "exists": "yes", "regex": "(" },
        "e": ["x"],
        "f": {},
        "$nor": [],
        "$or": [{}, 5, { "g": { "in": [1, {}] } }],
        "$not": [],
    });
    let told: Vec<_> = refused(filter).into_iter().map(|mistake| (mistake.code, mistake.pointer)).collect();
    let pointers = [
        "/a..b",
        "/a..b/equal",
        "/a..b/in",
        "/a..b/gt",
        "/c~1d/starts_with",
        "/c~1d/exists",
        "/c~1d/regex",
        "/e",
        "/f",
        "/$nor",
        "/$or/0",
        "/$or/1",
        "/$or/2/g/in/1",
        "/$not",
    ];
    assert_eq!(told, pointers.map(|pointer| ("filter_invalid", pointer.to_owned())));
}

#[test]
fn a_path_that_no_event_has_is_told_beside_every_other_mistake() {
    let filter = json!({
        "dta.x": 1,
        "data.size": { "gtt": 1 },
        "$or": [{ "tipe": { "equals": [] } }, { "data.a": 1 }],
        "$not": { "datta": { "in": [1] } },
    });
    let told: Vec<_> = Filter::of_events(&filter).unwrap_err().into_iter().map(|mistake| (mistake.code, mistake.pointer)).collect();
    let expected = [
        ("filter_path_unknown", "/dta.x"),
        ("filter_invalid", "/data.size/gtt"),
        ("filter_path_unknown", "/$or/0/tipe"),
        ("filter_invalid", "/$or/0/tipe/equals"),
        ("filter_path_unknown", "/$not/datta"),
    ];
    assert_eq!(told, expected.map(|(code, pointer)| (code, pointer.to_owned())));
    // Also beside what costs too much.
    let many = (0..=limits::FILTER_LEAVES_MAX).map(|field| (format!("f{field}"), json!(1))).collect::<Value>();
    let told = Filter::of_events(&many).unwrap_err();
    assert!(["filter_path_unknown", "filter_too_complex"].iter().all(|code| told.iter().any(|mistake| mistake.code == *code)));
    let inputs = ["size".to_owned()].into();
    let told = Filter::of_webhooks(&json!({ "inputs.sise": 1, "event.a": {} }), Some(&inputs)).unwrap_err();
    let told: Vec<_> = told.into_iter().map(|mistake| mistake.code).collect();
    assert_eq!(told, ["filter_path_unknown", "filter_invalid"]);
}

#[test]
fn the_nearest_operator_is_suggested() {
    for (name, nearest) in
        [("equal", "equals"), ("startswith", "starts_with"), ("not_equal", "not_equals"), ("exist", "exists"), ("regexp", "regex")]
    {
        let hint = refused(json!({ "a": { name: "x" } })).remove(0).hint.unwrap();
        assert!(hint.starts_with(&format!("did you mean `{nearest}`?")), "{name}: {hint}");
    }
    assert!(refused(json!({ "$ot": {} })).remove(0).hint.unwrap().contains("`$not`"));
    assert!(refused(json!({ "data": { "state": "open" } })).remove(0).hint.unwrap().contains("data.state"));
}

#[test]
fn a_filter_beyond_its_budget_is_refused_with_the_cost_of_its_parts() {
    let too_complex = |filter: Value, said: &str| {
        let mistakes = refused(filter);
        assert!(mistakes.iter().all(|mistake| mistake.code == "filter_too_complex"), "{mistakes:#?}");
        assert!(mistakes.iter().any(|mistake| mistake.message.contains(said)), "{said}: {mistakes:#?}");
        mistakes
    };
    let fields = |count: usize, test: &Value| (0..count).map(|field| (format!("f{field}"), test.clone())).collect::<Value>();
    too_complex(json!({ "a": "x".repeat(limits::FILTER_BYTES_MAX) }), "bytes");
    too_complex(fields(limits::FILTER_LEAVES_MAX + 1, &json!(1)), "operators 65");
    let listed: Vec<_> = (0..600).collect();
    too_complex(json!({ "a": { "in": listed }, "b": { "not_in": listed } }), "listed values 1200");
    let regexes = too_complex(fields(5, &json!({ "regex": "[a-z]+" })), "regexes 5");
    assert!(regexes[0].hint.as_ref().unwrap().contains("`/f0/regex` 32"), "{regexes:#?}");
    let nested = |depth: usize| (1..depth).fold(json!({ "a": 1 }), |filter, _| json!({ "$not": filter }));
    assert!(Filter::parse(&nested(limits::FILTER_DEPTH_MAX)).is_ok());
    too_complex(nested(limits::FILTER_DEPTH_MAX + 1), "deeper than 8");
    assert!(Filter::parse(&fields(limits::FILTER_LEAVES_MAX, &json!(1))).is_ok());
}

#[test]
fn every_part_has_its_cost() {
    let filter =
        json!({ "a": { "equals": 1, "contains": "x" }, "$or": [{ "b": { "regex": "rel-[0-9]" } }, { "c": { "regex": "[0-9]" } }] });
    let filter = Filter::parse(&filter).unwrap();
    let parts: Vec<_> = filter.parts().into_iter().map(|part| (part.pointer, part.cost)).collect();
    let expected = [("/a/equals", 1), ("/a/contains", 2), ("/$or/0/b/regex", 4), ("/$or/1/c/regex", 32)];
    assert_eq!(parts, expected.map(|(pointer, cost)| (pointer.to_owned(), cost)));
    assert_eq!((filter.cost(), filter.bare_regexes()), (39, 1));
}

#[test]
fn hostile_filters_are_refused_and_hostile_texts_take_linear_time() {
    for (regex, code) in [
        ("(a{1000}){1000}", "filter_too_complex"),
        (r"\pL{1000}{10}", "filter_too_complex"),
        ("((((((((((x{10}){10}){10}){10}){10}){10}){10}){10}){10}){10})", "filter_too_complex"),
        (r"(a)\1", "filter_invalid"),
        ("(?=a)b", "filter_invalid"),
        ("(?<!a)b", "filter_invalid"),
        ("[", "filter_invalid"),
        ("", "filter_invalid"),
    ] {
        assert_eq!(refused(json!({ "a": { "regex": regex } }))[0].code, code, "{regex}");
    }
    assert_eq!(refused(json!({ "a": { "regex": "(".repeat(200) + &")".repeat(200) } }))[0].code, "filter_invalid");
    assert_eq!(refused(json!({ "a": { "regex": "a".repeat(513) } }))[0].code, "filter_invalid");
    let deep = (0..120).fold(json!({ "a": 1 }), |filter, _| json!({ "$and": [filter] }));
    assert_eq!(refused(deep)[0].code, "filter_too_complex");
    // A long path is missing in every event, and costs no stack.
    check(json!({ vec!["a"; 7_000].join("."): 1, "a.b": { "not_equals": 1 } }), json!({ "a": [{ "b": 2 }] }), false);
    // An engine that backtracks would not end.
    check(json!({ "a": { "regex": "^(a+)+$" } }), json!({ "a": "a".repeat(50_000) + "!" }), false);
}

#[test]
fn the_schema_accepts_what_is_read_and_refuses_what_is_not() {
    let schema = schema();
    assert_eq!(schema["$id"], "urn:countersign:schema:filter:1");
    let validator = jsonschema::validator_for(&schema).unwrap();
    let accepted = [
        json!({ "a": 1 }),
        json!({ "a.b": null, r"c\.d": { "in": ["x", 1, true, null] } }),
        json!({ "$and": [{ "a": { "gt": 1, "lte": 2.5 } }], "$or": [{ "b": "x" }], "$not": { "c": { "exists": true } } }),
        json!({ "a": { "starts_with": "x", "ends_with": "y", "contains": "z", "regex": "^x", "not_equals": 1, "not_in": [2], "gte": 0, "lt": 1 } }),
    ];
    let refused = [
        json!({}),
        json!(5),
        json!({ "a": [] }),
        json!({ "a": {} }),
        json!({ "a..b": 1 }),
        json!({ "": 1 }),
        json!({ "$nor": [{ "a": 1 }] }),
        json!({ "$and": [] }),
        json!({ "$not": [] }),
        json!({ "a": { "equal": 1 } }),
        json!({ "a": { "in": [] } }),
        json!({ "a": { "in": [[]] } }),
        json!({ "a": { "gt": "1" } }),
        json!({ "a": { "contains": "" } }),
        json!({ "a": { "exists": 1 } }),
    ];
    for (filters, expected) in [(&accepted[..], true), (&refused[..], false)] {
        for filter in filters {
            assert_eq!(validator.is_valid(filter), expected, "{filter}");
            assert_eq!(Filter::parse(filter).is_ok(), expected, "{filter}");
        }
    }
    let operators = schema["$defs"]["operators"]["properties"].as_object().unwrap();
    assert_eq!(operators.keys().collect::<Vec<_>>(), parse::OPERATORS);
    assert!(operators.values().all(|operator| operator["description"].is_string()));
}

fn positive_operators() -> [Value; 11] {
    [
        json!({ "equals": null }),
        json!({ "in": [null, 1] }),
        json!({ "starts_with": "x" }),
        json!({ "ends_with": "x" }),
        json!({ "contains": "x" }),
        json!({ "regex": "x" }),
        json!({ "gt": 0 }),
        json!({ "gte": 0 }),
        json!({ "lt": 0 }),
        json!({ "lte": 0 }),
        json!({ "exists": true }),
    ]
}
