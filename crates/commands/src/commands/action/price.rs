//! `countersign action price`: what a call of an action costs.

use crate::commands::sum::amount;
use crate::shared::*;
use api::rules::{PriceChangeResponse, PriceTerms, PriceView};
use clap::Args;
use countersign_core::Amount;

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign action price github.search 0.002
  countersign action price model.answer 0.000003 --per result.usage.units --at-most 4000
  countersign action price github.search --remove";

#[derive(Debug, Args)]
pub(crate) struct Price {
    /// Such as github.search
    action: String,
    /// Dollars for one call, or with --per for one unit, such as 0.002
    #[arg(value_name = "USD", value_parser = amount, required_unless_present = "remove")]
    usd: Option<Amount>,
    /// Count units: a number in the result, such as result.usage.units
    #[arg(long, value_name = "FIELD", requires = "at_most")]
    per: Option<String>,
    /// How many units a call may have: a run reserves as many before it makes the call
    #[arg(long, value_name = "UNITS", requires = "per", value_parser = amount)]
    at_most: Option<Amount>,
    /// Remove the price: calls cost nothing from then on
    #[arg(long, conflicts_with_all = ["usd", "per", "at_most"])]
    remove: bool,
}

impl Resource for PriceView {
    const NOUN: &'static str = "price";
    const LIST: &'static str = "action prices";
    const PATH: &'static [&'static str] = &["prices"];
    const EMPTY: &'static str = "no action has a price: calls cost nothing";
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("action", Column::Whole, |one, _| text(&one.action)),
        Field::both("price", Column::Whole, |one, _| text(words(Some(&one.price)))),
        Field::both("version", Column::Number, |one, _| text(one.version.to_string())),
        Field::both("set by", Column::Extra, |one, view| view.who(&one.set_by)),
        Field::both("set", Column::Whole, |one, view| view.past(one.set_at)),
    ];

    fn id(&self) -> &str {
        &self.action
    }
}

impl Price {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let path = ["prices", self.action.as_str()];
        let answer = match self.usd {
            Some(usd) => {
                let at_most = self.at_most.map(|most| most.to_string());
                client.put::<PriceChangeResponse>(&path, &PriceTerms { usd: usd.to_string(), per: self.per, at_most }).await?
            }
            None => client.delete::<PriceChangeResponse>(&path).await?,
        };
        let changed = &answer.read;
        let record = Record::new(&changed.action)
            .with("action", Cell::text(&changed.action))
            .with("price", Cell::text(words(changed.price.as_ref())))
            .with("version", Cell::text(changed.version.to_string()));
        terminal.record(&answer.raw, &record)?;
        Ok(Exit::Ok)
    }
}

/// A price in words.
pub(super) fn words(price: Option<&PriceTerms>) -> String {
    match price {
        None => "none: its calls count $0".to_owned(),
        Some(PriceTerms { usd, per: Some(field), at_most }) => {
            let most = at_most.as_deref().unwrap_or_default();
            format!("${} per {}, at most {} a call", clean::line(usd), clean::line(field), clean::line(most))
        }
        Some(PriceTerms { usd, .. }) => format!("${} per call", clean::line(usd)),
    }
}
