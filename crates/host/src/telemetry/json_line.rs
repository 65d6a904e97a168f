//! Formats one log event as one line of JSON, in a single pass, since every invocation writes one.

use crate::ports::SystemClock;
use countersign_core::Clock;
use std::fmt;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// `timestamp`, `level`, the event's fields, those of the spans around it if the event has no `trace_id` of its own, `target`.
pub(super) struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let mut line = Line { text: Vec::with_capacity(512), names: Vec::new() };
        line.text.extend_from_slice(b"{\"timestamp\":");
        line.value(&SystemClock.now());
        line.member("level", metadata.level().as_str());
        event.record(&mut line);
        if !line.names.contains(&"trace_id") {
            let mut around = serde_json::Map::new();
            for span in context.event_scope().into_iter().flatten() {
                // `JsonFields` wrote the span's fields as a JSON object when the span began. The value of an inner span wins over that of
                // an outer one.
                let members = span.extensions().get::<FormattedFields<N>>().map(|fields| fields.fields.clone()).unwrap_or_default();
                for (name, value) in serde_json::from_str::<serde_json::Map<_, _>>(&members).unwrap_or_default() {
                    around.entry(name).or_insert(value);
                }
            }
            for (name, value) in around {
                if !line.names.contains(&name.as_str()) {
                    line.member(&name, &value);
                }
            }
        }
        line.member("target", metadata.target());
        line.text.extend_from_slice(b"}\n");
        writer.write_str(std::str::from_utf8(&line.text).map_err(|_| fmt::Error)?)
    }
}

struct Line {
    /// The JSON written so far. All texts in it are UTF-8, so the whole is too.
    text: Vec<u8>,
    /// The names of the event's own fields.
    names: Vec<&'static str>,
}

impl Line {
    fn member<T: serde::Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.text.push(b',');
        self.value(name);
        self.text.push(b':');
        self.value(value);
    }

    fn value<T: serde::Serialize + ?Sized>(&mut self, value: &T) {
        let before = self.text.len();
        // Values are texts, numbers and booleans, which can always be written as JSON.
        if serde_json::to_writer(&mut self.text, value).is_err() {
            self.text.truncate(before);
            self.text.extend_from_slice(b"null");
        }
    }

    fn field<T: serde::Serialize + ?Sized>(&mut self, field: &Field, value: &T) {
        self.names.push(field.name());
        self.member(field.name(), value);
    }
}

impl Visit for Line {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.field(field, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.field(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.field(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.field(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.field(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Kept;
    use super::*;
    use tracing_subscriber::fmt::format::JsonFields;
    use tracing_subscriber::layer::SubscriberExt;

    fn logged(log: impl FnOnce()) -> Vec<serde_json::Value> {
        let kept = Kept::default();
        let layer = tracing_subscriber::fmt::layer().with_writer(kept.clone()).fmt_fields(JsonFields::new()).event_format(JsonLine);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        kept.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn what_is_said_twice_is_written_once_and_the_innermost_counts() {
        let lines = logged(|| {
            let _request = tracing::info_span!("request", trace_id = "abc", invocation = "outer").entered();
            let _within = tracing::info_span!("action.exec", trace_id = "def", invocation = "inner", action = "files.list").entered();
            tracing::warn!(action = "its own", "told");
        });
        let line = &lines[0];
        assert_eq!((&line["trace_id"], &line["invocation"], &line["action"]), (&"def".into(), &"inner".into(), &"its own".into()));
        assert_eq!(line.as_object().unwrap().len(), 7, "{line}");
    }

    #[test]
    fn an_event_is_one_line_of_json_with_its_trace_id() {
        let lines = logged(|| {
            let _entered = tracing::info_span!("request", trace_id = "abc").entered();
            tracing::info!(action = "files.list", times = 3, well = true, odd = ?"a \"b\"\n", "invocation");
            tracing::warn!(trace_id = "its own", "told");
        });
        assert_eq!(lines.len(), 2);
        let first = &lines[0];
        assert_eq!((&first["level"], &first["message"], &first["trace_id"]), (&"INFO".into(), &"invocation".into(), &"abc".into()));
        assert_eq!((&first["action"], &first["times"], &first["well"]), (&"files.list".into(), &3.into(), &true.into()));
        assert_eq!(first["odd"], "\"a \\\"b\\\"\\n\"");
        assert!(first["timestamp"].as_str().unwrap().ends_with('Z'), "{first}");
        assert_eq!(lines[1]["trace_id"], "its own");
    }

    #[test]
    fn outside_of_a_request_there_is_no_trace_id() {
        let lines = logged(|| tracing::error!("away"));
        assert_eq!((&lines[0]["message"], lines[0].get("trace_id")), (&"away".into(), None));
    }
}
