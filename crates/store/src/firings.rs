//! The ledger of firings: what each occurrence of a trigger came to, also if it started nothing. A firing and the run that it starts are one
//! write, so the same tick, event or idempotency key never starts a second run, whichever server it reaches.

use crate::automations::table::find_in;
use crate::db::{Columns, Row, Tx, Val, count, only, to_json, vals};
use crate::events::publish_in;
use crate::events::tell_in;
use crate::limits::{FIRE_KEY_SECONDS, FIRING_KEPT_SECONDS, FORGET_ROWS, FORGET_WRITES, TRIGGER_CROWDED_SECONDS, TRIGGER_PAUSE_SECONDS};
use crate::notifications::notify_in;
use crate::runs::end::drop_oldest;
use crate::runs::start::{Slot, insert_run};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::automation::{Automation, AutomationStatus, Firing, FiringOutcome, FiringReason, Tick};
use countersign_core::ports::automations::SkippedTicks;
use countersign_core::ports::bus::NewEvent;
use countersign_core::ports::runs::{Concurrency, Dropped, Fired, NewFiring, Occasion, Rate, Start};
use countersign_core::{AutomationId, Digest, FiringId, OrgId, RunId, Timestamp, random_bytes};
use serde_json::json;

macro_rules! select_firing {
    () => {
        "SELECT id, org_id, automation_id, trigger_id, reason, detail, run_id, scheduled_for, tick, event_id, at, count, first_at, last_at
         FROM firings WHERE org_id = $1"
    };
}

const MINUTE_MICROS: i64 = 60_000_000;

const FORGET_KEYS: &str = "DELETE FROM fire_keys WHERE org_id = $1 AND (automation_id, key) IN (SELECT automation_id, key FROM fire_keys
     WHERE org_id = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3)";
const FORGET_FIRINGS: &str = "DELETE FROM firings WHERE org_id = $1 AND id IN (SELECT id FROM firings
     WHERE org_id = $1 AND last_at < $2 ORDER BY last_at LIMIT $3)";

const FORGET_PAYLOADS: &str = "DELETE FROM trigger_payloads WHERE org_id = $1 AND run_id IN (SELECT run_id FROM trigger_payloads
     WHERE org_id = $1 AND kept_until <= $2 ORDER BY kept_until LIMIT $3)";

/// Which firings of an automation to list; by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FiringFilter {
    pub trigger: Option<String>,
    pub outcome: Option<FiringOutcome>,
    /// Only those that started no run.
    pub no_run: bool,
}

/// Ticks of a schedule that were left out.
pub(crate) struct SkippedRow<'a> {
    pub(crate) org: &'a OrgId,
    pub(crate) automation: &'a AutomationId,
    pub(crate) trigger: &'a str,
    pub(crate) ticks: SkippedTicks,
}

impl Store {
    /// Lists the firings of an automation, newest first.
    pub async fn list_firings(
        &self,
        org: &OrgId,
        automation: &AutomationId,
        filter: &FiringFilter,
        request: &PageRequest,
    ) -> Result<Page<Firing>, Error> {
        let sql = concat!(
            select_firing!(),
            " AND automation_id = $2 AND (trigger_id = $3 OR $3 = '') AND (outcome = $4 OR $4 = '') AND (outcome <> $5 OR $5 = '')
              AND id < $6 ORDER BY id DESC LIMIT $7"
        );
        let params = vals![
            org.as_str(),
            automation.as_str(),
            filter.trigger.as_deref().unwrap_or_default(),
            filter.outcome.map_or("", FiringOutcome::as_str),
            if filter.no_run { FiringOutcome::Started.as_str() } else { "" },
            request.after.as_deref().unwrap_or("~"),
            i64::from(request.limit) + 1
        ];
        page(self.db.read(sql, &params).await?, request.limit, read_firing, |firing| firing.id.to_string())
    }

