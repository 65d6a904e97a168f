//! Batches and their progress. A save is refused if another server has saved since, so only one server at a time runs a batch.

use crate::db::lease::gone_before;
use crate::db::{Columns, Row, Tx, Val, all, only, to_json, vals};
use crate::events::insert_event;
use crate::orgs::not_among;
use crate::sweep::SWEEP_ROWS;
use crate::{Error, Page, PageRequest, Store, page, seal};
use countersign_core::batch::BatchStatus;
use countersign_core::invocation::ReceiptRef;
use countersign_core::limits::RUNNING_SECONDS_MAX;
use countersign_core::ports::Batches;
use countersign_core::ports::batches::{EndBatch, NewBatch, OpenedBatch};
use countersign_core::{Batch, BatchId, Future, OrgId, SessionId, SpaceId};
use receipt::entry::Kind;
use std::collections::BTreeSet;

pub(crate) const SELECT_BATCH: &str = "SELECT body, receipt_id, receipt_seq, version, touched_at FROM batches WHERE org_id = $1";

impl Batches for Store {
    fn open_batch(&self, new: NewBatch) -> Future<'_, Result<OpenedBatch, Error>> {
        Box::pin(async move {
            let body = to_json(&new.batch)?;
            self.db
                .write(new.batch.org.clone(), move |tx| {
                    Box::pin(async move {
                        let NewBatch { mut batch, sealed_parts } = new;
                        (batch.version, batch.touched_at) = (1, tx.now());
                        let params = vals![
                            batch.org.as_str(),
                            batch.id.as_str(),
                            batch.session.as_str(),
                            batch.status.as_str(),
                            batch.idempotency_key.as_deref(),
                            sealed_parts,
                            body,
                            tx.now(),
                            tx.lease().run_by()
                        ];
                        let inserted = tx
                            .exec(
                                "INSERT INTO batches (org_id, id, session_id, status, key, sealed_parts, body, version, touched_at, run_by)
                                 VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $8, $9) ON CONFLICT (org_id, session_id, key) DO NOTHING",
                                &params,
                            )
                            .await?;
                        if inserted == 1 {
                            return Ok(OpenedBatch::New(batch));
                        }
                        let params = vals![batch.org.as_str(), batch.session.as_str(), batch.idempotency_key.as_deref()];
                        let rows = tx.query(&format!("{SELECT_BATCH} AND session_id = $2 AND key = $3"), &params).await?;
                        let earlier = only(rows, read_batch)?;
                        earlier
                            .map(OpenedBatch::Earlier)
                            .ok_or_else(|| Error::Corrupt { message: "a taken key of a batch has no row".into() })
                    })
                })
                .await
        })
    }

    fn find_batch<'a>(&'a self, org: &'a OrgId, batch: &'a BatchId) -> Future<'a, Result<Option<Batch>, Error>> {
        Box::pin(async move {
            let rows = self.db.read(&format!("{SELECT_BATCH} AND id = $2"), &vals![org.as_str(), batch.as_str()]).await?;
            only(rows, read_batch)
        })
    }

    fn find_sealed_parts<'a>(&'a self, org: &'a OrgId, batch: &'a BatchId) -> Future<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(async move {
            let sql = "SELECT sealed_parts FROM batches WHERE org_id = $1 AND id = $2 AND sealed_parts IS NOT NULL";
            only(self.db.read(sql, &vals![org.as_str(), batch.as_str()]).await?, |row| Columns::of(row).bytes())
        })
    }

    fn list_batches_in_status<'a>(&'a self, org: &'a OrgId, status: BatchStatus) -> Future<'a, Result<Vec<Batch>, Error>> {
        Box::pin(async move {
            let sql = format!("{SELECT_BATCH} AND status = $2 ORDER BY id LIMIT $3");
            all(self.db.read(&sql, &vals![org.as_str(), status.as_str(), SWEEP_ROWS]).await?, read_batch)
        })
    }

    /// Batches that no live server is known to run: those of servers that are gone, those that this server has let go of, and those without
    /// a known server that were not touched for longer than a call can run. On SQLite no other server could be running the latter, so
    /// they count at once.
    fn list_left_batches<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Vec<Batch>, Error>> {
        Box::pin(async move {
            let now = self.db.now().await?;
            let untouched_since = if self.db.is_postgres() { now.minus_seconds(RUNNING_SECONDS_MAX) } else { now };
            let sql = format!(
                "{SELECT_BATCH} AND status = 'running' AND (run_by = $2 OR run_by IS NULL AND touched_at <= $3 OR run_by IS NOT NULL AND NOT EXISTS (
                   SELECT 1 FROM servers WHERE servers.id = batches.run_by AND servers.seen_at > $4 AND $5 NOT LIKE '%' || servers.id || '%'
                 )) ORDER BY id LIMIT $6"
            );
            let lease = self.db.lease();
            let params = vals![org.as_str(), lease.id().as_str(), untouched_since, gone_before(now), lease.earlier(), SWEEP_ROWS];
            all(self.db.read(&sql, &params).await?, read_batch)
        })
    }

    fn save_batch(&self, batch: Batch) -> Future<'_, Result<Option<Batch>, Error>> {
        Box::pin(async move {
            let body = to_json(&batch)?;
            self.db.write(batch.org.clone(), move |tx| Box::pin(async move { save_in(tx, batch, body).await })).await
        })
    }

    fn end_batch(&self, end: EndBatch) -> Future<'_, Result<Option<Batch>, Error>> {
        Box::pin(async move {
            let body = to_json(&end.batch)?;
            self.db
                .write(end.batch.org.clone(), move |tx| {
                    Box::pin(async move {
                        let EndBatch { batch, id, body: receipt, event } = end;
                        let Some(mut batch) = save_in(tx, batch, body).await? else {
                            return Ok(None);
                        };
                        let draft = seal::Draft { kind: Kind::Batch, id: id.as_str(), invocation: None, body: &receipt };
                        let seq = seal::append(tx, &batch.org, draft).await?;
                        tx.exec(
                            "UPDATE batches SET sealed_parts = NULL, receipt_id = $1, receipt_seq = $2 WHERE org_id = $3 AND id = $4",
                            &vals![id.as_str(), seq as i64, batch.org.as_str(), batch.id.as_str()],
                        )
                        .await?;
                        insert_event(tx, &batch.org, &event, Some(&id)).await?;
                        batch.receipt = Some(ReceiptRef { id, seq });
                        Ok(Some(batch))
                    })
                })
                .await
        })
    }
}

