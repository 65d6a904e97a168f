use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What is due, in one line each.
fn told_due(due: &Due) -> (Vec<String>, Vec<String>) {
    let start = |start: &Start| {
        let reason = match start.reason {
            StartReason::OnTime => "on_time",
            StartReason::CaughtUp => "caught_up",
        };
        format!("{} {reason}", short(start.tick.scheduled_for))
    };
    let skipped = |skipped: &Skipped| {
        let reason = serde_json::to_value(skipped.reason).unwrap();
        let (first, last) = (short(skipped.first.scheduled_for), short(skipped.last.scheduled_for));
        format!("{} {} {first} {last}", reason.as_str().unwrap(), skipped.count)
    };
    (due.start.iter().map(start).collect(), due.skipped.iter().map(skipped).collect())
}

fn hourly(catch_up: Value) -> Schedule {
    schedule("0 * * * *", "UTC", json!({ "catch_up": catch_up }))
}

#[test]
fn missed_ticks_follow_catch_up() {
    let check = |catch_up: Value, start: &[&str], skipped: &[&str]| {
        // Down from 00:30 to 06:20 of the next day: 30 ticks were missed.
        let due = hourly(catch_up.clone()).due(at("2026-01-01T00:00:00Z"), at("2026-01-02T06:20:00Z"));
        let told = told_due(&due);
        assert_eq!(
            (told.0.iter().map(String::as_str).collect(), told.1.iter().map(String::as_str).collect()),
            (start.to_vec(), skipped.to_vec()),
            "{catch_up}"
        );
        assert_eq!(short(due.high_water), "2026-01-02T06:00Z");
        assert_eq!(short(due.next_due.unwrap()), "2026-01-02T07:00Z");
        assert_eq!(due.corrected_from, None);
    };
    check(json!("none"), &[], &["catch_up_none 30 2026-01-01T01:00Z 2026-01-02T06:00Z"]);
    check(json!("last"), &["2026-01-02T06:00Z caught_up"], &["superseded 29 2026-01-01T01:00Z 2026-01-02T05:00Z"]);
    check(
        json!({ "all": { "max": 2, "window_seconds": 14_400 } }),
        &["2026-01-02T05:00Z caught_up", "2026-01-02T06:00Z caught_up"],
        &["outside_window 26 2026-01-01T01:00Z 2026-01-02T02:00Z", "over_max 2 2026-01-02T03:00Z 2026-01-02T04:00Z"],
    );
    check(json!({ "all": { "max": 1, "window_seconds": 60 } }), &[], &["outside_window 30 2026-01-01T01:00Z 2026-01-02T06:00Z"]);
    let all = hourly(json!("all")).due(at("2026-01-01T00:00:00Z"), at("2026-01-02T06:20:00Z"));
    assert_eq!(all.start.len(), 24);
    assert_eq!(told_due(&all).1, ["outside_window 6 2026-01-01T01:00Z 2026-01-01T06:00Z"]);
}

#[test]
fn a_tick_is_missed_after_a_minute() {
    for (now, expected) in [
        ("2026-01-01T01:00:00Z", vec!["2026-01-01T01:00Z on_time"]),
        ("2026-01-01T01:01:00Z", vec!["2026-01-01T01:00Z on_time"]),
        ("2026-01-01T01:01:00.000001Z", vec![]),
        ("2026-01-01T00:59:59.999999Z", vec![]),
    ] {
        assert_eq!(told_due(&hourly(json!("none")).due(at("2026-01-01T00:00:00Z"), at(now))).0, expected, "{now}");
    }
    // What is on time is newer than all that was missed, so nothing is made up for.
    let due = hourly(json!("last")).due(at("2026-01-01T00:00:00Z"), at("2026-01-01T03:00:30Z"));
    let missed = vec!["superseded 2 2026-01-01T01:00Z 2026-01-01T02:00Z".to_owned()];
    assert_eq!(told_due(&due), (vec!["2026-01-01T03:00Z on_time".to_owned()], missed));
}

