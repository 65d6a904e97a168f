//! Checkpoints: signed statements of the audit log's size and root hash. Their key signs nothing else.

use crate::db::{Columns, count, vals};
use crate::{Error, Store, seal};
use countersign_core::OrgId;

impl Store {
    /// Signs a checkpoint if the audit log has grown since the last one, and returns the newest.
    pub async fn checkpoint(&self, org: &OrgId) -> Result<Option<String>, Error> {
        let rows = self.db.read("SELECT size, checkpointed FROM logs WHERE org_id = $1", &vals![org.as_str()]).await?;
        let Some(row) = rows.into_iter().next() else {
            return Ok(None);
        };
        let mut columns = Columns::of(row);
        if columns.int()? != columns.int()? {
            let org = org.clone();
            self.db.write(org.clone(), move |tx| Box::pin(async move { seal::checkpoint(tx, &org).await })).await?;
        }
        self.latest_checkpoint(org).await
    }

    pub async fn latest_checkpoint(&self, org: &OrgId) -> Result<Option<String>, Error> {
        let rows = self.db.read("SELECT note FROM checkpoints WHERE org_id = $1 ORDER BY size DESC LIMIT 1", &vals![org.as_str()]).await?;
        rows.into_iter().next().map(|row| Columns::of(row).text()).transpose()
    }
}

impl Store {
    /// The number of entries in the org's audit log.
    pub async fn log_size(&self, org: &OrgId) -> Result<u64, Error> {
        let rows = self.db.read("SELECT size FROM logs WHERE org_id = $1", &vals![org.as_str()]).await?;
        count(rows).map(|size| size as u64)
    }
}
