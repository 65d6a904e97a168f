//! What spaces that only observe have noted: the calls that a person would have been asked about.

use crate::db::{Columns, Row, all, vals};
use crate::{Error, Store};
use countersign_core::observe::{AskedFor, Observed};
use countersign_core::{ActionId, InvocationId, OrgId, SpaceId, Tier, Timestamp};

impl Store {
    /// How often a person would have been asked in this space since then, by action and session: the most frequent first, `limit` at most.
    pub async fn list_asked_for(&self, org: &OrgId, space: &SpaceId, since: Timestamp, limit: usize) -> Result<Vec<AskedFor>, Error> {
        // Ids sort by birth.
        let first = InvocationId::new(since, [0; 10]);
        let sql = "SELECT action, max(tier), session_id, observed, count(*),
                     (SELECT title FROM sessions WHERE sessions.org_id = $1 AND sessions.id = invocations.session_id)
                   FROM invocations WHERE org_id = $1 AND space_id = $2 AND id >= $3 AND observed IS NOT NULL
                   GROUP BY action, session_id, observed ORDER BY count(*) DESC, action, session_id, observed LIMIT $4";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        all(self.db.read(sql, &vals![org.as_str(), space.as_str(), first.as_str(), limit]).await?, read_asked_for)
    }
}

fn read_asked_for(row: Row) -> Result<AskedFor, Error> {
    let mut columns = Columns::of(row);
    Ok(AskedFor {
        action: columns.parsed(|text| ActionId::parse(text).ok())?,
        tier: columns.parsed(Tier::parse)?,
        session: columns.id()?,
        observed: columns.parsed(Observed::parse)?,
        calls: columns.int()? as u64,
        title: columns.text_or_null()?,
    })
}
