//! Reading the audit log: receipts by page, inclusion proofs, and the export as a bundle. Also the rotation of its keys.

use crate::db::{Columns, Row, Snapshot, Val, all, count, only, vals};
use crate::keys::Purpose;
use crate::orgs::not_among;
use crate::{Error, Page, PageRequest, Store, page, seal};
use countersign_core::{ActionId, Digest, InvocationId, LogId, OrgId, ReceiptId, SessionId, SpaceId, Status, Timestamp, UserId};
use receipt::body::{Body as _, KeyBody, KeyText};
use receipt::bundle::{Line, Opening, Tally};
use receipt::entry::Kind;
use receipt::envelope::Envelope;
use receipt::tree;
use std::collections::BTreeSet;
use tokio::sync::mpsc;

/// The number of rows that the export reads at a time.
const EXPORT_ROWS: i64 = 500;

/// A signed entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    pub seq: u64,
    pub kind: Kind,
    pub id: String,
    pub invocation: Option<InvocationId>,
    pub payload: String,
    pub key_id: String,
    pub signature: [u8; 64],
}

impl StoredEntry {
    pub fn envelope(&self) -> Envelope {
        Envelope::new(&self.payload, &self.key_id, &self.signature)
    }
}

/// Proves that an entry is in the audit log that a checkpoint describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InclusionProof {
    pub entry: StoredEntry,
    /// The signed checkpoint whose size and root the hashes prove.
    pub checkpoint: String,
    pub hashes: Vec<Digest>,
}

/// Selects receipts. Without conditions, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiptFilter {
    pub action: Option<ActionId>,
    pub session: Option<SessionId>,
    /// Receipts of calls that this person made, and of calls that were made for them.
    pub user: Option<UserId>,
    pub status: Option<Status>,
    pub space: Option<SpaceId>,
    /// Of what ended at this time or later.
    pub since: Option<Timestamp>,
    /// Of what ended before this time.
    pub until: Option<Timestamp>,
    pub idempotency_key: Option<String>,
    pub trace_id: Option<String>,
    /// Whom the caller claimed to act for.
    pub subject: Option<String>,
    /// The caller's own name for the call.
    pub action_id: Option<String>,
    /// None of what happened in these spaces.
    pub hidden: BTreeSet<SpaceId>,
}

impl ReceiptFilter {
    /// The conditions on the rows of calls and on those of batches; what they compare with is added to `params`. `None` for batches if
    /// they have nothing to compare with, as one has no single action.
    fn conditions(&self, params: &mut Vec<Val>) -> (String, Option<String>) {
        let (mut calls, mut batches) = (String::new(), Some(String::new()));
        let text = |text: Option<&str>| text.map(Val::from);
        let wanted = [
            ("action = #", None, text(self.action.as_ref().map(ActionId::as_str))),
            ("session_id = #", Some("session_id = #"), text(self.session.as_ref().map(SessionId::as_str))),
            (SESSION_OF_USER, Some(SESSION_OF_USER), text(self.user.as_ref().map(UserId::as_str))),
            ("status = #", Some("status = #"), text(self.status.map(Status::as_str))),
            ("space_id = #", Some(SESSION_IN_SPACE), text(self.space.as_ref().map(SpaceId::as_str))),
            ("ended_at >= #", Some("touched_at >= #"), self.since.map(Val::from)),
            ("ended_at < #", Some("touched_at < #"), self.until.map(Val::from)),
            ("key = #", Some("key = #"), text(self.idempotency_key.as_deref())),
            ("trace_id = #", None, text(self.trace_id.as_deref())),
            ("subject = #", None, text(self.subject.as_deref())),
            ("action_id = #", None, text(self.action_id.as_deref())),
        ];
        for (of_call, of_batch, value) in wanted {
            let Some(value) = value else { continue };
            params.push(value);
            let place = format!("${}", params.len());
            calls.push_str(&format!(" AND {}", of_call.replace('#', &place)));
            batches = batches.zip(of_batch).map(|(batches, of_batch)| format!("{batches} AND {}", of_batch.replace('#', &place)));
        }
        let visible = not_among("space_id", &self.hidden, params);
        if !visible.is_empty() {
            let in_sight = format!(" AND session_id IN (SELECT id FROM sessions WHERE org_id = $1{visible})");
            batches = batches.map(|batches| batches + &in_sight);
        }
        (calls + &visible, batches)
    }
}

