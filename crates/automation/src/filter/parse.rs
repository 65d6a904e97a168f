//! Reads a filter. It goes on after a mistake, so that all of them are told at once.

use super::pattern::Refused;
use super::{Filter, Member, Number, Operator, Path, Pattern, Scalar, budget};
use crate::Mistake;
use crate::limits;
use countersign_core::json::escape;
use countersign_core::nearest::nearest;
use serde_json::{Map, Value};

const INVALID: &str = "filter_invalid";

/// Every operator, in the order of the documentation.
pub(super) const OPERATORS: [&str; 13] =
    ["equals", "not_equals", "in", "not_in", "starts_with", "ends_with", "contains", "regex", "gt", "gte", "lt", "lte", "exists"];
const COMBINATORS: [&str; 3] = ["$and", "$or", "$not"];

/// `astray` says what is wrong with a path that can be read.
pub(super) fn filter(value: &Value, astray: &dyn Fn(&Path) -> Option<Mistake>) -> Result<Filter, Vec<Mistake>> {
    let bytes = value.to_string().len();
    if bytes > limits::FILTER_BYTES_MAX {
        return Err(vec![budget::too_complex(format!("the filter has {bytes} bytes, and {} is the most", limits::FILTER_BYTES_MAX))]);
    }
    let mut reader = Reader { astray, mistakes: Vec::new() };
    let filter = reader.filter(value, "", 1);
    let mut mistakes = reader.mistakes;
    if let Some(filter) = &filter {
        mistakes.extend(budget::judge(filter));
    }
    match filter {
        Some(filter) if mistakes.is_empty() => Ok(filter),
        Some(_) | None => Err(mistakes),
    }
}

struct Reader<'w> {
    astray: &'w dyn Fn(&Path) -> Option<Mistake>,
    mistakes: Vec<Mistake>,
}

