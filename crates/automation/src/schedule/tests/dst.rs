use super::*;
use jiff::tz::TimeZone;

const NEW_YORK: &str = "America/New_York";
/// In New York the clock jumps from 02:00 to 03:00 at 07:00Z.
const SPRING: (&str, &str) = ("2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z");
/// In New York the clock shows 01:00 to 02:00 from 05:00Z on, and again from 06:00Z on.
const AUTUMN: (&str, &str) = ("2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z");

fn check(cron: &str, zone: &str, more: Value, (after, until): (&str, &str), expected: &[&str]) {
    let schedule = schedule(cron, zone, more.clone());
    assert_eq!(told(&schedule, after, until), expected, "{cron} {zone} {more}");
}

#[test]
fn dst_gap_fixed_shifts_once() {
    check("30 2 * * *", NEW_YORK, json!({}), SPRING, &["2026-03-08T07:00Z 2026-03-08T02:30 shifted"]);
    check("0,15,30 2 * * *", NEW_YORK, json!({}), SPRING, &["2026-03-08T07:00Z 2026-03-08T02:00 shifted"]);
    // What is at the instant onto which another is shifted fires with it.
    check("0 2,3 * * *", NEW_YORK, json!({}), SPRING, &["2026-03-08T07:00Z 2026-03-08T02:00 shifted"]);
    let skip = json!({ "dst_gap": "skip" });
    check("30 2 * * *", NEW_YORK, skip.clone(), SPRING, &["2026-03-08T07:00Z 2026-03-08T02:30 skipped"]);
    let both = ["2026-03-08T07:00Z 2026-03-08T02:00 skipped", "2026-03-08T07:00Z 2026-03-08T03:00"];
    check("0 2,3 * * *", NEW_YORK, skip.clone(), SPRING, &both);
    // For an interval the minutes do not exist, whatever the config says.
    let interval = ["2026-03-08T06:30Z 2026-03-08T01:30", "2026-03-08T07:00Z 2026-03-08T03:00", "2026-03-08T07:30Z 2026-03-08T03:30"];
    let around = ("2026-03-08T06:00:00Z", "2026-03-08T07:59:00Z");
    for more in [json!({}), skip] {
        check("*/30 * * * *", NEW_YORK, more.clone(), around, &interval);
        check("30 */2 * * *", NEW_YORK, more, around, &[]);
    }
    // The next is never the one that is skipped.
    let skips = schedule("30 2 * * *", NEW_YORK, json!({ "dst_gap": "skip" }));
    assert_eq!(short(skips.next_after(at(SPRING.0)).unwrap().scheduled_for), "2026-03-09T06:30Z");
}

#[test]
fn dst_overlap_fixed_once_interval_twice() {
    let (first, last) = ("2026-11-01T05:30Z 2026-11-01T01:30", "2026-11-01T06:30Z 2026-11-01T01:30");
    check("30 1 * * *", NEW_YORK, json!({}), AUTUMN, &[first]);
    check("30 1 * * *", NEW_YORK, json!({ "dst_overlap": "last" }), AUTUMN, &[last]);
    check("30 1 * * *", NEW_YORK, json!({ "dst_overlap": "both" }), AUTUMN, &[first, last]);
    for overlap in ["first", "last", "both"] {
        check("30 * * * *", NEW_YORK, json!({ "dst_overlap": overlap }), ("2026-11-01T05:00:00Z", "2026-11-01T07:00:00Z"), &[first, last]);
    }
    // The end of the repeated hour is shown once.
    check("0 2 * * *", NEW_YORK, json!({ "dst_overlap": "last" }), AUTUMN, &["2026-11-01T07:00Z 2026-11-01T02:00"]);
    check("0 1 * * *", NEW_YORK, json!({}), AUTUMN, &["2026-11-01T05:00Z 2026-11-01T01:00"]);
}

#[test]
fn dst_lists_are_fixed() {
    let spring = ["2026-03-08T07:00Z 2026-03-08T02:00 shifted", "2026-03-08T18:00Z 2026-03-08T14:00"];
    check("0 2,14 * * *", NEW_YORK, json!({}), SPRING, &spring);
    check("0 1,13 * * *", NEW_YORK, json!({}), AUTUMN, &["2026-11-01T05:00Z 2026-11-01T01:00", "2026-11-01T18:00Z 2026-11-01T13:00"]);
    let range = ["2026-03-08T06:00Z 2026-03-08T01:00", "2026-03-08T07:00Z 2026-03-08T02:00 shifted", "2026-03-08T08:00Z 2026-03-08T04:00"];
    check("0 1-4 * * *", NEW_YORK, json!({}), SPRING, &range);
    // With a step it is an interval: 02:00 does not exist, and 01:00 exists twice.
    check("0 0-23/2 * * *", NEW_YORK, json!({}), ("2026-03-08T05:00:00Z", "2026-03-08T08:30:00Z"), &["2026-03-08T08:00Z 2026-03-08T04:00"]);
}