const SESSION_OF_USER: &str = "session_id IN (SELECT id FROM sessions WHERE org_id = $1 AND owner_id = #)";
const SESSION_IN_SPACE: &str = "session_id IN (SELECT id FROM sessions WHERE org_id = $1 AND space_id = #)";

impl Store {
    pub async fn find_receipt(&self, org: &OrgId, receipt: &ReceiptId) -> Result<Option<StoredEntry>, Error> {
        let rows = self.db.read(&format!("{SELECT_ENTRY} AND id = $2"), &vals![org.as_str(), receipt.as_str()]).await?;
        only(rows, read_entry)
    }

    /// Every entry of one invocation, in order: its answers, its intents and its receipt.
    pub async fn list_entries_of(&self, org: &OrgId, invocation: &InvocationId) -> Result<Vec<StoredEntry>, Error> {
        let rows =
            self.db.read(&format!("{SELECT_ENTRY} AND invocation_id = $2 ORDER BY seq"), &vals![org.as_str(), invocation.as_str()]).await?;
        all(rows, read_entry)
    }

    /// Lists the receipts of calls and batches, newest first. A filter by action, trace, subject or the caller's own name leaves out
    /// batches, which have none. What the org no longer keeps beside its audit log is listed without a filter only.
    pub async fn list_receipts(&self, org: &OrgId, filter: &ReceiptFilter, request: &PageRequest) -> Result<Page<StoredEntry>, Error> {
        let before = request.after.as_deref().and_then(|text| text.parse().ok()).unwrap_or(i64::MAX);
        let mut params = vals![org.as_str(), before].to_vec();
        let (calls, batches) = filter.conditions(&mut params);
        params.push(Val::from(i64::from(request.limit) + 1));
        let limit = format!("LIMIT ${}", params.len());
        let which = if *filter == ReceiptFilter::default() {
            "kind IN ('receipt', 'batch') AND seq < $2".to_owned()
        } else {
            // Each part is limited by itself, so that no more rows are read than a page has.
            let newest = |table: &str, conditions: &str| {
                format!(
                    "SELECT receipt_seq FROM (
                       SELECT receipt_seq FROM {table} WHERE org_id = $1 AND receipt_seq < $2{conditions} ORDER BY receipt_seq DESC {limit}
                     ) AS newest"
                )
            };
            let batches = batches.map_or_else(String::new, |batches| format!(" UNION ALL {}", newest("batches", &batches)));
            format!("seq IN ({}{batches})", newest("invocations", &calls))
        };
        let sql = format!("{SELECT_ENTRY} AND {which} ORDER BY seq DESC {limit}");
        let rows = self.db.read(&sql, &params).await?;
        page(rows, request.limit, read_entry, |entry| entry.seq.to_string())
    }

    /// Proves the receipt against a checkpoint signed now. `None` if there is no such receipt.
    pub async fn prove_receipt(&self, org: &OrgId, receipt: &ReceiptId) -> Result<Option<InclusionProof>, Error> {
        let Some(entry) = self.find_receipt(org, receipt).await? else {
            return Ok(None);
        };
        let note =
            self.checkpoint(org).await?.ok_or_else(|| Error::Corrupt { message: "a log with a receipt has no checkpoint".into() })?;
        let size = receipt::checkpoint::Checkpoint::parse(&note)
            .map_err(|error| Error::Corrupt { message: format!("a stored checkpoint does not read: {error}") })?
            .checkpoint
            .size;
        let have = self.tree_hashes(org, &tree::inclusion_needs(entry.seq, size)).await?;
        let hashes = tree::inclusion_proof(entry.seq, size, &have).map_err(|error| Error::Corrupt { message: error.to_string() })?;
        Ok(Some(InclusionProof { entry, checkpoint: note, hashes }))
    }

    async fn tree_hashes(&self, org: &OrgId, needs: &tree::Needs) -> Result<tree::Have, Error> {
        let mut have = tree::Have::new();
        for range in &needs.leaf_ranges {
            let rows = self
                .db
                .read(
                    "SELECT leaf FROM entries WHERE org_id = $1 AND seq >= $2 AND seq < $3 ORDER BY seq",
                    &vals![org.as_str(), range.start as i64, range.end as i64],
                )
                .await?;
            have.add_leaves(range.start, all(rows, read_hash)?);
        }
        for (level, range) in &needs.tile_ranges {
            let rows = self
                .db
                .read(
                    "SELECT hash FROM tree_nodes WHERE org_id = $1 AND level = $2 AND position >= $3 AND position < $4 ORDER BY position",
                    &vals![org.as_str(), i64::from(*level), range.start as i64, range.end as i64],
                )
                .await?;
            have.add_tiles(*level, range.start, all(rows, read_hash)?);
        }
        Ok(have)
    }

    /// Exports the whole audit log as a bundle, line by line, all from one moment. It stops early if the reader goes away.
    pub async fn export(&self, org: &OrgId) -> Result<mpsc::Receiver<Result<String, Error>>, Error> {
        // Sign a checkpoint first: the bundle contains the entries up to the last checkpoint.
        self.checkpoint(org).await?;
        let snapshot = self.db.snapshot().await?;
        let (lines, reader) = mpsc::channel(64);
        let org = org.clone();
        tokio::spawn(async move {
            if let Err(error) = export_all(snapshot, &org, &lines).await {
                // If the reader is gone, nobody needs the error.
                let _gone = lines.send(Err(error)).await;
            }
        });
        Ok(reader)
    }

    /// Replaces both keys. The old receipt key signs the entry that names the new ones, which sign from the next entry on.
    pub async fn rotate_keys(&self, org: &OrgId, old: OldKeys) -> Result<(), Error> {
        let (store, org) = (self.clone(), org.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let (old_key, old_checkpoint_key) = seal::key_ids(tx, &org).await?;
                    // The old checkpoint key signs for everything up to here.
                    seal::checkpoint(tx, &org).await?;
                    let starts_at = seal::size(tx, &org).await? + 1;
                    let receipt_key = store.keychain.create_signing_key(tx, &org, Purpose::Receipt, starts_at).await?;
                    let checkpoint_key = store.keychain.create_signing_key(tx, &org, Purpose::Checkpoint, starts_at).await?;
                    let body = KeyBody {
                        receipt_key: KeyText::new(&receipt_key),
                        checkpoint_key: KeyText::new(&checkpoint_key),
                        replaces: Some(old_key.clone()),
                        starts_at_seq: starts_at.to_string(),
                        revoked: match old {
                            OldKeys::Retired => Vec::new(),
                            OldKeys::Revoked => vec![old_key.clone(), old_checkpoint_key.clone()],
                        },
                    };
                    let body = body.to_canonical().map_err(|error| Error::Corrupt { message: error.to_string() })?;
                    let id = format!("key_{}", receipt_key.key_id());
                    seal::append(tx, &org, seal::Draft { kind: Kind::Key, id: &id, invocation: None, body: &body }).await?;
                    seal::change_keys(tx, &org, receipt_key.key_id(), checkpoint_key.key_id()).await?;
                    let revoked_at = (old == OldKeys::Revoked).then(|| tx.now());
                    tx.exec(
                        "UPDATE keys SET retired_at = $1, revoked_at = $2 WHERE org_id = $3 AND key_id IN ($4, $5)",
                        &vals![tx.now(), revoked_at, org.as_str(), old_key, old_checkpoint_key],
                    )
                    .await
                    .map(|_| ())
                })
            })
            .await
    }
}

