//! Asks the world's numbering plans about digits.

use crate::limits::REDACTION_PHONE_TRIES_MAX;
use phonenumber::metadata::DATABASE;
use phonenumber::{Metadata, Type, country};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// A country whose national numbers are recognised without a country code, named by two capital letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Region(country::Id);

impl Region {
    /// Whether people in this region write national numbers like this. Where numbers are dialled with a leading zero, they must have it,
    /// except in regions that leave it out for mobile numbers. North American numbers must be in the usual groups.
    fn writes(self, digits: &str, lengths: &[usize]) -> bool {
        let Some(plan) = DATABASE.by_id(self.0.as_ref()) else {
            return false;
        };
        let is_zero = digits.starts_with('0') || plan.national_prefix() != Some("0") || matches!(self.0.as_ref(), "BR" | "CN" | "IN");
        let is_grouped = plan.country_code() != 1 || matches!(lengths, [_] | [3, 7] | [3, 3, 4] | [1, 10] | [1, 3, 7] | [1, 3, 3, 4]);
        is_zero && is_grouped
    }
}

impl TryFrom<String> for Region {
    type Error = UnknownRegion;

    fn try_from(letters: String) -> Result<Self, UnknownRegion> {
        letters.parse()
    }
}

impl std::str::FromStr for Region {
    type Err = UnknownRegion;

    fn from_str(letters: &str) -> Result<Self, UnknownRegion> {
        letters.parse().map(Self).map_err(|_| UnknownRegion(letters.to_owned()))
    }
}

impl From<Region> for String {
    fn from(region: Region) -> Self {
        region.0.as_ref().to_owned()
    }
}

/// Two letters for which no numbering plan is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRegion(pub String);

impl fmt::Display for UnknownRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no numbering plan is known for `{}`; a region is two capital letters, such as `GB`", self.0)
    }
}

impl std::error::Error for UnknownRegion {}

/// Loads the numbering plans, so that the first call does not wait for them.
pub fn warm(regions: &[Region]) {
    let mut plans = Plans::new(regions);
    for digits in ["+12025550123", "+442079460123", "02079460123"] {
        plans.rank(digits, &Spelling::Any);
    }
}

/// The answers of the numbering plans within one call. The same digits are looked up once.
pub(in crate::redact) struct Plans<'r> {
    pub(super) regions: &'r [Region],
    asked: HashMap<(Spelling, String), Rank>,
    tries: usize,
}

impl<'r> Plans<'r> {
    pub(in crate::redact) fn new(regions: &'r [Region]) -> Self {
        Self { regions, asked: HashMap::new(), tries: 0 }
    }

    /// Whether the limit of look-ups is used up; then nothing can be said about the rest.
    pub(in crate::redact) fn is_exhausted(&self) -> bool {
        self.tries > REDACTION_PHONE_TRIES_MAX
    }

    /// The rank of the digits: with a plus, in the plan of their country code; without one, in the best of the regions.
    pub(super) fn rank(&mut self, digits: &str, spelling: &Spelling) -> Rank {
        let question = (spelling.clone(), digits.to_owned());
        if let Some(rank) = self.asked.get(&question) {
            return *rank;
        }
        let rank = if digits.starts_with('+') {
            self.rank_in(None, digits)
        } else {
            let regions = self.regions;
            let fitting = regions.iter().filter(|region| match spelling {
                Spelling::Any => true,
                Spelling::Usual { lengths } => region.writes(digits, lengths),
            });
            fitting.map(|region| self.rank_in(Some(region.0), digits)).max().unwrap_or(Rank::Unknown)
        };
        self.asked.insert(question, rank);
        rank
    }

    fn rank_in(&mut self, region: Option<country::Id>, digits: &str) -> Rank {
        self.tries += 1;
        if self.is_exhausted() {
            return Rank::Unknown;
        }
        let Ok(number) = phonenumber::parse(region, digits) else {
            return Rank::Unknown;
        };
        let length = u16::try_from(number.national().to_string().len()).unwrap_or(u16::MAX);
        let plans = DATABASE.by_code(&number.country().code()).unwrap_or_default();
        if phonenumber::is_valid(&number) {
            if number.number_type(&DATABASE) == Type::Mobile { Rank::Mobile } else { Rank::Assigned }
        } else if plans.iter().any(|plan| is_usual_length(plan, length)) {
            Rank::Possible
        } else {
            Rank::Unknown
        }
    }
}

fn is_usual_length(plan: &Metadata, length: u16) -> bool {
    let kinds = [plan.descriptors().fixed_line(), plan.descriptors().mobile()];
    kinds.into_iter().flatten().any(|kind| kind.possible_length().contains(&length))
}

/// How a number must be written to count as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Spelling {
    Any,
    /// As people of the region write it, in groups of these lengths.
    Usual {
        lengths: Vec<usize>,
    },
}

/// How well the plans know a number. The plans lag behind actual use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Unknown,
    /// The number has a length that numbers of its country have.
    Possible,
    /// The number is in a range that is in use.
    Assigned,
    /// The number is in a range that only mobile phones use. These ranges are few, and their numbers belong to people.
    Mobile,
}
