//! Measures a call beside many other actions: everything up to its decision, with ten actions in the catalogue and with ten thousand.

use crate::stats::{Spread, percentile};
use anyhow::{Context, Result};
use countersign_core::fault::Faults;
use countersign_core::source::{CallContext, Error, OrgSources, Output, Source, SourceRegistry};
use countersign_core::{Action, ActionId, Call, Future, OrgId, SourceId, Tier};
use pipeline::{Pipeline, Ports, Question, Settings};
use serde_json::{Value, json};
use server::{OsRandom, SystemClock};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;
use store::{InvocationFilter, MemoryLimiter, PageRequest, Store};

pub(crate) const FEW: usize = 10;
pub(crate) const MANY: usize = 10_000;
const TURNS: usize = 2_000;
const REPETITIONS: usize = 5;

/// The p50 time of a call with many actions, as a multiple of that with few. The store is one that a server has left.
pub(crate) async fn measure(store: &Store) -> Result<Spread> {
    let org = store.list_orgs().await?.into_iter().next().context("the store has no org")?.id;
    let page = PageRequest { limit: 1, after: None };
    let sampled = store.list_invocations(&org, &InvocationFilter::default(), &page).await?.items.into_iter().next();
    let session = sampled.context("the store has no invocation")?.session;
    let (few, many) = (pipeline(store, FEW)?, pipeline(store, MANY)?);
    let question = Question {
        org,
        session,
        action: "wide.action_7".to_owned(),
        call: Call::new(json!({ "text": "hello" })),
        has_params: true,
        known_grants: Vec::new(),
    };
    let mut ratios = Vec::with_capacity(REPETITIONS);
    for _ in 0..REPETITIONS {
        ratios.push(p50_us(&many, &question).await? / p50_us(&few, &question).await?);
    }
    Ok(Spread::of(ratios))
}

async fn p50_us(pipeline: &Pipeline, question: &Question) -> Result<f64> {
    let mut times = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        let began = Instant::now();
        pipeline.explain(question.clone()).await?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    percentile(&times, 0.50).map(|time| time.as_secs_f64() * 1e6).context("nothing was timed")
}

fn pipeline(store: &Store, actions: usize) -> Result<Pipeline> {
    let clock = Arc::new(SystemClock);
    let ports = Ports {
        ledger: Arc::new(store.clone()),
        keyring: Arc::new(store.clone()),
        limiter: Arc::new(MemoryLimiter::new(u32::MAX, clock.clone())),
        clock,
        random: Arc::new(OsRandom::default()),
        sources: Vec::new(),
        registries: vec![Arc::new(OnlyWide(Arc::new(vec![Arc::new(Wide::new(actions)?)])))],
        listings: Arc::new(store.clone()),
        commands: None,
        energy: None,
        blobs: None,
        faults: Faults::default(),
    };
    Ok(Pipeline::new(ports, Settings::default()))
}

/// A registry in which every org has one wide source.
struct OnlyWide(OrgSources);

impl SourceRegistry for OnlyWide {
    fn sources<'a>(&'a self, _org: &'a OrgId) -> Future<'a, OrgSources> {
        Box::pin(std::future::ready(Arc::clone(&self.0)))
    }
}

/// A source with many actions, none of which is ever called.
struct Wide {
    id: SourceId,
    actions: Vec<Arc<Action>>,
}

impl Wide {
    fn new(count: usize) -> Result<Self> {
        let action = |number| {
            let id = ActionId::parse(&format!("wide.action_{number}"))?;
            let schema = json!({ "type": "object", "properties": { "text": { "type": "string", "maxLength": 100 } } });
            let (title, description) = (format!("Action {number}"), format!("Does what is number {number}."));
            Ok(Arc::new(Action { title, description, params_schema: schema, result_schema: json!({}), ..Action::new(id, Tier::R0) }))
        };
        Ok(Self { id: SourceId::parse("wide")?, actions: (0..count).map(action).collect::<Result<_>>()? })
    }
}

impl Source for Wide {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn title(&self) -> &str {
        self.id.as_str()
    }

    fn guide(&self) -> Option<Cow<'_, str>> {
        None
    }

    fn list<'a>(&'a self, _org: &'a OrgId) -> Future<'a, Result<Vec<Arc<Action>>, Error>> {
        Box::pin(std::future::ready(Ok(self.actions.clone())))
    }

    fn call<'a>(&'a self, _context: &'a CallContext, action: &'a ActionId, _params: &'a Value) -> Future<'a, Result<Output, Error>> {
        Box::pin(std::future::ready(Err(never(action))))
    }

    fn preview<'a>(&'a self, _context: &'a CallContext, action: &'a ActionId, _params: &'a Value) -> Future<'a, Result<Output, Error>> {
        Box::pin(std::future::ready(Err(never(action))))
    }
}

fn never(action: &ActionId) -> Error {
    Error::Refused { code: "not_for_calls", message: format!("action `{action}` is only looked up") }
}
