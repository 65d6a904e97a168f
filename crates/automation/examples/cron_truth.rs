//! Compares the rule for schedules with a naive statement of it: every zone × 3,000 expressions × 2020 to 2040. Around every change of a
//! clock each tick is compared; between two changes, how many there are, and the first and the last. Zones whose clocks show the same are
//! compared once. `make bench` runs it; it takes minutes.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "its figures are read at the terminal, and it ends if it cannot go on")]

#[path = "../tests/it/cron_rule.rs"]
mod cron_rule;

use automation::schedule::{Due, Schedule};
use countersign_core::Timestamp;
use cron_rule::{GAPS, Made, OVERLAPS, Told, Window, changes, expressions, told, year};
use jiff::ToSpan;
use jiff::civil::{Date, date};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const SEED: u64 = 0x5eed_0000_0001;
const EXPRESSIONS: usize = 3_000;
const YEARS: (i16, i16) = (2020, 2040);
/// How many differences are printed.
const PRINTED: u64 = 20;

/// What a clock shows: its first offset, and when it gets which other.
type Shows = (i32, Vec<(i64, i32)>);

#[derive(Default)]
struct Counts {
    windows: u64,
    ticks: u64,
    between: u64,
    ticks_between: u64,
    differences: u64,
}

fn main() {
    let started = Instant::now();
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(EXPRESSIONS);
    let zones = TimeZoneDatabase::bundled();
    let (from, to) = (year(YEARS.0), year(YEARS.1 + 1));
    let mut clocks: BTreeMap<Shows, Vec<String>> = BTreeMap::new();
    for name in zones.available() {
        let zone = zones.get(name.as_str()).unwrap();
        let offset = |second: i64| zone.to_offset(jiff::Timestamp::from_second(second).unwrap()).seconds();
        let key = changes(&zone, from, to).into_iter().map(|change| (change, offset(change))).collect();
        clocks.entry((offset(from), key)).or_default().push(name.as_str().to_owned());
    }
    let names: usize = clocks.values().map(Vec::len).sum();
    let clocks: Vec<String> = clocks.into_values().filter_map(|names| names.into_iter().next()).collect();
    let expressions: Vec<Compared> = expressions(SEED, count).into_iter().map(Compared::new).collect();

    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut counts = Counts::default();
        while let Some(name) = clocks.get(next.fetch_add(1, Ordering::Relaxed)) {
            compare(name, &zones.get(name).unwrap(), &expressions, &mut counts);
        }
        counts
    };
    let all: Vec<Counts> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let sum = |of: fn(&Counts) -> u64| all.iter().map(of).sum::<u64>();
    println!(
        "tzdata {}: {names} zones with {} different clocks, {count} expressions, {} to {}",
        automation::schedule::tzdata_version(),
        clocks.len(),
        YEARS.0,
        YEARS.1
    );
    println!("around changes of clocks: {} comparisons of {} ticks, one by one", sum(|counts| counts.windows), sum(|counts| counts.ticks));
    println!(
        "between them: {} comparisons of {} ticks, by their number, the first and the last",
        sum(|counts| counts.between),
        sum(|counts| counts.ticks_between)
    );
    println!("differences: {} ({} s)", sum(|counts| counts.differences), started.elapsed().as_secs());
    if sum(|counts| counts.differences) > 0 {
        std::process::exit(1);
    }
}

/// An expression with all its dates, so that none is asked for twice.
struct Compared {
    made: Made,
    /// How many dates match before each day, from `FIRST` on.
    matching_before: Vec<u32>,
    times: Vec<i64>,
}

const FIRST: Date = date(2019, 12, 1);
const DAY: i64 = 86_400;

impl Compared {
    fn new(made: Made) -> Self {
        let mut matching_before = vec![0];
        for day in FIRST.series(1.day()).take_while(|day| day.year() < 2042) {
            matching_before.push(matching_before.last().unwrap() + u32::from(made.date_matches(day)));
        }
        let times = (0..1440).filter(|minute| made.time_matches(*minute as usize)).map(|minute| minute * 60).collect();
        Self { made, matching_before, times }
    }

    fn day_matches(&self, day: usize) -> bool {
        self.matching_before[day + 1] > self.matching_before[day]
    }

    /// How many wall-clock times match before one, counted in seconds from `FIRST` on.
    fn matching_before(&self, wall: i64) -> i64 {
        let (day, time) = ((wall / DAY) as usize, wall % DAY);
        let of_day = if self.day_matches(day) { self.times.iter().filter(|other| **other < time).count() as i64 } else { 0 };
        i64::from(self.matching_before[day]) * self.times.len() as i64 + of_day
    }