#[test]
fn a_skipped_hour_is_recorded() {
    let skips = schedule("0,30 2 * * *", "America/New_York", json!({ "dst_gap": "skip", "catch_up": "none" }));
    let due = skips.due(at("2026-03-07T07:30:00Z"), at("2026-03-08T07:00:05Z"));
    assert_eq!(told_due(&due), (vec![], vec!["dst_gap 2 2026-03-08T07:00Z 2026-03-08T07:00Z".to_owned()]));
    assert_eq!(due.skipped[0].first.wall.to_string(), "2026-03-08T02:00:00");
    assert_eq!(due.skipped[0].last.wall.to_string(), "2026-03-08T02:30:00");
    assert_eq!(short(due.high_water), "2026-03-08T07:00Z");
    // It woke for that, and does not record it a second time.
    assert_eq!(short(skips.due(at("2026-03-07T07:30:00Z"), at("2026-03-07T12:00:00Z")).next_due.unwrap()), "2026-03-08T07:00Z");
    assert_eq!(told_due(&skips.due(due.high_water, at("2026-03-08T08:00:00Z"))), (vec![], vec![]));
}

#[test]
fn ticks_between_two_times_are_counted() {
    let hourly = hourly(json!("none"));
    let between = |after: &str, until: &str| {
        hourly.between(at(after), at(until)).map(|(count, first, last)| format!("{count} {} {}", short(first), short(last)))
    };
    let counted = between("2026-01-01T00:00:00Z", "2026-01-01T03:00:00Z");
    assert_eq!(counted.as_deref(), Some("3 2026-01-01T01:00Z 2026-01-01T03:00Z"), "after the first time, and up to the second");
    assert_eq!(between("2026-01-01T00:00:00Z", "2026-01-01T00:59:59Z"), None);
    assert_eq!(between("2026-01-01T03:00:00Z", "2026-01-01T00:00:00Z"), None, "the clock was set back meanwhile");
}

#[test]
fn suspend_is_downtime() {
    // A machine that slept and one that was off find the same high-water, and it alone decides.
    let schedule = schedule("*/5 * * * *", "Asia/Kathmandu", json!({}));
    let awake = schedule.due(at("2026-01-01T00:00:00Z"), at("2026-01-01T00:05:01Z"));
    assert_eq!(told_due(&awake).0, ["2026-01-01T00:05Z on_time"]);
    let woken = schedule.due(awake.high_water, at("2026-01-04T09:12:13Z"));
    let asleep = "superseded 972 2026-01-01T00:10Z 2026-01-04T09:05Z".to_owned();
    assert_eq!(told_due(&woken), (vec!["2026-01-04T09:10Z caught_up".to_owned()], vec![asleep]));
    assert_eq!(told_due(&schedule.due(woken.high_water, at("2026-01-04T09:12:14Z"))), (vec![], vec![]));
}

/// What a store does with what is due: a tick can start once, and the high-water is kept.
struct Ledger {
    schedule: Schedule,
    high_water: Timestamp,
    started: BTreeSet<i64>,
    twice: usize,
    corrections: usize,
}

impl Ledger {
    fn new(schedule: Schedule, high_water: &str) -> Self {
        Self { schedule, high_water: at(high_water), started: BTreeSet::new(), twice: 0, corrections: 0 }
    }

    fn wake(&mut self, now: &str) -> Due {
        let due = self.schedule.due(self.high_water, at(now));
        for start in &due.start {
            self.twice += usize::from(!self.started.insert(start.tick.scheduled_for.as_micros()));
        }
        assert!(due.high_water >= self.high_water || due.corrected_from == Some(self.high_water));
        self.corrections += usize::from(due.corrected_from.is_some());
        self.high_water = due.high_water;
        due
    }
}

#[test]
fn clock_backwards_fires_nothing_twice() {
    let mut ledger = Ledger::new(schedule("* * * * *", "UTC", json!({})), "2026-01-01T00:00:00Z");
    ledger.wake("2026-01-01T00:01:00Z");
    // Up to a minute back: the high-water stays, and the next one is after it.
    for now in ["2026-01-01T00:00:59Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:30Z", "2026-01-01T00:01:59Z"] {
        let due = ledger.wake(now);
        assert_eq!(told_due(&due), (vec![], vec![]), "{now}");
        assert_eq!((short(due.high_water), short(due.next_due.unwrap())), ("2026-01-01T00:01Z".to_owned(), "2026-01-01T00:02Z".to_owned()));
    }
    assert_eq!((ledger.started.len(), ledger.twice, ledger.corrections), (1, 0, 0));
    // Further back, the high-water is corrected once. What comes a second time is known to the ledger.
    ledger.wake("2025-12-31T23:50:00Z");
    ledger.wake("2025-12-31T23:50:01Z");
    assert_eq!(ledger.corrections, 1);
    ledger.wake("2025-12-31T23:51:00Z");
    ledger.wake("2026-01-01T00:01:30Z");
    assert_eq!((ledger.started.len(), ledger.twice, ledger.corrections), (2, 1, 1));
}

