//! How many runs of automations a server works on at once: each queue has workers of its own, so that long runs never hold up short ones.

use super::ConfigError;
use serde::Deserialize;

/// More would only wait for each other.
const WORKERS_MAX: usize = 1_000;

/// The workers of each queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// For runs of a few seconds.
    pub fast: usize,
    /// For runs of up to five minutes.
    pub medium: usize,
    pub long: usize,
}

impl Default for Workers {
    fn default() -> Self {
        Self { fast: 16, medium: 16, long: 4 }
    }
}

impl Workers {
    /// These queues alone; the error is the first name that is none.
    pub fn only(self, names: &[String]) -> Result<Self, &str> {
        if let Some(unknown) = names.iter().find(|name| self.queues().iter().all(|(queue, _)| queue != name)) {
            return Err(unknown.as_str());
        }
        let workers = |name: &str, workers: usize| if names.iter().any(|named| named == name) { workers } else { 0 };
        Ok(Self { fast: workers("fast", self.fast), medium: workers("medium", self.medium), long: workers("long", self.long) })
    }

    /// Each queue by its name.
    pub fn queues(self) -> [(&'static str, usize); 3] {
        [("fast", self.fast), ("medium", self.medium), ("long", self.long)]
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkersSection {
    pub(super) fast: Option<u32>,
    pub(super) medium: Option<u32>,
    pub(super) long: Option<u32>,
}

impl WorkersSection {
    /// What is set here, and for the rest what is set there.
    pub(super) fn or(self, other: Self) -> Self {
        Self { fast: self.fast.or(other.fast), medium: self.medium.or(other.medium), long: self.long.or(other.long) }
    }

    pub(super) fn read(self) -> Result<Workers, ConfigError> {
        let default = Workers::default();
        let number = |name: &str, set: Option<u32>, default: usize| match set.map(|set| usize::try_from(set).unwrap_or(usize::MAX)) {
            None => Ok(default),
            Some(number @ 0..=WORKERS_MAX) => Ok(number),
            Some(number) => {
                let message = format!("{number} is more than {WORKERS_MAX}");
                Err(ConfigError::InvalidValue { name: format!("workers.{name}"), message })
            }
        };
        Ok(Workers {
            fast: number("fast", self.fast, default.fast)?,
            medium: number("medium", self.medium, default.medium)?,
            long: number("long", self.long, default.long)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_works_on_the_queues_that_it_is_told() {
        let all = Workers { fast: 3, medium: 2, long: 1 };
        assert_eq!(all.only(&["long".to_owned()]), Ok(Workers { fast: 0, medium: 0, long: 1 }));
        assert_eq!(all.only(&["fast".to_owned(), "slow".to_owned()]), Err("slow"));
    }
}
