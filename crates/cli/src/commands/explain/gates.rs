//! Shows the result of each gate, with the rules that determined it. A gate that could not be evaluated counts as a denial, and its error
//! is shown.

use crate::shared::*;
use api::invocation::GateView;
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
        table.row([Cell::text(&gate.gate), says(gate), by]);
        for error in &gate.errors {
            table.row([Cell::text(&gate.gate), Cell::shown("! error", "error").toned(Tone::Danger), Cell::text(error)]);
        }
    }
    terminal.line("")?;
    terminal.list(&Value::Null, &table)
}

fn says(gate: &GateView) -> Cell {
    let (shown, tone) = match gate.verdict.as_ref() {
        "ok" => ("✓ ok", Tone::Ok),
        "needs_approval" => ("◷ needs approval", Tone::Warn),
        "deny" => ("⊘ denies", Tone::Danger),
        "quarantine" => ("▣ quarantines", Tone::Danger),
        "redacted" => ("▒ redacts", Tone::Warn),
        "not_applicable" => ("– not applicable", Tone::Muted),
        other => (other, Tone::Plain),
    };
    Cell::shown(shown, &gate.verdict).toned(tone)
}
