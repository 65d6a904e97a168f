//! Threads that may wait for the disk. They do only file work, and they are few: a disk that hangs holds up file actions and nothing else.
//! Many calls at once wait in a queue instead of each waking a thread, which costs more than most calls take.

use bell::Bell;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads with one queue. When this is dropped, they end once the queue is empty.
pub(crate) struct Workers {
    queue: Arc<Queue>,
    bell: Arc<Bell>,
    /// The source that the work belongs to, for error messages.
    pub(crate) source: &'static str,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    closed: bool,
}

impl Workers {
    pub(crate) fn start(source: &'static str, name: &str, threads: usize) -> Result<Self, crate::Error> {
        let workers = Self { queue: Arc::default(), bell: Arc::new(Bell::hang()), source };
        for _ in 0..threads {
            let queue = Arc::clone(&workers.queue);
            let started = thread::Builder::new().name(name.to_owned()).spawn(move || {
                while let Some(job) = queue.next() {
                    // A job that panics sends no answer, and its caller gets an error; the thread lives on.
                    let _panicked = catch_unwind(AssertUnwindSafe(job));
                }
            });
            started.map_err(|error| crate::Error::Threads { message: error.to_string() })?;
        }
        Ok(workers)
    }

    /// Queues the work. The receiver gets an error if the work panicked.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
        let (answer, answered) = oneshot::channel();
        let bell = Arc::clone(&self.bell);
        let job: Job = Box::new(move || {
            let worked = work();
            bell.tell(move || {
                let _nobody_waits = answer.send(worked);
            });
        });
        self.queue.jobs.lock().waiting.push_back(job);
        self.queue.changed.notify_one();
        answered
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.jobs.lock().closed = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                return Some(job);
            }
            if jobs.closed {
                return None;
            }
            self.changed.wait(&mut jobs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_and_work_that_panics_costs_only_itself() {
        let workers = Workers::start("test", "test", 1).unwrap();
        let panicked = workers.run(|| -> u32 { panic!("on purpose") });
        assert_eq!(workers.run(|| 2 + 2).await, Ok(4));
        assert!(panicked.await.is_err());
    }

    #[tokio::test]
    async fn what_is_queued_is_done_before_the_threads_end() {
        let workers = Workers::start("test", "test", 2).unwrap();
        let answers: Vec<_> = (0..100).map(|n| workers.run(move || n)).collect();
        drop(workers);
        for (n, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.await, Ok(n));
        }
    }
}
