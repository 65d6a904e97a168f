//! The fifteen filters. What Jinja has under the same name, they do as Jinja does it; what they take and make is bounded.

mod arguments;
mod dates;
mod lists;
mod texts;

use minijinja::Environment;

/// Every filter there is.
pub const FILTERS: [&str; 15] = [
    "join", "length", "default", "upper", "lower", "truncate", "tojson", "date", "replace", "trim", "slugify", "first", "last", "sort",
    "reverse",
];

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
