//! Automations: saved definitions, their versions and their triggers. A person saves; whoever else proposes a definition makes a draft of it.

mod dry_run;
mod facts;
mod regexes;
pub(crate) mod rights;

pub use dry_run::{Asked, DryRun, dry_run};
pub use facts::{Checked, check};

use super::{Error, spaces};
use crate::App;
use automation::Mistake;
use automation::definition::{self, Change, Definition, Facts, Kind, Read, Signature};
use automation::schedule::Schedule;
use countersign_core::automation::{Automation, AutomationStatus, AutomationVersion, Draft, Firing, FiringReason, Trigger, TriggerType};
use countersign_core::json::canonical_digits;
use countersign_core::ports::automations::SkippedTicks;
use countersign_core::ports::secrets::SecretName;
use countersign_core::ports::{Automations, Secrets};
use countersign_core::run::{Phase, Run, RunStatus};
use countersign_core::{AutomationId, Digest, Principal, Secret, Space, Timestamp};
use notify::webhook;
use rights::Right;
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::limits::{AUTOMATIONS_MAX, DRAFTS_MAX};
use store::{AutomationFilter, FiringFilter, FromNow, Page, PageRequest, RunFilter, SaveAutomation, Saved, SavedTrigger, TriggerChange};

/// The space of an automation whose author names none.
const DEFAULT_SPACE: &str = "main";

/// What became of a definition that somebody wants to have in force.
pub enum Applied {
    Saved {
        automation: Automation,
        /// The tokens of new webhooks, by the id of their trigger. These are the only copies.
        tokens: Vec<(String, Secret<String>)>,
        is_new_version: bool,
    },
    /// Whoever asked is no person.
    Draft(Draft, Vec<Mistake>),
}

/// A definition that somebody wants to have in force.
pub struct Proposed<'a> {
    /// Absent: a new automation.
    pub automation: Option<&'a Automation>,
    pub definition: &'a Value,
    /// The secrets that sign its webhooks, by the id of their trigger.
    pub signing_secrets: &'a BTreeMap<String, String>,
    /// The definition that the author has seen must still be the saved one.
    pub expected: Option<Digest>,
}

pub async fn list(
    app: &App,
    by: &Principal,
    status: Option<AutomationStatus>,
    named: Option<(&str, &str)>,
    request: &PageRequest,
) -> Result<Page<Automation>, Error> {
    super::must_read(by)?;
    if let Some((space, name)) = named {
        let space = spaces::find(app, by, space).await?;
        let found = app.store().find_automation_by_name(&by.org, &space.id, name).await?;
        let fits = |found: &Automation| status.is_none_or(|status| found.status == status);
        return Ok(Page { items: found.into_iter().filter(fits).collect(), next: None });
    }
    let filter = AutomationFilter { status, hidden: super::sight::hidden(app, by).await? };
    Ok(app.store().list_automations(&by.org, &filter, request).await?)
}

/// An automation that exists for the principal, with its space. Whether they may do something with it is another question.
pub async fn visible(app: &App, by: &Principal, text: &str) -> Result<(Automation, Space), Error> {
    let unknown = || Error::not_found("automation", text);
    let id = AutomationId::parse(text).map_err(|_| unknown())?;
    let found = app.store().find_automation(&by.org, &id).await?.ok_or_else(unknown)?;
    let space = rights::visible(app, by, &found.space, unknown).await?;
    Ok((found, space))
}

pub async fn find(app: &App, by: &Principal, text: &str) -> Result<Automation, Error> {
    let (found, space) = visible(app, by, text).await?;
    rights::must_have(app, by, Right::Read, &space).await?;
    Ok(found)
}

/// One that the principal may run.
pub(crate) async fn runnable(app: &App, by: &Principal, text: &str) -> Result<Automation, Error> {
    let (found, space) = visible(app, by, text).await?;
    rights::must_have(app, by, Right::Run, &space).await?;
    Ok(found)
}

