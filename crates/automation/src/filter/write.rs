//! A filter as its normalised JSON: shorthands written out, lists sorted, numbers in their one form.

use super::{Filter, Member, Operator};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(self.members.len()))?;
        for member in &self.members {
            match member {
                Member::Field(path, operators) => members.serialize_entry(&path.to_string(), &Test(operators))?,
                Member::And(filters) => members.serialize_entry("$and", filters)?,
                Member::Or(filters) => members.serialize_entry("$or", filters)?,
                Member::Not(filter) => members.serialize_entry("$not", filter)?,
            }
        }
        members.end()
    }
}

struct Test<'f>(&'f [Operator]);

impl Serialize for Test<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut operators = serializer.serialize_map(Some(self.0.len()))?;
        for operator in self.0 {
            let name = operator.name();
            match operator {
                Operator::Equals(scalar) | Operator::NotEquals(scalar) => operators.serialize_entry(name, scalar)?,
                Operator::In(listed) | Operator::NotIn(listed) => operators.serialize_entry(name, listed)?,
                Operator::StartsWith(text) | Operator::EndsWith(text) | Operator::Contains(text) => {
                    operators.serialize_entry(name, text)?
                }
                Operator::Regex(pattern) => operators.serialize_entry(name, pattern.text())?,
                Operator::Gt(number) | Operator::Gte(number) | Operator::Lt(number) | Operator::Lte(number) => {
                    operators.serialize_entry(name, number)?;
                }
                Operator::Exists(wanted) => operators.serialize_entry(name, wanted)?,
            }
        }
        operators.end()
    }
}

impl Operator {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Equals(_) => "equals",
            Self::NotEquals(_) => "not_equals",
            Self::In(_) => "in",
            Self::NotIn(_) => "not_in",
            Self::StartsWith(_) => "starts_with",
            Self::EndsWith(_) => "ends_with",
            Self::Contains(_) => "contains",
            Self::Regex(_) => "regex",
            Self::Gt(_) => "gt",
            Self::Gte(_) => "gte",
            Self::Lt(_) => "lt",
            Self::Lte(_) => "lte",
            Self::Exists(_) => "exists",
        }
    }
}
