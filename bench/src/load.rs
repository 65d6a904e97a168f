//! Drives callers for a fixed time. Each calls again as soon as it has its answer.

use crate::cpu::Watched;
use crate::stats::Window;
use anyhow::Result;
use std::time::{Duration, Instant};

/// One caller, which makes one call at a time.
pub(crate) trait Caller: Send + 'static {
    fn call(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// How long callers call before the calls are counted, and for how long they are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    pub(crate) warm: Duration,
    pub(crate) counted: Duration,
}

/// A disk may hang for longer than a window. A window in which no call ended says nothing, so it is measured again, up to this often.
const WINDOWS_MAX: usize = 10;

/// Lets all callers call. It counts the calls that end within the window, and the CPU time of the watched threads in it.
pub(crate) async fn drive<C: Caller>(mut callers: Vec<C>, time: Time, watched: &Watched) -> Result<Window> {
    for _ in 0..WINDOWS_MAX {
        let (window, back) = drive_once(callers, time, watched).await?;
        if let Some(window) = window {
            return Ok(window);
        }
        eprintln!("== not one call ended within {:?}: measuring again", time.counted);
        callers = back;
    }
    anyhow::bail!("not one call ended within {WINDOWS_MAX} times {:?}", time.counted)
}

async fn drive_once<C: Caller>(callers: Vec<C>, time: Time, watched: &Watched) -> Result<(Option<Window>, Vec<C>)> {
    let from = Instant::now() + time.warm;
    let until = from + time.counted;
    let calling: Vec<_> = callers.into_iter().map(|caller| tokio::spawn(call_until(caller, from, until))).collect();
    tokio::time::sleep_until(from.into()).await;
    let (earlier, began) = (watched.read()?, Instant::now());
    tokio::time::sleep_until(until.into()).await;
    let (later, ended) = (watched.read()?, Instant::now());
    let (mut latencies, mut back) = (Vec::new(), Vec::new());
    for caller in calling {
        let (caller, ended) = caller.await??;
        latencies.extend(ended);
        back.push(caller);
    }
    Ok((Window::of(latencies, (ended - began).as_secs_f64(), later.micros_since(&earlier)), back))
}

/// Calls until the end of the window. It returns the caller, so that the threads behind it live until the last CPU reading.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller whose first call takes longer than the window.
    struct Stuck {
        calls: u32,
    }

    impl Caller for Stuck {
        async fn call(&mut self) -> Result<()> {
            self.calls += 1;
            tokio::time::sleep(Duration::from_millis(if self.calls == 1 { 400 } else { 1 })).await;
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_window_without_a_call_is_measured_again() {
        let time = Time { warm: Duration::ZERO, counted: Duration::from_millis(100) };
        let window = drive(vec![Stuck { calls: 0 }], time, &Watched::process(std::process::id())).await.unwrap();
        assert!(window.per_second > 0.0);
    }
}
