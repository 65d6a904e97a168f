//! Checks the events against the receipts. Events are not signed. So each receipt has one event, and no event says more than its receipt.
//! An org keeps its events for a time only, as its log says, or by default. Those of older receipts may be gone.

use super::{Class, Finding};
use crate::body::{BatchBody, ReceiptBody};
use crate::entry::Header;
use countersign_core::retention::Retention;
use countersign_core::{InvocationId, ReceiptId, Timestamp};
use std::collections::BTreeMap;

/// The events in the bundle, and those that the receipts require.
#[derive(Default)]
pub(super) struct Events {
    told: BTreeMap<ReceiptId, Told>,
    expected: Vec<Expected>,
    /// In force at this place of the log.
    retention: Retention,
    /// Events from before this time may be gone.
    kept_from: Option<Timestamp>,
}

struct Told {
    name: String,
    invocation: Option<InvocationId>,
}

struct Expected {
    seq: u64,
    at: Timestamp,
    receipt: ReceiptId,
    /// Absent for the receipt of a batch.
    invocation: Option<InvocationId>,
    status: &'static str,
    event: &'static str,
}

impl Events {
    pub(super) fn tell(&mut self, name: String, receipt: ReceiptId, invocation: Option<InvocationId>) -> Result<(), Finding> {
        if self.told.contains_key(&receipt) {
            return Err(unpaired("its receipt is told of twice", &receipt, None));
        }
        self.told.insert(receipt, Told { name, invocation });
        Ok(())
    }

    /// The org has said how long it keeps its events, from this entry on.
    pub(super) fn keep_for(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// Whether that is in force already.
    pub(super) fn are_kept_for(&self, retention: Retention) -> bool {
        self.retention == retention
    }

    /// Events are forgotten by the retention in force, and counted back from the newest entry. So each entry allows that more of them are gone.
    pub(super) fn pass(&mut self, header: &Header) {
        self.kept_from = self.kept_from.max(Some(self.retention.events_from(header.at)));
    }

    pub(super) fn expect(&mut self, header: &Header, receipt: &ReceiptBody) {
        let ReceiptBody { receipt_id, invocation_id, status, .. } = receipt;
        let (receipt, invocation) = (receipt_id.clone(), Some(invocation_id.clone()));
        let (seq, at) = (header.seq, header.judged_at());
        self.expected.push(Expected { seq, at, receipt, invocation, status: status.as_str(), event: status.event_name() });
    }

    pub(super) fn expect_batch(&mut self, header: &Header, body: &BatchBody) {
        let (receipt, status) = (body.receipt_id.clone(), body.status);
        let (seq, at) = (header.seq, header.judged_at());
        self.expected.push(Expected { seq, at, receipt, invocation: None, status: status.as_str(), event: status.event_name() });
    }

    /// Checks the events in the order of the log, then looks for events without a receipt.
    pub(super) fn finish(&mut self) -> Result<(), Finding> {
        let mut may_miss = true;
        for Expected { seq, at, receipt, invocation, status, event } in &self.expected {
            let problem = match self.told.remove(receipt) {
                Some(told) if told.name != *event => format!("the receipt says `{status}`, its event `{}`", told.name),
                Some(told) if told.invocation != *invocation => "its event is of another invocation, or of none".to_owned(),
                Some(_) => {
                    // Events go from the oldest on: after one that is there, none may be missing.
                    may_miss = false;
                    continue;
                }
                None if may_miss && self.kept_from.is_some_and(|from| *at < from) => continue,
                None => "no event tells of the receipt".to_owned(),
            };
            return Err(unpaired(problem, receipt, invocation.as_ref()).at(*seq));
        }
        match self.told.first_key_value() {
            Some((receipt, told)) => {
                let reason = format!("event `{}` tells of a receipt that is not in the log", told.name);
                Err(unpaired(reason, receipt, told.invocation.as_ref()))
            }
            None => Ok(()),
        }
    }
}

fn unpaired(reason: impl Into<String>, receipt: &ReceiptId, invocation: Option<&InvocationId>) -> Finding {
    let mut finding = Finding::new(Class::UnpairedEvent, reason);
    finding.receipt_id = Some(receipt.to_string());
    finding.invocation_id = invocation.map(InvocationId::to_string);
    finding
}
