//! Work that takes the processor long, done for a caller: it runs on threads of its own, so that whoever serves other callers never waits for
//! it. Their number is the budget: however much of it is asked for, so many threads do it, and the rest waits.

use std::panic::resume_unwind;
use std::sync::LazyLock;
use tokio::runtime::{Builder, Runtime};
use tokio_util::task::AbortOnDropHandle;

/// How many threads there are.
pub const THREADS: usize = 2;

/// A call over MCP is many calls deep, above all in a build with checks. Only what is used of it costs memory.
const STACK_BYTES: usize = 8 * 1024 * 1024;

/// What the threads are called, for whoever looks at the process.
pub const THREAD_NAME: &str = "heavy";

static RUNTIME: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(THREADS).thread_name(THREAD_NAME).thread_stack_size(STACK_BYTES).enable_all().build().ok()
});

/// Runs this there, with all tasks that it starts. If the caller goes, it ends at its next wait.
pub async fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    // Without the threads it is still done.
    let Some(runtime) = &*RUNTIME else { return work.await };
    match AbortOnDropHandle::new(runtime.spawn(work)).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // Only whoever holds the handle cancels it, and that is this future.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Computes this there.
pub async fn compute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    run(async move { work() }).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn it_runs_on_its_own_threads_and_never_on_more_of_them() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work = |_| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            compute(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
                std::thread::current().name().map(str::to_owned)
            })
        };
        let names = futures_util::future::join_all((0..64).map(work)).await;
        assert!(names.iter().all(|name| name.as_deref() == Some(THREAD_NAME)), "{names:?}");
        assert!(most.load(Ordering::SeqCst) <= THREADS);
    }

    #[tokio::test]
    async fn a_panic_reaches_the_caller() {
        let caller = tokio::spawn(compute(|| panic!("a bug")));
        assert!(caller.await.unwrap_err().is_panic());
    }

    #[tokio::test]
    async fn what_nobody_waits_for_ends() {
        let (gone, ended) = tokio::sync::oneshot::channel::<()>();
        let work = tokio::spawn(run(async move {
            let _gone = gone;
            std::future::pending::<()>().await;
        }));
        work.abort();
        assert!(ended.await.is_err());
    }
}