#[test]
fn clock_far_forward_and_back() {
    for catch_up in [json!("none"), json!("last"), json!("all")] {
        let mut ledger = Ledger::new(schedule("* * * * *", "Europe/Paris", json!({ "catch_up": catch_up })), "2026-01-01T00:00:00Z");
        let far = ledger.wake("2126-01-01T00:00:00Z");
        assert!(far.start.len() <= 102, "{}", far.start.len());
        assert_eq!(far.skipped.iter().map(|skipped| skipped.count).sum::<u64>() + far.start.len() as u64, 52_594_560);
        assert_eq!(short(far.high_water), "2126-01-01T00:00Z");
        let back = ledger.wake("2026-01-01T00:10:00Z");
        assert_eq!((told_due(&back), back.corrected_from), ((vec![], vec![]), Some(far.high_water)));
        assert_eq!(
            (short(back.high_water), short(back.next_due.unwrap())),
            ("2026-01-01T00:10Z".to_owned(), "2026-01-01T00:11Z".to_owned())
        );
        assert_eq!(told_due(&ledger.wake("2026-01-01T00:11:00Z")).0, ["2026-01-01T00:11Z on_time"]);
        assert_eq!((ledger.corrections, ledger.twice), (1, 0));
    }
    // Whatever a clock says, there is an answer.
    let minutely = schedule("* * * * *", "Europe/Paris", json!({}));
    for (high_water, now) in [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN), (i64::MIN, i64::MIN), (i64::MAX, i64::MAX), (i64::MIN, 0)] {
        minutely.due(Timestamp::from_micros(high_water), Timestamp::from_micros(now));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Nothing is lost and nothing is counted twice: what runs and what is skipped are all ticks there were.
    #[test]
    fn every_tick_is_accounted_for(
        expression in 0_usize..6, zone in 0_usize..4, gap in 0_usize..2, overlap in 0_usize..3, catch_up in 0_usize..4,
        start in 1_700_000_000_i64..1_900_000_000, length in 0_i64..30_000_000,
    ) {
        let cron = ["*/7 * * * *", "30 2 * * *", "0-59/9 1,2 * * *", "15,45 0-3 * * *", "0 */3 * * 1-5", "5 1 1 * 0"][expression];
        let zone = ["America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "UTC"][zone];
        let catch_up = [json!("none"), json!("last"), json!("all"), json!({ "all": { "max": 3, "window_seconds": 600_000 } })][catch_up].clone();
        let (gap, overlap) = (["shift", "skip"][gap], ["first", "last", "both"][overlap]);
        let more = json!({ "catch_up": catch_up, "dst_gap": gap, "dst_overlap": overlap });
        let schedule = schedule(cron, zone, more);
        let (high_water, now) = (Timestamp::from_micros(start * 1_000_000), Timestamp::from_micros((start + length) * 1_000_000 + 500_000));
        let ticks = schedule.ticks(high_water, now, usize::MAX);
        let due = schedule.due(high_water, now);
        let accounted = due.start.len() as u64 + due.skipped.iter().map(|skipped| skipped.count).sum::<u64>();
        prop_assert_eq!(accounted, ticks.len() as u64);
        prop_assert!(due.start.is_sorted_by_key(|start| start.tick.scheduled_for));
        prop_assert!(due.start.iter().all(|start| ticks.contains(&start.tick) && start.tick.clock != Clock::Skipped));
        prop_assert!(due.skipped.iter().all(|skipped| ticks.contains(&skipped.first) && ticks.contains(&skipped.last)));
        prop_assert_eq!(due.high_water, ticks.last().map_or(high_water, |tick| tick.scheduled_for));
        // A second look finds nothing.
        let again = schedule.due(due.high_water, now);
        prop_assert_eq!((again.start, again.skipped), (vec![], vec![]));
        prop_assert!(again.next_due > Some(now));
    }
}
