//! A JSON Schema from outside, and checks of values by it that cannot cost more than a bound.
//!
//! SECURITY: schemas come from strangers: grants, packages, servers of others. A small schema can take for ever to check, so it is bounded
//! twice. When it is compiled, by what it expands to at one place of a value; when a value is checked, by the number of steps that takes.
//! Patterns run on a linear-time engine, and references are resolved inside the schema only. What is counted here must be what the validator
//! does: whatever the two could read differently is refused.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use regex_automata::nfa::thompson;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// How many subschemas a schema may apply to one place of a value.
const EXPANDED_MAX: u64 = 10_000;
/// How many subschemas a schema may have in all, and how deep they may be nested.
const PARTS_MAX: usize = 20_000;
const NESTED_MAX: usize = 64;
/// How many regular expressions a schema may hold, and how many bytes each may take when it is compiled.
const PATTERNS_MAX: usize = 64;
const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// How many steps a check may take, and how many on a thread that serves.
const STEPS_MAX: u64 = 2_000_000;
const STEPS_SERVING: u64 = 20_000;
/// How deep subschemas and values may be entered together.
const DEPTH_MAX: usize = 256;
/// How many errors are listed.
const ERRORS_MAX: usize = 100;
/// How many of the allowed values are listed in the message that refuses a value.
const OPTIONS_SHOWN_MAX: usize = 20;

/// Keywords whose subschemas apply to the same place as the schema itself: one of them, a list of them, or several by name.
const IN_PLACE_ONE: [&str; 4] = ["not", "if", "then", "else"];
const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const IN_PLACE_NAMED: [&str; 1] = ["dependentSchemas"];
/// Keywords whose subschemas apply to a part of the value.
const BELOW_ONE: [&str; 6] = ["items", "contains", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames"];
const BELOW_LISTS: [&str; 1] = ["prefixItems"];
const BELOW_NAMED: [&str; 2] = ["properties", "patternProperties"];
/// Places of subschemas that apply nowhere by themselves.
const KEPT: [&str; 2] = ["$defs", "definitions"];
/// Keywords that make what a schema applies depend on where it was reached from, and those of earlier drafts that the validator applies too.
const REFUSED: [&str; 6] = ["$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "dependencies", "additionalItems"];
/// Keywords that only the whole schema may have.
const TOP_ONLY: [&str; 2] = ["$id", "$schema"];
/// What a pattern is taken to cost whose states cannot be counted.
const UNKNOWN_STATES: usize = 4096;

/// The other keywords of draft 2020-12. Those that only describe, such as `title`, are keywords too.
const OTHERS: &str = "$schema $id $ref $anchor $comment $vocabulary type enum const multipleOf maximum exclusiveMaximum minimum \
    exclusiveMinimum maxLength minLength pattern maxItems minItems uniqueItems maxContains minContains maxProperties minProperties required \
    dependentRequired format contentEncoding contentMediaType contentSchema title description default deprecated readOnly writeOnly examples";

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableSchema {
    /// Checking by it could take for ever.
    #[error("{0}")]
    TooCostly(String),
    /// It is wrong at this place.
    #[error("{message}")]
    Invalid { pointer: String, message: String },
}

impl UnusableSchema {
    fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { pointer: pointer.into(), message: message.into() }
    }
}

/// A compiled schema.
pub(crate) struct Schema {
    text: Value,
    /// Subschemas by their `$anchor`, as pointers.
    anchors: HashMap<String, String>,
    /// How many states the automaton of each pattern has.
    patterns: HashMap<String, usize>,
    validator: Validator,
}

/// One place where a value does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) pointer: String,
    pub(crate) message: String,
}

/// Checking this value by this schema would take more steps than one check may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("checking it by its schema would take too many steps")]
pub(crate) struct TooCostly;

