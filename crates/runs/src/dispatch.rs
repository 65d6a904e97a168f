//! Makes a firing of an occurrence: resolves its inputs, judges what caused it, and hands it to the store, which records it together with the
//! run that it starts. What starts nothing is recorded too, with its reason.

use crate::engine::Engine;
use crate::error::Error;
use crate::program::Program;
use automation::Mistake;
use automation::definition::{ChainPolicy, Concurrency, Drop, Kind, Rate, Trigger as TriggerDefinition};
use automation::inputs::{self, Defaults};
use countersign_core::automation::{Automation, AutomationStatus, Firing, FiringReason, Tick, Trigger, TriggerType};
use countersign_core::limits::CHAIN_DEPTH_MAX;
use countersign_core::ports::events::{Cause, Event};
use countersign_core::ports::runs::{self, Asker, Dropped, Fired, Gather, NewFiring, Occasion, Start};
use countersign_core::run::{Phase, Run, StepRecord, TriggerPayload};
use countersign_core::{AutomationId, Digest, FiringId, OrgId, PrincipalId, RunId, SessionId, Timestamp};
use durable::heavy;
use serde_json::{Value, json};

/// A request to fire a webhook.
#[derive(Clone, Debug)]
pub struct Hook {
    pub trigger: Trigger,
    pub payload: Value,
    /// The idempotency key, and the digest of what was sent.
    pub key: Option<(String, Digest)>,
    /// The chain that the request says it is part of, if it proved that.
    pub chain: Vec<AutomationId>,
}

/// A request to run an automation by name.
#[derive(Clone, Debug)]
pub struct Asked {
    pub automation: Automation,
    pub by: Asker,
    pub inputs: Value,
    pub key: Option<(String, Digest)>,
}

/// What a run is run again with.
#[derive(Clone, Debug)]
pub enum Again {
    /// The inputs that it had.
    Same,
    Inputs(Value),
    /// What its trigger was given, mapped anew.
    Payload,
}

/// What led to an occurrence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lineage {
    pub(crate) chain: Vec<AutomationId>,
    pub(crate) root: Option<RunId>,
}

/// One occurrence, before it is judged.
struct Occurrence<'a> {
    saved: &'a Automation,
    program: &'a Program,
    trigger: Option<&'a Trigger>,
    /// The trigger whose mapping makes inputs of the payload. Absent: the payload is the inputs.
    mapped_by: Option<&'a str>,
    kind: TriggerType,
    payload: Value,
    occasion: Occasion,
    reason: FiringReason,
    lineage: Lineage,
    /// A paused automation runs too if somebody asked for it.
    asked_by: Option<Asker>,
}

impl Engine {
    /// Fires a webhook. Its sender is told what it came to.
    pub async fn fire_hook(&self, hook: Hook) -> Result<Fired, Error> {
        let saved = self.live(&hook.trigger.org, &hook.trigger.automation).await?;
        let program = self.program(&saved.org, saved.definition).await?;
        let occurrence = Occurrence {
            saved: &saved,
            program: &program,
            trigger: Some(&hook.trigger),
            mapped_by: Some(&hook.trigger.id),
            kind: TriggerType::Webhook,
            payload: hook.payload,
            occasion: hook.key.map_or(Occasion::Request, |(key, fingerprint)| Occasion::Key { key, fingerprint }),
            reason: FiringReason::OnTime,
            lineage: Lineage { chain: hook.chain, root: None },
            asked_by: None,
        };
        if let Some(reason) = stopped(&saved, &hook.trigger) {
            let why = hook.trigger.disabled_why.clone().filter(|_| reason == FiringReason::BreakerOpen);
            let refusal = self.refusal(&occurrence, reason, why);
            let why = if reason == FiringReason::Paused {
                Error::Paused { automation: saved.id.clone() }
            } else {
                Error::Disabled { trigger: hook.trigger.id.clone() }
            };
            return self.refuse(refusal, why).await;
        }
        let fired = match self.prepare(&occurrence).await? {
            Ok(new) => match accepts(&program, &hook.trigger.id, &occurrence.payload, &new).await {
                Some(true) => self.hand_over(new).await?,
                Some(false) => self.hand_over(self.refusal(&occurrence, FiringReason::Filtered, None)).await?,
                None => {
                    let why = "its filter would take too much work for what was sent".to_owned();
                    let refusal = self.refusal(&occurrence, FiringReason::FilterTooCostly, Some(why));
                    return self.refuse(refusal, Error::Disabled { trigger: hook.trigger.id.clone() }).await;
                }
            },
            Err(mistakes) => {
                let refusal = self.refusal(&occurrence, FiringReason::InputsInvalid, Some(in_words(&mistakes)));
                return self.refuse(refusal, Error::InputsInvalid { mistakes }).await;
            }
        };
        match &fired {
            Fired::New(firing) if firing.reason == FiringReason::RateLimited => {
                Err(Error::RateLimited { retry_after_seconds: rate_of(&program, Some(&hook.trigger)).map_or(60, |rate| rate.per_seconds) })
            }
            Fired::New(_) | Fired::Earlier(_) | Fired::KeyReused(_) | Fired::UnknownAutomation => told(fired, &saved.id),
        }
    }

