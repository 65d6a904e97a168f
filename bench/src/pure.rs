//! What needs no disk and no network: one signature, and one decision with everything it is made of.

use crate::cpu::{self, Watched};
use crate::stats::Spread;
use anyhow::{Context, Result};
use countersign_core::action::{Preview, Profile, Repeatability, Reversibility};
use countersign_core::decision::Drift;
use countersign_core::keyring::{Keyring, SpaceKey};
use countersign_core::ledger::{ModeRow, ModeRows};
use countersign_core::policies::PolicyTexts;
use countersign_core::principal::Standing;
use countersign_core::{Action, Band, Invocation, Mode, Principal, Secret, Space, json};
use policy::Policies;
use receipt::key::SealingKey;
use std::hint::black_box;
use std::sync::Arc;
use store::{InvocationFilter, PageRequest, Store};

const TURNS: u32 = 20_000;
const REPETITIONS: usize = 3;

/// Microseconds of processor time each.
pub(crate) struct Pure {
    pub(crate) signature_us: Spread,
    pub(crate) decision_us: Spread,
    /// The same with so many policies of the org's own: eight about the action, the rest about others.
    pub(crate) decisions_by_policies: Vec<(usize, Spread)>,
}

/// How many policies an org may have.
const POLICIES: [usize; 3] = [8, 100, 1_000];

/// Measures on the rows and keys of a store a server has left; `payload` is one it signed.
pub(crate) async fn measure(store: &Store, payload: String) -> Result<Pure> {
    let org = store.list_orgs().await?.into_iter().next().context("the store has no org")?.id;
    let page = PageRequest { limit: 1, after: None };
    let invocation = store.list_invocations(&org, &InvocationFilter::default(), &page).await?.items.into_iter().next();
    let invocation = invocation.context("the store has no invocation")?;
    let key = store.space_key(&org, &invocation.space).await?;
    let space = store.find_space(&org, &invocation.space).await?.context("the invocation has no space")?;
    tokio::task::spawn_blocking(move || {
        let seal = SealingKey::from_seed(&Secret::new([7; 32]));
        Ok(Pure {
            signature_us: per_turn(|| {
                black_box(receipt::envelope::sign(&seal, black_box(&payload)));
                Ok(())
            })?,
            decision_us: per_turn(|| decide(&invocation, &space, None, &key))?,
            decisions_by_policies: POLICIES
                .into_iter()
                .map(|count| with_policies(count, &invocation, &space, &key))
                .collect::<Result<_>>()?,
        })
    })
    .await?
}

/// Digests of the params, every gate, the mode, and the digest of the rules: what stands between a valid call and its clearance.
fn decide(invocation: &Invocation, space: &Space, policies: Option<&Policies>, key: &Arc<dyn SpaceKey>) -> Result<()> {
    let action = &action_of(invocation);
    let principal = Principal {
        org: invocation.org.clone(),
        id: invocation.principal.clone(),
        name: String::new(),
        role: None,
        owner: invocation.owner.clone(),
        session: Some(invocation.session.clone()),
        scopes: Vec::new(),
    };
    let params = json::canonical(&invocation.params)?;
    black_box((key.digest("raw", params.as_bytes()), key.digest("params", params.as_bytes())));
    let call = policy::Call {
        principal: &principal,
        action,
        space,
        params: &invocation.params,
        standing: Standing { role: Some(countersign_core::principal::Role::Owner), max_band: Band::Black },
        now: invocation.created_at,
        consents: &[],
        drift: Drift::None,
        labels: &[],
        cross_space_listed: false,
        approval: None,
        obtainable: None,
    };
    let verdicts = policy::gate(&call, policies);
    anyhow::ensure!(policy::denied(&verdicts).is_none(), "the sampled call is denied");
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
    let decision = policy::decide(&policy::Facts { tier: invocation.tier, drift: Drift::None, asks: None, stopped: None }, &rules);
    anyhow::ensure!(decision.mode == Mode::Allow, "the sampled call is not allowed");
    black_box((decision, policy::digest::policy_slice(&rules)));
    Ok(())
}

fn with_policies(count: usize, invocation: &Invocation, space: &Space, key: &Arc<dyn SpaceKey>) -> Result<(usize, Spread)> {
    let policies = policy::cedar::load(&texts(count, invocation)).map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
    anyhow::ensure!(policies.len() == count, "{} policies were made", policies.len());
    Ok((count, per_turn(|| decide(invocation, space, Some(&policies), key))?))
}

/// Two policies a gate about the action, none of which forbids the sampled call; the rest about actions nobody calls.
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

/// An action like the sampled call's.
fn action_of(invocation: &Invocation) -> Action {
    Action {
        id: invocation.action.clone(),
        version: String::new(),
        title: String::new(),
        description: String::new(),
        tier: invocation.tier,
        params_schema: serde_json::Value::Null,
        result_schema: serde_json::Value::Null,
        requires: vec!["files.write".to_owned()],
        effects: Vec::new(),
        timeout_ms: 1_000,
        idempotency_key_fields: Vec::new(),
        reversibility: Reversibility::Reversible,
        reversible_seconds: None,
        checks: Vec::new(),
        repeatability: Repeatability::Repeatable,
        preview: Preview::Supported,
        preview_reads: None,
        profile: Profile::InProcess,
        exempt_from_redaction: Vec::new(),
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
