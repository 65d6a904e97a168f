//! The actions that were counted as appeared, each once.

use countersign_core::{ActionId, OrgId};
use parking_lot::Mutex;
use std::collections::HashSet;

/// How many actions are remembered as counted. Beyond this, all are forgotten, so that a source that invents names cannot fill the memory.
const COUNTED_MAX: usize = 100_000;

#[derive(Default)]
pub(crate) struct AppearedActions(Mutex<HashSet<(OrgId, ActionId)>>);

impl AppearedActions {
    /// Whether the action was not counted yet. From now on it is.
    pub(crate) fn is_new(&self, org: &OrgId, action: &ActionId) -> bool {
        let mut counted = self.0.lock();
        if counted.len() >= COUNTED_MAX {
            counted.clear();
        }
        counted.insert((org.clone(), action.clone()))
    }
}
