//! What MCP servers tell without being asked becomes events of the org, so that automations can be fired by it. Each source has a queue of its
//! own, which is bounded, and a number of events in a minute: what is more is counted and dropped.

use crate::limits::{SOURCE_EVENTS_PER_MINUTE, SOURCE_EVENTS_WAITING_MAX};
use countersign_core::ports::EventBus;
use countersign_core::ports::bus::NewEvent;
use countersign_core::ports::events::Cause;
use countersign_core::{OrgId, SourceId, Timestamp};
use serde_json::Value;
use sources::mcp::{Hearer, Told};
use std::sync::Arc;
use store::Store;
use tokio::sync::mpsc;

const WINDOW_MS: u64 = 60_000;

/// Publishes what this source tells, for as long as the hearer is there.
pub(crate) fn hearer(store: &Store, org: &OrgId, source: &SourceId) -> Hearer {
    let (heard, waiting) = mpsc::channel(SOURCE_EVENTS_WAITING_MAX);
    tokio::spawn(publish(store.clone(), org.clone(), source.clone(), waiting));
    let name = source.to_string();
    Arc::new(move |told| {
        if heard.try_send(told).is_err() {
            dropped(&name);
        }
    })
}

async fn publish(store: Store, org: OrgId, source: SourceId, mut waiting: mpsc::Receiver<Told>) {
    let (clock, mut window) = (store.clock(), Window::default());
    while let Some(told) = waiting.recv().await {
        if !window.admits(clock.now()) {
            dropped(source.as_str());
            continue;
        }
        // One that is only tried is nobody's source yet.
        let published = match store.find_source(&org, &source).await {
            Ok(Some(_)) => store.publish(&org, vec![event_of(&source, told)]).await.map(|_| ()),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = published {
            tracing::warn!(%error, %org, %source, "what a source told could not be published");
        }
    }
}

/// SECURITY: what the server wrote stands in members of its own, so it says nothing of runs and spaces; and secrets are taken out of it.
fn event_of(source: &SourceId, told: Told) -> NewEvent {
    let mut data = policy::redact(&told.data).value;
    if let Some(members) = data.as_object_mut() {
        members.insert("source".to_owned(), Value::from(source.as_str()));
    }
    let (name, body) = (told.event.to_owned(), data.to_string());
    NewEvent { name, key: source.to_string(), body, origin: None, space: None, cause: Cause::default() }
}

fn dropped(source: &str) {
    metrics::counter!("countersign_source_events_dropped_total", "source" => source.to_owned()).increment(1);
}

/// How many events there were in this minute. A window also ends when the clock was set back.
#[derive(Default)]
struct Window {
    began: Timestamp,
    count: u32,
}

impl Window {
    fn admits(&mut self, now: Timestamp) -> bool {
        if now < self.began || now.millis_since(self.began) >= WINDOW_MS {
            *self = Self { began: now, count: 0 };
        }
        self.count += 1;
        self.count <= SOURCE_EVENTS_PER_MINUTE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_source_has_so_many_events_in_a_minute_and_then_again() {
        let (mut window, at) = (Window::default(), Timestamp::from_micros(1_000_000_000));
        let admitted = |window: &mut Window, at| (0..SOURCE_EVENTS_PER_MINUTE + 5).filter(|_| window.admits(at)).count();
        assert_eq!(admitted(&mut window, at), SOURCE_EVENTS_PER_MINUTE as usize);
        assert_eq!(admitted(&mut window, at.plus_seconds(59)), 0);
        assert_eq!(admitted(&mut window, at.plus_seconds(60)), SOURCE_EVENTS_PER_MINUTE as usize);
        assert_eq!(admitted(&mut window, at), SOURCE_EVENTS_PER_MINUTE as usize, "the clock was set back");
    }

    #[test]
    fn what_a_server_wrote_stands_apart_and_without_secrets() {
        let source = SourceId::parse("kit").unwrap();
        let data = json!({ "source": "other", "method": "notifications/x", "params": { "trace_id": "run_1", "token": "ghp_0123456789abcdefghijklmnopqrstuvwxyz" } });
        let event = event_of(&source, Told { event: "source.notified", data });
        let body: Value = serde_json::from_str(&event.body).unwrap();
        assert_eq!((event.key.as_str(), &body["source"], &body["params"]["trace_id"]), ("kit", &json!("kit"), &json!("run_1")));
        assert!(!event.body.contains("ghp_"), "{}", event.body);
    }
}
