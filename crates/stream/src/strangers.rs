//! Those who have opened a WebSocket and have not said yet who they are. Each address has a few places, so that one that says nothing takes
//! none from the others.

use super::NotOpened;
use crate::limits::{STREAM_STRANGERS_MAX, STREAM_STRANGERS_PER_ADDRESS_MAX};
use crate::tries::network_of;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The places. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Strangers(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// The place of a stranger. Dropping it gives the place free.
pub struct Stranger {
    strangers: Strangers,
    from: IpAddr,
}

impl Strangers {
    pub(super) fn take(&self, address: IpAddr) -> Result<Stranger, NotOpened> {
        let from = network_of(address);
        let mut open = self.0.lock();
        let (all, own) = (open.values().sum::<usize>(), open.get(&from).copied().unwrap_or_default());
        for (taken, streams_max) in [(own, STREAM_STRANGERS_PER_ADDRESS_MAX), (all, STREAM_STRANGERS_MAX)] {
            if taken >= streams_max {
                return Err(NotOpened::TooMany { streams_max });
            }
        }
        open.insert(from, own + 1);
        drop(open);
        Ok(Stranger { strangers: self.clone(), from })
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut open = self.strangers.0.lock();
        if let Some(own) = open.get_mut(&self.from) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_takes_no_place_from_another() {
        let strangers = Strangers::default();
        let [one, other, near, far] = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"].map(|text| text.parse::<IpAddr>().unwrap());
        let mut open: Vec<_> = (0..STREAM_STRANGERS_PER_ADDRESS_MAX).map(|_| strangers.take(one).ok().unwrap()).collect();
        assert!(strangers.take(one).is_err());
        assert!(strangers.take("::ffff:192.0.2.1".parse().unwrap()).is_err(), "it is the same address");
        let second = strangers.take(other).ok().unwrap();
        open.pop();
        open.push(strangers.take(one).ok().unwrap());
        let third: Vec<_> = (0..STREAM_STRANGERS_PER_ADDRESS_MAX).map(|_| strangers.take(near).ok().unwrap()).collect();
        assert!(strangers.take(far).is_err(), "it is the same network");
        drop((open, second, third));
        assert_eq!(strangers.0.lock().len(), 0);
    }
}
