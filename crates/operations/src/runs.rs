//! Runs of automations: who may start, see, cancel and repeat them.

use super::automations::rights::{self, Right};
use super::{Error, automations, sight};
use crate::App;
use crate::limits::FIRE_KEY_CHARS_MAX;
use ::runs::{Again, Asked};
use countersign_core::automation::Firing;
use countersign_core::json::{canonical_digits, outweighs};
use countersign_core::limits::LIGHT_BYTES_MAX;
use countersign_core::ports::runs::{Asker, Fired};
use countersign_core::ports::{Automations, Invocations, Runs};
use countersign_core::run::{Run, RunStatus, StepRecord};
use countersign_core::{AutomationId, Digest, Invocation, OrgId, Principal, RunId, Space};
use durable::heavy;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use store::{Page, PageRequest, RunFilter};

/// How often a run is looked at while somebody waits for its end.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A firing, and whether an earlier request with the same key had made it.
pub struct Answered {
    pub firing: Firing,
    pub is_replayed: bool,
}

pub async fn list(
    app: &App,
    by: &Principal,
    automation: Option<&str>,
    status: Option<RunStatus>,
    request: &PageRequest,
) -> Result<Page<Run>, Error> {
    super::must_read(by)?;
    let automation = match automation {
        Some(text) => Some(automations::find(app, by, text).await?.id),
        None => None,
    };
    let filter = RunFilter { automation, status, hidden: sight::hidden(app, by).await? };
    Ok(app.store().list_runs(&by.org, &filter, request).await?)
}

/// The names of the automations that these are runs of.
pub async fn names_of(app: &App, by: &Principal, runs: &[Run]) -> Result<BTreeMap<AutomationId, String>, Error> {
    let mut names = BTreeMap::new();
    for id in runs.iter().map(|run| &run.automation).collect::<BTreeSet<_>>() {
        if let Some(found) = app.store().find_automation(&by.org, id).await? {
            names.insert(found.id, found.name);
        }
    }
    Ok(names)
}

async fn visible(app: &App, by: &Principal, text: &str) -> Result<(Run, Space), Error> {
    let unknown = || Error::not_found("run", text);
    let id = RunId::parse(text).map_err(|_| unknown())?;
    let run = app.store().find_run(&by.org, &id).await?.ok_or_else(unknown)?;
    let space = rights::visible(app, by, &run.space, unknown).await?;
    Ok((run, space))
}

/// A run with its steps. The answer is held back until it has ended, at most this long.
pub async fn find(app: &App, by: &Principal, text: &str, limit: Duration) -> Result<(Run, Vec<StepRecord>), Error> {
    let (run, space) = visible(app, by, text).await?;
    rights::must_have(app, by, Right::Read, &space).await?;
    let run = watched(app, run, limit).await?;
    let steps = app.store().list_steps(&by.org, &run.id).await?;
    Ok((run, steps))
}

async fn watched(app: &App, run: Run, limit: Duration) -> Result<Run, Error> {
    let until = tokio::time::Instant::now() + limit;
    let mut last = run;
    while !last.status.is_final() && tokio::time::Instant::now() < until {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            // A server that stops answers everybody who waits.
            () = app.pipeline().stopping() => break,
        }
        last = app.store().find_run(&last.org, &last.id).await?.unwrap_or(last);
    }
    Ok(last)
}

/// The calls of these steps, as far as they are kept.
pub async fn calls_of(app: &App, org: &OrgId, steps: &[StepRecord]) -> Result<Vec<Option<Invocation>>, Error> {
    let mut calls = Vec::with_capacity(steps.len());
    for step in steps {
        calls.push(match &step.invocation {
            Some(id) => app.store().find_invocation(org, id).await?,
            None => None,
        });
    }
    Ok(calls)
}

/// What the trigger of a run was given, as far as it may be shown.
pub async fn payload_of(app: &App, run: &Run) -> Result<Option<Value>, Error> {
    let Some(kept) = app.store().find_trigger_payload(&run.org, &run.id).await? else { return Ok(None) };
    let (pipeline, org, space) = (app.pipeline().clone(), run.org.clone(), run.space.clone());
    let is_large = outweighs(&kept.value, LIGHT_BYTES_MAX);
    let told = async move { pipeline.tell_params(&org, &space, &kept.value).await };
    Ok(Some(if is_large { heavy::run(told).await } else { told.await }))
}

/// Runs an automation because somebody asked for it by name.
pub async fn start(app: &App, by: &Principal, text: &str, inputs: Value, key: Option<&str>) -> Result<Answered, Error> {
    let automation = automations::runnable(app, by, text).await?;
    let key = key.map(|key| keyed(key, &inputs)).transpose()?;
    let asked = Asked { automation, by: asker(by), inputs, key };
    answered(app.engine().run_by_hand(asked).await?, text)
}

/// Runs a run once more: all of it, or from one of its steps on.
pub async fn rerun(app: &App, by: &Principal, text: &str, from_step: Option<&str>, with: Again) -> Result<Answered, Error> {
    let (run, space) = visible(app, by, text).await?;
    rights::must_have(app, by, Right::Run, &space).await?;
    let steps = app.store().list_steps(&by.org, &run.id).await?;
    answered(app.engine().rerun(&run, &steps, from_step, with, asker(by)).await?, text)
}

fn asker(by: &Principal) -> Asker {
    Asker { by: by.id.clone(), person: by.owner.clone() }
}

/// Asks for the end of a run. Whoever works on it ends it; an effect in flight still gets its receipt.
pub async fn cancel(app: &App, by: &Principal, text: &str) -> Result<Run, Error> {
    let (run, space) = visible(app, by, text).await?;
    rights::must_have(app, by, Right::Run, &space).await?;
    if run.status.is_final() {
        return Err(Error::RunEnded { run: run.id });
    }
    let cancelled = app.store().cancel_run(&by.org, &run.id, &by.id).await?;
    cancelled.ok_or_else(|| Error::not_found("run", text))
}

/// What became of a firing; those that the engine refuses never get here.
pub(super) fn answered(fired: Fired, text: &str) -> Result<Answered, Error> {
    match fired {
        Fired::New(firing) => Ok(Answered { firing, is_replayed: false }),
        Fired::Earlier(firing) => Ok(Answered { firing, is_replayed: true }),
        Fired::KeyReused(firing) => Err(::runs::Error::KeyReused { firing: Box::new(firing) }.into()),
        Fired::UnknownAutomation => Err(Error::not_found("automation", text)),
    }
}

/// An idempotency key with the fingerprint of what was asked for with it.
pub(super) fn keyed(key: &str, asked: &Value) -> Result<(String, Digest), Error> {
    let fits = (1..=FIRE_KEY_CHARS_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    if !fits {
        return Err(Error::invalid(format!("an idempotency key has 1 to {FIRE_KEY_CHARS_MAX} visible ASCII characters, and no space")));
    }
    let canonical = canonical_digits(asked).map_err(|error| Error::invalid(error.to_string()))?;
    Ok((key.to_owned(), Digest::new(Sha256::digest(canonical.as_bytes()).into())))
}
