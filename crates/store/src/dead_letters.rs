//! Dead letters: what was given up. Events that a consumer group gave up have rows of their own, with the event, which the log may keep no
//! longer. Notices that were given up, and calls whose attempts are used up, are listed beside them from where they are; nothing is copied.

use crate::db::{Columns, Row, Tx, all, only, to_json, vals};
use crate::events::tell;
use crate::limits::{DEAD_LETTER_DAYS, DELIVERY_PROBLEM_CHARS_MAX};
use crate::sweep::SWEEP_ROWS;
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::ports::bus::{DeadEvent, GroupName, LetterKind, OUR_GROUPS};
use countersign_core::ports::events::Event;
use countersign_core::{DeadLetterId, InvocationId, OrgId, PrincipalId, Timestamp, random_bytes};
use serde_json::{Value, json};

/// The event that tells of a dead letter. It becomes none itself when it is given up: otherwise a consumer that fails at everything would
/// get new events for ever.
const TELLS_OF_DEAD: &str = "event.dead_lettered";

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Something that was given up, of whichever kind.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    pub kind: LetterKind,
    pub id: String,
    /// Who gave it up: a group by its name, a channel by its id, or the action of a call.
    pub place: String,
    /// What it is: the type of an event, the moment of a notice, the status of a call.
    pub what: String,
    pub problem: Option<String>,
    pub attempts: u32,
    pub at: Timestamp,
    /// The event, as JSON; the call, as JSON; or the id of the call that a notice is about.
    pub content: String,
}

/// Of the failed calls, those that were tried more than once. A call without an intent has no rows of attempts (0): its text says how many it had.
/// A run makes each attempt of a step as a call of its own, under one key. Of these the last is listed, once the run has failed with it: until
/// then the run may still make it, and what it has made is not made again.
macro_rules! select_letters {
    () => {
        "SELECT kind, id, place, what, problem, attempts, at, content FROM (
           SELECT 'event' AS kind, id, group_name AS place, name AS what, problem, deliveries AS attempts, died_at AS at, event AS content
           FROM dead_letters WHERE org_id = $1
           UNION ALL
           SELECT 'delivery', id, channel_id, moment, coalesce(problem, ''), attempts, coalesce(ended_at, created_at), invocation_id
           FROM deliveries WHERE org_id = $1 AND state = 'dead'
           UNION ALL
           SELECT 'invocation', calls.id, calls.action, calls.status, '',
             CASE WHEN runs.id IS NULL
               THEN coalesce((SELECT max(n) FROM attempts WHERE attempts.org_id = $1 AND attempts.invocation_id = calls.id), 0)
               ELSE (SELECT count(*) FROM invocations AS tries
                     LEFT JOIN attempts ON attempts.org_id = $1 AND attempts.invocation_id = tries.id
                     WHERE tries.org_id = $1 AND tries.key = calls.key AND tries.session_id = calls.session_id)
             END, calls.ended_at, calls.body
           FROM invocations AS calls LEFT JOIN runs ON runs.org_id = $1 AND runs.session_id = calls.session_id
           WHERE calls.org_id = $1 AND calls.status = 'failed' AND calls.receipt_seq IS NOT NULL AND calls.ended_at > $2
             AND (runs.id IS NULL OR runs.status NOT IN ('pending', 'running', 'waiting', 'cancelled')
                  AND NOT EXISTS (SELECT 1 FROM invocations AS others
                                  WHERE others.org_id = $1 AND others.key = calls.key AND others.session_id = calls.session_id
                                    AND (others.status <> 'failed' OR others.receipt_seq > calls.receipt_seq)))
             AND NOT EXISTS (SELECT 1 FROM answered_failures
                             WHERE answered_failures.org_id = $1 AND answered_failures.invocation_id = calls.id)
         ) AS letters WHERE (kind <> 'invocation' OR attempts <> 1)"
    };
}

