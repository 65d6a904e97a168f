//! Checks the events against the receipts. Events are not signed. So each receipt has one event, and no event says more than its receipt.
//! If the log itself says that the org keeps its events for a time only, those of the oldest receipts may be gone.

use super::{Class, Finding};
use crate::body::{BatchBody, ReceiptBody};
use countersign_core::{InvocationId, ReceiptId};
use std::collections::BTreeMap;

/// The events in the bundle, and those that the receipts require.
#[derive(Default)]
pub(super) struct Events {
    told: BTreeMap<ReceiptId, Told>,
    expected: Vec<Expected>,
    is_trimmed: bool,
}

struct Told {
    name: String,
    invocation: Option<InvocationId>,
}

struct Expected {
    seq: u64,
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

    /// The org has said that it does not keep its events for ever.
    pub(super) fn may_be_trimmed(&mut self) {
        self.is_trimmed = true;
    }

    pub(super) fn expect(&mut self, seq: u64, receipt: &ReceiptBody) {
        let ReceiptBody { receipt_id, invocation_id, status, .. } = receipt;
        let (receipt, invocation) = (receipt_id.clone(), Some(invocation_id.clone()));
        self.expected.push(Expected { seq, receipt, invocation, status: status.as_str(), event: status.event_name() });
    }

    pub(super) fn expect_batch(&mut self, seq: u64, body: &BatchBody) {
        let (receipt, status) = (body.receipt_id.clone(), body.status);
        self.expected.push(Expected { seq, receipt, invocation: None, status: status.as_str(), event: status.event_name() });
    }

    /// Checks the events in the order of the log, then looks for events without a receipt.
    pub(super) fn finish(&mut self) -> Result<(), Finding> {
        let mut may_miss = self.is_trimmed;
        for Expected { seq, receipt, invocation, status, event } in &self.expected {
            let problem = match self.told.remove(receipt) {
                Some(told) if told.name != *event => format!("the receipt says `{status}`, its event `{}`", told.name),
                Some(told) if told.invocation != *invocation => "its event is of another invocation, or of none".to_owned(),
                Some(_) => {
                    // Events go from the oldest on: after one that is there, none may be missing.
                    may_miss = false;
                    continue;
                }
                None if may_miss => continue,
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
