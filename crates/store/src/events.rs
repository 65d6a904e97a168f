//! Events, written in the transaction of what they tell: an event and its receipt can never disagree.

use crate::db::{Columns, Row, Tx, vals};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::ledger::EventDraft;
use countersign_core::{EventId, OrgId, ReceiptId, Timestamp};

/// An immutable fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Grows; events of one key are in order.
    pub seq: i64,
    pub id: EventId,
    pub name: String,
    pub key: String,
    /// The receipt it tells of, where it does.
    pub receipt: Option<ReceiptId>,
    /// JSON.
    pub body: String,
    pub at: Timestamp,
}

impl Store {
    /// Oldest first, after the cursor.
    pub async fn list_events(&self, org: &OrgId, request: &PageRequest) -> Result<Page<Event>, Error> {
        let after = request.after.as_deref().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
        let rows = self
            .db
            .read(
                "SELECT seq, id, name, key, receipt_id, body, at FROM events WHERE org_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
                &vals![org.as_str(), after, i64::from(request.limit) + 1],
            )
            .await?;
        let events = rows.into_iter().map(read_event).collect::<Result<Vec<_>, _>>()?;
        Ok(page(events, request.limit, |event| event.seq.to_string()))
    }
}

/// Written at the end of the batch: nobody in it reads events, and their ids are new.
pub(crate) fn insert_event(tx: &mut Tx, org: &OrgId, event: &EventDraft, receipt: Option<&ReceiptId>) {
    let params = vals![
        org.as_str(),
        event.id.as_str(),
        event.name,
        event.key.as_str(),
        receipt.map(ReceiptId::as_str),
        event.body.as_str(),
        tx.now()
    ];
    tx.later("INSERT INTO events (org_id, id, name, key, receipt_id, body, at) VALUES ($1, $2, $3, $4, $5, $6, $7)", params.into());
}

pub(crate) fn read_event(row: Row) -> Result<Event, Error> {
    let mut columns = Columns::of(row);
    Ok(Event {
        seq: columns.int()?,
        id: columns.parsed(|text| EventId::parse(text).ok())?,
        name: columns.text()?,
        key: columns.text()?,
        receipt: columns.parsed_or_null(|text| ReceiptId::parse(text).ok())?,
        body: columns.text()?,
        at: columns.time()?,
    })
}
