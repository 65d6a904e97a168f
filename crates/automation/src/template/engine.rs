//! The engine, with nothing in it but our filters and tests, and with its own limits set. What they do not stop, a worker's limits do.

use super::error::{Reason, RenderError};
use super::json::{Limit, text_of, undefined, value_of};
use super::{filters, kinds};
use crate::limits::{TEMPLATE_DEPTH_MAX, TEMPLATE_FUEL, TEMPLATE_OUTPUT_BYTES_MAX};
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value};
use std::error::Error as _;
use std::io;
use std::sync::LazyLock;

/// Characters of the engine's message that an error repeats.
const MESSAGE_CHARS_MAX: usize = 300;
/// Characters of a template that an error repeats.
const EXCERPT_CHARS_MAX: usize = 100;

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(TEMPLATE_FUEL));
    environment.set_recursion_limit(TEMPLATE_DEPTH_MAX);
    environment.set_formatter(|out, _, value| {
        match value.as_str() {
            Some(text) => out.write_str(text),
            // Only an `if` without `else` that is false comes here without a value; as in Jinja, it renders nothing.
            None if value.is_undefined() => Ok(()),
            None => out.write_str(&text_of(value)?),
        }
        .map_err(|_| Error::from(ErrorKind::WriteFailure))
    });
    filters::add(&mut environment);
    kinds::add(&mut environment);
    environment
});

/// A template as text.
pub(super) fn text(source: &str, context: Value) -> Result<String, RenderError> {
    let environment: &Environment<'_> = &ENVIRONMENT;
    let mut out = Bounded(vec![]);
    let template = environment.template_from_str(source).map_err(|error| told(error, source))?;
    template.render_captured_to(context, &mut out).map_err(|error| told(error, source))?;
    String::from_utf8(out.0).map_err(|error| RenderError::new(Reason::Failed, error.to_string()))
}

/// An expression with its JSON type.
pub(super) fn value(expression: &str, context: Value) -> Result<serde_json::Value, RenderError> {
    value_of(&evaluate(expression, context)?).map_err(|error| told(error, expression))
}

/// Whether an expression holds. A string is refused: `"false"` would be true.
pub(super) fn holds(expression: &str, context: Value) -> Result<bool, RenderError> {
    let value = evaluate(expression, context)?;
    if value.kind() == ValueKind::String {
        let message = "the condition is a string, which is neither true nor false: compare it with something";
        return Err(RenderError::new(Reason::WhenNotBoolean, message));
    }
    Ok(value.is_true())
}

fn evaluate(expression: &str, context: Value) -> Result<Value, RenderError> {
    let environment: &Environment<'_> = &ENVIRONMENT;
    let value = environment.compile_expression(expression).and_then(|expression| expression.eval(context));
    let value = value.map_err(|error| told(error, expression))?;
    // The engine itself would let it pass.
    if value.is_undefined() { Err(told(undefined(), expression)) } else { Ok(value) }
}

/// The engine's error in our words, with the part of the template that it is about: never with what the template was given.
fn told(error: Error, source: &str) -> RenderError {
    let limit = std::iter::successors(error.source(), |error| (*error).source()).find_map(|error| error.downcast_ref::<Limit>());
    let kind = error.kind();
    let unknown = [ErrorKind::UnknownFilter, ErrorKind::UnknownTest, ErrorKind::UnknownFunction, ErrorKind::UnknownMethod];
    let reason = match limit {
        Some(Limit(reason)) => *reason,
        None if kind == ErrorKind::SyntaxError => Reason::Syntax,
        None if kind == ErrorKind::UndefinedError => Reason::Undefined,
        None if unknown.contains(&kind) => Reason::FilterUnknown,
        None if kind == ErrorKind::OutOfFuel => Reason::Time,
        None if kind == ErrorKind::WriteFailure => Reason::Output,
        None => Reason::Failed,
    };
    let message = match reason {
        Reason::Time => format!("the template takes more than {TEMPLATE_FUEL} steps"),
        Reason::Output if limit.is_none() => format!("the template renders more than {TEMPLATE_OUTPUT_BYTES_MAX} bytes"),
        Reason::Output
        | Reason::Syntax
        | Reason::Undefined
        | Reason::FilterUnknown
        | Reason::TooLarge
        | Reason::Failed
        | Reason::WhenNotBoolean
        | Reason::Misfit
        | Reason::Unavailable => in_line(&error, source),
    };
    RenderError::new(reason, message)
}

fn in_line(error: &Error, source: &str) -> String {
    let kind = error.kind();
    let what = error.detail().map_or_else(|| kind.to_string(), |detail| format!("{kind}: {detail}"));
    let what: String = what.chars().take(MESSAGE_CHARS_MAX).collect();
    let line = error.line().unwrap_or(1);
    format!("{what} in `{}` (line {line})", excerpt(source, line))
}

/// The line from its first tag on: what is before that cannot fail.
fn excerpt(source: &str, line: usize) -> String {
    let line = source.lines().nth(line - 1).unwrap_or_default();
    let tag = ["{{", "{%"].into_iter().filter_map(|opening| line.find(opening)).min().unwrap_or_default();
    line.get(tag..).unwrap_or_default().trim().chars().take(EXCERPT_CHARS_MAX).collect()
}

/// Takes as much as a template may render.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > TEMPLATE_OUTPUT_BYTES_MAX {
            return Err(io::Error::other("the output is full"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
