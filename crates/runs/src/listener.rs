//! Listens to an org's events, in order: fires the event triggers whose filters match, and tells the workers of runs whose call has ended. An
//! event is handled before the cursor passes it, and firing for the same event twice starts nothing: a crash in between repeats nothing and
//! loses nothing. Of the servers on one database, one handles the events of an org; the others take over if it goes.
//!
//! Events are read without claims, because that costs nothing for those that concern no automation. Where one cannot be handled, they are
//! claimed instead: it comes again later, becomes a dead letter in the end, and the others do not wait for it.

use crate::dispatch::Lineage;
use crate::engine::Engine;
use crate::error::Error;
use crate::events::{EVENTS_AT_ONCE, GROUP, Wanted, heard, told};
use crate::limits::{DUE_RUNS_MAX, EVENTS_PER_CLAIM_MAX};
use automation::definition::Kind;
use automation::filter::Filter;
use automation::matcher::{self, Matched, Matcher};
use countersign_core::json::outweighs;
use countersign_core::limits::{GROUP_HELD_SECONDS, LIGHT_BYTES_MAX};
use countersign_core::ports::automations::EventTrigger;
use countersign_core::ports::bus::{Claimed, GroupName, NewGroup, Start, Subscribed};
use countersign_core::ports::events::Event;
use countersign_core::{AutomationId, InvocationId, OrgId, RunId, SpaceId, Status, Timestamp};
use durable::heavy;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// After this many events that fired nothing the cursor is saved all the same, so that it stays ahead of what the org forgets.
const PASSED_MAX: i64 = 5_000;

/// How often the cursor is saved while nothing more happens, so that the group does not look further behind than it is.
const SAVED_EVERY: Duration = Duration::from_secs(10);

/// How often a server that left events to another one looks whether that one is still there.
const HOLDER_ASKED_EVERY: Duration = Duration::from_secs(1);

/// How often new orgs are looked for.
const ORGS_EVERY: Duration = Duration::from_secs(2);

const TRY_AGAIN: Duration = Duration::from_secs(1);

/// What tells that a breaker has disabled a trigger.
const TRIGGER_DISABLED: &str = "automation.trigger_disabled";

/// Names one event trigger.
type Key = (AutomationId, String);

/// The event triggers of an org, ready to be matched.
pub(crate) struct Triggers {
    matcher: Arc<Matcher<Key>>,
    /// What it was made from.
    listed: Vec<EventTrigger>,
    /// The version of the org's rules as of which that is known. Whatever a person does to an automation gives them a new one.
    of: Option<i64>,
}

/// The hold of this server on the events of a group, where others could handle them too.
pub(crate) struct Hold {
    group: GroupName,
    /// When the store was asked last.
    asked_at: Timestamp,
}

