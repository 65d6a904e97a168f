//! What an event must be like to start an automation: data, not a program, because it is judged for every event and must be indexable.
//! `naive` says what a filter means; the matcher finds the same answer sooner. Read `parse`, then `naive`.

mod budget;
mod number;
mod parse;
mod path;
mod pattern;
mod scalar;
mod schema;
mod write;
pub mod naive;

#[cfg(test)]
mod tests;

pub use budget::Part;
pub(crate) use number::Number;
pub(crate) use path::Path;
pub(crate) use pattern::{Compiled, Pattern};
pub(crate) use scalar::{Scalar, ScalarRef};
pub use schema::schema;

use crate::Mistake;
use countersign_core::nearest::nearest;
use serde_json::Value;
use std::collections::BTreeSet;

/// The members that an event may have, as `runs::told` makes it for filters and mappings.
const EVENT_MEMBERS: [&str; 8] = ["id", "type", "source", "subject", "time", "space_id", "data", "replay_of"];

const PATH_UNKNOWN: &str = "filter_path_unknown";

/// A filter that was read: every bound of the budget holds, and every regex compiles. It serialises to its normalised JSON, where shorthands are
/// written out and lists are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    pub(crate) members: Vec<Member>,
}

/// One member of a filter object. All of them must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    Field(Path, Vec<Operator>),
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Filter),
}

/// One condition on the value at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equals(Scalar),
    NotEquals(Scalar),
    /// Sorted, without duplicates.
    In(Vec<Scalar>),
    /// Sorted, without duplicates.
    NotIn(Vec<Scalar>),
    StartsWith(String),
    EndsWith(String),
    Contains(String),
    Regex(Pattern),
    Gt(Number),
    Gte(Number),
    Lt(Number),
    Lte(Number),
    Exists(bool),
}

impl Filter {
    /// Reads a filter, or says everything that is wrong with it. Pointers start at the filter. Where its paths begin was checked when it was
    /// saved.
    pub fn parse(value: &Value) -> Result<Self, Vec<Mistake>> {
        parse::filter(value, &|_| None)
    }

    /// Reads the filter of an event trigger: each path begins at a member that events have.
    pub fn of_events(value: &Value) -> Result<Self, Vec<Mistake>> {
        parse::filter(value, &|path| {
            let first = path.names().first().filter(|first| !EVENT_MEMBERS.contains(&&***first))?;
            let near = nearest(first, EVENT_MEMBERS).first().map_or_else(|| format!("data.{path}"), |near| (*near).to_owned());
            let mistake = Mistake::new(PATH_UNKNOWN, format!("no event has a member `{first}`"));
            Some(mistake.hint(format!("did you mean `{near}`? what an event tells is below `data`")))
        })
    }

    /// Reads the filter of a webhook: each path begins at `inputs`, with the name of one that there can be, or at `event`. `inputs` are those
    /// names, or `None` where the schema does not say which.
    pub fn of_webhooks(value: &Value, inputs: Option<&BTreeSet<String>>) -> Result<Self, Vec<Mistake>> {
        parse::filter(value, &|path| {
            let (first, second) = (path.names().first()?, path.names().get(1));
            let unknown = match (&**first, second, inputs) {
                ("inputs", Some(name), Some(known)) if !known.contains(&**name) => format!("there is no input `{name}`"),
                ("inputs" | "event", _, _) => return None,
                _ => format!("the filter of a webhook sees no member `{first}`"),
            };
            let is_input = inputs.is_some_and(|known| known.contains(&**first));
            let near = if is_input { format!("inputs.{path}") } else { format!("event.{path}") };
            let hint = format!("did you mean `{near}`? the body is below `event`, and what it was mapped to below `inputs`");
            Some(Mistake::new(PATH_UNKNOWN, unknown).hint(hint))
        })
    }

    /// The filter that every event satisfies: what a trigger without `filters` has. It cannot be written as JSON.
    pub const fn all() -> Self {
        Self { members: Vec::new() }
    }

    /// Each of its members by its name, as a filter for itself. An event may satisfy all of them and not the whole: members below one array
    /// speak of the same element.
    pub fn members(&self) -> impl Iterator<Item = (String, Self)> {
        self.members.iter().map(|member| (member.name(), Self { members: vec![member.clone()] }))
    }

    /// What each part costs, in the order of the filter.
    pub fn parts(&self) -> Vec<Part> {
        budget::parts(self)
    }

    /// What all of it costs.
    pub fn cost(&self) -> u32 {
        self.parts().iter().map(|part| part.cost).sum()
    }

    /// Whether an event may have to be searched for it.
    pub(crate) fn searches(&self) -> bool {
        self.parts().iter().any(|part| part.cost > 1)
    }

    /// How many of its regexes have no literal that every match contains. They count against `FILTER_BARE_REGEXES_MAX`.
    pub fn bare_regexes(&self) -> usize {
        self.parts().iter().filter(|part| part.cost == budget::BARE_REGEX_COST).count()
    }
}

impl Member {
    /// As it is written in the filter.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Field(path, _) => path.to_string(),
            Self::And(_) => "$and".to_owned(),
            Self::Or(_) => "$or".to_owned(),
            Self::Not(_) => "$not".to_owned(),
        }
    }
}

impl Operator {
    /// Whether it asks something of one value. The others speak of all values at the path: that none is excluded, that there is one.
    pub(crate) const fn is_positive(&self) -> bool {
        match self {
            Self::NotEquals(_) | Self::NotIn(_) | Self::Exists(_) => false,
            Self::Equals(_)
            | Self::In(_)
            | Self::StartsWith(_)
            | Self::EndsWith(_)
            | Self::Contains(_)
            | Self::Regex(_)
            | Self::Gt(_)
            | Self::Gte(_)
            | Self::Lt(_)
            | Self::Lte(_) => true,
        }
    }
}
