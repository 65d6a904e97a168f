//! Measures the parts that need no disk and no network: one signature, and one complete decision.

use crate::cpu::{self, Watched};
use crate::stats::{Spread, percentile};
use anyhow::{Context, Result};
use countersign_core::action::{Effect, Preview, Profile, Repeatability, Reversibility};
use countersign_core::decision::Drift;
use countersign_core::keyring::{Keyring, SpaceKey};
use countersign_core::ledger::{ModeRow, ModeRows};
use countersign_core::policies::PolicyTexts;
use countersign_core::ports::Rules;
use countersign_core::principal::Standing;
use countersign_core::{Action, Band, Invocation, Mode, Principal, Secret, Space, json};
use policy::{Policies, Provenance};
use receipt::key::SealingKey;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use store::{InvocationFilter, PageRequest, Store};

const TURNS: u32 = 20_000;
const REPETITIONS: usize = 3;

pub(crate) struct Pure {
    /// CPU time in microseconds.
    pub(crate) signature_us: Spread,
    pub(crate) decision: Waited,
    /// The decision with this many policies of the org: eight about the action, the rest about others.
    pub(crate) decisions_by_policies: Vec<(usize, Waited)>,
    /// The decision with this many policies, one of which requires an approval. Its gate is then evaluated a second time, as if approved.
    pub(crate) decision_that_asks: (usize, Waited),
}

/// How long single decisions take, in microseconds of wall-clock time.
#[derive(Clone, Copy)]
pub(crate) struct Waited {
    pub(crate) p50_us: Spread,
    pub(crate) p99_us: Spread,
}

/// The numbers of policies to measure with.
const POLICIES: [usize; 3] = [8, 100, 1_000];
const POLICIES_WHEN_ASKING: usize = 100;

/// Measures with the rows and keys of a store that a server has left. `payload` is one that the server signed.
pub(crate) async fn measure(store: &Store, payload: String) -> Result<Pure> {
    let org = store.list_orgs().await?.into_iter().next().context("the store has no org")?.id;
    let page = PageRequest { limit: 1, after: None };
    let invocation = store.list_invocations(&org, &InvocationFilter::default(), &page).await?.items.into_iter().next();
    let invocation = invocation.context("the store has no invocation")?;
    let key = store.space_key(&org, &invocation.space).await?;
    let space = store.find_space(&org, &invocation.space).await?.context("the invocation has no space")?;
    tokio::task::spawn_blocking(move || {
        let seal = SealingKey::from_seed(&Secret::new([7; 32]));
        let sampled = Sampled::of(invocation, space, key)?;
        Ok(Pure {
            signature_us: per_turn(|| {
                black_box(receipt::envelope::sign(&seal, black_box(&payload)));
                Ok(())
            })?,
            decision: each_turn(|| sampled.decide(None, Mode::Allow))?,
            decisions_by_policies: POLICIES.into_iter().map(|count| sampled.with_policies(count)).collect::<Result<_>>()?,
            decision_that_asks: sampled.asking()?,
        })
    })
    .await?
}

/// A call that was made, and the facts it is decided by.
struct Sampled {
    invocation: Invocation,
    space: Space,
    key: Arc<dyn SpaceKey>,
    action: Action,
    principal: Principal,
    obtainable: policy::Approval,
    canaries: Vec<String>,
}

impl Sampled {
    fn of(invocation: Invocation, space: Space, key: Arc<dyn SpaceKey>) -> Result<Self> {
        let principal = Principal {
            org: invocation.org.clone(),
            id: invocation.principal.clone(),
            name: String::new(),
            role: None,
            owner: invocation.owner.clone(),
            session: Some(invocation.session.clone()),
            scopes: Vec::new(),
            token: None,
            device: None,
        };
        let by = vec![invocation.owner.clone().context("nobody stands behind the sampled call")?];
        let obtainable = policy::Approval { by, expires: invocation.created_at.plus_seconds(300) };
        let canaries = vec!["a text that nobody honest sends away".to_owned()];
        Ok(Self { action: action_of(&invocation), principal, obtainable, canaries, invocation, space, key })
    }