impl Reader<'_> {
    fn wrong<T>(&mut self, at: &str, message: impl Into<String>, hint: Option<String>) -> Option<T> {
        self.mistake(at, Mistake { hint, ..Mistake::new(INVALID, message) })
    }

    fn mistake<T>(&mut self, at: &str, mistake: Mistake) -> Option<T> {
        self.mistakes.push(mistake.under(at));
        None
    }

    fn filter(&mut self, value: &Value, at: &str, depth: usize) -> Option<Filter> {
        if depth > limits::FILTER_DEPTH_MAX {
            let message = format!("`$and`, `$or` and `$not` nest deeper than {}", limits::FILTER_DEPTH_MAX);
            return self.mistake(at, budget::too_complex(message));
        }
        let Value::Object(members) = value else {
            return self.wrong(
                at,
                format!("a filter is an object, and this is {}", kind(value)),
                Some(r#"such as `{"data.state": "open"}`"#.to_owned()),
            );
        };
        if members.is_empty() {
            return self.wrong(at, "a filter has at least one member", Some("leave the filter out to accept every event".to_owned()));
        }
        let members = members.iter().map(|(name, value)| self.member(name, value, &format!("{at}/{}", escape(name)), depth));
        // All of them are read before any is missed: a mistake in one does not hide those of the next.
        let members: Vec<_> = members.collect();
        members.into_iter().collect::<Option<_>>().map(|members| Filter { members })
    }

    fn member(&mut self, name: &str, value: &Value, at: &str, depth: usize) -> Option<Member> {
        match name {
            "$and" => self.filters(value, at, depth).map(Member::And),
            "$or" => self.filters(value, at, depth).map(Member::Or),
            "$not" => self.filter(value, at, depth + 1).map(Member::Not),
            unknown if unknown.starts_with('$') => {
                self.wrong(at, format!("there is no `{unknown}`"), Some(suggestion(unknown, &COMBINATORS)))
            }
            path => {
                let path = match Path::parse(path) {
                    Ok(path) => Some(path),
                    Err(said) => self.wrong(
                        at,
                        format!("the path `{path}` {said}"),
                        Some(r"a path is names with dots between them; a dot in a name is written `\.`, a backslash `\\`".to_owned()),
                    ),
                };
                // Where it looks says nothing about what it tests: both mistakes are told.
                self.mistakes.extend(path.as_ref().and_then(self.astray).map(|mistake| mistake.under(at)));
                let test = self.test(value, at);
                Some(Member::Field(path?, test?))
            }
        }
    }

    fn filters(&mut self, value: &Value, at: &str, depth: usize) -> Option<Vec<Filter>> {
        let Value::Array(filters) = value else {
            return self.wrong(at, format!("this is a list of filters, and not {}", kind(value)), None);
        };
        if filters.is_empty() {
            return self.wrong(at, "the list has at least one filter", None);
        }
        let filters: Vec<_> =
            filters.iter().enumerate().map(|(place, filter)| self.filter(filter, &format!("{at}/{place}"), depth + 1)).collect();
        filters.into_iter().collect()
    }

    fn test(&mut self, value: &Value, at: &str) -> Option<Vec<Operator>> {
        match value {
            Value::Object(operators) => self.operators(operators, at),
            Value::Array(_) => {
                self.wrong(at, "a test is an object of operators, or one value", Some(r#"several values are `{"in": [...]}`"#.to_owned()))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Scalar::of(value).map(|scalar| vec![Operator::Equals(scalar)])
            }
        }
    }

    fn operators(&mut self, operators: &Map<String, Value>, at: &str) -> Option<Vec<Operator>> {
        if operators.is_empty() {
            return self.wrong(
                at,
                "a test has at least one operator",
                Some(r#"to ask only for the field, write `{"exists": true}`"#.to_owned()),
            );
        }
        let operators: Vec<_> =
            operators.iter().map(|(name, operand)| self.operator(name, operand, &format!("{at}/{}", escape(name)))).collect();
        operators.into_iter().collect()
    }

    fn operator(&mut self, name: &str, operand: &Value, at: &str) -> Option<Operator> {
        match name {
            "equals" => self.scalar(operand, at).map(Operator::Equals),
            "not_equals" => self.scalar(operand, at).map(Operator::NotEquals),
            "in" => self.listed(operand, at).map(Operator::In),
            "not_in" => self.listed(operand, at).map(Operator::NotIn),
            "starts_with" => self.text(operand, at).map(Operator::StartsWith),
            "ends_with" => self.text(operand, at).map(Operator::EndsWith),
            "contains" => self.text(operand, at).map(Operator::Contains),
            "regex" => self.pattern(operand, at).map(Operator::Regex),
            "gt" => self.number(operand, at).map(Operator::Gt),
            "gte" => self.number(operand, at).map(Operator::Gte),
            "lt" => self.number(operand, at).map(Operator::Lt),
            "lte" => self.number(operand, at).map(Operator::Lte),
            "exists" => self.boolean(operand, at).map(Operator::Exists),
            unknown => self.wrong(at, format!("there is no operator `{unknown}`"), Some(suggestion(unknown, &OPERATORS))),
        }
    }

    fn scalar(&mut self, operand: &Value, at: &str) -> Option<Scalar> {
        let scalar = Scalar::of(operand);
        scalar.or_else(|| self.wrong(at, format!("this needs a string, a number, a boolean or null, and not {}", kind(operand)), None))
    }

    fn listed(&mut self, operand: &Value, at: &str) -> Option<Vec<Scalar>> {
        let Value::Array(listed) = operand else {
            return self.wrong(at, format!("this needs a list, and not {}", kind(operand)), None);
        };
        if listed.is_empty() || listed.len() > limits::FILTER_VALUES_MAX {
            return self.wrong(
                at,
                format!("the list has {} values, and 1 to {} are possible", listed.len(), limits::FILTER_VALUES_MAX),
                None,
            );
        }
        let listed: Vec<_> = listed.iter().enumerate().map(|(place, value)| self.scalar(value, &format!("{at}/{place}"))).collect();
        let mut listed: Vec<Scalar> = listed.into_iter().collect::<Option<_>>()?;
        listed.sort_unstable();
        listed.dedup();
        Some(listed)
    }

    fn text(&mut self, operand: &Value, at: &str) -> Option<String> {
        let Value::String(text) = operand else {
            return self.wrong(at, format!("this needs a string, and not {}", kind(operand)), None);
        };
        if text.is_empty() || text.len() > limits::FILTER_TEXT_BYTES_MAX {
            return self.wrong(
                at,
                format!("the text has {} bytes, and 1 to {} are possible", text.len(), limits::FILTER_TEXT_BYTES_MAX),
                None,
            );
        }
        Some(text.clone())
    }

    fn number(&mut self, operand: &Value, at: &str) -> Option<Number> {
        let Value::Number(number) = operand else {
            return self.wrong(
                at,
                format!("this needs a number, and not {}", kind(operand)),
                Some("only numbers have an order".to_owned()),
            );
        };
        Some(Number::of(number))
    }

    fn boolean(&mut self, operand: &Value, at: &str) -> Option<bool> {
        let said = operand.as_bool();
        said.or_else(|| self.wrong(at, format!("`exists` needs true or false, and not {}", kind(operand)), None))
    }

    fn pattern(&mut self, operand: &Value, at: &str) -> Option<Pattern> {
        let Value::String(text) = operand else {
            return self.wrong(at, format!("`regex` needs a string, and not {}", kind(operand)), None);
        };
        if text.is_empty() || text.len() > limits::FILTER_REGEX_BYTES_MAX {
            return self.wrong(
                at,
                format!("the regex has {} bytes, and 1 to {} are possible", text.len(), limits::FILTER_REGEX_BYTES_MAX),
                None,
            );
        }
        match Pattern::parse(text) {
            Ok(pattern) => Some(pattern),
            Err(Refused::Syntax(said)) => {
                let hint = "it is the syntax of Rust's `regex`: without look-around and back-references, so that it takes linear time";
                self.wrong(at, format!("the regex cannot be read: {}", said.trim().replace('\n', " ")), Some(hint.to_owned()))
            }
            Err(Refused::TooLarge) => {
                let (places, bytes) = (limits::FILTER_REGEX_PLACES_MAX, limits::FILTER_REGEX_COMPILED_BYTES_MAX);
                let message =
                    format!("the regex has more than {places} places when it is written out, or compiles to more than {bytes} bytes");
                self.mistake(at, budget::too_complex(message).hint("lower the counts of its repetitions"))
            }
        }
    }
}

fn suggestion(unknown: &str, known: &[&str]) -> String {
    let all = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match nearest(unknown, known.iter().copied()).first() {
        Some(meant) => format!("did you mean `{meant}`? there are {all}"),
        None => format!("there are {all}; a field inside of another is written as a path, such as `data.state`"),
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
