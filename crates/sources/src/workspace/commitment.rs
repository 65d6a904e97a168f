//! The point after which a file action can no longer be cancelled.
//!
//! Work on a blocking thread cannot be cancelled. So before its one visible step it asks here whether its caller still waits; if not, the
//! step is refused. A call that is given up early therefore never takes effect later.

use super::workers::Workers;
use crate::words::{failed, patience};
use countersign_core::source::{CallContext, Error};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const OPEN: u8 = 0;
const BEGUN: u8 = 1;
const ABANDONED: u8 = 2;

/// Either the work begins its visible step, or the caller abandons it; never both.
pub(crate) struct Commitment {
    state: AtomicU8,
    source: &'static str,
}

/// What the caller may conclude when it stops waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// The visible step will not happen.
    InTime,
    /// The visible step has begun, and perhaps ended.
    TooLate,
}

impl Commitment {
    pub(crate) const fn new(source: &'static str) -> Self {
        Self { state: AtomicU8::new(OPEN), source }
    }

    /// Called right before the step that makes the change visible.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        match self.state.compare_exchange(OPEN, BEGUN, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) | Err(BEGUN) => Ok(()),
            Err(_) => Err(too_slow(self.source)),
        }
    }

    fn is_abandoned(&self) -> bool {
        self.state.load(Ordering::SeqCst) == ABANDONED
    }

    pub(crate) fn abandon(&self) -> GivenUp {
        match self.state.compare_exchange(OPEN, ABANDONED, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) | Err(ABANDONED) => GivenUp::InTime,
            Err(_) => GivenUp::TooLate,
        }
    }
}

fn too_slow(source: &str) -> Error {
    Error::NoTurn { source_id: source.to_owned(), message: "the disk was too slow for the time given".to_owned() }
}

/// Abandons the work when the caller's future is dropped, for whatever reason.
struct Waiting(Arc<Commitment>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Runs file work on a thread that may block, and stops waiting a little before the caller does.
pub(crate) async fn blocking<T: Send + 'static>(
    workers: &Workers,
    context: &CallContext,
    work: impl FnOnce(&Commitment) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let commitment = Arc::new(Commitment::new(workers.source));
    let waiting = Waiting(commitment.clone());
    // Work that was given up while it waited for a thread is not started.
    let worked = workers.run(move || if commitment.is_abandoned() { Err(too_slow(commitment.source)) } else { work(&commitment) });
    match tokio::time::timeout(patience(context), worked).await {
        Ok(Ok(result)) => result,
        Ok(Err(_stopped)) => match waiting.0.abandon() {
            GivenUp::InTime => Err(failed("file_io_failed", "the file work stopped, by a bug; nothing was changed".to_owned())),
            GivenUp::TooLate => {
                Err(Error::Broken { source_id: workers.source.to_owned(), message: "the file work stopped, by a bug".to_owned() })
            }
        },
        Err(_) => match waiting.0.abandon() {
            GivenUp::InTime => Err(too_slow(workers.source)),
            GivenUp::TooLate => Err(Error::TimedOut { source_id: workers.source.to_owned(), timeout_ms: context.timeout_ms }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::tests::context;
    use std::sync::mpsc;

    fn workers() -> Workers {
        Workers::start("files", "test", 1).unwrap()
    }

    #[tokio::test]
    async fn work_that_is_given_up_while_it_waits_for_a_thread_is_not_begun() {
        let workers = workers();
        let (release, wait) = mpsc::channel::<()>();
        let _busy = workers.run(move || wait.recv());
        let mut context = context();
        context.timeout_ms = 20;
        let error = blocking(&workers, &context, |_| -> Result<(), Error> { panic!("it began") }).await.unwrap_err();
        assert!(matches!(error, Error::NoTurn { .. }), "{error}");
        release.send(()).unwrap();
        assert_eq!(blocking(&workers, &context, |_| Ok(7)).await, Ok(7));
    }

    #[tokio::test]
    async fn work_that_is_given_up_before_its_step_never_takes_it() {
        let (release, wait) = mpsc::channel::<()>();
        let (report, outcome) = mpsc::channel();
        let mut context = context();
        context.timeout_ms = 20;
        let error = blocking(&workers(), &context, move |commitment| {
            let _ = wait.recv();
            let began = commitment.begin();
            let _ = report.send(began.is_ok());
            began
        })
        .await
        .unwrap_err();
        assert!(matches!(error, Error::NoTurn { .. }) && error.was_not_taken_up(), "{error}");
        release.send(()).unwrap();
        assert!(!outcome.recv().unwrap(), "the abandoned work went on to its visible step");
    }

    #[tokio::test]
    async fn work_that_is_given_up_after_its_step_is_in_doubt() {
        let (release, wait) = mpsc::channel::<()>();
        let mut context = context();
        context.timeout_ms = 20;
        let error = blocking(&workers(), &context, move |commitment| {
            commitment.begin()?;
            let _ = wait.recv();
            Ok(())
        })
        .await
        .unwrap_err();
        assert_eq!(error, Error::TimedOut { source_id: "files".to_owned(), timeout_ms: 20 });
        release.send(()).unwrap();
    }

    #[tokio::test]
    async fn a_dropped_call_is_a_call_given_up() {
        let (release, wait) = mpsc::channel::<()>();
        let (report, outcome) = mpsc::channel();
        let context = context();
        let workers = workers();
        let mut call = Box::pin(blocking(&workers, &context, move |commitment| {
            let _ = wait.recv();
            let _ = report.send(commitment.begin().is_ok());
            Ok(())
        }));
        assert!(futures_util::FutureExt::now_or_never(&mut call).is_none());
        drop(call);
        release.send(()).unwrap();
        // The work may not have started at all.
        assert!(!outcome.recv().unwrap_or(false));
    }

    #[tokio::test]
    async fn work_that_panics_before_its_step_changed_nothing_and_after_it_is_in_doubt() {
        let before = blocking(&workers(), &context(), |_| -> Result<(), Error> { panic!("on purpose") }).await.unwrap_err();
        assert_eq!(before.code(), "file_io_failed");
        let after = blocking(&workers(), &context(), |commitment| -> Result<(), Error> {
            commitment.begin()?;
            panic!("on purpose")
        })
        .await
        .unwrap_err();
        assert!(matches!(after, Error::Broken { .. }), "{after}");
    }
}
