//! A fake source: scripted answers, recorded calls, counted effects.
//! `FakeSource::new("fake").offering("write", |action| action.tier = Tier::R2)` builds one; a test then scripts it while it runs.

use countersign_core::action::{Preview, Repeatability, Reversibility};
use countersign_core::effect::{Check, Scope};
use countersign_core::limits::CALL_TIMEOUT_MS;
use countersign_core::source::{AfterError, Asked, CallContext, Error, Output, Reconciled, Source};
use countersign_core::{Action, ActionId, ConnectionId, Future, InvocationId, OrgId, SessionId, SourceId, SpaceId, Tier};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// The answer of a scripted call or preview.
pub type Answer = Result<Output, Error>;

/// One call or preview as the source received it.
#[derive(Clone, Debug)]
pub struct Call {
    pub context: CallContext,
    pub action: ActionId,
    pub params: Value,
}

/// A scriptable source. Clones share everything, so a test keeps one and passes on the others.
#[derive(Clone)]
pub struct FakeSource {
    id: SourceId,
    title: String,
    guide: Option<String>,
    is_remote: bool,
    needs_review: bool,
    connection: Option<ConnectionId>,
    space: Option<SpaceId>,
    shared: Arc<Shared>,
}

/// A call that waits. A test can wait for its arrival and then release it. If this is dropped, the call waits for ever.
#[derive(Debug)]
pub struct Held {
    arrived: watch::Receiver<u32>,
    released: watch::Sender<u32>,
}

/// An action with the most permissive definition: R0, any params, any result, no effect, repeatable.
pub fn action(id: &str) -> Action {
    Action {
        version: "1".into(),
        title: id.into(),
        description: format!("Does what the test says `{id}` does."),
        params_schema: json!({ "type": "object" }),
        result_schema: json!({}),
        reversibility: Reversibility::NoEffect,
        repeatability: Repeatability::Repeatable,
        ..Action::new(ActionId::parse(id).expect("the test names a valid action id"), Tier::R0)
    }
}

/// The first attempt of a call with arbitrary ids, for tests that call a source directly.
pub fn context() -> CallContext {
    let at = crate::clock::START;
    CallContext {
        org: OrgId::new(at, [1; 10]),
        space: SpaceId::new(at, [2; 10]),
        has_own_workspace: false,
        session: SessionId::new(at, [3; 10]),
        invocation: InvocationId::new(at, [4; 10]),
        is_read: false,
        attempt: 1,
        timeout_ms: CALL_TIMEOUT_MS,
        prepared: None,
        failed_checks: Vec::new(),
        scope: Scope::default(),
        progress: None,
        code: None,
        may_ask_again: false,
        meter: Default::default(),
        trace_id: "0123456789abcdef0123456789abcdef".into(),
        chain: None,
    }
}

/// Building: what the source is and which actions it offers.
impl FakeSource {
    pub fn new(slug: &str) -> Self {
        let id = SourceId::parse(slug).expect("the test names a valid source");
        Self {
            title: slug.into(),
            id,
            guide: None,
            is_remote: false,
            needs_review: false,
            connection: None,
            space: None,
            shared: Arc::default(),
        }
    }

    #[must_use]
    pub fn titled(mut self, title: &str) -> Self {
        self.title = title.into();
        self
    }

    #[must_use]
    pub fn guided(mut self, guide: &str) -> Self {
        self.guide = Some(guide.into());
        self
    }

    /// Makes the source remote: it can be unreachable, and it changes its actions without announcing it.
    #[must_use]
    pub const fn remote(mut self) -> Self {
        self.is_remote = true;
        self
    }

    /// Makes every action need an approval until it is reviewed.
    #[must_use]
    pub const fn needing_review(mut self) -> Self {
        self.needs_review = true;
        self
    }

    /// Sets the connection whose credential its requests would carry.
    #[must_use]
    pub fn connected(mut self, connection: ConnectionId) -> Self {
        self.connection = Some(connection);
        self
    }

