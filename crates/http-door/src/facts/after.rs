//! What became of a call: what it changed, what was checked, how it ended, and its receipt.

use super::{Facts, span};
use api::invocation::{CheckView, FactTone, FactView, InvocationView, RemedyView};
use countersign_core::Status;
use countersign_core::changed_file::FileChange;
use countersign_core::observe::Observed;

impl Facts<'_> {
    pub(super) fn aftermath(&self) -> Vec<FactView> {
        let view = self.view;
        let mut facts = Vec::new();
        facts.extend(view.grant_id.as_ref().map(|grant| FactView::new("By grant", grant)));
        let is_unasked = view.observed.is_some_and(Observed::ran_unasked);
        facts.extend(is_unasked.then(|| FactView::new("Observed", "nobody was asked, because the space only observes")));
        facts.extend(self.changed());
        facts.extend(view.reverted_by.as_ref().map(|id| FactView::new("Reverted by", id).toned(FactTone::Warn)));
        facts.extend(view.checks.iter().map(check));
        facts.extend(view.repair.map(|repair| remedy("Repair", repair, "repaired", "tried, and it still failed")));
        facts.extend(view.rollback.map(|rollback| remedy("Rollback", rollback, "rolled back", "could not be rolled back")));
        if let (Some(settled), Some(settler)) = (&view.settled, &self.known.settler) {
            let reason = settled.reason.as_ref().map(|reason| format!(": “{reason}”")).unwrap_or_default();
            facts.push(FactView::new("Settled by", format!("{settler}, ")).at(settled.at, reason));
        }
        facts.extend(view.error.as_ref().map(|error| FactView::new("Error", format!("{}: {}", error.code, error.message))));
        facts.extend(took(view).map(|took| FactView::new("Took", took)));
        facts.extend(view.receipt.as_ref().map(|receipt| FactView::new("Receipt", format!("{} (#{})", receipt.id, receipt.seq))));
        facts
    }

    /// The files that the call changed, or for a revert those it restored.
    fn changed(&self) -> impl Iterator<Item = FactView> {
        let label = match (self.view.status, self.view.reverses.is_some()) {
            (Status::InDoubt, _) => "May have changed",
            (_, true) => "Restored",
            (_, false) => "Changed",
        };
        self.view.changed_files.iter().map(move |file| {
            let sign = match file.change {
                FileChange::Created => "+",
                FileChange::Changed => "~",
                FileChange::Removed => "−",
            };
            FactView::new(label, format!("{sign} {} {}", file.change.as_str(), file.path))
        })
    }

    /// Whether there is or will be an effect to revert.
    pub(super) fn leaves_something(&self) -> bool {
        let came_to_nothing =
            matches!(self.view.status, Status::Denied | Status::Expired | Status::Cancelled | Status::Reverted | Status::Quarantined);
        !came_to_nothing && !self.view.dry_run && self.view.reverted_by.is_none()
    }
}

fn check(check: &CheckView) -> FactView {
    let detail = check.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
    if check.ok {
        return FactView::new("Checks", format!("{} ✓", check.name));
    }
    FactView::new("Checks", format!("{} ✗{detail}", check.name)).toned(FactTone::Danger)
}

fn remedy(label: &str, remedy: RemedyView, well: &str, ill: &str) -> FactView {
    match (remedy.attempted, remedy.ok) {
        (true, true) => FactView::new(label, well),
        (true, false) => FactView::new(label, ill).toned(FactTone::Danger),
        (false, _) => FactView::new(label, "not tried"),
    }
}

/// `12 ms in 1 attempt, and waited 37 seconds for approval`
pub(super) fn took(view: &InvocationView) -> Option<String> {
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
