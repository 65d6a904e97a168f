//! What was found and where, without the content itself: a finding is stored, logged and shown.

use countersign_core::ActionId;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a finding leads to, ordered: the strictest of several decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The session has seen untrusted content from now on.
    Labels,
    /// A person decides.
    Asks,
    /// Nothing happens, or nothing is returned, until somebody releases it.
    Quarantines,
}

/// One thing that was found in one text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Such as `safety.hidden_unicode`; it names one idea for good.
    pub rule: &'static str,
    pub severity: Severity,
    /// A JSON pointer; it ends above a key that cannot be shown.
    pub pointer: String,
    /// For people. It never quotes what was found.
    pub message: String,
}

/// Findings of one rule that are kept; more of the same would tell nobody more.
pub(super) const FINDINGS_PER_RULE_MAX: u32 = 20;

/// What a rule always says.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) id: &'static str,
    pub(super) severity: Severity,
    pub(super) message: &'static str,
}

#[derive(Default)]
pub(super) struct Findings {
    found: Vec<Finding>,
    counts: BTreeMap<&'static str, u32>,
}

impl Findings {
    /// Keeps it unless the same is known already; the pointer is only made where it may be kept.
    pub(super) fn add(&mut self, rule: &Rule, pointer: impl FnOnce() -> String) {
        self.add_saying(rule, || rule.message.to_owned(), pointer);
    }

    /// The same of something that has a name of ours, which begins what the rule says.
    pub(super) fn add_about(&mut self, rule: &Rule, subject: &ActionId, pointer: impl FnOnce() -> String) {
        self.add_saying(rule, || format!("`{subject}` {}", rule.message), pointer);
    }

    fn add_saying(&mut self, rule: &Rule, message: impl FnOnce() -> String, pointer: impl FnOnce() -> String) {
        let count = self.counts.entry(rule.id).or_default();
        if *count >= FINDINGS_PER_RULE_MAX {
            return;
        }
        let pointer = pointer();
        if !self.found.iter().any(|finding| finding.rule == rule.id && finding.pointer == pointer) {
            *count += 1;
            self.found.push(Finding { rule: rule.id, severity: rule.severity, pointer, message: message() });
        }
    }

    pub(super) fn into_vec(self) -> Vec<Finding> {
        self.found
    }
}