    /// Limits it to calls of one space.
    #[must_use]
    pub fn only_for(mut self, space: SpaceId) -> Self {
        self.space = Some(space);
        self
    }

    /// Adds the action `<slug>.<name>`: `action(..)` as changed by `define`.
    #[must_use]
    pub fn offering(self, name: &str, define: impl FnOnce(&mut Action)) -> Self {
        let mut action = action(&self.action_id(name));
        define(&mut action);
        self.shared.script.lock().actions.push(Arc::new(action));
        self
    }

    /// Sets the answer to every call that is not scripted. Without it such a call succeeds with `{"done": true}`.
    #[must_use]
    pub fn answering(self, answer: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> Self {
        self.shared.script.lock().otherwise = Some(Arc::new(answer));
        self
    }
}

/// Scripting: what happens next. Scripted answers are used in the order they were given, whatever the action.
impl FakeSource {
    pub fn will_answer(&self, value: Value) {
        self.shared.script.lock().calls.push_back(Step { answer: Ok(Output::new(value)), held: None });
    }

    pub fn will_output(&self, output: Output) {
        self.shared.script.lock().calls.push_back(Step { answer: Ok(output), held: None });
    }

    pub fn will_fail(&self, error: Error) {
        self.shared.script.lock().calls.push_back(Step { answer: Err(error), held: None });
    }

    /// The next call arrives, has its effect, and answers only once released.
    pub fn will_hold(&self, answer: Answer) -> Held {
        let (step, held) = Step::held(answer);
        self.shared.script.lock().calls.push_back(step);
        held
    }

    /// The next preview answers this. Without a script a preview repeats the params under `would`.
    pub fn will_preview(&self, answer: Answer) {
        self.shared.script.lock().previews.push_back(Step { answer, held: None });
    }

    /// The next preview arrives, and answers only once released.
    pub fn will_hold_preview(&self, answer: Answer) -> Held {
        let (step, held) = Step::held(answer);
        self.shared.script.lock().previews.push_back(step);
        held
    }

    /// The next check of an effect finds this. Without a script every declared check passes.
    pub fn will_check(&self, checks: Result<Vec<Check>, Error>) {
        self.shared.script.lock().checks.push_back(checks);
    }

    /// The next revert answers this. Without a script the revert succeeds.
    pub fn will_revert(&self, answer: Answer) {
        self.shared.script.lock().reverts.push_back(answer);
    }

    /// The next reconciliation finds this. Without a script the source cannot tell.
    pub fn will_reconcile(&self, found: Reconciled) {
        self.shared.script.lock().found.push_back(Step { answer: found, held: None });
    }

    /// Like `will_reconcile`, but the source answers only once released.
    pub fn will_hold_reconcile(&self, found: Reconciled) -> Held {
        let (step, held) = Step::held(found);
        self.shared.script.lock().found.push_back(step);
        held
    }

    /// The next preparation for an effect ends only once released.
    pub fn will_hold_prepare(&self) -> Held {
        let (step, held) = Step::held(());
        self.shared.script.lock().preparing.push_back(step);
        held
    }

    /// The next preparation for an effect fails like this. Without a script the source saves evidence for every reversible action.
    pub fn will_fail_to_prepare(&self, error: Error) {
        self.shared.script.lock().unprepared.push_back(error);
    }

    /// From now on no call can be made, for this reason. `None` makes calls possible again.
    pub fn becomes_impossible(&self, why: Option<Error>) {
        self.shared.script.lock().impossible = why;
    }

    /// From now on no effect can be reverted, for this reason. `None` makes reverts possible again.
    pub fn becomes_irrevertible(&self, why: Option<Error>) {
        self.shared.script.lock().irrevertible = why;
    }

    pub fn will_fail_to_list(&self, error: Error) {
        self.shared.script.lock().listings.push_back(Step { answer: Err(error), held: None });
    }

