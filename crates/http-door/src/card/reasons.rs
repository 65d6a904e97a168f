//! Why a gate asks for approval, for the page of a call: the same facts as on the card of the command line.

use countersign_core::Invocation;
use countersign_core::decision::Verdict;
use pipeline::{Foresight, Held};
use policy::scan::sentence_of;

/// One fact for each rule that asks, with the params it is about; then what the session holds. Empty if no gate asks.
pub(super) fn facts(invocation: &Invocation, ahead: Option<&Foresight>) -> Vec<(&'static str, String)> {
    let concerns = ahead.map(|ahead| ahead.concerns.as_slice()).unwrap_or_default();
    let mut facts = Vec::new();
    for gate in invocation.gates.iter().filter(|gate| gate.verdict == Verdict::NeedsApproval) {
        for rule in &gate.determining {
            let said: Vec<_> = concerns.iter().filter(|concern| concern.rule == rule.as_str()).collect();
            let places: Vec<_> = said.iter().map(|concern| concern.pointer.as_str()).filter(|place| !place.is_empty()).collect();
            let at = if places.is_empty() { String::new() } else { format!(" at {}", places.join(", ")) };
            // Of a call that is no longer pending only the rule is kept.
            let sentence = said.first().map(|concern| concern.message.clone()).or_else(|| sentence_of(rule).map(str::to_owned));
            let sentence = sentence.map_or_else(|| rule.to_string(), |sentence| format!("{sentence} ({rule})"));
            facts.push(("Asked by", format!("gate `{}`: {sentence}{at}", gate.gate)));
        }
    }
    if !facts.is_empty() {
        let labels = ahead.map(|ahead| ahead.labels.as_slice()).unwrap_or_default();
        facts.extend(labels.iter().map(|held| ("Session holds", told(held))));
    }
    facts
}

/// `private_data since 2026-11-15 11:57 UTC, from files.read_text inv_…`
fn told(held: &Held) -> String {
    let action = held.action.as_ref().map(|action| format!("{action} ")).unwrap_or_default();
    let from = held.label.invocation.as_ref().map(|by| format!(", from {action}{by}")).unwrap_or_default();
    format!("{} since {}{from}", held.label.label, held.label.at.to_minute())
}