    /// Runs an automation because somebody asked for it by name. A paused one runs too.
    pub async fn run_by_hand(&self, asked: Asked) -> Result<Fired, Error> {
        let saved = live(asked.automation)?;
        let program = self.program(&saved.org, saved.definition).await?;
        let occurrence = Occurrence {
            saved: &saved,
            program: &program,
            trigger: None,
            mapped_by: None,
            kind: TriggerType::Manual,
            payload: asked.inputs,
            occasion: asked.key.map_or(Occasion::Request, |(key, fingerprint)| Occasion::Key { key, fingerprint }),
            reason: FiringReason::Manual,
            lineage: Lineage::default(),
            asked_by: Some(asked.by),
        };
        match self.prepare(&occurrence).await? {
            Ok(new) => told(self.hand_over(new).await?, &saved.id),
            Err(mistakes) => Err(Error::InputsInvalid { mistakes }),
        }
    }

    /// Runs a run once more on the version that is saved now: all of it, or from one of its steps on, if its definition is still the saved
    /// one. What came before that step is taken from it, so the inputs must be those that it came from.
    pub async fn rerun(&self, run: &Run, steps: &[StepRecord], from_step: Option<&str>, with: Again, by: Asker) -> Result<Fired, Error> {
        let saved = self.live(&run.org, &run.automation).await?;
        let program = self.program(&run.org, saved.definition).await?;
        let copied = match from_step {
            // Its results are those of other steps.
            Some(step) if run.definition != saved.definition => {
                let why = "the automation has another definition by now, so only all of it can be run again".to_owned();
                return Err(Error::RerunImpossible { step: step.to_owned(), why });
            }
            Some(step) => self.copied(run, steps, &program, step).await?,
            None => Vec::new(),
        };
        let is_same = matches!(with, Again::Same);
        let (payload, mapped_by) = match with {
            Again::Same => (run.inputs.clone().ok_or_else(|| Error::InputsInvalid { mistakes: vec![gone()] })?, None),
            Again::Inputs(inputs) => (inputs, None),
            Again::Payload => {
                let kept = self.ledger().find_trigger_payload(&run.org, &run.id).await?;
                let kept = kept.ok_or(Error::PayloadUnusable { why: "it has none, or it is not kept any longer" })?;
                if program.definition.trigger(&kept.trigger).is_none() {
                    return Err(Error::PayloadUnusable { why: "the automation no longer has the trigger that was given it" });
                }
                (kept.value, Some(kept.trigger))
            }
        };
        let occurrence = Occurrence {
            saved: &saved,
            program: &program,
            trigger: None,
            mapped_by: mapped_by.as_deref(),
            kind: run.trigger_type,
            payload,
            occasion: Occasion::Request,
            reason: FiringReason::Rerun,
            lineage: Lineage { chain: run.chain.iter().take(run.chain.len().saturating_sub(1)).cloned().collect(), root: None },
            asked_by: Some(by),
        };
        match self.prepare(&occurrence).await? {
            Ok(mut new) => {
                if let Some(start) = &mut new.start {
                    // Compared once they are whole, so that a default may be left out.
                    let is_mixed = !is_same && !copied.is_empty() && run.inputs.as_ref() != Some(&start.inputs);
                    if let Some(step) = from_step.filter(|_| is_mixed) {
                        let why = "what came before it came from the run's own inputs, so with others only all of it can be run again";
                        return Err(Error::RerunImpossible { step: step.to_owned(), why: why.to_owned() });
                    }
                    start.rerun_of = Some(run.id.clone());
                    start.copied = copied;
                }
                told(self.hand_over(new).await?, &saved.id)
            }
            Err(mistakes) => Err(Error::InputsInvalid { mistakes }),
        }
    }