    /// The next listing of its actions answers, or fails like this, only once released.
    pub fn will_hold_list(&self, answer: Result<(), Error>) -> Held {
        let (step, held) = Step::held(answer);
        self.shared.script.lock().listings.push_back(step);
        held
    }

    /// From now on the source neither lists nor does anything. `None` brings it back.
    pub fn becomes_unreachable(&self, why: Option<&str>) {
        let unreachable = |why: &str| Error::Unreachable { source_id: self.id.to_string(), message: why.into() };
        self.shared.script.lock().unreachable = why.map(unreachable);
    }

    /// Offers one more action from now on. A remote source does not say so; see `says_it_changed`.
    pub fn offer(&self, name: &str, define: impl FnOnce(&mut Action)) {
        let mut action = action(&self.action_id(name));
        define(&mut action);
        let mut script = self.shared.script.lock();
        script.revision += u64::from(!self.is_remote);
        script.actions.push(Arc::new(action));
    }

    /// Changes an action's definition from now on, as an upstream might overnight. A remote source does not say so; see `says_it_changed`.
    pub fn redefine(&self, name: &str, change: impl FnOnce(&mut Action)) {
        let id = self.action_id(name);
        let mut script = self.shared.script.lock();
        script.revision += u64::from(!self.is_remote);
        let action = script.actions.iter_mut().find(|action| action.id.as_str() == id);
        change(Arc::make_mut(action.unwrap_or_else(|| panic!("the test redefines `{id}`, which is not offered"))));
    }

    /// Removes the action from now on.
    pub fn withdraw(&self, name: &str) {
        let id = self.action_id(name);
        let mut script = self.shared.script.lock();
        script.revision += u64::from(!self.is_remote);
        script.actions.retain(|action| action.id.as_str() != id);
    }

    /// Raises the revision, which says that the source's actions are no longer those it listed.
    pub fn says_it_changed(&self) {
        self.shared.script.lock().revision += 1;
    }
}

/// Looking back: what happened.
impl FakeSource {
    /// Every call so far, in the order of arrival, including refused ones.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.script.lock().recorded_calls.clone()
    }

    pub fn previews(&self) -> Vec<Call> {
        self.shared.script.lock().recorded_previews.clone()
    }

    /// Every effect that was to be reverted, with the evidence saved before it.
    pub fn reverts(&self) -> Vec<(Call, Value)> {
        self.shared.script.lock().recorded_reverts.clone()
    }

    /// For every reconciliation: whether the source was allowed to ask the provider again under the provider's own key.
    pub fn reconciliations(&self) -> Vec<bool> {
        self.shared.script.lock().recorded_reconciliations.clone()
    }

    /// How often the source was asked for its actions.
    pub fn lists(&self) -> u64 {
        self.shared.script.lock().lists
    }

    /// How often the source was asked to prepare an effect.
    pub fn preparations(&self) -> u64 {
        self.shared.script.lock().preparations
    }

    /// How often an effect happened. An answer that leaves the effect unknown counts too: it is the case that a retry would double.
    pub fn effects(&self) -> u64 {
        self.shared.effects.load(Ordering::SeqCst)
    }

    fn action_id(&self, name: &str) -> String {
        format!("{}.{name}", self.id)
    }
}

impl Held {
    /// Waits until the call has reached the source and its effect has happened.
    pub async fn arrived(&mut self) {
        self.arrived.wait_for(|arrived| *arrived > 0).await.expect("the call waits until it is released");
    }

    /// Lets the call answer, now or as soon as it arrives.
    pub fn release(&self) {
        self.released.send_modify(|released| *released += 1);
    }
}

type Answering = dyn Fn(&Call) -> Answer + Send + Sync;

#[derive(Default)]
struct Shared {
    script: Mutex<Script>,
    effects: AtomicU64,
}

