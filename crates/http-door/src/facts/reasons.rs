//! Why a gate asks for approval.

use api::invocation::{FactTone, FactView, ForesightView, GateView, LabelName, LabelView};
use countersign_core::decision::Verdict;
use policy::scan::sentence_of;

/// One fact for each rule that asks, with the params it is about; then what the session holds. Empty if no gate asks.
pub(super) fn facts(gates: &[GateView], ahead: Option<&ForesightView>) -> Vec<FactView> {
    let concerns = ahead.map(|ahead| ahead.concerns.as_slice()).unwrap_or_default();
    let mut facts = Vec::new();
    for gate in gates.iter().filter(|gate| gate.verdict == Verdict::NeedsApproval) {
        for rule in &gate.determining {
            let said: Vec<_> = concerns.iter().filter(|concern| concern.rule == *rule).collect();
            let places: Vec<_> = said.iter().map(|concern| concern.pointer.as_str()).filter(|place| !place.is_empty()).collect();
            let at = if places.is_empty() { String::new() } else { format!(" at {}", places.join(", ")) };
            // Of a call that is no longer pending only the rule is kept.
            let sentence = said.first().map(|concern| concern.message.clone()).or_else(|| sentence_of(rule).map(str::to_owned));
            let sentence = sentence.map_or_else(|| rule.clone(), |sentence| format!("{sentence} ({rule})"));
            facts.push(FactView::new("Asked by", format!("gate `{}`: {sentence}{at}", gate.gate)).toned(FactTone::Warn));
        }
    }
    if !facts.is_empty() {
        facts.extend(ahead.iter().flat_map(|ahead| &ahead.labels).map(held));
    }
    facts
}

/// `private_data since 2026-11-15 11:57 UTC, from files.read_text inv_…`
fn held(label: &LabelView) -> FactView {
    let name = match label.label {
        LabelName::PrivateData => "private_data",
        LabelName::UntrustedContent => "untrusted_content",
    };
    let from: Vec<_> = label.action.iter().chain(&label.invocation_id).map(String::as_str).collect();
    let from = if from.is_empty() { String::new() } else { format!(", from {}", from.join(" ")) };
    FactView::new("Session holds", format!("{name} since ")).at(label.at, from)
}
