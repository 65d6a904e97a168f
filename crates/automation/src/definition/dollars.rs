//! Dollars in a definition: a JSON number with six decimals at most, held as exact millionths.

use countersign_core::Amount;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

const MILLIONTHS: i64 = 1_000_000;

/// What a run may spend that does not say: one dollar.
pub(super) fn one() -> Amount {
    Amount::from_millionths(MILLIONTHS).unwrap_or_default()
}

/// `None` if it is no number, or negative, or has more decimals.
pub(super) fn read(value: &Value) -> Option<Amount> {
    let Value::Number(number) = value else { return None };
    // The display of a float has no exponent and as few decimals as tell it from all others, so it is what was written.
    let text = number.as_u64().map_or_else(|| number.as_f64().map(|float| float.to_string()), |whole| Some(whole.to_string()));
    Amount::parse(&text?)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
    let value = Value::deserialize(deserializer)?;
    read(&value).ok_or_else(|| serde::de::Error::custom(format!("`{value}` is no amount with six decimals at most")))
}

pub(super) fn serialize<S: Serializer>(amount: &Amount, serializer: S) -> Result<S::Ok, S::Error> {
    let (whole, rest) = (amount.as_millionths() / MILLIONTHS, amount.as_millionths() % MILLIONTHS);
    if rest == 0 {
        return whole.serialize(serializer);
    }
    let decimal = format!("{whole}.{rest:06}").parse::<f64>().ok().and_then(Number::from_f64);
    decimal.ok_or_else(|| serde::ser::Error::custom("an amount has no decimal form"))?.serialize(serializer)
}
