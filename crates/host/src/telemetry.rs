//! Logs and metrics. Neither contains params, results or tokens.

mod json_line;
mod text_line;

use crate::config::LogFormat;
use json_line::JsonLine;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::io::IsTerminal as _;
use text_line::TextLine;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Buckets in seconds, from a decision in memory to a slow source.
const SECONDS: [f64; 14] = [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];
/// Buckets in seconds for the time a person takes to answer.
const APPROVAL_SECONDS: [f64; 10] = [1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3_600.0, 86_400.0];
const BATCH_WRITES: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0];

/// Starts logging to stderr, in colour where that is a terminal. A second call changes nothing.
pub fn init_logs(format: LogFormat, level: &Targets) {
    let lines = tracing_subscriber::fmt::layer().with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(quieted(level));
    let _already = match format {
        LogFormat::Json => registry.with(lines.fmt_fields(JsonFields::new()).event_format(JsonLine)).try_init(),
        LogFormat::Text => registry.with(lines.fmt_fields(JsonFields::new()).event_format(TextLine)).try_init(),
    };
}

/// SECURITY: below its warnings, the MCP library logs whole messages, and they hold params and results. An operator who wants them has to name
/// it.
fn quieted(level: &Targets) -> Targets {
    if level.iter().any(|(target, _)| target.starts_with("rmcp")) {
        return level.clone();
    }
    let loudest = level.default_level().unwrap_or(LevelFilter::OFF).min(LevelFilter::WARN);
    level.clone().with_target("rmcp", loudest)
}

/// Installs the metrics recorder for this process; `None` if one is already installed.
pub fn init_metrics() -> Option<PrometheusHandle> {
    let recorder = PrometheusBuilder::new()
        // The full name, because two suffixes would match and we do not decide which of them wins.
        .set_buckets_for_metric(Matcher::Full("countersign_approval_seconds".into()), &APPROVAL_SECONDS)
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("batch_writes".into()), &BATCH_WRITES))
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS));
    match recorder.map(PrometheusBuilder::install_recorder) {
        Ok(Ok(handle)) => Some(handle),
        Ok(Err(error)) | Err(error) => {
            tracing::warn!(%error, "metrics are not recorded by this server");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::quieted;
    use parking_lot::Mutex;
    use std::io;
    use std::sync::Arc;
    use tracing_subscriber::fmt::MakeWriter;

    /// Keeps everything that was logged.
    #[derive(Clone, Default)]
    pub(super) struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Kept {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn the_mcp_library_is_quiet_unless_an_operator_names_it() {
        use tracing::Level;
        for (level, warns, tells) in [
            ("debug", true, false),
            ("info", true, false),
            ("error", false, false),
            ("info,rmcp=debug", true, true),
            ("trace,store=off", true, false),
        ] {
            let quieted = quieted(&level.parse().unwrap());
            let told = |level| quieted.would_enable("rmcp::service", &level);
            assert_eq!((told(Level::WARN), told(Level::DEBUG)), (warns, tells), "{level}");
        }
        assert!(quieted(&"debug".parse().unwrap()).would_enable("http_door::trace", &Level::DEBUG));
    }

    impl Kept {
        pub(super) fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).unwrap()
        }
    }
}
