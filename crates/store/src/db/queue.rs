//! The writes that wait for the writer. They are taken in the order in which they were queued, and a write that may wait is taken together
//! with the next one that may not.

use super::{QUEUE_MAX, Tx, Write};
use crate::Error;
use countersign_core::{Future, OrgId};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a write that may wait is left alone. If no other write comes by then, it is written without one.
const TAKEN_ALONG_WITHIN: Duration = Duration::from_millis(5);

type Waiting = Arc<Mutex<Vec<Box<dyn Write>>>>;

/// Where writes are queued.
pub(super) struct Entrance {
    writes: mpsc::Sender<Box<dyn Write>>,
    waiting: Waiting,
}

/// Where the writer takes them from.
pub(super) struct Queue {
    writes: mpsc::Receiver<Box<dyn Write>>,
    waiting: Waiting,
    /// Writes that were received and not taken yet.
    next: VecDeque<Box<dyn Write>>,
}

pub(super) fn queue() -> (Entrance, Queue) {
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    let waiting = Waiting::default();
    (Entrance { writes: sender, waiting: Arc::clone(&waiting) }, Queue { writes: receiver, waiting, next: VecDeque::new() })
}

impl Entrance {
    pub(super) async fn submit(&self, write: Box<dyn Write>) -> Result<(), Error> {
        self.writes.send(write).await.map_err(|_| Error::Unavailable { message: "the writer stopped".into() })
    }

    /// Queues a write that may wait.
    pub(super) fn leave(&self, write: Box<dyn Write>) {
        self.waiting.lock().push(write);
        let (writes, waiting) = (self.writes.clone(), Arc::clone(&self.waiting));
        tokio::spawn(async move {
            tokio::time::sleep(TAKEN_ALONG_WITHIN).await;
            let is_waiting = !waiting.lock().is_empty();
            if is_waiting && writes.send(Box::new(Nothing)).await.is_err() {
                // The writer has stopped: whoever left a write hears of it.
                waiting.lock().clear();
            }
        });
    }
}

impl Queue {
    /// Waits for a write. `None` once nobody can queue one any more.
    pub(super) async fn wait(&mut self) -> Option<Box<dyn Write>> {
        if self.next.is_empty() {
            let received = self.writes.recv().await?;
            self.note(received);
        }
        self.next.pop_front()
    }

    /// The same, on a thread that may block.
    pub(super) fn wait_blocking(&mut self) -> Option<Box<dyn Write>> {
        if self.next.is_empty() {
            let received = self.writes.blocking_recv()?;
            self.note(received);
        }
        self.next.pop_front()
    }

    /// The next write, if there is one now and it may be taken.
    pub(super) fn take_if(&mut self, may_be_taken: impl FnOnce(&dyn Write) -> bool) -> Option<Box<dyn Write>> {
        if self.next.is_empty()
            && let Ok(received) = self.writes.try_recv()
        {
            self.note(received);
        }
        let is_taken = self.next.front().is_some_and(|next| may_be_taken(&**next));
        if is_taken { self.next.pop_front() } else { None }
    }

    /// What was left before this write was queued comes before it.
    fn note(&mut self, received: Box<dyn Write>) {
        self.next.extend(self.waiting.lock().drain(..));
        self.next.push_back(received);
    }
}

/// A write that only takes along what waits.
struct Nothing;

impl Write for Nothing {
    fn org(&self) -> Option<&OrgId> {
        None
    }

    fn run<'t>(&'t mut self, _tx: &'t mut Tx) -> Future<'t, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn answer(self: Box<Self>, _committed: Result<(), Error>) {}
}
