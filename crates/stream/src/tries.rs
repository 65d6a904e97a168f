//! How often an address has tried to log in with a wrong token, or has begun to sign in. Nobody guesses a token; this keeps those who try from
//! costing much.

use crate::limits::LOGIN_TRIES_ADDRESSES_MAX;
use countersign_core::Timestamp;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

const WINDOW_MS: u64 = 60_000;

/// Counts tries by the address they come from, in this process.
pub struct Tries {
    per_minute_max: u32,
    windows: Mutex<HashMap<IpAddr, Window>>,
}

struct Window {
    began: Timestamp,
    count: u32,
}

impl Window {
    /// A window also ends when the clock was set back.
    fn holds(&self, now: Timestamp) -> bool {
        self.began <= now && now.millis_since(self.began) < WINDOW_MS
    }
}

impl Tries {
    pub fn up_to(per_minute_max: u32) -> Self {
        Self { per_minute_max, windows: Mutex::default() }
    }

    /// Counts a try before it is looked at, so that many at once are counted too. The error is how long to wait, in milliseconds.
    pub fn begin(&self, from: IpAddr, now: Timestamp) -> Result<(), u64> {
        let mut windows = self.windows.lock();
        if windows.len() >= LOGIN_TRIES_ADDRESSES_MAX {
            windows.retain(|_, window| window.holds(now));
        }
        if windows.len() >= LOGIN_TRIES_ADDRESSES_MAX {
            windows.clear();
        }
        let window = windows.entry(network_of(from)).or_insert(Window { began: now, count: 0 });
        if !window.holds(now) {
            *window = Window { began: now, count: 0 };
        }
        if window.count >= self.per_minute_max {
            return Err(WINDOW_MS.saturating_sub(now.millis_since(window.began)));
        }
        window.count += 1;
        Ok(())
    }

    /// The try was right: it does not count.
    pub fn succeeded(&self, from: IpAddr) {
        if let Some(window) = self.windows.lock().get_mut(&network_of(from)) {
            window.count = window.count.saturating_sub(1);
        }
    }
}

/// What counts as one address: one client has a whole network of IPv6 addresses to itself.
pub fn network_of(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::limits::LOGIN_TRIES_PER_MINUTE_MAX;

    #[test]
    fn an_address_waits_after_too_many_wrong_tries_and_others_do_not() {
        let tries = Tries::up_to(LOGIN_TRIES_PER_MINUTE_MAX);
        let now = Timestamp::from_micros(1_000_000_000);
        let from = |text: &str| text.parse::<IpAddr>().unwrap();
        for at in 0..LOGIN_TRIES_PER_MINUTE_MAX {
            assert_eq!(tries.begin(from(&format!("2001:db8::{at}")), now), Ok(()));
        }
        assert_eq!(tries.begin(from("2001:db8::ffff"), now.plus_seconds(20)), Err(40_000), "of the same network");
        assert_eq!(tries.begin(from("2001:db8:0:1::1"), now), Ok(()));
        assert_eq!(tries.begin(from("192.0.2.1"), now), Ok(()));
        tries.succeeded(from("2001:db8::1"));
        assert_eq!(tries.begin(from("2001:db8::1"), now), Ok(()), "a right one does not count");
        assert_eq!(tries.begin(from("2001:db8::1"), now.plus_seconds(60)), Ok(()));
        assert_eq!(tries.begin(from("2001:db8::1"), now.minus_seconds(60)), Ok(()), "the clock was set back");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let tries = Tries::up_to(LOGIN_TRIES_PER_MINUTE_MAX);
        for at in 0..=LOGIN_TRIES_ADDRESSES_MAX as u32 {
            assert_eq!(tries.begin(IpAddr::from(at.to_be_bytes()), Timestamp::from_micros(0)), Ok(()));
        }
        assert!(tries.windows.lock().len() <= LOGIN_TRIES_ADDRESSES_MAX);
    }
}
