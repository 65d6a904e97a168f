//! Threads that may wait for the disk. They are the files' own and few: a disk that hangs holds up file actions and nothing else,
//! and many calls at once queue up instead of waking a thread each, which costs more than most of them take.

use crossbeam_channel::{Sender, unbounded};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads over one queue. They end when it is dropped.
pub(super) struct Workers(Sender<Job>);

impl Workers {
    pub(super) fn start(name: &str, threads: usize) -> io::Result<Self> {
        let (jobs, queue) = unbounded::<Job>();
        for _ in 0..threads {
            let queue = queue.clone();
            thread::Builder::new().name(name.to_owned()).spawn(move || {
                for job in queue {
                    // One that panics answers nobody, and whoever waits is told so; the thread lives on.
                    let _panicked = catch_unwind(AssertUnwindSafe(job));
                }
            })?;
        }
        Ok(Self(jobs))
    }

    /// Queues the work. The answer is an error when the work panicked.
    pub(super) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move || {
            let _nobody_waits = answer.send(work());
        });
        // Without threads the job is dropped, and so is its answer: whoever waits is told.
        let _no_threads = self.0.send(job);
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_and_work_that_panics_costs_only_itself() {
        let workers = Workers::start("test", 1).unwrap();
        let panicked = workers.run(|| -> u32 { panic!("on purpose") });
        assert_eq!(workers.run(|| 2 + 2).await, Ok(4));
        assert!(panicked.await.is_err());
    }
}
