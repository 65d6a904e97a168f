//! Measures the matcher: `cargo run --release -p countersign-automation --example filters [fuzz CASES | KIND…]`.
//! Without arguments, every kind of filter at 100, 10,000 and 100,000 of them, on one thread; `fuzz` compares it with the specification.
//! `make bench` uses `fuzz`, `json KIND COUNT`, which prints one of the measurements as a line of JSON, and `workload KIND COUNT`, which prints
//! its filters and events for quamina.
#![expect(clippy::print_stdout, reason = "its tables are read at the terminal")]

#[path = "../../src/matcher/generated.rs"]
#[allow(dead_code, reason = "the tests use all of it")]
mod generated;
mod memory;
mod workload;

use automation::filter::{Filter, naive};
use automation::matcher::{Event, Matcher};
use generated::Dice;
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::{Duration, Instant};
use workload::{Kind, Layout};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const EVENTS: usize = 10_000;
const MEASURED: Duration = Duration::from_millis(1_500);

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["fuzz"] => return fuzz(1_000_000),
        ["fuzz", cases] => return fuzz(cases.parse()?),
        ["json", kind, count] => return print_json(Kind::named(kind)?, count.parse()?),
        ["workload", kind, count] => return print_workload(Kind::named(kind)?, count.parse()?),
        _ => {}
    }
    println!(
        "| filters | kind | layout | events per CPU second | events/s | from bytes | naive | p50 µs | p99 µs | matches | MB | B/filter | resident MB | add/s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for layout in [Layout::OneType, Layout::Spread] {
        for kind in Kind::ALL.into_iter().filter(|kind| arguments.is_empty() || arguments.iter().any(|wanted| wanted == kind.name())) {
            for count in [100, 10_000, 100_000] {
                measure(kind, layout, count)?;
            }
        }
    }
    Ok(())
}

/// The filters, each with its type of events, and the events.
type Workload = (Vec<(String, Value)>, Vec<(String, Value)>);

fn workload_of(kind: Kind, layout: Layout, count: u64) -> Workload {
    let mut dice = Dice(7);
    let filters = (0..count).map(|key| (layout.event_type(key % layout.types(count)), kind.filter(&mut dice, count))).collect();
    let mut event = || (layout.event_type(dice.below(layout.types(count))), workload::event(&mut dice, count));
    (filters, (0..EVENTS).map(|_| event()).collect())
}

/// One workload, measured.
struct Measured {
    matched: Matched,
    /// Events per second that have to be read first, and that are matched by asking each filter.
    from_bytes: f64,
    naively: f64,
    /// What the matcher has allocated, and what that added to the resident memory.
    bytes: usize,
    resident: usize,
    add_per_second: f64,
}

fn measured(kind: Kind, layout: Layout, count: u64) -> Outcome<Measured> {
    let (texts, events) = workload_of(kind, layout, count);
    let mut filters = Vec::new();
    for (key, (event_type, filter)) in (0_u32..).zip(texts) {
        filters.push((key, event_type, Filter::parse(&filter).map_err(|mistakes| format!("{mistakes:?}"))?));
    }
    let (before, before_resident) = (memory::allocated(), resident_bytes()?);
    let began = Instant::now();
    let matcher = Matcher::of(filters.iter().map(|(key, event_type, filter)| (*key, Some("one"), event_type.as_str(), filter)));
    let add_per_second = count as f64 / began.elapsed().as_secs_f64();
    let matched = matched(&matcher, &events)?;
    let bytes = memory::allocated().saturating_sub(before);
    let resident = resident_bytes()?.saturating_sub(before_resident);
    let from_bytes = from_bytes(&matcher, &events)?;
    let naively = naively(&filters, &events);
    Ok(Measured { matched, from_bytes, naively, bytes, resident, add_per_second })
}

fn measure(kind: Kind, layout: Layout, count: u64) -> Outcome<()> {
    let Measured { matched, from_bytes, naively, bytes, resident, add_per_second } = measured(kind, layout, count)?;
    let Matched { per_cpu_second, per_second, matches, waits } = matched;
    let percentile = |share: usize| waits.get(waits.len() * share / 100).map_or(0.0, |wait| wait.as_secs_f64() * 1e6);
    println!(
        "| {count} | {} | {} | {per_cpu_second:.0} | {per_second:.0} | {from_bytes:.0} | {naively:.0} | {:.2} | {:.2} | {matches:.1} | {:.1} | {} | {:.1} | {add_per_second:.0} |",
        kind.name(),
        layout.name(),
        percentile(50),
        percentile(99),
        bytes as f64 / 1e6,
        bytes / count as usize,
        resident as f64 / 1e6,
    );
    Ok(())
}

fn print_json(kind: Kind, count: u64) -> Outcome<()> {
    let Measured { matched, from_bytes, naively, bytes, add_per_second, .. } = measured(kind, Layout::OneType, count)?;
    let Matched { per_cpu_second, per_second, matches, .. } = matched;
    let line = json!({ "per_second": per_second, "per_cpu_second": per_cpu_second, "from_bytes": from_bytes, "naively": naively,
        "matches": matches, "bytes": bytes, "add_per_second": add_per_second });
    println!("{line}");
    Ok(())
}

