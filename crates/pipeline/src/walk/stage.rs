//! How long each stage takes, measured from its first line to its last.

use metrics::Histogram;
use std::time::Instant;

/// The stages of a call. `Source` is the request to the source inside `execute`.
#[derive(Clone, Copy)]
pub(crate) enum Stage {
    Admit,
    Resolve,
    Validate,
    Gate,
    Decide,
    Replay,
    Hold,
    Source,
    Verify,
    Record,
}

/// One histogram per stage, looked up once: a look-up costs more than some stages take.
pub(crate) struct Stages([Histogram; 10]);

/// Records the elapsed time when it is dropped.
pub(crate) struct Timed<'p> {
    histogram: &'p Histogram,
    began: Instant,
}

impl Stages {
    pub(crate) fn new() -> Self {
        let names = ["admit", "resolve", "validate", "gate", "decide", "replay", "hold", "source", "verify", "record"];
        Self(names.map(|name| metrics::histogram!("countersign_stage_seconds", "stage" => name)))
    }

    /// Keep the returned value until the stage ends.
    pub(crate) fn timed(&self, stage: Stage) -> Timed<'_> {
        Timed { histogram: &self.0[stage as usize], began: Instant::now() }
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        self.histogram.record(self.began.elapsed().as_secs_f64());
    }
}
