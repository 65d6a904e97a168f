//! Who may run now. Programs are heavy, so few run at once; and whoever hangs must not keep the others from running.

use countersign_core::jail::{Error, Turn};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Programs that make something, at once.
const MAKING_AT_ONCE: usize = 4;
/// Of these, of one package: it never takes all the turns.
const MAKING_OF_ONE: usize = 2;
/// Programs that look at what was made or take it back, at once, beside the others.
const AFTERWARDS_AT_ONCE: usize = 4;
/// Of these, for one source: whose checks are slow holds up its own, and nobody else's.
const AFTERWARDS_OF_ONE: usize = 2;

pub(super) struct Turns {
    making: Arc<Semaphore>,
    afterwards: Arc<Semaphore>,
    making_of: Shares,
    afterwards_of: Shares,
}

/// How many turns each may have at once.
struct Shares {
    of_one: usize,
    each: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A turn, until it is dropped.
pub(super) struct Taken(#[expect(dead_code, reason = "held, not looked at")] Vec<OwnedSemaphorePermit>);

impl Turns {
    pub(super) fn new() -> Self {
        let of = |count| Arc::new(Semaphore::new(count));
        Self {
            making: of(MAKING_AT_ONCE),
            afterwards: of(AFTERWARDS_AT_ONCE),
            making_of: Shares { of_one: MAKING_OF_ONE, each: Mutex::default() },
            afterwards_of: Shares { of_one: AFTERWARDS_OF_ONE, each: Mutex::default() },
        }
    }

    /// Waits its turn, but not for ever: whoever asked has a deadline, and nothing has run yet.
    pub(super) async fn take(&self, turn: &Turn, patience: Duration) -> Result<Taken, Error> {
        let queue = match turn {
            Turn::ToMake { whose } => [self.making_of.share(whose), Arc::clone(&self.making)],
            Turn::Afterwards { whose } => [self.afterwards_of.share(whose), Arc::clone(&self.afterwards)],
        };
        let wait = async {
            let mut taken = Vec::with_capacity(queue.len());
            for semaphore in queue {
                taken.push(semaphore.acquire_owned().await.map_err(|_| busy("the server is stopping"))?);
            }
            Ok(Taken(taken))
        };
        tokio::time::timeout(patience, wait).await.unwrap_or_else(|_| Err(busy("as many programs run as may at once")))
    }
}

impl Shares {
    fn share(&self, whose: &str) -> Arc<Semaphore> {
        let mut each = self.each.lock();
        Arc::clone(each.entry(whose.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.of_one))))
    }
}

fn busy(why: &str) -> Error {
    Error::Busy { message: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn make(whose: &str) -> Turn {
        Turn::ToMake { whose: whose.to_owned() }
    }

    fn look(whose: &str) -> Turn {
        Turn::Afterwards { whose: whose.to_owned() }
    }

    #[tokio::test]
    async fn one_package_never_takes_all_the_turns_and_looking_has_its_own() {
        let turns = Turns::new();
        let mut held = Vec::new();
        for _ in 0..MAKING_OF_ONE {
            held.push(turns.take(&make("a"), NOW).await.unwrap());
        }
        assert!(turns.take(&make("a"), NOW).await.is_err(), "it has all that one may have");
        while held.len() < MAKING_AT_ONCE {
            held.push(turns.take(&make(&format!("b{}", held.len())), NOW).await.unwrap());
        }
        assert!(turns.take(&make("c"), NOW).await.is_err(), "as many run as may");
        turns.take(&look("a"), NOW).await.unwrap();
        held.clear();
        turns.take(&make("c"), NOW).await.unwrap();
    }

    #[tokio::test]
    async fn whose_checks_are_slow_keeps_nobody_else_from_being_looked_at() {
        let turns = Turns::new();
        let mut held = Vec::new();
        for _ in 0..AFTERWARDS_OF_ONE {
            held.push(turns.take(&look("slow"), NOW).await.unwrap());
        }
        assert!(turns.take(&look("slow"), NOW).await.is_err(), "it has all that one may have");
        held.push(turns.take(&look("files"), NOW).await.unwrap());
        while held.len() < AFTERWARDS_AT_ONCE {
            held.push(turns.take(&look(&format!("b{}", held.len())), NOW).await.unwrap());
        }
        assert!(turns.take(&look("c"), NOW).await.is_err(), "as many run as may");
        turns.take(&make("slow"), NOW).await.unwrap();
        held.clear();
        turns.take(&look("c"), NOW).await.unwrap();
    }

    #[tokio::test]
    async fn who_waits_gets_the_turn_that_is_given_back() {
        let turns = Arc::new(Turns::new());
        let held = [turns.take(&make("a"), NOW).await.unwrap(), turns.take(&make("a"), NOW).await.unwrap()];
        let waiting = {
            let turns = Arc::clone(&turns);
            tokio::spawn(async move { turns.take(&make("a"), Duration::from_secs(60)).await.is_ok() })
        };
        drop(held);
        assert!(waiting.await.unwrap());
    }
}
