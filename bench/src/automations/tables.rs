//! The tables of automations, with their limits.

use super::filters::{Filters, Turn};
use super::ours::Run;
use super::{AT_ONCE, CELERY, GRAPHILE, LONG, Long, Many, Measured, Rate, SHORT, Starts, Waits};
use crate::report::{Limit, table};
use crate::stats::{Spread, short};
use std::fmt::Write as _;

/// The time of one long run of DBOS, and the runs per second of many of ours, as multiples of the other's.
const LONG_RATIO_MIN: f64 = 10.0;
const MANY_RATIO_MIN: f64 = 5.0;
/// From a request to the start of the first step, p50.
const START_MS_MAX: f64 = 2.0;
/// At the most filters that are measured: 100,000.
const EVENTS_PER_SECOND_MIN: f64 = 200_000.0;
const FILTERS_MB_MAX: f64 = 100.0;
const FILTERS: usize = 100_000;

/// What each side makes durable, which is said wherever the figures are.
const DURABLE: &str = "Every side syncs what it commits: ours with a write-ahead log and `synchronous=FULL`, or PostgreSQL's defaults; DBOS the same, or \
SQLite's own rollback journal with `synchronous=FULL`; Redis its log at every write. Ours keeps a decision, a signed receipt and the run's own row for every \
step; DBOS a row for every step; Celery a message and a result; graphile-worker a row for every job.";

/// The report of `make bench ARGS=--automations`, which is also a part of the whole.
pub(crate) fn text(measured: &Measured) -> String {
    let mut text = format!("## Automations\n\n{DURABLE}\n\n");
    let mut bars = Bars(vec![["bar", "measured", "limit", ""].map(str::to_owned).to_vec()]);
    let _ = write!(text, "One run of {LONG} light steps, in ms:\n\n{}\n", long(&measured.long, &mut bars));
    let _ = write!(text, "Runs of {SHORT} light steps, {AT_ONCE} at once:\n\n{}\n", many(&measured.many, &mut bars));
    let _ = write!(text, "From an idle server to the start of a run, in ms:\n\n{}\n", starts(&measured.starts, &mut bars));
    let _ = write!(text, "Filters, on one thread:\n\n{}\n", filters(&measured.filters, &mut bars));
    let _ = write!(text, "{}", table(&bars.0));
    for note in &measured.notes {
        let _ = write!(text, "\n{note}\n");
    }
    text
}

struct Bars(Vec<Vec<String>>);

impl Bars {
    fn add(&mut self, name: String, measured: Spread, limit: Limit) {
        self.0.push(vec![name, measured.to_string(), limit.to_string(), limit.verdict(measured.median).to_owned()]);
    }
}

