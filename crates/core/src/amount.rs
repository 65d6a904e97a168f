//! An exact amount: a decimal number of millionths. It is never a float, so that sums are exact.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// Digits after the point.
const DECIMALS: usize = 6;
const ONE: i64 = 1_000_000;

/// An amount that is not negative, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i64);

impl Amount {
    /// The largest amount. The sum of two is still far below what 64 bits hold.
    pub const MAX: Self = Self(1_000_000_000_000 * ONE);

    /// `None` if it is negative or too large.
    pub fn from_millionths(millionths: i64) -> Option<Self> {
        (0..=Self::MAX.0).contains(&millionths).then_some(Self(millionths))
    }

    pub const fn as_millionths(self) -> i64 {
        self.0
    }

    /// Reads a plain decimal such as `500` or `12.50`: no sign, no exponent, no separators, no leading zeros, six decimals at most.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let is_plain = are_digits(whole) && are_digits(decimals) && decimals.len() <= DECIMALS && (whole == "0" || !whole.starts_with('0'));
        if !is_plain {
            return None;
        }
        let millionths = format!("{decimals:0<DECIMALS$}").parse::<i64>().ok()?;
        Self::from_millionths(whole.parse::<i64>().ok()?.checked_mul(ONE)?.checked_add(millionths)?)
    }

    /// The amount that a param names, as a number or as the text of one. `None` if it names none: then nobody can say what it adds up to.
    /// A number counts as the text that its source receives.
    pub fn of_param(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => Self::parse(&number.to_string()),
            Value::String(text) => Self::parse(text),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// So many of this amount, rounded up to a millionth. It stops at the largest amount.
    #[must_use]
    pub fn times(self, count: Self) -> Self {
        let millionths = (i128::from(self.0) * i128::from(count.0) + i128::from(ONE - 1)) / i128::from(ONE);
        i64::try_from(millionths).ok().and_then(Self::from_millionths).unwrap_or(Self::MAX)
    }

    /// Whether this much more stays within `most`.
    pub const fn leaves_room(self, more: Self, most: Self) -> bool {
        self.0.saturating_add(more.0) <= most.0
    }
}

/// Sums stop at what 64 bits hold, which is above every limit.
impl std::iter::Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        Self(amounts.fold(0, |sum, amount| sum.saturating_add(amount.0)))
    }
}

/// Without zeros at the end: `500`, `12.5`.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:06}", self.0 % ONE);
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{}", self.0 / ONE),
            decimals => write!(f, "{}.{decimals}", self.0 / ONE),
        }
    }
}

/// As text: a number would be a float to many readers.
impl Serialize for Amount {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not an amount")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_amount_is_read_exactly_or_not_at_all() {
        for (text, millionths, printed) in [
            ("0", 0, "0"),
            ("0.1", 100_000, "0.1"),
            ("500", 500_000_000, "500"),
            ("500.00", 500_000_000, "500"),
            ("12.50", 12_500_000, "12.5"),
            ("0.000001", 1, "0.000001"),
            ("1000000000000", Amount::MAX.as_millionths(), "1000000000000"),
        ] {
            let amount = Amount::parse(text).unwrap();
            assert_eq!((amount.as_millionths(), amount.to_string().as_str()), (millionths, printed), "{text}");
            assert_eq!(Amount::parse(printed), Some(amount));
        }
        let bad = ". 1. .5 -1 +1 -0 01 00 1e3 1E3 0x10 1,000 1_000 NaN inf 1.0000000 1.5.5 １ 1000000000000.000001 9223372036854775808 99999999999999999999";
        for bad in bad.split(' ').chain(["", " 1", "1 "]) {
            assert_eq!(Amount::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_param_names_an_amount_as_a_number_or_as_its_text() {
        for (param, amount) in [
            (json!(500), Some("500")),
            (json!(500.0), Some("500")),
            (json!(0.1), Some("0.1")),
            (json!("12.50"), Some("12.5")),
            (json!(0), Some("0")),
            (json!(-1), None),
            (json!(-0.0), None),
            (json!(1e300), None),
            (json!(0.1 + 0.2), None),
            (json!(u64::MAX), None),
            (json!("-1"), None),
            (json!("five"), None),
            (json!(null), None),
            (json!(true), None),
            (json!([500]), None),
            (json!({ "value": 500 }), None),
        ] {
            assert_eq!(Amount::of_param(&param), amount.and_then(Amount::parse), "{param}");
        }
    }

    #[test]
    fn a_product_is_rounded_up_and_stops_at_the_largest_amount() {
        let of = |text| Amount::parse(text).unwrap();
        for (one, count, product) in
            [("0.002", "3", "0.006"), ("0.000001", "0.5", "0.000001"), ("0.000001", "0", "0"), ("3", "0.333333", "0.999999")]
        {
            assert_eq!(of(one).times(of(count)), of(product), "{one} x {count}");
        }
        assert_eq!(Amount::MAX.times(Amount::MAX), Amount::MAX);
    }

    #[test]
    fn ten_tenths_are_one() {
        let tenth = Amount::parse("0.1").unwrap();
        let sum = std::iter::repeat_n(tenth, 10).sum::<Amount>();
        assert_eq!(sum.to_string(), "1");
        assert!(sum.leaves_room(Amount::default(), sum) && !sum.leaves_room(Amount(1), sum));
    }
}