/// What becomes of the replaced keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldKeys {
    /// The old keys are replaced by routine. Their signatures stay valid.
    Retired,
    /// Someone else may have the old keys: the audit log itself says that their signatures from here on do not count.
    Revoked,
}

async fn export_all(mut snapshot: Snapshot, org: &OrgId, lines: &mpsc::Sender<Result<String, Error>>) -> Result<(), Error> {
    let mut bundle = Bundle { tally: Tally::new(), lines };
    let rows = snapshot.read("SELECT log_id FROM logs WHERE org_id = $1", &vals![org.as_str()]).await?;
    let row = rows.into_iter().next().ok_or_else(|| Error::Corrupt { message: format!("org `{org}` has no log") })?;
    let log = Columns::of(row).parsed(|text| LogId::parse(text).ok())?;
    let opening = bundle.tally.opening(&Opening::new(log));
    bundle.send(opening).await?;
    let rows = snapshot.read("SELECT size FROM checkpoints WHERE org_id = $1 ORDER BY size DESC LIMIT 1", &vals![org.as_str()]).await?;
    // Entries after the last checkpoint are left out: no checkpoint covers them, so a verifier could not notice if they were cut off.
    let covered = count(rows)?;
    let mut next = 0;
    loop {
        let sql = format!("{SELECT_ENTRY} AND seq >= $2 AND seq < $3 ORDER BY seq LIMIT $4");
        let rows = snapshot.read(&sql, &vals![org.as_str(), next, covered, EXPORT_ROWS]).await?;
        if rows.is_empty() {
            break;
        }
        for row in rows {
            let entry = read_entry(row)?;
            next = entry.seq as i64 + 1;
            bundle.line(Line::Entry { seq: entry.seq.to_string(), envelope: entry.envelope() }).await?;
        }
    }
    let mut after = String::new();
    loop {
        let sql = "SELECT digest, body FROM definitions WHERE org_id = $1 AND digest > $2 ORDER BY digest LIMIT $3";
        let rows = snapshot.read(sql, &vals![org.as_str(), after.as_str(), EXPORT_ROWS]).await?;
        if rows.is_empty() {
            break;
        }
        for row in rows {
            let mut columns = Columns::of(row);
            let digest = columns.parsed(Digest::parse)?;
            after = digest.to_string();
            bundle.line(Line::Definition { digest, body: columns.text()? }).await?;
        }
    }
    let mut after = 0;
    loop {
        let sql = "SELECT seq, id, name, receipt_id, key FROM events WHERE org_id = $1 AND seq > $2 AND receipt_id IS NOT NULL
                   AND (SELECT entries.seq FROM entries WHERE entries.org_id = events.org_id AND entries.id = events.receipt_id) < $3
                   ORDER BY seq LIMIT $4";
        let rows = snapshot.read(sql, &vals![org.as_str(), after, covered, EXPORT_ROWS]).await?;
        if rows.is_empty() {
            break;
        }
        for row in rows {
            let mut columns = Columns::of(row);
            after = columns.int()?;
            let event_id = columns.id()?;
            let name = columns.text()?;
            let receipt_id = columns.id()?;
            let invocation_id = columns.text_or_null()?.and_then(|text| InvocationId::parse(&text).ok());
            bundle.line(Line::Event { event_id, name, receipt_id, invocation_id }).await?;
        }
    }
    let mut after = -1;
    loop {
        let sql = "SELECT size, note FROM checkpoints WHERE org_id = $1 AND size > $2 ORDER BY size LIMIT $3";
        let rows = snapshot.read(sql, &vals![org.as_str(), after, EXPORT_ROWS]).await?;
        if rows.is_empty() {
            break;
        }
        for row in rows {
            let mut columns = Columns::of(row);
            after = columns.int()?;
            bundle.line(Line::Checkpoint { note: columns.text()? }).await?;
        }
    }
    let end = bundle.tally.end();
    bundle.line(end).await
}

