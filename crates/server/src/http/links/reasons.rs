//! Why a gate asks for approval, for the page of a link: the same facts as on the card of the command line.

use super::escaped;
use countersign_core::decision::Verdict;
use countersign_core::{Invocation, clean};
use pipeline::{Foresight, Held};

/// One entry for each rule that asks, with the params it is about; then what the session holds. Empty if no gate asks.
pub(super) fn entries(invocation: &Invocation, ahead: &Foresight) -> String {
    let mut entries = String::new();
    for gate in invocation.gates.iter().filter(|gate| gate.verdict == Verdict::NeedsApproval) {
        for rule in &gate.determining {
            let said: Vec<_> = ahead.concerns.iter().filter(|concern| concern.rule == rule.as_str()).collect();
            let places: Vec<_> = said.iter().map(|concern| clean::line(&concern.pointer)).filter(|place| !place.is_empty()).collect();
            let at = if places.is_empty() { String::new() } else { format!(" at {}", places.join(", ")) };
            let rule = clean::line(rule);
            let sentence = said.first().map_or_else(|| rule.clone(), |concern| format!("{} ({rule})", clean::line(&concern.message)));
            entries.push_str(&format!("<dt>Asked by<dd>gate `{}`: {}", gate.gate, escaped(&format!("{sentence}{at}"))));
        }
    }
    if !entries.is_empty() {
        entries.extend(ahead.labels.iter().map(held));
    }
    entries
}

/// `private_data since 2026-11-15T11:57:00Z, from files.read_text inv_…`
fn held(held: &Held) -> String {
    let action = held.action.as_ref().map(|action| format!("{action} ")).unwrap_or_default();
    let text = format!("{} since {}, from {action}{}", held.label.label, held.label.at, held.label.invocation);
    format!("<dt>Session holds<dd>{}", escaped(&text))
}
