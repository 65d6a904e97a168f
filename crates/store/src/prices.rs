//! What calls of actions cost. Every change is versioned, signed into the audit log and published as an event.

use crate::db::{Columns, Row, vals};
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::price::{Price, PriceRow, ResultField, Unit};
use countersign_core::{ActionId, Amount, OrgId, PrincipalId, Timestamp};
use receipt::body::RuleChange;

macro_rules! select_price {
    () => {
        "SELECT action, usd, field, at_most, version, set_by, set_at FROM prices WHERE org_id = $1"
    };
}
pub(crate) use select_price;

/// A price, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceSetting {
    pub action: ActionId,
    pub row: PriceRow,
    pub set_by: PrincipalId,
    pub set_at: Timestamp,
}

impl Store {
    /// Returns the version that the change got.
    pub async fn set_price(&self, org: &OrgId, action: &ActionId, price: Price, by: &PrincipalId) -> Result<i64, Error> {
        let (store, org, action, by) = (self.clone(), org.clone(), action.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let told = RuleEvent { name: "price.set", key: action.to_string() };
                    let change = RuleChange::PriceSet { action: action.clone(), price: price.clone() };
                    let version = rule_log::record(&store, tx, &org, Some(by.clone()), change, told).await?;
                    let unit = price.unit.as_ref();
                    tx.exec(
                        "INSERT INTO prices (org_id, action, usd, field, at_most, version, set_by, set_at)
                         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                         ON CONFLICT (org_id, action) DO UPDATE
                         SET usd = excluded.usd, field = excluded.field, at_most = excluded.at_most, version = excluded.version,
                             set_by = excluded.set_by, set_at = excluded.set_at",
                        &vals![
                            org.as_str(),
                            action.as_str(),
                            price.usd.as_millionths(),
                            unit.map(|unit| unit.field.to_string()),
                            unit.map(|unit| unit.at_most.as_millionths()),
                            version,
                            by.to_string(),
                            tx.now()
                        ],
                    )
                    .await?;
                    Ok(version)
                })
            })
            .await
    }

    /// Returns the version that the change got; `None` if there was no price.
    pub async fn remove_price(&self, org: &OrgId, action: &ActionId, by: &PrincipalId) -> Result<Option<i64>, Error> {
        let (store, org, action, by) = (self.clone(), org.clone(), action.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "DELETE FROM prices WHERE org_id = $1 AND action = $2";
                    if tx.exec(sql, &vals![org.as_str(), action.as_str()]).await? == 0 {
                        return Ok(None);
                    }
                    let told = RuleEvent { name: "price.removed", key: action.to_string() };
                    rule_log::record(&store, tx, &org, Some(by), RuleChange::PriceRemoved { action }, told).await.map(Some)
                })
            })
            .await
    }

    pub async fn list_prices(&self, org: &OrgId, request: &PageRequest) -> Result<Page<PriceSetting>, Error> {
        let after = request.after.as_deref().unwrap_or_default();
        let sql = concat!(select_price!(), " AND action > $2 ORDER BY action LIMIT $3");
        let rows = self.db.read(sql, &vals![org.as_str(), after, i64::from(request.limit) + 1]).await?;
        page(rows, request.limit, read_price, |price| price.action.to_string())
    }
}

pub(crate) fn read_price(row: Row) -> Result<PriceSetting, Error> {
    let mut columns = Columns::of(row);
    let action = columns.parsed(|text| ActionId::parse(text).ok())?;
    let usd = amount(columns.int()?)?;
    let (field, at_most) = (columns.text_or_null()?, columns.int_or_null()?);
    let unit = match field.zip(at_most) {
        Some((field, at_most)) => {
            let field =
                ResultField::parse(&field).ok_or_else(|| Error::Corrupt { message: format!("`{field}` is not a field of a result") })?;
            Some(Unit { field, at_most: amount(at_most)? })
        }
        None => None,
    };
    let row = PriceRow { price: Price { usd, unit }, version: columns.int()? };
    Ok(PriceSetting { action, row, set_by: columns.parsed(PrincipalId::parse)?, set_at: columns.time()? })
}

fn amount(millionths: i64) -> Result<Amount, Error> {
    Amount::from_millionths(millionths).ok_or_else(|| Error::Corrupt { message: format!("{millionths} is not an amount") })
}
