//! Claims. When a server is gone, the calls it was running are left behind. The first server to claim one finds out how it ended.

use crate::db::lease::{gone_before, silent_before};
use crate::db::{Tx, all, vals};
use crate::invocations::table::{InvocationRow, SealedParams, among_open, lock, read_invocation, select_invocation, update};
use crate::sweep::SWEEP_ROWS;
use crate::{Error, Store};
use countersign_core::ports::Claims;
use countersign_core::{Future, Invocation, InvocationId, OrgId, Status};

impl Claims for Store {
    fn join(&self) -> Future<'_, Result<bool, Error>> {
        Box::pin(async move {
            let is_alone = self.db.is_alone().await?;
            self.renew_lease().await?;
            // From here on no replacement of the master key begins without this server; one may have begun since the store was opened.
            self.keychain.load(&self.db).await?;
            Ok(is_alone)
        })
    }

    fn list_orgs(&self) -> Future<'_, Result<Vec<OrgId>, Error>> {
        Box::pin(async move { Ok(Self::list_orgs(self).await?.into_iter().map(|org| org.id).collect()) })
    }

    fn list_left_behind<'a>(&'a self, org: &'a OrgId, after: Option<&'a InvocationId>) -> Future<'a, Result<Vec<Invocation>, Error>> {
        Box::pin(async move {
            let now = self.db.now().await?;
            let sql = format!(
                "{} AND status = 'running'{} AND run_by IS NOT NULL AND (run_by = $2 OR NOT EXISTS (
                   SELECT 1 FROM servers WHERE servers.id = invocations.run_by AND servers.seen_at > $3 AND $4 NOT LIKE '%' || servers.id || '%'
                 )) AND id || '' > $5 ORDER BY id || '' LIMIT $6",
                select_invocation!(),
                among_open(Status::Running)
            );
            let lease = self.db.lease();
            let after = after.map_or("", InvocationId::as_str);
            let params = vals![org.as_str(), lease.id().as_str(), gone_before(now), lease.earlier(), after, SWEEP_ROWS];
            all(self.db.read(&sql, &params).await?, read_invocation)
        })
    }

    fn claim<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId, status: Status) -> Future<'a, Result<bool, Error>> {
        let (org, invocation) = (org.clone(), invocation.clone());
        Box::pin(self.db.write(org.clone(), move |tx| Box::pin(async move { claim_in(tx, &org, &invocation, status).await })))
    }

    fn claim_silent<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<bool, Error>> {
        let (org, invocation) = (org.clone(), invocation.clone());
        Box::pin(self.db.write(org.clone(), move |tx| Box::pin(async move { claim_silent_in(tx, &org, &invocation).await })))
    }

    fn release<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<(), Error>> {
        let (org, invocation) = (org.clone(), invocation.clone());
        Box::pin(self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                let sql = "UPDATE invocations SET run_by = NULL
                           WHERE org_id = $1 AND id = $2 AND status || '' IN ('in_doubt', 'approved') AND run_by = $3";
                let params = vals![org.as_str(), invocation.as_str(), tx.lease().id().as_str()];
                tx.exec(sql, &params).await.map(|_| ())
            })
        }))
    }
}

async fn claim_in(tx: &mut Tx, org: &OrgId, invocation: &InvocationId, status: Status) -> Result<bool, Error> {
    // A server that others may soon consider gone must not claim anything.
    if tx.is_fenced() {
        return Ok(false);
    }
    // If two servers claim at once, the second waits for the row's lock, checks the condition again, and finds the first one's id.
    let sql = "UPDATE invocations SET run_by = $1
               WHERE org_id = $2 AND id = $3 AND status || '' = $4 AND (run_by IS NULL OR run_by = $5 OR NOT EXISTS (
                 SELECT 1 FROM servers WHERE servers.id = invocations.run_by AND servers.seen_at > $6 AND $7 NOT LIKE '%' || servers.id || '%'
               ))";
    let lease = tx.lease();
    let params = vals![
        lease.run_by(),
        org.as_str(),
        invocation.as_str(),
        status.as_str(),
        lease.id().as_str(),
        gone_before(tx.now()),
        lease.earlier()
    ];
    let is_ours = tx.exec(sql, &params).await? == 1;
    if is_ours && status == Status::Approved {
        note_taken_up(tx, org, invocation).await?;
    }
    Ok(is_ours)
}

async fn claim_silent_in(tx: &mut Tx, org: &OrgId, invocation: &InvocationId) -> Result<bool, Error> {
    if tx.is_fenced() {
        return Ok(false);
    }
    // A call without a server is nobody's to claim so soon. Those of earlier servers on this data folder are handled at the start.
    let sql = "UPDATE invocations SET run_by = $1
               WHERE org_id = $2 AND id = $3 AND status || '' = 'running' AND run_by <> $1 AND NOT EXISTS (
                 SELECT 1 FROM servers WHERE servers.id = invocations.run_by AND servers.seen_at > $4
               )";
    let params = vals![tx.lease().run_by(), org.as_str(), invocation.as_str(), silent_before(tx.now())];
    Ok(tx.exec(sql, &params).await? == 1)
}

/// Records when the approved call was first claimed. Later claims keep that time: a server that cannot start the call claims it again.
async fn note_taken_up(tx: &mut Tx, org: &OrgId, invocation: &InvocationId) -> Result<(), Error> {
    let Some(mut approved) = lock(tx, org, invocation).await?.filter(|approved| approved.taken_up_at.is_none()) else {
        return Ok(());
    };
    approved.taken_up_at = Some(tx.now());
    update(tx, InvocationRow::open(&approved)?, Status::Approved, SealedParams::Keep).await.map(|_| ())
}
