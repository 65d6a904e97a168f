//! Callers that call again as soon as they are answered, for a fixed time.

use crate::cpu::Watched;
use crate::stats::Window;
use anyhow::Result;
use std::time::{Duration, Instant};

/// One caller; it has one call under way at a time.
pub(crate) trait Caller: Send + 'static {
    fn call(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// How long callers call before it counts, and while it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    pub(crate) warm: Duration,
    pub(crate) counted: Duration,
}

/// Lets all callers call; counts the calls that end within the window, and the time the watched threads ran in it.
pub(crate) async fn drive<C: Caller>(callers: Vec<C>, time: Time, watched: &Watched) -> Result<Window> {
    let from = Instant::now() + time.warm;
    let until = from + time.counted;
    let calling: Vec<_> = callers.into_iter().map(|caller| tokio::spawn(call_until(caller, from, until))).collect();
    tokio::time::sleep_until(from.into()).await;
    let (earlier, began) = (watched.read()?, Instant::now());
    tokio::time::sleep_until(until.into()).await;
    let (later, ended) = (watched.read()?, Instant::now());
    let mut latencies = Vec::new();
    for caller in calling {
        let (_open, ended) = caller.await??;
        latencies.extend(ended);
    }
    Window::of(latencies, (ended - began).as_secs_f64(), later.micros_since(&earlier))
}

/// The caller is handed back, so that nothing behind it ends before the last reading.
async fn call_until<C: Caller>(mut caller: C, from: Instant, until: Instant) -> Result<(C, Vec<Duration>)> {
    let mut latencies = Vec::new();
    loop {
        let began = Instant::now();
        if began >= until {
            return Ok((caller, latencies));
        }
        caller.call().await?;
        let ended = Instant::now();
        if ended >= from && ended < until {
            latencies.push(ended - began);
        }
    }
}
