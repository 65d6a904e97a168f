//! Requests that Slack sends when somebody presses a button: which channel they are for, and which of them were used already.

use crate::db::{Columns, only, vals};
use crate::{Error, Store};
use countersign_core::channel::Channel;
use countersign_core::{ChannelId, OrgId, Timestamp};

impl Store {
    /// The channel with this id, unless it was removed. Slack knows no org: that it sends the request is shown by its signature alone.
    pub async fn find_called_channel(&self, channel: &ChannelId) -> Result<Option<Channel>, Error> {
        let sql = "/* every org: Slack knows the id of the channel alone */ SELECT org_id FROM channels WHERE id = $1";
        let Some(org) = only(self.db.read(sql, &vals![channel.as_str()]).await?, |row| Columns::of(row).id::<OrgId>())? else {
            return Ok(None);
        };
        let found = self.find_channel(&org, channel).await?;
        Ok(found.filter(|channel| channel.removed_at.is_none()))
    }

    /// Uses a request up, which the bytes of its signature identify. Returns whether it was unused. Until `until` it counts as used; after that
    /// it must be refused for its age.
    pub async fn use_slack_request(&self, org: &OrgId, signature: &[u8], until: Timestamp) -> Result<bool, Error> {
        let (org, signature) = (org.clone(), format!("v0={}", hex::encode(signature)));
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    tx.exec("DELETE FROM slack_requests WHERE org_id = $1 AND until <= $2", &vals![org.as_str(), tx.now()]).await?;
                    let sql = "INSERT INTO slack_requests (org_id, signature, until) VALUES ($1, $2, $3) ON CONFLICT (org_id, signature) DO NOTHING";
                    Ok(tx.exec(sql, &vals![org.as_str(), signature.as_str(), until]).await? == 1)
                })
            })
            .await
    }
}
