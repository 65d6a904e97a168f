//! How long each stage takes, measured from its first line to its last.

use std::time::Instant;

/// Records when it is dropped.
pub(crate) struct Timed {
    stage: &'static str,
    began: Instant,
}

/// Keep the value until the stage ends.
pub(crate) fn timed(stage: &'static str) -> Timed {
    Timed { stage, began: Instant::now() }
}

impl Drop for Timed {
    fn drop(&mut self) {
        metrics::histogram!("countersign_stage_seconds", "stage" => self.stage).record(self.began.elapsed().as_secs_f64());
    }
}
