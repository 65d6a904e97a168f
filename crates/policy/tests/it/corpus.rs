//! Measures how much redaction finds and how often it is wrong, on the samples in `corpus/`. Known misses and known mistakes are among the
//! samples and count. Examples of secrets contain a `¦`, so that no secret scanner takes them for real.

use policy::redact::{Kind, Outgoing, Redaction, redact_params};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Params, and the texts that must be gone from them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Positive {
    kind: Kind,
    params: Value,
    gone: Vec<String>,
    #[serde(default)]
    regions: Vec<String>,
    /// Why it is not found.
    #[serde(default)]
    known_miss: Option<String>,
}

/// Params that look like personal data or secrets but are not, and must not change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Negative {
    about: String,
    params: Value,
    /// Why it is mistaken for something to remove.
    #[serde(default)]
    known_mistake: Option<String>,
}

/// The share of the positives that must be found.
const RECALL_MIN: f64 = 0.98;
/// The share that must be found of each kind: many addresses do not make up for a missed key.
const RECALL_OF_EACH_MIN: f64 = 0.975;
/// The share of the negatives that may be changed.
const FALSE_POSITIVES_MAX: f64 = 0.01;
/// The least number of samples of either sort.
const SAMPLES_MIN: usize = 220;

#[derive(Default)]
struct Tally {
    all: usize,
    wrong: usize,
}

impl Tally {
    fn share(&self) -> f64 {
        self.wrong as f64 / self.all.max(1) as f64
    }
}

#[test]
fn what_is_there_is_found() {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut missed = Vec::new();
    for (place, sample) in ["emails", "phones", "secrets"].into_iter().flat_map(read::<Positive>) {
        let outgoing = redact_params(&sample.params, &rules(&sample.regions), &[]);
        let left = texts(&outgoing.value);
        let is_gone = sample.gone.iter().all(|gone| !left.iter().any(|text| text.contains(gone.as_str())));
        let is_found = is_gone && outgoing.counts.contains_key(&sample.kind);
        assert_eq!(restored(&outgoing), sample.params, "{place}");
        for name in [format!("{:?}", sample.kind).to_lowercase(), "overall".to_owned()] {
            let tally = tallies.entry(name).or_default();
            tally.all += 1;
            tally.wrong += usize::from(!is_found);
        }
        if !is_found {
            missed.push(format!("{place}: {}: {}", sample.known_miss.as_deref().unwrap_or("UNEXPECTED"), outgoing.value));
        }
    }
    for (name, tally) in &tallies {
        println!("recall {name}: {} of {} = {:.4}", tally.all - tally.wrong, tally.all, 1.0 - tally.share());
    }
    println!("missed:\n  {}", missed.join("\n  "));
    let overall = &tallies["overall"];
    assert!(overall.all >= SAMPLES_MIN && 1.0 - overall.share() >= RECALL_MIN);
    for (name, tally) in &tallies {
        assert!(1.0 - tally.share() >= RECALL_OF_EACH_MIN, "{name}: {} of {} were missed", tally.wrong, tally.all);
    }
}

#[test]
fn what_only_looks_alike_is_left_alone() {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut changed = Vec::new();
    let regions = ["US", "GB", "DE", "FR"].map(str::to_owned);
    for (place, sample) in read::<Negative>("negatives") {
        let outgoing = redact_params(&sample.params, &rules(&regions), &[]);
        let is_changed = outgoing.value != sample.params || !outgoing.unreadable.is_empty();
        for name in [sample.about, "overall".to_owned()] {
            let tally = tallies.entry(name).or_default();
            tally.all += 1;
            tally.wrong += usize::from(is_changed);
        }
        if is_changed {
            let why = sample.known_mistake.as_deref().unwrap_or("UNEXPECTED");
            changed.push(format!("{place}: {why}: {} became {}", sample.params, outgoing.value));
        }
    }
    for (name, tally) in &tallies {
        println!("false positives {name}: {} of {} = {:.4}", tally.wrong, tally.all, tally.share());
    }
    println!("changed:\n  {}", changed.join("\n  "));
    let overall = &tallies["overall"];
    assert!(overall.all >= SAMPLES_MIN && overall.share() <= FALSE_POSITIVES_MAX);
}

fn rules(regions: &[String]) -> Redaction {
    let regions = regions.iter().map(|region| region.parse().unwrap()).collect();
    Redaction { kinds: [Kind::Email, Kind::Phone, Kind::Secret, Kind::Face].into(), regions }
}

fn read<T: for<'de> Deserialize<'de>>(name: &str) -> Vec<(String, T)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/corpus/{name}.jsonl"));
    let lines = std::fs::read_to_string(&path).unwrap().replace('¦', "");
    let samples = lines.lines().enumerate().map(|(at, line)| {
        let place = format!("{name}.jsonl:{}", at + 1);
        let sample = serde_json::from_str(line).unwrap_or_else(|error| panic!("{place}: {error}"));
        (place, sample)
    });
    samples.collect()
}

/// Every text of a value, its keys included.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(members) => members.iter().flat_map(|(key, value)| std::iter::once(key.as_str()).chain(texts(value))).collect(),
    }
}

/// The params with the originals put back.
fn restored(outgoing: &Outgoing) -> Value {
    let originals: BTreeMap<&str, &str> =
        outgoing.map.iter().map(|replaced| (replaced.token.as_str(), replaced.original.as_str())).collect();
    restored_value(&outgoing.value, &originals)
}

fn restored_value(value: &Value, originals: &BTreeMap<&str, &str>) -> Value {
    let text = |text: &str| originals.iter().fold(text.to_owned(), |text, (token, original)| text.replace(token, original));
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(found) => Value::String(text(found)),
        Value::Array(items) => items.iter().map(|item| restored_value(item, originals)).collect(),
        Value::Object(members) => Value::Object(members.iter().map(|(key, value)| (text(key), restored_value(value, originals))).collect()),
    }
}
