//! What this process works on right now. A task holds a claim while its work lasts; a second task leaves that work alone, or waits until
//! the first has released its claim.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Every claim of one kind in this process. Cheap to clone; clones share everything.
pub struct Claims<K>(Arc<Mutex<HashMap<K, Held>>>);

struct Held {
    /// How many tasks hold it.
    count: usize,
    /// Cancelled when the last of them releases its claim.
    ended: CancellationToken,
}

/// A claim. Dropping it releases it.
pub struct Claim<K: Eq + Hash> {
    claims: Claims<K>,
    key: K,
}

/// The claim of another task on the same key.
pub struct OtherClaim(CancellationToken);

impl<K> Clone for Claims<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Default for Claims<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Clone + Eq + Hash> Claims<K> {
    /// Claims the key together with the tasks that have claimed it already.
    pub fn join(&self, key: &K) -> Claim<K> {
        let mut all = self.0.lock();
        all.entry(key.clone()).or_insert_with(|| Held { count: 0, ended: CancellationToken::new() }).count += 1;
        Claim { claims: self.clone(), key: key.clone() }
    }

    /// Claims the key, unless another task has claimed it.
    pub fn claim(&self, key: &K) -> Result<Claim<K>, OtherClaim> {
        match self.0.lock().entry(key.clone()) {
            Entry::Occupied(held) => Err(OtherClaim(held.get().ended.clone())),
            Entry::Vacant(free) => {
                free.insert(Held { count: 1, ended: CancellationToken::new() });
                Ok(Claim { claims: self.clone(), key: key.clone() })
            }
        }
    }

    pub fn find(&self, key: &K) -> Option<OtherClaim> {
        self.0.lock().get(key).map(|held| OtherClaim(held.ended.clone()))
    }
}

impl OtherClaim {
    /// Resolves when every task that held the claim has released it.
    pub async fn ended(&self) {
        self.0.cancelled().await;
    }
}

impl<K: Eq + Hash> Drop for Claim<K> {
    fn drop(&mut self) {
        let mut all = self.claims.0.lock();
        let Some(held) = all.get_mut(&self.key) else { return };
        held.count -= 1;
        if held.count == 0
            && let Some(held) = all.remove(&self.key)
        {
            held.ended.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_thing_is_claimed_by_one_at_a_time() {
        let claims = Claims::default();
        let first = claims.claim(&1).ok().unwrap();
        assert!(claims.claim(&2).is_ok(), "another thing is nobody's yet");
        for _ in 0..3 {
            // A refused claim does not change the one that is held.
            assert!(claims.claim(&1).is_err());
        }
        drop(first);
        assert!(claims.find(&1).is_none());
        assert!(claims.claim(&1).is_ok());
    }

    #[test]
    fn a_claim_that_is_shared_ends_with_its_last_holder() {
        let claims = Claims::default();
        let (first, second) = (claims.join(&1), claims.join(&1));
        drop(first);
        assert!(claims.claim(&1).is_err());
        drop(second);
        assert!(claims.claim(&1).is_ok());
    }

    #[test]
    fn whoever_comes_second_hears_when_the_first_lets_go() {
        let claims = Claims::default();
        let first = claims.claim(&1).ok().unwrap();
        let others = [claims.claim(&1).err().unwrap(), claims.find(&1).unwrap()];
        assert!(others.iter().all(|other| other.ended().now_or_never().is_none()));
        drop(first);
        let _next = claims.claim(&1).ok().unwrap();
        assert!(others.iter().all(|other| other.ended().now_or_never().is_some()), "the next claim is not the one they wait for");
    }
}