#[test]
fn midnight_gap_and_half_hour_and_tzdata_change() {
    // Days that begin at 01:00 are not lost.
    check(
        "0 0 * * *",
        "Africa/Cairo",
        json!({}),
        ("2026-04-23T12:00:00Z", "2026-04-24T12:00:00Z"),
        &["2026-04-23T22:00Z 2026-04-24T00:00 shifted"],
    );
    check(
        "30 0 * * 0",
        "America/Santiago",
        json!({}),
        ("2026-09-05T12:00:00Z", "2026-09-06T12:00:00Z"),
        &["2026-09-06T04:00Z 2026-09-06T00:30 shifted"],
    );
    check(
        "15 0 22 3 *",
        "Asia/Tehran",
        json!({}),
        ("2022-03-21T12:00:00Z", "2022-03-22T12:00:00Z"),
        &["2022-03-21T20:30Z 2022-03-22T00:15 shifted"],
    );
    // Lord Howe moves half an hour.
    let spring = ("2026-10-03T12:00:00Z", "2026-10-04T12:00:00Z");
    check("15 2 * * *", "Australia/Lord_Howe", json!({}), spring, &["2026-10-03T15:30Z 2026-10-04T02:15 shifted"]);
    check("45 2 * * *", "Australia/Lord_Howe", json!({}), spring, &["2026-10-03T15:45Z 2026-10-04T02:45"]);
    let autumn = ("2026-04-04T12:00:00Z", "2026-04-05T12:00:00Z");
    let twice = ["2026-04-04T14:45Z 2026-04-05T01:45", "2026-04-04T15:15Z 2026-04-05T01:45"];
    check("45 1 * * *", "Australia/Lord_Howe", json!({ "dst_overlap": "both" }), autumn, &twice);
    // Samoa left a whole day out.
    check(
        "0 9 * * *",
        "Pacific/Apia",
        json!({}),
        ("2011-12-30T00:00:00Z", "2011-12-30T23:00:00Z"),
        &["2011-12-30T10:00Z 2011-12-30T09:00 shifted", "2011-12-30T19:00Z 2011-12-31T09:00"],
    );

    // Other data about the zone moves what is to come. What was handled is before the high-water, and stays.
    let before = schedule("0 9 * * *", "Europe/Paris", json!({}));
    let moved = Zone::new("Europe/Paris", TimeZone::posix("CET-1").unwrap());
    let after = Schedule { zone: Arc::new(moved), ..before.clone() };
    let handled = before.due(at("2026-06-30T07:00:00Z"), at("2026-07-01T07:00:10Z"));
    assert_eq!(short(handled.high_water), "2026-07-01T07:00Z");
    assert_eq!(short(handled.next_due.unwrap()), "2026-07-02T07:00Z");
    let again = after.due(handled.high_water, at("2026-07-01T07:30:00Z"));
    assert_eq!((again.start, again.skipped, again.high_water), (vec![], vec![], handled.high_water));
    assert_eq!(short(again.next_due.unwrap()), "2026-07-01T08:00Z");
    assert!(tzdata_version().starts_with("20"), "{}", tzdata_version());
}

#[test]
fn the_next_three_are_found_however_far_away() {
    let told = |cron: &str, after: &str| -> Vec<String> {
        let schedule = schedule(cron, "Africa/Kigali", json!({}));
        schedule.next_three(at(after)).into_iter().map(|tick| short(tick.scheduled_for)).collect()
    };
    assert_eq!(told("0 9 * * 1-5", "2026-11-20T07:00:00Z"), ["2026-11-23T07:00Z", "2026-11-24T07:00Z", "2026-11-25T07:00Z"]);
    // There is no 29 February in 2100, so this one waits for eight years.
    assert_eq!(told("0 2 29 2 *", "2096-03-01T00:00:00Z"), ["2104-02-29T00:00Z", "2108-02-29T00:00Z", "2112-02-29T00:00Z"]);
    assert_eq!(told("* * * * *", "9999-01-01T00:00:00Z"), [""; 0]);
}

#[test]
fn a_tick_is_after_one_instant_and_up_to_another() {
    let daily = schedule("0 9 * * *", "UTC", json!({}));
    let tick = ["2026-01-01T09:00Z 2026-01-01T09:00"];
    assert_eq!(told(&daily, "2026-01-01T08:59:59.999999Z", "2026-01-01T09:00:00Z"), tick);
    assert_eq!(told(&daily, "2026-01-01T09:00:00Z", "2026-01-01T09:00:00.5Z"), [""; 0]);
    assert_eq!(told(&daily, "2026-01-01T10:00:00Z", "2026-01-01T08:00:00Z"), [""; 0]);
    assert_eq!(daily.ticks(at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"), 7).len(), 7);
    let tick = serde_json::to_value(daily.next_after(at("2026-01-01T09:00:00Z")).unwrap()).unwrap();
    let expected =
        json!({ "scheduled_for": "2026-01-02T09:00:00.000000Z", "wall": "2026-01-02T09:00:00", "zone": "UTC", "clock": "showed" });
    assert_eq!(tick, expected);
}
