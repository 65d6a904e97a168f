//! The database's clock, read every few seconds.

use super::super::{Row, TimeSource, Val};
use crate::Error;
use countersign_core::{Clock, Timestamp};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) const DATABASE_TIME: &str = "/* every org */ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// The database's clock, which decides expiry. It is read every few seconds and extrapolated with our monotonic clock in between. That
/// saves a round trip on every call; the error is at most what the two clocks drift apart in that time.
pub(super) enum Time {
    Database(Mutex<Option<(Instant, Timestamp)>>),
    Fixed(Arc<dyn Clock>),
}

const TIME_KNOWN_FOR: Duration = Duration::from_secs(3);

impl Time {
    pub(super) fn new(source: TimeSource) -> Self {
        match source {
            TimeSource::Database(_) => Self::Database(Mutex::new(None)),
            TimeSource::Fixed(clock) => Self::Fixed(clock),
        }
    }

    pub(super) fn known(&self) -> Option<Timestamp> {
        match self {
            Self::Fixed(clock) => Some(clock.now()),
            Self::Database(known) => {
                let (read_at, time) = known.lock().filter(|(read_at, _)| read_at.elapsed() < TIME_KNOWN_FOR)?;
                let since = i64::try_from(read_at.elapsed().as_micros()).unwrap_or(i64::MAX);
                Some(Timestamp::from_micros(time.as_micros().saturating_add(since)))
            }
        }
    }

    /// Takes the time from the answer to `DATABASE_TIME`.
    pub(super) fn learn(&self, rows: &[Row]) -> Result<Timestamp, Error> {
        let Some(Val::Int(micros)) = rows.first().and_then(|row| row.first()) else {
            return Err(Error::Corrupt { message: "the database did not tell the time".into() });
        };
        let time = Timestamp::from_micros(*micros);
        if let Self::Database(known) = self {
            *known.lock() = Some((Instant::now(), time));
        }
        Ok(time)
    }
}
