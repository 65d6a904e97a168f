//! Renders templates, the costly ones in workers of the sandbox: this very executable, started again.

use crate::limits::RENDER_WORKERS_MAX;
use automation::limits::{RENDER_CPU_MS, RENDER_LINE_BYTES_MAX, RENDER_MEMORY_BYTES, RENDER_WALL_MS};
use automation::template::{Reason, RenderError, Renderer, Workers};
use countersign_core::Future;
use countersign_core::limits::RENDERS_PER_WORKER;
use homes::jail::HELPER;
use sandbox::worker::{Limits, Lost};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

struct RenderWorkers(sandbox::worker::Workers);

impl Workers for RenderWorkers {
    fn ask(&self, request: String) -> Future<'_, Result<String, RenderError>> {
        Box::pin(async move {
            let answer = self.0.ask(request.as_bytes()).await.map_err(told)?;
            String::from_utf8(answer).map_err(|error| RenderError::new(Reason::Unavailable, error.to_string()))
        })
    }
}

fn told(lost: Lost) -> RenderError {
    match lost {
        Lost::Slow { .. } => RenderError::new(Reason::Time, format!("the template takes more than {RENDER_CPU_MS} ms of processor time")),
        Lost::Died => {
            let most = RENDER_MEMORY_BYTES / (1024 * 1024);
            RenderError::new(Reason::Output, format!("the template needs more than {most} MB of memory"))
        }
        Lost::Unavailable(error) => RenderError::new(Reason::Unavailable, error.to_string()),
    }
}

/// A renderer with workers of its own. They start when the first template needs one, and end with the renderer.
pub(crate) fn renderer() -> Result<Renderer, sandbox::Error> {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let limits = Limits {
        workers: processors.min(RENDER_WORKERS_MAX),
        cpu: Duration::from_millis(RENDER_CPU_MS),
        wall: Duration::from_millis(RENDER_WALL_MS),
        address_space_bytes: RENDER_MEMORY_BYTES,
        requests_per_worker: RENDERS_PER_WORKER,
        answer_bytes_max: RENDER_LINE_BYTES_MAX,
    };
    let workers = sandbox::worker::Workers::new(Path::new(HELPER), limits)?;
    Ok(Renderer::new(Arc::new(RenderWorkers(workers))))
}