    /// The steps before this one, as the rerun takes them over.
    async fn copied(&self, run: &Run, steps: &[StepRecord], program: &Program, from: &str) -> Result<Vec<StepRecord>, Error> {
        let impossible = |why: &str| Error::RerunImpossible { step: from.to_owned(), why: why.to_owned() };
        let plan = program.steps(Phase::Plan);
        let index = plan.iter().position(|step| step.definition.step_id == from).ok_or_else(|| impossible("it is not in the plan"))?;
        if !run.status.is_final() {
            return Err(impossible("the run has not ended"));
        }
        if run.inputs.is_none() {
            return Err(impossible("its space no longer keeps what its steps came to"));
        }
        let at = |index: usize| steps.iter().find(|step| step.phase == Phase::Plan && step.index as usize == index);
        if let Some(invocation) = at(index).and_then(|step| step.invocation.as_ref()) {
            let row = self.0.ports.pipeline.watch(&run.org, invocation, std::time::Duration::ZERO).await;
            // Its run may have been cancelled while it was under way.
            if row.is_ok_and(|row| !row.status.is_final()) {
                return Err(Error::RerunInDoubt { step: from.to_owned() });
            }
        }
        let copy = |index| {
            let step: &StepRecord = at(index).filter(|step| step.failure.is_none())?;
            Some(StepRecord { copied_from: Some(step.copied_from.clone().unwrap_or_else(|| run.id.clone())), ..step.clone() })
        };
        (0..index).map(|index| copy(index).ok_or_else(|| impossible("a step before it has no result"))).collect()
    }

    /// Returns whether the tick has started a run.
    pub(crate) async fn fire_tick(
        &self,
        saved: &Automation,
        program: &Program,
        trigger: &Trigger,
        tick: Tick,
        reason: FiringReason,
    ) -> Result<bool, Error> {
        let payload = json!({
            "fired_at": self.now(),
            "scheduled_for": tick.scheduled_for,
            "last_fired_at": trigger.last_fired_at,
        });
        let occurrence = Occurrence {
            saved,
            program,
            trigger: Some(trigger),
            mapped_by: Some(&trigger.id),
            kind: TriggerType::Schedule,
            payload,
            occasion: Occasion::Tick(tick),
            reason,
            lineage: Lineage::default(),
            asked_by: None,
        };
        let fired = self.hand_over(self.unattended(&occurrence).await?).await?;
        Ok(match fired {
            Fired::New(firing) | Fired::Earlier(firing) | Fired::KeyReused(firing) => firing.run.is_some(),
            Fired::UnknownAutomation => false,
        })
    }

