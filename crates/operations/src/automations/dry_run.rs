//! A dry run of a plan: what would happen to each step, and with which params, as far as that is known before anything is called.

use super::rights::{self, Right};
use super::{Checked, check, definition, last_run, must_stay, space_for, visible};
use crate::App;
use crate::Error;
use crate::runs::find as find_run;
use automation::definition::Definition;
use automation::inputs::{self, Defaults};
use automation::template;
use countersign_core::automation::{Automation, TriggerType};
use countersign_core::ports::Runs;
use countersign_core::run::{Run, RunStatus, StepRecord};
use countersign_core::{AutomationId, Principal, RunId, Space};
use runs::{Known, Program, Rendered};
use serde_json::{Value, json};
use std::time::Duration;

/// What is to be tried.
pub struct Asked<'a> {
    /// A saved automation, or the one that the definition would be a new version of.
    pub automation: Option<&'a str>,
    pub space: Option<&'a str>,
    /// Absent: the saved one.
    pub definition: Option<&'a Value>,
    pub inputs: Option<Value>,
    /// An earlier run; absent: the last one that succeeded.
    pub run: Option<&'a str>,
}

pub struct DryRun {
    pub checked: Checked,
    /// In the order of `steps`, with what may be shown of their params.
    pub steps: Vec<Rendered>,
    /// The earlier run that stands for what is not known.
    pub run: Option<RunId>,
}

pub async fn dry_run(app: &App, by: &Principal, asked: Asked<'_>) -> Result<DryRun, Error> {
    let (saved, space) = match asked.automation {
        Some(text) => {
            let (saved, space) = visible(app, by, text).await?;
            must_stay(&space, asked.space)?;
            (Some(saved), space)
        }
        None => (None, space_for(app, by, asked.space).await?),
    };
    let right = if asked.definition.is_some() { Right::Write } else { Right::Read };
    rights::must_have(app, by, right, &space).await?;
    let stored = match (asked.definition, &saved) {
        (None, Some(saved)) => Some(definition(app, saved, saved.definition).await?),
        (_, _) => None,
    };
    let Some(written) = asked.definition.or(stored.as_deref()) else {
        return Err(Error::invalid("there is nothing to try: name an `automation`, or send a `definition`"));
    };
    let checked = check(app, by, &space, saved.as_ref().map(|saved| &saved.id), written).await?;
    let program = Program::of(&checked.read.normalised).map_err(|message| pipeline::Error::Internal { message })?;
    let earlier = match asked.run {
        Some(text) => Some(find_run(app, by, text, Duration::ZERO).await?),
        None => last_succeeded(app, by, saved.as_ref(), &space).await?,
    };
    if let (Some((run, _)), Some(saved)) = (&earlier, &saved)
        && run.automation != saved.id
    {
        return Err(Error::invalid(format!("run `{}` is one of another automation", run.id)));
    }
    let run = facts(app, by, &asked, &space, saved.as_ref(), &checked.read.definition, earlier.as_ref().map(|(run, _)| run));
    let last_fired_at = match &saved {
        Some(saved) => app.engine().last_fired_at(saved).await?,
        None => run.started_at,
    };
    let defaults = Defaults { last_fired_at, creator: &run.creator_id, space_default: &space.defaults };
    let inputs = inputs_of(&asked, &checked.read.definition, defaults, earlier.as_ref().map(|(run, _)| run))?;
    let known = Known { run, inputs, earlier };
    let mut steps = app.engine().render_steps(&space.org, &program, &known).await;
    for step in &mut steps {
        if let Some(params) = step.params.take() {
            step.params = Some(app.pipeline().tell_params(&space.org, &space.id, &params).await);
        }
    }
    Ok(DryRun { checked, steps, run: known.earlier.map(|(run, _)| run.id) })
}

/// SECURITY: whoever may propose definitions, and may not read runs, reads none in this way either.
async fn last_succeeded(
    app: &App,
    by: &Principal,
    saved: Option<&Automation>,
    space: &Space,
) -> Result<Option<(Run, Vec<StepRecord>)>, Error> {
    let Some(saved) = saved else { return Ok(None) };
    if rights::must_have(app, by, Right::Read, space).await.is_err() {
        return Ok(None);
    }
    let Some(last) = last_run(app, saved, Some(RunStatus::Succeeded)).await? else { return Ok(None) };
    let Some(run) = app.store().find_run(&saved.org, &last.id).await? else { return Ok(None) };
    let steps = app.store().list_steps(&saved.org, &run.id).await?;
    Ok(Some((run, steps)))
}

/// What templates would see as `run`, if somebody ran it by hand now. There is no such run, so its id is made up.
fn facts(
    app: &App,
    by: &Principal,
    asked: &Asked<'_>,
    space: &Space,
    saved: Option<&Automation>,
    definition: &Definition,
    earlier: Option<&Run>,
) -> template::Run {
    let now = app.parts.clock.now();
    let creator = saved.filter(|_| asked.definition.is_none()).map(|saved| &saved.creator).or(by.owner.as_ref());
    let version = saved.map_or(0, |saved| saved.version).saturating_add(u32::from(asked.definition.is_some()));
    template::Run {
        id: RunId::new(now, [0; 10]).to_string(),
        started_at: now,
        automation_id: saved.map_or_else(|| AutomationId::new(now, [0; 10]), |saved| saved.id.clone()).to_string(),
        automation_name: definition.name.clone(),
        automation_version: u64::from(version),
        trigger_type: TriggerType::Manual.to_string(),
        trigger_id: None,
        space_id: Some(space.id.to_string()),
        creator_id: creator.map_or_else(|| by.id.to_string(), |user| format!("user:{user}")),
        attempt: 1,
        failure: earlier.and_then(|run| run.failure.as_ref()).map(template::Failure::from),
    }
}

/// The inputs that were given, those of the earlier run, or the defaults. Those that nobody asked for and that do not fit are not known.
fn inputs_of(asked: &Asked<'_>, definition: &Definition, defaults: Defaults<'_>, earlier: Option<&Run>) -> Result<Option<Value>, Error> {
    let given = asked.inputs.clone().or_else(|| earlier.and_then(|run| run.inputs.clone()));
    match inputs::resolve(definition, None, &given.unwrap_or_else(|| json!({})), defaults) {
        Ok(inputs) => Ok(Some(inputs)),
        Err(mistakes) if asked.inputs.is_some() || asked.run.is_some() => Err(runs::Error::InputsInvalid { mistakes }.into()),
        Err(_) => Ok(None),
    }
}