struct Bundle<'a> {
    tally: Tally,
    lines: &'a mpsc::Sender<Result<String, Error>>,
}

impl Bundle<'_> {
    async fn line(&mut self, line: Line) -> Result<(), Error> {
        let text = self.tally.line(&line);
        self.send(text).await
    }

    async fn send(&self, text: String) -> Result<(), Error> {
        self.lines.send(Ok(text)).await.map_err(|_| Error::Unavailable { message: "the reader of the export went away".into() })
    }
}

const SELECT_ENTRY: &str = "SELECT seq, kind, id, invocation_id, payload, key_id, signature FROM entries WHERE org_id = $1";

fn read_entry(row: Row) -> Result<StoredEntry, Error> {
    let mut columns = Columns::of(row);
    Ok(StoredEntry {
        seq: columns.int()? as u64,
        kind: columns.parsed(Kind::parse)?,
        id: columns.text()?,
        invocation: columns.id_or_null()?,
        payload: columns.text()?,
        key_id: columns.text()?,
        signature: columns.bytes()?.try_into().map_err(|_| Error::Corrupt { message: "a stored signature has the wrong length".into() })?,
    })
}

fn read_hash(row: Vec<Val>) -> Result<Digest, Error> {
    let bytes = Columns::of(row).bytes()?;
    let bytes =
        <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| Error::Corrupt { message: "a stored hash has the wrong length".into() })?;
    Ok(Digest::new(bytes))
}