impl Hold {
    /// Whether it is time to ask again. The store renews what is half over, so it is asked twice as often as that.
    fn is_due(&self, now: Timestamp) -> bool {
        now >= self.asked_at.plus_seconds(GROUP_HELD_SECONDS / 4)
    }
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
            pause(&stop).await;
        }
    }

    async fn listen_on(&self, org: &OrgId, stop: &CancellationToken) -> Result<(), Error> {
        let Some(group) = GroupName::parse(GROUP) else { return Ok(()) };
        let mut hold = Hold { group: group.clone(), asked_at: self.now() };
        let mut triggers = Triggers { matcher: Arc::new(Matcher::of([])), listed: Vec::new(), of: None };
        let mut heeded = 0;
        while !stop.is_cancelled() {
            let found = match self.ledger().subscribe(org, NewGroup::ours(group.clone(), Start::Now)).await? {
                Subscribed::Made(found) | Subscribed::There(found) => found,
                Subscribed::TooMany => {
                    tracing::warn!(%org, "the org has as many consumer groups as it may have: no event fires an automation");
                    return Ok(());
                }
            };
            if found.in_flight > 0 {
                self.handle_claimed(org, &mut hold, &mut triggers, stop).await?;
            } else {
                self.listen_from(org, &mut hold, found.cursor - 1, &mut triggers, &mut heeded, stop).await?;
            }
        }
        Ok(())
    }

    /// Whether this server handles the events of the group, and no other. It goes on holding them.
    async fn holds(&self, org: &OrgId, hold: &mut Hold) -> Result<bool, Error> {
        hold.asked_at = self.now();
        Ok(!self.ledger().is_shared() || self.ledger().hold_group(org, &hold.group).await?)
    }

    /// The same, for each of many events: it asks only when it is time.
    pub(crate) async fn holds_on(&self, org: &OrgId, hold: &mut Hold) -> Result<bool, Error> {
        Ok(!hold.is_due(self.now()) || self.holds(org, hold).await?)
    }

    /// Claims some events and handles them. What cannot be handled is given back, and becomes a dead letter once it was delivered as often as
    /// the group allows.
    async fn handle_claimed(&self, org: &OrgId, hold: &mut Hold, triggers: &mut Triggers, stop: &CancellationToken) -> Result<(), Error> {
        if !self.holds(org, hold).await? {
            pause(stop).await;
            return Ok(());
        }
        let group = hold.group.clone();
        self.slow_down(stop).await?;
        // Read first: what is committed after it ends the wait.
        let newest = self.ledger().newest_event(org).await?;
        let claimed = self.ledger().claim_events(org, &group, EVENTS_PER_CLAIM_MAX).await?.unwrap_or_default();
        if claimed.is_empty() {
            self.wait_for_more(org, newest, true, stop).await;
            return Ok(());
        }
        self.follow_changes(org, triggers).await?;
        if let Err(error) = self.tell_of_ended_calls(org, claimed.iter().map(|claimed| &claimed.event)).await {
            tracing::debug!(%org, %error, "workers were not told of runs that go on; they look by themselves");
        }
        let mut done = Vec::new();
        for Claimed { event, claim, delivery, .. } in claimed {
            match self.handle(org, hold, triggers, &event).await {
                Ok(_) => done.push(claim),
                Err(error) => {
                    tracing::warn!(%org, event = event.seq, delivery, %error, "an event could not be handled; it is given back");
                    let delay_seconds = 1_u64 << delivery.min(10);
                    self.ledger().nack_events(org, &group, vec![claim], delay_seconds, problem(&error)).await?;
                }
            }
        }
        self.ledger().ack_events(org, &group, done).await?;
        Ok(())
    }

    /// Returns when it is stopped, or when the group is somewhere else: another server was faster, or a person moved it. `heeded` is the last
    /// event that told of such a move: a replay comes by it once more.
    async fn listen_from(
        &self,
        org: &OrgId,
        hold: &mut Hold,
        mut saved: i64,
        triggers: &mut Triggers,
        heeded: &mut i64,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let (mut after, mut has_left_some, mut saved_at) = (saved, false, Instant::now());
        let group = hold.group.clone();
        loop {
            let events = match stop.is_cancelled() {
                true => Vec::new(),
                false => self.ledger().list_events_after(org, after, EVENTS_AT_ONCE).await?,
            };
            let is_idle = events.is_empty();
            let has_all = events.len() < EVENTS_AT_ONCE as usize;
            self.follow_changes(org, triggers).await?;
            if stop.is_cancelled() && has_left_some {
                return Ok(());
            }
            // One server handles them: another one later could start what the first had to drop.
            if self.ledger().is_shared() && (!is_idle || has_left_some) {
                if !self.holds(org, hold).await? {
                    if !is_idle {
                        // There may be runs to work on all the same.
                        self.0.due.tell_all();
                        has_left_some = true;
                    }
                    after = events.last().map_or(after, |event| event.seq);
                    // Whoever has them may go at any time, and no event tells of that.
                    let _elapsed = tokio::time::timeout(HOLDER_ASKED_EVERY, self.wait_for_more(org, after, has_all, stop)).await;
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
            // Positions have no gaps: what is missing before the first of them is kept no longer.
            let lost = events.first().map_or(0, |first| first.seq - after - 1);
            if lost > 0 {
                tracing::warn!(%org, lost, "events were dropped before they were handled: retention has overtaken the automations");
                after += lost;
                if !self.ledger().pass_events(org, &group, saved, after, lost).await? {
                    return Ok(());
                }
                (saved, saved_at) = (after, Instant::now());
            }
            self.tell_of_ended_calls(org, events.iter()).await?;
            let mut has_fired = false;
            for event in &events {
                if !self.holds_on(org, hold).await? {
                    return Ok(());
                }
                if event.seq > *heeded && matches!(Wanted::of(event), Some(Wanted::Moved)) {
                    *heeded = event.seq;
                    return Ok(());
                }
                match self.handle(org, hold, triggers, event).await {
                    Ok(fired) => has_fired |= fired,
                    // The store is away, which is not the doing of the event.
                    Err(error) if error.is_transient() => return Err(error),
                    Err(error) => {
                        tracing::warn!(%org, event = event.seq, %error, "an event could not be handled; it is claimed, and tried again");
                        self.ledger().pass_events(org, &group, saved, after, 0).await?;
                        return self.handle_claimed(org, hold, triggers, stop).await;
                    }
                }
                after = event.seq;
            }
            let is_quiet = is_idle && saved_at.elapsed() >= SAVED_EVERY;
            let is_time = has_fired || is_quiet || after - saved >= PASSED_MAX || stop.is_cancelled();
            if is_time && after > saved {
                if !self.ledger().pass_events(org, &group, saved, after, 0).await? {
                    return Ok(());
                }
                (saved, saved_at) = (after, Instant::now());
            }
            if stop.is_cancelled() {
                return Ok(());
            }
            self.wait_for_more(org, after, has_all, stop).await;
        }
    }

    /// Waits for an event after the last one, if all were read.
    async fn wait_for_more(&self, org: &OrgId, after: i64, has_all: bool, stop: &CancellationToken) {
        if has_all {
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
            pause(stop).await;
        }
        Ok(())
    }

    /// Reads the event triggers anew if a rule has changed, and indexes them if they are others than before. What was saved before an event was
    /// published is seen here: both are in the same order for everybody.
    async fn follow_changes(&self, org: &OrgId, triggers: &mut Triggers) -> Result<(), Error> {
        let version = self.ledger().rules_version_anew(org).await?;
        if triggers.of == Some(version) {
            return Ok(());
        }
        let listed = self.ledger().list_event_triggers(org).await?;
        if listed != triggers.listed {
            let (matcher, refused) = self.index(org, &listed).await?;
            triggers.matcher = Arc::new(matcher);
            triggers.listed = listed;
            for key in &refused {
                self.suspend_filter(org, key, "its filter is refused now: read it with `countersign automation validate`".to_owned())
                    .await?;
            }
        }
        triggers.of = Some(version);
        self.automations_changed();
        Ok(())
    }

    /// The index, and the triggers whose filters are refused: an older server may have saved them.
    async fn index(&self, org: &OrgId, listed: &[EventTrigger]) -> Result<(Matcher<Key>, Vec<Key>), Error> {
        let mut written = Vec::with_capacity(listed.len());
        for EventTrigger { automation, space, trigger, definition } in listed {
            let program = match self.program(org, *definition).await {
                Ok(program) => program,
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => {
                    tracing::error!(%automation, %error, "its event triggers do not fire");
                    continue;
                }
            };
            let Some(Kind::Event(event)) = program.definition.trigger(trigger).map(|trigger| &trigger.kind) else { continue };
            written.push(((automation.clone(), trigger.clone()), space.clone(), event.event_type.clone(), event.filters.clone()));
        }
        // Each regex is compiled.
        let made = heavy::compute(move || {
            let (mut filters, mut refused) = (Vec::with_capacity(written.len()), Vec::new());
            for (key, space, event_type, filter) in written {
                match filter.as_ref().map_or_else(|| Ok(Filter::all()), Filter::parse) {
                    Ok(filter) => filters.push((key, space, event_type, filter)),
                    Err(_) => refused.push(key),
                }
            }
            let of = filters.iter().map(|(key, space, event_type, filter)| {
                let (space, event_type): (&SpaceId, &String) = (space, event_type);
                (Key::clone(key), Some(space.as_str()), event_type.as_str(), filter)
            });
            (Matcher::of(of), refused)
        });
        Ok(made.await)
    }

    async fn suspend_filter(&self, org: &OrgId, (automation, trigger): &Key, why: String) -> Result<(), Error> {
        let saved = self.ledger().find_automation(org, automation).await?;
        let trigger = self.ledger().find_trigger(org, automation, trigger).await?;
        let (Some(saved), Some(trigger)) = (saved, trigger) else { return Ok(()) };
        let program = self.program(org, saved.definition).await?;
        self.suspend(&saved, &program, &trigger, why).await
    }

    /// Which triggers the event concerns. A large event, and one whose texts have to be searched, is judged where nobody else waits.
    async fn matched(&self, triggers: &Triggers, event: &Event, value: &Arc<Value>) -> Matched<Key> {
        let Some(heard) = heard(event, value) else { return Matched { keys: Vec::new(), exceeding: Vec::new() } };
        if !triggers.matcher.searches() && !outweighs(value, LIGHT_BYTES_MAX) {
            return triggers.matcher.matching(&heard);
        }
        let (matcher, value) = (Arc::clone(&triggers.matcher), Arc::clone(value));
        let (space, event_type) = (heard.space.map(str::to_owned), event.name.clone());
        heavy::compute(move || matcher.matching(&matcher::Event { space: space.as_deref(), event_type: &event_type, value: &value })).await
    }

    /// Returns whether something was fired.
    async fn handle(&self, org: &OrgId, hold: &mut Hold, triggers: &mut Triggers, event: &Event) -> Result<bool, Error> {
        let mut has_fired = false;
        if event.name == "automation.run.started" && self.ledger().is_shared() {
            // Perhaps on another server.
            self.0.due.tell_all();
        }
        if event.name == TRIGGER_DISABLED {
            // A breaker is no person: the rules got no new version by it.
            triggers.of = None;
        }
        if let Some(Wanted::Anew { from }) = Wanted::of(event) {
            self.replay_anew(org, hold, triggers, from, event).await?;
            has_fired = true;
        }
        let value = if event.body.len() > LIGHT_BYTES_MAX {
            let event = event.clone();
            heavy::compute(move || told(&event)).await
        } else {
            told(event)
        };
        has_fired |= self.fire_matching(org, triggers, event, value).await?;
        Ok(has_fired)
    }

    /// Returns whether something was fired.
    pub(crate) async fn fire_matching(&self, org: &OrgId, triggers: &Triggers, event: &Event, value: Value) -> Result<bool, Error> {
        let mut has_fired = false;
        let value = Arc::new(value);
        let Matched { keys, exceeding } = self.matched(triggers, event, &value).await;
        for key in &exceeding {
            let why = format!("its filter would take too much work for an event of type `{}`", event.name);
            self.suspend_filter(org, key, why).await?;
            has_fired = true;
        }
        let is_of_org = value.get("space_id").is_none();
        for (automation, trigger) in keys {
            let saved = self.ledger().find_automation(org, &automation).await?;
            let trigger = self.ledger().find_trigger(org, &automation, &trigger).await?;
            let (Some(saved), Some(trigger)) = (saved, trigger) else { continue };
            if is_of_org && !self.ledger().is_heard_in(org, &saved.space, event).await? {
                continue;
            }
            let program = self.program(org, saved.definition).await?;
            let lineage = self.lineage_of(org, event, &value).await?;
            self.fire_event(&saved, &program, &trigger, event, Value::clone(&value), lineage).await?;
            has_fired = true;
        }
        Ok(has_fired)
    }

    /// Tells the workers if a run waits for a call that these events tell the end of: the write that ended the call has made the run due.
    async fn tell_of_ended_calls(&self, org: &OrgId, events: impl Iterator<Item = &Event>) -> Result<(), Error> {
        // In doubt is no end, but a run that waits for an answer to its call goes on to a person who can tell.
        let is_news = |status: &Status| status.is_final() || *status == Status::InDoubt;
        let news: Vec<_> = Status::ALL.into_iter().filter(is_news).map(Status::event_name).collect();
        let told = events.filter(|event| news.contains(&event.name.as_str()));
        let calls: Vec<_> = told.filter_map(|event| InvocationId::parse(&event.key).ok()).collect();
        if !calls.is_empty() && self.ledger().is_waited_for(org, &calls).await? {
            self.0.due.tell_all();
        }
        Ok(())
    }

    /// The automations that led to the event: as its row says, or those of the run whose call it is about. SECURITY: of an event that somebody
    /// else published, its data says nothing of that: it could name any run.
    pub(crate) async fn lineage_of(&self, org: &OrgId, event: &Event, value: &Value) -> Result<Lineage, Error> {
        if !event.cause.is_nobody() {
            return Ok(Lineage { chain: event.cause.chain.clone(), root: event.cause.root_run_id.clone() });
        }
        let ours = Some(value).filter(|_| event.origin.is_none());
        let traced = ours.and_then(|value| value.pointer("/data/trace_id")?.as_str()).and_then(|trace| RunId::parse(trace).ok());
        let run = match traced {
            Some(run) => self.ledger().find_run(org, &run).await?,
            None => None,
        };
        Ok(run.map_or_else(Lineage::default, |run| Lineage { chain: run.chain, root: Some(run.root) }))
    }
}

async fn pause(stop: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(TRY_AGAIN) => {}
        () = stop.cancelled() => {}
    }
}

/// What a dead letter says of an error. What the store holds is nobody's business but the operator's.
fn problem(error: &Error) -> String {
    match error {
        Error::Store(_) => "the server could not read or write what it needs for it; its log says more".to_owned(),
        Error::UnknownAutomation { .. }
        | Error::Archived { .. }
        | Error::Paused { .. }
        | Error::Disabled { .. }
        | Error::UnknownTrigger { .. }
        | Error::InputsInvalid { .. }
        | Error::KeyReused { .. }
        | Error::RateLimited { .. }
        | Error::RerunInDoubt { .. }
        | Error::RerunImpossible { .. }
        | Error::PayloadUnusable { .. }
        | Error::Unreadable { .. } => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_renewed_before_it_is_over_however_late_in_its_life_it_was_seen() {
        let second = |second: i64| Timestamp::from_micros(second * 1_000_000);
        let hold = Hold { group: GroupName::parse(GROUP).unwrap(), asked_at: second(100) };
        assert!(!hold.is_due(second(100)) && !hold.is_due(second(101)));
        // The store left a hold alone that had a little more than half of its time.
        let half = i64::try_from(GROUP_HELD_SECONDS / 2).unwrap();
        assert!(hold.is_due(second(100 + half - 1)));
    }
}