    pub(crate) async fn fire_event(
        &self,
        saved: &Automation,
        program: &Program,
        trigger: &Trigger,
        event: &Event,
        payload: Value,
        lineage: Lineage,
    ) -> Result<(), Error> {
        if let Some(reason) = stopped(saved, trigger) {
            // The row is not the event's: once the trigger goes on, a replay of the event may start something.
            let occasion = Occasion::Request;
            let occurrence = Occurrence {
                saved,
                program,
                trigger: Some(trigger),
                mapped_by: Some(&trigger.id),
                kind: TriggerType::Event,
                payload,
                occasion,
                reason,
                lineage,
                asked_by: None,
            };
            self.hand_over(self.refusal(&occurrence, reason, None)).await?;
            return Ok(());
        }
        // An event that may start nothing is not gathered: it could keep the others from starting something.
        let is_refused = chain_refuses(&program.definition.execution.chain_policy, &saved.id, &lineage, TriggerType::Event).is_some();
        let gather = program.gather(&trigger.id);
        let payload = match gather {
            // One that is replayed under a new id has had its turn with the others.
            Some(Gather::Batch { .. }) if is_replayed(&payload) => json!({ "events": [payload] }),
            Some(gather) if !is_refused && !is_replayed(&payload) => {
                return self.gather(trigger, event, payload.to_string().len(), gather).await;
            }
            Some(Gather::Batch { .. } | Gather::Debounce { .. }) | None => payload,
        };
        let firing = self.event_firing(saved, program, trigger, event, payload, lineage).await?;
        self.hand_over(firing).await?;
        Ok(())
    }

    /// Disables an event trigger whose filter cannot be judged, and says so in a row that belongs to no event.
    pub(crate) async fn suspend(&self, saved: &Automation, program: &Program, trigger: &Trigger, why: String) -> Result<(), Error> {
        let occurrence = Occurrence {
            saved,
            program,
            trigger: Some(trigger),
            kind: TriggerType::Event,
            payload: Value::Null,
            mapped_by: None,
            occasion: Occasion::Request,
            reason: FiringReason::FilterTooCostly,
            lineage: Lineage::default(),
            asked_by: None,
        };
        self.hand_over(self.refusal(&occurrence, FiringReason::FilterTooCostly, Some(why))).await?;
        Ok(())
    }

    pub(crate) async fn event_firing(
        &self,
        saved: &Automation,
        program: &Program,
        trigger: &Trigger,
        event: &Event,
        payload: Value,
        lineage: Lineage,
    ) -> Result<NewFiring, Error> {
        let occurrence = Occurrence {
            saved,
            program,
            trigger: Some(trigger),
            mapped_by: Some(&trigger.id),
            kind: TriggerType::Event,
            payload,
            occasion: Occasion::Event(event.id.clone()),
            reason: FiringReason::OnTime,
            lineage,
            asked_by: None,
        };
        self.unattended(&occurrence).await
    }

    /// Nobody is there to be told: whatever stands in the way is a row of the ledger.
    async fn unattended(&self, occurrence: &Occurrence<'_>) -> Result<NewFiring, Error> {
        Ok(match self.prepare(occurrence).await? {
            Ok(new) => new,
            Err(mistakes) => self.refusal(occurrence, FiringReason::InputsInvalid, Some(in_words(&mistakes))),
        })
    }