impl Schema {
    pub(crate) fn compile(text: &Value) -> Result<Self, UnusableSchema> {
        let mut looked = Looked::default();
        looked.look_at(text, &mut String::new(), 0)?;
        let mut patterns = HashMap::new();
        find_patterns(text, &mut patterns);
        if patterns.len() > PATTERNS_MAX {
            return Err(UnusableSchema::TooCostly(format!("it has more than {PATTERNS_MAX} patterns")));
        }
        for (pattern, states) in &mut patterns {
            let size = thompson::Config::new().nfa_size_limit(Some(PATTERN_BYTES_MAX));
            *states = thompson::Compiler::new().configure(size).build(pattern).map_or(UNKNOWN_STATES, |nfa| nfa.states().len());
        }
        let mut sizes = Sizes { root: text, looked: &looked, known: HashMap::new(), depth: 0 };
        sizes.check_all(text)?;
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(true)
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX))
            .build(text)
            .map_err(|error| UnusableSchema::at(error.instance_path().to_string(), error.to_string()))?;
        Ok(Self { text: text.clone(), anchors: looked.anchors, patterns, validator })
    }

    pub(crate) fn is_of(&self, text: &Value) -> bool {
        self.text == *text
    }

    /// Refuses keywords that draft 2020-12 does not have. A check would ignore them, so a schema that is meant to constrain would not.
    pub(crate) fn check_keywords(&self) -> Result<(), UnusableSchema> {
        check_keywords(&self.text, "")
    }

    /// Where the value does not fit. What takes long is checked on a thread that serves nobody.
    pub(crate) async fn mismatches(self: &Arc<Self>, value: &Value) -> Result<Vec<Mismatch>, TooCostly> {
        if self.count(value, STEPS_SERVING).is_ok() {
            return Ok(self.list(value));
        }
        let (schema, value) = (Arc::clone(self), value.clone());
        let checked = tokio::task::spawn_blocking(move || schema.count(&value, STEPS_MAX).map(|()| schema.list(&value))).await;
        checked.unwrap_or(Err(TooCostly))
    }

    fn list(&self, value: &Value) -> Vec<Mismatch> {
        let mismatch = |error: ValidationError<'_>| Mismatch { pointer: error.instance_path().to_string(), message: in_words(&error) };
        self.validator.iter_errors(value).take(ERRORS_MAX).map(mismatch).collect()
    }

    /// Counts the steps that a check of the value takes, up to this many.
    fn count(&self, value: &Value, steps_max: u64) -> Result<(), TooCostly> {
        Steps { schema: self, left: steps_max }.enter(&self.text, value, 0)
    }
}

