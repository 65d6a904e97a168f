//! How a draft is shown.

use super::mistakes;
use crate::shared::*;
use api::automation::DraftView;
use serde_json::Value;

impl Resource for DraftView {
    const NOUN: &'static str = "draft";
    const LIST: &'static str = "automation draft list";
    const PATH: &'static [&'static str] = &["automation-drafts"];
    const EMPTY: &'static str = "no drafts";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["name"]);
    const SHOWS_SPACES: bool = true;
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("name", Column::Cut, |one, _| text(&one.name)),
        Field::both("new version of", Column::Extra, |one, _| maybe(one.automation_id.as_ref())),
        Field::both("space", Column::Extra, |one, view| view.space(&one.space_id)),
        Field::both("made by", Column::Whole, |one, view| view.who(&one.made_by)),
        Field::both("made", Column::Whole, |one, view| view.past(one.created_at)),
        Field::both("expires", Column::Whole, |one, view| view.future(one.expires_at)),
        // A person reads it below, indented.
        Field::line("definition", |one, view| maybe(one.definition.as_ref().filter(|_| !view.is_for_people()).map(Value::to_string))),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn next(&self) -> Option<String> {
        Some(format!("countersign automation draft save {}", self.id))
    }
}

/// Shows a draft with its definition, and what is worth checking about it.
pub(super) async fn tell(answer: &Answer<DraftView>, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    resource::tell_then(answer, |record| record, None, client, terminal).await?;
    if let Some(definition) = answer.read.definition.as_ref().filter(|_| terminal.is_for_people()) {
        terminal.document(definition)?;
    }
    mistakes::tell(&answer.read.flags, Tone::Warn, terminal);
    if let Some(next) = answer.read.next() {
        terminal.next(next);
    }
    Ok(())
}
