//! What a definition is checked against: the actions of its space, each with the mode that a call of the automation has now.

use super::super::Error;
use super::regexes;
use crate::App;
use api::event_types::event_types;
use automation::Mistake;
use automation::definition::{self, ActionFacts, Facts, Read};
use countersign_core::automation::{Automation, AutomationStatus};
use countersign_core::ports::Automations;
use countersign_core::session::Attendance;
use countersign_core::{Action, AutomationId, Mode, Principal, Session, SessionId, Space};
use durable::heavy;
use pipeline::Standing;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{AutomationFilter, PageRequest};

/// How many automations of the org are asked which actions they use.
const ASKED_MAX: u32 = 100;

/// A definition that was read, with the facts about what it names.
pub struct Checked {
    pub read: Read,
    pub facts: Facts,
    /// The actions of its steps, by id.
    pub named: BTreeMap<String, (Arc<Action>, Standing)>,
}

/// Reads a definition for a space. All its mistakes come at once.
pub async fn check(app: &App, by: &Principal, space: &Space, automation: Option<&AutomationId>, written: &Value) -> Result<Checked, Error> {
    let session = imagined(app, by, space, automation);
    let actions: BTreeMap<_, _> =
        app.pipeline().catalogue().all_actions(&session).await.into_iter().map(|action| (action.id.to_string(), action)).collect();
    let facts = Facts {
        actions: actions.iter().map(|(id, action)| (id.clone(), ActionFacts::new(action, Mode::Allow))).collect(),
        event_types: event_types().into_iter().map(|known| known.name).collect(),
        automation_id: automation.map(ToString::to_string),
        queues: app.engine().queues().map(str::to_owned).collect(),
        ..Facts::default()
    };
    // The first look replaces aliases, so that the modes of what the steps really call are looked up, and no others.
    let written = Arc::new(written.clone());
    let (first, mut facts) = read(&written, facts).await;
    let steps = actions_of(first.as_ref().map_or(&*written, |read| &read.normalised));
    let mut named = BTreeMap::new();
    for id in steps {
        let Some(action) = actions.get(&id) else { continue };
        let standing = app.pipeline().standing(&space.org, Some((&session, space)), action).await?;
        if let Some(known) = facts.actions.get_mut(&id) {
            known.mode = standing.decision.mode;
        }
        named.insert(id, (Arc::clone(action), standing));
    }
    let (read, mut facts) = read(&written, facts).await;
    let read = read.map_err(|mistakes| Error::Definition { mistakes })?;
    regexes::must_be_few(app, space, automation, &read).await?;
    facts.used_actions = used_actions(app, space).await?;
    Ok(Checked { read, facts, named })
}

/// Reads it where nobody else waits for a thread: schemas and regexes are compiled, and each template is parsed.
async fn read(written: &Arc<Value>, facts: Facts) -> (Result<Read, Vec<Mistake>>, Facts) {
    let written = Arc::clone(written);
    heavy::compute(move || (definition::read(&written, &facts), facts)).await
}

/// The session in which a run would call its steps. There is none yet, and nothing is called in this one.
pub(super) fn imagined(app: &App, by: &Principal, space: &Space, automation: Option<&AutomationId>) -> Session {
    let now = app.parts.clock.now();
    Session {
        id: SessionId::new(now, [0; 10]),
        org: space.org.clone(),
        space: space.id.clone(),
        created_by: by.id.clone(),
        owner: by.owner.clone(),
        title: String::new(),
        attendance: Attendance::Unattended,
        automation: automation.cloned(),
        asked_by: None,
        sources: None,
        created_at: now,
        ended_at: None,
    }
}

/// What the steps of a definition call, as it is written.
fn actions_of(definition: &Value) -> BTreeSet<String> {
    let lists = ["/plan", "/execution/on_failure"].into_iter().filter_map(|list| definition.pointer(list)?.as_array());
    lists.flatten().filter_map(|step| Some(step.get("action")?.as_str()?.to_owned())).collect()
}

/// The actions that automations of this space use.
async fn used_actions(app: &App, space: &Space) -> Result<BTreeSet<String>, Error> {
    let request = PageRequest { limit: ASKED_MAX, after: None };
    let page = app.store().list_automations(&space.org, &AutomationFilter::default(), &request).await?;
    let mut used = BTreeSet::new();
    let is_here = |automation: &&Automation| automation.space == space.id && automation.status != AutomationStatus::Archived;
    for automation in page.items.iter().filter(is_here) {
        let definition = app.store().find_automation_definition(&space.org, automation.definition).await?;
        used.extend(definition.iter().flat_map(|definition| actions_of(definition)));
    }
    Ok(used)
}
