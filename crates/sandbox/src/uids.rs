//! Assigns uids to runs when the server is root: one shared by all runs of `default`, and one of its own for each run of `high_isolation`.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Uids {
    first: u32,
    count: u32,
    taken: Mutex<BTreeSet<u32>>,
}

/// A uid on loan. Unless it is the shared one, no other run has it until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) uid: u32,
    from: Option<Arc<Uids>>,
}

impl Uids {
    pub(crate) fn new(first: u32, count: u32) -> Self {
        Self { first, count, taken: Mutex::default() }
    }

    pub(crate) fn shared(&self) -> Lease {
        Lease { uid: self.first, from: None }
    }

    /// `None` when every uid of the pool is in use.
    pub(crate) fn own(self: &Arc<Self>) -> Option<Lease> {
        let mut taken = self.taken.lock();
        let uid = (1..self.count).map(|offset| self.first.wrapping_add(offset)).find(|uid| !taken.contains(uid))?;
        taken.insert(uid);
        Some(Lease { uid, from: Some(self.clone()) })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(uids) = &self.from {
            uids.taken.lock().remove(&self.uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_runs_have_the_same_uid_at_once() {
        let uids = Arc::new(Uids::new(100, 3));
        let (one, two) = (uids.own().unwrap(), uids.own().unwrap());
        assert_eq!((uids.shared().uid, one.uid, two.uid), (100, 101, 102));
        assert!(uids.own().is_none());
        drop(one);
        assert_eq!(uids.own().unwrap().uid, 101);
    }
}
