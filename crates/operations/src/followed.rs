//! The orgs whose catalogue somebody follows. However many follow one, a single task looks at it, so what happens in an org costs one look and
//! not one for each of them. What the task looks at is in `seen.rs`.

use countersign_core::OrgId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::watch;

/// Every org that is followed, with those who follow it. Cheap to clone; clones share everything.
#[derive(Clone, Default)]
pub struct Followed(Arc<Mutex<HashMap<OrgId, watch::Sender<()>>>>);

impl Followed {
    /// Hears of every change of the org that is told from now on. If nobody followed the org before, `look` starts the task that tells.
    pub(crate) fn join(&self, org: &OrgId, look: impl FnOnce(watch::Sender<()>)) -> watch::Receiver<()> {
        let mut followed = self.0.lock();
        if let Some(told) = followed.get(org) {
            return told.subscribe();
        }
        let (told, changes) = watch::channel(());
        followed.insert(org.clone(), told.clone());
        look(told);
        changes
    }

    /// Whether nobody follows the org any longer. Its task ends then: whoever follows it next starts another.
    pub(crate) fn is_over(&self, org: &OrgId) -> bool {
        let mut followed = self.0.lock();
        let is_over = followed.get(org).is_none_or(|told| told.receiver_count() == 0);
        if is_over {
            followed.remove(org);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::Timestamp;

    #[tokio::test]
    async fn many_follow_one_task_which_ends_with_the_last_of_them() {
        let (followed, mut tasks) = (Followed::default(), Vec::new());
        let orgs = [1, 2].map(|number| OrgId::new(Timestamp::from_micros(0), [number; 10]));
        let mut following: Vec<_> = (0..200).map(|_| followed.join(&orgs[0], |told| tasks.push(told))).collect();
        let other = followed.join(&orgs[1], |told| tasks.push(told));
        assert_eq!(tasks.len(), 2, "one for each org");
        tasks[0].send_replace(());
        for changes in &mut following {
            changes.changed().await.unwrap();
        }
        assert!(!other.has_changed().unwrap(), "what changes in one org is not told to those of another");
        following.truncate(1);
        assert!(!followed.is_over(&orgs[0]));
        following.clear();
        assert!(followed.is_over(&orgs[0]) && !followed.is_over(&orgs[1]));
        let _again = followed.join(&orgs[0], |told| tasks.push(told));
        assert_eq!(tasks.len(), 3);
    }
}
