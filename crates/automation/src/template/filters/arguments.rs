//! The arguments of a filter, given by place or by name.

use crate::limits::{TEMPLATE_LIST_ITEMS_MAX, TEMPLATE_OUTPUT_BYTES_MAX};
use crate::template::json::{failed, text_of, too_large, undefined};
use minijinja::value::{Kwargs, Rest, ValueOrKwargs, from_args};
use minijinja::{Error, Value};

pub(super) type Given = Rest<ValueOrKwargs>;

/// What a filter is applied to, and its arguments in the order in which the filter declares them.
pub(super) struct Arguments<const N: usize> {
    pub(super) value: Value,
    given: [Option<Value>; N],
}

impl<const N: usize> Arguments<N> {
    /// Reads the arguments of a filter that has these. An argument that it does not have is an error.
    pub(super) fn read(given: Given, names: [&str; N]) -> Result<Self, Error> {
        let all = given.into_values();
        let (places, by_name) = from_args::<(&[Value], Kwargs)>(&all)?;
        let Some((value, places)) = places.split_first() else { return Err(failed("a filter needs a value")) };
        if places.len() > N {
            return Err(failed(format!("the filter takes {N} arguments at most, not {}", places.len())));
        }
        let mut given = [const { None }; N];
        for (at, name) in names.into_iter().enumerate() {
            given[at] = places.get(at).cloned();
            if by_name.has(name) {
                given[at] = Some(by_name.get(name)?);
            }
        }
        by_name.assert_all_used()?;
        Ok(Self { value: value.clone(), given })
    }

    /// The same, of a value that must be there.
    pub(super) fn of_defined(given: Given, names: [&str; N]) -> Result<Self, Error> {
        let read = Self::read(given, names)?;
        if read.value.is_undefined() { Err(undefined()) } else { Ok(read) }
    }

    /// The argument at this place, unless it was left out or is null.
    pub(super) fn at(&self, at: usize) -> Result<Option<&Value>, Error> {
        match self.given.get(at).and_then(Option::as_ref) {
            Some(value) if value.is_undefined() => Err(undefined()),
            found => Ok(found.filter(|value| !value.is_none())),
        }
    }

    pub(super) fn text(&self, at: usize) -> Result<Option<String>, Error> {
        self.at(at)?.map(text_of).transpose()
    }

    pub(super) fn flag(&self, at: usize) -> Result<bool, Error> {
        Ok(self.at(at)?.is_some_and(Value::is_true))
    }

    pub(super) fn count(&self, at: usize, name: &str) -> Result<Option<usize>, Error> {
        self.at(at)?.map(|value| count_of(value, name)).transpose()
    }
}

pub(super) fn count_of(value: &Value, name: &str) -> Result<usize, Error> {
    let count = if value.is_integer() { value.as_usize() } else { None };
    count.ok_or_else(|| failed(format!("`{name}` must be a whole number that is not negative")))
}

/// The items of a list, the members' names of an object, the characters of a string.
pub(super) fn items(value: &Value) -> Result<Vec<Value>, Error> {
    if let Some(text) = value.as_str() {
        bounded(text)?;
        let items: Vec<_> = text.chars().take(TEMPLATE_LIST_ITEMS_MAX + 1).map(|one| Value::from(one.to_string())).collect();
        return few(items);
    }
    let mut items = vec![];
    for item in value.try_iter()?.take(TEMPLATE_LIST_ITEMS_MAX + 1) {
        items.push(item);
    }
    few(items)
}

fn few(items: Vec<Value>) -> Result<Vec<Value>, Error> {
    if items.len() > TEMPLATE_LIST_ITEMS_MAX {
        return Err(too_large(&format!("a list of more than {TEMPLATE_LIST_ITEMS_MAX} items, for a filter,")));
    }
    Ok(items)
}

/// Refuses a text that is too large to be worked on.
pub(super) fn bounded(text: &str) -> Result<&str, Error> {
    if text.len() > TEMPLATE_OUTPUT_BYTES_MAX { Err(too_large("a string")) } else { Ok(text) }
}