/// The space that a new automation is for.
pub async fn space_for(app: &App, by: &Principal, named: Option<&str>) -> Result<Space, Error> {
    let space = spaces::find(app, by, named.unwrap_or(DEFAULT_SPACE)).await?;
    rights::must_have(app, by, Right::Write, &space).await?;
    Ok(space)
}

/// Refuses another space than that of the automation.
pub fn must_stay(space: &Space, named: Option<&str>) -> Result<(), Error> {
    let is_another = named.is_some_and(|named| named != space.name && named != space.id.as_str());
    if is_another { Err(Error::invalid(format!("the automation is in space `{}`, and stays there", space.name))) } else { Ok(()) }
}

/// The normalised definition of the version with this digest. It is stored in its canonical form, in the order of the alphabet; whoever reads it
/// wants the order of the schema, which `Definition` has.
pub async fn definition(app: &App, automation: &Automation, digest: Digest) -> Result<Arc<Value>, Error> {
    let found = app.store().find_automation_definition(&automation.org, digest).await?;
    let found = found.ok_or_else(|| Error::not_found("definition", &digest.to_string()))?;
    // What an older server saved may lack a member that is written in today. Then it is shown as it is.
    let ordered = Definition::deserialize(&*found).and_then(serde_json::to_value).ok().filter(|ordered| *ordered == *found);
    Ok(ordered.map_or(found, Arc::new))
}

/// The definition of one of its versions; of the current one if none is named.
pub async fn export(app: &App, by: &Principal, text: &str, version: Option<u32>) -> Result<(Arc<Value>, Digest), Error> {
    let found = find(app, by, text).await?;
    let digest = match version.filter(|version| *version != found.version) {
        None => found.definition,
        Some(version) => {
            // A page begins below its cursor.
            let request = PageRequest { limit: 1, after: Some(version.saturating_add(1).to_string()) };
            let page = app.store().list_automation_versions(&by.org, &found.id, &request).await?;
            let found = page.items.into_iter().find(|one| one.version == version);
            found.ok_or_else(|| Error::not_found("version", &version.to_string()))?.definition
        }
    };
    Ok((definition(app, &found, digest).await?, digest))
}

pub async fn versions(app: &App, by: &Principal, text: &str, request: &PageRequest) -> Result<Page<AutomationVersion>, Error> {
    let found = find(app, by, text).await?;
    Ok(app.store().list_automation_versions(&by.org, &found.id, request).await?)
}

/// The triggers of an automation, each with the name of the secret that signs it, if one does.
pub async fn triggers(app: &App, automation: &Automation) -> Result<Vec<(Trigger, Option<String>)>, Error> {
    let signed = app.store().list_signed_hooks(&automation.id).await?;
    let signer = |id: &str| signed.iter().find(|(trigger, _)| trigger.id == id).map(|(_, secret)| secret.clone());
    let triggers = app.store().list_triggers(&automation.org, &automation.id).await?;
    let with_signer = |trigger: Trigger| {
        let signer = signer(&trigger.id);
        (trigger, signer)
    };
    Ok(triggers.into_iter().map(with_signer).collect())
}

/// When its schedules fire, in words, by the id of their trigger.
pub async fn schedules(app: &App, automation: &Automation) -> Result<BTreeMap<String, String>, Error> {
    let program = app.engine().program(&automation.org, automation.definition).await?;
    let ids = program.definition.triggers.iter().map(|trigger| trigger.trigger_id.clone());
    Ok(ids.filter_map(|id| Some((id.clone(), program.schedule(&id)?.describe()))).collect())
}

/// The run that was asked for last, of all or of those with this status.
pub async fn last_run(app: &App, automation: &Automation, status: Option<RunStatus>) -> Result<Option<Run>, Error> {
    let filter = RunFilter { automation: Some(automation.id.clone()), status, ..RunFilter::default() };
    let page = app.store().list_runs(&automation.org, &filter, &PageRequest { limit: 1, after: None }).await?;
    Ok(page.items.into_iter().next())
}