    /// Removes firings of long ago, idempotency keys that have expired, and payloads whose time is over, in writes of up to `FORGET_ROWS` of
    /// each, and up to `FORGET_WRITES` of them. Returns how many.
    pub async fn forget_firings(&self, org: &OrgId) -> Result<u64, Error> {
        let mut forgotten = 0;
        for _ in 0..FORGET_WRITES {
            let some = self.forget_some_firings(org).await?;
            forgotten += some.iter().sum::<u64>();
            if some.into_iter().all(|rows| rows < u64::from(FORGET_ROWS)) {
                break;
            }
        }
        Ok(forgotten)
    }

    /// Returns how many firings, keys and payloads.
    async fn forget_some_firings(&self, org: &OrgId) -> Result<[u64; 3], Error> {
        let org = org.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let (now, most) = (tx.now(), i64::from(FORGET_ROWS));
                    let keys = tx.exec(FORGET_KEYS, &vals![org.as_str(), now, most]).await?;
                    let firings = tx.exec(FORGET_FIRINGS, &vals![org.as_str(), now.minus_seconds(FIRING_KEPT_SECONDS), most]).await?;
                    let payloads = tx.exec(FORGET_PAYLOADS, &vals![org.as_str(), now, most]).await?;
                    Ok([firings, keys, payloads])
                })
            })
            .await
    }
}

/// What stands in the way of a firing, or what it starts.
enum Verdict {
    Starts(Box<Start>, Slot),
    Nothing(FiringReason),
}

pub(crate) async fn fire_in(store: &Store, tx: &mut Tx, new: NewFiring) -> Result<Fired, Error> {
    let Some(automation) = find_in(tx, &new.org, &new.automation).await? else {
        return Ok(Fired::UnknownAutomation);
    };
    if let Some(earlier) = earlier(tx, &new).await? {
        if let Fired::Earlier(first) = &earlier {
            note_again(tx, new, first).await?;
        }
        return Ok(earlier);
    }
    let NewFiring { id, org, automation: automation_id, trigger, occasion, reason, detail, cause, start } = new;
    let now = tx.now();
    let verdict = match start {
        Some(start) => judge(store, tx, &automation, trigger.as_deref(), start).await?,
        None => {
            if let (FiringReason::FilterTooCostly, Some(trigger), Some(why)) = (reason, trigger.as_deref(), detail.as_deref())
                && trigger_refuses(tx, &automation, trigger).await?.is_none()
            {
                disable(store, tx, &automation, trigger, why).await?;
            }
            Verdict::Nothing(reason)
        }
    };
    let (reason, run) = match &verdict {
        Verdict::Starts(start, _) => (reason, Some(start.run.clone())),
        Verdict::Nothing(reason) => (*reason, None),
    };
    let (tick, event) = match &occasion {
        Occasion::Tick(tick) => (Some(tick.clone()), None),
        Occasion::Event(event) => (None, Some(event.clone())),
        Occasion::Key { .. } | Occasion::Request => (None, None),
    };
    let mut firing = Firing {
        id,
        org: org.clone(),
        automation: automation_id,
        trigger,
        reason,
        detail,
        run,
        tick,
        event,
        at: now,
        count: 1,
        first_at: now,
        last_at: now,
    };
    let joined = if firing.run.is_none() && firing.tick.is_none() { joined_row(tx, &firing).await? } else { None };
    let is_joined = joined.is_some();
    match joined {
        Some(row) => firing.id = row,
        None => insert_firing(tx, &firing).await?,
    }
    if let Some((key, fingerprint)) = bound(occasion, reason) {
        let key = key_of(firing.trigger.as_deref(), &key);
        let sql = "INSERT INTO fire_keys (org_id, automation_id, key, fingerprint, firing_id, expires_at) VALUES ($1, $2, $3, $4, $5, $6)
                   ON CONFLICT (org_id, automation_id, key) DO UPDATE
                   SET fingerprint = excluded.fingerprint, firing_id = excluded.firing_id, expires_at = excluded.expires_at";
        let params = vals![
            org.as_str(),
            firing.automation.as_str(),
            key,
            fingerprint.to_string(),
            firing.id.as_str(),
            now.plus_seconds(FIRE_KEY_SECONDS)
        ];
        tx.exec(sql, &params).await?;
    }
    match verdict {
        Verdict::Starts(start, slot) => {
            if let Some(trigger) = &firing.trigger {
                let at = firing.tick.as_ref().map_or(now, |tick| tick.scheduled_for);
                let sql = "UPDATE triggers SET last_fired_at = $1 WHERE org_id = $2 AND automation_id = $3 AND id = $4";
                tx.exec(sql, &vals![at, org.as_str(), firing.automation.as_str(), trigger.as_str()]).await?;
            }
            insert_run(store, tx, &automation, &firing, cause, *start, slot).await?;
        }
        Verdict::Nothing(_) if is_joined => {}
        Verdict::Nothing(reason) => {
            let body = json!({
                "automation_id": firing.automation,
                "trigger_id": firing.trigger,
                "firing_id": firing.id,
                "outcome": reason.outcome(),
                "reason": reason,
                "detail": firing.detail,
            });
            // With what led to it: an automation that hears of what it could not start does not start for that.
            let event = NewEvent {
                name: "automation.firing.dropped".to_owned(),
                key: firing.automation.to_string(),
                body: body.to_string(),
                origin: None,
                space: Some(automation.space.clone()),
                cause,
            };
            publish_in(store, tx, &org, event).await?;
        }
    }
    Ok(Fired::New(firing))
}

