//! Events are written in the transaction of the change they report, so an event and its receipt can never disagree.

use crate::db::{Columns, Row, Tx, Val, all, count, only, to_json, vals};
use crate::{Error, Store, seal};
use countersign_core::limits::EVENT_WAIT_SECONDS;
use countersign_core::ports::EventFeed;
use countersign_core::ports::bus::{NewEvent, Published};
use countersign_core::ports::events::{Cause, Event, EventDraft};
use countersign_core::{EventId, Future, OrgId, ReceiptId, SpaceId, Timestamp, random_bytes};
use serde::de::DeserializeOwned;
use std::time::Duration;

macro_rules! select_event {
    () => {
        "SELECT seq, id, name, key, receipt_id, body, at, space_id, cause, origin FROM events WHERE org_id = $1"
    };
}
pub(crate) use select_event;

impl EventFeed for Store {
    fn list_events_after<'a>(&'a self, org: &'a OrgId, after: i64, limit: u32) -> Future<'a, Result<Vec<Event>, Error>> {
        Box::pin(async move {
            let sql = concat!(select_event!(), " AND seq > $2 ORDER BY seq LIMIT $3");
            all(self.db.read(sql, &vals![org.as_str(), after, i64::from(limit)]).await?, read_event)
        })
    }

    fn newest_event<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<i64, Error>> {
        Box::pin(async move {
            let sql = "SELECT seq FROM events WHERE org_id = $1 ORDER BY seq DESC LIMIT 1";
            count(self.db.read(sql, &vals![org.as_str()]).await?)
        })
    }

    fn oldest_event<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<i64, Error>> {
        Box::pin(async move {
            let sql = "SELECT seq FROM events WHERE org_id = $1 ORDER BY seq LIMIT 1";
            count(self.db.read(sql, &vals![org.as_str()]).await?)
        })
    }

    fn is_shared(&self) -> bool {
        self.may_be_shared()
    }

    fn wait_for_event<'a>(&'a self, org: &'a OrgId, after: i64) -> Future<'a, ()> {
        Box::pin(async move {
            let _elapsed = tokio::time::timeout(Duration::from_secs(EVENT_WAIT_SECONDS), self.db.news().wait(org, after)).await;
        })
    }
}

impl Store {
    /// The event at this position; `None` if there is none yet, or it is kept no longer.
    pub async fn find_event(&self, org: &OrgId, seq: i64) -> Result<Option<Event>, Error> {
        only(self.db.read(concat!(select_event!(), " AND seq = $2"), &vals![org.as_str(), seq]).await?, read_event)
    }

    /// The newest event with this id: ours, or the one that whoever sent it gave it.
    pub async fn find_event_by_id(&self, org: &OrgId, id: &str) -> Result<Option<Event>, Error> {
        let ours = concat!(select_event!(), " AND id = $2");
        if let Some(found) = only(self.db.read(ours, &vals![org.as_str(), id]).await?, read_event)? {
            return Ok(Some(found));
        }
        let theirs = concat!(select_event!(), " AND source_id = $2 ORDER BY seq DESC LIMIT 1");
        only(self.db.read(theirs, &vals![org.as_str(), id]).await?, read_event)
    }

    /// The position of the first event that was committed at this time or later; `None` if every event is older.
    pub async fn find_event_from(&self, org: &OrgId, time: Timestamp) -> Result<Option<i64>, Error> {
        let sql = "SELECT seq FROM events WHERE org_id = $1 AND at >= $2 ORDER BY seq LIMIT 1";
        only(self.db.read(sql, &vals![org.as_str(), time]).await?, |row| Columns::of(row).int())
    }
}