    /// The firing with the run that it would start; the inner error says what is wrong with the inputs.
    async fn prepare(&self, occurrence: &Occurrence<'_>) -> Result<Result<NewFiring, Vec<Mistake>>, Error> {
        let Occurrence { saved, program, trigger, .. } = occurrence;
        if let Some(reason) = chain_refuses(&program.definition.execution.chain_policy, &saved.id, &occurrence.lineage, occurrence.kind) {
            return Ok(Ok(self.refusal(occurrence, reason, None)));
        }
        let acts_as = PrincipalId::Automation(saved.id.clone());
        if self.ledger().find_principal(&saved.org, &acts_as).await?.is_none() {
            return Ok(Ok(self.refusal(occurrence, FiringReason::CreatorInactive, None)));
        }
        for step in program.steps(Phase::Plan) {
            let action = &step.definition.action;
            if self.0.ports.pipeline.catalogue().is_gone(&saved.org, action).await {
                let why = format!("there is no action `{action}` any more");
                return Ok(Ok(self.refusal(occurrence, FiringReason::ActionUnavailable, Some(why))));
            }
        }
        let defined = occurrence.mapped_by.and_then(|trigger| program.definition.trigger(trigger));
        let creator = format!("user:{}", saved.creator);
        let space_default = self.ledger().find_space(&saved.org, &saved.space).await?.map(|space| space.defaults).unwrap_or_default();
        let defaults = Defaults {
            last_fired_at: match trigger {
                Some(trigger) => trigger.last_fired_at.unwrap_or(trigger.enabled_at),
                None => self.last_fired_at(saved).await?,
            },
            creator: &creator,
            space_default: &space_default,
        };
        let inputs = match inputs::resolve(&program.definition, defined, &occurrence.payload, defaults) {
            Ok(inputs) => inputs,
            Err(mistakes) => return Ok(Err(mistakes)),
        };
        if let Some(estimate) = self.too_dear(&saved.org, program).await? {
            let why = format!("it would cost about ${estimate}, and may cost ${}", program.definition.execution.budget_cap_usd);
            return Ok(Ok(self.refusal(occurrence, FiringReason::BudgetEstimate, Some(why))));
        }
        let shown_inputs = self.0.ports.pipeline.redact_inputs(&saved.org, &saved.space, &inputs).await;
        let execution = &program.definition.execution;
        let now = self.now();
        let start = Start {
            run: RunId::new(now, self.draw()),
            session: SessionId::new(now, self.draw()),
            version: saved.version,
            definition: saved.definition,
            trigger_type: occurrence.kind,
            inputs,
            shown_inputs,
            payload: occurrence.mapped_by.map(|trigger| TriggerPayload { trigger: trigger.to_owned(), value: occurrence.payload.clone() }),
            queue: self.queue_of(saved, program).await?,
            concurrency: match execution.concurrency {
                Concurrency::DropIfRunning => runs::Concurrency::DropIfRunning,
                Concurrency::Queue => runs::Concurrency::Queue {
                    max: execution.max_queued.limit,
                    drop: match execution.max_queued.drop {
                        Drop::Newest => Dropped::Newest,
                        Drop::Oldest => Dropped::Oldest,
                    },
                },
                Concurrency::AllowParallel => runs::Concurrency::AllowParallel,
            },
            rate: rate_of(program, *trigger).map(|rate| runs::Rate { max: rate.max, per_seconds: rate.per_seconds }),
            rerun_of: None,
            copied: Vec::new(),
            from_outside: is_from_outside(occurrence.kind, &occurrence.payload, &occurrence.lineage),
            asked_by: occurrence.asked_by.clone(),
        };
        Ok(Ok(NewFiring { start: Some(Box::new(start)), ..self.refusal(occurrence, occurrence.reason, None) }))
    }

    /// What `$last_fired_at` stands for where no trigger fires.
    pub async fn last_fired_at(&self, saved: &Automation) -> Result<Timestamp, Error> {
        Ok(self.ledger().last_fired_at(&saved.org, &saved.id).await?.unwrap_or(saved.created_at))
    }

    /// A firing that starts nothing, for this reason.
    fn refusal(&self, occurrence: &Occurrence<'_>, reason: FiringReason, detail: Option<String>) -> NewFiring {
        let Lineage { chain, root } = occurrence.lineage.clone();
        NewFiring {
            id: FiringId::new(self.now(), self.draw()),
            org: occurrence.saved.org.clone(),
            automation: occurrence.saved.id.clone(),
            trigger: occurrence.trigger.map(|trigger| trigger.id.clone()),
            occasion: occurrence.occasion.clone(),
            reason,
            detail,
            cause: Cause { depth: u32::try_from(chain.len()).unwrap_or(u32::MAX), chain, root_run_id: root },
            start: None,
        }
    }

    /// Records a firing that starts nothing, and tells its sender why. What has the key of an earlier one gets the answer of that one.
    async fn refuse(&self, refusal: NewFiring, why: Error) -> Result<Fired, Error> {
        let automation = refusal.automation.clone();
        match self.hand_over(refusal).await? {
            Fired::New(_) => Err(why),
            fired @ (Fired::Earlier(_) | Fired::KeyReused(_) | Fired::UnknownAutomation) => told(fired, &automation),
        }
    }

