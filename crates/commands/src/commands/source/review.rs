//! `countersign source review`: shows everything in a source that is not as it was reviewed, asks once, and marks it as reviewed. What is sent
//! are the digests of what was shown, so that nothing else is reviewed.

use super::drift;
use crate::commands::action::review::look;
use crate::shared::*;
use api::rules::ReviewView;
use api::source::{ReviewedActionRequest, SourceReviewRequest, SourceReviewView};
use clap::Args;
use serde_json::{Value, json};

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign source review github                          everything that changed or appeared
  countersign source review github --action merge           this one alone
  countersign source review github --dry-run                look, and mark nothing";

#[derive(Debug, Args)]
pub(crate) struct Review {
    /// Its name
    #[arg(value_name = "NAME")]
    added: String,
    /// Only this action, by its id or the name of its tool; may be given several times
    #[arg(long, value_name = "ACTION")]
    action: Vec<String>,
    /// Do not ask again when only their wording changes
    #[arg(long)]
    ignore_wording: bool,
    #[command(flatten)]
    agreed: Agreed,
}

impl Review {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
        let drifted = drift::of(&self.added, client).await?.read.items;
        let chosen = self.chosen(drifted)?;
        if chosen.is_empty() {
            return self.write(&[], &json!({ "reviewed": [] }), terminal);
        }
        if terminal.is_for_words() {
            for (at, review) in chosen.iter().enumerate() {
                if at > 0 {
                    terminal.line("")?;
                }
                look(review, client, terminal).await?;
            }
        }
        let count = counted(chosen.len() as u64, "action", "actions");
        let question = format!("Mark {count} of `{}` as reviewed?", clean::line(&self.added));
        terminal.consent(&question, self.agreed.consent(client)).await?;
        let shown = |review: ReviewView| Some(ReviewedActionRequest { action: review.action, textual: review.textual? });
        let actions = chosen.into_iter().filter_map(shown).collect();
        let request = SourceReviewRequest { actions, ignore_wording: self.ignore_wording };
        let answer = client.post::<SourceReviewView>(&["sources", &self.added, "review"], &request).await?;
        if !terminal.is_for_words() {
            return self.write(&answer.read.reviewed, &answer.raw, terminal);
        }
        for action in &answer.read.reviewed {
            terminal.note(format!("{} `{}`", Tone::Ok.paint("✓ reviewed"), clean::line(action)));
        }
        Ok(())
    }

    fn write(&self, reviewed: &[String], raw: &Value, terminal: &mut Terminal) -> Result<(), Failure> {
        let mut table = Table::new([Column::Whole("ACTION")], format!("nothing in `{}` needs a review", clean::line(&self.added)));
        reviewed.iter().for_each(|action| table.row([Cell::text(action)]));
        terminal.list(raw, &table)
    }

    /// The actions that are there and need a review: those that were named, or all. One that is gone has nothing left to review.
    fn chosen(&self, drifted: Vec<ReviewView>) -> Result<Vec<ReviewView>, Failure> {
        let there = drifted.into_iter().filter(|review| review.textual.is_some());
        if self.action.is_empty() {
            return Ok(there.collect());
        }
        let prefix = format!("{}.", self.added);
        let whole = |named: &String| if named.starts_with(&prefix) { named.clone() } else { format!("{prefix}{named}") };
        let ids: Vec<_> = self.action.iter().map(whole).collect();
        let chosen: Vec<_> = there.filter(|review| ids.contains(&review.action)).collect();
        match ids.iter().find(|id| chosen.iter().all(|review| review.action != **id)) {
            Some(id) => Err(Failure::new(Exit::NotFound, format!("`{id}` needs no review: it did not change, or is not there"))
                .hint(format!("countersign source drift {}", clean::line(&self.added)))),
            None => Ok(chosen),
        }
    }
}
