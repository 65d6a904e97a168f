//! The JSON Schema of filters, with the rules as descriptions: an editor shows them, and a model that writes filters reads them.

use crate::limits;
use serde_json::{Value, json};

/// The schema's name.
const ID: &str = "urn:countersign:schema:filter:1";

/// What a filter may look like. The budget beyond the bounds here, and whether a regex compiles, only `Filter::parse` knows.
pub fn schema() -> Value {
    let scalar = json!({ "type": ["string", "number", "boolean", "null"] });
    let listed = json!({ "type": "array", "minItems": 1, "maxItems": limits::FILTER_VALUES_MAX, "items": { "$ref": "#/$defs/scalar" } });
    let text = json!({ "type": "string", "minLength": 1, "maxLength": limits::FILTER_TEXT_BYTES_MAX });
    let number = json!({ "type": "number" });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "Event filter",
        "$ref": "#/$defs/filter",
        "$defs": {
            "filter": {
                "type": "object",
                "description": FILTER,
                "minProperties": 1,
                "propertyNames": { "anyOf": [
                    { "enum": ["$and", "$or", "$not"] },
                    { "pattern": r"^(?:[^.\\$]|\\[.\\])(?:[^.\\]|\\[.\\])*(?:\.(?:[^.\\]|\\[.\\])+)*$" },
                ] },
                "properties": {
                    "$and": described(json!({ "$ref": "#/$defs/filters" }), "Every filter of the list holds, each for itself: they need not speak of the same element of an array."),
                    "$or": described(json!({ "$ref": "#/$defs/filters" }), "At least one filter of the list holds."),
                    "$not": described(json!({ "$ref": "#/$defs/filter" }), "The filter does not hold: the true complement, so a missing field satisfies it."),
                },
                "additionalProperties": { "$ref": "#/$defs/test" },
            },
            "filters": { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/filter" } },
            "scalar": described(scalar, NUMBER),
            "test": { "description": TEST, "anyOf": [{ "$ref": "#/$defs/scalar" }, { "$ref": "#/$defs/operators" }] },
            "operators": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": false,
                "properties": {
                    "equals": described(json!({ "$ref": "#/$defs/scalar" }), EQUALS),
                    "not_equals": described(json!({ "$ref": "#/$defs/scalar" }), NEGATION),
                    "in": described(listed.clone(), "The value, or an element of it, equals one of the list."),
                    "not_in": described(listed, NEGATION),
                    "starts_with": described(text.clone(), TEXT),
                    "ends_with": described(text.clone(), TEXT),
                    "contains": described(text, "The string has this part. To ask whether an array has an element, use `equals`."),
                    "regex": described(json!({ "type": "string", "minLength": 1, "maxLength": limits::FILTER_REGEX_BYTES_MAX }), REGEX),
                    "gt": described(number.clone(), ORDER),
                    "gte": described(number.clone(), ORDER),
                    "lt": described(number.clone(), ORDER),
                    "lte": described(number, ORDER),
                    "exists": described(json!({ "type": "boolean" }), EXISTS),
                },
            },
        },
    })
}

fn described(mut schema: Value, text: &str) -> Value {
    schema["description"] = text.into();
    schema
}

const FILTER: &str = "All members hold. A name is a path from the event's root, with dots between names; a dot in a name is written `\\.`, a \
    backslash `\\\\`. Members of one object whose paths go on through one array speak of the same element of it, and the element is judged alone, \
    negations too; an absent or empty array is one missing element.";
const TEST: &str = "Operators that all hold, or one value as short for `equals`. Of an array, some element satisfies all positive operators, and \
    none is excluded by a negated one. Arrays in arrays are descended. A value of another type satisfies no positive operator: nothing is converted.";
const EQUALS: &str = "The value, or an element of it, is this one: of the same type, strings by code point and case. A missing field equals \
    nothing, not even null; a field that is null equals null.";
const NEGATION: &str = "The true complement of the positive operator: no value and no element equals. A missing field satisfies it; add \
    `\"exists\": true` to require the field.";
const NUMBER: &str = "Numbers are exact: integers from -2^63 to 2^64-1 never go through a double, others are doubles that are compared exactly \
    with integers. 1, 1.0 and 1e0 are equal, as are -0 and 0; 2^53+1 and 2^53 are not.";
const TEXT: &str = "Strings by code point and case, without normalisation. Other types do not match.";
const REGEX: &str = "Rust's `regex` syntax, searched anywhere in the string: anchor it with ^ and $ for the whole. Case matters unless it starts with \
    (?i). No look-around and no back-references, so it takes linear time. The first 16 KB of a string are searched.";
const ORDER: &str = "Needs numbers on both sides. Strings have no order.";
const EXISTS: &str = "Whether the field is there. Null is there, and so is an empty array; in an array of objects, some element has it.";
