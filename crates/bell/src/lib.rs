//! How a thread of our own wakes callers who wait in a runtime.
//!
//! Whoever is woken from outside a runtime is woken dearly: a worker is roused to take the caller, rouses another to look whether there is
//! more, and both go back to sleep; and so for every caller. A bell is heard by the runtime as it hears its sockets, once for all the news
//! there is, and whoever waits is then woken from within. What that comes to is in `docs/decisions/0012-one-bell.md`.

use parking_lot::Mutex;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::runtime::{Handle, RuntimeFlavor};

/// What is to be done in the runtime: tell somebody what became of their work. Short, and it never blocks.
type News = Box<dyn FnOnce() + Send>;

/// Rung from threads outside of a runtime.
pub struct Bell(Option<Rope>);

struct Rope {
    board: Arc<Mutex<Board>>,
    /// One byte for all the news that are put up before they are read.
    rope: File,
}

struct Board {
    news: Vec<News>,
    /// Whether somebody still comes to read them.
    is_read: bool,
}

impl Bell {
    /// For whoever waits in the runtime this is called in. Where none has workers that hear it whatever else is waited for, those who ring
    /// tell their news themselves.
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
            // Where nobody hears it any more, `Reader` has told what was put up.
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

/// The runtime's end. When the runtime goes so does this, and nobody is left waiting.
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

/// Until the bell is gone.
async fn listen(reader: Reader, mut heard: pipe::Receiver) {
    // However often it was rung: news are read all at once.
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

    /// News for as many as wait, from several threads at once.
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