fn long(runs: &[Long], bars: &mut Bars) -> String {
    let header = ["database", "engine", "whole", "assignment", "steps", "between steps"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for Long { engine, plain, templates, peers } in runs {
        for (what, runs) in [("ours", plain), ("ours, a template in each step", templates)] {
            let spread = |figure: fn(&Run) -> f64| Spread::of(runs.iter().map(figure)).to_string();
            let figures = [spread(Run::total_ms), spread(Run::assignment_ms), spread(Run::execution_ms), spread(Run::transition_ms)];
            rows.push([vec![(*engine).to_owned(), what.to_owned()], figures.to_vec()].concat());
        }
        for (name, times) in peers {
            let unknown = ["–", "–", "–"].map(str::to_owned).to_vec();
            let whole = Spread::of(times.iter().copied()).to_string();
            rows.push([vec![(*engine).to_owned(), (*name).to_owned(), whole], unknown].concat());
            let ratio = Spread::of(times.iter().zip(plain).map(|(theirs, ours)| theirs / ours.total_ms()));
            bars.add(format!("{engine}, {LONG} steps: {name} ÷ ours"), ratio, Limit::AtLeast(LONG_RATIO_MIN));
        }
    }
    table(&rows)
}

fn many(measured: &[Many], bars: &mut Bars) -> String {
    let mut rows = vec![["database", "engine", "runs/s", "CPU µs/run"].map(str::to_owned).to_vec()];
    for Many { engine, ours, peers } in measured {
        let mut row = |name: &str, rates: &[Rate]| {
            let spread = |figure: fn(&Rate) -> f64| Spread::of(rates.iter().map(figure)).to_string();
            rows.push(vec![(*engine).to_owned(), name.to_owned(), spread(|rate| rate.per_second), spread(|rate| rate.cpu_us)]);
        };
        row("ours", ours);
        for (name, theirs) in peers {
            row(name, theirs);
            let ratio = |figure: fn(&Rate, &Rate) -> f64| Spread::of(ours.iter().zip(theirs).map(|(ours, theirs)| figure(ours, theirs)));
            let runs = ratio(|ours, theirs| ours.per_second / theirs.per_second);
            let limit = if *name == CELERY { Limit::None } else { Limit::AtLeast(MANY_RATIO_MIN) };
            bars.add(format!("{engine}, {SHORT} steps: runs/s ÷ {name}"), runs, limit);
            let cpu = ratio(|ours, theirs| theirs.cpu_us / ours.cpu_us);
            bars.add(format!("{engine}, {SHORT} steps: CPU of {name} ÷ ours"), cpu, Limit::None);
        }
    }
    table(&rows)
}

fn starts(measured: &[Starts], bars: &mut Bars) -> String {
    let mut rows = vec![["engine", "p50 ms", "p99 ms"].map(str::to_owned).to_vec()];
    let p50 = |turns: &[Waits]| Spread::of(turns.iter().map(|waits| waits.p50_ms));
    for Starts { what, turns } in measured {
        let p99 = Spread::of(turns.iter().map(|waits| waits.p99_ms));
        rows.push(vec![(*what).to_owned(), p50(turns).to_string(), p99.to_string()]);
    }
    if let Some(Starts { what, turns }) = measured.first() {
        bars.add(format!("start of a run, {what}: p50 ms"), p50(turns), Limit::AtMost(START_MS_MAX));
        if let Some(graphile) = measured.iter().find(|starts| starts.what == GRAPHILE) {
            let ratio = Spread::of(graphile.turns.iter().zip(turns).map(|(theirs, ours)| theirs.p50_ms / ours.p50_ms));
            bars.add(format!("start of a run: p50 of {GRAPHILE} ÷ ours"), ratio, Limit::None);
        }
    }
    table(&rows)
}

fn filters(measured: &[Filters], bars: &mut Bars) -> String {
    let header = [
        "filters",
        "events/s",
        "from bytes, events/s",
        "MB",
        "quamina, from bytes, events/s",
        "MB",
        "each filter asked, events/s",
        "from bytes ÷ quamina",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for Filters { count, turns } in measured {
        let spread = |figure: fn(&Turn) -> Option<f64>| Spread::of(turns.iter().filter_map(figure));
        let per_second = spread(|turn| Some(turn.ours.per_second));
        let mb = spread(|turn| Some(turn.ours.mb));
        let ratio = spread(|turn| Some(turn.ours.from_bytes / turn.quamina.as_ref()?.per_second));
        let quamina_mb = spread(|turn| turn.quamina.as_ref().map(|quamina| quamina.mb));
        rows.push(vec![
            count.to_string(),
            per_second.to_string(),
            spread(|turn| Some(turn.ours.from_bytes)).to_string(),
            short(mb.median),
            spread(|turn| turn.quamina.as_ref().map(|quamina| quamina.per_second)).to_string(),
            short(quamina_mb.median),
            spread(|turn| Some(turn.ours.naively)).to_string(),
            ratio.to_string(),
        ]);
        if *count == FILTERS {
            bars.add(format!("{count} filters: events/s"), per_second, Limit::AtLeast(EVENTS_PER_SECOND_MIN));
            bars.add(format!("{count} filters: MB"), mb, Limit::AtMost(FILTERS_MB_MAX));
        }
    }
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_turn_by_turn_and_reaches_its_bar_or_not() {
        let run = |ms| Run { created: 0, ended: ms * 1_000, steps: Vec::new() };
        let peers = vec![("slow", vec![100.0, 200.0, 300.0]), ("fast", vec![10.0, 20.0, 30.0])];
        let mut bars = Bars(Vec::new());
        long(&[Long { engine: "SQLite", plain: vec![run(10), run(20), run(30)], templates: Vec::new(), peers }], &mut bars);
        let verdicts: Vec<_> = bars.0.iter().map(|row| (row[1].as_str(), row[3].as_str())).collect();
        assert_eq!(verdicts, [("10.0 (10.0–10.0)", "PASS"), ("1.00 (1.00–1.00)", "MISS")]);
    }

    #[test]
    fn celery_has_no_bar() {
        let rate = |per_second| Rate { per_second, cpu_us: 1.0 };
        let mut bars = Bars(Vec::new());
        many(
            &[Many { engine: "SQLite", ours: vec![rate(40.0)], peers: vec![(CELERY, vec![rate(10.0)]), ("DBOS", vec![rate(10.0)])] }],
            &mut bars,
        );
        let limits: Vec<_> = bars.0.iter().map(|row| (row[2].as_str(), row[3].as_str())).collect();
        assert_eq!(limits, [("–", ""), ("–", ""), ("≥ 5", "MISS"), ("–", "")]);
    }
}
