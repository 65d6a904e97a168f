//! Checks the published events against the receipts: each receipt has one event, and no event claims more than its receipt.

use super::outcomes::Outcomes;
use super::{Class, Finding, Report};
use crate::body::{BatchBody, ReceiptBody};
use countersign_core::batch::BatchStatus;
use countersign_core::{InvocationId, ReceiptId, Status};
use std::collections::BTreeMap;

/// The events in the bundle, and those that the receipts require.
#[derive(Default)]
pub(super) struct Events {
    told: BTreeMap<ReceiptId, Told>,
    /// Events that report an end but name no receipt.
    unfounded: Vec<(String, Option<InvocationId>)>,
    expected: Vec<Expected>,
    trimmed_through: Option<u64>,
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
    pub(super) fn tell(&mut self, name: String, receipt: Option<ReceiptId>, invocation: Option<InvocationId>) -> Result<(), Finding> {
        match receipt {
            Some(receipt) => {
                if self.told.contains_key(&receipt) {
                    let mut finding = unpaired("its receipt is told of twice");
                    finding.receipt_id = Some(receipt.to_string());
                    return Err(finding);
                }
                self.told.insert(receipt, Told { name, invocation });
            }
            None if tells_of_an_end(&name) => {
                self.unfounded.push((name, invocation));
            }
            None => {}
        }
        Ok(())
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

    /// Retention has deleted the events of receipts up to here.
    pub(super) fn trim(&mut self, through: u64) {
        self.trimmed_through = self.trimmed_through.max(Some(through));
    }

    /// Checks the events in the order of the log, then looks for events without a receipt.
    pub(super) fn finish(&mut self, outcomes: &Outcomes, report: &mut Report) -> Result<(), Finding> {
        for Expected { seq, receipt, invocation, status, event } in &self.expected {
            let found = self.told.remove(receipt);
            let problem = match found {
                Some(told) if told.name != *event => format!("the receipt says `{status}`, its event `{}`", told.name),
                Some(told) if told.invocation.is_some() && told.invocation != *invocation => {
                    "its event is of another invocation".to_owned()
                }
                Some(_) => continue,
                None if Some(*seq) <= self.trimmed_through => {
                    report.trimmed += 1;
                    continue;
                }
                None => "no event tells of the receipt".to_owned(),
            };
            let mut finding = unpaired(problem).at(*seq);
            finding.receipt_id = Some(receipt.to_string());
            finding.invocation_id = invocation.as_ref().map(InvocationId::to_string);
            return Err(finding);
        }
        if let Some((receipt, told)) = self.told.first_key_value() {
            let mut finding = unpaired(format!("event `{}` tells of a receipt that is not in the log", told.name));
            finding.receipt_id = Some(receipt.to_string());
            finding.invocation_id = told.invocation.as_ref().map(InvocationId::to_string);
            return Err(finding);
        }
        if let Some((name, invocation)) = self.unfounded.first() {
            let open = invocation.as_ref().and_then(|invocation| outcomes.open_intent(invocation));
            let mut finding = match open {
                Some(seq) => {
                    Finding::new(Class::UnpairedOutcome, format!("event `{name}` tells of an end that no receipt records")).at(seq)
                }
                None => unpaired(format!("event `{name}` names no receipt")),
            };
            finding.invocation_id = invocation.as_ref().map(InvocationId::to_string);
            return Err(finding);
        }
        Ok(())
    }
}

fn tells_of_an_end(name: &str) -> bool {
    Status::ALL.into_iter().any(|status| status.is_final() && status.event_name() == name)
        || BatchStatus::ALL.into_iter().any(|status| status.is_final() && status.event_name() == name)
}

fn unpaired(reason: impl Into<String>) -> Finding {
    Finding::new(Class::UnpairedEvent, reason)
}
