//! The matcher answers as the specification does.

use super::generated::{self, Dice, concerns};
use super::*;
use crate::filter::naive;
use serde_json::json;
use std::collections::BTreeMap;

/// Every filter that there should be, and whom it is for.
type Model = BTreeMap<u64, (Option<&'static str>, &'static str, Filter)>;

fn parsed(filter: &Value) -> Filter {
    Filter::parse(filter).unwrap_or_else(|mistakes| panic!("{filter}: {mistakes:?}"))
}

fn expected(model: &Model, event: &Event<'_>) -> Vec<u64> {
    let matching = model.iter().filter(|(_, (space, event_type, filter))| {
        concerns(*space, event_type, event.space, event.event_type) && naive::matches(filter, event.value)
    });
    matching.map(|(key, _)| *key).collect()
}

/// Compares all answers for one event, and says how many filters were asked.
fn compare(matcher: &Matcher<u64>, model: &Model, event: &Event<'_>, seed: u64) -> usize {
    let mut found = matcher.matching(event).keys;
    found.sort_unstable();
    let expected = expected(model, event);
    if found != expected {
        let differing: Vec<_> = model.iter().filter(|(key, _)| found.contains(key) != expected.contains(key)).collect();
        let filters: Vec<_> =
            differing.iter().map(|(key, (.., filter))| format!("{key}: {}", serde_json::to_string(filter).unwrap())).collect();
        panic!(
            "seed {seed}: found {found:?}, expected {expected:?} for {} {:?} {}\n{}",
            event.event_type,
            event.space,
            event.value,
            filters.join("\n")
        );
    }
    model.len()
}

#[test]
fn the_matcher_answers_as_the_specification() {
    let (mut cases, mut matches) = (0, 0);
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let model: Model = (0..dice.below(60)).map(|key| (key, subscription(&mut dice))).collect();
        let matcher = Matcher::of(model.iter().map(|(key, (space, event_type, filter))| (*key, *space, *event_type, filter)));
        for _ in 0..12 {
            let value = generated::event(&mut dice);
            let event = Event { space: generated::space(&mut dice), event_type: generated::event_type(&mut dice), value: &value };
            cases += compare(&matcher, &model, &event, seed);
            matches += expected(&model, &event).len();
        }
    }
    assert!(cases > 100_000, "{cases}");
    // Filters that never hold, or always, would prove little.
    assert!((cases / 50..cases / 2).contains(&matches), "{matches} of {cases}");
}

fn subscription(dice: &mut Dice) -> (Option<&'static str>, &'static str, Filter) {
    let filter = if dice.below(30) == 0 { Filter::all() } else { within_budget(dice) };
    (generated::space(dice), generated::subscribed(dice), filter)
}

fn within_budget(dice: &mut Dice) -> Filter {
    (0..).find_map(|_| Filter::parse(&generated::filter(dice)).ok()).unwrap()
}

#[test]
fn a_type_below_another_is_covered_by_its_star() {
    let (all, value) = (Filter::all(), json!({}));
    let types = ["*", "a.*", "a.b.*", "a.b", "a", "a.b*"];
    let matcher = Matcher::of(types.into_iter().enumerate().map(|(key, event_type)| (key, None, event_type, &all)));
    for (event_type, expected) in [("a", vec![0, 4]), ("a.b", vec![0, 1, 3]), ("a.b.c", vec![0, 1, 2]), ("ab", vec![0]), ("a.", vec![0])] {
        for space in [None, Some("one")] {
            let mut found = matcher.matching(&Event { space, event_type, value: &value }).keys;
            found.sort_unstable();
            assert_eq!(found, expected, "{event_type}");
        }
    }
}

#[test]
fn many_paths_and_lengths_and_ranges_are_found() {
    let filters = (0..300_u64).flat_map(|n| {
        let text = "x".repeat(1 + n as usize % 256);
        [
            (4 * n, json!({ format!("p{n}"): 1 })),
            (4 * n + 1, json!({ "s": { "starts_with": text } })),
            (4 * n + 2, json!({ "s": { "ends_with": text } })),
            (4 * n + 3, json!({ "r": { "gt": n, "lte": n + 10 } })),
        ]
    });
    let filters: Vec<_> = filters.map(|(key, filter)| (key, parsed(&filter))).collect();
    let matcher = Matcher::of(filters.iter().map(|(key, filter)| (*key, None, "t", filter)));
    for value in
        [json!({ "p7": 1, "p8": 1.0, "p9": 2 }), json!({ "s": "xxxx" }), json!({ "r": 20 }), json!({ "r": 20.5 }), json!({ "r": [0, 309] })]
    {
        let mut found = matcher.matching(&Event { space: None, event_type: "t", value: &value }).keys;
        found.sort_unstable();
        let expected: Vec<_> = filters.iter().filter(|(_, filter)| naive::matches(filter, &value)).map(|(key, _)| *key).collect();
        assert!(!expected.is_empty(), "{value}");
        assert_eq!(found, expected, "{value}");
    }
}

