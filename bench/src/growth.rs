//! How cost grows: the same calls on a database that already holds many receipts. The receipts are written through the store itself, so
//! that every one is signed, chained and in the tree.

use crate::child::{Call, Server};
use crate::cpu::Watched;
use crate::load::Time;
use crate::progress;
use crate::stats::Window;
use anyhow::{Context, Result};
use countersign_core::ledger::{EntryDraft, EntryId, EventDraft, Finish, Finished, KeyFate, Row};
use countersign_core::ports::{EventFeed, Invocations};
use countersign_core::{Clock, EventId, Invocation, InvocationId, ReceiptId, Status, json, random_bytes};
use server::{OsRandom, SystemClock};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{InvocationFilter, PageRequest, Store};

/// Many writers at once, so that the batches of the store are full.
const WRITERS: usize = 256;
const CALLERS: usize = 8;

/// The figures for one size.
pub(crate) struct Size {
    pub(crate) receipts: u64,
    pub(crate) file_mb: f64,
    pub(crate) started_ms: f64,
    read: Vec<Window>,
    write: Vec<Window>,
}

impl Size {
    pub(crate) fn windows(&self, call: Call) -> &[Window] {
        match call {
            Call::Read => &self.read,
            Call::Write => &self.write,
        }
    }
}

/// A server on a filled database.
struct Filled {
    server: Server,
    watched: Watched,
    count: Arc<AtomicU64>,
    size: Size,
}

/// Fills a data folder for each size, then measures both calls on all of them in turns.
pub(crate) async fn measure(folder: &Path, sizes: &[u64], time: Time, repetitions: usize) -> Result<Vec<Size>> {
    let mut filled = Vec::new();
    for &receipts in sizes {
        progress(&format!("growth: filling a database with {receipts} receipts"));
        filled.push(start(&folder.join(format!("growth-{receipts}")), receipts).await?);
    }
    for _ in 0..repetitions {
        for Filled { server, watched, count, size } in &mut filled {
            progress(&format!("growth: {} receipts", size.receipts));
            size.read.push(server.measure(Call::Read, CALLERS, time, watched, count).await?);
            size.write.push(server.measure(Call::Write, CALLERS, time, watched, count).await?);
        }
    }
    filled.into_iter().map(|filled| filled.server.stop().map(|()| filled.size)).collect()
}

async fn start(data: &Path, receipts: u64) -> Result<Filled> {
    let server = Server::start(data, None).await?;
    server.warm_up(Call::Read, 10).await?;
    server.stop()?;
    fill(data, receipts).await.context("filling the database")?;
    let file_mb = ["countersign.db", "countersign.db-wal"].map(|name| megabytes(&data.join(name))).iter().sum();
    let server = Server::start(data, None).await?;
    let started_ms = server.started_in.as_secs_f64() * 1e3;
    Ok(Filled {
        watched: Watched::process(server.id()),
        server,
        count: Arc::default(),
        size: Size { receipts, file_mb, started_ms, read: Vec::new(), write: Vec::new() },
    })
}

/// The size of a file, or 0 if there is none: the write-ahead log may hold a part of the rows, or not exist.
fn megabytes(file: &Path) -> f64 {
    std::fs::metadata(file).map_or(0.0, |file| file.len() as f64 / (1024.0 * 1024.0))
}

/// An ended call from which others are made.
struct Sample {
    invocation: Invocation,
    receipt: ReceiptId,
    receipt_body: String,
    event_body: String,
    random: OsRandom,
}

async fn fill(data: &Path, receipts: u64) -> Result<()> {
    let store = crate::open_store(data).await?;
    let org = store.list_orgs().await?.into_iter().next().context("the store has no org")?.id;
    let have = store.log_size(&org).await?;
    let sample = Arc::new(sample(&store, &org).await?);
    let left = Arc::new(AtomicU64::new(receipts.saturating_sub(have)));
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let (store, sample, left) = (store.clone(), Arc::clone(&sample), Arc::clone(&left));
        writers.spawn(async move {
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                match store.finish(sample.again().into()).await? {
                    Finished::Recorded { .. } => {}
                    Finished::Not(status) => anyhow::bail!("a new invocation was already `{status}`"),
                    Finished::RulesChanged | Finished::MayNotAnswer | Finished::Missing => anyhow::bail!("a new invocation was missing"),
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    Ok(())
}

async fn sample(store: &Store, org: &countersign_core::OrgId) -> Result<Sample> {
    let page = PageRequest { limit: 100, after: None };
    let invocations = store.list_invocations(org, &InvocationFilter::default(), &page).await?;
    let invocation = invocations.items.into_iter().next().context("the store has no invocation")?;
    let receipt = invocation.receipt.as_ref().context("the invocation has not ended")?.id.clone();
    let entry = store.find_receipt(org, &receipt).await?.context("the receipt is missing")?;
    let receipt_body = json::canonical(&receipt::entry::Entry::parse(&entry.payload)?.body)?;
    let events = store.list_events_after(org, 0, 100).await?;
    let event = events.into_iter().find(|event| event.receipt.as_ref() == Some(&receipt)).context("the receipt has no event")?;
    Ok(Sample { invocation, receipt, receipt_body, event_body: event.body, random: OsRandom::default() })
}

impl Sample {
    /// The same call once more, under new ids. The ids have the same length and place, so the body stays canonical.
    fn again(&self) -> Finish {
        let now = SystemClock.now();
        let id = InvocationId::new(now, random_bytes(&self.random));
        let receipt = ReceiptId::new(now, random_bytes(&self.random));
        let renamed = |text: &str| text.replace(self.invocation.id.as_str(), id.as_str()).replace(self.receipt.as_str(), receipt.as_str());
        let event = EventDraft {
            id: EventId::new(now, random_bytes(&self.random)),
            name: Status::Succeeded.event_name(),
            key: id.to_string(),
            body: renamed(&self.event_body),
        };
        Finish {
            receipt: EntryDraft { id: EntryId::Receipt(receipt.clone()), body: renamed(&self.receipt_body) },
            invocation: Box::new(Invocation { id, receipt: None, ..self.invocation.clone() }),
            row: Row::Insert,
            event,
            key: KeyFate::Freed,
            grant: countersign_core::ledger::GrantUse::Kept,
            quarantine: None,
            whole_result: None,
            executed: None,
            rules_version: None,
            approval: None,
            reward: None,
        }
    }
}
