//! How well an action does: counted over its last calls, from columns that the end of each call has written.

use crate::db::{Columns, Row, Val, all, vals};
use crate::limits::STATS_CALLS_MAX;
use crate::orgs::not_among;
use crate::{Error, Store};
use countersign_core::{ActionId, OrgId, SpaceId, Status, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// The last ended calls of an action.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionStats {
    /// How many calls ended in each status.
    pub by_status: BTreeMap<&'static str, u64>,
    /// The reward of each effect that was tried, in millionths, newest first. Dry runs and calls that never ran have none.
    pub rewards: Vec<i64>,
    /// How many of these effects succeeded.
    pub succeeded: u64,
    /// How long each of them took, in milliseconds, shortest first.
    pub exec_ms: Vec<u64>,
}

impl Store {
    /// The stats of an action's calls that ended at `since` or later, without those in these spaces: of the last `STATS_CALLS_MAX` at most.
    pub async fn find_action_stats(
        &self,
        org: &OrgId,
        action: &ActionId,
        hidden: &BTreeSet<SpaceId>,
        since: Option<Timestamp>,
    ) -> Result<ActionStats, Error> {
        let since = since.map_or(i64::MIN, Timestamp::as_micros);
        let mut params = vals![org.as_str(), action.as_str(), since].to_vec();
        let visible = not_among("space_id", hidden, &mut params);
        params.push(Val::from(i64::from(STATS_CALLS_MAX)));
        // The time is compared as an expression, so that the rows are read by their action and not by their time.
        let sql = format!(
            "SELECT status, reward, exec_ms FROM invocations
             WHERE org_id = $1 AND action = $2 AND receipt_seq IS NOT NULL AND +ended_at >= $3{visible} ORDER BY id DESC LIMIT ${}",
            params.len()
        );
        let rows = self.db.read(&sql, &params).await?;
        let mut stats = ActionStats::default();
        for (status, reward, exec_ms) in all(rows, read_ended)? {
            *stats.by_status.entry(status.as_str()).or_default() += 1;
            let Some(reward) = reward else { continue };
            stats.rewards.push(reward);
            stats.succeeded += u64::from(status == Status::Succeeded);
            stats.exec_ms.extend(exec_ms.and_then(|exec_ms| u64::try_from(exec_ms).ok()));
        }
        stats.exec_ms.sort_unstable();
        Ok(stats)
    }
}

/// The calls that the measured duration of an action is taken from.
const MEASURED_CALLS: i64 = 200;

impl Store {
    pub(crate) async fn read_p95_ms(&self, org: &OrgId, action: &str) -> Result<Option<u64>, Error> {
        let sql = "SELECT exec_ms FROM invocations
                   WHERE org_id = $1 AND action = $2 AND receipt_seq IS NOT NULL AND exec_ms IS NOT NULL ORDER BY id DESC LIMIT $3";
        let mut took = all(self.db.read(sql, &vals![org.as_str(), action, MEASURED_CALLS]).await?, |row| Columns::of(row).int())?;
        took.sort_unstable();
        let at = (took.len() * 95).div_ceil(100).saturating_sub(1);
        Ok(took.get(at).and_then(|took| u64::try_from(*took).ok()))
    }
}

fn read_ended(row: Row) -> Result<(Status, Option<i64>, Option<i64>), Error> {
    let mut columns = Columns::of(row);
    Ok((columns.parsed(Status::parse)?, columns.int_or_null()?, columns.int_or_null()?))
}
