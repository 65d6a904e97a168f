//! Assigns uids to runs when the server is root: each run has one of its own, so that what the kernel limits by user is limited by run.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Uids {
    first: u32,
    count: u32,
    taken: Mutex<BTreeSet<u32>>,
}

/// A uid on loan. No other run has it until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) uid: u32,
    from: Arc<Uids>,
}

impl Uids {
    pub(crate) fn new(first: u32, count: u32) -> Self {
        Self { first, count, taken: Mutex::default() }
    }

    /// `None` when every uid of the pool is in use.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Lease> {
        let mut taken = self.taken.lock();
        let uid = (0..self.count).map(|offset| self.first.wrapping_add(offset)).find(|uid| !taken.contains(uid))?;
        taken.insert(uid);
        Some(Lease { uid, from: self.clone() })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.from.taken.lock().remove(&self.uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_runs_have_the_same_uid_at_once() {
        let uids = Arc::new(Uids::new(100, 2));
        let (one, two) = (uids.take().unwrap(), uids.take().unwrap());
        assert_eq!((one.uid, two.uid), (100, 101));
        assert!(uids.take().is_none());
        drop(one);
        assert_eq!(uids.take().unwrap().uid, 100);
    }
}
