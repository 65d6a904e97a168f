//! Listens to an org's events, in order: fires the event triggers whose filters match, and wakes runs whose call has ended. An event is
//! handled before the cursor passes it, and firing for the same event twice starts nothing: a crash in between repeats nothing and loses
//! nothing. Of the servers on one database, one handles the events of an org; the others take over if it goes.

use crate::again::Wanted;
use crate::dispatch::Lineage;
use crate::engine::Engine;
use crate::error::Error;
use automation::definition::Kind;
use automation::filter::Filter;
use automation::matcher::{self, Matcher};
use countersign_core::limits::DUE_RUNS_MAX;
use countersign_core::ports::bus::{GroupName, NewGroup, Start, Subscribed};
use countersign_core::ports::events::Event;
use countersign_core::{AutomationId, InvocationId, OrgId, RunId, Status, Timestamp};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The consumer group that the cursor belongs to.
pub(crate) const GROUP: &str = "automations";

/// Events that are read at once.
pub(crate) const EVENTS_AT_ONCE: u32 = 500;

/// After this many events that fired nothing the cursor is saved all the same, so that it stays ahead of what the org forgets.
const PASSED_MAX: i64 = 5_000;

/// How often the cursor is saved while nothing more happens, so that the group does not look further behind than it is.
const SAVED_EVERY: Duration = Duration::from_secs(10);

/// How often new orgs are looked for.
const ORGS_EVERY: Duration = Duration::from_secs(2);

const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Names one event trigger.
type Key = (AutomationId, String);

/// The event triggers of an org, ready to be matched.
pub(crate) struct Triggers {
    matcher: Matcher<Key>,
    /// When the automations last changed that it was made from.
    of: Option<Timestamp>,
}

impl Engine {
    pub(crate) async fn listen(self, stop: CancellationToken) {
        let mut listening: HashMap<OrgId, AbortHandle> = HashMap::new();
        while !stop.is_cancelled() {
            match self.ledger().list_orgs().await {
                Ok(orgs) => {
                    listening.retain(|org, task| orgs.contains(org) && !task.is_finished());
                    for org in orgs {
                        let listen = || tokio::spawn(self.clone().listen_to(org.clone(), stop.clone())).abort_handle();
                        listening.entry(org.clone()).or_insert_with(listen);
                    }
                }
                Err(error) => tracing::debug!(%error, "orgs are looked for again"),
            }
            tokio::select! {
                () = tokio::time::sleep(ORGS_EVERY) => {}
                () = stop.cancelled() => {}
            }
        }
        listening.values().for_each(AbortHandle::abort);
    }

