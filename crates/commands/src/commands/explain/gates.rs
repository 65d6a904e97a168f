//! Shows the result of each gate, with the rules that determined it. A gate that could not be evaluated counts as a denial, and its error
//! is shown.

use crate::shared::*;
use api::invocation::GateView;
use countersign_core::decision::Verdict;
use serde_json::Value;

const COLUMNS: &[Column] = &[Column::Whole("GATE"), Column::Whole("SAYS"), Column::Cut("BY")];

/// Writes the table of gates below the record, unless the output is a document or only ids.
pub(super) fn tell(gates: &[GateView], terminal: &mut Terminal) -> Result<(), Failure> {
    if gates.is_empty() || !terminal.is_for_words() {
        return Ok(());
    }
    let mut table = Table::new(COLUMNS, "");
    for gate in gates {
        let by = if gate.determining.is_empty() { Cell::missing() } else { Cell::text(gate.determining.join(", ")) };
        table.row([Cell::text(gate.gate.as_str()), says(gate), by]);
        for error in &gate.errors {
            table.row([Cell::text(gate.gate.as_str()), Cell::shown("! error", "error").toned(Tone::Danger), Cell::text(error)]);
        }
    }
    terminal.line("")?;
    terminal.list(&Value::Null, &table)
}

fn says(gate: &GateView) -> Cell {
    let (shown, tone) = match gate.verdict {
        Verdict::Ok => ("✓ ok", Tone::Ok),
        Verdict::NeedsApproval => ("◷ needs approval", Tone::Warn),
        Verdict::Deny => ("⊘ denies", Tone::Danger),
        Verdict::Quarantine => ("▣ quarantines", Tone::Danger),
        Verdict::Redacted => ("▒ redacts", Tone::Warn),
        Verdict::NotApplicable => ("– not applicable", Tone::Muted),
    };
    Cell::shown(shown, word(gate.verdict)).toned(tone)
}
