//! Checks that what a call is said to have cost follows from the price that the log has for its action.

use super::{Class, Finding};
use crate::body::ReceiptBody;
use countersign_core::price::Price;
use countersign_core::{ActionId, Amount};
use std::collections::HashMap;

/// Every price that the log has set so far.
#[derive(Default)]
pub(super) struct Prices(HashMap<i64, (ActionId, Price)>);

impl Prices {
    pub(super) fn set(&mut self, version: i64, action: ActionId, price: Price) {
        self.0.insert(version, (action, price));
    }

    /// A call costs nothing or its price. How many units one counted, only its result says, which is not in the log.
    pub(super) fn fits(&self, receipt: &ReceiptBody) -> Result<(), Finding> {
        let (version, usd) = match (receipt.cost.price, receipt.cost.usd) {
            (None, None) => return Ok(()),
            (Some(version), Some(usd)) => (version, usd),
            (Some(_), None) | (None, Some(_)) => {
                return Err(unfounded("it has a price without a cost, or a cost without a price".to_owned()));
            }
        };
        let price = self.0.get(&version).filter(|(action, _)| *action == receipt.action);
        let Some((action, price)) = price else {
            return Err(unfounded(format!("`{}` had no price of version {version}", receipt.action)));
        };
        if price.unit.is_none() && usd != Amount::default() && usd != price.usd {
            return Err(unfounded(format!("a call of `{action}` did cost ${usd}, and its price was ${}", price.usd)));
        }
        Ok(())
    }
}

fn unfounded(reason: String) -> Finding {
    Finding::new(Class::DecisionNotReproduced, reason)
}
