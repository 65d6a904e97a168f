//! Whether the content of a call, the output of a source or the text of a definition is dangerous. Pure, and in linear time.
//!
//! Detectors are not a control: certain dangers are stopped, odd content is shown to a person, and labels do the rest. Each file below
//! covers one kind of danger and says where it looks. No finding repeats the content that was found.

mod findings;
mod unseen;
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
pub use definition::{Others, names_of, scan_definition, scan_definition_beside, scan_guide};
pub use findings::{Finding, Severity};
pub use taint::TRIFECTA_ID;
pub(crate) use text::escaped as pointer_step;

use canary::Canaries;
use countersign_core::Action;
use countersign_core::call::Label;
use countersign_core::decision::{Gate, GateVerdict, Verdict};
use findings::{Findings, Rule};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The rules that ask a person, as far as their sentence is the same for every finding.
const ASKING: [&Rule; 13] = [
    &hidden::HIDDEN_UNICODE,
    &hidden::BIDI_CONTROL,
    &secret::SECRET_AUTHORIZES,
    &link::IMAGE_EXFILTRATION,
    &link::LINK_EXFILTRATION,
    &taint::TAINTED_RECIPIENT,
    &taint::TAINTED_PATH,
    &taint::TAINTED_COMMAND,
    &taint::TRIFECTA,
    &definition::SECRET_PATH,
    &definition::OTHER_ACTION,
    &definition::HOMOGLYPH_NAME,
    &definition::UNREADABLE,
];

/// What a rule that asked has said of the call, for when its findings are gone. `None` for the rule of an admin's policy.
pub fn sentence_of(rule: &str) -> Option<&'static str> {
    ASKING.iter().find(|asking| asking.id == rule).map(|asking| asking.message)
}

/// What a session has read so far. A label is never removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionLabel {
    PrivateData,
    UntrustedContent,
}

/// Everything known about where a call's content comes from. Without provenance nothing is found, so the server must supply it, not the
/// caller.
#[derive(Clone, Debug, Default)]
pub struct Provenance<'a> {
    /// Labels by JSON pointer into the params. A label applies to everything below its pointer that has no label of its own.
    pub labels: BTreeMap<String, Label>,
    pub session: BTreeSet<SessionLabel>,
    /// The canary tokens. Those shorter than `CANARY_BYTES_MIN` are not searched for.
    pub canaries: &'a [String],
}

/// The dangers in a call before it is made.
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

/// The dangers in the output of a source. The effect has happened already, so a finding never asks a person: it labels the session, or the
/// output is withheld.
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

/// The verdict of the safety gate on these findings. The strictest finding decides, and each rule stricter than a label is named once.
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
