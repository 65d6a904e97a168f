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

pub(super) struct Turns {
    making: Arc<Semaphore>,
    afterwards: Arc<Semaphore>,
    each: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A turn, until it is dropped.
pub(super) struct Taken(#[expect(dead_code, reason = "held, not looked at")] Vec<OwnedSemaphorePermit>);

impl Turns {
    pub(super) fn new() -> Self {
        let of = |count| Arc::new(Semaphore::new(count));
        Self { making: of(MAKING_AT_ONCE), afterwards: of(AFTERWARDS_AT_ONCE), each: Mutex::default() }
    }

    /// Waits its turn, but not for ever: whoever asked has a deadline, and nothing has run yet.
    pub(super) async fn take(&self, turn: &Turn, patience: Duration) -> Result<Taken, Error> {
        let queue = match turn {
            Turn::ToMake { whose } => vec![self.of(whose), Arc::clone(&self.making)],
            Turn::Afterwards => vec![Arc::clone(&self.afterwards)],
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

    fn of(&self, whose: &str) -> Arc<Semaphore> {
        let mut each = self.each.lock();
        Arc::clone(each.entry(whose.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(MAKING_OF_ONE))))
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
        for _ in 0..AFTERWARDS_AT_ONCE {
            held.push(turns.take(&Turn::Afterwards, NOW).await.unwrap());
        }
        assert!(turns.take(&Turn::Afterwards, NOW).await.is_err());
        held.clear();
        turns.take(&make("c"), NOW).await.unwrap();
        turns.take(&Turn::Afterwards, NOW).await.unwrap();
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
