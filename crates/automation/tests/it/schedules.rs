use crate::cron_rule::{Dice, GAPS, Made, OVERLAPS, Window, changes, expressions, told, year};
use jiff::tz::TimeZoneDatabase;

const SEED: u64 = 0x5eed_0000_0001;

fn check(made: &Made, name: &str, window: &Window) -> usize {
    let mut ticks = 0;
    for (gap, overlap) in GAPS.into_iter().flat_map(|gap| OVERLAPS.map(|overlap| (gap, overlap))) {
        let expected = window.ticks(made, gap, overlap, &|date| made.date_matches(date));
        let found = told(&made.schedule(name, gap, overlap), window.from, window.to);
        assert_eq!(found, expected, "`{}` in {name}, gap {gap}, overlap {overlap}", made.text);
        ticks += found.len();
    }
    ticks
}

#[test]
fn the_rule_holds_around_changes_of_clocks() {
    let zones = TimeZoneDatabase::bundled();
    let names: Vec<String> = zones.available().map(|name| name.as_str().to_owned()).collect();
    let made = expressions(SEED, 200);
    let dice = &mut Dice(SEED);
    let (mut ticks, mut gaps, mut overlaps) = (0, 0, 0);
    let hard = ["Australia/Lord_Howe", "Africa/Cairo", "America/Santiago", "Antarctica/Troll", "Africa/Casablanca", "America/New_York"];
    let sampled = (0..30).map(|_| dice.below(names.len())).map(|index| names[index].as_str()).collect::<Vec<_>>();
    for name in hard.into_iter().chain(sampled) {
        let zone = zones.get(name).unwrap();
        let changes = changes(&zone, year(2020), year(2041));
        for _ in 0..2.min(changes.len()) {
            let window = Window::around(&zone, changes[dice.below(changes.len())]);
            gaps += usize::from(window.has_gap());
            overlaps += usize::from(window.has_overlap());
            for _ in 0..12 {
                ticks += check(&made[dice.below(made.len())], name, &window);
            }
        }
    }
    assert!(ticks > 10_000 && gaps > 5 && overlaps > 5, "the sample is too small: {ticks} ticks, {gaps} gaps, {overlaps} overlaps");
}

#[test]
fn the_rule_holds_day_after_day() {
    // From a 29 February through changes of clocks in the north and in the south.
    let from = year(2028) + 50 * 86_400;
    let made = expressions(SEED ^ 7, 6);
    for (made, name) in made.iter().zip(["UTC", "Europe/Paris", "Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham", "Africa/El_Aaiun"])
    {
        let window = Window::new(&TimeZoneDatabase::bundled().get(name).unwrap(), from, from + 60 * 86_400);
        check(made, name, &window);
    }
}