impl Store {
    /// Dead letters, the newest first: of one kind, or of all. A page may have fewer rows than its limit.
    pub async fn list_dead_letters(&self, org: &OrgId, kind: Option<LetterKind>, request: &PageRequest) -> Result<Page<DeadLetter>, Error> {
        // A cursor is the time of the last letter and its id.
        let after = request.after.as_deref().and_then(|after| after.split_once('.'));
        let (at, id) = after.and_then(|(at, id)| Some((at.parse::<i64>().ok()?, id))).unwrap_or((i64::MAX, ""));
        let sql = concat!(
            select_letters!(),
            " AND (kind = $3 OR $3 = '') AND (at < $4 OR (at = $4 AND id < $5)) ORDER BY at DESC, id DESC LIMIT $6"
        );
        let params =
            vals![org.as_str(), self.oldest_letter().await?, kind.map_or("", LetterKind::as_str), at, id, i64::from(request.limit) + 1];
        let cursor = |letter: &DeadLetter| format!("{}.{}", letter.at.as_micros(), letter.id);
        let mut found = page(self.db.read(sql, &params).await?, request.limit, read_letter, cursor)?;
        found.items.retain(DeadLetter::was_tried_again);
        Ok(found)
    }

    /// One dead letter, of whichever kind, by its id.
    pub async fn find_dead_letter(&self, org: &OrgId, id: &str) -> Result<Option<DeadLetter>, Error> {
        let sql = concat!(select_letters!(), " AND id = $3");
        let found = only(self.db.read(sql, &vals![org.as_str(), self.oldest_letter().await?, id]).await?, read_letter)?;
        Ok(found.filter(DeadLetter::was_tried_again))
    }

    /// Calls that failed before this are listed no longer.
    async fn oldest_letter(&self) -> Result<Timestamp, Error> {
        Ok(self.db.now().await?.minus_seconds(DEAD_LETTER_DAYS * DAY_SECONDS))
    }

    /// Gives events that a group gave up to it once more: this one, or all of the group. They are due at once, as if they had never been
    /// delivered. What belongs to a group that is gone stays. Returns how many.
    pub async fn retry_dead_events(
        &self,
        org: &OrgId,
        group: Option<&GroupName>,
        letter: Option<&DeadLetterId>,
        by: &PrincipalId,
    ) -> Result<u64, Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        let group = group.map_or_else(String::new, ToString::to_string);
        let letter = letter.map_or_else(String::new, ToString::to_string);
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let which = "(group_name = $2 OR $2 = '') AND (id = $3 OR $3 = '')
                                 AND EXISTS (SELECT 1 FROM event_groups WHERE event_groups.org_id = $1 AND event_groups.name = group_name)";
                    let params = vals![org.as_str(), group.as_str(), letter.as_str()];
                    // It is due since it died. A group may have given up the same event twice, after a replay: it gets it once.
                    let sql = format!(
                        "INSERT INTO event_claims (org_id, group_name, seq, token, deliveries, due_at, event)
                         SELECT org_id, group_name, seq, 0, 0, died_at, event FROM dead_letters WHERE org_id = $1 AND {which} ORDER BY id
                         ON CONFLICT (org_id, group_name, seq) DO NOTHING"
                    );
                    tx.exec(&sql, &params).await?;
                    // Consumers of ours read the log, and are told there that something waits for them.
                    let sql = format!("SELECT group_name, min(seq) FROM dead_letters WHERE org_id = $1 AND {which} GROUP BY group_name");
                    let given = all(tx.query(&sql, &params).await?, |row| {
                        let mut columns = Columns::of(row);
                        Ok((columns.text()?, columns.int()?))
                    })?;
                    for (group, from) in given.into_iter().filter(|(group, _)| OUR_GROUPS.contains(&group.as_str())) {
                        let body = json!({ "group": group, "from": from, "by": by, "ids": "same" }).to_string();
                        tell(&store, tx, &org, "event_group.replayed", group, body).await?;
                    }
                    let sql = format!("DELETE FROM dead_letters WHERE org_id = $1 AND {which}");
                    tx.exec(&sql, &params).await
                })
            })
            .await
    }

    /// Drops an event that a group gave up. Returns whether there was one.
    pub async fn drop_dead_event(&self, org: &OrgId, letter: &DeadLetterId) -> Result<bool, Error> {
        let (org, letter) = (org.clone(), letter.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "DELETE FROM dead_letters WHERE org_id = $1 AND id = $2";
                    Ok(tx.exec(sql, &vals![org.as_str(), letter.as_str()]).await? == 1)
                })
            })
            .await
    }

    /// Takes a failed call out of the dead letters: it was dropped, or made again as another call. Returns false if somebody has done so
    /// already, or there is no such call.
    pub async fn answer_failure(
        &self,
        org: &OrgId,
        failed: &InvocationId,
        retried_as: Option<&InvocationId>,
        by: &PrincipalId,
    ) -> Result<bool, Error> {
        let (org, failed, by) = (org.clone(), failed.clone(), by.to_string());
        let retried_as = retried_as.map(ToString::to_string);
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "SELECT id FROM invocations WHERE org_id = $1 AND id = $2";
                    if tx.query(sql, &vals![org.as_str(), failed.as_str()]).await?.is_empty() {
                        return Ok(false);
                    }
                    let sql =
                        "INSERT INTO answered_failures (org_id, invocation_id, answered_by, retried_as, at) VALUES ($1, $2, $3, $4, $5)
                               ON CONFLICT (org_id, invocation_id) DO NOTHING";
                    Ok(tx.exec(sql, &vals![org.as_str(), failed.as_str(), by, retried_as, tx.now()]).await? == 1)
                })
            })
            .await
    }

    /// Removes events that were given up long ago. Returns how many.
    pub async fn forget_dead_letters(&self, org: &OrgId) -> Result<u64, Error> {
        let org = org.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "DELETE FROM dead_letters WHERE org_id = $1 AND id IN (SELECT id FROM dead_letters
                               WHERE org_id = $1 AND died_at < $2 ORDER BY died_at, id LIMIT $3)";
                    tx.exec(sql, &vals![org.as_str(), tx.now().minus_seconds(DEAD_LETTER_DAYS * DAY_SECONDS), SWEEP_ROWS]).await
                })
            })
            .await
    }
}

