//! The smallest thing that is judged: what one path's values must be like. A leaf that many filters have is judged once per event.

use crate::filter::{Compiled, Number, Operator, Pattern, Scalar, ScalarRef};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// A search for a text looks at many bytes at once.
const CONTAINS_BYTES_PER_WORK: u64 = 8;

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Leaf {
    pub(super) path: u32,
    pub(super) test: Test,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Test {
    /// There is something at the path.
    Exists,
    /// Some value satisfies this.
    One(Condition),
    /// Some value satisfies all of these.
    All(Box<[Condition]>),
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Condition {
    Equals(Scalar),
    /// Sorted.
    In(Box<[Scalar]>),
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    Contains(Box<str>),
    Regex(Arc<Search>),
    Above(Number),
    AtLeast(Number),
    Below(Number),
    AtMost(Number),
}

/// A regex that is compiled when it is first needed: most wait for a literal that no event has.
pub(super) struct Search {
    text: Box<str>,
    pub(super) literals: Box<[Box<str>]>,
    compiled: OnceLock<Option<Compiled>>,
}

impl Test {
    pub(super) fn of(mut conditions: Vec<Condition>) -> Self {
        match conditions.pop() {
            Some(only) if conditions.is_empty() => Self::One(only),
            last => Self::All(conditions.into_iter().chain(last).collect()),
        }
    }

    pub(super) fn conditions(&self) -> &[Condition] {
        match self {
            Self::Exists => &[],
            Self::One(condition) => std::slice::from_ref(condition),
            Self::All(conditions) => conditions,
        }
    }

    /// The work that it takes to judge these scalars, at most.
    pub(super) fn work(&self, scalars: &[ScalarRef<'_>]) -> u64 {
        self.conditions().iter().map(|condition| scalars.iter().map(|scalar| condition.work(*scalar)).sum::<u64>()).sum()
    }

    /// Whether it is true where these scalars are, if something is there at all.
    pub(super) fn holds(&self, exists: bool, scalars: &[ScalarRef<'_>]) -> bool {
        match self {
            Self::Exists => exists,
            Self::One(condition) => scalars.iter().any(|scalar| condition.holds(*scalar)),
            Self::All(conditions) => scalars.iter().any(|scalar| conditions.iter().all(|condition| condition.holds(*scalar))),
        }
    }
}

impl Condition {
    /// A positive operator as it is, a negated one as its positive; nothing for `exists`, which asks nothing of a value.
    pub(super) fn of(operator: &Operator) -> Option<Self> {
        Some(match operator {
            Operator::Equals(scalar) | Operator::NotEquals(scalar) => Self::Equals(scalar.clone()),
            Operator::In(listed) | Operator::NotIn(listed) => Self::In(listed.as_slice().into()),
            Operator::StartsWith(text) => Self::StartsWith(text.as_str().into()),
            Operator::EndsWith(text) => Self::EndsWith(text.as_str().into()),
            Operator::Contains(text) => Self::Contains(text.as_str().into()),
            Operator::Regex(pattern) => Self::Regex(Arc::new(Search::of(pattern))),
            Operator::Gt(number) => Self::Above(*number),
            Operator::Gte(number) => Self::AtLeast(*number),
            Operator::Lt(number) => Self::Below(*number),
            Operator::Lte(number) => Self::AtMost(*number),
            Operator::Exists(_) => return None,
        })
    }

    /// Looking at a byte in a table is 1, and comparing one value with another.
    fn work(&self, scalar: ScalarRef<'_>) -> u64 {
        match (self, scalar) {
            (Self::Regex(search), ScalarRef::Text(text)) => search.compiled().map_or(1, |regex| regex.work(text)),
            (Self::Contains(_), ScalarRef::Text(text)) => text.len() as u64 / CONTAINS_BYTES_PER_WORK + 1,
            (
                Self::Equals(_)
                | Self::In(_)
                | Self::StartsWith(_)
                | Self::EndsWith(_)
                | Self::Contains(_)
                | Self::Regex(_)
                | Self::Above(_)
                | Self::AtLeast(_)
                | Self::Below(_)
                | Self::AtMost(_),
                ScalarRef::Null | ScalarRef::Bool(_) | ScalarRef::Number(_) | ScalarRef::Text(_),
            ) => 1,
        }
    }

    fn holds(&self, scalar: ScalarRef<'_>) -> bool {
        match (self, scalar) {
            (Self::Equals(wanted), scalar) => wanted.as_ref() == scalar,
            (Self::In(listed), scalar) => listed.binary_search_by(|wanted| wanted.as_ref().cmp(&scalar)).is_ok(),
            (Self::StartsWith(start), ScalarRef::Text(text)) => text.starts_with(&**start),
            (Self::EndsWith(end), ScalarRef::Text(text)) => text.ends_with(&**end),
            (Self::Contains(part), ScalarRef::Text(text)) => text.contains(&**part),
            (Self::Regex(search), ScalarRef::Text(text)) => search.is_match(text),
            (Self::Above(bound), ScalarRef::Number(number)) => number > *bound,
            (Self::AtLeast(bound), ScalarRef::Number(number)) => number >= *bound,
            (Self::Below(bound), ScalarRef::Number(number)) => number < *bound,
            (Self::AtMost(bound), ScalarRef::Number(number)) => number <= *bound,
            (
                Self::StartsWith(_) | Self::EndsWith(_) | Self::Contains(_) | Self::Regex(_),
                ScalarRef::Null | ScalarRef::Bool(_) | ScalarRef::Number(_),
            )
            | (
                Self::Above(_) | Self::AtLeast(_) | Self::Below(_) | Self::AtMost(_),
                ScalarRef::Null | ScalarRef::Bool(_) | ScalarRef::Text(_),
            ) => false,
        }
    }
}

impl Search {
    fn of(pattern: &Pattern) -> Self {
        Self { text: pattern.text().into(), literals: pattern.literals().into(), compiled: OnceLock::new() }
    }

    fn is_match(&self, text: &str) -> bool {
        self.compiled().is_some_and(|regex| regex.finds(text))
    }

    fn compiled(&self) -> Option<&Compiled> {
        // It has compiled when the filter was read, in the same way.
        self.compiled.get_or_init(|| Compiled::of(&self.text).ok()).as_ref()
    }
}

impl PartialEq for Search {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Search {}

impl Hash for Search {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}
