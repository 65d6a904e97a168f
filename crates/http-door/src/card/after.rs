//! The part of a page about what became of its call: what it changed, what was checked, how it ended, and its receipt. The same facts as on
//! the card of the command line.

use super::{Card, span};
use crate::html::escaped;
use api::invocation::{CheckView, InvocationView, RemedyView};
use countersign_core::Status;
use countersign_core::observe::Observed;

impl Card {
    pub(super) fn aftermath(&self) -> Vec<(&'static str, String)> {
        let view = &self.view;
        let mut facts = Vec::new();
        facts.extend(view.grant_id.clone().map(|grant| ("By grant", grant)));
        let is_unasked = view.observed.is_some_and(Observed::ran_unasked);
        facts.extend(is_unasked.then(|| ("Observed", "nobody was asked, because the space only observes".to_owned())));
        facts.extend(self.changed());
        facts.extend(view.reverted_by.clone().map(|id| ("Reverted by", id)));
        if !view.checks.is_empty() {
            facts.push(("Checks", view.checks.iter().map(check).collect::<Vec<_>>().join(", ")));
        }
        facts.extend(view.repair.map(|repair| ("Repair", remedy(repair, "repaired", "tried, and it still failed"))));
        facts.extend(view.rollback.map(|rollback| ("Rollback", remedy(rollback, "rolled back", "could not be rolled back"))));
        if let (Some(settled), Some(settler)) = (&view.settled, &self.settler) {
            let reason = settled.reason.as_ref().map(|reason| format!(": “{reason}”")).unwrap_or_default();
            facts.push(("Settled by", format!("{settler}, {}{reason}", settled.at.to_minute())));
        }
        facts.extend(view.error.as_ref().map(|error| ("Error", format!("{}: {}", error.code, error.message))));
        facts.extend(took(view).map(|took| ("Took", took)));
        facts.extend(view.receipt.as_ref().map(|receipt| ("Receipt", format!("{} (#{})", receipt.id, receipt.seq))));
        facts
    }

    /// The files that the call changed, or for a revert those it restored.
    fn changed(&self) -> Option<(&'static str, String)> {
        let label = match (self.view.status, self.view.reverses.is_some()) {
            (Status::InDoubt, _) => "May have changed",
            (_, true) => "Restored",
            (_, false) => "Changed",
        };
        let files: Vec<_> = self.view.changed_files.iter().map(|file| format!("{} {}", file.change.as_str(), file.path)).collect();
        (!files.is_empty()).then(|| (label, files.join(", ")))
    }

    pub(super) fn result(&self) -> String {
        let Some(result) = &self.view.result else { return String::new() };
        format!("<h2>Result</h2><pre>{}</pre>", escaped(&serde_json::to_string_pretty(result).unwrap_or_default()))
    }

    /// Whether there is or will be an effect to revert.
    pub(super) fn leaves_something(&self) -> bool {
        let came_to_nothing =
            matches!(self.view.status, Status::Denied | Status::Expired | Status::Cancelled | Status::Reverted | Status::Quarantined);
        !came_to_nothing && !self.view.dry_run && self.view.reverted_by.is_none()
    }
}

fn check(check: &CheckView) -> String {
    let detail = check.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
    if check.ok { format!("{} ✓", check.name) } else { format!("{} ✗{detail}", check.name) }
}

fn remedy(remedy: RemedyView, well: &str, ill: &str) -> String {
    match (remedy.attempted, remedy.ok) {
        (true, true) => well.to_owned(),
        (true, false) => ill.to_owned(),
        (false, _) => "not tried".to_owned(),
    }
}

/// `12 ms in 1 attempt, and waited 37 seconds for approval`
fn took(view: &InvocationView) -> Option<String> {
    let lasted = lasting(view.duration_ms?);
    let attempts = match view.attempts {
        0 => "without a call to its source".to_owned(),
        1 => "in 1 attempt".to_owned(),
        several => format!("in {several} attempts, repair and rollback included"),
    };
    let waited = view.waited_ms.map(|waited| format!(", and waited {} for approval", lasting(waited))).unwrap_or_default();
    Some(format!("{lasted} {attempts}{waited}"))
}

fn lasting(millis: u64) -> String {
    if millis < 10_000 { format!("{millis} ms") } else { span(millis / 1_000) }
}
