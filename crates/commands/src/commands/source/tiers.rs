//! `countersign source tiers`: the tier of every tool of a source and why it has it, in one table, and changes of several with one question.
//! Tiers are typed as `R3`, `merge=R4`, and `none` for one that is no longer set.

use super::harvest::because;
use crate::commands::pattern::fits;
use crate::shared::*;
use api::source::{AddedSourceView, EditSourceRequest, SourceActionView};
use clap::Args;
use countersign_core::Tier;
use serde_json::json;
use std::collections::BTreeMap;

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign source tiers playwright                     each tier and why; asks on a terminal
  countersign source tiers playwright 'get_*=R1' run=R4
  countersign source tiers playwright '*=none' --yes      by the rules again";

const COLUMNS: &[Column] =
    &[Column::Whole("ACTION"), Column::Whole("TIER"), Column::Whole("BECOMES"), Column::Whole("MODE"), Column::Below("TIER BECAUSE")];

#[derive(Debug, Args)]
pub(crate) struct Tiers {
    /// Its name
    #[arg(value_name = "NAME")]
    added: String,
    /// A tool and its tier, whatever its server says, or `none` to go by the rules again; * stands for any text
    #[arg(value_name = "TOOL=TIER", value_parser = tier_of_tool)]
    change: Vec<(String, Option<Tier>)>,
    #[command(flatten)]
    irreversible: Irreversible,
    #[command(flatten)]
    agreed: Agreed,
}

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Irreversible {
    /// Set R2 all the same: no action of an MCP server can be rolled back
    #[arg(long)]
    pub(super) accept_irreversible: bool,
}

impl Tiers {
    pub(super) async fn run(mut self, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
        let answer = client.get::<AddedSourceView>(&["sources", &self.added], &[]).await?;
        let source = &answer.read;
        let is_asked = self.change.is_empty() && terminal.can_ask() && terminal.is_for_people();
        if self.change.is_empty() {
            let raw = json!({ "items": answer.raw["harvest"]["actions"], "next": null });
            terminal.list(&raw, &table(source.harvest.actions.iter(), source, &BTreeMap::new()))?;
        }
        if is_asked {
            let typed =
                terminal.ask("Change which? TOOL=TIER, several with spaces between, * for any text; nothing: none of them\n> ").await?;
            let typed = typed.split_whitespace().map(tier_of_tool).collect::<Result<Vec<_>, _>>();
            self.change = typed.map_err(Failure::usage)?;
        }
        if self.change.is_empty() {
            return Ok(());
        }
        let tiers = self.chosen(source)?;
        if tiers.is_empty() {
            terminal.note("each of them has that tier already; nothing was changed");
            return Ok(());
        }
        if terminal.is_for_words() {
            let changing = source.harvest.actions.iter().filter(|action| tiers.contains_key(tool_of(action, source)));
            terminal.list(&json!({}), &table(changing, source, &tiers))?;
        }
        let question = format!("Change the tier of {} of `{}`?", counted(tiers.len() as u64, "tool", "tools"), clean::line(&source.id));
        terminal.consent(&question, self.agreed.consent(client)).await?;
        let accept_irreversible = self.irreversible.accept_irreversible;
        let request = EditSourceRequest { tiers, accept_irreversible, version: Some(source.version), ..EditSourceRequest::default() };
        let changed = client.patch::<AddedSourceView>(&["sources", &self.added], &request).await?;
        super::tell(&changed, client, terminal).await
    }

    /// What is to be changed, by the name of the tool; of two words for one tool the last one counts.
    fn chosen(&self, source: &AddedSourceView) -> Result<BTreeMap<String, Option<Tier>>, Failure> {
        let mut chosen = BTreeMap::new();
        for (pattern, tier) in &self.change {
            let mut tools =
                source.harvest.actions.iter().map(|action| tool_of(action, source)).filter(|tool| fits(pattern, tool)).peekable();
            if tools.peek().is_none() {
                let message = format!("`{}` is no tool of `{}`", clean::line(pattern), clean::line(&source.id));
                return Err(Failure::new(Exit::NotFound, message).hint(format!("countersign source tiers {}", clean::line(&source.id))));
            }
            chosen.extend(tools.map(|tool| (tool.to_owned(), *tier)));
        }
        chosen.retain(|tool, tier| source.tiers.get(tool) != tier.as_ref());
        Ok(chosen)
    }
}

fn tool_of<'a>(action: &'a SourceActionView, source: &AddedSourceView) -> &'a str {
    action.id.strip_prefix(source.id.as_str()).and_then(|rest| rest.strip_prefix('.')).unwrap_or(&action.id)
}

fn table<'a>(
    actions: impl Iterator<Item = &'a SourceActionView>,
    source: &AddedSourceView,
    tiers: &BTreeMap<String, Option<Tier>>,
) -> Table {
    let mut table = Table::new(COLUMNS, "it offers no actions");
    for action in actions {
        let becomes = match tiers.get(tool_of(action, source)) {
            Some(Some(tier)) => Cell::tier(*tier),
            Some(None) => Cell::shown("by the rules", "none"),
            None => Cell::shown("–", "").toned(Tone::Muted),
        };
        let why = Cell::shown(because(&action.because), &action.because);
        table.row([Cell::text(&action.id), Cell::tier(action.tier), becomes, Cell::mode(action.mode), why]);
    }
    table
}

/// The word for what is no longer set.
pub(super) const NONE: &str = "none";

/// A tier, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MaybeTier(pub(super) Option<Tier>);

/// Reads `R3`.
pub(super) fn tier(text: &str) -> Result<Tier, String> {
    Tier::parse(&text.to_uppercase()).ok_or_else(|| format!("expected a tier: {}", Tier::ALL.map(Tier::as_str).join(", ")))
}

/// Reads `R3` or `none`.
pub(super) fn tier_or_none(text: &str) -> Result<MaybeTier, String> {
    if text == NONE { Ok(MaybeTier(None)) } else { tier(text).map(|tier| MaybeTier(Some(tier))) }
}

/// Reads `merge=R4` or `merge=none`.
pub(super) fn tier_of_tool(text: &str) -> Result<(String, Option<Tier>), String> {
    let (tool, tier) = text.rsplit_once('=').ok_or("expected a tool and a tier, such as merge=R4")?;
    tier_or_none(tier).map(|MaybeTier(tier)| (tool.to_owned(), tier))
}

/// `look=R1, merge=R4`: the tiers that an admin set.
pub(super) fn line(tiers: &BTreeMap<String, Tier>) -> Option<Cell> {
    let told: Vec<_> = tiers.iter().map(|(tool, tier)| format!("{tool}={tier}")).collect();
    (!told.is_empty()).then(|| Cell::text(told.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_typed_by_itself_or_for_a_tool() {
        assert_eq!(tier("r3"), Ok(Tier::R3));
        assert_eq!(tier("R9"), Err("expected a tier: R0, R1, R2, R3, R4".to_owned()));
        assert_eq!(tier_or_none("none"), Ok(MaybeTier(None)));
        assert_eq!(tier_of_tool("repo.merge=R4"), Ok(("repo.merge".to_owned(), Some(Tier::R4))));
        assert_eq!(tier_of_tool("look=none"), Ok(("look".to_owned(), None)));
        assert!(tier_of_tool("look").is_err() && tier_of_tool("look=").is_err());
    }
}
