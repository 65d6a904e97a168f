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
    let mut found = matcher.matching(event);
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
            let mut found = matcher.matching(&Event { space, event_type, value: &value });
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
        let mut found = matcher.matching(&Event { space: None, event_type: "t", value: &value });
        found.sort_unstable();
        let expected: Vec<_> = filters.iter().filter(|(_, filter)| naive::matches(filter, &value)).map(|(key, _)| *key).collect();
        assert!(!expected.is_empty(), "{value}");
        assert_eq!(found, expected, "{value}");
    }
}
