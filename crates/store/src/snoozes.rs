//! Snoozes: a person hides a pending invocation from their own inbox for a while. This decides nothing and concerns nobody else.

use crate::db::{Columns, vals};
use crate::{Error, Store};
use countersign_core::{InvocationId, OrgId, Timestamp, UserId};
use std::collections::BTreeMap;

impl Store {
    /// Hides a pending invocation from this person's inbox until the given time. A time in the past shows it again.
    pub async fn snooze(&self, org: &OrgId, invocation: &InvocationId, user: &UserId, until: Timestamp) -> Result<(), Error> {
        let (org, invocation, user) = (org.clone(), invocation.clone(), user.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    // Snoozes in the past hide nothing any more.
                    tx.exec(
                        "DELETE FROM snoozes WHERE org_id = $1 AND user_id = $2 AND until <= $3",
                        &vals![org.as_str(), user.as_str(), tx.now()],
                    )
                    .await?;
                    tx.exec(
                        "INSERT INTO snoozes (org_id, invocation_id, user_id, until) VALUES ($1, $2, $3, $4)
                         ON CONFLICT (org_id, invocation_id, user_id) DO UPDATE SET until = excluded.until",
                        &vals![org.as_str(), invocation.as_str(), user.as_str(), until],
                    )
                    .await
                    .map(|_| ())
                })
            })
            .await
    }

    /// The invocations that this person has snoozed, and until when.
    pub async fn list_snoozes(&self, org: &OrgId, user: &UserId) -> Result<BTreeMap<InvocationId, Timestamp>, Error> {
        let now = self.db.now().await?;
        let sql = "SELECT invocation_id, until FROM snoozes WHERE org_id = $1 AND user_id = $2 AND until > $3";
        let rows = self.db.read(sql, &vals![org.as_str(), user.as_str(), now]).await?;
        let read = |row| {
            let mut columns = Columns::of(row);
            Ok((columns.id()?, columns.time()?))
        };
        rows.into_iter().map(read).collect()
    }
}
