//! What needs no disk and no network: one signature, and one decision with everything it is made of.

use crate::cpu::{self, Watched};
use crate::stats::Spread;
use anyhow::{Context, Result};
use countersign_core::keyring::{Keyring, SpaceKey};
use countersign_core::ledger::{ModeRow, ModeRows};
use countersign_core::{Invocation, Mode, Principal, Secret, json};
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
}

/// Measures on the rows and keys of a store a server has left; `payload` is one it signed.
pub(crate) async fn measure(store: &Store, payload: String) -> Result<Pure> {
    let org = store.list_orgs().await?.into_iter().next().context("the store has no org")?.id;
    let page = PageRequest { limit: 1, after: None };
    let invocation = store.list_invocations(&org, &InvocationFilter::default(), &page).await?.items.into_iter().next();
    let invocation = invocation.context("the store has no invocation")?;
    let key = store.space_key(&org, &invocation.space).await?;
    tokio::task::spawn_blocking(move || {
        let seal = SealingKey::from_seed(&Secret::new([7; 32]));
        Ok(Pure {
            signature_us: per_turn(|| {
                black_box(receipt::envelope::sign(&seal, black_box(&payload)));
                Ok(())
            })?,
            decision_us: per_turn(|| decide(&invocation, &key))?,
        })
    })
    .await?
}

/// Digests of the params, every gate, the mode, and the digest of the rules: what stands between a valid call and its clearance.
fn decide(invocation: &Invocation, key: &Arc<dyn SpaceKey>) -> Result<()> {
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
    let requires = ["files.write".to_owned()];
    let call = policy::Call {
        principal: &principal,
        requires: &requires,
        tier: invocation.tier,
        space: &invocation.space,
        params: &invocation.params,
    };
    let verdicts = policy::gate(&call);
    anyhow::ensure!(policy::denied(&verdicts).is_none(), "the sampled call is denied");
    let rules = policy::Rules {
        version: 1,
        modes: ModeRows {
            automation: None,
            org: Some(ModeRow { mode: Mode::Allow, lock: countersign_core::decision::Lock::Open, version: 1 }),
        },
        band: countersign_core::Band::Green,
    };
    let decision = policy::decide(
        &policy::Facts { tier: invocation.tier, drift: countersign_core::decision::Drift::None, asks: None, stopped: None },
        &rules,
    );
    anyhow::ensure!(decision.mode == Mode::Allow, "the sampled call is not allowed");
    black_box((decision, policy::digest::policy_slice(&rules)));
    Ok(())
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