/// The key that is answered with this firing from now on. A sender that is told to come again later, or to send something else, comes with the
/// same key.
fn bound(occasion: Occasion, reason: FiringReason) -> Option<(String, Digest)> {
    let is_told_to_come_again = matches!(
        reason,
        FiringReason::RateLimited | FiringReason::BreakerOpen | FiringReason::Disabled | FiringReason::Paused | FiringReason::InputsInvalid
    );
    match occasion {
        Occasion::Key { key, fingerprint } if !is_told_to_come_again => Some((key, fingerprint)),
        Occasion::Key { .. } | Occasion::Tick(_) | Occasion::Event(_) | Occasion::Request => None,
    }
}

/// A key as it is stored. Each trigger has keys of its own, and so has whoever asks by name: nobody uses up the key of another sender.
fn key_of(trigger: Option<&str>, key: &str) -> String {
    format!("{} {key}", trigger.unwrap_or_default())
}

/// What the same occasion came to before.
async fn earlier(tx: &mut Tx, new: &NewFiring) -> Result<Option<Fired>, Error> {
    let (org, automation) = (new.org.as_str(), new.automation.as_str());
    let trigger = new.trigger.as_deref();
    let rows = match &new.occasion {
        Occasion::Tick(tick) => {
            let sql = concat!(select_firing!(), " AND automation_id = $2 AND trigger_id = $3 AND scheduled_for = $4");
            tx.query(sql, &vals![org, automation, trigger, tick.scheduled_for]).await?
        }
        Occasion::Event(event) => {
            let sql = concat!(select_firing!(), " AND automation_id = $2 AND trigger_id = $3 AND event_id = $4");
            tx.query(sql, &vals![org, automation, trigger, event.as_str()]).await?
        }
        Occasion::Key { key, fingerprint } => {
            let sql =
                "SELECT fingerprint, firing_id FROM fire_keys WHERE org_id = $1 AND automation_id = $2 AND key = $3 AND expires_at > $4";
            let found = only(tx.query(sql, &vals![org, automation, key_of(trigger, key), tx.now()]).await?, |row| {
                let mut columns = Columns::of(row);
                Ok((columns.parsed(Digest::parse)?, columns.text()?))
            })?;
            let Some((bound_to, firing)) = found else { return Ok(None) };
            let sql = concat!(select_firing!(), " AND id = $2");
            let firing = only(tx.query(sql, &vals![org, firing]).await?, read_firing)?;
            // A key is remembered for a shorter time than its firing.
            let firing = firing.ok_or_else(|| Error::Corrupt { message: "an idempotency key has no firing".to_owned() })?;
            return Ok(Some(if bound_to == *fingerprint { Fired::Earlier(firing) } else { Fired::KeyReused(firing) }));
        }
        Occasion::Request => return Ok(None),
    };
    Ok(only(rows, read_firing)?.map(Fired::Earlier))
}