    /// The number, the first and the last of the times from one on and before another.
    fn between(&self, from: i64, to: i64) -> (i64, Option<(i64, i64)>) {
        let count = self.matching_before(to) - self.matching_before(from);
        let on = |day: i64| self.times.iter().filter(move |_| self.day_matches(day as usize)).map(move |time| day * DAY + time);
        let within = |wall: &i64| (from..to).contains(wall);
        let first = || (from / DAY..=to / DAY).find_map(|day| on(day).find(within));
        let last = || (from / DAY..=to / DAY).rev().find_map(|day| on(day).rfind(within));
        (count, (count > 0).then(|| first().zip(last())).flatten())
    }
}

fn compare(name: &str, zone: &TimeZone, expressions: &[Compared], counts: &mut Counts) {
    let (from, to) = (year(YEARS.0), year(YEARS.1 + 1));
    let windows: Vec<Window> = changes(zone, from, to).into_iter().map(|change| Window::around(zone, change)).collect();
    // From the end of a window to the beginning of the next; windows may overlap.
    let starts = std::iter::once(from).chain(windows.iter().map(|window| window.to));
    let ends = windows.iter().map(|window| window.from).chain(std::iter::once(to));
    let between: Vec<(i64, i64)> = starts.zip(ends).filter(|(from, to)| from < to).collect();
    for compared in expressions {
        let made = &compared.made;
        let schedule = |gap: &str, overlap: &str| made.schedule(name, gap, overlap);
        // What the config says of changes of clocks is nothing to an interval.
        let (gaps, overlaps) = if made.interval { (1, 1) } else { (GAPS.len(), OVERLAPS.len()) };
        let by_gap: Vec<(&str, Schedule)> = GAPS[..gaps].iter().map(|gap| (*gap, schedule(gap, "first"))).collect();
        let by_overlap: Vec<(&str, Schedule)> = OVERLAPS[..overlaps].iter().map(|overlap| (*overlap, schedule("shift", overlap))).collect();
        let date_matches = |date: Date| compared.day_matches((date - FIRST).get_days() as usize);
        let mut same = |window: &Window, schedule: &Schedule, gap: &str, overlap: &str| {
            let expected = window.ticks(made, gap, overlap, &date_matches);
            let found = told(schedule, window.from, window.to);
            counts.windows += 1;
            counts.ticks += expected.len() as u64;
            if found != expected {
                counts.differences += 1;
                tell(counts.differences, name, made, &found, &expected);
            }
        };
        for window in &windows {
            if window.has_gap() {
                by_gap.iter().for_each(|(gap, schedule)| same(window, schedule, gap, "first"));
            }
            if window.has_overlap() {
                by_overlap.iter().for_each(|(overlap, schedule)| same(window, schedule, "shift", overlap));
            }
        }
        let (_, schedule) = &by_gap[0];
        for (from, to) in &between {
            let offset = i64::from(zone.to_offset(jiff::Timestamp::from_second(*from).unwrap()).seconds());
            let epoch = FIRST.to_zoned(TimeZone::UTC).unwrap().timestamp().as_second();
            let (count, ends) = compared.between(from + offset - epoch, to + offset - epoch);
            let ends = ends.map(|(first, last)| (first - offset + epoch, last - offset + epoch));
            let due = schedule.due(Timestamp::from_micros(from * 1_000_000 - 1), Timestamp::from_micros(to * 1_000_000 - 1));
            counts.between += 1;
            counts.ticks_between += count as u64;
            let found = counted(&due);
            if found != (count, ends) {
                counts.differences += 1;
                if counts.differences <= PRINTED {
                    println!("`{}` in {name} from {from} to {to}: {found:?}, and the rule says {count} {ends:?}", made.text);
                }
            }
        }
    }
}

/// How many ticks there were, the first and the last, whether they were missed or not.
fn counted(due: &Due) -> (i64, Option<(i64, i64)>) {
    let missed = due.skipped.iter().map(|skipped| (skipped.count, &skipped.first, &skipped.last));
    let all: Vec<_> = missed.chain(due.start.iter().map(|start| (1, &start.tick, &start.tick))).collect();
    let second = |at: Timestamp| at.as_micros() / 1_000_000;
    let ends = all.first().zip(all.last()).map(|((_, first, _), (.., last))| (second(first.scheduled_for), second(last.scheduled_for)));
    (all.iter().map(|(count, ..)| *count as i64).sum(), ends)
}

fn tell(differences: u64, name: &str, made: &Made, found: &[Told], expected: &[Told]) {
    if differences <= PRINTED {
        let only = |these: &[Told], those: &[Told]| these.iter().filter(|tick| !those.contains(tick)).take(3).cloned().collect::<Vec<_>>();
        println!("`{}` in {name}: too much {:?}, too little {:?}", made.text, only(found, expected), only(expected, found));
    }
}
