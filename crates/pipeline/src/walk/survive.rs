//! A walk that outlives its caller. It runs where it is awaited; if the awaiting future is dropped, the walk goes on in a task of its own.

use crate::error::Error;
use crate::walk::ground::Walk;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{Instrument, Span};

/// Boxed, because the future may have to move to another task while it runs.
type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

struct Surviving<T: Send + 'static> {
    /// `None` once the walk has ended.
    walk: Option<Running<T>>,
    tasks: TaskTracker,
    span: Span,
    runtime: Handle,
    /// Makes a shutdown wait for the walk.
    _token: TaskTrackerToken,
}

impl Walk {
    /// Runs a walk so that a closed connection never abandons an effect half-way, and so that a shutdown waits for the walk to end.
    pub(crate) fn survive<T: Send + 'static>(
        &self,
        walk: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> impl Future<Output = Result<T, Error>> + Send {
        Surviving::new(&self.inner.tasks, async move {
            let walked = AssertUnwindSafe(walk).catch_unwind().await;
            walked.unwrap_or_else(|_| Err(Error::Internal { message: "a walk ended early, by a bug".to_owned() }))
        })
    }
}

impl<T: Send + 'static> Surviving<T> {
    fn new(tasks: &TaskTracker, walk: impl Future<Output = T> + Send + 'static) -> Self {
        Self { walk: Some(Box::pin(walk)), tasks: tasks.clone(), span: Span::current(), runtime: Handle::current(), _token: tasks.token() }
    }
}

impl<T: Send + 'static> Future for Surviving<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(walk) = self.walk.as_mut() else {
            return Poll::Pending;
        };
        let polled = walk.as_mut().poll(context);
        if polled.is_ready() {
            self.walk = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Surviving<T> {
    fn drop(&mut self) {
        if let Some(walk) = self.walk.take() {
            self.tasks.spawn_on(walk.instrument(self.span.clone()), &self.runtime);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::Notify;

    /// A walk with a pause in its middle, a counter of its steps, and the signal that ends the pause.
    fn walk(tasks: &TaskTracker) -> (Surviving<u32>, Arc<AtomicU32>, Arc<Notify>) {
        let (done, go_on) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let (counting, waiting) = (Arc::clone(&done), Arc::clone(&go_on));
        let walk = Surviving::new(tasks, async move {
            counting.fetch_add(1, Ordering::SeqCst);
            waiting.notified().await;
            counting.fetch_add(1, Ordering::SeqCst)
        });
        (walk, done, go_on)
    }

    #[tokio::test]
    async fn a_walk_runs_where_it_is_awaited_and_ends_once() {
        let tasks = TaskTracker::new();
        let (walk, done, go_on) = walk(&tasks);
        go_on.notify_one();
        assert_eq!(walk.await, 1);
        tasks.close();
        tasks.wait().await;
        assert_eq!(done.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_walk_whose_caller_goes_away_is_walked_to_its_end_and_waited_for() {
        let tasks = TaskTracker::new();
        let (mut walk, done, go_on) = walk(&tasks);
        assert!(futures_util::poll!(&mut walk).is_pending());
        drop(walk);
        assert_eq!((done.load(Ordering::SeqCst), tasks.len()), (1, 1));
        go_on.notify_one();
        tasks.close();
        tasks.wait().await;
        assert_eq!(done.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_walk_that_was_never_looked_at_is_walked_too() {
        let tasks = TaskTracker::new();
        let (walk, done, go_on) = walk(&tasks);
        drop(walk);
        go_on.notify_one();
        tasks.close();
        tasks.wait().await;
        assert_eq!(done.load(Ordering::SeqCst), 2);
    }
}
