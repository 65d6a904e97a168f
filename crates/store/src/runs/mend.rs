//! Mending: a run that nothing else would move any more goes on, and that is told.

use super::end::promote;
use super::leases::wake_in;
use crate::automations::tell_of;
use crate::db::Tx;
use crate::{Error, Store};
use countersign_core::{AutomationId, InvocationId, OrgId, RunId};
use serde_json::json;

impl Store {
    /// Whether the run was still to be woken; then it is told.
    pub(super) async fn wake_forgotten(
        &self,
        org: OrgId,
        automation: AutomationId,
        run: RunId,
        invocation: InvocationId,
    ) -> Result<bool, Error> {
        let store = self.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let is_woken = wake_in(tx, &org, &invocation).await?;
                    if is_woken {
                        tell_mended(&store, tx, &org, &automation, &run, "run_woken").await?;
                    }
                    Ok(is_woken)
                })
            })
            .await
    }

    /// Whether a run of the automation could go on; then it is told.
    pub(super) async fn promote_stuck(&self, org: OrgId, automation: AutomationId) -> Result<bool, Error> {
        let store = self.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let promoted = promote(tx, &org, &automation).await?;
                    if let Some(run) = &promoted {
                        tell_mended(&store, tx, &org, &automation, run, "queue_moved").await?;
                    }
                    Ok(promoted.is_some())
                })
            })
            .await
    }
}

/// Tells of a run that nothing would have moved any more.
async fn tell_mended(store: &Store, tx: &mut Tx, org: &OrgId, automation: &AutomationId, run: &RunId, what: &str) -> Result<(), Error> {
    let body = json!({ "automation_id": automation, "run_id": run, "what": what }).to_string();
    tell_of(store, tx, org, automation, "automation.mended", body).await
}