#[derive(Default)]
struct Script {
    actions: Vec<Arc<Action>>,
    calls: VecDeque<Step<Answer>>,
    previews: VecDeque<Step<Answer>>,
    listings: VecDeque<Step<Result<(), Error>>>,
    lists: u64,
    revision: u64,
    unreachable: Option<Error>,
    checks: VecDeque<Result<Vec<Check>, Error>>,
    reverts: VecDeque<Answer>,
    found: VecDeque<Step<Reconciled>>,
    preparing: VecDeque<Step<()>>,
    unprepared: VecDeque<Error>,
    impossible: Option<Error>,
    irrevertible: Option<Error>,
    otherwise: Option<Arc<Answering>>,
    recorded_calls: Vec<Call>,
    recorded_previews: Vec<Call>,
    recorded_reverts: Vec<(Call, Value)>,
    recorded_reconciliations: Vec<bool>,
    preparations: u64,
}

struct Step<T> {
    answer: T,
    held: Option<(watch::Sender<u32>, watch::Receiver<u32>)>,
}

impl<T> Step<T> {
    fn held(answer: T) -> (Self, Held) {
        let (arrive, arrived) = watch::channel(0);
        let (released, release) = watch::channel(0);
        (Self { answer, held: Some((arrive, release)) }, Held { arrived, released })
    }

    async fn play(self) -> T {
        if let Some((arrive, mut release)) = self.held {
            arrive.send_modify(|arrived| *arrived += 1);
            if release.wait_for(|released| *released > 0).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        self.answer
    }
}

impl Script {
    fn find(&self, id: &ActionId) -> Result<&Action, Error> {
        let unknown = || Error::Refused { code: "unknown_action", message: format!("action `{id}` is not offered by this source") };
        self.actions.iter().find(|action| action.id == *id).map(AsRef::as_ref).ok_or_else(unknown)
    }
}

impl FakeSource {
    fn receive(&self, call: Call) -> Result<Step<Answer>, Error> {
        let mut script = self.shared.script.lock();
        script.recorded_calls.push(call.clone());
        if let Some(error) = &script.unreachable {
            return Err(error.clone());
        }
        script.find(&call.action)?;
        let step = script.calls.pop_front();
        let otherwise = script.otherwise.clone();
        // The closure belongs to the test and may use this very source, so the lock is released first.
        drop(script);
        let unscripted = || otherwise.map_or_else(|| Ok(Output::new(json!({ "done": true }))), |answer| answer(&call));
        Ok(step.unwrap_or_else(|| Step { answer: unscripted(), held: None }))
    }

    fn receive_preview(&self, call: Call) -> Result<Step<Answer>, Error> {
        let mut script = self.shared.script.lock();
        script.recorded_previews.push(call.clone());
        match script.find(&call.action)?.preview {
            Preview::Unsupported => Err(Error::PreviewUnsupported { action: call.action }),
            Preview::Supported => {
                let unscripted = || Step { answer: Ok(Output::new(json!({ "would": call.params }))), held: None };
                Ok(script.previews.pop_front().unwrap_or_else(unscripted))
            }
        }
    }
}

impl Source for FakeSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn title(&self) -> &str {
        &self.title
    }

