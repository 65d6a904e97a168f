//! When a schedule fires. The zone's clock is written down in the definition, and time arrives as an argument, so the same schedule and
//! the same instant always give the same answer.
//! Read in this order: `config` reads what was written, `fields` and `cron` know which wall-clock times match, `zone` knows how the clocks
//! of a place ran, `ticks` puts both together by the rule of `docs/concepts/schedules.md`, `due` decides what to make up for, and
//! `describe` says it in words.

mod config;
mod cron;
mod describe;
mod due;
mod fields;
mod ticks;
mod zone;

pub use config::{CatchUp, DstGap, DstOverlap};
pub use due::{Due, SkipReason, Skipped, Start, StartReason};
pub use ticks::{Clock, Tick};
pub use zone::tzdata_version;

use crate::Mistake;
use cron::Cron;
use serde_json::{Value, json};
use std::sync::Arc;
use zone::Zone;

/// A schedule that was read, and that fires at some time.
#[derive(Clone, Debug)]
pub struct Schedule {
    cron: Cron,
    zone: Arc<Zone>,
    catch_up: CatchUp,
    dst_gap: DstGap,
    dst_overlap: DstOverlap,
}

impl Schedule {
    /// Reads the `config` of a schedule trigger, and tells everything that is wrong with it at once.
    pub fn parse(config: &Value) -> Result<Self, Vec<Mistake>> {
        config::read(config)
    }

    /// What is worth a second look, although it is allowed.
    pub fn warnings(&self) -> Vec<Mistake> {
        self.cron.warning().into_iter().map(|warning| warning.under("/cron")).collect()
    }

    /// The config with every default written in, so that a later default changes nothing.
    pub fn normalised(&self) -> Value {
        json!({
            "cron": self.cron.expression(),
            "timezone": self.timezone(),
            "catch_up": self.catch_up.to_value(),
            "dst_gap": self.dst_gap.as_str(),
            "dst_overlap": self.dst_overlap.as_str(),
        })
    }

    /// The IANA name of the zone.
    pub fn timezone(&self) -> &str {
        &self.zone.name
    }

    pub fn catch_up(&self) -> CatchUp {
        self.catch_up
    }

    /// The expression in words, such as "at 09:00 on weekdays"; one that would need many words is given as it is.
    pub fn describe(&self) -> String {
        describe::describe(&self.cron)
    }
}

#[cfg(test)]
mod tests;
