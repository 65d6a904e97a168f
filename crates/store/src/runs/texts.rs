//! The texts of a run: its inputs are sealed under the key of its space, and all of them go where a space keeps digests only.

use super::table::{read_run, select_run};
use crate::db::{Columns, Tx, count, only, to_json, vals};
use crate::limits::{TRIGGER_PAYLOAD_BYTES_MAX, TRIGGER_PAYLOAD_SECONDS};
use crate::{Error, Store};
use countersign_core::keyring::SpaceKey;
use countersign_core::ports::Runs as _;
use countersign_core::run::{Run, StepRecord, TriggerPayload};
use countersign_core::{OrgId, RunId, SpaceId};
use serde_json::Value;

impl Store {
    /// The inputs of a run, as it was given them.
    pub(super) async fn open_inputs(&self, org: &OrgId, run: &Run, sealed: &[u8]) -> Result<Value, Error> {
        self.open_text(org, &run.space, &inputs_context(&run.id), sealed).await
    }

    async fn open_text(&self, org: &OrgId, space: &SpaceId, context: &str, sealed: &[u8]) -> Result<Value, Error> {
        let broken = || Error::Corrupt { message: format!("what is sealed as `{context}` does not open") };
        let key = self.keychain.space_key(&self.db, org, space).await?;
        let plain = key.open(context, sealed).map_err(|_| broken())?;
        serde_json::from_slice(&plain).map_err(|_| broken())
    }

    pub(super) async fn read_trigger_payload(&self, org: &OrgId, run: &RunId) -> Result<Option<TriggerPayload>, Error> {
        let sql = "SELECT runs.space_id, trigger_id, sealed FROM trigger_payloads
                   JOIN runs ON runs.org_id = trigger_payloads.org_id AND runs.id = trigger_payloads.run_id
                   WHERE trigger_payloads.org_id = $1 AND run_id = $2 AND kept_until > $3";
        let rows = self.db.read(sql, &vals![org.as_str(), run.as_str(), self.db.now().await?]).await?;
        let kept = only(rows, |row| {
            let mut columns = Columns::of(row);
            Ok((columns.id::<SpaceId>()?, columns.text()?, columns.bytes()?))
        })?;
        let Some((space, trigger, sealed)) = kept else { return Ok(None) };
        Ok(Some(TriggerPayload { trigger, value: self.open_text(org, &space, &payload_context(run), &sealed).await? }))
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
                    let sql = "DELETE FROM trigger_payloads WHERE org_id = $1 AND run_id = $2";
                    tx.exec(sql, &vals![org.as_str(), run.as_str()]).await?;
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

/// Keeps what the trigger of a run was given, if it is not too long.
pub(super) fn keep_payload(tx: &mut Tx, run: &Run, key: &impl SpaceKey, payload: &TriggerPayload) -> Result<(), Error> {
    let text = to_json(&payload.value)?;
    if text.len() > TRIGGER_PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    let sql = "INSERT INTO trigger_payloads (org_id, run_id, trigger_id, sealed, kept_until) VALUES ($1, $2, $3, $4, $5)";
    let sealed = key.seal(&payload_context(&run.id), text.as_bytes());
    let kept_until = tx.now().plus_seconds(TRIGGER_PAYLOAD_SECONDS);
    tx.later(sql, vals![run.org.as_str(), run.id.as_str(), payload.trigger.as_str(), sealed, kept_until].into());
    Ok(())
}

/// What the payload of a run's trigger is sealed for.
fn payload_context(run: &RunId) -> String {
    format!("trigger_payload:{run}")
}

/// What the inputs of a run are sealed for: they open in no other row.
pub(super) fn inputs_context(run: &RunId) -> String {
    format!("inputs:{run}")
}