/// Moves an event from what the group has claimed to the dead letters, in this write, and tells of it.
pub(crate) async fn bury(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    group: &GroupName,
    event: Event,
    deliveries: i64,
    problem: &str,
) -> Result<(), Error> {
    let id = DeadLetterId::new(tx.now(), random_bytes(&*store.random));
    let problem: String = problem.chars().take(DELIVERY_PROBLEM_CHARS_MAX).collect();
    tx.exec(
        "INSERT INTO dead_letters (org_id, id, group_name, seq, name, event, deliveries, problem, died_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &vals![
            org.as_str(),
            id.as_str(),
            group.as_str(),
            event.seq,
            event.name.as_str(),
            to_json(&event)?,
            deliveries,
            problem.as_str(),
            tx.now()
        ],
    )
    .await?;
    let sql = "DELETE FROM event_claims WHERE org_id = $1 AND group_name = $2 AND seq = $3";
    tx.exec(sql, &vals![org.as_str(), group.as_str(), event.seq]).await?;
    if event.name == TELLS_OF_DEAD {
        return Ok(());
    }
    let body = json!({
        "letter_id": id, "group": group.as_str(), "event_id": event.id, "event_type": event.name, "position": event.seq,
        "deliveries": deliveries, "problem": problem,
    });
    tell(store, tx, org, TELLS_OF_DEAD, id.to_string(), body.to_string()).await
}

impl DeadLetter {
    /// A call that was tried once was refused by its source for good: nothing says that it would go better again.
    fn was_tried_again(&self) -> bool {
        self.kind != LetterKind::Invocation || self.attempts > 1
    }

    /// The event that a group gave up.
    pub fn event(&self) -> Option<DeadEvent> {
        if self.kind != LetterKind::Event {
            return None;
        }
        Some(DeadEvent {
            id: DeadLetterId::parse(&self.id).ok()?,
            group: GroupName::parse(&self.place)?,
            event: serde_json::from_str(&self.content).ok()?,
            deliveries: self.attempts,
            problem: self.problem.clone().unwrap_or_default(),
            died_at: self.at,
        })
    }
}

fn read_letter(row: Row) -> Result<DeadLetter, Error> {
    let mut columns = Columns::of(row);
    let (kind, id) = (columns.parsed(LetterKind::parse)?, columns.text()?);
    let (place, what) = (columns.text()?, columns.text()?);
    let (problem, attempts) = (columns.text()?, columns.int()?);
    let (at, content) = (columns.time()?, columns.text()?);
    let (problem, attempts) = match kind {
        LetterKind::Event | LetterKind::Delivery => (Some(problem).filter(|problem| !problem.is_empty()), attempts),
        LetterKind::Invocation => {
            let call: Value = serde_json::from_str(&content).unwrap_or_default();
            let word = |name: &str| call.pointer(name).and_then(Value::as_str);
            let problem = word("/failure/code").zip(word("/failure/message")).map(|(code, message)| format!("{code}: {message}"));
            (problem, if attempts == 0 { call["attempts"].as_i64().unwrap_or_default() } else { attempts })
        }
    };
    Ok(DeadLetter { kind, id, place, what, problem, attempts: u32::try_from(attempts).unwrap_or(u32::MAX), at, content })
}