    async fn listen_to(self, org: OrgId, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match self.listen_on(&org, &stop).await {
                Ok(()) => {}
                Err(error) => tracing::warn!(%org, %error, "events could not be handled; they are tried again"),
            }
            tokio::select! {
                () = tokio::time::sleep(TRY_AGAIN) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    async fn listen_on(&self, org: &OrgId, stop: &CancellationToken) -> Result<(), Error> {
        let Some(group) = GroupName::parse(GROUP) else { return Ok(()) };
        let mut triggers = Triggers { matcher: Matcher::default(), of: None };
        let mut heeded = 0;
        while !stop.is_cancelled() {
            let from = match self.ledger().subscribe(org, NewGroup::ours(group.clone(), Start::Now)).await? {
                Subscribed::Made(group) | Subscribed::There(group) => group.cursor - 1,
                Subscribed::TooMany => {
                    tracing::warn!(%org, "the org has as many consumer groups as it may have: no event fires an automation");
                    return Ok(());
                }
            };
            self.listen_from(org, &group, from, &mut triggers, &mut heeded, stop).await?;
        }
        Ok(())
    }

    /// Returns when it is stopped, or when the group is somewhere else: another server was faster, or a person moved it. `heeded` is the last
    /// event that told of such a move: a replay comes by it once more.
    async fn listen_from(
        &self,
        org: &OrgId,
        group: &GroupName,
        mut saved: i64,
        triggers: &mut Triggers,
        heeded: &mut i64,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let (mut after, mut has_left_some, mut saved_at) = (saved, false, Instant::now());
        loop {
            let events = match stop.is_cancelled() {
                true => Vec::new(),
                false => self.ledger().list_events_after(org, after, EVENTS_AT_ONCE).await?,
            };
            let is_idle = events.is_empty();
            self.follow_changes(org, triggers).await?;
            if stop.is_cancelled() && has_left_some {
                return Ok(());
            }
            // One server handles them: another one later could start what the first had to drop.
            if self.ledger().is_shared() && (!is_idle || has_left_some) {
                if !self.ledger().hold_group(org, group).await? {
                    // There may be runs to work on all the same.
                    self.0.run_due.notify_waiters();
                    has_left_some |= !is_idle;
                    after = events.last().map_or(after, |event| event.seq);
                    self.wait_for_more(org, after, is_idle, stop).await;
                    continue;
                }
                if has_left_some {
                    // Whoever had them may have gone before it handled all.
                    return Ok(());
                }
            }
            if !is_idle {
                self.slow_down(stop).await?;
            }
            let mut has_fired = false;
            for event in &events {
                if event.seq > *heeded && matches!(Wanted::of(event), Some(Wanted::Moved)) {
                    *heeded = event.seq;
                    return Ok(());
                }
                has_fired |= self.handle(org, triggers, event).await?;
                after = event.seq;
            }
            let is_quiet = is_idle && saved_at.elapsed() >= SAVED_EVERY;
            let is_time = has_fired || is_quiet || after - saved >= PASSED_MAX || stop.is_cancelled();
            if is_time && after > saved {
                if !self.ledger().pass_events(org, group, saved, after).await? {
                    return Ok(());
                }
                (saved, saved_at) = (after, Instant::now());
            }
            if stop.is_cancelled() {
                return Ok(());
            }
            self.wait_for_more(org, after, is_idle, stop).await;
        }
    }

    /// Waits for an event after the last one, if there was none to read.
    async fn wait_for_more(&self, org: &OrgId, after: i64, is_idle: bool, stop: &CancellationToken) {
        if is_idle {
            tokio::select! {
                () = self.ledger().wait_for_event(org, after) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// While more runs wait for a worker than workers can soon have, events are handled slowly. They stay in the log meanwhile.
    async fn slow_down(&self, stop: &CancellationToken) -> Result<(), Error> {
        let due = self.ledger().count_due_runs(DUE_RUNS_MAX + 1).await?;
        metrics::gauge!("countersign_runs_due").set(f64::from(due));
        if due > DUE_RUNS_MAX {
            tokio::select! {
                () = tokio::time::sleep(TRY_AGAIN) => {}
                () = stop.cancelled() => {}
            }
        }
        Ok(())
    }

    /// Reads the event triggers anew if an automation has changed. What was saved before an event was published is seen here: both are
    /// in the same order for everybody.
    async fn follow_changes(&self, org: &OrgId, triggers: &mut Triggers) -> Result<(), Error> {
        let changed_at = self.ledger().automations_changed_at(org).await?;
        if triggers.of == changed_at {
            return Ok(());
        }
        let matcher = Matcher::default();
        for listed in self.ledger().list_event_triggers(org).await? {
            let program = match self.program(org, listed.definition).await {
                Ok(program) => program,
                Err(error @ Error::Unreadable { .. }) => {
                    tracing::error!(automation = %listed.automation, %error, "its event triggers do not fire");
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Some(Kind::Event(event)) = program.definition.trigger(&listed.trigger).map(|trigger| &trigger.kind) else { continue };
            let Ok(filter) = event.filters.as_ref().map_or_else(|| Ok(Filter::all()), Filter::parse) else { continue };
            matcher.insert((listed.automation, listed.trigger), Some(listed.space.as_str()), &event.event_type, filter);
        }
        *triggers = Triggers { matcher, of: changed_at };
        self.automations_changed();
        Ok(())
    }

    /// Returns whether something was fired or woken.
    async fn handle(&self, org: &OrgId, triggers: &Triggers, event: &Event) -> Result<bool, Error> {
        let mut has_fired = self.wake_waiting(org, event).await?;
        if event.name == "automation.run.started" {
            // Perhaps on another server.
            self.0.run_due.notify_waiters();
        }
        if let Some(Wanted::Anew { from }) = Wanted::of(event) {
            self.replay_anew(org, triggers, from, event).await?;
            has_fired = true;
        }
        has_fired |= self.fire_matching(org, triggers, event, told(event)).await?;
        Ok(has_fired)
    }

    /// Returns whether something was fired.
    pub(crate) async fn fire_matching(&self, org: &OrgId, triggers: &Triggers, event: &Event, value: Value) -> Result<bool, Error> {
        let mut has_fired = false;
        let space = value.get("space_id").and_then(Value::as_str);
        let matched = triggers.matcher.matching(&matcher::Event { space, event_type: &event.name, value: &value });
        for (automation, trigger) in matched {
            let saved = self.ledger().find_automation(org, &automation).await?;
            let trigger = self.ledger().find_trigger(org, &automation, &trigger).await?.filter(|trigger| trigger.is_enabled);
            let (Some(saved), Some(trigger)) = (saved, trigger) else { continue };
            let program = self.program(org, saved.definition).await?;
            let lineage = self.lineage_of(org, event, &value).await?;
            self.fire_event(&saved, &program, &trigger, event, value.clone(), lineage).await?;
            has_fired = true;
        }
        Ok(has_fired)
    }

    async fn wake_waiting(&self, org: &OrgId, event: &Event) -> Result<bool, Error> {
        // In doubt is no end, but a run that waits for an answer to its call has to know of it.
        let is_news = |status: &Status| status.is_final() || *status == Status::InDoubt;
        let is_told = Status::ALL.into_iter().filter(is_news).any(|status| status.event_name() == event.name);
        let Some(invocation) = InvocationId::parse(&event.key).ok().filter(|_| is_told) else {
            return Ok(false);
        };
        let is_woken = self.ledger().wake_run(org, &invocation).await?;
        if is_woken {
            self.0.run_due.notify_waiters();
        }
        Ok(is_woken)
    }

    /// The automations that led to the event: as its row says, or those of the run whose call it is about.
    pub(crate) async fn lineage_of(&self, org: &OrgId, event: &Event, value: &Value) -> Result<Lineage, Error> {
        if !event.cause.is_nobody() {
            return Ok(Lineage { chain: event.cause.chain.clone(), root: event.cause.root_run_id.clone() });
        }
        let traced = value.pointer("/data/trace_id").and_then(Value::as_str).and_then(|trace| RunId::parse(trace).ok());
        let run = match traced {
            Some(run) => self.ledger().find_run(org, &run).await?,
            None => None,
        };
        Ok(run.map_or_else(Lineage::default, |run| Lineage { chain: run.chain, root: Some(run.root) }))
    }
}

/// The event as filters and mappings see it.
pub fn told(event: &Event) -> Value {
    let data: Value = serde_json::from_str(&event.body).unwrap_or(Value::Null);
    let space = event.space.as_ref().map(|space| json!(space)).or_else(|| data.get("space_id").cloned());
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
