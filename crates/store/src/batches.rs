//! Batches: how far each has come. A save is refused where somebody else has saved since, so that one server at a time runs a batch.

use crate::db::{Columns, Row, Tx, vals};
use crate::events::insert_event;
use crate::servers::{SWEEP_ROWS, gone_before};
use crate::{Error, Page, PageRequest, Store, page, seal};
use countersign_core::batch::BatchStatus;
use countersign_core::invocation::ReceiptRef;
use countersign_core::ledger::{EndBatch, NewBatch, OpenedBatch};
use countersign_core::limits::RUNNING_SECONDS_MAX;
use countersign_core::{Batch, BatchId, OrgId, ReceiptId, SessionId};
use receipt::entry::Kind;

const SELECT_BATCH: &str = "SELECT body, receipt_id, receipt_seq, version, touched_at FROM batches WHERE org_id = $1";

impl Store {
    pub(crate) async fn open_batch(&self, new: NewBatch) -> Result<OpenedBatch, Error> {
        let body = to_body(&new.batch)?;
        self.db
            .write(move |tx| {
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
                    let earlier = rows.into_iter().next().map(read_batch).transpose()?;
                    earlier.map(OpenedBatch::Earlier).ok_or_else(|| Error::Corrupt { message: "a taken key of a batch has no row".into() })
                })
            })
            .await
    }

    pub async fn find_batch(&self, org: &OrgId, batch: &BatchId) -> Result<Option<Batch>, Error> {
        let rows = self.db.read(&format!("{SELECT_BATCH} AND id = $2"), &vals![org.as_str(), batch.as_str()]).await?;
        rows.into_iter().next().map(read_batch).transpose()
    }

    pub(crate) async fn find_sealed_parts(&self, org: &OrgId, batch: &BatchId) -> Result<Option<Vec<u8>>, Error> {
        let sql = "SELECT sealed_parts FROM batches WHERE org_id = $1 AND id = $2";
        let rows = self.db.read(sql, &vals![org.as_str(), batch.as_str()]).await?;
        rows.into_iter().next().map_or(Ok(None), |row| Columns::of(row).bytes_or_null())
    }

    /// Newest first; of one session, where one is named.
    pub async fn list_batches(&self, org: &OrgId, session: Option<&SessionId>, request: &PageRequest) -> Result<Page<Batch>, Error> {
        let before = request.after.as_deref().unwrap_or("bat_~");
        let (session, limit) = (session.map(SessionId::as_str), i64::from(request.limit) + 1);
        let rows = match session {
            Some(session) => {
                let sql = format!("{SELECT_BATCH} AND id < $2 AND session_id = $3 ORDER BY id DESC LIMIT $4");
                self.db.read(&sql, &vals![org.as_str(), before, session, limit]).await?
            }
            None => {
                let sql = format!("{SELECT_BATCH} AND id < $2 ORDER BY id DESC LIMIT $3");
                self.db.read(&sql, &vals![org.as_str(), before, limit]).await?
            }
        };
        let batches = rows.into_iter().map(read_batch).collect::<Result<Vec<_>, _>>()?;
        Ok(page(batches, request.limit, |batch| batch.id.to_string()))
    }

    pub(crate) async fn batches_in_status(&self, org: &OrgId, status: BatchStatus) -> Result<Vec<Batch>, Error> {
        let sql = format!("{SELECT_BATCH} AND status = $2 ORDER BY id LIMIT $3");
        let rows = self.db.read(&sql, &vals![org.as_str(), status.as_str(), SWEEP_ROWS]).await?;
        rows.into_iter().map(read_batch).collect()
    }

    /// Batches that no server is known to run: those of servers that are gone, those that this one has let go of, and those of nobody
    /// knows whom that have not been touched for longer than a call can run. On a file nobody else could be running them.
    pub(crate) async fn left_batches(&self, org: &OrgId) -> Result<Vec<Batch>, Error> {
        let now = self.db.now().await?;
        let untouched_since = if self.db.is_postgres() { now.minus_seconds(RUNNING_SECONDS_MAX) } else { now };
        let sql = format!(
            "{SELECT_BATCH} AND status = 'running' AND (run_by = $2 OR run_by IS NULL AND touched_at <= $3 OR run_by IS NOT NULL AND NOT EXISTS (
               SELECT 1 FROM servers WHERE servers.id = batches.run_by AND servers.seen_at > $4 AND servers.id <> $5
             )) ORDER BY id LIMIT $6"
        );
        let lease = self.db.lease();
        let params = vals![org.as_str(), lease.id().as_str(), untouched_since, gone_before(now), lease.earlier(), SWEEP_ROWS];
        self.db.read(&sql, &params).await?.into_iter().map(read_batch).collect()
    }

    pub(crate) async fn save_batch(&self, batch: Batch) -> Result<Option<Batch>, Error> {
        let body = to_body(&batch)?;
        self.db.write(move |tx| Box::pin(async move { save_in(tx, batch, body).await })).await
    }

    pub(crate) async fn end_batch(&self, end: EndBatch) -> Result<Option<Batch>, Error> {
        let body = to_body(&end.batch)?;
        self.db
            .write(move |tx| {
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
                    insert_event(tx, &batch.org, &event, Some(&id));
                    batch.receipt = Some(ReceiptRef { id, seq });
                    Ok(Some(batch))
                })
            })
            .await
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

fn to_body(batch: &Batch) -> Result<String, Error> {
    serde_json::to_string(batch).map_err(|error| Error::Corrupt { message: format!("a batch cannot be written: {error}") })
}

fn read_batch(row: Row) -> Result<Batch, Error> {
    let mut columns = Columns::of(row);
    let body = columns.text()?;
    let mut batch: Batch =
        serde_json::from_str(&body).map_err(|error| Error::Corrupt { message: format!("a stored batch does not read: {error}") })?;
    let receipt = columns.parsed_or_null(|text| ReceiptId::parse(text).ok())?;
    let seq = columns.int_or_null()?.and_then(|seq| u64::try_from(seq).ok());
    batch.receipt = receipt.zip(seq).map(|(id, seq)| ReceiptRef { id, seq });
    (batch.version, batch.touched_at) = (columns.int()?, columns.time()?);
    Ok(batch)
}
