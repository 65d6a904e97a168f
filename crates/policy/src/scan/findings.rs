//! What was found and where, without the content itself, because findings are stored, logged and shown.

use countersign_core::ActionId;
use serde::Serialize;
use std::collections::BTreeMap;

/// The consequence of a finding. Ordered: the strictest of several decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// From now on, the session counts as having seen untrusted content.
    Labels,
    /// A person has to approve.
    Asks,
    /// The call is not made, or its output is not returned, until a person releases it.
    Quarantines,
}

/// One match of a rule in one text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule's id, such as `safety.hidden_unicode`. It keeps its meaning for good.
    pub rule: &'static str,
    pub severity: Severity,
    /// A JSON pointer. It ends above a key that must not be shown.
    pub pointer: String,
    /// For people. It never quotes the content.
    pub message: String,
}

/// How many findings of one rule are kept; more of the same would add nothing.
pub(super) const FINDINGS_PER_RULE_MAX: u32 = 20;

/// The fixed parts of a rule's findings.
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
    /// Adds a finding unless the same one exists. The pointer is computed only if the finding may be kept.
    pub(super) fn add(&mut self, rule: &Rule, pointer: impl FnOnce() -> String) {
        self.add_saying(rule, || rule.message.to_owned(), pointer);
    }

    /// The same for a finding about another action, whose id begins the message.
    pub(super) fn add_about(&mut self, rule: &Rule, subject: &ActionId, pointer: impl FnOnce() -> String) {
        self.add_saying(rule, || format!("`{subject}` {}", rule.message), pointer);
    }

    /// The same for a finding about a word that means another action. The word is one that we know, so it quotes nothing else.
    pub(super) fn add_naming(&mut self, rule: &Rule, word: &str, meant: &ActionId, pointer: impl FnOnce() -> String) {
        let said = || format!("the definition speaks about `{word}`, {} (`{}`)", rule.message, meant.source());
        self.add_saying(rule, said, pointer);
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