pub async fn firings(app: &App, by: &Principal, text: &str, filter: &FiringFilter, request: &PageRequest) -> Result<Page<Firing>, Error> {
    let found = find(app, by, text).await?;
    Ok(app.store().list_firings(&by.org, &found.id, filter, request).await?)
}

/// Saves a definition for a person, and makes a draft of it for anybody else.
pub async fn apply(app: &App, by: &Principal, space: &Space, proposed: Proposed<'_>) -> Result<(Applied, Vec<Mistake>), Error> {
    rights::must_have(app, by, Right::Write, space).await?;
    if let Some(archived) = proposed.automation.filter(|automation| automation.status == AutomationStatus::Archived) {
        return Err(runs::Error::Archived { automation: archived.id.clone() }.into());
    }
    let id = proposed.automation.map(|automation| &automation.id);
    let Checked { read, facts, named } = check(app, by, space, id, proposed.definition).await?;
    let Some(person) = rights::person(by) else {
        let flags = flags(&read.definition, &facts);
        // Whoever may not list automations does not know which one has the name.
        let before = match proposed.automation {
            Some(before) => Some(before.clone()),
            None => app.store().find_automation_by_name(&by.org, &space.id, &read.definition.name).await?,
        };
        if let Some(changed) = before.as_ref().filter(|before| proposed.expected.is_some_and(|seen| seen != before.definition)) {
            return Err(Error::AutomationChanged { automation: changed.id.clone(), digest: changed.definition });
        }
        let draft = keep_draft(app, by, space, before.as_ref(), read.normalised).await?;
        return Ok((Applied::Draft(draft, flags), read.warnings));
    };
    if let Some(before) = proposed.automation.filter(|before| before.definition != read.hash) {
        rights::must_take_over(app, by, space, &before.id, &named).await?;
    }
    let save = SaveAutomation {
        automation: id.cloned(),
        space: space.id.clone(),
        name: read.definition.name.clone(),
        definition: canonical_digits(&read.normalised).map_err(|error| Error::invalid(error.to_string()))?,
        triggers: triggers_of(app, &read, space, &proposed).await?,
        // What was compared above is what is replaced.
        expected: proposed.expected.or(proposed.automation.map(|before| before.definition)),
    };
    let name = save.name.clone();
    let saved = match app.store().save_automation(&by.org, save, person).await? {
        Saved::Done { automation, tokens, is_new_version } => Applied::Saved { automation, tokens, is_new_version },
        Saved::NameTaken(_) => return Err(Error::NameTaken { what: "automation", name }),
        Saved::Changed(automation) => return Err(Error::AutomationChanged { automation: automation.id, digest: automation.definition }),
        Saved::Unknown => return Err(Error::not_found("automation", id.map_or("", AutomationId::as_str))),
        Saved::TooMany => return Err(Error::TooManyAutomations { automations_max: AUTOMATIONS_MAX }),
    };
    app.engine().automations_changed();
    Ok((saved, read.warnings))
}

/// Keeps a definition until a person saves it: as a new version of this automation, or else as a new one.
pub(super) async fn keep_draft(
    app: &App,
    by: &Principal,
    space: &Space,
    automation: Option<&Automation>,
    definition: Value,
) -> Result<Draft, Error> {
    let kept = app.store().add_draft(&by.org, &space.id, automation, definition, &by.id).await?;
    kept.ok_or(Error::TooManyDrafts { drafts_max: DRAFTS_MAX })
}

/// What a person reads before they save what somebody else wrote: what is worth checking, and each template. The same definition and the same
/// facts have the same flags, so that one that was read stays read.
pub fn flags(definition: &Definition, facts: &Facts) -> Vec<Mistake> {
    let mut flags = definition::review(definition, facts);
    flags.extend(definition::templates(definition));
    flags
}

