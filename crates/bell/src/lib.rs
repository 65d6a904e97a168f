//! Lets a thread of our own wake callers that wait in a runtime.
//!
//! Waking a caller from outside the runtime is expensive: the runtime wakes a worker to run the caller, that worker wakes another to look
//! for more work, and both go back to sleep; and this happens for every caller. A bell is a pipe that the runtime watches like its sockets.
//! One ring covers all results there are, and the callers are then woken from inside. `docs/decisions/0012-one-bell.md` has the figures.

use parking_lot::Mutex;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::runtime::{Handle, RuntimeFlavor};

/// A closure to run in the runtime, which gives a caller its result. It must be short and never block.
type News = Box<dyn FnOnce() + Send>;

/// Rung by threads outside a runtime.
pub struct Bell(Option<Rope>);

struct Rope {
    board: Arc<Mutex<Board>>,
    /// The write end of the pipe. One byte covers all news put up before they are read.
    rope: File,
}

struct Board {
    news: Vec<News>,
    /// Whether the reader still exists.
    is_read: bool,
}

impl Bell {
    /// Hangs a bell in the current runtime. Only a multi-threaded runtime has workers that hear the bell whatever else they wait for. In
    /// any other, and outside a runtime, the ringing thread runs the news itself.
    pub fn hang() -> Self {
        let runtime = Handle::try_current().ok().filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
        Self(runtime.and_then(|runtime| Rope::hang(&runtime)))
    }

    pub fn tell(&self, news: impl FnOnce() + Send + 'static) {
        let Some(Rope { board, rope }) = &self.0 else {
            return news();
        };
        let mut put_up = board.lock();
        if !put_up.is_read {
            drop(put_up);
            return news();
        }
        put_up.news.push(Box::new(news));
        let is_first = put_up.news.len() == 1;
        drop(put_up);
        if is_first {
            // If the reader is gone, its `drop` has already run the news that were put up.
            let _unheard = (&*rope).write_all(b"!");
        }
    }
}

impl Rope {
    fn hang(runtime: &Handle) -> Option<Self> {
        let (rope, heard) = pipe::pipe().ok()?;
        let rope = File::from(rope.into_blocking_fd().ok()?);
        let board = Arc::new(Mutex::new(Board { news: Vec::new(), is_read: true }));
        runtime.spawn(listen(Reader(Arc::clone(&board)), heard));
        Some(Self { board, rope })
    }
}

/// The runtime's end of the bell. When the runtime ends, this is dropped and runs the remaining news, so that no caller waits for ever.
struct Reader(Arc<Mutex<Board>>);

impl Reader {
    fn tell_all(&self) {
        let news = std::mem::take(&mut self.0.lock().news);
        news.into_iter().for_each(|news| news());
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.lock().is_read = false;
        self.tell_all();
    }
}

/// Runs until the bell is dropped.
async fn listen(reader: Reader, mut heard: pipe::Receiver) {
    // All news are read at once, however often the bell was rung.
    let mut rings = [0; 64];
    while heard.read(&mut rings).await.is_ok_and(|rings| rings > 0) {
        reader.tell_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use tokio::sync::oneshot;

    /// Sends news to many waiting callers, from several threads at once.
    async fn everybody_hears(bell: Bell) {
        let bell = Arc::new(bell);
        let mut waiting = Vec::new();
        for thread in 0..4_u32 {
            let (tellers, hearers): (Vec<_>, Vec<_>) = (0..500_u32).map(|_| oneshot::channel()).unzip();
            let bell = Arc::clone(&bell);
            thread::spawn(move || {
                for (n, teller) in tellers.into_iter().enumerate() {
                    bell.tell(move || assert_eq!(teller.send((thread, n)), Ok(())));
                }
            });
            waiting.extend(hearers.into_iter().enumerate().map(|(n, hearer)| (thread, n, hearer)));
        }
        for (thread, n, hearer) in waiting {
            assert_eq!(hearer.await, Ok((thread, n)));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn everybody_hears_in_a_runtime_with_workers() {
        let bell = Bell::hang();
        assert!(bell.0.is_some());
        everybody_hears(bell).await;
    }

    #[tokio::test]
    async fn everybody_hears_where_nobody_listens_for_bells() {
        let bell = Bell::hang();
        assert!(bell.0.is_none());
        everybody_hears(bell).await;
    }

    #[test]
    fn a_bell_that_hangs_nowhere_tells_by_itself() {
        let (teller, hearer) = oneshot::channel();
        Bell::hang().tell(move || assert_eq!(teller.send(()), Ok(())));
        assert_eq!(hearer.blocking_recv(), Ok(()));
    }

    #[test]
    fn nobody_is_left_waiting_by_a_runtime_that_goes() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build().unwrap();
        let bell = runtime.block_on(async { Bell::hang() });
        assert!(bell.0.is_some());
        let ringing = thread::spawn(move || {
            let (tellers, heard): (Vec<_>, Vec<_>) = (0..20_000_u32).map(|_| oneshot::channel()).unzip();
            for teller in tellers {
                bell.tell(move || assert_eq!(teller.send(()), Ok(())));
            }
            heard
        });
        runtime.shutdown_background();
        for hearer in ringing.join().unwrap() {
            assert_eq!(hearer.blocking_recv(), Ok(()));
        }
    }
}
