//! What a source offers: its actions, each with its tier, why it has that tier, and its mode; and the tools that are no actions, and why not.

use crate::commands::action::{example, review::drift_cell};
use crate::shared::*;
use api::action::ActionView;
use api::source::HarvestView;
use countersign_core::Mode;
use serde_json::Value;

const COLUMNS: &[Column] =
    &[Column::Whole("ACTION"), Column::Whole("TIER"), Column::Whole("MODE"), Column::Below("TIER BECAUSE"), Column::Whole("DRIFT")];

/// Writes the actions to stdout, and says what was left out.
pub(super) fn tell(harvest: &HarvestView, terminal: &mut Terminal) -> Result<(), Failure> {
    let mut table = Table::new(COLUMNS, "it offers no actions");
    for action in &harvest.actions {
        table.row([
            Cell::text(&action.id),
            Cell::tier(action.tier),
            Cell::mode(action.mode),
            Cell::shown(because(&action.because), &action.because),
            drift_cell(Some(action.drift)),
        ]);
    }
    terminal.list(&Value::Null, &table)?;
    for left_out in &harvest.left_out {
        let tool = left_out.tool.as_ref().map_or_else(|| "a tool".to_owned(), |tool| format!("`{tool}`"));
        terminal.remark(Tone::Warn.paint(format!("! left out {}: {}", clean::line(&tool), clean::line(&left_out.why))));
    }
    Ok(())
}

/// The command to try first: a call of the safest action, with the params it needs.
pub(super) async fn safest(harvest: &HarvestView, client: &Client) -> Option<String> {
    let safest = harvest.actions.iter().min_by_key(|action| (action.mode, action.tier))?;
    if safest.mode == Mode::Deny {
        return Some(format!("countersign mode set {} require_approval", safest.id));
    }
    let action = client.get::<ActionView>(&["actions", &safest.id], &[]).await.ok();
    let params = action.map(|answer| example(&answer.read.params_schema)).unwrap_or_default();
    Some(format!("countersign action invoke {}{params}", safest.id))
}

/// Why an action has its tier, in words. A reason that this version does not know is told as the server sent it.
pub(super) fn because(word: &str) -> &str {
    match word {
        "override" => "an admin set it",
        "protocol" => "the protocol says it only reads",
        "destructive_hint" => "the server says it may destroy something",
        "read_only_hint" => "the server says it only reads",
        "untrusted_hint" => "the server says it only reads, and is not believed",
        "default" => "the source's default",
        "unknown" => "the server does not say what it does",
        "name" => "its name says so",
        other => other,
    }
}
