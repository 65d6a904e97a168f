//! The pool of real workers that the tests render with.

use automation::limits::{RENDER_CPU_MS, RENDER_LINE_BYTES_MAX, RENDER_MEMORY_BYTES, RENDER_WALL_MS};
use automation::template::{Reason, RenderError, Renderer, Workers};
use countersign_core::Future;
use countersign_core::limits::RENDERS_PER_WORKER;
use sandbox::worker::{Limits, Lost};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) struct Pool {
    workers: sandbox::worker::Workers,
    /// The processor time of each request whose worker was killed for it.
    killed_after: Mutex<Vec<Duration>>,
}

impl Pool {
    pub(crate) fn killed_after(&self) -> Vec<Duration> {
        self.killed_after.lock().unwrap().clone()
    }
}

impl Workers for Pool {
    fn ask(&self, request: String) -> Future<'_, Result<String, RenderError>> {
        Box::pin(async move {
            let answer = self.workers.ask(request.as_bytes()).await.map_err(|lost| match lost {
                Lost::Slow { cpu } => {
                    self.killed_after.lock().unwrap().push(cpu);
                    RenderError::new(Reason::Time, lost.to_string())
                }
                Lost::Died => RenderError::new(Reason::Output, lost.to_string()),
                Lost::Unavailable(error) => RenderError::new(Reason::Unavailable, error.to_string()),
            })?;
            Ok(String::from_utf8(answer).unwrap())
        })
    }
}

pub(crate) fn pool() -> Arc<Pool> {
    let limits = Limits {
        workers: 1,
        cpu: Duration::from_millis(RENDER_CPU_MS),
        wall: Duration::from_millis(RENDER_WALL_MS),
        address_space_bytes: RENDER_MEMORY_BYTES,
        requests_per_worker: RENDERS_PER_WORKER,
        answer_bytes_max: RENDER_LINE_BYTES_MAX,
    };
    Arc::new(Pool { workers: sandbox::worker::Workers::new(&helper(), limits).unwrap(), killed_after: Mutex::default() })
}

pub(crate) fn renderer() -> Renderer {
    Renderer::new(pool())
}

/// The example `render_worker`, which is built beside the tests.
fn helper() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let helper = test.parent().unwrap().parent().unwrap().join("examples/render_worker");
    assert!(helper.exists(), "{} is missing: `cargo build -p countersign-automation --examples`", helper.display());
    helper
}
