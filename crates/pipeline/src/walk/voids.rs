//! What is known of pending calls that may be void, by what their decision rests on: while that stays as it was, nobody opens their params.

use crate::limits::VOIDS_REMEMBERED_MAX;
use countersign_core::decision::Drift;
use countersign_core::invocation::Failure;
use countersign_core::{Digest, InvocationId};
use parking_lot::Mutex;
use std::collections::HashMap;

/// What was found out last about pending calls, by the grounds that it was found out on.
#[derive(Default)]
pub(crate) struct Voids {
    known: Mutex<HashMap<InvocationId, (Grounds, Option<Failure>)>>,
    /// Whose turn it is to find out. Few of them are enough: calls that share one wait for each other, and no more.
    turns: [tokio::sync::Mutex<()>; TURNS],
}

const TURNS: usize = 16;

/// All that the decision about a pending call rests on, except its params, which do not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grounds {
    pub(crate) rules_version: i64,
    pub(crate) definition: (Digest, Digest),
    pub(crate) drift: Drift,
    /// As whom its requests are sent, and the version of that connection.
    pub(crate) sent_as: (Option<String>, Option<i64>),
    /// Labels that its session was given since.
    pub(crate) labels: usize,
    /// Where the decision may go by the time, the minute of it.
    pub(crate) minute: Option<i64>,
}

impl Voids {
    pub(crate) fn find(&self, held: &InvocationId, grounds: &Grounds) -> Option<Option<Failure>> {
        self.known.lock().get(held).filter(|(then, _)| then == grounds).map(|(_, void)| void.clone())
    }

    pub(crate) async fn turn(&self, held: &InvocationId) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let index = held.as_str().bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % TURNS;
        Some(self.turns.get(index)?.lock().await)
    }

    pub(crate) fn keep(&self, held: InvocationId, grounds: Grounds, void: Option<Failure>) {
        let mut voids = self.known.lock();
        if voids.len() >= VOIDS_REMEMBERED_MAX {
            voids.clear();
        }
        voids.insert(held, (grounds, void));
    }
}