    fn guide(&self) -> Option<Cow<'_, str>> {
        self.guide.as_deref().map(Cow::Borrowed)
    }

    fn list<'a>(&'a self, _org: &'a OrgId) -> Future<'a, Result<Vec<Arc<Action>>, Error>> {
        Box::pin(async move {
            let (actions, scripted) = {
                let mut script = self.shared.script.lock();
                script.lists += 1;
                if let Some(error) = &script.unreachable {
                    return Err(error.clone());
                }
                (script.actions.clone(), script.listings.pop_front())
            };
            match scripted {
                Some(step) => step.play().await.map(|()| actions),
                None => Ok(actions),
            }
        })
    }

    fn revision(&self) -> u64 {
        self.shared.script.lock().revision
    }

    fn is_remote(&self) -> bool {
        self.is_remote
    }

    fn needs_review(&self) -> bool {
        self.needs_review
    }

    fn connection(&self) -> Option<&ConnectionId> {
        self.connection.as_ref()
    }

    fn is_for(&self, space: &SpaceId) -> bool {
        self.space.as_ref().is_none_or(|own| own == space)
    }

    fn call<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Answer> {
        Box::pin(async move {
            let step = self.receive(Call { context: context.clone(), action: action.clone(), params: params.clone() })?;
            if has_effect(&step.answer) {
                self.shared.effects.fetch_add(1, Ordering::SeqCst);
            }
            step.play().await
        })
    }

    fn check<'a>(&'a self, _asked: Asked<'a>) -> Future<'a, Result<(), Error>> {
        let impossible = self.shared.script.lock().impossible.clone();
        Box::pin(std::future::ready(impossible.map_or(Ok(()), Err)))
    }

    fn prepare<'a>(
        &'a self,
        context: &'a CallContext,
        action: &'a ActionId,
        params: &'a Value,
    ) -> Future<'a, Result<Option<Value>, Error>> {
        Box::pin(async move {
            let (is_reversible, preparing) = {
                let mut script = self.shared.script.lock();
                script.preparations += 1;
                if let Some(error) = script.unprepared.pop_front() {
                    return Err(error);
                }
                let is_reversible = script.find(action).is_ok_and(|action| action.reversibility == Reversibility::Reversible);
                (is_reversible, script.preparing.pop_front())
            };
            if let Some(preparing) = preparing {
                preparing.play().await;
            }
            let call = Call { context: context.clone(), action: action.clone(), params: params.clone() };
            Ok(is_reversible.then(|| kept_for(&call)))
        })
    }

    fn verify<'a>(
        &'a self,
        _context: &'a CallContext,
        action: &'a ActionId,
        _params: &'a Value,
        _output: &'a Output,
    ) -> Future<'a, Result<Vec<Check>, Error>> {
        Box::pin(async move {
            let mut script = self.shared.script.lock();
            let scripted = script.checks.pop_front();
            scripted.unwrap_or_else(|| Ok(script.find(action)?.checks.iter().map(Check::passed).collect()))
        })
    }

    fn revert<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, evidence: &'a Value) -> Future<'a, Answer> {
        Box::pin(async move {
            let mut script = self.shared.script.lock();
            let call = Call { context: context.clone(), action: action.clone(), params: Value::Null };
            script.recorded_reverts.push((call, evidence.clone()));
            script.reverts.pop_front().unwrap_or_else(|| Ok(Output::new(json!({ "restored": true }))))
        })
    }

    fn check_revert<'a>(&'a self, _context: &'a CallContext, _action: &'a ActionId, _evidence: &'a Value) -> Future<'a, Result<(), Error>> {
        let irrevertible = self.shared.script.lock().irrevertible.clone();
        Box::pin(std::future::ready(irrevertible.map_or(Ok(()), Err)))
    }

    fn reconcile<'a>(
        &'a self,
        context: &'a CallContext,
        _action: &'a ActionId,
        _params: &'a Value,
    ) -> Future<'a, Result<Reconciled, Error>> {
        Box::pin(async move {
            let found = {
                let mut script = self.shared.script.lock();
                script.recorded_reconciliations.push(context.may_ask_again);
                script.found.pop_front()
            };
            Ok(match found {
                Some(found) => found.play().await,
                None => Reconciled::Unknown,
            })
        })
    }

    fn preview<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Answer> {
        Box::pin(async move {
            let step = self.receive_preview(Call { context: context.clone(), action: action.clone(), params: params.clone() })?;
            step.play().await
        })
    }
}

fn kept_for(call: &Call) -> Value {
    json!({ "kept_before": call.context.invocation, "attempt": call.context.attempt })
}

fn has_effect(answer: &Answer) -> bool {
    match answer {
        Ok(_) => true,
        Err(error) => match error.after() {
            AfterError::Unknown => true,
            AfterError::NoEffect => false,
        },
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