fn print_workload(kind: Kind, count: u64) -> Outcome<()> {
    let (filters, events) = workload_of(kind, Layout::OneType, count);
    let mut text = String::new();
    for (_, filter) in &filters {
        let pattern = workload::as_pattern(filter).ok_or_else(|| format!("`{}` is not compared", kind.name()))?;
        text.push_str(&format!("pattern {pattern}\n"));
    }
    for (_, event) in &events {
        text.push_str(&format!("event {event}\n"));
    }
    print!("{text}");
    Ok(())
}

struct Matched {
    /// On a machine that has other things to do, this says more than `per_second`.
    per_cpu_second: f64,
    per_second: f64,
    /// How many filters match one event.
    matches: f64,
    /// How long single events take, in order.
    waits: Vec<Duration>,
}

fn matched(matcher: &Matcher<u32>, events: &[(String, Value)]) -> Outcome<Matched> {
    let mut waits = Vec::with_capacity(events.len());
    let mut matches = 0;
    for (event_type, value) in events {
        let began = Instant::now();
        matches += black_box(matcher.matching(&Event { space: Some("one"), event_type, value })).keys.len();
        waits.push(began.elapsed());
    }
    waits.sort_unstable();
    let (mut turns, began, cpu_began) = (0, Instant::now(), cpu_seconds()?);
    while began.elapsed() < MEASURED {
        for (event_type, value) in events.iter().cycle().skip(turns % events.len()).take(1_000) {
            black_box(matcher.matching(&Event { space: Some("one"), event_type, value }));
        }
        turns += 1_000;
    }
    let (seconds, cpu_seconds) = (began.elapsed().as_secs_f64(), cpu_seconds()? - cpu_began);
    let matches = matches as f64 / events.len() as f64;
    Ok(Matched { per_cpu_second: turns as f64 / cpu_seconds, per_second: turns as f64 / seconds, matches, waits })
}

/// The same, of events that have to be read first.
fn from_bytes(matcher: &Matcher<u32>, events: &[(String, Value)]) -> Outcome<f64> {
    let texts: Vec<(&str, String)> = events.iter().map(|(event_type, value)| (event_type.as_str(), value.to_string())).collect();
    let (mut turns, began) = (0, Instant::now());
    while began.elapsed() < MEASURED / 3 {
        for (event_type, text) in texts.iter().cycle().skip(turns % texts.len()).take(1_000) {
            let value: Value = serde_json::from_str(text)?;
            black_box(matcher.matching(&Event { space: Some("one"), event_type, value: &value }));
        }
        turns += 1_000;
    }
    Ok(turns as f64 / began.elapsed().as_secs_f64())
}

/// The same, by asking each filter of the event's type.
fn naively(filters: &[(u32, String, Filter)], events: &[(String, Value)]) -> f64 {
    let (mut turns, began) = (0, Instant::now());
    for (event_type, value) in events.iter().cycle() {
        if began.elapsed() > MEASURED / 5 {
            break;
        }
        let matching = filters.iter().filter(|(_, other, filter)| other == event_type && naive::matches(filter, value));
        black_box(matching.count());
        turns += 1;
    }
    f64::from(turns) / began.elapsed().as_secs_f64()
}

/// What this thread has used of the processor.
fn cpu_seconds() -> Outcome<f64> {
    let nanoseconds: u64 = std::fs::read_to_string("/proc/thread-self/schedstat")?.split(' ').next().ok_or("no processor time")?.parse()?;
    Ok(nanoseconds as f64 / 1e9)
}

fn resident_bytes() -> Outcome<usize> {
    let pages: usize = std::fs::read_to_string("/proc/self/statm")?.split(' ').nth(1).ok_or("no resident pages")?.parse()?;
    Ok(pages * 4096)
}

/// Compares the matcher with the specification, filter by filter and event by event.
fn fuzz(cases: usize) -> Outcome<()> {
    const FILTERS: u64 = 300;
    let (mut compared, mut matches, mut seed) = (0, 0, 1_000_000);
    while compared < cases {
        seed += 1;
        let mut dice = Dice(seed);
        let mut model = Vec::new();
        while (model.len() as u64) < FILTERS {
            let (space, types) = (generated::space(&mut dice), generated::subscribed(&mut dice));
            if let Ok(filter) = Filter::parse(&generated::filter(&mut dice)) {
                model.push((space, types, filter));
            }
        }
        let matcher = Matcher::of(model.iter().enumerate().map(|(key, (space, types, filter))| (key, *space, *types, filter)));
        for _ in 0..50 {
            let (value, space, event_type) = (generated::event(&mut dice), generated::space(&mut dice), generated::event_type(&mut dice));
            let mut found = matcher.matching(&Event { space, event_type, value: &value }).keys;
            found.sort_unstable();
            let expected = model.iter().enumerate().filter(|(_, (of_space, types, filter))| {
                generated::concerns(*of_space, types, space, event_type) && naive::matches(filter, &value)
            });
            let expected: Vec<usize> = expected.map(|(key, _)| key).collect();
            if found != expected {
                return Err(format!("seed {seed}: found {found:?}, expected {expected:?} for {event_type} {space:?} {value}").into());
            }
            compared += model.len();
            matches += found.len();
        }
    }
    println!("{compared} cases, {matches} of them matches: the same answers");
    Ok(())
}
