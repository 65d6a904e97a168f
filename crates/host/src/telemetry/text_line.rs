//! Formats one log event as one short line for a terminal. The JSON lines and `countersign show` have the details left out here.

use crate::ports::SystemClock;
use countersign_core::{Clock, clean};
use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// The time of day, the level, the message, and the event's own fields. A line about an invocation leaves out its org, session and
/// trace id, which do not help a reader who watches a single server. Warnings and errors show them: the trace id finds the rest.
pub(super) struct TextLine;

impl<S, N> FormatEvent<S, N> for TextLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let level = *event.metadata().level();
        let mut said = Said { went_wrong: level <= Level::WARN, has_trace: false, message: String::new(), fields: String::new() };
        event.record(&mut said);
        if said.went_wrong
            && !said.has_trace
            && let Some(trace_id) = trace_around(context)
        {
            let _ = write!(said.fields, " trace_id={trace_id}");
        }
        let moment = SystemClock.now().to_string();
        let time = moment.get(11..19).unwrap_or(&moment);
        let Said { message, fields, .. } = said;
        if writer.has_ansi_escapes() {
            let colour = match level {
                Level::ERROR => "31",
                Level::WARN => "33",
                _ => "32",
            };
            writeln!(writer, "\x1b[2m{time}Z\x1b[0m \x1b[{colour}m{level:>5}\x1b[0m {message}\x1b[2m{fields}\x1b[0m")
        } else {
            writeln!(writer, "{time}Z {level:>5} {message}{fields}")
        }
    }
}

/// The trace id that the caller was given, from the innermost span that has one. `JsonFields` wrote the span's fields as a JSON object.
fn trace_around<S, N>(context: &FmtContext<'_, S, N>) -> Option<String>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    context.event_scope()?.find_map(|span| {
        let extensions = span.extensions();
        let fields = extensions.get::<FormattedFields<N>>()?;
        let around: serde_json::Value = serde_json::from_str(&fields.fields).ok()?;
        around.get("trace_id")?.as_str().map(clean::line)
    })
}

struct Said {
    went_wrong: bool,
    has_trace: bool,
    message: String,
    fields: String,
}

impl Said {
    fn field(&mut self, field: &Field, value: &dyn fmt::Display) {
        self.has_trace |= field.name() == "trace_id";
        if self.went_wrong || !["org", "session", "mode_source", "trace_id"].contains(&field.name()) {
            // Writing to a `String` cannot fail.
            let _ = write!(self.fields, " {}={value}", field.name());
        }
    }
}

impl Visit for Said {
    fn record_bool(&mut self, field: &Field, value: bool) {
        // A flag that is false is left out, unless something went wrong.
        if value || self.went_wrong {
            self.field(field, &value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field, &clean::line(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = clean::line(&format!("{value:?}"));
        } else {
            self.field(field, &clean::line(&format!("{value:?}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Kept;
    use super::*;
    use tracing_subscriber::fmt::format::JsonFields;
    use tracing_subscriber::layer::SubscriberExt;

    fn logged(colours: bool, log: impl FnOnce()) -> String {
        let kept = Kept::default();
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(colours)
            .with_writer(kept.clone())
            .fmt_fields(JsonFields::new())
            .event_format(TextLine);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        kept.text()
    }

    #[test]
    fn an_invocation_is_one_short_line() {
        let told = logged(false, || {
            let _around = tracing::info_span!("request", trace_id = "abc").entered();
            tracing::info!(
                invocation = "inv_1",
                org = "org_1",
                action = "files.list",
                status = "succeeded",
                dry_run = false,
                trace_id = "abc",
                "invocation"
            );
        });
        let (time, rest) = told.split_once(' ').unwrap();
        assert_eq!((time.len(), rest), (9, " INFO invocation invocation=inv_1 action=files.list status=succeeded\n"));
    }

    #[test]
    fn what_went_wrong_in_a_request_is_found_by_what_its_caller_was_told() {
        let told = logged(false, || {
            let _around = tracing::info_span!("request", trace_id = "abc").entered();
            let _within = tracing::info_span!("action.exec", attempts = 1).entered();
            tracing::error!(session = "ses_1", "internal error");
        });
        assert!(told.ends_with("ERROR internal error session=ses_1 trace_id=abc\n"), "{told:?}");
    }

    #[test]
    fn what_went_wrong_can_be_found_and_breaks_no_line() {
        let told = logged(true, || tracing::warn!(trace_id = "abc", error = %"two\nlines", said = "\x1b[2J\u{202e}", "odd"));
        assert!(told.contains("trace_id=abc") && told.contains("\x1b[33m WARN"), "{told:?}");
        assert!(
            !told.contains("\x1b[2J") && told.contains("two\\nlines") && !told.contains('\u{202e}') && told.lines().count() == 1,
            "{told:?}"
        );
    }
}
