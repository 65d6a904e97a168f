use super::*;

fn mistakes(config: &Value) -> Vec<Mistake> {
    Schedule::parse(config).err().unwrap_or_default()
}

/// The code, message and hint of the only mistake of an expression.
fn check(cron: &str, code: &str, message: &str, hint: &str) {
    match &mistakes(&json!({ "cron": cron, "timezone": "UTC" }))[..] {
        [only] => {
            assert_eq!((only.pointer.as_str(), only.code, only.message.as_str()), ("/cron", code, message), "{cron}");
            assert!(only.hint.as_ref().unwrap().contains(hint), "{cron}: {only:?}");
        }
        other => panic!("{cron}: {other:?}"),
    }
}

#[test]
fn an_expression_that_would_be_guessed_at_is_refused() {
    check("61 * * * *", "cron_invalid", "the minute `61` is not between 0 and 59", "from 0 to 59");
    check("0 24 * * *", "cron_invalid", "the hour `24` is not between 0 and 23", "from 0 to 23");
    check("0 9 0 * *", "cron_invalid", "the day of the month `0` is not between 1 and 31", "from 1 to 31");
    check("0 9 * * MONDAY", "cron_invalid", "the weekday `MONDAY` is not between 0 and 7", "`SUN` to `SAT`");
    check("JAN 9 * * *", "cron_invalid", "the minute `JAN` is not between 0 and 59", "from 0 to 59");
    check("0 9 * * 1MON", "cron_invalid", "the weekday `1MON` is not between 0 and 7", "`SUN` to `SAT`");
    check("+5 9 * * *", "cron_invalid", "the minute `+5` is not between 0 and 59", "from 0 to 59");
    check("0 9 * * FRI-MON", "cron_invalid", "the weekday has the range `FRI-MON`, which runs backwards", "FRI-7,0-MON");
    check("0, 9 * * *", "cron_invalid", "the minute has a list with nothing between two commas", "comma");
    check("*,5 9 * * *", "cron_invalid", "the minute has a list with `*` in it", "`*` alone");
    check("5/15 9 * * *", "cron_invalid", "the minute is `5/15`, a step without a range", "`*/15`");
    check("*/0 9 * * *", "cron_invalid", "the minute has the step 0 in `*/0`", "1 or more");
    check("*/60 * * * *", "cron_invalid", "the minute has a step in `*/60` that leads out of the range at once", "write `0`");
    check("*/x * * * *", "cron_invalid", "the minute has the step `X`, which is not a number", "*/2");
    check("0 9 ? * 1", "cron_invalid", "the day of the month is `?`", "`*`");
    check("0 9 L,15 * *", "cron_invalid", "the day of the month has `L` in a list", "alone");
    check("0 9 32W * *", "cron_invalid", "the day of the month has `32W` in a list", "alone");
    check("0 9 * * 1#6", "cron_invalid", "the weekday `1#6` is not between 0 and 7", "from 0 to 7");
    check("0 9 * * 7L", "cron_invalid", "the weekday `7L` is not between 0 and 7", "from 0 to 7");
    check("", "cron_invalid", "the expression has 0 fields, and it needs five", "0 9 * * 1-5");
    check("every day", "cron_invalid", "the expression has 2 fields, and it needs five", "0 9 * * 1-5");
    check("@every 5m", "cron_invalid", "`@every 5m` is not a name of a schedule", "@hourly");
    check("CRON_TZ=UTC 0 9 * * *", "cron_invalid", "the expression names a time zone", "`timezone`");
    check(&"1,".repeat(200), "cron_invalid", "the expression is longer than 256 characters", "ranges");
    check("ä 9 * * *", "cron_invalid", "the minute `ä` is not between 0 and 59", "from 0 to 59");
}

#[test]
fn seconds_and_dates_that_never_come_have_words_of_their_own() {
    check("0 0 9 * * *", "cron_seconds_refused", "the expression has 6 fields, and the finest step is a minute", "`0 9 * * *`");
    check("0 0 9 * * * 2026", "cron_seconds_refused", "the expression has 7 fields, and the finest step is a minute", "`0 9 * * *`");
    check("0 0 30 2 *", "cron_never_fires", "`0 0 30 2 *` means no date within eight years", "day of the month");
    check("0 0 31 4,6,9,11 *", "cron_never_fires", "`0 0 31 4,6,9,11 *` means no date within eight years", "day of the month");
    // With a weekday, that weekday is enough.
    assert_eq!(mistakes(&json!({ "cron": "0 0 30 2 1", "timezone": "UTC" })), []);
}