/// Publishes an event in this write, unless its source has published it already.
pub(crate) async fn publish_in(store: &Store, tx: &mut Tx, org: &OrgId, event: NewEvent) -> Result<Published, Error> {
    let NewEvent { name, key, body, origin, space, cause } = event;
    if let Some(origin) = &origin {
        let sql = "SELECT seq, id FROM events WHERE org_id = $1 AND source_id = $2 AND source = $3";
        let known = only(tx.query(sql, &vals![org.as_str(), origin.id.as_str(), origin.source.as_str()]).await?, |row| {
            let mut columns = Columns::of(row);
            Ok(Published { seq: columns.int()?, id: columns.id()?, is_known: true })
        })?;
        if let Some(known) = known {
            return Ok(known);
        }
    }
    let (seq, id) = (seal::next_event(tx, org).await?, EventId::new(tx.now(), random_bytes(&*store.random)));
    let params = vals![
        org.as_str(),
        seq,
        id.as_str(),
        name,
        key,
        Val::Null,
        body,
        tx.now(),
        space.as_ref().map(|space| space.as_str()),
        (!cause.is_nobody()).then(|| to_json(&cause)).transpose()?,
        origin.as_ref().map(|origin| origin.source.as_str()),
        origin.as_ref().map(|origin| origin.id.as_str()),
        origin.as_ref().map(to_json).transpose()?
    ];
    if origin.is_some() {
        // At once, and not at the end of the batch: the next write of the batch may publish the same event.
        tx.exec(INSERT_EVENT, &params).await?;
    } else {
        tx.later(INSERT_EVENT, params.into());
    }
    Ok(Published { seq, id, is_known: false })
}

/// Publishes an event about something in this space, for whom it exists and whose automations it fires.
pub(crate) async fn tell_in(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    space: &SpaceId,
    name: &'static str,
    key: String,
    body: String,
) -> Result<(), Error> {
    let event = NewEvent { name: name.to_owned(), key, body, origin: None, space: Some(space.clone()), cause: Cause::default() };
    publish_in(store, tx, org, event).await.map(|_| ())
}

/// Publishes an event of the whole org that has no receipt, under a new id.
pub(crate) async fn tell(store: &Store, tx: &mut Tx, org: &OrgId, name: &'static str, key: String, body: String) -> Result<(), Error> {
    let id = EventId::new(tx.now(), random_bytes(&*store.random));
    insert_event(tx, org, &EventDraft { id, name, key, body }, None).await
}

/// One statement for all events: a batch's rows then go in together.
pub(crate) const INSERT_EVENT: &str = "INSERT INTO events
       (org_id, seq, id, name, key, receipt_id, body, at, space_id, cause, source, source_id, origin)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";

/// Events are written at the end of the batch: no write of the batch reads them, and their ids are new.
pub(crate) async fn insert_event(tx: &mut Tx, org: &OrgId, event: &EventDraft, receipt: Option<&ReceiptId>) -> Result<(), Error> {
    let params = vals![
        org.as_str(),
        seal::next_event(tx, org).await?,
        event.id.as_str(),
        event.name,
        event.key.as_str(),
        receipt.map(ReceiptId::as_str),
        event.body.as_str(),
        tx.now(),
        Val::Null,
        Val::Null,
        Val::Null,
        Val::Null,
        Val::Null
    ];
    tx.later(INSERT_EVENT, params.into());
    Ok(())
}

pub(crate) fn read_event(row: Row) -> Result<Event, Error> {
    let mut columns = Columns::of(row);
    Ok(Event {
        seq: columns.int()?,
        id: columns.id()?,
        name: columns.text()?,
        key: columns.text()?,
        receipt: columns.id_or_null()?,
        body: columns.text()?,
        at: columns.time()?,
        space: columns.id_or_null()?,
        cause: json_or_null(&mut columns)?.unwrap_or_default(),
        origin: json_or_null(&mut columns)?,
    })
}

fn json_or_null<T: DeserializeOwned>(columns: &mut Columns) -> Result<Option<T>, Error> {
    let read = |text: String| serde_json::from_str(&text).map_err(|error| Error::Corrupt { message: error.to_string() });
    columns.text_or_null()?.map(read).transpose()
}
