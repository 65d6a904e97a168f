//! Events that start one run together: the last of a burst, or a batch. What is gathered so far is a row with a time at which it is due, so a
//! restart loses none of it. The row says which events it has seen: an event that is handled twice is gathered once.

use crate::db::{Columns, Row, Tx, all, count as count_rows, only, to_json, vals};
use crate::firings::{fire_in, insert_firing};
use crate::{Error, Store};
use countersign_core::automation::Firing;
use countersign_core::limits::TRIGGER_BATCH_BYTES_MAX;
use countersign_core::ports::runs::{Fired, FiredGathering, Gather, Gathered, GatheredEvent, Gathering};
use countersign_core::{FiringId, Timestamp, random_bytes};

/// What the row of a trigger says.
struct Stored {
    firing: FiringId,
    events: Vec<i64>,
    count: i64,
    bytes: i64,
    last_seq: i64,
    first_at: Timestamp,
    due_at: Option<Timestamp>,
}

impl Store {
    pub(crate) async fn read_due_gatherings(&self, limit: u32) -> Result<Vec<Gathering>, Error> {
        let sql = "/* every org: one clock serves all of them */
                   SELECT org_id, automation_id, trigger_id, firing_id, events, count, first_at, last_at FROM gatherings
                   WHERE due_at IS NOT NULL AND due_at <= $1 ORDER BY due_at LIMIT $2";
        all(self.db.read(sql, &vals![self.db.now().await?, i64::from(limit)]).await?, |row| {
            let mut columns = Columns::of(row);
            Ok(Gathering {
                org: columns.id()?,
                automation: columns.id()?,
                trigger: columns.text()?,
                firing: columns.id()?,
                events: columns.json()?,
                count: u64::try_from(columns.int()?).unwrap_or_default(),
                first_at: columns.time()?,
                last_at: columns.time()?,
            })
        })
    }

    pub(crate) async fn read_next_gathering(&self) -> Result<Option<Timestamp>, Error> {
        let sql = "/* every org: one clock serves all of them */ SELECT min(due_at) FROM gatherings WHERE due_at IS NOT NULL";
        Ok(only(self.db.read(sql, &[]).await?, |row| Columns::of(row).time_or_null())?.flatten())
    }
}

pub(crate) async fn gather_in(store: &Store, tx: &mut Tx, event: GatheredEvent) -> Result<Gathered, Error> {
    let GatheredEvent { org, automation, trigger, seq, bytes, gather } = event;
    let now = tx.now();
    let sql = "SELECT firing_id, events, count, bytes, last_seq, first_at, due_at FROM gatherings
               WHERE org_id = $1 AND automation_id = $2 AND trigger_id = $3";
    let params = vals![org.as_str(), automation.as_str(), trigger.as_str()];
    let stored = only(tx.query(sql, &params).await?, read_stored)?;
    if stored.as_ref().is_some_and(|stored| stored.last_seq >= seq) {
        return Ok(Gathered::Known);
    }
    // It may have been removed since the event was matched.
    let sql = "SELECT count(*) FROM triggers WHERE org_id = $1 AND automation_id = $2 AND id = $3";
    if count_rows(tx.query(sql, &params).await?)? == 0 {
        return Ok(Gathered::Known);
    }
    let open = stored.filter(|stored| stored.due_at.is_some());
    let (firing, mut events, count, mut held, first_at) = match open {
        Some(open) => (open.firing, open.events, open.count, open.bytes, open.first_at),
        None => (FiringId::new(now, random_bytes(&*store.random)), Vec::new(), 0, 0, now),
    };
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    let due_at = match gather {
        Gather::Debounce { seconds } => {
            events.clear();
            held = 0;
            now.plus_seconds(u64::from(seconds))
        }
        Gather::Batch { max, .. } if count >= i64::from(max) || held >= TRIGGER_BATCH_BYTES_MAX => return Ok(Gathered::Full),
        Gather::Batch { max, .. } if count + 1 >= i64::from(max) || held.saturating_add(bytes) >= TRIGGER_BATCH_BYTES_MAX => now,
        Gather::Batch { window_seconds, .. } => first_at.plus_seconds(u64::from(window_seconds)),
    };
    events.push(seq);
    let sql =
        "INSERT INTO gatherings (org_id, automation_id, trigger_id, firing_id, events, count, bytes, last_seq, first_at, last_at, due_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
               ON CONFLICT (org_id, automation_id, trigger_id) DO UPDATE SET firing_id = excluded.firing_id, events = excluded.events,
                 count = excluded.count, bytes = excluded.bytes, last_seq = excluded.last_seq, first_at = excluded.first_at,
                 last_at = excluded.last_at, due_at = excluded.due_at";
    let params = vals![
        org.as_str(),
        automation.as_str(),
        trigger.as_str(),
        firing.as_str(),
        to_json(&events)?,
        count + 1,
        held.saturating_add(bytes),
        seq,
        first_at,
        now,
        due_at
    ];
    tx.exec(sql, &params).await?;
    Ok(Gathered::Until(due_at))
}

pub(crate) async fn fire_gathered_in(store: &Store, tx: &mut Tx, fired: FiredGathering) -> Result<Option<Fired>, Error> {
    let FiredGathering { gathering, firing, others } = fired;
    let Gathering { org, automation, trigger, firing: id, events, count, first_at, last_at } = gathering;
    let sql = "UPDATE gatherings SET due_at = NULL, events = '[]', count = 0, bytes = 0
               WHERE org_id = $1 AND automation_id = $2 AND trigger_id = $3 AND firing_id = $4 AND last_seq = $5 AND due_at IS NOT NULL";
    let params = vals![org.as_str(), automation.as_str(), trigger.as_str(), id.as_str(), events.last().copied().unwrap_or_default()];
    if tx.exec(sql, &params).await? == 0 {
        return Ok(None);
    }
    let Some(firing) = firing else {
        return Ok(None);
    };
    let done = fire_in(store, tx, *firing).await?;
    if let (Fired::New(one), true) = (&done, count > 1) {
        let others = Firing {
            id: FiringId::new(tx.now(), random_bytes(&*store.random)),
            reason: others,
            detail: Some(format!("into firing `{}`", one.id)),
            run: None,
            tick: None,
            event: None,
            at: tx.now(),
            count: count - 1,
            first_at,
            last_at,
            ..one.clone()
        };
        insert_firing(tx, &others).await?;
    }
    Ok(Some(done))
}

fn read_stored(row: Row) -> Result<Stored, Error> {
    let mut columns = Columns::of(row);
    Ok(Stored {
        firing: columns.id()?,
        events: columns.json()?,
        count: columns.int()?,
        bytes: columns.int()?,
        last_seq: columns.int()?,
        first_at: columns.time()?,
        due_at: columns.time_or_null()?,
    })
}
