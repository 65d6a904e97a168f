//! Takes a part of a JSON value by a JSONPath (RFC 9535). The library that reads paths is used here and nowhere else.
//! A path is saved once and then meets documents of strangers, so those are refused whose work could grow faster than the document. Of the
//! functions there are `length`, `count` and `value`, but not `match` and `search`, which would compile a pattern for every node.
//! Refused is also where the library and the standard differ: it orders what has no order, such as `true > false`, so order needs a number
//! or a text on its right; and it compares nothing that is counted from the end. It compares numbers as floats: whole ones beyond 2^53 are
//! equal to their neighbours.

use crate::Mistake;
use crate::limits::{JSONPATH_CHARS_MAX, JSONPATH_NESTING_MAX, JSONPATH_SELECTORS_MAX};
use serde_json::Value;
use serde_json_path::JsonPath;

/// A path that was read.
#[derive(Clone, Debug)]
pub struct Path {
    path: JsonPath,
    /// Whether it can only ever mean one place.
    singular: bool,
}

impl Path {
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        bound(text)?;
        let path = JsonPath::parse(text).map_err(|error| {
            if ["match(", "search("].iter().any(|function| text.contains(function)) {
                return unsupported("the path uses `match` or `search`".to_owned());
            }
            Mistake::new("jsonpath_invalid", format!("`{text}` is not a JSONPath: {}, at character {}", error.message(), error.position()))
                .hint("write a path such as `$.window.from` or `$.items[*].id`")
        })?;
        // Only a path that means one place can be compared, so the reader of paths knows.
        let singular = JsonPath::parse(&format!("$[?{text}==0]")).is_ok();
        Ok(Self { path, singular })
    }

    /// The value at the one place that a singular path means, or an array of all that another path finds. None if there is nothing.
    /// What is found is taken from the bytes that are `left`, which several paths may share.
    /// SECURITY: nothing is copied before all of it fits, because a path finds what is nested once for each level, and as often as it asks.
    pub fn select(&self, value: &Value, left: &mut usize) -> Result<Option<Value>, TooMuch> {
        let nodes = self.path.query(value).all();
        nodes.iter().try_for_each(|node| take(node, left))?;
        Ok(match (self.singular, nodes.first()) {
            (_, None) => None,
            (true, Some(node)) => Some((*node).clone()),
            (false, Some(_)) => Some(nodes.into_iter().cloned().collect()),
        })
    }
}

/// A path finds more than may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

