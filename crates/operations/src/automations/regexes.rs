//! Regexes without a literal are run for every event of their type: a filter may have a few of them, and a space may have some more.

use super::super::Error;
use crate::App;
use automation::Mistake;
use automation::definition::{Event, Kind, Read};
use automation::filter::Filter;
use automation::limits::FILTER_BARE_REGEXES_MAX;
use countersign_core::ports::Automations;
use countersign_core::{AutomationId, Space};
use durable::heavy;
use serde_json::Value;

/// What an event trigger costs every event of its type.
struct Costly {
    event_type: String,
    regexes: usize,
}

impl Costly {
    fn of(event_type: String, filters: &Value) -> Option<Self> {
        let regexes = Filter::parse(filters).ok()?.bare_regexes();
        (regexes > 0).then_some(Self { event_type, regexes })
    }
}

/// Checks that an event of no type has to pass more than so many of them in this space, with those of the definition.
pub(super) async fn must_be_few(app: &App, space: &Space, automation: Option<&AutomationId>, read: &Read) -> Result<(), Error> {
    let own = |(index, kind): (usize, &Kind)| match kind {
        Kind::Event(Event { event_type, filters: Some(filters), .. }) => Some((index, event_type.clone(), filters.clone())),
        Kind::Event(Event { filters: None, .. }) | Kind::Schedule(_) | Kind::Webhook(_) => None,
    };
    let own: Vec<_> = read.definition.triggers.iter().map(|trigger| &trigger.kind).enumerate().filter_map(own).collect();
    let costly = |(index, event_type, filters): (usize, String, Value)| Some((index, Costly::of(event_type, &filters)?));
    let own: Vec<_> = heavy::compute(move || own.into_iter().filter_map(costly).collect()).await;
    if own.is_empty() {
        return Ok(());
    }
    let mut others = Vec::new();
    for listed in app.store().list_event_triggers(&space.org).await? {
        if listed.space != space.id || automation == Some(&listed.automation) {
            continue;
        }
        let definition = app.store().find_automation_definition(&space.org, listed.definition).await?;
        let triggers = definition.as_deref().and_then(|definition| definition.get("triggers")?.as_array());
        let config = triggers.into_iter().flatten().find(|trigger| trigger["trigger_id"] == listed.trigger.as_str());
        let config = config.and_then(|trigger| trigger.get("config"));
        others.extend(config.and_then(|config| Some((config.get("event_type")?.as_str()?.to_owned(), config.get("filters")?.clone()))));
    }
    let of_others = move || others.into_iter().filter_map(|(event_type, filters)| Costly::of(event_type, &filters)).collect();
    let others: Vec<_> = heavy::compute(of_others).await;
    let mut mistakes = Vec::new();
    for (index, costly) in &own {
        let all = own.iter().map(|(_, own)| own).chain(&others);
        let met: usize = all.filter(|other| overlap(&costly.event_type, &other.event_type)).map(|other| other.regexes).sum();
        if met > FILTER_BARE_REGEXES_MAX {
            let message = format!(
                "the filters of this space would have {met} regexes without a literal for events of type `{}`, and {FILTER_BARE_REGEXES_MAX} is the most",
                costly.event_type
            );
            let hint = "begin the regex with a literal text, or use `starts_with` or `contains`";
            mistakes.push(Mistake::new("filter_too_complex", message).hint(hint).under(&format!("/triggers/{index}/config/filters")));
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(Error::Definition { mistakes }) }
}

/// Whether an event may be of both types, each of which may end in `*`.
fn overlap(one: &str, other: &str) -> bool {
    match (one.strip_suffix('*'), other.strip_suffix('*')) {
        (Some(one), Some(other)) => one.starts_with(other) || other.starts_with(one),
        (Some(above), None) => other.starts_with(above),
        (None, Some(above)) => one.starts_with(above),
        (None, None) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_overlap_where_one_event_may_be_of_both() {
        for (one, other, expected) in [
            ("drive.added", "drive.added", true),
            ("drive.added", "drive.removed", false),
            ("drive.*", "drive.added", true),
            ("drive.added", "*", true),
            ("drive.*", "drive.file.*", true),
            ("drive.*", "mail.*", false),
        ] {
            assert_eq!((overlap(one, other), overlap(other, one)), (expected, expected), "{one} {other}");
        }
    }
}
