//! What calls of actions cost. A price for an unknown action is refused: a misspelt name would count nothing and look as if it did.

use super::{Error, action_named, modes, must};
use crate::App;
use api::rules::PriceTerms;
use countersign_core::limits::PRICE_FIELD_CHARS_MAX;
use countersign_core::price::{Price, ResultField, Unit};
use countersign_core::principal::Permission;
use countersign_core::{ActionId, Amount, Principal};

/// Returns the action and the version of the change.
pub async fn set(app: &App, by: &Principal, action: &str, asked: &PriceTerms) -> Result<(ActionId, i64), Error> {
    must(by, Permission::ManagePolicy)?;
    let id = action_named(app, by, action).await?;
    if modes::is_missing(&app.pipeline().catalogue().list(&by.org).await, &id) {
        return Err(Error::unknown_action(app, &by.org, action).await);
    }
    let price = price_of(asked).map_err(Error::invalid)?;
    let version = app.store().set_price(&by.org, &id, price, &by.id).await?;
    Ok((id, version))
}

pub async fn remove(app: &App, by: &Principal, action: &str) -> Result<(ActionId, i64), Error> {
    must(by, Permission::ManagePolicy)?;
    let id = action_named(app, by, action).await?;
    match app.store().remove_price(&by.org, &id, &by.id).await? {
        Some(version) => Ok((id, version)),
        None => Err(Error::Absent { message: format!("`{id}` has no price"), listed_at: "prices" }),
    }
}

fn price_of(asked: &PriceTerms) -> Result<Price, String> {
    let usd = amount("usd", &asked.usd)?;
    let unit = match (&asked.per, &asked.at_most) {
        (None, None) => None,
        (Some(field), Some(most)) => {
            let field = ResultField::parse(field).ok_or_else(|| {
                format!("`per` is a field of the result such as `result.usage.units`, of {PRICE_FIELD_CHARS_MAX} characters at most")
            })?;
            Some(Unit { field, at_most: amount("at_most", most)? })
        }
        (Some(_), None) => return Err("`per` needs `at_most`: as many units are reserved before a call".to_owned()),
        (None, Some(_)) => return Err("`at_most` needs `per`: the field of the result that counts units".to_owned()),
    };
    Ok(Price { usd, unit })
}

fn amount(field: &str, text: &str) -> Result<Amount, String> {
    Amount::parse(text).ok_or_else(|| format!("`{field}` is an amount such as `0.002`, with six decimals at most"))
}