/// Finds the regular expressions that the schema holds. Each is compiled, which takes far longer than its length suggests.
fn find_patterns(schema: &Value, found: &mut HashMap<String, usize>) {
    match schema {
        Value::Object(members) => {
            let named = members.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::keys).map(String::as_str);
            let own = members.get("pattern").and_then(Value::as_str);
            found.extend(named.chain(own).map(|pattern| (pattern.to_owned(), 0)));
            members.values().for_each(|member| find_patterns(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| find_patterns(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The subschema that a reference names; `None` if it names none inside the schema.
fn resolve<'a>(root: &'a Value, anchors: &HashMap<String, String>, reference: &str) -> Option<&'a Value> {
    let fragment = reference.strip_prefix('#')?;
    if fragment.is_empty() || fragment.starts_with('/') {
        return root.pointer(fragment);
    }
    root.pointer(anchors.get(fragment)?)
}

/// Every subschema of a schema, with the last steps of the pointer to it, and whether it applies to the same place.
fn subschemas(schema: &Map<String, Value>) -> Vec<(String, bool, &Value)> {
    let mut found = Vec::new();
    let mut one = |keyword: &str, is_in_place| {
        if let Some(sub) = schema.get(keyword) {
            found.push((format!("/{keyword}"), is_in_place, sub));
        }
    };
    IN_PLACE_ONE.iter().for_each(|keyword| one(keyword, true));
    BELOW_ONE.iter().for_each(|keyword| one(keyword, false));
    let mut list = |keyword: &str, is_in_place| {
        let subs = schema.get(keyword).and_then(Value::as_array).into_iter().flatten().enumerate();
        found.extend(subs.map(|(at, sub)| (format!("/{keyword}/{at}"), is_in_place, sub)));
    };
    IN_PLACE_LISTS.iter().for_each(|keyword| list(keyword, true));
    BELOW_LISTS.iter().for_each(|keyword| list(keyword, false));
    let mut named = |keyword: &str, is_in_place| {
        let subs = schema.get(keyword).and_then(Value::as_object).into_iter().flatten();
        found.extend(subs.map(|(name, sub)| (format!("/{keyword}/{}", escaped(name)), is_in_place, sub)));
    };
    IN_PLACE_NAMED.iter().for_each(|keyword| named(keyword, true));
    BELOW_NAMED.iter().chain(&KEPT).for_each(|keyword| named(keyword, false));
    found
}

/// A name as a step of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// What a first look at a schema finds.
#[derive(Default)]
struct Looked {
    /// Every subschema, by address.
    parts: HashSet<*const Value>,
    anchors: HashMap<String, String>,
}

impl Looked {
    /// Checks the form of a schema.
    fn look_at(&mut self, schema: &Value, pointer: &mut String, nested: usize) -> Result<(), UnusableSchema> {
        self.parts.insert(schema);
        if self.parts.len() > PARTS_MAX {
            return Err(UnusableSchema::TooCostly(format!("it has more than {PARTS_MAX} subschemas")));
        }
        if nested > NESTED_MAX {
            return Err(UnusableSchema::TooCostly(format!("its subschemas are nested deeper than {NESTED_MAX}")));
        }
        let Value::Object(schema) = schema else { return Ok(()) };
        let has = |keyword: &&&str| schema.contains_key(**keyword);
        if let Some(refused) = REFUSED.iter().find(has) {
            return Err(UnusableSchema::at(pointer.as_str(), format!("`{refused}` at `{pointer}` is not supported")));
        }
        if let Some(refused) = TOP_ONLY.iter().find(has).filter(|_| nested > 0) {
            return Err(UnusableSchema::at(pointer.as_str(), format!("`{refused}` at `{pointer}` is not supported below the top")));
        }
        if schema.get("items").is_some_and(Value::is_array) {
            return Err(UnusableSchema::at(pointer.as_str(), format!("a list in `items` at `{pointer}` is called `prefixItems` now")));
        }
        if let Some(anchor) = schema.get("$anchor").and_then(Value::as_str) {
            self.anchors.insert(anchor.to_owned(), pointer.clone());
        }
        for (step, _, sub) in subschemas(schema) {
            let before = pointer.len();
            pointer.push_str(&step);
            self.look_at(sub, pointer, nested + 1)?;
            pointer.truncate(before);
        }
        Ok(())
    }
}

fn is_keyword(name: &str) -> bool {
    let with_subschemas: [&[&str]; 7] = [&IN_PLACE_ONE, &IN_PLACE_LISTS, &IN_PLACE_NAMED, &BELOW_ONE, &BELOW_LISTS, &BELOW_NAMED, &KEPT];
    with_subschemas.iter().any(|keywords| keywords.contains(&name)) || OTHERS.split(' ').any(|keyword| keyword == name)
}

fn check_keywords(schema: &Value, pointer: &str) -> Result<(), UnusableSchema> {
    let Value::Object(keywords) = schema else { return Ok(()) };
    if let Some(unknown) = keywords.keys().find(|keyword| !is_keyword(keyword)) {
        let at = format!("{pointer}/{}", escaped(unknown));
        let message = format!("`{}` at `{}` is not a keyword of JSON Schema, draft 2020-12", shown(unknown), shown(&at));
        return Err(UnusableSchema::at(at, message));
    }
    subschemas(keywords).into_iter().try_for_each(|(step, _, sub)| check_keywords(sub, &format!("{pointer}{step}")))
}

/// How many subschemas each subschema applies to one place of a value, its references expanded.
struct Sizes<'a> {
    root: &'a Value,
    looked: &'a Looked,
    /// By address; `None` while it is being computed.
    known: HashMap<*const Value, Option<u64>>,
    /// How many are being computed.
    depth: usize,
}

impl<'a> Sizes<'a> {
    fn check_all(&mut self, schema: &'a Value) -> Result<(), UnusableSchema> {
        self.size_of(schema)?;
        let Value::Object(schema) = schema else { return Ok(()) };
        subschemas(schema).into_iter().try_for_each(|(_, _, sub)| self.check_all(sub))
    }

    fn size_of(&mut self, schema: &'a Value) -> Result<u64, UnusableSchema> {
        let Value::Object(keywords) = schema else { return Ok(1) };
        match self.known.get(&std::ptr::from_ref(schema)) {
            Some(Some(size)) => return Ok(*size),
            Some(None) => return Err(UnusableSchema::TooCostly("it refers to itself without entering a part of the value".to_owned())),
            None => {}
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(UnusableSchema::TooCostly(format!("it refers from one subschema to the next more than {DEPTH_MAX} times")));
        }
        self.known.insert(schema, None);
        let mut size = 1_u64;
        if let Some(reference) = keywords.get("$ref") {
            let reference = reference.as_str().unwrap_or_default();
            // The validator would decode `%41`, and follow a reference into a value that is no subschema, such as an example.
            let target = resolve(self.root, &self.looked.anchors, reference).filter(|_| !reference.contains('%'));
            let target = target.filter(|target| self.looked.parts.contains(&std::ptr::from_ref(*target)));
            let nothing = || UnusableSchema::at("", format!("the reference `{}` names no subschema of this schema", shown(reference)));
            let target = target.ok_or_else(nothing)?;
            size = size.saturating_add(self.size_of(target)?);
        }
        for (_, is_in_place, sub) in subschemas(keywords) {
            if is_in_place {
                size = size.saturating_add(self.size_of(sub)?);
            }
        }
        if size > EXPANDED_MAX {
            return Err(UnusableSchema::TooCostly(format!("it expands to more than {EXPANDED_MAX} subschemas")));
        }
        self.depth -= 1;
        self.known.insert(schema, Some(size));
        Ok(size)
    }
}

fn shown(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

/// Counts the steps of a check without making it: it enters every subschema that the check may enter.
struct Steps<'a> {
    schema: &'a Schema,
    left: u64,
}

impl Steps<'_> {
    fn take(&mut self, steps: usize) -> Result<(), TooCostly> {
        self.left = self.left.checked_sub(steps as u64).ok_or(TooCostly)?;
        Ok(())
    }

    fn enter(&mut self, schema: &Value, value: &Value, depth: usize) -> Result<(), TooCostly> {
        self.take(1)?;
        if depth > DEPTH_MAX {
            return Err(TooCostly);
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        self.enter_in_place(keywords, value, depth)?;
        // What was evaluated is found out by evaluating it again.
        if keywords.contains_key("unevaluatedProperties") || keywords.contains_key("unevaluatedItems") {
            self.enter_in_place(keywords, value, depth)?;
        }
        for (keyword, of) in keywords {
            match (keyword.as_str(), value) {
                ("enum" | "const", _) => self.take(nodes(of).saturating_add(nodes(value)))?,
                ("uniqueItems", Value::Array(_)) => self.take(nodes(value))?,
                ("pattern", Value::String(text)) => self.match_pattern(of.as_str().unwrap_or_default(), text)?,
                ("format", Value::String(text)) => self.take(text.len() / 16)?,
                _ => {}
            }
        }
        match value {
            Value::Array(items) => self.enter_items(keywords, items, depth),
            Value::Object(properties) => self.enter_properties(keywords, properties, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn enter_in_place(&mut self, keywords: &Map<String, Value>, value: &Value, depth: usize) -> Result<(), TooCostly> {
        let schema = self.schema;
        if let Some(target) = keywords.get("$ref").and_then(Value::as_str).and_then(|to| resolve(&schema.text, &schema.anchors, to)) {
            self.enter(target, value, depth + 1)?;
        }
        let one = IN_PLACE_ONE.iter().filter_map(|keyword| keywords.get(*keyword));
        let lists = IN_PLACE_LISTS.iter().filter_map(|keyword| keywords.get(*keyword)?.as_array()).flatten();
        let named = IN_PLACE_NAMED.iter().filter_map(|keyword| keywords.get(*keyword)?.as_object()).flat_map(Map::values);
        one.chain(lists).chain(named).try_for_each(|sub| self.enter(sub, value, depth + 1))
    }

    fn enter_items(&mut self, keywords: &Map<String, Value>, items: &[Value], depth: usize) -> Result<(), TooCostly> {
        let first = keywords.get("prefixItems").and_then(Value::as_array).into_iter().flatten();
        first.zip(items).try_for_each(|(sub, item)| self.enter(sub, item, depth + 1))?;
        for keyword in ["items", "contains", "unevaluatedItems"] {
            if let Some(sub) = keywords.get(keyword) {
                items.iter().try_for_each(|item| self.enter(sub, item, depth + 1))?;
            }
        }
        Ok(())
    }

    fn enter_properties(&mut self, keywords: &Map<String, Value>, properties: &Map<String, Value>, depth: usize) -> Result<(), TooCostly> {
        if let Some(Value::Object(named)) = keywords.get("properties") {
            for (name, sub) in named {
                self.take(1)?;
                if let Some(value) = properties.get(name) {
                    self.enter(sub, value, depth + 1)?;
                }
            }
        }
        for (name, value) in properties {
            if let Some(Value::Object(patterns)) = keywords.get("patternProperties") {
                for (pattern, sub) in patterns {
                    self.match_pattern(pattern, name)?;
                    self.enter(sub, value, depth + 1)?;
                }
            }
            for keyword in ["additionalProperties", "unevaluatedProperties"] {
                if let Some(sub) = keywords.get(keyword) {
                    self.enter(sub, value, depth + 1)?;
                }
            }
            if let Some(sub) = keywords.get("propertyNames") {
                self.enter(sub, &Value::String(name.clone()), depth + 1)?;
            }
        }
        Ok(())
    }

    fn match_pattern(&mut self, pattern: &str, text: &str) -> Result<(), TooCostly> {
        let states = self.schema.patterns.get(pattern).copied().unwrap_or(UNKNOWN_STATES);
        self.take((states / 16 + 1).saturating_mul(text.len() / 16 + 1))
    }
}

/// How many values a value holds, long texts counted as several.
fn nodes(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(nodes).sum::<usize>() + 1,
        Value::Object(properties) => properties.iter().map(|(name, value)| name.len() / 64 + nodes(value)).sum::<usize>() + 1,
        Value::String(text) => text.len() / 64 + 1,
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// The message leaves out the value, which may be a secret, and lists the allowed values.
fn in_words(error: &ValidationError<'_>) -> String {
    let options = if let ValidationErrorKind::Enum { options } = error.kind() { options.as_array() } else { None };
    match options {
        Some(options) => {
            let each: Vec<_> = options.iter().take(OPTIONS_SHOWN_MAX).map(ToString::to_string).collect();
            let more = if options.len() > each.len() { ", …" } else { "" };
            format!("value is not one of {}{more}", each.join(", "))
        }
        None => error.masked().to_string(),
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