/// Notes that a key or an event came once more.
async fn note_again(tx: &mut Tx, new: NewFiring, first: &Firing) -> Result<(), Error> {
    let reason = match new.occasion {
        Occasion::Key { .. } => FiringReason::SameKey,
        Occasion::Event(_) => FiringReason::SameEvent,
        // Clocks list a tick again and again, until one of them has passed it.
        Occasion::Tick(_) | Occasion::Request => return Ok(()),
    };
    let now = tx.now();
    let again = Firing {
        id: new.id,
        org: new.org,
        automation: new.automation,
        trigger: new.trigger,
        reason,
        detail: Some(format!("as firing `{}`", first.id)),
        run: None,
        tick: None,
        event: None,
        at: now,
        count: 1,
        first_at: now,
        last_at: now,
    };
    match joined_row(tx, &again).await? {
        Some(_) => Ok(()),
        None => insert_firing(tx, &again).await,
    }
}

/// Whether the firing starts its run, and whether that may go on at once.
async fn judge(store: &Store, tx: &mut Tx, automation: &Automation, trigger: Option<&str>, start: Box<Start>) -> Result<Verdict, Error> {
    match automation.status {
        AutomationStatus::Active => {}
        AutomationStatus::Paused if start.asked_by.is_some() => {}
        AutomationStatus::Paused | AutomationStatus::Archived => return Ok(Verdict::Nothing(FiringReason::Paused)),
    }
    let (org, id) = (automation.org.as_str(), automation.id.as_str());
    if let Some(trigger) = trigger
        && let Some(reason) = trigger_refuses(tx, automation, trigger).await?
    {
        return Ok(Verdict::Nothing(reason));
    }
    if let (Some(trigger), Some(rate)) = (trigger, start.rate)
        && is_crowded(tx, org, id, trigger, rate).await?
    {
        return Ok(Verdict::Nothing(crowd(store, tx, automation, trigger).await?));
    }
    let taken = "SELECT count(*) FROM runs WHERE org_id = $1 AND automation_id = $2 AND slot = 1";
    let is_taken = start.concurrency != Concurrency::AllowParallel && count(tx.query(taken, &vals![org, id]).await?)? > 0;
    Ok(match start.concurrency {
        Concurrency::AllowParallel => Verdict::Starts(start, Slot::None),
        Concurrency::DropIfRunning | Concurrency::Queue { .. } if !is_taken => Verdict::Starts(start, Slot::Holds),
        Concurrency::DropIfRunning => Verdict::Nothing(FiringReason::AlreadyRunning),
        Concurrency::Queue { max, drop } => {
            let queued = "SELECT count(*) FROM runs WHERE org_id = $1 AND automation_id = $2 AND slot = 2";
            let is_full = count(tx.query(queued, &vals![org, id]).await?)? >= i64::from(max);
            match drop {
                Dropped::Newest | Dropped::Oldest if !is_full => Verdict::Starts(start, Slot::WaitsBehind),
                Dropped::Oldest if max > 0 => {
                    drop_oldest(store, tx, &automation.org, &automation.id).await?;
                    Verdict::Starts(start, Slot::WaitsBehind)
                }
                Dropped::Newest | Dropped::Oldest => Verdict::Nothing(FiringReason::QueueFull),
            }
        }
    })
}

async fn is_crowded(tx: &mut Tx, org: &str, automation: &str, trigger: &str, rate: Rate) -> Result<bool, Error> {
    let since = tx.now().minus_seconds(u64::from(rate.per_seconds));
    let sql =
        "SELECT count(*) FROM firings WHERE org_id = $1 AND automation_id = $2 AND trigger_id = $3 AND outcome = 'started' AND at > $4";
    Ok(count(tx.query(sql, &vals![org, automation, trigger, since]).await?)? >= i64::from(rate.max))
}

