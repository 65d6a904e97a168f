//! What every channel says of a call beside its params, in this order; a wire only renders it.

use crate::Notice;
use countersign_core::channel::Moment;
use countersign_core::clean;
use countersign_core::invocation::Deadline;

impl Notice {
    /// Each with its label, in one line, and cleaned.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let invocation = &*self.invocation;
        let quoted = |reason: &str| format!("“{}”", clean::line(reason));
        let mut facts = vec![("Call", invocation.id.to_string()), ("Tier", invocation.tier.to_string()), ("Requested by", self.who.asks())];
        facts.extend(invocation.call.reason.as_deref().map(|reason| ("Reason given", quoted(reason))));
        if self.moment == Moment::Pending {
            if let Some(Deadline::At(at)) = invocation.deadline {
                facts.push(("Answer until", at.to_minute()));
            }
            if !invocation.approvals.is_empty() {
                facts.push(("Approvals so far", invocation.approvals.len().to_string()));
            }
        }
        facts.extend(self.who.answered_by.as_ref().map(|by| ("Answered by", clean::line(by))));
        let reason = invocation.answer.as_ref().and_then(|answer| answer.reason.as_deref());
        facts.extend(reason.map(|reason| ("With the reason", quoted(reason))));
        facts.extend(invocation.failure.as_ref().map(|failure| ("Because", clean::line(&failure.message))));
        facts
    }
}
