//! The events of an org as triggers see them, and those of our own consumer group.

use automation::matcher;
use countersign_core::ports::events::Event;
use serde_json::{Value, json};

/// The consumer group that the cursor belongs to.
pub(crate) const GROUP: &str = "automations";

/// Events that are read at once.
pub(crate) const EVENTS_AT_ONCE: u32 = 500;

/// The event as filters and mappings see it. SECURITY: it fires the automations of its space, so the data of an event that somebody else
/// published does not say which one that is: whether its publisher may is asked for `spaceid` alone.
pub fn told(event: &Event) -> Value {
    let data: Value = serde_json::from_str(&event.body).unwrap_or(Value::Null);
    let of_data = || data.get("space_id").filter(|_| event.origin.is_none()).cloned();
    let space = event.space.as_ref().map(|space| json!(space)).or_else(of_data);
    let mut told = json!({
        "id": event.origin.as_ref().map_or(event.id.as_str(), |origin| origin.id.as_str()),
        "type": event.name,
        "source": event.origin.as_ref().map(|origin| origin.source.as_str()),
        "subject": event.key,
        "time": event.at,
        "data": data,
    });
    if let (Some(space), Some(told)) = (space, told.as_object_mut()) {
        told.insert("space_id".to_owned(), space);
    }
    told
}

/// The event as triggers are asked about it; `None` if it fires nothing. An event of ours that belongs to no space is about the whole org, and
/// every space hears of it. SECURITY: whoever else publishes an event names the space whose automations it fires, and may act there.
pub fn heard<'e>(event: &'e Event, value: &'e Value) -> Option<matcher::Event<'e>> {
    let space = value.get("space_id").and_then(Value::as_str);
    (space.is_some() || event.origin.is_none()).then_some(matcher::Event { space, event_type: &event.name, value })
}

/// What a person wants of our group, as an event of the log tells it.
pub(crate) enum Wanted {
    /// It was moved: it goes on from where it is now.
    Moved,
    /// It takes everything from this position up to the event that says so for new events.
    Anew { from: i64 },
}

impl Wanted {
    pub(crate) fn of(event: &Event) -> Option<Self> {
        if event.key != GROUP {
            return None;
        }
        let body: Value = serde_json::from_str(&event.body).unwrap_or(Value::Null);
        match event.name.as_str() {
            "event_group.replayed" if body["ids"] == "new" => body["from"].as_i64().map(|from| Self::Anew { from }),
            "event_group.replayed" | "event_group.reset" => Some(Self::Moved),
            _ => None,
        }
    }
}
