//! The texts of a run: its inputs are sealed under the key of its space, and all of them go where a space keeps digests only.

use super::{read_run, select_run};
use crate::db::{Tx, count, only, to_json, vals};
use crate::{Error, Store};
use countersign_core::keyring::SpaceKey as _;
use countersign_core::ports::Runs as _;
use countersign_core::run::{Run, StepRecord};
use countersign_core::{OrgId, RunId};
use serde_json::Value;

impl Store {
    /// The inputs of a run, as it was given them.
    pub(super) async fn open_inputs(&self, org: &OrgId, run: &Run, sealed: &[u8]) -> Result<Value, Error> {
        let broken = || Error::Corrupt { message: format!("the inputs of the run `{}` do not open", run.id) };
        let key = self.keychain.space_key(&self.db, org, &run.space).await?;
        let plain = key.open(&inputs_context(&run.id), sealed).map_err(|_| broken())?;
        serde_json::from_slice(&plain).map_err(|_| broken())
    }

    /// Takes the texts out of a run that has ended, and out of its steps.
    pub(crate) async fn forget_texts(&self, org: &OrgId, run: &RunId) -> Result<(), Error> {
        let sql = concat!(select_run!(), " AND id = $2 AND ended_at IS NOT NULL");
        let Some(ended) = only(self.db.read(sql, &vals![org.as_str(), run.as_str()]).await?, read_run)? else {
            return Ok(());
        };
        let steps: Vec<_> = self.list_steps(org, run).await?.into_iter().map(StepRecord::without_texts).collect();
        let (org, run, body) = (org.clone(), run.clone(), to_json(&ended.without_texts())?);
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    for step in &steps {
                        let sql = "UPDATE run_steps SET body = $1 WHERE org_id = $2 AND run_id = $3 AND phase = $4 AND step = $5";
                        let params = vals![to_json(step)?, org.as_str(), run.as_str(), step.phase.as_str(), i64::from(step.index)];
                        tx.exec(sql, &params).await?;
                    }
                    let sql = "UPDATE runs SET body = $1, sealed_inputs = NULL WHERE org_id = $2 AND id = $3";
                    tx.exec(sql, &vals![body, org.as_str(), run.as_str()]).await.map(|_| ())
                })
            })
            .await
    }
}

/// Whether events may have texts of the run. They outlive those of a space that keeps digests only.
pub(super) async fn keeps_texts(tx: &mut Tx, run: &Run) -> Result<bool, Error> {
    let sql = "SELECT count(*) FROM spaces WHERE org_id = $1 AND id = $2 AND keeps = 'digests'";
    Ok(count(tx.query(sql, &vals![run.org.as_str(), run.space.as_str()]).await?)? == 0)
}

/// What the inputs of a run are sealed for: they open in no other row.
pub(super) fn inputs_context(run: &RunId) -> String {
    format!("inputs:{run}")
}