/// Why the trigger does not fire. It may have been disabled since the occurrence was noticed.
async fn trigger_refuses(tx: &mut Tx, automation: &Automation, trigger: &str) -> Result<Option<FiringReason>, Error> {
    let sql = "SELECT enabled, disabled_why FROM triggers WHERE org_id = $1 AND automation_id = $2 AND id = $3";
    let found = only(tx.query(sql, &vals![automation.org.as_str(), automation.id.as_str(), trigger]).await?, |row| {
        let mut columns = Columns::of(row);
        Ok((columns.int()? == 1, columns.text_or_null()?))
    })?;
    Ok(match found {
        Some((true, _)) => None,
        Some((false, Some(_))) => Some(FiringReason::BreakerOpen),
        Some((false, None)) | None => Some(FiringReason::Disabled),
    })
}

/// Drops a firing of a trigger that is at its rate. A trigger that stays there is disabled: what fires it may be its own doing, through
/// systems that we do not see.
async fn crowd(store: &Store, tx: &mut Tx, automation: &Automation, trigger: &str) -> Result<FiringReason, Error> {
    let (org, id, now) = (automation.org.as_str(), automation.id.as_str(), tx.now());
    let sql = "SELECT crowded_since FROM triggers WHERE org_id = $1 AND automation_id = $2 AND id = $3";
    let since = only(tx.query(sql, &vals![org, id, trigger]).await?, |row| Columns::of(row).time_or_null())?.flatten();
    // What was dropped within a minute is one row, which may have begun a minute before.
    let sql = "SELECT max(last_at) FROM firings WHERE org_id = $1 AND automation_id = $2 AND trigger_id = $3 AND outcome = 'dropped'
               AND at > $4 AND reason = 'rate_limited'";
    let recent = now.minus_seconds(2 * TRIGGER_PAUSE_SECONDS);
    let last = only(tx.query(sql, &vals![org, id, trigger, recent]).await?, |row| Columns::of(row).time_or_null())?.flatten();
    let is_going_on = last.is_some_and(|last| last >= now.minus_seconds(TRIGGER_PAUSE_SECONDS));
    match since.filter(|_| is_going_on) {
        None => {
            let sql = "UPDATE triggers SET crowded_since = $1 WHERE org_id = $2 AND automation_id = $3 AND id = $4";
            tx.exec(sql, &vals![now, org, id, trigger]).await?;
            Ok(FiringReason::RateLimited)
        }
        Some(since) if since > now.minus_seconds(TRIGGER_CROWDED_SECONDS) => Ok(FiringReason::RateLimited),
        Some(_) => {
            let why = format!("it was at its rate limit for {} minutes without a pause", TRIGGER_CROWDED_SECONDS / 60);
            disable(store, tx, automation, trigger, &why).await?;
            Ok(FiringReason::BreakerOpen)
        }
    }
}

/// Disables a trigger until a person enables it, and tells people why.
async fn disable(store: &Store, tx: &mut Tx, automation: &Automation, trigger: &str, why: &str) -> Result<(), Error> {
    let (org, id, now) = (automation.org.as_str(), automation.id.as_str(), tx.now());
    let sql = "UPDATE triggers SET enabled = 0, disabled_why = $1, crowded_since = NULL
               WHERE org_id = $2 AND automation_id = $3 AND id = $4";
    tx.exec(sql, &vals![why, org, id, trigger]).await?;
    let sql = "UPDATE automations SET changed_at = $1 WHERE org_id = $2 AND id = $3";
    tx.exec(sql, &vals![now, org, id]).await?;
    let body = json!({ "automation_id": automation.id, "trigger_id": trigger, "space_id": automation.space, "why": why }).to_string();
    tell_in(store, tx, &automation.org, &automation.space, "automation.trigger_disabled", automation.id.to_string(), body).await?;
    let told = format!(
        "`{trigger}` of the automation `{}`: {why}. It fires again once a person enables it: `countersign trigger enable {id} {trigger}`.",
        automation.name
    );
    notify_in(store, tx, &automation.org, &automation.space, "A trigger was disabled", &told).await
}

