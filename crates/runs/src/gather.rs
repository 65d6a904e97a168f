//! Triggers whose events start one run together: the last of a burst, or a batch. What is gathered is in the store; the clock fires it once it
//! is due.

use crate::dispatch::{self, Lineage};
use crate::engine::Engine;
use crate::error::Error;
use crate::events::told;
use countersign_core::automation::{FiringReason, Trigger};
use countersign_core::ports::events::Event;
use countersign_core::ports::runs::{FiredGathering, Gather, Gathered, GatheredEvent, Gathering};
use serde_json::{Value, json};

/// Gatherings that are fired in one go.
const DUE_AT_ONCE: u32 = 100;

impl Engine {
    /// Gathers an event that is so long as JSON.
    pub(crate) async fn gather(&self, trigger: &Trigger, event: &Event, bytes: usize, gather: Gather) -> Result<(), Error> {
        loop {
            let new = GatheredEvent {
                org: trigger.org.clone(),
                automation: trigger.automation.clone(),
                trigger: trigger.id.clone(),
                seq: event.seq,
                bytes: bytes as u64,
                gather,
            };
            match self.ledger().gather(new).await? {
                Gathered::Until(_) => {
                    self.0.schedule_changed.notify_one();
                    return Ok(());
                }
                Gathered::Known => return Ok(()),
                // The batch before it is due, and nobody has fired it yet.
                Gathered::Full => {
                    if self.fire_due_gatherings().await? == 0 {
                        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    }
                }
            }
        }
    }

    /// Fires what was gathered and is due. Returns how many gatherings there were.
    pub(crate) async fn fire_due_gatherings(&self) -> Result<usize, Error> {
        let due = self.ledger().list_due_gatherings(DUE_AT_ONCE).await?;
        let count = due.len();
        let mut failed = None;
        for gathering in due {
            let (automation, trigger) = (gathering.automation.clone(), gathering.trigger.clone());
            if let Err(error) = self.fire_gathering(gathering).await {
                tracing::warn!(%error, %automation, %trigger, "gathered events could not be fired; they are tried again");
                failed = Some(error);
            }
        }
        failed.map_or(Ok(count), Err)
    }

    async fn fire_gathering(&self, gathering: Gathering) -> Result<(), Error> {
        let org = gathering.org.clone();
        let saved = self.ledger().find_automation(&org, &gathering.automation).await?;
        let trigger = self.ledger().find_trigger(&org, &gathering.automation, &gathering.trigger).await?;
        let (mut events, mut lineage) = (Vec::new(), Lineage::default());
        for seq in &gathering.events {
            // The log keeps events for longer than any of them is gathered.
            let found = self.ledger().list_events_after(&org, seq - 1, 1).await?.into_iter().find(|event| event.seq == *seq);
            let Some(event) = found else { continue };
            let value = told(&event);
            let led_here = self.lineage_of(&org, &event, &value).await?;
            // The longest chain is the strictest.
            if led_here.chain.len() >= lineage.chain.len() {
                lineage = led_here;
            }
            events.push((event, value));
        }
        let (Some(saved), Some(trigger), Some(last)) = (saved, trigger, events.last().map(|(event, _)| event.clone())) else {
            self.ledger().fire_gathered(FiredGathering { gathering, firing: None, others: FiringReason::Debounced }).await?;
            return Ok(());
        };
        let program = self.program(&org, saved.definition).await?;
        let (payload, others) = match program.gather(&trigger.id) {
            Some(Gather::Batch { .. }) => {
                let events: Vec<Value> = events.into_iter().map(|(_, value)| value).collect();
                (json!({ "events": events }), FiringReason::Batched)
            }
            Some(Gather::Debounce { .. }) | None => (events.pop().map_or(Value::Null, |(_, value)| value), FiringReason::Debounced),
        };
        let mut firing = self.event_firing(&saved, &program, &trigger, &last, payload, lineage).await?;
        firing.id = gathering.firing.clone();
        let fired = self.ledger().fire_gathered(FiredGathering { gathering, firing: Some(Box::new(firing)), others }).await?;
        if let Some(fired) = &fired {
            dispatch::count(fired);
            self.0.due.tell_all();
        }
        Ok(())
    }
}
