//! The bound that a grant puts on the sum of a param: `--sum-max 500 --of /amount --per 24h`.

use crate::shared::*;
use api::rules::{SumMaxRequest, SumMaxView};
use clap::Args;
use countersign_core::Amount;

/// The three flags.
#[derive(Debug, Args)]
pub(crate) struct Bound {
    /// How much of a param its calls may add up to, such as 500 or 12.50
    #[arg(long, value_name = "AMOUNT", requires = "of", requires = "per", value_parser = amount)]
    sum_max: Option<Amount>,
    /// The param that is added up, as a JSON pointer such as /amount
    #[arg(long, value_name = "POINTER", requires = "sum_max")]
    of: Option<String>,
    /// The time in which it is added up, such as 24h
    #[arg(long, value_name = "TIME", requires = "sum_max", value_parser = Span::parse)]
    per: Option<Span>,
}

impl Bound {
    pub(super) fn request(&self) -> Option<SumMaxRequest> {
        request(self.sum_max, self.of.as_deref(), self.per.as_ref())
    }
}

/// What the three flags ask for. The parser takes all of them or none.
pub(super) fn request(max: Option<Amount>, of: Option<&str>, per: Option<&Span>) -> Option<SumMaxRequest> {
    let (max, of, per) = (max?.to_string(), of?.to_owned(), per?.text());
    Some(SumMaxRequest { of, max, per })
}

/// Reads an amount.
pub(super) fn amount(text: &str) -> Result<Amount, String> {
    Amount::parse(text).ok_or_else(|| "expected an amount such as 500 or 12.50".to_owned())
}

/// A bound that is there, in words.
pub(super) fn words(sum: &SumMaxView) -> String {
    format!("{} of {} per {}", clean::line(&sum.max), clean::line(&sum.of), lasting(sum.per_seconds))
}

fn lasting(seconds: u64) -> String {
    match seconds {
        whole if whole % 3_600 == 0 => format!("{}h", whole / 3_600),
        whole if whole % 60 == 0 => format!("{}m", whole / 60),
        seconds => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_told_as_it_was_given() {
        let per = Span::parse("24h").unwrap();
        let asked = request(Some(amount("12.50").unwrap()), Some("/amount"), Some(&per)).unwrap();
        assert_eq!((asked.max.as_str(), asked.of.as_str(), asked.per.as_str()), ("12.5", "/amount", "24h"));
        for (per_seconds, told) in
            [(86_400, "12.5 of /amount per 24h"), (90 * 60, "12.5 of /amount per 90m"), (61, "12.5 of /amount per 61s")]
        {
            let sum = SumMaxView { of: asked.of.clone(), max: asked.max.clone(), per_seconds, spent: "0".to_owned() };
            assert_eq!(words(&sum), told);
        }
        assert!(amount("-1").is_err() && amount("1e3").is_err());
    }
}