impl Store {
    /// Lists batches, newest first, without those of these spaces; only those of one session if `session` is given.
    pub async fn list_batches(
        &self,
        org: &OrgId,
        session: Option<&SessionId>,
        hidden: &BTreeSet<SpaceId>,
        request: &PageRequest,
    ) -> Result<Page<Batch>, Error> {
        let before = request.after.as_deref().unwrap_or("bat_~");
        let mut params = vals![org.as_str(), before].to_vec();
        let mut wanted = String::new();
        if let Some(session) = session {
            params.push(Val::from(session.as_str()));
            wanted = format!(" AND session_id = ${}", params.len());
        }
        let visible = not_among("space_id", hidden, &mut params);
        if !visible.is_empty() {
            wanted.push_str(&format!(" AND session_id IN (SELECT id FROM sessions WHERE org_id = $1{visible})"));
        }
        params.push(Val::from(i64::from(request.limit) + 1));
        let sql = format!("{SELECT_BATCH} AND id < $2{wanted} ORDER BY id DESC LIMIT ${}", params.len());
        let rows = self.db.read(&sql, &params).await?;
        page(rows, request.limit, read_batch, |batch| batch.id.to_string())
    }
}

async fn save_in(tx: &mut Tx, mut batch: Batch, body: String) -> Result<Option<Batch>, Error> {
    let now = tx.now();
    let run_by = tx.lease().run_by().filter(|_| batch.status == BatchStatus::Running);
    let params = vals![batch.status.as_str(), body, batch.version + 1, now, run_by, batch.org.as_str(), batch.id.as_str(), batch.version];
    let saved = tx
        .exec(
            "UPDATE batches SET status = $1, body = $2, version = $3, touched_at = $4, run_by = $5
             WHERE org_id = $6 AND id = $7 AND version = $8 AND receipt_id IS NULL",
            &params,
        )
        .await?;
    (batch.version, batch.touched_at) = (batch.version + 1, now);
    Ok((saved == 1).then_some(batch))
}

pub(crate) fn read_batch(row: Row) -> Result<Batch, Error> {
    let mut columns = Columns::of(row);
    let mut batch: Batch = columns.json()?;
    batch.receipt = columns.receipt()?;
    (batch.version, batch.touched_at) = (columns.int()?, columns.time()?);
    Ok(batch)
}
