//! The fifteen filters. What Jinja has under the same name, they do as Jinja does it; what they take and make is bounded.

mod arguments;
mod dates;
mod lists;
mod texts;

use minijinja::{Environment, Error, Value};

/// Every filter there is.
pub const FILTERS: [&str; 15] = [
    "join", "length", "default", "upper", "lower", "truncate", "tojson", "date", "replace", "trim", "slugify", "first", "last", "sort",
    "reverse",
];

/// What an argument must be, whatever the filter is applied to.
#[derive(Clone, Copy)]
pub(super) enum Takes {
    Anything,
    Count,
    Zone,
}

impl Takes {
    /// Refuses a value that the filter will never accept as its argument `name`.
    pub(super) fn accepts(self, name: &str, value: &Value) -> Result<(), Error> {
        match self {
            _ if value.is_none() => Ok(()),
            Self::Anything => Ok(()),
            Self::Count => arguments::count_of(value, name).map(drop),
            Self::Zone => dates::zone_of(&super::json::text_of(value)?).map(drop),
        }
    }
}

/// The arguments of a filter in their order, and how many of them it needs.
pub(super) fn takes(filter: &str) -> (usize, &'static [(&'static str, Takes)]) {
    use Takes::{Anything, Count, Zone};
    match filter {
        "join" => (0, &[("d", Anything)]),
        "default" => (0, &[("default_value", Anything), ("boolean", Anything)]),
        "truncate" => (0, &[("length", Count), ("killwords", Anything), ("end", Anything), ("leeway", Count)]),
        "date" => (0, &[("format", Anything), ("tz", Zone)]),
        "replace" => (2, &[("old", Anything), ("new", Anything), ("count", Count)]),
        "trim" => (0, &[("chars", Anything)]),
        "sort" => (0, &[("reverse", Anything), ("case_sensitive", Anything), ("attribute", Anything)]),
        _ => (0, &[]),
    }
}

pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_filter("join", lists::join);
    environment.add_filter("length", lists::length);
    environment.add_filter("default", lists::default);
    environment.add_filter("upper", texts::upper);
    environment.add_filter("lower", texts::lower);
    environment.add_filter("truncate", texts::truncate);
    environment.add_filter("tojson", lists::to_json);
    environment.add_filter("date", dates::date);
    environment.add_filter("replace", texts::replace);
    environment.add_filter("trim", texts::trim);
    environment.add_filter("slugify", texts::slugify);
    environment.add_filter("first", lists::first);
    environment.add_filter("last", lists::last);
    environment.add_filter("sort", lists::sort);
    environment.add_filter("reverse", lists::reverse);
}

#[cfg(test)]
mod tests;