/// A test that would be too much work is not made. Its filter is told apart, and so are all that ask for it; those that need not, are judged.
#[test]
fn a_filter_that_asks_for_too_much_work_is_told_apart() {
    let text = "ab".repeat(8_000);
    let parse = |filter: Value| parsed(&filter);
    let regex = "[ab]*a[ab]{400}";
    let filters = [
        parse(json!({ "t": { "regex": regex } })),
        parse(json!({ "n": 1, "t": { "regex": regex } })),
        parse(json!({ "n": 2, "t": { "regex": regex } })),
        parse(json!({ "$not": { "t": { "regex": regex } } })),
        parse(json!({ "t": { "regex": "[a-z]{1,480}[0-9]" } })),
        parse(json!({ "t": { "regex": "^ab[ab]+$" } })),
        parse(json!({ "l.t": { "regex": regex }, "l.n": 1 })),
    ];
    let matcher = Matcher::of(filters.iter().enumerate().map(|(key, filter)| (key, None, "t", filter)));
    let matched = |value: Value| {
        let Matched { mut keys, mut exceeding } = matcher.matching(&Event { space: None, event_type: "t", value: &value });
        keys.sort_unstable();
        exceeding.sort_unstable();
        (keys, exceeding)
    };
    assert_eq!(matched(json!({ "t": text, "n": 1 })), (vec![5], vec![0, 1, 3]));
    assert_eq!(matched(json!({ "t": text, "n": 3, "l": [{ "t": text, "n": 1 }] })), (vec![5], vec![0, 3, 6]));
    // What one event asked for is forgotten with it.
    assert_eq!(matched(json!({ "t": "ab", "n": 1 })), (vec![3], vec![]));
    assert_eq!(matched(json!({ "t": "ab".repeat(250), "n": 1 })), (vec![0, 1, 5], vec![]));
}

/// All filters together have one budget: an event of very many long texts uses it up, however cheap each of them is.
#[test]
fn the_work_for_one_event_is_bounded() {
    let filters: Vec<_> = (0..40).map(|at| parsed(&json!({ "t": { "regex": format!("[a-z]{{{at},99}}[0-9]") } }))).collect();
    let matcher = Matcher::of(filters.iter().enumerate().map(|(key, filter)| (key, None, "t", filter)));
    let texts: Vec<_> = (0..60).map(|_| "a".repeat(16 * 1024)).collect();
    let of_texts =
        |count: usize| matcher.matching(&Event { space: None, event_type: "t", value: &json!({ "t": texts[..count] }) }).exceeding.len();
    assert_eq!(of_texts(1), 0);
    // The first half of what was judged is given up for the second, and with that the rest can be judged.
    let most = usize::try_from(crate::limits::EVENT_WORK_MAX / (60 * (16 * 1024 + 1))).unwrap();
    assert_eq!(of_texts(60), most - most / 2 + 1);
}

/// Whoever saves dear filters pays for them: the cheap ones beside them are judged.
#[test]
fn the_dearest_filters_are_given_up_when_all_of_them_are_too_much() {
    let dear: Vec<_> = (0..40).map(|at| parsed(&json!({ "t": { "regex": format!("[a-z]{{{at},99}}[0-9]") } }))).collect();
    let cheap: Vec<_> = (0..12).map(|at| parsed(&json!({ "n": { "lte": at }, "s": { "contains": "x" } }))).collect();
    let all = cheap[..6].iter().chain(&dear).chain(&cheap[6..]).enumerate();
    let matcher = Matcher::of(all.map(|(key, filter)| (key, None, "t", filter)));
    let texts = vec!["a".repeat(16 * 1024); 60];
    let mut matched = matcher.matching(&Event { space: None, event_type: "t", value: &json!({ "t": texts, "n": 0, "s": "x" }) });
    matched.keys.sort_unstable();
    assert_eq!(matched.keys, (0..6).chain(46..52).collect::<Vec<_>>());
    assert!(!matched.exceeding.is_empty() && matched.exceeding.iter().all(|key| (6..46).contains(key)), "{:?}", matched.exceeding);
}

/// To look at an element of an array is work, too, whatever is in it.
#[test]
fn many_looks_at_many_elements_are_bounded() {
    let members: serde_json::Map<_, _> = (0..60).map(|at| (format!("l.f{at}"), json!({ "not_equals": "x" }))).collect();
    let (wide, other) = (parsed(&Value::Object(members)), parsed(&json!({ "n": 1 })));
    let matcher = Matcher::of([(0, None, "t", &wide), (1, None, "t", &other)]);
    let of_elements = |count: usize| {
        let value = json!({ "n": 1, "l": vec![json!({ "z": 1, "f0": "x" }); count] });
        let Matched { mut keys, exceeding } = matcher.matching(&Event { space: None, event_type: "t", value: &value });
        keys.sort_unstable();
        (keys, exceeding)
    };
    assert_eq!(of_elements(10), (vec![1], vec![]));
    let of_rows = json!({ "n": 1, "l": vec![json!({ "z": 1, "f59": "x" }); 30_000] });
    let matched = matcher.matching(&Event { space: None, event_type: "t", value: &of_rows });
    assert_eq!((matched.keys, matched.exceeding), (vec![1], vec![0]));
}
