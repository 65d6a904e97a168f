//! The actions that remote sources listed last.

use crate::db::{Columns, Row, Tx, vals};
use crate::{Error, Store, breakers};
use countersign_core::source::{self, KeptListing, Listings};
use countersign_core::{Action, Future, OrgId, SourceId, json};
use std::sync::Arc;

const SELECT_LISTING: &str = "SELECT actions, listed_at FROM listings WHERE org_id = $1 AND source = $2";
const UPSERT_LISTING: &str = "INSERT INTO listings (org_id, source, actions, listed_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (org_id, source) DO UPDATE SET actions = excluded.actions, listed_at = excluded.listed_at";

impl Listings for Store {
    fn find_listing<'a>(&'a self, org: &'a OrgId, source: &'a SourceId) -> Future<'a, Result<Option<KeptListing>, Error>> {
        Box::pin(async move {
            let rows = self.db.read(SELECT_LISTING, &vals![org.as_str(), source.as_str()]).await?;
            rows.into_iter().next().map(read_listing).transpose()
        })
    }

    fn keep_listing<'a>(&'a self, org: &'a OrgId, source: &'a SourceId, listing: KeptListing) -> Future<'a, Result<(), Error>> {
        Box::pin(async move {
            let actions: Vec<&Action> = listing.actions.iter().map(Arc::as_ref).collect();
            let actions = json::canonical(&actions).map_err(|error| Error::Corrupt { message: error.to_string() })?;
            let (org, source, listed_at) = (org.clone(), source.clone(), listing.listed_at);
            self.db
                .write(org.clone(), move |tx| {
                    Box::pin(async move {
                        let values = vals![org.as_str(), source.as_str(), actions, listed_at];
                        tx.exec(UPSERT_LISTING, &values).await.map(|_| ())
                    })
                })
                .await
        })
    }

    fn note_listing<'a>(
        &'a self,
        org: &'a OrgId,
        source: &'a SourceId,
        failed: Option<&'a source::Error>,
    ) -> Future<'a, Result<(), Error>> {
        Box::pin(breakers::note_source(self, org, source, failed))
    }
}

/// Forgets what a source listed: its name now means another one.
pub(crate) async fn forget_in(tx: &mut Tx, org: &OrgId, source: &SourceId) -> Result<(), Error> {
    let sql = "DELETE FROM listings WHERE org_id = $1 AND source = $2";
    tx.exec(sql, &vals![org.as_str(), source.as_str()]).await.map(|_| ())
}

fn read_listing(row: Row) -> Result<KeptListing, Error> {
    let mut columns = Columns::of(row);
    let actions: Vec<Action> = columns.parsed(|text| serde_json::from_str(text).ok())?;
    Ok(KeptListing { actions: actions.into_iter().map(Arc::new).collect(), listed_at: columns.time()? })
}