#[test]
fn all_mistakes_are_told_at_once() {
    let config =
        json!({ "cron": "99 99 * * *", "timezone": "Kigali", "catch_up": "some", "dst_gap": "stay", "dst_overlap": 1, "crom": "" });
    let found: Vec<(String, &str)> = mistakes(&config).into_iter().map(|mistake| (mistake.pointer, mistake.code)).collect();
    let expected = [
        ("/crom", "unknown_member"),
        ("/cron", "cron_invalid"),
        ("/cron", "cron_invalid"),
        ("/timezone", "timezone_unknown"),
        ("/catch_up", "catch_up_invalid"),
        ("/dst_gap", "enum"),
        ("/dst_overlap", "enum"),
    ];
    assert_eq!(found, expected.map(|(pointer, code)| (pointer.to_owned(), code)));
    let nothing: Vec<&str> = mistakes(&json!({})).into_iter().map(|mistake| mistake.code).collect();
    assert_eq!(nothing, ["cron_invalid", "timezone_unknown"]);
    assert_eq!(mistakes(&json!([])).len(), 1);
    assert_eq!(mistakes(&json!({ "cron": 5, "timezone": null })).len(), 2);
}

#[test]
fn a_zone_that_does_not_exist_leads_to_the_nearest() {
    for (said, hint) in [
        ("Africa/Kigaly", "`Africa/Kigali`"),
        ("Kigali", "`Africa/Kigali`"),
        ("europe/paris", "did you mean `Europe/Paris`"),
        ("New York", "`America/New_York`"),
        ("Lord Howe", "`Australia/Lord_Howe`"),
        ("my home town", "`Europe/Paris` or `UTC`"),
        ("", "`UTC`"),
        ("+02:00", "`UTC`"),
    ] {
        match &mistakes(&json!({ "cron": "@daily", "timezone": said }))[..] {
            [only] => assert!(only.code == "timezone_unknown" && only.hint.as_ref().unwrap().contains(hint), "{said}: {only:?}"),
            other => panic!("{said}: {other:?}"),
        }
    }
}

#[test]
fn catch_up_has_bounds() {
    for (said, pointers) in [
        (json!("All"), vec!["/catch_up"]),
        (json!(3), vec!["/catch_up"]),
        (json!({}), vec!["/catch_up"]),
        (json!({ "last": {} }), vec!["/catch_up"]),
        (json!({ "all": 5 }), vec!["/catch_up"]),
        (json!({ "all": { "max": 0 } }), vec!["/catch_up/all/max"]),
        (json!({ "all": { "max": 1001, "window_seconds": 59 } }), vec!["/catch_up/all/max", "/catch_up/all/window_seconds"]),
        (json!({ "all": { "max": 1.5, "window_seconds": 604_801 } }), vec!["/catch_up/all/max", "/catch_up/all/window_seconds"]),
        (json!({ "all": { "most": 5 } }), vec!["/catch_up/all"]),
    ] {
        let found = mistakes(&json!({ "cron": "@daily", "timezone": "UTC", "catch_up": said }));
        assert!(found.iter().all(|mistake| mistake.code == "catch_up_invalid"), "{found:?}");
        assert_eq!(found.iter().map(|mistake| mistake.pointer.as_str()).collect::<Vec<_>>(), pointers, "{said}");
    }
}

#[test]
fn what_is_kept_has_its_defaults_written_in() {
    let normalised = |config: Value| Schedule::parse(&config).unwrap().normalised();
    let whole =
        json!({ "cron": "0 9 * * MON-FRI", "timezone": "Africa/Kigali", "catch_up": "last", "dst_gap": "shift", "dst_overlap": "first" });
    assert_eq!(normalised(json!({ "cron": "  0 9 *  * mon-fri ", "timezone": "Africa/Kigali" })), whole);
    assert_eq!(normalised(whole.clone()), whole);
    let all = normalised(json!({ "cron": "@Weekly", "timezone": "UTC", "catch_up": "all", "dst_overlap": "both" }));
    let written = json!({ "all": { "max": 100, "window_seconds": 86_400 } });
    assert_eq!(all, json!({ "cron": "0 0 * * 0", "timezone": "UTC", "catch_up": written, "dst_gap": "shift", "dst_overlap": "both" }));
    assert_eq!(normalised(all.clone()), all);
    let bounded = json!({ "all": { "max": 1000, "window_seconds": 60 } });
    assert_eq!(normalised(json!({ "cron": "@daily", "timezone": "UTC", "catch_up": bounded }))["catch_up"], bounded);
}

#[test]
fn a_frequent_schedule_gets_a_warning() {
    for (cron, warned) in [
        ("* * * * *", true),
        ("*/14 * * * *", true),
        ("*/15 * * * *", false),
        ("0,14 9 * * *", true),
        ("0 9 * * *", false),
        ("5,55 0,23 * * *", true),
        ("5,55 0,23 * * 1", false),
        ("5,55 0,23 * * 1,2", true),
    ] {
        let warnings = schedule(cron, "UTC", json!({})).warnings();
        assert_eq!(!warnings.is_empty(), warned, "{cron}: {warnings:?}");
        assert!(warnings.iter().all(|warning| warning.code == "schedule_frequent" && warning.pointer == "/cron"));
    }
}
