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
use countersign_core::json::escape;
use countersign_core::nearest::nearest;
use serde_json::Value;

/// The members that an event may have, as `runs::told` makes it for filters and mappings.
const EVENT_MEMBERS: [&str; 8] = ["id", "type", "source", "subject", "time", "space_id", "data", "replay_of"];

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
    /// Reads a filter, or says everything that is wrong with it. Pointers start at the filter.
    pub fn parse(value: &Value) -> Result<Self, Vec<Mistake>> {
        parse::filter(value)
    }

    /// The filter that every event satisfies: what a trigger without `filters` has. It cannot be written as JSON.
    pub const fn all() -> Self {
        Self { members: Vec::new() }
    }

    /// The members that the event does not satisfy, each by its name and judged for itself. There may be none though the event does not
    /// match: members below one array speak of the same element.
    pub fn unmet(&self, event: &Value) -> Vec<String> {
        let is_unmet = |member: &&Member| !naive::matches(&Self { members: vec![(*member).clone()] }, event);
        self.members.iter().filter(is_unmet).map(Member::name).collect()
    }

    /// The tests that look where no event has anything, with pointers from the filter.
    pub(crate) fn warnings(&self) -> Vec<Mistake> {
        self.members
            .iter()
            .flat_map(|member| member.warnings().into_iter().map(|warning| warning.under(&format!("/{}", escape(&member.name())))))
            .collect()
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

    fn warnings(&self) -> Vec<Mistake> {
        match self {
            Self::Field(path, _) => {
                let Some(first) = path.names().first().filter(|first| !EVENT_MEMBERS.contains(&&***first)) else { return Vec::new() };
                let near = nearest(first, EVENT_MEMBERS).first().map_or_else(|| format!("data.{path}"), |near| (*near).to_owned());
                let warning = Mistake::new("filter_path_unknown", format!("no event has a member `{first}`"));
                vec![warning.hint(format!("did you mean `{near}`? what an event tells is below `data`"))]
            }
            Self::And(filters) | Self::Or(filters) => {
                let all = filters.iter().enumerate();
                all.flat_map(|(at, filter)| filter.warnings().into_iter().map(move |warning| warning.under(&format!("/{at}")))).collect()
            }
            Self::Not(filter) => filter.warnings(),
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