/// Counts a firing that started nothing with the others of its trigger, reason and minute, and returns which firing they are. `None` if it is
/// the first of them.
async fn joined_row(tx: &mut Tx, firing: &Firing) -> Result<Option<FiringId>, Error> {
    let minute = firing.at.as_micros().div_euclid(MINUTE_MICROS) * MINUTE_MICROS;
    let sql = "UPDATE firings SET count = count + 1, last_at = $1 WHERE org_id = $2 AND id IN (
                 SELECT id FROM firings WHERE org_id = $2 AND automation_id = $3 AND trigger_id = $4 AND outcome = $5 AND reason = $6
                 AND first_at >= $7 AND scheduled_for IS NULL ORDER BY id DESC LIMIT 1) RETURNING id";
    let params = vals![
        firing.at,
        firing.org.as_str(),
        firing.automation.as_str(),
        firing.trigger.as_deref().unwrap_or_default(),
        firing.reason.outcome().as_str(),
        firing.reason.as_str(),
        Timestamp::from_micros(minute)
    ];
    only(tx.query(sql, &params).await?, |row| Columns::of(row).id())
}

pub(crate) async fn insert_skipped(store: &Store, tx: &mut Tx, row: SkippedRow<'_>) -> Result<(), Error> {
    let SkippedRow { org, automation, trigger, ticks } = row;
    let firing = Firing {
        id: FiringId::new(tx.now(), random_bytes(&*store.random)),
        org: org.clone(),
        automation: automation.clone(),
        trigger: Some(trigger.to_owned()),
        reason: ticks.reason,
        detail: None,
        run: None,
        tick: None,
        event: None,
        at: tx.now(),
        count: ticks.count,
        first_at: ticks.first_at,
        last_at: ticks.last_at,
    };
    insert_firing(tx, &firing).await
}

pub(crate) async fn insert_firing(tx: &mut Tx, firing: &Firing) -> Result<(), Error> {
    let sql =
        "INSERT INTO firings (org_id, id, automation_id, trigger_id, outcome, reason, detail, run_id, scheduled_for, tick, event_id, at,
               count, first_at, last_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
    let params: Vec<Val> = vals![
        firing.org.as_str(),
        firing.id.as_str(),
        firing.automation.as_str(),
        firing.trigger.as_deref(),
        firing.reason.outcome().as_str(),
        firing.reason.as_str(),
        firing.detail.as_deref(),
        firing.run.as_ref().map(RunId::as_str),
        firing.tick.as_ref().map(|tick| tick.scheduled_for),
        firing.tick.as_ref().map(to_json).transpose()?,
        firing.event.as_ref().map(countersign_core::EventId::as_str),
        firing.at,
        i64::try_from(firing.count).unwrap_or(i64::MAX),
        firing.first_at,
        firing.last_at
    ]
    .into();
    tx.exec(sql, &params).await.map(|_| ())
}

fn read_firing(row: Row) -> Result<Firing, Error> {
    let mut columns = Columns::of(row);
    let (id, org, automation, trigger) = (columns.id()?, columns.id()?, columns.id()?, columns.text_or_null()?);
    let (reason, detail, run) = (columns.parsed(FiringReason::parse)?, columns.text_or_null()?, columns.id_or_null()?);
    let (_, tick) = (columns.time_or_null()?, columns.parsed_or_null(|text| serde_json::from_str::<Tick>(text).ok())?);
    Ok(Firing {
        id,
        org,
        automation,
        trigger,
        reason,
        detail,
        run,
        tick,
        event: columns.id_or_null()?,
        at: columns.time()?,
        count: u64::try_from(columns.int()?).unwrap_or_default(),
        first_at: columns.time()?,
        last_at: columns.time()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise every sweep would look at each row of the org.
    #[tokio::test]
    async fn what_is_to_be_forgotten_is_found_by_its_time() {
        let store = crate::fixture::sqlite().await;
        let payloads = (FORGET_PAYLOADS, "trigger_payloads_by_expiry");
        for (sql, index) in [(FORGET_KEYS, "fire_keys_by_expiry"), (FORGET_FIRINGS, "firings_by_time"), payloads] {
            let rows = store.db.read(&format!("EXPLAIN QUERY PLAN {sql}"), &vals!["org", 1_i64, 1_i64]).await.unwrap();
            let plan = format!("{rows:?}");
            assert!(plan.contains(index), "{plan}");
        }
    }
}