    async fn hand_over(&self, new: NewFiring) -> Result<Fired, Error> {
        let queue = new.start.as_ref().map(|start| start.queue.clone());
        let tell = || queue.iter().for_each(|queue| self.0.due.tell(queue));
        // Once the firing is queued, a worker asks for its run: the store then commits both together.
        let (fired, ()) = tokio::join!(biased; self.ledger().fire(new), async { tell() });
        let fired = fired?;
        count(&fired);
        tell();
        Ok(fired)
    }

    async fn live(&self, org: &OrgId, automation: &AutomationId) -> Result<Automation, Error> {
        let unknown = || Error::UnknownAutomation { automation: automation.clone() };
        live(self.ledger().find_automation(org, automation).await?.ok_or_else(unknown)?)
    }
}

/// One that still runs, at least when somebody asks for it.
fn live(saved: Automation) -> Result<Automation, Error> {
    match saved.status {
        AutomationStatus::Active | AutomationStatus::Paused => Ok(saved),
        AutomationStatus::Archived => Err(Error::Archived { automation: saved.id }),
    }
}

/// Counts what a firing came to.
pub(crate) fn count(fired: &Fired) {
    if let Fired::New(Firing { reason, .. }) = fired {
        metrics::counter!("countersign_firings_total", "outcome" => reason.outcome().as_str()).increment(1);
    }
}

fn rate_of(program: &Program, trigger: Option<&Trigger>) -> Option<Rate> {
    let defined: &TriggerDefinition = program.definition.trigger(&trigger?.id)?;
    match &defined.kind {
        Kind::Schedule(_) => None,
        Kind::Webhook(webhook) => Some(webhook.rate_limit),
        Kind::Event(event) => Some(event.rate_limit),
    }
}

/// Why the trigger starts nothing until a person lets it.
fn stopped(saved: &Automation, trigger: &Trigger) -> Option<FiringReason> {
    match saved.status {
        AutomationStatus::Paused | AutomationStatus::Archived => Some(FiringReason::Paused),
        AutomationStatus::Active if trigger.is_enabled => None,
        AutomationStatus::Active if trigger.disabled_why.is_some() => Some(FiringReason::BreakerOpen),
        AutomationStatus::Active => Some(FiringReason::Disabled),
    }
}

/// Whether the filter of the webhook accepts what was sent; `None` if that would take too much work. To search a large body takes long, so no
/// thread that serves does it.
async fn accepts(program: &Program, webhook: &str, body: &Value, new: &NewFiring) -> Option<bool> {
    let (Some(filter), Some(start)) = (program.filter(webhook).cloned(), &new.start) else { return Some(true) };
    let seen = json!({ "event": body, "inputs": start.inputs });
    heavy::compute(move || filter.accepts(&seen)).await
}

/// Whether somebody outside may have written what a run is given: who sends a webhook, who published an event, or whom an earlier run has read.
/// What tells of the whole org may repeat what a source or a consumer has said.
fn is_from_outside(kind: TriggerType, payload: &Value, lineage: &Lineage) -> bool {
    let is_of_org = |event: &Value| event.get("space_id").is_none();
    let is_theirs = |event: &Value| event.get("source").is_some_and(|source| !source.is_null() || is_of_org(event));
    match kind {
        TriggerType::Webhook => true,
        TriggerType::Event => {
            let batch = payload.get("events").and_then(Value::as_array);
            !lineage.chain.is_empty() || is_theirs(payload) || batch.is_some_and(|batch| batch.iter().any(is_theirs))
        }
        TriggerType::Schedule | TriggerType::Manual => false,
    }
}

/// Whether the event of this payload comes once more, under a new id.
fn is_replayed(payload: &Value) -> bool {
    payload.get("replay_of").is_some()
}