    /// Everything between a valid call and its clearance: the digests of the params, every gate and the scan of the content, the mode, and
    /// the digest of the rules.
    fn decide(&self, policies: Option<&Policies>, expected: Mode) -> Result<()> {
        let Self { invocation, action, .. } = self;
        let params = json::canonical(&invocation.call.params)?;
        black_box((self.key.digest("raw", params.as_bytes()), self.key.digest("params", params.as_bytes())));
        let call = policy::CallFacts {
            principal: &self.principal,
            action,
            space: &self.space,
            params: &invocation.call.params,
            claimed_space: None,
            standing: Standing { role: Some(countersign_core::principal::Role::Owner), max_band: Band::Black },
            now: invocation.created_at,
            consents: &[],
            drift: Drift::None,
            labels: &[],
            cross_space_listed: false,
            approval: None,
            obtainable: Some(&self.obtainable),
        };
        let mut verdicts = policy::gate(&call, policies);
        anyhow::ensure!(policy::denied(&verdicts).is_none(), "the sampled call is denied");
        let provenance = Provenance { canaries: &self.canaries, ..Provenance::default() };
        let findings = policy::scan(action, &invocation.call.params, &provenance);
        anyhow::ensure!(findings.is_empty(), "the sampled call is dangerous");
        let safety = policy::scan::verdict(&findings);
        if let Some(said) = verdicts.iter_mut().find(|said| said.gate == safety.gate) {
            *said = safety;
        }
        let slice = policies.and_then(|policies| policies.slice_of(action));
        let rules = policy::Rules {
            version: 1,
            policies: slice.as_deref().map(policy::digest::policies),
            modes: ModeRows {
                automation: None,
                org: Some(ModeRow { mode: Mode::Allow, lock: countersign_core::decision::Lock::Open, version: 1 }),
            },
            band: Band::Green,
        };
        let facts = policy::Facts {
            tier: invocation.tier,
            profile: Profile::InProcess,
            drift: Drift::None,
            asks: policy::asking(&verdicts),
            stopped: None,
        };
        let decision = policy::decide(&facts, &rules);
        anyhow::ensure!(decision.mode == expected, "the sampled call is decided otherwise: `{}`", decision.mode);
        black_box((decision, policy::digest::policy_slice(&rules)));
        Ok(())
    }

    fn with_policies(&self, count: usize) -> Result<(usize, Waited)> {
        let policies = loaded(&texts(count, &self.invocation), count)?;
        Ok((count, each_turn(|| self.decide(Some(&policies), Mode::Allow))?))
    }

    /// The decision where one of the policies is satisfied only by an approval.
    fn asking(&self) -> Result<(usize, Waited)> {
        let mut texts = texts(POLICIES_WHEN_ASKING - 1, &self.invocation);
        texts.abac.push_str(&format!(
            "@id(\"bench.asks\") forbid (principal, action == Countersign::Action::\"{}\", resource) unless {{ context has approval }};\n",
            self.invocation.action
        ));
        let policies = loaded(&texts, POLICIES_WHEN_ASKING)?;
        Ok((POLICIES_WHEN_ASKING, each_turn(|| self.decide(Some(&policies), Mode::RequireApproval))?))
    }
}

fn loaded(texts: &PolicyTexts, count: usize) -> Result<Policies> {
    let policies = policy::cedar::load(texts).map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
    anyhow::ensure!(policies.len() == count, "{} policies were made", policies.len());
    Ok(policies)
}

/// Two policies per gate about the action, none of which forbids the sampled call; the rest are about actions that nobody calls.
fn texts(count: usize, invocation: &Invocation) -> PolicyTexts {
    let mut texts = PolicyTexts::default();
    for number in 0..count {
        let text = match number % 4 {
            0 => &mut texts.rbac,
            1 => &mut texts.abac,
            2 => &mut texts.consent,
            _ => &mut texts.space,
        };
        let action = if number < 8 { invocation.action.to_string() } else { format!("other.action_{number}") };
        let condition = if number < 4 { "context.tier > 4" } else { "resource.band > 2 && !(context has approval)" };
        text.push_str(&format!(
            "@id(\"bench.{number}\") forbid (principal, action == Countersign::Action::\"{action}\", resource) when {{ {condition} }};\n"
        ));
    }
    texts
}

/// An action like the sampled call's, but one that sends its content out, because the scan then takes longest.
fn action_of(invocation: &Invocation) -> Action {
    Action {
        version: String::new(),
        title: String::new(),
        description: String::new(),
        params_schema: serde_json::Value::Null,
        result_schema: serde_json::Value::Null,
        requires: vec!["files.write".to_owned()],
        effects: vec![Effect::NetworkCall],
        timeout_ms: 1_000,
        reversibility: Reversibility::Reversible,
        repeatability: Repeatability::Repeatable,
        preview: Preview::Supported,
        ..Action::new(invocation.action.clone(), invocation.tier)
    }
}

fn per_turn(mut turn: impl FnMut() -> Result<()>) -> Result<Spread> {
    let watched = Watched::thread(cpu::this_thread()?);
    let mut figures = Vec::with_capacity(REPETITIONS);
    for _ in 0..REPETITIONS {
        let earlier = watched.read()?;
        for _ in 0..TURNS {
            turn()?;
        }
        figures.push(watched.read()?.micros_since(&earlier) / f64::from(TURNS));
    }
    Ok(Spread::of(figures))
}

/// Measures each turn separately, because a mean would hide the slow ones.
fn each_turn(mut turn: impl FnMut() -> Result<()>) -> Result<Waited> {
    let (mut p50, mut p99) = (Vec::with_capacity(REPETITIONS), Vec::with_capacity(REPETITIONS));
    for _ in 0..REPETITIONS {
        let mut times = Vec::with_capacity(TURNS as usize);
        for _ in 0..TURNS {
            let began = Instant::now();
            turn()?;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        let at = |share: f64| percentile(&times, share).map(|time| time.as_secs_f64() * 1e6).context("nothing was timed");
        p50.push(at(0.50)?);
        p99.push(at(0.99)?);
    }
    Ok(Waited { p50_us: Spread::of(p50), p99_us: Spread::of(p99) })
}
