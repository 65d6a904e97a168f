//! Figures: the result of one window, and the spread over its repetitions.

use std::fmt;
use std::time::Duration;

/// The result of one window of calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) cpu_us: f64,
}

impl Window {
    /// `None` if no call ended.
    pub(crate) fn of(mut latencies: Vec<Duration>, seconds: f64, cpu_us: f64) -> Option<Self> {
        latencies.sort_unstable();
        let calls = latencies.len() as f64;
        let (p50, p99) = (percentile(&latencies, 0.50)?, percentile(&latencies, 0.99)?);
        Some(Self { per_second: calls / seconds, p50_ms: in_ms(p50), p99_ms: in_ms(p99), cpu_us: cpu_us / calls })
    }
}

/// Repetitions of one figure: their median, least and greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

impl Spread {
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
        Self { median: at(figures.len() / 2), least: at(0), greatest: at(figures.len().saturating_sub(1)) }
    }
}

/// Written as `12.3 (11.9–14.0)`, with three significant digits.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = digits_for(self.median);
        write!(f, "{:.digits$} ({:.digits$}–{:.digits$})", self.median, self.least, self.greatest)
    }
}

/// A figure with three significant digits.
pub(crate) fn short(figure: f64) -> String {
    let digits = digits_for(figure);
    format!("{figure:.digits$}")
}

fn digits_for(figure: f64) -> usize {
    match figure.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    }
}

fn in_ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The smallest value that at least this share of all values does not exceed.
pub(crate) fn percentile(sorted: &[Duration], share: f64) -> Option<Duration> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_measured_values() {
        let check = |millis: &[u64], share: f64, expected: Option<u64>| {
            let sorted: Vec<Duration> = millis.iter().copied().map(Duration::from_millis).collect();
            assert_eq!(percentile(&sorted, share), expected.map(Duration::from_millis), "{share} of {millis:?}");
        };
        check(&[], 0.5, None);
        check(&[7], 0.5, Some(7));
        check(&[7], 0.99, Some(7));
        check(&[1, 2, 3, 4], 0.5, Some(2));
        check(&(1..=100).collect::<Vec<_>>(), 0.99, Some(99));
        check(&(1..=200).collect::<Vec<_>>(), 0.99, Some(198));
    }

    #[test]
    fn a_spread_shows_the_median_between_its_ends() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, greatest: 3.0 });
        assert_eq!(Spread::of([250.4, 90.0, 1000.0]).to_string(), "250 (90–1000)");
        assert_eq!(Spread::of([1.234]).to_string(), "1.23 (1.23–1.23)");
    }

    #[test]
    fn a_window_divides_by_the_calls_that_ended_in_it() {
        let window = Window::of(vec![Duration::from_millis(2); 50], 0.5, 1_000.0).unwrap();
        assert_eq!((window.per_second, window.p50_ms, window.p99_ms, window.cpu_us), (100.0, 2.0, 2.0, 20.0));
        assert!(Window::of(Vec::new(), 1.0, 0.0).is_none());
    }
}