/// Why a run may not follow from what led to it.
fn chain_refuses(policy: &ChainPolicy, own: &AutomationId, lineage: &Lineage, kind: TriggerType) -> Option<FiringReason> {
    if lineage.chain.len() >= CHAIN_DEPTH_MAX {
        return Some(FiringReason::ChainTooDeep);
    }
    // A person who asks by name knows what they do.
    if kind == TriggerType::Manual {
        return None;
    }
    let is_refused = match policy {
        ChainPolicy::AvoidLoop => lineage.chain.contains(own),
        ChainPolicy::IgnoreRuns => !lineage.chain.is_empty(),
        ChainPolicy::Allow => false,
    };
    is_refused.then_some(FiringReason::LoopGuard)
}

fn told(fired: Fired, automation: &AutomationId) -> Result<Fired, Error> {
    match fired {
        Fired::KeyReused(firing) => Err(Error::KeyReused { firing: Box::new(firing) }),
        Fired::UnknownAutomation => Err(Error::UnknownAutomation { automation: automation.clone() }),
        Fired::New(_) | Fired::Earlier(_) => Ok(fired),
    }
}

/// That a run cannot be run again with inputs of which nothing is left.
fn gone() -> Mistake {
    Mistake::new("inputs_invalid", "the space of the run no longer keeps its inputs").hint("send them once more")
}

/// What is wrong with the inputs. Their values are not in it, but the names of members are.
fn in_words(mistakes: &[Mistake]) -> String {
    let told = mistakes.iter().take(5).map(|mistake| format!("`{}`: {}", mistake.pointer, mistake.message));
    pipeline::redact_text(&told.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stranger_or_an_earlier_run_may_have_written_is_from_outside() {
        let led = Lineage { chain: vec![AutomationId::new(Timestamp::from_micros(0), [1; 10])], root: None };
        let own = json!({ "source": null, "space_id": "spc_1", "data": {} });
        let published = json!({ "source": "/drive", "space_id": "spc_1", "data": {} });
        let of_org = json!({ "source": null, "data": { "error": "the server said so" } });
        let (batch, own_batch) = (json!({ "events": [own, published] }), json!({ "events": [own] }));
        for (kind, payload, lineage, expected) in [
            (TriggerType::Manual, &published, &led, false),
            (TriggerType::Schedule, &json!({}), &Lineage::default(), false),
            (TriggerType::Webhook, &json!({}), &Lineage::default(), true),
            (TriggerType::Event, &own, &Lineage::default(), false),
            (TriggerType::Event, &own, &led, true),
            (TriggerType::Event, &published, &Lineage::default(), true),
            (TriggerType::Event, &of_org, &Lineage::default(), true),
            (TriggerType::Event, &batch, &Lineage::default(), true),
            (TriggerType::Event, &own_batch, &Lineage::default(), false),
        ] {
            assert_eq!(is_from_outside(kind, payload, lineage), expected, "{kind} {payload}");
        }
    }

    #[test]
    fn a_run_follows_from_no_run_of_its_own_and_from_no_long_chain() {
        let automation = |n: u8| AutomationId::new(Timestamp::from_micros(0), [n; 10]);
        let lineage = |chain: &[u8]| Lineage { chain: chain.iter().copied().map(automation).collect(), root: None };
        let refuses = |policy, chain: &[u8]| chain_refuses(&policy, &automation(1), &lineage(chain), TriggerType::Event);
        for policy in [ChainPolicy::AvoidLoop, ChainPolicy::IgnoreRuns, ChainPolicy::Allow] {
            assert_eq!(refuses(policy, &[]), None);
            assert_eq!(refuses(policy, &[2; CHAIN_DEPTH_MAX]), Some(FiringReason::ChainTooDeep));
        }
        assert_eq!(refuses(ChainPolicy::AvoidLoop, &[2, 3]), None);
        assert_eq!(refuses(ChainPolicy::AvoidLoop, &[2, 1]), Some(FiringReason::LoopGuard));
        assert_eq!(refuses(ChainPolicy::IgnoreRuns, &[2]), Some(FiringReason::LoopGuard));
        assert_eq!(refuses(ChainPolicy::Allow, &[1]), None);
    }
}
