//! Fault points between two steps, at which a test can stop the process to see how recovery handles it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The listener at the fault points. Outside of tests there is none, and a point costs one comparison.
#[derive(Clone, Default)]
pub struct Faults(Option<Arc<dyn Fn(&'static str) + Send + Sync>>);

impl Faults {
    pub fn new(at: impl Fn(&'static str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(at)))
    }

    /// Listens for one point: `name` the first time it is passed, `name:3` the third time. Clones count together.
    pub fn at(wanted: &str, stop: impl Fn() + Send + Sync + 'static) -> Self {
        let (name, times) = match wanted.split_once(':').map(|(name, times)| (name, times.parse())) {
            Some((name, Ok(times))) => (name.to_owned(), times),
            Some((_, Err(_))) | None => (wanted.to_owned(), 1),
        };
        let passed = AtomicU64::new(0);
        Self::new(move |point| {
            if point == name && passed.fetch_add(1, Ordering::SeqCst) + 1 == times {
                stop();
            }
        })
    }

    /// Marks a point: the step before it is done, the step after it has not begun.
    pub fn point(&self, name: &'static str) {
        if let Self(Some(at)) = self {
            at(name);
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Faults(listening)" } else { "Faults" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_found_the_first_time_or_the_time_that_is_named() {
        for (wanted, passings, expected) in [
            ("one", vec!["other", "one", "one"], vec![1]),
            ("one:1", vec!["one"], vec![0]),
            ("one:3", vec!["one", "one", "other", "one", "one"], vec![3]),
            ("one:2", vec!["one"], vec![]),
            ("one:0", vec!["one", "one"], vec![]),
            ("one:many", vec!["one", "one"], vec![]),
        ] {
            let (now, stopped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(u64::MAX)));
            let (at, told) = (Arc::clone(&now), Arc::clone(&stopped));
            let faults = Faults::at(wanted, move || told.store(at.load(Ordering::SeqCst), Ordering::SeqCst));
            for (index, point) in (0..).zip(passings) {
                now.store(index, Ordering::SeqCst);
                // Clones count together.
                faults.clone().point(point);
            }
            let stopped = Some(stopped.load(Ordering::SeqCst)).filter(|at| *at != u64::MAX);
            assert_eq!(stopped, expected.first().copied(), "{wanted}");
        }
    }
}
