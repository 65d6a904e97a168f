//! Decides which programs may run now. Programs are heavy, so only a few run at once, and a hanging one must not keep the others from
//! running.

use crate::limits::{
    AFTERWARDS_RUNS_AT_ONCE as AFTERWARDS_AT_ONCE, AFTERWARDS_RUNS_OF_ONE as AFTERWARDS_OF_ONE, PACKAGE_RUNS_AT_ONCE as MAKING_OF_ONE,
    PACKAGES_RUNS_AT_ONCE as MAKING_AT_ONCE, RESIDENTS_AT_ONCE, RESIDENTS_OF_ONE,
};
use countersign_core::effect::Progress;
use countersign_core::jail::{Error, Turn};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(super) struct Turns {
    making: Arc<Semaphore>,
    afterwards: Arc<Semaphore>,
    resident: Arc<Semaphore>,
    making_of: Shares,
    afterwards_of: Shares,
    resident_of: Shares,
}

/// How many turns each source may have at once.
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
            resident: of(RESIDENTS_AT_ONCE),
            making_of: Shares { of_one: MAKING_OF_ONE, each: Mutex::default() },
            afterwards_of: Shares { of_one: AFTERWARDS_OF_ONE, each: Mutex::default() },
            resident_of: Shares { of_one: RESIDENTS_OF_ONE, each: Mutex::default() },
        }
    }

    /// Waits for a turn, at most `patience`, because the caller has a deadline and nothing has run yet. A caller that has to wait is told
    /// so through `progress`.
    pub(super) async fn take(&self, turn: &Turn, patience: Duration, progress: Option<&Progress>) -> Result<Taken, Error> {
        let queue = match turn {
            Turn::ToMake { whose } => {
                let own = format!("{MAKING_OF_ONE} of its calls run already, which is the limit");
                let all = format!("{MAKING_AT_ONCE} calls of packages run already, which is the limit");
                let for_it = format!("waiting for a turn of source `{whose}`");
                [(self.making_of.share(whose), for_it.clone(), own), (Arc::clone(&self.making), for_it, all)]
            }
            Turn::Afterwards { whose } => {
                let own = format!("{AFTERWARDS_OF_ONE} programs already verify or revert effects of `{whose}`, which is the limit");
                let all = format!("{AFTERWARDS_AT_ONCE} programs already verify or revert effects, which is the limit");
                let for_it = "waiting for a turn to verify or revert an effect".to_owned();
                [(self.afterwards_of.share(whose), for_it.clone(), own), (Arc::clone(&self.afterwards), for_it, all)]
            }
        };
        let until = tokio::time::Instant::now() + patience;
        let mut taken = Vec::with_capacity(queue.len());
        for (semaphore, waits, why) in queue {
            if let Ok(permit) = Arc::clone(&semaphore).try_acquire_owned() {
                taken.push(permit);
                continue;
            }
            if let Some(progress) = progress {
                progress.tell(&format!("{waits}: {why}"));
            }
            match tokio::time::timeout_at(until, semaphore.acquire_owned()).await {
                Ok(Ok(permit)) => taken.push(permit),
                Ok(Err(_closed)) => return Err(busy("the server is stopping")),
                Err(_late) => return Err(busy(&why)),
            }
        }
        Ok(Taken(taken))
    }

    /// A place for a resident program. There is no waiting for one, because its holder may keep it for days.
    pub(super) fn reside(&self, owner: &str) -> Result<Taken, Error> {
        let own = self.resident_of.share(owner).try_acquire_owned();
        let own = own.map_err(|_| busy(&format!("{RESIDENTS_OF_ONE} resident programs of `{owner}` run already, which is the limit")))?;
        let all = Arc::clone(&self.resident).try_acquire_owned();
        let all = all.map_err(|_| busy(&format!("{RESIDENTS_AT_ONCE} resident programs run already, which is the limit")))?;
        Ok(Taken(vec![own, all]))
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
            held.push(turns.take(&make("a"), NOW, None).await.unwrap());
        }
        assert!(turns.take(&make("a"), NOW, None).await.is_err(), "it has all that one may have");
        while held.len() < MAKING_AT_ONCE {
            held.push(turns.take(&make(&format!("b{}", held.len())), NOW, None).await.unwrap());
        }
        assert!(turns.take(&make("c"), NOW, None).await.is_err(), "as many run as may");
        turns.take(&look("a"), NOW, None).await.unwrap();
        held.clear();
        turns.take(&make("c"), NOW, None).await.unwrap();
    }

    #[tokio::test]
    async fn whose_checks_are_slow_keeps_nobody_else_from_being_looked_at() {
        let turns = Turns::new();
        let mut held = Vec::new();
        for _ in 0..AFTERWARDS_OF_ONE {
            held.push(turns.take(&look("slow"), NOW, None).await.unwrap());
        }
        assert!(turns.take(&look("slow"), NOW, None).await.is_err(), "it has all that one may have");
        held.push(turns.take(&look("files"), NOW, None).await.unwrap());
        while held.len() < AFTERWARDS_AT_ONCE {
            held.push(turns.take(&look(&format!("b{}", held.len())), NOW, None).await.unwrap());
        }
        assert!(turns.take(&look("c"), NOW, None).await.is_err(), "as many run as may");
        turns.take(&make("slow"), NOW, None).await.unwrap();
        held.clear();
        turns.take(&look("c"), NOW, None).await.unwrap();
    }

    #[test]
    fn one_owner_never_takes_all_the_places_of_residents() {
        let turns = Turns::new();
        let of = |owner: &str| (0..RESIDENTS_OF_ONE).map(|_| turns.reside(owner).unwrap()).collect::<Vec<_>>();
        let mut held: Vec<_> = (0..RESIDENTS_AT_ONCE / RESIDENTS_OF_ONE - 1).flat_map(|owner| of(&owner.to_string())).collect();
        assert!(turns.reside("0").is_err(), "it has all that one may have");
        held.extend(of("last"));
        assert!(turns.reside("new").is_err(), "as many run as may");
        held.pop();
        turns.reside("new").unwrap();
    }

    #[tokio::test]
    async fn who_waits_gets_the_turn_that_is_given_back() {
        let turns = Arc::new(Turns::new());
        let held = [turns.take(&make("a"), NOW, None).await.unwrap(), turns.take(&make("a"), NOW, None).await.unwrap()];
        let waiting = {
            let turns = Arc::clone(&turns);
            tokio::spawn(async move { turns.take(&make("a"), Duration::from_secs(60), None).await.is_ok() })
        };
        drop(held);
        assert!(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn who_has_to_wait_is_told_for_what_and_who_has_not_is_told_nothing() {
        let turns = Turns::new();
        let told = Arc::new(Mutex::new(Vec::new()));
        let progress = Progress::new({
            let told = Arc::clone(&told);
            move |line| told.lock().push(line.to_owned())
        });
        let _held =
            [turns.take(&make("a"), NOW, Some(&progress)).await.unwrap(), turns.take(&make("a"), NOW, Some(&progress)).await.unwrap()];
        assert_eq!(*told.lock(), [] as [&str; 0]);
        let why = "2 of its calls run already, which is the limit";
        let Err(Error::Busy { message }) = turns.take(&make("a"), NOW, Some(&progress)).await else { panic!("it had a turn") };
        assert_eq!((message.as_str(), told.lock().join("\n")), (why, format!("waiting for a turn of source `a`: {why}")));
    }
}
