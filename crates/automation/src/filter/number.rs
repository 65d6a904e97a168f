//! A JSON number that is compared exactly: an integer never goes through a double.

use serde::{Serialize, Serializer};
use std::cmp::Ordering;

/// A number in its only form: whole numbers from −2⁶³ to 2⁶⁴−1 are integers, however they were written; all others are doubles.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Integer(i64),
    /// Above `i64::MAX`.
    Large(u64),
    /// Not whole, or outside of the integers above.
    Double(f64),
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

impl Number {
    pub(crate) fn of(number: &serde_json::Number) -> Self {
        if let Some(integer) = number.as_i64() {
            return Self::Integer(integer);
        }
        if let Some(large) = number.as_u64() {
            return Self::Large(large);
        }
        Self::of_double(number.as_f64().unwrap_or(f64::NAN))
    }

    fn of_double(double: f64) -> Self {
        // A double that is whole and in range is exactly the integer it is cast to. This also makes −0 the integer 0.
        if double.fract() != 0.0 || !double.is_finite() {
            Self::Double(double)
        } else if (-TWO_TO_63..TWO_TO_63).contains(&double) {
            Self::Integer(double as i64)
        } else if (TWO_TO_63..TWO_TO_64).contains(&double) {
            Self::Large(double as u64)
        } else {
            Self::Double(double)
        }
    }

    /// Different for numbers that differ, the same for equal ones.
    pub(crate) const fn bits(self) -> (u8, u64) {
        match self {
            Self::Integer(integer) => (0, integer as u64),
            Self::Large(large) => (1, large),
            Self::Double(double) => (2, double.to_bits()),
        }
    }

    const fn whole(self) -> Option<i128> {
        match self {
            Self::Integer(integer) => Some(integer as i128),
            Self::Large(large) => Some(large as i128),
            Self::Double(_) => None,
        }
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.whole(), other.whole(), self, other) {
            (Some(one), Some(two), _, _) => one.cmp(&two),
            (Some(one), None, _, Self::Double(double)) => whole_to_double(one, *double),
            (None, Some(two), Self::Double(double), _) => whole_to_double(two, *double).reverse(),
            (_, _, Self::Double(one), Self::Double(two)) => one.total_cmp(two),
            // A number that is not whole is a double: the arms above are all there is.
            (_, _, Self::Integer(_) | Self::Large(_) | Self::Double(_), _) => Ordering::Equal,
        }
    }
}

/// A double that is not one of our integers is far away from all of them, or lies between two of them that a double holds exactly.
fn whole_to_double(whole: i128, double: f64) -> Ordering {
    if double >= TWO_TO_64 {
        return Ordering::Less;
    }
    if double < -TWO_TO_63 {
        return Ordering::Greater;
    }
    whole.cmp(&(double.floor() as i128)).then(Ordering::Less)
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for Number {}

impl std::hash::Hash for Number {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Integer(integer) => serializer.serialize_i64(integer),
            Self::Large(large) => serializer.serialize_u64(large),
            Self::Double(double) => serializer.serialize_f64(double),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::of(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn numbers_are_ordered_exactly() {
        let ascending = [
            "-1e300",
            "-9223372036854775808",
            "-9007199254740993",
            "-9007199254740992",
            "-1.5",
            "-1",
            "-1e-300",
            "0",
            "0.1",
            "1",
            "1.5",
            "2",
            "9007199254740992",
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551615",
            "1e20",
            "1e300",
        ];
        for (place, one) in ascending.iter().enumerate() {
            for (other_place, other) in ascending.iter().enumerate() {
                assert_eq!(number(one).cmp(&number(other)), place.cmp(&other_place), "{one} and {other}");
                assert_eq!(number(one) == number(other), place == other_place, "{one} and {other}");
            }
        }
    }

    #[test]
    fn one_number_has_one_form() {
        for (one, other) in [
            ("1", "1.0"),
            ("1", "1e0"),
            ("-0.0", "0"),
            ("9007199254740992", "9007199254740992.0"),
            ("9223372036854775808", "9.223372036854775808e18"),
        ] {
            assert_eq!(number(one), number(other), "{one} and {other}");
            assert_eq!(number(one).cmp(&number(other)), Ordering::Equal, "{one} and {other}");
        }
    }
}
