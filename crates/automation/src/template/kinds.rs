//! The seven tests: `{% if x is defined %}`. They say what Jinja's own say.

use minijinja::value::ValueKind;
use minijinja::{Environment, Value};

/// Every test there is.
pub const TESTS: [&str; 7] = ["defined", "none", "number", "string", "mapping", "sequence", "boolean"];

pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_test("defined", |value: &Value| !value.is_undefined());
    environment.add_test("none", Value::is_none);
    // As in Python, a boolean counts.
    environment.add_test("number", |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool));
    environment.add_test("string", |value: &Value| value.kind() == ValueKind::String);
    environment.add_test("mapping", |value: &Value| value.kind() == ValueKind::Map);
    // As in Python, whatever has a length and items.
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::String | ValueKind::Map)
    });
    environment.add_test("boolean", |value: &Value| value.kind() == ValueKind::Bool);
}
