//! How many runs of automations a server works on at once: each queue has workers of its own, so that long runs never hold up short ones.

use super::{ConfigError, DescribedSetting, from_variable};
use serde::Deserialize;
use std::collections::BTreeMap;

/// More would only wait for each other.
const WORKERS_MAX: u32 = 1_000;
/// Every server has these queues, with so many workers if nobody says otherwise; an operator may declare others.
const DEFAULT: [(&str, u32); 3] = [("fast", 16), ("medium", 16), ("long", 4)];

/// The workers of each queue, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers(BTreeMap<String, usize>);

impl Workers {
    /// These queues alone; the error is the first name that is none.
    pub fn only(mut self, names: &[String]) -> Result<Self, &str> {
        if let Some(unknown) = names.iter().find(|name| !self.0.contains_key(*name)) {
            return Err(unknown);
        }
        for (_, workers) in self.0.iter_mut().filter(|(queue, _)| !names.contains(queue)) {
            *workers = 0;
        }
        Ok(self)
    }

    pub fn queues(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(queue, workers)| (queue.as_str(), *workers))
    }
}

/// What is set, by the name of the queue.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct WorkersSection(pub(super) BTreeMap<String, u32>);

impl WorkersSection {
    /// What is set here, and for the rest what is set there.
    pub(super) fn or(self, mut other: Self) -> Self {
        other.0.extend(self.0);
        other
    }

    /// `workers_`, and the name of a queue.
    pub(super) fn take(&mut self, variable: &str, value: &str) -> Result<bool, ConfigError> {
        let Some(queue) = variable.strip_prefix("workers_") else { return Ok(false) };
        self.0.insert(queue.to_owned(), from_variable(variable, value)?);
        Ok(true)
    }

    pub(super) fn described() -> Vec<DescribedSetting> {
        let what = "[runs of automations](automations.md) that this server works on at once, by queue, up to 1 000 each; any other name, such as in \
                    `COUNTERSIGN_WORKERS_GPU`, declares a queue of your own, which definitions may then name";
        let (variable, key) = (Some("WORKERS_…".to_owned()), Some("workers.…".to_owned()));
        vec![DescribedSetting { variable, key, what, default: "`fast` 16, `medium` 16, `long` 4" }]
    }

    pub(super) fn read(self) -> Result<Workers, ConfigError> {
        let mut all: BTreeMap<_, _> = DEFAULT.map(|(queue, workers)| (queue.to_owned(), workers)).into();
        all.extend(self.0);
        let read = |(queue, workers): (String, u32)| {
            let refused = |message| Err(ConfigError::InvalidValue { name: format!("workers.{queue}"), message });
            let is_name = queue.starts_with(|first: char| first.is_ascii_lowercase())
                && queue.len() <= 64
                && queue.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            if !is_name || queue == "auto" {
                return refused("a queue is named with lower-case letters, digits and `_`, and not `auto`".to_owned());
            }
            match usize::try_from(workers) {
                Ok(number) if workers <= WORKERS_MAX => Ok((queue, number)),
                Ok(_) | Err(_) => refused(format!("{workers} is more than {WORKERS_MAX}")),
            }
        };
        all.into_iter().map(read).collect::<Result<_, _>>().map(Workers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_works_on_the_queues_that_it_is_told() {
        let all = WorkersSection([("fast".to_owned(), 3), ("gpu".to_owned(), 1)].into()).read().unwrap();
        let of = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            all.clone().only(&names).map(|only| only.queues().map(|(queue, workers)| format!("{queue} {workers}")).collect::<Vec<_>>()).ok()
        };
        assert_eq!(of(&["gpu", "long"]).unwrap(), ["fast 0", "gpu 1", "long 4", "medium 0"]);
        assert_eq!(of(&["fast", "slow"]), None);
    }
}
