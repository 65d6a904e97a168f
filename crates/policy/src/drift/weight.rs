//! How important a change of a definition is. The comparison carries its `Place` down the definition, because the same word is a keyword in
//! one place and the name of a property in another.

use crate::digest::structure::{NAMED_SCHEMAS, SCHEMAS, STRIPPED};
use serde_json::Value;

/// The kinds of change. The highest one is the one a reviewer should look at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weight {
    /// Texts, defaults and examples. Agents obey them.
    Textual,
    /// The params the action takes, or the result it returns.
    Structural,
    /// What the action may do: its tier, its effects, what it requires, how long it runs and how it is undone.
    Risk,
}

countersign_core::words!(Weight { Textual = "textual", Structural = "structural", Risk = "risk" });

/// What the members of the value at this place mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Definition,
    /// Keywords of JSON Schema.
    Schema,
    /// Names, each with a schema as its value.
    Named,
    /// Schemas in a list.
    Listed,
    /// Anything below has this weight.
    All(Weight),
}

impl Place {
    pub(super) const fn weight(self) -> Weight {
        match self {
            // Reached only if one of the two definitions is not an object; then they have nothing in common.
            Self::Definition => Weight::Risk,
            Self::Schema | Self::Named | Self::Listed => Weight::Structural,
            Self::All(weight) => weight,
        }
    }

    /// The place of the member `key` of an object at this place. `both` holds its values in the two definitions, as far as they exist.
    pub(super) fn member(self, key: &str, both: [Option<&Value>; 2]) -> Self {
        let all = |is: fn(&Value) -> bool| both.into_iter().flatten().all(is);
        match self {
            Self::Definition => match key {
                "params_schema" | "result_schema" => Self::Schema,
                "id" => Self::All(Weight::Structural),
                "title" | "description" | "version" | "upstream_sha256" | "guide_sha256" => Self::All(Weight::Textual),
                _ => Self::All(Weight::Risk),
            },
            Self::Schema if STRIPPED.contains(&key) => Self::All(Weight::Textual),
            Self::Schema if NAMED_SCHEMAS.contains(&key) && all(Value::is_object) => Self::Named,
            Self::Schema if SCHEMAS.contains(&key) && all(Value::is_object) => Self::Schema,
            Self::Schema if SCHEMAS.contains(&key) && all(Value::is_array) => Self::Listed,
            // A value to compare with, such as `const`, or an unknown keyword: every difference in it is structural.
            Self::Schema => Self::All(Weight::Structural),
            Self::Named | Self::Listed => Self::Schema,
            Self::All(weight) => Self::All(weight),
        }
    }

    /// The place of the items of an array at this place.
    pub(super) const fn item(self) -> Self {
        match self {
            Self::Listed => Self::Schema,
            Self::Definition | Self::Schema | Self::Named | Self::All(_) => Self::All(self.weight()),
        }
    }
}
