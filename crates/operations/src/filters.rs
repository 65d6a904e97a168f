//! Tries the filter of an event trigger before it is saved: which of the latest events it would have accepted.

use super::{Error, spaces, stream};
use crate::App;
use crate::limits::EVENT_TYPE_CHARS_MAX;
use automation::Mistake;
use automation::filter::Filter;
use automation::matcher::Matcher;
use countersign_core::Principal;
use countersign_core::limits::PAGE_ROWS_MAX;
use countersign_core::ports::Automations;
use durable::heavy;
use serde_json::Value;
use std::sync::Arc;
use stream::Told;

/// What an event trigger says of the events that fire it.
pub struct Tried<'a> {
    /// A type, or one that ends in `.*`.
    pub event_type: &'a str,
    pub filters: Option<&'a Value>,
    /// The name or id of the space that the automation would act in; absent: any.
    pub space: Option<&'a str>,
    /// Events to look at.
    pub limit: u32,
}

/// An event of the type, and whether the filter accepts it.
pub struct Judged {
    pub told: Arc<Told>,
    pub matches: bool,
    /// The members of the filter that the event does not satisfy.
    pub unmet: Vec<String>,
}

/// The latest events of the type, newest first, as far as the caller is told of them.
pub async fn test(app: &App, by: &Principal, tried: Tried<'_>) -> Result<Vec<Judged>, Error> {
    let Tried { event_type, filters, space, limit } = tried;
    if event_type.is_empty() || event_type.chars().count() > EVENT_TYPE_CHARS_MAX {
        return Err(Error::invalid(format!("`event_type` must have 1 to {EVENT_TYPE_CHARS_MAX} characters")));
    }
    if !(1..=PAGE_ROWS_MAX).contains(&limit) {
        return Err(Error::invalid(format!("`limit` must be 1 to {PAGE_ROWS_MAX}")));
    }
    let name = event_type.strip_suffix('*').map_or(event_type, |above| above.trim_end_matches('.'));
    let wanted = stream::EventFilter { name: (!name.is_empty()).then(|| name.to_owned()), subject: None };
    let (mut events, _) = stream::list(app, by, &wanted, None, limit).await?;
    let space = match space {
        Some(space) => Some(spaces::find(app, by, space).await?.id),
        None => None,
    };
    if let Some(space) = &space {
        let mut heard = Vec::with_capacity(events.len());
        for told in events {
            // Only events of ours are about the whole org.
            let is_of_org = told.event.origin.is_none() && ::runs::told(&told.event).get("space_id").is_none();
            if !is_of_org || app.store().is_heard_in(&by.org, space, &told.event).await? {
                heard.push(told);
            }
        }
        events = heard;
    }
    let (filters, event_type) = (filters.cloned(), event_type.to_owned());
    // Compiling regexes and searching large events may take long, so no thread that serves does it. Each event is a piece of work for itself: in
    // between others have their turn, and what nobody waits for any longer ends.
    let test = heavy::compute(move || Test::of(filters.as_ref(), space.as_ref().map(|space| space.as_str()), &event_type)).await;
    let test = Arc::new(test.map_err(below_filters)?);
    let mut judged = Vec::with_capacity(events.len());
    for told in events {
        let test = Arc::clone(&test);
        judged.extend(heavy::compute(move || test.judge(told)).await.map_err(|mistake| below_filters(vec![mistake]))?);
    }
    Ok(judged)
}

fn below_filters(mistakes: Vec<Mistake>) -> Error {
    Error::Definition { mistakes: mistakes.into_iter().map(|mistake| mistake.under("/filters")).collect() }
}

/// A filter that is tried. The work for an event is bounded as it is once the filter is saved.
struct Test {
    /// Every event that the trigger would hear of.
    concerned: Matcher<()>,
    whole: Matcher<()>,
    /// The members of the filter, each for itself.
    members: Matcher<usize>,
    names: Vec<String>,
}

impl Test {
    fn of(filters: Option<&Value>, space: Option<&str>, event_type: &str) -> Result<Self, Vec<Mistake>> {
        let filter = filters.map_or_else(|| Ok(Filter::all()), Filter::of_events)?;
        let (names, members): (Vec<_>, Vec<_>) = filter.members().unzip();
        Ok(Self {
            concerned: Matcher::of([((), space, event_type, &Filter::all())]),
            whole: Matcher::of([((), space, event_type, &filter)]),
            members: Matcher::of(members.iter().enumerate().map(|(index, member)| (index, space, event_type, member))),
            names,
        })
    }

    /// `None` if the trigger would not hear of the event: it has another type or space, or fires nothing at all.
    fn judge(&self, told: Arc<Told>) -> Result<Option<Judged>, Mistake> {
        let value = ::runs::told(&told.event);
        let Some(heard) = ::runs::heard(&told.event, &value) else { return Ok(None) };
        if self.concerned.matching(&heard).keys.is_empty() {
            return Ok(None);
        }
        let whole = self.whole.matching(&heard);
        if !whole.exceeding.is_empty() {
            return Err(too_costly(&told));
        }
        let matches = !whole.keys.is_empty();
        let mut unmet = Vec::new();
        if !matches {
            let members = self.members.matching(&heard);
            if !members.exceeding.is_empty() {
                return Err(too_costly(&told));
            }
            unmet.extend(self.names.iter().enumerate().filter(|(index, _)| !members.keys.contains(index)).map(|(_, name)| name.clone()));
        }
        Ok(Some(Judged { told, matches, unmet }))
    }
}

fn too_costly(told: &Told) -> Mistake {
    Mistake::new("filter_too_costly", format!("it would take too much work for the event `{}`", told.event.id))
        .hint("begin its regexes with a literal text, and repeat less in them; a trigger with it would be disabled")
}
