//! What a call of an action costs, as an admin says. A call of an action without a price costs nothing.

use crate::Amount;
use crate::limits::PRICE_FIELD_CHARS_MAX;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// The price of an action, in dollars.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Of one call, or of one unit.
    pub usd: Amount,
    /// What is counted; absent: calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
}

/// A number in the result of a call, of which each one costs the price.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    pub field: ResultField,
    /// As many are reserved before the call, and counted for a call whose result does not say how many there were.
    pub at_most: Amount,
}

/// A place in the result of a call: `result.usage.units`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResultField(String);

impl ResultField {
    /// `None` if the text is not `result` with the names of members behind it, each after a point.
    pub fn parse(text: &str) -> Option<Self> {
        let mut names = text.strip_prefix("result.")?.split('.');
        let is_short = text.chars().count() <= PRICE_FIELD_CHARS_MAX;
        (is_short && names.all(|name| !name.is_empty() && !name.chars().any(char::is_control))).then(|| Self(text.to_owned()))
    }

    /// The number that stands there. A result without it, or with anything else there, says nothing.
    fn read(&self, result: &Value) -> Option<Amount> {
        let names = self.0.split('.').skip(1);
        Amount::of_param(names.fold(result, |value, name| &value[name]))
    }
}

impl fmt::Display for ResultField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ResultField {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not a field of a result"))
    }
}

impl From<ResultField> for String {
    fn from(field: ResultField) -> Self {
        field.0
    }
}

impl Price {
    /// What a call costs at most, as far as that is known before it is made.
    pub fn at_most(&self) -> Amount {
        self.unit.as_ref().map_or(self.usd, |unit| self.usd.times(unit.at_most))
    }

    /// What a call costs that has this result.
    pub fn of(&self, result: Option<&Value>) -> Amount {
        let units = self.unit.as_ref().and_then(|unit| unit.field.read(result?));
        units.map_or_else(|| self.at_most(), |units| self.usd.times(units))
    }
}

/// The price in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceRow {
    pub price: Price,
    /// The version of the org's rules that it was set with. The audit log has the price under it.
    pub version: i64,
}

/// What a call is charged, by the price in force when it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    pub price: Price,
    pub version: i64,
    /// What it did cost; absent until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Amount>,
}

impl From<PriceRow> for Charge {
    fn from(PriceRow { price, version }: PriceRow) -> Self {
        Self { price, version, usd: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn price(usd: &str, unit: Option<(&str, &str)>) -> Price {
        let unit =
            unit.map(|(field, at_most)| Unit { field: ResultField::parse(field).unwrap(), at_most: Amount::parse(at_most).unwrap() });
        Price { usd: Amount::parse(usd).unwrap(), unit }
    }

    #[test]
    fn a_call_costs_its_price_or_that_of_its_units() {
        let call = price("0.002", None);
        let unit = price("0.000003", Some(("result.usage.units", "1000")));
        for (price, result, usd) in [
            (&call, None, "0.002"),
            (&call, Some(json!({ "usage": { "units": 7 } })), "0.002"),
            (&unit, Some(json!({ "usage": { "units": 7 } })), "0.000021"),
            (&unit, Some(json!({ "usage": { "units": "7" } })), "0.000021"),
            (&unit, Some(json!({ "usage": { "units": 0 } })), "0"),
            // A millionth that is begun is charged.
            (&unit, Some(json!({ "usage": { "units": 0.5 } })), "0.000002"),
            // More than was expected costs more.
            (&unit, Some(json!({ "usage": { "units": 2000 } })), "0.006"),
            // Nobody knows how many there were.
            (&unit, None, "0.003"),
            (&unit, Some(json!({ "usage": { "units": -7 } })), "0.003"),
            (&unit, Some(json!({ "usage": { "units": 1e300 } })), "0.003"),
            (&unit, Some(json!({ "usage": 7 })), "0.003"),
            (&unit, Some(json!([7])), "0.003"),
        ] {
            assert_eq!(price.of(result.as_ref()).to_string(), usd, "{price:?} {result:?}");
        }
        assert_eq!((call.at_most().to_string(), unit.at_most().to_string()), ("0.002".to_owned(), "0.003".to_owned()));
    }

    #[test]
    fn a_field_is_named_from_the_result_on() {
        let long = format!("result.{}", "a".repeat(PRICE_FIELD_CHARS_MAX));
        for text in ["", "result", "result.", "usage.units", "result..units", "result.usage.", "result.a\0", &long] {
            assert_eq!(ResultField::parse(text), None, "{text}");
        }
        for text in ["result.units", "result.usage.units", "result.usage.input-units"] {
            assert_eq!(ResultField::parse(text).unwrap().to_string(), text);
        }
    }
}