/// Takes the value's size from what is left, without writing it: as compact JSON it has at least so many bytes. It looks no further than there
/// are bytes left.
fn take(value: &Value, left: &mut usize) -> Result<(), TooMuch> {
    let own = match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 1,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.len() + 1,
        Value::Object(members) => members.keys().map(|name| name.len() + 4).sum::<usize>() + 1,
    };
    *left = left.checked_sub(own).ok_or(TooMuch)?;
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| take(item, left)),
        Value::Object(members) => members.values().try_for_each(|member| take(member, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Refuses a path whose reading or work would not be bounded by its length and by the size of a document, or whose answer would not be the
/// standard's.
fn bound(text: &str) -> Result<(), Mistake> {
    let mut open: Vec<Open> = Vec::new();
    let (mut descents, mut selectors) = (0, 1_usize);
    let mut chars = text.chars().peekable();
    if text.chars().count() > JSONPATH_CHARS_MAX {
        return Err(unsupported(format!("the path is longer than {JSONPATH_CHARS_MAX} characters")));
    }
    // The root, at the start.
    chars.next();
    while let Some(char) = chars.next() {
        let in_filter = open.iter().any(|open| open.filter);
        match char {
            '\'' | '"' => skip_quoted(&mut chars, char),
            '[' if in_filter && chars.clone().find(|char| !char.is_ascii_whitespace()) == Some('-') => {
                return Err(unsupported("the path counts from the end inside of a filter".to_owned()));
            }
            '[' | '(' => open.push(Open { bracket: char == '[', selectors: 1, filter: false }),
            ']' | ')' => selectors = selectors.saturating_mul(open.pop().map_or(1, |open| open.selectors)),
            ',' => open.last_mut().filter(|open| open.bracket).into_iter().for_each(|open| open.selectors += 1),
            '?' => open.last_mut().into_iter().for_each(|open| open.filter = true),
            '<' | '>' if !literal_follows(chars.clone()) => {
                return Err(unsupported(format!("the path has something else than a number or a text on the right of `{char}`")));
            }
            '$' if in_filter => return Err(unsupported("the path has `$` inside of a filter".to_owned())),
            '.' if chars.peek() == Some(&'.') && in_filter => return Err(unsupported("the path has `..` inside of a filter".to_owned())),
            '.' if chars.peek() == Some(&'.') => descents += 1,
            _ => {}
        }
        if open.len() > JSONPATH_NESTING_MAX {
            return Err(unsupported(format!("the path nests brackets deeper than {JSONPATH_NESTING_MAX}")));
        }
    }
    if descents > 1 {
        return Err(unsupported("the path has `..` more than once".to_owned()));
    }
    if selectors > JSONPATH_SELECTORS_MAX {
        return Err(unsupported(format!("the path can find a value more than {JSONPATH_SELECTORS_MAX} times")));
    }
    Ok(())
}

/// A bracket or parenthesis that is open.
struct Open {
    bracket: bool,
    selectors: usize,
    filter: bool,
}

fn skip_quoted(chars: &mut impl Iterator<Item = char>, quote: char) {
    while let Some(char) = chars.next() {
        match char {
            '\\' => drop(chars.next()),
            char if char == quote => return,
            _ => {}
        }
    }
}

/// Whether a number or a text comes next, after the rest of an operator.
fn literal_follows(chars: impl Iterator<Item = char>) -> bool {
    let mut chars = chars.skip_while(|char| *char == '=' || char.is_ascii_whitespace());
    chars.next().is_some_and(|char| char.is_ascii_digit() || matches!(char, '-' | '\'' | '"'))
}

fn unsupported(message: String) -> Mistake {
    Mistake::new("jsonpath_unsupported", message).hint("take a larger part, and choose from it in a step")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_singular_path_gives_its_value_and_any_other_an_array() {
        let document = json!({ "a": { "b c": [1, 2, { "d": null }] }, "e": [], "f": "x" });
        for (path, expected) in [
            ("$", Some(document.clone())),
            ("$.f", Some(json!("x"))),
            ("$['f']", Some(json!("x"))),
            ("$.a['b c'][0]", Some(json!(1))),
            ("$.a[\"b c\"][-1].d", Some(json!(null))),
            ("$.e", Some(json!([]))),
            ("$.a['b c']", Some(json!([1, 2, { "d": null }]))),
            // No node is nothing, of either kind.
            ("$.g", None),
            ("$.e[*]", None),
            ("$.f[0]", None),
            // These find one value, and could find more.
            ("$['f','f']", Some(json!(["x", "x"]))),
            ("$.a['b c'][0:1]", Some(json!([1]))),
            ("$.a['b c'][?@ == 2]", Some(json!([2]))),
            ("$..d", Some(json!([null]))),
            ("$.a.*", Some(json!([[1, 2, { "d": null }]]))),
            ("$.a['b c'][?length(@) == 1]", Some(json!([{ "d": null }]))),
        ] {
            assert_eq!(Path::parse(path).unwrap().select(&document, &mut 1_000), Ok(expected), "{path}");
        }
    }

    #[test]
    fn what_a_path_finds_is_counted_before_it_is_copied() {
        // 58 levels with a text of 500 KB below them: written out, this would be 460 MB.
        let document = (0..58).fold(json!("x".repeat(500_000)), |value, _| json!({ "a": value }));
        let path = Path::parse(&format!("$..[{}]", ["'a'"; 16].join(","))).unwrap();
        assert_eq!(path.select(&document, &mut (400 * 1024 * 1024)), Err(TooMuch));
        // Several paths share what is left.
        let (document, mut left) = (json!({ "a": "12345678", "b": [1, null, { "c": true }] }), 30);
        let select = |path: &str, left: &mut usize| Path::parse(path).unwrap().select(&document, left);
        assert_eq!((select("$.a", &mut left), left), (Ok(Some(json!("12345678"))), 20));
        assert_eq!((select("$.z", &mut left), left), (Ok(None), 20));
        assert_eq!((select("$.b", &mut left), left), (Ok(Some(json!([1, null, { "c": true }]))), 1));
        assert_eq!(select("$.a", &mut left), Err(TooMuch));
    }

    #[test]
    fn no_value_counts_for_more_than_its_json() {
        for value in
            [json!(null), json!(false), json!(0), json!(""), json!([]), json!({}), json!([1, 2]), json!({ "a": "b", "c": [true, -1.5] })]
        {
            let mut left = value.to_string().len();
            assert_eq!(take(&value, &mut left), Ok(()), "{value}");
        }
    }

    #[test]
    fn what_is_not_a_path_is_refused() {
        for path in ["", "a", "$.", "$.a.", "$[", "$.a b", "$['a", "$.a == 1", " $.a", "$.a ", "$[?@.a == $", "$[01]", "$.a)", "$]["] {
            let code = Path::parse(path).map_err(|mistake| mistake.code).err();
            assert!(code == Some("jsonpath_invalid") || code == Some("jsonpath_unsupported"), "{path:?}: {code:?}");
        }
    }

    #[test]
    fn a_path_that_could_work_for_ever_is_refused() {
        let nested = |depth: usize, open: &str, close: &str| format!("$[?{}@.a{}]", open.repeat(depth), close.repeat(depth));
        for path in [
            format!("$.{}", "a".repeat(JSONPATH_CHARS_MAX)),
            "$..*..*".to_owned(),
            "$[?@..a]".to_owned(),
            "$[?match(@, 'a+')]".to_owned(),
            "$[?@.a && search(@.b, 'a')]".to_owned(),
            "$.a[?@.b == $.c]".to_owned(),
            "$[?$..a]".to_owned(),
            format!("${}", "[*,*]".repeat(5)),
            format!("$[{}]", ["0"; 17].join(",")),
            nested(9, "(", ")"),
            nested(9, "@[?", "]"),
            nested(100, "(", ")"),
            nested(100, "@[?", "]"),
        ] {
            assert_eq!(Path::parse(&path).unwrap_err().code, "jsonpath_unsupported", "{path}");
        }
        // Here the library and the standard differ.
        for path in ["$[?@[-1] == 1]", "$[?@.a[ -2 ].b]", "$[?@.a > @.b]", "$[?@.a<=@.b]", "$[?@.a >= true]", "$[?1 < @.a]"] {
            assert_eq!(Path::parse(path).unwrap_err().code, "jsonpath_unsupported", "{path}");
        }
        // What is in quotes is a name.
        for path in [
            "$['..']['$']['((((((((((((']",
            "$[\"a,,,,,,,,,,,,,,,,,,,,,\\\"]\"]",
            "$..a[?@.b == '$..<']",
            "$[?@.a >= 1 && @.b<'x' || length(@.c) > -1]",
            "$[*,*][*,*][*,*][*,*]",
        ] {
            assert!(Path::parse(path).is_ok(), "{path}");
        }
        assert!(Path::parse(&nested(6, "(", ")")).is_ok());
    }
}