/// What is stored of the triggers of a definition.
async fn triggers_of(app: &App, read: &Read, space: &Space, proposed: &Proposed<'_>) -> Result<Vec<SavedTrigger>, Error> {
    let before = match proposed.automation {
        Some(automation) => app.store().list_signed_hooks(&automation.id).await?,
        None => Vec::new(),
    };
    let now = app.parts.clock.now();
    let (mut triggers, mut mistakes) = (Vec::new(), Vec::new());
    for (index, trigger) in read.definition.triggers.iter().enumerate() {
        let id = trigger.trigger_id.clone();
        let (kind, next_due_at, is_signed) = match &trigger.kind {
            Kind::Schedule(schedule) => (TriggerType::Schedule, next_due(&schedule.config(), now), false),
            Kind::Webhook(webhook) => (TriggerType::Webhook, None, webhook.signature == Signature::StandardWebhooks),
            Kind::Event(_) => (TriggerType::Event, None, false),
        };
        let earlier = || before.iter().find(|(trigger, _)| trigger.id == id).map(|(_, secret)| secret.clone());
        let signed_by = proposed.signing_secrets.get(&id).cloned().or_else(earlier).filter(|_| is_signed);
        if let Some(secret) = &signed_by {
            must_sign(app, space, secret).await?;
        } else if is_signed {
            let mistake = Mistake::new("signing_secret_missing", format!("no secret is named that signs the webhook `{id}`"));
            let hint = format!("name one in `signing_secrets`, as `{{\"{id}\": \"NAME\"}}`");
            mistakes.push(mistake.hint(hint).under(&format!("/triggers/{index}/config/signature")));
        }
        triggers.push(SavedTrigger { id, kind, next_due_at, signed_by });
    }
    if mistakes.is_empty() { Ok(triggers) } else { Err(Error::Definition { mistakes }) }
}

/// Checks that there is this secret, and that it can sign.
async fn must_sign(app: &App, space: &Space, name: &str) -> Result<(), Error> {
    let unknown = || Error::not_found("secret", name);
    let secret = SecretName::parse(name).ok_or_else(unknown)?;
    let value = app.store().resolve_secret(&space.org, &secret).await?.ok_or_else(unknown)?;
    webhook::keys(value.expose()).map(|_| ()).map_err(Error::invalid)
}

/// When a schedule is due next.
fn next_due(config: &Value, now: Timestamp) -> Option<Timestamp> {
    Some(Schedule::parse(config).ok()?.next_after(now)?.scheduled_for)
}

/// A step as it would be called now.
pub struct PlannedStep<'a> {
    pub phase: Phase,
    pub step: &'a definition::Step,
}

/// The steps of a definition, in the order in which a run that fails performs them.
pub fn steps(read: &Read) -> impl Iterator<Item = PlannedStep<'_>> {
    let plan = read.definition.plan.iter().map(|step| PlannedStep { phase: Phase::Plan, step });
    plan.chain(read.definition.execution.on_failure.iter().map(|step| PlannedStep { phase: Phase::OnFailure, step }))
}

/// How a definition differs from the saved one.
pub async fn diff(app: &App, by: &Principal, text: &str, written: &Value) -> Result<(Automation, Vec<Change>), Error> {
    let (found, space) = visible(app, by, text).await?;
    rights::must_have(app, by, Right::Read, &space).await?;
    let Checked { read, .. } = check(app, by, &space, Some(&found.id), written).await?;
    let saved = definition(app, &found, found.definition).await?;
    let changes = definition::diff(&saved, &read.normalised);
    Ok((found, changes))
}

