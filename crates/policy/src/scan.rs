//! Whether what a call carries, what a source returns or what a definition says is dangerous. Pure and in linear time.
//! Detectors are no control: what is certain is stopped, what is odd is shown to a person, and labels do the rest.
//! Each file below is one kind of danger and says where it looks; none of them repeats what it found.

mod findings;
mod text;
mod words;
mod reach;
mod hidden;
mod secret;
mod canary;
mod link;
mod taint;
mod instruction;
mod definition;

pub use canary::{CANARY_BYTES_MIN, CANARY_EGRESS_ID};
pub use definition::{Others, scan_definition, scan_definition_beside};
pub use findings::{Finding, Severity};
pub use hidden::is_unseen;
pub use taint::TRIFECTA_ID;
pub(crate) use text::escaped as pointer_step;

use canary::Canaries;
use countersign_core::Action;
use countersign_core::call::Label;
use countersign_core::decision::{Gate, GateVerdict, Verdict};
use findings::Findings;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a session has touched so far. It is never taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionLabel {
    PrivateData,
    UntrustedContent,
}

/// Everything known about where a call's content comes from. Nothing known is nothing found, so it is ours to know, not the caller's.
#[derive(Clone, Debug, Default)]
pub struct Provenance<'a> {
    /// By JSON pointer into the params; a label holds for everything below it that has none of its own.
    pub labels: BTreeMap<String, Label>,
    pub session: BTreeSet<SessionLabel>,
    /// Texts that were laid out to be stolen. Shorter ones than `CANARY_BYTES_MIN` are not looked for.
    pub canaries: &'a [String],
}

/// What is dangerous about a call before it is made.
pub fn scan(action: &Action, params: &Value, provenance: &Provenance) -> Vec<Finding> {
    let canaries = Canaries::of(provenance.canaries);
    let mut findings = Findings::default();
    hidden::scan(params, &mut findings);
    if reach::may_leave(action) {
        secret::scan(params, &mut findings);
    }
    if reach::may_leave(action) || reach::is_shown(action) {
        link::scan(params, &mut findings);
        canary::scan(params, &canaries, &mut findings);
    }
    taint::scan(action, params, provenance, &mut findings);
    let mut findings = findings.into_vec();
    for finding in &mut findings {
        canaries.take_out_of(&mut finding.pointer);
    }
    findings
}

/// What is dangerous about what a source returned. The effect has happened: nothing here asks, it labels the session or is
/// withheld.
pub fn scan_output(value: &Value) -> Vec<Finding> {
    let mut findings = Findings::default();
    hidden::scan(value, &mut findings);
    instruction::scan(value, &mut findings);
    let mut findings = findings.into_vec();
    for finding in &mut findings {
        finding.severity = match finding.severity {
            Severity::Labels | Severity::Asks => Severity::Labels,
            Severity::Quarantines => Severity::Quarantines,
        };
    }
    findings
}

/// What the safety gate says to them: the strictest decides, and every rule that was not content is named once.
pub fn verdict(findings: &[Finding]) -> GateVerdict {
    let verdict = match findings.iter().map(|finding| finding.severity).max() {
        None | Some(Severity::Labels) => Verdict::Ok,
        Some(Severity::Asks) => Verdict::NeedsApproval,
        Some(Severity::Quarantines) => Verdict::Quarantine,
    };
    let mut determining: Vec<String> = Vec::new();
    for finding in findings.iter().filter(|finding| finding.severity > Severity::Labels) {
        if !determining.iter().any(|rule| rule == finding.rule) {
            determining.push(finding.rule.to_owned());
        }
    }
    GateVerdict::new(Gate::Safety, verdict, determining)
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
