//! The database's clock, read every few seconds.

use super::super::{Row, TimeSource, Val};
use crate::Error;
use countersign_core::{Clock, Timestamp};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) const DATABASE_TIME: &str = "/* every org */ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// The database's clock, by which all servers agree on every time that is stored. It is read every few seconds and extrapolated with our
/// monotonic clock in between. That saves a round trip on every call; the error is at most what the two clocks drift apart in that time.
pub(super) enum Time {
    Database {
        known: Mutex<Option<Known>>,
        /// Tells the time until the database was first asked.
        machine: Arc<dyn Clock>,
    },
    Fixed(Arc<dyn Clock>),
}

/// The last reading.
pub(super) struct Known {
    read_at: Instant,
    time: Timestamp,
    /// The latest time that was given out.
    told: Timestamp,
}

const TIME_KNOWN_FOR: Duration = Duration::from_secs(3);
/// Some answers of the database take longer than others, so a reading may be earlier than what was given out. By less than this it is not
/// followed: no call ends before it has started. By more, the clock was set back.
const SET_BACK_SECONDS: u64 = 10;

impl Known {
    fn now(&mut self) -> Timestamp {
        let since = i64::try_from(self.read_at.elapsed().as_micros()).unwrap_or(i64::MAX);
        let now = Timestamp::from_micros(self.time.as_micros().saturating_add(since));
        if now > self.told || now.plus_seconds(SET_BACK_SECONDS) < self.told {
            self.told = now;
        }
        self.told
    }
}

impl Time {
    pub(super) fn new(source: TimeSource) -> Self {
        match source {
            TimeSource::Database(machine) => Self::Database { known: Mutex::new(None), machine },
            TimeSource::Fixed(clock) => Self::Fixed(clock),
        }
    }

    /// The time, if it was read lately.
    pub(super) fn known(&self) -> Option<Timestamp> {
        match self {
            Self::Fixed(clock) => Some(clock.now()),
            Self::Database { known, .. } => known.lock().as_mut().filter(|known| known.read_at.elapsed() < TIME_KNOWN_FOR).map(Known::now),
        }
    }

    /// Takes the time from the answer to `DATABASE_TIME`.
    pub(super) fn learn(&self, rows: &[Row]) -> Result<Timestamp, Error> {
        let Some(Val::Int(micros)) = rows.first().and_then(|row| row.first()) else {
            return Err(Error::Corrupt { message: "the database did not tell the time".into() });
        };
        let time = Timestamp::from_micros(*micros);
        if let Self::Database { known, .. } = self {
            let mut known = known.lock();
            let told = known.as_ref().map_or(time, |known| known.told);
            *known = Some(Known { read_at: Instant::now(), time, told });
        }
        Ok(self.now())
    }
}

/// The time without a question to the database, however long ago it was read.
impl Clock for Time {
    fn now(&self) -> Timestamp {
        match self {
            Self::Fixed(clock) => clock.now(),
            Self::Database { known, machine } => known.lock().as_mut().map_or_else(|| machine.now(), Known::now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::FixedClock;

    /// The database says these times, one after the other.
    fn told(seconds: &[i64]) -> Vec<i64> {
        let time = Time::new(TimeSource::Database(Arc::new(FixedClock::new())));
        let tell = |seconds: &i64| time.learn(&[vec![Val::Int(seconds * 1_000_000)]]).map(|now| now.as_micros() / 1_000_000);
        seconds.iter().map(tell).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn time_does_not_go_back_because_an_answer_was_slow_but_with_a_clock_that_was_set_back() {
        assert_eq!(told(&[1_000, 2_000]), [1_000, 2_000]);
        assert_eq!(told(&[1_000, 995]), [1_000, 1_000]);
        assert_eq!(told(&[8_200, 1_000]), [8_200, 1_000]);
    }

    #[test]
    fn the_clock_is_the_databases_once_it_was_asked() {
        let machine = FixedClock::new();
        let time = Time::new(TimeSource::Database(Arc::new(machine.clone())));
        assert_eq!(time.now(), machine.now());
        time.learn(&[vec![Val::Int(7_000_000)]]).unwrap();
        machine.advance_seconds(7_200);
        assert_eq!(time.now().as_micros() / 1_000_000, 7);
    }
}