/// Says whether an automation fires. One that is active again starts from now; one that is archived stays so.
pub async fn set_status(app: &App, by: &Principal, text: &str, status: AutomationStatus) -> Result<Automation, Error> {
    let (found, space) = visible(app, by, text).await?;
    let person = rights::must_save(app, by, &space).await?;
    let schedules = match status {
        AutomationStatus::Active => {
            // A trigger that is disabled still does not fire: what it leaves out is told once it is enabled.
            let enabled = from_now(app, &found, FiringReason::Paused).await?.into_iter().filter(|(trigger, _)| trigger.is_enabled);
            enabled.map(|(trigger, from_now)| (trigger.id, from_now)).collect()
        }
        AutomationStatus::Paused | AutomationStatus::Archived => Vec::new(),
    };
    let changed = app.store().set_automation_status(&by.org, &found.id, status, schedules, person).await?;
    app.engine().automations_changed();
    match changed.ok_or_else(|| Error::not_found("automation", text))? {
        changed if changed.status == status => Ok(changed),
        archived => Err(runs::Error::Archived { automation: archived.id }.into()),
    }
}

/// How the schedules of an automation go on that a person had stopped, with what each left out meanwhile.
async fn from_now(app: &App, automation: &Automation, reason: FiringReason) -> Result<Vec<(Trigger, FromNow)>, Error> {
    let program = app.engine().program(&automation.org, automation.definition).await?;
    let now = app.parts.clock.now();
    let goes_on = |trigger: Trigger| {
        let schedule = program.schedule(&trigger.id)?;
        let left_out = schedule.between(trigger.high_water.unwrap_or(trigger.enabled_at), now);
        let left_out = left_out.map(|(count, first_at, last_at)| SkippedTicks { reason, count, first_at, last_at });
        Some((trigger, FromNow { next_due_at: schedule.next_after(now).map(|tick| tick.scheduled_for), left_out }))
    };
    Ok(app.store().list_triggers(&automation.org, &automation.id).await?.into_iter().filter_map(goes_on).collect())
}

/// What a person does to a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// A schedule starts from now.
    Enable,
    /// A schedule goes on from where it was disabled.
    CatchUp,
    Disable,
}

pub async fn switch_trigger(app: &App, by: &Principal, text: &str, trigger: &str, switch: Switch) -> Result<Automation, Error> {
    let (found, space) = visible(app, by, text).await?;
    let person = rights::must_save(app, by, &space).await?;
    let schedule = match switch {
        Switch::Disable => None,
        Switch::Enable | Switch::CatchUp => {
            from_now(app, &found, FiringReason::Disabled).await?.into_iter().find(|(one, _)| one.id == trigger)
        }
    };
    // One that was enabled already has left out nothing.
    let goes_on = |(one, now): (Trigger, FromNow)| FromNow { left_out: now.left_out.filter(|_| !one.is_enabled), ..now };
    let change = match switch {
        Switch::Disable => TriggerChange::Disable,
        Switch::Enable => TriggerChange::Enable(schedule.map(goes_on).unwrap_or_default()),
        Switch::CatchUp if schedule.is_none() => {
            return Err(Error::invalid(format!("`{trigger}` is no schedule, so there is nothing to catch up")));
        }
        Switch::CatchUp => TriggerChange::CatchUp,
    };
    let changed = app.store().change_trigger(&by.org, &found.id, trigger, change, person).await?;
    app.engine().automations_changed();
    changed.map(|_| found).ok_or_else(|| Error::not_found("trigger", trigger))
}

/// Gives a webhook a new token. This is its only copy.
pub async fn rotate_token(app: &App, by: &Principal, text: &str, trigger: &str, keep_old: bool) -> Result<Secret<String>, Error> {
    let (found, space) = visible(app, by, text).await?;
    let person = rights::must_save(app, by, &space).await?;
    let token = app.store().rotate_hook_token(&by.org, &found.id, trigger, keep_old, person).await?;
    token.ok_or_else(|| Error::not_found("webhook", trigger))
}

/// Where webhooks of an automation are sent to.
pub fn fire_url(app: &App, automation: &AutomationId) -> String {
    format!("{}/api/v1/automations/{automation}/fire", app.parts.address.address())
}
