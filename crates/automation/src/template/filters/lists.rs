//! Filters of lists, and of whatever value.

use super::arguments::{Arguments, Given, bounded, items};
use crate::limits::TEMPLATE_OUTPUT_BYTES_MAX;
use crate::template::json::{failed, json_of, text_of, too_large};
use minijinja::value::ValueKind;
use minijinja::{Error, Value};
use std::cmp::Ordering;

pub(super) fn join(given: Given) -> Result<String, Error> {
    let arguments = Arguments::of_defined(given, ["d"])?;
    let separator = arguments.text(0)?.unwrap_or_default();
    let mut joined = String::new();
    for (at, item) in items(&arguments.value)?.iter().enumerate() {
        let item = text_of(item)?;
        let separator = if at > 0 { separator.as_str() } else { "" };
        if joined.len() + separator.len() + item.len() > TEMPLATE_OUTPUT_BYTES_MAX {
            return Err(too_large("what `join` would make"));
        }
        joined.push_str(separator);
        joined.push_str(&item);
    }
    Ok(joined)
}

pub(super) fn length(given: Given) -> Result<usize, Error> {
    let arguments = Arguments::of_defined(given, [])?;
    match arguments.value.as_str() {
        Some(text) => Ok(text.chars().count()),
        None => match arguments.value.len() {
            Some(length) => Ok(length),
            None => items(&arguments.value).map(|items| items.len()).map_err(|_| no_length(&arguments.value)),
        },
    }
}

fn no_length(value: &Value) -> Error {
    failed(format!("a value of the kind `{}` has no length", value.kind()))
}

/// The value, or another where there is none; with `true`, also where it is empty.
pub(super) fn default(given: Given) -> Result<Value, Error> {
    let arguments = Arguments::read(given, ["default_value", "boolean"])?;
    let missing = arguments.value.is_undefined() || (arguments.flag(1)? && !arguments.value.is_true());
    if !missing {
        return Ok(arguments.value);
    }
    Ok(arguments.at(0)?.cloned().unwrap_or_else(|| Value::from("")))
}

pub(super) fn to_json(given: Given) -> Result<String, Error> {
    json_of(&Arguments::of_defined(given, [])?.value)
}

pub(super) fn first(given: Given) -> Result<Value, Error> {
    let arguments = Arguments::of_defined(given, [])?;
    if let Some(text) = arguments.value.as_str() {
        return Ok(text.chars().next().map(|one| Value::from(one.to_string())).unwrap_or_default());
    }
    Ok(arguments.value.try_iter()?.next().unwrap_or_default())
}

pub(super) fn last(given: Given) -> Result<Value, Error> {
    let arguments = Arguments::of_defined(given, [])?;
    if let Some(text) = arguments.value.as_str() {
        return Ok(text.chars().next_back().map(|one| Value::from(one.to_string())).unwrap_or_default());
    }
    Ok(items(&arguments.value)?.pop().unwrap_or_default())
}

pub(super) fn reverse(given: Given) -> Result<Value, Error> {
    let arguments = Arguments::of_defined(given, [])?;
    if let Some(text) = arguments.value.as_str() {
        return Ok(Value::from(bounded(text)?.chars().rev().collect::<String>()));
    }
    let mut items = items(&arguments.value)?;
    items.reverse();
    Ok(Value::from(items))
}

/// Sorts by value, or by the member that `attribute` names. Without `case_sensitive`, letters of both cases are the same, as in Jinja.
pub(super) fn sort(given: Given) -> Result<Value, Error> {
    let arguments = Arguments::of_defined(given, ["reverse", "case_sensitive", "attribute"])?;
    let (backwards, case_sensitive) = (arguments.flag(0)?, arguments.flag(1)?);
    let attribute = arguments.text(2)?;
    let mut keyed = vec![];
    let mut bytes = 0_usize;
    for item in items(&arguments.value)? {
        let key = match &attribute {
            None => item.clone(),
            Some(path) => member(&item, path)?,
        };
        let key = match key.as_str() {
            Some(text) if !case_sensitive => {
                bytes = bytes.saturating_add(text.len());
                Value::from(text.to_lowercase())
            }
            // As in Python, a boolean is a number.
            None if key.kind() == ValueKind::Bool => Value::from(i64::from(key.is_true())),
            Some(_) | None => key,
        };
        if bytes > TEMPLATE_OUTPUT_BYTES_MAX {
            return Err(too_large("what `sort` would compare"));
        }
        keyed.push((key, item));
    }
    if let Some((first, _)) = keyed.first()
        && let Some((other, _)) = keyed.iter().find(|(key, _)| key.kind() != first.kind())
    {
        return Err(failed(format!("`{}` and `{}` cannot be sorted together", first.kind(), other.kind())));
    }
    // Items that are equal keep their order in both directions.
    keyed.sort_by(|(one, _), (other, _)| {
        let order: Ordering = one.cmp(other);
        if backwards { order.reverse() } else { order }
    });
    Ok(Value::from(keyed.into_iter().map(|(_, item)| item).collect::<Vec<_>>()))
}

/// The member at a dotted path. A segment that begins with `_` is refused here, because the check of a template does not see it.
fn member(item: &Value, path: &str) -> Result<Value, Error> {
    path.split('.').try_fold(item.clone(), |value, name| {
        if name.starts_with('_') {
            return Err(failed(format!("`{name}` begins with `_`")));
        }
        let found = match name.parse::<usize>() {
            Ok(at) => value.get_item_by_index(at)?,
            Err(_) => value.get_attr(name)?,
        };
        if found.is_undefined() { Err(failed(format!("an item has no `{name}` to sort by"))) } else { Ok(found) }
    })
}
