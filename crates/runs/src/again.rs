//! Events that a person has replayed. As they are, they start nothing twice: a firing is known by its event. Under new ids they are other
//! events, made anew while they are handled: the log holds each fact once, and no other consumer gets them again.

use crate::engine::Engine;
use crate::error::Error;
use crate::events::{EVENTS_AT_ONCE, told};
use crate::listener::{Hold, Triggers};
use countersign_core::ports::events::Event;
use countersign_core::{EventId, OrgId, ports};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

impl Engine {
    /// Fires what matches the events from this position up to the one that asks for it, each under a new id. To the group all of them are one
    /// event: if another server has taken it over meanwhile, it begins again there, and starts nothing twice.
    pub(crate) async fn replay_anew(
        &self,
        org: &OrgId,
        hold: &mut Hold,
        triggers: &Triggers,
        from: i64,
        asked: &Event,
    ) -> Result<(), Error> {
        let mut after = from - 1;
        loop {
            let events = self.ledger().list_events_after(org, after, EVENTS_AT_ONCE).await?;
            let Some(last) = events.last().map(|event| event.seq) else { return Ok(()) };
            for event in events.iter().filter(|event| event.seq < asked.seq) {
                if !self.holds_on(org, hold).await? {
                    return Err(ports::Error::Fenced.into());
                }
                let (event, value) = anew(event, asked);
                self.fire_matching(org, triggers, &event, value).await?;
            }
            if last >= asked.seq {
                return Ok(());
            }
            after = last;
        }
    }
}

/// The event under a new id, and as filters and mappings see it: with the id that it replays. The id follows from the two events, so that
/// handling the same replay again after a crash starts nothing twice.
fn anew(event: &Event, asked: &Event) -> (Event, Value) {
    let hash: [u8; 32] = Sha256::digest(format!("{} {}", asked.id, event.id)).into();
    let mut drawn = [0; 10];
    drawn.copy_from_slice(&hash[..10]);
    let new = Event { id: EventId::new(asked.at, drawn), ..event.clone() };
    let mut value = told(event);
    value["replay_of"] = json!(value["id"]);
    value["id"] = json!(new.id);
    (new, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{GROUP, Wanted};
    use countersign_core::Timestamp;
    use countersign_core::ports::events::{Cause, Origin};
    use std::collections::BTreeMap;

    fn event(seq: i64, name: &str, body: Value) -> Event {
        Event {
            seq,
            id: EventId::new(Timestamp::from_micros(seq), [seq as u8; 10]),
            name: name.to_owned(),
            key: GROUP.to_owned(),
            receipt: None,
            body: body.to_string(),
            at: Timestamp::from_micros(seq),
            origin: None,
            space: None,
            cause: Cause::default(),
        }
    }

    #[test]
    fn a_replay_gives_an_event_one_new_id_and_names_the_old_one() {
        let origin = Origin { source: "/drive".to_owned(), id: "f-812".to_owned(), time: None, more: BTreeMap::new() };
        let file = Event { origin: Some(origin), ..event(1, "drive.file_added", json!({ "size": 3 })) };
        let (asked, later) = (event(2, "event_group.replayed", json!({})), event(3, "event_group.replayed", json!({})));
        let (new, value) = anew(&file, &asked);
        assert_eq!((&value["replay_of"], &value["id"], &value["data"]["size"]), (&json!("f-812"), &json!(new.id), &json!(3)));
        assert_ne!(new.id, file.id);
        assert_eq!(anew(&file, &asked).0.id, new.id, "the same replay");
        assert_ne!(anew(&file, &later).0.id, new.id, "another replay");
    }

    #[test]
    fn only_what_moves_our_group_is_heeded() {
        let told = |name, body| Wanted::of(&event(9, name, body));
        assert!(matches!(told("event_group.replayed", json!({ "from": 4, "ids": "new" })), Some(Wanted::Anew { from: 4 })));
        assert!(matches!(told("event_group.replayed", json!({ "from": 4, "ids": "same" })), Some(Wanted::Moved)));
        assert!(matches!(told("event_group.reset", json!({ "from": 4 })), Some(Wanted::Moved)));
        assert!(told("event_group.overtaken", json!({})).is_none());
        let other = Event { key: "billing".to_owned(), ..event(9, "event_group.reset", json!({})) };
        assert!(Wanted::of(&other).is_none());
    }
}
