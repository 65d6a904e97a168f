//! Freeing runs whose workers have gone.

use super::end::{end_unworked, update_run};
use super::table::{read_run, select_run};
use crate::db::{Tx, only, vals};
use crate::limits::RUN_RECOVERIES_MAX;
use crate::notifications::notify_in;
use crate::{Error, Store};
use countersign_core::ports::runs::Lease;
use countersign_core::run::RunStatus;

impl Store {
    pub(super) async fn free(&self, lost: Vec<Lease>) -> Result<u64, Error> {
        let mut freed = 0;
        for lease in lost {
            let store = self.clone();
            freed += self.db.write(lease.org.clone(), move |tx| Box::pin(async move { free_in(&store, tx, lease).await })).await?;
        }
        Ok(freed)
    }
}

/// Frees a run whose worker has gone. It is taken up again at once, but not for ever: its step may be what takes its workers down.
async fn free_in(store: &Store, tx: &mut Tx, lease: Lease) -> Result<u64, Error> {
    // It is due since it was last, so it does not wait behind what came after it.
    let sql = "UPDATE run_leases SET lease_owner = NULL, lease_until = NULL, lease_token = lease_token + 1
               WHERE org_id = $1 AND run_id = $2 AND lease_token = $3 AND lease_until = $4";
    let params = vals![lease.org.as_str(), lease.run.as_str(), lease.token, lease.until];
    if tx.exec(sql, &params).await? == 0 {
        // Its worker was only late, or another server was first.
        return Ok(0);
    }
    let sql = concat!(select_run!(), " AND id = $2");
    let Some(mut run) = only(tx.query(sql, &vals![lease.org.as_str(), lease.run.as_str()]).await?, read_run)? else {
        return Ok(0);
    };
    run.recoveries += 1;
    run.step_recoveries += 1;
    if run.step_recoveries >= RUN_RECOVERIES_MAX {
        let sql = "DELETE FROM run_leases WHERE org_id = $1 AND run_id = $2";
        tx.exec(sql, &vals![lease.org.as_str(), lease.run.as_str()]).await?;
        let why = format!("its worker went {} times at the same step", run.step_recoveries);
        let told = format!("`{}` of the automation `{}`: {why}. It is not taken up again by itself.", run.id, run.automation);
        notify_in(store, tx, &run.org, &run.space, "A run was quarantined", &told).await?;
        end_unworked(store, tx, run, RunStatus::Quarantined, "poison", &why).await?;
    } else {
        update_run(tx, &run).await?;
    }
    Ok(1)
}
